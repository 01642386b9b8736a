//! A round of a computation: members register in the setup phase and report in the collect phase. Both phases end before the first entry expires
//! (spec E-43; Calvert et al. 2003, 2.2).

use super::secret::Secret;
use crate::isa::{Operator, StateInstruction};
use crate::store::mix;
use crate::wire::{Locations, Part};
use std::fmt;
use units::{Instant, Nanos};

/// The times of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Members begin to register.
    pub start: Instant,
    /// Members begin to report.
    pub collect: Instant,
    /// The round is over; routers may drop its state from now on.
    pub end: Instant,
    /// The time between two transmissions.
    pub retry: Nanos,
}

/// The lifetime is too short for two phases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LifetimeTooShort {
    /// The shortest lifetime that suffices.
    pub needed: Nanos,
}

impl fmt::Display for LifetimeTooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "setup and collection need {} s, longer than the lifetime of entries in routers",
            self.needed.as_secs_f64()
        )
    }
}

impl std::error::Error for LifetimeTooShort {}

impl Schedule {
    /// A round that starts at `start`. `delay` is the one-way delay from the farthest member to the root, and `skew` the largest difference between
    /// members' clocks. Each phase transmits everything `tries` times.
    ///
    /// The member with the earliest clock creates state from `start` on, and it expires one lifetime later. The last report, by the latest clock,
    /// must arrive before that.
    pub fn plan(
        start: Instant,
        lifetime: Nanos,
        (delay, skew): (Nanos, Nanos),
        tries: u32,
    ) -> Result<Schedule, LifetimeTooShort> {
        let needed = |retry: Nanos| (retry * u64::from(tries.max(1)) + delay + skew) * 2;
        // Retransmit no sooner than one delay: earlier the first packet may still be in flight.
        let shortest = needed(delay);
        if shortest > lifetime {
            return Err(LifetimeTooShort { needed: shortest });
        }
        // The tries share all time that the lifetime leaves.
        let phase = Nanos::new(lifetime.get() / 2);
        let retry = phase.saturating_sub(delay + skew).get() / u64::from(tries.max(1));
        Ok(Schedule { start, collect: start + phase, end: start + phase + phase, retry: Nanos::new(retry) })
    }

    /// The same round, later by `every`, or by its own length if that is longer.
    #[must_use]
    pub fn after(&self, every: Nanos) -> Schedule {
        let Schedule { start, collect, end, retry } = *self;
        let later = every.max(end.since(start));
        Schedule { start: start + later, collect: collect + later, end: end + later, retry }
    }
}

/// The tags of a round, and its operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ComputationRound {
    /// The computation.
    pub computation: u64,
    /// The tag under which routers count their children.
    pub counter: u64,
    /// The tag under which they combine reports.
    pub result: u64,
    /// The combining operator.
    pub operator: Operator,
    locations: Locations,
    number: RoundNumber,
}

/// The number of a round within its computation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RoundNumber {
    pub attempt: u32,
    /// The index among rounds that run at the same time.
    pub parallel: u8,
    /// The secret behind its tags; without one they follow from the computation's number alone.
    pub secret: Option<Secret>,
}

impl RoundNumber {
    fn tag(self, computation: u64, which: u64) -> u64 {
        let number = u64::from(self.parallel) << 33 | u64::from(self.attempt) << 1 | which;
        self.secret.map_or_else(|| mix(computation, number), |secret| secret.tag(computation, number))
    }
}

impl ComputationRound {
    pub(super) fn new(
        computation: u64,
        number: RoundNumber,
        operator: Operator,
        locations: Locations,
    ) -> ComputationRound {
        let (counter, result) = (number.tag(computation, 0), number.tag(computation, 1));
        ComputationRound { computation, counter, result, operator, locations, number }
    }

    /// The next attempt, with new tags.
    #[must_use]
    pub fn next(&self) -> ComputationRound {
        self.of(RoundNumber { attempt: self.number.attempt.wrapping_add(1), ..self.number })
    }

    /// A round that runs at the same time, with other tags.
    pub(super) fn parallel(&self) -> ComputationRound {
        self.of(RoundNumber { parallel: self.number.parallel.wrapping_add(1), ..self.number })
    }

    fn of(&self, number: RoundNumber) -> ComputationRound {
        ComputationRound::new(self.computation, number, self.operator, self.locations)
    }

    fn part(&self, instruction: StateInstruction) -> Part {
        let (locations, computation) = (self.locations, self.computation);
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }

    /// The part that registers `child`.
    pub fn registration(&self, child: u64) -> Part {
        self.part(StateInstruction::Rchld { counter: self.counter, child })
    }

    /// The part that reports `value` of `child`.
    pub fn report(&self, child: u64, value: u64) -> Part {
        let ComputationRound { counter, result, operator, .. } = *self;
        self.part(StateInstruction::Rcollect { counter, result, child, value, operator })
    }
}
