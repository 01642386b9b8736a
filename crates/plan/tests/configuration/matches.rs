//! Matches: parsing, printing, evaluation.

use expect_test::{Expect, expect};
use plan::{AddressMatch, Match, MatchFamily, MatchFields, MatchFragment, PortMatch, Prefix, SetKind, SetLookup};
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
fn conditions_on_routes_are_those_of_nftables() {
    check(
        &[
            "fib saddr . iif oif missing",
            "fib saddr oif missing",
            "ip saddr 10.0.0.0/8 fib saddr . iif check exists iif lan",
            "fib",
            "fib daddr . iif type local",
            "fib saddr . mark oif missing",
            "fib saddr . iif oif 0",
            "fib saddr oif missing fib saddr oif missing",
            "fib saddr oif != missing",
        ],
        expect![[r#"
            fib saddr . iif oif missing => fib saddr . iif oif missing
            fib saddr oif missing => fib saddr oif missing
            ip saddr 10.0.0.0/8 fib saddr . iif check exists iif lan => iif lan ip saddr 10.0.0.0/8 fib saddr . iif oif exists
            fib => at 3 [] 'fib' is not followed by 'saddr'; add 'saddr'
            fib daddr . iif type local => at 4 [daddr] 'fib' supports only 'saddr', not 'daddr'; write 'fib saddr . iif oif missing'
            fib saddr . mark oif missing => at 12 [mark] '.' supports only 'iif', not 'mark'; write 'fib saddr . iif oif missing'
            fib saddr . iif oif 0 => at 20 [0] '0' is neither 'missing' nor 'exists'; write 'fib saddr . iif oif missing'
            fib saddr oif missing fib saddr oif missing => at 22 [fib] the condition on routes is given twice; keep one: every clause must hold
            fib saddr oif != missing => at 14 [!=] matches do not support '!='; write 'oif VALUE'
        "#]],
    );
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
            "udp dport { 53, 80-90, 91 }",
            "udp dport @dns",
            "ip saddr { 10.0.0.0/9, 10.128.0.0/9, 10.1.2.3 }",
            "ip6 daddr @servers",
            "vrf red",
            "vlan id 0",
            "ip6 flowlabel 0xfffff",
            "meta length 1500",
            "tcp flags syn/syn,ack",
            "tcp flags none/rst",
            "tcp dport 22 tcp flags fin,fin",
            "icmp type echo-request icmp code 0",
            "icmpv6 code 4",
            "icmpv6 type { 1-4, nd-redirect }",
            "fragment later",
            "ct state related,established",
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
            ip ip6 => at 3 [ip6] 'ip6' contradicts the earlier 'ip'; a packet has one IP version; write a path or rule for each
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
            udp dport { 53, 80-90, 91 } => udp dport { 53, 80-91 }
            udp dport @dns => udp dport @dns
            ip saddr { 10.0.0.0/9, 10.128.0.0/9, 10.1.2.3 } => ip saddr 10.0.0.0/8
            ip6 daddr @servers => ip6 daddr @servers
            vrf red => vrf red
            vlan id 0 => vlan id 0
            ip6 flowlabel 0xfffff => ip6 flowlabel 1048575
            meta length 1500 => meta length 1500
            tcp flags syn/syn,ack => tcp flags syn/syn,ack
            tcp flags none/rst => tcp flags none/rst
            tcp dport 22 tcp flags fin,fin => tcp dport 22 tcp flags fin
            icmp type echo-request icmp code 0 => icmp type echo-request icmp code 0
            icmpv6 code 4 => icmpv6 code 4
            icmpv6 type { 1-4, nd-redirect } => icmpv6 type { 1-4, nd-redirect }
            fragment later => fragment later
            ct state related,established => ct state established,related
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
            "udp dport { 53, 80-70 }",
            "udp dport { 53",
            "udp dport @",
            "udp dport @Dns",
            "udp dport 53,80",
            "ip saddr { 10.0.0.0/8, 2001:db8::1 }",
            "ip dscp { ef, af41 }",
            "vlan 7",
            "vlan id 4096",
            "vrf Red",
            "ip6 flowlabel 0x100000",
            "ip flowlabel 1",
            "meta length 70000",
            "udp flags syn",
            "flags syn",
            "tcp flags syn,sin",
            "tcp flags syn tcp flags ack",
            "icmp type echo",
            "icmp code 256",
            "icmp type 3 icmpv6 code 1",
            "fragment yes",
            "ct state old",
            "ct mark 1",
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
            udp dport { 53, 80 } => udp dport { 53, 80 }
            udp dport != 53 => at 10 [!=] matches do not support '!='; write 'dport VALUE'
            udp dport 53 udp dport 54 => at 17 [dport] the destination port is given twice; keep one: every clause must hold
            udp dport 53 tcp sport 80 => at 13 [tcp] 'tcp' contradicts the earlier 'udp'; a packet has one protocol; write a path or rule for each
            udp tcp => at 4 [tcp] 'tcp' contradicts the earlier 'udp'; a packet has one protocol; write a path or rule for each
            icmp udp => at 5 [udp] 'udp' contradicts the earlier 'icmp'; a packet has one protocol; write a path or rule for each
            icmp ip6 => at 5 [ip6] 'ip6' contradicts the earlier 'icmp'; a packet has one IP version; write a path or rule for each
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
            meta mark 3 => at 5 [mark] 'mark' is no 'meta' field; write 'meta l4proto 89' or 'meta length 64-1500'
            meta => at 4 [] 'meta' is not followed by 'l4proto' or 'length'; add 'l4proto' or 'length'
            iif => at 3 [] 'iif' is not followed by an interface, like 'lan' or 'lan.20'; add an interface, like 'lan' or 'lan.20'
            iif Lan => at 4 [Lan] 'Lan' is no interface; write the name of a port, or of its VLAN like 'lan.20'
            iif "lan => at 4 ["lan] '"lan' is no interface; write the name of a port, or of its VLAN like 'lan.20'
            iif lan iif wan => at 8 [iif] the interface is given twice; keep one: every clause must hold
            dport 53 => at 0 [dport] 'dport' needs a protocol before it; write 'udp dport ...' or 'tcp dport ...'
            saddr 10.0.0.1 => at 0 [saddr] 'saddr' needs a header before it; write 'ip saddr ...' or 'ip6 saddr ...'
            tcp and udp => at 4 [and] 'tcp' has no field 'and'; use one of sport, dport, flags
            tcp or udp => at 4 [or] 'tcp' has no field 'or'; use one of sport, dport, flags
            not tcp => at 0 [not] matches do not support 'not'; write one path or rule for each alternative; the first that matches wins
            ip dscp é => at 8 [é] 'é' is no code point; write a name like ef, af41 or cs6, or a number from 0 to 63
            udp dport { 53, 80-70 } => at 16 [80-70] the range of ports ends before it begins; write 70-80
            udp dport { 53 => at 10 [{ 53] the list is not closed; add '}'
            udp dport @ => at 10 [@] '@' is no name of a set; write '@', a letter, then letters, digits, '_' and '-', 31 at most
            udp dport @Dns => at 10 [@Dns] '@Dns' is no name of a set; write '@', a letter, then letters, digits, '_' and '-', 31 at most
            udp dport 53,80 => at 10 [53,80] '53,80' is no port; write a number from 0 to 65535, or a range like 5000-5010
            ip saddr { 10.0.0.0/8, 2001:db8::1 } => at 23 [2001:db8::1] '2001:db8::1' is an IPv6 address after 'ip'; write 'ip6 saddr 2001:db8::1'
            ip dscp { ef, af41 } => at 8 [{ ef, af41 }] 'dscp' supports only one value; write one path or rule for each value
            vlan 7 => at 5 [7] 'vlan' supports only 'id', not '7'; write 'vlan id 20'
            vlan id 4096 => at 8 [4096] '4096' is no VLAN; write a number from 0 to 4095
            vrf Red => at 4 [Red] 'Red' is no name of a VRF; write 'vrf red', or 'vrf main'
            ip6 flowlabel 0x100000 => at 14 [0x100000] '0x100000' is no flow label; write a number from 0 to 1048575, or 0x0 to 0xfffff
            ip flowlabel 1 => at 3 [flowlabel] 'ip' has no field 'flowlabel'; use one of saddr, daddr, dscp, protocol
            meta length 70000 => at 12 [70000] '70000' is no length; write a number of bytes from 0 to 65535, or a range like 64-1500
            udp flags syn => at 4 [flags] 'udp' has no field 'flags'; use one of sport, dport
            flags syn => at 0 [flags] 'flags' needs a protocol before it; write 'tcp flags ...'
            tcp flags syn,sin => at 14 [sin] 'sin' is not known; did you mean 'fin'?
            tcp flags syn tcp flags ack => at 18 [flags] a condition on flags is given twice; keep one: every clause must hold
            icmp type echo => at 10 [echo] 'echo' is no type; use one of echo-reply, destination-unreachable, source-quench, redirect, echo-request, router-advertisement, router-solicitation, time-exceeded, parameter-problem, timestamp-request, timestamp-reply
            icmp code 256 => at 10 [256] '256' is no code; write a number from 0 to 255
            icmp type 3 icmpv6 code 1 => at 12 [icmpv6] 'icmpv6' contradicts the earlier 'icmp'; a packet has one IP version; write a path or rule for each
            fragment yes => at 9 [yes] 'yes' is not known; use one of whole, first, later
            ct state old => at 9 [old] 'old' is not known; use one of untracked, new, established, related
            ct mark 1 => at 3 [mark] 'ct' supports only 'state', not 'mark'; write 'ct state established'
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

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("lan".to_string()), Just("red".to_string())]
}

fn addresses(address: impl Strategy<Value = IpAddr> + 'static, least: u8, most: u8) -> BoxedStrategy<AddressMatch> {
    let prefix = (address, least..=most).prop_map(|(a, length)| Prefix::new(a, length).unwrap());
    let prefixes = prop::collection::vec(prefix, 1..4).prop_map(AddressMatch::prefixes);
    prop_oneof![Just(AddressMatch::Any), prefixes, name().prop_map(AddressMatch::Set)].boxed()
}

fn small_range<T: Copy + Ord + Arbitrary>(values: std::ops::Range<T>) -> impl Strategy<Value = RangeInclusive<T>>
where
    std::ops::Range<T>: Strategy<Value = T> + Clone,
{
    (values.clone(), values).prop_map(|(a, b)| a.min(b)..=a.max(b))
}

fn ports() -> impl Strategy<Value = PortMatch> {
    let ranges = prop::collection::vec(small_range(0u16..12), 1..4).prop_map(PortMatch::ranges);
    prop_oneof![Just(PortMatch::Any), ranges, name().prop_map(PortMatch::Set)]
}

/// The conditions that every family and protocol allows.
fn basic_match() -> impl Strategy<Value = Match> {
    let iif = prop::option::of(prop_oneof![Just("lan".to_string()), Just("lan.20".to_string())]);
    let bits = |most: u8| prop::option::of(1..=most);
    let length = prop::option::of(small_range(60u16..70));
    (iif, prop::option::of(name()), prop::option::of(0u16..3), bits(7), bits(15), length).prop_map(
        |(iif, vrf, vlan, fragments, states, length)| {
            let mut m = Match::default();
            (m.iif, m.vrf, m.vlan, m.fragments, m.states, m.length) = (iif, vrf, vlan, fragments, states, length);
            m
        },
    )
}

/// Every match of the grammar, over few values.
fn any_match() -> impl Strategy<Value = Match> {
    let protocol = prop_oneof![Just(1u8), Just(6), Just(17), Just(58), Just(89), any::<u8>()];
    let v4 = (addresses(address4(), 6, 32), addresses(address4(), 6, 32));
    let v6 = (addresses(address6(), 30, 128), addresses(address6(), 30, 128), prop::option::of(0u32..3));
    let flags = prop::option::of((any::<u8>(), 1u8..).prop_map(|(value, mask)| (value & mask, mask)));
    let types = prop::collection::vec(small_range(0u8..12), 0..3).prop_map(|ranges| {
        // Canonical by construction: the even values of the ranges.
        let mut even: Vec<u8> = ranges.into_iter().flatten().filter(|value| value % 2 == 0).collect();
        even.sort_unstable();
        even.dedup();
        even.into_iter().map(|value| value..=value).collect::<Vec<_>>()
    });
    let ip = (0u8..3, prop::option::of(0u8..64), v4, v6);
    let upper = (prop::option::of(protocol), ports(), ports(), flags, types, prop::option::of(0u8..3));
    (basic_match(), ip, upper).prop_map(|(mut m, (family, dscp, v4, v6), upper)| {
        let (protocol, sport, dport, flags, types, code) = upper;
        m.protocol = protocol;
        match family {
            0 => {}
            1 => (m.family, m.dscp, (m.source, m.destination)) = (MatchFamily::V4, dscp, v4),
            _ => (m.family, m.dscp, (m.source, m.destination, m.flow_label)) = (MatchFamily::V6, dscp, v6),
        }
        if matches!(protocol, Some(6 | 17)) {
            (m.sport, m.dport) = (sport, dport);
            m.tcp_flags = flags.filter(|_| protocol == Some(6));
        }
        if (m.family, protocol) == (MatchFamily::V4, Some(1)) || (m.family, protocol) == (MatchFamily::V6, Some(58)) {
            (m.icmp_types, m.icmp_code) = (types, code);
        }
        m
    })
}

fn fields() -> impl Strategy<Value = MatchFields> {
    let addresses = prop_oneof![(address4(), address4()), (address6(), address6())];
    let protocol = prop_oneof![Just(1u8), Just(6), Just(17), Just(58), Just(89)];
    let fragment = prop_oneof![Just(MatchFragment::Whole), Just(MatchFragment::First), Just(MatchFragment::Later)];
    let upper = (0u16..12, 0u16..12, any::<u8>(), 0u8..12, 0u8..3);
    let rest = (0u8..64, prop::option::of(0u16..3), 0u32..3, 60u16..70, 0u8..4);
    (addresses, protocol, fragment, upper, rest).prop_map(|((source, destination), protocol, fragment, upper, rest)| {
        let (sport, dport, flags, icmp_type, icmp_code) = upper;
        let (dscp, vlan, flow_label, length, state) = rest;
        let of = |protocols: &[u8]| fragment != MatchFragment::Later && protocols.contains(&protocol);
        MatchFields {
            source,
            destination,
            protocol,
            dscp,
            sport: Some(sport).filter(|_| of(&[6, 17])),
            dport: Some(dport).filter(|_| of(&[6, 17])),
            tcp_flags: Some(flags).filter(|_| of(&[6])),
            icmp_type: Some(icmp_type).filter(|_| of(&[1, 58])),
            icmp_code: Some(icmp_code).filter(|_| of(&[1, 58])),
            fragment,
            vlan,
            flow_label: if source.is_ipv4() { 0 } else { flow_label },
            length,
            state,
        }
    })
}

/// The set `lan` has the even addresses and ports, `red` all others.
struct Halves;

impl SetLookup for Halves {
    fn contains_address(&self, set: &str, address: IpAddr) -> bool {
        let last = match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[15],
        };
        self.contains_port(set, last.into())
    }

    fn contains_port(&self, set: &str, port: u16) -> bool {
        (set == "lan") == port.is_multiple_of(2)
    }
}

/// The oracle evaluates the canonical text clause by clause, independently of the parser.
fn oracle(text: &str, f: &MatchFields) -> bool {
    let spaced = text.replace("{ ", "{").replace(", ", ",").replace(" }", "}");
    let mut words = spaced.split(' ').peekable();
    let mut all = true;
    while let Some(head) = words.next() {
        let fields: &[&str] = match head {
            "iif" | "vrf" | "fragment" => &[""],
            "ip" => &["saddr", "daddr", "dscp", "protocol"],
            "ip6" => &["saddr", "daddr", "dscp", "nexthdr", "flowlabel"],
            "tcp" => &["sport", "dport", "flags"],
            "udp" => &["sport", "dport"],
            "icmp" | "icmpv6" => &["type", "code"],
            "vlan" => &["id"],
            "meta" => &["l4proto", "length"],
            "ct" => &["state"],
            "any" => &[],
            other => panic!("not canonical: {other:?} in {text}"),
        };
        let field = if fields == [""] { Some("") } else { words.next_if(|word| fields.contains(word)) };
        let value = field.map_or("", |_| words.next().expect("a value"));
        all &= clause(head, field.unwrap_or(""), value, f);
    }
    all
}

fn clause(head: &str, field: &str, value: &str, f: &MatchFields) -> bool {
    let header = match head {
        "ip" => f.source.is_ipv4(),
        "ip6" => f.source.is_ipv6(),
        "tcp" | "udp" => f.protocol == protocol(head),
        "icmp" => f.source.is_ipv4() && f.protocol == 1,
        "icmpv6" => f.source.is_ipv6() && f.protocol == 58,
        _ => true,
    };
    let flag = |name: &str| ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"].iter().position(|f| *f == name);
    let flags = |text: &str| text.split(',').filter_map(flag).map(|bit| 1u8 << bit).sum::<u8>();
    let holds = match (field, head) {
        ("saddr", _) => address(f.source, value),
        ("daddr", _) => address(f.destination, value),
        ("sport", _) => f.sport.is_some_and(|port| number(port, value)),
        ("dport", _) => f.dport.is_some_and(|port| number(port, value)),
        ("dscp", _) => plan::dscp_name(f.dscp) == value,
        ("protocol" | "nexthdr" | "l4proto", _) => f.protocol == protocol(value),
        ("flowlabel", _) => f.flow_label.to_string() == value,
        ("length", _) => number(f.length, value),
        ("id", _) => f.vlan.is_some_and(|id| id.to_string() == value),
        ("flags", _) => f.tcp_flags.is_some_and(|found| {
            let (wanted, mask) = value.split_once('/').unwrap_or((value, value));
            (0..8).all(|bit| flags(mask) >> bit & 1 == 0 || found >> bit & 1 == flags(wanted) >> bit & 1)
        }),
        ("type", _) => f.icmp_type.is_some_and(|kind| {
            value.trim_matches(['{', '}']).split(',').any(|text| {
                let named = match (text, head) {
                    ("echo-reply", "icmp") => 0,
                    ("source-quench", _) | ("parameter-problem", "icmpv6") => 4,
                    ("destination-unreachable", "icmpv6") => 1,
                    ("packet-too-big", _) => 2,
                    ("echo-request", "icmp") => 8,
                    ("router-solicitation", "icmp") => 10,
                    (number, _) => number.parse().unwrap(),
                };
                named == kind
            })
        }),
        ("code", _) => f.icmp_code.is_some_and(|code| code.to_string() == value),
        ("state", _) => {
            value.split(',').any(|one| one == ["untracked", "new", "established", "related"][usize::from(f.state)])
        }
        ("", "fragment") => value.split(',').any(|one| one == format!("{:?}", f.fragment).to_lowercase()),
        ("", _) => true,
        other => panic!("not canonical: {other:?}"),
    };
    header && holds
}

fn protocol(text: &str) -> u8 {
    match text {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "icmpv6" => 58,
        "ospf" => 89,
        "igmp" | "dccp" | "gre" | "esp" | "ah" | "vrrp" | "sctp" | "udplite" => 255,
        other => other.parse::<u8>().unwrap(),
    }
}

fn number(value: u16, text: &str) -> bool {
    if let Some(set) = text.strip_prefix('@') {
        return (set == "lan") == (value.is_multiple_of(2));
    }
    text.trim_matches(['{', '}']).split(',').any(|text| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        first.parse::<u16>().unwrap() <= value && value <= last.parse::<u16>().unwrap()
    })
}

