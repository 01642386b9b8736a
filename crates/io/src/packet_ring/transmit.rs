//! Outgoing frames: sends as many as possible in one call, and keeps in order those that the interface cannot accept now.
//!
//! A transmit ring would save nothing: the kernel would map its pages into the packet instead of copying 64 bytes, and super-frames would need slots
//! of 64 KB each. Frames are therefore sent directly from the pool.

use crate::sendmmsg::SendBatch;
use packet::port::{UnsentPackets, refuse};
use packet::segment::wire_length;
use packet::{BATCH, Batch, DropReason, Pool, Region};
use std::os::fd::AsFd;
use std::sync::Arc;
use units::{Instant, Nanos};

/// After this many refusals over this time a frame is considered unsendable. A full queue of the interface drains sooner.
const REFUSALS: (u32, Nanos) = (16, Nanos::millis(10));

#[derive(Debug)]
pub(super) struct TransmitQueue {
    send_batch: SendBatch,
    /// Frames that the interface could not accept yet. No frame is added while there are any.
    waiting: Batch,
    /// The region of these frames.
    region: Option<Arc<Region>>,
    /// How often the interface has refused the first of them, and since when.
    refused: Option<(u32, Instant)>,
    /// Frames of this length were refused permanently.
    too_long: Option<TooLong>,
    /// Frames that were queued and then not sent.
    unsent: UnsentPackets,
}

/// A length that the interface refuses permanently, for example a veth whose other end has a smaller MTU.
#[derive(Debug)]
struct TooLong {
    length: usize,
    /// Shorter frames were accepted since, so the refusal is not for lack of room.
    shorter_accepted: bool,
}

impl TransmitQueue {
    pub(super) fn new(prefixed: bool) -> TransmitQueue {
        TransmitQueue {
            send_batch: SendBatch::new(prefixed),
            waiting: Batch::new(),
            region: None,
            refused: None,
            too_long: None,
            unsent: UnsentPackets::default(),
        }
    }

    /// The number of frames that can be sent now.
    pub(super) fn room(&self) -> usize {
        if self.is_blocked() { 0 } else { BATCH }
    }

    /// True if frames wait because the interface refused them at the last attempt.
    pub(super) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Frames that wait, and refused frames not reported yet.
    pub(super) fn waiting(&self) -> UnsentPackets {
        let mut waiting = self.unsent;
        self.waiting.as_slice().iter().for_each(|packet| waiting.add(wire_length(packet)));
        waiting
    }

    /// Frames that had to wait and were not sent, each reported once.
    pub(super) fn refused_late(&mut self) -> UnsentPackets {
        std::mem::take(&mut self.unsent)
    }

    /// Sends all of `batch`, at most [`TransmitQueue::room`]. Frames that the interface refuses immediately stay in it.
    pub(super) fn send(&mut self, socket: impl AsFd, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        assert!(batch.len() <= self.room(), "never more than there is room for");
        if batch.is_empty() {
            return;
        }
        std::mem::swap(&mut self.waiting, batch);
        // Waiting frames count as exported; sent and refused ones are imported again before they are given back.
        pool.export(self.waiting.len());
        self.send_waiting(socket, now, pool, Some(batch));
        if self.is_blocked() && self.region.is_none() {
            self.region = Some(pool.region().clone());
        }
    }

    /// Sends the waiting frames as far as the interface accepts them.
    pub(super) fn retry(&mut self, socket: impl AsFd, now: Instant, pool: &mut Pool) {
        self.send_waiting(socket, now, pool, None);
    }

    fn send_waiting(&mut self, socket: impl AsFd, now: Instant, pool: &mut Pool, mut back: Option<&mut Batch>) {
        let mut was_down = false;
        while self.is_blocked() {
            let error = match self.send_batch.send(&socket, self.waiting.as_slice()) {
                Ok(sent) => {
                    self.refused = None;
                    if self.too_long.is_some() {
                        self.compare_lengths(sent);
                    }
                    pool.import(sent);
                    self.waiting.drain().take(sent).for_each(|packet| pool.give(packet));
                    continue;
                }
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
            };
            // An error concerns the first frame only: the kernel reports it when it has sent none of the call.
            let (count, reason) = match error {
                libc::EINTR => continue,
                // If the interface went down since, the first attempt only returns that pending error.
                libc::ENETDOWN if !was_down => {
                    was_down = true;
                    continue;
                }
                // The interface is down, or the memory for frames in flight is used up.
                libc::ENETDOWN | libc::EAGAIN => return,
                libc::ENOBUFS if !self.is_unsendable(now) => return,
                libc::ENXIO | libc::ENODEV => (self.waiting.len(), DropReason::PortDown),
                // Too long for the interface (EMSGSIZE) or for its other end (ENOBUFS), or inconsistent headers (EINVAL).
                _ => (1, DropReason::DeviceRefused),
            };
            self.refused = None;
            pool.import(count);
            for packet in self.waiting.drain().take(count) {
                match &mut back {
                    // Within `send` the caller can still drop the frame with its reason; later it can only be counted.
                    Some(back) => refuse(packet, reason, back),
                    None => {
                        self.unsent.add(wire_length(&packet));
                        pool.give(packet);
                    }
                }
            }
        }
    }

    /// The interface dropped the first frame and reports it. The cause may be a lack of room; but a veth always drops frames that exceed the MTU of
    /// its other end.
    fn is_unsendable(&mut self, now: Instant) -> bool {
        let length = self.waiting.as_slice().first().map_or(0, |packet| packet.len());
        if self.too_long.as_ref().is_some_and(|known| length >= known.length && known.shorter_accepted) {
            return true;
        }
        let (count, since) = self.refused.get_or_insert((0, now));
        *count += 1;
        // Both limits must be reached: a full queue may refuse often in a short time, or rarely over a long time.
        let hopeless = *count >= REFUSALS.0 && now.since(*since) >= REFUSALS.1;
        if hopeless {
            self.too_long = Some(TooLong { length, shorter_accepted: false });
        }
        hopeless
    }

    /// The first `sent` frames were accepted: longer ones may be accepted again.
    #[cold]
    fn compare_lengths(&mut self, sent: usize) {
        let Some(known) = &mut self.too_long else { return };
        let longest = self.waiting.as_slice()[..sent].iter().map(|packet| packet.len()).max().unwrap_or(0);
        if longest >= known.length {
            self.too_long = None;
        } else {
            known.shorter_accepted = true;
        }
    }
}

impl Drop for TransmitQueue {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            let mut pool = Pool::new(region);
            pool.import(self.waiting.len());
            self.waiting.drain().for_each(|packet| pool.give(packet));
        }
    }
}
