//! Matches: parsing, printing, evaluation.

use expect_test::{Expect, expect};
use plan::{Match, MatchFamily, MatchFields, Prefix};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// One line for each text: its canonical form, or the marked error and its reason.
fn check(texts: &[&str], expected: Expect) {
    let line = |text: &&str| match Match::parse(text) {
        Ok(read) => format!("{text} => {read}\n"),
        Err(e) => {
            let marked = text.get(e.offset..e.offset + e.length).expect("on character boundaries");
            format!("{text} => at {} [{marked}] {}; {}\n", e.offset, e.reason, e.hint)
        }
    };
    expected.assert_eq(&texts.iter().map(line).collect::<String>());
}

#[test]
fn matches_are_parsed_and_printed_canonically() {
    check(
        &[
            "any",
            "ip",
            "ip6",
            " ip  dscp ef   udp dport 5060 ",
            "udp dport 5060 ip dscp 46",
            "ip dscp 0x2e",
            "ip dscp be",
            "ip dscp 3",
            "ip6 dscp af41",
            "ip saddr 10.0.0.0/8 ip daddr 192.0.2.0/24 udp dport 5000-5010",
            "ip saddr 10.0.0.1/32",
            "ip6 daddr 2001:DB8::/32 tcp sport 80 tcp dport 1-65535",
            "tcp",
            "ip tcp",
            "ip6 udp dport 53",
            "ip ip6",
            "icmp",
            "ip protocol icmp",
            "ip protocol 1",
            "icmpv6 ip6 saddr fe80::/10",
            "ip protocol 58",
            "ip6 nexthdr tcp",
            "ip protocol 89",
            "meta l4proto ospf",
            "meta l4proto 6",
            "iif lan",
            "iifname \"lan.20\" ip",
            "ip iif lan",
            "tcp iif lan",
        ],
        expect![[r#"
            any => any
            ip => ip
            ip6 => ip6
             ip  dscp ef   udp dport 5060  => ip dscp ef udp dport 5060
            udp dport 5060 ip dscp 46 => ip dscp ef udp dport 5060
            ip dscp 0x2e => ip dscp ef
            ip dscp be => ip dscp cs0
            ip dscp 3 => ip dscp 3
            ip6 dscp af41 => ip6 dscp af41
            ip saddr 10.0.0.0/8 ip daddr 192.0.2.0/24 udp dport 5000-5010 => ip saddr 10.0.0.0/8 ip daddr 192.0.2.0/24 udp dport 5000-5010
            ip saddr 10.0.0.1/32 => ip saddr 10.0.0.1
            ip6 daddr 2001:DB8::/32 tcp sport 80 tcp dport 1-65535 => ip6 daddr 2001:db8::/32 tcp sport 80 tcp dport 1-65535
            tcp => tcp
            ip tcp => ip tcp
            ip6 udp dport 53 => ip6 udp dport 53
            ip ip6 => at 3 [ip6] 'ip6' contradicts the earlier 'ip'; a packet has one IP version; write a path for each
            icmp => icmp
            ip protocol icmp => icmp
            ip protocol 1 => icmp
            icmpv6 ip6 saddr fe80::/10 => ip6 saddr fe80::/10 icmpv6
            ip protocol 58 => ip protocol icmpv6
            ip6 nexthdr tcp => ip6 tcp
            ip protocol 89 => ip protocol ospf
            meta l4proto ospf => meta l4proto ospf
            meta l4proto 6 => tcp
            iif lan => iif lan
            iifname "lan.20" ip => iif lan.20 ip
            ip iif lan => iif lan ip
            tcp iif lan => iif lan tcp
        "#]],
    );
}

#[test]
fn errors_are_marked_at_their_position() {
    check(
        &[
            "",
            "   ",
            "any tcp",
            "tcp any",
            "upd dport 53",
            "udp dprt 53",
            "udp dport",
            "udp dport 65536",
            "udp dport +1",
            "udp dport 10-5",
            "udp dport 5-",
            "udp dport domain",
            "udp dport { 53, 80 }",
            "udp dport != 53",
            "udp dport 53 udp dport 54",
            "udp dport 53 tcp sport 80",
            "udp tcp",
            "icmp udp",
            "icmp ip6",
            "ip saddr 2001:db8::/32",
            "ip6 daddr 10.0.0.0/8",
            "ip saddr 10.0.0.1/8",
            "ip saddr 10.0.0.0/33",
            "ip saddr ten",
            "ip saddr",
            "ip saddr 10.0.0.0/8 ip saddr 11.0.0.0/8",
            "ip saddr 10.0.0.0/8 daddr 11.0.0.0/8",
            "ip dscp 64",
            "ip dscp expedited",
            "ip ttl 3",
            "ip protocol ospff",
            "ip protocol 256",
            "ip nexthdr 6",
            "meta mark 3",
            "meta",
            "iif",
            "iif Lan",
            "iif \"lan",
            "iif lan iif wan",
            "dport 53",
            "saddr 10.0.0.1",
            "tcp and udp",
            "tcp or udp",
            "not tcp",
            "ip dscp é",
        ],
        expect![[r#"
             => at 0 [] the match is empty; write 'any' to match every packet
                => at 0 [] the match is empty; write 'any' to match every packet
            any tcp => at 0 [any] 'any' cannot be combined with other clauses; remove it: a match without a clause for a field matches every value
            tcp any => at 4 [any] 'any' cannot be combined with other clauses; remove it: a match without a clause for a field matches every value
            upd dport 53 => at 0 [upd] no clause begins with 'upd'; did you mean 'udp'?
            udp dprt 53 => at 4 [dprt] 'udp' has no field 'dprt'; did you mean 'dport'?
            udp dport => at 9 [] 'dport' is not followed by a port or a range of ports; add a port or a range of ports
            udp dport 65536 => at 10 [65536] '65536' is no port; write a number from 0 to 65535, or a range like 5000-5010
            udp dport +1 => at 10 [+1] '+1' is no port; write a number from 0 to 65535, or a range like 5000-5010
            udp dport 10-5 => at 10 [10-5] the range of ports ends before it begins; write 5-10
            udp dport 5- => at 10 [5-] '5-' is no port; write a number from 0 to 65535, or a range like 5000-5010
            udp dport domain => at 10 [domain] 'domain' is no port; write a number from 0 to 65535, or a range like 5000-5010
            udp dport { 53, 80 } => at 10 [{] matches do not support sets; write one path for each value, or a range of ports
            udp dport != 53 => at 10 [!=] matches do not support '!='; write 'dport VALUE'
            udp dport 53 udp dport 54 => at 17 [dport] the destination port is given twice; keep one: every clause must hold
            udp dport 53 tcp sport 80 => at 13 [tcp] 'tcp' contradicts the earlier 'udp'; a packet has one protocol; write a path for each
            udp tcp => at 4 [tcp] 'tcp' contradicts the earlier 'udp'; a packet has one protocol; write a path for each
            icmp udp => at 5 [udp] 'udp' contradicts the earlier 'icmp'; a packet has one protocol; write a path for each
            icmp ip6 => at 5 [ip6] 'ip6' contradicts the earlier 'icmp'; a packet has one IP version; write a path for each
            ip saddr 2001:db8::/32 => at 9 [2001:db8::/32] '2001:db8::/32' is an IPv6 address after 'ip'; write 'ip6 saddr 2001:db8::/32'
            ip6 daddr 10.0.0.0/8 => at 10 [10.0.0.0/8] '10.0.0.0/8' is an IPv4 address after 'ip6'; write 'ip daddr 10.0.0.0/8'
            ip saddr 10.0.0.1/8 => at 9 [10.0.0.1/8] '10.0.0.1/8' has bits set after its prefix length; write '10.0.0.0/8'
            ip saddr 10.0.0.0/33 => at 9 [10.0.0.0/33] '10.0.0.0/33' has no prefix length from 0 to 32; write '10.0.0.0/N' with N from 0 to 32
            ip saddr ten => at 9 [ten] 'ten' is no address prefix; write an address and a length, like '192.0.2.0/24' or '2001:db8::/64'
            ip saddr => at 8 [] 'saddr' is not followed by an address or a prefix; add an address or a prefix
            ip saddr 10.0.0.0/8 ip saddr 11.0.0.0/8 => at 23 [saddr] the source address is given twice; keep one: every clause must hold
            ip saddr 10.0.0.0/8 daddr 11.0.0.0/8 => at 20 [daddr] 'daddr' needs a header before it; write 'ip daddr ...' or 'ip6 daddr ...'
            ip dscp 64 => at 8 [64] '64' is no code point; write a name like ef, af41 or cs6, or a number from 0 to 63
            ip dscp expedited => at 8 [expedited] 'expedited' is no code point; write a name like ef, af41 or cs6, or a number from 0 to 63
            ip ttl 3 => at 3 [ttl] 'ip' has no field 'ttl'; use one of saddr, daddr, dscp, protocol
            ip protocol ospff => at 12 [ospff] 'ospff' is no protocol; did you mean 'ospf', or a number from 0 to 255
            ip protocol 256 => at 12 [256] '256' is no protocol; use one of icmp, igmp, tcp, udp, dccp, gre, esp, ah, icmpv6, ospf, vrrp, sctp or 1 more, or a number from 0 to 255
            ip nexthdr 6 => at 3 [nexthdr] 'ip' has no field 'nexthdr'; use one of saddr, daddr, dscp, protocol
            meta mark 3 => at 5 [mark] 'mark' is no 'meta' field; write 'meta l4proto 89'
            meta => at 4 [] 'meta' is not followed by 'l4proto'; add 'l4proto'
            iif => at 3 [] 'iif' is not followed by an interface, like 'lan' or 'lan.20'; add an interface, like 'lan' or 'lan.20'
            iif Lan => at 4 [Lan] 'Lan' is no interface; write the name of a port, or of its VLAN like 'lan.20'
            iif "lan => at 4 ["lan] '"lan' is no interface; write the name of a port, or of its VLAN like 'lan.20'
            iif lan iif wan => at 8 [iif] the interface is given twice; keep one: every clause must hold
            dport 53 => at 0 [dport] 'dport' needs a protocol before it; write 'udp dport ...' or 'tcp dport ...'
            saddr 10.0.0.1 => at 0 [saddr] 'saddr' needs a header before it; write 'ip saddr ...' or 'ip6 saddr ...'
            tcp and udp => at 4 [and] 'tcp' has no field 'and'; use one of sport, dport
            tcp or udp => at 4 [or] 'tcp' has no field 'or'; use one of sport, dport
            not tcp => at 0 [not] matches do not support 'not'; write one path for each alternative; the first that matches wins
            ip dscp é => at 8 [é] 'é' is no code point; write a name like ef, af41 or cs6, or a number from 0 to 63
        "#]],
    );
}

fn address4() -> impl Strategy<Value = IpAddr> {
    // Few addresses, so that packets often match prefixes.
    (0u32..4, 0u32..4).prop_map(|(high, low)| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | high << 16 | low)))
}

fn address6() -> impl Strategy<Value = IpAddr> {
    (0u128..4, 0u128..4).prop_map(|(high, low)| IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | low)))
}

