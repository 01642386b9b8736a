//! One frame: its bytes, and one cache line of metadata.

use super::offload::{Offload, PartialChecksum, Segmentation};
use super::{FRAME, HEADROOM, STRIDE, SUPER_FRAME, SUPER_STRIDE, TAIL_AT};
use std::fmt;
use std::mem::{forget, offset_of};
use std::ptr::NonNull;
use units::{AdjacencyId, Instant, InterfaceId, PathId, PortId, ShareId};

/// Metadata of a packet. One cache line, together with the private part of its slot.
// Large: all metadata that stages share, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Meta {
    /// The time of its arrival; set by the receiving port.
    pub timestamp: Instant,
    /// The next hop: an entry of the adjacency table.
    pub adjacency: AdjacencyId,
    /// The version of the adjacency when the route was looked up.
    pub version: u16,
    /// Offset of the network header from the start of the frame, in bytes.
    pub l3: u16,
    /// On its path the word that its functions pass on, zero at first. At a link the time from its arrival to the end of its functions, in
    /// nanoseconds, saturating.
    pub function_time: u32,
    /// Its share of the egress link, with a flag: see [`Meta::share`] and [`Meta::set_share`].
    pub share_mark: u32,
    /// Its path.
    pub path: PathId,
    /// Its ingress port.
    pub in_port: PortId,
    /// Its ingress interface.
    pub in_interface: InterfaceId,
    /// Its egress interface.
    pub out_interface: InterfaceId,
    /// Its class, set by its path.
    pub class: u8,
    /// The reason for the general path: a code of the plane, zero for none.
    pub exception: u8,
    /// The drop reason that the receiving port set, plus one; zero for none.
    pub refused: u8,
    /// Flags: see the constants.
    pub flags: u8,
    /// The two ECN bits of its IP header (RFC 3168).
    pub ecn: u8,
    /// How often it was classified again; bounded, so that packets cannot loop. The three highest bits are flags of the plane.
    pub rounds: u8,
    /// Its objective for the egress link: a code of the plane, zero for none.
    pub objective: u8,
    /// Its role in a connection: a code of the plane, zero if no function has set it.
    pub connection: u8,
}

/// In `share_mark`: a rule has selected it.
const BY_RULE: u32 = 1 << 31;

impl Meta {
    /// Its share of the egress link; 0 for none.
    #[inline(always)]
    pub fn share(&self) -> ShareId {
        ShareId(self.share_mark & !BY_RULE)
    }

    /// Sets its share to that of its circuit, unless a rule has selected another one.
    #[inline(always)]
    pub fn set_share(&mut self, share: ShareId) {
        if self.share_mark & BY_RULE == 0 {
            self.share_mark = share.0;
        }
    }

    /// Sets its share by a rule.
    #[inline(always)]
    pub fn set_share_by_rule(&mut self, share: ShareId) {
        self.share_mark = share.0 | BY_RULE;
    }

    /// The frame arrived at a link-layer group address.
    pub const GROUP: u8 = 1;
    /// The frame arrived as IPv6.
    pub const IPV6: u8 = 2;
    /// The router generated the packet.
    pub const GENERATED: u8 = 4;
    /// An offload is pending: see [`Packet::offload`].
    pub const OFFLOAD: u8 = 8;
    /// A function has translated its addresses.
    pub const TRANSLATED: u8 = 0x10;
    /// It is for an address of the router; a function decides if it is forwarded anyway.
    pub const LOCAL: u8 = 0x20;
    /// An observer follows it and receives an event at every stage.
    pub const FOLLOWED: u8 = 0x40;
    /// Its instruction is not executed, because the worker that owns its tag is overloaded.
    pub const NOT_EXECUTED: u8 = 0x80;

    /// The bits of [`Meta::rounds`] that count classifications.
    pub const ROUNDS: u8 = 0x1f;
    /// In [`Meta::rounds`]: the router has encapsulated the packet, so its source is an address of the router.
    pub const ENCAPSULATED: u8 = 0x20;

    /// The adjacency, its version and the offset of the network header in one number. One load, which the compiler does not make of three fields.
    #[inline(always)]
    pub fn link_key(&self) -> u64 {
        const AT: usize = offset_of!(Meta, adjacency);
        const { assert!(AT.is_multiple_of(8) && offset_of!(Meta, version) == AT + 4 && offset_of!(Meta, l3) == AT + 6) }
        // SAFETY: the three fields are initialised and fill the eight bytes from `AT` on, which are aligned like the record.
        unsafe { (&raw const *self).byte_add(AT).cast::<u64>().read() }
    }

