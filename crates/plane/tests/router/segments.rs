//! VXLAN segments: frames between three routers and a station, head-end replication, learned and configured stations.

use crate::tunnel_rig::{arrive, config, drops, frame, lan_mac, packet, received, send, wan_mac};
use packet::DropReason;
use packet::wire::transport::verify_checksum;
use packet::wire::{Ethernet, Ipv4, Ipv6, VXLAN_PORT, protocol, vxlan_header, vxlan_vni};
use plane::rig::Rig;
use plane::snapshot::Layout;
use units::{Mac, Nanos};

/// A router with the segment `seg`, whose other ends have these last bytes.
fn segment(own: u8, ends: &[u8], is_ipv4: bool, keys: &str) -> String {
    let end = |last: u8| if is_ipv4 { format!("198.51.100.{last}") } else { format!("2001:db8:ffff::{last}") };
    let remotes: Vec<String> = ends.iter().map(|&last| format!("{:?}", end(last))).collect();
    let neighbours: String = ends
        .iter()
        .skip(1)
        .map(|&last| {
            format!("[[neighbour]]\naddress = \"{}\"\nmac = \"02:00:00:00:00:{last:02x}\"\nport = \"wan\"\n", end(last))
        })
        .collect();
    let (local, remotes) = (end(own), remotes.join(", "));
    let more = format!(
        r#"
[port.seg]
device = "vxlan:42"
mac = "02:00:00:00:42:{own:02x}"
address = ["10.42.0.{own}/24", "2001:db8:42::{own}/64"]
[port.seg.tunnel]
local = "{local}"
remotes = [{remotes}]
{keys}
{neighbours}"#
    );
    let routes: String =
        ends.iter().map(|last| format!("[[route]]\nto = \"10.{last}.0.0/16\"\nvia = \"10.42.0.{last}\"\n")).collect();
    config((own, own), ends[0], &(more + &routes))
}

fn segment_mac(own: u8) -> Mac {
    Mac([2, 0, 0, 0, 0x42, own])
}

/// Carries all frames between the WANs of the routers, by their destination address, until none is left. Returns their number.
fn exchange(rigs: &mut [Rig]) -> usize {
    let mut carried = 0;
    loop {
        let frames: Vec<Vec<u8>> = rigs.iter_mut().flat_map(|rig| rig.received("wan")).collect();
        if frames.is_empty() {
            return carried;
        }
        carried += frames.len();
        for frame in &frames {
            let own = usize::from(frame[5]);
            if let Some(rig) = own.checked_sub(1).and_then(|index| rigs.get_mut(index)) {
                rig.send("wan", frame);
                rig.settle();
            }
        }
    }
}

#[test]
fn routers_on_a_segment_resolve_each_other_and_carry_packets() {
    for is_ipv4 in [true, false] {
        let all = [1u8, 2, 3];
        let mut rigs = all.map(|own| {
            let ends: Vec<u8> = all.into_iter().filter(|&end| end != own).collect();
            Rig::running(4096, Layout::Three, &segment(own, &ends, is_ipv4, ""))
        });
        exchange(&mut rigs);
        for (from, to) in [(1, 2), (2, 3), (3, 1), (1, 3)] {
            let there = packet(&format!("10.{from}.0.7"), &format!("10.{to}.0.7"), 0, true, 1430);
            send(&mut rigs[from - 1], from as u8, &there);
            exchange(&mut rigs);
            let arrived = received(&mut rigs[to - 1], "lan");
            assert_eq!(arrived.len(), 1, "{is_ipv4}: {from} to {to}: {:?}", rigs.each_ref().map(drops));
            assert_eq!(arrived[0][20..], there[20..]);
        }
        // The station of router 2 is known to router 1: one outer packet.
        send(&mut rigs[0], 1, &packet("10.1.0.7", "10.2.0.7", 0, true, 100));
        let outer = rigs[0].received("wan");
        assert_eq!(outer.len(), 1);
        let link = Ethernet::parse(&outer[0]).unwrap();
        let l3 = &outer[0][link.payload..];
        let message = if is_ipv4 { Ipv4::parse(l3).unwrap().payload } else { Ipv6::parse(l3).unwrap().payload };
        assert_eq!(message[2..4], VXLAN_PORT.to_be_bytes());
        assert!(u16::from_be_bytes([message[0], message[1]]) >= 49_152);
        assert_eq!(usize::from(u16::from_be_bytes([message[4], message[5]])), message.len());
        assert_eq!(message[6..8] == [0, 0], is_ipv4, "a checksum over IPv6 only");
        assert!(is_ipv4 || verify_checksum(l3) == Ok(Some(true)));
        assert_eq!(vxlan_vni(&message[8..]), Some(42));
        assert_eq!(message[16..28], [segment_mac(2).0, segment_mac(1).0].concat());
    }
}

