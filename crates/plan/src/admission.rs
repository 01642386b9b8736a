//! Admission control: it checks that all reservations fit (Qie et al. 2001, sections 3.2 and 4.4).
//!
//! The input is a plan and all costs. The result is the share of the processor for each task. If a reservation does not fit, the result is that
//! reservation, the exhausted resource, and the largest value that would fit. The admitted demand never exceeds the processor, and it includes the
//! cost of switching between tasks:
//!
//! ```text
//! work of a reservation      rate * (input + functions + output)            per packet and byte, or the configured share
//! its switches               rate * switch / batch for each of its tasks    under the throttle: no less than overhead * work
//! its time-outs              switch / max_wait                              under the throttle
//! all of them                <= the processor less a hundredth for best effort
//! its bits                   <= the link's rate, and the rate that the scheme guarantees its class (see `link`)
//! packets of the worst wait  <= its queue                                   the longest runs of all other tasks
//! the waits                  <= the promised delay
//! ```
//!
//! Best effort divides the rest. All quantities are integers, in nanoseconds per second. The order of reservations in the file matters only between
//! equals.

mod costs;
mod demand;
mod division;
mod error;
mod flows;
mod link;
mod reserved;
mod wait;

pub use crate::cost::{CostEstimate, CostSource};
pub use costs::{Costs, PathCosts, PortCosts, exits, exits_of};
pub use error::{AdmissionError, Shortage, Warning};
pub use flows::{FlowLink, FlowTerms, PathFlows, flow_load};

use crate::{Admission, Batching, InputShare, Layout, Name, PathPlan, Plan, PortPlan, Reservation, throttle};
use demand::{Load, ReservationDemand, Stages, WHOLE, load_of, part, parts};
pub(crate) use link::{Link, LinkFault, Stream};
use reserved::ReservationShares;
use serde::{Serialize, Serializer};
use units::{Bytes, Nanos, PacketRate, Parts, Rate, Share};

/// How often the shares of tasks are raised for the delays of their packets. Each time changes the other waits a little.
const PROMPT_PASSES: usize = 3;

/// The allotment of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TaskAllotment {
    /// Its share of the processor.
    #[serde(serialize_with = "fraction")]
    pub share: Share,
    /// The part of the share for reservations.
    #[serde(serialize_with = "fraction")]
    pub reserved: Share,
    /// Packets of a full run.
    pub batch: u32,
    /// The longest run, for which other tasks have to wait.
    #[serde(serialize_with = "text")]
    pub run: Nanos,
}

/// The allotment of a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PortAllotment {
    /// Its name.
    pub name: Name,
    /// The input task.
    pub input: TaskAllotment,
    /// The output task; zero if the layout has none.
    pub output: TaskAllotment,
    /// Bits of its link reserved for paths known to leave by it.
    #[serde(serialize_with = "text")]
    pub promised: Rate,
    /// The link's rate, if it is known.
    #[serde(serialize_with = "optional_text")]
    pub link: Option<Rate>,
}

/// The allotment of a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PathAllotment {
    /// Its name.
    pub name: String,
    /// Its reserved rate; `None` for best effort.
    #[serde(serialize_with = "optional_text")]
    pub rate: Option<PacketRate>,
    /// Its forwarding task. Best-effort paths that share a task get a part of its share each.
    pub task: TaskAllotment,
    /// The cost of a packet.
    #[serde(serialize_with = "text")]
    pub cost: Nanos,
    /// The source of that cost.
    pub source: CostSource,
    /// Packets it waits for before it runs; 1 without the throttle.
    pub threshold: u32,
    /// How long it waits for them. `None`: as long as other tasks are busy.
    #[serde(serialize_with = "optional_text")]
    pub max_wait: Option<Nanos>,
    /// The longest time until its task runs.
    #[serde(serialize_with = "text")]
    pub wait: Nanos,
    /// The longest delay of a packet before its link, by the scheme there; `None` for best effort.
    #[serde(serialize_with = "optional_text")]
    pub link: Option<Nanos>,
    /// The longest delay of a packet through the router, including the link's; `None` for best effort.
    #[serde(serialize_with = "optional_text")]
    pub through: Option<Nanos>,
    /// Packets that its input queue has to hold in the worst case; 0 for best effort.
    pub queue_needed: u32,
    /// Packets that its input queue holds.
    pub queue: u32,
}

