//! One queue of a tap device as a port of the router.

use super::TapDevice;
use crate::{sys, vnet};
use packet::pool::{FRAME, SUPER_FRAME};
use packet::port::{Offloads, Port, PortStatistics, WakeSource, refuse};
use packet::{BATCH, Batch, DropReason, Packet, Pool};
use rustix::io::{Errno, readv, writev};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use units::{Instant, Nanos, Rate};

/// The pause after an empty read: a polling worker has other ports too, and each read is a system call.
const PAUSE: Nanos = Nanos::micros(2);

/// The kernel's default queue length for a tap interface (`txqueuelen`), in frames.
const QUEUE: u32 = 1000;

/// A `tap:` port.
#[derive(Debug)]
pub struct TapPort {
    device: Arc<TapDevice>,
    queue: usize,
    offloads: bool,
    mtu: u16,
    /// The end of the pause.
    paused_until: Instant,
    /// Frames that the kernel refuses during the transmission of a batch.
    refused: Batch,
    /// Counts losses of the device's queue in the kernel. Only the first port of a device has it, for all of them.
    losses: Option<Losses>,
}

impl TapPort {
    pub(super) fn new(device: Arc<TapDevice>, queue: usize, offloads: bool, mtu: u16) -> TapPort {
        let losses = if queue == 0 { Losses::start(&device.name) } else { None };
        TapPort { device, queue, offloads, mtu, paused_until: Instant::START, refused: Batch::new(), losses }
    }

    /// Sets the state of the cable that the kernel reports on the device's interface. A device has a carrier from the start. Needs no privilege.
    pub fn set_carrier(&self, is_present: bool) -> io::Result<()> {
        sys::set_tun_carrier(self.descriptor(), is_present)
    }

    pub(super) fn device(&self) -> &Arc<TapDevice> {
        &self.device
    }

    /// Reads a frame into the small packet, or into both, and returns the packet that holds it. `None` without a small packet.
    fn read(
        &self,
        small: &mut Option<Packet>,
        large: &mut Option<Packet>,
        has_large: bool,
    ) -> Result<Option<Packet>, Errno> {
        let Some(first) = small else { return Ok(None) };
        let resized = first.resize(FRAME) && large.as_mut().is_none_or(|large| large.resize(SUPER_FRAME));
        assert!(resized, "frames of the pool hold as much as they say");
        // The kernel truncates frames longer than all parts without notice: one additional byte detects this.
        let (mut header, mut beyond) = ([0; vnet::HEADER], [0; 1]);
        let rest = large.as_mut().map_or(&mut [][..], |large| &mut large.bytes_mut()[FRAME..]);
        let most = FRAME + rest.len();
        let mut parts = [&mut header[..], first.bytes_mut(), rest, &mut beyond].map(IoSliceMut::new);
        let length = readv(self.descriptor(), &mut parts)?.saturating_sub(vnet::HEADER);
        let fits = length <= most;
        let packet = match large.take_if(|_| fits && length > FRAME) {
            // The large packet has the end of the frame in its place; only the beginning is copied.
            Some(mut packet) => {
                packet.bytes_mut()[..FRAME].copy_from_slice(first.bytes());
                Some(packet)
            }
            None => small.take(),
        };
        Ok(packet.map(|mut packet| {
            packet.resize(length.min(packet.most()));
            let refused = match () {
                () if !fits && has_large && length < SUPER_FRAME => Some(DropReason::NoSuperFrame),
                () if !fits => Some(DropReason::FrameTooLong),
                () => vnet::store_offload(&header, 0, &mut packet).err().map(|_| DropReason::BadOffload),
            };
            packet.meta_mut().refused = refused.map_or(0, |reason| reason as u8 + 1);
            packet
        }))
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.queues[self.queue].as_fd()
    }
}

