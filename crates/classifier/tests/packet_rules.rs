//! Lists of packet rules against the conditions of their matches, tried one by one.

use classifier::{PacketKeys, PacketRule, PacketRules, RuleResult, Set, SetEdit, SetElement, SetStore, SetWriteError};
use plan::{Match, MatchFields, MatchFragment, SetKind};
use proptest::prelude::*;
use proptest::sample::select;
use std::net::IpAddr;
use units::{Instant, InterfaceId, VrfId};

/// The sets that the matches name.
fn store() -> SetStore {
    let store = SetStore::default();
    let elements = [
        ("hosts", SetKind::Address, &["10.1.0.0/16", "10.2.3.4", "2001:db8:1::/48"][..]),
        ("web", SetKind::Port, &["80", "8000-8080"]),
    ];
    for (name, kind, elements) in elements {
        let add = |text: &&str| {
            SetEdit::Add(SetElement { value: text.parse().expect("it is an element"), expires: Instant::NEVER })
        };
        let (set, _) = Set::new(kind, 100).edited(elements.iter().map(add)).expect("it has room");
        store.write(|draft| Ok::<_, SetWriteError>(draft.define(name, set, Instant::START))).expect("it is defined");
    }
    store
}

/// One clause or none of each kind.
fn matching() -> impl Strategy<Value = Match> {
    let family = select(vec![
        "",
        "",
        "ip",
        "ip saddr 10.1.0.0/16",
        "ip saddr @hosts",
        "ip saddr { 10.1.2.3, 10.2.0.0/15, 192.0.2.0/24 }",
        "ip6",
        "ip6 saddr 2001:db8:1::/48",
        "ip6 saddr @hosts",
        "ip6 flowlabel 7",
    ]);
    let second = select(vec![
        "",
        "",
        "daddr 10.1.2.3",
        "daddr 10.0.0.0/8",
        "daddr @hosts",
        "dscp ef",
        "dscp 0",
        "daddr { 10.1.0.0/17, 10.2.0.0/16 }",
        "daddr 2001:db8::/32",
        "daddr { 2001:db8:1::1, 2001:db8:2::/48 }",
    ]);
    let upper = select(vec![
        "",
        "",
        "tcp",
        "udp",
        "tcp dport 80",
        "udp sport 1000-2000",
        "tcp dport { 22, 80, 8000-9000 }",
        "tcp dport @web",
        "udp sport @web udp dport { 53, 80 }",
        "tcp flags syn/syn,ack",
        "icmp type { echo-request, 3-5 }",
        "icmp code 1",
        "icmpv6 type echo-request",
        "meta l4proto 17",
        "meta l4proto 89",
    ]);
    let rest = select(vec![
        "",
        "",
        "",
        "fragment whole",
        "fragment first,later",
        "fragment later,whole",
        "ct state established,related",
        "ct state new",
        "vlan id 5",
        "meta length 60-100",
        "iif lan",
        "vrf red",
    ]);
    (family, second, upper, rest).prop_filter_map(
        "the clauses contradict each other",
        |(family, second, upper, rest)| {
            let version = if family.starts_with("ip6") { "ip6" } else { "ip" };
            let second = if second.is_empty() { String::new() } else { format!("{version} {second}") };
            let text = [family, &second, upper, rest].join(" ");
            Match::parse(if text.trim().is_empty() { "any" } else { text.trim() }).ok()
        },
    )
}

fn fields() -> impl Strategy<Value = (MatchFields, u16, u16)> {
    let addresses4 = select(vec!["10.1.2.3", "10.2.3.4", "10.1.200.1", "192.0.2.9", "172.16.0.1"]);
    let addresses6 = select(vec!["2001:db8:1::1", "2001:db8:2::9", "fe80::1"]);
    let both = prop_oneof![(addresses4.clone(), addresses4), (addresses6.clone(), addresses6)];
    let ports =
        proptest::option::weighted(0.8, (select(vec![53u16, 80, 1500, 8080]), select(vec![22u16, 53, 80, 8500])));
    let upper = (
        select(vec![6u8, 17, 1, 58, 89]),
        ports,
        proptest::option::of(0u8..=31),
        proptest::option::of((0u8..9, 0u8..2)),
    );
    let fragment = select(vec![MatchFragment::Whole, MatchFragment::Whole, MatchFragment::First, MatchFragment::Later]);
    let rest = (fragment, proptest::option::of(4u16..6), 6u32..8, 58u16..103, 0u8..4, select(vec![0u8, 46]));
    (both, upper, rest, 0u16..2, 0u16..2).prop_map(|((source, destination), upper, rest, interface, vrf)| {
        let (protocol, ports, tcp_flags, icmp) = upper;
        let (fragment, vlan, flow_label, length, state, dscp) = rest;
        let source: IpAddr = source.parse().expect("it is an address");
        let of = |is: bool| is && fragment != MatchFragment::Later;
        let ports = ports.filter(|_| of(matches!(protocol, 6 | 17)));
        let icmp = icmp.filter(|_| of(matches!(protocol, 1 | 58)));
        let fields = MatchFields {
            source,
            destination: destination.parse().expect("it is an address"),
            protocol,
            dscp,
            sport: ports.map(|ports| ports.0),
            dport: ports.map(|ports| ports.1),
            tcp_flags: tcp_flags.filter(|_| of(protocol == 6)),
            icmp_type: icmp.map(|icmp| icmp.0),
            icmp_code: icmp.map(|icmp| icmp.1),
            fragment,
            vlan,
            flow_label: if source.is_ipv6() { flow_label } else { 0 },
            length,
            state,
        };
        (fields, interface, vrf)
    })
}

