//! Tunnels: outer headers on the wire, packets through two routers and back, MTUs, ECN, and several workers.

use crate::tunnel_rig::{
    arrive, config, drops, ends, exchange, frame, lan_mac, packet, received, send, tunnel, wan_mac,
};
use packet::pool::Segmentation;
use packet::wire::transport::verify_checksum;
use packet::wire::{Gre, Icmp4, Icmp6, Ipv4, Ipv6, checksum::Sum, protocol};
use packet::{DropReason, Offload};
use plane::explain::{ExpectedFate, ExplainContext, ExplainStep, explain};
use plane::rig::{Rig, WorkerGroup};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::{Nanos, PortId};

/// Each kind of tunnel over each family: the kind, the family of the outer packets, keys, and bytes of the headers.
const KINDS: [(&str, bool, &str, usize); 6] = [
    ("gre", true, "", 24),
    ("gre", true, "key = 7\nsequence = true", 32),
    ("gre", false, "key = 4294967295", 48),
    ("gre", false, "", 44),
    ("ipip", true, "", 20),
    ("ipip", false, "", 40),
];

/// The families of the packets within: hosts of the left and of the right LAN.
const HOSTS: [(&str, &str); 2] = [("10.1.0.7", "10.2.0.7"), ("2001:db8:1::7", "2001:db8:2::7")];

/// The time to live or hop limit of a packet.
fn ttl(packet: &[u8]) -> u8 {
    packet[if packet[0] >> 4 == 4 { 8 } else { 7 }]
}

#[test]
fn outer_header_names_both_ends_and_has_its_own_ttl() {
    for (kind, is_ipv4, keys, overhead) in KINDS {
        let mut rig = Rig::running(4096, Layout::Three, &config((1, 1), 2, &tunnel(kind, is_ipv4, (1, 2), 2, keys)));
        for (from, to) in HOSTS {
            let inner = packet(from, to, 0, true, 100);
            send(&mut rig, 1, &inner);
            let [outer] = &received(&mut rig, "wan")[..] else { panic!("{kind} {is_ipv4} {from}") };
            assert_eq!((outer.len(), ttl(outer)), (100 + overhead, 64), "{kind} {is_ipv4} {from}");
            let (kind_of, payload) = if is_ipv4 {
                let ip = Ipv4::parse(outer).unwrap();
                assert!(ip.header.dont_fragment());
                assert_eq!(ip.header.source(), Ipv4Addr::new(198, 51, 100, 1));
                assert_eq!(ip.header.destination(), Ipv4Addr::new(198, 51, 100, 2));
                (ip.header.protocol(), ip.payload)
            } else {
                let ip = Ipv6::parse(outer).unwrap();
                assert_eq!(ip.header.source().to_string(), "2001:db8:ffff::1");
                assert_eq!(ip.header.destination().to_string(), "2001:db8:ffff::2");
                assert_ne!(ip.header.flow_label(), 0, "the flow of the packet within (RFC 6438)");
                (ip.header.next_header(), ip.payload)
            };
            let within = if kind == "gre" {
                let (gre, length) = Gre::parse(payload).unwrap();
                assert_eq!(gre.ethertype, if from.contains(':') { 0x86dd } else { 0x0800 });
                assert_eq!(gre.key.is_some(), keys.contains("key"));
                assert_eq!(kind_of, protocol::GRE);
                &payload[length..]
            } else {
                assert_eq!(kind_of, if from.contains(':') { protocol::IPV6 } else { protocol::IPIP });
                payload
            };
            assert_eq!(ttl(within), 8, "the router is one hop for the packet within");
            assert_eq!(within[20..], inner[20..], "{kind} {is_ipv4} {from}");
        }
    }
}

