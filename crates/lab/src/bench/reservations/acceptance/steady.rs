//! Two reserved flows with computation, 2 to 1, beside a third flow that sends more than the processor and the link have left, while the operator changes
//! guests, routes and reservations. Each reserved flow gets its rate, and 99 of 100 packets leave within the bound that the router derived.
//!
//! The worker has a processor of its own. All other threads have the other one: senders, receiver, and the threads of the API.

use super::control_load::{self, ControlResult, GUEST};
use super::hosts::LineHosts;
use super::processors::ProcessorSplit;
use super::traffic::{FlowPhases, FlowResult, SETTLE, SendPattern, TrafficFlow, WARM_UP};
use super::verdict::Verdict;
use super::worker_watch::{WorkerStalls, WorkerWatch};
use crate::bench::BenchFigure;
use crate::bench::guests::WORK;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use units::Nanos;

/// The least part of its reservation that a flow has to get, in per cent.
const MIN_KEPT: f64 = 99.0;
/// The quantile of delays that has to be within the bound, in thousandths.
const QUANTILE: usize = 990;

/// A reserved flow: its name, packets a second and burst.
const RESERVED: [(&str, u64, u64); 2] = [("one", 4000, 8), ("two", 2000, 8)];
const PACKET: u64 = 1000;
const DELAY: &str = "30ms";
/// Packets a second of the flow without a reservation.
const FLOOD: u64 = 30_000;
/// The changes that have to be made, a second.
const LEAST_BUILDS: f64 = 3.0;
const LEAST_ROUTES: f64 = 990.0;
const LEAST_RESERVATIONS: f64 = 99.0;

/// The destination port of a reserved flow; the flood has port 9.
const PORT: u16 = 7000;
const FLOOD_PORT: u16 = 9;

/// A sender that could not send this part of its packets has disturbed the run.
const MOST_SKIPPED: f64 = 0.01;

/// The router on `core`. With reservations the paths of computation and of the flood are scheduled by shares; without, packets are served in the order of
/// arrival.
fn configuration(core: u16, reserved: bool) -> String {
    let (cpu, reservations) = match reserved {
        true => ("", "reservations = true\ninterleave = true"),
        false => ("scheduler = 'rr'\nbest_effort = 'single'", "match = 'iif in udp dport { 7000, 7001 }'"),
    };
    let scheme = if reserved { "share(rate=95mbit)" } else { "shape(rate=95mbit)" };
    format!(
        "version = 1
[router]
cores = '{core}'
[cpu]
input = 'timeslice(packets=32, slice=100us)'
forwarding = 'timeslice(packets=32, slice=100us)'
output = 'timeslice(packets=32, slice=100us)'
{cpu}
{}
line_rate = '50kpps'
{}
scheme = '{scheme}'
[[path]]
name = 'reserved'
{reservations}
cost = '60us'
functions = ['guest:{GUEST}(turns=10000)', 'ip']
[[path]]
name = 'bulk'
match = 'iif in udp dport {FLOOD_PORT}'
functions = ['spin(cost=20us)', 'ip']
queue = 64
",
        LineHosts::PORT_IN,
        LineHosts::PORT_OUT
    )
}

/// A reserved flow in a run.
#[derive(Debug)]
pub struct KeptFlow {
    /// Its name.
    pub name: &'static str,
    /// Its packets.
    pub result: FlowResult,
    /// The delay bound that the router derived.
    pub bound: Nanos,
    /// The mean time of the functions of a packet.
    pub functions: Nanos,
    /// Packets that were lost or later than the bound in the time after the reservation in which the router settles.
    pub at_first: u64,
}

/// A run.
#[derive(Debug)]
pub struct SteadyResult {
    /// Its length.
    pub span: Nanos,
    /// The reserved flows.
    pub flows: Vec<KeptFlow>,
    /// The flow without a reservation.
    pub flood: FlowResult,
    /// The changes beside them.
    pub control: ControlResult,
    /// How this machine kept the worker from its processor.
    pub stalls: WorkerStalls,
    /// Packets of all flows that the kernel lost at the router's ports.
    pub lost_at_ports: u64,
}

