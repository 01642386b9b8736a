//! The atomics of the tables that are changed while they are read. The model of their protocols (`tests/loom.rs`) takes
//! the files that name them through here as they are, and gives them the model checker's instead.

pub(super) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
