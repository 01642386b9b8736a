//! Runs a world. Cores are stepped in the order of their clocks, ties in the order of their numbers. Scheduled events come before steps at the same
//! time. Nothing else affects the order, so the same world gives the same result, byte for byte.
//!
//! A step is not interrupted. A frame sent to a router in the middle of its step is seen at its next poll, as on a real ring. The delay is at most
//! one dispatch.

mod core;
mod counts;
mod cpu_trace;
mod error;
mod fairness;
#[cfg(test)]
mod fault_injection;
mod faulty_code;
mod measurements;
mod policies;
mod real;
#[cfg(test)]
mod reservation_sets;
mod schedule;
mod slices;
mod snapshot;
mod state;
#[cfg(test)]
mod test_router;

pub use error::{ProgressCallback, RunError};
pub use measurements::Measurements;
pub(crate) use measurements::parameters;
pub use real::RealRun;
pub(crate) use schedule::{ScheduledItem, world_schedule};

use self::core::Core;
use crate::check::WorldInvariant;
use crate::cost::{CostMeter, PacketCost};
use crate::describe::{CardPlan, RouterPlan, SourcePlan, WorldEvent, WorldPlan};
use crate::histogram::DurationHistogram;
use crate::net::{Fates, Net, SharedNet, Traces, TrafficSource};
use crate::port::{CardOpener, FateObserver};
use crate::random::RandomStream;
use crate::source::{Captures, Pattern, Schedule};
use link::medium::Medium;
use plan::{Plan, Receive};
use plane::function::SLICE;
use plane::{Build, KnownCosts, PublishedGeneration, Router};
use slices::RunningSlices;
use snapshot::Snapshots;
use stack::LocalProtocolLimits;
use std::sync::Arc;
use units::{Instant, Mac, Nanos, WorkerId};

/// Runs a world to its end. The result depends only on the world and the captures.
pub fn run(
    world: &WorldPlan,
    captures: &mut dyn Captures,
    progress: ProgressCallback<'_>,
) -> Result<Measurements, RunError> {
    if world.routers.is_empty() {
        return crate::hosts::run(world, captures, progress);
    }
    let mut live = RunningWorld::new(world, captures)?;
    live.run(progress)?;
    live.finish()
}

/// The same, with a record of the CPU schedulers: the latest `events` of each core are written to `file`. It has the trace-event format of viewers
/// ([`cpu::trace::export`]), and is written even if a law was broken. Recording takes no virtual time and does not change the result.
pub fn run_traced(
    world: &WorldPlan,
    captures: &mut dyn Captures,
    progress: ProgressCallback<'_>,
    (events, file): (usize, &mut Vec<u8>),
) -> Result<Measurements, RunError> {
    let mut live = RunningWorld::new(world, captures)?;
    live.record_cpu_trace(events);
    live.run(progress)?;
    *file = live.cpu_trace();
    live.finish()
}

/// A running router.
struct RunningRouter {
    router: Router,
    plan: RouterPlan,
    /// A generation that not all workers have adopted yet.
    pending: Option<PublishedGeneration>,
    /// Its slices, if it has the function of slices.
    slices: Option<RunningSlices>,
}

/// A running world.
// Large: a method for each kind of event of a world, in a file each under `run/`.
struct RunningWorld<'w> {
    world: &'w WorldPlan,
    outside: SharedNet,
    nodes: Vec<RunningRouter>,
    cores: Vec<Core>,
    snapshots: Snapshots,
    /// True if the end systems are real and have counters of their own.
    has_real_end_systems: bool,
    /// Policies have been consulted up to this time.
    consulted: u64,
}

