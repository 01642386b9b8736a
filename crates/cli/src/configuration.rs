//! `check`, `diff` and `apply`: configurations before they run and while they run.

use crate::arguments::{ApplyArguments, CheckArguments, DiffArguments, GuestDirectory, TrialArguments};
use crate::failure::ConfigurationErrors;
use crate::output::print_json;
use crate::reservations::{self, ReservationCheck};
use crate::set_files::{self, SetCheck};
use crate::share_files::{self, SharesCheck};
use crate::{guests, store_bounds};
use anyhow::{Context, Result};
use control::api::{Applied, ChangeReply, Changes, CheckReply, Config, DiagnosticReply};
use control::{Client, ClientError, Target};
use io::login::Login;
use plan::{Catalogue, Diagnostics, Plan};
use serde::Serialize;
use std::io::{Read, Write, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

pub use crate::output::show_diagnostics;

/// The most bytes read of a configuration. The check refuses a larger one with a reason.
const MOST: u64 = (64 << 20) + 1;

/// A configuration as read from a file.
pub struct Configuration {
    /// Its name in messages.
    pub name: String,
    /// Its text with the contents of the files that it names; empty if one could not be read.
    pub text: String,
    /// The result of its check.
    pub checked: plan::CheckResult,
}

/// Reads and checks a file, or the standard input for `-`.
pub fn read(path: &Path, catalogue: &Catalogue) -> Result<Configuration> {
    if path == Path::new("-") {
        let mut text = String::new();
        stdin().take(MOST).read_to_string(&mut text).context("the standard input cannot be read")?;
        let name = "standard input";
        return Ok(Configuration::of(name.into(), plan::with_files(text, name), catalogue));
    }
    Ok(Configuration::of(path.to_string_lossy().into_owned(), plan::read_file(path), catalogue))
}

impl Configuration {
    /// Checks a text. Errors about the file itself have the same form as errors in it.
    fn of(name: String, text: Result<String, Diagnostics>, catalogue: &Catalogue) -> Configuration {
        match text {
            Ok(text) => Configuration { checked: plan::examine(&text, &name, catalogue), name, text },
            Err(diagnostics) => {
                Configuration { name, text: String::new(), checked: plan::CheckResult { plan: None, diagnostics } }
            }
        }
    }
}

/// Returns the names that a configuration may use, including the guests of this directory.
pub fn catalogue_of(guests: &GuestDirectory) -> Result<Catalogue> {
    Ok(guests::catalogue(guests::directory(guests)?))
}

/// Reads a configuration, fails if it has errors, and shows its warnings.
pub fn read_valid(path: &Path, catalogue: &Catalogue) -> Result<(Configuration, Plan)> {
    require_valid(read(path, catalogue)?)
}

/// Reads a configuration that the router gets. If it names files of sets, shares or subscribers, its name is absolute: the router looks for these
/// files beside the configuration, and may have another working directory.
fn read_for_router(path: &Path, catalogue: &Catalogue) -> Result<Configuration> {
    let (mut read, plan) = read_valid(path, catalogue)?;
    let names_files = plan.sets.iter().any(|set| set.file.is_some())
        || plan.ports.iter().any(|port| port.shares.file.is_some())
        || plan.subscribers.is_some();
    if names_files && path != Path::new("-") {
        read.name = std::path::absolute(path)?.to_string_lossy().into_owned();
    }
    Ok(read)
}

/// Returns the plan of a configuration, fails if it has errors, and shows its warnings.
pub fn require_valid(mut read: Configuration) -> Result<(Configuration, Plan)> {
    let Some(plan) = read.checked.plan.take() else {
        return Err(ConfigurationErrors(vec![read.checked.diagnostics]).into());
    };
    show_diagnostics(&read.checked.diagnostics)?;
    Ok((read, plan))
}

/// `switchpath check`
pub fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let Configuration { name, checked, .. } = read(&arguments.file, &catalogue_of(&arguments.guests)?)?;
    let (sets, wrong_files) = checked.plan.as_ref().map(set_files::of).unwrap_or_default();
    let (shares, share_files) = checked.plan.as_ref().map(share_files::of).unwrap_or_default();
    let is_valid =
        checked.plan.is_some() && wrong_files.is_empty() && !share_files.iter().any(|(_, has_errors)| *has_errors);
    let code = if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let asked = |plan: &&Plan| arguments.shares || reservations::has_reservations(plan);
    let promises = checked.plan.as_ref().filter(asked).map(ReservationCheck::of);
    let stores = checked.plan.as_ref().map(store_bounds::of).unwrap_or_default();
    let memory = checked.plan.as_ref().and_then(control::memory::warning);
    if arguments.json {
        let of_shares = share_files.iter().map(|(found, _)| found);
        let found = std::iter::once(&checked.diagnostics).chain(&wrong_files).chain(of_shares);
        let diagnostics = found.flat_map(|found| found.list()).map(DiagnosticReply::from).collect();
        let checked = CheckReply { ok: is_valid, diagnostics };
        print_json(&mut stdout(), &CheckOutput { checked, promises, stores, sets, shares, memory })?;
        return Ok(code);
    }
    show_diagnostics(&checked.diagnostics)?;
    wrong_files.iter().try_for_each(show_diagnostics)?;
    share_files.iter().try_for_each(|(found, _)| show_diagnostics(found))?;
    if let Some(warning) = memory {
        writeln!(stderr(), "warning: {warning}")?;
    }
    if let Some(plan) = checked.plan {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let parts =
            [count(plan.ports.len(), "port"), count(plan.routes.len(), "route"), count(plan.paths.len(), "path")];
        writeln!(stdout(), "{name}: {}", parts.join(", "))?;
        set_files::print(&sets, &mut stdout())?;
        share_files::print(&shares, &mut stdout())?;
    }
    if !stores.is_empty() {
        writeln!(stdout())?;
        store_bounds::print(&stores, &mut stdout())?;
    }
    if let Some(promises) = promises {
        writeln!(stdout())?;
        promises.print(&mut stdout())?;
    }
    Ok(code)
}

