//! The packets that rules log, until the control side reads them. The log is bounded in size and rate, so that a flood of logged packets costs little.

use packet::Packet;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use units::{Bucket, Instant, InterfaceId, PathId};

/// The packets that may be logged in a second, and at once.
const RATE: (u64, u64) = (100, 200);
/// The most packets that wait for the control side.
const CAPACITY: usize = 1024;
/// The bytes of a frame that are kept: link header, IPv6 header with extensions, and transport header.
const KEPT: usize = 128;

/// A logged packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedPacket {
    /// The time.
    pub at: Instant,
    /// The path whose filter has logged it.
    pub path: PathId,
    /// The counter of the rule.
    pub rule: u32,
    /// The input interface.
    pub interface: InterfaceId,
    /// The first bytes of the frame.
    pub head: Vec<u8>,
    /// The length of the frame in bytes.
    pub length: usize,
}

impl LoggedPacket {
    /// A packet that the rule with this counter logs.
    pub fn new(path: PathId, rule: u32, at: Instant, packet: &Packet) -> LoggedPacket {
        let bytes = packet.bytes();
        let (head, length) = (bytes[..bytes.len().min(KEPT)].to_vec(), bytes.len());
        LoggedPacket { at, path, rule, interface: packet.meta().in_interface, head, length }
    }
}

/// The log of a router.
pub struct PacketLog {
    state: Mutex<State>,
}

struct State {
    packets: VecDeque<LoggedPacket>,
    bucket: Bucket,
    left_out: u64,
}

impl Default for PacketLog {
    fn default() -> Self {
        let (rate, burst) = RATE;
        let bucket = Bucket::per_second(rate, burst);
        PacketLog { state: Mutex::new(State { packets: VecDeque::new(), bucket, left_out: 0 }) }
    }
}

impl fmt::Debug for PacketLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketLog").field("packets", &self.state.lock().packets.len()).finish_non_exhaustive()
    }
}

impl PacketLog {
    /// Adds a packet unless the log is full or there were too many.
    pub(crate) fn add(&self, now: Instant, packet: impl FnOnce() -> LoggedPacket) {
        let mut state = self.state.lock();
        if state.packets.len() < CAPACITY && state.bucket.take(now) {
            state.packets.push_back(packet());
        } else {
            state.left_out += 1;
        }
    }

    /// Takes all packets out, and the number of packets that were left out since the last time.
    pub fn take(&self) -> (Vec<LoggedPacket>, u64) {
        let mut state = self.state.lock();
        let left_out = std::mem::take(&mut state.left_out);
        (std::mem::take(&mut state.packets).into(), left_out)
    }
}
