//! Publication of a value that never changes: a writer replaces it whole, and each reader has the old or the new value.
//!
//! A reader holds a reference of its own. It compares a version number once for each batch of packets and takes the lock only if that changed. So a
//! batch sees one value, and costs one load of a shared cache line.
//!
//! Values can be large: freeing a table of a million entries takes milliseconds. The publisher therefore keeps each old value until no reader has it
//! any more, and frees it in the writer's thread. A reader never does.

use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};
use std::sync::PoisonError;

/// A value that readers share, and that a writer replaces whole.
pub struct Published<T> {
    /// Increases with each new value. It changes under the lock of `values`.
    version: AtomicU64,
    values: Mutex<Values<T>>,
}

struct Values<T> {
    current: Arc<T>,
    /// Old values that a reader may have, each with its version, in ascending order.
    retired: Vec<(u64, Arc<T>)>,
}

impl<T> std::fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Published, version {}", self.version())
    }
}

impl<T> Published<T> {
    /// Publishes the first value.
    pub fn new(value: T) -> Self {
        let values = Values { current: Arc::new(value), retired: Vec::new() };
        Published { version: AtomicU64::new(0), values: Mutex::new(values) }
    }

    /// Replaces the value. Frees old values that no reader has any more. Returns the number of old values that remain.
    pub fn publish(&self, value: T) -> usize {
        let value = Arc::new(value);
        let mut values = self.lock();
        let old = std::mem::replace(&mut values.current, value);
        // Relaxed: the version changes under this lock only.
        values.retired.push((self.version.load(Ordering::Relaxed), old));
        // A release under the lock: a reader that sees the new version takes the lock after this writer and finds this value or a later one.
        self.version.fetch_add(1, Ordering::Release);
        drop(values);
        self.free_retired()
    }

    /// Frees old values that no reader has any more. Returns the number of those that remain.
    pub fn free_retired(&self) -> usize {
        let mut values = self.lock();
        // With a count of one only this list has the value, and no reader can get it from here: it stays so.
        let (unused, used): (Vec<_>, Vec<_>) =
            std::mem::take(&mut values.retired).into_iter().partition(|(_, old)| Arc::strong_count(old) == 1);
        values.retired = used;
        let remaining = values.retired.len();
        // Readers do not wait for the memory to be freed.
        drop(values);
        drop(unused);
        remaining
    }

    /// The current value. Keep the reference for a short time: an old value stays in memory as long as a reference to it.
    pub fn latest(&self) -> Arc<T> {
        self.lock().current.clone()
    }

    /// The version, as of [`version`](Published::version), of the oldest value that was not freed. No reader returns to an older one, so what only older
    /// values refer to may be used for something else. Publishing frees old values; so does [`free_retired`](Published::free_retired).
    pub fn oldest_version(&self) -> u64 {
        let values = self.lock();
        values.retired.first().map_or_else(|| self.version.load(Ordering::Relaxed), |(version, _)| *version)
    }

    /// The number of values that were published after the first.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The current value with its version: see [`latest`](Published::latest).
    pub fn versioned(&self) -> (u64, Arc<T>) {
        let values = self.lock();
        // Relaxed: the version changes under this lock only.
        (self.version.load(Ordering::Relaxed), values.current.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Values<T>> {
        // No code of a caller runs under the lock, so it is not poisoned half-way through a change.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's reference to a published value.
pub struct PublishedReader<T> {
    value: Arc<T>,
    version: u64,
    published: Arc<Published<T>>,
}

impl<T> PublishedReader<T> {
    /// A reader that starts with the current value.
    pub fn new(published: &Arc<Published<T>>) -> Self {
        let (version, value) = published.versioned();
        PublishedReader { value, version, published: published.clone() }
    }

    /// The newest value. Call it once for each batch.
    #[inline(always)]
    pub fn refresh(&mut self) -> &T {
        if self.published.version() != self.version {
            self.replace();
        }
        &self.value
    }

    /// The value of the last [`PublishedReader::refresh`].
    #[inline(always)]
    pub fn get(&self) -> &T {
        &self.value
    }

    /// The version of the value of the last [`PublishedReader::refresh`].
    #[inline(always)]
    pub fn version(&self) -> u64 {
        self.version
    }

    #[cold]
    fn replace(&mut self) {
        // The publisher's list of old values has a reference to the value that this drops, so the memory is not freed here.
        (self.version, self.value) = self.published.versioned();
    }
}

impl<T: Default> Default for PublishedReader<T> {
    /// A reader of a value that is never replaced.
    fn default() -> Self {
        PublishedReader::new(&Arc::new(Published::new(T::default())))
    }
}

impl<T> Clone for PublishedReader<T> {
    fn clone(&self) -> Self {
        PublishedReader { value: self.value.clone(), version: self.version, published: self.published.clone() }
    }
}
