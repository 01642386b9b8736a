//! A subscriber cannot harm its neighbour: with many flows, with super-frames, or with the addresses of others.

use crate::network::{Direction, FRAME, Network, Stream, config, is_near, subscriber};
use std::net::Ipv4Addr;
use units::Nanos;

/// Two subscribers at a site whose bandwidth does not suffice for both plans. The neighbour's is guaranteed.
pub const TABLE: &str = "\
site,circuit,parent,address,down,up,down_min,up_min
site,,,,25mbit,25mbit,,
,attacker,site,10.0.0.1,20mbit,20mbit,,
,neighbour,site,10.0.0.2,10mbit,10mbit,10mbit,10mbit
";

/// Two subscribers, and a circuit for all other addresses.
pub const CATCH_ALL: &str = "\
site,circuit,parent,address,down,up
site,,,,40mbit,40mbit
,attacker,site,10.0.0.1,20mbit,20mbit
,neighbour,site,10.0.0.2,10mbit,10mbit
,unknown,,0.0.0.0/0,1mbit,1mbit
";

/// The attackers of [`many`].
const MANY: u8 = 60;

/// Many attackers whose leaves could hold more packets than the router has frames, and their neighbour.
pub fn many() -> String {
    let mut text = "site,circuit,parent,address,down,up\nsite,,,,60mbit,60mbit\n".to_owned();
    for number in 0..MANY {
        text += &format!(",attacker{number},site,10.0.1.{number},200kbit,200kbit\n");
    }
    text + ",neighbour,site,10.0.0.2,10mbit,10mbit\n"
}

/// The same subscribers by their VLANs.
pub const VLANS: &str = "\
site,circuit,parent,vlan,down,up
site,,,,40mbit,40mbit
,attacker,site,101,20mbit,20mbit
,neighbour,site,102,10mbit,10mbit
";

/// The bridge between the same wires, which finds tags in both directions.
const BRIDGE: &str = "\
version = 1
[port.lan]
device = 'memory:lan'
scheme = 'share(rate=100mbit)'
[port.wan]
device = 'memory:wan'
scheme = 'share(rate=100mbit)'
[[passthrough]]
ports = ['lan', 'wan']
[subscribers]
inside = ['lan']
outside = ['wan']
file = '/vlan.csv'
";

const ATTACKER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// An address in the network of the subscribers that belongs to none.
const UNASSIGNED: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);
/// The part of the plan by which the neighbour's rate may differ.
const PART: f64 = 0.05;
/// The most by which the neighbour's packets may be late.
const DELAY: Nanos = Nanos::millis(20);
/// The packets that a leaf of the default scheme holds: its `limit`.
const LIMIT: u64 = 1000;
/// The plans in Mbit/s of the attacker and its neighbour, and what the site of [`TABLE`] leaves for the attacker.
const PLAN: (f64, f64) = (20.0, 10.0);
const REST: f64 = 15.0;

/// The neighbour has two TCP connections and, every 10 ms, a small packet of another flow. Returns the position of the latter.
fn add_neighbour(network: &mut Network, direction: Direction) -> usize {
    assert_eq!(NEIGHBOUR, subscriber(2));
    for _ in 0..2 {
        network.add(Stream::tcp(NEIGHBOUR, direction));
    }
    network.add(Stream::constant(NEIGHBOUR, direction, 0.0512, 64));
    network.streams.len() - 1
}

/// The 95th percentile of the delays of a stream, which begins anew.
fn p95(network: &mut Network, stream: usize) -> Nanos {
    let mut delays = std::mem::take(&mut network.streams[stream].delays);
    assert!(delays.len() > 50, "{} packets of the neighbour", delays.len());
    delays.sort_unstable();
    delays[delays.len() * 95 / 100]
}

/// Runs an attack, and checks the neighbour in its second second, and the memory of the attacker's leaf.
fn check_neighbour(attack: Stream, direction: Direction, port: &str) {
    let mut network = Network::new(&config("safety.csv", ""));
    let probes = add_neighbour(&mut network, direction);
    network.run(Nanos::secs(2));
    p95(&mut network, probes);
    network.run(Nanos::secs(1));
    let base = p95(&mut network, probes);
    network.add(attack);
    network.run(Nanos::secs(1));
    p95(&mut network, probes);
    let (mut most_waiting, mut most_bytes) = (0, 0);
    let before = network.sent(port);
    for _ in 0..20 {
        network.run(Nanos::millis(50));
        let (packets, bytes) = network.waiting(port, "attacker");
        (most_waiting, most_bytes) = (most_waiting.max(packets), most_bytes.max(bytes));
    }
    let after = network.sent(port);
    let rate = |name: &str| (after[name] - before[name]) as f64 * 8e-6;
    let delay = p95(&mut network, probes);
    assert!(is_near(rate("neighbour"), PLAN.1, PART), "{}", rate("neighbour"));
    assert!(is_near(rate("attacker"), REST, PART), "{}", rate("attacker"));
    assert!(delay <= base + DELAY, "{delay:?} {base:?}");
    assert!(most_waiting <= LIMIT, "{most_waiting}");
    network.rig.report();
}

