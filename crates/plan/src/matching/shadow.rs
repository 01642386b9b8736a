//! Finds matches that no packet reaches, because earlier ones of the same list include all of its packets.
//!
//! Earlier matches are indexed by their prefixes, protocol and destination port: a tuple space. A match is compared only with those whose prefixes
//! cover its own. Earlier matches that are equal but for one field are also added up: together they may cover what none of them covers alone.

use super::{AddressMatch, Match, PortMatch};
use crate::Prefix;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Limit of look-ups and comparisons: about a second. Afterwards no further match is checked.
const MOST_STEPS: usize = 20_000_000;
/// A match with more pairs of prefixes is kept outside of the index.
const MOST_PAIRS: usize = 64;
/// Limit of matches outside of the index.
const MOST_OUTSIDE: usize = 64;

/// Earlier matches that include all packets of another. They are numbered in the order of [`Shadows::add`], from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cover {
    /// This one.
    One(usize),
    /// Several together: the first and the last of them.
    Several(usize, usize),
}

/// The lengths of both prefixes, and whether protocol and port are set: where in the index a match is found.
type Tuple = (Option<u8>, Option<u8>, bool, bool);
/// The values of these fields.
type Place = (Option<Prefix>, Option<Prefix>, Option<u8>, Option<u16>);

/// The ranges of a field, and the hash of the other fields.
type FieldRanges = ((Field, u64), Vec<(u128, u128)>);

/// The matches so far.
#[derive(Default)]
pub(crate) struct Shadows {
    matches: Vec<Match>,
    /// The number of the first match of `matches`, and so on: covered matches are left out.
    numbers: Vec<usize>,
    index: HashMap<Tuple, HashMap<Place, Vec<usize>>>,
    outside: Vec<usize>,
    /// By the field that differs, and the hash of all others.
    unions: HashMap<(Field, u64), Ranges>,
    hasher: RandomState,
    added: usize,
    steps: usize,
}

/// A field whose values are added up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Field {
    Source,
    Destination,
    SourcePort,
    DestinationPort,
}

const FIELDS: [Field; 4] = [Field::Source, Field::Destination, Field::SourcePort, Field::DestinationPort];

impl Shadows {
    /// Adds the next match of the list. Returns the earlier ones that cover it. `decides` is false if packets of this match may reach later ones.
    pub fn add(&mut self, matching: &Match, decides: bool) -> Option<Cover> {
        let number = self.added;
        self.added += 1;
        if self.gave_up() {
            return None;
        }
        let fields = self.fields(matching);
        let cover = self.one(matching).map(Cover::One).or_else(|| self.several(&fields));
        // A match that covers another is itself covered by one that covers both.
        if decides && !matches!(cover, Some(Cover::One(_))) {
            self.index(matching.clone(), number);
            for (key, ranges) in fields {
                let union = self.unions.entry(key).or_default();
                ranges.into_iter().for_each(|range| union.add(range, number));
            }
        }
        cover
    }

    /// True if the list is too large to check, so that later matches were not checked.
    pub fn gave_up(&self) -> bool {
        self.steps >= MOST_STEPS
    }

    /// The first match that covers this one.
    fn one(&mut self, matching: &Match) -> Option<usize> {
        let (source, destination) = (first(&matching.source), first(&matching.destination));
        let port = single_port(&matching.dport);
        let mut found: Option<usize> = None;
        let mut steps = self.index.len();
        let mut compare = |candidates: &[usize]| {
            // Numbers ascend, and only a smaller one than the best so far is better.
            for &candidate in candidates.iter().take_while(|candidate| found.is_none_or(|best| **candidate < best)) {
                steps += 1;
                if self.matches[candidate].covers(matching) {
                    found = Some(candidate);
                    break;
                }
            }
        };
        compare(&self.outside);
        for (&(from, to, has_protocol, has_port), places) in &self.index {
            let (Some(source), Some(destination)) = (within(source, from), within(destination, to)) else { continue };
            if has_protocol && matching.protocol.is_none() || has_port && port.is_none() {
                continue;
            }
            let place = (source, destination, matching.protocol.filter(|_| has_protocol), port.filter(|_| has_port));
            compare(places.get(&place).map_or(&[], Vec::as_slice));
        }
        self.steps += steps;
        found.map(|found| self.numbers[found])
    }

    fn several(&self, fields: &[FieldRanges]) -> Option<Cover> {
        fields.iter().find_map(|(key, ranges)| self.unions.get(key)?.cover(ranges))
    }

