//! The memory of all frames, in two classes: frames of [`FRAME`](super::FRAME) bytes, and super-frames of [`SUPER_FRAME`](super::SUPER_FRAME).

use super::frame::{Slot, SuperFrame, prefetch};
use super::{Huge, Packet, STRIDE, SUPER_STRIDE};
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What the super-frames begin at a multiple of: a page.
const PAGE: usize = 4096;
/// The most frames a region holds, and the most super-frames.
const MOST: (usize, usize) = (1 << 24, 1 << 16);

/// A fixed number of frames and super-frames, shared by the pools of all workers.
#[derive(Debug)]
pub struct Region {
    /// The way home ([`Home`]) in the place of one slot, then one slot for each frame, then one for each super-frame.
    slots: ManuallyDrop<Huge<u8>>,
    /// The frames, then from the next page on the super-frames.
    data: ManuallyDrop<Huge<u8>>,
    frames: usize,
    super_frames: usize,
    spare: Mutex<Spare>,
}

/// The region of a slot, for packets that nobody ends: it lies before the first slot.
type Home = Weak<Region>;
const _: () = assert!(size_of::<Home>() <= size_of::<Slot>() && align_of::<Home>() <= align_of::<Slot>());

/// Frames in no worker's pool and in no packet.
#[derive(Debug, Default)]
pub(super) struct Spare {
    pub frames: Vec<Packet>,
    pub super_frames: Vec<Packet>,
}

/// The memory of the frames, as AF_XDP takes it (`struct xdp_umem_reg`, with unaligned chunks: their size is no power of
/// two). Frame `index` has the bytes from `index * chunk` on.
#[derive(Clone, Copy, Debug)]
pub struct Umem {
    /// The first byte, at the beginning of a page.
    pub base: NonNull<u8>,
    /// Bytes, whole pages.
    pub length: usize,
    /// Bytes from frame to frame.
    pub chunk: u32,
}

// SAFETY: the mappings are only used to find slots that are given out once each, and to be unmapped; frames travel
// between threads inside `Packet`, which is `Send`, through the mutex.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` only reaches the mutex, addresses and counts.
unsafe impl Sync for Region {}

impl Region {
    /// Memory for `frames` frames and no super-frames: see [`Region::with_super_frames`].
    pub fn new(frames: usize) -> Arc<Region> {
        Self::with_super_frames(frames, 0)
    }

    /// Memory for `frames` frames (at least one, at most 2^24) of [`FRAME`](super::FRAME) bytes and `super_frames` (at most 2^16) of
    /// [`SUPER_FRAME`](super::SUPER_FRAME) bytes: page-aligned, zeroed, untouched until used.
    pub fn with_super_frames(frames: usize, super_frames: usize) -> Arc<Region> {
        assert!((1..=MOST.0).contains(&frames), "a region holds 1 to 2^24 frames");
        assert!(super_frames <= MOST.1, "a region holds at most 2^16 super-frames");
        let slots = map((frames + super_frames + 1) * size_of::<Slot>());
        let data = map(Self::frame_bytes(frames) + super_frames * SUPER_STRIDE);
        Arc::new_cyclic(|home| {
            let mut region = Region { slots, data, frames, super_frames, spare: Mutex::default() };
            // SAFETY: the place before the first slot is large enough, aligned, and nobody else's.
            unsafe { region.home().write(home.clone()) };
            // SAFETY: each index below the two counts, once; nobody else has the region yet.
            let packet =
                |index: usize| unsafe { Packet::new(region.slot(index), region.memory(index), region.name(index)) };
            // The first is taken first: the lists are used from their ends.
            let mut spare = Spare::default();
            spare.frames.extend((0..frames).rev().map(packet));
            spare.super_frames.extend((frames..frames + super_frames).rev().map(packet));
            region.spare = Mutex::new(spare);
            region
        })
    }

    /// Where the way home lies.
    fn home(&self) -> NonNull<Home> {
        self.slots.start().cast()
    }

