//! `packet:` ports with several queues: the kernel assigns each flow to one of them, in order.

use crate::lab;
use crate::rig::{PATIENCE, ip};
use io::clock;
use io::devices::Devices;
use io::netlink::Netlink;
use io::netns::LabHost;
use packet::port::Port;
use packet::{Batch, Pool, Region};
use plane::Opener;
use std::collections::HashMap;
use std::net::UdpSocket;

const FLOWS: usize = 64;
const ROUNDS: u32 = 50;
const QUEUES: usize = 3;

fn open(devices: &mut Devices, device: &str) -> Vec<Box<dyn Port>> {
    let text = format!("version = 1\n[port.lan]\ndevice = '{device}'\naddress = ['192.0.2.1/24']\n");
    let plan = plan::check(&text, "t", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let ports = devices.open(&plan.ports[0], &Region::with_super_frames(1, 1), QUEUES);
    ports.unwrap_or_else(|error| panic!("{error}"))
}

/// Sends the numbers of every flow to the broadcast address, and checks the packets that each port receives.
fn spread(sender: &LabHost, link: &str, ports: &mut [Box<dyn Port>]) {
    let sockets = sender.run(|| Vec::from_iter((0..FLOWS).map(|_| UdpSocket::bind("10.0.0.1:0").unwrap()))).unwrap();
    for number in 0..ROUNDS {
        for socket in &sockets {
            socket.set_broadcast(true).unwrap();
            socket.send_to(&number.to_be_bytes(), "10.0.0.255:9").unwrap();
        }
    }
    let mut pool = Pool::new(Region::new(1024));
    let (mut batch, deadline) = (Batch::new(), clock::now() + PATIENCE);
    // By source port of the flow: its queue, and the next number.
    let mut flows: HashMap<[u8; 2], (usize, u32)> = HashMap::new();
    let mut came = 0;
    while came < FLOWS as u32 * ROUNDS {
        assert!(clock::now() < deadline, "{link}: {came} datagrams came");
        for (queue, port) in ports.iter_mut().enumerate() {
            port.receive(clock::now(), &mut batch, &mut pool);
            for packet in batch.drain() {
                // UDP over IPv4 without options, to port 9: all other packets are the kernel's own.
                let bytes = packet.bytes();
                if bytes.len() >= 46 && bytes[12..14] == [8, 0] && bytes[23] == 17 && bytes[36..38] == [0, 9] {
                    let flow = flows.entry([bytes[34], bytes[35]]).or_insert((queue, 0));
                    let number = u32::from_be_bytes(*bytes[42..].first_chunk().unwrap());
                    assert_eq!((queue, number), *flow, "{link}: one queue, in order, once");
                    flow.1 += 1;
                    came += 1;
                }
                pool.give(packet);
            }
        }
    }
    let used = |queue: usize| flows.values().any(|&(by, _)| by == queue);
    assert!(flows.len() == FLOWS && (0..QUEUES).all(used), "{link}: {flows:?}");
    assert_eq!(ports.iter().map(|port| port.statistics().lost_before_receive).sum::<u64>(), 0);
}

fn send(port: &mut dyn Port, pool: &mut Pool, bytes: &[u8]) {
    let (mut batch, mut packet) = (Batch::new(), pool.take().unwrap());
    assert!(packet.fill(bytes));
    batch.push(packet);
    port.transmit(clock::now(), &mut batch, pool);
}

#[test]
fn each_flow_arrives_in_order_on_one_queue() {
    let Some(lab) = lab() else { return };
    let (router, sender) = (lab.host("router").unwrap(), lab.host("sender").unwrap());
    router.silence_kernel().unwrap();
    let mut devices = Devices::new(clock::epoch()).in_namespace(router.namespace().clone());
    lab.cable(&sender.plug("eth0"), &router.plug("eth0")).unwrap();
    sender.add_address("eth0", ip("10.0.0.1"), 24).unwrap();
    let mut ports = open(&mut devices, "packet:eth0");
    assert_eq!((ports.len(), devices.advisories().take()), (QUEUES, vec![]));
    spread(&sender, "eth0", &mut ports);
    // A transmitted frame is received by none of them.
    let mut pool = Pool::new(Region::new(16));
    let listener = sender.run(|| UdpSocket::bind("10.0.0.1:4000").unwrap()).unwrap();
    listener.set_read_timeout(Some(PATIENCE.into())).unwrap();
    let mac = sender.run(|| Netlink::open().unwrap().link("eth0").unwrap().mac).unwrap();
    for (queue, port) in ports.iter_mut().enumerate() {
        send(&mut **port, &mut pool, &datagram(mac.0, queue as u8));
        let mut came = [0; 8];
        assert_eq!((listener.recv(&mut came).unwrap(), came[0]), (1, queue as u8));
    }
    for port in &mut ports {
        let mut batch = Batch::new();
        port.receive(clock::now(), &mut batch, &mut pool);
        let ours = batch.as_slice().iter().filter(|packet| packet.bytes()[6..12] == [2, 0, 0, 0, 0, 9]).count();
        assert_eq!(ours, 0, "nothing comes back");
        batch.drain().for_each(|packet| pool.give(packet));
    }
    // A recreated interface has the same number of queues.
    router.run(|| Netlink::open().unwrap().delete_link("eth0").unwrap()).unwrap();
    lab.cable(&sender.plug("eth0"), &router.plug("eth0")).unwrap();
    sender.add_address("eth0", ip("10.0.0.1"), 24).unwrap();
    let deadline = clock::now() + PATIENCE;
    while !ports.iter().all(|port| port.is_up()) {
        assert!(clock::now() < deadline, "the interface is back");
        for port in &mut ports {
            let mut batch = Batch::new();
            port.receive(clock::now(), &mut batch, &mut pool);
            batch.drain().for_each(|packet| pool.give(packet));
        }
    }
    spread(&sender, "eth0", &mut ports);
    drop(ports);
    devices.finish();
}

/// To 10.0.0.1:4000, with one payload byte and no UDP checksum.
fn datagram(to: [u8; 6], byte: u8) -> Vec<u8> {
    let spec = packet::wire::Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: [10, 0, 0, 9].into(),
        destination: [10, 0, 0, 1].into(),
    };
    let mut frame = [&to[..], &[2, 0, 0, 0, 0, 9], &[8, 0], &[0; 20]].concat();
    spec.write(&mut frame[14..], 9).unwrap();
    frame.extend([0x10, 0, 0x0f, 0xa0, 0, 9, 0, 0, byte]);
    frame
}
