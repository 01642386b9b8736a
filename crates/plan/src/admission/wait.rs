//! The longest wait of a packet, and how many packets arrive meanwhile (Q-52 of the paper's remedies: the worst wait is about the sum of the runs of
//! all competing tasks).

use super::demand::{ReservationDemand, Stages, WHOLE, max_wait, part};
use super::division::longest;
use super::error::{AdmissionError, Shortage, Warning};
use super::link::is_bounded;
use crate::{DEFAULT_PREEMPTIBLE_SLICE, Layout, PathPlan, Receive, Ring};
use units::Nanos;

/// The longest runs of all tasks, each including its switch.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    pub inputs: Vec<Nanos>,
    pub paths: Vec<Nanos>,
    pub outputs: Vec<Nanos>,
    pub best_effort: Nanos,
    /// The longest of them.
    longest: Nanos,
    all: Nanos,
}

impl Runs {
    pub fn of(stages: &Stages<'_>, claims: &[ReservationDemand]) -> Runs {
        let layout = stages.plan.cpu.layout;
        let ports: Vec<usize> = (0..stages.plan.ports.len()).collect();
        let port = |way: super::demand::TaskBatching, figure| way.run(longest(figure), u32::MAX);
        let costs = |index: usize| &stages.costs.ports[index];
        let inputs = ports.iter().map(|&p| match layout {
            _ if stages.plan.cpu.receive == Receive::Interrupt => Nanos::ZERO,
            // A single task does everything, so its longest run is that of the most expensive packets.
            Layout::One => {
                let dearest =
                    stages.costs.paths.iter().map(|path| longest(path.functions)).max().unwrap_or(Nanos::ZERO);
                let functions = dearest.max(longest(stages.costs.best_effort));
                let packet = longest(costs(p).input) + functions + longest(costs(p).output);
                stages.input.run(packet, u32::MAX)
            }
            _ => port(stages.input, costs(p).input),
        });
        let outputs = ports.iter().map(|&p| match layout {
            Layout::Three => port(stages.output, costs(p).output),
            // A link with a queue has a task that serves it.
            Layout::Two if serves(stages, claims, p) => port(stages.output, costs(p).output),
            _ => Nanos::ZERO,
        });
        let (inputs, outputs): (Vec<Nanos>, Vec<Nanos>) = (inputs.collect(), outputs.collect());
        let last = costs_of_output(stages);
        let path = |(index, path): (usize, &PathPlan)| {
            let functions = stages.costs.paths[index].functions;
            let cost = match path.cpu.reservation {
                Some(_) => functions.cost.of(stages.packet_size(index)),
                None => longest(functions),
            };
            match layout {
                Layout::One => Nanos::ZERO,
                _ if !path.cpu.preemptible => stages.forwarding.run(cost + last, path.queue_capacity(layout)),
                // Preemption ends a run with its slice, independent of the cost of its packets.
                _ => {
                    let run = stages.forwarding.run(cost + last, path.queue_capacity(layout));
                    run.min(stages.forwarding.batching.slice().unwrap_or(DEFAULT_PREEMPTIBLE_SLICE) + last)
                }
            }
        };
        let paths: Vec<Nanos> = stages.plan.paths.iter().enumerate().map(path).collect();
        let best_effort = match layout {
            Layout::One => Nanos::ZERO,
            _ => stages.forwarding.run(longest(stages.costs.best_effort) + last, u32::MAX),
        };
        // The queues of a port's reservations bound the run of their output task.
        let reserved = ports.iter().filter_map(|port| {
            let leaving = || claims.iter().filter(|claim| claim.exits.contains(port));
            let size = leaving().map(|claim| claim.size).max().filter(|_| layout == Layout::Three)?;
            let room = leaving().map(|claim| stages.plan.paths[claim.path].output_queue).fold(0, u32::saturating_add);
            Some(stages.output.run(costs(*port).output.cost.of(size), room))
        });
        let reserved: Vec<Nanos> = reserved.collect();
        let tasks = inputs.iter().chain(&paths).chain(&outputs).chain(&reserved).chain([&best_effort]);
        // Layouts with fewer tasks have runs of zero, without a switch.
        let switched = tasks.filter(|run| **run > Nanos::ZERO).map(|run| *run + stages.costs.switch);
        let (all, longest) = switched.fold((Nanos::ZERO, Nanos::ZERO), |(sum, most), run| (sum + run, most.max(run)));
        Runs { inputs, paths, outputs, best_effort, longest, all }
    }

