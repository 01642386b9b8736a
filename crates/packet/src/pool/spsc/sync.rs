//! The atomics, the cell and the ring under the queues. The model of the queues (`tests/loom.rs`) compiles their source files with the model checker's
//! types in this module's place.

pub(super) use rtrb;
pub(super) use std::sync::Arc;
pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// A cell with the interface of the model checker's, which records each access.
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
