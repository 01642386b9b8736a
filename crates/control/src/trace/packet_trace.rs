//! The recorded stages of one packet.

use packet::Meta;
use packet::event::{Fate, Stage};
use packet::wire::{FieldDifference, differences};
use units::{Instant, InterfaceId, Nanos, PathId, PortId};

/// The most stages kept of a packet, more than any path without a loop has.
const MOST_STAGES: usize = 64;

/// The trace of one packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketTrace {
    /// The time of its arrival.
    pub time: Instant,
    /// The frame as received.
    pub frame: Vec<u8>,
    /// The frame as sent, if it was sent.
    pub sent: Option<Vec<u8>>,
    /// The stages, with the time since its arrival.
    pub stages: Vec<(Nanos, TraceStage)>,
    /// Stages that were not kept.
    pub skipped: usize,
    /// Its fate; none if the trace ended before.
    pub fate: Option<Fate>,
    /// The time from its arrival to the latest stage.
    pub elapsed: Nanos,
    /// The frame at the latest stage.
    last: Vec<u8>,
}

/// A stage of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceStage {
    /// Received on a port.
    Received {
        /// The port.
        port: PortId,
        /// Bytes of the frame.
        length: usize,
    },
    /// Classified.
    Classified {
        /// The ingress interface.
        interface: InterfaceId,
        /// The egress interface, if it is to be sent.
        out: InterfaceId,
        /// Its path.
        path: PathId,
        /// Why the local protocols have to process it: a code of the plane, zero for none.
        exception: u8,
        /// Why it is refused: a drop reason plus one, zero for none.
        refused: u8,
    },
    /// Created as a copy for a multicast group, to leave by this interface.
    Copied(InterfaceId),
    /// Waiting for its path.
    Waiting {
        /// The path.
        path: PathId,
        /// Packets ahead of it.
        behind: usize,
    },
    /// Processed by a function.
    Function {
        /// The path.
        path: PathId,
        /// The function's position in it.
        index: usize,
        /// The fields it changed.
        changes: Vec<FieldDifference>,
    },
    /// With the local protocols.
    Host(u8),
    /// Offered to a link.
    Offered {
        /// Its port.
        port: PortId,
        /// Packets ahead of it.
        packets: u32,
        /// Bytes ahead of it.
        bytes: u64,
        /// True if it passes the idle scheme by.
        passes: bool,
    },
    /// Changed between two stages: by the link's scheme, or by the local protocols.
    Changed(Vec<FieldDifference>),
}

impl PacketTrace {
    pub(super) fn new(time: Instant, frame: &[u8]) -> PacketTrace {
        let frame = frame.to_vec();
        let last = frame.clone();
        let (stages, took) = (Vec::new(), Nanos::ZERO);
        PacketTrace { time, frame, sent: None, stages, skipped: 0, fate: None, elapsed: took, last }
    }

    pub(super) fn record_stage(&mut self, now: Instant, frame: &[u8], meta: &Meta, stage: Stage<'_>) {
        let seen = match stage {
            Stage::Received(port) => TraceStage::Received { port, length: frame.len() },
            Stage::Classified => TraceStage::Classified {
                interface: meta.in_interface,
                out: meta.out_interface,
                path: meta.path,
                exception: meta.exception,
                refused: meta.refused,
            },
            Stage::Copied { .. } => TraceStage::Copied(meta.out_interface),
            Stage::Waiting { packets_ahead: behind } => TraceStage::Waiting { path: meta.path, behind },
            Stage::Function { index, before } => {
                TraceStage::Function { path: meta.path, index, changes: differences(before, frame) }
            }
            Stage::LocalProtocols(exception) => TraceStage::Host(exception),
            Stage::Offered { port, packets, bytes, bypasses_scheme: passes } => {
                TraceStage::Offered { port, packets, bytes, passes }
            }
        };
        if !matches!(seen, TraceStage::Function { .. }) {
            self.record_changes(now, frame);
        }
        self.add(now, seen);
        self.last.clear();
        self.last.extend_from_slice(frame);
    }

    pub(super) fn record_fate(&mut self, now: Instant, frame: &[u8], _meta: &Meta, fate: Fate) {
        self.record_changes(now, frame);
        self.elapsed = now.since(self.time);
        self.fate = Some(fate);
        self.sent = matches!(fate, Fate::Sent(_)).then(|| frame.to_vec());
    }

    /// Records changes since the previous stage.
    fn record_changes(&mut self, now: Instant, frame: &[u8]) {
        let changes = differences(&self.last, frame);
        if !changes.is_empty() {
            self.add(now, TraceStage::Changed(changes));
        }
    }

    fn add(&mut self, now: Instant, seen: TraceStage) {
        self.elapsed = now.since(self.time);
        if self.stages.len() < MOST_STAGES { self.stages.push((self.elapsed, seen)) } else { self.skipped += 1 }
    }
}
