//! One frame: its bytes, and beside them one cache line of what the router knows about it.

use super::{FRAME, HEADROOM, STRIDE};
use std::fmt;
use std::ptr::NonNull;
use units::{AdjacencyId, Instant, InterfaceId, PathId, PortId, QueueId};

/// What the router knows about a packet. One cache line, together with the private part of its slot.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Meta {
    /// When it came in; set by the port that received it.
    pub timestamp: Instant,
    /// Where to send it: an entry of the adjacency table.
    pub adjacency: AdjacencyId,
    /// Hash of the flow it belongs to; zero until something asks for it.
    pub flow_hash: u32,
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
    /// Its queue on the link it leaves by.
    pub queue: QueueId,
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
    /// How often it was classified again: the general path is no loop.
    pub rounds: u8,
}

impl Meta {
    /// The frame came to a link-layer group address.
    pub const GROUP: u8 = 1;
    /// The frame came as IPv6.
    pub const IPV6: u8 = 2;
    /// The packet was made by the router itself.
    pub const GENERATED: u8 = 4;
    /// Somebody follows it through the router and is told of every stage it passes.
    pub const FOLLOWED: u8 = 0x40;
}

/// Slot of a frame in its region.
#[repr(C, align(64))]
pub(super) struct Slot {
    data: NonNull<u8>,
    start: u16,
    len: u16,
    _unused: u32,
    meta: Meta,
}

const _: () = assert!(size_of::<Slot>() == 64, "what is known of a packet fits in one cache line");

/// Owns one frame. Not clonable, and of no use to drop: it is given back to a pool when its fate is known. A packet that
/// is merely forgotten keeps its frame for ever, and the ledger of the worker no longer balances.
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
    /// `slot` is valid for writes of one `Slot` and `data` for [`STRIDE`] bytes, both as long as the packet lives, and
    /// nobody else uses either.
    pub(super) unsafe fn new(slot: NonNull<Slot>, data: NonNull<u8>) -> Packet {
        let value = Slot { data, start: HEADROOM as u16, len: 0, _unused: 0, meta: Meta::default() };
        // SAFETY: the caller vouches for `slot`.
        unsafe { slot.write(value) };
        Packet { slot }
    }

    #[inline(always)]
    fn slot(&self) -> &Slot {
        // SAFETY: this packet owns the slot, which was initialised in `new`; shared borrows follow those of the packet.
        unsafe { self.slot.as_ref() }
    }

    #[inline(always)]
    fn slot_mut(&mut self) -> &mut Slot {
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

    /// Length of the frame in bytes, without the frame check sequence.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.slot().len as usize
    }

    /// The frame from its first link-layer byte.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        let slot = self.slot();
        // SAFETY: every setter keeps `start + len <= STRIDE`, and `data` is valid for `STRIDE` initialised bytes.
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
    /// if not, nothing has changed.
    #[inline(always)]
    pub fn shift(&mut self, by: isize) -> bool {
        let slot = self.slot_mut();
        if by < -(slot.start as isize) || by > slot.len as isize {
            return false;
        }
        let (start, len) = (slot.start as isize + by, slot.len as isize - by);
        // `start + len` is unchanged, so the end of the frame stays inside its memory.
        slot.start = start as u16;
        slot.len = len as u16;
        true
    }

    /// Cuts or lengthens the frame at its end; added bytes have whatever was there. Answers whether there was room; if
    /// not, nothing has changed.
    #[inline(always)]
    pub fn resize(&mut self, len: usize) -> bool {
        let slot = self.slot_mut();
        // `start` never exceeds `STRIDE`; the sum of the two could exceed any number.
        if len > STRIDE - slot.start as usize {
            return false;
        }
        slot.len = len as u16;
        true
    }

    /// Replaces the frame by `bytes`, with full headroom before them. Answers whether they fit ([`FRAME`] bytes); if
    /// not, the frame is empty.
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        self.slot_mut().start = HEADROOM as u16;
        self.slot_mut().len = 0;
        if bytes.len() > FRAME {
            return false;
        }
        self.slot_mut().len = bytes.len() as u16;
        self.bytes_mut().copy_from_slice(bytes);
        true
    }

    /// Back to an empty frame nobody knows anything about.
    #[inline(always)]
    pub(super) fn reset(&mut self) {
        let slot = self.slot_mut();
        slot.start = HEADROOM as u16;
        slot.len = 0;
        slot.meta = Meta::default();
    }

    /// Tells the packets of a router apart that there are at the same time: a packet keeps its number for as long as it
    /// lives, and the next one in the same frame has it again.
    pub fn number(&self) -> usize {
        self.slot.addr().get() / size_of::<Slot>()
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

#[cfg(test)]
mod tests {
    use crate::{Pool, Region};

    #[test]
    fn the_first_byte_moves_into_the_headroom_and_no_further() {
        let mut pool = Pool::new(Region::new(1));
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&[7; 60]));
        assert!(packet.shift(-64));
        assert_eq!(packet.len(), 124);
        assert!(!packet.shift(-1));
        assert!(packet.shift(64));
        assert_eq!(packet.bytes(), [7; 60]);
        for beyond in [61, isize::MAX, isize::MIN] {
            assert!(!packet.shift(beyond));
        }
        pool.give(packet);
    }

    #[test]
    fn a_frame_never_grows_beyond_its_memory() {
        let mut pool = Pool::new(Region::new(2));
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&[1; 2048]));
        assert!(!packet.resize(2049));
        for beyond in [usize::MAX, usize::MAX - 63, usize::MAX - 100] {
            assert!(!packet.resize(beyond));
        }
        assert_eq!(packet.len(), 2048);
        assert!(!packet.fill(&[1; 2049]));
        assert_eq!(packet.len(), 0);
        pool.give(packet);
    }
}