/// The allotments of all tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Allotment {
    /// The ports, in the order of the plan.
    pub ports: Vec<PortAllotment>,
    /// The paths, in the order of the plan.
    pub paths: Vec<PathAllotment>,
    /// The built-in path `best-effort`.
    pub best_effort: TaskAllotment,
    /// Each of the other built-in paths.
    pub built_in: TaskAllotment,
    /// U: the part of the processor for the work of the reservations.
    #[serde(serialize_with = "text")]
    pub demand: Parts,
    /// The additional part for switching to their tasks.
    #[serde(serialize_with = "text")]
    pub overhead: Parts,
    /// The additional part for their time-outs.
    #[serde(serialize_with = "text")]
    pub tax: Parts,
    /// The part of the processor that does work when it is saturated.
    #[serde(serialize_with = "text")]
    pub reachable: Parts,
    /// The rest, for best effort.
    #[serde(serialize_with = "text")]
    pub left: Parts,
    /// Settings that probably do not work as intended.
    pub warnings: Vec<Warning>,
}

fn fraction<S: Serializer>(share: &Share, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((share.as_f64() * 1e6).round() / 1e6)
}

fn text<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn optional_text<T: std::fmt::Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// Checks that the reservations of a plan fit, and computes the allotments.
///
/// `costs` has an entry for each port and each path of the plan, in its order.
pub fn admit(plan: &Plan, costs: &Costs) -> Result<Allotment, AdmissionError> {
    admit_flows(plan, costs, &[])
}

/// The same, with the flows that are reserved on each path while the router runs, in the order of the plan; empty for none.
pub fn admit_flows(plan: &Plan, costs: &Costs, flows: &[PathFlows]) -> Result<Allotment, AdmissionError> {
    let (allotment, short) = overbook_flows(plan, costs, flows);
    short.map_or(Ok(allotment), Err)
}

/// The same, also for reservations that do not fit. Each task then gets the part of the processor that its reservations need, so all get
/// proportionally less. Returns also the first reservation that does not fit.
pub fn overbook_flows(plan: &Plan, costs: &Costs, flows: &[PathFlows]) -> (Allotment, Option<AdmissionError>) {
    assert_eq!((costs.ports.len(), costs.paths.len()), (plan.ports.len(), plan.paths.len()), "costs of this plan");
    let stages = Stages::of(plan, costs, flows);
    let mut prompt = vec![0; plan.paths.len()];
    let (first, short) = AllotmentInputs::of(stages, &prompt);
    // Larger shares help against lateness only. If they do not, the first sum is reported.
    let is_late = matches!(short, Some(AdmissionError { shortage: Shortage::Delay { .. }, .. }));
    let passes = if is_late { PROMPT_PASSES } else { 0 };
    let mut raised = None;
    for _ in 0..passes {
        if !raised.as_ref().unwrap_or(&first).raise_prompt_shares(&mut prompt) {
            break;
        }
        let (inputs, short) = AllotmentInputs::of(stages, &prompt);
        if short.is_none() {
            return (inputs.allotment(), None);
        }
        raised = Some(inputs);
    }
    (first.allotment(), short)
}

/// Admits reservations as long as they fit, the smallest demand first. So more of them are admitted, and their order in the file does not matter.
fn check_cpu(stages: &Stages<'_>, claims: &[ReservationDemand]) -> Result<(), AdmissionError> {
    let mut left = WHOLE - division::LEAST;
    for claim in claims {
        let needed = claim.total();
        if needed > left {
            let shortage = Shortage::Cpu { needed: parts(needed), available: Parts::millionths((left / 1000) as u32) };
            let path = &stages.plan.paths[claim.path];
            let said = stages.reservation(claim.path).expect("a claim has a reservation");
            return Err(AdmissionError { path: path.name.clone(), shortage, hint: fitting(stages, claim, left, said) });
        }
        left -= needed;
    }
    Ok(())
}

/// The largest value that would fit into the rest: a rate, or a share if the path sets one.
fn fitting(stages: &Stages<'_>, claim: &ReservationDemand, left: u64, said: Reservation) -> String {
    let more = "to fit more, use a cheaper function, a lower overhead or another core";
    if stages.plan.paths[claim.path].cpu.share.is_some() {
        let rest = claim.total() - claim.forwarding.total();
        let share = part(left.saturating_sub(rest), claim.forwarding.work, claim.forwarding.total());
        return format!("a share of {} would fit; {more}", Parts::millionths((share / 1000) as u32));
    }
    let rate = part(claim.rate.get(), left.saturating_sub(claim.tax), claim.total() - claim.tax);
    match (rate, said.rate) {
        (0, _) => format!("no rate would fit; {more}"),
        (rate, None) => format!("reserve = \"{}\" would fit; {more}", PacketRate::pps(rate)),
        (rate, Some(_)) => {
            let bits = rate.saturating_mul(claim.size.get() * 8);
            format!("reserve = \"{}\" would fit; {more}", Rate::bits(bits))
        }
    }
}