#[test]
fn hundred_thousand_flows_of_a_subscriber_do_not_harm_its_neighbour() {
    for (direction, port) in [(Direction::Down, "lan"), (Direction::Up, "wan")] {
        // 30,000 packets a second, each of another flow than the last 100,000.
        let attack = Stream::constant(ATTACKER, direction, 60.0, 250).in_flows(100_000);
        check_neighbour(attack, direction, port);
    }
}

#[test]
fn super_frames_of_a_subscriber_do_not_harm_its_neighbour() {
    for (direction, port) in [(Direction::Down, "lan"), (Direction::Up, "wan")] {
        check_neighbour(Stream::super_frames(ATTACKER, direction, 60.0), direction, port);
    }
}

#[test]
fn full_leaves_of_many_subscribers_leave_frames_for_their_neighbour() {
    let mut network = Network::new(&config("many.csv", ""));
    add_neighbour(&mut network, Direction::Down);
    for number in 0..MANY {
        network.add(Stream::constant(Ipv4Addr::new(10, 0, 1, number), Direction::Down, 2.0, 250));
    }
    network.run(Nanos::secs(2));
    let rates = network.rates("lan", Nanos::secs(1));
    let waiting: u64 = (0..MANY).map(|number| network.waiting("lan", &format!("attacker{number}")).0).sum();
    assert!(waiting > 8000, "{waiting} packets of others wait");
    assert!(is_near(rates["neighbour"], PLAN.1, PART), "{}", rates["neighbour"]);
}

/// The rates in Mbit/s at `wan` of the attacker, of the neighbour, of the circuit for unknown addresses, and of all packets with the source.
fn spoof(config: &str, source: Ipv4Addr, link: &[u8], neighbour: &[u8]) -> ([f64; 3], f64) {
    let mut network = Network::new(config);
    for _ in 0..2 {
        network.add(Stream::tcp(NEIGHBOUR, Direction::Up).behind(neighbour));
    }
    network.add(Stream::constant(source, Direction::Up, 60.0, FRAME).behind(link));
    network.run(Nanos::secs(1));
    network.streams[2].delays.clear();
    let rates = network.rates("wan", Nanos::secs(1));
    network.rig.report();
    let of = |name| rates.get(name).copied().unwrap_or_default();
    let packets = network.streams[2].delays.len();
    ([of("attacker"), of("neighbour"), of("unknown")], (packets * FRAME * 8) as f64 * 1e-6)
}

const UNTAGGED: [u8; 2] = [8, 0];

#[test]
fn spoofed_unassigned_source_uses_the_default_leaf_unless_a_circuit_has_all_addresses() {
    let ([attacker, neighbour, _], sent) = spoof(&config("safety.csv", ""), UNASSIGNED, &UNTAGGED, &UNTAGGED);
    // It exceeds the plan of the attacker, and does no harm to the neighbour.
    assert!(attacker == 0.0 && sent > 55.0, "{attacker} {sent}");
    assert!(is_near(neighbour, PLAN.1, PART), "{neighbour}");
    let ([_, neighbour, unknown], sent) = spoof(&config("catch-all.csv", ""), UNASSIGNED, &UNTAGGED, &UNTAGGED);
    assert!(is_near(unknown, 1.0, PART) && is_near(sent, 1.0, PART), "{unknown} {sent}");
    assert!(is_near(neighbour, PLAN.1, PART), "{neighbour}");
}

#[test]
fn reverse_path_drops_sources_outside_the_network_of_the_subscribers() {
    let outside = Ipv4Addr::new(203, 0, 113, 7);
    let (_, sent) = spoof(&config("safety.csv", ""), outside, &UNTAGGED, &UNTAGGED);
    assert!(sent > 55.0, "{sent}");
    let strict = config("safety.csv", "reverse_path = 'strict'");
    let ([_, neighbour, _], sent) = spoof(&strict, outside, &UNTAGGED, &UNTAGGED);
    assert!(sent == 0.0 && is_near(neighbour, PLAN.1, PART), "{sent} {neighbour}");
}

#[test]
fn spoofed_source_of_the_neighbour_uses_its_share_unless_vlans_are_the_keys() {
    let ([attacker, neighbour, _], sent) = spoof(&config("safety.csv", ""), NEIGHBOUR, &UNTAGGED, &UNTAGGED);
    // The neighbour's share has three flows, and fair queues for them.
    assert!(attacker == 0.0 && is_near(neighbour, PLAN.1, PART), "{attacker} {neighbour}");
    assert!(is_near(sent, PLAN.1 / 3.0, 0.1), "{sent}");
    let ([attacker, neighbour, _], _) = spoof(BRIDGE, NEIGHBOUR, &[0x81, 0, 0, 101, 8, 0], &[0x81, 0, 0, 102, 8, 0]);
    assert!(is_near(attacker, PLAN.0, PART) && is_near(neighbour, PLAN.1, PART), "{attacker} {neighbour}");
}
