//! The values that a condition accepts: sets of addresses, ports, and other small numbers.

use crate::Prefix;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// The addresses that a match accepts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum AddressMatch {
    /// Every address.
    #[default]
    Any,
    /// Addresses within one of these networks. They are of one family, sorted, and as few as possible: none covers another, and no two of
    /// them are the halves of a network. [`AddressMatch::prefixes`] ensures it.
    Prefixes(Vec<Prefix>),
    /// The elements of the set with this name.
    Set(String),
}

/// The ports that a match accepts. A packet without ports has none of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum PortMatch {
    /// No condition: also packets without ports.
    #[default]
    Any,
    /// Ports within one of these ranges. They are sorted and do not touch. [`PortMatch::ranges`] ensures it.
    Ranges(Vec<RangeInclusive<u16>>),
    /// The elements of the set with this name.
    Set(String),
}

/// The contents of named sets, for [`Match::unmet`](super::Match::unmet).
pub trait SetLookup {
    /// True if the set of this name contains the address.
    fn contains_address(&self, set: &str, address: IpAddr) -> bool;
    /// True if the set of this name contains the port.
    fn contains_port(&self, set: &str, port: u16) -> bool;
}

/// Sets without elements: for matches that name no set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoSets;

impl SetLookup for NoSets {
    fn contains_address(&self, _: &str, _: IpAddr) -> bool {
        false
    }

    fn contains_port(&self, _: &str, _: u16) -> bool {
        false
    }
}

impl AddressMatch {
    /// The addresses of these prefixes, which must be of one family; bits after the prefix length are ignored. No prefix at all means no condition.
    pub fn prefixes(prefixes: Vec<Prefix>) -> AddressMatch {
        let mut sorted: Vec<Prefix> = prefixes.into_iter().map(Prefix::network).collect();
        sorted.sort_unstable();
        let mut out: Vec<Prefix> = Vec::with_capacity(sorted.len());
        for prefix in sorted {
            // In this order a prefix comes before those that it covers.
            if out.last().is_some_and(|last| last.covers(prefix)) {
                continue;
            }
            out.push(prefix);
            while let [.., left, right] = out[..]
                && let Some(both) = joined(left, right)
            {
                out.truncate(out.len() - 2);
                out.push(both);
            }
        }
        if out.is_empty() { AddressMatch::Any } else { AddressMatch::Prefixes(out) }
    }

    /// True if the address fulfils the condition.
    #[inline]
    pub fn contains(&self, address: IpAddr, sets: &impl SetLookup) -> bool {
        match self {
            AddressMatch::Any => true,
            AddressMatch::Prefixes(prefixes) => {
                let behind = prefixes.partition_point(|prefix| prefix.address <= address);
                behind.checked_sub(1).is_some_and(|at| prefixes[at].contains(address))
            }
            AddressMatch::Set(name) => sets.contains_address(name, address),
        }
    }

    /// True if every address of `other` is also one of these, for all contents of named sets. Both are of the same family.
    pub(super) fn covers(&self, other: &AddressMatch) -> bool {
        match (self, other) {
            (AddressMatch::Any, _) => true,
            (AddressMatch::Set(mine), AddressMatch::Set(theirs)) => mine == theirs,
            (AddressMatch::Prefixes(mine), AddressMatch::Prefixes(theirs)) => theirs.iter().all(|their| {
                let behind = mine.partition_point(|prefix| prefix.address <= their.address);
                behind.checked_sub(1).is_some_and(|at| mine[at].covers(*their))
            }),
            (AddressMatch::Prefixes(mine), _) => mine.first().is_some_and(|prefix| prefix.length == 0),
            (AddressMatch::Set(_), _) => false,
        }
    }

    /// The networks, empty for no condition and for a set.
    pub fn networks(&self) -> &[Prefix] {
        if let AddressMatch::Prefixes(prefixes) = self { prefixes } else { &[] }
    }
}

/// The network whose halves these are.
fn joined(left: Prefix, right: Prefix) -> Option<Prefix> {
    let both = Prefix { address: left.address, length: left.length.checked_sub(1)? };
    (left.length == right.length && both.is_network() && both.contains(right.address)).then_some(both)
}

impl PortMatch {
    /// The ports of these ranges, of which none is empty. No range at all means no condition.
    pub fn ranges(ranges: Vec<RangeInclusive<u16>>) -> PortMatch {
        let ranges = merged(ranges);
        if ranges.is_empty() { PortMatch::Any } else { PortMatch::Ranges(ranges) }
    }

    /// True if the port fulfils the condition; `None` stands for a packet without ports.
    #[inline]
    pub fn contains(&self, port: Option<u16>, sets: &impl SetLookup) -> bool {
        match self {
            PortMatch::Any => true,
            PortMatch::Ranges(ranges) => port.is_some_and(|port| within(ranges, port)),
            PortMatch::Set(name) => port.is_some_and(|port| sets.contains_port(name, port)),
        }
    }

