//! Worlds of hosts on real packets: the kernel's TCP at both ends of each flow, and between them a router whose ports emulate the world's link.
//! Several worlds run in parallel, each in a laboratory of its own: a run takes as long as its world, but little processor time.

mod endpoints;
mod laboratory;
mod sampler;

use anyhow::{Context, Result, anyhow};
use endpoints::{FlowSender, RunTimes, SenderTraffic, receive};
use io::clock;
use io::tcp::TcpConnectOptions;
use laboratory::{Laboratory, queue_limit};
use plan::LinkService;
use sampler::RouterSampler;
use sim::experiment::{CompletedRun, DataFiles, Job, ParameterValue, Runner, Simulation};
use sim::tcp::application::FlowSizes;
use sim::{FlowPlan, HostNetwork, Measurements, RealFlow, WorldPlan};
use std::sync::atomic::AtomicU64;
use std::thread;
use units::Nanos;

/// The headers of the longest segment: packets of 1260 bytes with 40 of headers and options.
const HEADERS: u32 = 40;
/// The TCP timestamps among them.
const OPTIONS: u32 = 12;
/// Bytes buffered in a sender's socket: more than it sends between two samples.
const UNSENT: u32 = 1 << 19;
/// Delay from the end of the setup to the start of a run.
const SOON: Nanos = Nanos::millis(50);
/// The parameter and the value that mark a simulated run in an experiment with both kinds.
const SIMULATED: (&str, &str) = ("on", "model");

/// Carries out worlds of hosts on real packets.
pub struct RealHosts {
    files: DataFiles,
    /// The kernel's version.
    kernel: String,
    at_once: usize,
}

impl RealHosts {
    /// Worlds in parallel per core: a link of some 10 Mbit/s takes a few hundredths of one.
    pub const ON_A_CORE: usize = 4;

    /// Runs at most `at_once` worlds in parallel.
    ///
    /// # Errors
    ///
    /// Why this machine cannot provide a laboratory.
    pub fn new(files: DataFiles, at_once: usize) -> Result<RealHosts> {
        // Fail here, before runs that take minutes begin.
        drop(io::netns::Lab::new().context("real packets need network namespaces: run it as root")?);
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Ok(RealHosts { files, kernel, at_once })
    }

    /// True if the runs are of hosts, and not of routers.
    pub fn supports(job: &Job) -> bool {
        WorldPlan::parse(&job.world, &job.file).is_ok_and(|world| !world.hosts.flows.is_empty())
    }

    fn simulation(&self) -> Simulation {
        Simulation { files: self.files.clone(), ..Simulation::default() }
    }

    /// Runs a world.
    pub fn run_once(&self, world: &WorldPlan) -> Result<Measurements> {
        let flows = &world.hosts.flows;
        let packet = flows.first().map_or(0, |flow| flow.packet);
        let length = Nanos::new(world.duration.get());
        let rate = |passage: &HostNetwork| match &passage.forward.medium.service {
            LinkService::Constant(rate) | LinkService::Bucket(rate, _) => Ok(rate.get() as f64),
            LinkService::Trace(plan) => {
                let name = plan.source.to_string();
                self.files.trace_rate(&name, f64::from(packet), length.as_secs_f64())
            }
            other => Err(format!("on real packets a link has a rate or a trace, not {other}")),
        };
        let passage = world.host_network(u64::MAX).map_err(anyhow::Error::msg)?;
        // The queue limit depends on the rate of the link, so compute the passage again with that limit.
        let most = queue_limit(rate(&passage).map_err(anyhow::Error::msg)?, length, packet);
        let passage = world.host_network(most).map_err(anyhow::Error::msg)?;
        let mut laboratory = Laboratory::new(passage.clone(), most, world.seed, self.files.clone())?;
        let mut ready = Vec::new();
        for (number, flow) in flows.iter().enumerate() {
            let segment = flow.packet.saturating_sub(HEADERS).clamp(88, 65_000) as u16;
            let manner =
                TcpConnectOptions { congestion_control: control(flow), max_segment: segment, max_unsent: UNSENT };
            ready.push((flow, laboratory.connection(number, &manner)?, self.sender_traffic(world, flow)?));
        }
        let begin = clock::now() + SOON;
        let times = RunTimes { begin, end: begin + length };
        let back = passage.back.medium.delay;
        let counters: Vec<AtomicU64> = flows.iter().map(|_| AtomicU64::new(0)).collect();
        let mut watch = RouterSampler::new(&passage, Nanos::new(world.sample.get()));
        let sent = thread::scope(|scope| {
            let mut senders = Vec::new();
            for ((flow, (near, far), wants), received) in ready.into_iter().zip(&counters) {
                let payload = flow.packet.saturating_sub(HEADERS + OPTIONS);
                let watched = RealFlow::new(flow, payload, back, Nanos::new(world.sample.get()));
                let start = flow.start.since(units::Instant::START);
                let source = FlowSender {
                    stream: near,
                    traffic: wants,
                    start,
                    interval: flow.rtt_interval,
                    samples: watched,
                    received,
                };
                scope.spawn(move || receive(far, times, received));
                senders.push(scope.spawn(move || source.run(times)));
            }
            watch.run(&mut laboratory, times)?;
            let gone = |_| anyhow!("a sender's thread panicked");
            senders.into_iter().map(|sender| sender.join().map_err(gone)?).collect::<Result<Vec<_>>>()
        })?;
        let mut measured = Measurements { parameters: self.parameters(&passage), ..Measurements::default() };
        let end = units::Instant::START + length;
        for sent in sent {
            sent.samples.finish(end, sent.received, &sent.transfers, &mut measured);
        }
        watch.finish(&mut measured);
        Ok(measured)
    }

