//! Multicast replication: which interfaces get copies, with which headers, and why packets without copies are dropped. Copies
//! share their payload, and no frame leaks, no matter which worker ends which copy.

use packet::pool::{HEAD, PartialChecksum, Segmentation};
use packet::port::{Offloads, Port};
use packet::wire::transport::verify_checksum;
use packet::wire::{Ethernet, Ipv4, Ipv4Spec, Ipv6, Ipv6Spec, ethernet, ethertype, protocol};
use packet::{Batch, DropReason, Ledger, Offload};
use plane::WorkerReport;
use plane::explain::{ExpectedFate, ExplainContext, ExplainStep, explain};
use plane::multicast::{GroupKey, MulticastRoute};
use plane::rig::{Rig, WorkerGroup};
use plane::snapshot::Layout;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::{InterfaceId, Mac, PortId, VrfId};

const GATHER: Offloads = Offloads { super_frames: false, checksums: false, gather: true };
const LAYOUTS: [Layout; 3] = [Layout::One, Layout::Two, Layout::Three];
const WIRES: [&str; 4] = ["lan", "wan", "dmz", "lab"];

/// Four ports, one of them with a VLAN, followed by `more`.
fn config(more: &str) -> String {
    let mut text = "version = 1\n".to_string();
    for (i, name) in WIRES.iter().enumerate() {
        text += &format!("[port.{name}]\ndevice = \"memory:{name}\"\nmac = \"02:00:00:00:00:0{}\"\n", i + 1);
        text += &format!("address = [\"192.0.{i}.1/24\", \"2001:db8:{i}::1/64\"]\n");
    }
    text += "[port.wan.vlan.20]\naddress = [\"203.0.113.1/24\"]\n";
    text + more
}

const GROUPS: &str = r#"
[[multicast]]
group = "239.1.2.3"
from = "lan"
to = ["wan", "wan.20", "dmz"]
[[multicast]]
group = "239.1.2.3"
source = "192.0.0.8"
from = "lan"
to = "lab"
[[multicast]]
group = "ff3e::99"
from = "lan"
to = ["wan.20", "lab"]
"#;

/// A UDP datagram to a group, of a host on a link of the router.
#[derive(Clone, Copy, Debug)]
struct Datagram {
    source: IpAddr,
    group: IpAddr,
    ttl: u8,
    /// Length of the payload in bytes.
    length: usize,
    port: u16,
}

impl Datagram {
    fn to(group: &str, length: usize) -> Datagram {
        let group: IpAddr = group.parse().unwrap();
        let source = if group.is_ipv4() { "192.0.0.7" } else { "2001:db8::7" };
        Datagram { source: source.parse().unwrap(), group, ttl: 9, length, port: 5004 }
    }

    fn frame(&self) -> Vec<u8> {
        let (header, kind, mac) = match self.group {
            IpAddr::V4(group) => (20, ethertype::IPV4, packet::wire::ipv4::multicast_mac(group)),
            IpAddr::V6(group) => (40, ethertype::IPV6, packet::wire::ipv6::multicast_mac(group)),
        };
        let mut frame = vec![0; 14 + header + 8 + self.length];
        let (link, ip) = frame.split_at_mut(14);
        ethernet::write_header(link, mac, Mac([2, 0, 0, 0, 0, 0x77]), None, kind).unwrap();
        match (self.source, self.group) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let spec = Ipv4Spec {
                    type_of_service: 0,
                    identification: 7,
                    dont_fragment: true,
                    ttl: self.ttl,
                    protocol: protocol::UDP,
                    source,
                    destination,
                };
                spec.write(ip, 8 + self.length).unwrap();
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let spec = Ipv6Spec {
                    traffic_class: 0,
                    flow_label: 0,
                    next_header: protocol::UDP,
                    hop_limit: self.ttl,
                    source,
                    destination,
                };
                spec.write(ip, 8 + self.length).unwrap();
            }
            _ => panic!("two families"),
        }
        let udp = &mut ip[header..];
        udp[..2].copy_from_slice(&4000u16.to_be_bytes());
        udp[2..4].copy_from_slice(&self.port.to_be_bytes());
        udp[4..6].copy_from_slice(&((8 + self.length) as u16).to_be_bytes());
        udp[8..].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 7 + i / 256) as u8);
        frame
    }

    /// The copy that leaves by a port with this number, with this tag.
    fn copy(&self, number: u8, vlan: Option<u16>) -> Vec<u8> {
        let plain = Datagram { ttl: self.ttl - 1, ..*self }.frame();
        let mut link = plain[..6].to_vec();
        link.extend([2, 0, 0, 0, 0, number]);
        if let Some(vlan) = vlan {
            link.extend([0x81, 0]);
            link.extend(vlan.to_be_bytes());
        }
        [link, plain[12..].to_vec()].concat()
    }
}

