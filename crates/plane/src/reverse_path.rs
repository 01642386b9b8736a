//! Reverse-path checks (RFC 3704): does a route lead back to the source of a packet? For the ports' option `reverse_path` and the clause `fib` of rules.

use fib::{Outcome, Tables};
use plan::{FibMatch, ReversePath};
use std::net::IpAddr;
use units::InterfaceId;

/// True if the route to a source satisfies the check, for a packet that arrived by this interface.
pub(crate) fn passes(tables: &Tables, outcome: Outcome, check: ReversePath, arrival: InterfaceId) -> bool {
    let by = |interface| check != ReversePath::Strict || interface == arrival;
    match outcome {
        Outcome::Via(adjacency) => by(tables.adjacencies().interface(adjacency)),
        Outcome::Connected(interface) => by(interface),
        Outcome::Group(group) => {
            // A reply may leave by any member, so the packet may arrive by any.
            let mut members = tables.groups().picks(group);
            members.any(|adjacency| by(tables.adjacencies().interface(adjacency)))
        }
        // Our own addresses and broadcasts are no valid sources. They were checked before.
        Outcome::NoRoute
        | Outcome::Local(_)
        | Outcome::Broadcast(_)
        | Outcome::Blackhole
        | Outcome::Unreachable
        | Outcome::Special => false,
    }
}

/// True if no route leads to these sources because they are used only on the link. Reverse-path checks leave them out.
pub(crate) fn is_of_link(source: IpAddr) -> bool {
    matches!(source, IpAddr::V6(source) if source.is_unspecified() || source.is_unicast_link_local())
}

/// True if the condition of a rule holds for a packet with this source that arrived by this interface.
pub(crate) fn holds(tables: &Tables, fib: FibMatch, arrival: InterfaceId, source: IpAddr) -> bool {
    let check = if fib.by_input { ReversePath::Strict } else { ReversePath::Loose };
    let exists = is_of_link(source) || passes(tables, tables.lookup_from(arrival, source), check, arrival);
    exists != fib.missing
}
