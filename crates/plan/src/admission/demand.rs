//! The demand of each reservation on the processor, stage by stage: its work, and the switches between tasks.

use super::costs::{Costs, PortCosts};
use super::flows::PathFlows;
use super::link::ETHERNET;
use crate::cost::CostEstimate;
use crate::{Batching, Charge, CpuPlan, Layout, PathPlan, Plan, Receive, Reservation, throttle};
use units::{Bytes, Nanos, PacketRate, Parts};

/// A whole processor in nanoseconds per second.
pub(super) const WHOLE: u64 = 1_000_000_000;
/// A million processors: an upper bound that prevents overflows.
const MOST: u128 = 1_000_000 * WHOLE as u128;

/// Work and its switches, each in nanoseconds per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Load {
    pub work: u64,
    pub switches: u64,
}

impl Load {
    pub fn total(self) -> u64 {
        self.work + self.switches
    }

    /// The share that a scheduler has to give it.
    pub fn share(self, charge: Charge) -> u64 {
        if charge == Charge::None { self.work } else { self.total() }
    }

    pub fn plus(self, other: Load) -> Load {
        Load { work: self.work + other.work, switches: self.switches + other.switches }
    }

    pub fn part(self, numerator: u64, denominator: u64) -> Load {
        Load { work: part(self.work, numerator, denominator), switches: part(self.switches, numerator, denominator) }
    }
}

/// `whole * numerator / denominator`, rounded down; `whole` if the denominator is zero.
pub(super) fn part(whole: u64, numerator: u64, denominator: u64) -> u64 {
    if denominator == 0 {
        return whole;
    }
    (u128::from(whole) * u128::from(numerator) / u128::from(denominator)).min(MOST) as u64
}

/// A part of the processor, rounded up.
pub(super) fn parts(load: u64) -> Parts {
    Parts::millionths(u32::try_from(load.div_ceil(1000)).unwrap_or(u32::MAX))
}

/// A part of the processor in nanoseconds per second.
pub(super) fn load_of(share: Parts) -> u64 {
    u64::from(share.get()) * 1000
}

fn bounded(load: u128) -> u64 {
    load.min(MOST) as u64
}

/// The batching of a kind of task, as far as costs depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TaskBatching {
    pub batching: Batching,
    pub switch: Nanos,
}

impl TaskBatching {
    /// Packets of a full run, before which other tasks do not have to wait. `room` is the limit by the queues.
    pub fn batch(self, cost: Nanos, room: u32) -> u32 {
        match self.batching {
            Batching::None => 1,
            Batching::Simple { packets } => packets.into(),
            Batching::Timeslice { packets, slice } => within(slice, cost).min(packets.into()),
            Batching::Throttle { overhead, .. } => throttle::threshold(self.switch, overhead, cost).min(room).max(1),
        }
    }

    /// The longest run, if that many packets can be queued.
    pub fn run(self, cost: Nanos, room: u32) -> Nanos {
        let all = cost * u64::from(room);
        match self.batching {
            Batching::None => cost,
            Batching::Simple { packets } => all.min(cost * u64::from(packets)),
            Batching::Timeslice { packets, slice } => all.min(cost * u64::from(packets)).min(slice + cost),
            Batching::Throttle { slice, .. } => all.min(slice + cost),
        }
    }

    /// The load of `rate` packets of `cost` each. Under the throttle a switch never costs less than its limit (section 4.2: E = 1/(1+T)).
    pub fn load(self, rate: PacketRate, cost: Nanos, room: u32) -> Load {
        let work = bounded(u128::from(rate.get()) * u128::from(cost.get()));
        self.around(work, bounded(u128::from(rate.get()) * u128::from(self.switch.get())), cost, room)
    }

    /// The load of `work`, by packets of `cost` each.
    pub fn load_of_work(self, work: u64, cost: Nanos, room: u32) -> Load {
        let each = part(work, self.switch.get(), cost.get());
        self.around(work, if cost == Nanos::ZERO { 0 } else { each }, cost, room)
    }

    /// `each` is the cost of a switch for each packet.
    fn around(self, work: u64, each: u64, cost: Nanos, room: u32) -> Load {
        let batch = u64::from(self.batch(cost, room));
        let switches = each.div_ceil(batch);
        // The throttle spends its overhead on switches even if fewer would do: it runs a task as soon as the overhead allows.
        let at_least = match self.batching {
            Batching::Throttle { overhead, .. } => {
                bounded((u128::from(work) * u128::from(overhead.get())).div_ceil(1_000_000))
            }
            _ => 0,
        };
        Load { work, switches: switches.max(at_least) }
    }
}