impl Port for TapPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        if now < self.paused_until {
            return;
        }
        // The length of the next frame is not known. Two packets are prepared: bytes that the small one cannot hold continue in the large one, at
        // their final place.
        let (mut small, mut large) = (None, None);
        let mut super_frames = 0;
        while batch.room() > 0 && super_frames < vnet::SUPER_FRAMES_AT_ONCE {
            small = small.or_else(|| pool.take());
            if self.offloads && large.is_none() {
                large = pool.take_super();
            }
            match self.read(&mut small, &mut large, pool.region().super_frames() > 0) {
                Ok(Some(mut packet)) => {
                    super_frames += usize::from(packet.is_large());
                    packet.meta_mut().timestamp = now;
                    batch.push(packet);
                }
                Ok(None) => break,
                Err(Errno::INTR) => {}
                // No frame (EAGAIN), or no device any more (EBADFD).
                Err(_) => {
                    self.paused_until = now + PAUSE;
                    break;
                }
            }
        }
        if super_frames == vnet::SUPER_FRAMES_AT_ONCE {
            batch.close();
        }
        // Prepared packets that no frame has filled.
        small.into_iter().chain(large).for_each(|packet| pool.give(packet));
    }

    /// The kernel accepts a frame within the call.
    fn room(&self) -> usize {
        BATCH
    }

    fn transmit(&mut self, _now: Instant, batch: &mut Batch, pool: &mut Pool) {
        for packet in batch.drain() {
            let header = vnet::header(&packet);
            let parts = [&header[..], packet.bytes(), packet.tail()].map(IoSlice::new);
            let written = loop {
                match writev(self.descriptor(), &parts) {
                    Err(Errno::INTR) => {}
                    other => break other,
                }
            };
            match written {
                Ok(_) => pool.give(packet),
                Err(Errno::IO | Errno::BADFD) => refuse(packet, DropReason::PortDown, &mut self.refused),
                // A contradictory header (EINVAL), or no memory.
                Err(_) => refuse(packet, DropReason::DeviceRefused, &mut self.refused),
            }
        }
        if !self.refused.is_empty() {
            // `batch` is empty after its drain and has its full room again.
            std::mem::swap(batch, &mut self.refused);
        }
    }

    /// The interface's MTU when the port was opened. The kernel accepts longer frames, but hosts behind it may not.
    fn mtu(&self) -> Option<u16> {
        Some(self.mtu)
    }

    fn offloads(&self) -> Offloads {
        Offloads { super_frames: self.offloads, checksums: self.offloads, gather: true }
    }

    fn link_rate(&self) -> Rate {
        Rate::MAX
    }

    /// The kernel's default for each queue of such a device.
    fn ring_size(&self) -> u32 {
        QUEUE
    }

    fn is_up(&self) -> bool {
        sys::has_tun(self.descriptor())
    }

    fn wake_source(&self) -> WakeSource {
        WakeSource::Descriptor(self.descriptor().as_raw_fd())
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        PortStatistics { lost_before_receive: self.losses.as_ref().map_or(0, Losses::count), lost_after_transmit: 0 }
    }
}

/// Frames that the kernel could not send to the port, from /proc/net/dev. A netlink request could wait for another process that changes a link.
#[derive(Debug)]
struct Losses {
    /// The file of the network namespace in which the device was opened, for any reader.
    table: File,
    line: String,
    before: u64,
    /// The last count; it stays after the interface left the namespace.
    now: Cell<u64>,
}

impl Losses {
    fn start(interface: &str) -> Option<Losses> {
        let table = File::open("/proc/thread-self/net/dev").ok()?;
        let mut losses = Losses { table, line: format!("{interface}:"), before: 0, now: Cell::new(0) };
        losses.before = losses.count();
        Some(losses)
    }

    fn count(&self) -> u64 {
        self.now.set(self.read().unwrap_or(self.now.get()));
        self.now.get().saturating_sub(self.before)
    }

    fn read(&self) -> Option<u64> {
        let mut text = Vec::with_capacity(4096);
        let mut part = [0; 4096];
        loop {
            match self.table.read_at(&mut part, text.len() as u64).ok()? {
                0 => break,
                length => text.extend_from_slice(&part[..length]),
            }
        }
        // After the name there are eight columns for reception, then packets, bytes, errors and drops of transmission, which is transmission to the
        // port.
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&self.line))?;
        line.split_ascii_whitespace().nth(11)?.parse().ok()
    }
}
