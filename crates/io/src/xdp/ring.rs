//! The four rings of an AF_XDP socket: single producer, single consumer, one end the router's and one the kernel's
//! (Documentation/networking/af_xdp.rst).
//!
//! Producer and consumer are counters that only grow and wrap at 2^32; the lowest bits of a counter are the index of its entry. Each side moves its
//! counter with a release store after it has read or written the entries. The other side reads the counter with an acquire load before it accesses
//! them.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// The entry type of a ring.
///
/// # Safety
/// Consists of integers only, aligned to at most eight bytes.
pub(super) unsafe trait Entry: Copy {}
// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: three integers, the first of eight bytes.
unsafe impl Entry for libc::xdp_desc {}

/// The mapping of one ring.
#[derive(Debug)]
struct Memory<T> {
    base: NonNull<u8>,
    length: usize,
    offsets: Offsets,
    entries: u32,
    _entries: PhantomData<T>,
}

/// Offsets of the parts of a ring in its mapping, in bytes (`struct xdp_ring_offset`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) entries: usize,
    pub(super) flags: usize,
}

impl From<libc::xdp_ring_offset> for Offsets {
    fn from(said: libc::xdp_ring_offset) -> Self {
        Offsets {
            producer: said.producer as usize,
            consumer: said.consumer as usize,
            entries: said.desc as usize,
            flags: said.flags as usize,
        }
    }
}

// SAFETY: the mapping belongs to this value alone and can be used from any one thread at a time.
unsafe impl<T: Entry> Send for Memory<T> {}

