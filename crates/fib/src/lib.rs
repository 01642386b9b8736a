//! Forwarding tables: longest-prefix match for IPv4 and IPv6, next hops and groups of them, and a table for each VRF.
//!
//! Workers look up routes while the control side changes them in place with atomic stores ([`Tables`]).

#![forbid(unsafe_code)]

mod adjacency;
mod blocks;
mod digest;
mod entry;
mod fib4;
mod fib6;
mod groups;
#[cfg(test)]
mod oracle;
mod outcome;
mod rib;
pub mod route_cache;
mod sequence;
mod short;
mod sync;
mod tables;
mod vrf;

pub use adjacency::{Adjacencies, LinkAddress};
pub use fib4::Fib4;
pub use fib6::{Fib6, Trie};
pub use groups::Groups;
pub use outcome::Outcome;
pub use rib::Origin;
pub use tables::{
    GroupError, GroupMember, MOST_VRFS, NextHop, RouteChange, RouteError, RouteQuery, RouteReport, TableLimits, Tables,
};
pub use vrf::Vrf;
