//! The receive ring and the sender as a port of the router.

use super::ring::SlotFrame;
use super::transmit::TransmitQueue;
use super::{InterfaceChanges, OpenError, PacketDevice, PacketOptions, open};
use crate::{clock, offload, sys, vnet};
use packet::pool::{FRAME, SUPER_FRAME};
use packet::port::{Offloads, Port, PortStatistics, UnsentPackets, WakeSource};
use packet::wire::{TagStack, complete_checksum};
use packet::{Batch, DropReason, Packet, Pool};
use rustix::io::readv;
use std::cell::Cell;
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use units::{Instant, Mac, Nanos, Rate};

/// Length of destination and source address, which precede a tag.
const MACS: usize = 12;
const TAG: usize = 4;
const TPID_8021Q: u16 = 0x8100;
/// Empty receive calls in a row after which the socket is checked for an error.
const EMPTY_RECEIVES: u32 = 16;
/// The longest plausible time of a frame in the ring: the system's clock may be set meanwhile.
const MOST_RING_DELAY: Nanos = Nanos::millis(100);

/// A `packet:` port, or one queue of it. Closing it returns the interface to the host with its original settings.
#[derive(Debug)]
pub struct PacketPort {
    device: PacketDevice,
    rate: Rate,
    /// The next slot to check for a frame.
    receive: usize,
    /// Use the kernel's timestamps as arrival times.
    kernel_timestamps: bool,
    transmit_queue: TransmitQueue,
    lost_before_receive: Cell<u64>,
    /// Empty receives in a row.
    empty_receives: u32,
}

impl PacketPort {
    /// Opens an interface of the network namespace of the calling thread; the port can then be used in any. Also returns advisories about missing
    /// features. Needs CAP_NET_RAW there.
    pub fn open(interface: &str, options: &PacketOptions) -> Result<(Self, Vec<String>), OpenError> {
        let (mut ports, warnings) = Self::open_queues(interface, options, 1, |_| None)?;
        Ok((ports.remove(0), warnings))
    }

    /// Like [`PacketPort::open`], for at most `queues` ports, among which the kernel spreads flows. `held` tests if another port has the interface.
    pub(super) fn open_queues(
        interface: &str,
        options: &PacketOptions,
        queues: usize,
        held: impl FnOnce(u32) -> Option<Arc<InterfaceChanges>>,
    ) -> Result<(Vec<Self>, Vec<String>), OpenError> {
        let (devices, warnings) = open(interface, options, queues, held)?;
        let port = |device: PacketDevice| PacketPort {
            rate: offload::link_rate(&device.socket, interface).unwrap_or(Rate::MAX),
            receive: 0,
            kernel_timestamps: options.kernel_timestamps,
            transmit_queue: TransmitQueue::new(device.offloads),
            device,
            lost_before_receive: Cell::new(0),
            empty_receives: 0,
        };
        Ok((devices.into_iter().map(port).collect(), warnings))
    }

    /// The index of its interface.
    pub fn index(&self) -> u32 {
        self.device.link.index
    }

    /// The changes to its interface.
    pub(super) fn changes(&self) -> &Arc<InterfaceChanges> {
        &self.device.changes
    }

    /// The MTU of the interface when it was opened, in bytes without the link header.
    pub fn mtu(&self) -> u32 {
        self.device.link.mtu
    }

