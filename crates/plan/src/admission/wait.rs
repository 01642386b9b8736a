//! How long a packet may wait, and how many come meanwhile (Q-52 of the paper's remedies: a worst wait of about the sum of
//! what the competing tasks run).

use super::demand::{Claim, Stages, max_wait};
use super::divide::longest;
use super::{Refused, Shortage, Warning};
use crate::{LENT, Layout, PathPlan, Receive, Ring};
use units::Nanos;

/// The longest runs of all tasks, each with its switch.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    pub inputs: Vec<Nanos>,
    pub paths: Vec<Nanos>,
    pub outputs: Vec<Nanos>,
    pub best_effort: Nanos,
    all: Nanos,
}

impl Runs {
    pub fn of(stages: &Stages<'_>) -> Runs {
        let layout = stages.plan.cpu.layout;
        let ports: Vec<usize> = (0..stages.plan.ports.len()).collect();
        let port = |way: super::demand::Way, figure| way.run(longest(figure), u32::MAX);
        let costs = |index: usize| &stages.costs.ports[index];
        let inputs = ports.iter().map(|&p| match layout {
            _ if stages.plan.cpu.receive == Receive::Interrupt => Nanos::ZERO,
            // One task does everything: its run is that of the dearest packets.
            Layout::One => {
                let dearest =
                    stages.costs.paths.iter().map(|path| longest(path.functions)).max().unwrap_or(Nanos::ZERO);
                let functions = dearest.max(longest(stages.costs.best_effort));
                let packet = longest(costs(p).input) + functions + longest(costs(p).output);
                stages.input.run(packet, u32::MAX)
            }
            _ => port(stages.input, costs(p).input),
        });
        let outputs = ports
            .iter()
            .map(|&p| if layout == Layout::Three { port(stages.output, costs(p).output) } else { Nanos::ZERO });
        let (inputs, outputs): (Vec<Nanos>, Vec<Nanos>) = (inputs.collect(), outputs.collect());
        let last = costs_of_output(stages);
        let path = |(index, path): (usize, &PathPlan)| {
            let functions = stages.costs.paths[index].functions;
            let cost = match path.cpu.reservation {
                Some(_) => functions.cost.of(path.packet_size()),
                None => longest(functions),
            };
            match layout {
                Layout::One => Nanos::ZERO,
                _ if !path.cpu.preemptible => stages.forwarding.run(cost + last, path.waiting_room(layout)),
                // Interrupted when its slice is over, it takes no longer, whatever its packets cost.
                _ => {
                    let run = stages.forwarding.run(cost + last, path.waiting_room(layout));
                    run.min(stages.forwarding.batching.slice().unwrap_or(LENT) + last)
                }
            }
        };
        let paths: Vec<Nanos> = stages.plan.paths.iter().enumerate().map(path).collect();
        let best_effort = match layout {
            Layout::One => Nanos::ZERO,
            _ => stages.forwarding.run(longest(stages.costs.best_effort) + last, u32::MAX),
        };
        let tasks = inputs.iter().chain(&paths).chain(&outputs).chain([&best_effort]);
        let all =
            tasks.filter(|run| **run > Nanos::ZERO).fold(Nanos::ZERO, |sum, run| sum + *run + stages.costs.switch);
        Runs { inputs, paths, outputs, best_effort, all }
    }

    /// How long everybody else may run before a task's turn comes.
    pub fn others(&self, own: Nanos) -> Nanos {
        self.all.saturating_sub(own)
    }
}

/// What output costs a forwarding task, where it does that too.
fn costs_of_output(stages: &Stages<'_>) -> Nanos {
    if stages.plan.cpu.layout != Layout::Two {
        return Nanos::ZERO;
    }
    stages.costs.ports.iter().map(|port| longest(port.output)).max().unwrap_or(Nanos::ZERO)
}

/// The waits of one reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    /// At one task.
    pub wait: Nanos,
    /// Through the router.
    pub through: Nanos,
    /// Packets that its queue has to hold.
    pub queue: u32,
}

