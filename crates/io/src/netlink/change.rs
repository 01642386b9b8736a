//! Differences between two states of the kernel's tables.

use super::{KernelAddress, KernelHop, KernelLink, KernelNeighbourEntry, KernelRouteEntry, KernelRule, RouteKind};

/// The kind of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// A new object.
    Added,
    /// An object with other properties.
    Changed,
    /// An object that is gone, as it was.
    Removed,
}

/// A route with the hops of its next-hop object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResolvedRoute<'a> {
    /// The route.
    pub route: &'a KernelRouteEntry,
    /// Its kind: that of its next-hop object, if the object drops packets.
    pub kind: RouteKind,
    /// Its hops; none if it drops packets. Also none while its next-hop object is unknown: a change follows once the kernel has reported the object.
    pub hops: &'a [KernelHop],
}

/// A difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelChange<'a> {
    /// A link.
    Link(ChangeKind, &'a KernelLink),
    /// An address.
    Address(ChangeKind, &'a KernelAddress),
    /// A neighbour.
    Neighbour(ChangeKind, &'a KernelNeighbourEntry),
    /// A rule.
    Rule(ChangeKind, &'a KernelRule),
    /// A route.
    Route {
        /// The kind of the difference.
        change: ChangeKind,
        /// The route.
        route: ResolvedRoute<'a>,
        /// The route that the kernel uses now for this destination in this table: the first with the lowest metric among those for all types of service
        /// and all sources.
        effective: Option<ResolvedRoute<'a>>,
    },
}
