//! The atomics of the bell. The model of it (`tests/loom.rs`) takes `bell.rs` as it is, and gives it the model checker's
//! instead.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
