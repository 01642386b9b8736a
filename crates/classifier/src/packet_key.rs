//! The fields of a packet as words of a key, and the conditions of a match as rules on these words.
//!
//! IPv4 keys have four words, IPv6 keys seven: the addresses, then three words that are the same for both.
//!
//! | word | bits |
//! |---|---|
//! | headers | protocol 56–63, TCP flags 48–55, presence of fields 44–47, DSCP 38–43, fragment 36–37, state 34–35, VLAN 21–33, flow label 0–19 |
//! | ids | input interface 48–63, VRF 32–47, named sets that have an address or a port of the packet 0–31 |
//! | lanes | source port or ICMP type, destination port or ICMP code, length of the IP packet |

use crate::rule::{Key, TernaryRule};
use plan::{AddressMatch, Condition, Match, MatchFamily, MatchFields, MatchFragment, PortMatch};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use units::{InterfaceId, VrfId};

/// Words of an IPv4 key.
pub(crate) const WORDS4: usize = 4;
/// Words of an IPv6 key.
pub(crate) const WORDS6: usize = 7;

/// The fields that IPv4 and IPv6 packets share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyFields {
    /// The IP protocol after extension headers.
    pub protocol: u8,
    /// The code point, 0 to 63.
    pub dscp: u8,
    /// Source and destination port, if the packet has them.
    pub ports: Option<(u16, u16)>,
    /// The TCP flags, if the packet has them.
    pub tcp_flags: Option<u8>,
    /// Type of an ICMP message, if the packet has it.
    pub icmp_type: Option<u8>,
    /// Code of an ICMP message, if the packet has it.
    pub icmp_code: Option<u8>,
    /// Whole packet or fragment.
    pub fragment: MatchFragment,
    /// The identifier of its 802.1Q tag.
    pub vlan: Option<u16>,
    /// The IPv6 flow label.
    pub flow_label: u32,
    /// The length of the IP packet in bytes.
    pub length: u16,
    /// The state of its connection, 0 to 3.
    pub state: u8,
    /// The input interface.
    pub interface: InterfaceId,
    /// Its VRF.
    pub vrf: VrfId,
}

const HAS_PORTS: u64 = 1 << 47;
const HAS_FLAGS: u64 = 1 << 46;
const HAS_TYPE: u64 = 1 << 45;
const HAS_CODE: u64 = 1 << 44;
const HAS_VLAN: u64 = 1 << 33;

const PROTOCOL: u32 = 56;
const FLAGS: u32 = 48;
const DSCP: u32 = 38;
const FRAGMENT: u32 = 36;
const STATE: u32 = 34;
const VLAN: u32 = 21;

const INTERFACE: u32 = 48;
const VRF: u32 = 32;

impl KeyFields {
    /// The fields of a packet as matches see them, and where it came in.
    pub fn of(f: &MatchFields, interface: InterfaceId, vrf: VrfId) -> KeyFields {
        KeyFields {
            protocol: f.protocol,
            dscp: f.dscp,
            ports: f.sport.zip(f.dport),
            tcp_flags: f.tcp_flags,
            icmp_type: f.icmp_type,
            icmp_code: f.icmp_code,
            fragment: f.fragment,
            vlan: f.vlan,
            flow_label: f.flow_label,
            length: f.length,
            state: f.state,
            interface,
            vrf,
        }
    }

    /// The last three words of a key.
    #[inline(always)]
    fn words(&self) -> [u64; 3] {
        let flag = |has: bool, bit: u64| if has { bit } else { 0 };
        let headers = u64::from(self.protocol) << PROTOCOL
            | u64::from(self.tcp_flags.unwrap_or(0)) << FLAGS
            | flag(self.ports.is_some(), HAS_PORTS)
            | flag(self.tcp_flags.is_some(), HAS_FLAGS)
            | flag(self.icmp_type.is_some(), HAS_TYPE)
            | flag(self.icmp_code.is_some(), HAS_CODE)
            | u64::from(self.dscp) << DSCP
            | (self.fragment as u64) << FRAGMENT
            | u64::from(self.state & 3) << STATE
            | self.vlan.map_or(0, |vlan| HAS_VLAN | u64::from(vlan & 0xfff) << VLAN)
            | u64::from(self.flow_label & 0xf_ffff);
        let ids = u64::from(self.interface.0) << INTERFACE | u64::from(self.vrf.0) << VRF;
        // No protocol has both ports and ICMP types.
        let (first, second) =
            self.ports.unwrap_or((self.icmp_type.unwrap_or(0).into(), self.icmp_code.unwrap_or(0).into()));
        [headers, ids, u64::from(first) | u64::from(second) << 16 | u64::from(self.length) << 32]
    }