impl<T: Entry> Memory<T> {
    /// Maps the socket's ring of `entries` entries, a power of two, at this page offset (XDP_PGOFF_*).
    fn map(socket: impl AsFd, at: u64, offsets: Offsets, entries: usize) -> io::Result<Self> {
        assert!(entries.is_power_of_two() && entries <= 1 << 16, "a ring of {entries} entries");
        let length = offsets.entries + entries * size_of::<T>();
        let words = [offsets.producer, offsets.consumer, offsets.flags];
        assert!(
            words.iter().all(|at| at % 4 == 0 && at + 4 <= length) && offsets.entries.is_multiple_of(8),
            "{offsets:?}"
        );
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe { mmap(ptr::null_mut(), length, protection, flags, socket, at) }?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Memory { base, length, offsets, entries: entries as u32, _entries: PhantomData })
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` checked that the three words lie in the mapping, which lives as long as `self`, and are aligned; both sides access them only
        // atomically.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    #[inline(always)]
    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    #[inline(always)]
    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// The address of the entry of a counter.
    #[inline(always)]
    fn entry(&self, counter: u32) -> *mut T {
        let index = (counter & (self.entries - 1)) as usize;
        // SAFETY: the index is below the number of entries, all of which lie in the mapping.
        unsafe { self.base.as_ptr().add(self.offsets.entries).cast::<T>().add(index) }
    }

    /// True if the kernel asks for a system call to continue with this ring (XDP_USE_NEED_WAKEUP).
    #[inline(always)]
    fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; every borrow of it has ended.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// A ring that the router fills: frames to receive into, or to send.
#[derive(Debug)]
pub(super) struct ProducerRing<T> {
    memory: Memory<T>,
    /// Entries written, including unpublished ones.
    produced: u32,
    /// The kernel's counter at the last read.
    consumed: u32,
}

impl<T: Entry> ProducerRing<T> {
    pub(super) fn map(socket: impl AsFd, at: u64, offsets: Offsets, entries: usize) -> io::Result<Self> {
        let memory = Memory::map(socket, at, offsets, entries)?;
        let (produced, consumed) =
            (memory.producer().load(Ordering::Relaxed), memory.consumer().load(Ordering::Acquire));
        Ok(ProducerRing { memory, produced, consumed })
    }

    /// The number of entries that can be written now. Reads the kernel's counter only if fewer than `wanted` are known.
    #[inline]
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        let known = self.memory.entries - self.produced.wrapping_sub(self.consumed);
        if known as usize >= wanted {
            return known as usize;
        }
        self.consumed = self.memory.consumer().load(Ordering::Acquire);
        (self.memory.entries - self.produced.wrapping_sub(self.consumed)) as usize
    }

    /// Writes the next entry. The kernel sees it once it is published.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: T) {
        assert!(self.produced.wrapping_sub(self.consumed) < self.memory.entries, "there is room in the ring");
        // SAFETY: the kernel has consumed the previous entry, as the acquire load of its counter showed, and reads the entry again only after
        // `publish`.
        unsafe { self.memory.entry(self.produced).write(entry) };
        self.produced = self.produced.wrapping_add(1);
    }

    /// Publishes the written entries to the kernel.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        self.memory.producer().store(self.produced, Ordering::Release);
    }

    /// The number of entries that the kernel has not consumed yet.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.produced.wrapping_sub(self.memory.consumer().load(Ordering::Relaxed)) as usize
    }

    /// The last entry that the kernel consumed.
    #[cold]
    pub(super) fn last_consumed(&self) -> T {
        self.written(self.memory.consumer().load(Ordering::Relaxed).wrapping_sub(1))
    }

    /// The entries that the kernel has not consumed yet.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = T> {
        let consumed = self.memory.consumer().load(Ordering::Relaxed);
        // Bounded by the ring size, which no correct kernel exceeds.
        let count = self.produced.wrapping_sub(consumed).min(self.memory.entries);
        (0..count).map(move |ahead| self.written(consumed.wrapping_add(ahead)))
    }

    fn written(&self, counter: u32) -> T {
        // SAFETY: only this side writes the entries of this ring, and the kernel only reads them. An unwritten entry is zeros, and any bits are a
        // value.
        unsafe { self.memory.entry(counter).read() }
    }

    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.memory.needs_wakeup()
    }
}

/// A ring that the kernel fills: received frames, or sent ones.
#[derive(Debug)]
pub(super) struct ConsumerRing<T> {
    memory: Memory<T>,
    consumed: u32,
    /// The kernel's counter at the last read.
    produced: u32,
}

impl<T: Entry> ConsumerRing<T> {
    pub(super) fn map(socket: impl AsFd, at: u64, offsets: Offsets, entries: usize) -> io::Result<Self> {
        let memory = Memory::map(socket, at, offsets, entries)?;
        let consumed = memory.consumer().load(Ordering::Relaxed);
        Ok(ConsumerRing { memory, consumed, produced: consumed })
    }

    /// The number of entries that can be read. Reads the kernel's counter only if fewer than `wanted` are known.
    #[inline]
    pub(super) fn available(&mut self, wanted: usize) -> usize {
        let known = self.produced.wrapping_sub(self.consumed) as usize;
        if known >= wanted {
            return known;
        }
        self.produced = self.memory.producer().load(Ordering::Acquire);
        // No correct kernel exceeds the ring size; the bound limits reads to written entries.
        (self.produced.wrapping_sub(self.consumed)).min(self.memory.entries) as usize
    }

    /// The number of entries, without updating the state.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        let produced = self.memory.producer().load(Ordering::Relaxed);
        produced.wrapping_sub(self.consumed).min(self.memory.entries) as usize
    }

    /// Removes the next entry, if one is known to be available.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.produced == self.consumed {
            return None;
        }
        // SAFETY: the kernel has written it, as the acquire load of its counter in `available` showed, and writes to it again only after `release`;
        // any bits are a value.
        let entry = unsafe { self.memory.entry(self.consumed).read() };
        self.consumed = self.consumed.wrapping_add(1);
        Some(entry)
    }

    /// The entry `behind` places after the next, if it is known to be available.
    #[inline(always)]
    pub(super) fn peek(&self, behind: u32) -> Option<T> {
        // SAFETY: as in `pop`.
        (self.produced.wrapping_sub(self.consumed) > behind)
            .then(|| unsafe { self.memory.entry(self.consumed.wrapping_add(behind)).read() })
    }

    /// Returns the consumed entries to the kernel.
    #[inline(always)]
    pub(super) fn release(&mut self) {
        self.memory.consumer().store(self.consumed, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::collections::VecDeque;

    const OFFSETS: Offsets = Offsets { producer: 0, consumer: 64, flags: 128, entries: 192 };

    /// A ring of `entries` entries whose counters begin at `first`, and the same memory from the other side.
    fn both(entries: usize, first: u32) -> (ProducerRing<u64>, ConsumerRing<u64>) {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        let memory = Memory::<u64>::map(&file, 0, OFFSETS, entries).unwrap();
        memory.producer().store(first, Ordering::Relaxed);
        memory.consumer().store(first, Ordering::Relaxed);
        drop(memory);
        (ProducerRing::map(&file, 0, OFFSETS, entries).unwrap(), ConsumerRing::map(&file, 0, OFFSETS, entries).unwrap())
    }

    proptest! {
        #[test]
        fn ring_keeps_order_across_counter_wrap(
            first in prop_oneof![Just(0u32), (u32::MAX - 40)..=u32::MAX],
            steps in prop::collection::vec((any::<bool>(), 0usize..9), 0..100),
        ) {
            let (mut producing, mut consuming) = both(8, first);
            let (mut inside, mut number) = (VecDeque::new(), 0u64);
            for (fill, count) in steps {
                if fill {
                    let room = producing.room(count);
                    prop_assert!(room <= 8 - inside.len());
                    prop_assert!(room >= count || room == 8 - inside.len());
                    for _ in 0..count.min(room) {
                        producing.push(number);
                        inside.push_back(number);
                        number += 1;
                    }
                    producing.publish();
                } else {
                    let available = consuming.available(count);
                    prop_assert!(available <= inside.len() && (available >= count || available == inside.len()));
                    prop_assert_eq!(consuming.waiting(), inside.len());
                    for _ in 0..count.min(available) {
                        prop_assert_eq!(consuming.pop(), inside.pop_front());
                    }
                    consuming.release();
                }
                prop_assert_eq!(producing.waiting(), inside.len());
            }
        }
    }

    #[test]
    #[should_panic(expected = "there is room in the ring")]
    fn full_ring_is_not_overwritten() {
        let (mut producing, _consuming) = both(8, u32::MAX - 3);
        (0..9).for_each(|number| producing.push(number));
    }
}
