//! The router classifies each frame by its bytes and interface alone: metadata of the frame's previous use has no effect.

use packet::port::Port;
use packet::wire::{Ipv4Spec, checksum::checksum, ethernet, ethertype};
use packet::{Batch, DropReason};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::{Ipv4Addr, Ipv6Addr};
use units::Mac;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24", "2001:db8:2::1/64"]
[port.trunk]
device = "memory:trunk"
mac = "02:00:00:00:00:03"
[port.trunk.vlan.20]
address = ["203.0.113.1/24"]
[port.six]
device = "memory:six"
mac = "02:00:00:00:00:04"
address = ["2001:db8:1::1/64"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24", "2001:db8:3::1/64"]
[[neighbour]]
address = "2001:db8:3::9"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "192.0.2.7"
mac = "02:00:00:00:00:aa"
port = "lan"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
[[route]]
to = "2001:db8:9::/48"
via = "2001:db8:3::9"
"#;

const HOST: Mac = Mac([2, 0, 0, 0, 0, 0xaa]);

fn udp(to: Mac, destination: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20 + 26];
    ethernet::write_header(&mut frame[..14], to, HOST, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 1,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 2, 7),
        destination,
    };
    spec.write(&mut frame[14..], 26).unwrap();
    frame
}

/// The same packet with IP options: only no-operations.
fn with_option(frame: &[u8]) -> Vec<u8> {
    let mut longer = frame.to_vec();
    longer.splice(34..34, [1; 4]);
    longer[14] = 0x46;
    longer[16..18].copy_from_slice(&50u16.to_be_bytes());
    longer[24..26].fill(0);
    let sum = checksum(&longer[14..38]);
    longer[24..26].copy_from_slice(&sum.to_be_bytes());
    longer
}

/// An IPv6 packet without payload, to a host behind `wan`.
fn six(to: Mac) -> Vec<u8> {
    let mut frame = vec![0; 14];
    ethernet::write_header(&mut frame, to, HOST, None, ethertype::IPV6).unwrap();
    frame.extend([0x60, 0, 0, 0, 0, 0, 59, 64]);
    for address in ["2001:db8:8::7", "2001:db8:9::7"] {
        frame.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    }
    frame
}

#[test]
fn untagged_frame_without_interface_is_dropped() {
    let inside = Ipv4Addr::new(10, 1, 2, 3);
    let cases = [
        ("trunk", Mac([2, 0, 0, 0, 0, 3]), DropReason::FamilyDisabled),
        ("six", Mac([2, 0, 0, 0, 0, 4]), DropReason::FamilyDisabled),
    ];
    for (port, mac, reason) in cases {
        let mut rig = Rig::running(4096, Layout::Three, CONFIG);
        for _ in 0..3 {
            rig.send(port, &udp(mac, inside));
        }
        rig.settle();
        let drops: Vec<_> = rig.report().ledger.drops().collect();
        assert_eq!((rig.received("wan").len(), drops), (0, vec![(reason, 3)]), "{port}");
    }
}

/// The host at `from` overwrites its one received frame with `frame` and sends it on `to`. The wire passes the frame with
/// the metadata that the router left in it. Returns the EtherType of the received frame.
fn send_again(rig: &mut Rig, from: &str, to: &str, frame: &[u8]) -> [u8; 2] {
    let mut batch = Batch::new();
    let Rig { wires, pool, now, .. } = rig;
    wires.far.get_mut(from).unwrap().receive(*now, &mut batch, pool);
    let [packet] = batch.as_mut_slice() else { panic!("{} frames", batch.len()) };
    let kind = [packet.bytes()[12], packet.bytes()[13]];
    assert!(packet.fill(frame));
    wires.far.get_mut(to).unwrap().transmit(*now, &mut batch, pool);
    kind
}

#[test]
fn reused_frame_carries_no_stale_metadata() {
    let lan = Mac([2, 0, 0, 0, 0, 1]);
    let plain = udp(lan, Ipv4Addr::new(10, 1, 2, 3));
    let odd = with_option(&plain);
    let six = six(lan);
    for layout in [Layout::One, Layout::Two, Layout::Three] {
        let mut rig = Rig::running(4096, layout, CONFIG);
        rig.send("lan", &odd);
        rig.settle();
        let mut last = &odd;
        // Each kind follows each other kind, more often than a packet may be classified again.
        for (round, frame) in [&odd, &plain, &six, &plain, &six, &odd, &six].into_iter().cycle().take(21).enumerate() {
            // The frame that the router forwarded in the previous round.
            let came = send_again(&mut rig, "wan", "lan", frame);
            assert_eq!(came, last[12..14], "{layout:?}: what frame {round} carried");
            last = frame;
            let general = counted(&rig, "general");
            rig.settle();
            let drops: Vec<_> = rig.report().ledger.drops().collect();
            assert_eq!((rig.wires.far["wan"].waiting(), drops), (1, vec![]), "{layout:?}: round {round}");
            assert_eq!(counted(&rig, "general") - general, u64::from(frame == &odd), "{layout:?}: round {round}");
        }
    }
}

/// Packets that took the path `name`.
fn counted(rig: &Rig, name: &str) -> u64 {
    let path = rig.router.snapshot().paths.iter().find(|path| &*path.name == name).unwrap().id;
    rig.report().paths.iter().find(|report| report.path == path).unwrap().counters.entered
}
