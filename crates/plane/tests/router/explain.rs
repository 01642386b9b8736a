//! `explain` predicts what the router does: each random frame goes through the dry run first, then through the router.

use crate::nat_packets;
use crate::random::{Chance, frame, mend, seeds};
use packet::event::{Event, EventInterests, Fate, Observer};
use packet::{DropReason, Meta};
use plane::explain::{ExpectedFate, ExplainContext, ExplainStep, Explanation, explain};
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use units::{Instant, Mac, Nanos, PortId};

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.254/24", "2001:db8::fe/64"]
[port.lan.vlan.100]
address = ["203.0.113.254/24", "2001:db8:3::fe/64"]
reverse_path = "strict"
[port.wan]
device = "memory:wan"
reverse_path = "loose"
mac = "02:00:00:00:00:02"
address = ["198.51.100.254/24", "2001:db8:2::fe/64"]
mtu = 1280
[port.wan.vlan.7]
address = ["10.7.0.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "2001:db8:2::9"
mac = "02:00:00:00:00:99"
port = "wan"
[[route]]
to = "0.0.0.0/0"
via = "198.51.100.9"
[[route]]
to = "::/0"
via = "2001:db8:2::9"
[[route]]
to = "198.18.0.0/16"
blackhole = true
[[route]]
to = "198.19.0.0/16"
unreachable = true
[[route]]
to = "10.0.0.0/8"
via = "10.7.0.9"
[[multicast]]
group = "239.9.9.9"
from = "lan"
to = ["wan", "lan.100", "wan.7"]
[[path]]
name = "voice"
match = "udp dport 5060"
[[path]]
name = "lan-tcp"
match = "iif lan tcp"
[[path]]
name = "six"
match = "ip6 saddr 2001:db8::/64"
"#;

/// A router with translation and a filter behind it. Its bounds are small enough to be reached.
const TRANSLATING: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.168.1.1/24"]
mtu = 900
[port.lan.vlan.100]
address = ["192.168.2.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["203.0.113.1/24"]
mtu = 800
[[neighbour]]
address = "192.168.1.7"
mac = "02:00:00:00:00:17"
port = "lan"
[[neighbour]]
address = "192.168.1.8"
mac = "02:00:00:00:00:18"
port = "lan"
[[neighbour]]
address = "203.0.113.9"
mac = "02:00:00:00:00:29"
port = "wan"
[[route]]
to = "0.0.0.0/0"
via = "203.0.113.9"
[[route]]
to = "198.18.0.0/16"
blackhole = true
[[route]]
to = "10.98.0.0/16"
unreachable = true
[[path]]
name = "home"
match = "any"
functions = ["nat", "filter", "ip"]
filter = ["tcp dport 22 reject", "udp dport 54 drop", "iif wan ip saddr 198.51.100.66 reject", "ct state established accept"]
[nat]
outside = "wan"
connections = 48
per_host = 4
ports = "2000-2007"
forward = ["udp 8080 to 192.168.1.8:80", "tcp 8080 to 192.168.1.8:80", "udp 8081 to 192.168.1.99:80", "tcp 8083 to 10.98.0.1:80", "tcp 8084 to 192.168.1.8:22"]
"#;

const LAN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const WAN: [u8; 6] = [2, 0, 0, 0, 0, 2];

type End = (Fate, Vec<u8>);
type Ends = Vec<End>;

/// The fates of received packets, and the packets sent, in order.
#[derive(Clone, Default)]
struct Fates(Arc<Mutex<Ends>>);

impl Observer for Fates {
    fn event(&mut self, _now: Instant, event: &Event<'_>) {
        if let Event::Packet { frame, meta, fate, .. } = event
            && meta.flags & Meta::GENERATED == 0
        {
            self.0.lock().unwrap().push((*fate, frame.to_vec()));
        }
    }
    fn interests(&self) -> EventInterests {
        EventInterests { packets: true, stages: false, arrivals: false }
    }
}

fn rig(layout: Layout) -> (Rig, Fates) {
    running(layout, CONFIG)
}

fn running(layout: Layout, config: &str) -> (Rig, Fates) {
    let fates = Fates::default();
    let mut rig = Rig::new(4096, layout, Box::new(fates.clone()));
    rig.apply(config).unwrap();
    rig.settle();
    forget(&mut rig);
    (rig, fates)
}

fn forget(rig: &mut Rig) {
    for wire in ["lan", "wan"] {
        rig.received(wire);
    }
}

fn asked(rig: &Rig, wire: &str, frame: &[u8]) -> Explanation {
    let reports = [rig.report()];
    let (snapshot, tables) = (rig.router.snapshot(), rig.router.tables());
    let question =
        ExplainContext { snapshot, tables, reports: &reports, functions: rig.router.functions(), now: rig.now };
    explain(&question, port(rig, wire), frame)
}

fn port(rig: &Rig, name: &str) -> PortId {
    let ports = rig.router.snapshot().ports.iter();
    PortId::at(ports.map(|port| port.as_ref().map(|port| &*port.name)).position(|port| port == Some(name)).unwrap())
}

/// Gives a frame to the dry run and to the router, compares, and returns the prediction.
fn compare(rig: &mut Rig, fates: &Fates, wire: &str, frame: &[u8]) -> ExpectedFate {
    let before = (rig.report().ledger.clone(), rig.router.tables().len4(), rig.router.tables().adjacencies_in_use());
    let explanation = asked(rig, wire, frame);
    let after = (rig.report().ledger.clone(), rig.router.tables().len4(), rig.router.tables().adjacencies_in_use());
    assert_eq!(before, after, "a dry run leaves no trace");
    fates.0.lock().unwrap().clear();
    let held = rig.report().held_packets;
    rig.send(wire, frame);
    rig.settle();
    let happened = std::mem::take(&mut *fates.0.lock().unwrap());
    let waits = rig.report().held_packets > held;
    let agrees = match (&explanation.expected, &happened[..]) {
        (ExpectedFate::Sent { port, frame, .. }, [(Fate::Sent(left), sent)]) => left == port && sent == frame,
        (ExpectedFate::Consumed, [(Fate::Consumed, _)]) => true,
        (ExpectedFate::Dropped(expected), [(Fate::Dropped(reason), _)]) => expected == reason,
        (ExpectedFate::Replicated(copies), happened) => are_these(copies, happened),
        (ExpectedFate::AwaitsNeighbour { .. } | ExpectedFate::Reassembling, []) => waits,
        _ => false,
    };
    assert!(agrees, "{frame:02x?} by {wire}\n{explanation:#?}\nbut {happened:02x?}");
    explanation.expected
}

/// True if the packet was consumed, and each of its copies met the predicted fate.
fn are_these(copies: &[ExpectedFate], happened: &[End]) -> bool {
    let mut left = happened.to_vec();
    let mut take = |wanted: &dyn Fn(&End) -> bool| {
        let found = left.iter().position(wanted);
        found.map(|at| left.remove(at)).is_some()
    };
    let each = copies.iter().all(|copy| match copy {
        ExpectedFate::Sent { port, frame, .. } => take(&|(fate, sent)| *fate == Fate::Sent(*port) && sent == frame),
        ExpectedFate::Dropped(reason) => take(&|(fate, _)| *fate == Fate::Dropped(*reason)),
        _ => false,
    });
    each && take(&|(fate, _)| *fate == Fate::Consumed) && left.is_empty()
}

/// A generator of plausible frames for a MAC address.
type Make = fn(&str, [u8; 6], &mut Chance) -> Vec<u8>;

fn compare_random(layout: Layout, (config, make): (&str, Make), frames: usize, seed: u64) -> BTreeMap<String, usize> {
    let (mut rig, fates) = running(layout, config);
    let (seeds, mut chance, mut seen) = (seeds(), Chance(seed), BTreeMap::new());
    for _ in 0..frames {
        let often = if config == CONFIG { 8 } else { 2 };
        let (wire, station) = if chance.one_in(often) { ("wan", WAN) } else { ("lan", LAN) };
        let frame = match chance.below(3) {
            0 => make(wire, station, &mut chance),
            1 if config != CONFIG => make(wire, station, &mut chance),
            _ => frame(station, &seeds, &mut chance),
        };
        let expected = compare(&mut rig, &fates, wire, &frame);
        let kind = match expected {
            ExpectedFate::Sent { .. } => "sent".to_owned(),
            ExpectedFate::Consumed => "consumed".to_owned(),
            ExpectedFate::Replicated(_) => "copied".to_owned(),
            ExpectedFate::Dropped(reason) => reason.name().to_owned(),
            ExpectedFate::AwaitsNeighbour { .. } => "waits".to_owned(),
            ExpectedFate::Reassembling => {
                // The fate of the next fragment depends on this one, so let this one expire first.
                rig.advance(Nanos::secs(70));
                "collected".to_owned()
            }
        };
        *seen.entry(kind).or_default() += 1;
        // Long enough that no rate limit is exhausted and no neighbour queue gets full.
        rig.advance(Nanos::millis(200 + chance.next() % 200));
        forget(&mut rig);
    }
    seen
}

#[test]
fn explain_predicts_the_fate_of_random_frames() {
    let plain: (&str, Make) = (CONFIG, |_, station, chance| plausible(station, chance));
    let mut seen = compare_random(Layout::Three, plain, 8000, 1);
    for (kind, times) in compare_random(Layout::One, plain, 2000, 2) {
        *seen.entry(kind).or_default() += times;
    }
    for kind in
        ["sent", "consumed", "waits", "collected", "copied", "blackhole", "unreachable", "too_big", "neighbour_failed"]
    {
        assert!(seen.get(kind).is_some_and(|&times| times > 10), "hardly any was {kind}: {seen:?}");
    }
    assert!(seen.len() > 25, "only {seen:?}");
}

/// Packets arrive from either side; connections, ports and hosts reach their bounds.
#[test]
fn explain_predicts_the_fate_of_random_frames_behind_translation() {
    let mut seen = compare_random(Layout::Three, (TRANSLATING, translatable), 8000, 3);
    for (kind, times) in compare_random(Layout::Two, (TRANSLATING, translatable), 2000, 4) {
        *seen.entry(kind).or_default() += times;
    }
    let kinds =
        ["sent", "consumed", "waits", "collected", "rejected", "filtered", "ttl_expired", "too_big", "nat_host_limit"];
    for kind in kinds.iter().chain(&["local_port", "unreachable", "neighbour_failed", "nat_unknown"]) {
        assert!(seen.get(*kind).is_some_and(|&times| times > 5), "hardly any was {kind}: {seen:?}");
    }
}

/// A plausible packet on either side of a translator, or a fragment of one.
fn translatable(wire: &str, station: [u8; 6], chance: &mut Chance) -> Vec<u8> {
    let inside = [[192, 168, 1, 7], [192, 168, 1, 8], [192, 168, 1, 99], [192, 168, 2, 5], [10, 98, 0, 1]];
    let outside = [[198, 51, 100, 5], [198, 51, 100, 66], [203, 0, 113, 9], [203, 0, 113, 77], [198, 18, 0, 1]];
    let ours = [[203, 0, 113, 1], [203, 0, 113, 1], [192, 168, 1, 1]];
    let pick = |chance: &mut Chance, of: &[[u8; 4]]| Ipv4Addr::from(of[chance.below(of.len())]);
    let protocol = [nat_packets::UDP, nat_packets::TCP, nat_packets::ICMP][chance.below(3)];
    let peers = [53, 54, 22, 80];
    let given = 2000 + chance.below(8) as u16;
    let (from, to) = if wire == "lan" {
        let to = if chance.one_in(3) { pick(chance, &ours) } else { pick(chance, &outside) };
        let port = if chance.one_in(2) { peers[chance.below(4)] } else { 8080 + chance.below(5) as u16 };
        ((pick(chance, &inside), 2000 + chance.below(30) as u16), (to, port))
    } else {
        let to = if chance.one_in(5) { pick(chance, &inside) } else { pick(chance, &ours) };
        let port = if chance.one_in(3) { 8080 + chance.below(5) as u16 } else { given };
        ((pick(chance, &outside), peers[chance.below(4)]), (to, port))
    };
    let (from, to) = match (protocol, wire) {
        (nat_packets::ICMP, "lan") => (from, (to.0, 0)),
        (nat_packets::ICMP, _) => ((from.0, 0), to),
        _ => (from, to),
    };
    let asks = wire == "lan" || chance.one_in(3);
    let byte = match protocol {
        nat_packets::ICMP => [packet::wire::icmp4::ECHO_REPLY, packet::wire::icmp4::ECHO_REQUEST][usize::from(asks)],
        _ => [0x12, 2, 0x10, 4, 0x11][chance.below(5)],
    };
    let link = [&station[..], &[2, 0, 0, 0, 0, if wire == "lan" { 0x17 } else { 0x29 }]].concat();
    let sent = nat_packets::Sent::new(link.try_into().unwrap(), protocol, from, to);
    let length = if chance.one_in(3) { 700 + chance.below(800) } else { chance.below(100) };
    let sent = nat_packets::Sent {
        byte,
        ttl: [1, 2, 64, 64][chance.below(4)],
        dont_fragment: chance.one_in(2),
        identification: chance.below(4) as u16,
        payload: vec![0x42; length],
        ..sent
    };
    let frame = sent.frame();
    if chance.one_in(40) && sent.payload.len() > 40 {
        let parts = nat_packets::fragments(&frame, frame.len() / 2);
        return parts[chance.below(parts.len())].clone();
    }
    frame
}

/// The router answers a ping of its outside address, although its path translates.
#[test]
fn a_ping_of_the_outside_address_is_explained_as_answered() {
    let (mut rig, fates) = running(Layout::Three, TRANSLATING);
    let link = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0x29];
    let ping =
        nat_packets::Sent::new(link, nat_packets::ICMP, ([198, 51, 100, 5].into(), 77), ([203, 0, 113, 1].into(), 0))
            .frame();
    let explanation = asked(&rig, "wan", &ping);
    let answers = explanation.steps.iter().filter(|step| matches!(step, ExplainStep::Reply { .. })).count();
    assert_eq!(answers, 1, "{:#?}", explanation.steps);
    assert_eq!(compare(&mut rig, &fates, "wan", &ping), ExpectedFate::Consumed);
}

/// A plausible UDP packet, to a destination that the configuration distinguishes.
fn plausible(station: [u8; 6], chance: &mut Chance) -> Vec<u8> {
    const WHERE: [[u8; 4]; 11] = [
        [8, 8, 8, 8],
        [10, 9, 9, 9],
        [192, 0, 2, 254],
        [192, 0, 2, 9],
        [198, 18, 0, 1],
        [198, 19, 0, 1],
        [198, 51, 100, 77],
        [198, 51, 100, 255],
        [203, 0, 113, 5],
        [224, 0, 0, 1],
        [239, 9, 9, 9],
    ];
    let length = 60 + chance.below(1400);
    let ports = (1000, [53, 5060][chance.below(2)]);
    let mut frame = udp(WHERE[chance.below(WHERE.len())], ports, [1, 2, 64][chance.below(3)], length);
    frame[..6].copy_from_slice(&station);
    if chance.one_in(2) {
        frame[20] = if chance.one_in(4) { 0x20 } else { 0 };
        mend(&mut frame);
    }
    frame
}

fn udp(to: [u8; 4], ports: (u16, u16), ttl: u8, length: usize) -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 0x11]), Mac(LAN));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::from(to));
    UdpFrame { link, network, ports, ttl, length }.frame(&[])
}

