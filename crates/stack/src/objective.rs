//! The objectives of packets (spec N-20): determined at the ingress interface, from code points if those are trusted, and counted at the egress link.

use plan::{CodePoints, Objective};

/// The objectives of packets received by an interface, by code point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wants {
    /// The index of an objective for each code point.
    table: [u8; 64],
    trusts: bool,
    rest: Objective,
    /// A bitmap of the code points that have an objective.
    asking: u64,
    speaks: bool,
}

/// The source of a packet's objective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Because {
    /// Its code point, which is trusted.
    CodePoint,
    /// Its interface, because its code point has no objective.
    Silent,
    /// Its interface, because code points are not trusted there.
    Distrusted,
    /// Its path.
    Path,
}

impl Wants {
    /// No packet has an objective.
    pub const NOTHING: Wants = Wants { table: [0; 64], trusts: false, rest: Objective::None, asking: 0, speaks: false };

    /// The objectives of `code_points` if they are trusted, and `rest` for all other packets.
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

    /// The index of the objective of a packet with this type of service or traffic class.
    #[inline(always)]
    pub fn get(&self, tos: u8) -> u8 {
        self.table[usize::from(tos >> 2)]
    }

    /// The objective of a packet with this code point, and its source.
    pub fn why(&self, dscp: u8) -> (Objective, Because) {
        match (self.trusts, self.asking >> (dscp & 63) & 1 == 1) {
            (true, true) => (Objective::at(self.get(dscp << 2).into()), Because::CodePoint),
            (true, false) => (self.rest, Because::Silent),
            (false, _) => (self.rest, Because::Distrusted),
        }
    }

    /// True if the configuration has objectives that matter here.
    pub fn speaks(&self) -> bool {
        self.speaks
    }
}
