//! One frame: its bytes, and beside them one cache line of what the router knows about it.

use super::offload::{Offload, PartialChecksum, Segmentation};
use super::{FRAME, HEADROOM, STRIDE, SUPER_FRAME, SUPER_STRIDE, TAIL_AT};
use std::fmt;
use std::mem::forget;
use std::ptr::NonNull;
use units::{AdjacencyId, Instant, InterfaceId, PathId, PortId, QueueId};

/// What the router knows about a packet. One cache line, together with the private part of its slot.
// Large: all that stages know of a packet, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Meta {
    /// When it came in; set by the port that received it.
    pub timestamp: Instant,
    /// Where to send it: an entry of the adjacency table.
    pub adjacency: AdjacencyId,
    /// How long after it came in its functions were done, in nanoseconds, the most for longer: where it waits before a link.
    pub worked: u32,
    /// Its queue on the link it leaves by.
    pub queue: QueueId,
    /// The version of the adjacency when the route was looked up.
    pub version: u16,
    /// The switching path it takes.
    pub path: PathId,
    /// The port it came in by.
    pub in_port: PortId,
    /// The interface it came in by.
    pub in_interface: InterfaceId,
    /// The interface it leaves by.
    pub out_interface: InterfaceId,
    /// Offset of the network header from the start of the frame, in bytes.
    pub l3: u16,
    /// Its class, as its path says.
    pub class: u8,
    /// Why it takes the general path: a code of the plane's; zero for none.
    pub exception: u8,
    /// A drop reason the receiving port set, plus one; zero for none.
    pub refused: u8,
    /// Small facts: see the constants.
    pub flags: u8,
    /// The two ECN bits of its IP header (RFC 3168).
    pub ecn: u8,
    /// How often it was classified again: the general path is no loop. The two highest bits are marks of the plane's.
    pub rounds: u8,
    /// What it wants of the link it leaves by: a code of the plane's; zero for nothing in particular.
    pub objective: u8,
    /// What it is to a connection: a code of the plane's; zero where no function looked.
    pub connection: u8,
}

impl Meta {
    /// The frame came to a link-layer group address.
    pub const GROUP: u8 = 1;
    /// The frame came as IPv6.
    pub const IPV6: u8 = 2;
    /// The packet was made by the router itself.
    pub const GENERATED: u8 = 4;
    /// Something is still to be done to the packet before it is fit for any link: see [`Packet::offload`].
    pub const OFFLOAD: u8 = 8;
    /// Its addresses are no longer those it came with: a function has translated it.
    pub const TRANSLATED: u8 = 0x10;
    /// It is for an address of the router's own, and a function is to say whether it goes somewhere else all the same.
    pub const OURS: u8 = 0x20;
    /// Somebody follows it through the router and is told of every stage it passes.
    pub const FOLLOWED: u8 = 0x40;
    /// Its instruction is not executed: the worker that it belongs to does not keep up.
    pub const PASSES: u8 = 0x80;

    /// It is classified once more. Answers how often that was.
    #[inline]
    pub fn go_round(&mut self) -> u8 {
        self.rounds += 1;
        self.rounds & 0x3f
    }
}

/// Slot of a frame in its region.
#[repr(C, align(64))]
pub(super) struct Slot {
    data: NonNull<u8>,
    len: u32,
    /// Its index in the region; the highest bit says that it is a super-frame, the next that it has a tail.
    pub name: u32,
    start: u16,
    /// The size of a segment.
    segment: u16,
    /// Where a partial checksum starts, from the beginning of the memory: it stays when the first byte moves.
    checksum: u16,
    checksum_offset: u8,
    /// What is to be done: the kind of segmentation, and [`Slot::PARTIAL`]. Zero for nothing.
    pub offload: u8,
    meta: Meta,
}

