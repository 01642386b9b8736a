//! The schemes that order many queues: who they are, what they can be told, and which of them is which order of bins.

use crate::aqm::{Aqm, LIMIT};
use crate::bins::{Attained, Bins, By, Deficit, Rank};
use crate::options::{Unknown, Values};
use crate::{Scheme, Wires};
use alloc::boxed::Box;
use alloc::string::ToString;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, OrderDeclaration, Unit};

/// How many queues flows are hashed to.
const FLOWS: OptionDeclaration = OptionDeclaration {
    name: "flows",
    unit: Unit::Count,
    default: "1024",
    least: 1,
    most: 8192,
    doc: "queues that flows are spread over by their hash",
};

/// Packets of all queues.
const TOGETHER: OptionDeclaration = OptionDeclaration {
    default: "10240",
    doc: "the most packets that wait in all queues; beyond that the longest loses half of its own, 64 at most, from its front",
    ..LIMIT
};

/// Bytes of a turn.
const QUANTUM: OptionDeclaration = OptionDeclaration {
    name: "quantum",
    unit: Unit::Size,
    default: "1514b",
    least: 300,
    most: 1 << 20,
    doc: "bytes that a queue may send in its turn",
};

const fn order(
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    options: &'static [OptionDeclaration],
    usual: &'static str,
) -> OrderDeclaration {
    OrderDeclaration { declaration: Declaration { name, summary, cost: DeclaredCost::None, source, options }, usual }
}

/// Every scheme that orders queues.
pub const ORDERS: &[OrderDeclaration] = &[
    order(
        "priority",
        "the highest class first; within one first in, first out",
        "RFC 2475, section 2.3.3.3; Qie et al. 2001, section 3.1",
        &[OptionDeclaration {
            name: "levels",
            unit: Unit::Count,
            default: "2",
            least: 2,
            most: Rank::MOST,
            doc: "how many classes are told apart, from 0; those above share the highest",
        }],
        "fifo",
    ),
    order(
        "fq",
        "a queue for each flow, in turns of as many bytes; flows that begin go before those that have sent already, once",
        "RFC 8290; Shreedhar and Varghese, SIGCOMM 1995",
        &[FLOWS, QUANTUM, TOGETHER],
        "codel",
    ),
    order(
        "drr",
        "a queue for each flow or class, in turns of as many bytes",
        "Shreedhar and Varghese, SIGCOMM 1995",
        &[
            OptionDeclaration {
                name: "by",
                unit: Unit::Choice(&["flow", "class"]),
                default: "flow",
                least: 0,
                most: 1,
                doc: "what has a queue: each flow, or each class of the paths",
            },
            FLOWS,
            QUANTUM,
            TOGETHER,
        ],
        "fifo",
    ),
    order("sfq", "a queue for each flow, in turns of one packet", "McKenney, INFOCOM 1990", &[FLOWS, TOGETHER], "fifo"),
    order(
        "las",
        "a queue for each flow; the one that has sent least since it was empty goes first",
        "Rai, Urvoy-Keller and Biersack, SIGMETRICS 2003",
        &[FLOWS, TOGETHER],
        "fifo",
    ),
];

/// The scheme called `name` with `options`, its queues managed by `inner` with its own.
pub(crate) fn build<W: Wires>(
    name: &str,
    options: &Values<'_>,
    inner: (&str, &Values<'_>),
) -> Result<Box<dyn Scheme<W>>, Unknown> {
    let count = |name: &str| options.count(name).map(|count| u16::try_from(count).unwrap_or(u16::MAX));
    let aqm = |queues: u16| Aqm::of(inner.0, inner.1, queues.into());
    if name == "priority" {
        let levels = count("levels")?.min(Rank::MOST as u16);
        return Ok(Box::new(Bins::new(Rank::default(), aqm(levels)?, By::Class, levels, u32::MAX)));
    }
    let flows = match name {
        "fq" | "drr" | "sfq" | "las" => count("flows")?,
        other => return Err(Unknown(other.to_string())),
    };
    let (bins, aqm, limit) = (usize::from(flows), aqm(flows)?, options.count("limit")?);
    let quantum = || options.bytes("quantum").map(|quantum| u32::try_from(quantum.get()).unwrap_or(u32::MAX));
    Ok(match name {
        "fq" => Box::new(Bins::new(Deficit::new(bins, quantum()?, true), aqm, By::Flow, flows, limit)),
        "drr" => {
            let by = options.choice("by", &[By::Flow, By::Class])?;
            Box::new(Bins::new(Deficit::new(bins, quantum()?, false), aqm, by, flows, limit))
        }
        "sfq" => Box::new(Bins::new(Deficit::new(bins, 0, false), aqm, By::Flow, flows, limit)),
        _ => Box::new(Bins::new(Attained::new(bins), aqm, By::Flow, flows, limit)),
    })
}
