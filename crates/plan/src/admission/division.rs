//! Divides the rest of the processor among best effort.

use super::demand::{Load, ReservationDemand, Stages, WHOLE, load_of, part, parts};
use super::error::Warning;
use super::link::FULL_FRAME;
use crate::cost::CostEstimate;
use crate::{Grouping, InputShare, Layout, Plan};
use std::collections::BTreeMap;
use units::{Nanos, PacketRate};

/// Reserved for best effort, so that it never starves: a hundredth of the processor.
pub(super) const LEAST: u64 = WHOLE / 100;
/// The share of each built-in path for the router's own packets: at most a hundredth of the processor.
const BUILT_IN: u64 = WHOLE / 100;
/// A task's share is never less than a millionth.
const MIN_SHARE: u64 = WHOLE / 1_000_000;

/// Shares in nanoseconds per second.
#[derive(Clone, Debug, Default)]
pub(super) struct Division {
    /// Each port's input task.
    pub inputs: Vec<u64>,
    /// Each path's forwarding task.
    pub paths: Vec<u64>,
    /// Each port's output task.
    pub outputs: Vec<u64>,
    /// The built-in path `best-effort`.
    pub best_effort: u64,
    /// Each of the other built-in paths.
    pub built_in: u64,
    /// The total, including switches.
    pub used: Load,
}

/// The shares given so far, and the rest.
struct ShareBudget<'a> {
    stages: &'a Stages<'a>,
    division: Division,
    left: u64,
}

/// Divides `left` nanoseconds per second.
pub(super) fn divide_rest(
    stages: &Stages<'_>,
    claims: &[ReservationDemand],
    (left, prompt): (u64, &[u64]),
    warnings: &mut Vec<Warning>,
) -> Division {
    let plan = stages.plan;
    let (ports, paths) = (plan.ports.len(), plan.paths.len());
    let division =
        Division { inputs: vec![0; ports], paths: vec![0; paths], outputs: vec![0; ports], ..Division::default() };
    let mut purse = ShareBudget { stages, division, left };
    purse.give_minimum_shares();
    let each = BUILT_IN.min(purse.left / 10);
    purse.division.built_in = purse.take_share(2 * each) / 2;
    purse.give_configured_shares(claims, warnings);
    purse.give_prompt_outputs(prompt);
    let covered = purse.give_line_rate_shares(claims, warnings);
    purse.divide_by_functions(&covered);
    purse.division
}

