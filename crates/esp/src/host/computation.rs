//! One computation of an end system: its number, its tags, and the instructions about them.

use super::randomness;
use super::round::{Number, Round};
use super::secret::Secret;
use crate::isa::{Instruction, Operator};
use crate::store::Key;
use crate::wire::{Locations, Part};
use std::io::Result;

/// A computation. All its packets carry its number, by which routers keep them together and in order.
#[derive(Clone, Debug)]
pub struct Computation {
    id: u64,
    secret: Key,
    drawn: u64,
    locations: Locations,
    shared: Option<Secret>,
}

impl Computation {
    /// A new one, whose numbers are drawn by the operating system.
    ///
    /// Nobody who does not know them meets its tags but by chance: one of 2^64 for each entry of a router.
    ///
    /// # Errors
    /// Those of [`randomness`].
    pub fn new() -> Result<Computation> {
        randomness().map(Computation::seeded)
    }

    /// One whose numbers follow from 128 bits of a seed: the same again from the same, as trials want it.
    pub fn seeded(seed: [u64; 2]) -> Computation {
        let secret = Key::new(seed);
        let (id, secret, locations) = (secret.hash(0), secret.derive(1), Locations::INPUT);
        Computation { id, secret, drawn: 0, locations, shared: None }
    }

    /// A part of somebody else's, known by its number, with tags of one's own.
    #[must_use]
    pub fn joined(self, id: u64) -> Computation {
        Computation { id, ..self }
    }

    /// One whose rounds only those know who have a secret: 128 bits, drawn at random, the same for the root and all
    /// members.
    #[must_use]
    pub fn sharing(self, secret: [u64; 2]) -> Computation {
        Computation { shared: Some(Secret::new(secret)), ..self }
    }

    /// Where routers are to execute what it sends; where nothing is said, at the port it comes in by.
    #[must_use]
    pub fn at(self, locations: Locations) -> Computation {
        Computation { locations, ..self }
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A tag that nobody has used.
    pub fn tag(&mut self) -> u64 {
        self.drawn += 1;
        self.secret.hash(self.drawn)
    }

    /// The `attempt`th round of collecting a value from all members with `operator`. Everybody who knows the number of
    /// the computation knows the tags of all rounds, but where members [share a secret](Computation::sharing). Where
    /// members come in by several ports of a router it is better executed where they leave ([`Computation::at`]): by
    /// the port towards the root, on whose store they meet (spec E-38). Where they come in each port reports by itself.
    pub fn round(&self, attempt: u32, operator: Operator) -> Round {
        Round::new(self.id, Number { attempt, beside: 0, secret: self.shared }, operator, self.locations)
    }

    /// A packet with an instruction.
    pub fn part(&self, instruction: Instruction) -> Part {
        let (locations, computation) = (self.locations, self.id);
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }

    /// What costs a router the least.
    pub fn nop(&self) -> Part {
        self.part(Instruction::Nop)
    }

    /// Counts at `tag`; passes while fewer than `below` have come.
    pub fn count(&self, tag: u64, below: u32) -> Part {
        self.part(Instruction::Count { counter: tag, threshold: below, inclusive: false })
    }

    /// Counts at `tag`; passes while at most `most` have come.
    pub fn count_to(&self, tag: u64, most: u32) -> Part {
        self.part(Instruction::Count { counter: tag, threshold: most, inclusive: true })
    }

    /// Passes each router only if no other with this tag has in a lifetime: filters duplicates, suppresses what others have
    /// said already.
    pub fn once(&self, tag: u64) -> Part {
        self.count(tag, 2)
    }

    /// Passes a router, and leaves `value` there, where nothing is there or `value relation there` holds. What combines
    /// holds nowhere.
    pub fn compare(&self, tag: u64, relation: Operator, value: u64) -> Part {
        self.part(Instruction::Compare { tag, value, relation })
    }

    /// Passes a router only where `value` is greater than any before.
    pub fn new_maximum(&self, tag: u64, value: u64) -> Part {
        self.compare(tag, Operator::Gt, value)
    }

    /// Passes a router only where `value` is less than any before.
    pub fn new_minimum(&self, tag: u64, value: u64) -> Part {
        self.compare(tag, Operator::Lt, value)
    }

    /// Combines `value` into `result` and takes one from `counter`; the one that leaves nothing there passes with the
    /// result. Each is to come once: see [`Computation::rcollect`].
    pub fn collect(&self, counter: u64, result: u64, operator: Operator, value: u64) -> Part {
        self.part(Instruction::Collect { counter, result, value, operator })
    }

    /// The same for `child`, which [`Computation::rchld`] has made known, however often it comes.
    pub fn rcollect(&self, (counter, result): (u64, u64), child: u64, operator: Operator, value: u64) -> Part {
        self.part(Instruction::Rcollect { counter, result, child, value, operator })
    }

    /// Makes `child` known at `counter`, however often it comes; the first of a router passes.
    pub fn rchld(&self, counter: u64, child: u64) -> Part {
        self.part(Instruction::Rchld { counter, child })
    }

    /// Marks the way it goes.
    pub fn mark(&self, tag: u64, value: u64) -> Part {
        self.part(Instruction::Mark { tag, value })
    }

    /// Passes where the way is marked. Meant for data, at the output: see [`crate::wire::wrap`].
    pub fn if_marked(&self, tag: u64) -> Part {
        self.part(Instruction::Test { tag })
    }

    /// Brings along the value of the last router on its way; each of them has to have one.
    pub fn get(&self, tag: u64) -> Part {
        self.part(Instruction::Get { tag, value: 0 })
    }

    /// Puts a value on the way it goes.
    pub fn put(&self, tag: u64, value: u64) -> Part {
        self.part(Instruction::Put { tag, value })
    }

    /// Passes where something is there and `there relation value` holds. What combines holds nowhere.
    pub fn setfwd(&self, tag: u64, relation: Operator, value: u64) -> Part {
        self.part(Instruction::Setfwd { tag, value, relation })
    }

    /// Passes where at least `value` was put: the layers that a branch is allowed.
    pub fn if_at_least(&self, tag: u64, value: u64) -> Part {
        self.setfwd(tag, Operator::Ge, value)
    }
}
