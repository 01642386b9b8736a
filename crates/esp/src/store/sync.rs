//! The atomics of the store. The model check (`tests/loom.rs`) includes the neighbouring files unchanged, and replaces this one by the model
//! checker's atomics.

pub(super) use std::sync::Arc;
pub(super) use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