    fn parameters(&self, passage: &HostNetwork) -> Vec<(String, String)> {
        let of =
            |way: &sim::NetworkDirection| (format!("link.{}", way.name), format!("{}, {}", way.scheme, way.medium));
        vec![("kernel".into(), self.kernel.clone()), of(&passage.forward), of(&passage.back)]
    }

    /// The traffic of a flow's sender: the same transfers and pauses as in virtual time.
    fn sender_traffic(&self, world: &WorldPlan, flow: &FlowPlan) -> Result<SenderTraffic> {
        if !flow.is_web() {
            return Ok(SenderTraffic::Bulk);
        }
        let read = |file: &String| -> Result<FlowSizes, String> {
            FlowSizes::parse(&String::from_utf8_lossy(&self.files.read(file)?))
        };
        let sizes = flow.sizes.as_ref().map(read).transpose().map_err(anyhow::Error::msg)?;
        Ok(SenderTraffic::Web(Box::new(flow.draws(world.seed, sizes))))
    }
}

/// The kernel's name of a flow's congestion control.
fn control(flow: &FlowPlan) -> &str {
    if flow.transport.name == "newreno" { "reno" } else { flow.transport.name }
}

fn is_simulated(job: &Job) -> bool {
    job.parameters.get(SIMULATED.0) == Some(&ParameterValue::Text(SIMULATED.1.into()))
}

impl Runner for RealHosts {
    fn name(&self) -> &str {
        "on real packets"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn cache_key(&self, job: &Job) -> Option<String> {
        let all = self.simulation().cache_key(job)?;
        // A cached measurement is good enough, although a new one would differ slightly.
        Some(if is_simulated(job) { all } else { format!("{all}\n# on real packets of Linux {}", self.kernel) })
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        if is_simulated(job) {
            return self.simulation().run(job);
        }
        let world = WorldPlan::parse(&job.world, &job.file).map_err(|wrong| wrong.render(false))?;
        self.run_once(&world).map_err(|error| format!("{error:#}"))
    }

    fn remarks(&self, runs: &[CompletedRun]) -> Vec<String> {
        let most = |name: &str| runs.iter().filter_map(|run| run.measured.get(name)).fold(0.0, f64::max);
        let lost: f64 = runs.iter().filter_map(|run| run.measured.get("real.kernel_lost")).sum();
        let real = runs.iter().filter(|run| run.measured.get("real.kernel_lost").is_some()).count();
        let mut remarks = vec![format!(
            "TCP of Linux {} in network namespaces, packet sizes as in virtual time, {real} runs on real packets, {} runs in \
             parallel",
            self.kernel, self.at_once
        )];
        remarks.push(String::from(
            "the kernel starts with a window of ten packets, acknowledges every second packet and uses SACK: compare ratios \
             only; a one-way delay is the smoothed round trip less the delay of the way back",
        ));
        remarks.push(format!(
            "worst run: 99 of 100 packets left their link at most {:.0} us late, and the link was idle for {:.1} ms with a \
             backlog",
            most("real.late_p99_us"),
            most("real.missed_ms")
        ));
        let late = most("real.changed_late_ms");
        if late > 0.0 {
            remarks.push(format!("changes of schemes were at most {late:.1} ms late"));
        }
        if lost > 0.0 {
            remarks.push(format!(
                "the kernel lost {lost:.0} packets between the hosts and the router: this machine is too slow for so many \
                 parallel runs"
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
