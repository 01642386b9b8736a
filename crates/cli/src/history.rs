//! `confirm`, `rollback` and `history`: configurations on trial, and earlier configurations.

use crate::arguments::{ConfirmArguments, HistoryArguments, HistoryCommand, RollbackArguments};
use crate::configuration::{apply_parameters, show_applied, with_diagnostics};
use crate::output::{Rows, date_and_time, print_json};
use anyhow::Result;
use control::api;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// `switchpath confirm`
pub fn confirm(arguments: &ConfirmArguments) -> Result<ExitCode> {
    let confirmed: api::Confirmed = with_diagnostics(arguments.socket.client().post_with("/v1/confirm", &[], ""))?;
    match arguments.json {
        true => print_json(&mut stdout(), &confirmed)?,
        false => writeln!(stdout(), "generation {} stays", confirmed.generation)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `switchpath rollback`
pub fn rollback(arguments: &RollbackArguments) -> Result<ExitCode> {
    let back = match arguments.to {
        Some(generation) => ("to", generation.to_string()),
        None => ("steps", arguments.steps.to_string()),
    };
    let mut parameters = vec![back];
    let client = arguments.socket.client();
    parameters.extend(apply_parameters(&arguments.trial, &client));
    let applied: api::Applied = with_diagnostics(client.post_with("/v1/rollback", &parameters, ""))?;
    show_applied(&applied, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

/// `switchpath history`
pub fn history(arguments: &HistoryArguments) -> Result<ExitCode> {
    let client = arguments.socket.client();
    let mut out = stdout();
    if let Some(HistoryCommand::Show { generation }) = arguments.of {
        let config: api::Config = client.get(&format!("/v1/config?generation={generation}"))?;
        match arguments.json {
            true => print_json(&mut out, &config)?,
            false => write!(out, "{}", config.text)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let history: api::History = client.get("/v1/history")?;
    if arguments.json {
        print_json(&mut out, &history)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Rows::new(&[">generation", "time (UTC)", "who", "file", "state", "changes"]);
    for entry in &history.entries {
        rows.add([
            entry.generation.to_string(),
            date_and_time(entry.time_ns),
            entry.who.to_string(),
            entry.name.clone(),
            entry.state.name().into(),
            summary(entry),
        ]);
    }
    rows.print(&mut out)?;
    match &history.directory {
        Some(directory) => writeln!(out, "kept in {directory}")?,
        None => writeln!(out, "the history ends with the router; `switchpath run --state-dir DIR` keeps it")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Summarizes the changes of an entry in a line.
fn summary(entry: &api::HistoryEntry) -> String {
    if let Some(restored) = entry.restores {
        return format!("back to generation {restored}");
    }
    match (&entry.changes[..], entry.changes_total) {
        ([], _) => "-".into(),
        ([one], 1) => one.clone(),
        ([first, ..], n) => format!("{first}, and {} more", n - 1),
    }
}
