//! A batch: the packets that a stage processes together.

use super::Packet;
use std::fmt;
use std::mem::MaybeUninit;

/// The maximum number of packets in one batch.
pub const BATCH: usize = 256;

/// Up to [`BATCH`] packets in order, added at the end and removed from the front. The memory is reused.
#[must_use]
pub struct Batch {
    /// Initialised in `start..end`.
    slots: Box<[MaybeUninit<Packet>; BATCH]>,
    start: usize,
    end: usize,
    /// No packet is added at or after this slot.
    most: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch { slots: Box::new([const { MaybeUninit::uninit() }; BATCH]), start: 0, end: 0, most: BATCH }
    }

    /// The number of packets.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// True if it has no packet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The number of packets that can still be added.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.end)
    }

    /// Limits the batch to `most` packets, and never more than [`BATCH`]. Used when the caller fills a batch up to its room. The batch must be empty.
    #[inline(always)]
    pub fn limit(&mut self, most: usize) {
        assert!(self.is_empty(), "an empty batch is limited");
        self.rewind();
        self.most = most.min(BATCH);
    }

    /// Limits the batch to its present packets until it is unlimited again. A caller that left packets behind closes the batch, although it still has
    /// room.
    pub fn close(&mut self) {
        self.most = self.end;
    }

    /// Removes the limit.
    #[inline(always)]
    pub fn unlimit(&mut self) {
        self.most = BATCH;
    }

    /// Adds a packet at the end. There must be room: callers that fill batches check this first.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) {
        assert!(self.end < BATCH, "a batch holds 256 packets");
        // SAFETY: `end < BATCH`.
        unsafe { self.slots.get_unchecked_mut(self.end) }.write(packet);
        self.end += 1;
    }

    /// Removes the first packet. Its slot becomes free once the batch is empty and [`Batch::drain`]ed.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<Packet> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: `start < end <= BATCH`, so the slot exists and is initialised; it leaves the initialised range before
        // it can be read again.
        let packet = unsafe { self.slots.get_unchecked(self.start).assume_init_read() };
        self.start += 1;
        Some(packet)
    }

    /// Removes all packets, first to last. Packets that the iterator does not reach stay in the batch.
    #[inline(always)]
    pub fn drain(&mut self) -> Drain<'_> {
        Drain { batch: self }
    }

    /// The packets.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Packet] {
        let packets = &self.slots[self.start..self.end];
        // SAFETY: `start..end` is initialised.
        unsafe { packets.assume_init_ref() }
    }

    /// The packets, mutable.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        let packets = &mut self.slots[self.start..self.end];
        // SAFETY: `start..end` is initialised.
        unsafe { packets.assume_init_mut() }
    }

    /// Sum of the frame lengths in bytes.
    pub fn bytes(&self) -> u64 {
        self.as_slice().iter().map(|p| p.len() as u64).sum()
    }

    /// Releases the first `count` slots: the caller moves the packets out.
    #[inline(always)]
    pub(super) fn release_front(&mut self, count: usize) -> *const Packet {
        assert!(count <= self.len());
        let first = self.slots[self.start..].as_ptr();
        self.start += count;
        self.rewind();
        first.cast()
    }

    /// Adds the next `count` slots.
    ///
    /// # Safety
    /// The caller writes a packet to each slot before it uses the batch again.
    #[inline(always)]
    pub(super) unsafe fn extend_back(&mut self, count: usize) -> *mut Packet {
        self.rewind();
        assert!(count <= self.room());
        let first = self.slots[self.end..].as_mut_ptr();
        self.end += count;
        first.cast()
    }

    /// Resets the positions of an empty batch, so that all its slots are free again.
    #[inline(always)]
    pub(super) fn rewind(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }
}

/// Removes packets from a batch, first to last.
#[derive(Debug)]
pub struct Drain<'a> {
    batch: &'a mut Batch,
}

impl Iterator for Drain<'_> {
    type Item = Packet;

    #[inline(always)]
    fn next(&mut self) -> Option<Packet> {
        self.batch.pop_front()
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.batch.len(), Some(self.batch.len()))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.batch.rewind();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        while let Some(packet) = self.pop_front() {
            drop(packet);
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