impl ShareBudget<'_> {
    /// Takes up to `wanted` from the rest.
    fn take_share(&mut self, wanted: u64) -> u64 {
        let taken = wanted.min(self.left);
        self.left -= taken;
        self.division.used.work += taken;
        taken
    }

    /// Takes work with its switches, or the part of it that the rest allows.
    fn take_load(&mut self, load: Load) -> u64 {
        let load = if load.total() > self.left { load.part(self.left, load.total()) } else { load };
        self.left -= load.total();
        self.division.used = self.division.used.plus(load);
        load.share(self.stages.plan.cpu.charge)
    }

    fn give_minimum_shares(&mut self) {
        let tasks = 2 * self.division.inputs.len() + self.division.paths.len() + 1;
        let sliver = self.take_share(MIN_SHARE * tasks as u64) / tasks as u64;
        let Division { inputs, paths, outputs, .. } = &mut self.division;
        inputs.iter_mut().chain(paths).chain(outputs).for_each(|share| *share = sliver);
        self.division.best_effort = sliver;
    }

    /// Gives ports and paths without a reservation their configured shares, or as much of each as the rest allows.
    fn give_configured_shares(&mut self, claims: &[ReservationDemand], warnings: &mut Vec<Warning>) {
        let (stages, plan) = (self.stages, self.stages.plan);
        let mut wanted: Vec<(bool, usize, Load)> = Vec::new();
        for (index, port) in plan.ports.iter().enumerate() {
            let cost = stages.costs.ports[index].input.cost.packet;
            let said = port.cpu.share.filter(|_| plan.cpu.input_share == InputShare::Explicit);
            let more = |said| load_of(said).saturating_sub(received(claims, index).share(plan.cpu.charge));
            wanted.extend(said.map(|said| (true, index, stages.input.load_of_work(more(said), cost, u32::MAX))));
        }
        for (index, path) in plan.paths.iter().enumerate().filter(|(_, path)| path.cpu.reservation.is_none()) {
            let cost = stages.costs.paths[index].functions.cost.packet;
            let room = stages.room(path);
            let load = |said| stages.forwarding.load_of_work(load_of(said), cost, room);
            wanted.extend(path.cpu.share.map(|said| (false, index, load(said))));
        }
        let total: u64 = wanted.iter().map(|(_, _, load)| load.total()).sum();
        let available = self.left;
        if total > available {
            warnings.push(Warning {
                about: "cpu".into(),
                reason: format!(
                    "the configured shares need {} with their switches, but {} is left",
                    parts(total),
                    parts(available)
                ),
                hint: "all of them are reduced in proportion; configure smaller shares".into(),
            });
        }
        for (is_port, index, load) in wanted {
            // Scale all shares by the same factor if they do not fit.
            let load = if total > available { load.part(available, total) } else { load };
            let share = self.take_load(load);
            let all = if is_port { &mut self.division.inputs } else { &mut self.division.paths };
            all[index] += share;
        }
    }

    /// Gives output tasks that serve the links of reservations their shares: together at most a quarter of the rest.
    fn give_prompt_outputs(&mut self, wanted: &[u64]) {
        let (total, available) = (wanted.iter().sum::<u64>(), self.left / 4);
        for (index, &share) in wanted.iter().enumerate() {
            let share = if total > available { part(share, available, total) } else { share };
            self.division.outputs[index] += self.take_share(share);
        }
    }

    /// Gives input tasks enough for their line rate if the plan asks for it. Returns for each port if it has got that.
    fn give_line_rate_shares(&mut self, claims: &[ReservationDemand], warnings: &mut Vec<Warning>) -> Vec<bool> {
        let (stages, plan) = (self.stages, self.stages.plan);
        let mut covered = vec![plan.cpu.input_share == InputShare::Explicit; plan.ports.len()];
        let (mut wanted, mut unknown): (Vec<(usize, Load)>, usize) = (Vec::new(), 0);
        for (index, port) in plan.ports.iter().enumerate() {
            let reserved = claims.iter().any(|claim| claim.entries.contains(&index));
            let full = match plan.cpu.input_share {
                InputShare::Auto => reserved,
                InputShare::LineSpeed => true,
                InputShare::Balanced | InputShare::Explicit => false,
            };
            if !full {
                continue;
            }
            let cost = stages.costs.ports[index].input.cost.packet;
            let known = port.cpu.line_rate.or(stages.costs.ports[index].line_rate);
            if known.is_none() {
                warnings.push(unknown_line(port.name.as_ref()));
                unknown += 1;
            }
            // An unknown line may have any rate: assume as many packets as the processor can receive.
            let line = known.unwrap_or(PacketRate::pps(WHOLE / cost.get().max(1)));
            let line = stages.receiving(line, cost);
            let has = received(claims, index);
            wanted.push((
                index,
                Load { work: line.work.saturating_sub(has.work), switches: line.switches.saturating_sub(has.switches) },
            ));
        }
        // Leave half of the rest to forwarding: packets that are received only to be dropped help no one.
        let total: u64 = wanted.iter().map(|(_, load)| load.total()).sum();
        let available = self.left / 2;
        for (index, load) in wanted {
            let load = if total > available { load.part(available, total) } else { load };
            let share = self.take_load(load);
            self.division.inputs[index] += share;
            covered[index] = true;
            if total > available && unknown == 0 {
                warnings.push(short_of_line(plan, index, total, available));
            }
        }
        covered
    }

    /// Divides the rest by lists of functions. Each gets the same share, and it serves as many packets as possible from port to port.
    fn divide_by_functions(&mut self, covered: &[bool]) {
        let (stages, plan) = (self.stages, self.stages.plan);
        let groups = groups(plan);
        let all: Vec<usize> = (0..plan.ports.len()).collect();
        let open: Vec<usize> = all.iter().copied().filter(|&port| !covered[port]).collect();
        let each = self.left / (groups.len() as u64).max(1);
        let (mut inputs, mut outputs) = (0, 0);
        let ratio = plan.cpu.balance.map(u64::from);
        for members in groups.values() {
            let dearest = members.iter().map(|member| figure(stages, *member)).max_by_key(|f| f.cost.packet);
            let functions = dearest.unwrap_or(stages.costs.best_effort);
            let packet = stages.packet(functions, units::Bytes::new(64), (&all, &all));
            let room = members.iter().flatten().map(|&path| stages.room(&plan.paths[path])).min().unwrap_or(u32::MAX);
            // The rate cancels out: only the ratio of the three loads matters. A large one keeps the rounding error small.
            let one = PacketRate::pps(1_000_000);
            let loads = [
                stages.receiving(one, packet[0]).part(open.len() as u64, all.len() as u64),
                stages.forwarding.load(one, packet[1], room),
                stages.output.load(one, packet[2], u32::MAX),
            ];
            let loads = balanced(loads, ratio, plan.cpu.layout);
            let sum: u64 = loads.iter().map(|load| load.total()).sum();
            let [input, forwarding, output] = loads.map(|load| self.take_load(load.part(each, sum)));
            inputs += input;
            outputs += output;
            for member in members {
                let share = forwarding / members.len() as u64;
                match member {
                    None => self.division.best_effort += share,
                    Some(path) => self.division.paths[*path] += share,
                }
            }
        }
        // If every port is covered, divide what a configured `balance` gives to input among all of them.
        let open = if open.is_empty() { all.clone() } else { open };
        open.iter().for_each(|&port| self.division.inputs[port] += inputs / open.len() as u64);
        all.iter().for_each(|&port| self.division.outputs[port] += outputs / all.len() as u64);
    }
}

