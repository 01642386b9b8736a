//! The root of a computation: gets the few packets that routers let through, and knows when it has heard from all.

use super::{Action, Round, Schedule};
use crate::isa::Instruction;
use crate::wire::Part;
use std::collections::BTreeMap;
use units::Instant;

/// The most children of a root: it has one for each router next to it, and for each member without a router between.
const MOST: usize = 1024;

/// How a round ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Everybody who was known has reported, and this is the result.
    Complete(u64),
    /// So many children of the root have not reported; the others' result, if there are any.
    Incomplete {
        /// Of those who have.
        result: Option<u64>,
        /// How many have not.
        missing: usize,
    },
    /// A router could not execute what it was sent, which comes back with its error bit set.
    Failed,
    /// Nobody has made itself known.
    Nobody,
}

/// The root in one round.
#[derive(Clone, Debug)]
pub struct Controller {
    round: Round,
    schedule: Schedule,
    children: BTreeMap<u64, Option<u64>>,
    failed: bool,
    /// Packets that have come.
    came: u64,
}

impl Controller {
    /// The root of a round.
    pub fn new(round: Round, schedule: Schedule) -> Controller {
        Controller { round, schedule, children: BTreeMap::new(), failed: false, came: 0 }
    }

    /// A part has come. Those of other rounds are nothing to it.
    pub fn received(&mut self, part: &Part) {
        if part.computation != self.round.computation {
            return;
        }
        let (counter, child, report) = match part.instruction {
            Instruction::Rchld { counter, child } => (counter, child, None),
            Instruction::Rcollect { counter, child, value, .. } => (counter, child, Some(value)),
            _ => return,
        };
        if counter != self.round.counter {
            return;
        }
        self.came += 1;
        if part.error {
            self.failed = true;
            return;
        }
        if self.children.len() < MOST || self.children.contains_key(&child) {
            let known = self.children.entry(child).or_default();
            // The last one counts: routers repeat what they have collected, and no less.
            *known = report.or(*known);
        }
    }

    /// Packets of this round that have come: few, however many members there are.
    pub fn packets(&self) -> u64 {
        self.came
    }

    /// What to do at `now`: to wait, or to take the result.
    pub fn poll(&self, now: Instant) -> Action<Outcome> {
        let reports: Vec<u64> = self.children.values().filter_map(|report| *report).collect();
        let missing = self.children.len() - reports.len();
        let result = reports.into_iter().reduce(|all, one| self.round.operator.combine(all, one));
        if now >= self.schedule.collect
            && missing == 0
            && let Some(result) = result
        {
            return Action::Over(Outcome::Complete(result));
        }
        if now < self.schedule.end {
            return Action::Wait(self.schedule.end);
        }
        Action::Over(match (self.failed, self.children.is_empty()) {
            (true, _) => Outcome::Failed,
            (_, true) => Outcome::Nobody,
            _ => Outcome::Incomplete { result, missing },
        })
    }
}