fn address(address: IpAddr, text: &str) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(a) => format!("{:032b}", a.to_bits()),
        IpAddr::V6(a) => format!("{:0128b}", a.to_bits()),
    };
    if let Some(set) = text.strip_prefix('@') {
        return (set == "lan") == bits(address).ends_with('0');
    }
    text.trim_matches(['{', '}']).split(',').any(|text| {
        let (network, length) = match text.split_once('/') {
            Some((network, length)) => (network, length.parse().unwrap()),
            None => (text, if text.contains(':') { 128 } else { 32 }),
        };
        let network: IpAddr = network.parse().unwrap();
        network.is_ipv4() == address.is_ipv4() && bits(network)[..length] == bits(address)[..length]
    })
}

proptest! {
    #[test]
    fn match_parses_back_as_printed(m in any_match()) {
        prop_assert_eq!(Match::parse(&m.to_string()).map_err(|e| e.to_string()), Ok(m));
    }

    #[test]
    fn match_means_the_same_as_its_text(m in any_match(), packets in prop::collection::vec(fields(), 20)) {
        for f in packets {
            prop_assert_eq!(m.matches(&f, &Halves), oracle(&m.to_string(), &f), "{} {:?}", m, f);
        }
    }

    #[test]
    fn covering_match_includes_all_packets_of_the_covered(a in any_match(), b in any_match(), packets in prop::collection::vec(fields(), 50)) {
        prop_assert!(a.covers(&a));
        prop_assert!(Match::default().covers(&a));
        if a.covers(&b) {
            for f in packets {
                prop_assert!(!b.matches(&f, &Halves) || a.matches(&f, &Halves), "{} covers {} but not {:?}", a, b, f);
            }
        }
    }

    #[test]
    fn named_sets_are_those_of_the_text(m in any_match()) {
        let text = m.to_string();
        let named: Vec<(&str, SetKind)> = m.sets().map(|(name, field)| (name, field.set_kind().unwrap())).collect();
        let words: Vec<&str> = text.split(' ').collect();
        let in_text = words.windows(3).filter_map(|words| {
            let kind = match words[0] {
                "ip" | "ip6" => SetKind::Address,
                _ => SetKind::Port,
            };
            Some((words[2].strip_prefix('@')?, kind))
        });
        prop_assert_eq!(named, in_text.collect::<Vec<_>>());
    }

    #[test]
    fn order_of_clauses_does_not_matter(m in any_match(), seed: u64) {
        let text = m.to_string();
        let heads = ["iif", "vrf", "vlan", "ip", "ip6", "tcp", "udp", "icmp", "icmpv6", "meta", "fragment", "ct", "any"];
        let mut clauses: Vec<String> = Vec::new();
        for word in text.split(' ') {
            let value = clauses.last().is_some_and(|c| ["l4proto", "protocol", "nexthdr"].iter().any(|end| c.ends_with(end)));
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
    fn match_parser_never_panics(text in r#"((ip|ip6|tcp|udp|icmp|iif|vlan id|vrf|fragment|later|ct state|new|flags|type|code|flowlabel|length|\{|\}|,|/|@a|saddr|daddr|dscp|sport|dport|any|meta|l4proto|10\.0\.0\.0/8|::/0|80|5-7|[ -~]|é)[ \t]?){0,12}"#) {
        if let Err(error) = Match::parse(&text) {
            prop_assert!(text.get(error.offset..error.offset + error.length).is_some());
            prop_assert!(!error.reason.is_empty() && !error.hint.is_empty());
        }
    }
}
