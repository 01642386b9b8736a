//! The schemes that order queues, and their options.

use crate::sched::PriorityOrder;
use crate::sched::options::{BY, FLOWS, QUANTUM, TOGETHER, WEIGHTS};
use crate::{cake, dfq, shape, share, tree};
use units::declare::{Declaration, DeclaredCost, Inside, OptionDeclaration, OrderDeclaration, Unit};

const fn order(
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    options: &'static [OptionDeclaration],
    usual: &'static str,
) -> OrderDeclaration {
    let declaration = Declaration { name, summary, cost: DeclaredCost::None, source, options };
    OrderDeclaration { declaration, usual, inner: Inside::Manager, queues: Some("flows") }
}

/// Every scheme that orders queues or has other schemes inside.
pub const ORDERS: &[OrderDeclaration] = &[
    OrderDeclaration {
        queues: Some("levels"),
        ..order(
            "priority",
            "strict priority: the highest class first; first in, first out within a class",
            "RFC 2475, section 2.3.3.3; Qie et al. 2001, section 3.1",
            &[OptionDeclaration {
                name: "levels",
                unit: Unit::Count,
                default: "2",
                least: 2,
                // One bit of a word for each class.
                most: PriorityOrder::MOST,
                doc: "the number of classes, from 0; higher classes share the highest",
            }],
            "fifo",
        )
    },
    order(
        "fq",
        "a queue for each flow, in turns of equal bytes; flows that start to send precede the others, for one turn",
        "RFC 8290",
        &[FLOWS, QUANTUM, TOGETHER],
        "codel",
    ),
    order(
        "drr",
        "a queue for each flow or class, in turns of bytes in proportion to the weights; the next turn owes the surplus of the last packet",
        "Adiseshu, Parulkar and Varghese, SIGCOMM 1996 (surplus round robin), after Shreedhar and Varghese, SIGCOMM 1995, where a turn ends before that packet",
        &[BY, FLOWS, QUANTUM, WEIGHTS, TOGETHER],
        "fifo",
    ),
    order("sfq", "a queue for each flow, in turns of one packet", "McKenney, INFOCOM 1990", &[FLOWS, TOGETHER], "fifo"),
    order(
        "las",
        "a queue for each flow; the flow that has sent the fewest bytes since it was empty is served first",
        "Rai, Urvoy-Keller and Biersack, SIGMETRICS 2003",
        &[FLOWS, TOGETHER],
        "fifo",
    ),
    order(
        "wfq",
        "a queue for each flow or class; the packet leaves first that would finish first if all sent at once at rates in proportion to their weights",
        "Demers, Keshav and Shenker, SIGCOMM 1989",
        &[BY, FLOWS, WEIGHTS, TOGETHER],
        "fifo",
    ),
    order(
        "wf2q",
        "like `wfq`, but only queues whose turn has begun in that ideal division may send: no queue is ahead of its share by more than a packet",
        "Bennett and Zhang, IEEE/ACM Transactions on Networking 5(5), 1997; above 1024 queues Checconi, Rizzo and Valente, ibid. 21(3), 2013",
        &[BY, FLOWS, WEIGHTS, TOGETHER],
        "fifo",
    ),
    OrderDeclaration {
        // The number of queues is that of the scheme inside.
        inner: Inside::Any,
        queues: None,
        ..order(
            "shape",
            "limits departures to a rate, counted in bytes on the line behind the link",
            "RFC 2697, section 3; RFC 2684",
            shape::OPTIONS,
            "fifo",
        )
    },
    order(
        "cake",
        "shapes to the rate of a line, in tins by code point; hosts share a tin equally, and flows share the part of their host",
        "Høiland-Jørgensen, Täht and Morton, IEEE LANMAN 2018; code points as Linux sorts them (diffserv3, diffserv4), by RFC 4594, RFC 5865 and RFC 8622",
        cake::OPTIONS,
        "codel",
    ),
    OrderDeclaration {
        inner: Inside::Leaves,
        queues: None,
        ..order(
            "share",
            "divides the link among named shares in a tree: guarantees first, then the rest by weights up to the ceilings; each leaf has the scheme inside",
            "Floyd and Jacobson, IEEE/ACM Transactions on Networking 3(4), 1995; Zhang, SIGCOMM 1990; Goyal, Vin and Cheng, SIGCOMM 1996",
            share::OPTIONS,
            "fq(flows=32, limit=1000)",
        )
    },
    OrderDeclaration {
        inner: Inside::Flows,
        ..order(
            "dfq",
            "gives each share of the port a quantum in each cycle: reserved rates and delays, at a cost that does not grow with the number of shares",
            "Pradhan and Chiueh, Panama, 2002, section 5",
            dfq::OPTIONS,
            "fifo",
        )
    },
    OrderDeclaration {
        inner: Inside::Branches(&BRANCH, tree::MOST),
        queues: None,
        ..order(
            "tree",
            "branches share the link by their weights, each below its ceiling; unused share goes to the other branches",
            "Floyd and Jacobson, IEEE/ACM Transactions on Networking 3(4), 1995; Goyal, Vin and Cheng, SIGCOMM 1996",
            &[],
            "branch",
        )
    },
];

/// A part of a `tree`.
const BRANCH: OrderDeclaration = OrderDeclaration {
    inner: Inside::Any,
    queues: None,
    ..order(
        "branch",
        "a range of classes and its part of the link",
        "as `tree`",
        &[
            OptionDeclaration {
                name: "class",
                unit: Unit::Count,
                default: "0",
                least: 0,
                most: 255,
                doc: "the lowest class of the branch, up to the next branch; the lowest branch also has the classes below",
            },
            OptionDeclaration {
                name: "weight",
                unit: Unit::Count,
                default: "1",
                least: 1,
                most: 10_000,
                doc: "its weight among the branches of the tree",
            },
            OptionDeclaration {
                name: "ceiling",
                // Zero is allowed, unlike for a shaper.
                default: "0bit",
                least: 0,
                doc: "the most it may send, even if the other branches send less; `0bit` for no ceiling",
                ..shape::RATE
            },
            shape::BURST,
        ],
        "fifo",
    )
};
