//! The mutex and the atomics of values that are published while they are read. The model of that protocol (`tests/loom.rs`) compiles the same source
//! file with the model checker's types in this module's place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