    /// The key of an IPv4 packet.
    #[inline(always)]
    pub(crate) fn key4(&self, source: u32, destination: u32) -> Key<WORDS4> {
        let [headers, ids, lanes] = self.words();
        Key([u64::from(source) << 32 | u64::from(destination), headers, ids, lanes])
    }

    /// The key of an IPv6 packet.
    pub(crate) fn key6(&self, source: u128, destination: u128) -> Key<WORDS6> {
        let [headers, ids, lanes] = self.words();
        let [s, d] = [source, destination].map(halves);
        Key([s.0, s.1, d.0, d.1, headers, ids, lanes])
    }
}

fn halves(address: u128) -> (u64, u64) {
    ((address >> 64) as u64, address as u64)
}

/// The word of the ids in a key of `W` words.
pub(crate) const fn ids_word(words: usize) -> usize {
    words - 2
}

/// The first word of `W` that has no addresses.
const fn headers_word(words: usize) -> usize {
    words - 3
}

/// The rules for keys of `W` words that together are `matching`. `set_bit` gives the bit of a named set, by its name and field.
///
/// The number of rules is the product of the numbers of listed values: the caller has checked that it is not too large ([`Match::combinations`]).
pub(crate) fn ternary_rules<const W: usize>(
    matching: &Match,
    (interface, vrf): (Option<InterfaceId>, Option<VrfId>),
    any: TernaryRule<W>,
    set_bit: &mut impl FnMut(&str, Condition) -> u32,
) -> Vec<TernaryRule<W>> {
    let family = if W == WORDS4 { MatchFamily::V4 } else { MatchFamily::V6 };
    if matching.family != MatchFamily::Any && matching.family != family {
        return Vec::new();
    }
    let (headers, ids) = (headers_word(W), ids_word(W));
    let field = |rule: TernaryRule<W>, value: Option<u64>, shift: u32, width: u32| match value {
        Some(value) => rule.bits(headers, value << shift, ((1 << width) - 1) << shift),
        None => rule,
    };
    let mut rule = field(any, matching.protocol.map(u64::from), PROTOCOL, 8);
    rule = field(rule, matching.dscp.map(u64::from), DSCP, 6);
    rule = field(rule, matching.vlan.map(|vlan| u64::from(vlan) | HAS_VLAN >> VLAN), VLAN, 13);
    rule = field(rule, matching.flow_label.map(u64::from), 0, 20);
    if let Some((flags, mask)) = matching.tcp_flags {
        rule = rule.bits(headers, u64::from(flags) << FLAGS | HAS_FLAGS, u64::from(mask) << FLAGS | HAS_FLAGS);
    }
    if let Some(interface) = interface {
        rule = rule.bits(ids, u64::from(interface.0) << INTERFACE, 0xffff << INTERFACE);
    }
    if let Some(vrf) = vrf {
        rule = rule.bits(ids, u64::from(vrf.0) << VRF, 0xffff << VRF);
    }
    if let Some(code) = matching.icmp_code {
        rule = rule.bits(headers, HAS_CODE, HAS_CODE).lane(1, code.into()..=code.into());
    }
    if let Some(length) = &matching.length {
        rule = rule.lane(2, length.clone());
    }
    let mut rules = vec![rule];
    let mut set = |name: &str, field| {
        let bit = 1 << set_bit(name, field);
        move |rule: TernaryRule<W>| rule.bits(ids, bit, bit)
    };
    for (addresses, which) in [(&matching.source, Condition::Source), (&matching.destination, Condition::Destination)] {
        match addresses {
            AddressMatch::Any => {}
            AddressMatch::Prefixes(prefixes) => {
                let with = |rule, prefix: &plan::Prefix| address_bits(rule, which, prefix.address, prefix.length);
                rules = product(&rules, prefixes, with);
            }
            AddressMatch::Set(name) => {
                let with = set(name, which);
                rules = rules.into_iter().map(with).collect();
            }
        }
    }
    for (ports, which, lane) in
        [(&matching.sport, Condition::SourcePort, 0), (&matching.dport, Condition::DestinationPort, 1)]
    {
        match ports {
            PortMatch::Any => continue,
            PortMatch::Ranges(ranges) => {
                rules = product(&rules, ranges, |rule, range: &RangeInclusive<u16>| rule.lane(lane, range.clone()));
            }
            PortMatch::Set(name) => {
                let with = set(name, which);
                rules = rules.into_iter().map(with).collect();
            }
        }
        rules.iter_mut().for_each(|rule| *rule = rule.bits(headers, HAS_PORTS, HAS_PORTS));
    }
    if !matching.icmp_types.is_empty() {
        rules = product(&rules, &matching.icmp_types, |rule, types| {
            let range = u16::from(*types.start())..=u16::from(*types.end());
            rule.bits(headers, HAS_TYPE, HAS_TYPE).lane(0, range)
        });
    }
    for (accepted, shift) in [(matching.fragments, FRAGMENT), (matching.states, STATE)] {
        let Some(accepted) = accepted else { continue };
        rules = product(&rules, &pairs_of_bits(accepted), |rule, (value, mask)| {
            rule.bits(headers, value << shift, mask << shift)
        });
    }
    rules
}

