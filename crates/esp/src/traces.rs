//! The fates of packets that ask for a trace (spec E-15), by computation.
//!
//! Only a few computations are kept. A new one replaces the one that has been silent for longest.

use crate::fate::{Fate, Location};
use crate::report::Trace;
use units::Instant;

/// The most computations traced at a place, per worker.
const MOST: usize = 32;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Traces([Vec<(Trace, Instant)>; Location::ALL.len()]);

impl Traces {
    /// Records the fate of a traced packet, with the opcode of its instruction.
    pub fn note(&mut self, location: Location, (computation, number): (u64, u8), fate: Fate, now: Instant) {
        // The fate as one byte of the digest.
        let ended = match fate {
            Fate::Passed => return,
            Fate::Forwarded => 1,
            Fate::Dropped => 2,
            Fate::Aborted(why) => 3 + why as u8,
        };
        let (trace, last) = self.of(location, computation);
        *last = now;
        match fate {
            Fate::Forwarded => trace.forwarded += 1,
            Fate::Dropped => trace.dropped += 1,
            _ => trace.aborted += 1,
        }
        // FNV-1a, 64 bits.
        for byte in [number, ended] {
            trace.digest = (trace.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn of(&mut self, location: Location, computation: u64) -> &mut (Trace, Instant) {
        let there = &mut self.0[location as usize];
        let known = there.iter().position(|(trace, _)| trace.computation == computation);
        let index = known.unwrap_or_else(|| {
            let none = (Trace { computation, digest: 0xcbf2_9ce4_8422_2325, ..Trace::default() }, Instant::START);
            if there.len() < MOST {
                there.push(none);
                return there.len() - 1;
            }
            let oldest = (0..MOST).min_by_key(|&index| there[index].1).unwrap_or_default();
            there[oldest] = none;
            oldest
        });
        &mut there[index]
    }

    /// The traces of a location.
    pub fn at(&self, location: Location) -> impl Iterator<Item = Trace> {
        self.0[location as usize].iter().map(|(trace, _)| *trace)
    }
}