#[test]
fn frames_to_unknown_stations_go_to_all_ends_and_to_known_ones_alone() {
    let outer = |rig: &mut Rig| -> Vec<u8> {
        let mut ends: Vec<u8> = rig.received("wan").iter().map(|frame| frame[5]).collect();
        ends.sort_unstable();
        ends
    };
    for (keys, learns) in [("", true), ("learn = false", false)] {
        let mut rig = Rig::running(4096, Layout::Three, &segment(1, &[2, 3, 4], true, keys));
        rig.received("wan");
        // An ARP request is a broadcast.
        send(&mut rig, 1, &packet("10.1.0.7", "10.2.0.7", 0, true, 100));
        assert_eq!(outer(&mut rig), [2, 3, 4]);
        // The reply comes from end 3, so the station is there.
        let mac = segment_mac(2);
        let mut reply = [&segment_mac(1).0[..], &mac.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
        reply.extend(mac.0);
        reply.extend([10, 42, 0, 2]);
        reply.extend(segment_mac(1).0);
        reply.extend([10, 42, 0, 1]);
        arrive(&mut rig, 1, &vxlan(3, 42, &reply));
        let expected: &[u8] = if learns { &[3] } else { &[2, 3, 4] };
        assert_eq!(outer(&mut rig), expected, "the packet that waited, {keys}");
        rig.advance(Nanos::secs(1));
        outer(&mut rig);
        send(&mut rig, 1, &packet("10.1.0.7", "10.2.0.7", 0, true, 100));
        assert_eq!(outer(&mut rig), expected);
    }
    let keys = format!("stations = [\"{} 198.51.100.4\"]\nlearn = false", segment_mac(2));
    let text = segment(1, &[2, 3, 4], true, &keys);
    let neighbour = format!("[[neighbour]]\naddress = \"10.42.0.2\"\nmac = \"{}\"\nport = \"seg\"\n", segment_mac(2));
    let mut rig = Rig::running(4096, Layout::Three, &(text + &neighbour));
    rig.received("wan");
    send(&mut rig, 1, &packet("10.1.0.7", "10.2.0.7", 0, true, 100));
    assert_eq!(outer(&mut rig), [4], "configured");
}

/// A VXLAN packet from the end with this last byte to end 1.
fn vxlan(from: u8, vni: u32, frame: &[u8]) -> Vec<u8> {
    let mut message = [49_999u16.to_be_bytes(), VXLAN_PORT.to_be_bytes()].concat();
    message.extend(((16 + frame.len()) as u16).to_be_bytes());
    message.extend([0, 0]);
    message.extend(vxlan_header(vni));
    message.extend_from_slice(frame);
    let mut bytes = packet(&format!("198.51.100.{from}"), "198.51.100.1", 0, true, 20 + message.len());
    bytes[9] = protocol::UDP;
    bytes[10..12].fill(0);
    let sum = packet::wire::checksum::checksum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[20..].copy_from_slice(&message);
    bytes
}

#[test]
fn refused_packets_of_a_segment_are_counted_by_reason() {
    let inner = frame(segment_mac(1), &packet("10.2.0.7", "10.1.0.7", 0, true, 60));
    let foreign = frame(segment_mac(9), &packet("10.2.0.7", "10.1.0.7", 0, true, 60));
    let mut without_flag = vxlan(2, 42, &inner);
    without_flag[28] = 0;
    let cases = [
        ("valid", vxlan(2, 42, &inner), None),
        ("another identifier", vxlan(2, 43, &inner), Some(DropReason::TunnelKey)),
        ("no flag", without_flag, Some(DropReason::TunnelHeader)),
        ("no frame", vxlan(2, 42, &[]), Some(DropReason::FrameTooShort)),
        ("for another station", vxlan(2, 42, &foreign), Some(DropReason::OtherStation)),
        ("from nobody's end", vxlan(9, 42, &inner), Some(DropReason::LocalPort)),
        ("truncated packet", vxlan(2, 42, &inner[..40]), Some(DropReason::TotalLength)),
    ];
    for (name, bytes, reason) in cases {
        let mut rig = Rig::running(4096, Layout::Three, &segment(1, &[2, 3], true, ""));
        rig.advance(Nanos::secs(5));
        rig.received("wan");
        rig.received("lan");
        arrive(&mut rig, 1, &bytes);
        assert_eq!(received(&mut rig, "lan").len(), usize::from(reason.is_none()), "{name}: {:?}", drops(&rig));
        let expected: Vec<(DropReason, u64)> = reason.map(|reason| (reason, 1)).into_iter().collect();
        assert_eq!(drops(&rig), expected, "{name}");
    }
    assert_ne!(lan_mac(1), wan_mac(1));
}
