//! The instructions that packets of a source carry to simulated routers, in datagrams as hosts send them.

use esp::isa::StateInstruction;
use esp::store::mix;
use esp::wire::{Locations, Part};

/// The contents of a source's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CarriedInstruction {
    /// The instruction, with the tags of the first computation.
    pub instruction: StateInstruction,
    /// The locations that execute it.
    pub at: Locations,
    /// The number of computations, each with tags of its own; packets use them in turn. With 0 each packet has its own computation.
    pub computations: u64,
}

impl CarriedInstruction {
    /// The length of the instruction in bytes.
    pub fn length(&self) -> usize {
        self.instruction.opcode().length()
    }

    /// The number of distinct pairs of flow and computation if the packets have `flows` flows: their least common multiple. It is 0 if pairs do not
    /// repeat, or repeat too late to be remembered.
    pub fn flows(&self, flows: u64) -> u64 {
        const MOST: u64 = 60_000;
        let (mut one, mut other) = (self.computations, flows);
        // The greatest common divisor, by Euclid's algorithm.
        while other > 0 {
            (one, other) = (other, one % other);
        }
        let together = (flows / one.max(1)).checked_mul(self.computations);
        together.filter(|together| *together <= MOST).unwrap_or(0)
    }

    /// The instruction part of packet number `sequence`. The `n`th computation is the same for all sources, so several sources can be members of one.
    pub fn part(&self, sequence: u64) -> Part {
        let turn = if self.computations == 0 { sequence } else { sequence % self.computations };
        let instruction = if turn == 0 { self.instruction } else { with_computation(self.instruction, turn) };
        let (locations, computation) = (self.at, mix(1, turn));
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }
}

/// The same instruction with the tags of another computation. Children are names, not tags, and stay the same.
fn with_computation(instruction: StateInstruction, turn: u64) -> StateInstruction {
    let mut other = instruction;
    match &mut other {
        StateInstruction::Nop => {}
        StateInstruction::Collect { counter, result, .. } | StateInstruction::Rcollect { counter, result, .. } => {
            (*counter, *result) = (mix(*counter, turn), mix(*result, turn));
        }
        StateInstruction::Count { counter: tag, .. }
        | StateInstruction::Rchld { counter: tag, .. }
        | StateInstruction::Compare { tag, .. }
        | StateInstruction::Mark { tag, .. }
        | StateInstruction::Test { tag }
        | StateInstruction::Get { tag, .. }
        | StateInstruction::Put { tag, .. }
        | StateInstruction::Setfwd { tag, .. } => *tag = mix(*tag, turn),
    }
    other
}