impl KeptFlow {
    /// The part of the packets within its reservation that arrived, in per cent.
    pub fn kept(&self) -> f64 {
        100.0 * self.result.received as f64 / self.result.sent.max(1) as f64
    }

    /// The 99th percentile of its delays.
    pub fn delay(&self) -> Nanos {
        self.result.quantile(QUANTILE)
    }

    /// A flow that was not sent proves nothing.
    fn is_kept(&self) -> bool {
        self.skipped() <= MOST_SKIPPED
            && self.kept() >= MIN_KEPT
            && self.delay() <= self.bound
            && self.result.reordered == 0
    }

    fn skipped(&self) -> f64 {
        self.result.skipped as f64 / (self.result.skipped + self.result.sent).max(1) as f64
    }
}

impl SteadyResult {
    /// The verdict about all reserved flows.
    pub fn verdict(&self) -> Verdict {
        let broken = self.flows.iter().filter(|flow| !flow.is_kept());
        Verdict::of(&broken.map(ToString::to_string).collect::<Vec<_>>(), self.disturbance())
    }

    /// The disturbance of the run by the machine, if it was too large.
    fn disturbance(&self) -> Option<String> {
        let skipped = self.flows.iter().map(KeptFlow::skipped).fold(0.0, f64::max);
        let sender = || format!("the machine kept a sender from {:.1} % of its packets", skipped * 100.0);
        self.stalls.disturbance(SETTLE + self.span).or_else(|| (skipped > MOST_SKIPPED).then(sender))
    }

    /// The figures of the run.
    pub fn figures(&self) -> Vec<BenchFigure> {
        let seconds = self.span.as_secs_f64();
        let millis = |time: Nanos| time.get() as f64 / 1e6;
        let alone = |name: String, value: f64, unit, budget| BenchFigure::alone("promises", name, value, unit, budget);
        let least =
            |name: String, value: f64, unit, budget| BenchFigure::no_less("promises", name, value, unit, budget);
        let mut figures = Vec::new();
        for flow in &self.flows {
            let of = |what: &str| format!("{}: {what}", flow.name);
            figures.extend([
                least(of("kept of its reservation"), flow.kept(), "%", MIN_KEPT),
                alone(of("p99 of the delay, within the bound"), millis(flow.delay()), "ms", Some(millis(flow.bound))),
                alone(of("longest delay"), millis(flow.result.longest()), "ms", None),
                alone(of("received"), flow.result.received as f64 / seconds / 1000.0, "kpps", None),
                alone(of("mean time of its functions"), flow.functions.get() as f64 / 1000.0, "us", None),
                alone(of("lost or late just after the reservation"), flow.at_first as f64, "packets", None),
                alone(of("overtaken packets"), flow.result.reordered as f64, "packets", Some(0.0)),
                alone(of("not sent, for others had the processor"), flow.skipped() * 100.0, "%", None),
            ]);
        }
        let changes = [
            ("builds of the guest", self.control.builds, LEAST_BUILDS),
            ("changes of routes", self.control.routes, LEAST_ROUTES),
            ("reservations that came and went", self.control.reservations, LEAST_RESERVATIONS),
        ];
        for (name, counts, budget) in changes {
            figures.push(least(
                name.to_string(),
                counts.changes as f64 / (SETTLE + self.span).as_secs_f64(),
                "/s",
                budget,
            ));
            figures.push(alone(format!("{name}: longest request"), millis(counts.longest), "ms", None));
        }
        figures.push(alone("reservations refused".into(), self.control.refused as f64, "flows", None));
        let rest = [
            ("flood: sent", self.flood.sent as f64 / seconds / 1000.0, "kpps"),
            ("flood: received", self.flood.received as f64 / seconds / 1000.0, "kpps"),
            (
                "worker kept from its processor",
                millis(self.stalls.total()) / (SETTLE + self.span).as_secs_f64() / 10.0,
                "%",
            ),
            ("worker kept from its processor, at once", millis(self.stalls.longest()), "ms"),
            ("lost at the router's ports, all flows", self.lost_at_ports as f64, "packets"),
        ];
        figures.extend(rest.into_iter().map(|(name, value, unit)| alone(name.to_string(), value, unit, None)));
        figures
    }
}