    /// The mechanism that stops the host's stack, `None` without one.
    pub fn ingress_drop(&self) -> Option<&'static str> {
        self.device.changes.ingress_drop().map(|drop| drop.mechanism())
    }

    /// Makes a packet from the frame in a slot, or returns the reason why it cannot.
    fn make_packet(&self, frame: &SlotFrame<'_>, pool: &mut Pool) -> Result<Packet, ReceiveFailure> {
        // The tag belongs after both addresses, so a frame without them stays untagged.
        let tagged = frame.status & libc::TP_STATUS_VLAN_VALID != 0 && frame.bytes.len() >= MACS;
        let length = frame.length + if tagged { TAG } else { 0 };
        let queued = frame.status & libc::TP_STATUS_COPY != 0;
        // Truncated and not queued: the socket had no room for the whole frame.
        if frame.length > frame.bytes.len() && !queued {
            return Err(ReceiveFailure::Lost);
        }
        let packet = if length <= SUPER_FRAME { pool.take_for(length) } else { None };
        let Some(mut packet) = packet else {
            return Err(if length <= FRAME { ReceiveFailure::NoFrame } else { ReceiveFailure::TooLong });
        };
        let resized = packet.resize(length);
        assert!(resized, "it was taken for so many bytes");
        let (macs, rest) = packet.bytes_mut().split_at_mut(MACS.min(length));
        let rest = if tagged {
            let (tag, rest) = rest.split_at_mut(TAG);
            let (control, protocol) = frame.tag;
            // Without the flag the kernel does not report the tag's type, and 802.1Q is assumed.
            let known = frame.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            tag[..2].copy_from_slice(&(if known { protocol } else { TPID_8021Q }).to_be_bytes());
            tag[2..].copy_from_slice(&control.to_be_bytes());
            rest
        } else {
            rest
        };
        if queued {
            let mut header = [0; vnet::HEADER];
            let prefix = &mut header[..if self.device.offloads { vnet::HEADER } else { 0 }];
            let mut parts = [prefix, macs, rest].map(IoSliceMut::new);
            // The kernel queued it before it passed the slot.
            if !readv(&self.device.socket, &mut parts).is_ok_and(|got| got >= frame.length) {
                pool.give(packet);
                return Err(ReceiveFailure::Lost);
            }
        } else {
            macs.copy_from_slice(&frame.bytes[..macs.len()]);
            rest.copy_from_slice(&frame.bytes[macs.len()..]);
        }
        if !self.device.offloads {
            if frame.status & libc::TP_STATUS_CSUMNOTREADY != 0 {
                complete(&mut packet);
            }
        } else if vnet::store_offload(&frame.header, if tagged { TAG as u16 } else { 0 }, &mut packet).is_err() {
            packet.meta_mut().refused = DropReason::BadOffload as u8 + 1;
        }
        Ok(packet)
    }

    /// A received frame that cannot be forwarded: its beginning, with the drop reason.
    #[cold]
    fn refuse(&self, frame: &SlotFrame<'_>, pool: &mut Pool) -> Option<Packet> {
        let mut packet = pool.take()?;
        packet.fill(&frame.bytes[..frame.bytes.len().min(FRAME)]);
        // A tag may have to be inserted, so its bytes count.
        let most = if pool.region().super_frames() > 0 { SUPER_FRAME } else { FRAME };
        let reason = if frame.length + TAG > most { DropReason::FrameTooLong } else { DropReason::NoSuperFrame };
        packet.meta_mut().refused = reason as u8 + 1;
        self.discard(frame);
        Some(packet)
    }

    /// Discards the part of the frame in the socket's queue.
    fn discard(&self, frame: &SlotFrame<'_>) {
        if frame.status & libc::TP_STATUS_COPY != 0 {
            // A read of one byte removes the whole frame from the queue.
            let _ = readv(&self.device.socket, &mut [IoSliceMut::new(&mut [0; 1])]);
        }
    }

    /// A socket error (the interface is down) keeps the descriptor readable until it is read.
    fn count_empty_receive(&mut self) {
        self.empty_receives += 1;
        if self.empty_receives >= EMPTY_RECEIVES {
            self.empty_receives = 0;
            // Reading the error clears it.
            let _ = sys::get_option(&self.device.socket, libc::SOL_SOCKET, libc::SO_ERROR, 0i32);
        }
    }
}

/// The reason why a frame in a slot becomes no packet.
enum ReceiveFailure {
    /// The kernel could not keep it: the socket's queue is full.
    Lost,
    /// The pool has no frame for it now.
    NoFrame,
    /// It exceeds every frame, or needs a super-frame and none is free.
    TooLong,
}

/// The arrival time of a frame with this kernel timestamp, at most `now`: later waiting times count from it.
fn arrival_time(stamp: Nanos, epoch: Nanos, now: Instant) -> Instant {
    let earliest = now.get().saturating_sub(MOST_RING_DELAY.get());
    Instant::new(stamp.get().saturating_sub(epoch.get()).clamp(earliest, now.get()))
}

/// Completes the checksum that a sender on this machine left to a network card.
fn complete(packet: &mut Packet) {
    let frame = packet.bytes_mut();
    let header = TagStack::of(frame).and_then(|stack| stack.ip_header(frame));
    if let Some(l3) = header.and_then(|(at, _)| frame.get_mut(at..)) {
        // The router itself finds and drops malformed packets.
        let _ = complete_checksum(l3);
    }
}

