//! The rings as a port of the router.

use super::ring::Received;
use super::{Device, OpenError, PacketOptions, Tenure, open};
use crate::{offload, sys};
use packet::pool::FRAME;
use packet::wire::complete_checksum;
use packet::{Batch, DropReason, Packet, Pool};
use plane::port::{Port, PortStatistics, Waiter};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use units::{Instant, Mac, Nanos, Rate};

const TAG: usize = 4;
const TPID_8021Q: u16 = 0x8100;
/// A frame that was refused so often, and for so long, will not be taken at all. A full queue of the interface empties
/// sooner.
const REFUSALS: (u32, Nanos) = (16, Nanos::millis(10));
/// Receives in a row that found nothing, after which the socket is asked whether it has failed.
const QUIET: u32 = 16;

/// A `packet:` port. Closing it gives the interface back to the host as it was.
#[derive(Debug)]
pub struct PacketPort {
    device: Device,
    rate: Rate,
    /// The next slot to look at for a frame.
    receive: usize,
    /// The next slot to fill.
    send: usize,
    /// The oldest slot that was filled and not yet seen free, and how many there are; looked after when asked for room.
    oldest: Cell<usize>,
    outstanding: Cell<usize>,
    lost_before_receive: Cell<u64>,
    lost_after_transmit: u64,
    /// The slot the interface refuses to send, how often it has, and since when.
    refused: Option<(usize, u32, Instant)>,
    /// Empty receives in a row.
    quiet: u32,
}

impl PacketPort {
    /// Opens an interface of the network namespace of the calling thread; the port can then be used in any. Also answers
    /// remarks for the operator on what could not be had. Needs CAP_NET_RAW there.
    pub fn open(interface: &str, options: &PacketOptions) -> Result<(Self, Vec<String>), OpenError> {
        Self::open_beside(interface, options, |_| None)
    }

    /// As [`PacketPort::open`]; `held` says whether another port has the interface.
    pub(super) fn open_beside(
        interface: &str,
        options: &PacketOptions,
        held: impl FnOnce(u32) -> Option<Arc<Tenure>>,
    ) -> Result<(Self, Vec<String>), OpenError> {
        let (device, remarks) = open(interface, options, held)?;
        let rate = offload::link_rate(&device.socket, interface).unwrap_or(Rate::MAX);
        let port = PacketPort {
            device,
            rate,
            receive: 0,
            send: 0,
            oldest: Cell::new(0),
            outstanding: Cell::new(0),
            lost_before_receive: Cell::new(0),
            lost_after_transmit: 0,
            refused: None,
            quiet: 0,
        };
        Ok((port, remarks))
    }

    /// The index of its interface.
    pub fn index(&self) -> u32 {
        self.device.link.index
    }

    /// What was changed about its interface.
    pub(super) fn tenure(&self) -> &Arc<Tenure> {
        &self.device.tenure
    }

    /// The largest packet the interface took when it was opened, in bytes without the link header.
    pub fn mtu(&self) -> u32 {
        self.device.link.mtu
    }

    /// What keeps the host's own stack out; nothing where it is not kept out.
    pub fn ingress_drop(&self) -> Option<&'static str> {
        self.device.tenure.ingress.as_ref().map(|drop| drop.mechanism())
    }

    /// Asks the kernel to send what was requested. What it cannot take now stays requested and is asked for again.
    fn kick(&mut self, now: Instant) {
        // Twice: where the interface was switched off since, the first try only fetches that news (ENETDOWN).
        for _ in 0..2 {
            match send(&self.device.socket, &[], SendFlags::DONTWAIT) {
                Err(Errno::INTR | Errno::NETDOWN) => {}
                Err(Errno::NOBUFS) => return self.after_refusal(now),
                // Success, or: no memory for frames in flight (EAGAIN), or it is gone (ENXIO).
                _ => {
                    self.refused = None;
                    return;
                }
            }
        }
    }

    /// The interface has dropped a frame and says so, in which case the kernel tries it again before all others. That may
    /// be for lack of room; but a veth drops for ever what its other end is too small for.
    fn after_refusal(&mut self, now: Instant) {
        let mut slot = self.oldest.get();
        let mut requested = (0..self.outstanding.get()).map(|_| {
            let this = slot;
            slot = self.device.rings.after_sending(slot);
            this
        });
        let Some(refused) = requested.find(|&slot| self.device.rings.is_requested(slot)) else { return };
        match &mut self.refused {
            Some((slot, count, since)) if *slot == refused => {
                *count += 1;
                if *count >= REFUSALS.0 && now.since(*since) >= REFUSALS.1 {
                    self.device.rings.give_up(refused);
                    self.lost_after_transmit += 1;
                    self.refused = None;
                }
            }
            other => *other = Some((refused, 1, now)),
        }
    }

    /// Counts off slots that the kernel has given back, oldest first.
    fn collect(&self) {
        let (mut oldest, mut outstanding) = (self.oldest.get(), self.outstanding.get());
        while outstanding > 0 && self.device.rings.is_free(oldest) {
            oldest = self.device.rings.after_sending(oldest);
            outstanding -= 1;
        }
        self.oldest.set(oldest);
        self.outstanding.set(outstanding);
    }

    /// Whether frames wait that the kernel could not take when it was last asked.
    fn is_blocked(&self) -> bool {
        self.collect();
        self.outstanding.get() > 0 && self.device.rings.is_requested(self.oldest.get())
    }

    /// A socket error (the interface was switched off) keeps the descriptor readable until it is asked for.
    fn after_empty_receive(&mut self) {
        self.quiet += 1;
        if self.quiet >= QUIET {
            self.quiet = 0;
            let _ = sys::get_option(&self.device.socket, libc::SOL_SOCKET, libc::SO_ERROR, 0i32);
        }
    }
}