fn drops(ledger: &Ledger) -> Vec<(&'static str, u64)> {
    ledger.drops().map(|(reason, packets)| (reason.name(), packets)).collect()
}

fn sums(report: &WorkerReport) -> [u64; 6] {
    let ledger = &report.ledger;
    [ledger.received(), ledger.replicated(), ledger.copies(), ledger.sent(), ledger.consumed(), ledger.dropped()]
}

#[test]
fn each_interface_of_a_group_gets_a_replica_with_its_own_header() {
    for layout in LAYOUTS {
        for gather in [false, true] {
            let takes = if gather { GATHER } else { Offloads::default() };
            let wires: Vec<(&str, Offloads)> = WIRES.iter().map(|&wire| (wire, takes)).collect();
            let mut rig = Rig::offloading(512, layout, &config(GROUPS), &wires);
            for length in [0, 30, HEAD, 300, 1400] {
                let four = Datagram::to("239.1.2.3", length);
                rig.send("lan", &four.frame());
                rig.settle();
                assert_eq!(rig.received("wan"), [four.copy(2, None), four.copy(2, Some(20))], "{layout:?} {length}");
                assert_eq!(rig.received("dmz"), [four.copy(3, None)]);
                let of_one = Datagram { source: "192.0.0.8".parse().unwrap(), ..four };
                rig.send("lan", &of_one.frame());
                let six = Datagram::to("ff3e::99", length);
                rig.send("lan", &six.frame());
                rig.settle();
                assert_eq!(rig.received("wan"), [six.copy(2, Some(20))]);
                assert_eq!(rig.received("lab"), [of_one.copy(4, None), six.copy(4, None)]);
                assert!(rig.received("lan").is_empty() && rig.received("dmz").is_empty());
            }
            let report = rig.report();
            assert_eq!(sums(&report)[..3], [15, 15, 30]);
            assert_eq!(report.ledger.sent(), report.ledger.generated());
            let counted: Vec<[u64; 3]> = report.groups.iter().map(|g| [g.packets, g.copies, g.dropped]).collect();
            assert_eq!(counted, [[5, 15, 0], [5, 5, 0], [5, 10, 0]]);
            assert_eq!(report.held_packets, 0);
        }
    }
}

#[test]
fn replicas_share_their_payload_on_gathering_ports() {
    let wires = [("wan", GATHER), ("dmz", GATHER)];
    let mut rig = Rig::offloading(512, Layout::Three, &config(GROUPS), &wires);
    let datagram = Datagram::to("239.1.2.3", 1400);
    rig.send("lan", &datagram.frame());
    rig.settle();
    let mut payloads = Vec::new();
    let mut batch = Batch::new();
    for (wire, copies) in [("wan", 2), ("dmz", 1)] {
        rig.wires.far.get_mut(wire).unwrap().receive(rig.now, &mut batch, &mut rig.pool);
        assert_eq!(batch.len(), copies);
        for packet in batch.drain() {
            assert_eq!(packet.len() + packet.tail().len(), packet.whole().len());
            payloads.push((packet.tail().as_ptr_range(), packet.tail().len()));
            rig.pool.give(packet);
        }
    }
    assert!(payloads.iter().all(|payload| *payload == payloads[0]), "all refer to the same bytes");
    assert_eq!(payloads[0].1, 14 + 28 + 1400 - HEAD);
}

