//! `[port.NAME.state]`: ephemeral state at a port.

use crate::diagnostic::Report;
use crate::document::{Node, Path, Section};
use crate::key::{Form, Kind};
use crate::named::named;
use crate::table::{self, table};
use crate::text::{did_you_mean, quote};
use serde::Serialize;
use std::fmt;

/// Limit of entries of a store.
pub const MOST_ENTRIES: u64 = 1 << 28;

pub(crate) const ENTRIES: Kind = Kind::Integer { least: 1, most: MOST_ENTRIES };

table! {
    /// Ephemeral-state settings of a port.
    #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
    pub struct PortStatePlan, pub(super) PORT_STATE {
        /// The places at which it executes instructions.
        pub at: ExecutionPlaces = (
            Kind::Text(Form::Choice(ExecutionPlaces::NAMES)), "\"both\"", "\"output\"",
            "Where instructions are executed: at the packets' `input`, at their `output`, at `both`, or at `none`."
        );
        /// Entries of its store; `None`: as `[state]` says.
        pub capacity: Option<u64> = (
            ENTRIES, "", "2000000",
            "Entries of the port's store. The default is that of `[state]`."
        );
        /// The router's variables that packets may read there.
        pub variables: Vec<Variable> = (
            Kind::Texts { form: Form::Choice(Variable::NAMES), most: Variable::ALL.len() }, "[]", "[\"queue\", \"rate\"]",
            "The router's variables that instructions may read at the port: `queue` (queued packets), `drops`, \
             `rate` (bits a second), `node`, `time` (nanoseconds)."
        ) by variables;
    }
}

impl PortStatePlan {
    /// True if all settings have their defaults.
    pub fn is_default(&self) -> bool {
        *self == PortStatePlan::default()
    }
}

/// A variable of the router that instructions may read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Variable {
    /// Packets queued at the port.
    Queue,
    /// Packets that the port's link has dropped.
    Drops,
    /// The link rate in bits a second.
    Rate,
    /// The router's node id.
    Node,
    /// The router's time in nanoseconds since its start.
    Time,
}

/// The places at which a port executes instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExecutionPlaces {
    /// At the input and at the output.
    #[default]
    Both,
    /// Only at the input.
    Input,
    /// Only at the output.
    Output,
    /// Nowhere.
    None,
}

named! {
    Variable { Queue "queue", Drops "drops", Rate "rate", Node "node", Time "time" }
    ExecutionPlaces { Both "both", Input "input", Output "output", None "none" }
}

impl ExecutionPlaces {
    /// True if it executes at the input, and at the output.
    pub const fn input_and_output(self) -> (bool, bool) {
        (
            matches!(self, ExecutionPlaces::Both | ExecutionPlaces::Input),
            matches!(self, ExecutionPlaces::Both | ExecutionPlaces::Output),
        )
    }
}

impl fmt::Display for PortStatePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = self.fields();
        fields.retain(|(name, value)| *name == "at" || value != "none");
        f.write_str(&table::text(&fields))
    }
}

/// Reads the ephemeral-state settings of a port.
pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>) -> PortStatePlan {
    let table = section.node("state").and_then(|node| node.section(report, PORT_STATE, "state = { at = \"both\" }"));
    table.map_or_else(PortStatePlan::default, |section| PortStatePlan::read(report, &section))
}

fn variables(report: &mut Report<'_>, section: &Section<'_>) -> Vec<Variable> {
    several(report, section, "variables", Variable::ALL).unwrap_or_default()
}

/// The elements of `all` that a list names, sorted. `None` if it is missing or was reported.
pub(crate) fn several<T: Copy + Ord + std::fmt::Display>(
    report: &mut Report<'_>,
    section: &Section<'_>,
    name: &'static str,
    all: &[T],
) -> Option<Vec<T>> {
    section.node(name)?;
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let parent = Path::Key(&section.path, name);
    let mut found = Vec::new();
    for (index, span, value) in section.list(report, name) {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(text) = node.text() else {
            node.no_text(report, &format!("\"{}\"", names[0]));
            return None;
        };
        match names.iter().position(|name| name == text.value) {
            Some(at) => found.push(all[at]),
            None => {
                let hint = did_you_mean(text.value, names.iter().map(String::as_str));
                text.error(report, || (format!("{} is not a value of '{name}'", quote(text.value)), hint));
                return None;
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}
