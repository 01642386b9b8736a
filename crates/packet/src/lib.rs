//! Frames and their fates: the pool they live in, the handle that owns one, batches and queues of them, the reasons a
//! router drops one, and the ledger that proves none was forgotten. `wire` has the headers.

#![deny(unsafe_code)]

pub mod accounting;
mod counters;
pub mod event;
mod exception;
pub mod frames;
pub mod latency;
mod ledger;
pub mod pool;
pub mod port;
mod reason;
mod remark;
pub mod segment;
pub mod wire;

pub use counters::{LinkCounters, PortCounters};
pub use exception::Exception;
pub use ledger::{Ledger, Unbalanced};
pub use pool::{BATCH, Batch, Meta, Offload, Packet, Pool, Queue, Region, Shared};
pub use reason::DropReason;
pub use remark::Remark;
