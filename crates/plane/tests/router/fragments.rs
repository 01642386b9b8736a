//! IPv4 packets above the MTU of their link: on every kind of path the router fragments them in order of arrival, and the
//! fragments reassemble to the original packets. Fragments are translated in any order of arrival.

use crate::nat_packets::{ICMP, Sent, Socket, UDP, fragments};
use crate::random::Chance;
use packet::DropReason;
use packet::pool::Segmentation;
use packet::port::Offloads;
use packet::wire::transport::verify_checksum;
use packet::wire::{Ipv4, checksum::checksum};
use plane::rig::{Rig, WorkerGroup};
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use units::Nanos;

const INSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 7);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 8);
const OURS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 5);
const LAN: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x17];
const WAN: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0x29];
/// Bytes of the longest IP packet on either link.
const MTU: usize = 620;

fn config(more: &str) -> String {
    let neighbour = |address: Ipv4Addr, mac: u8, port: &str| {
        format!("[[neighbour]]\naddress = \"{address}\"\nmac = \"02:00:00:00:00:{mac:02x}\"\nport = \"{port}\"\n")
    };
    let neighbours = [(INSIDE, 0x17, "lan"), (SERVER, 0x18, "lan"), (Ipv4Addr::new(203, 0, 113, 9), 0x29, "wan")];
    let neighbours: String = neighbours.iter().map(|&(address, mac, port)| neighbour(address, mac, port)).collect();
    format!(
        "version = 1\n[port.lan]\ndevice = \"memory:lan\"\nmac = \"02:00:00:00:00:01\"\naddress = [\"192.168.1.1/24\"]\n\
         mtu = {MTU}\nscheme = \"fifo(limit=60000, bytes=1gb)\"\n\
         [port.wan]\ndevice = \"memory:wan\"\nmac = \"02:00:00:00:00:02\"\naddress = [\"203.0.113.1/24\"]\nmtu = {MTU}\n\
         scheme = \"fifo(limit=60000, bytes=1gb)\"\n{neighbours}\
         [[route]]\nto = \"0.0.0.0/0\"\nvia = \"203.0.113.9\"\n{more}"
    )
}

const NAT: &str = "[nat]\noutside = \"wan\"\nforward = [\"udp 8080 to 192.168.1.8:80\"]\n";

fn path(functions: &str, more: &str) -> String {
    format!("[[path]]\nname = \"home\"\nmatch = \"any\"\nfunctions = [{functions}]\n{more}\n")
}

/// A direction and path through the router.
struct Way {
    name: &'static str,
    config: String,
    wires: (&'static str, &'static str),
    link: [u8; 12],
    ends: (Socket, Socket),
}

/// Every kind of path, in every direction that it has.
fn ways() -> Vec<Way> {
    let out = (("lan", "wan"), LAN, ((INSIDE, 4000), (PEER, 53)));
    let back = (("wan", "lan"), WAN, ((PEER, 53), (OURS, 4000)));
    let through = (("wan", "lan"), WAN, ((PEER, 53), (INSIDE, 4000)));
    let hairpin = (("lan", "lan"), LAN, ((INSIDE, 4000), (OURS, 8080)));
    let filter = path("\"filter\", \"ip\"", "filter = [\"tcp drop\", \"accept\"]");
    let translated = path("\"nat\", \"ip\"", "") + NAT;
    let both = path("\"nat\", \"filter\", \"ip\"", "filter = [\"tcp drop\", \"accept\"]") + NAT;
    let spun = path("\"spin(cost=1us)\", \"ip\"", "preemptible = true");
    let limited = path("\"ip\"", "cpu_limit = \"1ms\"");
    let tight = path("\"ip\"", "queue = 16\noutput_queue = 16");
    let dispatched = path("\"dispatch\", \"ip\"", "dispatch = [\"payload 0 0x00 other\"]")
        + "[[path]]\nname = \"other\"\nmatch = \"udp dport 9\"\n";
    let all = [
        ("plain", String::new(), out),
        ("plain, the other way", String::new(), through),
        ("filter", filter, out),
        ("preemptible", spun, out),
        ("limit", limited, out),
        ("short queues", tight, out),
        ("dispatch", dispatched, out),
        ("nat out", translated.clone(), out),
        ("nat in", translated.clone(), back),
        ("nat hairpin", translated, hairpin),
        ("nat and filter out", both.clone(), out),
        ("nat and filter in", both.clone(), back),
        ("nat and filter hairpin", both, hairpin),
    ];
    let way =
        |(name, more, (wires, link, ends)): (_, String, _)| Way { name, config: config(&more), wires, link, ends };
    all.into_iter().map(way).collect()
}

