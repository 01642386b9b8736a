//! Packets on the way to the slow path of their slice: a bounded queue with a limit of packets a second, and the same limit for those that come back.

use crate::code::{ExceptionCode, LookupKey};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Instant, Nanos, PacketRate, SharedBucket};

/// Packets that wait for the program of the slice.
const CAPACITY: usize = 256;
/// The time whose packets may arrive at once.
const BURST: Nanos = Nanos::millis(100);

/// A packet for the slow path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceException {
    /// Why it left the fast path.
    pub code: ExceptionCode,
    /// The meta-interface by which it arrived.
    pub interface: u16,
    /// Its key, if the code option made one; zero otherwise.
    pub key: LookupKey,
    /// The MTU of its next hop for packets of the slice, if it exceeds that.
    pub mtu: Option<u16>,
    /// How often the slow path has returned it before.
    pub rounds: u8,
    /// When it arrived.
    pub arrived: Instant,
    /// The packet without its outer headers.
    pub packet: Box<[u8]>,
}

type Wake = Box<dyn Fn() + Send>;

#[derive(Default)]
struct Waiting {
    packets: VecDeque<SliceException>,
    /// Wakes the reader.
    wake: Option<Wake>,
    /// True if the slice has been deleted.
    is_ended: bool,
}

/// The queue of one slice, which all workers fill.
pub(crate) struct ExceptionQueue {
    limit: PacketRate,
    bucket: SharedBucket,
    waiting: Mutex<Waiting>,
    /// For packets of the slow path.
    returned: SharedBucket,
    /// Packets of the slow path above the limit.
    limited: AtomicU64,
}

impl fmt::Debug for ExceptionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExceptionQueue").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl ExceptionQueue {
    pub fn new(limit: PacketRate) -> ExceptionQueue {
        ExceptionQueue {
            limit,
            bucket: SharedBucket::new(),
            waiting: Mutex::default(),
            returned: SharedBucket::new(),
            limited: AtomicU64::new(0),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a packet at `now`, if the limit and the queue have room for it. `packet` copies it.
    pub fn push(&self, now: Instant, packet: impl FnOnce() -> SliceException) -> bool {
        // The queue first: a packet that finds it full must not use up the limit.
        let mut waiting = self.waiting();
        if waiting.packets.len() >= CAPACITY || !self.bucket.take(self.limit, BURST, now) {
            return false;
        }
        waiting.packets.push_back(packet());
        // A reader that has not emptied the queue looks again by itself.
        if waiting.packets.len() == 1
            && let Some(wake) = &waiting.wake
        {
            wake();
        }
        true
    }

    /// Takes at most `most` packets out, the oldest first.
    pub fn take(&self, most: usize) -> Vec<SliceException> {
        let mut waiting = self.waiting();
        let count = most.min(waiting.packets.len());
        waiting.packets.drain(..count).collect()
    }

    /// True if the slow path may return one more packet now.
    pub fn admits_return(&self, now: Instant) -> bool {
        let admits = self.returned.take(self.limit, BURST, now);
        self.limited.fetch_add(u64::from(!admits), Relaxed);
        admits
    }

    /// Packets of the slow path above the limit.
    pub fn limited(&self) -> u64 {
        self.limited.load(Relaxed)
    }

    /// Ends the queue with its slice.
    pub fn end(&self) {
        let mut waiting = self.waiting();
        waiting.packets.clear();
        waiting.is_ended = true;
        waiting.wake.iter().for_each(|wake| wake());
    }
}

/// The program of a slice, as the reader of its exceptions. There is one at most; dropping it makes room for the next.
#[derive(Debug)]
pub struct ExceptionReader(Arc<ExceptionQueue>);

impl ExceptionReader {
    /// A reader, which `wake` wakes when a packet waits or the slice ends. `None` if there is one already.
    pub(crate) fn open(queue: &Arc<ExceptionQueue>, wake: impl Fn() + Send + 'static) -> Option<ExceptionReader> {
        let mut waiting = queue.waiting();
        if waiting.wake.is_some() {
            return None;
        }
        waiting.wake = Some(Box::new(wake));
        Some(ExceptionReader(queue.clone()))
    }

    /// Takes at most `most` packets, the oldest first. After fewer of them, it waits to be woken. `None` if the slice has been deleted.
    pub fn take(&self, most: usize) -> Option<Vec<SliceException>> {
        let taken = self.0.take(most);
        (!taken.is_empty() || !self.0.waiting().is_ended).then_some(taken)
    }
}

impl Drop for ExceptionReader {
    fn drop(&mut self) {
        self.0.waiting().wake = None;
    }
}
