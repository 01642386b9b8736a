//! Copies of a packet that share its payload (adr 0042).
//!
//! A copy has a frame of its own for its head: link header, IP header and what follows them, which each copy may change.
//! The rest stays where it was received: the copy refers to it, and the last one to end frees it, on whichever worker. What
//! fits into little more than a head is copied whole, which costs less than to refer to it. Packets that nobody copies
//! have no count that anybody looks at: two bits of what the pool reads of each packet anyway tell the others.

use super::frame::Slot;
use super::{Packet, Pool, TAIL_AT};
use std::borrow::Cow;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Bytes of a copy that are its own, from its first link-layer byte: three cache lines. Link header, IPv6 header, some
/// extension headers or IPv4 options, transport header, and 64 bytes behind them.
pub const HEAD: usize = 192;
/// Bytes behind the head that are worth a reference.
const WORTH: usize = 64;
const _: () = assert!(size_of::<Tail>() <= 64 && TAIL_AT.is_multiple_of(align_of::<Tail>()));

/// A packet of which copies are made. It is not changed any more: they read it, from any thread.
#[must_use = "it is given back to a pool like any packet"]
pub struct Shared {
    packet: ManuallyDrop<Packet>,
    /// Whether copies refer to it.
    refers: bool,
}

impl Shared {
    /// Copies are to be made of `packet`.
    ///
    /// # Panics
    /// When it is a copy itself that is not in one piece: see [`Pool::join`].
    pub fn new(packet: Packet) -> Shared {
        assert!(!packet.has_tail(), "a copy is made one piece before it is copied");
        // The count lies at the beginning of the memory, before everything that is read of the packet.
        let refers = packet.len() >= HEAD + WORTH && packet.start() >= size_of::<AtomicU32>();
        let shared = Shared { packet: ManuallyDrop::new(packet), refers };
        if refers {
            // SAFETY: the memory is the packet's, and aligned to a cache line; nobody refers to it yet.
            unsafe { count(&shared.packet).as_ptr().write(AtomicU32::new(1)) };
        }
        shared
    }

    /// The packet.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }

    /// A copy: what is known of the packet, and its bytes, of which those behind [`HEAD`] are shared. Nothing where there is
    /// no frame for its head. What is still to be done to the packet is not taken over.
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
        let rest = &bytes[HEAD..];
        // SAFETY: `new` has put the count there.
        let before = unsafe { count(&self.packet).as_ref() }.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "there are fewer frames than that");
        copy.set_tail(Tail { owner: self.packet.address(), at: NonNull::from(rest).cast(), length: rest.len() });
        Some(copy)
    }

    /// Who made the copies needs the packet no more. Answers it where none of them does either.
    pub(super) fn end(self) -> Option<Packet> {
        ManuallyDrop::new(self).part()
    }

    fn part(&mut self) -> Option<Packet> {
        // SAFETY: the caller does not look at the packet again: it is about to be gone, or forgotten.
        let packet = unsafe { ManuallyDrop::take(&mut self.packet) };
        if !self.refers {
            return Some(packet);
        }
        let owner = packet.address();
        std::mem::forget(packet);
        // SAFETY: this was one of those that were counted.
        unsafe { release(owner) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // As when a worker panics: the frame goes home by itself.
        drop(self.part());
    }
}

/// The part of a packet that lies in another's frame.
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
        // SAFETY: they lie in the frame of the owner, which stays as it is as long as anybody who is counted refers to it.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.length) }
    }

    /// The reference ends. Answers the packet where it was the last one.
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
    /// The rest of a packet whose payload lies in another frame, which other packets refer to as well; it goes on behind
    /// [`Packet::bytes`]. Empty for packets in one piece, as all are that nobody has made copies of.
    #[inline(always)]
    pub fn tail(&self) -> &[u8] {
        if self.has_tail() { self.tail_place().bytes() } else { &[] }
    }

    /// The whole frame: borrowed where it is in one piece. For who looks at few.
    pub fn whole(&self) -> Cow<'_, [u8]> {
        if self.has_tail() { Cow::Owned([self.bytes(), self.tail()].concat()) } else { Cow::Borrowed(self.bytes()) }
    }

    /// Where what is said of its tail lies.
    fn tail_said(&self) -> NonNull<Tail> {
        // SAFETY: inside its memory, behind everything that a frame with a tail may use, and aligned as the memory is.
        unsafe { self.memory().add(TAIL_AT).cast() }
    }

    fn tail_place(&self) -> &Tail {
        assert!(self.has_tail());
        // SAFETY: written by `set_tail` before the flag was set; nobody else writes there as long as it is.
        unsafe { self.tail_said().as_ref() }
    }

    /// From now on the packet goes on in another frame. It is in no super-frame, has no tail yet, and ends before
    /// [`TAIL_AT`].
    pub(super) fn set_tail(&mut self, tail: Tail) {
        assert!(!self.is_special() && self.start() + self.len() <= TAIL_AT);
        // SAFETY: the place is the packet's own memory.
        unsafe { self.tail_said().write(tail) };
        let slot = self.slot_mut();
        slot.name |= Slot::TAIL;
        slot.offload |= Slot::SPLIT;
    }

    /// Takes its tail away: the caller ends it.
    pub(super) fn take_tail(&mut self) -> Option<Tail> {
        if !self.has_tail() {
            return None;
        }
        // SAFETY: as in `tail_place`; the flag is taken away, so it is not read again.
        let tail = unsafe { self.tail_said().read() };
        let slot = self.slot_mut();
        slot.name &= !Slot::TAIL;
        slot.offload &= !Slot::SPLIT;
        Some(tail)
    }
}

