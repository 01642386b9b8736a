//! `switchpath convert`: the configuration of a Linux router in the language of this one. [`dumps`] reads, the files of each kind of object convert,
//! and [`draft`] leaves out all that `check` would refuse.

mod draft;
mod dumps;
mod interfaces;
mod queues;
mod routes;
mod translation;

use crate::arguments::ConvertArguments;
use crate::output::print_json;
use anyhow::{Context, Result, anyhow};
use draft::{ConvertProblem, Draft, DumpPlace};
use dumps::Dumps;
use interfaces::Interfaces;
use plan::Catalogue;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

const HEADER: &str = "\
# Converted from Linux by `switchpath convert`. Check the parts that it has reported as left out.
version = 1
";

/// A converted configuration.
#[derive(Debug, Serialize)]
struct ConvertReply {
    /// The configuration.
    text: String,
    /// The parts that were left out.
    left_out: Vec<ConvertProblem>,
    /// Converted parts whose meaning here may surprise.
    warnings: Vec<ConvertProblem>,
}

/// Converts the dumps.
pub fn convert(arguments: &ConvertArguments) -> Result<ExitCode> {
    let dumps = Dumps::read(arguments)?;
    let reply = converted(&dumps, &plane::catalogue());
    if plan::examine(&reply.text, "converted", &plane::catalogue()).plan.is_none() {
        return Err(anyhow!(
            "nothing of the dumps could be converted: {}",
            reply.left_out.first().map_or("they have no Ethernet interface", |one| &one.reason)
        ));
    }
    if let Some(file) = &arguments.output {
        fs::write(file, &reply.text).with_context(|| format!("'{}' cannot be written", file.display()))?;
    }
    if arguments.json {
        print_json(&mut stdout(), &reply)?;
    } else {
        if arguments.output.is_none() {
            stdout().write_all(reply.text.as_bytes())?;
        }
        let kinds = [("warning", &reply.warnings), ("left out", &reply.left_out)];
        for (kind, problem) in
            kinds.into_iter().flat_map(|(kind, list)| list.iter().map(move |problem| (kind, problem)))
        {
            writeln!(stderr(), "{kind}: {problem}")?;
        }
    }
    Ok(if reply.left_out.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Converts dumps to a valid configuration.
fn converted(dumps: &Dumps, catalogue: &Catalogue) -> ConvertReply {
    let (mut draft, mut interfaces) = (Draft::default(), Interfaces::default());
    for (command, reason) in &dumps.missing {
        draft.leave_out(DumpPlace::new(&format!("`{command}`"), "the command"), reason);
    }
    let used: BTreeSet<String> =
        routes::used_interfaces(&dumps.routes).chain(queues::used_interfaces(&dumps.qdiscs)).collect();
    queues::convert(&dumps.qdiscs, &dumps.classes, &mut draft, &mut interfaces);
    interfaces::convert(&dumps.interfaces, &used, &mut draft, &mut interfaces);
    for (place, _) in std::mem::take(&mut interfaces.schemes).into_values().flatten() {
        draft.leave_out(place, "its interface is no port");
    }
    routes::convert(&dumps.routes, &interfaces, &mut draft);
    routes::report_rules(&dumps.rules, &mut draft);
    translation::convert(&dumps.rulesets, &interfaces, &mut draft);
    let text = draft.finish(HEADER, catalogue);
    let checked = plan::examine(&text, "converted", catalogue);
    for warning in checked.diagnostics.warnings() {
        let place = DumpPlace::new("check", format!("line {}", warning.line));
        draft.warn(place, format!("{}; {}", warning.reason, warning.hint));
    }
    ConvertReply { text, left_out: draft.left_out, warnings: draft.warnings }
}

#[cfg(test)]
mod tests;
