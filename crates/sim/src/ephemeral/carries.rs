//! The instructions that packets of a source carry to simulated routers, in datagrams as hosts send them.

use esp::isa::Instruction;
use esp::store::mix;
use esp::wire::{Locations, Part};

/// What packets of a source carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carries {
    /// The instruction, with the tags of the first computation.
    pub instruction: Instruction,
    /// Where it is executed.
    pub at: Locations,
    /// So many computations in turn, each with tags of its own; 0: no two packets are of the same.
    pub computations: u64,
}

impl Carries {
    /// Bytes of it.
    pub fn length(&self) -> usize {
        self.instruction.opcode().length()
    }

    /// How many flows and computations together packets are of, in turn, where they are of so many flows; 0 where none comes again, or too late to
    /// be remembered.
    pub fn flows(&self, flows: u64) -> u64 {
        const MOST: u64 = 60_000;
        let (mut one, mut other) = (self.computations, flows);
        while other > 0 {
            (one, other) = (other, one % other);
        }
        let together = (flows / one.max(1)).checked_mul(self.computations);
        together.filter(|together| *together <= MOST).unwrap_or(0)
    }

    /// The part of the packet of this number. Whichever source it is of, the `n`th computation is the same: so several sources are members of one.
    pub fn part(&self, sequence: u64) -> Part {
        let turn = if self.computations == 0 { sequence } else { sequence % self.computations };
        let instruction = if turn == 0 { self.instruction } else { of_turn(self.instruction, turn) };
        let (locations, computation) = (self.at, mix(1, turn));
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }
}

/// The same on the tags of another computation. Children are those of everybody: names, and no tags.
fn of_turn(instruction: Instruction, turn: u64) -> Instruction {
    let mut other = instruction;
    match &mut other {
        Instruction::Nop => {}
        Instruction::Collect { counter, result, .. } | Instruction::Rcollect { counter, result, .. } => {
            (*counter, *result) = (mix(*counter, turn), mix(*result, turn));
        }
        Instruction::Count { counter: tag, .. }
        | Instruction::Rchld { counter: tag, .. }
        | Instruction::Compare { tag, .. }
        | Instruction::Mark { tag, .. }
        | Instruction::Test { tag }
        | Instruction::Get { tag, .. }
        | Instruction::Put { tag, .. }
        | Instruction::Setfwd { tag, .. } => *tag = mix(*tag, turn),
    }
    other
}