    /// The frame of a packet that was dropped goes back to its region.
    ///
    /// # Safety
    /// `slot` is the one numbered `index` of a region, and whoever had it will not use it any more.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn send_home(slot: NonNull<Slot>, index: u32) {
        // SAFETY: the caller gives the slot up; what is made of it here is forgotten.
        let mut packet = ManuallyDrop::new(unsafe { Packet::back(slot) });
        drop(packet.take_tail());
        // SAFETY: the way home lies before the first slot, was written before there was any packet, and stays as long as
        // any packet is not spare.
        let home = unsafe { slot.sub(index as usize + 1).cast::<Home>().as_ref() };
        // Without its region, the memory is kept for ever: somebody may still look at other frames of it.
        let Some(region) = home.upgrade() else { return };
        let packet = ManuallyDrop::into_inner(packet);
        let mut spare = region.lock();
        if packet.is_large() { spare.super_frames.push(packet) } else { spare.frames.push(packet) }
    }

    /// Bytes of the frames, in whole pages.
    fn frame_bytes(frames: usize) -> usize {
        (frames * STRIDE).next_multiple_of(PAGE)
    }

    /// The slot at `index`, below the number of frames and super-frames.
    fn slot(&self, index: usize) -> NonNull<Slot> {
        // SAFETY: the mapping has a slot for each behind the way home; it begins at a page, so slots are aligned.
        unsafe { self.slots.start().cast::<Slot>().add(index + 1) }
    }

    /// The memory of the slot at `index`.
    fn memory(&self, index: usize) -> NonNull<u8> {
        let offset = match index.checked_sub(self.frames) {
            None => index * STRIDE,
            Some(index) => Self::frame_bytes(self.frames) + index * SUPER_STRIDE,
        };
        // SAFETY: the mapping has the memory of each.
        unsafe { self.data.start().add(offset) }
    }

    /// What the packet in the slot at `index` calls itself.
    fn name(&self, index: usize) -> (u32, SuperFrame) {
        (index as u32, SuperFrame(index >= self.frames))
    }

    /// The number of frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// The number of super-frames.
    pub fn super_frames(&self) -> usize {
        self.super_frames
    }

    /// Frames in no worker's pool and in no packet.
    pub fn spare(&self) -> usize {
        self.lock().frames.len()
    }

    /// Super-frames in no worker's pool and in no packet.
    pub fn spare_super_frames(&self) -> usize {
        self.lock().super_frames.len()
    }

    /// The memory of the frames, without that of the super-frames.
    pub fn umem(&self) -> Umem {
        Umem { base: self.data.start(), length: Self::frame_bytes(self.frames), chunk: STRIDE as u32 }
    }

    /// Whether the packet's frame lies in this region.
    pub fn has(&self, packet: &Packet) -> bool {
        let slots = self.slot(0).as_ptr().cast_const();
        let own = slots..slots.wrapping_add(self.frames + self.super_frames);
        own.contains(&packet.address().as_ptr().cast_const())
    }

    /// The packet whose frame was lent ([`Packet::lend`]), with what was known of it then.
    ///
    /// # Safety
    /// `index` was answered by [`Packet::lend`] for a packet of this region ([`Region::has`]), it has not been reclaimed
    /// since, and whom it was lent to no longer uses the frame.
    #[inline]
    pub unsafe fn reclaim(&self, index: u32) -> Packet {
        assert!((index as usize) < self.frames, "no frame {index} was ever lent");
        // SAFETY: the caller vouches that the slot has no other owner.
        unsafe { Packet::back(self.slot(index as usize)) }
    }

    /// Asks for what describes a frame to be brought near.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if (index as usize) < self.frames {
            prefetch(self.slot(index as usize).as_ptr());
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Spare> {
        // A panic elsewhere cannot leave the lists of spare frames half changed: each change is one call of `Vec`.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every frame of the region is spare. Counting them is not enough: a pool takes any packet, also one of
    /// another region, in the place of which one of this region is somewhere else.
    pub(super) fn is_whole(&self) -> bool {
        let spare = self.lock();
        let all = || spare.frames.iter().chain(&spare.super_frames);
        all().count() == self.frames + self.super_frames && all().all(|packet| self.has(packet))
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the packet owns its slot and is gone after this; its name has its number.
        unsafe { Region::send_home(self.address(), self.index()) }
    }
}

/// Memory whose owner decides when it goes.
fn map(bytes: usize) -> ManuallyDrop<Huge<u8>> {
    let memory = Huge::zeroed(bytes);
    memory.prefer_large_pages();
    ManuallyDrop::new(memory)
}

