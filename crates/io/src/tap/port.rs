//! One queue of a tap device as a port of the router.

use super::{Device, HEADER};
use crate::sys;
use packet::pool::FRAME;
use packet::{BATCH, Batch, DropReason, Pool};
use plane::port::{Port, PortStatistics, Waiter};
use rustix::io::{Errno, readv, writev};
use std::cell::Cell;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use units::{Instant, Nanos, Rate};

/// How long nothing is read after nothing was there: a worker that looks around has other ports too, and each look here
/// is a system call.
const PAUSE: Nanos = Nanos::micros(2);

/// A `tap:` port.
#[derive(Debug)]
pub struct TapPort {
    device: Arc<Device>,
    queue: usize,
    /// Before when nothing is read.
    rests: Instant,
    lost_after_transmit: u64,
    /// Counts what the kernel could not leave in the device's queue: for the first port of a device, which speaks for all.
    losses: Option<Losses>,
}

impl TapPort {
    pub(super) fn new(device: Arc<Device>, queue: usize) -> TapPort {
        let losses = if queue == 0 { Losses::from_now_on(&device.name) } else { None };
        TapPort { device, queue, rests: Instant::START, lost_after_transmit: 0, losses }
    }

    pub(super) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.queues[self.queue].as_fd()
    }
}

impl Port for TapPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        if now < self.rests {
            return;
        }
        while batch.room() > 0 {
            let Some(mut packet) = pool.take() else { break };
            let resized = packet.resize(FRAME);
            assert!(resized, "a frame of the pool holds {FRAME} bytes");
            // The kernel cuts what is longer, and does not say so: one byte more tells.
            let (mut header, mut beyond) = ([0; HEADER], [0; 1]);
            let mut parts = [&mut header[..], packet.bytes_mut(), &mut beyond].map(IoSliceMut::new);
            let length = match readv(self.descriptor(), &mut parts) {
                Ok(length) => length.saturating_sub(HEADER),
                Err(error) => {
                    pool.give(packet);
                    if error == Errno::INTR {
                        continue;
                    }
                    // Nothing there (EAGAIN), or no device any more (EBADFD).
                    self.rests = now + PAUSE;
                    break;
                }
            };
            packet.resize(length.min(FRAME));
            if length > FRAME {
                packet.meta_mut().refused = DropReason::FrameTooLong as u8 + 1;
            }
            packet.meta_mut().timestamp = now;
            batch.push(packet);
        }
    }

    /// The kernel takes a frame within the call.
    fn room(&self) -> usize {
        BATCH
    }

    fn transmit(&mut self, _now: Instant, batch: &mut Batch, pool: &mut Pool) {
        for packet in batch.drain() {
            let parts = [IoSlice::new(&[0; HEADER]), IoSlice::new(packet.bytes())];
            let written = loop {
                match writev(self.descriptor(), &parts) {
                    Err(Errno::INTR) => {}
                    other => break other,
                }
            };
            // The interface is switched off (EIO), gone (EBADFD), or refuses the frame (EINVAL).
            self.lost_after_transmit += u64::from(written.is_err());
            pool.give(packet);
        }
    }

    fn link_rate(&self) -> Rate {
        Rate::MAX
    }

    fn is_up(&self) -> bool {
        sys::has_tun(self.descriptor())
    }

    fn waiter(&self) -> Waiter {
        Waiter::Descriptor(self.descriptor().as_raw_fd())
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        PortStatistics {
            lost_before_receive: self.losses.as_ref().map_or(0, Losses::count),
            lost_after_transmit: self.lost_after_transmit,
        }
    }
}

/// Frames the kernel could not send to us, from /proc/net/dev: asking by netlink could wait for whoever changes a link.
#[derive(Debug)]
struct Losses {
    /// That of the network namespace the device was opened in, whoever reads it.
    table: File,
    line: String,
    before: u64,
    /// The last count; it stays where the interface has left the namespace.
    now: Cell<u64>,
}

impl Losses {
    fn from_now_on(interface: &str) -> Option<Losses> {
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
        // After the name eight columns of what was received, then packets, bytes, errors and drops of what was sent: here,
        // sent to us.
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&self.line))?;
        line.split_ascii_whitespace().nth(11)?.parse().ok()
    }
}