fn prefix(address: impl Strategy<Value = IpAddr>, least: u8, most: u8) -> impl Strategy<Value = Option<Prefix>> {
    proptest::option::of((address, least..=most).prop_map(|(a, length)| Prefix::new(a, length).unwrap().network()))
}

fn ports() -> impl Strategy<Value = Option<RangeInclusive<u16>>> {
    proptest::option::of((0u16..6, 0u16..6).prop_map(|(a, b)| a.min(b)..=a.max(b)))
}

/// Every match of the grammar, over few values.
fn any_match() -> impl Strategy<Value = Match> {
    let protocol = prop_oneof![Just(1u8), Just(6), Just(17), Just(58), Just(89), any::<u8>()];
    let iif = proptest::option::of(prop_oneof![Just("lan".to_string()), Just("lan.20".to_string())]);
    let v4 = (prefix(address4(), 6, 32), prefix(address4(), 6, 32));
    let v6 = (prefix(address6(), 30, 128), prefix(address6(), 30, 128));
    (0u8..3, iif, proptest::option::of(protocol), proptest::option::of(0u8..64), v4, v6, ports(), ports()).prop_map(
        |(family, iif, protocol, dscp, v4, v6, sport, dport)| {
            let mut m = Match::default();
            m.iif = iif;
            m.protocol = protocol;
            match family {
                0 => {}
                1 => (m.family, m.dscp, (m.source, m.destination)) = (MatchFamily::V4, dscp, v4),
                _ => (m.family, m.dscp, (m.source, m.destination)) = (MatchFamily::V6, dscp, v6),
            }
            if matches!(protocol, Some(6 | 17)) {
                (m.sport, m.dport) = (sport, dport);
            }
            m
        },
    )
}

