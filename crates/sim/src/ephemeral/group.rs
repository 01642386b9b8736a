//! A group that is asked for something, over a tree of routers whose links lose packets (spec E-X14, E-43, E-46).

use super::spot::{Spot, part};
use super::{Values, quantity};
use crate::chance::Chance;
use esp::host::{Action, Computation, Controller, Outcome, Reporter, Schedule};
use esp::isa::{Instruction, Operator};
use esp::site::Location;
use esp::store::{Key, StoreSpec, mix};
use esp::wire::{Locations, Part};
use serde::Deserialize;
use units::{Instant, Nanos, Parts};

/// Entries of a router's store for each child: what RCHLD and RCOLLECT make of it.
const ENTRIES: u64 = 2;
/// When it begins.
const START: Instant = Instant::new(5_000_000_000);

/// The group and its links.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How many there are.
    pub members: u64,
    /// Children that a router has at most, members or routers.
    pub children: u64,
    /// Of a million packets on each link.
    pub lost: u32,
    /// What is reported: `size`, one of each; `max`, a number of each.
    pub asked: Asked,
    /// How: `collect`, once and with nothing repeated, or `rcollect`, in rounds of [`esp::host`].
    pub by: By,
    /// How often each member says what it has to say, in each phase.
    pub tries: u32,
    /// How long a packet takes to the root at most.
    #[serde(deserialize_with = "quantity")]
    pub delay: Nanos,
    /// How long routers remember.
    #[serde(deserialize_with = "quantity")]
    pub lifetime: Nanos,
    /// What values, names and losses are drawn from.
    pub seed: u64,
}

/// What is asked.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Asked {
    /// How many there are.
    Size,
    /// The greatest of what they have.
    Max,
}

/// How it is asked.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Once, with nothing repeated.
    Collect,
    /// In rounds, with repetitions.
    Rcollect,
}

impl Plan {
    /// What the `n`th member reports.
    pub fn value(&self, n: u64) -> u64 {
        match self.asked {
            Asked::Size => 1,
            Asked::Max => mix(n, self.seed) % 1_000_000,
        }
    }

    /// What is to come out.
    pub fn expected(&self) -> u64 {
        match self.asked {
            Asked::Size => self.members,
            Asked::Max => (0..self.members).map(|n| self.value(n)).max().unwrap_or(0),
        }
    }

    /// What makes one value of two.
    pub fn operator(&self) -> Operator {
        if self.asked == Asked::Size { Operator::Add } else { Operator::Max }
    }
}

/// A router, and the number of its parent; the first has the root as its.
struct Router {
    spot: Spot,
    parent: Option<usize>,
}

struct Tree {
    routers: Vec<Router>,
    /// The router of the first member, that of the second, ...
    of_member: Vec<u32>,
    lost: Parts,
    chance: Chance,
}

impl Tree {
    /// From the root down, until there are enough places.
    fn new(plan: &Plan) -> Tree {
        let fan = plan.children.max(2);
        let router = |node: usize, parent| {
            let spec = StoreSpec { lifetime: plan.lifetime, ..StoreSpec::of(fan * ENTRIES + 8) };
            Router { spot: Spot::of(spec, node as u64 + 1), parent }
        };
        let (mut routers, mut level) = (vec![router(0, None)], 0..1);
        while (level.len() as u64) * fan < plan.members {
            // Enough routers below these for what is needed in the end, and no more.
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
        Tree { routers, of_member, lost: Parts::millionths(plan.lost), chance: Chance::new(plan.seed, "losses") }
    }

    /// What comes to the root of a part that a member sends. What is sent arrives at once or never.
    fn up(&mut self, member: u64, now: Instant, part: Part) -> Option<Part> {
        let (mut at, mut part) = (Some(self.of_member[member as usize] as usize), part);
        while let Some(router) = at {
            if self.chance.happens(self.lost) {
                return None;
            }
            let Router { spot, parent } = &mut self.routers[router];
            // By whichever ports they come in.
            part = spot.forward(Location::Central, now, &part)?;
            at = *parent;
        }
        (!self.chance.happens(self.lost)).then_some(part)
    }
}

/// Runs it.
///
/// | value | what |
/// |---|---|
/// | `result`, `expected` | what the root was told, or zero; what is true |
/// | `complete` | whether the root believes that it has heard of all |
/// | `routers`, `levels` | of the tree |
/// | `sent` | packets that members sent in the whole round |
/// | `root_until_known` | packets that came to the root until it knew the result, or the round was over |
/// | `root_in_all` | packets that came in the whole round, repetitions of what was known included |
/// | `known_after_s` | how long after the beginning the root knew |
pub fn run(plan: &Plan) -> Values {
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
        By::Collect => collect(plan, &mut tree, operator, value),
        By::Rcollect => rounds(plan, &mut tree, operator, value),
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
struct Told {
    result: Option<u64>,
    known: Option<Instant>,
    sent: u64,
    until_known: u64,
    in_all: u64,
}

/// Each member says once that it is there, then once what it has to say (spec E-22): COUNT tells every router how many children it has, and only the first
/// goes on, for its parent to count the router; COLLECT counts down again.
fn collect(plan: &Plan, tree: &mut Tree, operator: Operator, value: impl Fn(u64) -> u64) -> Told {
    let (mut told, computation) = (Told::default(), 77);
    let (counter, result) = (1, 2);
    let part = |instruction| Part { locations: Locations::CENTRAL, ..part(computation, instruction) };
    let setup = part(Instruction::Count { counter, threshold: 1, inclusive: true });
    for n in 0..plan.members {
        told.sent += 1;
        told.in_all += u64::from(tree.up(n, START, setup).is_some());
    }
    let later = START + plan.delay;
    for n in 0..plan.members {
        told.sent += 1;
        let report = Instruction::Collect { counter, result, value: value(n), operator };
        if let Some(came) = tree.up(n, later, part(report)) {
            told.in_all += 1;
            if let (Instruction::Collect { value, .. }, false) = (came.instruction, came.error) {
                // There is one router next to the root: what it sends is of all.
                (told.result, told.known) = (told.result.or(Some(value)), told.known.or(Some(later)));
            }
        }
        if told.known.is_none() || told.until_known == 0 {
            told.until_known = told.in_all;
        }
    }
    told
}

/// With members and a root as hosts have them, who repeat what they say.
fn rounds(plan: &Plan, tree: &mut Tree, operator: Operator, value: impl Fn(u64) -> u64) -> Told {
    let round = Computation::seeded([plan.seed, 1]).at(Locations::CENTRAL).round(0, operator);
    let Ok(schedule) = Schedule::plan(START, plan.lifetime, (plan.delay, Nanos::ZERO), plan.tries) else {
        return Told::default();
    };
    let names = Key::new([plan.seed, 2]);
    let mut members: Vec<Reporter> =
        (0..plan.members).map(|n| Reporter::new(round, schedule, names.hash(n), value(n))).collect();
    let (mut root, mut now, mut told) = (Controller::new(round, schedule), START, Told::default());
    while now < schedule.end {
        let mut next = schedule.end;
        for (n, member) in members.iter_mut().enumerate() {
            loop {
                match member.poll(now) {
                    Action::Send(part) => {
                        told.sent += 1;
                        if let Some(part) = tree.up(n as u64, now, part) {
                            root.received(&part);
                            told.in_all += 1;
                            if let (None, Action::Over(Outcome::Complete(result))) = (told.known, root.poll(now)) {
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
