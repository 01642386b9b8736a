//! `switchpath share` and `switchpath subscribers`: shares of ports while the router runs.

use crate::arguments::{ShareArguments, ShareLine, ShareSubcommand, SubscribersArguments, SubscribersSubcommand};
use crate::configuration::with_diagnostics;
use crate::output::print_json;
use crate::routes::{COMMAND_LINE, read_lines};
use crate::show;
use anyhow::Result;
use control::api::{SharesEdited, SubscribersReloaded};
use plan::ShareName;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

/// `switchpath share`
pub fn share(arguments: &ShareArguments) -> Result<ExitCode> {
    let client = arguments.socket.client();
    let (verb, change) = match &arguments.command {
        ShareSubcommand::List(selection) => return show::shares(&client, selection, arguments.json),
        ShareSubcommand::Add(change) => ("add", change),
        ShareSubcommand::Set(change) => ("set", change),
        ShareSubcommand::Move(change) => ("move", change),
        ShareSubcommand::Remove(change) => ("remove", change),
        ShareSubcommand::Batch { port, file } => {
            let (source, text) = read_lines(file)?;
            return edit(arguments, port, &source, &text);
        }
    };
    edit(arguments, &change.port, COMMAND_LINE, &line(verb, change))
}

/// The line of a batch. The shell has removed the quotes of names.
fn line(verb: &str, change: &ShareLine) -> String {
    let quoted = |word: &String| ShareName::new(word).map_or_else(|_| word.clone(), |name| name.to_string());
    let words: Vec<String> = change.share.iter().map(quoted).collect();
    format!("{verb} {}\n", words.join(" "))
}

fn edit(arguments: &ShareArguments, port: &str, source: &str, text: &str) -> Result<ExitCode> {
    let parameters = [("port", port.to_owned()), ("name", source.to_owned())];
    let client = arguments.socket.client();
    let edited: SharesEdited = with_diagnostics(client.post_with("/v1/shares/batch", &parameters, text))?;
    let mut out = stdout();
    if arguments.json {
        print_json(&mut out, &edited)?;
        return Ok(ExitCode::SUCCESS);
    }
    let count = |n: u64| format!("{n} share{}", if n == 1 { "" } else { "s" });
    let state = if edited.carried_out { "carried out" } else { "not carried out yet: the worker of the port is busy" };
    writeln!(out, "{} changed, {state}; the port has {}", count(edited.changed), count(edited.total))?;
    Ok(ExitCode::SUCCESS)
}

/// `switchpath subscribers`
pub fn subscribers(arguments: &SubscribersArguments) -> Result<ExitCode> {
    let client = arguments.socket.client();
    if let SubscribersSubcommand::List(selection) = &arguments.command {
        return show::subscribers(&client, selection, arguments.json);
    }
    let reloaded: SubscribersReloaded = with_diagnostics(client.post_with("/v1/subscribers/reload", &[], ""))?;
    let mut out = stdout();
    if arguments.json {
        print_json(&mut out, &reloaded)?;
        return Ok(ExitCode::SUCCESS);
    }
    reloaded.warnings.iter().try_for_each(|warning| writeln!(stderr(), "warning: {warning}"))?;
    let SubscribersReloaded { subscribers, added, changed, removed, .. } = reloaded;
    writeln!(out, "{added} added, {changed} changed, {removed} removed; {subscribers} subscribers")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_command_line_get_their_quotes_back() {
        let change = |words: &[&str]| ShareLine {
            port: "lan".into(),
            share: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        let words = ["Doe, Jane", "in", "north tower", "rate", "10mbit"];
        assert_eq!(line("add", &change(&words)), "add \"Doe, Jane\" in \"north tower\" rate 10mbit\n");
        assert_eq!(line("move", &change(&["\"a b\"", "in", "root"])), "move \"a b\" in root\n");
    }
}
