//! State that outlasts the lifetime of entries: time is divided into epochs, and hosts write it again for each epoch under a new tag (spec E-45,
//! E-47).
//!
//! The state for an epoch is written from the previous epoch on, and read until the epoch ends. So an epoch is a third of a lifetime. The last third
//! allows for clock differences and packets in flight.

use crate::isa::{Operator, StateInstruction};
use crate::store::mix;
use crate::wire::{Locations, Part};
use units::{Instant, Nanos};

/// The epochs of one computation. All hosts count them from the same time.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    computation: u64,
    length: Nanos,
}

impl Epochs {
    /// The epochs of a computation, for routers with this lifetime of entries.
    pub fn new(computation: u64, lifetime: Nanos) -> Epochs {
        Epochs { computation, length: Nanos::new((lifetime.get() / 3).max(1)) }
    }

    /// The computation.
    pub fn computation(&self) -> u64 {
        self.computation
    }

    /// The length of an epoch.
    pub fn length(&self) -> Nanos {
        self.length
    }

    /// The number of the epoch at `time`.
    pub fn at(&self, time: Instant) -> u64 {
        time.get() / self.length.get()
    }

    /// The start of an epoch.
    pub fn start(&self, epoch: u64) -> Instant {
        Instant::new(epoch.saturating_mul(self.length.get()))
    }

    /// The tag of an epoch. Never a reserved tag of a router variable.
    pub fn tag(&self, epoch: u64) -> u64 {
        // The shift clears the top bit, and reserved tags are the highest ones.
        mix(self.computation, epoch) >> 1
    }

    fn part(&self, locations: Locations, instruction: StateInstruction) -> Part {
        let computation = self.computation;
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }

    /// Sent by a receiver towards the source: marks the ports where it arrives for an epoch.
    pub fn mark(&self, epoch: u64) -> Part {
        self.part(Locations::INPUT, StateInstruction::Mark { tag: self.tag(epoch), value: 1 })
    }

    /// Carried by the source's data: routers forward copies only to marked ports.
    pub fn if_marked(&self, epoch: u64) -> Part {
        self.part(Locations::OUTPUT, StateInstruction::Test { tag: self.tag(epoch) })
    }

    /// The tag that counts the receivers of a layer in an epoch.
    fn counter(&self, epoch: u64, layer: u64) -> u64 {
        mix(self.tag(epoch), layer) >> 1
    }

    /// Sent by a receiver towards the source: `child` wants a layer in an epoch. Each port counts the child once, however often it is sent. The first
    /// child at a port is registered at the next router upstream.
    pub fn subscribe(&self, epoch: u64, layer: u64, child: u64) -> Part {
        let counter = self.counter(epoch, layer);
        self.part(Locations::INPUT, StateInstruction::Rchld { counter, child })
    }

    /// Sent by a receiver towards the source: `child`, which wanted a layer in an epoch, leaves it for the rest of the epoch. The last child to leave
    /// at a port is reported to the next router upstream.
    pub fn unsubscribe(&self, epoch: u64, layer: u64, child: u64) -> Part {
        let (counter, value, operator) = (self.counter(epoch, layer), 1, Operator::Add);
        let result = mix(counter, layer) >> 1;
        self.part(Locations::INPUT, StateInstruction::Rcollect { counter, result, child, value, operator })
    }

    /// Carried by data of a layer: routers forward copies to ports with a receiver of the layer.
    pub fn if_subscribed(&self, epoch: u64, layer: u64) -> Part {
        let tag = self.counter(epoch, layer);
        self.part(Locations::OUTPUT, StateInstruction::Setfwd { tag, value: 0, relation: Operator::Gt })
    }
}
