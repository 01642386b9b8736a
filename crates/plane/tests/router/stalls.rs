//! Stalls are counted with their duration (spec P-66): a full queue to another worker, a medium without room, and a pool without frames.

use packet::wire::{Ipv4Spec, ethernet, ethertype};
use packet::{DropReason, StallCounters};
use plane::rig::WorkerGroup;
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::{Mac, Nanos};

/// More packets than a queue to another worker holds, for each of two workers.
const PACKETS: u16 = 3000;
/// Packets on a wire.
const WIRE: usize = 4096;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:00"
address = ["192.0.0.1/24"]
[port.wan]
device = "memory:wan"
address = ["192.0.1.1/24"]
scheme = "fifo(limit=8000)"
[[neighbour]]
address = "192.0.1.9"
mac = "02:bb:00:00:00:09"
port = "wan"
[[route]]
to = "10.0.0.0/16"
via = "192.0.1.9"
"#;

/// A packet of this flow to the gateway.
fn frame(flow: u16) -> Vec<u8> {
    let mut frame = vec![0; 64];
    let (to, from) = (Mac([2, 0, 0, 0, 0, 0]), Mac([2, 0, 0, 0, 0, 0xaa]));
    ethernet::write_header(&mut frame[..14], to, from, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 0, 200),
        destination: Ipv4Addr::new(10, 0, 0, 1),
    };
    spec.write(&mut frame[14..], 30).unwrap();
    frame[34..36].copy_from_slice(&flow.to_be_bytes());
    frame
}

/// Two workers on one queue of each port. Worker 0 owns that of `lan`, worker 1 that of `wan`.
fn group(wire: usize) -> WorkerGroup {
    let mut team = WorkerGroup::new(2, 1, 32768, Layout::Three);
    team.wires.length = wire;
    team.apply(CONFIG);
    team.settle();
    team
}

fn stalls(team: &WorkerGroup, worker: usize) -> StallCounters {
    team.reports()[worker].stalls
}

/// Steps of one worker until it has nothing to do.
fn run(team: &mut WorkerGroup, worker: usize) {
    while team.step(worker) == plane::StepResult::Ran {}
}

#[test]
fn full_queue_to_a_paused_worker_is_one_stall_until_it_reads() {
    let mut team = group(WIRE);
    (0..PACKETS).for_each(|flow| team.send("lan", &frame(flow)));
    assert_eq!(stalls(&team, 0), StallCounters::default());
    // Worker 1 is paused: its half of the flows does not fit.
    run(&mut team, 0);
    let began = stalls(&team, 0);
    assert_eq!(began.handoff_stalls, 1, "{began:?}");
    assert!(team.reports()[0].ledger.dropped_for(DropReason::HandOverFull) > 0);
    team.now += Nanos::millis(7);
    run(&mut team, 0);
    let lasting = stalls(&team, 0);
    assert_eq!(lasting.handoff_stalls, 1, "still the same");
    assert!(lasting.handoff_stalled - began.handoff_stalled >= 7_000_000, "{began:?} {lasting:?}");
    team.settle();
    let ended = stalls(&team, 0);
    team.advance(Nanos::millis(100));
    assert_eq!(stalls(&team, 0), ended, "it has ended");
    assert!(ended.handoff_stalled - lasting.handoff_stalled < 1_000_000, "{lasting:?} {ended:?}");
    assert_eq!((ended.pool_stalls, stalls(&team, 1).handoff_stalls), (0, 0));
}

#[test]
fn host_that_does_not_receive_stalls_the_link_until_it_does() {
    let mut team = group(64);
    (0..64).for_each(|flow| team.send("lan", &frame(flow)));
    team.settle();
    (64..128).for_each(|flow| team.send("lan", &frame(flow)));
    team.settle();
    let began = stalls(&team, 1);
    assert_eq!(began.link_stalls, 1, "{began:?}");
    team.advance(Nanos::millis(5));
    let lasting = stalls(&team, 1);
    assert_eq!(lasting.link_stalls, 1, "still the same");
    assert!((4_000_000..6_000_000).contains(&(lasting.link_stalled - began.link_stalled)), "{began:?} {lasting:?}");
    let received = team.received("wan").len();
    team.advance(Nanos::millis(5));
    assert_eq!(received + team.received("wan").len(), 128);
    let ended = stalls(&team, 1);
    team.advance(Nanos::millis(50));
    assert_eq!(stalls(&team, 1), ended, "it has ended");
    assert!(ended.link_stalled - lasting.link_stalled < 2_000_000, "{lasting:?} {ended:?}");
}
