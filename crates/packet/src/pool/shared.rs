//! Copies of a packet that share its payload (adr 0042).
//!
//! A copy has its own frame for its head: link header, IP header and the following headers, which each copy may change. The payload stays where it
//! was received. The copy refers to it, and the last copy to end frees it, on any worker. A packet not much longer than a head is copied whole, which
//! is cheaper than a reference. Packets without copies have no reference count. Two bits that the pool reads of each packet anyway mark the others.

use super::frame::Slot;
use super::{Packet, Pool, TAIL_AT};
use std::borrow::Cow;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Bytes of a copy's own head, from its first link-layer byte: three cache lines. They hold the link header, the IPv6 header, some extension headers
/// or IPv4 options, the transport header, and 64 further bytes.
pub const HEAD: usize = 192;
/// The minimum number of bytes after the head for a reference.
const MIN_SHARED_BYTES: usize = 64;
const _: () = assert!(size_of::<Tail>() <= 64 && TAIL_AT.is_multiple_of(align_of::<Tail>()));

/// The original of copies. It is no longer changed: copies read it from any thread.
#[must_use = "it is given back to a pool like any packet"]
pub struct SharedPacket {
    packet: ManuallyDrop<Packet>,
    /// True if copies refer to it.
    refers: bool,
}

impl SharedPacket {
    /// Prepares `packet` for copying.
    ///
    /// # Panics
    /// If it is itself a copy that is not in one piece: see [`Pool::join`].
    pub fn new(packet: Packet) -> SharedPacket {
        assert!(!packet.has_tail(), "a copy is made one piece before it is copied");
        // The reference count is at the beginning of the memory, before the packet's bytes.
        let refers = packet.len() >= HEAD + MIN_SHARED_BYTES && packet.start() >= size_of::<AtomicU32>();
        let shared = SharedPacket { packet: ManuallyDrop::new(packet), refers };
        if refers {
            // SAFETY: the memory is the packet's own and aligned to a cache line; nothing refers to it yet.
            unsafe { count(&shared.packet).as_ptr().write(AtomicU32::new(1)) };
        }
        shared
    }

    /// The packet.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }

    /// A copy: the metadata and the bytes of the packet, those after [`HEAD`] shared. `None` without a frame for its head. The pending offload is not
    /// copied.
    pub fn copy(&self, pool: &mut Pool) -> Option<Packet> {
        let bytes = self.packet.bytes();
        if !self.refers {
            let mut copy = pool.take_for(bytes.len())?;
            *copy.meta_mut() = *self.packet.meta();
            let fits = copy.fill(bytes);
            debug_assert!(fits, "the frame was taken for so many bytes");
            return Some(copy);
        }
        let mut copy = pool.take()?;
        *copy.meta_mut() = *self.packet.meta();
        let fits = copy.fill(&bytes[..HEAD]);
        debug_assert!(fits, "a head is shorter than a frame");
        // The tail points into the owner's frame, which does not move.
        let rest = &bytes[HEAD..];
        // SAFETY: `new` wrote the count there.
        // `Relaxed` is enough: the caller holds a reference itself, so the count cannot reach zero meanwhile.
        let before = unsafe { count(&self.packet).as_ref() }.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "there are fewer frames than that");
        copy.set_tail(Tail { owner: self.packet.address(), at: NonNull::from(rest).cast(), length: rest.len() });
        Some(copy)
    }

    /// Ends the reference of the original. Returns its packet if no copy refers to it any more.
    pub(super) fn end(self) -> Option<Packet> {
        ManuallyDrop::new(self).release_reference()
    }

    fn release_reference(&mut self) -> Option<Packet> {
        // SAFETY: both callers end with this call and do not use the packet again.
        let packet = unsafe { ManuallyDrop::take(&mut self.packet) };
        if !self.refers {
            return Some(packet);
        }
        let owner = packet.address();
        std::mem::forget(packet);
        // SAFETY: this reference was counted in `new`.
        unsafe { release(owner) }
    }
}

impl Drop for SharedPacket {
    fn drop(&mut self) {
        // For example when a worker panics: the frame returns to its region.
        drop(self.release_reference());
    }
}

/// The part of a packet in another packet's frame.
pub(super) struct Tail {
    /// The slot of that frame.
    owner: NonNull<Slot>,
    at: NonNull<u8>,
    length: usize,
}

