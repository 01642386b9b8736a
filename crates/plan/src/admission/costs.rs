//! Costs as the caller knows them: measured in the daemon, declared in the configuration, or assumed.

use crate::cost::{CostEstimate, CostSource};
use crate::{LinkService, Match, PathPlan, Plan, PortPlan, Prefix, RouteAction};
use units::{Nanos, PacketRate, Rate};

/// The costs and properties of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortCosts {
    /// Receiving and classifying a packet.
    pub input: CostEstimate,
    /// The queueing scheme and transmitting a packet.
    pub output: CostEstimate,
    /// The rate of the link, if it has one.
    pub link: Option<Rate>,
    /// The line rate in packets a second, if it is known.
    pub line_rate: Option<PacketRate>,
    /// The size of the receive ring in packets, if it is known.
    pub ring: Option<u32>,
    /// Packets that the device buffers after the queueing scheme, if it is known.
    pub transmit: Option<u32>,
}

/// The cost of a path and its output ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathCosts {
    /// Its functions.
    pub functions: CostEstimate,
    /// The indexes of the ports by which its packets may leave; empty if unknown.
    pub exits: Vec<usize>,
}

/// All costs of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Choosing a task and switching to it.
    pub switch: Nanos,
    /// The source of that cost.
    pub switch_source: CostSource,
    /// The ports, in the order of the plan.
    pub ports: Vec<PortCosts>,
    /// The paths, in the order of the plan.
    pub paths: Vec<PathCosts>,
    /// The functions of the built-in path `best-effort`.
    pub best_effort: CostEstimate,
}

/// Assumed costs of a switch, a function, and receiving or transmitting a packet: approximate values for a core at 3 GHz.
const SWITCH: Nanos = Nanos::new(150);
const FORWARDING: Nanos = Nanos::new(50);
const IN_MEMORY: Nanos = Nanos::new(60);
const BY_THE_KERNEL: Nanos = Nanos::new(900);

impl Costs {
    /// The configured costs, and assumptions for the rest: to check a plan on a machine that does not run it.
    pub fn assumed(plan: &Plan) -> Costs {
        let switch = plan.cpu.switch_cost;
        let ports = plan.ports.iter().map(|port| {
            let by_the_kernel = matches!(port.device.kind.as_str(), "packet" | "tap");
            let packet = CostEstimate::flat(if by_the_kernel { BY_THE_KERNEL } else { IN_MEMORY }, CostSource::Assumed);
            let link = emulated(port);
            let (ring, transmit, line_rate) = (None, None, port.cpu.line_rate);
            PortCosts { input: packet, output: packet, link, line_rate, ring, transmit }
        });
        let paths = plan.paths.iter().map(|path| {
            let said = path.cpu.cost.map(|cost| CostEstimate { cost, source: CostSource::Declared });
            PathCosts {
                functions: said.unwrap_or_else(|| CostEstimate::sum(&path.functions)),
                exits: exits(plan, path),
            }
        });
        Costs {
            switch: switch.unwrap_or(SWITCH),
            switch_source: if switch.is_some() { CostSource::Declared } else { CostSource::Assumed },
            ports: ports.collect(),
            paths: paths.collect(),
            best_effort: CostEstimate::flat(FORWARDING, CostSource::Assumed),
        }
    }
}

/// The rate of the link that a port emulates, if it is constant.
pub(crate) fn emulated(port: &PortPlan) -> Option<Rate> {
    match port.link.as_ref()?.medium.service {
        LinkService::Constant(rate) | LinkService::Bucket(rate, _) => Some(rate).filter(|rate| *rate != Rate::MAX),
        LinkService::Trace(_) | LinkService::Poisson(_) | LinkService::Brownian(_) => None,
    }
}

/// The ports by which the packets of a path leave, according to subnets and static routes. Empty if the match has no destination, a named set, or
/// destinations without a route.
pub fn exits(plan: &Plan, path: &PathPlan) -> Vec<usize> {
    path.matching.as_ref().map_or_else(Vec::new, |matching| exits_of(plan, matching))
}

/// The ports by which the packets of a match leave; see [`exits`].
pub fn exits_of(plan: &Plan, matching: &Match) -> Vec<usize> {
    let to = matching.destination.networks();
    let mut exits: Vec<Exits> = to.iter().map(|&to| Exits { to, longest: None, ports: Vec::new() }).collect();
    let mut within = Vec::new();
    // Networks are sorted and disjoint. Few of a million routes overlap one, and those are skipped quickly.
    let overlapped = |prefix: Prefix| {
        let end = to.partition_point(|network| network.address <= prefix.last());
        to[..end].partition_point(|network| network.last() < prefix.address)..end
    };
    for (index, port) in plan.ports.iter().enumerate() {
        for prefix in port.interfaces.iter().flat_map(|interface| &interface.addresses).map(|prefix| prefix.network()) {
            exits[overlapped(prefix)].iter_mut().for_each(|exits| exits.add(prefix, index, &mut within));
        }
    }
    let port_of = |name: &str| {
        plan.ports.iter().position(|port| port.interfaces.iter().any(|interface| *interface.name == *name))
    };
    for route in &plan.routes {
        let overlapped = overlapped(route.to);
        if overlapped.is_empty() {
            continue;
        }
        let mut add = |name: &str| {
            let Some(index) = port_of(name) else { return };
            exits[overlapped.clone()].iter_mut().for_each(|exits| exits.add(route.to, index, &mut within));
        };
        match &route.action {
            RouteAction::Via { interface, .. } => add(interface),
            RouteAction::Group(hops) => hops.iter().for_each(|hop| add(&hop.interface)),
            RouteAction::Blackhole | RouteAction::Unreachable => {}
        }
    }
    within.extend(exits.into_iter().flat_map(|exits| exits.ports));
    within.sort_unstable();
    within.dedup();
    within
}

/// The output ports of a destination by its longest match. Those of more specific prefixes are collected elsewhere.
struct Exits {
    to: Prefix,
    longest: Option<u8>,
    ports: Vec<usize>,
}

impl Exits {
    fn add(&mut self, prefix: Prefix, port: usize, within: &mut Vec<usize>) {
        if !prefix.covers(self.to) {
            within.push(port);
        } else if self.longest <= Some(prefix.length) {
            if self.longest < Some(prefix.length) {
                self.ports.clear();
            }
            self.longest = Some(prefix.length);
            self.ports.push(port);
        }
    }
}
