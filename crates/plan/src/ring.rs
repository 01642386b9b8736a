//! A port's receive ring: how long its task may sleep.

use units::{Nanos, PacketRate};

/// The line rate where none is known: 64-byte frames on gigabit Ethernet.
const UNKNOWN_LINE: PacketRate = PacketRate::pps(1_488_095);

/// What a port's receive ring and line are like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Packets it holds.
    pub slots: u32,
    /// Packets that one run takes at most.
    pub batch: u32,
    /// Packets that the line brings at most; none where it is not known.
    pub line_rate: Option<PacketRate>,
}

impl Ring {
    /// The longest sleep that loses nothing when the line begins to send at its full rate: the ring less a batch, at that
    /// rate. A quarter of the ring where a batch leaves less.
    pub fn longest_sleep(self) -> Nanos {
        let room = self.slots.saturating_sub(self.batch).max(self.slots / 4);
        self.line_rate.filter(|rate| *rate != PacketRate::ZERO).unwrap_or(UNKNOWN_LINE).time_for(u64::from(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Ring = Ring { slots: 64, batch: 16, line_rate: Some(PacketRate::kpps(140)) };

    #[test]
    fn the_longest_sleep_is_what_the_ring_holds_at_line_rate() {
        assert_eq!(RING.longest_sleep(), Nanos::new(342_857));
        let crowded = Ring { batch: 256, ..RING };
        assert_eq!(crowded.longest_sleep(), PacketRate::kpps(140).time_for(16));
        let unknown = Ring { line_rate: None, slots: 2048, batch: 256 };
        assert_eq!(unknown.longest_sleep(), UNKNOWN_LINE.time_for(1792));
        let stopped = Ring { line_rate: Some(PacketRate::ZERO), ..unknown };
        assert_eq!(stopped.longest_sleep(), unknown.longest_sleep());
    }
}
