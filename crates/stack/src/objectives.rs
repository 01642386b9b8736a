//! The objectives of packets (spec N-20): determined at the ingress interface, from code points if those are trusted, and counted at the egress link.

use plan::{CodePoints, Objective};

/// The objectives of packets received by an interface, by code point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectiveTable {
    /// The index of an objective for each code point.
    table: [u8; 64],
    trusts_code_points: bool,
    default: Objective,
    /// A bitmap of the code points that have an objective.
    has_objective: u64,
    matters: bool,
}

/// The source of a packet's objective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectiveSource {
    /// Its code point, which is trusted.
    CodePoint,
    /// Its interface, because its code point has no objective.
    Unmapped,
    /// Its interface, because code points are not trusted there.
    Untrusted,
    /// Its path.
    Path,
}

impl ObjectiveTable {
    /// No packet has an objective.
    pub const EMPTY: ObjectiveTable = ObjectiveTable {
        table: [0; 64],
        trusts_code_points: false,
        default: Objective::None,
        has_objective: 0,
        matters: false,
    };

    /// The objectives of `code_points` if they are trusted, and `rest` for all other packets.
    pub fn new(trusts: bool, rest: Objective, code_points: &CodePoints) -> ObjectiveTable {
        let asked = |dscp: usize| code_points.get(dscp as u8).filter(|_| trusts);
        ObjectiveTable {
            table: std::array::from_fn(|dscp| asked(dscp).unwrap_or(rest).index() as u8),
            has_objective: (0..64).filter(|dscp| asked(*dscp).is_some()).map(|dscp| 1 << dscp).sum(),
            trusts_code_points: trusts,
            default: rest,
            matters: trusts || rest != Objective::None || !code_points.is_empty(),
        }
    }

    /// The index of the objective of a packet with this type of service or traffic class.
    #[inline(always)]
    pub fn get(&self, tos: u8) -> u8 {
        self.table[usize::from(tos >> 2)]
    }

    /// The objective of a packet with this code point, and its source.
    pub fn objective_and_source(&self, dscp: u8) -> (Objective, ObjectiveSource) {
        match (self.trusts_code_points, self.has_objective >> (dscp & 63) & 1 == 1) {
            (true, true) => (Objective::at(self.get(dscp << 2).into()), ObjectiveSource::CodePoint),
            (true, false) => (self.default, ObjectiveSource::Unmapped),
            (false, _) => (self.default, ObjectiveSource::Untrusted),
        }
    }

    /// True if the configuration has objectives that matter here.
    pub fn matters(&self) -> bool {
        self.matters
    }
}