fn fields() -> impl Strategy<Value = MatchFields> {
    let addresses = prop_oneof![(address4(), address4()), (address6(), address6())];
    let protocol = prop_oneof![Just(1u8), Just(6), Just(17), Just(58), Just(89)];
    (addresses, protocol, 0u8..64, 0u16..6, 0u16..6, any::<bool>()).prop_map(
        |((source, destination), protocol, dscp, sport, dport, fragment)| MatchFields {
            source,
            destination,
            protocol,
            dscp,
            sport,
            dport,
            fragment,
        },
    )
}

/// The oracle evaluates the canonical text clause by clause, independently of the parser.
fn oracle(text: &str, f: &MatchFields) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    let v4 = f.source.is_ipv4();
    let bits = |address: IpAddr| match address {
        IpAddr::V4(a) => format!("{:032b}", a.to_bits()),
        IpAddr::V6(a) => format!("{:0128b}", a.to_bits()),
    };
    let within = |address: IpAddr, text: &str| {
        let (network, length) = match text.split_once('/') {
            Some((network, length)) => (network, length.parse().unwrap()),
            None => (text, if text.contains(':') { 128 } else { 32 }),
        };
        let network: IpAddr = network.parse().unwrap();
        network.is_ipv4() == address.is_ipv4() && bits(network)[..length] == bits(address)[..length]
    };
    let port = |value: u16, text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        !f.fragment && first.parse::<u16>().unwrap() <= value && value <= last.parse::<u16>().unwrap()
    };
    let number = |text: &str| match text {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "icmpv6" => 58,
        "ospf" => 89,
        "igmp" | "dccp" | "gre" | "esp" | "ah" | "vrrp" | "sctp" | "udplite" => 255,
        other => other.parse::<u8>().unwrap(),
    };
    let mut at = 0;
    let mut all = true;
    while at < words.len() {
        let rest = &words[at..];
        let (holds, taken) = match rest {
            ["any", ..] => (true, 1),
            ["iif", _, ..] => (true, 2),
            ["icmp", ..] => (v4 && f.protocol == 1, 1),
            ["icmpv6", ..] => (!v4 && f.protocol == 58, 1),
            [ip @ ("ip" | "ip6"), field @ ("saddr" | "daddr"), value, ..] => {
                let address = if *field == "saddr" { f.source } else { f.destination };
                (v4 == (*ip == "ip") && within(address, value), 3)
            }
            [ip @ ("ip" | "ip6"), "dscp", value, ..] => (v4 == (*ip == "ip") && plan::dscp_name(f.dscp) == *value, 3),
            [ip @ ("ip" | "ip6"), "protocol" | "nexthdr", value, ..] => {
                (v4 == (*ip == "ip") && f.protocol == number(value), 3)
            }
            ["meta", "l4proto", value, ..] => (f.protocol == number(value), 3),
            [name @ ("tcp" | "udp"), field @ ("sport" | "dport"), value, ..] => {
                let holds = port(if *field == "sport" { f.sport } else { f.dport }, value);
                (f.protocol == number(name) && holds, 3)
            }
            [name @ ("tcp" | "udp"), ..] => (f.protocol == number(name), 1),
            [ip @ ("ip" | "ip6"), ..] => (v4 == (*ip == "ip"), 1),
            other => panic!("not canonical: {other:?}"),
        };
        all &= holds;
        at += taken;
    }
    all
}

