//! The store size that never overflows (Calvert et al. 2003, 2; spec E-04).
//!
//! Every entry costs the same: 64 bits for one lifetime. If a packet creates at most *c* entries, and at most *R* packets arrive per second, at most
//! `c R τ` entries exist at once.

pub use crate::store::shard_capacity;

use crate::store::Store;
use units::{Bytes, Nanos, PacketRate, Rate};

/// The most entries that one packet creates. No built-in instruction creates more than two.
pub const CREATES: u64 = 2;

/// The most entries that exist at once, if each packet creates at most `creates` entries and each entry lives for `lifetime`.
///
/// All entries created within one lifetime exist at its end. An entry created at its very end replaces one that expires.
pub fn entries(creates: u64, packets: PacketRate, lifetime: Nanos) -> u64 {
    PacketRate::pps(creates.saturating_mul(packets.get())).within(lifetime)
}

/// The highest packet rate of a line: its bit rate divided by the minimum frame size.
pub fn packets(line: Rate) -> PacketRate {
    PacketRate::max_for_line(line)
}

/// The memory of a store of this capacity, divided into `shards` shards.
pub fn memory(capacity: u64, shards: usize) -> Bytes {
    let shards = shards.max(1);
    Bytes::new(Store::bytes(shard_capacity(capacity, shards)).saturating_mul(shards as u64))
}
