//! Admission of one flow beside all others: its share of the link, its delay, and the largest reservation that would fit.

use super::Router;
use super::flow_sums::PathSums;
use plan::admission::{
    AdmissionError, Costs, FlowLink, FlowTerms, Shortage, admit_flows, exits_of, flow_load, overbook_flows,
};
use plan::{Name, Plan, ReservedFlow};
use units::{Bytes, Nanos, Parts, Rate};

/// The frames that the queues of flows may need together, of all: the rest is for other traffic and for receiving.
const QUEUE_PART: u64 = 2;
/// The smallest packet.
const SMALLEST: Bytes = Bytes::new(64);
/// The steps of a search for the largest reservation that fits: each halves the interval.
const SEARCH: u32 = 24;

/// The parts of a delay for the tasks that are tried, in sixteenths: the rest is for the link.
const PARTS: [u64; 8] = [1, 2, 4, 6, 8, 10, 12, 14];
/// The use of a whole resource.
const WHOLE_USE: u128 = 1_000_000;

/// The rate that a port may still guarantee below the parent of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkLeft<'p> {
    /// The port.
    pub port: &'p Name,
    /// The rate.
    pub rate: Rate,
}

/// The place of a flow in the router, by indexes in the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FlowPlace {
    /// Its path.
    pub path: usize,
    /// The ports by which it may enter.
    pub entries: Vec<usize>,
    /// The port by which it leaves.
    pub exit: usize,
}

/// The promise of the router to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowPromise {
    /// Its share of the link.
    pub terms: FlowTerms,
    /// The longest delay of its packets through the router.
    pub bound: Nanos,
    /// The bytes of its queue at the link.
    pub queue: Bytes,
    /// Its part of the processor, at its rate.
    pub cpu: Parts,
    /// The time of the path's functions for a packet on which the admission relies.
    pub cost: Nanos,
    /// Its part of the path's processor time: see [`crate::FlowGrant`].
    pub weight: u64,
}

impl FlowPromise {
    /// The delay in the rest of the router that keeps the bound of the flow.
    pub(super) fn latest(&self, flow: &ReservedFlow) -> Option<Nanos> {
        flow.delay.map(|delay| delay.saturating_sub(self.terms.wait))
    }

    /// The packets that its queue on the path may hold, and as many at the link.
    pub(super) fn queued(&self, flow: &ReservedFlow) -> u64 {
        self.queue.get().div_ceil(flow.packet.get().max(1))
    }

    /// The frames that both queues may hold.
    pub(super) fn frames(&self, flow: &ReservedFlow) -> u64 {
        2 * self.queued(flow)
    }
}

/// A flow that does not fit, with the promise that it gets if it is admitted nevertheless.
#[derive(Debug)]
pub(super) struct Unkept {
    pub refusal: FlowRefusal,
    pub promise: FlowPromise,
}

/// A division of a flow's delay between the tasks and the link.
struct Division {
    promise: FlowPromise,
    /// True if the waits of the tasks leave less than half of their time to those of later flows.
    is_tight: bool,
    /// The used part of the resource that becomes scarcest: of the rest of the processor, or of the link.
    used: u128,
    /// The resource that is short.
    short: Option<FlowRefusal>,
}

impl Division {
    fn strain(&self) -> (bool, u128) {
        (self.is_tight, self.used)
    }
}

/// Why a flow is not admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowRefusal {
    /// The position of the change.
    pub position: usize,
    /// The resource that ran out: `cpu`, `link`, `buffer`, `delay`. `None`: the change itself is wrong.
    pub resource: Option<&'static str>,
    /// The demand, and the rest.
    pub reason: String,
    /// The largest reservation that would fit, or a correction.
    pub hint: String,
}

impl FlowRefusal {
    pub(super) fn wrong(reason: String, hint: impl Into<String>) -> FlowRefusal {
        FlowRefusal { position: 0, resource: None, reason, hint: hint.into() }
    }
}

