//! The schemes that order queues, and their options.

use crate::bins::Rank;
use crate::bins::options::{BY, FLOWS, QUANTUM, TOGETHER, WEIGHTS};
use crate::{cake, shape, tree};
use units::declare::{Declaration, DeclaredCost, Inside, OptionDeclaration, OrderDeclaration, Unit};

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

/// Every scheme that orders queues or has other schemes inside.
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
