//! The memory of all frames, in two classes: frames of [`FRAME`](super::FRAME) bytes, and super-frames of [`SUPER_FRAME`](super::SUPER_FRAME).

use super::frame::{Slot, SuperFrame, prefetch};
use super::{HugeTable, Packet, STRIDE, SUPER_STRIDE};
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The alignment of the super-frames: a page.
const PAGE: usize = 4096;
/// The maximum number of frames and of super-frames in a region.
const MOST: (usize, usize) = (1 << 24, 1 << 16);

/// A fixed number of frames and super-frames, shared by the pools of all workers.
#[derive(Debug)]
pub struct Region {
    /// A [`RegionLink`] in the place of one slot, then one slot for each frame, then one for each super-frame.
    slots: ManuallyDrop<HugeTable<u8>>,
    /// The frames, and from the next page on the super-frames.
    data: ManuallyDrop<HugeTable<u8>>,
    frames: usize,
    super_frames: usize,
    spare: Mutex<Spare>,
}

/// The region of a slot, for packets dropped without a pool. It lies before the first slot.
type RegionLink = Weak<Region>;
const _: () = assert!(size_of::<RegionLink>() <= size_of::<Slot>() && align_of::<RegionLink>() <= align_of::<Slot>());

/// Frames in no worker's pool and in no packet.
#[derive(Debug, Default)]
pub(super) struct Spare {
    pub frames: Vec<Packet>,
    pub super_frames: Vec<Packet>,
}

/// The memory of the frames in the form of AF_XDP (`struct xdp_umem_reg`, with unaligned chunks, because their size is not a power of two). Frame
/// `index` has the bytes from `index * chunk` on.
#[derive(Clone, Copy, Debug)]
pub struct Umem {
    /// The first byte, page-aligned.
    pub base: NonNull<u8>,
    /// Length in bytes, whole pages.
    pub length: usize,
    /// Distance between frames in bytes.
    pub chunk: u32,
}

// SAFETY: the mappings are only used to find slots, each of which has one owner, and to unmap them; frames move between threads inside `Packet`,
// which is `Send`, through the mutex.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` only reaches the mutex, addresses and counts.
unsafe impl Sync for Region {}

impl Region {
    /// Memory for `frames` frames and no super-frames: see [`Region::with_super_frames`].
    pub fn new(frames: usize) -> Arc<Region> {
        Self::with_super_frames(frames, 0)
    }

    /// Memory for `frames` frames (at least one, at most 2^24) of [`FRAME`](super::FRAME) bytes and `super_frames` (at most 2^16) of
    /// [`SUPER_FRAME`](super::SUPER_FRAME) bytes: page-aligned, zeroed, and not used before the first write.
    pub fn with_super_frames(frames: usize, super_frames: usize) -> Arc<Region> {
        assert!((1..=MOST.0).contains(&frames), "a region holds 1 to 2^24 frames");
        assert!(super_frames <= MOST.1, "a region holds at most 2^16 super-frames");
        let slots = map((frames + super_frames + 1) * size_of::<Slot>());
        let data = map(Self::frame_bytes(frames) + super_frames * SUPER_STRIDE);
        Arc::new_cyclic(|home| {
            let mut region = Region { slots, data, frames, super_frames, spare: Mutex::default() };
            // SAFETY: the place before the first slot is large enough and aligned, and nothing else uses it.
            unsafe { region.region_link().write(home.clone()) };
            // SAFETY: each index is below the sum of the two counts and used once; the region is not shared yet.
            let packet =
                |index: usize| unsafe { Packet::new(region.slot(index), region.memory(index), region.name(index)) };
            // The lists are used from their ends, so the first frame is pushed last.
            let mut spare = Spare::default();
            spare.frames.extend((0..frames).rev().map(packet));
            spare.super_frames.extend((frames..frames + super_frames).rev().map(packet));
            region.spare = Mutex::new(spare);
            region
        })
    }

    /// The address of the [`RegionLink`].
    fn region_link(&self) -> NonNull<RegionLink> {
        self.slots.start().cast()
    }

