//! A batch: what a stage takes and gives at once.

use super::Packet;
use std::fmt;
use std::mem::MaybeUninit;

/// The most packets in one batch.
pub const BATCH: usize = 256;

/// Up to [`BATCH`] packets in order: added at the end, taken from the front. Its memory is kept from use to use.
#[must_use]
pub struct Batch {
    /// Initialised in `start..end`.
    slots: Box<[MaybeUninit<Packet>; BATCH]>,
    start: usize,
    end: usize,
    /// None is added at or behind this slot.
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

    /// Packets in it.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Packets that can still be added.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.end)
    }

    /// From now on it holds at most `most` packets, and never more than [`BATCH`]: for who fills it as far as there is room.
    /// It must be empty.
    #[inline(always)]
    pub fn limit(&mut self, most: usize) {
        assert!(self.is_empty(), "an empty batch is limited");
        self.rewind();
        self.most = most.min(BATCH);
    }

    /// It holds no more than there are in it until it is unlimited: whoever fills it has left some behind that would have found room.
    pub fn close(&mut self) {
        self.most = self.end;
    }

    /// It holds as many as it can again.
    #[inline(always)]
    pub fn unlimit(&mut self) {
        self.most = BATCH;
    }

    /// Adds one at the end. There must be room: a caller that fills batches asks first.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) {
        assert!(self.end < BATCH, "a batch holds 256 packets");
        // SAFETY: `end < BATCH`.
        unsafe { self.slots.get_unchecked_mut(self.end) }.write(packet);
        self.end += 1;
    }

    /// Takes the first. The room it leaves is there again once the batch is empty and [`Batch::drain`]ed.
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

    /// Takes all packets out, first to last. What the iterator is not asked for stays.
    #[inline(always)]
    pub fn drain(&mut self) -> Drain<'_> {
        Drain { batch: self }
    }

    /// The packets, to look at.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Packet] {
        let packets = &self.slots[self.start..self.end];
        // SAFETY: `start..end` is initialised.
        unsafe { packets.assume_init_ref() }
    }

    /// The packets, to change in place.
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

    /// The first `count` slots, given up by the batch: the caller moves the packets out.
    #[inline(always)]
    pub(super) fn give_up(&mut self, count: usize) -> *const Packet {
        assert!(count <= self.len());
        let first = self.slots[self.start..].as_ptr();
        self.start += count;
        self.rewind();
        first.cast()
    }

    /// The next `count` slots, taken on by the batch.
    ///
    /// # Safety
    /// The caller writes a packet to each before it touches the batch again.
    #[inline(always)]
    pub(super) unsafe fn take_on(&mut self, count: usize) -> *mut Packet {
        self.rewind();
        assert!(count <= self.room());
        let first = self.slots[self.end..].as_mut_ptr();
        self.end += count;
        first.cast()
    }

    /// A batch that has run empty has all its room again.
    #[inline(always)]
    pub(super) fn rewind(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }
}

/// Takes packets out of a batch, first to last.
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
