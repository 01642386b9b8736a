//! The root of a computation: receives the few packets that routers forward, and determines when all members have reported.

use super::attempts::CurrentRound;
use super::{Action, Attempts, ComputationRound, Schedule};
use crate::isa::StateInstruction;
use crate::wire::Part;
use std::collections::BTreeMap;
use units::Instant;

/// The most children of a root. Its children are the neighbouring routers, and the members with no router in between.
const MOST_CHILDREN: usize = 1024;

/// The outcome of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoundOutcome<T = u64> {
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
    NoMembers,
}

impl<T> RoundOutcome<T> {
    /// The result, complete or partial.
    pub fn result(self) -> Option<T> {
        match self {
            RoundOutcome::Complete(result) => Some(result),
            RoundOutcome::Incomplete { result, .. } => result,
            RoundOutcome::Failed | RoundOutcome::NoMembers => None,
        }
    }

    /// The number of the root's children known not to have reported.
    pub fn missing(&self) -> usize {
        match self {
            RoundOutcome::Incomplete { missing, .. } => *missing,
            _ => 0,
        }
    }

    /// The order of outcomes, from the least to the most useful.
    const fn rank(&self) -> u8 {
        match self {
            RoundOutcome::NoMembers => 0,
            RoundOutcome::Failed => 1,
            RoundOutcome::Incomplete { result: None, .. } => 2,
            RoundOutcome::Incomplete { .. } => 3,
            RoundOutcome::Complete(_) => 4,
        }
    }
}

/// The root in one round, or in repeated rounds until one is complete.
#[derive(Clone, Debug)]
pub struct RoundController {
    current: CurrentRound,
    children: BTreeMap<u64, Option<u64>>,
    failed: bool,
    /// Packets received.
    packets: u64,
    /// The best outcome of the previous rounds.
    best: RoundOutcome,
}

impl RoundController {
    /// The root of a single round.
    pub fn new(round: ComputationRound, schedule: Schedule) -> RoundController {
        let (current, children) = (CurrentRound::single(round, schedule), BTreeMap::new());
        RoundController { current, children, failed: false, packets: 0, best: RoundOutcome::NoMembers }
    }

    /// Repeats the round until it is complete, at most so often. Members need the same attempts ([`Reporter::repeated`](super::Reporter::repeated)).
    #[must_use]
    pub fn repeated(self, attempts: Attempts) -> RoundController {
        RoundController { current: CurrentRound { attempts, ..self.current }, ..self }
    }

    /// The attempts left after the present round.
    pub fn attempts_left(&self) -> u16 {
        self.current.attempts.most.saturating_sub(1)
    }

    /// Processes a received part. Ignores parts of other rounds.
    pub fn received(&mut self, part: &Part) {
        if part.computation != self.current.round.computation {
            return;
        }
        let (counter, child, report) = match part.instruction {
            StateInstruction::Rchld { counter, child } => (counter, child, None),
            StateInstruction::Rcollect { counter, child, value, .. } => (counter, child, Some(value)),
            _ => return,
        };
        if counter != self.current.round.counter {
            return;
        }
        self.packets += 1;
        if part.error {
            self.failed = true;
            return;
        }
        if self.children.len() < MOST_CHILDREN || self.children.contains_key(&child) {
            let known = self.children.entry(child).or_default();
            // The latest report counts: a router's repeated report covers at least as many members as its first.
            *known = report.or(*known);
        }
    }

    /// Packets received in all rounds: few, however many members there are.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The next action at `now`. If no round was complete, the result is the most useful outcome of all rounds.
    pub fn poll(&mut self, now: Instant) -> Action<RoundOutcome> {
        loop {
            let Schedule { collect, end, .. } = self.current.schedule;
            let outcome = self.outcome();
            // Not before `collect`: until then more members may register.
            if now >= collect && matches!(outcome, RoundOutcome::Complete(_)) {
                return Action::Over(outcome);
            }
            if now < end {
                return Action::Wait(end);
            }
            // At equal rank the later round wins: its values are newer.
            if outcome.rank() >= self.best.rank() {
                self.best = outcome;
            }
            if !self.current.advance() {
                return Action::Over(self.best);
            }
            self.children.clear();
            self.failed = false;
        }
    }

    /// The outcome of the present round so far.
    fn outcome(&self) -> RoundOutcome {
        let reports: Vec<u64> = self.children.values().filter_map(|report| *report).collect();
        let missing = self.children.len() - reports.len();
        let result = reports.into_iter().reduce(|all, one| self.current.round.operator.combine(all, one));
        match (result, self.children.is_empty()) {
            (Some(result), _) if missing == 0 => RoundOutcome::Complete(result),
            _ if self.failed => RoundOutcome::Failed,
            (_, true) => RoundOutcome::NoMembers,
            _ => RoundOutcome::Incomplete { result, missing },
        }
    }
}
