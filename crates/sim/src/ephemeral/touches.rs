//! The reads and writes of each instruction in a store. They determine its cost if memory dominates (spec E-X9).

use super::Values;
use super::packet_executor::{PacketExecutor, part};
use esp::isa::{Opcode, Operator, StateInstruction};
use esp::site::InstructionFate;
use esp::store::StoreSpec;
use serde::Deserialize;
use units::Instant;

/// The length of the measurement.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct TouchesPlan {
    /// Rounds on a real processor, which measure the cost of instructions. In virtual time repetition has no effect.
    #[serde(default = "rounds")]
    pub rounds: u16,
}

fn rounds() -> u16 {
    10
}

/// Executes each instruction once, in the state of a computation in progress.
///
/// | value | meaning |
/// |---|---|
/// | `input.OPCODE.tags` | entries that it looks up |
/// | `input.OPCODE.bytes` | length of its part in the packet |
/// | `OPCODE.creates` | entries that it created for absent tags |
pub fn run(_: &TouchesPlan) -> Values {
    let (tag, result, child, value, operator) = (1, 2, 3, 4, Operator::Max);
    let instructions = [
        (StateInstruction::Nop, None),
        (StateInstruction::Count { counter: tag, threshold: 9, inclusive: false }, None),
        (StateInstruction::Compare { tag, value, relation: Operator::Gt }, None),
        (
            StateInstruction::Collect { counter: tag, result, value, operator },
            Some(StateInstruction::Put { tag, value: 2 }),
        ),
        (StateInstruction::Rchld { counter: tag, child }, None),
        (
            StateInstruction::Rcollect { counter: tag, result, child, value, operator },
            Some(StateInstruction::Rchld { counter: tag, child }),
        ),
    ];
    let mut values = Values::new();
    for (instruction, before) in instructions {
        let mut spot = PacketExecutor::with_own_store(StoreSpec::of(100), 7);
        let mut pass = |instruction| spot.execute(Instant::START, &part(5, instruction));
        before.map(&mut pass);
        let aborted = matches!(pass(instruction), InstructionFate::Aborted(_));
        let (opcode, tags): (Opcode, usize) = (instruction.opcode(), instruction.tags().count());
        let made = spot.site.shard_counters().created - before.map_or(0, |before| before.opcode().creates());
        for (what, value) in [("creates", made as f64), ("aborted", f64::from(u8::from(aborted)))] {
            values.insert(format!("{opcode}.{what}"), value);
        }
        // These values follow from the instruction alone. They are not measurements, so no claim may depend on them.
        values.insert(format!("input.{opcode}.tags"), tags as f64);
        values.insert(format!("input.{opcode}.bytes"), opcode.length() as f64);
    }
    values
}
