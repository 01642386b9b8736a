//! The aggregate route cache of Pradhan and Chiueh ("A cluster-based, scalable edge router with quality of service", the Panama router): an
//! alternative look-up in front of the forwarding tables.
//!
//! A router has few outcomes and many prefixes. The cache therefore stores ranges of addresses with one outcome. Some address bits select the
//! set of the cache. They are chosen so that the ranges of a set merge into few ([`IndexPlan`]).
//!
//! The control side owns a [`CacheFeed`] for each table. Each port of each worker has a [`RouteCache`] of its own. A miss is answered by the
//! forwarding table, and filled with the range that the feed has for the address.

mod address;
mod cache;
mod feed;
mod fields;
mod index;
mod miss_queue;
mod partitions;
mod ranges;

pub use address::Address;
pub use cache::{CacheShape, Fill, RouteCache, RouteCacheCounters};
pub use feed::{CacheFeed, Invalidation};
pub use fields::{FieldCache, FieldCounters, FieldRule};
pub use index::{IndexPlan, MOST_BITS, PlanObjective, PlanOptions, PlanStep};
pub use miss_queue::{FlowTable, MissOverflow, MissQueue, Offered};
pub use partitions::{CachedRange, Partitions};
pub use ranges::{Route, Starts, flatten, flatten_within};

#[cfg(test)]
mod tests;