/// The load of the reservations on a port's input task, if all that may enter by it do so.
fn received(claims: &[ReservationDemand], port: usize) -> Load {
    let entering = claims.iter().filter(|claim| claim.entries.contains(&port));
    entering.map(|claim| claim.input).fold(Load::default(), Load::plus)
}

/// Forwarding gets a larger share than receiving requires. An equal share would lose no packets, but a queue once full would stay full, and its
/// packets would leave the cache before their turn. Unused time returns to receiving.
const AHEAD: (u64, u64) = (5, 4);

/// Loads whose work has the configured ratio, if there is one. Tasks that the layout lacks are left out.
fn balanced(loads: [Load; 3], ratio: [u64; 3], layout: Layout) -> [Load; 3] {
    let tasks = usize::from(layout.tasks());
    let nothing = loads.iter().all(|load| load.total() == 0);
    if (ratio == [0; 3] || tasks == 1) && !nothing {
        let [input, rest @ ..] = loads;
        let [forwarding, output] = rest.map(|load| load.part(AHEAD.0, AHEAD.1));
        return [input, forwarding, output];
    }
    // If no packet costs anything, any division is equally good.
    let ratio = if nothing { [1; 3] } else { ratio };
    let mut out = [Load::default(); 3];
    for (index, load) in loads.into_iter().enumerate().take(tasks) {
        let work = ratio[index] * 1_000_000;
        let switches = if load.work == 0 { 0 } else { part(load.switches, work, load.work) };
        out[index] = Load { work, switches };
    }
    out
}

/// The paths without a reservation or a share of their own, and the built-in one (`None`), grouped by the task they share.
fn groups(plan: &Plan) -> BTreeMap<String, Vec<Option<usize>>> {
    let mut groups: BTreeMap<String, Vec<Option<usize>>> = BTreeMap::new();
    let preemptible = |path: Option<usize>| path.is_some_and(|path| plan.paths[path].cpu.preemptible);
    let key = |functions: String, path: Option<usize>| match (plan.cpu.best_effort, path) {
        (Grouping::PerFunction | Grouping::Aggregate, path) if preemptible(path) => format!("{path:?}"),
        (Grouping::PerFunction, _) => functions,
        (Grouping::Aggregate | Grouping::Single, _) => String::new(),
        (Grouping::ByRule, path) => format!("{path:?}"),
    };
    groups.entry(key("ip".into(), None)).or_default().push(None);
    for (index, path) in plan.paths.iter().enumerate() {
        if path.cpu.reservation.is_none() && path.cpu.share.is_none() {
            let functions = path.functions.iter().map(|call| call.text.as_str()).collect::<Vec<_>>().join(" ");
            groups.entry(key(functions, Some(index))).or_default().push(Some(index));
        }
    }
    groups
}

fn figure(stages: &Stages<'_>, member: Option<usize>) -> CostEstimate {
    member.map_or(stages.costs.best_effort, |path| stages.costs.paths[path].functions)
}

/// The cost of a packet of full size, which bounds a task's run.
pub(super) fn longest(figure: CostEstimate) -> Nanos {
    figure.cost.of(FULL_FRAME)
}

fn unknown_line(port: &str) -> Warning {
    Warning {
        about: format!("port.{port}"),
        reason: "the line rate is unknown, so its input task shares half of what the reservations leave".into(),
        hint: "add line_rate, which is \"1488kpps\" for gigabit Ethernet".into(),
    }
}

fn short_of_line(plan: &Plan, index: usize, total: u64, available: u64) -> Warning {
    let port = &plan.ports[index];
    Warning {
        about: format!("port.{}", port.name),
        reason: format!(
            "to receive at line rate the input tasks need {} more, but get {}",
            parts(total),
            parts(available)
        ),
        hint: "a flood can make the receive ring drop reserved packets; reserve less, or add a core".into(),
    }
}