/// Checks configured shares of input tasks: each has to serve the reservations that may enter by its port.
fn check_input_shares(plan: &Plan, claims: &[ReservationDemand]) -> Result<(), AdmissionError> {
    if plan.cpu.input_share != InputShare::Explicit {
        return Ok(());
    }
    for (index, port) in plan.ports.iter().enumerate() {
        let available = port.cpu.share.map_or(0, load_of);
        let mut needed = 0;
        for claim in claims.iter().filter(|claim| claim.entries.contains(&index)) {
            needed += claim.input.share(plan.cpu.charge);
            if needed > available {
                let shortage = Shortage::Input {
                    port: port.name.clone(),
                    needed: parts(needed),
                    available: port.cpu.share.unwrap_or_default(),
                };
                let hint = format!("give the port share = \"{}\" or more", parts(needed));
                return Err(AdmissionError { path: plan.paths[claim.path].name.clone(), shortage, hint });
            }
        }
    }
    Ok(())
}

/// Checks that the reservations that enter by one port fit its line rate.
fn check_line_rates(plan: &Plan, costs: &Costs, claims: &[ReservationDemand]) -> Result<(), AdmissionError> {
    for (index, port) in plan.ports.iter().enumerate() {
        let Some(line) = port.cpu.line_rate.or(costs.ports[index].line_rate) else { continue };
        let mut left = line.get();
        for claim in claims.iter().filter(|claim| claim.entries == [index]) {
            if claim.rate.get() > left {
                let available = PacketRate::pps(left);
                let shortage = Shortage::Line { port: port.name.clone(), needed: claim.rate, available };
                let path = plan.paths[claim.path].name.clone();
                return Err(AdmissionError { path, shortage, hint: format!("reserve = \"{available}\" would fit") });
            }
            left -= claim.rate.get();
        }
    }
    Ok(())
}

/// Checks that each link a reservation may leave by keeps it, and adds the link's delay to the wait.
fn check_links(
    stages: &Stages<'_>,
    (runs, division): (&wait::Runs, &division::Division),
    claims: &[ReservationDemand],
    waits: &mut [wait::WorstWait],
) -> Result<(), AdmissionError> {
    let plan = stages.plan;
    let others: Vec<usize> = (0..plan.paths.len()).filter(|&path| plan.paths[path].cpu.reservation.is_none()).collect();
    for (index, port) in plan.ports.iter().enumerate() {
        let leaving: Vec<usize> = (0..claims.len()).filter(|&claim| claims[claim].exits.contains(&index)).collect();
        // Flows have shares of their own there, which the tree of the port checks.
        let (flows, leaving): (Vec<usize>, Vec<usize>) =
            leaving.into_iter().partition(|&claim| stages.plan.paths[claims[claim].path].cpu.reservations);
        if leaving.is_empty() && flows.is_empty() {
            continue;
        }
        // If no reservation has an output task of its own here, best effort's serves the link.
        let serve = match plan.cpu.layout {
            // No packet queues at the scheme.
            _ if !link::is_bounded(port, stages.costs.ports[index].link) => Nanos::ZERO,
            Layout::One => runs.others_run_time(Nanos::ZERO),
            _ => runs
                .others_run_time(runs.outputs[index])
                .max(runs.time_between_runs(runs.outputs[index], division.outputs[index])),
        };
        let frames = u64::from(stages.costs.ports[index].transmit.unwrap_or(0)) * link::FULL_FRAME.get();
        let buffered = link::paced_burst(&port.scheme).map_or(frames, |burst| burst.get().min(frames));
        let ring = stages.costs.ports[index].link.map_or(Nanos::ZERO, |rate| rate.time_for(Bytes::new(buffered)));
        flows.into_iter().for_each(|at| waits[at].link = waits[at].link.max(serve + ring));
        if leaving.is_empty() {
            continue;
        }
        let stream = |&at: &usize| {
            let claim = &claims[at];
            // All packets that arrive during the worst wait may reach the link in one burst, with the one at hand.
            Stream::of(&plan.paths[claim.path], claim.rate.within(waits[at].through + serve) + 1)
        };
        let may_leave = |path: &&usize| {
            let exits = &stages.costs.paths[**path].exits;
            exits.is_empty() || exits.contains(&index)
        };
        let link = Link {
            serve,
            rate: stages.costs.ports[index].link,
            ring: stages.costs.ports[index].transmit.unwrap_or(0),
            reserved: leaving.iter().filter_map(stream).collect(),
            ..Link::of(port, others.iter().filter(may_leave).map(|&path| &plan.paths[path]))
        };
        for at in leaving {
            let path = &plan.paths[claims[at].path];
            match link.worst_delay(path.class) {
                Ok(wait) => waits[at].link = waits[at].link.max(wait),
                Err(fault) => return Err(link_error(port, path, fault)),
            }
        }
    }
    // Only after all ports: `through` is the burst time of the streams above and must not yet include a link.
    waits.iter_mut().for_each(|wait| wait.through += wait.link);
    Ok(())
}