/// The number of packets after which the slice is over.
fn within(slice: Nanos, cost: Nanos) -> u32 {
    match cost {
        Nanos::ZERO => u32::MAX,
        cost => u32::try_from(slice.get().div_ceil(cost.get())).unwrap_or(u32::MAX).max(1),
    }
}

/// The batching of the three kinds of task, and the cost of a packet in each of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages<'a> {
    pub plan: &'a Plan,
    pub costs: &'a Costs,
    /// The flows reserved on each path; empty for none.
    pub flows: &'a [PathFlows],
    pub input: TaskBatching,
    pub forwarding: TaskBatching,
    pub output: TaskBatching,
}

impl<'a> Stages<'a> {
    pub fn of(plan: &'a Plan, costs: &'a Costs, flows: &'a [PathFlows]) -> Stages<'a> {
        let switch = costs.switch;
        let way = |batching| TaskBatching { batching, switch };
        Stages {
            plan,
            costs,
            flows,
            input: way(plan.cpu.input),
            forwarding: way(at_worst(&plan.cpu, switch)),
            output: way(plan.cpu.output),
        }
    }

    /// The cost of a packet in an input task, in the functions of a path and in an output task, at the most expensive port that it may use. With
    /// fewer tasks than three, some of them do the work of others.
    pub fn packet(&self, functions: CostEstimate, size: Bytes, (entries, exits): (&[usize], &[usize])) -> [Nanos; 3] {
        let dearest = |ports: &[usize], figure: fn(&PortCosts) -> CostEstimate| {
            let one = |&port: &usize| figure(&self.costs.ports[port]).cost.of(size);
            ports.iter().map(one).max().unwrap_or(Nanos::ZERO)
        };
        let input = dearest(entries, |port| port.input);
        let output = dearest(exits, |port| port.output);
        let functions = functions.cost.of(size);
        match self.plan.cpu.layout {
            Layout::One => [input + functions + output, Nanos::ZERO, Nanos::ZERO],
            Layout::Two => [input, functions + output, Nanos::ZERO],
            Layout::Three => [input, functions, output],
        }
    }

    /// The load of receiving `rate` packets of `cost` each. Without switches if reception preempts everything else.
    pub fn receiving(&self, rate: PacketRate, cost: Nanos) -> Load {
        let load = self.input.load(rate, cost, u32::MAX);
        match self.plan.cpu.receive {
            Receive::Polling => load,
            Receive::Interrupt => Load { switches: 0, ..load },
        }
    }

    /// The reservation of a path: as configured, or that of its flows.
    pub fn reservation(&self, index: usize) -> Option<Reservation> {
        let said = self.plan.paths[index].cpu.reservation?;
        Some(self.flows_of(index).map_or(said, PathFlows::reservation))
    }

    /// The flows reserved on a path; `None` without any.
    pub fn flows_of(&self, index: usize) -> Option<&'a PathFlows> {
        self.flows.get(index).filter(|flows| !flows.is_empty())
    }

    /// The packet size for the costs of a path.
    pub fn packet_size(&self, index: usize) -> Bytes {
        self.reservation(index).map_or(Bytes::new(64), |reservation| reservation.packet_size())
    }

    /// How many packets a forwarding task may wait for.
    pub fn room(&self, path: &PathPlan) -> u32 {
        if self.plan.cpu.strict { u32::MAX } else { path.queue_capacity(self.plan.cpu.layout) }
    }

    /// The ports by which a path's packets may enter.
    pub fn entries(&self, index: usize) -> Vec<usize> {
        if let Some(flows) = self.flows_of(index) {
            return flows.entries.clone();
        }
        let path = &self.plan.paths[index];
        (0..self.plan.ports.len()).filter(|&port| path.may_enter_by(&self.plan.ports[port])).collect()
    }

    /// The ports by which they may leave; if unknown, any but the only one they enter by.
    pub fn exits(&self, index: usize, entries: &[usize]) -> Vec<usize> {
        if let Some(flows) = self.flows_of(index) {
            return flows.exits.clone();
        }
        let known = &self.costs.paths[index].exits;
        if !known.is_empty() {
            return known.clone();
        }
        let ports = self.plan.ports.len();
        (0..ports).filter(|port| ports == 1 || entries != [*port]).collect()
    }
}

/// The batching of forwarding tasks under the highest load.
fn at_worst(cpu: &CpuPlan, switch: Nanos) -> Batching {
    match (cpu.forwarding, cpu.tune) {
        (Batching::Throttle { .. }, Some(tune)) => {
            Batching::Throttle { overhead: tune.least, slice: throttle::least_slice(switch, tune.least) }
        }
        (batching, _) => batching,
    }
}

