//! The memory a packet socket shares with the kernel: slots of one size, those for receiving first.
//!
//! Who owns a slot is said by the first word of it, the status. The kernel hands over with a release store and we look
//! with an acquire load, and the other way round, so that the bytes are never touched by both.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the bytes of a frame to send begin in its slot: after the aligned header (TPACKET2_HDRLEN less the address).
const SEND_OFFSET: usize = 32;
const _: () = assert!(size_of::<libc::tpacket2_hdr>() == SEND_OFFSET);

/// The slots of one socket, mapped.
#[derive(Debug)]
pub(super) struct Rings {
    base: NonNull<u8>,
    slot: usize,
    receive_slots: usize,
    send_slots: usize,
}

// SAFETY: the mapping belongs to this value alone and can be used from any one thread at a time.
unsafe impl Send for Rings {}

/// A frame the kernel has handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a> {
    /// TP_STATUS_*
    pub(super) status: u32,
    /// Bytes on the wire.
    pub(super) length: usize,
    /// The 802.1Q tag that was taken out, valid where the status says so: control and protocol.
    pub(super) tag: (u16, u16),
    /// The bytes from the link header on.
    pub(super) bytes: &'a [u8],
}

impl Rings {
    /// Maps the rings of a socket that has been given them: `receive_slots` and `send_slots` slots of `slot` bytes each,
    /// a power of two, as its PACKET_RX_RING and PACKET_TX_RING say.
    pub(super) fn map(socket: impl AsFd, slot: usize, receive_slots: usize, send_slots: usize) -> io::Result<Self> {
        assert!(slot.is_power_of_two() && slot >= 2048, "slots of {slot} bytes");
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let length = slot * (receive_slots + send_slots);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap(ptr::null_mut(), length, protection, flags, socket, 0) }?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Rings { base, slot, receive_slots, send_slots })
    }

    /// The longest frame a slot takes to send, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.slot - SEND_OFFSET
    }

    /// The slots for sending.
    pub(super) fn send_slots(&self) -> usize {
        self.send_slots
    }

    fn receiving(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.receive_slots);
        // SAFETY: the slot lies in the mapping.
        unsafe { self.base.add(index * self.slot) }
    }

    fn sending(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.send_slots);
        // SAFETY: the slot lies in the mapping, after those for receiving.
        unsafe { self.base.add((self.receive_slots + index) * self.slot) }
    }

    fn status(&self, slot: NonNull<u8>) -> &AtomicU32 {
        // SAFETY: `slot` comes from `receiving` or `sending`: it is valid as long as `self` and aligned to at least 2048
        // bytes; the status is its first word, and after creation it is only ever accessed atomically here.
        unsafe { AtomicU32::from_ptr(slot.as_ptr().cast()) }
    }

    /// The slot after `index` among those for receiving.
    pub(super) fn after_receiving(&self, index: usize) -> usize {
        if index + 1 == self.receive_slots { 0 } else { index + 1 }
    }

    /// The slot after `index` among those for sending.
    pub(super) fn after_sending(&self, index: usize) -> usize {
        if index + 1 == self.send_slots { 0 } else { index + 1 }
    }

    /// The frame in a slot, if the kernel has handed it over.
    #[inline]
    pub(super) fn received(&self, index: usize) -> Option<Received<'_>> {
        let slot = self.receiving(index);
        let status = self.status(slot).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let header = slot.cast::<libc::tpacket2_hdr>().as_ptr();
        // SAFETY: the slot is ours since the acquire load, so the kernel writes none of these fields; the header is at
        // its start, and the fields are integers.
        let (length, captured, start, tag) = unsafe {
            let tag = ((*header).tp_vlan_tci, (*header).tp_vlan_tpid);
            ((*header).tp_len as usize, (*header).tp_snaplen as usize, usize::from((*header).tp_mac), tag)
        };
        let captured = captured.min(self.slot.saturating_sub(start));
        // SAFETY: the slot is ours until `release`, which needs `&mut self`; `start + captured` lies within it, and the
        // mapping began as zeros, so the bytes are initialised.
        let bytes = unsafe { std::slice::from_raw_parts(slot.as_ptr().add(start.min(self.slot)), captured) };
        Some(Received { status, length, tag, bytes })
    }

    /// Gives a slot for receiving back to the kernel.
    #[inline]
    pub(super) fn release(&mut self, index: usize) {
        self.status(self.receiving(index)).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Whether a slot for sending is ours: free, or refused by the kernel.
    #[inline]
    pub(super) fn is_free(&self, index: usize) -> bool {
        let status = self.status(self.sending(index)).load(Ordering::Acquire);
        status == libc::TP_STATUS_AVAILABLE || status & libc::TP_STATUS_WRONG_FORMAT != 0
    }

    /// Whether a slot waits for the kernel to look at it.
    #[inline]
    pub(super) fn is_requested(&self, index: usize) -> bool {
        self.status(self.sending(index)).load(Ordering::Acquire) & libc::TP_STATUS_SEND_REQUEST != 0
    }

    /// Makes of a requested slot one that the kernel passes over the next time it sends (PACKET_LOSS): no frame is that
    /// long.
    pub(super) fn give_up(&mut self, index: usize) {
        assert!(self.is_requested(index));
        // SAFETY: the header lies at the start of the slot. The kernel reads requested slots within send(2) only, which
        // the owner of `self` calls.
        unsafe { (*self.sending(index).cast::<libc::tpacket2_hdr>().as_ptr()).tp_len = u32::MAX };
    }

    /// Fills a free slot and asks for it to be sent. The frame is at most [`Rings::longest`] bytes.
    #[inline]
    pub(super) fn request(&mut self, index: usize, frame: &[u8]) {
        assert!(frame.len() <= self.longest() && self.is_free(index));
        let slot = self.sending(index);
        // SAFETY: the slot is ours since `is_free` saw it so, and becomes the kernel's only by the store below; header
        // and frame lie within it, and a frame of the pool does not overlap the mapping.
        unsafe {
            (*slot.cast::<libc::tpacket2_hdr>().as_ptr()).tp_len = frame.len() as u32;
            ptr::copy_nonoverlapping(frame.as_ptr(), slot.as_ptr().add(SEND_OFFSET), frame.len());
        }
        self.status(slot).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; every borrow of it has ended.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.slot * (self.receive_slots + self.send_slots)) };
    }
}
