//! `switchpath route` and `switchpath neighbour`: changes while the router runs.

use crate::arguments::{NeighbourArguments, NeighbourCommand, RouteArguments, RouteCommand};
use crate::configuration::with_diagnostics;
use crate::output::print_json;
use crate::show;
use anyhow::{Context, Result};
use control::Client;
use control::api::{Edited, Editing};
use io::wait::{Sleeper, Waker};
use std::io::{IsTerminal, Read, Write, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use units::Nanos;

/// The most bytes read of a batch. The router refuses a larger one with a reason.
const MOST: u64 = (64 << 20) + 1;
/// The interval at which the router is asked for its progress.
const PROGRESS_INTERVAL: Nanos = Nanos::millis(200);
/// The file name of a line from the command line, in messages.
pub(crate) const COMMAND_LINE: &str = "command line";

/// `switchpath route`
pub fn route(arguments: &RouteArguments) -> Result<ExitCode> {
    let client = arguments.socket.client();
    let one = |verb: &str, words: &[String]| edit(&client, COMMAND_LINE, &format!("{verb} {}\n", words.join(" ")));
    let edited = match &arguments.command {
        RouteCommand::Add { route } => one("add", route)?,
        RouteCommand::Del { route } => one("del", route)?,
        RouteCommand::Flush { vrf } => {
            let vrf = vrf.as_ref().map_or_else(String::new, |vrf| format!("vrf {vrf}"));
            one("flush", &[vrf])?
        }
        RouteCommand::Batch { file } => {
            let (name, text) = read_lines(file)?;
            edit_with_progress(&client, &name, &text)?
        }
        RouteCommand::List { limit } => {
            return show::routes(&client, &format!("/v1/routes?origin=api&limit={limit}"), arguments.json);
        }
    };
    print_edited(&edited, arguments.json)
}

/// `switchpath neighbour`
pub fn neighbour(arguments: &NeighbourArguments) -> Result<ExitCode> {
    let line = match &arguments.command {
        NeighbourCommand::Add { address, mac, port } => format!("neighbour add {address} mac {mac} port {port}\n"),
        NeighbourCommand::Del { address, port } => format!("neighbour del {address} port {port}\n"),
    };
    print_edited(&edit(&arguments.socket.client(), COMMAND_LINE, &line)?, arguments.json)
}

fn edit(client: &Client, name: &str, text: &str) -> Result<Edited> {
    with_diagnostics(client.post("/v1/routes", name, text))
}

/// Sends a batch, and shows its progress on a terminal.
fn edit_with_progress(client: &Client, name: &str, text: &str) -> Result<Edited> {
    if !stderr().is_terminal() {
        return edit(client, name, text);
    }
    let waker = Waker::new()?;
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            let edited = edit(client, name, text);
            waker.wake();
            edited
        });
        let mut sleeper = Sleeper::new(waker.clone());
        let mut shown = false;
        while !work.is_finished() {
            sleeper.sleep([], PROGRESS_INTERVAL)?;
            // Progress is optional: if this request fails, nothing is shown. The batch itself reports errors.
            if let Ok(Editing { routes_done, routes_total }) = client.get("/v1/routes/batch")
                && routes_total > 0
            {
                write!(stderr(), "\r{routes_done} of {routes_total} routes ")?;
                shown = true;
            }
        }
        if shown {
            write!(stderr(), "\r\x1b[K")?;
        }
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Reads lines from a file, or from the standard input for `-`, with the name for messages.
pub(crate) fn read_lines(path: &Path) -> Result<(String, String)> {
    if path == Path::new("-") {
        let mut text = String::new();
        stdin().take(MOST).read_to_string(&mut text).context("the standard input cannot be read")?;
        return Ok(("standard input".into(), text));
    }
    let name = path.to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
    Ok((name, text))
}

fn print_edited(edited: &Edited, json: bool) -> Result<ExitCode> {
    let mut out = stdout();
    if json {
        print_json(&mut out, edited)?;
        return Ok(ExitCode::SUCCESS);
    }
    let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let Edited { routes_added, routes_removed, routes_shadowed, neighbours_added, neighbours_removed } = edited;
    for (n, what, done) in [
        (routes_added, "route", "set"),
        (routes_removed, "route", "taken away"),
        (neighbours_added, "neighbour", "set"),
        (neighbours_removed, "neighbour", "taken away"),
    ] {
        if *n > 0 {
            writeln!(out, "{} {done}", count(*n, what))?;
        }
    }
    if *routes_shadowed > 0 {
        writeln!(
            out,
            "without effect: {} of them; the configuration has routes to their destinations",
            routes_shadowed
        )?;
    }
    if routes_added + routes_removed + neighbours_added + neighbours_removed == 0 {
        writeln!(out, "nothing to change")?;
    }
    Ok(ExitCode::SUCCESS)
}
