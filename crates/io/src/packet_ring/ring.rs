//! The memory that a packet socket shares with the kernel: slots for receiving.
//!
//! The first word of a slot, the status, names its owner. The kernel passes a slot on with a release store, and the router checks it with an acquire
//! load, and the other way round. Both never access the bytes at the same time.

use crate::vnet;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use units::Nanos;

/// The mapped slots of one socket.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    slot: usize,
    slots: usize,
    /// True if a [`vnet`] header precedes each frame.
    prefixed: bool,
}

// SAFETY: the mapping belongs to this value alone and can be used from any one thread at a time.
unsafe impl Send for Ring {}

/// A frame that the kernel passed to the router.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotFrame<'a> {
    /// TP_STATUS_*
    pub(super) status: u32,
    /// Bytes on the wire.
    pub(super) length: usize,
    /// The kernel's arrival time, since 1970-01-01 UTC.
    pub(super) arrival: Nanos,
    /// The removed 802.1Q tag (control and protocol), valid if the status says so.
    pub(super) tag: (u16, u16),
    /// Its offload header; zeros if the socket has none.
    pub(super) header: [u8; vnet::HEADER],
    /// The bytes from the link header on that the slot holds.
    pub(super) bytes: &'a [u8],
}

impl Ring {
    /// Maps the ring of a socket: `slots` slots of `slot` bytes each, a power of two, as set by its PACKET_RX_RING. `prefixed` is set as its
    /// PACKET_VNET_HDR.
    pub(super) fn map(socket: impl AsFd, slot: usize, slots: usize, prefixed: bool) -> io::Result<Self> {
        assert!(slot.is_power_of_two() && slot >= 2048, "slots of {slot} bytes");
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe { mmap(ptr::null_mut(), slot * slots, protection, flags, socket, 0) }?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Ring { base, slot, slots, prefixed })
    }

    /// The number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    fn receiving(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.slots);
        // SAFETY: the slot lies in the mapping.
        unsafe { self.base.add(index * self.slot) }
    }

    fn status(&self, slot: NonNull<u8>) -> &AtomicU32 {
        // SAFETY: `slot` comes from `receiving`: it is valid as long as `self` and aligned to at least 2048 bytes. The status is its first word and
        // is accessed only atomically after its creation.
        unsafe { AtomicU32::from_ptr(slot.as_ptr().cast()) }
    }

    /// The slot after `index`.
    pub(super) fn after(&self, index: usize) -> usize {
        if index + 1 == self.slots { 0 } else { index + 1 }
    }

    /// The frame in a slot, if the kernel has passed it to the router.
    #[inline]
    pub(super) fn received(&self, index: usize) -> Option<SlotFrame<'_>> {
        let slot = self.receiving(index);
        let status = self.status(slot).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let header = slot.cast::<libc::tpacket2_hdr>().as_ptr();
        // SAFETY: the router owns the slot since the acquire load, so the kernel writes none of these fields; the header is at its start, and the
        // fields are integers.
        let (length, captured, start, came, tag) = unsafe {
            let tag = ((*header).tp_vlan_tci, (*header).tp_vlan_tpid);
            let came = u64::from((*header).tp_sec) * 1_000_000_000 + u64::from((*header).tp_nsec);
            ((*header).tp_len as usize, (*header).tp_snaplen as usize, usize::from((*header).tp_mac), came, tag)
        };
        let captured = captured.min(self.slot.saturating_sub(start));
        // SAFETY: the router owns the slot until `release`, which needs `&mut self`; `start + captured` lies within it, and the mapping began as
        // zeros, so the bytes are initialised.
        let bytes = unsafe { std::slice::from_raw_parts(slot.as_ptr().add(start.min(self.slot)), captured) };
        let mut noted = [0; vnet::HEADER];
        if self.prefixed && start >= size_of::<libc::tpacket2_hdr>() + vnet::HEADER && start <= self.slot {
            // SAFETY: as above; the kernel reserves this room between its own header and the frame, and has filled it.
            noted = unsafe { slot.add(start - vnet::HEADER).cast::<[u8; vnet::HEADER]>().read() };
        }
        Some(SlotFrame { status, length, arrival: Nanos::new(came), tag, header: noted, bytes })
    }

    /// Returns a slot to the kernel.
    #[inline]
    pub(super) fn release(&mut self, index: usize) {
        self.status(self.receiving(index)).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; every borrow of it has ended.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.slot * self.slots) };
    }
}
