//! Frame memory. A [`Region`] is a fixed number of frames; each worker keeps a [`Pool`] of them, last in first out, so
//! that the frame taken next is the one whose cache lines are still warm. A [`Packet`] owns one frame until it is given
//! back. This module and its children are the only places in the crate with `unsafe`.

#![allow(unsafe_code)]

mod batch;
mod frame;
mod huge;
mod queue;

pub use batch::{BATCH, Batch, Drain};
pub use frame::{Meta, Packet, prefetch};
pub use huge::Huge;
pub use queue::Queue;

use frame::Slot;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes kept free before a received frame, for a longer link header on the way out.
pub const HEADROOM: usize = 64;
/// The longest frame, in bytes from its first to its last, without the frame check sequence.
pub const FRAME: usize = 2048;
/// Distance between frames: an odd number of cache lines, so that the first lines of many frames do not compete for the
/// same few sets of the cache.
const STRIDE: usize = HEADROOM + FRAME;
/// Frames moved at once between a pool and its region.
const EXCHANGE: usize = 256;
/// Asks for memory that the kernel may back with huge pages.
const ALIGN: usize = 2 << 20;

/// A fixed number of frames, shared by the pools of all workers.
#[derive(Debug)]
pub struct Region {
    slots: NonNull<Slot>,
    data: NonNull<u8>,
    frames: usize,
    spare: Mutex<Vec<Packet>>,
}

// SAFETY: the two pointers are only used to free the memory, and are never handed out as such; frames travel between
// threads inside `Packet`, which is `Send`, through the mutex.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` only reaches the mutex and the frame count.
unsafe impl Sync for Region {}

impl Region {
    /// Memory for `frames` frames (at least one, at most 2^24) of [`FRAME`] bytes, zeroed, untouched until used.
    pub fn new(frames: usize) -> Arc<Region> {
        assert!((1..=1 << 24).contains(&frames), "a region holds 1 to 2^24 frames");
        let (slots_layout, data_layout) = Self::layouts(frames);
        // SAFETY: both layouts have a size above zero.
        let (slots, data) = unsafe { (alloc_zeroed(slots_layout).cast::<Slot>(), alloc_zeroed(data_layout)) };
        let Some(slots) = NonNull::new(slots) else { handle_alloc_error(slots_layout) };
        let Some(data) = NonNull::new(data) else { handle_alloc_error(data_layout) };
        let spare = (0..frames).rev().map(|i| {
            // SAFETY: `i < frames`, so slot and data lie inside the two allocations, and each frame gets its own.
            unsafe { Packet::new(slots.add(i), data.add(i * STRIDE)) }
        });
        Arc::new(Region { slots, data, frames, spare: Mutex::new(spare.collect()) })
    }

