//! Packets that a tunnel refuses, each with its reason, loops of tunnels, and tunnels that are removed with packets in them.

use crate::tunnel_rig::{arrive, config, dropped, drops, ends, frame, lan_mac, packet, received, send, tunnel};
use packet::DropReason;
use packet::wire::{Gre, Icmp4, Ipv4, protocol};
use plan::batch::batch;
use plane::rig::Rig;
use plane::snapshot::Layout;
use units::Nanos;

/// An IPv4 packet of this protocol from the other end.
fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = packet("198.51.100.2", "198.51.100.1", 0, true, 20 + payload.len());
    bytes[9] = protocol;
    bytes[10..12].fill(0);
    let sum = packet::wire::checksum::checksum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[20..].copy_from_slice(payload);
    bytes
}

fn gre(ethertype: u16, key: Option<u32>, payload: &[u8]) -> Vec<u8> {
    let header = Gre { ethertype, key, sequence: None };
    let mut bytes = vec![0; header.length()];
    header.write(&mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    outer(protocol::GRE, &bytes)
}

#[test]
fn refused_outer_packets_are_counted_by_reason() {
    let inner = packet("10.2.0.7", "10.1.0.7", 0, true, 60);
    let inner6 = packet("2001:db8:2::7", "2001:db8:1::7", 0, true, 60);
    let raw = |first: [u8; 4]| outer(protocol::GRE, &[&first[..], &[0, 0, 0, 7], &inner].concat());
    let with_key = |ethertype, payload: &[u8]| gre(ethertype, Some(7), payload);
    let mut wrong_sum = vec![0xa0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    wrong_sum.extend_from_slice(&inner);
    let mut right_sum = wrong_sum.clone();
    let sum = packet::wire::checksum::checksum(&right_sum);
    right_sum[4..6].copy_from_slice(&sum.to_be_bytes());
    wrong_sum[4..6].copy_from_slice(&(sum ^ 1).to_be_bytes());
    let cases = [
        ("valid", with_key(0x0800, &inner), None),
        ("valid IPv6", with_key(0x86dd, &inner6), None),
        ("valid checksum", outer(protocol::GRE, &right_sum), None),
        ("wrong checksum", outer(protocol::GRE, &wrong_sum), Some(DropReason::TunnelHeader)),
        ("no key", gre(0x0800, None, &inner), Some(DropReason::TunnelKey)),
        ("another key", gre(0x0800, Some(8), &inner), Some(DropReason::TunnelKey)),
        ("version 1", raw([0x20, 1, 8, 0]), Some(DropReason::TunnelHeader)),
        ("routing flag", raw([0x60, 0, 8, 0]), Some(DropReason::TunnelHeader)),
        ("empty", outer(protocol::GRE, &[]), Some(DropReason::TunnelHeader)),
        ("truncated key", outer(protocol::GRE, &[0x20, 0, 8, 0, 0]), Some(DropReason::TunnelHeader)),
        ("Ethernet", with_key(0x6558, &inner), Some(DropReason::TunnelProtocol)),
        ("MPLS", with_key(0x8847, &inner), Some(DropReason::TunnelProtocol)),
        ("nothing within", with_key(0x0800, &[]), Some(DropReason::HeaderTruncated)),
        ("truncated IPv4", with_key(0x0800, &inner[..19]), Some(DropReason::HeaderTruncated)),
        ("shorter than its length", with_key(0x0800, &inner[..30]), Some(DropReason::TotalLength)),
        ("truncated IPv6", with_key(0x86dd, &inner6[..39]), Some(DropReason::HeaderTruncated)),
        ("IPv6 as IPv4", with_key(0x0800, &inner6), Some(DropReason::WrongVersion)),
        ("IPv4 as IPv6", with_key(0x86dd, &inner), Some(DropReason::WrongVersion)),
        ("own source", with_key(0x0800, &packet("10.1.0.1", "10.1.0.7", 0, true, 60)), Some(DropReason::MartianSource)),
        ("another protocol", outer(protocol::IPIP, &inner), Some(DropReason::LocalProtocol)),
    ];
    for (name, bytes, reason) in cases {
        let mut rig = Rig::running(4096, Layout::Three, &config((1, 1), 2, &tunnel("gre", true, (1, 2), 2, "key = 7")));
        arrive(&mut rig, 1, &bytes);
        assert_eq!(received(&mut rig, "lan").len(), usize::from(reason.is_none()), "{name}: {:?}", drops(&rig));
        let expected: Vec<(DropReason, u64)> = reason.map(|reason| (reason, 1)).into_iter().collect();
        assert_eq!(drops(&rig), expected, "{name}");
        let report = rig.report();
        assert_eq!((report.held_packets, report.ledger.outstanding()), (0, 0), "{name}");
    }
}

/// Packets from an address that is the other end of no tunnel get what they got before.
#[test]
fn packets_of_strangers_are_answered_as_without_a_tunnel() {
    let mut rig = Rig::running(4096, Layout::Three, &config((1, 1), 2, &tunnel("gre", true, (1, 3), 2, "")));
    arrive(&mut rig, 1, &gre(0x0800, None, &packet("10.2.0.7", "10.1.0.7", 0, true, 60)));
    assert_eq!(drops(&rig), [(DropReason::LocalProtocol, 1)]);
    let error = received(&mut rig, "wan").remove(0);
    let ip = Ipv4::parse(&error).unwrap();
    assert!(matches!(Icmp4::parse(ip.payload), Ok(Icmp4::Unreachable { code: 2, .. })));
}

/// The check refuses a tunnel whose other end is behind itself. A route that is added later can lead there all the same.
#[test]
fn tunnel_that_leads_into_itself_drops_its_packets() {
    let text = config((1, 1), 2, &tunnel("gre", true, (1, 2), 2, "").replace("gre:198.51.100.2", "gre:203.0.113.9"));
    let mut rig =
        Rig::running(4096, Layout::Three, &(text + "[[route]]\nto = \"203.0.113.0/24\"\nvia = \"198.51.100.2\"\n"));
    let there = packet("10.1.0.7", "10.2.0.7", 0, true, 100);
    send(&mut rig, 1, &there);
    assert_eq!(received(&mut rig, "wan").len(), 1);
    let plan = rig.router.plan().unwrap().clone();
    let changes =
        batch("add 203.0.113.9/32 via 10.255.0.2", "changes", &plan).unwrap_or_else(|wrong| panic!("{wrong}"));
    let edits = rig.router.prepare_edits(&changes.lines, 10).unwrap();
    let _ = rig.router.apply_edits(edits, |_| {});
    rig.settle();
    for _ in 0..50 {
        rig.send("lan", &frame(lan_mac(1), &there));
    }
    rig.settle();
    assert_eq!(received(&mut rig, "wan").len(), 0);
    assert_eq!(dropped(&rig, DropReason::TunnelLoop), 50, "{:?}", drops(&rig));
    assert_eq!(rig.report().held_packets, 0);
}

#[test]
fn tunnel_without_a_route_to_its_other_end_drops_its_packets() {
    let text = config((1, 1), 2, &tunnel("gre", true, (1, 2), 2, "").replace("gre:198.51.100.2", "gre:203.0.113.9"));
    let mut rig = Rig::running(4096, Layout::Three, &text);
    send(&mut rig, 1, &packet("10.1.0.7", "10.2.0.7", 0, true, 100));
    assert_eq!((received(&mut rig, "wan").len(), received(&mut rig, "lan").len()), (0, 0));
    assert!(dropped(&rig, DropReason::NoRoute) >= 1, "{:?}", drops(&rig));
}

#[test]
fn unresolved_next_hop_of_the_outer_packet_holds_the_packet_until_it_answers() {
    let more = tunnel("gre", true, (1, 2), 2, "").replace("gre:198.51.100.2", "gre:198.51.100.3");
    let mut rig = Rig::running(4096, Layout::Three, &config((1, 1), 2, &more));
    // The router's own announcements have begun a resolution: it fails first.
    rig.advance(Nanos::secs(20));
    rig.received("wan");
    send(&mut rig, 1, &packet("10.1.0.7", "10.2.0.7", 0, true, 100));
    let request = rig.received("wan");
    assert_eq!(request.last().map(|frame| &frame[12..14]), Some(&[8, 6][..]), "an ARP request");
    let sender = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let mut reply = [&[2, 0, 0, 0, 0, 1][..], &[2, 0, 0, 0, 0, 3], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
    reply.extend([2, 0, 0, 0, 0, 3, 198, 51, 100, 3, 2, 0, 0, 0, 0, 1, 198, 51, 100, 1]);
    assert_eq!(request.last().unwrap()[..6], sender);
    rig.send("wan", &reply);
    rig.settle();
    let outer = received(&mut rig, "wan");
    assert!(outer.iter().any(|packet| packet[9] == protocol::GRE && packet.len() == 124), "{:?}", drops(&rig));
}

/// Configurations that change or remove the tunnel while packets are in it lose none of them uncounted.
#[test]
fn reload_with_packets_in_the_tunnel_counts_each() {
    let with = |keys: &str| config((1, 1), 2, &tunnel("gre", true, (1, 2), 2, keys));
    let (there, back) = (packet("10.1.0.7", "10.2.0.7", 0, true, 100), packet("10.2.0.7", "10.1.0.7", 0, true, 100));
    let mut rig = Rig::running(4096, Layout::Three, &with("key = 7"));
    for (round, text) in
        [with("key = 8"), config((1, 1), 2, ""), with("key = 7"), with("key = 7\nttl = 9")].iter().enumerate()
    {
        for _ in 0..200 {
            rig.send("lan", &frame(lan_mac(1), &there));
            rig.send("wan", &frame(crate::tunnel_rig::wan_mac(1), &gre(0x0800, Some(7), &back)));
        }
        for _ in 0..round * 3 {
            rig.step(&mut cpu::meter::ConstantMeter(Nanos::new(10)));
        }
        rig.apply(text).unwrap();
        rig.settle();
        rig.advance(Nanos::secs(3));
        let report = rig.report();
        assert_eq!((report.held_packets, report.ledger.outstanding()), (0, 0), "round {round}");
        rig.received("wan");
        rig.received("lan");
        assert_eq!(rig.pool.frames_in_use(), 0);
    }
    rig.worker.shut_down(rig.now);
    assert_eq!(rig.worker.report().ledger.outstanding(), 0);
}

/// ICMP errors about outer packets are counted at the tunnel's port as lost.
#[test]
fn icmp_errors_about_outer_packets_count_as_losses_of_the_tunnel() {
    let [mut rig, _] = ends("gre", true, "key = 7");
    send(&mut rig, 1, &packet("10.1.0.7", "10.2.0.7", 0, true, 100));
    let quoted = received(&mut rig, "wan").pop().unwrap();
    let mut message = vec![3, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&quoted[..28]);
    let sum = packet::wire::checksum::checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut error = outer(protocol::ICMP, &message);
    error[15] = 77;
    error[10..12].fill(0);
    let sum = packet::wire::checksum::checksum(&error[..20]);
    error[10..12].copy_from_slice(&sum.to_be_bytes());
    arrive(&mut rig, 1, &error);
    let report = rig.report();
    let lost: Vec<u64> = report.ports.iter().map(|port| port.counters.lost_after_transmit).collect();
    assert_eq!(lost.iter().sum::<u64>(), 1, "{lost:?}");
}
