//! The description of a world: routers with their configurations and costs, cards, links, sources, sinks, and scheduled events.

mod hosts;
mod read;
mod slice_lines;
mod slices;
mod source;
mod tables;
mod text;
mod transports;

pub use hosts::{FlowPlan, HostLink, HostsPlan};

use crate::cost::CostModel;
use crate::ephemeral::CarriedInstruction;
use crate::inner::InnerPackets;
use crate::source::Pattern;
use plan::{
    Call, Diagnostics, FlowChange, Guests, LinkService, MediumPlan, Plan, SchemeChange, TracePlan, TraceSource,
};
use slice::SliceCommand;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use units::{Instant, Nanos};

/// A checked description: it can run.
#[derive(Clone, Debug)]
pub struct WorldPlan {
    /// Its duration, starting at 0.
    pub duration: Nanos,
    /// The warm-up: measurement begins after this time and lasts to the end.
    pub warmup: Nanos,
    /// The interval between two points of a time series.
    pub sample: Nanos,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The routers, sorted by name.
    pub routers: Vec<RouterPlan>,
    /// The cards, sorted by name.
    pub cards: Vec<CardPlan>,
    /// The sources, in the order of the file.
    pub sources: Vec<SourcePlan>,
    /// The sinks, in the order of the file.
    pub sinks: Vec<String>,
    /// The hosts, their links and flows. A world has either routers or hosts.
    pub hosts: HostsPlan,
    /// The events, in the order of their times.
    pub events: Vec<(Instant, WorldEvent)>,
}

/// A router.
#[derive(Clone, Debug)]
pub struct RouterPlan {
    /// Its name in the world.
    pub name: String,
    /// The text of its configuration, as in the file.
    pub config: String,
    /// The checked configuration.
    pub plan: Plan,
    /// Its slices: the text, and the changes that make them before the world begins.
    pub slices: (String, Vec<SliceCommand>),
    /// The cost of its work.
    pub cost: CostModel,
    /// True if a core without work keeps polling. Otherwise it is idle until a packet arrives.
    pub busy_poll: bool,
}

/// A card of a router: the interface that `sim:NAME` names.
#[derive(Clone, PartialEq, Debug)]
pub struct CardPlan {
    /// Its name.
    pub name: String,
    /// The index of its router.
    pub router: usize,
    /// Frames that its receive ring holds.
    pub ring: usize,
    /// Frames that its transmit ring holds.
    pub transmit_ring: usize,
    /// The far end of its link.
    pub end: LinkEnd,
    /// The medium of its link.
    pub medium: MediumPlan,
}

/// The far end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkEnd {
    /// None: transmitted packets are lost.
    Nothing,
    /// A sink, by its index.
    Sink(usize),
    /// A card, by its index.
    Card(usize),
}

/// A source.
#[derive(Clone, PartialEq, Debug)]
pub struct SourcePlan {
    /// Its name.
    pub name: String,
    /// The index of the card that receives its packets.
    pub card: usize,
    /// The sizes of its packets including the check sequence; packets use them in turn.
    pub sizes: Vec<u64>,
    /// The headers of its packets.
    pub fields: FlowFields,
    /// The ephemeral-state instruction that its packets carry.
    pub carries: Option<CarriedInstruction>,
    /// The packets inside of its packets.
    pub inner: Option<InnerPackets>,
    /// The times at which it sends.
    pub pattern: Pattern,
    /// When it starts.
    pub start: Instant,
    /// When it stops.
    pub stop: Instant,
    /// True if the first of evenly spaced packets is sent at a random time within the first gap, not at the start.
    pub staggered: bool,
}

/// The headers of a source's packets: UDP over IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowFields {
    /// The source address.
    pub source: Ipv4Addr,
    /// The destination address.
    pub destination: Ipv4Addr,
    /// The source and the destination port.
    pub ports: (u16, u16),
    /// The differentiated services code point.
    pub dscp: u8,
    /// Time to live.
    pub ttl: u8,
    /// The number of flows. They take turns, and their source ports are consecutive.
    pub flows: u64,
}

/// A scheduled event.
#[derive(Clone, Debug)]
pub enum WorldEvent {
    /// A router gets a new configuration: its index, the text and the plan.
    Apply(usize, String, Box<Plan>),
    /// Flows of a router are reserved, renewed or ended: its index, the text and the changes.
    Reserve(usize, String, Vec<FlowChange>),
    /// The slices of a router change: its index, the text and the changes.
    Slices(usize, String, Vec<SliceCommand>),
    /// The link of a card goes down or up, at both ends.
    Link(usize, bool),
    /// A direction of a link between hosts changes its scheme: the link's index, the scheme, and how queued packets are treated.
    Scheme(usize, Box<Call>, SchemeChange),
    /// A direction of a link between hosts changes its medium.
    Medium(usize, Box<MediumPlan>),
}

impl WorldPlan {
    /// Parses a description. `file` is used in messages only.
    pub fn parse(source: &str, file: &str) -> Result<WorldPlan, Diagnostics> {
        WorldPlan::parse_with(source, file, None)
    }

    /// The same for routers that may have guests.
    pub fn parse_with(source: &str, file: &str, guests: Option<Arc<dyn Guests>>) -> Result<WorldPlan, Diagnostics> {
        read::world(source, file, plan::Catalogue { guests, ..catalogue() })
    }

    /// The files that it names besides captures: traces of links, and sizes of transfers.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let links = self.hosts.links.iter().map(|link| &link.medium);
        let traces =
            links.chain(self.cards.iter().map(|card| &card.medium)).filter_map(|medium| match &medium.service {
                LinkService::Trace(TracePlan { source: TraceSource::File(file), .. }) => Some(file.as_str()),
                _ => None,
            });
        traces.chain(self.hosts.flows.iter().filter_map(|flow| flow.sizes.as_deref()))
    }

    /// Reads and parses a file.
    pub fn load(path: &Path) -> Result<WorldPlan, Diagnostics> {
        let name = path.to_string_lossy();
        match std::fs::read_to_string(path) {
            Ok(source) => WorldPlan::parse(&source, &name),
            Err(error) => {
                let mut report = plan::Report::new("", &name);
                let hint = "give a readable text file in UTF-8".to_owned();
                report.error(0..0, "", || (format!("the file cannot be read: {error}"), hint));
                Err(report.finish())
            }
        }
    }
}

/// The names that a configuration may use here: the schemes and functions of the plane, and cards.
pub fn catalogue() -> plan::Catalogue {
    plan::Catalogue { devices: vec![CARD], ..plane::catalogue() }
}

/// The only kind of device in a world.
const CARD: units::declare::Declaration = units::declare::Declaration {
    name: "sim",
    summary: "a card of a simulated world",
    cost: units::declare::DeclaredCost::None,
    source: "",
    options: &[],
};