#[test]
fn packet_without_replicas_is_dropped_with_a_reason() {
    let mut rig = Rig::running(512, Layout::Three, &config(GROUPS));
    let of = |group: &str| Datagram::to(group, 100);
    let cases = [
        ("lan", of("239.1.2.4"), DropReason::Multicast),
        ("wan", of("239.1.2.3"), DropReason::ReversePath),
        ("dmz", of("ff3e::99"), DropReason::ReversePath),
        ("lan", Datagram { ttl: 1, ..of("239.1.2.3") }, DropReason::TtlExpired),
        ("lan", Datagram { ttl: 0, ..of("ff3e::99") }, DropReason::TtlExpired),
        ("lan", Datagram { source: "fe80::7".parse().unwrap(), ..of("ff3e::99") }, DropReason::LinkLocal),
        ("lan", Datagram { source: "::".parse().unwrap(), ..of("ff3e::99") }, DropReason::MartianSource),
        ("lan", Datagram { source: "192.0.0.1".parse().unwrap(), ..of("239.1.2.3") }, DropReason::MartianSource),
        ("lan", of("224.0.0.251"), DropReason::Multicast),
    ];
    for (wire, datagram, reason) in cases {
        let before = rig.report().ledger.dropped_for(reason);
        rig.send(wire, &datagram.frame());
        rig.settle();
        assert_eq!(rig.report().ledger.dropped_for(reason), before + 1, "{datagram:?}");
    }
    for wire in WIRES {
        assert!(rig.received(wire).is_empty(), "nobody is told: no errors about what went to a group");
    }
    assert_eq!(rig.report().ledger.copies(), 0);
}

#[test]
fn routes_of_the_kernel_change_beside_the_generation_and_configured_ones_precede() {
    let mut rig = Rig::running(512, Layout::Three, &config(GROUPS));
    let [lan, wan, dmz, lab] = WIRES.map(|name| rig.router.snapshot().interface_named(name).unwrap().id);
    let route = |group: &str, to: &[InterfaceId]| {
        let key = GroupKey { vrf: VrfId::MAIN, group: group.parse().unwrap(), source: None };
        MulticastRoute { key, from: lan, to: to.to_vec() }
    };
    let (added, configured) = (Datagram::to("239.9.9.9", 100), Datagram::to("239.1.2.3", 100));
    let dropped = |rig: &Rig, reason| rig.report().ledger.dropped_for(reason);
    rig.router.set_kernel_groups(vec![route("239.9.9.9", &[wan, lab]), route("239.1.2.3", &[lab])]);
    rig.send("lan", &added.frame());
    rig.send("lan", &configured.frame());
    rig.settle();
    assert_eq!(rig.received("lab"), [added.copy(4, None)]);
    assert_eq!(rig.received("dmz"), [configured.copy(3, None)]);
    assert_eq!(rig.received("wan").len(), 3);
    // Another branch, and packets of the group from there.
    rig.router.set_kernel_groups(vec![route("239.9.9.9", &[dmz])]);
    rig.send("lan", &added.frame());
    rig.send("dmz", &added.frame());
    rig.settle();
    assert_eq!((rig.received("dmz").len(), dropped(&rig, DropReason::ReversePath)), (1, 1));
    // A membership report is for a router, with any time to live (RFC 2236 9).
    let mut membership = added.frame();
    membership[23] = protocol::IGMP;
    membership[24..26].fill(0);
    let sum = packet::wire::checksum::checksum(&membership[14..34]);
    membership[24..26].copy_from_slice(&sum.to_be_bytes());
    rig.send("lan", &membership);
    // The last branch is pruned.
    rig.router.set_kernel_groups(vec![route("239.9.9.9", &[])]);
    rig.send("lan", &added.frame());
    rig.settle();
    assert!(WIRES.iter().all(|wire| rig.received(wire).is_empty()));
    assert_eq!(dropped(&rig, DropReason::Multicast), 2);
    let groups = rig.router.snapshot().kernel_groups.latest();
    let counted: Vec<(u64, u64)> = groups.iter().map(|(_, counters)| (counters.packets, counters.copies)).collect();
    assert_eq!(counted, [(2, 3)]);
    assert_eq!(rig.report().groups[0].packets, 1);
    assert_eq!(rig.report().held_packets, 0);
}

