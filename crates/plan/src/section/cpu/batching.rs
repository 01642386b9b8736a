//! How many packets a task processes before the CPU scheduler chooses another.

use crate::call::Call;
use crate::diagnostic::Report;
use crate::document::Section;
use crate::table::Value;
use crate::text::TextError;
use serde::{Serialize, Serializer};
use std::fmt;
use units::declare::{Declaration, OptionDeclaration, Unit};
use units::{Nanos, Parts};

/// How many packets a task processes before the scheduler chooses another (section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batching {
    /// One packet.
    None,
    /// At most `packets`.
    Simple {
        /// At least 1.
        packets: u16,
    },
    /// At most `packets`, and no new one after `slice`.
    Timeslice {
        /// At least 1.
        packets: u16,
        /// More than zero.
        slice: Nanos,
    },
    /// The task waits until enough packets are queued that a switch costs at most `overhead` of its work. Then it runs, and starts no new packet
    /// after `slice`.
    Throttle {
        /// More than zero.
        overhead: Parts,
        /// At least the cost of a switch divided by the overhead.
        slice: Nanos,
    },
}

impl Default for Batching {
    /// A compromise: low overhead for small packets, and short waits behind expensive functions.
    fn default() -> Batching {
        Batching::Timeslice { packets: 256, slice: Nanos::micros(100) }
    }
}

const fn option(
    name: &'static str,
    unit: Unit,
    default: &'static str,
    most: u64,
    doc: &'static str,
) -> OptionDeclaration {
    OptionDeclaration { name, unit, default, least: 1, most, doc }
}

const PACKETS: OptionDeclaration =
    option("packets", Unit::Count, "16", u16::MAX as u64, "The limit of packets in a run.");
const SLICE: OptionDeclaration =
    option("slice", Unit::Time, "30us", 1_000_000_000, "The time after which a run begins no new packet.");
const OVERHEAD: OptionDeclaration =
    option("overhead", Unit::Part, "10%", 1_000_000, "The cost of a switch as a fraction of the work in a run.");

/// The batching methods, as the configuration names them.
pub(crate) const BATCHINGS: &[Declaration] = &[
    Declaration {
        name: "none",
        summary: "One packet.",
        cost: units::declare::DeclaredCost::None,
        source: "",
        options: &[],
    },
    Declaration {
        name: "simple",
        summary: "A fixed limit of packets.",
        cost: units::declare::DeclaredCost::None,
        source: "",
        options: &[PACKETS],
    },
    Declaration {
        name: "timeslice",
        summary: "A limit of packets, and no new packet after the slice.",
        cost: units::declare::DeclaredCost::None,
        source: "",
        options: &[PACKETS, SLICE],
    },
    Declaration {
        name: "throttle",
        summary: "Waits until a switch is worth its cost, then processes all packets until the slice ends.",
        cost: units::declare::DeclaredCost::None,
        source: "",
        options: &[OVERHEAD, SLICE],
    },
];

impl Batching {
    /// Parses `timeslice(packets=16, slice=30us)` and the like.
    pub fn parse(text: &str) -> Result<Batching, TextError> {
        let call = Call::parse(text, BATCHINGS, "way to batch")?;
        let value = |name| call.option(name).unwrap_or(1);
        // The declared ranges fit the types.
        let (packets, slice) = (value("packets") as u16, Nanos::new(value("slice")));
        Ok(match call.name {
            "simple" => Batching::Simple { packets },
            "timeslice" => Batching::Timeslice { packets, slice },
            "throttle" => Batching::Throttle { overhead: Parts::millionths(value("overhead") as u32), slice },
            _ => Batching::None,
        })
    }

    /// The most packets in a run; `None` without a limit.
    pub const fn packets(self) -> Option<u16> {
        match self {
            Batching::None => Some(1),
            Batching::Simple { packets } | Batching::Timeslice { packets, .. } => Some(packets),
            Batching::Throttle { .. } => None,
        }
    }

    /// The time after which a run starts no new packet; `None` without a limit.
    pub const fn slice(self) -> Option<Nanos> {
        match self {
            Batching::None | Batching::Simple { .. } => None,
            Batching::Timeslice { slice, .. } | Batching::Throttle { slice, .. } => Some(slice),
        }
    }
}

impl fmt::Display for Batching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Batching::None => f.write_str("none"),
            Batching::Simple { packets } => write!(f, "simple(packets={packets})"),
            Batching::Timeslice { packets, slice } => write!(f, "timeslice(packets={packets},slice={slice})"),
            Batching::Throttle { overhead, slice } => write!(f, "throttle(overhead={overhead},slice={slice})"),
        }
    }
}

impl Value for Batching {
    fn read(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<Batching> {
        let text = section.text(report, name)?;
        Batching::parse(text.value).map_err(|error| text.wrong(report, error)).ok()
    }

    fn from_default(text: &'static str) -> Option<Batching> {
        Batching::parse(text).ok()
    }
}

impl Serialize for Batching {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
