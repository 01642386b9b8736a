//! The schemes that order many queues: who they are, what they can be told, and which of them is which order of bins.

use crate::Wires;
use crate::aqm::{Aqm, LIMIT};
use crate::bins::{Attained, Bins, By, Deficit, Exact, Finish, Grouped, Order, Rank, Weights};
use crate::build::{Layer, managed};
use crate::cake;
use crate::options::{BuildError, Values};
use crate::shape::{self, Shape};
use crate::sharing::Sharing;
use crate::stage::Stage;
use crate::tree::{self, Branch, Tree};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use units::Rate;
use units::declare::{Declaration, DeclaredCost, Inside, OptionDeclaration, OrderDeclaration, Unit};

/// How many queues flows are hashed to.
pub(crate) const FLOWS: OptionDeclaration = OptionDeclaration {
    name: "flows",
    unit: Unit::Count,
    default: "1024",
    least: 1,
    most: 1 << 17,
    doc: "queues that flows are spread over by their hash",
};

/// Packets of all queues.
pub(crate) const TOGETHER: OptionDeclaration = OptionDeclaration {
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

/// What classes count for.
const WEIGHTS: OptionDeclaration = OptionDeclaration {
    name: "weights",
    unit: Unit::Weights,
    default: "1",
    least: 1,
    most: u64::MAX,
    doc: "what a queue of class 0, 1, 2 and so on counts for, the last for those above too; a flow has the class of the packet that began it",
};

/// What has a queue.
const BY: OptionDeclaration = OptionDeclaration {
    name: "by",
    unit: Unit::Choice(&["flow", "class"]),
    default: "flow",
    least: 0,
    most: 1,
    doc: "what has a queue: each flow, or each class of the paths",
};

/// With more bins than that the grouped form of WF2Q+ is the faster one.
const FEW: usize = 1024;

const fn order(
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    options: &'static [OptionDeclaration],
    usual: &'static str,
) -> OrderDeclaration {
    let declaration = Declaration { name, summary, cost: DeclaredCost::None, source, options };
    OrderDeclaration { declaration, usual, inside: Inside::Manager, queues: Some("flows") }
}

/// Every scheme that orders queues, and those that have other schemes inside.
pub const ORDERS: &[OrderDeclaration] = &[
    OrderDeclaration {
        queues: Some("levels"),
        ..order(
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
        )
    },
    order(
        "fq",
        "a queue for each flow, in turns of as many bytes; flows that begin go before those that have sent already, once",
        "RFC 8290",
        &[FLOWS, QUANTUM, TOGETHER],
        "codel",
    ),
    order(
        "drr",
        "a queue for each flow or class, in turns of as many bytes for as much weight; the next turn owes the surplus of the last packet",
        "Adiseshu, Parulkar and Varghese, SIGCOMM 1996 (surplus round robin), after Shreedhar and Varghese, SIGCOMM 1995, where a turn ends before that packet",
        &[BY, FLOWS, QUANTUM, WEIGHTS, TOGETHER],
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
    order(
        "wfq",
        "a queue for each flow or class; the packet goes first that would be the first to be through if all sent at once, as their weights say",
        "Demers, Keshav and Shenker, SIGCOMM 1989",
        &[BY, FLOWS, WEIGHTS, TOGETHER],
        "fifo",
    ),
    order(
        "wf2q",
        "as `wfq`, but only of those whose turn has begun by then: nobody gets ahead of its share by more than a packet",
        "Bennett and Zhang, IEEE/ACM Transactions on Networking 5(5), 1997; above 1024 queues Checconi, Rizzo and Valente, ibid. 21(3), 2013",
        &[BY, FLOWS, WEIGHTS, TOGETHER],
        "fifo",
    ),
    OrderDeclaration {
        inside: Inside::Any,
        queues: None,
        ..order(
            "shape",
            "no more leaves than a rate, reckoned as the line behind the link will carry it",
            "RFC 2697, section 3; RFC 2684",
            shape::OPTIONS,
            "fifo",
        )
    },
    order(
        "cake",
        "a line's rate, in tins by code point, each with a queue for each flow of each host, which share in that order",
        "Høiland-Jørgensen, Täht and Morton, IEEE LANMAN 2018; code points as Linux sorts them (diffserv3, diffserv4), by RFC 4594, RFC 5865 and RFC 8622",
        cake::OPTIONS,
        "codel",
    ),
    OrderDeclaration {
        inside: Inside::Branches(&BRANCH, tree::MOST),
        queues: None,
        ..order(
            "tree",
            "branches share the link by their weights, each below its ceiling; what one does not use the others have",
            "Floyd and Jacobson, IEEE/ACM Transactions on Networking 3(4), 1995; Goyal, Vin and Cheng, SIGCOMM 1996",
            &[],
            "branch",
        )
    },
];

/// A part of a `tree`.
const BRANCH: OrderDeclaration = OrderDeclaration {
    inside: Inside::Any,
    queues: None,
    ..order(
        "branch",
        "the packets of some classes, and their part of the link",
        "as `tree`",
        &[
            OptionDeclaration {
                name: "class",
                unit: Unit::Count,
                default: "0",
                least: 0,
                most: 255,
                doc: "the lowest class that is its own; it ends where another branch begins, and the lowest branch has those below too",
            },
            OptionDeclaration {
                name: "weight",
                unit: Unit::Count,
                default: "1",
                least: 1,
                most: 10_000,
                doc: "what it counts for among its siblings",
            },
            OptionDeclaration {
                name: "ceiling",
                default: "0bit",
                least: 0,
                doc: "what it may send at most, also where others leave more; `0bit` for no bound",
                ..shape::RATE
            },
            shape::BURST,
        ],
        "fifo",
    )
};

/// What orders queues by itself, with `manager` for each.
fn ordering<W: Wires>(name: &str, options: &Values<'_>, manager: &Layer<'_>) -> Result<Box<dyn Stage<W>>, BuildError> {
    fn whole<W: Wires, O: Order + 'static>(bins: Bins<O>) -> Box<dyn Stage<W>> {
        Box::new(bins)
    }
    if !manager.inside.is_empty() {
        return Err(BuildError::Unknown(manager.name.to_string()));
    }
    let aqm = |queues: u32| Aqm::of(manager.name, &Values(manager.options), queues as usize);
    if name == "priority" {
        let levels = options.count("levels")?.min(Rank::MOST as u32);
        return Ok(whole(Bins::new(Rank::default(), aqm(levels)?, By::Class, levels, u32::MAX)));
    }
    let flows = match name {
        "fq" | "drr" | "sfq" | "las" | "wfq" | "wf2q" => options.count("flows")?,
        other => return Err(BuildError::Unknown(other.to_string())),
    };
    let (bins, aqm, limit) = (flows as usize, aqm(flows)?, options.count("limit")?);
    let quantum = || options.bytes("quantum").map(|quantum| u32::try_from(quantum.get()).unwrap_or(u32::MAX));
    let by = || options.choice("by", &[By::Flow, By::Class]);
    let weights = || options.value("weights").map(Weights::new);
    Ok(match name {
        "fq" => whole(Bins::new(Deficit::new(bins, quantum()?, true), aqm, By::Flow, flows, limit)),
        "drr" => whole(Bins::new(Deficit::new(bins, quantum()?, false), aqm, by()?, flows, limit).weighing(weights()?)),
        "sfq" => whole(Bins::new(Deficit::new(bins, 0, false), aqm, By::Flow, flows, limit)),
        "las" => whole(Bins::new(Attained::new(bins), aqm, By::Flow, flows, limit)),
        "wfq" => whole(Bins::new(Finish::new(bins), aqm, by()?, flows, limit).weighing(weights()?)),
        _ if bins > FEW => whole(Bins::new(Grouped::new(bins), aqm, by()?, flows, limit).weighing(weights()?)),
        _ => whole(Bins::new(Exact::new(bins), aqm, by()?, flows, limit).weighing(weights()?)),
    })
}

/// A branch of a tree.
fn branch<W: Wires + 'static>(layer: &Layer<'_>, sharing: &mut Sharing) -> Result<Branch<W>, BuildError> {
    let ([inside], "branch") = (&layer.inside[..], layer.name) else {
        return Err(BuildError::Unknown(layer.name.to_string()));
    };
    let (inside, options) = (managed(inside, sharing)?, Values(layer.options));
    let (rate, burst) = (Rate::bits(options.value("ceiling")?), options.bytes("burst")?);
    let ceiling = (rate != Rate::ZERO).then(|| sharing.meter(rate, burst));
    let class = u8::try_from(options.count("class")?).unwrap_or(u8::MAX);
    Ok(Branch::new(inside, class, options.count("weight")?, ceiling))
}

/// A scheme with others inside.
pub(crate) fn build<W: Wires + 'static>(
    layer: &Layer<'_>,
    sharing: &mut Sharing,
) -> Result<Box<dyn Stage<W>>, BuildError> {
    let options = Values(layer.options);
    match (layer.name, &layer.inside[..]) {
        ("shape", [inside]) => Ok(Box::new(Shape::of(&options, sharing, |sharing| managed(inside, sharing))?)),
        ("tree", [_, ..]) if layer.inside.len() <= tree::MOST => {
            let branches: Result<Vec<Branch<W>>, BuildError> =
                layer.inside.iter().map(|layer| branch(layer, sharing)).collect();
            Ok(Box::new(Tree::new(branches?)))
        }
        ("cake", [manager]) => cake::build(&options, manager, sharing),
        (name, [manager]) => ordering(name, &options, manager),
        (name, _) => Err(BuildError::Unknown(name.to_string())),
    }
}