/// The refusal of a reservation that a link does not keep.
fn link_error(port: &PortPlan, path: &PathPlan, fault: LinkFault) -> AdmissionError {
    let port = port.name.clone();
    let (path, shortage, hint) = match fault {
        LinkFault::Rate { path, needed, available, of } => {
            let hint = "reserve less, or use another port, a faster link or a larger part of the link";
            (path, Shortage::Link { port, of, needed, available }, hint.to_string())
        }
        LinkFault::Room(needed, available) => {
            let [needed, available] = [needed, available].map(|packets| u32::try_from(packets).unwrap_or(u32::MAX));
            (
                path.name.clone(),
                Shortage::Queue { needed, available },
                format!("give the scheme of '{port}' a longer queue"),
            )
        }
        LinkFault::Scheme(_) | LinkFault::Class { .. } => {
            let hint = "use a scheme that serves its class separately, like \"priority\"".to_string();
            (path.name.clone(), Shortage::Class { port, reason: fault.to_string() }, hint)
        }
    };
    AdmissionError { path, shortage, hint }
}

/// Packets that a path's task waits for.
fn threshold(stages: &Stages<'_>, path: usize) -> u32 {
    match stages.forwarding.batching {
        Batching::Throttle { .. } if stages.plan.cpu.layout != Layout::One => {
            let plan = &stages.plan.paths[path];
            stages.forwarding.batch(cost(stages, path), stages.room(plan))
        }
        _ => 1,
    }
}

/// The cost of a packet in a path's task.
fn cost(stages: &Stages<'_>, path: usize) -> Nanos {
    let entries = stages.entries(path);
    let exits = stages.exits(path, &entries);
    let size = stages.packet_size(path);
    let [input, forwarding, _] = stages.packet(stages.costs.paths[path].functions, size, (&entries, &exits));
    if stages.plan.cpu.layout == Layout::One { input } else { forwarding }
}

/// Warns of slices that end before the overhead of a switch is amortised (section 4.2). If the configuration sets the cost of a switch, `check` has
/// reported them already.
fn short_slices(stages: &Stages<'_>) -> Vec<Warning> {
    let switch = stages.costs.switch;
    let ways = [("input", stages.input), ("forwarding", stages.forwarding), ("output", stages.output)];
    let short = ways.into_iter().filter_map(|(key, way)| {
        let Batching::Throttle { overhead, slice } = way.batching else { return None };
        let least = throttle::least_slice(switch, overhead);
        (slice < least && stages.plan.cpu.switch_cost.is_none()).then(|| Warning {
            about: format!("cpu.{key}"),
            reason: format!(
                "a slice of {slice} is too short: with a switch of {switch}, an overhead of {overhead} requires {}",
                least.rounded()
            ),
            hint: format!("give slice={least} or more, or a larger overhead"),
        })
    });
    short.collect()
}

