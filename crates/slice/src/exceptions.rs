//! Packets on the way to the slow path of their slice: a bounded queue with a limit of packets a second.

use crate::code::{ExceptionCode, LookupKey};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::PoisonError;
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
    /// When it arrived.
    pub arrived: Instant,
    /// The packet without its outer headers.
    pub packet: Box<[u8]>,
}

/// The queue of one slice, which all workers fill.
#[derive(Debug)]
pub(crate) struct ExceptionQueue {
    limit: PacketRate,
    bucket: SharedBucket,
    waiting: Mutex<VecDeque<SliceException>>,
}

impl ExceptionQueue {
    pub fn new(limit: PacketRate) -> ExceptionQueue {
        let waiting = Mutex::new(VecDeque::with_capacity(CAPACITY));
        ExceptionQueue { limit, bucket: SharedBucket::new(), waiting }
    }

    /// Adds a packet at `now`, if the limit and the queue have room for it. `packet` copies it.
    pub fn push(&self, now: Instant, packet: impl FnOnce() -> SliceException) -> bool {
        // The queue first: a packet that finds it full must not use up the limit.
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= CAPACITY || !self.bucket.take(self.limit, BURST, now) {
            return false;
        }
        waiting.push_back(packet());
        true
    }

    /// Takes at most `most` packets out, the oldest first.
    pub fn take(&self, most: usize) -> Vec<SliceException> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = most.min(waiting.len());
        waiting.drain(..count).collect()
    }
}
