//! Three routers in a row, each with a reservation for the same flow and a flood that shares its link. The delay through all of them is within the
//! concatenated bound, in which the burst of the flow counts once.
//!
//! ```text
//!            side 1          side 2          side 3
//!              |               |               |
//! sender - [router 1] - - [router 2] - - [router 3] - - receiver
//! ```
//!
//! The flood of a hop comes from the side of its router and leaves to the side of the next one, so it is on the same link as the flow.

use super::bounded_flow::BoundedFlow;
use super::processors::ProcessorSplit;
use super::router::AcceptanceRouter;
use super::traffic::{FlowTraffic, SETTLE, SendPattern, TrafficFlow, WARM_UP};
use super::verdict::Verdict;
use super::worker_watch::{WorkerStalls, WorkerWatch};
use anyhow::{Context, Result};
use control::api::{FlowPromiseReply, PromiseChain};
use io::netns::{Lab, LabHost, Plug};
use std::net::{Ipv4Addr, SocketAddr};
use units::{Mac, Nanos};

/// The routers.
const ROUTERS: u8 = 3;
/// The flow: packets a second, packets of a burst, and bytes of a packet; the delay that it asks of each router.
const RATE: u64 = 500;
const BURST: u64 = 8;
const PACKET: u64 = 500;
const DELAY: &str = "20ms";
/// A flood, in packets a second: twice the rate of a link.
const FLOOD: u64 = 5000;
const FLOOD_PACKET: u64 = 1000;
/// The destination ports of the flow, and of one like it without a reservation.
const PORT: u16 = 7000;
const PLAIN_PORT: u16 = 7001;
const FLOOD_PORT: u16 = 9;

const RECEIVER: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// The address of a side's host.
fn side(router: u8) -> Mac {
    Mac([2, 0, 0, 1, 0, router])
}

/// The router with this number, from 1.
fn configuration(core: u16, router: u8) -> String {
    let (before, last) = (router - 1, router == ROUTERS);
    let (next, flood) = (format!("10.0.{router}.2"), router + 1);
    let receiver = format!("[[neighbour]]\naddress = '{next}'\nmac = '{RECEIVER}'\nport = 'right'\n");
    format!(
        "version = 1
[router]
name = 'router{router}'
cores = '{core}'
[cpu]
input = 'timeslice(packets=32, slice=100us)'
forwarding = 'timeslice(packets=32, slice=100us)'
output = 'timeslice(packets=32, slice=100us)'
[port.left]
device = 'packet:left'
address = ['10.0.{before}.2/24']
offloads = false
line_rate = '20kpps'
[port.right]
device = 'packet:right'
address = ['10.0.{router}.1/24']
offloads = false
line_rate = '1kpps'
scheme = 'share(rate=20mbit){{fifo(limit=200)}}'
[port.side]
device = 'packet:side'
address = ['10.9.{router}.1/24']
offloads = false
line_rate = '10kpps'
[[neighbour]]
address = '10.9.{router}.2'
mac = '{}'
port = 'side'
[[route]]
to = '10.50.0.0/16'
via = '{next}'
[[route]]
to = '10.20.{flood}.0/24'
via = '{next}'
[[route]]
to = '10.20.{router}.0/24'
via = '10.9.{router}.2'
{}[[path]]
name = 'reserved'
reservations = true
",
        side(router),
        if last { &receiver } else { "" }
    )
}

/// The result of a run.
#[derive(Debug)]
pub struct RowResult {
    /// The length of the run.
    pub span: Nanos,
    /// The flow, with the concatenated bound.
    pub flow: BoundedFlow,
    /// The sum of the bounds of the routers.
    pub sum: Nanos,
    /// Packets of the floods that were sent.
    pub floods: u64,
    /// How this machine kept each worker from its processor.
    pub stalls: Vec<WorkerStalls>,
    /// The part of the packets of a flow without a reservation that arrived within the same bound, in per cent.
    pub plain: f64,
}

impl RowResult {
    /// The verdict about the flow.
    pub fn verdict(&self) -> Verdict {
        let broken: Vec<String> =
            Some(&self.flow).filter(|flow| !flow.is_kept()).iter().map(ToString::to_string).collect();
        Verdict::of(&broken, self.stalls.iter().find_map(|stalls| stalls.disturbance(SETTLE + self.span)))
    }
}

/// The hosts, which live as long as the routers.
struct RowHosts {
    sender: LabHost,
    receiver: LabHost,
    routers: Vec<LabHost>,
    sides: Vec<LabHost>,
    _lab: Lab,
}

