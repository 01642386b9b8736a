//! The state of a wire that multiplexes the quanta of flows: what a port with such a wire reports.

use crate::DfqWireCounters;
use std::fmt;
use units::Mac;

/// Why frames leave plain, although the port could send batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DfqFallback {
    /// No router answers at the other end.
    NoAnswer,
    /// The other end has stopped answering.
    Lost,
    /// The other end has closed its wire.
    Left,
    /// The port is down.
    PortDown,
    /// The other end uses another version of the messages.
    Version(u8),
    /// The other end has a bitmap for another number of flows.
    Bitmap {
        /// Flows in the bitmap of this end.
        own: u16,
        /// Flows in the bitmap of the other end.
        peer: u16,
    },
    /// The other end receives frames of at most so many bytes, which are too short.
    FrameTooShort(u16),
    /// The other end cannot use the terms of this end.
    Refused,
}

impl fmt::Display for DfqFallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DfqFallback::NoAnswer => f.write_str("no router answers at the other end"),
            DfqFallback::Lost => f.write_str("the router at the other end has stopped answering"),
            DfqFallback::Left => f.write_str("the router at the other end has closed its wire"),
            DfqFallback::PortDown => f.write_str("the port is down"),
            DfqFallback::Version(version) => write!(f, "the other end uses version {version} of the messages"),
            DfqFallback::Bitmap { own, peer } => {
                write!(f, "the bitmap has {own} flows here and {peer} at the other end")
            }
            DfqFallback::FrameTooShort(bytes) => write!(f, "the other end receives messages of {bytes} bytes at most"),
            DfqFallback::Refused => f.write_str("the other end refuses the terms of this end"),
        }
    }
}

/// The state of the wire of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DfqWireState {
    /// The port has been open for a moment, and waits for the other end. Frames leave plain.
    Searching,
    /// Frames to the other end leave in batches.
    Multiplexed,
    /// Frames leave plain.
    Plain(DfqFallback),
}

impl DfqWireState {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DfqWireState::Searching => "searching",
            DfqWireState::Multiplexed => "multiplexed",
            DfqWireState::Plain(_) => "plain",
        }
    }
}

/// The report of the wire of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DfqWireStatus {
    /// Its state.
    pub state: DfqWireState,
    /// The MAC address of the other end, if it is known.
    pub peer: Option<Mac>,
    /// The cycle of the scheme of the other end, in nanoseconds; zero if it has none or is not known.
    pub peer_cycle_ns: u32,
    /// Flows in the map to the other end that it has acknowledged.
    pub flows_out: u16,
    /// Flows in the map of the other end.
    pub flows_in: u16,
    /// Its counters.
    pub counters: DfqWireCounters,
}