    /// The number of frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Frames in no worker's pool and in no packet.
    pub fn spare(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Packet>> {
        // A panic elsewhere cannot leave the list of spare frames half changed: each change is one call of `Vec`.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every frame of the region is spare. Counting them is not enough: a pool takes any packet, also one of
    /// another region, in the place of which one of this region is somewhere else.
    fn is_whole(&self) -> bool {
        let spare = self.lock();
        let slots = self.slots.as_ptr().cast_const();
        let own = slots..slots.wrapping_add(self.frames);
        spare.len() == self.frames && spare.iter().all(|packet| own.contains(&packet.address().as_ptr().cast_const()))
    }

    fn layouts(frames: usize) -> (Layout, Layout) {
        let slots = Layout::array::<Slot>(frames).expect("bounded by 2^24 frames");
        let data = Layout::from_size_align(frames * STRIDE, ALIGN).expect("bounded by 2^24 frames");
        (slots, data)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.is_whole() {
            // Some packet still owns a frame (a worker that ended in a panic): keeping the memory is the safe answer.
            return;
        }
        let (slots, data) = Self::layouts(self.frames);
        // SAFETY: allocated in `new` with these layouts; every frame is in `spare`, each once as packets cannot be copied,
        // so nobody can reach the memory.
        unsafe {
            dealloc(self.slots.as_ptr().cast(), slots);
            dealloc(self.data.as_ptr(), data);
        }
    }
}

/// One worker's frames: takes from and gives back to the region in bulk.
#[derive(Debug)]
pub struct Pool {
    region: Arc<Region>,
    free: Vec<Packet>,
    outside: u64,
}

impl Pool {
    /// A pool on `region`, empty at first.
    pub fn new(region: Arc<Region>) -> Pool {
        Pool { region, free: Vec::with_capacity(2 * EXCHANGE), outside: 0 }
    }

    /// The region behind this pool.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// A frame of no bytes with [`HEADROOM`] before it, or nothing when the region is used up.
    #[inline]
    pub fn take(&mut self) -> Option<Packet> {
        if self.free.is_empty() {
            self.refill();
        }
        let mut packet = self.free.pop()?;
        packet.reset();
        self.outside += 1;
        Some(packet)
    }

    /// Ends a packet: its frame can be taken again.
    #[inline]
    pub fn give(&mut self, packet: Packet) {
        self.outside = self.outside.wrapping_sub(1);
        self.free.push(packet);
        if self.free.len() == 2 * EXCHANGE {
            let keep = self.free.len() - EXCHANGE;
            self.region.lock().extend(self.free.drain(keep..));
        }
    }

    /// Packets that came in through a port that shares the region: from now on this worker holds them.
    #[inline]
    pub fn import(&mut self, packets: usize) {
        self.outside = self.outside.wrapping_add(packets as u64);
    }

    /// Packets that left through a port that shares the region: this worker no longer holds them.
    #[inline]
    pub fn export(&mut self, packets: usize) {
        self.outside = self.outside.wrapping_sub(packets as u64);
    }

    /// Packets this worker holds, counted by the frames that left and came back: independent of the ledger.
    #[inline]
    pub fn outside(&self) -> u64 {
        self.outside
    }

    #[cold]
    fn refill(&mut self) {
        let mut spare = self.region.lock();
        let from = spare.len().saturating_sub(EXCHANGE);
        self.free.extend(spare.drain(from..));
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.region.lock().append(&mut self.free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_recycled_last_in_first_out() {
        let mut pool = Pool::new(Region::new(8));
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        let warm = b.bytes().as_ptr();
        pool.give(a);
        pool.give(b);
        let again = pool.take().unwrap();
        assert_eq!(again.bytes().as_ptr(), warm);
        pool.give(again);
    }

    #[test]
    fn a_region_gives_every_frame_once_and_takes_all_back() {
        let region = Region::new(1000);
        let mut pool = Pool::new(region.clone());
        let mut taken: Vec<Packet> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), 1000);
        assert_eq!(pool.outside(), 1000);
        for (i, packet) in taken.iter_mut().enumerate() {
            packet.fill(&(i as u32).to_be_bytes());
        }
        for (i, packet) in taken.iter().enumerate() {
            assert_eq!(packet.bytes(), (i as u32).to_be_bytes());
        }
        taken.into_iter().for_each(|p| pool.give(p));
        assert_eq!(pool.outside(), 0);
        drop(pool);
        assert_eq!(region.spare(), 1000);
    }

    #[test]
    fn a_region_stays_as_long_as_a_packet_lies_in_it_even_where_another_has_taken_its_place() {
        let (mut here, mut there) = (Pool::new(Region::new(1)), Pool::new(Region::new(1)));
        let (mut ours, theirs) = (here.take().unwrap(), there.take().unwrap());
        here.give(theirs);
        assert!(!here.region().clone().is_whole());
        // The region behind `here` has as many frames as it should, but not its own.
        drop(here);
        assert!(ours.fill(b"still there"));
        assert_eq!(ours.bytes(), b"still there");
        there.give(ours);
    }

    #[test]
    fn frames_cross_threads_and_come_home() {
        let region = Region::new(64);
        let mut here = Pool::new(region.clone());
        let mut packet = here.take().unwrap();
        packet.fill(b"across");
        here.export(1);
        let region2 = region.clone();
        std::thread::spawn(move || {
            let mut there = Pool::new(region2);
            there.import(1);
            assert_eq!(packet.bytes(), b"across");
            there.give(packet);
            assert_eq!(there.outside(), 0);
        })
        .join()
        .unwrap();
        drop(here);
        assert_eq!(region.spare(), 64);
    }
}
