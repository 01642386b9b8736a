//! State that is to last although no entry does: what is said holds for an epoch, and is said anew for each, under another tag (spec E-45, E-47).
//!
//! What holds in an epoch is written from the epoch before on, and read until its end. So an epoch is a third of a lifetime: the last third
//! is for clocks that are apart and for packets under way.

use crate::isa::{Instruction, Operator};
use crate::store::mix;
use crate::wire::{Locations, Part};
use units::{Instant, Nanos};

/// The epochs of one computation, which everybody counts from the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    computation: u64,
    length: Nanos,
}

impl Epochs {
    /// Those of a computation at routers where entries live this long.
    pub fn new(computation: u64, lifetime: Nanos) -> Epochs {
        Epochs { computation, length: Nanos::new((lifetime.get() / 3).max(1)) }
    }

    /// The computation they are of.
    pub fn computation(&self) -> u64 {
        self.computation
    }

    /// How long one is.
    pub fn length(&self) -> Nanos {
        self.length
    }

    /// Which one it is at `time`, counted from the same moment by everybody.
    pub fn at(&self, time: Instant) -> u64 {
        time.get() / self.length.get()
    }

    /// When one begins.
    pub fn start(&self, epoch: u64) -> Instant {
        Instant::new(epoch.saturating_mul(self.length.get()))
    }

    /// The tag of what holds in one. Never one that stands for something of a router.
    pub fn tag(&self, epoch: u64) -> u64 {
        mix(self.computation, epoch) >> 1
    }

    fn part(&self, locations: Locations, instruction: Instruction) -> Part {
        let computation = self.computation;
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }

    /// Sent from a receiver towards the source: the ports that it comes in by are marked for an epoch.
    pub fn mark(&self, epoch: u64) -> Part {
        self.part(Locations::INPUT, Instruction::Mark { tag: self.tag(epoch), value: 1 })
    }

    /// In front of data of the source: copies leave by marked ports only.
    pub fn if_marked(&self, epoch: u64) -> Part {
        self.part(Locations::OUTPUT, Instruction::Test { tag: self.tag(epoch) })
    }

    /// The tag under which those are counted who want a layer in an epoch.
    fn counter(&self, epoch: u64, layer: u64) -> u64 {
        mix(self.tag(epoch), layer) >> 1
    }

    /// Sent from a receiver towards the source: `child` wants a layer in an epoch. Ports it comes in by count it once, however often it is said, and the
    /// first behind a port is made known to the router before it.
    pub fn want(&self, epoch: u64, layer: u64, child: u64) -> Part {
        let counter = self.counter(epoch, layer);
        self.part(Locations::INPUT, Instruction::Rchld { counter, child })
    }

    /// Sent from a receiver towards the source: `child`, which wanted a layer in an epoch, does without it for the rest of that. The last behind a port to
    /// say so is made known to the router before it.
    pub fn shed(&self, epoch: u64, layer: u64, child: u64) -> Part {
        let (counter, value, operator) = (self.counter(epoch, layer), 1, Operator::Add);
        let result = mix(counter, layer) >> 1;
        self.part(Locations::INPUT, Instruction::Rcollect { counter, result, child, value, operator })
    }

    /// In front of data of a layer: copies leave where somebody wants it.
    pub fn if_wanted(&self, epoch: u64, layer: u64) -> Part {
        let tag = self.counter(epoch, layer);
        self.part(Locations::OUTPUT, Instruction::Setfwd { tag, value: 0, relation: Operator::Gt })
    }
}