impl Tail {
    /// Its bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes lie in the owner's frame, which does not change while a counted reference to it exists.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.length) }
    }

    /// Ends the reference. Returns the owner's packet if it was the last one.
    pub fn end(self) -> Option<Packet> {
        let owner = ManuallyDrop::new(self).owner;
        // SAFETY: each tail was counted when it was made.
        unsafe { release(owner) }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // SAFETY: as in `end`, which forgets the tail.
        drop(unsafe { release(self.owner) });
    }
}

impl Packet {
    /// The rest of a packet whose payload is in a shared frame; it follows [`Packet::bytes`]. Empty for packets in one piece, as all packets without
    /// copies are.
    #[inline(always)]
    pub fn tail(&self) -> &[u8] {
        if self.has_tail() { self.tail_ref().bytes() } else { &[] }
    }

    /// The whole frame, borrowed if it is in one piece. Not for the fast path.
    pub fn whole(&self) -> Cow<'_, [u8]> {
        if self.has_tail() { Cow::Owned([self.bytes(), self.tail()].concat()) } else { Cow::Borrowed(self.bytes()) }
    }

    /// The address of its tail's description.
    fn tail_address(&self) -> NonNull<Tail> {
        // SAFETY: inside its memory, after all bytes that a frame with a tail may use, and aligned like the memory.
        unsafe { self.memory().add(TAIL_AT).cast() }
    }

    fn tail_ref(&self) -> &Tail {
        assert!(self.has_tail());
        // SAFETY: written by `set_tail` before the flag was set; nothing else writes there while it is set.
        unsafe { self.tail_address().as_ref() }
    }

    /// Continues the packet in another frame. It must not be a super-frame, must have no tail yet, and must end before [`TAIL_AT`].
    pub(super) fn set_tail(&mut self, tail: Tail) {
        assert!(!self.is_special() && self.start() + self.len() <= TAIL_AT);
        // SAFETY: the place is in the packet's own memory.
        unsafe { self.tail_address().write(tail) };
        let slot = self.slot_mut();
        slot.name |= Slot::TAIL;
        slot.offload |= Slot::SPLIT;
    }

    /// Removes its tail. The caller ends the tail.
    pub(super) fn take_tail(&mut self) -> Option<Tail> {
        if !self.has_tail() {
            return None;
        }
        // SAFETY: as in `tail`; the flag is cleared, so the tail is not read again.
        let tail = unsafe { self.tail_address().read() };
        let slot = self.slot_mut();
        slot.name &= !Slot::TAIL;
        slot.offload &= !Slot::SPLIT;
        Some(tail)
    }
}

/// The reference count of a packet.
fn count(packet: &Packet) -> NonNull<AtomicU32> {
    packet.memory().cast()
}

/// Ends one reference to a packet. Returns the packet if it was the last one.
///
/// # Safety
/// The caller holds a counted reference and does not use the packet again.
unsafe fn release(owner: NonNull<Slot>) -> Option<Packet> {
    // SAFETY: the slot exists while any reference does; that of a shared packet is only read.
    let packet = ManuallyDrop::new(unsafe { Packet::from_slot(owner) });
    // SAFETY: a packet with references has the count there.
    let before = unsafe { count(&packet).as_ref() }.fetch_sub(1, Ordering::Release);
    if before > 1 {
        return None;
    }
    // Orders the reads of all other holders (their `Release` decrements) before the reuse of the frame.
    fence(Ordering::Acquire);
    Some(ManuallyDrop::into_inner(packet))
}

#[cfg(test)]
mod tests {
    use super::super::{FRAME, HEADROOM, Region};
    use super::*;
    use crate::Offload;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn packet(pool: &mut Pool, length: usize) -> Packet {
        let mut packet = pool.take_for(length).unwrap();
        assert!(packet.fill(&(0..length).map(|i| (i * 7 + i / 256) as u8).collect::<Vec<u8>>()));
        packet
    }

