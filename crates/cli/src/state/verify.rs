//! Tests instructions against test vectors.

use crate::output::{Rows, print_json};
use anyhow::{Context, Result};
use esp::conformance::{VECTORS, VectorResult, check};
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

const CONDITIONS: [&str; 5] = ["absent", "present", "expired", "full", "present in full"];

/// The result of the test.
#[derive(Serialize)]
struct ConformReport {
    vectors: usize,
    differ: Vec<VectorDifference>,
}

#[derive(Serialize)]
struct VectorDifference {
    instruction: String,
    condition: String,
    how: String,
}

/// `switchpath state conform`
pub fn conform(file: Option<&Path>, json: bool) -> Result<ExitCode> {
    let text = match file {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("'{}' cannot be read", file.display()))?,
        None => VECTORS.to_owned(),
    };
    let verdicts = check(&text).context("the file has no test vectors")?;
    let differ = || verdicts.iter().filter(|verdict| verdict.difference.is_some());
    let mut out = stdout().lock();
    if json {
        let of = |verdict: &VectorResult| VectorDifference {
            instruction: verdict.instruction.clone(),
            condition: verdict.condition.clone(),
            how: verdict.difference.clone().unwrap_or_default(),
        };
        print_json(&mut out, &ConformReport { vectors: verdicts.len(), differ: differ().map(of).collect() })?;
    } else {
        let mut rows = Rows::new(&["instruction", "absent", "present", "expired", "full", "present in full"]);
        let mut names: Vec<&str> = Vec::new();
        for verdict in &verdicts {
            if !names.contains(&verdict.instruction.as_str()) {
                names.push(&verdict.instruction);
            }
        }
        for name in names {
            let mut line = vec![name.to_owned()];
            line.extend(CONDITIONS.map(|condition| {
                let of = |verdict: &&VectorResult| verdict.instruction == name && verdict.condition == condition;
                verdicts
                    .iter()
                    .find(of)
                    .map_or("-", |v| if v.difference.is_none() { "holds" } else { "differs" })
                    .to_owned()
            }));
            rows.line(line);
        }
        rows.print(&mut out)?;
        for verdict in differ() {
            let how = verdict.difference.as_deref().unwrap_or_default();
            writeln!(out, "{}, {}: {how}", verdict.instruction, verdict.condition)?;
        }
        writeln!(out, "{} of {} vectors hold", verdicts.len() - differ().count(), verdicts.len())?;
    }
    let all = differ().next().is_none();
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
