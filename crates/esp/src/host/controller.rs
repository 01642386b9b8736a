//! The root of a computation: gets the few packets that routers let through, and knows when it has heard from all.

use super::attempts::Present;
use super::{Action, Attempts, Round, Schedule};
use crate::isa::Instruction;
use crate::wire::Part;
use std::collections::BTreeMap;
use units::Instant;

/// The most children of a root: it has one for each router next to it, and for each member without a router between.
const MOST: usize = 1024;

/// How a round ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<T = u64> {
    /// Everybody who was known has reported, and this is the result.
    Complete(T),
    /// So many children of the root have not reported; the others' result, if there are any.
    Incomplete {
        /// Of those who have.
        result: Option<T>,
        /// How many have not.
        missing: usize,
    },
    /// A router could not execute what it was sent, which comes back with its error bit set.
    Failed,
    /// Nobody has made itself known.
    Nobody,
}

impl<T> Outcome<T> {
    /// The result, if there is one; of all, or of some.
    pub fn result(self) -> Option<T> {
        match self {
            Outcome::Complete(result) => Some(result),
            Outcome::Incomplete { result, .. } => result,
            Outcome::Failed | Outcome::Nobody => None,
        }
    }

    /// How many children of the root are known not to have reported.
    pub fn missing(&self) -> usize {
        match self {
            Outcome::Incomplete { missing, .. } => *missing,
            _ => 0,
        }
    }

    /// How much it says.
    const fn rank(&self) -> u8 {
        match self {
            Outcome::Nobody => 0,
            Outcome::Failed => 1,
            Outcome::Incomplete { result: None, .. } => 2,
            Outcome::Incomplete { .. } => 3,
            Outcome::Complete(_) => 4,
        }
    }
}

/// The root in one round, or in several one after the other until one is complete.
#[derive(Clone, Debug)]
pub struct Controller {
    present: Present,
    children: BTreeMap<u64, Option<u64>>,
    failed: bool,
    /// Packets that have come.
    came: u64,
    /// What the rounds before came to, at best.
    before: Outcome,
}

impl Controller {
    /// The root of a round.
    pub fn new(round: Round, schedule: Schedule) -> Controller {
        let (present, children) = (Present::once(round, schedule), BTreeMap::new());
        Controller { present, children, failed: false, came: 0, before: Outcome::Nobody }
    }

    /// The same in so many rounds, of which this is the first: where one is not complete the next is played. Members
    /// have to be told the same ([`Reporter::repeated`](super::Reporter::repeated)).
    #[must_use]
    pub fn repeated(self, attempts: Attempts) -> Controller {
        Controller { present: Present { attempts, ..self.present }, ..self }
    }

    /// How many rounds there may be yet after the present one.
    pub fn left(&self) -> u16 {
        self.present.attempts.most.saturating_sub(1)
    }

    /// A part has come. Those of other rounds are nothing to it.
    pub fn received(&mut self, part: &Part) {
        if part.computation != self.present.round.computation {
            return;
        }
        let (counter, child, report) = match part.instruction {
            Instruction::Rchld { counter, child } => (counter, child, None),
            Instruction::Rcollect { counter, child, value, .. } => (counter, child, Some(value)),
            _ => return,
        };
        if counter != self.present.round.counter {
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

    /// Packets of its rounds that have come: few, however many members there are.
    pub fn packets(&self) -> u64 {
        self.came
    }

    /// What to do at `now`: to wait, or to take the result. Where no round is complete that is what the one came to
    /// that says most.
    pub fn poll(&mut self, now: Instant) -> Action<Outcome> {
        loop {
            let Schedule { collect, end, .. } = self.present.schedule;
            let outcome = self.outcome();
            if now >= collect && matches!(outcome, Outcome::Complete(_)) {
                return Action::Over(outcome);
            }
            if now < end {
                return Action::Wait(end);
            }
            if outcome.rank() >= self.before.rank() {
                self.before = outcome;
            }
            if !self.present.again() {
                return Action::Over(self.before);
            }
            self.children.clear();
            self.failed = false;
        }
    }

    /// What the present round comes to, as far as is known.
    fn outcome(&self) -> Outcome {
        let reports: Vec<u64> = self.children.values().filter_map(|report| *report).collect();
        let missing = self.children.len() - reports.len();
        let result = reports.into_iter().reduce(|all, one| self.present.round.operator.combine(all, one));
        match (result, self.children.is_empty()) {
            (Some(result), _) if missing == 0 => Outcome::Complete(result),
            _ if self.failed => Outcome::Failed,
            (_, true) => Outcome::Nobody,
            _ => Outcome::Incomplete { result, missing },
        }
    }
}
