//! Functions of paths in a whole router.

use plane::rig::{Rig, Udp};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Mac;

const PORTS: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
"#;

fn udp() -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
    Udp { link, network, ports: (9, 9), ttl: 64, length: 60 }.frame(&[])
}

/// A router whose only path has these keys.
fn running(path: &str) -> Rig {
    Rig::running(1024, Layout::Three, &format!("{PORTS}[[path]]\nname = \"tried\"\nmatch = \"any\"\n{path}\n"))
}

#[test]
fn a_spin_takes_its_time_before_a_packet_goes_on() {
    let mut rig = running("functions = [\"spin(cost=6us,kilobyte=1us)\", \"ip\"]");
    let path = |rig: &Rig| rig.report().tasks.iter().map(|task| task.view.account.used.get()).sum::<u64>();
    (0..5).for_each(|_| rig.send("lan", &udp()));
    let before = path(&rig);
    rig.settle();
    assert_eq!(rig.received("wan").len(), 5);
    let used = path(&rig) - before;
    assert!((5 * 6060..32_000).contains(&used), "{used}");
}

#[test]
fn a_packet_whose_spin_is_longer_than_the_limit_of_its_path_is_dropped_and_the_others_go_on() {
    let mut rig = running("limit = \"10us\"\nfunctions = [\"spin(cost=1us,rare=50%,rare_cost=1ms)\", \"ip\"]");
    (0..40).for_each(|_| rig.send("lan", &udp()));
    rig.settle();
    let left = rig.received("wan").len();
    let drops = rig.report().ports.into_iter().flat_map(|port| port.drops);
    let dropped: u64 =
        drops.filter(|(reason, _)| *reason == packet::DropReason::CpuLimit).map(|(_, packets)| packets).sum();
    assert_eq!((left as u64 + dropped, left > 5, dropped > 5), (40, true, true), "{left} {dropped}");
}

/// What a filter of these rules lets pass of UDP packets to these ports; what its rules have counted.
fn filtered(rules: &str, ports: &[u16]) -> (Rig, Vec<u16>, Vec<(String, u64)>) {
    let mut rig = running(&format!("functions = [\"filter\", \"ip\"]\nfilter = {rules}"));
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
    for &port in ports {
        rig.send("lan", &Udp { link, network, ports: (9, port), ttl: 64, length: 60 }.frame(&[]));
    }
    rig.settle();
    let left = rig.received("wan").iter().map(|frame| u16::from_be_bytes([frame[36], frame[37]])).collect();
    let report = rig.report();
    let functions = report.paths.iter().flat_map(|path| &path.functions).flatten();
    let counted = functions.map(|counter| (counter.name.clone(), counter.packets)).collect();
    (rig, left, counted)
}

#[test]
fn the_first_rule_that_holds_decides_and_each_counts() {
    let rules =
        r#"["udp dport { 53, 100-110 } accept", "iif wan drop", "ip saddr 192.0.2.0/24 udp dport 99 reject", "drop"]"#;
    let (mut rig, left, counted) = filtered(rules, &[53, 54, 99, 99, 104, 111]);
    assert_eq!(left, [53, 104]);
    let expected = [
        ("udp dport { 53, 100-110 } accept", 2),
        ("iif wan drop", 0),
        ("ip saddr 192.0.2.0/24 udp dport 99 reject", 2),
        ("drop", 2),
        ("no rule", 0),
    ];
    assert_eq!(counted, expected.map(|(rule, packets)| (rule.to_string(), packets)));
    let ledger = rig.report().ledger;
    assert_eq!(ledger.dropped_for(packet::DropReason::Filtered), 2);
    assert_eq!(ledger.dropped_for(packet::DropReason::Rejected), 2);
    // The sender is asked for before it is told: it hears that a filter forbids it (RFC 1812 5.2.7.1, code 13).
    let asks = rig.received("lan").into_iter().any(|frame| frame[12..14] == [8, 6] || frame[34..36] == [3, 13]);
    assert!(asks);
}

#[test]
fn what_no_rule_is_about_goes_on_and_counters_survive_a_change_of_something_else() {
    let (mut rig, left, _) = filtered(r#"["tcp drop"]"#, &[1, 2, 3]);
    assert_eq!(left, [1, 2, 3]);
    let path = "class = 9\nfunctions = [\"filter\", \"ip\"]\nfilter = [\"tcp drop\"]";
    rig.apply(&format!("{PORTS}[[path]]\nname = \"tried\"\nmatch = \"any\"\n{path}\n")).unwrap();
    let report = rig.report();
    let counters: Vec<_> = report.paths.iter().flat_map(|path| &path.functions).flatten().collect();
    assert_eq!((counters[1].name.as_str(), counters[1].packets), ("no rule", 3));
}