impl Port for PacketPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let (mut found, mut epoch, mut super_frames) = (false, None, 0);
        while batch.room() > 0 && super_frames < vnet::SUPER_FRAMES_AT_ONCE {
            let Some(frame) = self.device.ring.received(self.receive) else { break };
            let came = match self.kernel_timestamps {
                // The clocks are read once for all frames of a call.
                true => arrival_time(frame.arrival, *epoch.get_or_insert_with(clock::epoch), now),
                false => now,
            };
            let packet = match self.make_packet(&frame, pool) {
                Ok(packet) => Some(packet),
                // The frame stays in its slot, which is still the router's, until the pool has room.
                Err(ReceiveFailure::NoFrame) => break,
                Err(ReceiveFailure::TooLong) => match self.refuse(&frame, pool) {
                    Some(packet) => Some(packet),
                    None => break,
                },
                Err(ReceiveFailure::Lost) => {
                    self.lost_before_receive.set(self.lost_before_receive.get() + 1);
                    None
                }
            };
            if let Some(mut packet) = packet {
                super_frames += usize::from(packet.is_large());
                packet.meta_mut().timestamp = came;
                batch.push(packet);
            }
            found = true;
            self.device.ring.release(self.receive);
            self.receive = self.device.ring.after(self.receive);
        }
        if super_frames == vnet::SUPER_FRAMES_AT_ONCE {
            batch.close();
        }
        if found {
            self.empty_receives = 0;
        } else {
            self.count_empty_receive();
        }
        if self.transmit_queue.is_blocked() {
            self.transmit_queue.retry(&self.device.socket, now, pool);
        }
    }

    fn room(&self) -> usize {
        self.transmit_queue.room()
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.transmit_queue.send(&self.device.socket, now, batch, pool);
    }

    fn take_late_refusals(&mut self) -> UnsentPackets {
        self.transmit_queue.refused_late()
    }

    fn unsent_packets(&self) -> UnsentPackets {
        self.transmit_queue.waiting()
    }

    /// Asks the kernel each time, by a system call. A removed interface keeps its last MTU.
    fn mtu(&self) -> Option<u16> {
        let link = &self.device.link;
        let mtu = sys::interface_mtu(&self.device.socket, &link.name).unwrap_or(link.mtu);
        Some(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    fn offloads(&self) -> Offloads {
        Offloads { super_frames: self.device.offloads, checksums: self.device.offloads, gather: true }
    }

    fn ring_size(&self) -> u32 {
        self.device.ring.slots() as u32
    }

    fn link_rate(&self) -> Rate {
        self.rate
    }

    /// Asks the kernel each time, by a system call.
    fn is_up(&self) -> bool {
        sys::is_running(&self.device.socket, &self.device.link.name, self.device.link.index)
    }

    fn wake_source(&self) -> WakeSource {
        // Room in the interface makes no descriptor readable, so a blocked port is polled. If the interface is down, polling would only use the
        // processor.
        if self.transmit_queue.is_blocked() && self.is_up() {
            WakeSource::Poll
        } else {
            WakeSource::Descriptor(self.device.socket.as_raw_fd())
        }
    }

    fn has_arrivals(&self) -> bool {
        self.device.ring.received(self.receive).is_some()
    }

    fn mac(&self) -> Option<Mac> {
        Some(self.device.link.mac)
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        // Reading the kernel's counters resets them.
        let none = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        if let Ok(counted) = sys::get_option(&self.device.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, none) {
            self.lost_before_receive.set(self.lost_before_receive.get() + u64::from(counted.tp_drops));
        }
        PortStatistics { lost_before_receive: self.lost_before_receive.get(), lost_after_transmit: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_timestamp_is_used_unless_the_clock_was_set() {
        let (epoch, now) = (Nanos::secs(1_000), Instant::new(5_000_000_000));
        let came = |nanos: u64| arrival_time(Nanos::new(epoch.get() + nanos), epoch, now).get();
        assert_eq!(came(4_999_000_000), 4_999_000_000);
        assert_eq!(came(5_000_000_007), 5_000_000_000, "nothing comes later than it is found");
        assert_eq!(came(1), 4_900_000_000);
        assert_eq!(super::arrival_time(Nanos::ZERO, epoch, now).get(), 4_900_000_000);
    }
}