/// How many refer to a packet.
fn count(packet: &Packet) -> NonNull<AtomicU32> {
    packet.memory().cast()
}

/// One of those who refer to a packet does so no more. Answers it where that was the last.
///
/// # Safety
/// The caller is one of those that were counted, and does not refer to the packet again.
unsafe fn release(owner: NonNull<Slot>) -> Option<Packet> {
    // SAFETY: the slot stays as long as anybody refers to it; that of a shared packet is only read.
    let packet = ManuallyDrop::new(unsafe { Packet::back(owner) });
    // SAFETY: a packet that somebody refers to has the count there.
    let before = unsafe { count(&packet).as_ref() }.fetch_sub(1, Ordering::Release);
    if before > 1 {
        return None;
    }
    // What the others have read was read before the frame is used for something else.
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
        let shared = Shared::new(original);
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
        assert_eq!(pool.outside(), 2);
        copies.into_iter().for_each(|copy| pool.give(copy));
        assert_eq!(pool.outside(), 0);
        let all: Vec<Packet> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 4, "every frame can be taken again");
        assert!(all.iter().all(|packet| !packet.is_offloaded() && packet.tail().is_empty()));
        all.into_iter().for_each(|packet| pool.give(packet));
    }

    #[test]
    fn what_is_short_is_copied_whole_and_what_is_long_refers_into_its_super_frame() {
        let region = Region::with_super_frames(8, 2);
        let mut pool = Pool::new(region.clone());
        for (length, tail) in [(60, 0), (HEAD + WORTH - 1, 0), (HEAD + WORTH, WORTH), (9000, 9000 - HEAD)] {
            let shared = Shared::new(packet(&mut pool, length));
            let mut copy = shared.copy(&mut pool).unwrap();
            assert_eq!((copy.tail().len(), copy.is_large()), (tail, false), "{length}");
            assert_eq!(*copy.whole(), *shared.packet().bytes());
            pool.give_shared(shared);
            let before = copy.whole().to_vec();
            assert!(pool.join(&mut copy) && copy.tail().is_empty() && !copy.is_offloaded());
            assert_eq!((copy.bytes(), copy.is_large()), (&before[..], length > FRAME));
            pool.give(copy);
            assert_eq!(pool.outside(), 0);
        }
        drop(pool);
        assert_eq!((region.spare(), region.spare_super_frames()), (8, 2));
    }

    #[test]
    fn where_no_super_frame_is_left_a_long_copy_stays_as_it_is() {
        let mut pool = Pool::new(Region::with_super_frames(8, 1));
        let shared = Shared::new(packet(&mut pool, 5000));
        let mut copy = shared.copy(&mut pool).unwrap();
        assert!(!pool.join(&mut copy), "the only one is the one referred to");
        assert_eq!(*copy.whole(), *shared.packet().bytes());
        pool.give_shared(shared);
        pool.give(copy);
        assert_eq!(pool.outside(), 0);
    }

    #[test]
    fn a_packet_at_the_very_beginning_of_its_memory_is_copied_whole() {
        let mut pool = Pool::new(Region::new(4));
        let mut original = packet(&mut pool, 1000);
        assert!(original.shift(-(HEADROOM as isize)));
        let shared = Shared::new(original);
        let copy = shared.copy(&mut pool).unwrap();
        assert_eq!((copy.tail().len(), copy.bytes()), (0, shared.packet().bytes()));
        pool.give_shared(shared);
        pool.give(copy);
    }

    #[test]
    fn copies_that_nobody_ends_go_home_as_does_what_they_refer_to() {
        let region = Region::with_super_frames(600, 4);
        let mut pool = Pool::new(region.clone());
        for length in [100, 1400, 9000] {
            let shared = Shared::new(packet(&mut pool, length));
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
                    assert_eq!(pool.outside(), 0);
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
                    // The others have them, and give them back.
                    None => std::thread::yield_now(),
                }
            };
            assert!(original.fill(&[i as u8; 1000]));
            let shared = Shared::new(original);
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
        assert_eq!((theirs, pool.outside()), (sum, 0));
        drop(pool);
        assert_eq!(region.spare(), 4096);
    }

    proptest! {
        /// Whatever is dropped, joined, given or kept in whichever order: every frame comes back, and every copy says what
        /// the original said.
        #[test]
        fn no_frame_is_lost_whatever_becomes_of_the_copies(
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
                        let shared = Shared::new(original);
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
                        // Another worker's pool than the one it was counted by.
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
            prop_assert_eq!([pools[0].outside(), pools[1].outside()], [0, 0]);
            drop(pools);
            prop_assert_eq!((region.spare(), region.spare_super_frames()), (40, 6));
        }
    }
}