#[test]
fn packets_pass_two_routers_in_each_kind_of_tunnel_and_return() {
    for (kind, is_ipv4, keys, _) in KINDS {
        let mut rigs = ends(kind, is_ipv4, keys);
        for (from, to) in HOSTS {
            for length in [60, 61, 1000, 1400] {
                let there = packet(from, to, 0, false, length);
                send(&mut rigs[0], 1, &there);
                exchange(&mut rigs);
                let [arrived] = &received(&mut rigs[1], "lan")[..] else { panic!("{kind} {is_ipv4} {from} {length}") };
                assert_eq!((arrived.len(), ttl(arrived)), (length, 7), "two routers are two hops");
                assert_eq!(arrived[40..], there[40..]);
                let back = packet(to, from, 0, false, length);
                send(&mut rigs[1], 2, &back);
                exchange(&mut rigs);
                assert_eq!(received(&mut rigs[0], "lan").len(), 1, "{kind} {is_ipv4} {to} {length}");
            }
        }
        for rig in &rigs {
            assert_eq!(drops(rig), [], "{kind} {is_ipv4}");
        }
    }
}

/// Ports count packets at both sides of a tunnel: those of the LAN, of the tunnel, and outer packets.
#[test]
fn port_counters_count_packets_within_the_tunnel() {
    let mut rigs = ends("gre", true, "key = 7");
    for _ in 0..300 {
        let (from, to) = HOSTS[0];
        rigs[0].send("lan", &frame(lan_mac(1), &packet(from, to, 0, true, 100)));
    }
    rigs[0].settle();
    exchange(&mut rigs);
    assert_eq!(received(&mut rigs[1], "lan").len(), 300, "{:?}", rigs.each_ref().map(drops));
    for (rig, is_left) in rigs.iter().zip([true, false]) {
        let id = |name: &str| {
            let ports = &rig.router.snapshot().ports;
            PortId::at(ports.iter().position(|port| port.as_ref().is_some_and(|port| &*port.name == name)).unwrap())
        };
        let report = rig.report();
        let of = |name| report.ports.iter().find(|port| port.port == id(name)).unwrap();
        let tunnel = of("tun");
        let counted = if is_left { tunnel.link.sent } else { tunnel.counters.received };
        assert!((300..310).contains(&counted), "{counted}: besides, the router announces its IPv6 addresses");
        assert_eq!(report.held_packets, 0);
        assert_eq!(report.ledger.outstanding(), 0);
    }
}

#[test]
fn router_answers_pings_to_its_address_on_the_tunnel() {
    let mut rigs = ends("ipip", true, "");
    let mut ping = packet("10.1.0.7", "10.255.0.2", 0, true, 60);
    let message = 20;
    ping[message..message + 8].copy_from_slice(&[8, 0, 0, 0, 0, 1, 0, 1]);
    // The protocol changes: the header checksum does too.
    ping[9] = protocol::ICMP;
    ping[10..12].fill(0);
    let sum = packet::wire::checksum::checksum(&ping[..20]);
    ping[10..12].copy_from_slice(&sum.to_be_bytes());
    let sum = packet::wire::checksum::checksum(&ping[message..]);
    ping[message + 2..message + 4].copy_from_slice(&sum.to_be_bytes());
    send(&mut rigs[0], 1, &ping);
    exchange(&mut rigs);
    let [reply] = &received(&mut rigs[0], "lan")[..] else { panic!("no reply") };
    let ip = Ipv4::parse(reply).unwrap();
    assert_eq!(ip.header.source(), Ipv4Addr::new(10, 255, 0, 2));
    assert!(matches!(Icmp4::parse(ip.payload), Ok(Icmp4::EchoReply(_))));
}