impl Slot {
    const SUPER: u32 = 1 << 31;
    /// The rest of the packet lies in another frame.
    pub const TAIL: u32 = 1 << 30;
    /// The checksum is partial.
    const PARTIAL: u8 = 0x80;
    /// The packet has a tail: something to be done before a port takes it that takes frames in one piece only.
    pub const SPLIT: u8 = 0x40;

    /// Bytes of its memory, without those that say where its tail is.
    #[inline(always)]
    fn memory(&self) -> usize {
        match self.name >> 30 {
            0 => STRIDE,
            1 => TAIL_AT,
            _ => SUPER_STRIDE,
        }
    }
}

const _: () = assert!(size_of::<Slot>() == 64, "what is known of a packet fits in one cache line");

/// Whether a frame is a super-frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SuperFrame(pub bool);

/// Owns one frame. Not clonable; it is given back to a pool when its fate is known. Where it is merely dropped, as when a
/// worker panics, its frame goes home to its region, and the ledger of the worker no longer balances.
#[must_use = "a packet is sent, consumed or dropped with a reason, never forgotten"]
pub struct Packet {
    slot: NonNull<Slot>,
}

// SAFETY: a packet is the only owner of its slot and its bytes; nothing of them is tied to a thread.
unsafe impl Send for Packet {}
// SAFETY: `&Packet` only reads.
unsafe impl Sync for Packet {}

impl Packet {
    /// Takes possession of a slot and its bytes.
    ///
    /// # Safety
    /// `slot` is valid for writes of one `Slot` and `data` for the bytes of its class, both as long as the packet lives,
    /// and nobody else uses either.
    pub(super) unsafe fn new(slot: NonNull<Slot>, data: NonNull<u8>, (index, class): (u32, SuperFrame)) -> Packet {
        let value = Slot {
            data,
            len: 0,
            name: index | if class.0 { Slot::SUPER } else { 0 },
            start: HEADROOM as u16,
            segment: 0,
            checksum: 0,
            checksum_offset: 0,
            offload: 0,
            meta: Meta::default(),
        };
        // SAFETY: the caller vouches for `slot`.
        unsafe { slot.write(value) };
        Packet { slot }
    }

    /// Takes possession of a slot again.
    ///
    /// # Safety
    /// `slot` was initialised by [`Packet::new`], and no other packet owns it.
    #[inline(always)]
    pub(super) unsafe fn back(slot: NonNull<Slot>) -> Packet {
        Packet { slot }
    }

    #[inline(always)]
    pub(super) fn slot(&self) -> &Slot {
        // SAFETY: this packet owns the slot, which was initialised in `new`; shared borrows follow those of the packet.
        unsafe { self.slot.as_ref() }
    }

    #[inline(always)]
    pub(super) fn slot_mut(&mut self) -> &mut Slot {
        // SAFETY: this packet owns the slot; `&mut self` makes the borrow exclusive.
        unsafe { self.slot.as_mut() }
    }

    /// What the router knows about the packet.
    #[inline(always)]
    pub fn meta(&self) -> &Meta {
        &self.slot().meta
    }