impl Way {
    /// The `number`th packet of the flow; its IP packet has `length` bytes.
    fn packet(&self, number: u32, length: usize) -> Vec<u8> {
        let mut payload: Vec<u8> = number.to_be_bytes().to_vec();
        payload.extend((0..length - 32).map(|at| (at as u32 * 7 + number) as u8));
        let sent = Sent::new(self.link, UDP, self.ends.0, self.ends.1);
        Sent { identification: number as u16, payload, ..sent }.frame()
    }

    fn start(&self, layout: Layout, wires: &[(&str, Offloads)]) -> Rig {
        let mut rig = Rig::offloading(4096, layout, &self.config, wires);
        if self.name.starts_with("nat") && self.wires.0 == "wan" {
            rig.send("lan", &Sent::new(LAN, UDP, (INSIDE, 4000), (PEER, 53)).frame());
            rig.settle();
            assert_eq!(ipv4(&mut rig, "wan").len(), 1);
        }
        rig
    }
}

fn ipv4(rig: &mut Rig, wire: &str) -> Vec<Vec<u8>> {
    let mut frames = rig.received(wire);
    frames.retain(|frame| frame[12..14] == [8, 0]);
    frames
}

/// The reassembled packets, in the order of their last fragments. Checks that fragments of different packets do not
/// interleave.
fn whole(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut whole, mut parts): (Vec<Vec<u8>>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut begun = None;
    for frame in frames {
        assert!(frame.len() - 14 <= MTU, "{} bytes", frame.len());
        let ip = Ipv4::parse(&frame[14..]).expect("a sound header");
        let name = (ip.header.source(), ip.header.identification());
        assert_eq!(ip.header.fragment_offset() + 20, if parts.is_empty() { 20 } else { parts.len() }, "in order");
        assert_eq!(*begun.get_or_insert(name), name, "fragments of one packet after the other");
        if parts.is_empty() {
            parts = frame[14..34].to_vec();
        }
        parts.extend(ip.payload);
        if !ip.header.more_fragments() {
            let length = (parts.len() as u16).to_be_bytes();
            parts[2..4].copy_from_slice(&length);
            parts[6..8].fill(0);
            parts[10..12].fill(0);
            let sum = checksum(&parts[..20]);
            parts[10..12].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(verify_checksum(&parts), Ok(Some(true)), "the checksum of what was sent");
            whole.push(std::mem::take(&mut parts));
            begun = None;
        }
    }
    assert!(parts.is_empty(), "a packet without its end");
    whole
}

/// Random lengths around the MTU, in bursts of random length.
#[test]
fn flow_order_is_kept_across_packet_lengths() {
    for layout in [Layout::One, Layout::Two, Layout::Three] {
        for way in ways() {
            let mut rig = way.start(layout, &[]);
            let mut chance = Chance(way.name.len() as u64);
            let (mut sent, mut left) = (Vec::new(), Vec::new());
            while sent.len() < 300 {
                // No burst is longer than the shortest queue.
                for _ in 0..1 + chance.below(15) {
                    let length = if chance.one_in(2) { 40 + chance.below(1400) } else { MTU - 20 + chance.below(40) };
                    let frame = way.packet(sent.len() as u32, length);
                    rig.send(way.wires.0, &frame);
                    sent.push(frame);
                }
                rig.settle();
                // A vector that was interrupted needs another slice.
                rig.advance(Nanos::millis(1));
                left.extend(ipv4(&mut rig, way.wires.1));
            }
            let came = whole(&left);
            let dropped = rig.report().ledger.dropped();
            assert_eq!((came.len(), dropped), (sent.len(), 0), "{} in {layout:?}", way.name);
            for (came, sent) in came.iter().zip(&sent) {
                assert_eq!(came[28..], sent[42..], "{} in {layout:?}", way.name);
            }
        }
    }
}