impl Drop for Region {
    fn drop(&mut self) {
        let whole = self.is_whole();
        // What is spare is at home already.
        let Spare { frames, super_frames } = mem::take(self.spare.get_mut().unwrap_or_else(PoisonError::into_inner));
        frames.into_iter().chain(super_frames).for_each(mem::forget);
        if !whole {
            // Some packet still owns a frame, or the kernel does: keeping the memory is the safe answer.
            return;
        }
        // SAFETY: every frame was in `spare`, each once as packets cannot be copied, so nobody can reach the memory; and
        // neither mapping, nor the way home in one of them, is used after this.
        unsafe {
            self.home().drop_in_place();
            ManuallyDrop::drop(&mut self.slots);
            ManuallyDrop::drop(&mut self.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Batch, FRAME, HEADROOM, Pool, Queue, SUPER_FRAME};
    use super::*;

    #[test]
    fn frames_and_super_frames_do_not_overlap_and_end_where_they_should() {
        let region = Region::with_super_frames(5, 3);
        let mut pool = Pool::new(region.clone());
        let mut packets: Vec<Packet> = std::iter::from_fn(|| pool.take()).collect();
        packets.extend(std::iter::from_fn(|| pool.take_super()));
        assert_eq!(packets.len(), 8);
        for (i, packet) in packets.iter_mut().enumerate() {
            let most = if i < 5 { FRAME } else { SUPER_FRAME };
            assert!(!packet.fill(&vec![i as u8; most + 1]));
            assert!(packet.fill(&vec![i as u8; most]));
            assert!(packet.shift(-(HEADROOM as isize)));
            packet.bytes_mut()[..HEADROOM].fill(i as u8);
        }
        for (i, packet) in packets.iter().enumerate() {
            assert!(packet.bytes().iter().all(|&byte| byte == i as u8), "{i}");
            assert!(region.has(packet));
        }
        packets.into_iter().for_each(|packet| pool.give(packet));
        drop(pool);
        assert_eq!((region.spare(), region.spare_super_frames()), (5, 3));
    }

    #[test]
    fn a_lent_frame_is_where_the_kernel_is_told_and_comes_back_with_what_it_wrote() {
        let region = Region::with_super_frames(8, 1);
        let umem = region.umem();
        assert_eq!((umem.base.as_ptr().addr() % PAGE, umem.length % PAGE), (0, 0));
        assert!(umem.length >= 8 * umem.chunk as usize && umem.chunk as usize <= PAGE);
        let mut pool = Pool::new(region.clone());
        for _ in 0..8 {
            let lent = pool.take().unwrap().lend();
            pool.export(1);
            let at = lent as usize * umem.chunk as usize + HEADROOM;
            // SAFETY: the frame is lent, and lies inside the memory.
            unsafe { umem.base.add(at).cast::<[u8; 4]>().write(lent.to_be_bytes()) };
            // SAFETY: lent just now by a packet of this region.
            let mut packet = unsafe { region.reclaim(lent) };
            pool.import(1);
            assert!(packet.place(HEADROOM, 4));
            assert_eq!((packet.bytes(), packet.start()), (&lent.to_be_bytes()[..], HEADROOM));
            assert!(!packet.place(HEADROOM, STRIDE - HEADROOM + 1) && !packet.place(usize::MAX, 2));
            pool.give(packet);
        }
        assert_eq!(pool.outside(), 0);
    }

    #[test]
    fn what_nobody_ends_goes_home_whatever_it_was_in() {
        let region = Region::with_super_frames(600, 2);
        let mut pool = Pool::new(region.clone());
        let (mut batch, mut queue) = (Batch::new(), Queue::new(100));
        for _ in 0..100 {
            batch.push(pool.take().unwrap());
            assert!(queue.push(pool.take().unwrap()).is_none());
        }
        // Some left from the front: what remains begins in the middle, and a ring wraps.
        pool.give(batch.pop_front().unwrap());
        for _ in 0..60 {
            let packet = queue.pop().unwrap();
            assert!(queue.push(packet).is_none());
        }
        let (mut writer, reader) = (Vec::new(), pool.take_super());
        writer.push(pool.take().unwrap());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let (_in_hand, _batch, _queue) = (pool.take(), batch, queue);
            panic!("injected");
        }));
        assert!(panicked.is_err());
        drop((writer, reader));
        assert_eq!(pool.outside(), 200 - 1 + 3, "the count is the worker's, to be settled");
        pool.abandon();
        assert_eq!(pool.outside(), 0);
        drop(pool);
        assert_eq!((region.spare(), region.spare_super_frames()), (600, 2));
    }

    #[test]
    fn a_packet_that_outlives_its_region_is_dropped_without_harm() {
        let mut pool = Pool::new(Region::new(2));
        let mut packet = pool.take().unwrap();
        drop(pool);
        assert!(packet.fill(b"there"));
        drop(packet);
    }

    #[test]
    fn a_region_stays_as_long_as_a_packet_lies_in_it_even_where_another_has_taken_its_place() {
        let (mut here, mut there) = (Pool::new(Region::new(1)), Pool::new(Region::new(1)));
        let (mut ours, theirs) = (here.take().unwrap(), there.take().unwrap());
        assert!(here.region().has(&ours) && !here.region().has(&theirs));
        here.give(theirs);
        assert!(!here.region().clone().is_whole());
        // The region behind `here` has as many frames as it should, but not its own.
        drop(here);
        assert!(ours.fill(b"still there"));
        assert_eq!(ours.bytes(), b"still there");
        there.give(ours);
    }
}
