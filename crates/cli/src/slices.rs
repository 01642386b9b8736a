//! `switchpath slice`: fast paths of tenants.

use crate::arguments::{SliceArguments, SliceLine, SliceSubcommand};
use crate::output::print_json;
use crate::routes::{COMMAND_LINE, read_lines};
use crate::show::slices;
use crate::slice_router;
use anyhow::{Context, Result, bail};
use control::Client;
use control::api::{SliceDefinitions, SliceExceptionsReply, SliceMemoryReply, SlicesEdited};
use std::io::{Write, stdout};
use std::process::ExitCode;
use units::Nanos;

/// `switchpath slice`
pub fn slice(arguments: &SliceArguments) -> Result<ExitCode> {
    let (client, json) = (arguments.socket.client(), arguments.json);
    let edit =
        |verb: &str, line: &SliceLine| edit(arguments, COMMAND_LINE, &format!("{verb} {}\n", line.words.join(" ")));
    match &arguments.command {
        SliceSubcommand::List { name, watch } => slices::list(&client, name.as_deref(), json, watch.map(Nanos::secs)),
        SliceSubcommand::Create(line) => edit("create", line),
        SliceSubcommand::Code(line) => edit("code", line),
        SliceSubcommand::Delete(line) => edit("delete", line),
        SliceSubcommand::Suspend(line) => edit("suspend", line),
        SliceSubcommand::Resume(line) => edit("resume", line),
        SliceSubcommand::Mi(line) => edit("mi", line),
        SliceSubcommand::Reserve(line) => edit("reserve", line),
        SliceSubcommand::Queue(line) => edit("queue", line),
        SliceSubcommand::Filter(line) => match &words(line)[..] {
            ["list", name] => slices::filters(&client, name, "0", json),
            ["list", name, from] => slices::filters(&client, name, from, json),
            ["list", ..] => bail!("write: filter list NAME [POSITION]"),
            _ => edit("filter", line),
        },
        SliceSubcommand::Mem(line) => match &words(line)[..] {
            ["read", name, rest @ ..] if rest.len() <= 2 => read_memory(&client, name, rest, json),
            ["read", ..] => bail!("write: mem read NAME [OFFSET] [LENGTH]"),
            _ => edit("mem", line),
        },
        SliceSubcommand::Export { name } => export(&client, name.as_deref(), json),
        SliceSubcommand::Stats { name, watch } => slices::stats(&client, name, json, watch.map(Nanos::secs)),
        SliceSubcommand::Exc { name, limit } => receive_exceptions(&client, name, *limit, json),
        SliceSubcommand::Router { name, routes } => slice_router::run(client, name, routes.as_deref(), json),
        SliceSubcommand::Batch { file } => {
            let (source, text) = read_lines(file)?;
            self::edit(arguments, &source, &text)
        }
    }
}

fn words(line: &SliceLine) -> Vec<&str> {
    line.words.iter().map(String::as_str).collect()
}

fn edit(arguments: &SliceArguments, source: &str, text: &str) -> Result<ExitCode> {
    let client = arguments.socket.client();
    let edited: Result<SlicesEdited, _> = client.post("/v1/slices/batch", source, text);
    let edited = edited.context("refused: lines before the wrong one have taken effect")?;
    let mut out = stdout();
    if arguments.json {
        print_json(&mut out, &edited)?;
        return Ok(ExitCode::SUCCESS);
    }
    let SlicesEdited { changes, entries } = edited;
    let made = if changes == 1 { "1 change".to_owned() } else { format!("{changes} changes") };
    match entries {
        0 => writeln!(out, "{made}")?,
        _ => writeln!(out, "{made}; the filters use {entries} entries of the table")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read_memory(client: &Client, name: &str, rest: &[&str], json: bool) -> Result<ExitCode> {
    /// Bytes of a line.
    const LINE: usize = 16;
    let mut parameters = vec![("slice", name.to_owned())];
    parameters.extend(["offset", "length"].into_iter().zip(rest).map(|(name, text)| (name, (*text).to_owned())));
    let memory: SliceMemoryReply = client.get_with("/v1/slices/memory", &parameters)?;
    let mut out = stdout();
    if json {
        print_json(&mut out, &memory)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (number, digits) in memory.bytes.as_bytes().chunks(LINE * 2).enumerate() {
        let pairs: Vec<_> = digits.chunks(2).map(String::from_utf8_lossy).collect();
        writeln!(out, "{:08x}  {}", memory.offset + (number * LINE) as u64, pairs.join(" "))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn export(client: &Client, name: Option<&str>, json: bool) -> Result<ExitCode> {
    let only: Vec<_> = name.map(|name| ("only", name.to_owned())).into_iter().collect();
    let definitions: SliceDefinitions = client.get_with("/v1/slices/definitions", &only)?;
    let mut out = stdout();
    if json {
        print_json(&mut out, &definitions)?;
    } else {
        definitions.lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn receive_exceptions(client: &Client, name: &str, limit: u64, json: bool) -> Result<ExitCode> {
    let parameters = [("slice", name.to_owned()), ("limit", limit.to_string())];
    let received: SliceExceptionsReply = client.post_with("/v1/slices/exceptions", &parameters, "")?;
    let mut out = stdout();
    if json {
        print_json(&mut out, &received)?;
        return Ok(ExitCode::SUCCESS);
    }
    for exception in &received.exceptions {
        let (code, interface, packet) = (&exception.code, exception.interface, &exception.packet);
        writeln!(out, "{code} mi {interface} {packet}")?;
    }
    Ok(ExitCode::SUCCESS)
}
