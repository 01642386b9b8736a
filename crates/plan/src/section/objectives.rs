//! What applications want of the network, which code points say so, and which scheme serves it (spec N-20, N-23).
//!
//! No scheme is best for all of them (Sivaraman, Winstein, Subramanian, Balakrishnan, HotNets 2013), so a port may have a
//! policy: a table from objectives to schemes, and rules for when it changes from one to another.

use crate::{Call, Name, dscp_name};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use units::{Nanos, Parts};

/// What an application wants most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Objective {
    /// Nothing in particular.
    #[default]
    None,
    /// As many bits a second as there are.
    Throughput,
    /// As little time on the way as there can be.
    Delay,
    /// Throughput over delay: interactive use that also sends much.
    Power,
    /// Flows that end soon, on average.
    Fct,
    /// Flows that end soon, the slowest of them.
    Tail,
}

crate::cpu::named! {
    Objective { None "none", Throughput "throughput", Delay "delay", Power "power", Fct "fct", Tail "tail" }
}

impl Objective {
    /// How many there are, none included.
    pub const COUNT: usize = Self::ALL.len();

    /// Its place in [`Objective::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The objective of a place; none for one that there is not.
    pub fn at(index: usize) -> Objective {
        Self::ALL.get(index).copied().unwrap_or_default()
    }
}

/// What each of the 64 code points of differentiated services (RFC 2474) asks for, where it asks for anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodePoints(pub(crate) [Option<Objective>; 64]);

impl Default for CodePoints {
    fn default() -> Self {
        CodePoints([None; 64])
    }
}

impl CodePoints {
    /// What a code point asks for; nothing for one above 63.
    pub fn get(&self, dscp: u8) -> Option<Objective> {
        self.0.get(usize::from(dscp)).copied().flatten()
    }

    /// Whether none asks for anything.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Those that ask for an objective, by name.
    pub fn of(&self, objective: Objective) -> Vec<String> {
        (0..64).filter(|dscp| self.get(*dscp) == Some(objective)).map(dscp_name).collect()
    }
}

impl Serialize for CodePoints {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = Objective::ALL.iter().map(|objective| (objective, self.of(*objective)));
        serializer.collect_map(all.filter(|(_, code_points)| !code_points.is_empty()))
    }
}

/// Which scheme serves what is wanted at a port, and when it changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PolicyPlan {
    /// Its name.
    pub name: Name,
    /// How long packets are counted before they are looked at.
    #[serde(serialize_with = "crate::model::nanoseconds")]
    pub window: Nanos,
    /// How long a port keeps a scheme at least.
    #[serde(serialize_with = "crate::model::nanoseconds")]
    pub dwell: Nanos,
    /// The part of a window's bytes that brings an objective into force; more than a half.
    #[serde(serialize_with = "crate::cpu::as_text")]
    pub share: Parts,
    /// A window with fewer packets says nothing.
    pub packets: u64,
    /// What serves each objective; the port's own scheme where there is none.
    pub schemes: BTreeMap<Objective, Call>,
}

impl fmt::Display for PolicyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyPlan { window, dwell, share, packets, schemes, .. } = self;
        write!(f, "window {window} dwell {dwell} share {share} packets {packets}")?;
        schemes.iter().try_for_each(|(objective, scheme)| write!(f, " {objective} {scheme}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_at_its_index() {
        for objective in Objective::ALL {
            assert_eq!(Objective::at(objective.index()), *objective);
        }
        assert_eq!(Objective::at(Objective::COUNT), Objective::None);
    }
}