/// Warns of paths that wait for more than half of their queue's capacity (section 4.3). If the configuration sets all costs, `check` has reported
/// them already.
fn near_capacity(stages: &Stages<'_>) -> Vec<Warning> {
    let Batching::Throttle { overhead, .. } = stages.forwarding.batching else { return Vec::new() };
    let said = stages.plan.cpu.switch_cost.is_some();
    let paths = stages.plan.paths.iter().enumerate().filter(|(_, path)| !(said && path.cpu.cost.is_some()));
    let near = paths.filter_map(|(index, path)| {
        let wanted = throttle::threshold(stages.costs.switch, overhead, cost(stages, index));
        let capacity = path.queue_capacity(stages.plan.cpu.layout);
        throttle::is_near_capacity(wanted, capacity).then(|| Warning {
            about: format!("path.{}", path.name),
            reason: format!(
                "at an overhead of {overhead} its task waits for {wanted} packets, more than half of its queue of {capacity}"
            ),
            hint: format!("give it a queue of {} or more, or a max_wait", wanted.saturating_mul(2)),
        })
    });
    near.collect()
}

/// The inputs of an allotment.
struct AllotmentInputs<'a> {
    stages: Stages<'a>,
    claims: Vec<ReservationDemand>,
    runs: wait::Runs,
    waits: Vec<wait::WorstWait>,
    spread: ReservationShares,
    division: division::Division,
    left: u64,
    warnings: Vec<Warning>,
}

impl<'a> AllotmentInputs<'a> {
    /// Adds all reservations up. Tasks of a path have at least this share, in nanoseconds a second. Returns also the first reservation that does not fit.
    fn of(stages: Stages<'a>, prompt: &[u64]) -> (AllotmentInputs<'a>, Option<AdmissionError>) {
        let (plan, costs) = (stages.plan, stages.costs);
        let claims = demand::reservation_demands(&stages, prompt);
        let fits = check_cpu(&stages, &claims);
        let fits = fits.and_then(|()| check_input_shares(plan, &claims));
        let fits = fits.and_then(|()| check_line_rates(plan, costs, &claims));
        let runs = wait::Runs::of(&stages, &claims);
        let mut warnings = Vec::new();
        let spread = ReservationShares::of(&claims, &mut warnings, plan);
        let left = WHOLE.saturating_sub(spread.reserved).max(division::LEAST);
        // Best effort is divided before the waits are computed, because its share for input tasks shortens the wait of reservations.
        let outputs = runs.prompt_output_shares(&stages, &claims);
        let division = division::divide_rest(&stages, &claims, (left, &outputs), &mut warnings);
        let inputs: Vec<u64> =
            spread.inputs.iter().zip(&division.inputs).map(|(load, rest)| load.share(plan.cpu.charge) + rest).collect();
        let waits =
            claims.iter().map(|claim| wait::worst_wait(&stages, &runs, claim, &inputs, threshold(&stages, claim.path)));
        let mut waits: Vec<wait::WorstWait> = waits.collect();
        let kept = match check_links(&stages, (&runs, &division), &claims, &mut waits) {
            // The reservation keeps its share of the processor although the link does not keep it.
            Err(unkept) if plan.cpu.admission == Admission::Warn => {
                let AdmissionError { path, shortage, hint } = unkept;
                warnings.push(Warning { about: format!("path.{path}"), reason: shortage.to_string(), hint });
                Ok(())
            }
            kept => kept,
        };
        warnings.extend(wait::rings(&stages, &runs, &claims));
        warnings.extend(short_slices(&stages));
        warnings.extend(near_capacity(&stages));
        let in_time = || claims.iter().zip(&waits).try_for_each(|(claim, wait)| wait::check(&stages, claim, *wait));
        let short = fits.and(kept).and_then(|()| in_time()).err();
        (AllotmentInputs { stages, claims, runs, waits, spread, division, left, warnings }, short)
    }

    /// Raises the shares of tasks whose packets would be late by more than that takes. Returns false if no share needs it, or none would help.
    fn raise_prompt_shares(&self, prompt: &mut [u64]) -> bool {
        let mut raised = false;
        for (claim, wait) in self.claims.iter().zip(&self.waits) {
            let delay = self.stages.reservation(claim.path).and_then(|reservation| reservation.delay);
            let late = delay.map_or(Nanos::ZERO, |delay| wait.through.saturating_sub(delay));
            let Some(share) = wait::share_in_time(&self.stages, claim, late).filter(|_| late > Nanos::ZERO) else {
                continue;
            };
            raised |= share > prompt[claim.path];
            prompt[claim.path] = prompt[claim.path].max(share);
        }
        raised
    }

