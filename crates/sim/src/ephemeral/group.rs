//! A group query over a tree of routers whose links lose packets (spec E-X14, E-43, E-46).

use super::packet_executor::{PacketExecutor, part};
use super::{Values, quantity};
use crate::random::RandomStream;
use esp::host::{Action, Computation, Reporter, RoundController, RoundOutcome, Schedule};
use esp::isa::{Operator, StateInstruction};
use esp::site::Location;
use esp::store::{Key, StoreSpec, mix};
use esp::wire::{Locations, Part};
use serde::Deserialize;
use units::{Instant, Nanos, Parts};

/// Entries in a router's store for each child, created by RCHLD and RCOLLECT.
const ENTRIES: u64 = 2;
/// The start time.
const START: Instant = Instant::new(5_000_000_000);

/// The group and its links.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct GroupPlan {
    /// The number of members.
    pub members: u64,
    /// The most children of a router; they are members or routers.
    pub children: u64,
    /// The loss rate of each link, per million packets.
    pub lost: u32,
    /// The query: `size` counts the members, `max` finds their largest value.
    pub asked: GroupQuery,
    /// The protocol: `collect` without repetitions, or `rcollect` in rounds of [`esp::host`].
    pub by: GroupProtocol,
    /// How often each member sends its packet in each phase.
    pub tries: u32,
    /// The longest delay of a packet to the root.
    #[serde(deserialize_with = "quantity")]
    pub delay: Nanos,
    /// The lifetime of entries in routers.
    #[serde(deserialize_with = "quantity")]
    pub lifetime: Nanos,
    /// The seed of values, names and losses.
    pub seed: u64,
}

/// The query.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum GroupQuery {
    /// The number of members.
    Size,
    /// The largest of the members' values.
    Max,
}

/// The protocol.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum GroupProtocol {
    /// Once, without repetitions.
    Collect,
    /// In rounds, with repetitions.
    Rcollect,
}

impl GroupPlan {
    /// The value of the `n`th member.
    pub fn value(&self, n: u64) -> u64 {
        match self.asked {
            GroupQuery::Size => 1,
            GroupQuery::Max => mix(n, self.seed) % 1_000_000,
        }
    }

    /// The correct result.
    pub fn expected(&self) -> u64 {
        match self.asked {
            GroupQuery::Size => self.members,
            GroupQuery::Max => (0..self.members).map(|n| self.value(n)).max().unwrap_or(0),
        }
    }

    /// The operator that combines two values.
    pub fn operator(&self) -> Operator {
        if self.asked == GroupQuery::Size { Operator::Add } else { Operator::Max }
    }
}

/// A router, and the index of its parent. The first router's parent is the root host.
struct Router {
    spot: PacketExecutor,
    parent: Option<usize>,
}

struct Tree {
    routers: Vec<Router>,
    /// The index of each member's router.
    of_member: Vec<u32>,
    lost: Parts,
    chance: RandomStream,
}

impl Tree {
    /// Builds the tree from the root down, until it has enough places for members.
    fn new(plan: &GroupPlan) -> Tree {
        let fan = plan.children.max(2);
        let router = |node: usize, parent| {
            let spec = StoreSpec { lifetime: plan.lifetime, ..StoreSpec::of(fan * ENTRIES + 8) };
            Router { spot: PacketExecutor::with_own_store(spec, node as u64 + 1), parent }
        };
        let (mut routers, mut level) = (vec![router(0, None)], 0..1);
        while (level.len() as u64) * fan < plan.members {
            // As many routers as the members need, and no more than fit below this level.
            let wanted = plan.members.div_ceil(fan).min(level.len() as u64 * fan) as usize;
            let (parents, first) = (level.clone(), routers.len());
            for n in 0..wanted {
                let parent = parents.start + n * parents.len() / wanted;
                routers.push(router(first + n, Some(parent)));
            }
            level = first..routers.len();
        }
        let leaves = level.len() as u64;
        let of_member = (0..plan.members).map(|n| level.start as u32 + (n % leaves) as u32).collect();
        Tree { routers, of_member, lost: Parts::millionths(plan.lost), chance: RandomStream::new(plan.seed, "losses") }
    }

    /// Sends a part from a member towards the root. Returns the part that arrives; it arrives at once or is lost.
    fn send_up(&mut self, member: u64, now: Instant, part: Part) -> Option<Part> {
        let (mut at, mut part) = (Some(self.of_member[member as usize] as usize), part);
        while let Some(router) = at {
            if self.chance.happens(self.lost) {
                return None;
            }
            let Router { spot, parent } = &mut self.routers[router];
            // Children are connected to different ports, so the central store executes the part.
            part = spot.forward(Location::Central, now, &part)?;
            at = *parent;
        }
        (!self.chance.happens(self.lost)).then_some(part)
    }
}

