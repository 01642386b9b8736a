//! What packets want (spec N-20): found out where they come in, by code points where those are trusted, and counted where they
//! leave.

use packet::Packet;
use plan::{CodePoints, Objective};

/// What packets that come in by an interface want, by their code points.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wants {
    /// The place of an objective for each code point.
    table: [u8; 64],
    trusts: bool,
    rest: Objective,
    /// A bit for each code point that asks for something.
    asking: u64,
    speaks: bool,
}

/// Why a packet wants what it wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Because {
    /// Its code point says so, which is trusted.
    CodePoint,
    /// Its code point asks for nothing, and its interface says so.
    Silent,
    /// Code points are not trusted where it came in, and its interface says so.
    Distrusted,
    /// Its path says so.
    Path,
}

impl Wants {
    /// Nobody wants anything.
    pub const NOTHING: Wants = Wants { table: [0; 64], trusts: false, rest: Objective::None, asking: 0, speaks: false };

    /// What `code_points` ask for where they are trusted, and `rest` for everything else.
    pub fn of(trusts: bool, rest: Objective, code_points: &CodePoints) -> Wants {
        let asked = |dscp: usize| code_points.get(dscp as u8).filter(|_| trusts);
        Wants {
            table: std::array::from_fn(|dscp| asked(dscp).unwrap_or(rest).index() as u8),
            asking: (0..64).filter(|dscp| asked(*dscp).is_some()).map(|dscp| 1 << dscp).sum(),
            trusts,
            rest,
            speaks: trusts || rest != Objective::None || !code_points.is_empty(),
        }
    }

    /// The place of the objective of a packet with this type of service, or traffic class.
    #[inline(always)]
    pub fn get(&self, tos: u8) -> u8 {
        self.table[usize::from(tos >> 2)]
    }

    /// The objective of a packet with this code point, and why.
    pub fn why(&self, dscp: u8) -> (Objective, Because) {
        match (self.trusts, self.asking >> (dscp & 63) & 1 == 1) {
            (true, true) => (Objective::at(self.get(dscp << 2).into()), Because::CodePoint),
            (true, false) => (self.rest, Because::Silent),
            (false, _) => (self.rest, Because::Distrusted),
        }
    }

    /// Whether the configuration says anything of objectives that would matter here.
    pub fn speaks(&self) -> bool {
        self.speaks
    }
}

/// Packets and bytes by objective.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// Packets, by [`Objective::index`].
    pub packets: [u64; Objective::COUNT],
    /// Their bytes on the wire.
    pub bytes: [u64; Objective::COUNT],
}

impl Demand {
    /// Adds packets; `length` knows their bytes on the wire.
    #[inline]
    pub(crate) fn add(&mut self, packets: &[Packet], length: impl Fn(&Packet) -> u64) {
        packets.iter().for_each(|packet| self.count(packet.meta().objective, length(packet)));
    }

    /// Adds a packet of the objective at this place; of none where there is no such place.
    #[inline(always)]
    pub(crate) fn count(&mut self, objective: u8, bytes: u64) {
        let place = if usize::from(objective) < Objective::COUNT { usize::from(objective) } else { 0 };
        self.packets[place] += 1;
        self.bytes[place] += bytes;
    }

    /// What came since `before`; nothing where less is counted than then, for somebody has begun to count anew.
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

    fn code_points() -> CodePoints {
        let text = "version = 1\n[objectives]\ndelay = ['ef', '0']\n[port.a]\ndevice = 'memory:a'\ntrust = true\n";
        plan::check(text, "t", &crate::catalogue()).unwrap().objectives
    }

    #[test]
    fn code_points_count_where_they_are_trusted() {
        let trusted = Wants::of(true, Objective::Fct, &code_points());
        assert_eq!(trusted.why(46), (Objective::Delay, Because::CodePoint));
        assert_eq!(trusted.why(0), (Objective::Delay, Because::CodePoint));
        assert_eq!(trusted.why(8), (Objective::Fct, Because::Silent));
        let not = Wants::of(false, Objective::Fct, &code_points());
        for dscp in 0..64 {
            assert_eq!(not.why(dscp), (Objective::Fct, Because::Distrusted));
            for ecn in 0..4 {
                assert_eq!(usize::from(not.get(dscp << 2 | ecn)), Objective::Fct.index());
                assert_eq!(usize::from(trusted.get(dscp << 2 | ecn)), trusted.why(dscp).0.index());
            }
        }
        assert!(not.speaks() && Wants::of(false, Objective::None, &code_points()).speaks());
        assert_eq!(Wants::of(false, Objective::None, &CodePoints::default()), Wants::NOTHING);
    }

    #[test]
    fn who_counts_anew_has_counted_nothing() {
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