#[test]
fn explain_predicts_each_kind_of_packet() {
    let (mut rig, fates) = rig(Layout::Three);
    let drop = ExpectedFate::Dropped;
    for (frame, expected) in [
        (udp([198, 18, 0, 1], (1, 2), 64, 60), drop(DropReason::Blackhole)),
        (udp([198, 19, 0, 1], (1, 2), 64, 60), drop(DropReason::Unreachable)),
        (udp([8, 8, 8, 8], (1, 2), 1, 60), drop(DropReason::TtlExpired)),
        (udp([8, 8, 8, 8], (1, 2), 64, 1400), drop(DropReason::TooBig)),
        (udp([192, 0, 2, 255], (1, 2), 64, 60), drop(DropReason::Broadcast)),
    ] {
        assert_eq!(compare(&mut rig, &fates, "lan", &frame), expected);
    }
    let waits = compare(&mut rig, &fates, "lan", &udp([10, 9, 9, 9], (1, 2), 64, 60));
    assert!(
        matches!(waits, ExpectedFate::AwaitsNeighbour { address, .. } if address.to_string() == "10.7.0.9"),
        "{waits:?}"
    );
    let mut cut = udp([8, 8, 8, 8], (1, 2), 64, 1400);
    // Clear DF.
    cut[20] = 0;
    mend(&mut cut);
    let explanation = asked(&rig, "lan", &cut);
    let fragments = explanation.steps.iter().filter(|step| matches!(step, ExplainStep::Fragment { .. })).count();
    assert_eq!((fragments, explanation.expected), (2, ExpectedFate::Consumed));
}

