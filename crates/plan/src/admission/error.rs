//! Refused reservations: the exhausted resource, the shortage, and the largest value that would fit.

use crate::Name;
use serde::Serialize;
use std::fmt;
use units::{Nanos, PacketRate, Parts, Rate};

/// A reservation that does not fit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AdmissionError {
    /// Its path.
    pub path: String,
    /// The missing resource.
    pub shortage: Shortage,
    /// The largest value that would fit.
    pub hint: String,
}

/// The exhausted resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// Processor time, including switches to the reservation's tasks.
    Cpu {
        /// The demand of the reservation.
        needed: Parts,
        /// The rest after the smaller reservations.
        available: Parts,
    },
    /// Time of a port's input task whose share is configured.
    Input {
        /// The port.
        port: Name,
        /// The demand of the reservations.
        needed: Parts,
        /// The configured share.
        available: Parts,
    },
    /// The link that the path leaves by, in bits on the line.
    Link {
        /// The port.
        port: Name,
        /// The part of the link's scheme.
        of: &'static str,
        /// The demand of the reservation.
        needed: Rate,
        /// The rest after the smaller reservations.
        available: Rate,
    },
    /// A separate class at the port.
    Class {
        /// The port.
        port: Name,
        /// Why there is none.
        reason: String,
    },
    /// The line that the path enters by, in packets.
    Line {
        /// The port.
        port: Name,
        /// The demand of the reservation.
        needed: PacketRate,
        /// The rest after the smaller reservations.
        available: PacketRate,
    },
    /// Room in the queue for packets that arrive while other tasks run.
    Queue {
        /// The room it needs.
        needed: u32,
        /// The room it has.
        available: u32,
    },
    /// The delay through the router.
    Delay {
        /// The worst case.
        needed: Nanos,
        /// The promised bound.
        available: Nanos,
    },
}

impl Shortage {
    /// The name of the exhausted resource.
    pub const fn resource(&self) -> &'static str {
        match self {
            Shortage::Cpu { .. } | Shortage::Input { .. } => "cpu",
            Shortage::Link { .. } | Shortage::Line { .. } | Shortage::Class { .. } => "link",
            Shortage::Queue { .. } => "buffer",
            Shortage::Delay { .. } => "delay",
        }
    }

    /// Demand and supply as texts.
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
                write!(f, "it needs {needed} of the processor, switches included, but {available} is left")
            }
            Shortage::Input { port, .. } => {
                write!(
                    f,
                    "to receive the reservations of '{port}' needs {needed} of the processor, but its share is {available}"
                )
            }
            Shortage::Link { port, of, .. } => {
                write!(f, "it needs {needed} of {of} of '{port}', but {available} is left")
            }
            Shortage::Class { port, reason } => write!(f, "at '{port}' it has no class of its own: {reason}"),
            Shortage::Line { port, .. } => {
                write!(f, "it needs {needed} of the line rate of '{port}', but {available} is left")
            }
            Shortage::Queue { .. } => {
                write!(f, "up to {needed} packets arrive while other tasks run, but its queue holds {available}")
            }
            Shortage::Delay { needed, available } => {
                let needed = needed.rounded();
                write!(f, "a packet may need {needed} through the router, but max_delay is {available}")
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

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reservation of '{}' does not fit: {}; {}", self.path, self.shortage, self.hint)
    }
}

impl std::error::Error for AdmissionError {}

/// A setting that probably does not work as intended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Warning {
    /// The key, like `port.lan` or `path.voice`.
    pub about: String,
    /// The problem.
    pub reason: String,
    /// The remedy.
    pub hint: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.about, self.reason, self.hint)
    }
}