impl std::fmt::Display for KeptFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FlowResult { sent, skipped, received, reordered, .. } = self.result;
        write!(
            f,
            "'{}' got {received} of {sent} packets ({:.2} %), {reordered} overtaken, p99 {} and longest {} of {} ({skipped} not sent)",
            self.name,
            self.kept(),
            self.delay().rounded(),
            self.result.longest().rounded(),
            self.bound.rounded()
        )
    }
}

fn flows() -> Vec<TrafficFlow> {
    let to = |last: u8, port: u16| SocketAddr::from(([10, 1, 0, last], port));
    let reserved = (1..).zip(RESERVED).map(|(last, (_, rate, burst))| TrafficFlow {
        to: to(last, PORT - 1 + u16::from(last)),
        rate,
        burst,
        packet: PACKET,
        pattern: SendPattern::Even,
        is_flood: false,
    });
    let flood = TrafficFlow {
        to: SocketAddr::from(([10, 2, 0, 1], FLOOD_PORT)),
        rate: FLOOD,
        burst: 64,
        packet: PACKET,
        pattern: SendPattern::Even,
        is_flood: true,
    };
    reserved.chain([flood]).collect()
}

/// Runs the flows for `span` through a router that has reserved them, while guests, routes and reservations change.
///
/// # Errors
///
/// Why this machine cannot do it.
pub fn run(processors: ProcessorSplit, span: Nanos) -> Result<SteadyResult> {
    let hosts = LineHosts::new(processors)?;
    let router = hosts.start(&configuration(processors.router, true), &[(GUEST, WORK)])?;
    let mut traffic = hosts.traffic(flows())?;
    traffic.run((WARM_UP, Nanos::ZERO), |_| ())?;
    let mut bounds = Vec::new();
    for (last, (name, rate, burst)) in (1..).zip(RESERVED) {
        let added = router.reserve(&format!(
            "{name} rate {}bit packet {PACKET}b burst {}b delay {DELAY} match iif in ip daddr 10.1.0.{last} udp dport {}",
            rate * PACKET * 8,
            burst * PACKET,
            PORT - 1 + last
        ))?;
        bounds.push((name, Nanos::new(added.promise.bound_ns)));
    }
    let lost = router.lost_at_ports()?;
    let watch = WorkerWatch::begin(router.worker(), processors);
    let (mut results, control) = traffic.run((SETTLE, span), |over| control_load::run(&router, over))?;
    let stalls = watch.end()?;
    let flood = results.pop().context("the flood is the last flow")?.measured;
    let reserved = router.flows()?;
    let functions = |name: &str| {
        let time = reserved.iter().find(|flow| flow.name == name).and_then(|flow| flow.functions?.mean_ns);
        Nanos::new(time.unwrap_or(0))
    };
    let flows = bounds.into_iter().zip(results).map(|((name, bound), FlowPhases { at_first, measured })| KeptFlow {
        name,
        result: measured,
        bound,
        functions: functions(name),
        at_first: at_first.missed(bound),
    });
    Ok(SteadyResult {
        span,
        flows: flows.collect(),
        flood,
        control: control?,
        stalls,
        lost_at_ports: router.lost_at_ports()? - lost,
    })
}

/// Runs the flows for `span` through a router without reservations. Returns the part of each reserved flow that arrives, in per cent.
///
/// # Errors
///
/// Why this machine cannot do it.
pub fn run_without(processors: ProcessorSplit, span: Nanos) -> Result<Vec<f64>> {
    let hosts = LineHosts::new(processors)?;
    let _router = hosts.start(&configuration(processors.router, false), &[(GUEST, WORK)])?;
    let mut traffic = hosts.traffic(flows())?;
    let (results, ()) = traffic.run((WARM_UP, span), |_| ())?;
    let results = results.into_iter().map(|flow| flow.measured);
    Ok(results.take(RESERVED.len()).map(|flow| 100.0 * flow.received as f64 / flow.sent.max(1) as f64).collect())
}
