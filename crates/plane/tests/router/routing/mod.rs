//! Rules that select routes: each verdict, the packets that no rule concerns, next hops that are not resolved, and conditions on routes.

mod random;

use classifier::{Place, RuleEdit, RuleList};
use packet::DropReason;
use packet::wire::{Ipv4Spec, Ipv6Spec, ethernet, ethertype, protocol};
use plan::Prefix;
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use units::{Mac, Nanos};

/// Networks 1 to 4 are those of `lan`, `a`, `b` and, in another VRF, `blue`. Behind each but `lan` is a router with the host number 2.
const PORTS: [&str; 4] = ["lan", "a", "b", "blue"];
const LAN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const BLUE: Mac = Mac([2, 0, 0, 0, 0, 4]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 0xaa]);

/// An address of a network, of either family.
fn address(v6: bool, network: u8, host: u8) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(10, network, 0, host).into(),
        true => Ipv6Addr::new(0x2001, 0xdb8, network.into(), 0, 0, 0, 0, host.into()).into(),
    }
}

fn network(v6: bool, network: u8) -> Prefix {
    Prefix::new(address(v6, network, 0), if v6 { 48 } else { 16 }).unwrap()
}

/// The ports, their neighbours and the routes: the main VRF has a default route by `a`, network 7 by `b`, and network 9 by both. The VRF `blue` has only
/// network 8, and discards network 9.
fn config(rules: &[String]) -> String {
    config_with_neighbours(rules, true)
}

fn config_with_neighbours(rules: &[String], neighbours: bool) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| format!("'{rule}'")).collect();
    let mut text = format!("version = 1\n[routing]\nrules = [{}]\n", rules.join(", "));
    for (port, number) in PORTS.iter().zip(1..) {
        let vrf = if *port == "blue" { "vrf = 'blue'\n" } else { "" };
        let (four, six) = (address(false, number, 1), address(true, number, 1));
        text += &format!(
            "[port.{port}]\ndevice = 'memory:{port}'\nmac = '02:00:00:00:00:0{number}'\nredirects = false\n{vrf}\
             address = ['{four}/16', '{six}/48']\n"
        );
    }
    for v6 in [false, true] {
        let hop = |number| address(v6, number, 2);
        for (port, number) in PORTS.iter().zip(1..).skip(if neighbours { 1 } else { 4 }) {
            text += &format!(
                "[[neighbour]]\naddress = '{}'\nmac = '02:00:00:00:01:0{number}'\nport = '{port}'\n",
                hop(number)
            );
        }
        let all = if v6 { "::/0" } else { "0.0.0.0/0" };
        text += &format!("[[route]]\nto = '{all}'\nvia = '{}'\n", hop(2));
        text += &format!("[[route]]\nto = '{}'\nvia = '{}'\n", network(v6, 7), hop(3));
        text += &format!("[[route]]\nto = '{}'\nvia = ['{}', '{}']\n", network(v6, 9), hop(2), hop(3));
        text += &format!("[[route]]\nvrf = 'blue'\nto = '{}'\nvia = '{}'\n", network(v6, 8), hop(4));
        text += &format!("[[route]]\nvrf = 'blue'\nto = '{}'\nblackhole = true\n", network(v6, 9));
    }
    text
}

fn running(rules: &[&str]) -> Rig {
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    Rig::running(2048, Layout::Three, &config(&rules))
}

/// A UDP packet of the host at `lan` or `blue`.
fn udp(to: Mac, (source, destination): (IpAddr, IpAddr), dport: u16, dscp: u8) -> Vec<u8> {
    let mut bytes = vec![0; 14];
    let (mut header, kind) = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (identification, dont_fragment, ttl, protocol) = (1, true, 64, protocol::UDP);
            let type_of_service = dscp << 2;
            let spec = Ipv4Spec { type_of_service, identification, dont_fragment, ttl, protocol, source, destination };
            let mut header = vec![0; 20];
            spec.write(&mut header, 26).unwrap();
            (header, ethertype::IPV4)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (flow_label, next_header, hop_limit, traffic_class) = (0, protocol::UDP, 64, dscp << 2);
            let spec = Ipv6Spec { traffic_class, flow_label, next_header, hop_limit, source, destination };
            let mut header = vec![0; 40];
            spec.write(&mut header, 26).unwrap();
            (header, ethertype::IPV6)
        }
        _ => unreachable!("of one family"),
    };
    ethernet::write_header(&mut bytes, to, HOST, None, kind).unwrap();
    bytes.append(&mut header);
    bytes.extend([1000u16.to_be_bytes(), dport.to_be_bytes(), 26u16.to_be_bytes(), [0, 0]].concat());
    bytes.extend([7; 18]);
    bytes
}

