//! The root of a computation: receives the few packets that routers forward, and determines when all members have reported.

use super::attempts::Present;
use super::{Action, Attempts, Round, Schedule};
use crate::isa::Instruction;
use crate::wire::Part;
use std::collections::BTreeMap;
use units::Instant;

/// The most children of a root. Its children are the neighbouring routers, and the members with no router in between.
const MOST: usize = 1024;

/// The outcome of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<T = u64> {
    /// All registered members have reported, with this result.
    Complete(T),
    /// Some children of the root have not reported.
    Incomplete {
        /// The result of the others, if any reported.
        result: Option<T>,
        /// The number of children that have not reported.
        missing: usize,
    },
    /// A router could not execute a packet and set its error bit.
    Failed,
    /// No member registered.
    Nobody,
}

impl<T> Outcome<T> {
    /// The result, complete or partial.
    pub fn result(self) -> Option<T> {
        match self {
            Outcome::Complete(result) => Some(result),
            Outcome::Incomplete { result, .. } => result,
            Outcome::Failed | Outcome::Nobody => None,
        }
    }

    /// The number of the root's children known not to have reported.
    pub fn missing(&self) -> usize {
        match self {
            Outcome::Incomplete { missing, .. } => *missing,
            _ => 0,
        }
    }

    /// The order of outcomes, from the least to the most useful.
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

/// The root in one round, or in repeated rounds until one is complete.
#[derive(Clone, Debug)]
pub struct Controller {
    present: Present,
    children: BTreeMap<u64, Option<u64>>,
    failed: bool,
    /// Packets received.
    came: u64,
    /// The best outcome of the previous rounds.
    before: Outcome,
}

impl Controller {
    /// The root of a single round.
    pub fn new(round: Round, schedule: Schedule) -> Controller {
        let (present, children) = (Present::once(round, schedule), BTreeMap::new());
        Controller { present, children, failed: false, came: 0, before: Outcome::Nobody }
    }

    /// Repeats the round until it is complete, at most so often. Members need the same attempts ([`Reporter::repeated`](super::Reporter::repeated)).
    #[must_use]
    pub fn repeated(self, attempts: Attempts) -> Controller {
        Controller { present: Present { attempts, ..self.present }, ..self }
    }

    /// The attempts left after the present round.
    pub fn left(&self) -> u16 {
        self.present.attempts.most.saturating_sub(1)
    }

    /// Processes a received part. Ignores parts of other rounds.
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
            // The latest report counts: a router's repeated report covers at least as many members as its first.
            *known = report.or(*known);
        }
    }

    /// Packets received in all rounds: few, however many members there are.
    pub fn packets(&self) -> u64 {
        self.came
    }

    /// The next action at `now`. If no round was complete, the result is the most useful outcome of all rounds.
    pub fn poll(&mut self, now: Instant) -> Action<Outcome> {
        loop {
            let Schedule { collect, end, .. } = self.present.schedule;
            let outcome = self.outcome();
            // Not before `collect`: until then more members may register.
            if now >= collect && matches!(outcome, Outcome::Complete(_)) {
                return Action::Over(outcome);
            }
            if now < end {
                return Action::Wait(end);
            }
            // At equal rank the later round wins: its values are newer.
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

    /// The outcome of the present round so far.
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
