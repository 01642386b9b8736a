//! A port's receive ring, and how long its input task may sleep.

use units::{Nanos, PacketRate};

/// The assumed line rate if it is unknown: 64-byte frames on gigabit Ethernet.
const UNKNOWN_LINE: PacketRate = PacketRate::pps(1_488_095);

/// A port's receive ring and line rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Its size in packets.
    pub slots: u32,
    /// The most packets that one run receives.
    pub batch: u32,
    /// The line rate; `None` if it is unknown.
    pub line_rate: Option<PacketRate>,
}

impl Ring {
    /// The longest sleep without loss if the line begins to send at full rate: the ring size minus a batch, at that rate. At least a quarter of the
    /// ring.
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
    fn longest_sleep_is_ring_size_at_line_rate() {
        assert_eq!(RING.longest_sleep(), Nanos::new(342_857));
        let crowded = Ring { batch: 256, ..RING };
        assert_eq!(crowded.longest_sleep(), PacketRate::kpps(140).time_for(16));
        let unknown = Ring { line_rate: None, slots: 2048, batch: 256 };
        assert_eq!(unknown.longest_sleep(), UNKNOWN_LINE.time_for(1792));
        let stopped = Ring { line_rate: Some(PacketRate::ZERO), ..unknown };
        assert_eq!(stopped.longest_sleep(), unknown.longest_sleep());
    }
}
