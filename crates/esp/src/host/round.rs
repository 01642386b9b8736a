//! A round of a computation: who is there is set up, what they have to say is collected, and all of it before the first
//! state of it is gone (spec E-43; Calvert et al. 2003, 2.2).

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
}

impl Round {
    pub(super) fn new(computation: u64, attempt: u32, operator: Operator, locations: Locations) -> Round {
        let tag = |which: u64| mix(computation, u64::from(attempt) << 1 | which);
        Round { computation, counter: tag(0), result: tag(1), operator, locations }
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