    /// The time between two runs of a task of this length and this share of the processor, while another task finishes its run.
    pub fn time_between_runs(&self, run: Nanos, load: u64) -> Nanos {
        let period = Nanos::new(part(run.get(), WHOLE, load));
        period.saturating_sub(run) + self.longest
    }

    /// The least share of an output task whose port serves reservations: one run while all other tasks run once. The task needs this share to serve
    /// the link, because best effort's share for sending may be small.
    pub fn prompt_output_shares(&self, stages: &Stages<'_>, claims: &[ReservationDemand]) -> Vec<u64> {
        let leaves = |port: usize| claims.iter().any(|claim| claim.exits.contains(&port));
        let share =
            |(port, run): (usize, &Nanos)| if leaves(port) { part(WHOLE, run.get(), self.all.get()) } else { 0 };
        match stages.plan.cpu.layout {
            Layout::One => vec![0; self.outputs.len()],
            Layout::Two | Layout::Three => self.outputs.iter().enumerate().map(share).collect(),
        }
    }

    /// How long all other tasks may run before a task's turn.
    pub fn others_run_time(&self, own: Nanos) -> Nanos {
        self.all.saturating_sub(own)
    }
}

/// True if packets of reservations may queue at the link of the port.
fn serves(stages: &Stages<'_>, claims: &[ReservationDemand], port: usize) -> bool {
    let leaves = claims.iter().any(|claim| claim.exits.contains(&port));
    leaves && is_bounded(&stages.plan.ports[port], stages.costs.ports[port].link)
}

/// The cost of output within a forwarding task, if the layout combines them.
fn costs_of_output(stages: &Stages<'_>) -> Nanos {
    if stages.plan.cpu.layout != Layout::Two {
        return Nanos::ZERO;
    }
    stages.costs.ports.iter().map(|port| longest(port.output)).max().unwrap_or(Nanos::ZERO)
}

/// The waits of one reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WorstWait {
    /// Before the link, by its scheme.
    pub link: Nanos,
    /// Through the router.
    pub through: Nanos,
    /// Packets that its queue has to hold.
    pub queue: u32,
}

/// The longest waits of a reservation in the router's tasks, with these shares of the ports' input tasks.
pub(super) fn worst_wait(
    stages: &Stages<'_>,
    runs: &Runs,
    claim: &ReservationDemand,
    inputs: &[u64],
    threshold: u32,
) -> WorstWait {
    let (cpu, turn) = (&stages.plan.cpu, runs.others_run_time(runs.paths[claim.path]));
    let packet = stages.packet(stages.costs.paths[claim.path].functions, claim.size, (&claim.entries, &claim.exits));
    let work = packet.iter().fold(Nanos::ZERO, |sum, stage| sum + *stage + stages.costs.switch);
    let sleep = claim.entries.iter().map(|&port| sleep(stages, port)).max().unwrap_or(Nanos::ZERO);
    let gather = max_wait(stages, claim.path).unwrap_or(Nanos::ZERO);
    // A task waits for one run of every other task, and longer if its share is small.
    let by_shares = cpu.scheduler.respects_shares();
    let own =
        |run: Nanos, load: u64| if by_shares && load > 0 { turn.max(runs.time_between_runs(run, load)) } else { turn };
    let polled = cpu.receive == Receive::Polling && cpu.layout != Layout::One;
    let receives = |port: &usize| if polled { own(runs.inputs[*port], inputs[*port]) } else { turn };
    let input = claim.entries.iter().map(receives).max().unwrap_or(turn);
    let forwarding = own(packet[1], claim.forwarding.share(cpu.charge));
    let waits = match cpu.layout {
        Layout::One => turn,
        Layout::Two => input + forwarding,
        Layout::Three => input + forwarding + own(packet[2], claim.output.share(cpu.charge)),
    };
    // The queue holds the packets that the task waits for, plus those that arrive until it runs.
    let come = claim.rate.within(forwarding).saturating_add(u64::from(threshold));
    let queue = u32::try_from(come).unwrap_or(u32::MAX);
    WorstWait { link: Nanos::ZERO, through: waits + work + sleep + gather, queue }
}