/// Copies a frame out of its slot, with its tag put back and its checksum filled in.
fn take_over(frame: &Received<'_>, packet: &mut Packet) {
    let tagged = frame.status & libc::TP_STATUS_VLAN_VALID != 0 && frame.bytes.len() >= 12;
    let length = frame.bytes.len() + if tagged { TAG } else { 0 };
    if frame.length > frame.bytes.len() || length > packet.most() {
        packet.fill(&frame.bytes[..frame.bytes.len().min(packet.most())]);
        packet.meta_mut().refused = DropReason::FrameTooLong as u8 + 1;
        return;
    }
    if tagged {
        let (control, protocol) = frame.tag;
        let known = frame.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let resized = packet.resize(length);
        assert!(resized, "a frame of the pool holds {} bytes", packet.most());
        let bytes = packet.bytes_mut();
        bytes[..12].copy_from_slice(&frame.bytes[..12]);
        bytes[12..14].copy_from_slice(&(if known { protocol } else { TPID_8021Q }).to_be_bytes());
        bytes[14..16].copy_from_slice(&control.to_be_bytes());
        bytes[16..].copy_from_slice(&frame.bytes[12..]);
    } else {
        packet.fill(frame.bytes);
    }
    if frame.status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        let header = if packet.bytes().get(12..14) == Some(&TPID_8021Q.to_be_bytes()) { 18 } else { 14 };
        if let Some(l3) = packet.bytes_mut().get_mut(header..) {
            // What is malformed is found and dropped by the router.
            let _ = complete_checksum(l3);
        }
    }
}

impl Port for PacketPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let before = batch.len();
        while batch.room() > 0 {
            let Some(frame) = self.device.rings.received(self.receive) else { break };
            let large = frame.bytes.len() + TAG > FRAME && pool.region().super_frames() > 0;
            let Some(mut packet) = (if large { pool.take_super() } else { pool.take() }) else { break };
            take_over(&frame, &mut packet);
            packet.meta_mut().timestamp = now;
            batch.push(packet);
            self.device.rings.release(self.receive);
            self.receive = self.device.rings.after_receiving(self.receive);
        }
        if batch.len() > before {
            self.quiet = 0;
        } else {
            self.after_empty_receive();
        }
        if self.is_blocked() {
            self.kick(now);
        }
    }

    fn room(&self) -> usize {
        self.collect();
        self.device.rings.send_slots() - self.outstanding.get()
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        assert!(batch.len() <= self.room(), "never more than there is room for");
        let longest = self.device.rings.longest().min(self.device.link.mtu as usize + super::LINK_HEADER);
        for packet in batch.drain() {
            if packet.len() > longest {
                self.lost_after_transmit += 1;
            } else {
                self.device.rings.request(self.send, packet.bytes());
                self.send = self.device.rings.after_sending(self.send);
                self.outstanding.set(self.outstanding.get() + 1);
            }
            pool.give(packet);
        }
        if self.outstanding.get() > 0 {
            self.kick(now);
        }
    }

    fn link_rate(&self) -> Rate {
        self.rate
    }

    /// Asks the kernel each time: a system call.
    fn is_up(&self) -> bool {
        sys::is_running(&self.device.socket, &self.device.link.name, self.device.link.index)
    }

    fn waiter(&self) -> Waiter {
        if self.is_blocked() && self.is_up() {
            Waiter::Poll
        } else {
            Waiter::Descriptor(self.device.socket.as_raw_fd())
        }
    }

    fn mac(&self) -> Option<Mac> {
        Some(self.device.link.mac)
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        // Reading the kernel's counters sets them to zero.
        let none = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        if let Ok(counted) = sys::get_option(&self.device.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, none) {
            self.lost_before_receive.set(self.lost_before_receive.get() + u64::from(counted.tp_drops));
        }
        PortStatistics {
            lost_before_receive: self.lost_before_receive.get(),
            lost_after_transmit: self.lost_after_transmit,
        }
    }
}
