//! Names of IP protocols, DiffServ code points, TCP flags, ICMP types, fragments and connection states.

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;

/// Protocols by their names in `/etc/protocols`.
pub(super) const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", ICMP),
    ("igmp", 2),
    ("tcp", TCP),
    ("udp", UDP),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", ICMPV6),
    ("ospf", 89),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

/// Code points by name: RFC 2474 (class selectors), 2597 (assured), 3246 (expedited), 5865 (voice-admit), 8622 (lower
/// effort).
pub(super) const DSCPS: &[(&str, u8)] = &[
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("va", 44),
    ("le", 1),
    ("be", 0),
];

/// TCP flags by their bit in the header (RFC 9293 3.1).
pub(super) const FLAGS: &[&str] = &["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"];

/// Connection states by the plane's codes.
pub(super) const STATES: &[&str] = &["untracked", "new", "established", "related"];
/// All of them.
pub(super) const STATE_BITS: u8 = 0b1111;

/// In the order of [`MatchFragment`](super::MatchFragment).
pub(super) const FRAGMENTS: &[&str] = &["whole", "first", "later"];
/// All of them.
pub(super) const FRAGMENT_BITS: u8 = 0b111;

/// ICMP types by the names of nftables (RFC 792).
const TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];
/// ICMPv6 types by the names of nftables (RFC 4443, RFC 4861).
const TYPES6: &[(&str, u8)] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
];

/// The names of the message types of a protocol.
pub(super) fn icmp_types(protocol: u8) -> &'static [(&'static str, u8)] {
    if protocol == ICMPV6 { TYPES6 } else { TYPES }
}

/// The name of a code point, or its number if it has none.
pub fn dscp_name(dscp: u8) -> String {
    name_of(DSCPS, dscp)
}

/// The name of an IP protocol, or its number if it has none here.
pub fn protocol_name(protocol: u8) -> String {
    name_of(PROTOCOLS, protocol)
}

/// The code point of a name, or of a number from 0 to 63.
pub fn dscp_number(text: &str) -> Option<u8> {
    named(DSCPS, text, 63)
}

/// The IP protocol of a name, or of a number.
pub fn protocol_number(text: &str) -> Option<u8> {
    named(PROTOCOLS, text, 255)
}

pub(super) fn name_of(names: &[(&str, u8)], value: u8) -> String {
    names.iter().find(|(_, v)| *v == value).map_or_else(|| value.to_string(), |(name, _)| name.to_string())
}

/// A name from the table, or a number up to `most` (decimal, or hexadecimal as nftables prints it).
pub(super) fn named(names: &[(&str, u8)], text: &str, most: u8) -> Option<u8> {
    if let Some((_, value)) = names.iter().find(|(name, _)| *name == text) {
        return Some(*value);
    }
    let value = match text.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u8::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None => number(text).and_then(|n| u8::try_from(n).ok()),
    };
    value.filter(|value| *value <= most)
}

/// A number, decimal or hexadecimal.
pub(super) fn wide_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        None => None,
    }
}

/// Parses digits only: `from_str` would accept a sign.
pub(super) fn number(text: &str) -> Option<u16> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}
