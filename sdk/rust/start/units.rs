//! Quantities with their units: time, rate, size and the numbers of queues. The files are those of the router.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod id;
mod quantity;
mod size;
mod text;
mod time;

pub use id::{AdjacencyId, Generation, GroupId, InterfaceId, PathId, PortId, QueueId, ShareId, TaskId, VrfId, WorkerId};
pub use quantity::{Bytes, PacketRate, Parts, Rate, Share};
pub use size::{SEGMENTS, Size};
pub use text::UnitError;
pub use time::{Instant, Nanos};
