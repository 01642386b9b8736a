//! `switchpath rule`: the rules of paths and packet filters while the router runs.

use crate::arguments::{RuleArguments, RuleSubcommand};
use crate::configuration::with_diagnostics;
use crate::output::print_json;
use crate::routes::{COMMAND_LINE, read_lines};
use crate::show;
use anyhow::Result;
use control::Client;
use control::api::RulesEdited;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// `switchpath rule`
pub fn rule(arguments: &RuleArguments) -> Result<ExitCode> {
    let client = arguments.socket.client();
    let (list, source, text) = match &arguments.command {
        RuleSubcommand::List(selection) => return show::rules(&client, selection, arguments.json),
        RuleSubcommand::Add { list, before, after, rule } => {
            let place = match (before, after) {
                (Some(id), _) => format!("before {id} "),
                (None, Some(id)) => format!("after {id} "),
                (None, None) => String::new(),
            };
            (list, COMMAND_LINE.to_string(), format!("add {place}{}\n", rule.join(" ")))
        }
        RuleSubcommand::Remove { list, ids } => {
            (list, COMMAND_LINE.to_string(), ids.iter().map(|id| format!("remove {id}\n")).collect())
        }
        RuleSubcommand::Replace { list, id, rule } => {
            (list, COMMAND_LINE.to_string(), format!("replace {id} {}\n", rule.join(" ")))
        }
        RuleSubcommand::Batch { list, file } => {
            let (source, text) = read_lines(file)?;
            (list, source, text)
        }
    };
    let edited = edit(&client, list, &source, &text)?;
    print_edited(&edited, arguments.json)
}

fn edit(client: &Client, list: &str, source: &str, text: &str) -> Result<RulesEdited> {
    let parameters = [("list", list.to_owned()), ("name", source.to_owned())];
    with_diagnostics(client.post_with("/v1/rules/batch", &parameters, text))
}

fn print_edited(edited: &RulesEdited, json: bool) -> Result<ExitCode> {
    let mut out = stdout();
    if json {
        print_json(&mut out, edited)?;
        return Ok(ExitCode::SUCCESS);
    }
    let RulesEdited { added, removed, total } = edited;
    let mut parts = Vec::new();
    match added[..] {
        [] => {}
        [id] => parts.push(format!("rule {id} added")),
        _ => parts.push(format!("{} rules added", added.len())),
    }
    if *removed > 0 {
        parts.push(format!("{removed} removed"));
    }
    let what = if parts.is_empty() { "nothing to change".to_string() } else { parts.join(", ") };
    writeln!(out, "{what}; the list has {total} rule{}", if *total == 1 { "" } else { "s" })?;
    Ok(ExitCode::SUCCESS)
}
