//! What packets want (spec N-20): found out where they come in, by code points where those are trusted, and counted where they
//! leave.

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