/// A no-operation option: the general classifier handles the packet.
fn with_option(frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    bytes.splice(34..34, [1, 1, 1, 1]);
    bytes[14] = 0x46;
    bytes[17] += 4;
    bytes[24..26].fill(0);
    let sum = packet::wire::checksum::checksum(&bytes[14..38]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The UDP packets that left since the last call: the wire, the last byte of the link-layer destination, and the code point.
fn left(rig: &mut Rig) -> Vec<(&'static str, u8, u8)> {
    let mut all = Vec::new();
    for wire in PORTS {
        if !rig.wires.far.contains_key(wire) {
            continue;
        }
        for frame in rig.received(wire) {
            let found = match frame[12..14] {
                [8, 0] if frame[23] == protocol::UDP => frame[15] >> 2,
                [0x86, 0xdd] if frame[20] == protocol::UDP => (frame[14] << 4 | frame[15] >> 4) >> 2,
                _ => continue,
            };
            all.push((wire, frame[5], found));
        }
    }
    all
}

/// Sends a packet to a network from host 9 of `lan`. Returns the wire by which it left.
fn wire(rig: &mut Rig, v6: bool, (from, to): (u8, u8), dport: u16) -> Option<&'static str> {
    rig.send("lan", &udp(LAN, (address(v6, from, 9), address(v6, to, 9)), dport, 0));
    rig.settle();
    left(rig).pop().map(|(wire, ..)| wire)
}

fn list(rig: &Rig) -> Arc<RuleList> {
    let lists = rig.router.rule_lists();
    let (_, kind, list) = lists.into_iter().find(|(name, ..)| &**name == plane::ROUTING_RULES).unwrap();
    assert_eq!(kind, plan::RuleListKind::Routing);
    list
}

fn counts(rig: &Rig) -> Vec<u64> {
    let list = list(rig);
    list.rules().iter().map(|status| status.count.packets).chain([list.others().packets]).collect()
}

fn dropped(rig: &Rig, reason: DropReason) -> u64 {
    rig.report().ledger.dropped_for(reason)
}

#[test]
fn each_verdict_selects_the_route() {
    let mut rig = running(&[
        "udp dport 1 accept",
        "udp dport 2 drop",
        "udp dport 3 unreachable",
        "udp dport 4 vrf blue",
        "udp dport 5 via 10.3.0.2",
        "udp dport 5 via 2001:db8:3::2 dev b",
        "udp dport 6 via 10.4.0.2",
        "ip6 udp dport 6 via 2001:db8:4::2",
        "udp dport 7 vrf main",
    ]);
    for v6 in [false, true] {
        // To network 8, which the main VRF sends by its default route.
        for (dport, expected) in [
            (1, Some("a")),
            (2, None),
            (3, None),
            (4, Some("blue")),
            (5, Some("b")),
            (6, Some("blue")),
            (7, Some("a")),
            (8, Some("a")),
        ] {
            assert_eq!(wire(&mut rig, v6, (1, 8), dport), expected, "port {dport}, IPv6 {v6}");
            if !v6 {
                let frame = udp(LAN, (address(v6, 1, 9), address(v6, 8, 9)), dport, 0);
                rig.send("lan", &with_option(&frame));
                rig.settle();
                assert_eq!(left(&mut rig).pop().map(|(wire, ..)| wire), expected, "port {dport}, with an option");
            }
        }
    }
    // Each port twice over IPv4 and once over IPv6.
    assert_eq!(counts(&rig), [3, 3, 3, 3, 2, 1, 2, 1, 3, 3]);
    assert_eq!([dropped(&rig, DropReason::RoutingRule), dropped(&rig, DropReason::Unreachable)], [3, 3]);
}

#[test]
fn sender_of_an_unreachable_packet_gets_an_icmp_error() {
    let mut rig = running(&["unreachable"]);
    let neighbour = "[[neighbour]]\naddress = '10.1.0.9'\nmac = '02:00:00:00:00:aa'\nport = 'lan'\n";
    rig.apply(&format!("{}{neighbour}", config(&["unreachable".to_string()]))).unwrap();
    rig.settle();
    rig.received("lan");
    rig.send("lan", &udp(LAN, (address(false, 1, 9), address(false, 8, 9)), 1, 0));
    rig.settle();
    let answer = rig.received("lan");
    let icmp: Vec<_> = answer.iter().filter(|frame| frame[12..14] == [8, 0] && frame[23] == protocol::ICMP).collect();
    // Type 3: destination unreachable.
    assert_eq!(icmp.iter().map(|frame| frame[34]).collect::<Vec<_>>(), [3]);
}

#[test]
fn packets_for_the_router_itself_ask_no_rule() {
    let mut rig = running(&["drop"]);
    for v6 in [false, true] {
        let from = address(v6, 1, 9);
        let own = [address(v6, 1, 1), address(v6, 2, 1)];
        let more = match v6 {
            // The broadcast address and a group.
            false => ["10.1.255.255".parse().unwrap(), "239.1.1.1".parse().unwrap()],
            true => ["ff3e::9".parse().unwrap(), "2001:db8:1::1".parse().unwrap()],
        };
        for to in own.into_iter().chain(more) {
            rig.send("lan", &udp(LAN, (from, to), 1, 0));
        }
        rig.settle();
    }
    assert_eq!((counts(&rig), dropped(&rig, DropReason::RoutingRule)), (vec![0, 0], 0));
    assert_eq!(wire(&mut rig, false, (1, 8), 1), None);
    // An address of the router in another VRF is not one of this VRF.
    assert_eq!(wire(&mut rig, false, (1, 4), 1), None);
    assert_eq!((counts(&rig), dropped(&rig, DropReason::RoutingRule)), (vec![2, 0], 2));
}

#[test]
fn packet_looks_on_behind_a_target_that_is_not_usable() {
    let rules = ["udp dport 1 via 10.3.0.2", "udp dport 1 vrf blue", "udp dport 1 drop", "ip6 via 2001:db8:3::2"];
    let mut rig = running(&rules);
    assert_eq!(wire(&mut rig, false, (1, 8), 1), Some("b"));
    assert_eq!(wire(&mut rig, true, (1, 8), 2), Some("b"));
    drop(rig.wires.far.remove("b").unwrap());
    rig.advance(Nanos::millis(300));
    // The VRF has a route to network 8, none to network 20, and one that discards network 9.
    assert_eq!(wire(&mut rig, false, (1, 8), 1), Some("blue"));
    assert_eq!(wire(&mut rig, true, (1, 8), 2), Some("a"), "the usual route");
    assert_eq!(dropped(&rig, DropReason::RoutingRule), 0);
    assert_eq!(wire(&mut rig, false, (1, 20), 1), None);
    assert_eq!([dropped(&rig, DropReason::RoutingRule), dropped(&rig, DropReason::Blackhole)], [1, 0]);
    assert_eq!(wire(&mut rig, false, (1, 9), 1), None);
    assert_eq!([dropped(&rig, DropReason::RoutingRule), dropped(&rig, DropReason::Blackhole)], [1, 1]);
    // The address of the router in `blue` is no route of that VRF.
    rig.send("lan", &udp(LAN, (address(false, 1, 9), address(false, 4, 1)), 1, 0));
    rig.settle();
    assert_eq!(dropped(&rig, DropReason::RoutingRule), 2);
}

#[test]
fn packet_that_a_rule_returns_to_its_link_causes_no_redirect() {
    for (rules, redirects, mac) in [(vec![], 1, 0x66), (vec!["via 10.1.0.77".to_string()], 0, 0x77)] {
        let hosts: String = [(9, "aa"), (66, "66"), (77, "77")]
            .iter()
            .map(|(host, mac)| {
                format!("[[neighbour]]\naddress = '10.1.0.{host}'\nmac = '02:00:00:00:00:{mac}'\nport = 'lan'\n")
            })
            .collect();
        let route = "[[route]]\nto = '10.50.0.0/16'\nvia = '10.1.0.66'\n";
        let text = config(&rules).replace("redirects = false", "redirects = true");
        let mut rig = Rig::running(2048, Layout::Three, &format!("{text}{hosts}{route}"));
        rig.send("lan", &udp(LAN, (address(false, 1, 9), address(false, 50, 9)), 1, 0));
        rig.settle();
        let frames = rig.received("lan");
        let of = |protocol: u8| frames.iter().filter(move |frame| frame[12..14] == [8, 0] && frame[23] == protocol);
        // ICMP type 5 is a redirect.
        assert_eq!(of(protocol::ICMP).filter(|frame| frame[34] == 5).count(), redirects, "{rules:?}");
        assert_eq!(of(protocol::UDP).map(|frame| frame[5]).collect::<Vec<_>>(), [mac], "{rules:?}");
    }
}

/// The answer to an ARP request for `own` that the host at `wire` has received.
fn answer_arp(rig: &mut Rig, wire: &str, own: [u8; 4], mac: Mac) -> usize {
    let asked: Vec<Vec<u8>> =
        rig.received(wire).into_iter().filter(|f| f[12..14] == [8, 6] && f[38..42] == own).collect();
    for frame in &asked {
        let mut reply = frame.clone();
        reply[..6].copy_from_slice(&frame[6..12]);
        reply[6..12].copy_from_slice(&mac.0);
        reply[20..22].copy_from_slice(&[0, 2]);
        reply[22..28].copy_from_slice(&mac.0);
        reply[28..32].copy_from_slice(&own);
        reply[32..38].copy_from_slice(&frame[22..28]);
        reply[38..42].copy_from_slice(&frame[28..32]);
        rig.send(wire, &reply);
    }
    asked.len()
}

#[test]
fn packets_wait_for_the_next_hop_of_their_rule() {
    // The rule no longer matches the packet once it has its new code point.
    let rules = [("ip dscp 0 ip dscp set ef via 10.3.0.2", "b", [10, 3, 0, 2]), ("vrf blue", "blue", [10, 4, 0, 2])];
    for (rule, wire, hop) in rules {
        let mut rig = Rig::running(2048, Layout::Three, &config_with_neighbours(&[rule.to_string()], false));
        for n in 0..3 {
            rig.send("lan", &udp(LAN, (address(false, 1, 9), address(false, 8, 9)), n, 0));
        }
        rig.settle();
        // Nothing is asked of the usual next hop, on `a`.
        assert_eq!(answer_arp(&mut rig, "a", [10, 2, 0, 2], HOST), 0, "{rule}");
        assert_eq!(answer_arp(&mut rig, wire, hop, Mac([2, 0, 0, 0, 1, 9])), 1, "{rule}");
        rig.settle();
        let dscp = if wire == "b" { 46 } else { 0 };
        assert_eq!(left(&mut rig), [(wire, 9, dscp); 3], "{rule}");
        assert_eq!(rig.report().ledger.drops().count(), 0, "{rule}");
    }
}

#[test]
fn rule_polices_and_marks_packets_before_they_take_their_route() {
    let mut rig = running(&[
        "udp dport 1 limit rate over 10/second burst 2 packets ip dscp set af12 accept",
        "udp dport 1 ip dscp set af11 via 10.3.0.2",
        "udp dport 2 limit rate 10/second burst 3 packets via 10.3.0.2",
    ]);
    for v6 in [false, true] {
        for dport in [1, 1, 1, 1, 2, 2, 2, 2, 2] {
            rig.send("lan", &udp(LAN, (address(v6, 1, 9), address(v6, 8, 9)), dport, 8));
        }
        rig.settle();
        let mut sent = left(&mut rig);
        sent.sort_unstable();
        // Two packets in the rate, two beyond it with another code point; then three in the rate, two beyond it, which no rule concerns.
        let (a, b) = (("a", 2, 12), ("b", 3, 10));
        let (untouched, limited) = (("a", 2, 8), ("b", 3, 8));
        let mut expected = match v6 {
            false => vec![a, a, b, b, untouched, untouched, limited, limited, limited],
            // The next hop is for IPv4 packets, and the rate is used up.
            true => vec![a, a, a, a, untouched, untouched, untouched, untouched, untouched],
        };
        expected.sort_unstable();
        assert_eq!(sent, expected, "IPv6 {v6}");
    }
}

#[test]
fn rules_change_without_a_generation_and_keep_their_counters() {
    let mut rig = running(&["udp dport 1 via 10.3.0.2"]);
    let generation = rig.router.snapshot().generation;
    assert_eq!([wire(&mut rig, false, (1, 8), 1), wire(&mut rig, false, (1, 8), 2)], [Some("b"), Some("a")]);
    change(&rig, "add before 1 udp dport 2 vrf blue");
    assert_eq!([wire(&mut rig, false, (1, 8), 1), wire(&mut rig, false, (1, 8), 2)], [Some("b"), Some("blue")]);
    assert_eq!(counts(&rig), [1, 2, 1]);
    // Another configuration with the same rules keeps the changes, unless it lacks what they name.
    let rules = ["udp dport 1 via 10.3.0.2".to_string()];
    rig.apply(&config(&rules).replace("[port.lan]", "[router]\nname = 'other'\n[port.lan]")).unwrap();
    assert_eq!([wire(&mut rig, false, (1, 8), 1), wire(&mut rig, false, (1, 8), 2)], [Some("b"), Some("blue")]);
    // The port is in the main VRF, and the routes of the other are gone.
    let text = config(&rules);
    let parts = text.split("[[route]]\n").filter(|part| !part.starts_with("vrf = 'blue'"));
    let without = parts.collect::<Vec<_>>().join("[[route]]\n").replace("vrf = 'blue'\n", "");
    let errors = rig.apply(&without).expect_err("a rule names the VRF");
    let error = &errors[0];
    assert_eq!((&*error.place, &*error.reason), ("routing rule 2", "no interface is in the VRF 'blue'"));
    assert_eq!(error.hint, "remove it first: `switchpath rule remove routing 2`");
    change(&rig, "remove 2");
    rig.apply(&without).unwrap();
    assert_eq!([wire(&mut rig, false, (1, 8), 1), wire(&mut rig, false, (1, 8), 2)], [Some("b"), Some("a")]);
    assert_eq!(rig.router.snapshot().generation.0, generation.0 + 2);
    // A list without rules asks nothing; the next hop of the removed rule is no longer held.
    let hop = address(false, 3, 2);
    let on = rig.router.snapshot().interface_named("b").unwrap().id;
    change(&rig, "remove 1");
    assert_eq!(wire(&mut rig, false, (1, 8), 1), Some("a"));
    rig.apply(&config(&[]).replace("mac = '02:00:00:00:01:03'", "mac = '02:00:00:00:01:33'")).unwrap();
    assert!(rig.router.tables().adjacency_of(on, hop).is_some(), "a route names it");
    let changed = rig.router.tables().adjacencies_in_use();
    change(&rig, "add via 10.3.0.77");
    assert_eq!(rig.router.tables().adjacencies_in_use(), changed + 1);
    let id = list(&rig).rules()[0].id;
    change(&rig, &format!("remove {id}"));
    assert_eq!(rig.router.tables().adjacencies_in_use(), changed);
}

/// Changes the list as the control side does.
fn change(rig: &Rig, text: &str) {
    let plan = rig.router.plan().unwrap().clone();
    let batch = plan::rule_batch(text, "test", &plan, plan::RuleListKind::Routing).unwrap();
    let place = |place| match place {
        plan::RulePlace::End => Place::End,
        plan::RulePlace::Before(id) => Place::Before(id),
        plan::RulePlace::After(id) => Place::After(id),
    };
    let edits = batch.changes.iter().map(|(_, change)| match change {
        plan::RuleChange::Add(at, rule) => RuleEdit::Add(place(*at), rig.router.listed_rule(rule).unwrap()),
        plan::RuleChange::Remove(id) => RuleEdit::Remove(*id),
        plan::RuleChange::Replace(id, rule) => RuleEdit::Replace(*id, rig.router.listed_rule(rule).unwrap()),
    });
    list(rig).edit(edits).unwrap();
}

#[test]
fn rule_logs_under_the_name_of_the_list() {
    let mut rig = running(&["udp dport 1 log prefix \"policy \" via 10.3.0.2"]);
    assert_eq!(wire(&mut rig, false, (1, 8), 1), Some("b"));
    assert_eq!(wire(&mut rig, false, (1, 8), 2), Some("a"));
    let (packets, _) = rig.router.snapshot().log.take();
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].path, plane::snapshot::ROUTING);
    let lan = rig.router.snapshot().interface_named("lan").unwrap().id;
    assert_eq!((packets[0].interface, list(&rig).rule_of(packets[0].rule).map(|(id, _)| id)), (lan, Some(1)));
}

