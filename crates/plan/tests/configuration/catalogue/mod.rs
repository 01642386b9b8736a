//! A catalogue for the tests: the router's declarations, and similar ones that can be confused with them.

use plan::{Catalogue, CpuSchedulerDeclaration, Lag};
use units::declare::{Declaration, Inside, OptionDeclaration, OrderDeclaration, Unit};

const LIMIT: OptionDeclaration = OptionDeclaration {
    name: "limit",
    unit: Unit::Count,
    default: "1000",
    least: 1,
    most: 1_000_000,
    doc: "Packets that wait at most.",
};
const LEVELS: OptionDeclaration =
    OptionDeclaration { name: "levels", unit: Unit::Count, default: "2", least: 2, most: 64, doc: "How many classes." };
const TARGET: OptionDeclaration = OptionDeclaration {
    name: "target",
    unit: Unit::Time,
    default: "5ms",
    least: 1000,
    most: 10_000_000_000,
    doc: "The sojourn time that is tolerated.",
};
const RATE: OptionDeclaration = OptionDeclaration {
    name: "rate",
    unit: Unit::Rate,
    default: "10mbit",
    least: 1000,
    most: u64::MAX,
    doc: "The rate.",
};
const SHARED_RATE: OptionDeclaration = OptionDeclaration {
    name: "rate",
    unit: Unit::Rate,
    default: "0bit",
    least: 0,
    most: u64::MAX,
    doc: "The rate of the port.",
};
const BURST: OptionDeclaration = OptionDeclaration {
    name: "burst",
    unit: Unit::Size,
    default: "1500b",
    least: 64,
    most: 1 << 30,
    doc: "The burst.",
};

const fn declared(name: &'static str, summary: &'static str, options: &'static [OptionDeclaration]) -> Declaration {
    Declaration { name, summary, cost: units::declare::DeclaredCost::None, source: "", options }
}

const COST: OptionDeclaration = OptionDeclaration {
    name: "cost",
    unit: Unit::Time,
    default: "1us",
    least: 0,
    most: 3_600_000_000_000,
    doc: "The cost of a packet.",
};

const fn scheduler(name: &'static str, lag: Lag) -> CpuSchedulerDeclaration {
    CpuSchedulerDeclaration { declaration: declared(name, "Says which task runs.", &[]), lag }
}

/// Three schemes, six functions, six CPU schedulers, three kinds of device.
pub fn catalogue() -> Catalogue {
    Catalogue {
        guests: None,
        schemes: vec![
            declared("fifo", "First in, first out.", &[LIMIT]),
            declared("codel", "Controlled delay.", &[LIMIT, TARGET]),
            declared("tbf", "Token bucket filter.", &[RATE, BURST]),
        ],
        orders: vec![
            OrderDeclaration {
                declaration: declared("drr", "Deficit round robin.", &[BURST]),
                inner: Inside::Manager,
                usual: "fifo",
                queues: None,
            },
            OrderDeclaration {
                declaration: declared("share", "Shares of a link.", &[SHARED_RATE]),
                inner: Inside::Any,
                usual: "fifo",
                queues: None,
            },
            OrderDeclaration {
                declaration: declared("priority", "The highest class first.", &[LEVELS]),
                inner: Inside::Manager,
                usual: "fifo",
                queues: None,
            },
        ],
        functions: vec![
            declared("ip", "Forwards IPv4 and IPv6.", &[]),
            declared("police", "Drops what is above a rate.", &[RATE, BURST]),
            declared("count", "Counts.", &[]),
            declared("dispatch", "Looks into payloads.", &[]),
            declared("filter", "Filters.", &[]),
            declared("nat", "Translates.", &[]),
            declared("spin", "Takes time.", &[COST]),
        ],
        cpu_schedulers: vec![
            scheduler("wf2q+", Lag::OneRun),
            scheduler("sfq", Lag::RunOfEach),
            scheduler("stride", Lag::RunOfEach),
            scheduler("eevdf", Lag::OneRun),
            scheduler("drr", Lag::Rounds),
            scheduler("rr", Lag::Unbounded),
            scheduler("spfq", Lag::RunOfEach),
            scheduler("potential", Lag::Unbounded),
        ],
        devices: vec![
            declared("memory", "A pair of queues.", &[]),
            declared("pcap", "Captures.", &[]),
            declared("packet", "An interface of the kernel.", &[]),
        ],
    }
}