impl<'w> RunningWorld<'w> {
    fn new(world: &'w WorldPlan, captures: &mut dyn Captures) -> Result<RunningWorld<'w>, RunError> {
        let mut live = RunningWorld::idle(world, captures)?;
        live.start()?;
        live.outside.lock().begin(world);
        Ok(live)
    }

    /// Routers without configurations, and an outside without traffic.
    fn idle(world: &'w WorldPlan, captures: &mut dyn Captures) -> Result<RunningWorld<'w>, RunError> {
        let traces = traces(world, captures)?;
        let outside = SharedNet::new(Net::new(world, load_sources(world, captures)?, &traces));
        let (mut nodes, mut cores) = (Vec::new(), Vec::new());
        for (index, plan) in world.routers.iter().enumerate() {
            let (node, workers) = node(plan, index, &outside);
            nodes.push(node);
            for (number, worker) in workers.into_iter().enumerate() {
                let chance = RandomStream::new(world.seed, &format!("cost {} {number}", plan.name));
                let meter = CostMeter::new(plan.cost.clone(), chance, outside.clock.clone());
                cores.push(Core::new(index, number, worker, meter, plan.busy_poll));
            }
        }
        Ok(RunningWorld {
            world,
            outside,
            nodes,
            cores,
            snapshots: Snapshots::default(),
            has_real_end_systems: false,
            consulted: 0,
        })
    }

    /// Applies the first configurations of all routers.
    fn start(&mut self) -> Result<(), RunError> {
        for node in 0..self.nodes.len() {
            self.connect_wakeups(node);
            let plan = self.nodes[node].plan.plan.clone();
            self.apply(node, &plan)?;
            self.settle(node);
            if !self.nodes[node].plan.slices.1.is_empty() {
                let changes = self.nodes[node].plan.slices.1.clone();
                self.change_slices(node, &changes)?;
            }
            for (card, mac) in self.addresses(node) {
                self.outside.lock().address(self.world, card, mac);
            }
        }
        Ok(())
    }

    /// Lets the cores of a router wake each other.
    fn connect_wakeups(&mut self, node: usize) {
        for core in self.cores.iter().filter(|core| core.node == node) {
            let rung = core.woken.clone();
            let nudge = move || rung.store(true, std::sync::atomic::Ordering::Relaxed);
            self.nodes[node].router.set_wakeup(WorkerId(core.number as u16), Box::new(nudge));
        }
    }

    /// Publishes a configuration to the workers of a router.
    fn apply(&mut self, node: usize, plan: &Plan) -> Result<(), RunError> {
        let RunningRouter { router, plan: described, pending, .. } = &mut self.nodes[node];
        let prepared = router.prepare(plan, &mut CardOpener(self.outside.clone()));
        let prepared = prepared.map_err(|errors| RunError::Apply(described.name.clone(), errors))?;
        *pending = Some(router.publish(prepared));
        Ok(())
    }

    /// Lets the workers adopt the first configuration, in no time.
    fn settle(&mut self, node: usize) {
        while self.nodes[node].pending.is_some() {
            for core in self.cores.iter_mut().filter(|core| core.node == node) {
                core.prepare();
            }
            self.complete_change(node);
        }
    }

    /// Completes a change once all workers have adopted it.
    fn complete_change(&mut self, node: usize) {
        let RunningRouter { router, plan, pending, .. } = &mut self.nodes[node];
        if !pending.as_mut().is_some_and(PublishedGeneration::is_adopted) {
            return;
        }
        let Some(published) = pending.take() else { return };
        router.complete(published);
        let costs = path_costs(router, plan);
        let cpu = &plan.plan.cpu;
        self.cores.iter_mut().filter(|core| core.node == node).for_each(|core| core.adopt(costs.clone(), cpu));
    }

    /// The cards of a router, and their addresses.
    fn addresses(&self, node: usize) -> Vec<(usize, Mac)> {
        let RunningRouter { router, plan, .. } = &self.nodes[node];
        let ports = plan.plan.ports.iter().filter_map(|port| {
            let view = router.snapshot().ports.iter().flatten().find(|view| *view.name == *port.name)?;
            let card = self.world.cards.iter().position(|card| card.name == port.device.target)?;
            Some((card, view.mac))
        });
        ports.collect()
    }

    fn run(&mut self, progress: ProgressCallback<'_>) -> Result<(), RunError> {
        let mut told = 0;
        for (time, due) in world_schedule(self.world) {
            self.consult_until(time)?;
            if !self.outside.lock().violations.is_empty() {
                break;
            }
            match due {
                ScheduledItem::Sample => self.sample(time),
                ScheduledItem::WarmupEnd => self.end_warmup(time),
                ScheduledItem::Event(index) => self.apply_event(index, time)?,
                ScheduledItem::End => break,
            }
            let part = time * 100 / self.world.duration.get().max(1);
            if part > told {
                told = part;
                progress(part as f64 / 100.0);
            }
        }
        let net = self.outside.lock();
        match net.cards.iter().find(|card| card.link.has_failed()) {
            Some(card) => Err(RunError::Trace(card.name.clone(), "its trace ended before the world".into())),
            None => Ok(()),
        }
    }

    /// Steps cores until all their clocks have reached `time`.
    fn until(&mut self, time: u64) {
        if self.has_real_end_systems {
            return self.run_real_until(time);
        }
        loop {
            // The tuple orders by time, then by number: ties are deterministic.
            let next = self.cores.iter().enumerate().map(|(index, core)| (core.wake, index)).min();
            let Some((wake, index)) = next.filter(|(wake, _)| *wake < time) else { return };
            let core = &mut self.cores[index];
            if !core.step(wake) {
                let (node, number) = (&self.nodes[core.node].plan.name, core.number);
                let what = || format!("core {number} of router {node} works endlessly at one point in time");
                self.outside.lock().violations.add(wake, WorldInvariant::Progress, what);
                return;
            }
            let (node, now) = (core.node, core.now);
            if core.is_idle() {
                self.check_work_conservation(index);
            }
            self.wake_others(index, now);
            if self.nodes[node].pending.is_some() {
                self.complete_change(node);
            }
        }
    }

    /// Wakes cores that frames or messages from others have reached.
    fn wake_others(&mut self, index: usize, now: u64) {
        let pokes = std::mem::take(&mut self.outside.lock().wakeups);
        for poke in &pokes {
            self.cores.iter_mut().filter(|core| core.node == poke.router).for_each(|core| core.wake_at(poke.at));
        }
        for (other, core) in self.cores.iter_mut().enumerate() {
            if other != index && core.woken.swap(false, std::sync::atomic::Ordering::Relaxed) {
                core.wake_at(now);
            }
        }
    }

    fn apply_event(&mut self, index: usize, time: u64) -> Result<(), RunError> {
        match &self.world.events[index].1 {
            WorldEvent::Apply(node, _, plan) => {
                // A change waits until the previous one is adopted.
                while self.nodes[*node].pending.is_some() && self.outside.lock().violations.is_empty() {
                    let first = self.cores.iter().filter(|core| core.node == *node).map(|core| core.wake).min();
                    self.until(first.unwrap_or(time) + 1);
                }
                self.check_fairness(time);
                self.apply(*node, plan)?;
                self.nodes[*node].plan.plan = (**plan).clone();
                let cores = self.cores.iter_mut().filter(|core| core.node == *node);
                cores.for_each(|core| core.wake_at(time));
            }
            WorldEvent::Reserve(node, _, changes) => {
                self.check_fairness(time);
                let RunningRouter { router, plan, .. } = &mut self.nodes[*node];
                let refused = |refused: plane::FlowRefusal| RunError::Reserve(plan.name.clone(), refused);
                router.edit_flows(changes, false).map_err(refused)?;
                for core in self.cores.iter_mut().filter(|core| core.node == *node) {
                    core.expect_shares(&plan.plan.cpu);
                    core.wake_at(time);
                }
            }
            WorldEvent::Slices(node, _, changes) => {
                self.change_slices(*node, changes)?;
                self.cores.iter_mut().filter(|core| core.node == *node).for_each(|core| core.wake_at(time));
            }
            WorldEvent::Link(card, up) => {
                let mut net = self.outside.lock();
                net.admit(*card, time.saturating_sub(1));
                net.set_link(*card, *up);
            }
            // These events exist only in worlds of hosts.
            WorldEvent::Scheme(..) | WorldEvent::Medium(..) => {}
        }
        Ok(())
    }
}

fn node(plan: &RouterPlan, index: usize, outside: &SharedNet) -> (RunningRouter, Vec<plane::Worker>) {
    let build = Build {
        frames: plan.plan.frames as usize,
        super_frames: plan.plan.super_frames as usize,
        workers: plan.plan.workers,
        layout: None,
        switch_cost: plan.cost.switch,
        limits: LocalProtocolLimits::default(),
    };
    let (mut router, workers) = Router::new(build, |_| Box::new(FateObserver(outside.clone(), index)));
    router.set_known_costs(known_costs(plan));
    router.set_hook_maker(Arc::new(esp::Executor::new()));
    // A table of filters takes megabytes, so routers without slices have none.
    let has_slices = plan.plan.paths.iter().any(|path| path.functions.iter().any(|call| call.name == SLICE.name));
    let slices = has_slices.then(|| RunningSlices::new(&mut router));
    (RunningRouter { router, plan: plan.clone(), pending: None, slices }, workers)
}

/// The frame size at which per-byte costs are known to the router: the minimum of Ethernet.
const FRAME: u64 = 64;

/// The mean costs, which a real router measures. The simulated one is given them, so that it divides the processor by them.
fn known_costs(plan: &RouterPlan) -> KnownCosts {
    let cost = &plan.cost;
    let mean = |cost: &PacketCost| Some(Nanos::new(cost.mean(FRAME) as u64));
    let input = match plan.plan.cpu.receive {
        Receive::Polling => &cost.input,
        Receive::Interrupt => &cost.interrupt,
    };
    KnownCosts { input: mean(input), output: mean(&cost.output), best_effort: mean(&cost.forwarding) }
}

/// The costs of the functions of each path, by path id: from the world by name, else from the configuration, else the general cost.
fn path_costs(router: &Router, plan: &RouterPlan) -> Vec<PacketCost> {
    let paths = &router.snapshot().paths;
    let mut costs = vec![plan.cost.forwarding; paths.iter().map(|path| path.id.index() + 1).max().unwrap_or(0)];
    for path in paths {
        let configured = plan.plan.paths.iter().find(|configured| *configured.name == *path.name);
        let configured = configured.and_then(|configured| configured.cpu.cost).map(|cost| PacketCost {
            packet: crate::cost::CostDistribution::Fixed(cost.packet),
            kilobyte: cost.kilobyte,
        });
        let named = plan.cost.paths.iter().find(|(name, _)| **name == *path.name).map(|(_, cost)| *cost);
        // The router's own paths cost nothing unless the world names them.
        let own = path.id == plane::snapshot::CONTROL || path.id == plane::snapshot::GENERAL;
        let rest = if own { PacketCost::NOTHING } else { plan.cost.forwarding };
        costs[path.id.index()] = named.or(configured).unwrap_or(rest);
    }
    costs
}

/// The traces of the links of a world.
fn traces(world: &WorldPlan, captures: &mut dyn Captures) -> Result<Traces, RunError> {
    let trace = |card: &CardPlan| {
        let read = Medium::trace(&card.medium, |file| captures.bytes(file));
        read.map_err(|reason| RunError::Trace(card.name.clone(), reason))
    };
    world.cards.iter().map(trace).collect()
}

/// The sources of a world.
fn load_sources(world: &WorldPlan, captures: &mut dyn Captures) -> Result<Vec<TrafficSource>, RunError> {
    world.sources.iter().map(|source| load_source(world, source, captures)).collect()
}

fn load_source(world: &WorldPlan, source: &SourcePlan, captures: &mut dyn Captures) -> Result<TrafficSource, RunError> {
    let mut flows = source.fields.flows;
    let recorded = match &source.pattern {
        Pattern::Replay { file, .. } => {
            flows = 0;
            captures.read(file).map_err(|reason| RunError::Capture(source.name.clone(), reason))?
        }
        _ => Vec::new(),
    };
    if let Some(carries) = source.carries {
        // The computations of one flow may be handled by different workers, so order is checked within each computation.
        flows = carries.flows(flows);
    }
    if let Some(inner) = source.inner.as_ref().filter(|inner| inner.count() > 1) {
        // Packets for different destinations may take different queues.
        flows = (inner.count() * source.sizes.len()) as u64;
    }
    let chance = RandomStream::new(world.seed, &format!("source {}", source.name));
    let span = (source.start.get(), source.stop.get());
    let schedule = Schedule::new(
        source.pattern.clone(),
        source.sizes.clone(),
        span,
        source.staggered,
        chance,
        Arc::from(recorded),
    );
    Ok(TrafficSource {
        name: source.name.clone(),
        schedule,
        flows,
        template: None,
        fates: [Fates::default(), Fates::default()],
        wait: DurationHistogram::new(),
    })
}

/// Converts a time of the world.
fn instant(time: u64) -> Instant {
    Instant::new(time)
}
