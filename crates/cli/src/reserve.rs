//! `switchpath reserve`: flows that are reserved while the router runs.

use crate::arguments::{ReserveArguments, ReserveSubcommand};
use crate::configuration::with_diagnostics;
use crate::output::{Rows, brief, print_json, processor, rate, short};
use crate::routes::{COMMAND_LINE, read_lines};
use crate::show;
use anyhow::Result;
use control::api::{FlowAdded, FlowsEdited};
use plan::ShareName;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// `switchpath reserve`
pub fn reserve(arguments: &ReserveArguments) -> Result<ExitCode> {
    let line = |verb: &str, words: &[String]| format!("{verb} {}\n", line(words));
    match &arguments.command {
        ReserveSubcommand::List { limit } => show::flows(&arguments.socket.client(), *limit, arguments.json),
        ReserveSubcommand::Add(flow) => edit(arguments, (COMMAND_LINE, &line("add", &flow.flow)), false),
        ReserveSubcommand::Whatif(flow) => edit(arguments, (COMMAND_LINE, &line("add", &flow.flow)), true),
        ReserveSubcommand::Renew(flow) => edit(arguments, (COMMAND_LINE, &line("renew", &flow.flow)), false),
        ReserveSubcommand::Remove { names } => {
            let lines: String = names.iter().map(|name| line("remove", std::slice::from_ref(name))).collect();
            edit(arguments, (COMMAND_LINE, &lines), false)
        }
        ReserveSubcommand::Batch { file, whatif } => {
            let (source, text) = read_lines(file)?;
            edit(arguments, (&source, &text), *whatif)
        }
    }
}

/// Words as a line. The shell has removed the quotes of the name and of the share above the flow's.
fn line(words: &[String]) -> String {
    let is_name = |at: usize| at == 0 || words[at - 1] == "in";
    // No word of a match is a name of a share.
    let end = words.iter().position(|word| word == "match").unwrap_or(words.len());
    let quoted = |(at, word): (usize, &String)| match ShareName::new(word) {
        Ok(name) if at < end && is_name(at) => name.to_string(),
        _ => word.clone(),
    };
    words.iter().enumerate().map(quoted).collect::<Vec<_>>().join(" ")
}

fn edit(arguments: &ReserveArguments, (source, text): (&str, &str), trial: bool) -> Result<ExitCode> {
    let parameters = [("name", source.to_owned()), ("trial", trial.to_string())];
    let client = arguments.socket.client();
    let edited: FlowsEdited = with_diagnostics(client.post_with("/v1/reservations/batch", &parameters, text))?;
    let fits = edited.refused.is_none();
    let mut out = stdout();
    if arguments.json {
        print_json(&mut out, &edited)?;
    } else {
        print(&edited, &mut out)?;
    }
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(edited: &FlowsEdited, out: &mut dyn Write) -> Result<()> {
    if let Some(refused) = &edited.refused {
        let resource = refused.resource.as_ref().map_or_else(String::new, |resource| format!("{resource}: "));
        writeln!(out, "does not fit: {resource}{}", refused.reason)?;
        writeln!(out, "hint: {}", refused.hint)?;
        return Ok(());
    }
    match &edited.added[..] {
        [] => {}
        [one] => one_promise(one, edited.trial, out)?,
        many => table(many, out)?,
    }
    for short in &edited.overbooked {
        let resource = short.resource.as_deref().unwrap_or_default();
        writeln!(out, "warning: line {} is overbooked: {resource}: {}; {}", short.line, short.reason, short.hint)?;
    }
    if edited.trial {
        return Ok(());
    }
    let parts = [(edited.added.len() as u64, "reserved"), (edited.renewed, "renewed"), (edited.removed, "ended")];
    let parts: Vec<String> =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    let state = if edited.carried_out { "" } else { "; not carried out yet: a worker is busy" };
    let total = match edited.total {
        1 => "1 flow has a reservation".to_string(),
        total => format!("{total} flows have reservations"),
    };
    writeln!(out, "{}; {total}{state}", parts.join(", "))?;
    Ok(())
}

/// The promise to one flow, in sentences.
fn one_promise(one: &FlowAdded, trial: bool, out: &mut dyn Write) -> Result<()> {
    let FlowAdded { name, promise: p } = one;
    let verb = if trial { "fits" } else { "is reserved" };
    writeln!(
        out,
        "{name} {verb}: {} of packets of {} on path {} to {}",
        rate(p.rate_bps as f64),
        size(p.packet_bytes),
        p.path,
        p.port
    )?;
    let asked = p.delay_ns.map_or_else(String::new, |delay| format!(" of the {} asked for", brief(delay)));
    writeln!(out, "  delay bound     {}{asked}", brief(p.bound_ns))?;
    writeln!(
        out,
        "  share of link   {} guaranteed, burst {}, queue {}",
        rate(p.share_bps as f64),
        size(p.burst_bytes),
        size(p.queue_bytes)
    )?;
    writeln!(out, "  processor       {}", processor(p.cpu_ppm))?;
    Ok(())
}

/// A number of bytes.
fn size(bytes: u64) -> String {
    format!("{}b", short(bytes as f64))
}

/// The most rows for a batch.
const ROWS: usize = 20;

fn table(added: &[FlowAdded], out: &mut dyn Write) -> Result<()> {
    let mut rows = Rows::new(&["flow", "path", "out", ">rate", ">delay", ">bound", ">share", ">cpu"]);
    for FlowAdded { name, promise: p } in added.iter().take(ROWS) {
        let delay = p.delay_ns.map_or_else(|| "-".to_string(), brief);
        let share = rate(p.share_bps as f64);
        rows.line(vec![
            name.clone(),
            p.path.clone(),
            p.port.clone(),
            rate(p.rate_bps as f64),
            delay,
            brief(p.bound_ns),
            share,
            processor(p.cpu_ppm),
        ]);
    }
    rows.print(out)?;
    if added.len() > ROWS {
        writeln!(out, "and {} more", added.len() - ROWS)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_command_line_get_their_quotes_back() {
        let words = |text: &[&str]| text.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let given = words(&[
            "Doe, Jane",
            "in",
            "north tower",
            "rate",
            "1mbit",
            "match",
            "ip",
            "daddr",
            "{ 10.0.0.1, 10.0.0.2 }",
        ]);
        let expected = "\"Doe, Jane\" in \"north tower\" rate 1mbit match ip daddr { 10.0.0.1, 10.0.0.2 }";
        assert_eq!(line(&given), expected);
    }
}