#[test]
fn packets_above_the_mtu_of_the_tunnel_are_refused_with_it_or_fragmented() {
    let mut rigs = ends("gre", true, "");
    // IPv4 that must not be fragmented, and IPv6: the sender learns the MTU, 1500 without 24.
    send(&mut rigs[0], 1, &packet(HOSTS[0].0, HOSTS[0].1, 0, true, 1477));
    let [error] = &received(&mut rigs[0], "lan")[..] else { panic!("no error") };
    let ip = Ipv4::parse(error).unwrap();
    assert!(matches!(Icmp4::parse(ip.payload), Ok(Icmp4::Unreachable { code: 4, mtu: 1476, .. })), "{error:02x?}");
    send(&mut rigs[0], 1, &packet(HOSTS[1].0, HOSTS[1].1, 0, true, 1477));
    let [error] = &received(&mut rigs[0], "lan")[..] else { panic!("no error") };
    let ip = Ipv6::parse(error).unwrap();
    assert!(matches!(Icmp6::parse(ip.header, ip.payload), Ok(Icmp6::PacketTooBig { mtu: 1476, .. })), "{error:02x?}");
    // Exactly the MTU fits.
    send(&mut rigs[0], 1, &packet(HOSTS[1].0, HOSTS[1].1, 0, true, 1476));
    exchange(&mut rigs);
    assert_eq!(received(&mut rigs[1], "lan")[0].len(), 1476);
    // IPv4 without DF is fragmented within the tunnel: the fragments reach the host.
    send(&mut rigs[0], 1, &packet(HOSTS[0].0, HOSTS[0].1, 0, false, 1500));
    exchange(&mut rigs);
    let pieces = received(&mut rigs[1], "lan");
    assert_eq!(pieces.iter().map(|piece| Ipv4::parse(piece).unwrap().payload.len()).sum::<usize>(), 1480);
    assert!(pieces.len() == 2 && pieces.iter().all(|piece| piece.len() <= 1476));
    assert_eq!(drops(&rigs[0]), [(DropReason::TooBig, 2)]);
}

/// The first packet finds that the link of the outer packet is too short. The sender of the next one learns the MTU.
#[test]
fn tunnel_learns_the_mtu_of_its_own_link() {
    for (kind, is_ipv4, keys, overhead) in KINDS {
        let more = tunnel(kind, is_ipv4, (1, 2), 2, keys);
        let config = config((1, 1), 2, &more).replace("[port.wan]\n", "[port.wan]\nmtu = 1400\n");
        let mut rig = Rig::running(4096, Layout::Three, &config);
        let big = packet(HOSTS[0].0, HOSTS[0].1, 0, true, 1390);
        send(&mut rig, 1, &big);
        assert_eq!((received(&mut rig, "lan").len(), received(&mut rig, "wan").len()), (0, 0));
        send(&mut rig, 1, &big);
        let [error] = &received(&mut rig, "lan")[..] else { panic!("{kind} {is_ipv4}") };
        let expected = 1400 - overhead as u16;
        let ip = Ipv4::parse(error).unwrap();
        assert!(
            matches!(Icmp4::parse(ip.payload), Ok(Icmp4::Unreachable { code: 4, mtu, .. }) if mtu == expected),
            "{kind} {is_ipv4}: {error:02x?}"
        );
        // After ten minutes a larger MTU is tried.
        rig.advance(Nanos::secs(601));
        received(&mut rig, "lan");
        send(&mut rig, 1, &big);
        assert_eq!(received(&mut rig, "lan").len(), 0, "{kind}: it is tried again");
    }
}

#[test]
fn tunnel_learns_the_path_mtu_from_icmp_errors_about_its_outer_packets() {
    for (kind, is_ipv4, keys, overhead) in KINDS {
        let mut rig = Rig::running(4096, Layout::Three, &config((1, 1), 2, &tunnel(kind, is_ipv4, (1, 2), 2, keys)));
        let big = packet(HOSTS[0].0, HOSTS[0].1, 0, true, 1400);
        send(&mut rig, 1, &big);
        let outer = received(&mut rig, "wan").remove(0);
        let error = too_big(&outer, 1300);
        arrive(&mut rig, 1, &error);
        send(&mut rig, 1, &big);
        let [refused] = &received(&mut rig, "lan")[..] else { panic!("{kind} {is_ipv4}") };
        let (ip, expected) = (Ipv4::parse(refused).unwrap(), 1300 - overhead as u16);
        let told = Icmp4::parse(ip.payload);
        assert!(matches!(told, Ok(Icmp4::Unreachable { code: 4, mtu, .. }) if mtu == expected), "{kind}: {told:?}");
        // A report about a packet that no tunnel has sent changes nothing.
        let mut forged = outer.clone();
        let at = if is_ipv4 { 19 } else { 39 };
        forged[at] ^= 0x10;
        arrive(&mut rig, 1, &too_big(&forged, 1280));
        send(&mut rig, 1, &big);
        let refused = received(&mut rig, "lan").remove(0);
        let ip = Ipv4::parse(&refused).unwrap();
        assert!(matches!(Icmp4::parse(ip.payload), Ok(Icmp4::Unreachable { mtu, .. }) if mtu == expected));
    }
}