    /// What the router knows about the packet, to change.
    #[inline(always)]
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.slot_mut().meta
    }

    /// Length of the frame in bytes, without the frame check sequence, and without [`Packet::tail`].
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.slot().len as usize
    }

    /// The frame from its first link-layer byte. Where its payload is shared ([`Packet::tail`]) the beginning, with all
    /// headers.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        let slot = self.slot();
        // SAFETY: every setter keeps `start + len` within the memory of the slot, all of it initialised.
        unsafe { std::slice::from_raw_parts(slot.data.as_ptr().add(slot.start as usize), slot.len as usize) }
    }

    /// The frame from its first link-layer byte, to change.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let slot = self.slot_mut();
        // SAFETY: as in `bytes`; `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(slot.data.as_ptr().add(slot.start as usize), slot.len as usize) }
    }

    /// Moves the first byte: negative takes from the headroom, positive gives bytes up. Answers whether there was room;
    /// if not, nothing has changed. The first byte lies within the first 64 KB of the memory, so of a super-frame not
    /// every byte can be given up.
    #[inline(always)]
    pub fn shift(&mut self, by: isize) -> bool {
        let slot = self.slot_mut();
        if by < -(slot.start as isize) || by > (slot.len as isize).min((u16::MAX - slot.start) as isize) {
            return false;
        }
        let (start, len) = (slot.start as isize + by, slot.len as isize - by);
        // `start + len` is unchanged, so the end of the frame stays inside its memory.
        slot.start = start as u16;
        slot.len = len as u32;
        true
    }

    /// Cuts or lengthens the frame at its end; added bytes have whatever was there. Answers whether there was room; if
    /// not, nothing has changed.
    #[inline(always)]
    pub fn resize(&mut self, len: usize) -> bool {
        let slot = self.slot_mut();
        // `start` never exceeds the memory; the sum of the two could exceed any number.
        if len > slot.memory() - slot.start as usize {
            return false;
        }
        slot.len = len as u32;
        true
    }

    /// Makes the frame `len` bytes from `start` on, counted from the beginning of its memory: where a device put them.
    /// Answers whether they lie within it; if not, nothing has changed.
    #[inline(always)]
    pub fn place(&mut self, start: usize, len: usize) -> bool {
        let slot = self.slot_mut();
        let memory = slot.memory();
        if start > memory.min(usize::from(u16::MAX)) || len > memory - start {
            return false;
        }
        slot.start = start as u16;
        slot.len = len as u32;
        true
    }

    /// Where the frame starts, in bytes from the beginning of its memory.
    #[inline(always)]
    pub fn start(&self) -> usize {
        self.slot().start as usize
    }

    /// Whether its memory is that of a super-frame, whatever is in it.
    #[inline(always)]
    pub fn is_large(&self) -> bool {
        self.slot().name & Slot::SUPER != 0
    }

    /// The longest frame that [`Packet::fill`] takes: [`FRAME`] or [`SUPER_FRAME`] bytes.
    pub fn most(&self) -> usize {
        if self.is_large() { SUPER_FRAME } else { FRAME }
    }

    /// Replaces the frame by `bytes`, with full headroom before them. Answers whether they fit ([`Packet::most`]); if
    /// not, the frame is empty.
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        self.slot_mut().start = HEADROOM as u16;
        self.slot_mut().len = 0;
        if bytes.len() > self.most() {
            return false;
        }
        self.slot_mut().len = bytes.len() as u32;
        self.bytes_mut().copy_from_slice(bytes);
        true
    }

    /// Becomes the same packet as `other`: its bytes in one piece, what is known of it, and what is still to be done to it.
    /// Answers whether it fits; if not, the frame is empty.
    pub fn copy(&mut self, other: &Packet) -> bool {
        *self.meta_mut() = *other.meta();
        self.fill(other.bytes()) && self.append(other.tail()) && self.set_offload(other.offload())
    }

    /// Adds `bytes` at the end of the frame. Answers whether they fit; if not, the frame is empty.
    pub(super) fn append(&mut self, bytes: &[u8]) -> bool {
        let length = self.len();
        if !self.resize(length + bytes.len()) {
            self.resize(0);
            return false;
        }
        self.bytes_mut()[length..].copy_from_slice(bytes);
        true
    }

    /// Whether the rest of the packet lies in another frame.
    #[inline(always)]
    pub fn has_tail(&self) -> bool {
        self.slot().name & Slot::TAIL != 0
    }

    /// Whether its end takes more than to be put with the free frames of a pool.
    #[inline(always)]
    pub(super) fn is_special(&self) -> bool {
        self.slot().name >= Slot::TAIL
    }

    /// The beginning of its memory.
    pub(super) fn memory(&self) -> NonNull<u8> {
        self.slot().data
    }

    /// Whether anything is still to be done to the packet: [`Packet::offload`] is not [`Offload::NONE`], or it is not in one
    /// piece ([`Packet::tail`]).
    #[inline(always)]
    pub fn is_offloaded(&self) -> bool {
        self.slot().offload != 0
    }

    /// What is still to be done to the packet, as the port that received it said.
    pub fn offload(&self) -> Offload {
        let slot = self.slot();
        // Where the frame now starts behind it, there is no place left to name.
        let start = (slot.offload & Slot::PARTIAL != 0).then(|| slot.checksum.checked_sub(slot.start)).flatten();
        Offload {
            segmentation: Segmentation::of(slot.offload),
            size: slot.segment,
            checksum: start.map(|start| PartialChecksum { start, offset: slot.checksum_offset.into() }),
        }
    }

    /// Says what is still to be done to the packet. Answers whether that makes sense: a super-frame has segments of some
    /// size, and the checksum lies inside the frame, not too far from its start. If not, nothing has changed.
    pub fn set_offload(&mut self, offload: Offload) -> bool {
        let Offload { segmentation, size, checksum } = offload;
        let slot = self.slot_mut();
        let mut place = (0, 0, 0);
        if let Some(PartialChecksum { start, offset }) = checksum {
            let (Some(from), Ok(short)) = (slot.start.checked_add(start), u8::try_from(offset)) else { return false };
            if u32::from(start) + u32::from(offset) + 2 > slot.len {
                return false;
            }
            place = (from, short, Slot::PARTIAL);
        }
        if (segmentation == Segmentation::None) != (size == 0) {
            return false;
        }
        slot.segment = size;
        (slot.checksum, slot.checksum_offset) = (place.0, place.1);
        slot.offload = slot.offload & Slot::SPLIT | place.2 | segmentation as u8;
        true
    }

    /// Back to an empty frame nobody knows anything about.
    #[inline(always)]
    pub(super) fn reset(&mut self) {
        let slot = self.slot_mut();
        slot.start = HEADROOM as u16;
        slot.len = 0;
        (slot.segment, slot.checksum, slot.checksum_offset, slot.offload) = (0, 0, 0, 0);
        slot.meta = Meta::default();
    }

    /// Tells the packets of a router apart that there are at the same time: a packet keeps its number for as long as it
    /// lives, and the next one in the same frame has it again.
    pub fn number(&self) -> usize {
        self.slot.addr().get() / size_of::<Slot>()
    }

    /// Lends the frame to the kernel: answers its index, by which [`Region::reclaim`](super::Region::reclaim) makes it a
    /// packet again. The port that lends has its pool [`export`](super::Pool::export) it.
    ///
    /// # Panics
    /// For a super-frame, whose memory is not the kernel's to use, and for a packet with a tail.
    #[inline(always)]
    #[must_use = "a frame that is not reclaimed is lost"]
    pub fn lend(self) -> u32 {
        assert!(!self.is_special(), "a super-frame is not lent, nor half a packet");
        let index = self.slot().name;
        forget(self);
        index
    }

    /// The number of its slot in its region.
    #[inline(always)]
    pub(super) fn index(&self) -> u32 {
        self.slot().name & !(Slot::SUPER | Slot::TAIL)
    }

    /// Where its slot lies.
    pub(super) fn address(&self) -> NonNull<Slot> {
        self.slot
    }

    /// Asks for the line of what is known about the packet to be brought near.
    #[inline(always)]
    pub fn prefetch_meta(&self) {
        prefetch(self.slot.as_ptr());
    }

    /// Asks for the first bytes of the frame to be brought near.
    #[inline(always)]
    pub fn prefetch_bytes(&self) {
        let slot = self.slot();
        prefetch(slot.data.as_ptr().wrapping_add(slot.start as usize));
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").field("len", &self.len()).field("meta", self.meta()).finish()
    }
}

