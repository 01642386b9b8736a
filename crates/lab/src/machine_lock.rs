//! Which test has the processors: tests that measure time on real packets must not run beside a test that takes the
//! processors from every other thread.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// Held by a test whose threads have real-time priority or a processor of their own.
pub(crate) fn whole_machine() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Held by a test that measures time at ordinary priority.
pub(crate) fn shared_machine() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}