#[test]
fn dropped_replica_delays_no_other() {
    let narrow = config(GROUPS).replace("[port.dmz]\n", "[port.dmz]\nmtu = 1280\n");
    let mut rig = Rig::running(512, Layout::Three, &narrow);
    rig.send("lan", &Datagram::to("239.1.2.3", 1400).frame());
    rig.settle();
    assert_eq!((rig.received("wan").len(), rig.received("dmz").len()), (2, 0));
    assert_eq!(drops(&rig.report().ledger), [("too_big", 1)]);
    assert_eq!((rig.report().groups[0].copies, rig.report().groups[0].dropped), (2, 1));

    // One path has a filter, and its packets to one port exceed their queue.
    let path = "[[path]]\nname = \"video\"\nmatch = \"udp dport 5004\"\nqueue = 4\nfunctions = [\"filter\", \"ip\"]\n\
                filter = [\"udp dport 5004 ip saddr 192.0.0.9 drop\"]\n";
    let mut rig = Rig::running(512, Layout::Three, &config(&format!("{GROUPS}{path}")));
    for host in [7, 9] {
        let source = IpAddr::from([192, 0, 0, host]);
        rig.send("lan", &Datagram { source, ..Datagram::to("239.1.2.3", 1000) }.frame());
        rig.settle();
    }
    assert_eq!((rig.received("wan").len(), rig.received("dmz").len()), (2, 1), "those of the other are filtered");
    for _ in 0..20 {
        rig.send("lan", &Datagram::to("239.1.2.3", 1000).frame());
    }
    rig.settle();
    let (wan, dmz) = (rig.received("wan").len(), rig.received("dmz").len());
    assert!(wan < 40 && dmz < 20 && dmz > 0, "{wan} {dmz}");
    let report = rig.report();
    assert_eq!(report.ledger.dropped_for(DropReason::PathQueue), (60 - wan - dmz) as u64);
    assert_eq!(report.ledger.dropped_for(DropReason::Filtered), 3);
    assert_eq!(report.held_packets, 0);
}

#[test]
fn frame_shortage_drops_only_some_replicas() {
    let mut rig = Rig::running(512, Layout::Three, &config(GROUPS));
    let own = rig.report().ledger.sent();
    let kept: Vec<_> = std::iter::from_fn(|| rig.pool.take()).collect();
    let mut kept = kept.into_iter();
    // The worker has frames of its own. Packets queued at wires that are not read use these up.
    let mut given = 0;
    while rig.report().ledger.dropped_for(DropReason::PoolEmpty) == 0 {
        let Some(spare) = kept.next() else { panic!("the pool has no end: {given}") };
        rig.pool.give(spare);
        rig.send("lan", &Datagram::to("239.1.2.3", 1000).frame());
        rig.settle();
        given += 1;
    }
    let report = rig.report();
    let ledger = &report.ledger;
    assert_eq!(ledger.copies(), ledger.replicated() * 3);
    assert_eq!(ledger.copies(), ledger.sent() - own + ledger.dropped_for(DropReason::PoolEmpty));
    kept.for_each(|packet| rig.pool.give(packet));
    WIRES.iter().for_each(|wire| drop(rig.received(wire)));
    assert_eq!(rig.pool.frames_in_use(), 0);
}

#[test]
fn super_frame_is_segmented_once_before_replication() {
    let everything = Offloads { super_frames: true, checksums: true, gather: true };
    let mut rig = Rig::offloading(1024, Layout::Three, &config(GROUPS), &WIRES.map(|wire| (wire, everything)));
    let datagram = Datagram::to("239.1.2.3", 3500);
    let mut frame = datagram.frame();
    let sum = packet::wire::PacketFields::of(&frame).unwrap();
    let l4 = sum.l4_offset.unwrap();
    // The sum of the pseudo-header, as a sender leaves it for offload.
    let partial = pseudo_header(&frame[26..34], (frame.len() - l4) as u16);
    frame[l4 + 6..l4 + 8].copy_from_slice(&partial.to_be_bytes());
    let checksum = Some(PartialChecksum { start: l4 as u16, offset: 6 });
    rig.send_as("lan", &frame, Offload { segmentation: Segmentation::Udp, size: 1000, checksum });
    rig.settle();
    let copies = rig.received_as("dmz");
    assert_eq!(copies.len(), 4);
    for (segment, offload) in &copies {
        assert_eq!(*offload, Offload::NONE);
        let ip = Ipv4::parse(&segment[14..]).unwrap();
        assert_eq!(ip.header.ttl(), 8);
        assert_eq!(verify_checksum(ip.bytes).unwrap(), Some(true));
    }
    assert_eq!(rig.received("wan").len(), 8);
    // A single packet with a partial checksum.
    let mut frame = Datagram::to("239.1.2.3", 1000).frame();
    let partial = pseudo_header(&frame[26..34], (frame.len() - l4) as u16);
    frame[l4 + 6..l4 + 8].copy_from_slice(&partial.to_be_bytes());
    rig.send_as("lan", &frame, Offload { segmentation: Segmentation::None, size: 0, checksum });
    rig.settle();
    let copies = rig.received_as("dmz");
    let ip = Ipv4::parse(&copies[0].0[14..]).unwrap();
    assert_eq!(verify_checksum(ip.bytes).unwrap(), Some(true));
    let report = rig.report();
    assert_eq!((report.ledger.replicated(), report.ledger.copies(), report.held_packets), (5, 15, 0));
}

