//! What is explained is what happens: random frames are put to the dry run first and to the router then.

mod random;

use packet::{DropReason, Meta};
use plane::event::{Event, Fate, Observer, Wants};
use plane::explain::{Expected, Explanation, Question, Step, explain};
use plane::rig::{Rig, Udp};
use plane::snapshot::Layout;
use random::{Chance, frame, mend, seeds};
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
[port.wan]
device = "memory:wan"
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

const LAN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const WAN: [u8; 6] = [2, 0, 0, 0, 0, 2];

type End = (Fate, Vec<u8>);
type Ends = Vec<End>;

/// The fates of packets that came in, and what left, in their order.
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
    fn wants(&self) -> Wants {
        Wants { packets: true, stages: false }
    }
}

fn rig(layout: Layout) -> (Rig, Fates) {
    let fates = Fates::default();
    let mut rig = Rig::new(4096, layout, Box::new(fates.clone()));
    rig.apply(CONFIG).unwrap();
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
    let question = Question { snapshot, tables, reports: &reports, now: rig.now };
    explain(&question, port(rig, wire), frame)
}

fn port(rig: &Rig, name: &str) -> PortId {
    let ports = rig.router.snapshot().ports.iter();
    PortId::at(ports.map(|port| port.as_ref().map(|port| &*port.name)).position(|port| port == Some(name)).unwrap())
}

/// Puts a frame to the dry run and to the router; answers what is expected.
fn compare(rig: &mut Rig, fates: &Fates, wire: &str, frame: &[u8]) -> Expected {
    let before = (rig.report().ledger.clone(), rig.router.tables().len4(), rig.router.tables().adjacencies_held());
    let explanation = asked(rig, wire, frame);
    let after = (rig.report().ledger.clone(), rig.router.tables().len4(), rig.router.tables().adjacencies_held());
    assert_eq!(before, after, "a dry run leaves no trace");
    fates.0.lock().unwrap().clear();
    let held = rig.report().held;
    rig.send(wire, frame);
    rig.settle();
    let happened = std::mem::take(&mut *fates.0.lock().unwrap());
    let waits = rig.report().held > held;
    let agrees = match (&explanation.expected, &happened[..]) {
        (Expected::Sent { port, frame, .. }, [(Fate::Sent(left), sent)]) => left == port && sent == frame,
        (Expected::Consumed, [(Fate::Consumed, _)]) => true,
        (Expected::Dropped(expected), [(Fate::Dropped(reason), _)]) => expected == reason,
        (Expected::Copied(copies), happened) => are_these(copies, happened),
        (Expected::Waits { .. } | Expected::Collected, []) => waits,
        _ => false,
    };
    assert!(agrees, "{frame:02x?} by {wire}\n{explanation:#?}\nbut {happened:02x?}");
    explanation.expected
}

/// Whether the packet was consumed, and each of its copies had the fate that was foreseen for it.
fn are_these(copies: &[Expected], happened: &[End]) -> bool {
    let mut left = happened.to_vec();
    let mut take = |wanted: &dyn Fn(&End) -> bool| {
        let found = left.iter().position(wanted);
        found.map(|at| left.remove(at)).is_some()
    };
    let each = copies.iter().all(|copy| match copy {
        Expected::Sent { port, frame, .. } => take(&|(fate, sent)| *fate == Fate::Sent(*port) && sent == frame),
        Expected::Dropped(reason) => take(&|(fate, _)| *fate == Fate::Dropped(*reason)),
        _ => false,
    });
    each && take(&|(fate, _)| *fate == Fate::Consumed) && left.is_empty()
}

fn compare_random(layout: Layout, frames: usize, seed: u64) -> BTreeMap<String, usize> {
    let (mut rig, fates) = rig(layout);
    let (seeds, mut chance, mut seen) = (seeds(), Chance(seed), BTreeMap::new());
    for _ in 0..frames {
        let (wire, station) = if chance.one_in(8) { ("wan", WAN) } else { ("lan", LAN) };
        let frame = match chance.below(3) {
            0 => plausible(station, &mut chance),
            _ => frame(station, &seeds, &mut chance),
        };
        let expected = compare(&mut rig, &fates, wire, &frame);
        let kind = match expected {
            Expected::Sent { .. } => "sent".to_owned(),
            Expected::Consumed => "consumed".to_owned(),
            Expected::Copied(_) => "copied".to_owned(),
            Expected::Dropped(reason) => reason.name().to_owned(),
            Expected::Waits { .. } => "waits".to_owned(),
            Expected::Collected => {
                // What becomes of the next fragment depends on this one: its time runs out first.
                rig.pass(Nanos::secs(70));
                "collected".to_owned()
            }
        };
        *seen.entry(kind).or_default() += 1;
        // Long enough that no rate limit is used up and no neighbour's queue gets full.
        rig.pass(Nanos::millis(200 + chance.next() % 200));
        forget(&mut rig);
    }
    seen
}

