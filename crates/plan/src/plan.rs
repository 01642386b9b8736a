//! The plan: the meaning of a checked configuration, with every default filled in.
//!
//! Configurations with the same meaning give equal plans: ports are sorted by name, interfaces by VLAN, routes and neighbours by address, and texts
//! are canonical. Only the order of paths has a meaning.

use crate::Call;
use crate::named::nanoseconds;
use crate::section::cpu::CpuPlan;
use crate::section::linux::LinuxPlan;
use crate::section::multicast::MulticastPlan;
use crate::section::nat::NatPlan;
use crate::section::neighbour::NeighbourPlan;
use crate::section::objectives::{CodePoints, Objective};
use crate::section::passthrough::PassThroughPlan;
use crate::section::path::PathPlan;
use crate::section::policy::PolicyPlan;
use crate::section::port::PortPlan;
use crate::section::port::interface::InterfacePlan;
use crate::section::route::RoutePlan;
use crate::section::router::{Cores, Router};
use crate::section::routing::rule::RoutingRule;
use crate::section::set::SetPlan;
use crate::section::state::StatePlan;
use crate::section::subscribers::SubscriberSection;
use serde::Serialize;
use units::Nanos;

/// A whole configuration.
// Large: a field for each section of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Plan {
    /// The router's name.
    pub name: String,
    /// Worker threads, 1 to 64.
    pub workers: u16,
    /// The core of each worker, in order; empty if the system chooses.
    pub cores: Cores,
    /// How long an idle worker polls before it sleeps.
    #[serde(serialize_with = "nanoseconds")]
    pub busy_poll: Nanos,
    /// How each worker divides its processor.
    pub cpu: CpuPlan,
    /// Frames in the pool.
    pub frames: u32,
    /// Super-frames in the pool.
    pub super_frames: u32,
    /// Ranges in the route cache of each port on each worker; 0 for no cache.
    pub route_cache: u32,
    /// Limit of ICMP errors a second.
    pub icmp_rate: u32,
    /// Largest burst of ICMP errors.
    pub icmp_burst: u32,
    /// The ports, sorted by name; at least one.
    pub ports: Vec<PortPlan>,
    /// The configured routes, sorted by destination. Connected routes follow from the interfaces.
    pub routes: Vec<RoutePlan>,
    /// The static neighbours, sorted by interface and address.
    pub neighbours: Vec<NeighbourPlan>,
    /// The forwarded multicast groups, sorted by VRF, group and source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub multicast: Vec<MulticastPlan>,
    /// The pairs of pass-through ports, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passthrough: Vec<PassThroughPlan>,
    /// The subscribers of an access network; `None` without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribers: Option<SubscriberSection>,
    /// The paths in order of matching. The built-in path `best-effort` comes after them and is not listed.
    pub paths: Vec<PathPlan>,
    /// The rules that select routes, in order; empty without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routing: Vec<RoutingRule>,
    /// The named sets, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<SetPlan>,
    /// Address and port translation; `None` if it is off.
    pub nat: Option<NatPlan>,
    /// Ephemeral state; `None` if it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StatePlan>,
    /// Interfaces of the kernel for those of the router; `None` if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<LinuxPlan>,
    /// The objectives of code points, for interfaces that trust them.
    #[serde(skip_serializing_if = "CodePoints::is_empty")]
    pub objectives: CodePoints,
    /// The policies that select schemes by objective, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyPlan>,
}

impl Plan {
    /// Every interface of every port, in order.
    pub fn interfaces(&self) -> impl Iterator<Item = (&PortPlan, &InterfacePlan)> {
        self.ports.iter().flat_map(|port| port.interfaces.iter().map(move |interface| (port, interface)))
    }

    /// The policy of a port, if it has one.
    pub fn policy(&self, port: &PortPlan) -> Option<&PolicyPlan> {
        self.policies.iter().find(|policy| Some(&policy.name) == port.policy.as_ref())
    }

    /// The scheme for an objective at a port: from its policy, else its own.
    pub fn scheme<'p>(&'p self, port: &'p PortPlan, objective: Objective) -> &'p Call {
        self.policy(port).and_then(|policy| policy.schemes.get(&objective)).unwrap_or(&port.scheme)
    }

    /// The fields of `[router]`.
    pub(crate) fn router(&self) -> Router {
        Router {
            name: self.name.clone(),
            workers: self.workers,
            cores: self.cores.clone(),
            busy_poll: self.busy_poll,
            frames: self.frames,
            super_frames: self.super_frames,
            route_cache: self.route_cache,
            icmp_rate: self.icmp_rate,
            icmp_burst: self.icmp_burst,
        }
    }
}
