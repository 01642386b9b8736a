//! The outcome of a route: one word, as the forwarding tables store it.

use std::fmt;
use units::{AdjacencyId, GroupId, InterfaceId};

/// How packets to a destination are forwarded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// No route to the destination.
    NoRoute,
    /// Send it to this neighbour.
    Via(AdjacencyId),
    /// Send it to one of these neighbours, selected by its flow.
    Group(GroupId),
    /// The destination is on the link of this interface. Its neighbour has to be resolved.
    Connected(InterfaceId),
    /// The destination is an address of the router, on this interface.
    Local(InterfaceId),
    /// The destination is the broadcast address of this interface's prefix, or its all-zeros address: not forwarded.
    Broadcast(InterfaceId),
    /// Drop it silently.
    Blackhole,
    /// Drop it and send an ICMP unreachable error.
    Unreachable,
    /// Not a unicast destination: a group, a link-local or an invalid address. Routes do not apply to it.
    Special,
}

impl Outcome {
    /// Bits of a stored outcome.
    pub const BITS: u32 = 24;
    const INDEX: u32 = 21;
    /// Set in the stored index of a group, clear in that of an adjacency.
    const GROUP: u32 = 1 << 20;
    /// One more than the largest adjacency, group or interface number that can be stored.
    pub const LIMIT: u32 = Self::GROUP;

    /// The stored form: below 2^24. `NoRoute` is zero.
    #[inline]
    pub fn encode(self) -> u32 {
        let (kind, index) = match self {
            Outcome::NoRoute => (0, 0),
            Outcome::Via(adjacency) => (1, adjacency.0),
            Outcome::Group(group) => (1, Self::GROUP | group.0),
            Outcome::Connected(interface) => (2, interface.0.into()),
            Outcome::Local(interface) => (3, interface.0.into()),
            Outcome::Broadcast(interface) => (4, interface.0.into()),
            Outcome::Blackhole => (5, 0),
            Outcome::Unreachable => (6, 0),
            Outcome::Special => (7, 0),
        };
        assert!(index & !Self::GROUP < Self::LIMIT, "adjacencies and groups are bounded when they are made");
        kind << Self::INDEX | index
    }

    /// The outcome of a stored word. Bits from the 24th up are ignored.
    #[inline(always)]
    pub fn decode(word: u32) -> Outcome {
        let index = word & (Self::LIMIT - 1);
        let grouped = word & Self::GROUP != 0;
        let interface = InterfaceId(index as u16);
        match word >> Self::INDEX & 7 {
            1 if grouped => Outcome::Group(GroupId(index)),
            1 => Outcome::Via(AdjacencyId(index)),
            2 => Outcome::Connected(interface),
            3 => Outcome::Local(interface),
            4 => Outcome::Broadcast(interface),
            5 => Outcome::Blackhole,
            6 => Outcome::Unreachable,
            7 => Outcome::Special,
            _ => Outcome::NoRoute,
        }
    }

    /// The adjacency of a stored outcome, if it is [`Outcome::Via`]. The fast path tests this first.
    #[inline(always)]
    pub fn adjacency(word: u32) -> Option<AdjacencyId> {
        // One comparison for the three bits of the kind and the group bit.
        (word >> (Self::INDEX - 1) & 15 == 0b0010).then_some(AdjacencyId(word & (Self::LIMIT - 1)))
    }

    /// The group of a stored outcome, if it is [`Outcome::Group`].
    #[inline(always)]
    pub fn group(word: u32) -> Option<GroupId> {
        (word >> (Self::INDEX - 1) & 15 == 0b0011).then_some(GroupId(word & (Self::LIMIT - 1)))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::NoRoute => write!(f, "no route"),
            Outcome::Via(a) => write!(f, "via adjacency {a}"),
            Outcome::Group(g) => write!(f, "via group {g}"),
            Outcome::Connected(i) => write!(f, "connected on interface {i}"),
            Outcome::Local(i) => write!(f, "local on interface {i}"),
            Outcome::Broadcast(i) => write!(f, "broadcast on interface {i}"),
            Outcome::Blackhole => write!(f, "blackhole"),
            Outcome::Unreachable => write!(f, "unreachable"),
            Outcome::Special => write!(f, "no unicast destination"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_encoding_round_trips() {
        for outcome in [
            Outcome::NoRoute,
            Outcome::Via(AdjacencyId(0)),
            Outcome::Via(AdjacencyId(Outcome::LIMIT - 1)),
            Outcome::Group(GroupId(0)),
            Outcome::Group(GroupId(Outcome::LIMIT - 1)),
            Outcome::Connected(InterfaceId(7)),
            Outcome::Local(InterfaceId(u16::MAX)),
            Outcome::Broadcast(InterfaceId(1)),
            Outcome::Blackhole,
            Outcome::Unreachable,
            Outcome::Special,
        ] {
            assert!(outcome.encode() < 1 << Outcome::BITS);
            assert_eq!(Outcome::decode(outcome.encode()), outcome);
            assert_eq!(Outcome::adjacency(outcome.encode()).is_some(), matches!(outcome, Outcome::Via(_)));
            assert_eq!(Outcome::group(outcome.encode()).is_some(), matches!(outcome, Outcome::Group(_)));
        }
        assert_eq!(Outcome::NoRoute.encode(), 0);
    }
}
