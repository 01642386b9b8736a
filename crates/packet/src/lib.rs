//! Frames and their fates: the frame pool, the handle that owns a frame, batches and queues of packets, drop reasons, and the ledger that proves that
//! no packet was lost. `wire` has the headers.

#![deny(unsafe_code)]

pub mod accounting;
mod advisory;
pub mod containment;
mod counters;
pub mod event;
mod exception;
pub mod frames;
pub mod latency;
mod ledger;
pub mod pool;
pub mod port;
mod reason;
pub mod segment;
mod stall;
pub mod wire;

pub use advisory::Advisory;
pub use counters::{DfqWireCounters, LinkCounters, PortCounters, StallCounters};
pub use exception::Exception;
pub use ledger::{Ledger, Unbalanced};
pub use pool::{BATCH, Batch, Meta, Offload, Packet, Pool, Queue, Region, SharedPacket, spsc};
pub use reason::DropReason;
pub use stall::{StallCount, StallMeter};
