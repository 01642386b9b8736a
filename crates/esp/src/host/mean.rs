//! The mean of the members' values: two rounds at the same time, one for the sum and one for the number of members (spec E-46).

use super::{Action, Attempts, Computation, ComputationRound, Reporter, RoundController, RoundOutcome, Schedule};
use crate::isa::Operator;
use crate::wire::Part;
use units::Instant;

/// The sum of the members' values, and the number of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mean {
    /// The sum, saturating at 2^64-1.
    pub sum: u64,
    /// The number of members, at least one.
    pub members: u64,
}

impl Mean {
    /// The mean.
    pub fn value(self) -> f64 {
        self.sum as f64 / self.members as f64
    }
}

/// The two rounds of a mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeanRounds {
    sum: ComputationRound,
    members: ComputationRound,
}

impl MeanRounds {
    /// The `attempt`th pair of rounds of a computation, executed at its locations.
    pub fn of(computation: &Computation, attempt: u32) -> MeanRounds {
        let sum = computation.round(attempt, Operator::Add);
        MeanRounds { sum, members: sum.parallel() }
    }

    fn next(&self) -> MeanRounds {
        MeanRounds { sum: self.sum.next(), members: self.members.next() }
    }
}

/// A member of a mean.
#[derive(Clone, Debug)]
pub struct MeanReporter([Reporter; 2]);

impl MeanReporter {
    /// A member with `value`. Its router knows it as `child`, a random number.
    pub fn new(rounds: MeanRounds, schedule: Schedule, child: u64, value: u64) -> MeanReporter {
        let reporter = |round, value| Reporter::new(round, schedule, child, value);
        MeanReporter([reporter(rounds.sum, value), reporter(rounds.members, 1)])
    }

    /// Repeats the rounds: see [`Reporter::repeated`].
    #[must_use]
    pub fn repeated(self, attempts: Attempts) -> MeanReporter {
        MeanReporter(self.0.map(|reporter| reporter.repeated(attempts)))
    }

    /// The next action at `now`.
    pub fn poll(&mut self, now: Instant) -> Action<()> {
        let [sum, members] = &mut self.0;
        match sum.poll(now) {
            Action::Send(part) => Action::Send(part),
            Action::Wait(until) => match members.poll(now) {
                Action::Wait(other) => Action::Wait(until.min(other)),
                send => send,
            },
            Action::Over(()) => members.poll(now),
        }
    }
}

/// The root of both rounds.
#[derive(Clone, Debug)]
pub struct MeanController {
    rounds: MeanRounds,
    schedule: Schedule,
    attempts: Attempts,
    sum: RoundController,
    members: RoundController,
    /// Packets received in previous rounds.
    earlier_packets: u64,
}

impl MeanController {
    /// The root of these rounds.
    pub fn new(rounds: MeanRounds, schedule: Schedule) -> MeanController {
        let [sum, members] = [rounds.sum, rounds.members].map(|round| RoundController::new(round, schedule));
        MeanController { rounds, schedule, attempts: Attempts::ONE, sum, members, earlier_packets: 0 }
    }

    /// Repeats the rounds until both of an attempt are complete: see [`RoundController::repeated`].
    #[must_use]
    pub fn repeated(self, attempts: Attempts) -> MeanController {
        MeanController { attempts, ..self }
    }

    /// Processes a received part. Ignores parts of other rounds.
    pub fn received(&mut self, part: &Part) {
        self.sum.received(part);
        self.members.received(part);
    }

    /// Packets received in all rounds.
    pub fn packets(&self) -> u64 {
        self.earlier_packets + self.sum.packets() + self.members.packets()
    }

    /// The next action at `now`. The result is that of the last attempt.
    pub fn poll(&mut self, now: Instant) -> Action<RoundOutcome<Mean>> {
        loop {
            let (sum, members) = match (self.sum.poll(now), self.members.poll(now)) {
                (Action::Over(sum), Action::Over(members)) => (sum, members),
                // A round that is over keeps its outcome until the other one ends.
                _ => return Action::Wait(self.schedule.end),
            };
            let outcome = combine(sum, members);
            if matches!(outcome, RoundOutcome::Complete(_)) || self.attempts.most <= 1 {
                return Action::Over(outcome);
            }
            let attempts = Attempts { most: self.attempts.most - 1, ..self.attempts };
            let (earlier_packets, schedule) = (self.packets(), self.schedule.after(attempts.every));
            *self = MeanController { earlier_packets, attempts, ..MeanController::new(self.rounds.next(), schedule) };
        }
    }
}

/// Combines the outcomes of both rounds.
fn combine(sum: RoundOutcome, members: RoundOutcome) -> RoundOutcome<Mean> {
    let mean = |sum: Option<u64>, members: Option<u64>| {
        let members = members.filter(|members| *members > 0)?;
        sum.map(|sum| Mean { sum, members })
    };
    let missing = sum.missing().max(members.missing());
    match (sum, members) {
        (RoundOutcome::Failed, _) | (_, RoundOutcome::Failed) => RoundOutcome::Failed,
        (RoundOutcome::NoMembers, _) | (_, RoundOutcome::NoMembers) => RoundOutcome::NoMembers,
        _ => match mean(sum.result(), members.result()) {
            Some(mean) if missing == 0 => RoundOutcome::Complete(mean),
            result => RoundOutcome::Incomplete { result, missing },
        },
    }
}