/// Runs the trial.
///
/// | value | meaning |
/// |---|---|
/// | `result`, `expected` | the result at the root, or zero; the correct one |
/// | `complete` | 1 if the root considers the result complete |
/// | `routers`, `levels` | size of the tree |
/// | `sent` | packets that members sent in the whole round |
/// | `root_until_known` | packets that reached the root until it knew the result, or until the end of the round |
/// | `root_in_all` | packets that reached the root in the whole round, with repetitions of known values |
/// | `known_after_s` | time from the start until the root knew the result |
pub fn run(plan: &GroupPlan) -> Values {
    let (operator, expected, value) = (plan.operator(), plan.expected(), |n| plan.value(n));
    let mut tree = Tree::new(plan);
    let levels = {
        let mut router = tree.routers.len() - 1;
        let up = std::iter::from_fn(|| {
            router = tree.routers[router].parent?;
            Some(())
        });
        up.count() + 1
    };
    let told = match plan.by {
        GroupProtocol::Collect => collect(plan, &mut tree, operator, value),
        GroupProtocol::Rcollect => rounds(plan, &mut tree, operator, value),
    };
    [
        ("result", told.result.unwrap_or(0) as f64),
        ("expected", expected as f64),
        ("complete", f64::from(u8::from(told.result.is_some()))),
        ("routers", tree.routers.len() as f64),
        ("levels", levels as f64),
        ("sent", told.sent as f64),
        ("root_until_known", told.until_known as f64),
        ("root_in_all", told.in_all as f64),
        ("known_after_s", told.known.map_or(0.0, |at| at.since(START).as_secs_f64())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[derive(Default)]
struct QueryResult {
    result: Option<u64>,
    known: Option<Instant>,
    sent: u64,
    until_known: u64,
    in_all: u64,
}

/// Each member announces itself once, then reports its value once (spec E-22). COUNT tells every router how many children it has. Only the first
/// COUNT is forwarded, so the parent counts the router. COLLECT then counts down again.
fn collect(plan: &GroupPlan, tree: &mut Tree, operator: Operator, value: impl Fn(u64) -> u64) -> QueryResult {
    let (mut told, computation) = (QueryResult::default(), 77);
    let (counter, result) = (1, 2);
    let part = |instruction| Part { locations: Locations::CENTRAL, ..part(computation, instruction) };
    let setup = part(StateInstruction::Count { counter, threshold: 1, inclusive: true });
    for n in 0..plan.members {
        told.sent += 1;
        told.in_all += u64::from(tree.send_up(n, START, setup).is_some());
    }
    let later = START + plan.delay;
    for n in 0..plan.members {
        told.sent += 1;
        let report = StateInstruction::Collect { counter, result, value: value(n), operator };
        if let Some(came) = tree.send_up(n, later, part(report)) {
            told.in_all += 1;
            if let (StateInstruction::Collect { value, .. }, false) = (came.instruction, came.error) {
                // Only one router is connected to the root, so its report covers the whole group.
                (told.result, told.known) = (told.result.or(Some(value)), told.known.or(Some(later)));
            }
        }
        if told.known.is_none() || told.until_known == 0 {
            told.until_known = told.in_all;
        }
    }
    told
}

/// Uses the members and the root of the host library, with repetitions.
fn rounds(plan: &GroupPlan, tree: &mut Tree, operator: Operator, value: impl Fn(u64) -> u64) -> QueryResult {
    let round = Computation::seeded([plan.seed, 1]).at(Locations::CENTRAL).round(0, operator);
    let Ok(schedule) = Schedule::plan(START, plan.lifetime, (plan.delay, Nanos::ZERO), plan.tries) else {
        return QueryResult::default();
    };
    let names = Key::new([plan.seed, 2]);
    let mut members: Vec<Reporter> =
        (0..plan.members).map(|n| Reporter::new(round, schedule, names.hash(n), value(n))).collect();
    let (mut root, mut now, mut told) = (RoundController::new(round, schedule), START, QueryResult::default());
    while now < schedule.end {
        let mut next = schedule.end;
        for (n, member) in members.iter_mut().enumerate() {
            loop {
                match member.poll(now) {
                    Action::Send(part) => {
                        told.sent += 1;
                        if let Some(part) = tree.send_up(n as u64, now, part) {
                            root.received(&part);
                            told.in_all += 1;
                            if let (None, Action::Over(RoundOutcome::Complete(result))) = (told.known, root.poll(now)) {
                                (told.known, told.result) = (Some(now), Some(result));
                                told.until_known = told.in_all;
                            }
                        }
                    }
                    Action::Wait(until) => {
                        next = next.min(until);
                        break;
                    }
                    Action::Over(()) => break,
                }
            }
        }
        now = next;
    }
    if told.known.is_none() {
        told.until_known = told.in_all;
    }
    told
}
