//! A computation of an end system: its number, its tags, and its instructions.

use super::randomness;
use super::round::{ComputationRound, RoundNumber};
use super::secret::Secret;
use crate::isa::{Operator, StateInstruction};
use crate::store::Key;
use crate::wire::{Locations, Part};
use std::io::Result;

/// A computation. All its packets carry its number, so routers execute them in order on the same shard.
#[derive(Clone, Debug)]
pub struct Computation {
    id: u64,
    secret: Key,
    tags_drawn: u64,
    locations: Locations,
    round_secret: Option<Secret>,
}

impl Computation {
    /// A new computation with random numbers from the operating system.
    ///
    /// Another host that does not know its tags hits one only by chance: one of 2^64 for each entry of a router.
    ///
    /// # Errors
    /// Those of [`randomness()`].
    pub fn new() -> Result<Computation> {
        randomness().map(Computation::seeded)
    }

    /// A computation whose numbers follow from a seed of 128 bits: repeatable, for experiments.
    pub fn seeded(seed: [u64; 2]) -> Computation {
        let secret = Key::new(seed);
        let (id, secret, locations) = (secret.hash(0), secret.derive(1), Locations::INPUT);
        Computation { id, secret, tags_drawn: 0, locations, round_secret: None }
    }

    /// Joins the computation `id` of another host, with tags of its own.
    #[must_use]
    pub fn joined(self, id: u64) -> Computation {
        Computation { id, ..self }
    }

    /// Keeps the tags of rounds secret: only hosts that have these 128 random bits can compute them. The root and all members need the same bits.
    #[must_use]
    pub fn with_secret(self, secret: [u64; 2]) -> Computation {
        Computation { round_secret: Some(Secret::new(secret)), ..self }
    }

    /// Sets the locations at which routers execute its packets. The default is the port where they arrive.
    #[must_use]
    pub fn at(self, locations: Locations) -> Computation {
        Computation { locations, ..self }
    }

    /// The number of the computation.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A new tag.
    pub fn tag(&mut self) -> u64 {
        self.tags_drawn += 1;
        self.secret.hash(self.tags_drawn)
    }

    /// The `attempt`th round, which collects a value from all members with `operator`. Every host that knows the computation's number can compute the
    /// tags of all rounds, unless the members [share a secret](Computation::with_secret).
    ///
    /// If members arrive at several ports of a router, execute the round at the output ([`Computation::at`]): all of them leave by the port towards
    /// the root, so they share its store (spec E-38). At the input each port reports separately.
    pub fn round(&self, attempt: u32, operator: Operator) -> ComputationRound {
        ComputationRound::new(
            self.id,
            RoundNumber { attempt, parallel: 0, secret: self.round_secret },
            operator,
            self.locations,
        )
    }

    /// A part with this instruction.
    pub fn part(&self, instruction: StateInstruction) -> Part {
        let (locations, computation) = (self.locations, self.id);
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }

    /// NOP: the least work for a router.
    pub fn nop(&self) -> Part {
        self.part(StateInstruction::Nop)
    }

    /// COUNT at `tag`. Routers forward it while the count is below `below`.
    pub fn count(&self, tag: u64, below: u32) -> Part {
        self.part(StateInstruction::Count { counter: tag, threshold: below, inclusive: false })
    }

    /// COUNT at `tag`. Routers forward it while the count is at most `most`.
    pub fn count_to(&self, tag: u64, most: u32) -> Part {
        self.part(StateInstruction::Count { counter: tag, threshold: most, inclusive: true })
    }

    /// Routers forward only the first packet with this tag within a lifetime: a duplicate filter, or suppression of redundant messages.
    pub fn once(&self, tag: u64) -> Part {
        self.count(tag, 2)
    }

    /// COMPARE: routers forward it and store `value`, if the tag is absent or `value relation stored` holds. Combining operators never hold.
    pub fn compare(&self, tag: u64, relation: Operator, value: u64) -> Part {
        self.part(StateInstruction::Compare { tag, value, relation })
    }

    /// Routers forward it only if `value` exceeds all values before.
    pub fn new_maximum(&self, tag: u64, value: u64) -> Part {
        self.compare(tag, Operator::Gt, value)
    }

    /// Routers forward it only if `value` is below all values before.
    pub fn new_minimum(&self, tag: u64, value: u64) -> Part {
        self.compare(tag, Operator::Lt, value)
    }

    /// COLLECT: combines `value` into `result` and decrements `counter`. The packet that brings the counter to zero carries the result on. Each child
    /// must report exactly once, otherwise use [`Computation::rcollect`].
    pub fn collect(&self, counter: u64, result: u64, operator: Operator, value: u64) -> Part {
        self.part(StateInstruction::Collect { counter, result, value, operator })
    }

    /// RCOLLECT: the same for a `child` registered by [`Computation::rchld`]. Retransmissions do no harm.
    pub fn rcollect(&self, (counter, result): (u64, u64), child: u64, operator: Operator, value: u64) -> Part {
        self.part(StateInstruction::Rcollect { counter, result, child, value, operator })
    }

    /// RCHLD: registers `child` at `counter`. Retransmissions do no harm. Routers forward the first child only.
    pub fn rchld(&self, counter: u64, child: u64) -> Part {
        self.part(StateInstruction::Rchld { counter, child })
    }

    /// Marks the path of the packet.
    pub fn mark(&self, tag: u64, value: u64) -> Part {
        self.part(StateInstruction::Mark { tag, value })
    }

    /// Routers forward it on marked paths only. For data, at the output: see [`crate::wire::wrap`].
    pub fn if_marked(&self, tag: u64) -> Part {
        self.part(StateInstruction::Test { tag })
    }

    /// Returns the value at the last router of the path. Every router on the path must have the tag.
    pub fn get(&self, tag: u64) -> Part {
        self.part(StateInstruction::Get { tag, value: 0 })
    }

    /// Writes a value along the path.
    pub fn put(&self, tag: u64, value: u64) -> Part {
        self.part(StateInstruction::Put { tag, value })
    }

    /// Routers forward it if the tag exists and `stored relation value` holds. Combining operators never hold.
    pub fn setfwd(&self, tag: u64, relation: Operator, value: u64) -> Part {
        self.part(StateInstruction::Setfwd { tag, value, relation })
    }

    /// Routers forward it if the stored value is at least `value`: for example the layers allowed on a branch.
    pub fn if_at_least(&self, tag: u64, value: u64) -> Part {
        self.setfwd(tag, Operator::Ge, value)
    }
}
