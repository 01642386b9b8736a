//! The fates of packets that ask for a trace (spec E-15), by computation.
//!
//! Only a few computations are kept. A new one replaces the one that has been silent for longest.

use crate::fate::{InstructionFate, Location};
use crate::report::ComputationTrace;
use units::Instant;

/// The most computations traced at a place, per worker.
const MOST_TRACES: usize = 32;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Traces([Vec<(ComputationTrace, Instant)>; Location::ALL.len()]);

impl Traces {
    /// Records the fate of a traced packet, with the opcode of its instruction.
    pub fn record(
        &mut self,
        location: Location,
        (computation, number): (u64, u8),
        fate: InstructionFate,
        now: Instant,
    ) {
        // The fate as one byte of the digest.
        let code = match fate {
            InstructionFate::PassedThrough => return,
            InstructionFate::Forwarded => 1,
            InstructionFate::Dropped => 2,
            InstructionFate::Aborted(why) => 3 + why as u8,
        };
        let (trace, last) = self.entry(location, computation);
        *last = now;
        match fate {
            InstructionFate::Forwarded => trace.forwarded += 1,
            InstructionFate::Dropped => trace.dropped += 1,
            _ => trace.aborted += 1,
        }
        // FNV-1a, 64 bits.
        for byte in [number, code] {
            trace.digest = (trace.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn entry(&mut self, location: Location, computation: u64) -> &mut (ComputationTrace, Instant) {
        let there = &mut self.0[location as usize];
        let known = there.iter().position(|(trace, _)| trace.computation == computation);
        let index = known.unwrap_or_else(|| {
            let none = (
                ComputationTrace { computation, digest: 0xcbf2_9ce4_8422_2325, ..ComputationTrace::default() },
                Instant::START,
            );
            if there.len() < MOST_TRACES {
                there.push(none);
                return there.len() - 1;
            }
            let oldest = (0..MOST_TRACES).min_by_key(|&index| there[index].1).unwrap_or_default();
            there[oldest] = none;
            oldest
        });
        &mut there[index]
    }

    /// The traces of a location.
    pub fn at(&self, location: Location) -> impl Iterator<Item = ComputationTrace> {
        self.0[location as usize].iter().map(|(trace, _)| *trace)
    }
}