    /// Returns the frame of a dropped packet to its region.
    ///
    /// # Safety
    /// `slot` is the one with number `index` of a region, and its previous owner no longer uses it.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn return_to_region(slot: NonNull<Slot>, index: u32) {
        // SAFETY: the caller gives up the slot; `ManuallyDrop` prevents that dropping this packet recurses.
        let mut packet = ManuallyDrop::new(unsafe { Packet::from_slot(slot) });
        drop(packet.take_tail());
        // SAFETY: the `Home` lies before the first slot, was written before any packet existed, and is kept as long as any packet is not spare.
        let home = unsafe { slot.sub(index as usize + 1).cast::<RegionLink>().as_ref() };
        // The region is gone. Its memory is leaked, because other packets may still use frames of it.
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
        // SAFETY: the mapping has a slot for each frame after the `Home`; it is page-aligned, so slots are aligned.
        unsafe { self.slots.start().cast::<Slot>().add(index + 1) }
    }

    /// The memory of the slot at `index`.
    fn memory(&self, index: usize) -> NonNull<u8> {
        let offset = match index.checked_sub(self.frames) {
            None => index * STRIDE,
            Some(index) => Self::frame_bytes(self.frames) + index * SUPER_STRIDE,
        };
        // SAFETY: the mapping has the memory of each frame.
        unsafe { self.data.start().add(offset) }
    }

    /// The name of the packet in the slot at `index`.
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

    /// True if the packet's frame is in this region.
    pub fn has(&self, packet: &Packet) -> bool {
        let slots = self.slot(0).as_ptr().cast_const();
        let own = slots..slots.wrapping_add(self.frames + self.super_frames);
        own.contains(&packet.address().as_ptr().cast_const())
    }

    /// The packet of a lent frame ([`Packet::lend`]), with its metadata from then.
    ///
    /// # Safety
    /// [`Packet::lend`] returned `index` for a packet of this region ([`Region::has`]), it has not been reclaimed since, and the borrower no
    /// longer uses the frame.
    #[inline]
    pub unsafe fn reclaim(&self, index: u32) -> Packet {
        assert!((index as usize) < self.frames, "no frame {index} was ever lent");
        // SAFETY: the caller vouches that the slot has no other owner.
        unsafe { Packet::from_slot(self.slot(index as usize)) }
    }

    /// Prefetches the slot of a frame.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if (index as usize) < self.frames {
            prefetch(self.slot(index as usize).as_ptr());
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Spare> {
        // A panic of another thread cannot leave the lists half changed: each change is one call of `Vec`.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if every frame of the region is spare. The count is not sufficient: pools accept packets of other regions, so a spare list may hold a
    /// foreign packet while one of this region is elsewhere.
    pub(super) fn has_all_spare(&self) -> bool {
        let spare = self.lock();
        let all = || spare.frames.iter().chain(&spare.super_frames);
        all().count() == self.frames + self.super_frames && all().all(|packet| self.has(packet))
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the packet owns its slot and is not used after this; its name holds its number.
        unsafe { Region::return_to_region(self.address(), self.index()) }
    }
}

/// Memory that its owner unmaps explicitly.
fn map(bytes: usize) -> ManuallyDrop<HugeTable<u8>> {
    let memory = HugeTable::zeroed(bytes);
    memory.prefer_large_pages();
    ManuallyDrop::new(memory)
}

impl Drop for Region {
    fn drop(&mut self) {
        let whole = self.has_all_spare();
        // Spare packets are forgotten, because their drop would return the frames to this very region.
        let Spare { frames, super_frames } = mem::take(self.spare.get_mut().unwrap_or_else(PoisonError::into_inner));
        frames.into_iter().chain(super_frames).for_each(mem::forget);
        if !whole {
            // A packet or the kernel still owns a frame: leaking the memory is the safe choice.
            return;
        }
        // SAFETY: every frame was in `spare`, and each once because packets cannot be copied, so no reference to the memory is left. Neither mapping,
        // nor the `Home` in one of them, is used after this.
        unsafe {
            self.region_link().drop_in_place();
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
    fn lent_frame_is_at_its_umem_address_and_returns_with_kernel_data() {
        let region = Region::with_super_frames(8, 1);
        let umem = region.umem();
        assert_eq!((umem.base.as_ptr().addr() % PAGE, umem.length % PAGE), (0, 0));
        assert!(umem.length >= 8 * umem.chunk as usize && umem.chunk as usize <= PAGE);
        let mut pool = Pool::new(region.clone());
        for _ in 0..8 {
            let lent = pool.take().unwrap().lend();
            pool.export(1);
            let at = lent as usize * umem.chunk as usize + HEADROOM;
            // SAFETY: the frame is lent and lies inside the memory.
            unsafe { umem.base.add(at).cast::<[u8; 4]>().write(lent.to_be_bytes()) };
            // SAFETY: a packet of this region was lent just now.
            let mut packet = unsafe { region.reclaim(lent) };
            pool.import(1);
            assert!(packet.set_range(HEADROOM, 4));
            assert_eq!((packet.bytes(), packet.start()), (&lent.to_be_bytes()[..], HEADROOM));
            assert!(!packet.set_range(HEADROOM, STRIDE - HEADROOM + 1) && !packet.set_range(usize::MAX, 2));
            pool.give(packet);
        }
        assert_eq!(pool.frames_in_use(), 0);
    }

    #[test]
    fn dropped_packets_return_to_their_region_from_every_container() {
        let region = Region::with_super_frames(600, 2);
        let mut pool = Pool::new(region.clone());
        let (mut batch, mut queue) = (Batch::new(), Queue::new(100));
        for _ in 0..100 {
            batch.push(pool.take().unwrap());
            assert!(queue.push(pool.take().unwrap()).is_none());
        }
        // Some packets left from the front: the rest begins in the middle, and the ring wraps.
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
        assert_eq!(pool.frames_in_use(), 200 - 1 + 3, "the count is the worker's, to be settled");
        pool.abandon();
        assert_eq!(pool.frames_in_use(), 0);
        drop(pool);
        assert_eq!((region.spare(), region.spare_super_frames()), (600, 2));
    }

    #[test]
    fn packet_can_outlive_its_region() {
        let mut pool = Pool::new(Region::new(2));
        let mut packet = pool.take().unwrap();
        drop(pool);
        assert!(packet.fill(b"there"));
        drop(packet);
    }

    #[test]
    fn region_memory_lives_as_long_as_its_packets() {
        let (mut here, mut there) = (Pool::new(Region::new(1)), Pool::new(Region::new(1)));
        let (mut ours, theirs) = (here.take().unwrap(), there.take().unwrap());
        assert!(here.region().has(&ours) && !here.region().has(&theirs));
        here.give(theirs);
        assert!(!here.region().clone().has_all_spare());
        // The region behind `here` has the right number of frames, but not its own.
        drop(here);
        assert!(ours.fill(b"still there"));
        assert_eq!(ours.bytes(), b"still there");
        there.give(ours);
    }
}