/// A reservation and its demand.
#[derive(Clone, Debug)]
pub(super) struct ReservationDemand {
    /// The path's index in the plan.
    pub path: usize,
    pub rate: PacketRate,
    pub size: Bytes,
    pub entries: Vec<usize>,
    pub exits: Vec<usize>,
    pub input: Load,
    pub forwarding: Load,
    pub output: Load,
    /// The cost of its time-outs (section 4.3): a switch for each run with fewer packets than it waits for.
    pub tax: u64,
}

impl ReservationDemand {
    pub fn total(&self) -> u64 {
        self.input.total() + self.forwarding.total() + self.output.total() + self.tax
    }

    /// Its bits a second on the wire.
    pub fn on_the_wire(&self) -> u128 {
        u128::from(self.rate.get()) * u128::from(ETHERNET.line_bytes(self.size.get() as u32).get()) * 8
    }
}

/// The reservations of a plan, the smallest demand first; equals in the order of the plan. The tasks of a path have at least the share `prompt`.
pub(super) fn reservation_demands(stages: &Stages<'_>, prompt: &[u64]) -> Vec<ReservationDemand> {
    let paths = stages.plan.paths.iter().zip(prompt).enumerate();
    let mut claims: Vec<ReservationDemand> =
        paths.filter_map(|(index, (path, prompt))| reservation_demand(stages, index, path, *prompt)).collect();
    claims.sort_by_key(ReservationDemand::total);
    claims
}

fn reservation_demand(stages: &Stages<'_>, index: usize, path: &PathPlan, prompt: u64) -> Option<ReservationDemand> {
    let reservation = stages.reservation(index)?;
    let (rate, size) = (reservation.packets, reservation.packet_size());
    // Flows with a delay bound get more than their long-term rate behind the input task, so that a burst leaves in time.
    let granted = stages.flows_of(index).map_or(rate, |flows| PacketRate::pps(flows.granted));
    let entries = stages.entries(index);
    let exits = stages.exits(index, &entries);
    let [input, forwarding, output] = stages.packet(stages.costs.paths[index].functions, size, (&entries, &exits));
    let room = stages.room(path);
    let layout = stages.plan.cpu.layout;
    // A task finishes a packet in the time that the packet takes at the task's share. That is long for a low rate. Half of the delay is reserved for
    // that, for both tasks together.
    let own = (forwarding + output).get();
    // own * 2 / delay of the processor finishes the packet within half of the delay.
    let half = reservation.delay.map_or(0, |delay| part(WHOLE, own.saturating_mul(2), delay.get()));
    let prompt = prompt.max(half).min(WHOLE);
    let at_least = |load: Load| Load { work: load.work.max(prompt), ..load };
    let forwards = match path.cpu.share {
        Some(share) => stages.forwarding.load_of_work(load_of(share), forwarding, room),
        None => at_least(stages.forwarding.load(granted, forwarding, room)),
    };
    Some(ReservationDemand {
        path: index,
        rate,
        size,
        input: stages.receiving(rate, input),
        forwarding: if layout == Layout::One { Load::default() } else { forwards },
        output: match layout {
            Layout::Three => at_least(stages.output.load(granted, output, u32::MAX)),
            _ => Load::default(),
        },
        tax: timeout_cost(stages, index, rate),
        entries,
        exits,
    })
}

/// The cost of time-outs: a switch for each, and at most one per packet.
fn timeout_cost(stages: &Stages<'_>, index: usize, rate: PacketRate) -> u64 {
    let Some(wait) = max_wait(stages, index) else { return 0 };
    let timeouts = WHOLE.div_ceil(wait.get().max(1)).min(rate.get());
    bounded(u128::from(timeouts) * u128::from(stages.costs.switch.get()))
}

/// How long a path waits for more packets: its own setting, or the default. If neither is set, a quarter of its delay bound. `None`: no limit, or it
/// never waits.
pub(super) fn max_wait(stages: &Stages<'_>, index: usize) -> Option<Nanos> {
    let (cpu, path) = (&stages.plan.cpu, &stages.plan.paths[index]);
    if !matches!(cpu.forwarding, Batching::Throttle { .. }) || cpu.layout == Layout::One {
        return None;
    }
    let said = path.cpu.max_wait.or(cpu.max_wait).filter(|wait| *wait != Nanos::MAX);
    let delay = stages.reservation(index).and_then(|reservation| reservation.delay);
    said.or_else(|| delay.map(|delay| Nanos::new((delay.get() / 4).max(1))))
}
