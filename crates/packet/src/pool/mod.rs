//! Frame memory. A [`Region`] is a fixed number of frames and super-frames. Each worker keeps a [`Pool`] of frames, last in first out, so that the
//! next frame's cache lines are still warm. A [`Packet`] owns one frame until it is given back. This module and its children are the only places in
//! the crate with `unsafe`.

#![allow(unsafe_code)]

mod batch;
mod frame;
mod huge_table;
mod offload;
mod queue;
mod region;
mod shared;
pub mod spsc;

pub use batch::{BATCH, Batch, Drain};
pub use frame::{Meta, Packet, prefetch, prefetch_far};
pub use huge_table::{HashedTable, HugeTable};
pub use offload::{Offload, PartialChecksum, Segmentation};
pub use queue::Queue;
pub use region::{Region, Umem};
pub use shared::{HEAD, SharedPacket};

use shared::Tail;
use std::sync::Arc;

/// Bytes kept free before a received frame: for a longer link header on transmission, and for the kernel's own use (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;
/// The longest frame that is not a super-frame, in bytes, without the frame check sequence.
pub const FRAME: usize = 2048;
/// The longest super-frame, in bytes: the longest IPv6 packet after a tagged link header, with some margin.
pub const SUPER_FRAME: usize = (64 << 10) + 64;
/// Distance between frames: an odd number of cache lines, so that the first lines of many frames do not compete for the same cache sets.
const STRIDE: usize = HEADROOM + FRAME + 64;
/// Distance between super-frames, also odd.
const SUPER_STRIDE: usize = HEADROOM + SUPER_FRAME;
const _: () =
    assert!((STRIDE / 64) % 2 == 1 && (SUPER_STRIDE / 64) % 2 == 1 && (STRIDE | SUPER_STRIDE).is_multiple_of(64));
/// The offset of a tail's description in the memory of a copy: after the longest frame.
const TAIL_AT: usize = STRIDE - 64;
/// Frames moved at once between a pool and its region.
const EXCHANGE: usize = 256;

/// One worker's frames. Exchanges them with the region in bulk.
#[derive(Debug)]
pub struct Pool {
    region: Arc<Region>,
    free: Vec<Packet>,
    in_use: u64,
    /// A frame was requested in vain since [`Pool::take_refusal`].
    refused: bool,
}

impl Pool {
    /// An empty pool on `region`.
    pub fn new(region: Arc<Region>) -> Pool {
        Pool { region, free: Vec::with_capacity(2 * EXCHANGE), in_use: 0, refused: false }
    }

    /// The region behind this pool.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// An empty frame with [`HEADROOM`] before it. `None` if the region has none left.
    #[inline]
    pub fn take(&mut self) -> Option<Packet> {
        if self.free.is_empty() {
            self.refill();
        }
        let mut packet = self.free.pop()?;
        packet.reset();
        self.in_use += 1;
        Some(packet)
    }

    /// An empty super-frame, for up to [`SUPER_FRAME`] bytes. There are few, so a pool keeps none back from others. The lock is cheap compared to the
    /// bytes of a super-frame.
    pub fn take_super(&mut self) -> Option<Packet> {
        let mut packet = self.region.lock().super_frames.pop()?;
        packet.reset();
        self.in_use += 1;
        Some(packet)
    }

    /// A frame for `len` bytes: a super-frame only if no other frame is large enough.
    #[inline]
    pub fn take_for(&mut self, len: usize) -> Option<Packet> {
        if len <= FRAME { self.take() } else { self.take_super() }
    }

    /// Ends a packet: its frame is free again.
    #[inline]
    pub fn give(&mut self, packet: Packet) {
        self.in_use = self.in_use.wrapping_sub(1);
        if packet.is_special() {
            return self.recycle_special(packet);
        }
        self.recycle(packet);
    }

    /// Adds a frame to the free ones.
    #[inline(always)]
    fn recycle(&mut self, packet: Packet) {
        self.free.push(packet);
        // Half of the list stays: a worker that alternates between taking and giving does not lock the region each time.
        if self.free.len() == 2 * EXCHANGE {
            let keep = self.free.len() - EXCHANGE;
            self.region.lock().frames.extend(self.free.drain(keep..));
        }
    }

    #[cold]
    #[inline(never)]
    fn recycle_special(&mut self, mut packet: Packet) {
        if packet.is_large() {
            // The list never exceeds the region's super-frames, so this push never allocates.
            return self.region.lock().super_frames.push(packet);
        }
        if let Some(last) = packet.take_tail().and_then(Tail::end) {
            // No packet refers to it any more. `outside` was decremented when its packet was given back.
            self.recycle_any(last);
        }
        self.recycle(packet);
    }

    fn recycle_any(&mut self, packet: Packet) {
        if packet.is_special() { self.recycle_special(packet) } else { self.recycle(packet) }
    }

    /// Ends the original of copies. Its frame is free again once the last copy has ended.
    pub fn give_shared(&mut self, shared: SharedPacket) {
        self.in_use = self.in_use.wrapping_sub(1);
        if let Some(last) = shared.end() {
            self.recycle_any(last);
        }
    }

