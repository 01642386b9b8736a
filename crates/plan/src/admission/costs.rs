//! What things cost, as the caller knows it: measured in the daemon, said in the configuration, or assumed.

use crate::cost::{Figure, Source};
use crate::{PathPlan, Plan, PortPlan, Prefix, RouteAction, Service};
use units::{Nanos, PacketRate, Rate};

/// What a port costs and is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortCosts {
    /// Receiving and classifying a packet.
    pub input: Figure,
    /// The queueing scheme and transmitting a packet.
    pub output: Figure,
    /// The rate of the link, where it has one.
    pub link: Option<Rate>,
    /// Packets a second that the line may bring, where that is known.
    pub line_rate: Option<PacketRate>,
    /// Packets that the receive ring holds, where that is known.
    pub ring: Option<u32>,
    /// Packets that the device holds behind the queueing scheme, where that is known.
    pub transmit: Option<u32>,
}

/// What a path costs and where it leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathCosts {
    /// Its functions.
    pub functions: Figure,
    /// The ports, by their place in the plan, that its packets may leave by; empty where that is not known.
    pub exits: Vec<usize>,
}

/// What everything costs that a plan makes the router do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Choosing a task and changing to it.
    pub switch: Nanos,
    /// Who says so.
    pub switch_source: Source,
    /// The ports, as in the plan.
    pub ports: Vec<PortCosts>,
    /// The paths, as in the plan.
    pub paths: Vec<PathCosts>,
    /// The functions of the built-in path `best-effort`.
    pub best_effort: Figure,
}

/// A switch, a function and a packet's way in or out, where nobody knows better: about what they cost on a core of 3 GHz.
const SWITCH: Nanos = Nanos::new(150);
const FORWARDING: Nanos = Nanos::new(50);
const IN_MEMORY: Nanos = Nanos::new(60);
const BY_THE_KERNEL: Nanos = Nanos::new(900);

impl Costs {
    /// What the configuration says, and guesses for the rest: for a look at a plan on a machine that does not run it.
    pub fn assumed(plan: &Plan) -> Costs {
        let switch = plan.cpu.switch_cost;
        let ports = plan.ports.iter().map(|port| {
            let by_the_kernel = matches!(port.device.kind.as_str(), "packet" | "tap");
            let packet = Figure::flat(if by_the_kernel { BY_THE_KERNEL } else { IN_MEMORY }, Source::Assumed);
            let link = emulated(port);
            let (ring, transmit, line_rate) = (None, None, port.cpu.line_rate);
            PortCosts { input: packet, output: packet, link, line_rate, ring, transmit }
        });
        let paths = plan.paths.iter().map(|path| {
            let said = path.cpu.cost.map(|cost| Figure { cost, source: Source::Declared });
            PathCosts { functions: said.unwrap_or_else(|| Figure::sum(&path.functions)), exits: exits(plan, path) }
        });
        Costs {
            switch: switch.unwrap_or(SWITCH),
            switch_source: if switch.is_some() { Source::Declared } else { Source::Assumed },
            ports: ports.collect(),
            paths: paths.collect(),
            best_effort: Figure::flat(FORWARDING, Source::Assumed),
        }
    }
}

/// The rate of the link that a port pretends to have, where it has one that stays.
pub(crate) fn emulated(port: &PortPlan) -> Option<Rate> {
    match port.link.as_ref()?.medium.service {
        Service::Constant(rate) | Service::Bucket(rate, _) => Some(rate).filter(|rate| *rate != Rate::MAX),
        Service::Trace(_) | Service::Poisson(_) | Service::Brownian(_) => None,
    }
}

/// The ports that the packets of a path leave by, as subnets and static routes have it; empty where its match says no
/// destination, or one that no route leads to.
pub fn exits(plan: &Plan, path: &PathPlan) -> Vec<usize> {
    let Some(to) = path.matching.destination else { return Vec::new() };
    let mut exits = Exits { to, longest: None, covering: Vec::new(), within: Vec::new() };
    for (index, port) in plan.ports.iter().enumerate() {
        for prefix in port.interfaces.iter().flat_map(|interface| &interface.addresses) {
            exits.add(prefix.network(), index);
        }
    }
    let port_of = |name: &str| {
        plan.ports.iter().position(|port| port.interfaces.iter().any(|interface| *interface.name == *name))
    };
    // Of a million routes, few are about the destination.
    for route in plan.routes.iter().filter(|route| route.to.covers(to) || to.covers(route.to)) {
        let mut add = |name: &str| port_of(name).into_iter().for_each(|index| exits.add(route.to, index));
        match &route.action {
            RouteAction::Via { interface, .. } => add(interface),
            RouteAction::Group(hops) => hops.iter().for_each(|hop| add(&hop.interface)),
            RouteAction::Blackhole | RouteAction::Unreachable => {}
        }
    }
    exits.within.append(&mut exits.covering);
    exits.within.sort_unstable();
    exits.within.dedup();
    exits.within
}

/// Where a destination leads: by what is within it, and by the longest of what it is within.
struct Exits {
    to: Prefix,
    longest: Option<u8>,
    covering: Vec<usize>,
    within: Vec<usize>,
}

impl Exits {
    fn add(&mut self, prefix: Prefix, port: usize) {
        if !prefix.covers(self.to) {
            if self.to.covers(prefix) {
                self.within.push(port);
            }
        } else if self.longest <= Some(prefix.length) {
            if self.longest < Some(prefix.length) {
                self.covering.clear();
            }
            self.longest = Some(prefix.length);
            self.covering.push(port);
        }
    }
}