#[test]
fn explain_shows_the_neighbour_state_of_the_router() {
    let (mut rig, fates) = rig(Layout::Three);
    let to_neighbour = udp([198, 51, 100, 77], (1, 2), 64, 60);
    assert!(matches!(compare(&mut rig, &fates, "lan", &to_neighbour), ExpectedFate::AwaitsNeighbour { .. }));
    rig.advance(Nanos::millis(3500));
    assert_eq!(compare(&mut rig, &fates, "lan", &to_neighbour), ExpectedFate::Dropped(DropReason::NeighbourFailed));
    // The neighbour sends an ARP request for the router, which learns it as stale.
    let mut ask = vec![0xff; 6];
    ask.extend([2, 0, 0, 0, 0, 0x77, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 0x77, 198, 51, 100, 77]);
    ask.extend([0, 0, 0, 0, 0, 0, 198, 51, 100, 254]);
    ask.resize(60, 0);
    rig.advance(Nanos::secs(5));
    assert_eq!(compare(&mut rig, &fates, "wan", &ask), ExpectedFate::Consumed);
    let sent = compare(&mut rig, &fates, "lan", &to_neighbour);
    assert!(matches!(&sent, ExpectedFate::Sent { frame, .. } if frame[..6] == [2, 0, 0, 0, 0, 0x77]), "{sent:?}");
}

#[test]
fn explain_lists_reasons_in_the_order_of_the_checks() {
    let (rig, _) = rig(Layout::Three);
    let explanation = asked(&rig, "lan", &udp([8, 8, 8, 8], (9, 5060), 64, 200));
    let name = |step: &ExplainStep| {
        let text = format!("{step:?}");
        let end = text.find([' ', '{']).unwrap_or(text.len());
        text[..end].trim_end_matches('(').to_owned()
    };
    let steps: Vec<String> = explanation.steps.iter().map(name).collect();
    expect_test::expect![[r#"
        Found(LinkDestination
        Found(Interface
        Found(Protocol
        Found(Header
        Found(Addresses)
        Found(Lookup
        Routes([RouteReport
        Neighbour
        Found(HopLimit
        Found(Mtu
        Found(NextHop
        Found(Rule
        Found(Path(3))
        Function"#]]
    .assert_eq(&steps.join("\n"));
    assert_eq!(explanation.path, Some(3));
}
