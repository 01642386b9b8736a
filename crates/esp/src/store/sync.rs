//! The atomics of the store. The model of it (`tests/loom.rs`) takes the files beside this one as they are, and gives them
//! the model checker's instead.

pub(super) use std::sync::Arc;
pub(super) use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
