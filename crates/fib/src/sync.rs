//! The atomics of the tables that are changed while they are read. The model of their protocols (`tests/loom.rs`) compiles the same source files with
//! the model checker's atomics in this module's place.

pub(super) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
