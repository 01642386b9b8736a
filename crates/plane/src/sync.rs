//! The atomics of the parker. Its model (`tests/loom.rs`) compiles `parker.rs` with the model checker's atomics in this module's place.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
