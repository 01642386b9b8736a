//! Random sets of reserved flows on real packets, as `sim` runs them in virtual time: the router keeps each one that it admits, while others flood it. Each
//! admitted flow sends its whole burst at once, as often as its rate permits. Refused flows send as much, with the largest reservation that fits.
//!
//! The sets are for a machine with the costs of the simulated one. If this machine is slower, all rates are lower by the same factor.

use super::bounded_flow::BoundedFlow;
use super::hosts::LineHosts;
use super::processors::ProcessorSplit;
use super::router::{AcceptanceRouter, edit_flows};
use super::traffic::{FlowPhases, FlowTraffic, SendPattern, TrafficFlow};
use super::verdict::Verdict;
use super::worker_watch::WorkerWatch;
use anyhow::{Result, anyhow};
use control::api::TasksReply;
use sim::reservation_set::{AskedFlow, BURST_RATE, ReservationSet};
use std::net::SocketAddr;
use units::Nanos;

/// The time before a measurement, in which neighbours are resolved and costs are measured.
const WARM_UP: Nanos = Nanos::millis(800);
/// The time after the reservations until the measurement: the first runs of new tasks are slow, and are charged.
const SETTLE: Nanos = Nanos::millis(600);
/// The cost of receiving and sending a packet in the simulated worlds.
const SIMULATED: Nanos = Nanos::micros(3);
/// The flow without a reservation, in packets a second.
const FLOOD: u64 = 30_000;

fn configuration(core: u16, set: &ReservationSet) -> String {
    format!(
        "version = 1
[router]
cores = '{core}'
[cpu]
input = 'timeslice(packets=32, slice=50us)'
forwarding = 'timeslice(packets=32, slice=50us)'
output = 'timeslice(packets=32, slice=50us)'
{}
line_rate = '60kpps'
{}
scheme = 'share(rate=95mbit)'
[[path]]
name = 'work'
reservations = true
interleave = {}
functions = ['spin(cost={}us)', 'ip']
",
        LineHosts::PORT_IN,
        LineHosts::PORT_OUT,
        set.interleave,
        set.cost
    )
}

/// The result of a set.
#[derive(Debug, Default)]
pub struct SetResult {
    /// The flows that were admitted as they asked.
    pub admitted: Vec<BoundedFlow>,
    /// The number of refused flows.
    pub refused: usize,
    /// The disturbance of the run by the machine, if it was too large.
    pub disturbance: Option<String>,
}

impl SetResult {
    /// The admitted flows that were not kept.
    pub fn broken(&self) -> Vec<&BoundedFlow> {
        self.admitted.iter().filter(|flow| !flow.is_kept()).collect()
    }

    /// The verdict about the set.
    pub fn verdict(&self) -> Verdict {
        let broken: Vec<String> = self.broken().iter().map(ToString::to_string).collect();
        Verdict::of(&broken, self.disturbance.clone())
    }

    /// The part of its bound that the slowest packet of any admitted flow used.
    pub fn most_used(&self) -> f64 {
        self.admitted.iter().map(BoundedFlow::used).fold(0.0, f64::max)
    }
}

fn traffic(hosts: &LineHosts, set: &ReservationSet) -> Result<FlowTraffic> {
    let flow = |flow: &AskedFlow| TrafficFlow {
        to: SocketAddr::from(([10, 0, 0, 1], flow.port())),
        rate: flow.rate,
        burst: flow.burst,
        packet: flow.packet,
        pattern: SendPattern::Bursts,
        is_flood: false,
    };
    let flood = TrafficFlow {
        to: SocketAddr::from(([10, 0, 0, 1], 9)),
        rate: FLOOD,
        burst: 64,
        packet: 300,
        pattern: SendPattern::Even,
        is_flood: true,
    };
    hosts.traffic(set.flows.iter().map(flow).chain([flood]).collect())
}

/// How many times slower than the simulated machine this one is.
///
/// # Errors
///
/// Why this machine cannot run a set.
pub fn slower(processors: ProcessorSplit) -> Result<u64> {
    let set = ReservationSet { cost: 1, interleave: false, flows: Vec::new() };
    let hosts = LineHosts::new(processors)?;
    let router = hosts.start(&configuration(processors.router, &set), &[])?;
    traffic(&hosts, &set)?.run((WARM_UP, Nanos::ZERO), |_| ())?;
    let tasks: TasksReply = router.client().get("/v1/tasks")?;
    let cost = |kind: &str, port: &str| {
        let of = |task: &&control::api::Task| task.kind == kind && task.port.as_deref() == Some(port);
        tasks.tasks.iter().filter(of).map(|task| task.cost_ns).max().unwrap_or(0)
    };
    Ok((cost("input", "in") + cost("output", "out")).div_ceil(SIMULATED.get()).clamp(1, BURST_RATE / 100))
}

/// Runs the set of this seed for `span`, with rates that are `slower` times lower.
///
/// # Errors
///
/// Why this machine cannot do it, or what the router refuses besides reservations.
pub fn run(processors: ProcessorSplit, (seed, slower): (u64, u64), span: Nanos) -> Result<SetResult> {
    let set = ReservationSet::random(seed, slower);
    let hosts = LineHosts::new(processors)?;
    let router = hosts.start(&configuration(processors.router, &set), &[])?;
    let mut traffic = traffic(&hosts, &set)?;
    traffic.run((WARM_UP, Nanos::ZERO), |_| ())?;
    let admitted: Vec<bool> = set.flows.iter().map(|flow| reserve(&router, flow)).collect::<Result<_>>()?;
    let reserved = router.flows()?;
    let bound =
        |flow: &AskedFlow| reserved.iter().find(|known| known.name == flow.name()).map(|flow| flow.promise.bound_ns);
    let watch = WorkerWatch::begin(router.worker(), processors);
    let (results, ()) = traffic.run((SETTLE, span), |_| ())?;
    let stalls = watch.end()?;
    let mut all = SetResult { disturbance: stalls.disturbance(SETTLE + span), ..SetResult::default() };
    for ((flow, FlowPhases { at_first, measured: result }), admitted) in set.flows.iter().zip(results).zip(admitted) {
        if admitted {
            let bound = Nanos::new(bound(flow).ok_or_else(|| anyhow!("{} has lost its reservation", flow.name()))?);
            let at_first = at_first.missed(bound);
            all.admitted.push(BoundedFlow { name: flow.name(), result, bound, at_first });
        } else {
            all.refused += 1;
        }
    }
    Ok(all)
}

/// Reserves a flow as it asks. Returns false for a refused one, which gets the largest reservation that the router names.
fn reserve(router: &AcceptanceRouter, flow: &AskedFlow) -> Result<bool> {
    let client = router.client();
    let asked = flow.line(&format!("{}bit", flow.bits()));
    let Some(refused) = edit_flows(&client, &asked, true)?.refused else {
        edit_flows(&client, &asked, false)?;
        return Ok(true);
    };
    if refused.resource.is_none() {
        return Err(anyhow!("{asked} is refused for another reason: {refused:?}"));
    }
    if let Some(rate) = refused.hint.strip_prefix("rate ").and_then(|rest| rest.split(' ').next()) {
        // The hint is right.
        edit_flows(&client, &flow.line(rate), false)?;
    }
    Ok(false)
}
