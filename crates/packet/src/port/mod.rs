//! A place packets come from and go to.
//!
//! Ports are owned by one worker each. They read no clock: the time is an argument. Real ones live in crate `io`; here
//! are the in-memory port and the decorators that wrap any port: [`Tapped`] (captures) and [`Faulty`].

mod decorated;
mod fault;
mod memory;
mod tap;

pub use decorated::{Decorated, Decoration};
pub use fault::{FaultRates, Faults, Faulty};
pub use memory::{Memory, Wire};
pub use tap::{Direction, FrameSink, SharedSink, Tap, Tapped};

use crate::{Batch, DropReason, Pool};
use units::{Instant, Mac, Rate};

/// What an idle worker may sleep on until a port has something to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiter {
    /// A file descriptor that becomes readable. Owned by the port: valid as long as the port is.
    Descriptor(i32),
    /// Something arrives at this time (a replay).
    At(Instant),
    /// Something may arrive at any time, and whoever brings it wakes the worker.
    Rung,
    /// Something may arrive at any time without a sign: poll it.
    Poll,
    /// Nothing will ever arrive again (the end of a file).
    Never,
}

/// What a port has counted about itself, since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStatistics {
    /// Packets the medium lost before the port could receive them (a full receive ring).
    pub lost_before_receive: u64,
    /// Packets the medium lost after it had accepted them.
    pub lost_after_transmit: u64,
}

/// Packets a port was given that have not left, or never will.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unsent {
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Unsent {
    /// One more of `length` bytes.
    pub fn add(&mut self, length: usize) {
        self.packets += 1;
        self.bytes += length as u64;
    }

    /// As many more as there are in `other`.
    pub fn join(&mut self, other: Unsent) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// What a port can transmit besides packets with nothing left to be done to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offloads {
    /// Super-frames, TCP and UDP, with their checksums partial: the medium, or who reads from it, cuts them.
    pub super_frames: bool,
    /// Packets whose transport checksum is partial.
    pub checksums: bool,
    /// Packets that are not in one piece ([`Packet::tail`](crate::Packet::tail)), as copies to a multicast group are.
    pub gather: bool,
}

/// Packets of a receive ring where a port does not say otherwise.
const RING: u32 = 1024;

/// A place packets come from and go to.
pub trait Port: Send {
    /// Adds what has come in to `batch`, at most its room. Each packet has its frame, `timestamp` set to when it came
    /// (see [`Port::stamps`]), and `refused` set where the port knows it to be unusable (`DropReason` plus one). Ports that share the pool's region import;
    /// others take frames from it and leave on the medium what finds no frame.
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool);
    /// Whether it knows when packets came, and has set their `timestamp`. Where not, they came when they were received.
    fn stamps(&self) -> bool {
        true
    }
    /// How many packets [`Port::transmit`] can take now.
    fn room(&self) -> usize;
    /// Sends all of `batch`, at most `room()`. Ports that share the pool's region export; others give the frames back. Packets
    /// that the medium refuses stay in `batch`, with `refused` set: they are dropped, and never counted as sent.
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool);
    /// Packets that the medium has refused after [`Port::transmit`] had returned, each counted once: they had to wait, or the
    /// refusal came late.
    fn refused_late(&mut self) -> Unsent {
        Unsent::default()
    }
    /// Packets that were transmitted and have not left: they wait in the port because the medium cannot accept them yet, or it has
    /// refused them and [`Port::refused_late`] has not told.
    fn waiting_inside(&self) -> Unsent {
        Unsent::default()
    }
    /// The longest IP packet that the medium carries now, in bytes; nothing where it has no bound.
    fn mtu(&self) -> Option<u16> {
        None
    }
    /// What the medium carries, in bits per second; [`Rate::MAX`] where it has no rate of its own.
    fn link_rate(&self) -> Rate;
    /// Packets that its receive ring holds: more than these are lost between two times it is received by.
    fn ring(&self) -> u32 {
        RING
    }
    /// Whether the medium is there and connected.
    fn is_up(&self) -> bool {
        true
    }
    /// What it can transmit of [`crate::Offload`]. What it cannot is done before: packets are cut and sums completed.
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }
    /// What an idle worker may sleep on.
    fn waiter(&self) -> Waiter;
    /// Whether something has arrived that a worker would have to be woken for: only where that shows without receiving it.
    fn has_arrivals(&self) -> bool {
        false
    }
    /// Whether it may be closed: nobody brings it packets any more. A port that may not keeps them until then.
    fn may_go(&self) -> bool {
        true
    }
    /// Packets it was given that nobody will ever take, counted once: of a relay, when the other worker is gone.
    fn forsaken(&mut self) -> usize {
        0
    }
    /// The link-layer address of the medium, if it has one.
    fn mac(&self) -> Option<Mac> {
        None
    }
    /// The port without its decorators.
    fn undecorated(self: Box<Self>) -> Box<dyn Port>;
    /// What the port has counted.
    fn statistics(&self) -> PortStatistics {
        PortStatistics::default()
    }
}

/// Leaves `packet` in `batch` as refused by the medium: see [`Port::transmit`].
pub fn refuse(mut packet: crate::Packet, reason: DropReason, batch: &mut Batch) {
    packet.meta_mut().refused = reason as u8 + 1;
    batch.push(packet);
}

/// The reason a stage refused a packet for.
pub fn refusal(packet: &crate::Packet) -> Option<DropReason> {
    DropReason::ALL.get(usize::from(packet.meta().refused).wrapping_sub(1)).copied()
}

/// Ends what a port has handed back, for who sends by it without a link before it. Answers how many packets.
pub fn discard_refused(batch: &mut Batch, pool: &mut Pool) -> u64 {
    let refused = batch.len() as u64;
    batch.drain().for_each(|packet| pool.give(packet));
    refused
}