impl RowHosts {
    fn new() -> Result<RowHosts> {
        let lab = Lab::new().context("real packets need network namespaces: run it as root")?;
        let hosts = |name: &str| (1..=ROUTERS).map(|n| lab.host(&format!("{name}{n}"))).collect::<Result<Vec<_>, _>>();
        let (sender, receiver, routers, sides) =
            (lab.host("sender")?, lab.host("receiver")?, hosts("router")?, hosts("side")?);
        [&sender, &receiver].into_iter().chain(&routers).chain(&sides).try_for_each(LabHost::silence_kernel)?;
        lab.cable(&sender.plug("eth0"), &routers[0].plug("left"))?;
        for pair in routers.windows(2) {
            lab.cable(&pair[0].plug("right"), &pair[1].plug("left"))?;
        }
        let last = &routers[routers.len() - 1];
        lab.cable(&last.plug("right"), &Plug { mac: Some(RECEIVER), ..receiver.plug("eth0") })?;
        sender.add_address("eth0", Ipv4Addr::new(10, 0, 0, 1).into(), 24)?;
        sender.add_default_route(Ipv4Addr::new(10, 0, 0, 2).into())?;
        for ((number, router), host) in (1..).zip(&routers).zip(&sides) {
            lab.cable(&Plug { mac: Some(side(number)), ..host.plug("eth0") }, &router.plug("side"))?;
            host.add_address("eth0", Ipv4Addr::new(10, 9, number, 2).into(), 24)?;
            host.add_default_route(Ipv4Addr::new(10, 9, number, 1).into())?;
        }
        Ok(RowHosts { sender, receiver, routers, sides, _lab: lab })
    }

    /// The flow, one like it without a reservation, and the floods.
    fn traffic(&self, processors: ProcessorSplit) -> Result<FlowTraffic> {
        let flow = |port| TrafficFlow {
            to: SocketAddr::from(([10, 50, 0, 1], port)),
            rate: RATE,
            burst: BURST,
            packet: PACKET,
            pattern: SendPattern::Bursts,
            is_flood: false,
        };
        let mut flows = vec![(&self.sender, flow(PORT)), (&self.sender, flow(PLAIN_PORT))];
        for (next, host) in (2..).zip(&self.sides) {
            let to = SocketAddr::from(([10, 20, next, 1], FLOOD_PORT));
            let packet = FLOOD_PACKET;
            let flood = TrafficFlow { to, rate: FLOOD, burst: 64, packet, pattern: SendPattern::Even, is_flood: true };
            flows.push((host, flood));
        }
        FlowTraffic::new(&flows, &self.receiver, processors)
    }
}

/// Reserves the flow at each router, with the burst in which its packets arrive there.
fn reserve(routers: &[AcceptanceRouter]) -> Result<Vec<FlowPromiseReply>> {
    let mut promises: Vec<FlowPromiseReply> = Vec::new();
    for router in routers {
        let burst = match promises.len() {
            0 => BURST * PACKET,
            index => PromiseChain(&promises).burst_bytes(index),
        };
        let added = router.reserve(&format!(
            "call rate {}bit packet {PACKET}b burst {burst}b delay {DELAY} match iif left ip daddr 10.50.0.1 udp dport {PORT}",
            RATE * PACKET * 8
        ))?;
        promises.push(added.promise);
    }
    Ok(promises)
}

/// Sends the flow for `span` through three routers that have reserved it.
///
/// # Errors
///
/// Why this machine cannot do it.
pub fn run(processors: ProcessorSplit, span: Nanos) -> Result<RowResult> {
    let hosts = RowHosts::new()?;
    let start =
        |(number, host)| AcceptanceRouter::start(host, processors, &configuration(processors.router, number), &[]);
    let routers: Vec<AcceptanceRouter> = (1..).zip(&hosts.routers).map(start).collect::<Result<_>>()?;
    let mut traffic = hosts.traffic(processors)?;
    traffic.run((WARM_UP, Nanos::ZERO), |_| ())?;
    let promises = reserve(&routers)?;
    let watches: Vec<_> = routers.iter().map(|router| WorkerWatch::begin(router.worker(), processors)).collect();
    let (results, ()) = traffic.run((SETTLE, span), |_| ())?;
    let stalls = watches.into_iter().map(WorkerWatch::end).collect::<Result<Vec<_>>>()?;
    let (bound, sum) = (PromiseChain(&promises).bound_ns(), promises.iter().map(|promise| promise.bound_ns).sum());
    let mut results = results.into_iter();
    let (Some(call), Some(plain)) = (results.next(), results.next()) else { anyhow::bail!("there are two flows") };
    let bound = Nanos::new(bound);
    let in_time = plain.measured.delays.iter().filter(|delay| **delay <= bound).count();
    Ok(RowResult {
        span,
        flow: BoundedFlow { name: "call".into(), result: call.measured, bound, at_first: call.at_first.missed(bound) },
        sum: Nanos::new(sum),
        floods: results.map(|flood| flood.measured.sent).sum(),
        plain: 100.0 * in_time as f64 / plain.measured.sent.max(1) as f64,
        stalls,
    })
}