    /// Makes a packet contiguous: copies its tail after its head and ends the reference. Returns false and changes nothing if that needs a
    /// super-frame and none is left.
    #[cold]
    pub fn join(&mut self, packet: &mut Packet) -> bool {
        if !packet.has_tail() {
            return true;
        }
        if packet.len() + packet.tail().len() > FRAME {
            let Some(mut whole) = self.take_super() else { return false };
            let fits = whole.copy(packet);
            debug_assert!(fits, "a super-frame holds every packet");
            std::mem::swap(packet, &mut whole);
            self.give(whole);
            return true;
        }
        let Some(tail) = packet.take_tail() else { return true };
        // A head begins at the headroom or within it, so head and tail end before the tail's description.
        let fits = packet.append(tail.bytes());
        debug_assert!(fits, "a frame holds what is no longer than a frame");
        if let Some(last) = tail.end() {
            self.recycle_any(last);
        }
        true
    }

    /// Counts packets from a port that shares the region: this worker holds them now.
    #[inline]
    pub fn import(&mut self, packets: usize) {
        self.in_use = self.in_use.wrapping_add(packets as u64);
    }

    /// Counts packets to a port that shares the region: this worker no longer holds them.
    #[inline]
    pub fn export(&mut self, packets: usize) {
        self.in_use = self.in_use.wrapping_sub(packets as u64);
    }

    /// Resets the count: the worker has lost track of its packets, and their frames returned to the region when they were dropped.
    pub fn abandon(&mut self) {
        self.in_use = 0;
    }

    /// The packets that this worker holds, counted by frames taken and given back, independent of the ledger.
    #[inline]
    pub fn frames_in_use(&self) -> u64 {
        self.in_use
    }

    #[cold]
    fn refill(&mut self) {
        let mut spare = self.region.lock();
        let from = spare.frames.len().saturating_sub(EXCHANGE);
        self.free.extend(spare.frames.drain(from..));
        self.refused |= self.free.is_empty();
    }

    /// True if a frame was requested in vain since the last call. Super-frames do not count: what needs one has a way without.
    #[inline]
    pub fn take_refusal(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// True if a frame can be taken.
    pub fn has_frames(&self) -> bool {
        !self.free.is_empty() || self.region.spare() > 0
    }

    /// Free frames that this pool keeps back from others.
    pub fn kept(&self) -> usize {
        self.free.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.region.lock().frames.append(&mut self.free);
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
    fn region_gives_each_frame_once_and_recovers_all() {
        let region = Region::new(1000);
        let mut pool = Pool::new(region.clone());
        let mut taken: Vec<Packet> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), 1000);
        assert_eq!(pool.frames_in_use(), 1000);
        for (i, packet) in taken.iter_mut().enumerate() {
            packet.fill(&(i as u32).to_be_bytes());
        }
        for (i, packet) in taken.iter().enumerate() {
            assert_eq!(packet.bytes(), (i as u32).to_be_bytes());
        }
        taken.into_iter().for_each(|p| pool.give(p));
        assert_eq!(pool.frames_in_use(), 0);
        drop(pool);
        assert_eq!(region.spare(), 1000);
    }

    #[test]
    fn a_closed_batch_has_no_room_until_it_is_unlimited() {
        let (mut pool, mut batch) = (Pool::new(Region::new(2)), Batch::new());
        batch.limit(8);
        batch.push(pool.take().unwrap());
        assert_eq!(batch.room(), 7);
        batch.close();
        assert_eq!((batch.room(), batch.len()), (0, 1));
        batch.unlimit();
        assert_eq!(batch.room(), BATCH - 1);
        batch.drain().for_each(|packet| pool.give(packet));
    }

    #[test]
    fn super_frames_hold_long_packets_and_return_to_the_region() {
        let region = Region::with_super_frames(4, 100);
        let mut pool = Pool::new(region.clone());
        for (len, large) in [(0, false), (FRAME, false), (FRAME + 1, true), (SUPER_FRAME, true)] {
            let mut packet = pool.take_for(len).unwrap();
            assert_eq!(packet.is_large(), large, "{len}");
            assert!(packet.fill(&vec![1; len]));
            pool.give(packet);
        }
        for _ in 0..3 {
            let taken: Vec<Packet> = std::iter::from_fn(|| pool.take_super()).collect();
            assert_eq!((taken.len(), pool.frames_in_use()), (100, 100));
            taken.into_iter().for_each(|packet| pool.give(packet));
            // A pool keeps no super-frames: other pools can use them.
            assert_eq!(region.spare_super_frames(), 100);
        }
        drop(pool);
        assert_eq!((region.spare(), region.spare_super_frames()), (4, 100));
    }

    #[test]
    fn frames_of_other_threads_return_to_the_region() {
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
            assert_eq!(there.frames_in_use(), 0);
        })
        .join()
        .unwrap();
        drop(here);
        assert_eq!(region.spare(), 64);
    }
}