    #[test]
    fn copies_share_the_payload_and_nothing_else() {
        let mut pool = Pool::new(Region::new(4));
        let original = packet(&mut pool, 1400);
        let (bytes, payload) = (original.bytes().to_vec(), original.bytes()[HEAD..].as_ptr());
        let shared = SharedPacket::new(original);
        let mut copies = [shared.copy(&mut pool).unwrap(), shared.copy(&mut pool).unwrap()];
        assert!(shared.copy(&mut pool).is_some_and(|third| {
            pool.give(third);
            true
        }));
        pool.give_shared(shared);
        for (i, copy) in copies.iter_mut().enumerate() {
            assert_eq!((copy.len(), copy.tail().len(), copy.tail().as_ptr()), (HEAD, 1400 - HEAD, payload));
            assert_eq!(*copy.whole(), bytes);
            assert!(copy.is_offloaded() && copy.offload() == Offload::NONE);
            assert!(copy.shift(-4));
            copy.bytes_mut()[..4].fill(i as u8);
            assert!(!copy.resize(FRAME + 5), "a frame does not grow over what is said of its tail");
        }
        assert_eq!([copies[0].bytes()[0], copies[1].bytes()[0]], [0, 1]);
        assert_eq!(pool.frames_in_use(), 2);
        copies.into_iter().for_each(|copy| pool.give(copy));
        assert_eq!(pool.frames_in_use(), 0);
        let all: Vec<Packet> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 4, "every frame can be taken again");
        assert!(all.iter().all(|packet| !packet.is_offloaded() && packet.tail().is_empty()));
        all.into_iter().for_each(|packet| pool.give(packet));
    }

    #[test]
    fn short_packets_are_copied_whole_and_long_ones_share_their_payload() {
        let region = Region::with_super_frames(8, 2);
        let mut pool = Pool::new(region.clone());
        for (length, tail) in [
            (60, 0),
            (HEAD + MIN_SHARED_BYTES - 1, 0),
            (HEAD + MIN_SHARED_BYTES, MIN_SHARED_BYTES),
            (9000, 9000 - HEAD),
        ] {
            let shared = SharedPacket::new(packet(&mut pool, length));
            let mut copy = shared.copy(&mut pool).unwrap();
            assert_eq!((copy.tail().len(), copy.is_large()), (tail, false), "{length}");
            assert_eq!(*copy.whole(), *shared.packet().bytes());
            pool.give_shared(shared);
            let before = copy.whole().to_vec();
            assert!(pool.join(&mut copy) && copy.tail().is_empty() && !copy.is_offloaded());
            assert_eq!((copy.bytes(), copy.is_large()), (&before[..], length > FRAME));
            pool.give(copy);
            assert_eq!(pool.frames_in_use(), 0);
        }
        drop(pool);
        assert_eq!((region.spare(), region.spare_super_frames()), (8, 2));
    }

    #[test]
    fn long_copy_stays_shared_without_a_free_super_frame() {
        let mut pool = Pool::new(Region::with_super_frames(8, 1));
        let shared = SharedPacket::new(packet(&mut pool, 5000));
        let mut copy = shared.copy(&mut pool).unwrap();
        assert!(!pool.join(&mut copy), "the only one is the one referred to");
        assert_eq!(*copy.whole(), *shared.packet().bytes());
        pool.give_shared(shared);
        pool.give(copy);
        assert_eq!(pool.frames_in_use(), 0);
    }

    #[test]
    fn packet_without_headroom_is_copied_whole() {
        let mut pool = Pool::new(Region::new(4));
        let mut original = packet(&mut pool, 1000);
        assert!(original.shift(-(HEADROOM as isize)));
        let shared = SharedPacket::new(original);
        let copy = shared.copy(&mut pool).unwrap();
        assert_eq!((copy.tail().len(), copy.bytes()), (0, shared.packet().bytes()));
        pool.give_shared(shared);
        pool.give(copy);
    }

    #[test]
    fn dropped_copies_and_their_original_return_to_the_region() {
        let region = Region::with_super_frames(600, 4);
        let mut pool = Pool::new(region.clone());
        for length in [100, 1400, 9000] {
            let shared = SharedPacket::new(packet(&mut pool, length));
            let copies: Vec<Packet> = (0..5).map(|_| shared.copy(&mut pool).unwrap()).collect();
            drop(shared);
            drop(copies);
        }
        pool.abandon();
        drop(pool);
        assert_eq!((region.spare(), region.spare_super_frames()), (600, 4));
    }

    #[test]
    fn workers_that_end_copies_at_the_same_time_free_the_payload_once() {
        const PACKETS: usize = 2000;
        let region = Region::new(4096);
        let mut pool = Pool::new(region.clone());
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (send, receive) = std::sync::mpsc::sync_channel::<Packet>(256);
                let region = Arc::clone(&region);
                let thread = std::thread::spawn(move || {
                    let mut pool = Pool::new(region);
                    let mut sum = 0u64;
                    for mut copy in receive {
                        pool.import(1);
                        sum += copy.tail().iter().map(|&byte| u64::from(byte)).sum::<u64>();
                        copy.bytes_mut()[0] = 1;
                        pool.give(copy);
                    }
                    assert_eq!(pool.frames_in_use(), 0);
                    sum
                });
                (send, thread)
            })
            .collect();
        let mut sum = 0;
        for i in 0..PACKETS {
            let mut original = loop {
                match pool.take() {
                    Some(packet) => break packet,
                    // The other threads hold the frames, and will give them back.
                    None => std::thread::yield_now(),
                }
            };
            assert!(original.fill(&[i as u8; 1000]));
            let shared = SharedPacket::new(original);
            for (send, _) in &threads {
                if let Some(copy) = shared.copy(&mut pool) {
                    sum += copy.tail().iter().map(|&byte| u64::from(byte)).sum::<u64>();
                    pool.export(1);
                    send.send(copy).unwrap();
                }
            }
            pool.give_shared(shared);
        }
        let theirs: u64 = threads
            .into_iter()
            .map(|(send, thread)| {
                drop(send);
                thread.join().unwrap()
            })
            .sum();
        assert_eq!((theirs, pool.frames_in_use()), (sum, 0));
        drop(pool);
        assert_eq!(region.spare(), 4096);
    }

    proptest! {
        /// Copies are dropped, joined, given back or kept in any order: every frame returns, and every copy has the original's bytes.
        #[test]
        fn any_order_of_fates_of_copies_loses_no_frame(
            steps in prop::collection::vec((0u8..6, 0usize..64, 20usize..4000), 1..120),
        ) {
            let region = Region::with_super_frames(40, 6);
            let mut pools = [Pool::new(region.clone()), Pool::new(region.clone())];
            let mut alive: Vec<(Packet, Vec<u8>, usize)> = Vec::new();
            for (step, which, length) in steps {
                let here = which % 2;
                match step {
                    0 | 1 => {
                        let Some(mut original) = pools[here].take_for(length) else { continue };
                        let bytes: Vec<u8> = (0..length).map(|i| (i ^ which) as u8).collect();
                        prop_assert!(original.fill(&bytes));
                        let shared = SharedPacket::new(original);
                        for _ in 0..which % 5 {
                            let Some(copy) = shared.copy(&mut pools[here]) else { break };
                            alive.push((copy, bytes.clone(), here));
                        }
                        if step == 0 {
                            pools[here].give_shared(shared);
                        } else {
                            pools[here].export(1);
                            drop(shared);
                        }
                    }
                    _ if alive.is_empty() => {}
                    2 | 3 => {
                        let (copy, bytes, owner) = alive.swap_remove(which % alive.len());
                        prop_assert_eq!(&*copy.whole(), &bytes[..]);
                        // Not the pool of the worker that counted it.
                        pools[owner].export(1);
                        pools[here].import(1);
                        pools[here].give(copy);
                    }
                    4 => {
                        let at = which % alive.len();
                        let (copy, bytes, owner) = &mut alive[at];
                        pools[*owner].join(copy);
                        prop_assert_eq!(&*copy.whole(), &bytes[..]);
                    }
                    _ => {
                        let (copy, _, owner) = alive.swap_remove(which % alive.len());
                        pools[owner].export(1);
                        drop(copy);
                    }
                }
            }
            for (copy, bytes, owner) in alive {
                prop_assert_eq!(&*copy.whole(), &bytes[..]);
                pools[owner].give(copy);
            }
            prop_assert_eq!([pools[0].frames_in_use(), pools[1].frames_in_use()], [0, 0]);
            drop(pools);
            prop_assert_eq!((region.spare(), region.spare_super_frames()), (40, 6));
        }
    }
}
