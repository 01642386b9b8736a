//! Why a reservation is refused: the resource that ran out, by how much, and what would fit.

use crate::Name;
use serde::Serialize;
use std::fmt;
use units::{Nanos, PacketRate, Parts, Rate};

/// A reservation that does not fit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Refused {
    /// The path it is of.
    pub path: String,
    /// What there is too little of.
    pub shortage: Shortage,
    /// What would fit.
    pub hint: String,
}

/// The resource that ran out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// The processor's time, with what switching to the reservation's tasks takes.
    Cpu {
        /// What the reservation takes.
        needed: Parts,
        /// What the smaller ones before it leave.
        available: Parts,
    },
    /// The time of a port's input task, where that is said.
    Input {
        /// The port.
        port: Name,
        /// What the reservations take.
        needed: Parts,
        /// What it was given.
        available: Parts,
    },
    /// The link that the path leaves by, in bits as they are on the line.
    Link {
        /// The port.
        port: Name,
        /// What of it.
        of: &'static str,
        /// What the reservation takes.
        needed: Rate,
        /// What the smaller ones before it leave.
        available: Rate,
    },
    /// A class of its own at the port.
    Class {
        /// The port.
        port: Name,
        /// Why it has none.
        reason: String,
    },
    /// The line that the path comes in by, in packets.
    Line {
        /// The port.
        port: Name,
        /// What the reservation takes.
        needed: PacketRate,
        /// What the smaller ones before it leave.
        available: PacketRate,
    },
    /// Room for the packets that come while others run.
    Queue {
        /// What the reservation takes.
        needed: u32,
        /// What it has.
        available: u32,
    },
    /// Time until a packet is through.
    Delay {
        /// What it may take.
        needed: Nanos,
        /// What was promised.
        available: Nanos,
    },
}

impl Shortage {
    /// One word for what ran out.
    pub const fn resource(&self) -> &'static str {
        match self {
            Shortage::Cpu { .. } | Shortage::Input { .. } => "cpu",
            Shortage::Link { .. } | Shortage::Line { .. } | Shortage::Class { .. } => "link",
            Shortage::Queue { .. } => "buffer",
            Shortage::Delay { .. } => "delay",
        }
    }

    /// What is needed and what is there, as texts.
    fn figures(&self) -> (String, String) {
        let texts =
            |needed: &dyn fmt::Display, available: &dyn fmt::Display| (needed.to_string(), available.to_string());
        match self {
            Shortage::Cpu { needed, available } | Shortage::Input { needed, available, .. } => texts(needed, available),
            Shortage::Link { needed, available, .. } => texts(needed, available),
            Shortage::Class { .. } => texts(&"a class of its own", &"none"),
            Shortage::Line { needed, available, .. } => texts(needed, available),
            Shortage::Queue { needed, available } => texts(needed, available),
            Shortage::Delay { needed, available } => texts(needed, available),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, available) = self.figures();
        match self {
            Shortage::Cpu { .. } => {
                write!(f, "it takes {needed} of the processor, switches included, and {available} is left")
            }
            Shortage::Input { port, .. } => {
                write!(
                    f,
                    "the reservations that come in by '{port}' take {needed} of the processor to receive, and its share is {available}"
                )
            }
            Shortage::Link { port, of, .. } => {
                write!(f, "it takes {needed} of {of} of '{port}', and {available} is left")
            }
            Shortage::Class { port, reason } => write!(f, "at '{port}' it has no class of its own: {reason}"),
            Shortage::Line { port, .. } => {
                write!(f, "'{port}' brings {available} more at most, and it is to be {needed}")
            }
            Shortage::Queue { .. } => {
                write!(f, "up to {needed} packets come while others run, and its queue holds {available}")
            }
            Shortage::Delay { needed, available } => {
                let needed = needed.rounded();
                write!(f, "a packet may take {needed} through the router, and {available} was promised")
            }
        }
    }
}

impl Serialize for Shortage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let (needed, available) = self.figures();
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("resource", self.resource())?;
        map.serialize_entry("needed", &needed)?;
        map.serialize_entry("available", &available)?;
        map.end()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reservation of '{}' does not fit: {}; {}", self.path, self.shortage, self.hint)
    }
}

impl std::error::Error for Refused {}

/// What will probably not be as it was meant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Warning {
    /// The key it is about, as `port.lan` or `path.voice`.
    pub about: String,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.about, self.reason, self.hint)
    }
}