impl Router {
    /// The place of the flow's share at its port.
    pub(super) fn flow_link(
        &self,
        plan: &Plan,
        costs: &Costs,
        (name, exit): (&Name, usize),
        flow: &ReservedFlow,
    ) -> Result<FlowLink, FlowRefusal> {
        let Some(port) = self.shares.ports.get(name) else {
            let reason = format!("the port '{name}' has no shares");
            return Err(FlowRefusal::wrong(
                reason,
                "give it scheme = \"share(rate=1gbit)\", with the rate of its link",
            ));
        };
        let above = port.tree.rates_above(flow.parent.as_ref());
        let above = above.map_err(|(reason, hint)| FlowRefusal::wrong(reason, hint))?;
        let (said, link) = (above.last().copied().unwrap_or(Rate::ZERO), costs.ports[exit].link);
        if let Some(link) = link.filter(|link| *link < said) {
            let reason = format!("the scheme of '{name}' has a rate of {said}, but its link has {link}");
            return Err(FlowRefusal::wrong(reason, format!("write share(rate={link})")));
        }
        Ok(FlowLink::new(&plan.ports[exit].scheme, above))
    }

    /// The promise to a flow at the side of all others, or the resource that is short.
    ///
    /// The delay is divided between the tasks and the link. A larger part for one needs less of its resource, so several divisions are tried. The one
    /// counts that leaves most of the resource that becomes scarcest, if possible among those that leave half of the tasks' time to later flows.
    pub(super) fn promise(
        &self,
        plan: &Plan,
        costs: &Costs,
        at: (&FlowPlace, &FlowLink),
        wanted: (&ReservedFlow, LinkLeft<'_>),
    ) -> Result<FlowPromise, Box<Unkept>> {
        let (flow, cpu_left) = (wanted.0, self.cpu_left(plan, costs));
        let divide = |latest: Option<Nanos>| self.divide(plan, (costs, cpu_left), at, wanted, latest);
        let Some(delay) = flow.delay else {
            let Division { promise, short, .. } = divide(None);
            return short.map_or(Ok(promise), |refusal| Err(Unkept { refusal, promise }.into()));
        };
        // At its long-term rate a flow needs least of both resources. A shorter delay in the tasks needs more of the processor, and saves nothing of the link.
        let slack = at.1.slack(flow);
        let parts = PARTS.iter().map(|part| Nanos::new(delay.get() / 16 * part)).filter(|latest| *latest > slack);
        let first = Some(slack).filter(|slack| *slack > Nanos::ZERO);
        let (mut best, mut unkept): (Option<Division>, Option<Unkept>) = (None, None);
        for latest in first.into_iter().chain(parts) {
            let tried = divide(Some(latest));
            match tried.short {
                None if best.as_ref().is_none_or(|best| tried.strain() < best.strain()) => best = Some(tried),
                None => {}
                // Another division may help against a delay that is too short, but not against the lack of a resource with the best division.
                Some(ref refusal) => {
                    let is_better = unkept.as_ref().is_none_or(|before| match before.refusal.resource {
                        Some("delay") => {
                            refusal.resource != Some("delay") || tried.promise.bound < before.promise.bound
                        }
                        _ => false,
                    });
                    if is_better {
                        unkept = Some(Unkept { refusal: refusal.clone(), promise: tried.promise });
                    }
                }
            }
        }
        match (best, unkept) {
            (Some(best), _) => Ok(best.promise),
            (None, Some(unkept)) => Err(unkept.into()),
            (None, None) => {
                let refusal = short_of_delay(flow, delay);
                Err(Unkept { refusal, promise: divide(None).promise }.into())
            }
        }
    }

    /// The promise to a flow whose packets have this time in the tasks, and the resource that is short.
    fn divide(
        &self,
        plan: &Plan,
        (costs, cpu_left): (&Costs, Parts),
        (place, link): (&FlowPlace, &FlowLink),
        (flow, left): (&ReservedFlow, LinkLeft<'_>),
        latest: Option<Nanos>,
    ) -> Division {
        let FlowPlace { path, entries, exit } = place;
        let terms = link.terms(flow, latest.unwrap_or(Nanos::ZERO));
        let too_late = terms.as_ref().err().map(|least| short_of_delay(flow, *least));
        let terms = terms.unwrap_or_else(|_| link.fastest(flow));
        let mut sums = self.flows.path_flows();
        sums.resize_with(plan.paths.len(), Default::default);
        PathSums::add_one(&mut sums[*path], flow, (terms.packets, latest), (entries, *exit));
        let (allotment, short) = overbook_flows(plan, costs, &sums);
        let through = allotment.paths[*path].through.unwrap_or(Nanos::ZERO);
        let cpu = flow_load(costs, flow, *path, (entries.first().copied().unwrap_or(*exit), *exit));
        let functions = costs.paths[*path].functions.cost;
        let cost = functions.of(flow.packet);
        // Packets of an interleaved path are charged by time: one that costs twice as much counts as two.
        let smallest = functions.of(SMALLEST).get().max(1);
        let weight = match plan.paths[*path].cpu.interleave {
            true => terms.packets.saturating_mul(cost.get().max(1)).div_ceil(smallest),
            false => terms.packets,
        };
        let bound = through + terms.wait;
        let promise = FlowPromise { terms, bound, queue: link.queue(flow, bound), cpu, cost, weight };
        let short = too_late
            .or_else(|| fits_link(flow, terms, left).err())
            .or_else(|| short.map(|error| short_of(cpu, &error, cpu_left)))
            .or_else(|| self.check_frames(flow, promise).err());
        let part = |used: u64, whole: u64| u128::from(used) * WHOLE_USE / u128::from(whole.max(1));
        let cpu_used = cpu_left.get().saturating_sub(allotment.left.get());
        let used = part(terms.rate.get(), left.rate.get()).max(part(cpu_used.into(), cpu_left.get().into()));
        let is_tight = latest.is_some_and(|latest| through + through > latest);
        Division { promise, is_tight, used, short }
    }

    /// The frames for the flow's queue, at the side of all others.
    fn check_frames(&self, flow: &ReservedFlow, promise: FlowPromise) -> Result<(), FlowRefusal> {
        let all = self.region.frames() as u64 / QUEUE_PART;
        let (needed, left) = (promise.frames(flow), all.saturating_sub(self.flows.frames));
        if needed <= left {
            return Ok(());
        }
        let reason = format!("its queues need {needed} frames, but {left} of the {all} for queues of flows are left");
        let hint = "give the router more frames, or reserve a smaller burst".to_string();
        Err(FlowRefusal { position: 0, resource: Some("buffer"), reason, hint })
    }

    /// The part of the processor that no reservation has.
    fn cpu_left(&self, plan: &Plan, costs: &Costs) -> Parts {
        let mut sums = self.flows.path_flows();
        sums.resize_with(plan.paths.len(), Default::default);
        admit_flows(plan, costs, &sums).map_or(Parts::millionths(0), |allotment| allotment.left)
    }

    /// The largest reservation of this kind that would fit: a lower rate, or else a longer delay.
    pub(super) fn largest(
        &self,
        plan: &Plan,
        costs: &Costs,
        at: (&FlowPlace, &FlowLink),
        (flow, left): (&ReservedFlow, LinkLeft<'_>),
    ) -> Option<String> {
        let fits = |flow: &ReservedFlow| self.promise(plan, costs, at, (flow, left)).is_ok();
        let at_rate = |bits: u64| ReservedFlow { rate: Rate::bits(bits), ..flow.clone() };
        if let Some(bits) = highest((1000, flow.rate.get()), |bits| fits(&at_rate(bits))) {
            return Some(format!("rate {} would fit", rounded(Rate::bits(bits))));
        }
        let most = Nanos::secs(10);
        let at_delay = |nanos: u64| ReservedFlow { delay: Some(Nanos::new(nanos)), ..flow.clone() };
        let delay = flow.delay?;
        // The search finds the longest delay that fails.
        let fails = highest((delay.get(), most.get()), |nanos| !fits(&at_delay(nanos)))?;
        if fails >= most.get() {
            return None;
        }
        let mut unit = 1;
        while fails / unit >= 100 {
            unit *= 10;
        }
        Some(format!("delay {} would fit", Nanos::new((fails / unit + 1) * unit)))
    }
}

/// A rate with three digits, rounded down.
fn rounded(rate: Rate) -> Rate {
    let mut unit = 1;
    while rate.get() / unit >= 1000 {
        unit *= 10;
    }
    Rate::bits(rate.get() / unit * unit)
}

/// The highest number of an interval for which `holds`, if it holds for the lowest, and for all below one for which it holds.
fn highest((least, most): (u64, u64), holds: impl Fn(u64) -> bool) -> Option<u64> {
    if least > most || !holds(least) {
        return None;
    }
    let (mut low, mut high) = (least, most);
    if holds(most) {
        return Some(most);
    }
    for _ in 0..SEARCH {
        let middle = low + (high - low) / 2;
        if middle == low {
            break;
        }
        if holds(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// The output port of a flow: as it names it, or that of the route to its destination.
pub(super) fn output_port(plan: &Plan, flow: &ReservedFlow) -> Result<Name, FlowRefusal> {
    if let Some(port) = &flow.port {
        return Ok(port.clone());
    }
    match exits_of(plan, &flow.matching)[..] {
        [port] => Ok(plan.ports[port].name.clone()),
        [] => {
            let reason = "the output port is unknown: the match has no destination with a route of the configuration";
            Err(FlowRefusal::wrong(reason.to_string(), "add the port: out wan"))
        }
        _ => Err(FlowRefusal::wrong("its packets leave by several ports".to_string(), "reserve it at each: out wan")),
    }
}

fn short_of(cpu: Parts, error: &AdmissionError, left: Parts) -> FlowRefusal {
    let resource = Some(error.shortage.resource());
    let (reason, hint) = match &error.shortage {
        Shortage::Cpu { .. } => {
            let reason =
                format!("its packets need {cpu} of the processor, and switches to its path, but {left} is left");
            (reason, "reserve less, or use a cheaper function or another core".to_string())
        }
        Shortage::Queue { needed, available } => {
            let reason = format!(
                "up to {needed} packets arrive while other tasks run, but the queue of '{}' holds {available}",
                error.path
            );
            (reason, format!("give the path input_queue = {needed}"))
        }
        Shortage::Delay { needed, available } => {
            let reason = format!(
                "a packet may need {} before its share of the link, but the flows of '{}' allow {}",
                needed.rounded(),
                error.path,
                available.rounded()
            );
            (reason, "reserve a longer delay, or give all tasks shorter slices".to_string())
        }
        other => (other.to_string(), error.hint.clone()),
    };
    FlowRefusal { position: 0, resource, reason, hint }
}

fn short_of_delay(flow: &ReservedFlow, least: Nanos) -> FlowRefusal {
    let asked = flow.delay.unwrap_or(Nanos::MAX);
    let reason = format!("a packet may need {} besides its own burst, but the delay is {asked}", least.rounded());
    FlowRefusal { position: 0, resource: Some("delay"), reason, hint: "reserve a longer delay".to_string() }
}

/// Checks that the share of a flow fits below its parent.
fn fits_link(flow: &ReservedFlow, terms: FlowTerms, left: LinkLeft<'_>) -> Result<(), FlowRefusal> {
    if terms.rate <= left.rate {
        return Ok(());
    }
    let port = left.port;
    let below =
        flow.parent.as_ref().map_or_else(|| format!("'{port}'"), |parent| format!("the share {parent} of '{port}'"));
    let reason = format!("it needs {} of the link, but {} of {below} is left", rounded(terms.rate), rounded(left.rate));
    let hint = "end other reservations first".to_string();
    Err(FlowRefusal { position: 0, resource: Some("link"), reason, hint })
}

/// The ports by which a flow may enter: that of its input interface, or all but the one by which it leaves.
pub(super) fn entries(plan: &Plan, flow: &ReservedFlow, exit: usize) -> Vec<usize> {
    let all = 0..plan.ports.len();
    match flow.matching.iif.as_deref() {
        Some(name) => all.filter(|&port| plan.ports[port].interfaces.iter().any(|i| *i.name == *name)).collect(),
        None => all.filter(|&port| port != exit || plan.ports.len() == 1).collect(),
    }
}