    /// True if it is an IPv4 packet that is neither refused nor an exception: one comparison of the four bytes that begin with the class.
    #[inline(always)]
    pub fn is_plain_ipv4(&self) -> bool {
        const AT: usize = offset_of!(Meta, class);
        const { assert!(AT.is_multiple_of(4) && offset_of!(Meta, exception) == AT + 1) }
        const { assert!(offset_of!(Meta, refused) == AT + 2 && offset_of!(Meta, flags) == AT + 3) }
        // SAFETY: the four fields are initialised and fill the four bytes from `AT` on, which are aligned because the record is.
        let fields = unsafe { (&raw const *self).byte_add(AT).cast::<[u8; 4]>().read() };
        u32::from_ne_bytes(fields) & u32::from_ne_bytes([0, 0xff, 0xff, Meta::IPV6]) == 0
    }

    /// Counts one more classification and returns the number so far.
    #[inline]
    pub fn count_classification(&mut self) -> u8 {
        self.rounds += 1;
        self.rounds & Meta::ROUNDS
    }
}

/// The slot of a frame in its region.
#[repr(C, align(64))]
pub(super) struct Slot {
    data: NonNull<u8>,
    len: u32,
    /// Its index in the region. The highest bit marks a super-frame, the next one a tail.
    pub name: u32,
    start: u16,
    /// The size of a segment.
    segment: u16,
    /// The start of a partial checksum, counted from the beginning of the memory, so that it stays valid when the first byte moves.
    checksum: u16,
    checksum_offset: u8,
    /// The pending offload: the kind of segmentation, [`Slot::PARTIAL`] and [`Slot::SPLIT`]. Zero for none.
    pub offload: u8,
    meta: Meta,
}

impl Slot {
    const SUPER: u32 = 1 << 31;
    /// The rest of the packet is in another frame.
    pub const TAIL: u32 = 1 << 30;
    /// The checksum is partial.
    const PARTIAL: u8 = 0x80;
    /// The packet has a tail. A port that needs contiguous frames requires that it is joined first.
    pub const SPLIT: u8 = 0x40;

    /// Bytes of its memory, without those that describe its tail.
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

/// Marks a super-frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SuperFrame(pub bool);

/// Owns one frame. It cannot be cloned; it is given back to a pool when its fate is known. If it is just dropped, for example in a panic of its
/// worker, its frame returns to its region, and the ledger of the worker no longer balances.
#[must_use = "a packet is sent, consumed or dropped with a reason, never forgotten"]
pub struct Packet {
    slot: NonNull<Slot>,
}

// SAFETY: a packet is the only owner of its slot and its bytes; neither is bound to a thread.
unsafe impl Send for Packet {}
// SAFETY: `&Packet` only reads.
unsafe impl Sync for Packet {}

impl Packet {
    /// Takes ownership of a slot and its bytes.
    ///
    /// # Safety
    /// `slot` is valid for writes of one `Slot` and `data` for the bytes of its class, both for the lifetime of the packet, and no other
    /// code uses either.
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

    /// Takes ownership of a slot again.
    ///
    /// # Safety
    /// `slot` was initialised by [`Packet::new`], and no other packet owns it.
    #[inline(always)]
    pub(super) unsafe fn from_slot(slot: NonNull<Slot>) -> Packet {
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

    /// The metadata.
    #[inline(always)]
    pub fn meta(&self) -> &Meta {
        &self.slot().meta
    }

    /// The metadata, mutable.
    #[inline(always)]
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.slot_mut().meta
    }

    /// Length of the frame in bytes, without the frame check sequence and without [`Packet::tail`].
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.slot().len as usize
    }

