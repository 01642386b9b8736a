//! Frames on their way out: sent in one call as many as there are, and what the interface cannot take now kept in order.
//!
//! A ring for sending saves nothing: the kernel would map its pages into the packet instead of copying 64 bytes, and
//! super-frames would need slots of 64 KB each. So frames go straight from the pool.

use crate::outbox::Outbox;
use packet::{BATCH, Batch, Pool, Region};
use std::os::fd::AsFd;
use std::sync::Arc;
use units::{Instant, Nanos};

/// A frame that was refused so often, and for so long, will not be taken at all. A full queue of the interface empties
/// sooner.
const REFUSALS: (u32, Nanos) = (16, Nanos::millis(10));

#[derive(Debug)]
pub(super) struct Outgoing {
    outbox: Outbox,
    /// Frames the interface could not take yet, lent by the pool. None is added while there are any.
    waiting: Batch,
    /// Where they come from.
    region: Option<Arc<Region>>,
    /// How often the interface has refused the first of them, and since when.
    refused: Option<(u32, Instant)>,
    lost: u64,
}

impl Outgoing {
    pub(super) fn new(prefixed: bool) -> Outgoing {
        Outgoing { outbox: Outbox::new(prefixed), waiting: Batch::new(), region: None, refused: None, lost: 0 }
    }

    /// How many frames can be sent now.
    pub(super) fn room(&self) -> usize {
        if self.is_blocked() { 0 } else { BATCH }
    }

    /// Whether frames wait that the interface could not take when it was last asked.
    pub(super) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Frames that were never sent.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Sends all of `batch`, at most [`Outgoing::room`].
    pub(super) fn send(&mut self, socket: impl AsFd, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        assert!(batch.len() <= self.room(), "never more than there is room for");
        if batch.is_empty() {
            return;
        }
        std::mem::swap(&mut self.waiting, batch);
        pool.export(self.waiting.len());
        self.go_on(socket, now, pool);
        if self.is_blocked() && self.region.is_none() {
            self.region = Some(pool.region().clone());
        }
    }

    /// Sends what waits, as far as the interface takes it.
    pub(super) fn go_on(&mut self, socket: impl AsFd, now: Instant, pool: &mut Pool) {
        let mut was_down = false;
        while self.is_blocked() {
            let error = match self.outbox.send(&socket, self.waiting.as_slice()) {
                Ok(sent) => {
                    self.refused = None;
                    self.end(sent, pool);
                    continue;
                }
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
            };
            match error {
                libc::EINTR => {}
                // Where the interface was switched off since, the first try only fetches that news.
                libc::ENETDOWN if !was_down => was_down = true,
                // It is off, or there is no memory for more frames in flight.
                libc::ENETDOWN | libc::EAGAIN => return,
                libc::ENOBUFS => {
                    if !self.is_hopeless(now) {
                        return;
                    }
                    self.lose(1, pool);
                }
                libc::ENXIO | libc::ENODEV => self.lose(self.waiting.len(), pool),
                // Too long for the interface (EMSGSIZE), or not what its headers say (EINVAL).
                _ => self.lose(1, pool),
            }
        }
    }

    /// The interface has dropped the first frame and says so. That may be for lack of room; but a veth drops for ever
    /// what its other end is too small for.
    fn is_hopeless(&mut self, now: Instant) -> bool {
        let (count, since) = self.refused.get_or_insert((0, now));
        *count += 1;
        *count >= REFUSALS.0 && now.since(*since) >= REFUSALS.1
    }

    fn lose(&mut self, count: usize, pool: &mut Pool) {
        self.refused = None;
        self.lost += count as u64;
        self.end(count, pool);
    }

    fn end(&mut self, count: usize, pool: &mut Pool) {
        pool.import(count);
        self.waiting.drain().take(count).for_each(|packet| pool.give(packet));
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            let (mut pool, count) = (Pool::new(region), self.waiting.len());
            self.end(count, &mut pool);
        }
    }
}