#[test]
fn what_is_explained_is_what_the_router_does() {
    let mut seen = compare_random(Layout::Three, 8000, 1);
    for (kind, times) in compare_random(Layout::One, 2000, 2) {
        *seen.entry(kind).or_default() += times;
    }
    for kind in
        ["sent", "consumed", "waits", "collected", "copied", "blackhole", "unreachable", "too_big", "neighbour_failed"]
    {
        assert!(seen.get(kind).is_some_and(|&times| times > 10), "hardly any was {kind}: {seen:?}");
    }
    assert!(seen.len() > 25, "only {seen:?}");
}

/// A UDP packet as there could be, to somewhere that matters here.
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
    Udp { link, network, ports, ttl, length }.frame(&[])
}

#[test]
fn each_kind_of_packet_is_explained_as_it_goes() {
    let (mut rig, fates) = rig(Layout::Three);
    let drop = Expected::Dropped;
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
    assert!(matches!(waits, Expected::Waits { address, .. } if address.to_string() == "10.7.0.9"), "{waits:?}");
    let mut cut = udp([8, 8, 8, 8], (1, 2), 64, 1400);
    // Without DF.
    cut[20] = 0;
    mend(&mut cut);
    let explanation = asked(&rig, "lan", &cut);
    let fragments = explanation.steps.iter().filter(|step| matches!(step, Step::Fragment { .. })).count();
    assert_eq!((fragments, explanation.expected), (2, Expected::Consumed));
}

#[test]
fn a_neighbour_is_in_the_state_the_router_knows_it_in() {
    let (mut rig, fates) = rig(Layout::Three);
    let to_neighbour = udp([198, 51, 100, 77], (1, 2), 64, 60);
    assert!(matches!(compare(&mut rig, &fates, "lan", &to_neighbour), Expected::Waits { .. }));
    rig.pass(Nanos::millis(3500));
    assert_eq!(compare(&mut rig, &fates, "lan", &to_neighbour), Expected::Dropped(DropReason::NeighbourFailed));
    // It asks for us, and is known from then on without having been asked: stale.
    let mut ask = vec![0xff; 6];
    ask.extend([2, 0, 0, 0, 0, 0x77, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 0x77, 198, 51, 100, 77]);
    ask.extend([0, 0, 0, 0, 0, 0, 198, 51, 100, 254]);
    ask.resize(60, 0);
    rig.pass(Nanos::secs(5));
    assert_eq!(compare(&mut rig, &fates, "wan", &ask), Expected::Consumed);
    let sent = compare(&mut rig, &fates, "lan", &to_neighbour);
    assert!(matches!(&sent, Expected::Sent { frame, .. } if frame[..6] == [2, 0, 0, 0, 0, 0x77]), "{sent:?}");
}

#[test]
fn the_reasons_come_in_the_order_in_which_the_router_finds_them() {
    let (rig, _) = rig(Layout::Three);
    let explanation = asked(&rig, "lan", &udp([8, 8, 8, 8], (9, 5060), 64, 200));
    let name = |step: &Step| {
        let text = format!("{step:?}");
        let end = text.find([' ', '{']).unwrap_or(text.len());
        text[..end].trim_end_matches('(').to_owned()
    };
    let steps: Vec<String> = explanation.steps.iter().map(name).collect();
    expect_test::expect![[r#"
        Found(Station
        Found(Interface
        Found(Carries
        Found(Header
        Found(Addresses)
        Found(Lookup
        Routes([RouteReport
        Neighbour
        Found(Hops
        Found(Fits
        Found(NextHop
        Found(Rule
        Found(Path(3))
        Function"#]]
    .assert_eq(&steps.join("\n"));
    assert_eq!(explanation.path, Some(3));
}