/// What waits a reservation may meet.
pub(super) fn of(stages: &Stages<'_>, runs: &Runs, claim: &Claim, threshold: u32) -> Wait {
    let path = &stages.plan.paths[claim.path];
    let wait = runs.others(runs.paths[claim.path]);
    let packet = stages.packet(stages.costs.paths[claim.path].functions, claim.size, (&claim.entries, &claim.exits));
    let work = packet.iter().fold(Nanos::ZERO, |sum, stage| sum + *stage + stages.costs.switch);
    let sleep = claim.entries.iter().map(|&port| sleep(stages, port)).max().unwrap_or(Nanos::ZERO);
    let gather = max_wait(&stages.plan.cpu, path).unwrap_or(Nanos::ZERO);
    let through = wait * u64::from(stages.plan.cpu.layout.tasks()) + work + sleep + gather;
    let come = claim.rate.within(wait).saturating_add(u64::from(threshold));
    Wait { wait, through, queue: u32::try_from(come).unwrap_or(u32::MAX) }
}

/// The longest sleep of a port's input task.
fn sleep(stages: &Stages<'_>, port: usize) -> Nanos {
    let Some(estimator) = stages.plan.ports[port].cpu.estimator else { return Nanos::ZERO };
    estimator.sleep_max.or_else(|| ring(stages, port).map(Ring::longest_sleep)).unwrap_or(Nanos::ZERO)
}

fn ring(stages: &Stages<'_>, port: usize) -> Option<Ring> {
    let costs = &stages.costs.ports[port];
    let slots = costs.ring?;
    let batch = stages.plan.cpu.input_limit().map_or(0, u32::from);
    Some(Ring { slots, batch, line_rate: stages.plan.ports[port].cpu.line_rate.or(costs.line_rate) })
}

/// Whether the packets that come while others run have room, and are through in time.
pub(super) fn check(stages: &Stages<'_>, claim: &Claim, wait: Wait) -> Result<(), Refused> {
    let path = &stages.plan.paths[claim.path];
    let refused = |shortage, hint| Err(Refused { path: path.name.clone(), shortage, hint });
    if wait.queue > path.input_queue && stages.plan.cpu.layout != Layout::One {
        let shortage = Shortage::Queue { needed: wait.queue, available: path.input_queue };
        return refused(shortage, format!("give it input_queue = {}, or all tasks shorter slices", wait.queue));
    }
    match path.cpu.reservation.and_then(|reservation| reservation.delay) {
        Some(delay) if wait.through > delay => {
            let shortage = Shortage::Delay { needed: wait.through, available: delay };
            refused(shortage, format!("promise delay = \"{}\", or give all tasks shorter slices", above(wait.through)))
        }
        _ => Ok(()),
    }
}

/// A round time no shorter: two digits of it.
fn above(time: Nanos) -> Nanos {
    let mut unit = 1;
    while time.get() / unit >= 100 {
        unit *= 10;
    }
    Nanos::new(time.get().div_ceil(unit) * unit)
}

/// Rings that overflow while their tasks sleep or wait.
pub(super) fn rings(stages: &Stages<'_>, runs: &Runs, claims: &[Claim]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (index, port) in stages.plan.ports.iter().enumerate() {
        let Some(ring) = ring(stages, index) else { continue };
        let about = format!("port.{}", port.name);
        let longest = ring.longest_sleep();
        if let Some(most) = port.cpu.estimator.and_then(|e| e.sleep_max).filter(|most| *most > longest) {
            let reason =
                format!("after a sleep of {most} the receive ring of {} packets overflows at line rate", ring.slots);
            warnings.push(Warning {
                about: about.clone(),
                reason,
                hint: format!("give sleep_max = \"{longest}\" or less"),
            });
        }
        let entering = claims.iter().filter(|claim| claim.entries.contains(&index));
        let come: u64 = entering.map(|claim| claim.rate.within(runs.others(runs.inputs[index]))).sum();
        if come > u64::from(ring.slots) {
            let reason = format!(
                "up to {come} packets of reservations come while others run, and the receive ring holds {}",
                ring.slots
            );
            warnings.push(Warning { about, reason, hint: "give all tasks shorter slices".into() });
        }
    }
    warnings
}