/// Asks the processor to bring the cache line at `address` near. Any address is fine: a prefetch never faults.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it reads nothing the program can see and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; `prfm` changes no register and no memory (Arm ARM C6.2, PRFM).
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// The same, but only into the second-level cache: for many lines at once. There are few places for what is on its way into the first
/// (16 on an Intel Xeon of 2023), and whatever else is needed waits for one of them.
#[inline(always)]
pub fn prefetch_far<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it reads nothing the program can see and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; `prfm` changes no register and no memory (Arm ARM C6.2, PRFM).
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Region};
    use proptest::prelude::*;

    #[test]
    fn the_first_byte_moves_into_the_headroom_and_no_further() {
        let mut pool = Pool::new(Region::new(1));
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&[7; 60]));
        assert!(packet.shift(-(HEADROOM as isize)));
        assert_eq!(packet.len(), HEADROOM + 60);
        assert!(!packet.shift(-1));
        assert!(packet.shift(HEADROOM as isize));
        assert_eq!(packet.bytes(), [7; 60]);
        for beyond in [61, isize::MAX, isize::MIN] {
            assert!(!packet.shift(beyond));
        }
        pool.give(packet);
    }

    #[test]
    fn a_frame_never_grows_beyond_its_memory() {
        let mut pool = Pool::new(Region::with_super_frames(1, 1));
        for (packet, most) in [(pool.take(), FRAME), (pool.take_super(), SUPER_FRAME)] {
            let mut packet = packet.unwrap();
            assert_eq!(packet.most(), most);
            assert!(packet.fill(&vec![1; most]));
            assert!(!packet.resize(most + 65));
            for beyond in [usize::MAX, usize::MAX - 63, usize::MAX - 100] {
                assert!(!packet.resize(beyond) && !packet.place(0, beyond) && !packet.place(beyond, 0));
            }
            assert_eq!((packet.len(), packet.start()), (most, HEADROOM));
            assert!(!packet.fill(&vec![1; most + 1]));
            assert_eq!(packet.len(), 0);
            pool.give(packet);
        }
    }

    #[test]
    fn a_long_frame_starts_within_its_first_64_kilobytes() {
        let mut pool = Pool::new(Region::with_super_frames(1, 1));
        let mut packet = pool.take_super().unwrap();
        assert!(packet.fill(&vec![1; SUPER_FRAME]));
        assert!(!packet.shift(SUPER_FRAME as isize));
        assert!(packet.shift(65_535 - HEADROOM as isize));
        assert!(!packet.shift(1));
        assert_eq!((packet.start(), packet.len()), (65_535, SUPER_FRAME + HEADROOM - 65_535));
        pool.give(packet);
    }

    proptest! {
        #[test]
        fn what_is_to_be_done_stays_when_the_first_byte_moves_and_goes_with_the_frame(
            kind in 0u8..4,
            size: u16,
            checksum in proptest::option::of((0u16..200, 0u16..300)),
            by in -256isize..200,
        ) {
            let mut pool = Pool::new(Region::new(1));
            let mut packet = pool.take().unwrap();
            prop_assert!(packet.fill(&[0; 200]));
            let checksum = checksum.map(|(start, offset)| PartialChecksum { start, offset });
            let offload = Offload { segmentation: Segmentation::of(kind), size, checksum };
            let sensible = (kind == 0) == (size == 0)
                && checksum.is_none_or(|sum| sum.offset < 256 && sum.start + sum.offset + 2 <= 200);
            prop_assert_eq!(packet.set_offload(offload), sensible);
            let expected = if sensible { offload } else { Offload::NONE };
            prop_assert_eq!(packet.offload(), expected);
            prop_assert_eq!(packet.is_offloaded(), expected != Offload::NONE);
            *packet.meta_mut() = Meta::default();
            prop_assert!(packet.shift(by));
            let moved = expected.checksum.and_then(|sum| {
                let start = u16::try_from(sum.start as isize - by).ok()?;
                Some(PartialChecksum { start, ..sum })
            });
            prop_assert_eq!(packet.offload(), Offload { checksum: moved, ..expected });
            pool.give(packet);
            let again = pool.take().unwrap();
            prop_assert_eq!(again.offload(), Offload::NONE);
            pool.give(again);
        }
    }
}