/// Adds and removes routes while the router runs.
fn edit_routes(rig: &mut Rig, text: &str) {
    let plan = rig.router.plan().unwrap().clone();
    let batch = plan::batch::batch(text, "test", &plan).unwrap();
    let edits = rig.router.prepare_edits(&batch.lines, 10).unwrap();
    rig.router.apply_edits(edits, |_| {});
    rig.settle();
}

#[test]
fn conditions_on_routes_follow_every_change_of_routes() {
    // In the list of routes and in a filter: the fate is the same, the reason differs. More than 64 rules, so that flow caches are in use.
    let many = |rule: &str| -> Vec<String> {
        (0..100).map(|n| format!("udp dport {} accept", 2000 + n)).chain([rule.to_string()]).collect()
    };
    for by_filter in [false, true] {
        for (rule, strict) in [("fib saddr . iif oif missing drop", true), ("fib saddr oif missing drop", false)] {
            let rules = many(rule);
            let text = match by_filter {
                false => config(&rules),
                true => {
                    let quoted: Vec<String> = rules.iter().map(|rule| format!("'{rule}'")).collect();
                    let path = "[[path]]\nname = 'all'\nmatch = 'any'\nfunctions = ['filter', 'ip']\n";
                    format!("{}{path}filter = [{}]\n", config(&[]), quoted.join(", "))
                }
            };
            // Without a default route there are sources without any route.
            let text =
                text.replace("to = '0.0.0.0/0'", "to = '10.8.0.0/16'").replace("to = '::/0'", "to = '2001:db8:8::/48'");
            let mut rig = Rig::running(2048, Layout::Three, &text);
            for v6 in [false, true] {
                let passes = |rig: &mut Rig, from| wire(rig, v6, (from, 8), 1).is_some();
                let what = format!("{rule}, IPv6 {v6}, filter {by_filter}");
                // Its own network, one behind another port, two behind two others, and one without a route.
                let expected = [true, !strict, !strict, false];
                for _ in 0..2 {
                    assert_eq!([1, 7, 9, 30].map(|from| passes(&mut rig, from)), expected, "{what}");
                }
                let (hop, net) = (address(v6, 1, 77), network(v6, 30));
                edit_routes(&mut rig, &format!("add {net} via {hop}"));
                assert!(passes(&mut rig, 30), "{what}");
                // By one of several next hops (RFC 3704 2.3).
                edit_routes(&mut rig, &format!("add {net} via {} via {hop}", address(v6, 2, 2)));
                assert!(passes(&mut rig, 30), "{what}");
                edit_routes(&mut rig, &format!("add {net} via {}", address(v6, 2, 2)));
                assert_eq!(passes(&mut rig, 30), !strict, "{what}");
                edit_routes(&mut rig, &format!("add {net} blackhole"));
                assert!(!passes(&mut rig, 30), "{what}");
                edit_routes(&mut rig, &format!("del {net}"));
                assert!(!passes(&mut rig, 30), "{what}");
            }
            let reason = if by_filter { DropReason::Filtered } else { DropReason::RoutingRule };
            assert!(dropped(&rig, reason) > 0);
        }
    }
}
