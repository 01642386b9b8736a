//! Frames and their fates: the pool they live in, the handle that owns one, batches and queues of them, the reasons a
//! router drops one, and the ledger that proves none was forgotten. `wire` has the headers.

#![deny(unsafe_code)]

mod ledger;
pub mod pool;
mod reason;
pub mod wire;

pub use ledger::{Ledger, Unbalanced};
pub use pool::{BATCH, Batch, Meta, Offload, Packet, Pool, Queue, Region, Shared};
pub use reason::DropReason;
