//! `[objectives]`: the objectives of applications, and the code points that select them (spec N-20, N-23).

use crate::diagnostic::{Report, more_than};
use crate::diff::{PropertyChange, edit, joined};
use crate::document::Section;
use crate::key::{Form, Key, Kind, key};
use crate::named::named;
use crate::text::quote;
use crate::{dscp_name, dscp_number};
use serde::{Serialize, Serializer};

pub(crate) const KEY: Key = key(
    "objectives",
    Kind::Table(KEYS),
    "",
    "{ delay = [\"ef\"] }",
    "The objectives that DiffServ code points select, for interfaces that trust them.",
);

const CODE_POINTS: Kind = Kind::Texts { form: Form::Pattern("^([A-Za-z]+[0-9]*|[0-9]+|0[xX][0-9A-Fa-f]+)$"), most: 64 };

const KEYS: &[Key] = &[
    key("throughput", CODE_POINTS, "[]", "[\"cs1\", \"af11\"]", "Code points for high throughput."),
    key("delay", CODE_POINTS, "[]", "[\"ef\", \"cs5\"]", "Code points for low delay."),
    key(
        "power",
        CODE_POINTS,
        "[]",
        "[\"af41\", \"af42\"]",
        "Code points for high throughput over delay, as for video calls.",
    ),
    key(
        "fct",
        CODE_POINTS,
        "[]",
        "[\"af21\", \"cs2\"]",
        "Code points for a short flow completion time on average, as for web pages.",
    ),
    key(
        "tail",
        CODE_POINTS,
        "[]",
        "[\"af31\", \"27\"]",
        "Code points for a short flow completion time of the slowest flows.",
    ),
];

/// The main objective of an application.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Objective {
    /// None in particular.
    #[default]
    None,
    /// High throughput.
    Throughput,
    /// Low delay.
    Delay,
    /// High throughput over delay: interactive use that also sends much.
    Power,
    /// Short flow completion times on average.
    Fct,
    /// Short flow completion times of the slowest flows.
    Tail,
}

named! {
    Objective { None "none", Throughput "throughput", Delay "delay", Power "power", Fct "fct", Tail "tail" }
}

impl Objective {
    /// The number of objectives, including none.
    pub const COUNT: usize = Self::ALL.len();

    /// All but [`Objective::None`]: each is a key of this table and of a policy.
    pub(crate) const SERVED: &'static [Objective] = Self::ALL.split_at(1).1;

    /// Its index in [`Objective::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The objective of an index; [`Objective::None`] if there is none.
    pub fn at(index: usize) -> Objective {
        Self::ALL.get(index).copied().unwrap_or_default()
    }
}

/// The objective, if any, of each of the 64 DiffServ code points (RFC 2474).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodePoints([Option<Objective>; 64]);

impl Default for CodePoints {
    fn default() -> Self {
        CodePoints([None; 64])
    }
}

impl CodePoints {
    /// The objective of a code point; `None` also for one above 63.
    pub fn get(&self, dscp: u8) -> Option<Objective> {
        self.0.get(usize::from(dscp)).copied().flatten()
    }

    /// True if no code point has an objective.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The code points of an objective, by name.
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

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>) -> CodePoints {
    let mut all = CodePoints::default();
    let section = root.node("objectives").and_then(|node| node.section(report, KEYS, "[objectives]"));
    let Some(section) = section else { return all };
    for objective in Objective::SERVED {
        section.texts(
            report,
            objective.name(),
            |most| more_than(most, "code points"),
            "\"ef\"",
            |report, text| {
                let Some(dscp) = dscp_number(text.value) else {
                    text.error(report, || {
                        let hint = "write a name like ef, af41 or cs6, or a number from 0 to 63";
                        (format!("{} is no code point", quote(text.value)), hint.to_string())
                    });
                    return None;
                };
                if let Some(before) = all.get(dscp) {
                    text.error(report, || {
                        let reason = format!("the code point {} has the objective {before} already", dscp_name(dscp));
                        (reason, "list each code point for one objective".to_string())
                    });
                }
                all.0[usize::from(dscp)] = Some(*objective);
                Some(())
            },
        );
    }
    all
}

pub(crate) fn diff(old: &CodePoints, new: &CodePoints) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    for objective in Objective::ALL {
        edit(&mut what, objective.name(), joined(&old.of(*objective)), joined(&new.of(*objective)));
    }
    what
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objective_is_at_its_index() {
        for objective in Objective::ALL {
            assert_eq!(Objective::at(objective.index()), *objective);
        }
        assert_eq!(Objective::at(Objective::COUNT), Objective::None);
    }
}
