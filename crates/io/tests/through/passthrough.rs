//! A pass-through router between two kernels: connections, tags, link protocols and long frames pass as on a cable.

use crate::lab;
use crate::rig::{Cable, Line, PATIENCE, Running, ip};
use crate::transfers::transfer;
use io::clock;
use io::netlink::Netlink;
use io::netns::LabHost;
use io::packet_ring::{PacketOptions, PacketPort};
use packet::port::Port;
use packet::{Batch, Pool, Region};

/// The configuration of a router with two pass-through ports.
fn cable(line: &Line) -> String {
    let port = |side: usize| {
        let (_, near, _) = line.side(side);
        format!("[port.{near}]\ndevice = '{}'\n", line.cables[side].device(near))
    };
    format!("version = 1\n{}{}[[passthrough]]\nports = ['left', 'right']\n", port(0), port(1))
}

/// Sends `frames` on one host's link and returns those of their kinds that arrive on the other's, in order.
fn across(from: &LabHost, to: &LabHost, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let open = |host: &LabHost| host.run(|| PacketPort::open("eth0", &PacketOptions::default()).unwrap().0).unwrap();
    let (mut near, mut far) = (open(from), open(to));
    let (mut pool, mut batch) = (Pool::new(Region::with_super_frames(1024, 16)), Batch::new());
    let mut came = Vec::new();
    for frame in frames {
        let mut packet = pool.take_for(frame.len()).unwrap();
        assert!(packet.fill(frame));
        batch.push(packet);
        near.transmit(clock::now(), &mut batch, &mut pool);
        let begun = clock::now();
        let before = came.len();
        while came.len() == before && clock::now().since(begun) < PATIENCE {
            far.receive(clock::now(), &mut batch, &mut pool);
            for packet in batch.drain() {
                // The kernels at both ends also send packets of their own.
                if packet.bytes()[6..12] == frame[6..12] {
                    came.push(packet.bytes().to_vec());
                }
                pool.give(packet);
            }
        }
    }
    came
}

/// Frames of link protocols (spanning tree, LLDP, LACP, ARP, neighbour discovery, MACsec), with tags and PPPoE, of unknown protocols, short and long.
fn frames(longest: usize) -> Vec<Vec<u8>> {
    let source = [2, 0, 0, 0, 0, 0x5e];
    let of = |station: [u8; 6], rest: &[u8], length: usize| {
        let header = [&station[..], &source, rest].concat();
        header.into_iter().chain((0..).map(|i: usize| (i * 7) as u8)).take(length).collect::<Vec<u8>>()
    };
    vec![
        of([1, 0x80, 0xc2, 0, 0, 0], &[0, 38, 0x42, 0x42, 3], 60),
        of([1, 0x80, 0xc2, 0, 0, 0xe], &[0x88, 0xcc], 120),
        of([1, 0x80, 0xc2, 0, 0, 2], &[0x88, 9], 124),
        of([0xff; 6], &[8, 6, 0, 1], 60),
        of([2, 0, 0, 0, 9, 9], &[0x81, 0, 0x60, 7, 0x86, 0xdd], 300),
        of([2, 0, 0, 0, 9, 9], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 9, 0x88, 0xb5], 1000),
        of([1, 0, 0x5e, 1, 2, 3], &[0x88, 0xb5], longest),
        of([0x33, 0x33, 0xff, 0, 0, 2], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255], 86),
        of([2, 0, 0, 0, 9, 9], &[0x81, 0, 0xe0, 0, 8, 0, 0x45], 64),
        of(
            [2, 0, 0, 0, 9, 9],
            &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 9, 0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0x21, 0x45],
            longest,
        ),
        of([2, 0, 0, 0, 9, 9], &[0x91, 0, 0, 5, 0x81, 0, 0, 9, 0x86, 0xdd, 0x60], 600),
        of([0xff; 6], &[0x88, 0x63, 0x11, 9, 0, 0, 0, 4], 60),
        of([2, 0, 0, 0, 9, 9], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0x57, 0x60], 200),
        of([2, 0, 0, 0, 9, 9], &[0x88, 0xe5, 0x2c], 300),
        of([2, 0, 0, 0, 9, 9], &[0xfa, 0xce], 1000),
        of([2, 0, 0, 0, 9, 9], &[0xfa, 0xce], 14),
    ]
}

fn through(cables: [Cable; 2], mtu: u32) {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab, cables);
    for (host, link) in
        [(&line.client, "eth0"), (&line.server, "eth0"), (&line.router, "left"), (&line.router, "right")]
    {
        host.run(|| Netlink::open().unwrap().set_mtu(link, mtu).unwrap()).unwrap();
    }
    let running = Running::start(&line.router, &cable(&line));
    let warnings = running.advisories.take();
    if warnings.iter().any(|warning| warning.contains("instead of AF_XDP")) {
        return println!("skipped: {warnings:?}");
    }
    let sent = frames(mtu as usize + 14);
    for (from, to) in [(&line.client, &line.server), (&line.server, &line.client)] {
        assert!(across(from, to, &sent) == sent, "{cables:?}");
    }
    // One link from end to end: the hosts resolve each other by ARP and neighbour discovery.
    for (host, own) in [(&line.client, 4), (&line.server, 5)] {
        host.add_address("eth0", ip(&format!("10.0.9.{own}")), 24).unwrap();
        host.add_address("eth0", ip(&format!("fd00:9::{own}")), 64).unwrap();
    }
    transfer(&line.client, &line.server, "10.0.9.5", 1);
    transfer(&line.server, &line.client, "fd00:9::4", 2);
    let report = running.stop();
    let drops: Vec<_> = report.ports.iter().flat_map(|port| port.drops.iter()).collect();
    println!("{cables:?}: {} packets, dropped {drops:?}", report.ledger.received());
    assert_eq!(report.ledger.generated(), 0, "it says nothing of its own");
}

#[test]
fn bump_in_wire_transparent() {
    through([Cable::Packet, Cable::Packet], 1500);
    through([Cable::Packet, Cable::Packet], 8000);
    through([Cable::Plain, Cable::Plain], 1500);
}

#[test]
fn bump_in_wire_of_xdp_ports_is_transparent() {
    through([Cable::Xdp, Cable::Xdp], 1500);
}
