//! The frames that the kernel has: lent to be received into, or to be sent.
//!
//! The kernel names frames by their place in memory and keeps some that lie in no ring: taken from one and not yet put in
//! another. So that every frame comes back when a socket closes, and none twice, each loan is noted here.

use packet::pool::prefetch;
use packet::{Packet, Region};
use std::ptr;
use std::sync::Arc;

/// Bits of an address that say which chunk; the rest say where in it (XSK_UNALIGNED_BUF_OFFSET_SHIFT).
const PLACE: u32 = 48;

/// See the module.
#[derive(Debug)]
pub(super) struct Lent {
    region: Arc<Region>,
    /// Where the memory that the kernel was told of begins, its bytes, and those from frame to frame.
    base: usize,
    length: usize,
    chunk: u64,
    /// A bit for each frame of the region.
    noted: Vec<u64>,
}

impl Lent {
    /// Nothing is lent yet.
    pub(super) fn nothing(region: Arc<Region>) -> Lent {
        let noted = vec![0; region.frames().div_ceil(64)];
        let umem = region.umem();
        Lent { region, base: umem.base.addr().get(), length: umem.length, chunk: umem.chunk.into(), noted }
    }

    /// Lends a frame to be received into; answers where it is, for the fill ring. One that is not the kernel's to use is
    /// given back.
    #[inline]
    pub(super) fn empty(&mut self, packet: Packet) -> Result<u64, Packet> {
        self.full(packet).map(|address| address - address % self.chunk)
    }

    /// Lends a packet to be sent; answers where its bytes are. One whose bytes lie elsewhere, in a super-frame, is given
    /// back.
    #[inline]
    pub(super) fn full(&mut self, packet: Packet) -> Result<u64, Packet> {
        let start = packet.bytes().as_ptr().addr().wrapping_sub(self.base);
        if start >= self.length || packet.has_tail() {
            return Err(packet);
        }
        // It lies in the memory of this region, and is the frame of its place.
        let frame = packet.lend();
        let (word, bit) = (&mut self.noted[frame as usize / 64], 1 << (frame % 64));
        assert!(*word & bit == 0, "a frame is lent once");
        *word |= bit;
        Ok(start as u64)
    }

    /// Has a frame back by the address the kernel answers with, and where in it a received packet begins.
    ///
    /// # Safety
    /// The kernel has done with the frame.
    #[inline]
    pub(super) unsafe fn back(&mut self, address: u64) -> (Packet, usize) {
        let (chunk, start) = (address & ((1 << PLACE) - 1), address >> PLACE);
        let frame = (chunk / self.chunk) as u32;
        // SAFETY: the caller vouches for it.
        (unsafe { self.reclaim(frame) }, start as usize)
    }

    /// Asks for a frame that the kernel answers with to be brought near: it was written by another processor.
    #[inline]
    pub(super) fn prefetch(&self, address: u64) {
        let (chunk, start) = (address & ((1 << PLACE) - 1), address >> PLACE);
        self.region.prefetch((chunk / self.chunk) as u32);
        prefetch(ptr::without_provenance::<u8>(self.base + chunk as usize + start as usize));
    }

    /// # Safety
    /// The kernel has done with the frame.
    #[inline]
    unsafe fn reclaim(&mut self, frame: u32) -> Packet {
        let (word, bit) = (&mut self.noted[frame as usize / 64], 1 << (frame % 64));
        assert!(*word & bit != 0, "the kernel answers with frames that it has");
        *word &= !bit;
        // SAFETY: `full` lent it, a packet of this region, and it has not come back since, as the note says; the caller
        // vouches for the kernel.
        unsafe { self.region.reclaim(frame) }
    }

    /// Has all frames back, whatever the kernel was to do with them.
    ///
    /// # Safety
    /// The kernel uses none of them any more: the socket is closed, and its queue is free.
    pub(super) unsafe fn all_back(&mut self, mut each: impl FnMut(Packet)) {
        for word in 0..self.noted.len() {
            while self.noted[word] != 0 {
                let frame = word as u32 * 64 + self.noted[word].trailing_zeros();
                // SAFETY: the caller vouches for it.
                each(unsafe { self.reclaim(frame) });
            }
        }
    }
}
