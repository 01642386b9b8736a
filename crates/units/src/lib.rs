//! Quantities with their units (time, rate, size, share) and ids.
//!
//! Public functions of the other crates never take a bare integer that has a unit. Everything here is exact: times are whole nanoseconds, rates whole
//! bits per second, sizes whole bytes. Text forms are those of `tc(8)`: `10mbit`, `5ms`, `1500b`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bucket;
mod circuit;
mod counters;
pub mod declare;
mod exact_time;
mod framing;
mod heap;
mod id;
mod mac;
mod meter;
mod pace;
mod qfq;
mod quantity;
mod shared_meter;
mod size;
mod text;
mod time;
mod timer_wheel;

pub use bucket::{Bucket, SharedBucket};
pub use circuit::CircuitKey;
pub use counters::{Counter, CounterSet};
pub use exact_time::ExactTime;
pub use framing::{Cells, Framing};
pub use heap::{Heap, KeyedItem};
pub use id::{
    AdjacencyId, Generation, GroupId, InterfaceId, PathId, PortId, QueueId, ShareId, TaskId, VrfId, WorkerId,
};
pub use mac::Mac;
pub use meter::Meter;
pub use pace::Pace;
pub use qfq::QfqSlots;
pub use quantity::{Bytes, PacketRate, Parts, Rate, Share};
pub use shared_meter::SharedMeter;
pub use size::{SEGMENTS, Size};
pub use text::UnitError;
pub use time::{Instant, Nanos};
pub use timer_wheel::TimerWheel;
