//! The demand of the packets of a link by objective, counted when they are offered to the link (spec N-20).

use packet::Packet;
use plan::Objective;

/// Packets and bytes by objective.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// Packets, by [`Objective::index`].
    pub packets: [u64; Objective::COUNT],
    /// Their wire bytes.
    pub bytes: [u64; Objective::COUNT],
}

impl Demand {
    /// Adds packets; `length` returns the wire bytes of one.
    #[inline]
    pub fn add(&mut self, packets: &[Packet], length: impl Fn(&Packet) -> u64) {
        packets.iter().for_each(|packet| self.count(packet.meta().objective, length(packet)));
    }

    /// Adds a packet of the objective with this index. An unknown index counts as no objective.
    #[inline(always)]
    pub fn count(&mut self, objective: u8, bytes: u64) {
        // The index comes from the metadata, where any byte is possible. Index 0 is `Objective::None`.
        let place = if usize::from(objective) < Objective::COUNT { usize::from(objective) } else { 0 };
        self.packets[place] += 1;
        self.bytes[place] += bytes;
    }

    /// The difference to `before`; zero if a counter is less than before, because counting has restarted.
    pub fn since(&self, before: &Demand) -> Demand {
        let all = |demand: &Demand| demand.packets.into_iter().chain(demand.bytes).collect::<Vec<u64>>();
        if all(self).iter().zip(all(before)).any(|(now, before)| *now < before) {
            return Demand::default();
        }
        let packets = std::array::from_fn(|place| self.packets[place] - before.packets[place]);
        Demand { packets, bytes: std::array::from_fn(|place| self.bytes[place] - before.bytes[place]) }
    }
}

impl std::ops::AddAssign for Demand {
    fn add_assign(&mut self, other: Demand) {
        self.packets.iter_mut().zip(other.packets).for_each(|(sum, n)| *sum += n);
        self.bytes.iter_mut().zip(other.bytes).for_each(|(sum, n)| *sum += n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_since_is_zero_after_counters_restart() {
        let (mut before, mut now) = (Demand::default(), Demand::default());
        before.count(1, 100);
        now += before;
        now.count(1, 50);
        now.count(200, 7);
        let since = now.since(&before);
        assert_eq!((since.packets[1], since.bytes[1], since.packets[0], since.bytes[0]), (1, 50, 1, 7));
        assert_eq!(before.since(&now), Demand::default());
    }
}