    /// The frame from its first link-layer byte. If its payload is shared ([`Packet::tail`]), this is the beginning, with all headers.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        let slot = self.slot();
        // SAFETY: every setter keeps `start + len` within the memory of the slot, all of it initialised.
        unsafe { std::slice::from_raw_parts(slot.data.as_ptr().add(slot.start as usize), slot.len as usize) }
    }

    /// The frame from its first link-layer byte, mutable.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let slot = self.slot_mut();
        // SAFETY: as in `bytes`; `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(slot.data.as_ptr().add(slot.start as usize), slot.len as usize) }
    }

    /// Moves the first byte: a negative value extends the frame into the headroom, a positive value removes bytes. Returns false and changes nothing
    /// if there is no room. The first byte must stay within the first 64 KB of the memory, so not every byte of a super-frame can be removed.
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

    /// Truncates or extends the frame at its end. Added bytes have undefined content. Returns false and changes nothing if there is no room.
    #[inline(always)]
    pub fn resize(&mut self, len: usize) -> bool {
        let slot = self.slot_mut();
        // `start` never exceeds the memory, but the sum of `start` and `len` could overflow.
        if len > slot.memory() - slot.start as usize {
            return false;
        }
        slot.len = len as u32;
        true
    }

    /// Sets the frame to the `len` bytes from `start` on, counted from the beginning of its memory: the place where a device wrote them. Returns
    /// false and changes nothing if they are not within the memory.
    #[inline(always)]
    pub fn set_range(&mut self, start: usize, len: usize) -> bool {
        let slot = self.slot_mut();
        let memory = slot.memory();
        if start > memory.min(usize::from(u16::MAX)) || len > memory - start {
            return false;
        }
        slot.start = start as u16;
        slot.len = len as u32;
        true
    }

    /// The offset of the frame in its memory, in bytes.
    #[inline(always)]
    pub fn start(&self) -> usize {
        self.slot().start as usize
    }

    /// True if its memory is that of a super-frame, regardless of its length.
    #[inline(always)]
    pub fn is_large(&self) -> bool {
        self.slot().name & Slot::SUPER != 0
    }

    /// The longest frame that [`Packet::fill`] accepts: [`FRAME`] or [`SUPER_FRAME`] bytes.
    pub fn most(&self) -> usize {
        if self.is_large() { SUPER_FRAME } else { FRAME }
    }

    /// Replaces the frame by `bytes`, with full headroom before them. Returns false and empties the frame if they do not fit ([`Packet::most`]).
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

    /// Becomes a copy of `other`: its bytes in one piece, its metadata and its pending offload. Returns false and empties the frame if it does not
    /// fit.
    pub fn copy(&mut self, other: &Packet) -> bool {
        *self.meta_mut() = *other.meta();
        self.fill(other.bytes()) && self.append(other.tail()) && self.set_offload(other.offload())
    }

    /// Appends `bytes` to the frame. Returns false and empties the frame if they do not fit.
    pub(super) fn append(&mut self, bytes: &[u8]) -> bool {
        let length = self.len();
        if !self.resize(length + bytes.len()) {
            self.resize(0);
            return false;
        }
        self.bytes_mut()[length..].copy_from_slice(bytes);
        true
    }

    /// True if the rest of the packet is in another frame.
    #[inline(always)]
    pub fn has_tail(&self) -> bool {
        self.slot().name & Slot::TAIL != 0
    }

    /// True if giving it back takes more than adding it to the free frames of a pool.
    #[inline(always)]
    pub(super) fn is_special(&self) -> bool {
        self.slot().name >= Slot::TAIL
    }

    /// The beginning of its memory.
    pub(super) fn memory(&self) -> NonNull<u8> {
        self.slot().data
    }

    /// True if an offload is pending: [`Packet::offload`] is not [`Offload::NONE`], or the packet is not in one piece ([`Packet::tail`]).
    #[inline(always)]
    pub fn is_offloaded(&self) -> bool {
        self.slot().offload != 0
    }

    /// The pending offload, as set by the receiving port.
    pub fn offload(&self) -> Offload {
        let slot = self.slot();
        // If the frame now starts after the checksum's first byte, the checksum cannot be expressed any more.
        let start = (slot.offload & Slot::PARTIAL != 0).then(|| slot.checksum.checked_sub(slot.start)).flatten();
        Offload {
            segmentation: Segmentation::of(slot.offload),
            size: slot.segment,
            checksum: start.map(|start| PartialChecksum { start, offset: slot.checksum_offset.into() }),
        }
    }

    /// Sets the pending offload. Returns false and changes nothing if it is invalid: a super-frame needs a segment size, and the checksum must be
    /// inside the frame, at most 255 bytes from its start.
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

    /// Resets it to an empty frame without metadata.
    #[inline(always)]
    pub(super) fn reset(&mut self) {
        let slot = self.slot_mut();
        slot.start = HEADROOM as u16;
        slot.len = 0;
        (slot.segment, slot.checksum, slot.checksum_offset, slot.offload) = (0, 0, 0, 0);
        slot.meta = Meta::default();
    }

    /// A number that is unique among the packets in the router at the same time. A packet keeps its number; the next packet in the same frame has the
    /// same one.
    pub fn number(&self) -> usize {
        self.slot.addr().get() / size_of::<Slot>()
    }

    /// Lends the frame to the kernel. Returns its index; [`Region::reclaim`](super::Region::reclaim) turns that into a packet again. The lending port
    /// has its pool [`export`](super::Pool::export) it.
    ///
    /// # Panics
    /// For a super-frame, whose memory the kernel may not use, and for a packet with a tail.
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

    /// The address of its slot.
    pub(super) fn address(&self) -> NonNull<Slot> {
        self.slot
    }

    /// Prefetches the cache line of metadata.
    #[inline(always)]
    pub fn prefetch_meta(&self) {
        prefetch(self.slot.as_ptr());
    }

    /// Prefetches the first bytes of the frame.
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

/// Prefetches the cache line at `address`. Any address is valid: a prefetch never faults.
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

/// Prefetches only into the second-level cache, for many lines at once. The first level has few slots for outstanding loads (16 on an Intel Xeon of
/// 2023), and every other load needs one of them.
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
    fn frame_start_moves_only_within_the_headroom() {
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
                assert!(!packet.resize(beyond) && !packet.set_range(0, beyond) && !packet.set_range(beyond, 0));
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
        fn offload_survives_a_moved_first_byte_and_ends_with_the_frame(
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