    /// The ranges of each field that has some, with the hash of the other fields.
    fn fields(&self, matching: &Match) -> Vec<FieldRanges> {
        let mut rest = matching.clone();
        let mut out = Vec::new();
        for field in FIELDS {
            let ranges = match field {
                Field::Source => address_ranges(&matching.source),
                Field::Destination => address_ranges(&matching.destination),
                Field::SourcePort => port_ranges(&matching.sport),
                Field::DestinationPort => port_ranges(&matching.dport),
            };
            if ranges.is_empty() {
                continue;
            }
            let hash = match field {
                Field::Source => self.hash_without(&mut rest, |rest| &mut rest.source),
                Field::Destination => self.hash_without(&mut rest, |rest| &mut rest.destination),
                Field::SourcePort => self.hash_without(&mut rest, |rest| &mut rest.sport),
                Field::DestinationPort => self.hash_without(&mut rest, |rest| &mut rest.dport),
            };
            out.push(((field, hash), ranges));
        }
        out
    }

    fn hash_without<T: Default>(&self, matching: &mut Match, field: impl Fn(&mut Match) -> &mut T) -> u64 {
        let value = std::mem::take(field(matching));
        let hash = self.hasher.hash_one(&*matching);
        *field(matching) = value;
        hash
    }

    fn index(&mut self, matching: Match, number: usize) {
        let position = self.matches.len();
        let (from, to) = (keys(&matching.source), keys(&matching.destination));
        if from.len() * to.len() > MOST_PAIRS {
            if self.outside.len() < MOST_OUTSIDE {
                self.outside.push(position);
            } else {
                return;
            }
        } else {
            let port = single_port(&matching.dport);
            for &source in &from {
                for &destination in &to {
                    let length = |prefix: Option<Prefix>| prefix.map(|prefix| prefix.length);
                    let tuple = (length(source), length(destination), matching.protocol.is_some(), port.is_some());
                    let place = (source, destination, matching.protocol, port);
                    self.index.entry(tuple).or_default().entry(place).or_default().push(position);
                }
            }
        }
        self.matches.push(matching);
        self.numbers.push(number);
    }
}

/// The prefixes under which a match is found; `None` for every address, and for sets, whose elements are not known here.
fn keys(addresses: &AddressMatch) -> Vec<Option<Prefix>> {
    match addresses {
        AddressMatch::Prefixes(prefixes) => {
            prefixes.iter().map(|&prefix| Some(prefix).filter(|prefix| prefix.length > 0)).collect()
        }
        AddressMatch::Any | AddressMatch::Set(_) => vec![None],
    }
}

/// A match that covers another covers its first prefix, too.
fn first(addresses: &AddressMatch) -> Option<Prefix> {
    addresses.networks().first().copied()
}

/// The prefix of this length that covers `prefix`. The outer `None` says that there is none.
fn within(prefix: Option<Prefix>, length: Option<u8>) -> Option<Option<Prefix>> {
    let Some(length) = length else { return Some(None) };
    let prefix = prefix.filter(|prefix| prefix.length >= length)?;
    Some(Some(Prefix { length, ..prefix }.network()))
}

fn single_port(ports: &PortMatch) -> Option<u16> {
    match ports {
        PortMatch::Ranges(ranges) if ranges.len() == 1 && ranges[0].start() == ranges[0].end() => {
            Some(*ranges[0].start())
        }
        _ => None,
    }
}

fn address_ranges(addresses: &AddressMatch) -> Vec<(u128, u128)> {
    let number = |address| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    addresses.networks().iter().map(|prefix| (number(prefix.address), number(prefix.last()))).collect()
}

fn port_ranges(ports: &PortMatch) -> Vec<(u128, u128)> {
    match ports {
        PortMatch::Ranges(ranges) => {
            ranges.iter().map(|range| ((*range.start()).into(), (*range.end()).into())).collect()
        }
        PortMatch::Any | PortMatch::Set(_) => Vec::new(),
    }
}

/// A union of ranges that do not touch: by the first value, the last one, and the first and the last match that contributed.
#[derive(Default)]
struct Ranges(BTreeMap<u128, (u128, usize, usize)>);

impl Ranges {
    fn add(&mut self, (mut first, mut last): (u128, u128), number: usize) {
        let mut numbers = (number, number);
        // Merge with the ranges that touch: they begin no later than just behind the end.
        while let Some((&start, &(end, earliest, latest))) = self.0.range(..=last.saturating_add(1)).next_back()
            && end.saturating_add(1) >= first
        {
            self.0.remove(&start);
            (first, last) = (first.min(start), last.max(end));
            numbers = (numbers.0.min(earliest), numbers.1.max(latest));
        }
        self.0.insert(first, (last, numbers.0, numbers.1));
    }

