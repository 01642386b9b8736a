//! The processing locations of a router, the fate of a packet that carries an instruction, and the counters of both.

use crate::isa::Abort;
use crate::wire::Locations;

/// A processing location: a stage in the life of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Location {
    /// The port at which the packet arrives.
    Input,
    /// The router's centre, between both ports.
    Central,
    /// The egress port.
    Output,
}

impl Location {
    /// All locations, in the order in which a packet meets them.
    pub const ALL: [Location; 3] = [Location::Input, Location::Central, Location::Output];

    /// Its name in metrics and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Location::Input => "input",
            Location::Central => "central",
            Location::Output => "output",
        }
    }

    pub(crate) const fn locations(self) -> Locations {
        match self {
            Location::Input => Locations::INPUT,
            Location::Central => Locations::CENTRAL,
            Location::Output => Locations::OUTPUT,
        }
    }
}

/// The fate of a packet at one processing place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstructionFate {
    /// The packet has no instruction for this location and is unchanged.
    PassedThrough,
    /// The instruction was executed and forwards the packet.
    Forwarded,
    /// The instruction was executed and drops the packet.
    Dropped,
    /// The instruction was not executed; the part has its error bit set now, if it can be read.
    Aborted(Abort),
}

/// The counters of one instruction at one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpcodeCounters {
    /// Packets forwarded.
    pub forwarded: u64,
    /// Packets dropped.
    pub dropped: u64,
}
