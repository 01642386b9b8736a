//! Discretized fair queueing.

mod backlog;
mod runs;

pub use backlog::{Quantum, ThreadedBacklog, Transfers};
pub use runs::{FlowRun, RunBitmap, RunError};