/// The output of `check -j`.
#[derive(Serialize)]
struct CheckOutput {
    #[serde(flatten)]
    checked: CheckReply,
    #[serde(flatten)]
    promises: Option<ReservationCheck>,
    /// The capacity of ephemeral stores, and the entries that the lines can fill.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stores: Vec<store_bounds::StoreBound>,
    /// The named sets, with the elements of their files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sets: Vec<SetCheck>,
    /// The shares of ports, with those of files, and the subscribers.
    #[serde(flatten)]
    shares: SharesCheck,
    /// A warning if the stores can use more memory than this machine has left.
    #[serde(rename = "memory_warning", skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
}

/// `switchpath diff`
pub fn diff(arguments: &DiffArguments) -> Result<ExitCode> {
    let catalogue = catalogue_of(&arguments.guests)?;
    let changes = match (&arguments.file, &arguments.new) {
        (None, _) => between_generations(arguments, &catalogue)?,
        (Some(file), None) => {
            let read = read_for_router(file, &catalogue)?;
            dry_run(&arguments.socket.client(), &read)?
        }
        (Some(old), Some(new)) => {
            let both = [read(old, &catalogue)?, read(new, &catalogue)?];
            if both.iter().any(|read| read.checked.plan.is_none()) {
                return Err(ConfigurationErrors(both.map(|read| read.checked.diagnostics).into()).into());
            }
            let [old, new] = both;
            changes_between(&require_valid(old)?.1, &require_valid(new)?.1)
        }
    };
    show_changes(&changes, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

fn changes_between(old: &Plan, new: &Plan) -> Changes {
    let changes: Vec<ChangeReply> = plan::diff(old, new).iter().map(ChangeReply::from).collect();
    let restart_needed = changes.iter().any(|change| change.restart_needed);
    Changes { changes_total: changes.len() as u64, changes, restart_needed, warnings: Vec::new() }
}

fn between_generations(arguments: &DiffArguments, catalogue: &Catalogue) -> Result<Changes> {
    let client = arguments.socket.client();
    let plan_of = |generation: Option<u64>| {
        let target = generation.map_or("/v1/config".into(), |generation| format!("/v1/config?generation={generation}"));
        let config: Config = client.get(&target)?;
        let checked = plan::examine(&config.text, &config.name, catalogue);
        // This configuration has run. It can only fail here with another version of this program, or if a file is gone.
        checked.plan.with_context(|| {
            format!("this program cannot read generation {}:\n{}", config.generation, checked.diagnostics)
        })
    };
    Ok(changes_between(&plan_of(arguments.from)?, &plan_of(arguments.to)?))
}

/// `switchpath apply`
pub fn apply(arguments: &ApplyArguments) -> Result<ExitCode> {
    let read = read_for_router(&arguments.file, &catalogue_of(&arguments.guests)?)?;
    let client = arguments.socket.client();
    if arguments.dry_run {
        let changes = dry_run(&client, &read)?;
        show_changes(&changes, arguments.json)?;
        return Ok(if changes.restart_needed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let mut parameters = vec![("name", read.name.clone())];
    parameters.extend(apply_parameters(&arguments.trial, &client));
    let applied: Applied = with_diagnostics(client.post_with("/v1/apply", &parameters, &read.text))?;
    show_applied(&applied, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the parameters of a request that applies something: the time of the trial, and the login of the caller, which a port that takes an
/// interface could cut off.
pub fn apply_parameters(trial: &TrialArguments, client: &Client) -> Vec<(&'static str, String)> {
    let mut parameters = Vec::new();
    if let Some(time) = trial.confirm {
        parameters.push(("confirm", format!("{}ns", time.get())));
    }
    if trial.force {
        parameters.push(("force", "true".to_owned()));
    } else if let (Target::Socket(_), Some(login)) = (client.target(), Login::current()) {
        parameters.push(("login", login.to_string()));
    }
    parameters
}

/// Prints the result of an apply.
pub fn show_applied(applied: &Applied, json: bool) -> Result<()> {
    let mut out = stdout();
    if json {
        return print_json(&mut out, applied);
    }
    list(&applied.changes, applied.changes_total, &mut out)?;
    let restored = applied.restores.map_or_else(String::new, |from| format!(" the configuration of generation {from}"));
    match applied.changes_total {
        0 => writeln!(out, "generation {} runs{restored}; nothing to change", applied.generation)?,
        n => writeln!(
            out,
            "generation {} runs{restored}, {n} change{}",
            applied.generation,
            if n == 1 { "" } else { "s" }
        )?,
    }
    applied.advisories.iter().try_for_each(|advisory| writeln!(stderr(), "warning: {advisory}"))?;
    if let Some(pending) = &applied.pending {
        let seconds = pending.left_ns.div_ceil(1_000_000_000);
        let back = pending.back_to;
        writeln!(
            out,
            "`switchpath confirm` within {seconds} s keeps it; otherwise the router rolls back to generation {back}"
        )?;
    }
    Ok(())
}

fn dry_run(client: &Client, read: &Configuration) -> Result<Changes> {
    with_diagnostics(client.post("/v1/diff", &read.name, &read.text))
}

fn show_changes(changes: &Changes, json: bool) -> Result<()> {
    let mut out = stdout();
    if json {
        return print_json(&mut out, changes);
    }
    list(&changes.changes, changes.changes_total, &mut out)?;
    if changes.changes.is_empty() {
        writeln!(out, "no difference")?;
    }
    Ok(())
}

/// The number of changes listed of one kind, if there are more than twice as many.
const LISTED: usize = 20;

/// Prints the changes. If `total` is larger, the answer contains only the first ones.
fn list(changes: &[ChangeReply], total: u64, out: &mut dyn Write) -> Result<()> {
    listing(changes).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    match total.saturating_sub(changes.len() as u64) {
        0 => Ok(()),
        more => Ok(writeln!(out, "and {more} more changes")?),
    }
}

/// Returns a line for each change. Of a kind with very many changes it lists the first ones and counts the rest; `-j` has all.
fn listing(changes: &[ChangeReply]) -> Vec<String> {
    // The kind is the sign and the word after it: `+ route`.
    let kind = |change: &ChangeReply| {
        let behind = change.text.match_indices(' ').nth(1).map_or(change.text.len(), |(at, _)| at);
        change.text[..behind].to_owned()
    };
    let mut lines = Vec::new();
    for same in changes.chunk_by(|a, b| kind(a) == kind(b)) {
        let shown = if same.len() > 2 * LISTED { LISTED } else { same.len() };
        lines.extend(same[..shown].iter().map(|change| {
            let warning = if change.restart_needed { "   (needs a restart)" } else { "" };
            format!("{}{warning}", change.text)
        }));
        if shown < same.len() {
            lines.push(format!("{}: and {} more", kind(&same[0]), same.len() - shown));
        }
    }
    lines
}

/// Returns the answer, or an error with the diagnostics from the router.
pub fn with_diagnostics<T>(result: Result<T, ClientError>) -> Result<T> {
    match result {
        Err(error @ ClientError::Refused(_)) => Err(error).context("refused: the running configuration is unchanged"),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: String) -> ChangeReply {
        ChangeReply { text, values: Vec::new(), restart_needed: false }
    }

    #[test]
    fn many_changes_of_one_kind_are_counted() {
        let route = |i: usize| change(format!("+ route 10.{}.{}.0/24 blackhole", i / 256, i % 256));
        let mut changes = vec![change("~ router: frames 1 -> 2".to_owned())];
        changes.extend((0..20_000).map(route));
        changes.extend((0..2 * LISTED).map(|i| change(format!("- path p{i}"))));
        let lines = listing(&changes);
        assert_eq!(lines.len(), 1 + LISTED + 1 + 2 * LISTED);
        assert_eq!(lines[1 + LISTED], "+ route: and 19980 more");
        assert_eq!(lines.last().unwrap(), "- path p39", "those that are few enough are all listed");
    }
}