proptest! {
    #[test]
    fn first_matching_rule_is_found(
        matches in proptest::collection::vec(matching(), 1..60),
        packets in proptest::collection::vec(fields(), 1..100),
        kept in 0usize..60,
    ) {
        let store = store();
        // `lan` is interface 1, and `red` is VRF 1.
        fn packet_rule((rank, matching): (usize, &Match)) -> PacketRule<'_> {
            PacketRule {
            matching,
            interface: matching.iif.as_ref().map(|_| InterfaceId(1)),
            vrf: matching.vrf.as_ref().map(|_| VrfId(1)),
            rank: rank as u32,
            result: RuleResult { counter: rank as u32, ..RuleResult::default() },
            }
        }
        let rules: Vec<PacketRule<'_>> = matches.iter().enumerate().map(packet_rule).collect();
        let named = |name: &str, kind| Some(store.promise(name, kind));
        let kept = kept.min(rules.len());
        // Some rules are there from the beginning, the others come one by one.
        let mut list = PacketRules::build(rules[..kept].iter().copied(), named).expect("they are possible");
        for rule in &rules[kept..] {
            list.insert(rule, named).expect("it is possible");
        }
        for round in 0..2 {
            let sets = store.latest();
            let wanted = |(fields, interface, vrf): &(MatchFields, u16, u16)| {
                let holds = |rule: &&PacketRule<'_>| {
                    rule.interface.is_none_or(|id| id.0 == *interface)
                        && rule.vrf.is_none_or(|id| id.0 == *vrf)
                        && rule.matching.matches(fields, &*sets)
                };
                rules.iter().filter(|rule| round == 0 || rule.rank % 2 == 0).find(holds).map(|rule| rule.rank)
            };
            let mut keys = PacketKeys::default();
            for (i, (fields, interface, vrf)) in packets.iter().enumerate() {
                keys.push(i, fields, InterfaceId(*interface), VrfId(*vrf));
            }
            prop_assert_eq!(keys.positions().count(), packets.len());
            let mut found = vec![None; packets.len()];
            list.look_up(&mut keys, &store.latest(), |i, result| found[i] = Some(result.counter));
            for (i, packet) in packets.iter().enumerate() {
                let alone = list.find(&packet.0, (InterfaceId(packet.1), VrfId(packet.2)), &store.latest());
                prop_assert_eq!(found[i], wanted(packet), "{:?}", packet);
                prop_assert_eq!(alone.map(|result| result.counter), wanted(packet), "{:?}", packet);
            }
            for rule in rules.iter().filter(|rule| round == 0 && rule.rank % 2 == 1) {
                prop_assert!(list.remove(rule, named), "{}", rule.matching);
            }
        }
    }
}

#[test]
fn rule_with_unknown_set_or_too_many_combinations_changes_nothing() {
    let parse = |text: &str| Match::parse(text).expect("it is a match");
    let rule = |matching| PacketRule { matching, interface: None, vrf: None, rank: 0, result: RuleResult::default() };
    let mut list = PacketRules::default();
    let unknown = parse("ip saddr @none");
    let error = list.insert(&rule(&unknown), |_, _| None).expect_err("there is no such set");
    assert_eq!(error.to_string(), "there is no set 'none'");
    let ports: Vec<String> = (0..300).map(|port| (port * 2).to_string()).collect();
    let many = parse(&format!("tcp sport {{ {0} }} tcp dport {{ {0} }}", ports.join(", ")));
    let error = list.insert(&rule(&many), |_, _| None).expect_err("there are too many combinations").to_string();
    assert!(error.starts_with("the lists of the rule have 90000 combinations, more than 65536"), "{error}");
    assert!(list.is_empty());
}