fn product<const W: usize, T>(
    rules: &[TernaryRule<W>],
    values: &[T],
    with: impl Fn(TernaryRule<W>, &T) -> TernaryRule<W>,
) -> Vec<TernaryRule<W>> {
    rules.iter().flat_map(|rule| values.iter().map(|value| with(*rule, value))).collect()
}

/// Conditions on two bits, as value and mask, that together accept the numbers 0 to 3 of `accepted` (a bit for each): as few as possible.
fn pairs_of_bits(accepted: u8) -> Vec<(u64, u64)> {
    let mut left = accepted & 15;
    let mut pairs = Vec::new();
    // Larger blocks first: all four, then pairs that differ in one bit, then single numbers.
    for mask in [0u64, 1, 2, 3] {
        for value in (0..4u64).filter(|value| value & !mask == 0) {
            let block = (0..4u64).filter(|number| number & mask == value).fold(0u8, |bits, number| bits | 1 << number);
            if block & accepted == block && block & left != 0 {
                pairs.push((value, mask));
                left &= !block;
            }
        }
    }
    pairs
}

fn address_bits<const W: usize>(rule: TernaryRule<W>, which: Condition, address: IpAddr, length: u8) -> TernaryRule<W> {
    let second = which == Condition::Destination;
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let shift = if second { 0 } else { 32 };
            rule.bits(0, u64::from(address.to_bits() & mask) << shift, u64::from(mask) << shift)
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            let ((first, last), (high, low)) = (halves(address.to_bits() & mask), halves(mask));
            let word = if second { 2 } else { 0 };
            rule.bits(word, first, high).bits(word + 1, last, low)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_accept_exactly_the_listed_numbers() {
        for accepted in 0..16u8 {
            let pairs = pairs_of_bits(accepted);
            for number in 0..4u64 {
                let holds = pairs.iter().any(|(value, mask)| number & mask == *value);
                assert_eq!(holds, accepted >> number & 1 == 1, "{number} of {accepted:b}");
            }
            assert!(pairs.len() <= 2);
        }
        assert_eq!(pairs_of_bits(15), [(0, 0)]);
        assert_eq!(pairs_of_bits(0b1100), [(2, 2)]);
    }
}