    /// The matches that cover all of these ranges.
    fn cover(&self, ranges: &[(u128, u128)]) -> Option<Cover> {
        let mut numbers: Option<(usize, usize)> = None;
        for (first, last) in ranges {
            let (_, &(end, earliest, latest)) = self.0.range(..=first).next_back()?;
            if end < *last {
                return None;
            }
            let (a, b) = numbers.unwrap_or((earliest, latest));
            numbers = Some((a.min(earliest), b.max(latest)));
        }
        numbers.map(|(first, last)| Cover::Several(first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MatchFamily, MatchFields, NoSets};
    use proptest::prelude::*;

    fn covers(matches: &[&str]) -> Vec<Option<Cover>> {
        let mut shadows = Shadows::default();
        matches.iter().map(|text| shadows.add(&Match::parse(text).unwrap(), true)).collect()
    }

    #[test]
    fn covered_match_is_found_with_its_cover() {
        for (matches, expected) in [
            (vec!["tcp", "tcp dport 80"], Some(Cover::One(0))),
            (vec!["udp", "tcp dport 80"], None),
            (vec!["ip6 saddr ::/0", "ip6 saddr @a"], Some(Cover::One(0))),
            (vec!["ip saddr @a", "ip saddr @a tcp"], Some(Cover::One(0))),
            (vec!["ip saddr @b", "ip saddr @a tcp"], None),
            (vec!["udp", "ip saddr 10.0.0.0/8", "ip saddr 10.1.0.0/16 udp"], Some(Cover::One(0))),
            (vec!["ip saddr { 10.0.0.0/8, 192.0.2.0/24 }", "ip saddr { 10.1.0.0/16, 192.0.2.1 }"], Some(Cover::One(0))),
            (vec!["ip saddr { 10.0.0.0/8, 192.0.2.0/24 }", "ip saddr { 10.1.0.0/16, 192.0.3.1 }"], None),
            (vec!["tcp dport 0-99", "udp", "tcp dport 100-200", "tcp dport 50-150"], Some(Cover::Several(0, 2))),
            (vec!["tcp dport 0-99", "tcp dport 101-200", "tcp dport 50-150"], None),
            (vec!["ip saddr 10.0.0.0/9", "ip saddr 10.128.0.0/9", "ip saddr 10.0.0.0/8"], Some(Cover::Several(0, 1))),
            (vec!["ip saddr 10.0.0.0/9 udp", "ip saddr 10.128.0.0/9", "ip saddr 10.0.0.0/8"], None),
        ] {
            assert_eq!(covers(&matches).pop().unwrap(), expected, "{matches:?}");
        }
    }

    #[test]
    fn match_that_does_not_decide_covers_nothing() {
        let mut shadows = Shadows::default();
        let tcp = Match::parse("tcp").unwrap();
        assert_eq!(
            [shadows.add(&tcp, false), shadows.add(&tcp, true), shadows.add(&tcp, true)],
            [None, None, Some(Cover::One(1))]
        );
    }

    /// Matches over eight addresses and six ports, so that many cover others.
    fn small_match() -> impl Strategy<Value = Match> {
        let prefix = || {
            let prefix =
                |(bits, length): (u32, u8)| Prefix::new(IpAddr::V4((0x0a00_0000 | bits).into()), length).unwrap();
            prop_oneof![
                1 => Just(AddressMatch::Any),
                3 => prop::collection::vec((0u32..8, 29u8..=32).prop_map(prefix), 1..3).prop_map(AddressMatch::prefixes),
            ]
        };
        let ports = || {
            let range = (0u16..6, 0u16..4).prop_map(|(first, more)| first..=(first + more).min(5));
            prop_oneof![Just(PortMatch::Any), prop::collection::vec(range, 1..3).prop_map(PortMatch::ranges)]
        };
        (prefix(), prefix(), ports()).prop_map(|(source, destination, dport)| {
            let mut m = Match::default();
            (m.family, m.source, m.destination) = (MatchFamily::V4, source, destination);
            m.protocol = (dport != PortMatch::Any).then_some(17);
            m.dport = dport;
            m
        })
    }

    proptest! {
        #[test]
        fn covered_match_gets_no_packet_and_every_single_cover_is_found(matches in prop::collection::vec(small_match(), 1..20)) {
            let mut shadows = Shadows::default();
            for (position, matching) in matches.iter().enumerate() {
                let earlier = &matches[..position];
                let cover = shadows.add(matching, true);
                if let Some(one) = earlier.iter().position(|earlier| earlier.covers(matching)) {
                    prop_assert_eq!(cover.is_some(), true, "{} covers {}", earlier[one], matching);
                }
                let Some(cover) = cover else { continue };
                if let Cover::One(one) = cover {
                    prop_assert!(earlier[one].covers(matching));
                }
                for bits in 0..8 * 8 * 6u32 {
                    let address = |bits: u32| IpAddr::V4((0x0a00_0000 | (bits % 8)).into());
                    let f = MatchFields {
                        source: address(bits),
                        destination: address(bits / 8),
                        protocol: 17,
                        dscp: 0,
                        sport: Some(0),
                        dport: Some((bits / 64) as u16),
                        tcp_flags: None,
                        icmp_type: None,
                        icmp_code: None,
                        fragment: crate::MatchFragment::Whole,
                        vlan: None,
                        flow_label: 0,
                        length: 60,
                        state: 0,
                    };
                    let found = earlier.iter().any(|earlier| earlier.matches(&f, &NoSets));
                    prop_assert!(!matching.matches(&f, &NoSets) || found, "{} {:?}", matching, cover);
                }
            }
        }
    }
}