/// An ICMP error of a router on the way to the other end: the outer packet exceeds this MTU.
fn too_big(outer: &[u8], mtu: u16) -> Vec<u8> {
    let quoted = &outer[..outer.len().min(80)];
    if outer[0] >> 4 == 4 {
        let mut message = vec![3, 4, 0, 0, 0, 0];
        message.extend(mtu.to_be_bytes());
        message.extend_from_slice(quoted);
        let sum = packet::wire::checksum::checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut error = packet("198.51.100.77", "198.51.100.1", 0, true, 20 + message.len());
        error[9] = protocol::ICMP;
        error[10..12].fill(0);
        let sum = packet::wire::checksum::checksum(&error[..20]);
        error[10..12].copy_from_slice(&sum.to_be_bytes());
        error[20..].copy_from_slice(&message);
        return error;
    }
    let mut message = vec![2, 0, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend_from_slice(quoted);
    let mut error = packet("2001:db8:ffff::77", "2001:db8:ffff::1", 0, true, 40 + message.len());
    error[6] = protocol::ICMPV6;
    let header = Ipv6::parse(&error).unwrap();
    let (from, to) = (header.header.source(), header.header.destination());
    let sum = Sum::new().pseudo6(from, to, protocol::ICMPV6, message.len() as u32).bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    error[40..].copy_from_slice(&message);
    error
}

#[test]
fn code_point_is_inherited_or_fixed_and_ecn_crosses_the_tunnel() {
    // The keys of the tunnel, and the traffic class of the packet and of its outer header. A router then sets ECN bits in that header. The last column is
    // the traffic class of the packet that arrives: none if it is dropped.
    for (keys, class, outer_class, marked, arrived) in [
        ("", 0x00, 0x00, 0, Some(0x00)),
        ("", 0xb8, 0xb8, 0, Some(0xb8)),
        ("", 0xb9, 0xb9, 3, Some(0xbb)),
        ("", 0xba, 0xba, 1, Some(0xb9)),
        ("", 0xb8, 0xb8, 3, None),
        ("dscp = \"af21\"", 0x03, 0x4b, 3, Some(0x03)),
        ("dscp = \"0\"", 0xb8, 0x00, 0, Some(0xb8)),
    ] {
        for ((from, to), is_ipv4) in HOSTS.into_iter().flat_map(|hosts| [(hosts, true), (hosts, false)]) {
            let mut rigs = ends("gre", is_ipv4, keys);
            send(&mut rigs[0], 1, &packet(from, to, class, true, 100));
            let mut outer = received(&mut rigs[0], "wan").remove(0);
            let class_of = |packet: &[u8]| match packet[0] >> 4 {
                4 => packet[1],
                _ => packet[0] << 4 | packet[1] >> 4,
            };
            assert_eq!(class_of(&outer), outer_class, "{keys} {class:x}");
            if is_ipv4 {
                packet::wire::Ipv4Header::of_mut(&mut outer).unwrap().set_ecn(marked);
            } else {
                packet::wire::Ipv6Header::of_mut(&mut outer).unwrap().set_ecn(marked);
            }
            arrive(&mut rigs[1], 2, &outer);
            let lan = received(&mut rigs[1], "lan");
            assert_eq!(lan.first().map(|packet| class_of(packet)), arrived, "{keys} {class:x} marked {marked}");
            let expected: &[(DropReason, u64)] = if arrived.is_none() { &[(DropReason::TunnelEcn, 1)] } else { &[] };
            assert_eq!(drops(&rigs[1]), expected);
        }
    }
}

#[test]
fn fragmented_outer_packets_are_reassembled_before_they_leave_the_tunnel() {
    let mtu = "[port.wan]\nmtu = 700\n";
    let configs = [((1, 1), 2, (1, 2), 2), ((2, 2), 1, (2, 1), 1)].map(|(own, peer, ends, lan)| {
        let more = tunnel("gre", true, ends, lan, "key = 9\nfragment = true");
        let text =
            config(own, peer, &more).replace("\"2001:db8:ffff::1/64\"", "").replace("\"2001:db8:ffff::2/64\"", "");
        let text = text.replace("/24\", ]", "/24\"]").replace("[port.wan]\n", mtu);
        // Without the IPv6 neighbour of the WAN, whose MTU is below that of IPv6.
        let at = text.find("[[neighbour]]\naddress = \"2001:db8:ffff").unwrap();
        let end = at + text[at..].find("port = \"wan\"\n").unwrap() + "port = \"wan\"\n".len();
        format!("{}{}", &text[..at], &text[end..])
    });
    let mut rigs = configs.map(|config| Rig::running(4096, Layout::Three, &config));
    for (from, to) in HOSTS {
        let there = packet(from, to, 0, true, 1400);
        send(&mut rigs[0], 1, &there);
        let pieces = rigs[0].received("wan");
        assert!(pieces.len() == 3 && pieces.iter().all(|piece| piece.len() <= 714), "{}", pieces.len());
        for piece in pieces.iter().rev() {
            rigs[1].send("wan", piece);
        }
        rigs[1].settle();
        let arrived = received(&mut rigs[1], "lan");
        assert_eq!(arrived.len(), 1, "{from}: {:?}", drops(&rigs[1]));
        assert_eq!(arrived[0][40..], there[40..]);
    }
}

/// A TCP super-frame is segmented before it is encapsulated, and its checksums are completed.
#[test]
fn super_frames_are_segmented_before_encapsulation() {
    let mut rigs = ends("gre", true, "key = 7");
    let payload: Vec<u8> = (0..20_000u32).map(|i| (i ^ i >> 8) as u8).collect();
    let mut tcp = vec![0x04, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 9, 0x50, 0x18, 2, 0, 0, 0, 0, 0];
    let (from, to) = (Ipv4Addr::new(10, 1, 0, 7), Ipv4Addr::new(10, 2, 0, 7));
    let sum = Sum::new().pseudo4(from, to, protocol::TCP, (20 + payload.len()) as u16).folded();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    tcp.extend_from_slice(&payload);
    let mut ip = packet("10.1.0.7", "10.2.0.7", 0, true, 20 + tcp.len());
    ip[9] = protocol::TCP;
    ip[10..12].fill(0);
    let sum = packet::wire::checksum::checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip[20..].copy_from_slice(&tcp);
    let checksum = Some(packet::pool::PartialChecksum { start: 34, offset: 16 });
    let offload = Offload { segmentation: Segmentation::Tcp4, size: 1400, checksum };
    rigs[0].send_as("lan", &frame(lan_mac(1), &ip), offload);
    rigs[0].settle();
    exchange(&mut rigs);
    let arrived = received(&mut rigs[1], "lan");
    assert_eq!(arrived.len(), 15, "20000 bytes in segments of 1400: {:?}", drops(&rigs[0]));
    let bytes: Vec<u8> = arrived.iter().flat_map(|packet| packet[40..].to_vec()).collect();
    assert_eq!(bytes, payload);
    for segment in &arrived {
        assert_eq!(verify_checksum(segment), Ok(Some(true)));
    }
}

#[test]
fn tunnel_within_a_tunnel_carries_packets() {
    let nested = |own: u8, peer: u8, lan: u8| {
        let outer = tunnel("ipip", true, (own, peer), 99, "");
        let inner = format!(
            "[port.deep]\ndevice = \"gre:10.255.0.{peer}\"\naddress = [\"10.254.0.{own}/24\"]\n[port.deep.tunnel]\nlocal = \"10.255.0.{own}\"\nkey = 3\n\
             [[route]]\nto = \"10.{lan}.0.0/16\"\nvia = \"10.254.0.{peer}\"\n"
        );
        config((own, own), peer, &(outer + &inner))
    };
    let mut rigs = [nested(1, 2, 2), nested(2, 1, 1)].map(|config| Rig::running(4096, Layout::Three, &config));
    let there = packet("10.1.0.7", "10.2.0.7", 0, true, 200);
    send(&mut rigs[0], 1, &there);
    let outer = rigs[0].received("wan");
    assert_eq!(outer[0].len(), 14 + 200 + 28 + 20, "GRE with a key in IP in IP");
    rigs[1].send("wan", &outer[0]);
    rigs[1].settle();
    assert_eq!(received(&mut rigs[1], "lan")[0][40..], there[40..]);
}

#[test]
fn every_worker_encapsulates_and_decapsulates() {
    for queues in [1, 2] {
        let mut group = WorkerGroup::new(2, queues, 4096, Layout::Three);
        group.apply(&config((1, 1), 2, &tunnel("gre", true, (1, 2), 2, "key = 7")));
        group.settle();
        let mut other =
            Rig::running(4096, Layout::Three, &config((2, 2), 1, &tunnel("gre", true, (2, 1), 1, "key = 7")));
        for queue in 0..queues {
            let wire = |name: &str| if queue == 0 { name.to_string() } else { format!("{name}#{queue}") };
            for host in 0..40 {
                group.send(
                    &wire("lan"),
                    &frame(lan_mac(1), &packet(&format!("10.1.1.{host}"), "10.2.0.7", 0, true, 100)),
                );
                send(&mut other, 2, &packet("10.2.0.7", &format!("10.1.0.{}", 7), 0, true, 100 + host));
            }
            for outer in other.received("wan") {
                group.send(&wire("wan"), &outer);
            }
            group.settle();
        }
        let mut sent = Vec::new();
        let mut arrived = 0;
        for queue in 0..queues {
            let wire = |name: &str| if queue == 0 { name.to_string() } else { format!("{name}#{queue}") };
            sent.extend(group.received(&wire("wan")));
            arrived += group.received(&wire("lan")).iter().filter(|frame| frame[12..14] == [8, 0]).count();
        }
        let outer = sent.iter().filter(|frame| frame[23] == protocol::GRE && frame.len() == 14 + 100 + 28).count();
        let reports: Vec<_> = group.workers.iter().map(|worker| worker.report()).collect();
        let drops: Vec<Vec<_>> = reports.iter().map(|report| report.ledger.drops().collect()).collect();
        assert_eq!((outer, arrived), (40 * queues, 40 * queues), "{queues} queues: {drops:?}");
    }
}

#[test]
fn explain_follows_packets_into_and_out_of_a_tunnel() {
    let mut rigs = ends("gre", true, "key = 7");
    let explained = |rig: &Rig, port: &str, frame: &[u8]| {
        let reports = [rig.report()];
        let (snapshot, tables) = (rig.router.snapshot(), rig.router.tables());
        let ports = snapshot.ports.iter().map(|port| port.as_ref().map(|port| &*port.name));
        let port = PortId::at({ ports }.position(|name| name == Some(port)).unwrap());
        let question =
            ExplainContext { snapshot, tables, reports: &reports, functions: rig.router.functions(), now: rig.now };
        explain(&question, port, frame)
    };
    let there = frame(lan_mac(1), &packet(HOSTS[0].0, HOSTS[0].1, 0, true, 100));
    let explanation = explained(&rigs[0], "lan", &there);
    assert!(explanation.steps.iter().any(|step| matches!(step, ExplainStep::Encapsulated { .. })));
    let ExpectedFate::Sent { frame: expected, .. } = explanation.expected else { panic!("{explanation:#?}") };
    rigs[0].send("lan", &there);
    rigs[0].settle();
    let outer = rigs[0].received("wan").remove(0);
    assert_eq!(expected, outer);
    let explanation = explained(&rigs[1], "wan", &outer);
    assert!(explanation.steps.iter().any(|step| matches!(step, ExplainStep::Decapsulated { .. })));
    let ExpectedFate::Sent { frame: expected, .. } = explanation.expected else { panic!("{explanation:#?}") };
    rigs[1].send("wan", &outer);
    rigs[1].settle();
    assert_eq!(expected, rigs[1].received("lan").remove(0));
    // With another key, both agree as well.
    let mut foreign = outer;
    foreign[14 + 20 + 7] ^= 1;
    let explanation = explained(&rigs[1], "wan", &foreign);
    assert_eq!(explanation.expected, ExpectedFate::Dropped(DropReason::TunnelKey));
    assert_eq!(foreign[..6], wan_mac(2).0);
}