/// A super-frame of datagrams above the MTU, between shorter packets.
#[test]
fn super_frame_datagrams_are_fragmented_in_order() {
    let everything = Offloads { super_frames: true, checksums: true, gather: false };
    for takes in [everything, Offloads::default()] {
        for way in ways() {
            let wires = [("lan", everything), ("wan", everything)].map(|(wire, _)| {
                (wire, if wire == way.wires.0 || way.wires.0 == way.wires.1 { everything } else { takes })
            });
            let mut rig = way.start(Layout::Three, &wires);
            let first = way.packet(0, 100);
            let mut burst = way.packet(1, 4228);
            burst[24..26].fill(0);
            let sum = checksum(&burst[14..34]);
            burst[24..26].copy_from_slice(&sum.to_be_bytes());
            let offload = packet::Offload {
                segmentation: Segmentation::Udp,
                size: 1400,
                checksum: Some(packet::pool::PartialChecksum { start: 34, offset: 6 }),
            };
            // A partial checksum holds the sum of the pseudo-header.
            let pseudo = packet::wire::checksum::Sum::new().pseudo4(way.ends.0.0, way.ends.1.0, UDP, 4208).folded();
            burst[40..42].copy_from_slice(&pseudo.to_be_bytes());
            rig.send(way.wires.0, &first);
            rig.send_as(way.wires.0, &burst, offload);
            rig.send(way.wires.0, &way.packet(9, 100));
            rig.settle();
            rig.advance(Nanos::millis(1));
            let came = whole(&ipv4(&mut rig, way.wires.1));
            let lengths: Vec<usize> = came.iter().map(Vec::len).collect();
            assert_eq!(lengths, [100, 1428, 1428, 1428, 100], "{} {:?}", way.name, rig.report().ledger);
            let payload: Vec<u8> = came[1..4].iter().flat_map(|packet| &packet[28..]).copied().collect();
            assert_eq!(payload, burst[42..], "{}", way.name);
        }
    }
}

#[test]
fn a_packet_with_df_above_the_mtu_is_dropped_with_an_icmp_error_on_every_path() {
    for way in ways() {
        let mut rig = way.start(Layout::Three, &[]);
        let sent =
            Sent { dont_fragment: true, payload: vec![1; 900], ..Sent::new(way.link, UDP, way.ends.0, way.ends.1) };
        rig.send(way.wires.0, &sent.frame());
        rig.settle();
        assert_eq!(rig.report().ledger.dropped_for(DropReason::TooBig), 1, "{}", way.name);
        let told = ipv4(&mut rig, way.wires.0);
        assert_eq!((told.len(), &told[0][34..36], told[0][41]), (1, &[3, 4][..], MTU as u8), "{}", way.name);
    }
}

