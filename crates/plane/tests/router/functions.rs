//! Packet functions of paths in a whole router.

use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Mac;

fn udp() -> Vec<u8> {
    UdpFrame::between_ports(9, 9).frame(&[])
}

/// A router with one path that has these keys.
fn running(path: &str) -> Rig {
    Rig::running(1024, Layout::Three, &format!("{LAN_AND_WAN}[[path]]\nname = \"tried\"\nmatch = \"any\"\n{path}\n"))
}

#[test]
fn spin_delays_packet_by_its_cost() {
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
fn packet_over_path_limit_is_dropped_and_others_continue() {
    let mut rig = running("cpu_limit = \"10us\"\nfunctions = [\"spin(cost=1us,rare=50%,rare_cost=1ms)\", \"ip\"]");
    (0..40).for_each(|_| rig.send("lan", &udp()));
    rig.settle();
    let left = rig.received("wan").len();
    let drops = rig.report().ports.into_iter().flat_map(|port| port.drops);
    let dropped: u64 =
        drops.filter(|(reason, _)| *reason == packet::DropReason::CpuLimit).map(|(_, packets)| packets).sum();
    assert_eq!((left as u64 + dropped, left > 5, dropped > 5), (40, true, true), "{left} {dropped}");
}

/// The rules of the filter with their packets, then the packets without a rule.
fn rule_counts(rig: &Rig) -> Vec<(String, u64)> {
    let (.., list) = rig.router.rule_lists().pop().unwrap();
    let rules = list.rules().into_iter().map(|status| (status.rule.text.to_string(), status.count.packets));
    rules.chain([("no rule".to_string(), list.others().packets)]).collect()
}

/// Sends UDP packets to these ports through a filter. Returns the ports that passed, and the counters of the rules.
fn filtered(rules: &str, ports: &[u16]) -> (Rig, Vec<u16>, Vec<(String, u64)>) {
    let mut rig = running(&format!("functions = [\"filter\", \"ip\"]\nfilter = {rules}"));
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
    for &port in ports {
        rig.send("lan", &UdpFrame { link, network, ports: (9, port), ttl: 64, length: 60 }.frame(&[]));
    }
    rig.settle();
    let left = rig.received("wan").iter().map(|frame| u16::from_be_bytes([frame[36], frame[37]])).collect();
    let counted = rule_counts(&rig);
    (rig, left, counted)
}

#[test]
fn first_matching_filter_rule_decides_and_counts() {
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
    // The router resolves the sender by ARP, then sends ICMP code 13 (RFC 1812 5.2.7.1).
    let asks = rig.received("lan").into_iter().any(|frame| frame[12..14] == [8, 6] || frame[34..36] == [3, 13]);
    assert!(asks);
}

#[test]
fn a_filter_passes_unmatched_packets_and_its_counters_survive_other_changes() {
    let (mut rig, left, _) = filtered(r#"["tcp drop"]"#, &[1, 2, 3]);
    assert_eq!(left, [1, 2, 3]);
    let path = "class = 9\nfunctions = [\"filter\", \"ip\"]\nfilter = [\"tcp drop\"]";
    rig.apply(&format!("{LAN_AND_WAN}[[path]]\nname = \"tried\"\nmatch = \"any\"\n{path}\n")).unwrap();
    let report = rig.report();
    assert_eq!(rule_counts(&rig), [("tcp drop".to_string(), 0), ("no rule".to_string(), 3)]);
    let fates: Vec<_> = report.paths.iter().flat_map(|path| &path.functions).flatten().collect();
    assert_eq!((&*fates[0].name, fates[0].packets), ("accepted", 3));
}

/// A router with paths of these names behind one that dispatches by these rules.
fn dispatching(rules: &str, more: &str) -> Rig {
    let paths = format!(
        "{LAN_AND_WAN}[[path]]\nname = \"first\"\nmatch = \"any\"\nfunctions = [\"dispatch\", \"ip\"]\ndispatch = {rules}\n{more}"
    );
    Rig::running(1024, Layout::Three, &paths)
}

/// A path that packets reach by dispatch only.
fn path(name: &str, more: &str) -> String {
    format!("[[path]]\nname = \"{name}\"\nmatch = \"udp dport 1\"\n{more}\n")
}

/// A packet of TCP or UDP from a port with this payload.
fn carrying(protocol: u8, port: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
    let header = if protocol == 6 { 20 } else { 8 };
    let length = (14 + 20 + header + payload.len()).max(60);
    let mut frame = UdpFrame { link, network, ports: (port, 80), ttl: 64, length }.frame(&[]);
    // Correct the length, the protocol and the checksum of the header.
    frame[16..18].copy_from_slice(&((20 + header + payload.len()) as u16).to_be_bytes());
    frame[23] = protocol;
    frame[24..26].fill(0);
    let sum: u32 = (14..34).step_by(2).map(|at| u32::from(u16::from_be_bytes([frame[at], frame[at + 1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    if protocol == 6 {
        frame[38..54].fill(0);
        (frame[46], frame[47]) = (5 << 4, flags);
    }
    frame[34 + header..34 + header + payload.len()].copy_from_slice(payload);
    frame
}

/// Packets that have entered the path `name`.
fn entered(rig: &Rig, name: &str) -> (u64, u64) {
    let path = rig.router.snapshot().paths.iter().find(|path| &*path.name == name).unwrap().id;
    let report = rig.report();
    let counters = report.paths.iter().find(|report| report.path == path).unwrap().counters;
    (counters.entered, counters.left)
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n";
const QUESTION: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03org\0\0\x01\0\x01";

#[test]
fn payload_selects_the_path_and_later_packets_of_the_connection_follow() {
    let rules = r#"["http host *.example.org web", "dns name www.example.org names", "payload 1 0xbeef raw"]"#;
    let paths = [path("web", ""), path("names", "functions = [\"spin(cost=1us)\", \"ip\"]"), path("raw", "class = 3")];
    let mut rig = dispatching(rules, &paths.concat());
    let (tcp, udp) = (6, 17);
    let packets = [
        carrying(tcp, 1000, 2, b""),         // SYN: the application is not known yet
        carrying(tcp, 1000, 16, REQUEST),    // the request identifies it
        carrying(tcp, 1000, 16, b"more of"), // later packets of the connection follow
        carrying(tcp, 1001, 16, b"more of"), // another connection
        carrying(tcp, 1000, 20, b""),        // a reset still follows its connection
        carrying(tcp, 1000, 16, b"more of"), // the reset ended the state
        carrying(udp, 1000, 0, QUESTION),
        carrying(udp, 1000, 0, b"no question"),
        carrying(udp, 1000, 0, b"\0\xbe\xef\0"),
        carrying(tcp, 1002, 16, b"\0\xbe\xef\0"),
    ];
    packets.iter().for_each(|frame| rig.send("lan", frame));
    rig.settle();
    let left = rig.received("wan");
    assert_eq!(left.len(), packets.len());
    assert!(left.iter().all(|frame| frame[22] == 63), "each was forwarded once");
    let of = |name| entered(&rig, name);
    assert_eq!([of("web"), of("names"), of("raw")], [(3, 3), (1, 1), (2, 2)]);
    assert_eq!(of("first"), (10, 4));
    let report = rig.report();
    let counted: Vec<u64> =
        report.paths.iter().flat_map(|path| path.functions.first()).flatten().map(|c| c.packets).collect();
    assert_eq!(counted[..4], [3, 1, 2, 4]);
}

#[test]
fn dispatch_between_paths_does_not_loop() {
    let back = path("second", "functions = [\"dispatch\", \"ip\"]\ndispatch = [\"payload 0 0x00 first\"]");
    let mut rig = dispatching("[\"payload 0 0x00 second\"]", &back);
    rig.send("lan", &carrying(17, 9, 0, b"\0"));
    rig.send("lan", &carrying(17, 9, 0, b"\x01"));
    rig.settle();
    assert_eq!(rig.received("wan").len(), 1);
    let report = rig.report();
    assert_eq!((report.ledger.dropped_for(packet::DropReason::Rounds), report.held_packets), (1, 0));
}

#[test]
fn dispatch_follows_a_configuration_change_at_once() {
    let rules = |to: &str| format!("[\"payload 0 0x00 {to}\"]");
    let both = path("one", "") + &path("other", "");
    let mut rig = dispatching(&rules("one"), &both);
    rig.send("lan", &carrying(17, 9, 0, b"\0"));
    rig.settle();
    let text = format!(
        "{LAN_AND_WAN}[[path]]\nname = \"first\"\nmatch = \"any\"\nfunctions = [\"dispatch\", \"ip\"]\ndispatch = {}\n{both}",
        rules("other")
    );
    rig.apply(&text).unwrap();
    rig.send("lan", &carrying(17, 9, 0, b"\0"));
    rig.settle();
    assert_eq!((entered(&rig, "one"), entered(&rig, "other")), ((1, 1), (1, 1)));
}