proptest! {
    #[test]
    fn match_parses_back_as_printed(m in any_match()) {
        prop_assert_eq!(Match::parse(&m.to_string()).map_err(|e| e.to_string()), Ok(m));
    }

    #[test]
    fn match_means_the_same_as_its_text(m in any_match(), packets in prop::collection::vec(fields(), 20)) {
        for f in packets {
            prop_assert_eq!(m.matches(&f), oracle(&m.to_string(), &f), "{} {:?}", m, f);
        }
    }

    #[test]
    fn covering_match_includes_all_packets_of_the_covered(a in any_match(), b in any_match(), packets in prop::collection::vec(fields(), 50)) {
        prop_assert!(a.covers(&a));
        prop_assert!(Match::default().covers(&a));
        if a.covers(&b) {
            for f in packets {
                prop_assert!(!b.matches(&f) || a.matches(&f), "{} covers {} but not {:?}", a, b, f);
            }
        }
    }

    #[test]
    fn order_of_clauses_does_not_matter(m in any_match(), seed: u64) {
        let text = m.to_string();
        let heads = ["iif", "ip", "ip6", "tcp", "udp", "icmp", "icmpv6", "meta", "any"];
        let mut clauses: Vec<String> = Vec::new();
        for word in text.split(' ') {
            let value = clauses.last().is_some_and(|c| c.ends_with("l4proto") || c.ends_with("protocol") || c.ends_with("nexthdr"));
            match clauses.last_mut() {
                Some(last) if value || !heads.contains(&word) => { last.push(' '); last.push_str(word); }
                _ => clauses.push(word.to_string()),
            }
        }
        let turn = (seed % clauses.len() as u64) as usize;
        clauses.rotate_left(turn);
        prop_assert_eq!(Match::parse(&clauses.join("  ")).map_err(|e| e.to_string()), Ok(m));
    }

    #[test]
    fn match_parser_never_panics(text in r#"((ip|ip6|tcp|udp|icmp|iif|saddr|daddr|dscp|sport|dport|any|meta|l4proto|10\.0\.0\.0/8|::/0|80|5-7|[ -~]|é)[ \t]?){0,12}"#) {
        if let Err(error) = Match::parse(&text) {
            prop_assert!(text.get(error.offset..error.offset + error.length).is_some());
            prop_assert!(!error.reason.is_empty() && !error.hint.is_empty());
        }
    }
}
