//! The interface to ports, which receive and transmit packets.
//!
//! Each port is owned by one worker. Ports read no clock: the time is an argument. Real ports are in crate `io`. This module has the in-memory port
//! and the decorators that wrap any port: [`TappedPort`] (captures) and [`FaultyPort`].

mod decorated;
mod dfq_wire;
mod fault;
mod memory;
mod tap;

pub use decorated::{DecoratedPort, PortDecorator};
pub use dfq_wire::{DfqFallback, DfqWireState, DfqWireStatus};
pub use fault::{FaultRates, Faults, FaultyPort};
pub use memory::{MemoryPort, MemoryWire};
pub use tap::{Direction, FrameSink, SharedSink, Tap, TappedPort};

use crate::{Batch, DropReason, Pool};
use units::{Instant, Mac, Rate};

/// The event that wakes an idle worker when a port may have packets to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeSource {
    /// A file descriptor that becomes readable. The port owns it, and it is valid as long as the port.
    Descriptor(i32),
    /// The next packet arrives at this time (a replay).
    At(Instant),
    /// A packet may arrive at any time, and its sender wakes the worker.
    WakesWorker,
    /// A packet may arrive at any time without a wakeup: poll the port.
    Poll,
    /// No packet will arrive any more (the end of a file).
    Never,
}

/// The port's own counters since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStatistics {
    /// Packets lost by the medium before the port could receive them (a full receive ring).
    pub lost_before_receive: u64,
    /// Packets lost by the medium after it had accepted them.
    pub lost_after_transmit: u64,
}

/// Packets that a port accepted and has not sent yet, or never will.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnsentPackets {
    /// The number of packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl UnsentPackets {
    /// Adds one packet of `length` bytes.
    pub fn add(&mut self, length: usize) {
        self.packets += 1;
        self.bytes += length as u64;
    }

    /// Adds the packets of `other`.
    pub fn join(&mut self, other: UnsentPackets) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The offloads and packet forms that a port can transmit without preparation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offloads {
    /// TCP and UDP super-frames with partial checksums: the medium or its reader segments them.
    pub super_frames: bool,
    /// Packets whose transport checksum is partial.
    pub checksums: bool,
    /// Packets that are not in one piece ([`Packet::tail`](crate::Packet::tail)), such as copies to a multicast group.
    pub gather: bool,
}

/// The default size of a receive ring in packets.
const RING: u32 = 1024;

/// A port: receives and transmits packets.
pub trait Port: Send {
    /// Adds received packets to `batch`, at most its room. Each packet has its frame, its arrival time in `timestamp` (see [`Port::sets_timestamps`]), and
    /// `refused` (`DropReason` plus one) if the port knows that it is unusable. Ports that share the pool's region import their packets. Others take
    /// frames from the pool and leave packets without a frame on the medium.
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool);
    /// True if the port sets `timestamp` to the arrival time. Otherwise packets count as arrived when they were received.
    fn sets_timestamps(&self) -> bool {
        true
    }
    /// The number of packets that [`Port::transmit`] accepts now.
    fn room(&self) -> usize;
    /// Sends all of `batch`, at most `room()`. Ports that share the pool's region export; others give the frames back. Packets that the medium
    /// refuses stay in `batch` with `refused` set: they are dropped and not counted as sent.
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool);
    /// Packets that the medium refused after [`Port::transmit`] had returned, because they had to wait or the refusal was late. Each is reported
    /// once.
    fn take_late_refusals(&mut self) -> UnsentPackets {
        UnsentPackets::default()
    }
    /// Packets that were transmitted and have not left. They wait in the port until the medium accepts them, or were refused and not yet reported by
    /// [`Port::take_late_refusals`].
    fn unsent_packets(&self) -> UnsentPackets {
        UnsentPackets::default()
    }
    /// The longest IP packet that the medium carries now, in bytes. `None` for no limit.
    fn mtu(&self) -> Option<u16> {
        None
    }
    /// The rate of the medium in bits per second; [`Rate::MAX`] if it has none.
    fn link_rate(&self) -> Rate;
    /// The size of the receive ring in packets. More packets than this between two receive calls are lost.
    fn ring_size(&self) -> u32 {
        RING
    }
    /// True if the medium exists and is connected.
    fn is_up(&self) -> bool {
        true
    }
    /// The offloads of [`crate::Offload`] that it can transmit. For all others, packets are segmented and checksums completed before.
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }
    /// The event that an idle worker may sleep on.
    fn wake_source(&self) -> WakeSource;
    /// True if packets have arrived for which a worker must be woken, if this can be seen without receiving them.
    fn has_arrivals(&self) -> bool {
        false
    }
    /// True if it may be closed, because nothing sends to it any more. Until then it keeps its packets.
    fn may_close(&self) -> bool {
        true
    }
    /// Packets that it accepted and no receiver will take, each reported once: those of a relay whose other worker is gone.
    fn take_abandoned(&mut self) -> usize {
        0
    }
    /// The link-layer address of the medium, if it has one.
    fn mac(&self) -> Option<Mac> {
        None
    }
    /// Called about ten times a second, also if the port is silent: a port that talks to its other end keeps in touch. Returns the new state of its
    /// wire if that has changed.
    fn maintain(&mut self, _now: Instant, _pool: &mut Pool) -> Option<DfqWireState> {
        None
    }
    /// The port is about to be closed, or to lose its decorators: a port that talks to its other end takes leave.
    fn take_leave(&mut self, _now: Instant, _pool: &mut Pool) {}
    /// The state of its wire, if it multiplexes quanta.
    fn dfq_wire(&self) -> Option<DfqWireStatus> {
        None
    }
    /// The port without its decorators.
    fn undecorated(self: Box<Self>) -> Box<dyn Port>;
    /// The port's own counters.
    fn statistics(&self) -> PortStatistics {
        PortStatistics::default()
    }
}

/// Leaves `packet` in `batch` as refused by the medium: see [`Port::transmit`].
pub fn refuse(mut packet: crate::Packet, reason: DropReason, batch: &mut Batch) {
    packet.meta_mut().refused = reason as u8 + 1;
    batch.push(packet);
}

/// The reason for which a port refused a packet.
pub fn refusal_reason(packet: &crate::Packet) -> Option<DropReason> {
    DropReason::ALL.get(usize::from(packet.meta().refused).wrapping_sub(1)).copied()
}

/// Ends the packets that a port refused, for callers that send without a link. Returns their number.
pub fn discard_refused(batch: &mut Batch, pool: &mut Pool) -> u64 {
    let refused = batch.len() as u64;
    batch.drain().for_each(|packet| pool.give(packet));
    refused
}
