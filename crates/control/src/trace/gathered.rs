//! What was seen of one packet on its way.

use packet::Meta;
use packet::event::{Fate, Stage};
use packet::wire::{Difference, differences};
use units::{Instant, InterfaceId, Nanos, PathId, PortId};

/// Stages kept of one packet: more than any way has that is no loop.
const MOST_STAGES: usize = 64;

/// One packet's way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gathered {
    /// When it came in.
    pub time: Instant,
    /// The frame as it came in.
    pub frame: Vec<u8>,
    /// The frame as it left, where it did.
    pub sent: Option<Vec<u8>>,
    /// What was seen, and how long after it came in.
    pub stages: Vec<(Nanos, Seen)>,
    /// Stages that were not kept.
    pub skipped: usize,
    /// What became of it; nothing where it was still on its way when the trace ended.
    pub fate: Option<Fate>,
    /// How long it took to the last that is known of it.
    pub took: Nanos,
    /// The frame as it was last seen.
    last: Vec<u8>,
}

/// Something a packet was seen doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Coming in by a port.
    Received {
        /// The port.
        port: PortId,
        /// Bytes of the frame.
        length: usize,
    },
    /// Being classified.
    Classified {
        /// The interface it came in by.
        interface: InterfaceId,
        /// The interface it leaves by, where it is to.
        out: InterfaceId,
        /// The path it takes.
        path: PathId,
        /// Why the router's own protocols have to see it: a code of the plane's, zero for none.
        exception: u8,
        /// Why it is refused: a drop reason plus one, zero for none.
        refused: u8,
    },
    /// Being made as a copy of a packet to a multicast group, to leave by this interface.
    Copied(InterfaceId),
    /// Waiting for its path.
    Waiting {
        /// The path.
        path: PathId,
        /// Packets before it.
        behind: usize,
    },
    /// Being worked on by a function.
    Function {
        /// The path.
        path: PathId,
        /// The function's position in it.
        index: usize,
        /// What it changed.
        changes: Vec<Difference>,
    },
    /// With the router's own protocols.
    Host(u8),
    /// Given to a link.
    Offered {
        /// Its port.
        port: PortId,
        /// Packets before it.
        packets: u32,
        /// Their bytes.
        bytes: u64,
        /// Whether it passes by the scheme.
        passes: bool,
    },
    /// Changed by nobody who told: by the link's scheme, or the router's own protocols.
    Changed(Vec<Difference>),
}

impl Gathered {
    pub(super) fn new(time: Instant, frame: &[u8]) -> Gathered {
        let frame = frame.to_vec();
        let last = frame.clone();
        let (stages, took) = (Vec::new(), Nanos::ZERO);
        Gathered { time, frame, sent: None, stages, skipped: 0, fate: None, took, last }
    }

    pub(super) fn pass(&mut self, now: Instant, frame: &[u8], meta: &Meta, stage: Stage<'_>) {
        let seen = match stage {
            Stage::Received(port) => Seen::Received { port, length: frame.len() },
            Stage::Classified => Seen::Classified {
                interface: meta.in_interface,
                out: meta.out_interface,
                path: meta.path,
                exception: meta.exception,
                refused: meta.refused,
            },
            Stage::Copied { .. } => Seen::Copied(meta.out_interface),
            Stage::Waiting { behind } => Seen::Waiting { path: meta.path, behind },
            Stage::Function { index, before } => {
                Seen::Function { path: meta.path, index, changes: differences(before, frame) }
            }
            Stage::Host(exception) => Seen::Host(exception),
            Stage::Offered { port, packets, bytes, passes } => Seen::Offered { port, packets, bytes, passes },
        };
        if !matches!(seen, Seen::Function { .. }) {
            self.notice(now, frame);
        }
        self.add(now, seen);
        self.last.clear();
        self.last.extend_from_slice(frame);
    }

    pub(super) fn end(&mut self, now: Instant, frame: &[u8], _meta: &Meta, fate: Fate) {
        self.notice(now, frame);
        self.took = now.since(self.time);
        self.fate = Some(fate);
        self.sent = matches!(fate, Fate::Sent(_)).then(|| frame.to_vec());
    }

    /// Whatever has changed since it was last seen.
    fn notice(&mut self, now: Instant, frame: &[u8]) {
        let changes = differences(&self.last, frame);
        if !changes.is_empty() {
            self.add(now, Seen::Changed(changes));
        }
    }

    fn add(&mut self, now: Instant, seen: Seen) {
        self.took = now.since(self.time);
        if self.stages.len() < MOST_STAGES { self.stages.push((self.took, seen)) } else { self.skipped += 1 }
    }
}