    fn allotment(self) -> Allotment {
        let AllotmentInputs { stages, claims, runs, waits, spread, division, left, .. } = &self;
        let (plan, costs) = (stages.plan, stages.costs);
        let charge = plan.cpu.charge;
        let share = |load: u64| Share::of(load, WHOLE);
        let task = |reserved: Load, rest: u64, batch, run| TaskAllotment {
            share: share(reserved.share(charge) + rest),
            reserved: share(reserved.share(charge)),
            batch,
            run,
        };
        let ports = plan.ports.iter().enumerate().map(|(index, port)| {
            let figures = &costs.ports[index];
            let batch = |way: demand::TaskBatching, figure: CostEstimate| way.batch(figure.cost.packet, u32::MAX);
            // Only reservations with a single output port: for the others it is unknown how much uses this link.
            let promised =
                claims.iter().filter(|claim| claim.exits == [index]).map(ReservationDemand::on_the_wire).sum::<u128>();
            PortAllotment {
                name: port.name.clone(),
                input: task(
                    spread.inputs[index],
                    division.inputs[index],
                    batch(stages.input, figures.input),
                    runs.inputs[index],
                ),
                output: match plan.cpu.layout {
                    Layout::Two if runs.outputs[index] > Nanos::ZERO => {
                        let rest = division.outputs[index];
                        task(Load::default(), rest, batch(stages.output, figures.output), runs.outputs[index])
                    }
                    Layout::Three => {
                        let (reserved, rest) = (spread.outputs[index], division.outputs[index]);
                        task(reserved, rest, batch(stages.output, figures.output), runs.outputs[index])
                    }
                    _ => TaskAllotment::default(),
                },
                promised: Rate::bits(u64::try_from(promised).unwrap_or(u64::MAX)),
                link: figures.link,
            }
        });
        let paths = plan.paths.iter().enumerate().map(|(index, path)| {
            let claim = claims.iter().position(|claim| claim.path == index);
            // A path for reserved flows promises nothing without any.
            let promised = claim.filter(|_| !path.cpu.reservations || stages.flows_of(index).is_some());
            let reserved = claim.map_or(Load::default(), |at| claims[at].forwarding);
            let cost = cost(stages, index);
            let batch = stages.forwarding.batch(cost, stages.room(path));
            PathAllotment {
                name: path.name.clone(),
                rate: promised.map(|at| claims[at].rate),
                task: match plan.cpu.layout {
                    Layout::One => TaskAllotment::default(),
                    _ => task(reserved, division.paths[index], batch, runs.paths[index]),
                },
                cost,
                source: costs.paths[index].functions.source,
                threshold: threshold(stages, index),
                max_wait: demand::max_wait(stages, index),
                wait: runs.others_run_time(runs.paths[index]),
                link: promised.map(|at| waits[at].link),
                through: promised.map(|at| waits[at].through),
                queue_needed: promised.map_or(0, |at| waits[at].queue),
                queue: path.input_queue,
            }
        });
        let sum = |of: fn(&ReservationDemand) -> u64| claims.iter().map(of).sum::<u64>();
        let work = sum(|claim| claim.input.work + claim.forwarding.work + claim.output.work);
        let switches = sum(|claim| claim.input.switches + claim.forwarding.switches + claim.output.switches);
        let given = spread.reserved + division.used.total();
        let useful = division.used.work + spread.reserved.saturating_sub(spread_switches(spread, claims));
        let best = stages.forwarding.batch(costs.best_effort.cost.packet, u32::MAX);
        let none = plan.cpu.layout == Layout::One;
        Allotment {
            ports: ports.collect(),
            paths: paths.collect(),
            best_effort: if none {
                TaskAllotment::default()
            } else {
                task(Load::default(), division.best_effort, best, runs.best_effort)
            },
            built_in: if none {
                TaskAllotment::default()
            } else {
                task(Load::default(), division.built_in, best, runs.best_effort)
            },
            demand: parts(work),
            overhead: parts(switches),
            tax: parts(sum(|claim| claim.tax)),
            reachable: Parts::millionths(part(1_000_000, useful, given) as u32),
            left: Parts::millionths((*left / 1000) as u32),
            warnings: self.warnings.clone(),
        }
    }
}

/// The part of the reservations' total that is spent on switches.
fn spread_switches(spread: &ReservationShares, claims: &[ReservationDemand]) -> u64 {
    let ports: u64 = spread.inputs.iter().chain(&spread.outputs).map(|load| load.switches).sum();
    ports + claims.iter().map(|claim| claim.forwarding.switches + claim.tax).sum::<u64>()
}
