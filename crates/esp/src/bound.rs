//! How large a store has to be so that it never overflows (Calvert et al. 2003, 2; spec E-04).
//!
//! Every piece of state costs the same: 64 bits for one lifetime. With at most *c* pieces created by a packet, and at most
//! *R* packets a second, at most `c R τ` exist at a time.

pub use crate::store::per_shard;

use crate::store::Store;
use units::{Bytes, Nanos, PacketRate, Rate};

/// The most entries that one packet creates: an instruction of the built-in set creates two at most.
pub const CREATES: u64 = 2;

/// Entries that exist at a time at most, where each packet creates `creates` at most and each lives for `lifetime`.
///
/// Anything created within one lifetime exists at its end; what is created at its very end replaces what expires.
pub fn entries(creates: u64, packets: PacketRate, lifetime: Nanos) -> u64 {
    PacketRate::pps(creates.saturating_mul(packets.get())).within(lifetime)
}

/// The most packets a second that a line carries: its rate in frames of the shortest length.
pub fn packets(line: Rate) -> PacketRate {
    PacketRate::most(line)
}

/// The memory that a store of this capacity takes, in so many parts.
pub fn memory(capacity: u64, shards: usize) -> Bytes {
    let shards = shards.max(1);
    Bytes::new(Store::bytes(per_shard(capacity, shards)).saturating_mul(shards as u64))
}
