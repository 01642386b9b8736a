//! The sets of a configuration as `check` lists them, with the elements of their files.

use anyhow::Result;
use plan::{Diagnostics, Plan, SetPlan};
use serde::Serialize;
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

/// A set and its elements.
#[derive(Serialize)]
pub struct SetCheck {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    elements: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// Reads the files of all sets. Returns the sets, and the errors in files.
pub fn of(plan: &Plan) -> (Vec<SetCheck>, Vec<Diagnostics>) {
    let mut errors = Vec::new();
    let mut one = |set: &SetPlan| {
        let mut values: HashSet<plan::SetValue> = set.elements.iter().map(|entry| entry.value).collect();
        match set.file.as_ref().map(|file| plan::load_set(Path::new(file), set.kind)) {
            Some(Ok(entries)) => values.extend(entries.iter().map(|entry| entry.value)),
            Some(Err(found)) => errors.push(found),
            None => {}
        }
        let (name, kind) = (set.name.to_string(), set.kind.name());
        SetCheck { name, kind, elements: values.len(), file: set.file.clone() }
    };
    let sets = plan.sets.iter().map(&mut one).collect();
    (sets, errors)
}

/// Prints a line for each set.
pub fn print(sets: &[SetCheck], out: &mut dyn Write) -> Result<()> {
    for SetCheck { name, kind, elements, file } in sets {
        let from = file.as_ref().map_or_else(String::new, |file| format!(", with those of {file}"));
        writeln!(out, "set {name}: {elements} of type {kind}{from}")?;
    }
    Ok(())
}
