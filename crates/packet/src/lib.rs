//! Frames and their fates: the pool they live in, the handle that owns one, batches and queues of them, the reasons a
//! router drops one, and the ledger that proves none was forgotten. `wire` has the headers.

#![deny(unsafe_code)]

mod batch;
mod ledger;
pub mod pool;
mod queue;
mod reason;
pub mod wire;

pub use batch::{BATCH, Batch};
pub use ledger::{Ledger, Unbalanced};
pub use pool::{Meta, Packet, Pool, Region};
pub use queue::Queue;
pub use reason::DropReason;
