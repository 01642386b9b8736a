//! A round of a computation: who is there is set up, what they have to say is collected, and all of it before the first
//! state of it is gone (spec E-43; Calvert et al. 2003, 2.2).

use super::secret::Secret;
use crate::isa::{Instruction, Operator};
use crate::store::mix;
use crate::wire::{Locations, Part};
use std::fmt;
use units::{Instant, Nanos};

/// When what happens in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// When members begin to make themselves known.
    pub start: Instant,
    /// When they begin to report.
    pub collect: Instant,
    /// When it is over: routers may have forgotten about it afterwards.
    pub end: Instant,
    /// How long whoever has sent something waits before it sends it again.
    pub retry: Nanos,
}

/// A lifetime that is too short for two phases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooShort {
    /// How long it would have to be.
    pub needed: Nanos,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "setup and collection take {} s, longer than routers remember", self.needed.as_secs_f64())
    }
}

impl std::error::Error for TooShort {}

impl Schedule {
    /// A round that begins at `start`. `delay` is what a packet takes from the farthest member to the root, `skew` how far
    /// the clocks of members are apart, and in each phase everything is sent `tries` times.
    ///
    /// State is made from `start` on, by the earliest clock, and is gone a lifetime later; the last of it is used when the
    /// last report of the latest clock arrives.
    pub fn plan(
        start: Instant,
        lifetime: Nanos,
        (delay, skew): (Nanos, Nanos),
        tries: u32,
    ) -> Result<Schedule, TooShort> {
        let needed = |retry: Nanos| (retry * u64::from(tries.max(1)) + delay + skew) * 2;
        // Two are never on their way at a time: the second would come before anybody could tell that the first is lost.
        let shortest = needed(delay);
        if shortest > lifetime {
            return Err(TooShort { needed: shortest });
        }
        // What is left of a lifetime is spread over the tries.
        let phase = Nanos::new(lifetime.get() / 2);
        let retry = phase.saturating_sub(delay + skew).get() / u64::from(tries.max(1));
        Ok(Schedule { start, collect: start + phase, end: start + phase + phase, retry: Nanos::new(retry) })
    }

    /// The same again: so much later, or where this one takes longer when it is over.
    #[must_use]
    pub fn after(&self, every: Nanos) -> Schedule {
        let Schedule { start, collect, end, retry } = *self;
        let later = every.max(end.since(start));
        Schedule { start: start + later, collect: collect + later, end: end + later, retry }
    }
}

/// The tags of a round, and how its values are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// The computation it belongs to.
    pub computation: u64,
    /// Where routers count their children.
    pub counter: u64,
    /// Where they combine what those report.
    pub result: u64,
    /// How.
    pub operator: Operator,
    locations: Locations,
    number: Number,
}

/// Which round of its computation it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Number {
    pub attempt: u32,
    /// Which of those that are played at the same time.
    pub beside: u8,
    /// What its tags are made with; the number of the computation alone where there is none.
    pub secret: Option<Secret>,
}

impl Number {
    fn tag(self, computation: u64, which: u64) -> u64 {
        let number = u64::from(self.beside) << 33 | u64::from(self.attempt) << 1 | which;
        self.secret.map_or_else(|| mix(computation, number), |secret| secret.tag(computation, number))
    }
}

impl Round {
    pub(super) fn new(computation: u64, number: Number, operator: Operator, locations: Locations) -> Round {
        let (counter, result) = (number.tag(computation, 0), number.tag(computation, 1));
        Round { computation, counter, result, operator, locations, number }
    }

    /// The next attempt, with tags of its own.
    #[must_use]
    pub fn next(&self) -> Round {
        self.of(Number { attempt: self.number.attempt.wrapping_add(1), ..self.number })
    }

    /// One that is played at the same time, with tags of its own.
    pub(super) fn beside(&self) -> Round {
        self.of(Number { beside: self.number.beside.wrapping_add(1), ..self.number })
    }

    fn of(&self, number: Number) -> Round {
        Round::new(self.computation, number, self.operator, self.locations)
    }

    fn part(&self, instruction: Instruction) -> Part {
        let (locations, computation) = (self.locations, self.computation);
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }

    /// What makes `child` known.
    pub fn known(&self, child: u64) -> Part {
        self.part(Instruction::Rchld { counter: self.counter, child })
    }

    /// What `child` reports.
    pub fn report(&self, child: u64, value: u64) -> Part {
        let Round { counter, result, operator, .. } = *self;
        self.part(Instruction::Rcollect { counter, result, child, value, operator })
    }
}
