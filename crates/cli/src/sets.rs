//! `switchpath set`: named sets while the router runs.

use crate::arguments::{SetArguments, SetSubcommand};
use crate::configuration::with_diagnostics;
use crate::output::print_json;
use crate::routes::{COMMAND_LINE, read_lines};
use crate::show;
use anyhow::Result;
use control::Client;
use control::api::SetEdited;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

/// The size of a file from which on a terminal shows that work is in progress: a tenth of a second of it.
const SHOWN_FROM: usize = 1 << 20;

/// `switchpath set`
pub fn set(arguments: &SetArguments) -> Result<ExitCode> {
    let client = arguments.socket.client();
    let lines = |elements: &[String], behind: &str| -> String {
        elements.iter().map(|element| format!("{element}{behind}\n")).collect()
    };
    let edited = match &arguments.command {
        SetSubcommand::List { name: None, .. } => return show::sets(&client, arguments.json),
        SetSubcommand::List { name: Some(name), first, limit } => {
            return show::set_elements(&client, name, first.as_deref(), *limit, arguments.json);
        }
        SetSubcommand::Add { name, elements, expires } => {
            let behind = expires.as_ref().map_or_else(String::new, |time| format!(" expires {time}"));
            edit(&client, "add", name, COMMAND_LINE, &lines(elements, &behind))?
        }
        SetSubcommand::Remove { name, elements } => edit(&client, "remove", name, COMMAND_LINE, &lines(elements, ""))?,
        SetSubcommand::Replace { name, file } => {
            let (source, text) = read_lines(file)?;
            replace(&client, name, &source, &text)?
        }
        SetSubcommand::Flush { name } => edit(&client, "flush", name, COMMAND_LINE, "")?,
    };
    print_edited(&edited, arguments.json)
}

fn edit(client: &Client, verb: &str, set: &str, source: &str, text: &str) -> Result<SetEdited> {
    let mut parameters = vec![("set", set.to_owned())];
    if verb != "flush" {
        parameters.push(("name", source.to_owned()));
    }
    with_diagnostics(client.post_with(&format!("/v1/sets/{verb}"), &parameters, text))
}

/// Replaces all elements. A terminal shows the size of a large file meanwhile.
fn replace(client: &Client, set: &str, source: &str, text: &str) -> Result<SetEdited> {
    let shown = stderr().is_terminal() && text.len() >= SHOWN_FROM;
    if shown {
        write!(stderr(), "replacing the elements by {} lines ", text.lines().count())?;
    }
    let edited = edit(client, "replace", set, source, text);
    if shown {
        write!(stderr(), "\r\x1b[K")?;
    }
    edited
}

fn print_edited(edited: &SetEdited, json: bool) -> Result<ExitCode> {
    let mut out = stdout();
    if json {
        print_json(&mut out, edited)?;
        return Ok(ExitCode::SUCCESS);
    }
    let SetEdited { added, renewed, removed, unchanged, elements } = edited;
    let counts = [(added, "added"), (renewed, "renewed"), (removed, "removed"), (unchanged, "unchanged")];
    let parts: Vec<String> = counts.iter().filter(|(n, _)| **n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let what = if parts.is_empty() { "nothing to change".to_string() } else { parts.join(", ") };
    writeln!(out, "{what}; the set has {elements} element{}", if *elements == 1 { "" } else { "s" })?;
    Ok(ExitCode::SUCCESS)
}