    /// True if every port of `other` is also one of these, for all contents of named sets.
    pub(super) fn covers(&self, other: &PortMatch) -> bool {
        match (self, other) {
            (PortMatch::Any, _) => true,
            (PortMatch::Set(mine), PortMatch::Set(theirs)) => mine == theirs,
            (PortMatch::Ranges(mine), PortMatch::Ranges(theirs)) => covers(mine, theirs),
            // A set has ports only.
            (PortMatch::Ranges(mine), PortMatch::Set(_)) => mine[..] == [0..=u16::MAX],
            (_, PortMatch::Any) | (PortMatch::Set(_), _) => false,
        }
    }
}

/// Sorted ranges that do not touch, with the same values. None of `ranges` is empty.
pub(super) fn merged<T: Copy + Ord + Into<u32>>(mut ranges: Vec<RangeInclusive<T>>) -> Vec<RangeInclusive<T>> {
    ranges.sort_unstable_by_key(|range| *range.start());
    let mut out: Vec<RangeInclusive<T>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if (*range.start()).into() <= (*last.end()).into() + 1 => {
                *last = *last.start()..=*last.end().max(range.end());
            }
            _ => out.push(range),
        }
    }
    out
}

/// True if one of these merged ranges contains the value.
#[inline]
pub(super) fn within<T: Copy + Ord>(ranges: &[RangeInclusive<T>], value: T) -> bool {
    let behind = ranges.partition_point(|range| *range.start() <= value);
    behind.checked_sub(1).is_some_and(|at| value <= *ranges[at].end())
}

/// True if each of `theirs` lies within one of `mine`, which are merged.
pub(super) fn covers<T: Copy + Ord>(mine: &[RangeInclusive<T>], theirs: &[RangeInclusive<T>]) -> bool {
    theirs.iter().all(|their| {
        let behind = mine.partition_point(|range| range.start() <= their.start());
        behind.checked_sub(1).is_some_and(|at| their.end() <= mine[at].end())
    })
}

impl fmt::Display for AddressMatch {
    /// As in a match, after `saddr` or `daddr`; empty for no condition.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressMatch::Any => Ok(()),
            AddressMatch::Prefixes(prefixes) => list(f, prefixes, |f, prefix| {
                if *prefix == Prefix::host(prefix.address) {
                    write!(f, "{}", prefix.address)
                } else {
                    write!(f, "{prefix}")
                }
            }),
            AddressMatch::Set(name) => write!(f, "@{name}"),
        }
    }
}

impl fmt::Display for PortMatch {
    /// As in a match, after `sport` or `dport`; empty for no condition.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortMatch::Any => Ok(()),
            PortMatch::Ranges(ranges) => list(f, ranges, range),
            PortMatch::Set(name) => write!(f, "@{name}"),
        }
    }
}

/// `value`, or `{ value, value }`.
pub(super) fn list<T>(
    f: &mut fmt::Formatter<'_>,
    values: &[T],
    one: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if let [value] = values {
        return one(f, value);
    }
    for (index, value) in values.iter().enumerate() {
        f.write_str(if index == 0 { "{ " } else { ", " })?;
        one(f, value)?;
    }
    f.write_str(" }")
}

/// `80`, or `80-89`.
pub(super) fn range<T: PartialEq + fmt::Display>(f: &mut fmt::Formatter<'_>, range: &RangeInclusive<T>) -> fmt::Result {
    if range.start() == range.end() {
        write!(f, "{}", range.start())
    } else {
        write!(f, "{}-{}", range.start(), range.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn networks_are_as_few_as_possible_and_have_the_same_addresses(
            // Eight bits, so that networks often overlap or touch.
            given in proptest::collection::vec((0u32..256, 24u8..=32), 1..40),
        ) {
            let prefix = |&(bits, length): &(u32, u8)| Prefix::new(IpAddr::V4((0x0a00_0000 | bits).into()), length).unwrap();
            let given: Vec<Prefix> = given.iter().map(prefix).collect();
            let set = AddressMatch::prefixes(given.clone());
            for last in 0..256u32 {
                let address = IpAddr::V4((0x0a00_0000 | last).into());
                prop_assert_eq!(set.contains(address, &NoSets), given.iter().any(|prefix| prefix.contains(address)));
            }
            let networks = set.networks();
            for (index, &one) in networks.iter().enumerate() {
                let parent = Prefix { length: one.length - 1, ..one }.network();
                let rest = || networks.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, prefix)| *prefix);
                prop_assert!(rest().all(|other| !one.covers(other)), "{}", set);
                prop_assert!(rest().all(|other| other.length != one.length || !parent.covers(other)), "{}", set);
            }
            prop_assert!(networks.is_sorted());
        }

        #[test]
        fn merged_ranges_do_not_touch_and_have_the_same_values(
            given in proptest::collection::vec((0u8..100, 0u8..5), 0..20),
        ) {
            let given: Vec<_> = given.into_iter().map(|(first, more)| first..=first + more).collect();
            let ranges = merged(given.clone());
            for value in 0..=u8::MAX {
                prop_assert_eq!(within(&ranges, value), given.iter().any(|range| range.contains(&value)));
            }
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end() + 1 < *pair[1].start()));
        }
    }
}