/// The three directions of translation.
fn directions() -> [(&'static str, Way); 3] {
    let mut ways = ways();
    ["nat out", "nat in", "nat hairpin"].map(|name| {
        let at = ways.iter().position(|way| way.name == name).unwrap();
        (name, ways.swap_remove(at))
    })
}

#[test]
fn fragments_are_translated_in_any_order_of_arrival() {
    for (name, way) in directions() {
        let mut chance = Chance(3);
        let mut rig = way.start(Layout::Three, &[]);
        for round in 0..200 {
            let frame = way.packet(round, 3000);
            let mut parts = fragments(&frame, 400);
            let count = parts.len();
            // A random order; the second half one by one, with time between.
            for at in (1..count).rev() {
                parts.swap(at, chance.below(at + 1));
            }
            for part in parts {
                rig.send(way.wires.0, &part);
                if round % 2 == 0 {
                    rig.settle();
                }
            }
            rig.settle();
            rig.advance(Nanos::millis(2));
            let left = ipv4(&mut rig, way.wires.1);
            assert_eq!(left.len(), count, "{name} {round}: {:?}", rig.report().ledger.drops().collect::<Vec<_>>());
            let mut parts: Vec<_> = left.iter().map(|frame| Ipv4::parse(&frame[14..]).unwrap()).collect();
            parts.sort_by_key(|part| part.header.fragment_offset());
            let payload: Vec<u8> = parts.iter().flat_map(|part| part.payload).copied().collect();
            assert_eq!(payload[8..], frame[42..], "{name} {round}");
            let ends = |part: &Ipv4<'_>| (part.header.source(), part.header.destination());
            assert!(parts.iter().all(|part| ends(part) == ends(&parts[0])), "{name}: all come from one place");
            assert_ne!(ends(&parts[0]), (way.ends.0.0, way.ends.1.0), "{name}: and are translated");
        }
        let report = rig.report();
        assert_eq!((report.held_packets, report.ledger.dropped()), (0, 0), "{name}");
    }
}

/// Different workers may receive the first fragment and the others. Waiting fragments are kept by the first worker.
#[test]
fn several_workers_translate_fragments_in_any_order_of_arrival() {
    for (name, way) in directions() {
        let mut chance = Chance(4);
        let mut team = WorkerGroup::new(3, 1, 8192, Layout::Three);
        team.apply(&way.config);
        team.settle();
        if way.wires.0 == "wan" {
            team.send("lan", &Sent::new(LAN, UDP, (INSIDE, 4000), (PEER, 53)).frame());
            team.settle();
        }
        ["lan", "wan"].into_iter().for_each(|wire| drop(team.received(wire)));
        for round in 0..60 {
            let mut parts = fragments(&way.packet(round, 3000), 400);
            for at in (1..parts.len()).rev() {
                parts.swap(at, chance.below(at + 1));
            }
            parts.iter().for_each(|part| team.send(way.wires.0, part));
            team.settle();
            team.advance(Nanos::millis(3));
            let left = team.received(way.wires.1).into_iter().filter(|frame| frame[12..14] == [8, 0]).count();
            assert_eq!(left, parts.len(), "{name} {round}");
        }
    }
}

#[test]
fn fragment_without_first_is_dropped_after_two_seconds() {
    for (name, way) in directions() {
        let mut rig = way.start(Layout::Three, &[]);
        let parts = fragments(&way.packet(5, 1000), 400);
        parts[1..].iter().for_each(|part| rig.send(way.wires.0, part));
        rig.settle();
        rig.advance(Nanos::millis(1900));
        assert_eq!((rig.report().held_packets, rig.report().ledger.dropped()), (2, 0), "{name}");
        rig.advance(Nanos::millis(200));
        assert_eq!(rig.report().ledger.dropped_for(DropReason::NatFragment), 2, "{name}");
        // A late first fragment is forwarded alone. The others follow it if they are sent again.
        parts.iter().for_each(|part| rig.send(way.wires.0, part));
        rig.settle();
        assert_eq!(ipv4(&mut rig, way.wires.1).len(), 3, "{name}");
    }
}

/// The router reassembles fragments for itself, in any order of arrival.
#[test]
fn fragmented_pings_of_the_router_are_answered_behind_translation() {
    let way = directions().into_iter().next().unwrap().1;
    for backwards in [false, true] {
        let mut rig = way.start(Layout::Three, &[]);
        let ask = Sent { payload: vec![9; 1500], ..Sent::new(WAN, ICMP, (PEER, 77), (OURS, 0)) }.frame();
        let mut parts = fragments(&ask, 400);
        if backwards {
            parts.reverse();
        }
        parts.iter().for_each(|part| rig.send("wan", part));
        rig.settle();
        rig.advance(Nanos::millis(2));
        let answers = whole_of(&ipv4(&mut rig, "wan"));
        assert_eq!(answers.len(), 1, "backwards: {backwards}; {:?}", rig.report().ledger.drops().collect::<Vec<_>>());
        assert_eq!(answers[0][8..], ask[42..]);
    }
}

/// The payloads of packets, reassembled from fragments in any order.
fn whole_of(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut packets: BTreeMap<u16, Vec<(usize, Vec<u8>)>> = BTreeMap::new();
    for frame in frames {
        let ip = Ipv4::parse(&frame[14..]).unwrap();
        let parts = packets.entry(ip.header.identification()).or_default();
        parts.push((ip.header.fragment_offset(), ip.payload.to_vec()));
    }
    let put = |mut parts: Vec<(usize, Vec<u8>)>| {
        parts.sort();
        parts.into_iter().flat_map(|(_, payload)| payload).collect()
    };
    packets.into_values().map(put).collect()
}

/// A flood of fragments without a first one, from one sender or many: fragments in order still pass, and few wait.
#[test]
fn flood_of_fragments_without_first_is_bounded_and_delays_no_packet() {
    for spoofed in [false, true] {
        let way = directions().into_iter().nth(1).unwrap().1;
        let mut rig = way.start(Layout::Three, &[]);
        let mut chance = Chance(11);
        for round in 0..500 {
            for _ in 0..20 {
                let from = if spoofed { Ipv4Addr::from(0x0808_0000 | chance.below(1 << 16) as u32) } else { PEER };
                let sent = Sent::new(WAN, UDP, (from, 53), (OURS, chance.next() as u16));
                let sent = Sent { identification: 1000 + chance.below(60_000) as u16, payload: vec![0; 100], ..sent };
                rig.send("wan", &fragments(&sent.frame(), 48)[1]);
            }
            fragments(&way.packet(round, 1200), 400).iter().for_each(|part| rig.send("wan", part));
            rig.settle();
            assert_eq!(ipv4(&mut rig, "lan").len(), 3, "round {round}, spoofed: {spoofed}");
            let held = rig.report().held_packets;
            assert!(held <= if spoofed { 256 } else { 64 }, "{held} wait");
        }
        let ledger = rig.report().ledger.clone();
        assert!(ledger.dropped_for(DropReason::FragmentLimit) > 9000, "{ledger:?}");
    }
}