/// The share with which the tasks behind input finish a packet earlier by `late`. `None`: no share does, because they wait for the runs of others.
pub(super) fn share_in_time(stages: &Stages<'_>, claim: &ReservationDemand, late: Nanos) -> Option<u64> {
    let packet = stages.packet(stages.costs.paths[claim.path].functions, claim.size, (&claim.entries, &claim.exits));
    let own = (packet[1] + packet[2]).get();
    let present = [claim.forwarding.work, claim.output.work].into_iter().filter(|work| *work > 0).min()?;
    // A sixteenth more, because a larger share leaves less to input tasks.
    let time = part(own, WHOLE, present).checked_sub(late.get().saturating_add(late.get() / 16))?;
    (time > own).then(|| part(WHOLE, own, time))
}

/// The longest sleep of a port's input task.
fn sleep(stages: &Stages<'_>, port: usize) -> Nanos {
    let Some(estimator) = stages.plan.ports[port].cpu.estimator else { return Nanos::ZERO };
    estimator.sleep_max.or_else(|| ring(stages, port).map(Ring::longest_sleep)).unwrap_or(Nanos::ZERO)
}

/// Packets that a `memory:` wire holds in each direction. It is the receive ring of such a port, even if no size was measured.
const MEMORY: u32 = 1024;

fn ring(stages: &Stages<'_>, port: usize) -> Option<Ring> {
    let costs = &stages.costs.ports[port];
    let slots = costs.ring?;
    let batch = stages.plan.cpu.input_limit().map_or(0, u32::from);
    Some(Ring { slots, batch, line_rate: stages.plan.ports[port].cpu.line_rate.or(costs.line_rate) })
}

/// Checks that packets that arrive while other tasks run have room in the queue, and meet the delay bound.
pub(super) fn check(stages: &Stages<'_>, claim: &ReservationDemand, wait: WorstWait) -> Result<(), AdmissionError> {
    let path = &stages.plan.paths[claim.path];
    let refused = |shortage, hint| Err(AdmissionError { path: path.name.clone(), shortage, hint });
    // Reserved flows have queues of their own.
    if wait.queue > path.input_queue && !path.cpu.reservations && stages.plan.cpu.layout != Layout::One {
        let shortage = Shortage::Queue { needed: wait.queue, available: path.input_queue };
        return refused(shortage, format!("write input_queue = {}, or give all tasks shorter slices", wait.queue));
    }
    match stages.reservation(claim.path).and_then(|reservation| reservation.delay) {
        Some(delay) if wait.through > delay => {
            let shortage = Shortage::Delay { needed: wait.through, available: delay };
            refused(
                shortage,
                format!("write max_delay = \"{}\", or give all tasks shorter slices", above(wait.through)),
            )
        }
        _ => Ok(()),
    }
}

/// Rounds a time up to two significant digits.
fn above(time: Nanos) -> Nanos {
    let mut unit = 1;
    while time.get() / unit >= 100 {
        unit *= 10;
    }
    Nanos::new(time.get().div_ceil(unit) * unit)
}

/// Warns of rings that overflow while their tasks sleep or wait.
pub(super) fn rings(stages: &Stages<'_>, runs: &Runs, claims: &[ReservationDemand]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (index, port) in stages.plan.ports.iter().enumerate() {
        let known = ring(stages, index);
        let about = format!("port.{}", port.name);
        let wire = || Some(Ring { slots: MEMORY, batch: 0, line_rate: port.cpu.line_rate });
        let sleeps_before = known.or_else(|| wire().filter(|_| port.device.kind == "memory"));
        let longest = sleeps_before.map_or(Nanos::MAX, Ring::longest_sleep);
        if let (Some(most), Some(ring)) =
            (port.cpu.estimator.and_then(|e| e.sleep_max).filter(|most| *most > longest), sleeps_before)
        {
            let reason =
                format!("after a sleep of {most} the receive ring of {} packets overflows at line rate", ring.slots);
            warnings.push(Warning {
                about: about.clone(),
                reason,
                hint: format!("give sleep_max = \"{longest}\" or less"),
            });
        }
        let Some(ring) = known else { continue };
        let entering = claims.iter().filter(|claim| claim.entries.contains(&index));
        let come: u64 = entering.map(|claim| claim.rate.within(runs.others_run_time(runs.inputs[index]))).sum();
        if come > u64::from(ring.slots) {
            let reason = format!(
                "up to {come} reserved packets arrive while other tasks run, but the receive ring holds {}",
                ring.slots
            );
            warnings.push(Warning { about, reason, hint: "give all tasks shorter slices".into() });
        }
    }
    warnings
}
