//! A keyed hash selects queues, members of next-hop groups and workers. The key is secret, and flows that collide under one key do not
//! collide under another.

use packet::port::{MemoryPort, MemoryWire, Port};
use packet::wire::{Ipv4Spec, ethernet, ethertype, flow_hash};
use packet::{Batch, Pool, Queue, Region};
use plane::rig::{StandaloneLink, flow_key};
use std::net::Ipv4Addr;
use units::{Instant, Mac, Nanos};

/// Flow queues of each scheme.
const FLOWS: u64 = 256;
/// Schemes with flow queues.
const SCHEMES: &[&str] = &[
    "fq(flows=256){fifo}",
    "fq(flows=256){codel}",
    "sfq(flows=256){fifo}",
    "drr(flows=256){fifo}",
    "las(flows=256){fifo}",
    "wfq(flows=256){fifo}",
    "wf2q(flows=256){fifo}",
    "shape(rate=10gbit){fq(flows=256){fifo}}",
    "tree{branch{fq(flows=256){fifo}}}",
    "cake(rate=10gbit, tins=one, flows=256)",
];

/// A packet of a UDP flow.
fn frame(flow: u16) -> Vec<u8> {
    let mut frame = vec![0; 100];
    ethernet::write_header(&mut frame[..14], Mac([2; 6]), Mac([4; 6]), None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(10, 0, 0, 1),
    };
    spec.write(&mut frame[14..], 66).unwrap();
    frame[34..36].copy_from_slice(&flow.to_be_bytes());
    frame
}

/// The queue of a flow among [`FLOWS`].
fn queue(flow: u16, key: u64) -> u64 {
    (u64::from(flow_hash(&frame(flow), 14, key)) * FLOWS) >> 32
}

/// A hundred flows in the queue of flow 1, computed with the key.
fn colliding(key: u64) -> Vec<u16> {
    let victim = queue(1, key);
    (2..=u16::MAX).filter(|flow| queue(*flow, key) == victim).take(100).collect()
}

/// Sends one packet of each flow behind one of flow 1, through a router with this secret. Returns the ports of the packets
/// in the order sent, and the number of packets that joined the queue of another flow.
fn sent(scheme: &str, secret: u64, flows: &[u16]) -> (Vec<u16>, u64) {
    let region = Region::new(4096);
    let (near, mut far): (_, MemoryPort) = MemoryWire::pair(8);
    let mut link =
        StandaloneLink::new(Box::new(near), scheme, Pool::new(region.clone())).keyed(plane::rig::flow_key(secret));
    link.disable_bypass();
    let (mut pool, mut queue, mut now) = (Pool::new(region), Queue::new(4096), Instant::new(1));
    for flow in [1, 1, 1].iter().chain(flows) {
        let mut packet = pool.take().expect("there are more frames than packets");
        assert!(packet.fill(&frame(*flow)));
        (packet.meta_mut().timestamp, packet.meta_mut().l3) = (now, 14);
        assert!(queue.push(packet).is_none());
    }
    let (mut order, mut batch) = (Vec::new(), Batch::new());
    for _ in 0..2000 {
        link.offer_and_serve(now, &mut queue);
        far.receive(now, &mut batch, &mut pool);
        for packet in batch.drain() {
            order.push(u16::from_be_bytes([packet.bytes()[34], packet.bytes()[35]]));
            pool.give(packet);
        }
        now += Nanos::micros(10);
    }
    assert_eq!(link.waiting(), 0, "{scheme}");
    (order, link.report(now).groups.iter().map(|group| group.collided).sum())
}

#[test]
fn colliding_flows_have_distinct_queues_under_another_key() {
    let flows = colliding(flow_key(1));
    for scheme in SCHEMES {
        let known = sent(scheme, 1, &flows).1;
        let guessed = sent(scheme, 2, &flows).1;
        // A hundred flows in 256 queues collide by chance some twenty times.
        assert!(
            known >= 90 && guessed <= 40,
            "{scheme}: {known} share a queue where the key is known, {guessed} where not"
        );
    }
}

#[test]
fn colliding_flows_of_one_key_are_spread_by_other_keys() {
    let flows = colliding(flow_key(0));
    let shared =
        |secret| flows.iter().filter(|flow| queue(**flow, flow_key(secret)) == queue(1, flow_key(secret))).count();
    assert_eq!(shared(0), flows.len());
    // By chance one of 256.
    assert!((1..200).all(|secret| shared(secret) <= 6), "{:?}", (1..200).map(shared).max());
}

#[test]
fn run_is_reproducible_for_each_secret() {
    let flows: Vec<u16> = (100..400).collect();
    for scheme in ["sfq(flows=256){fifo}", "drr(flows=256){fifo}"] {
        let runs = [7, 7, 8].map(|secret| sent(scheme, secret, &flows));
        assert_eq!(runs[0], runs[1], "{scheme}");
        assert_ne!(runs[0], runs[2], "{scheme}");
    }
}

#[test]
fn queues_of_classes_and_single_queues_count_no_collisions() {
    for scheme in
        ["fifo", "choke(min=1000, max=2000)", "priority{fifo}", "drr(by=class, flows=3){fifo}", "wf2q(by=class){choke}"]
    {
        assert_eq!(sent(scheme, 1, &(2..100).collect::<Vec<u16>>()).1, 0, "{scheme}");
    }
}
