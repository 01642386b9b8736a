//! The frames lent to the kernel, to receive into or to send.
//!
//! The kernel identifies frames by their address. At times a frame is in no ring, between its removal from one and its addition to another. Every
//! loan is recorded here, so that each frame returns exactly once when a socket closes.

use packet::pool::prefetch;
use packet::{Packet, Region};
use std::ptr;
use std::sync::Arc;

/// The bits of an address that name the chunk; the others are the offset in it (XSK_UNALIGNED_BUF_OFFSET_SHIFT).
const OFFSET_SHIFT: u32 = 48;

/// See the module.
#[derive(Debug)]
pub(super) struct LentFrames {
    region: Arc<Region>,
    /// The start of the registered memory, its length, and the distance between frames.
    base: usize,
    length: usize,
    chunk: u64,
    /// A bit for each frame of the region.
    lent: Vec<u64>,
}

impl LentFrames {
    /// No frame is lent yet.
    pub(super) fn new(region: Arc<Region>) -> LentFrames {
        let noted = vec![0; region.frames().div_ceil(64)];
        let umem = region.umem();
        LentFrames { region, base: umem.base.addr().get(), length: umem.length, chunk: umem.chunk.into(), lent: noted }
    }

    /// Lends a frame to receive into and returns its address for the fill ring. Returns the frame itself if the kernel may not use it.
    #[inline]
    pub(super) fn lend_empty(&mut self, packet: Packet) -> Result<u64, Packet> {
        self.lend_packet(packet).map(|address| address - address % self.chunk)
    }

    /// Lends a packet to send and returns the address of its bytes. Returns the packet itself if it is a super-frame, whose bytes are elsewhere.
    #[inline]
    pub(super) fn lend_packet(&mut self, packet: Packet) -> Result<u64, Packet> {
        let start = packet.bytes().as_ptr().addr().wrapping_sub(self.base);
        if start >= self.length || packet.has_tail() {
            return Err(packet);
        }
        // It is a frame of this region, and its bytes are in its own place.
        let frame = packet.lend();
        let (word, bit) = (&mut self.lent[frame as usize / 64], 1 << (frame % 64));
        assert!(*word & bit == 0, "a frame is lent once");
        *word |= bit;
        Ok(start as u64)
    }

    /// Reclaims a frame by the address that the kernel returned, with the offset of the received packet.
    ///
    /// # Safety
    /// The kernel has finished with the frame.
    #[inline]
    pub(super) unsafe fn take_back(&mut self, address: u64) -> (Packet, usize) {
        let (chunk, start) = (address & ((1 << OFFSET_SHIFT) - 1), address >> OFFSET_SHIFT);
        let frame = (chunk / self.chunk) as u32;
        // SAFETY: the caller vouches for the kernel.
        (unsafe { self.reclaim(frame) }, start as usize)
    }

    /// Prefetches a frame that the kernel returned: another processor wrote it.
    #[inline]
    pub(super) fn prefetch(&self, address: u64) {
        let (chunk, start) = (address & ((1 << OFFSET_SHIFT) - 1), address >> OFFSET_SHIFT);
        self.region.prefetch((chunk / self.chunk) as u32);
        prefetch(ptr::without_provenance::<u8>(self.base + chunk as usize + start as usize));
    }

    /// # Safety
    /// The kernel has finished with the frame.
    #[inline]
    unsafe fn reclaim(&mut self, frame: u32) -> Packet {
        let (word, bit) = (&mut self.lent[frame as usize / 64], 1 << (frame % 64));
        assert!(*word & bit != 0, "the kernel answers with frames that it has");
        *word &= !bit;
        // SAFETY: `lend_packet` lent it, as a packet of this region, and according to the record it has not returned since; the caller
        // vouches for the kernel.
        unsafe { self.region.reclaim(frame) }
    }

    /// Reclaims all frames, regardless of their purpose.
    ///
    /// # Safety
    /// The kernel no longer uses any of them: the socket is closed, and its queue is free.
    pub(super) unsafe fn take_all_back(&mut self, mut each: impl FnMut(Packet)) {
        for word in 0..self.lent.len() {
            while self.lent[word] != 0 {
                let frame = word as u32 * 64 + self.lent[word].trailing_zeros();
                // SAFETY: the caller vouches for the kernel.
                each(unsafe { self.reclaim(frame) });
            }
        }
    }
}