/// The sum of the pseudo-header of a UDP datagram over IPv4 (RFC 768), not complemented.
fn pseudo_header(addresses: &[u8], length: u16) -> u16 {
    let words = addresses.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum::<u32>() + u32::from(protocol::UDP) + u32::from(length);
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

#[test]
fn packets_with_options_are_replicated_after_option_processing() {
    let mut rig = Rig::running(512, Layout::Three, &config(GROUPS));
    // Four no-operation options lengthen the header by one word.
    let mut four = Datagram::to("239.1.2.3", 600).frame();
    four.splice(34..34, [1, 1, 1, 0]);
    four[14] = 0x46;
    let total = u16::from_be_bytes([four[16], four[17]]) + 4;
    four[16..18].copy_from_slice(&total.to_be_bytes());
    four[24..26].fill(0);
    let sum = packet::wire::checksum::checksum(&four[14..38]);
    four[24..26].copy_from_slice(&sum.to_be_bytes());
    // Hop-by-hop options: a pad of four bytes.
    let mut six = Datagram::to("ff3e::99", 600).frame();
    six.splice(54..54, [protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
    six[20] = protocol::HOP_BY_HOP;
    let length = u16::from_be_bytes([six[18], six[19]]) + 8;
    six[18..20].copy_from_slice(&length.to_be_bytes());
    rig.send("lan", &four);
    rig.send("lan", &six);
    rig.settle();
    let [wan, dmz, lab] = ["wan", "dmz", "lab"].map(|wire| rig.received(wire));
    assert_eq!((wan.len(), dmz.len(), lab.len()), (3, 1, 1), "{:?}", drops(&rig.report().ledger));
    let ip = Ipv4::parse(&dmz[0][14..]).unwrap();
    assert_eq!((ip.header.ttl(), ip.options.len(), ip.payload), (8, 4, &four[38..]));
    let ip = Ipv6::parse(&lab[0][14..]).unwrap();
    assert_eq!((ip.header.hop_limit(), ip.payload), (8, &six[54..]));
}

#[test]
fn group_changes_under_traffic_lose_no_packet() {
    let other = GROUPS.replace("\"wan\", \"wan.20\", \"dmz\"", "\"lab\", \"wan\"");
    for layout in LAYOUTS {
        let mut rig = Rig::running(2048, layout, &config(GROUPS));
        let (mut wan, mut dmz, mut lab, mut sent) = (0, 0, 0, 0u64);
        for round in 0..20 {
            for _ in 0..10 {
                rig.send("lan", &Datagram::to("239.1.2.3", 900).frame());
                sent += 1;
                rig.step(&mut cpu::meter::ConstantMeter(units::Nanos::new(10)));
            }
            rig.apply(&config(if round % 2 == 0 { &other } else { GROUPS })).unwrap();
            rig.settle();
            wan += rig.received("wan").iter().filter(|frame| is_group(frame)).count();
            dmz += rig.received("dmz").iter().filter(|frame| is_group(frame)).count();
            lab += rig.received("lab").iter().filter(|frame| is_group(frame)).count();
        }
        let report = rig.report();
        let counted = report.groups.iter().map(|group| group.packets).sum::<u64>();
        assert_eq!((report.ledger.replicated(), counted, report.held_packets), (sent, sent, 0), "{layout:?}");
        assert_eq!(report.ledger.copies(), (wan + dmz + lab) as u64, "{wan} {dmz} {lab}");
        assert!(dmz > 0 && lab > 0 && wan > dmz, "{wan} {dmz} {lab}");
        assert_eq!(drops(&report.ledger), []);
    }
}

fn is_group(frame: &[u8]) -> bool {
    Ethernet::parse(frame).is_ok_and(|link| link.destination == Mac([1, 0, 0x5e, 1, 2, 3]))
}

#[test]
fn explain_predicts_multicast_replicas() {
    let narrow = config(GROUPS).replace("[port.dmz]\n", "[port.dmz]\nmtu = 1280\n");
    let mut rig = Rig::running(512, Layout::Three, &narrow);
    let snapshot = rig.router.snapshot().clone();
    let reports = [rig.report()];
    let question = ExplainContext {
        snapshot: &snapshot,
        tables: rig.router.tables(),
        reports: &reports,
        functions: rig.router.functions(),
        now: rig.now,
    };
    let lan =
        PortId::at(snapshot.ports.iter().position(|port| port.as_ref().is_some_and(|p| &*p.name == "lan")).unwrap());
    let datagram = Datagram::to("239.1.2.3", 1400);
    let explained = explain(&question, lan, &datagram.frame());
    let ExpectedFate::Replicated(copies) = &explained.expected else { panic!("{explained:?}") };
    let told: Vec<Result<Vec<u8>, DropReason>> = copies
        .iter()
        .map(|copy| match copy {
            ExpectedFate::Sent { frame, .. } => Ok(frame.clone()),
            ExpectedFate::Dropped(reason) => Err(*reason),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(explained.steps.iter().filter(|step| matches!(step, ExplainStep::Replica { .. })).count(), 3);
    rig.send("lan", &datagram.frame());
    rig.settle();
    let mut happened: Vec<Vec<u8>> = rig.received("wan");
    happened.extend(rig.received("dmz"));
    let sent: Vec<Vec<u8>> = told.iter().filter_map(|copy| copy.clone().ok()).collect();
    assert_eq!(sent, happened);
    assert_eq!(told.iter().filter_map(|copy| copy.clone().err()).collect::<Vec<_>>(), [DropReason::TooBig]);
    assert_eq!(drops(&rig.report().ledger), [("too_big", 1)]);
}

/// One group of a random configuration: its last byte, its source, the port it comes by, the ports it goes to as bits.
type Route = (u8, Option<u8>, usize, u8);

fn random_config(routes: &[Route]) -> String {
    let mut text = String::new();
    for &(group, source, from, to) in routes {
        let to: Vec<String> =
            (0..WIRES.len()).filter(|&i| i != from && to >> i & 1 != 0).map(|i| format!("\"{}\"", WIRES[i])).collect();
        let source = source.map_or_else(String::new, |host| format!("source = \"192.0.{from}.{host}\"\n"));
        text += &format!(
            "[[multicast]]\ngroup = \"239.0.0.{group}\"\n{source}from = \"{}\"\nto = [{}]\n",
            WIRES[from],
            to.join(", ")
        );
    }
    config(&text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Compares the copies of each interface with a linear search of the routes, and checks that none is lost.
    #[test]
    fn replicas_equal_those_of_a_naive_router(
        routes in prop::collection::btree_map((0u8..3, prop::option::of(7u8..9)), (0usize..4, 1u8..16), 0..6),
        packets in prop::collection::vec((0usize..4, 0u8..3, 7u8..10, 0u8..4, 0usize..1400), 1..40),
        layout in 0usize..3,
        gather: bool,
    ) {
        let routes: Vec<Route> = routes
            .into_iter()
            .map(|((group, source), (from, to))| (group, source, from, to))
            .filter(|&(_, _, from, to)| to & !(1 << from) != 0)
            .collect();
        let takes = if gather { GATHER } else { Offloads::default() };
        let mut rig = Rig::offloading(2048, LAYOUTS[layout], &random_config(&routes), &WIRES.map(|wire| (wire, takes)));
        let own = rig.report().ledger.sent();
        let mut expected: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
        let mut copied = 0;
        for (from, group, host, ttl, length) in packets {
            let source = IpAddr::from([192, 0, from as u8, host]);
            let datagram = Datagram { source, group: IpAddr::from([239, 0, 0, group]), ttl, length, port: 9 };
            // A source has its own route only where it lives on the route's own link.
            let own = |&&(g, s, f, _): &&Route| g == group && s.is_some_and(|s| [192, 0, f as u8, s] == [192, 0, from as u8, host]);
            let any = |&&(g, s, ..): &&Route| g == group && s.is_none();
            let route = routes.iter().find(own).or_else(|| routes.iter().find(any));
            if let Some(&(_, _, came, to)) = route.filter(|route| route.2 == from && ttl > 1) {
                for i in (0..WIRES.len()).filter(|&i| i != came && to >> i & 1 != 0) {
                    expected.entry(WIRES[i]).or_default().push(datagram.copy(i as u8 + 1, None));
                    copied += 1;
                }
            }
            rig.send(WIRES[from], &datagram.frame());
            rig.settle();
        }
        for wire in WIRES {
            prop_assert_eq!(rig.received(wire), expected.remove(wire).unwrap_or_default(), "{}", wire);
        }
        let report = rig.report();
        prop_assert_eq!((report.ledger.copies(), report.ledger.sent() - own, report.held_packets), (copied, copied, 0));
        prop_assert_eq!(rig.pool.frames_in_use(), 0);
    }

    /// Two or three workers share the ports' queues, so that a worker transmits or drops copies that another one made. Queues are
    /// short, some wires are not read, and the configuration changes. Every frame returns to its pool.
    #[test]
    fn no_frame_leaks_in_any_order_of_replica_release(
        workers in 2u16..4,
        layout in 0usize..3,
        steps in prop::collection::vec((0u8..8, 0usize..4, 0u8..3, 40usize..1900), 20..150),
    ) {
        const FRAMES: usize = 3000;
        let routes: [Route; 3] = [(0, None, 0, 0b1110), (1, None, 1, 0b1101), (2, None, 2, 0b0011)];
        let queues = |n: usize| format!("[[path]]\nname = \"p\"\nmatch = \"udp dport 9\"\nqueue = {n}\n");
        let config = |n| format!("{}{}", random_config(&routes), queues(n)).replace("version = 1\n", &format!("version = 1\n[router]\nworkers = {workers}\n"));
        let mut team = WorkerGroup::new(workers, 1, FRAMES, LAYOUTS[layout]);
        team.wires.offloads = WIRES.iter().map(|wire| (wire.to_string(), GATHER)).collect();
        team.wires.length = 64;
        team.apply(&config(3));
        team.settle();
        let mut batch = Batch::new();
        for (step, which, group, length) in steps {
            match step {
                0..4 => {
                    let from = usize::from(group);
                    let source = IpAddr::from([192, 0, from as u8, length as u8 | 2]);
                    let datagram = Datagram { source, group: IpAddr::from([239, 0, 0, group]), ttl: 9, length: length.min(1400), port: 9 };
                    if team.wires.far[WIRES[from]].room() > 0 && team.pool.region().spare() > 600 {
                        team.send(WIRES[from], &datagram.frame());
                    }
                }
                4 | 5 => (0..length).for_each(|i| _ = team.step((i + which) % usize::from(workers))),
                6 => {
                    team.wires.far.get_mut(WIRES[which]).unwrap().receive(team.now, &mut batch, &mut team.pool);
                    batch.drain().for_each(|packet| team.pool.give(packet));
                }
                _ => team.apply(&config(1 + length % 5)),
            }
        }
        team.settle();
        for wire in WIRES {
            let far = team.wires.far.get_mut(wire).unwrap();
            while far.waiting() > 0 {
                far.receive(team.now, &mut batch, &mut team.pool);
                batch.drain().for_each(|packet| team.pool.give(packet));
            }
            // Packets queued for a full wire leave now.
            team.settle();
        }
        for wire in WIRES {
            team.received(wire);
        }
        team.settle();
        for wire in WIRES {
            team.received(wire);
        }
        let reports = team.reports();
        let held: u64 = reports.iter().map(|report| report.held_packets).sum();
        prop_assert_eq!(held, 0);
        prop_assert_eq!(team.pool.frames_in_use(), 0);
        let region = team.pool.region().clone();
        let now = team.now;
        team.workers.iter_mut().for_each(|worker| worker.shut_down(now));
        drop(team);
        prop_assert_eq!(region.spare(), FRAMES);
    }
}
