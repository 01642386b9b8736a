//! Where in a router an instruction is executed, what becomes of its packet, and how that is counted.

use crate::isa::Abort;
use crate::wire::Locations;

/// Where in the life of a packet a place is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Location {
    /// The port it came in by.
    Input,
    /// The middle.
    Central,
    /// The port it leaves by.
    Output,
}

impl Location {
    /// All of them, in the order in which a packet meets them.
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

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It has no instruction, or none for this place: nothing was done.
    Passed,
    /// Its instruction was executed, and it goes on.
    Forwarded,
    /// Its instruction was executed and ends it.
    Dropped,
    /// Its instruction could not be executed; it says so now, if it is one.
    Aborted(Abort),
}

/// What a place has counted of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpcodeCounters {
    /// Packets that went on.
    pub forwarded: u64,
    /// Packets that ended.
    pub dropped: u64,
}
