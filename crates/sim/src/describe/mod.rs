//! A world as it is described: routers with their configurations and what work costs them, cards, links, sources, sinks,
//! and what happens when.

mod ends;
mod hosts;
mod read;
mod source;
mod tables;
mod text;

pub use hosts::{FlowPlan, HostLink, HostsPlan};

use crate::cost::CostModel;
use crate::ephemeral::Carries;
use crate::source::Pattern;
use plan::{Call, Diagnostics, Guests, MediumPlan, Plan, SchemeChange, Service, TracePlan, TraceSource};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use units::{Instant, Nanos};

/// A checked description: it can run.
#[derive(Clone, Debug)]
pub struct World {
    /// How long it runs, from 0.
    pub duration: Nanos,
    /// How long before that is measured: from then to the end.
    pub warmup: Nanos,
    /// The time between two points of a series.
    pub sample: Nanos,
    /// What all chance follows from.
    pub seed: u64,
    /// In the order of their names.
    pub routers: Vec<RouterPlan>,
    /// In the order of their names.
    pub cards: Vec<CardPlan>,
    /// In the order of the file.
    pub sources: Vec<SourcePlan>,
    /// In the order of the file.
    pub sinks: Vec<String>,
    /// What there is besides routers, or rather instead of them.
    pub hosts: HostsPlan,
    /// In the order they happen.
    pub events: Vec<(Instant, Happening)>,
}

/// A router.
#[derive(Clone, Debug)]
pub struct RouterPlan {
    /// Its name in the world.
    pub name: String,
    /// Its configuration as it stands in the file.
    pub config: String,
    /// The same, checked.
    pub plan: Plan,
    /// What work costs.
    pub cost: CostModel,
    /// Whether a core without work polls on, instead of being idle until something comes.
    pub spin: bool,
}

/// A card of a router: what `sim:NAME` names.
#[derive(Clone, PartialEq, Debug)]
pub struct CardPlan {
    /// Its name.
    pub name: String,
    /// Position of its router.
    pub router: usize,
    /// Frames that wait before it at most.
    pub ring: usize,
    /// Frames that wait to leave by it at most.
    pub transmit_ring: usize,
    /// Where what leaves goes.
    pub end: End,
    /// On the way there.
    pub medium: MediumPlan,
}

/// What a link leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Nothing: what leaves is gone.
    Nothing,
    /// A sink, by its position.
    Sink(usize),
    /// A card, by its position.
    Card(usize),
}

/// A source.
#[derive(Clone, PartialEq, Debug)]
pub struct SourcePlan {
    /// Its name.
    pub name: String,
    /// Position of the card its packets come to.
    pub card: usize,
    /// Sizes of its packets with their check sequence, in turn.
    pub sizes: Vec<u64>,
    /// What its packets say.
    pub fields: FlowFields,
    /// What they carry besides.
    pub carries: Option<Carries>,
    /// When it sends.
    pub pattern: Pattern,
    /// When it begins.
    pub start: Instant,
    /// When it ends.
    pub stop: Instant,
    /// Whether the first of evenly spaced packets comes somewhere within the first gap, and not at once.
    pub staggered: bool,
}

/// What the headers of a source's packets say: UDP over IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowFields {
    /// From.
    pub source: Ipv4Addr,
    /// To.
    pub destination: Ipv4Addr,
    /// From and to.
    pub ports: (u16, u16),
    /// The differentiated services code point.
    pub dscp: u8,
    /// Time to live.
    pub ttl: u8,
    /// So many flows, in turn: their source ports follow each other.
    pub flows: u64,
}

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A router gets another configuration: its position, the text and the plan.
    Apply(usize, String, Box<Plan>),
    /// The link of a card goes down or up; both its ends.
    Link(usize, bool),
    /// A direction of a link between hosts gets another scheme: its position, the scheme, and what becomes of what waits.
    Scheme(usize, Box<Call>, SchemeChange),
    /// A direction of a link between hosts becomes another medium.
    Medium(usize, Box<MediumPlan>),
}

impl World {
    /// Reads a description. `file` is for messages only.
    pub fn parse(source: &str, file: &str) -> Result<World, Diagnostics> {
        World::parse_with(source, file, None)
    }

    /// The same where its routers may have guests.
    pub fn parse_with(source: &str, file: &str, guests: Option<Arc<dyn Guests>>) -> Result<World, Diagnostics> {
        read::world(source, file, plan::Catalogue { guests, ..catalogue() })
    }

    /// The files it names besides captures: traces of links, sizes of transfers.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let links = self.hosts.links.iter().map(|link| &link.medium);
        let traces =
            links.chain(self.cards.iter().map(|card| &card.medium)).filter_map(|medium| match &medium.service {
                Service::Trace(TracePlan { source: TraceSource::File(file), .. }) => Some(file.as_str()),
                _ => None,
            });
        traces.chain(self.hosts.flows.iter().filter_map(|flow| flow.sizes.as_deref()))
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<World, Diagnostics> {
        let name = path.to_string_lossy();
        match std::fs::read_to_string(path) {
            Ok(source) => World::parse(&source, &name),
            Err(error) => {
                let mut report = plan::Report::new("", &name);
                let hint = "give a text file in UTF-8 that may be read".to_owned();
                report.error(0..0, "", || (format!("the file cannot be read: {error}"), hint));
                Err(report.finish())
            }
        }
    }
}

/// What a configuration may name here: the schemes and functions of the plane, and cards.
pub fn catalogue() -> plan::Catalogue {
    plan::Catalogue { devices: vec![CARD], ..plane::catalogue() }
}

/// The one kind of device there is in a world.
const CARD: units::declare::Declaration = units::declare::Declaration {
    name: "sim",
    summary: "a card of a simulated world",
    cost: units::declare::DeclaredCost::None,
    source: "",
    options: &[],
};
