//! Shares of a port and circuits of subscribers: through the whole router, with one worker and with several.

use plan::{ShareChange, share_batch};
use plane::rig::{MemoryWires, Rig, UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use units::{Mac, Nanos};

/// A router between an access network, `lan`, and the Internet, `wan`.
const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
scheme = "share(rate=100mbit, leaves=64)"
shares = ["gold rate 20mbit", "voice in gold rate 5mbit priority 0"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "share(rate=100mbit, leaves=64)"
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:99"
port = "lan"
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.9"
[subscribers]
inside = ["lan"]
outside = ["wan"]
file = "/subscribers.csv"
"#;

/// Two subscribers at one site.
const TABLE: &str = "\
site,circuit,parent,address,down,up,down_min,up_min
north,,,,40mbit,40mbit,,
,alice,north,10.0.0.1 10.0.1.0/24,30mbit,5mbit,1mbit,1mbit
,bob,north,10.0.0.2,10mbit,10mbit,,
";

fn read(_: &str) -> io::Result<Vec<u8>> {
    Ok(TABLE.as_bytes().to_vec())
}

fn wires() -> MemoryWires {
    let mut wires = MemoryWires::default();
    wires.read_file = Some(read);
    wires
}

/// A packet of 1000 bytes from the Internet to this address, or in the other direction.
pub(crate) fn frame(subscriber: Ipv4Addr, down: bool, port: u16) -> Vec<u8> {
    let far = Ipv4Addr::new(198, 51, 100, 9);
    let (link, network) = if down {
        ((Mac([2, 0, 0, 0, 0, 0x22]), Mac([2, 0, 0, 0, 0, 2])), (far, subscriber))
    } else {
        ((Mac([2, 0, 0, 0, 0, 0x99]), Mac([2, 0, 0, 0, 0, 1])), (subscriber, far))
    };
    UdpFrame { link, network, ports: (port, 9), ttl: 64, length: 1000 }.frame(&[])
}

pub(crate) const ALICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const BOB: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(crate) const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);

/// The bytes that a share has sent at a port.
pub(crate) fn sent(router: &plane::Router, port: &str) -> BTreeMap<String, u64> {
    let shares = router.shares(port).expect("the port has shares");
    shares.into_iter().map(|share| (share.name.to_string(), share.counts.bytes.get())).collect()
}

pub(crate) fn changes(text: &str) -> Vec<ShareChange> {
    let batch = share_batch(text, "test").unwrap_or_else(|wrong| panic!("{wrong}"));
    batch.changes.into_iter().map(|(_, change)| change).collect()
}

/// Megabits per second of bytes in a time.
pub(crate) fn rate(bytes: u64, time: Nanos) -> f64 {
    bytes as f64 * 8e-6 / time.as_secs_f64()
}

#[test]
fn subscribers_get_their_rates_in_both_directions() {
    let mut rig = Rig::running_with(wires(), 8192, Layout::Three, CONFIG);
    let time = Nanos::millis(500);
    let step = Nanos::micros(250);
    for _ in 0..time.get() / step.get() {
        // 64 Mbit/s to and from each, in several flows.
        for port in 0..2 {
            for subscriber in [ALICE, BOB] {
                rig.send("wan", &frame(subscriber, true, port));
                rig.send("lan", &frame(subscriber, false, port));
            }
        }
        rig.advance(step);
        drop((rig.received("lan"), rig.received("wan")));
    }
    let (down, up) = (sent(&rig.router, "lan"), sent(&rig.router, "wan"));
    // A burst of 4 ms at the ceiling is sent at once, and packets wait at the end.
    let near = |bytes: u64, expected: f64| (rate(bytes, time) - expected).abs() < 0.02 * expected + 0.3;
    assert!(near(down["alice"], 30.0) && near(down["bob"], 10.0) && near(down["north"], 40.0), "{down:?}");
    assert!(near(up["alice"], 5.0) && near(up["bob"], 10.0), "{up:?}");
    rig.report();
}

#[test]
fn packets_without_a_circuit_are_not_held_by_those_of_subscribers() {
    let mut rig = Rig::running_with(wires(), 4096, Layout::One, CONFIG);
    for port in 0..200 {
        rig.send("wan", &frame(BOB, true, port));
    }
    rig.send("wan", &frame(STRANGER, true, 9));
    rig.send("wan", &frame(Ipv4Addr::new(10, 0, 1, 77), true, 9));
    rig.advance(Nanos::millis(1));
    let destinations: Vec<[u8; 4]> =
        rig.received("lan").iter().map(|frame| frame[30..34].try_into().expect("an IPv4 header")).collect();
    assert!(destinations.contains(&STRANGER.octets()), "the default leaf has the rate of the link");
    assert!(destinations.contains(&[10, 0, 1, 77]), "a prefix of alice");
    let waiting = rig.router.shares("lan").expect("shares").into_iter().find(|s| s.name.as_str() == "bob");
    assert!(waiting.expect("bob").counts.waiting.packets > 100);
}

#[test]
fn rules_of_paths_select_shares_before_circuits() {
    let calls = "[[path]]\nname = \"calls\"\nmatch = \"udp dport 9 udp sport 5060\"\nlink_share = \"voice\"\n";
    let other = "[[path]]\nname = \"other\"\nmatch = \"any\"\n";
    let config = format!("{CONFIG}{calls}{other}");
    let mut rig = Rig::running_with(wires(), 4096, Layout::Three, &config);
    let counts = |rig: &mut Rig| {
        for port in [5060, 7000, 8000] {
            rig.send("wan", &frame(ALICE, true, port));
        }
        rig.advance(Nanos::millis(5));
        assert_eq!(rig.received("lan").len(), 3);
        let sent = sent(&rig.router, "lan");
        ["alice", "voice", "gold"].map(|name| sent[name] / 1000)
    };
    // A share counts the packets of those below it.
    assert_eq!(counts(&mut rig), [2, 1, 1]);
    let rule = |share: &str| {
        let matching = plan::Match::parse("udp sport 7000").expect("it is a match");
        let share = Some(share.parse().expect("it is a name"));
        plan::RuleText::Path(plan::PathRule { matching, path: "other".into(), class: Some(3), share })
    };
    let (_, _, list) = rig.router.rule_lists().remove(0);
    rig.router.edit_shares("lan", &changes("add extra in gold")).expect("there is room");
    let listed = rig.router.listed_rule(&rule("extra")).expect("there is such a share");
    assert_eq!(&*listed.text, "udp sport 7000 path other class 3 share extra");
    list.edit([classifier::RuleEdit::Add(classifier::Place::Before(1), listed)]).expect("there is room");
    assert_eq!(counts(&mut rig), [3, 2, 3]);
    // The packets of a share that was removed use the default leaf.
    rig.router.edit_shares("lan", &changes("remove extra")).expect("an edit has added it");
    let before = sent(&rig.router, "lan")["alice"];
    assert_eq!(rig.router.listed_rule(&rule("extra")).expect_err("it was removed").0, "no port has a share 'extra'");
    rig.send("wan", &frame(ALICE, true, 7000));
    rig.advance(Nanos::millis(5));
    assert_eq!((rig.received("lan").len(), sent(&rig.router, "lan")["alice"]), (1, before));
    let wrong = config.replace("link_share = \"voice\"", "link_share = \"voise\"");
    let plan = plan::check(&wrong, "test.toml", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let Err(errors) = rig.router.prepare(&plan, &mut wires()) else { panic!("the path names no share") };
    assert_eq!(errors[0].to_string(), "path calls: no port has a share 'voise'; did you mean 'voice'?");
}

#[test]
fn edits_change_shares_at_once_and_refused_batches_change_nothing() {
    let mut rig = Rig::running_with(wires(), 4096, Layout::Three, CONFIG);
    let names = |rig: &Rig| sent(&rig.router, "lan").into_keys().collect::<Vec<_>>();
    let before = names(&rig);
    assert_eq!(before, ["alice", "bob", "gold", "north", "voice"]);
    let wrong = changes("add carol in gold ceiling 5mbit\nset alice ceiling 1mbit\nadd dave in nowhere\n");
    let (position, reason, _) = rig.router.edit_shares("lan", &wrong).expect_err("there is no share 'nowhere'");
    assert_eq!((position, reason.as_str()), (2, "there is no share 'nowhere'"));
    assert_eq!(names(&rig), before);
    let (_, reason, hint) = rig.router.edit_shares("lan", &changes("remove bob")).expect_err("it is in the file");
    assert!(reason.contains("[subscribers]") && !hint.is_empty(), "{reason}");
    let done =
        rig.router.edit_shares("lan", &changes("set bob ceiling 2mbit\nadd carol in north ceiling 1mbit")).unwrap();
    assert!(!done.is_done(), "the worker has not run yet");
    let time = Nanos::millis(400);
    for _ in 0..400 {
        (0..4).for_each(|port| rig.send("wan", &frame(BOB, true, port)));
        rig.advance(Nanos::millis(1));
        drop(rig.received("lan"));
    }
    assert!(done.is_done());
    let bob = rate(sent(&rig.router, "lan")["bob"], time);
    assert!((1.9..2.2).contains(&bob), "{bob} Mbit/s");
    rig.router.edit_shares("lan", &changes("remove carol")).expect("the edit has added it");
    assert_eq!(names(&rig), before);
}

#[test]
fn guarantee_of_a_site_follows_those_below_it() {
    let mut rig = Rig::running_with(wires(), 8192, Layout::Three, CONFIG);
    // The other shares use all the excess, so the site sends at the rate guaranteed below it.
    rig.router.edit_shares("lan", &changes("set north priority 7")).unwrap();
    rig.router.edit_shares("lan", &changes("set alice rate 20mbit")).unwrap();
    let step = Nanos::micros(250);
    let measure = |rig: &mut Rig, time: Nanos| {
        let before = sent(&rig.router, "lan")["alice"];
        for _ in 0..time.get() / step.get() {
            (0..2).for_each(|port| rig.send("wan", &frame(ALICE, true, port)));
            (0..6).for_each(|port| rig.send("wan", &frame(STRANGER, true, port)));
            rig.advance(step);
            drop(rig.received("lan"));
        }
        rate(sent(&rig.router, "lan")["alice"] - before, time)
    };
    let raised = measure(&mut rig, Nanos::millis(400));
    assert!((19.5..21.5).contains(&raised), "{raised} Mbit/s");
    rig.router.edit_shares("lan", &changes("set alice rate 5mbit")).unwrap();
    measure(&mut rig, Nanos::millis(100));
    let lowered = measure(&mut rig, Nanos::millis(400));
    assert!((4.5..6.0).contains(&lowered), "{lowered} Mbit/s");
}

#[test]
fn guarantees_above_the_rate_of_a_port_are_reduced_with_a_warning() {
    let read: plane::rig::ReadFile = |_| {
        let text = "circuit,address,down,up,down_min\na,10.0.0.1,80mbit,5mbit,60mbit\nb,10.0.0.2,80mbit,5mbit,60mbit\n";
        Ok(text.as_bytes().to_vec())
    };
    let mut wires = MemoryWires::default();
    wires.read_file = Some(read);
    let config = CONFIG.replace("shares = [\"gold rate 20mbit\", \"voice in gold rate 5mbit priority 0\"]\n", "");
    let rig = Rig::running_with(wires, 1024, Layout::Three, &config);
    let guarantees: Vec<u64> =
        rig.router.shares("lan").expect("shares").iter().map(|share| share.guarantee.get() / 1_000_000).collect();
    assert_eq!(guarantees, [50, 50], "120 Mbit/s of guarantees on 100");
    let plan = plan::check(&config, "test.toml", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let mut wires = MemoryWires::default();
    wires.read_file = Some(read);
    let prepared = rig.router.prepare(&plan, &mut wires).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let warnings: Vec<String> = prepared.advisories().collect();
    assert!(warnings.iter().any(|text| text.contains("120mbit down, more than the 100mbit of lan")), "{warnings:?}");
}

#[test]
fn leases_of_shares_end_and_other_shares_stay() {
    let mut rig = Rig::running_with(wires(), 1024, Layout::Three, CONFIG);
    let start = rig.now;
    rig.router.set_time(start);
    rig.router.edit_shares("lan", &changes("add x rate 1mbit lease 10s\nadd y in x lease 20s\nadd z")).unwrap();
    assert!(rig.router.end_share_leases(start + Nanos::secs(9)).is_empty());
    // `x` has a share below it, so it stays until that one ends.
    assert!(rig.router.end_share_leases(start + Nanos::secs(11)).is_empty());
    let ended = rig.router.end_share_leases(start + Nanos::secs(21));
    let ended: Vec<&str> = ended.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(ended, ["y"]);
    assert_eq!(rig.router.end_share_leases(start + Nanos::secs(22)).len(), 1);
    assert!(sent(&rig.router, "lan").contains_key("z"));
}

#[test]
fn several_workers_share_one_tree() {
    for layout in [Layout::One, Layout::Three] {
        let mut group = WorkerGroup::new(3, 3, 16384, layout);
        group.wires.read_file = Some(read);
        group.apply(CONFIG);
        let time = Nanos::millis(300);
        let step = Nanos::micros(500);
        for _ in 0..time.get() / step.get() {
            for port in 0..6 {
                group.send("wan", &frame(ALICE, true, 1000 + port));
                group.send("wan", &frame(BOB, true, 2000 + port));
            }
            group.advance(step);
            drop(group.received("lan"));
        }
        let down = sent(&group.router, "lan");
        let near = |bytes: u64, expected: f64| (rate(bytes, time) - expected).abs() < 0.02 * expected + 0.5;
        assert!(near(down["alice"], 30.0) && near(down["bob"], 10.0), "{down:?}");
        group.workers.iter().for_each(plane::Worker::audit);
    }
}
