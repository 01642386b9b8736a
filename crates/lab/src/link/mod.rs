//! `switchpath link`: runs a command behind an emulated link, with the kernel's own TCP.
//!
//! The command's network is a namespace. Virtual cables join it to the router's namespace, and that to the far end's. The router is the one that
//! `switchpath run` runs, in this process. Its two ports emulate the links (adr/0037).

mod capacity;
pub mod configuration;
pub mod hosts;
mod log;
mod page;
pub mod report;
mod stats;

use anyhow::{Context, Result, anyhow};
use capacity::{Capacity, link_of};
use cli::arguments::{LinkArguments, UsageError};
use cli::configuration::show_diagnostics;
use cli::failure::ConfigurationErrors;
use configuration::{LinkDirection, NestingLevel};
use control::{Daemon, DaemonOptions};
use hosts::LinkHosts;
use io::clock;
use io::devices::Devices;
use io::netns;
use io::thread_priority::NicePriority;
use log::Log;
use plan::Plan;
use report::EmulationReport;
use signal_hook::consts::{SIGINT, SIGQUIT};
use stats::{LinkRecorder, LinkStats};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use units::Instant;

/// The configuration's name in messages.
const CONFIGURATION: &str = "link";

/// Runs a command behind a link. Must be called before the process has a second thread.
///
/// # Errors
///
/// Why the link cannot be created or the command cannot be started.
pub fn link(options: &LinkArguments) -> Result<ExitCode> {
    let Some((program, arguments)) = options.command.split_first() else {
        return Err(UsageError("a command is missing: write it after --".into()).into());
    };
    let level = NestingLevel::current(options)?;
    let text = configuration::text(options, &level);
    let checked = plan::examine(&text, CONFIGURATION, &plane::catalogue());
    if checked.plan.is_none() {
        if let Some(wrong) = option_errors(options, &checked.diagnostics) {
            return Err(UsageError(wrong).into());
        }
        return Err(ConfigurationErrors(vec![checked.diagnostics]).into());
    }
    show_diagnostics(&checked.diagnostics)?;
    options.out.as_deref().map_or(Ok(()), page::look)?;
    netns::enter()?;
    // Interrupts from the keyboard are for the command. Ignore them here, so that the report follows after the command has ended.
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, ignored.clone()).context("cannot wait for signals")?;
    }
    let behind = EmulatedNetwork::start(options, level)?;
    let far = options.far.as_ref().map(|command| behind.hosts.start_far(command)).transpose()?;
    if far.is_some() && !behind.hosts.wait_until_it_listens()? {
        eprintln!("switchpath: the far end does not listen on any port yet");
    }
    let [v4, v6] = behind.level.far.each().map(|address| address.to_string());
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| argument.replace("{far}", &v4).replace("{far6}", &v6)));
    command.envs(behind.level.environment());
    let start = clock::now();
    let status = behind.hosts.inside().spawn(command).with_context(|| format!("{program} cannot be started"));
    let status = status.and_then(|mut child: Child| child.wait().context("cannot wait for the command"));
    let end = clock::now();
    if let Some(server) = far {
        behind.hosts.end_far(server);
    }
    let report = behind.finish((start, end))?;
    let status = status?;
    report.print(options.json)?;
    if let Some(folder) = &options.out {
        page::write(folder, &report, options)?;
        if !options.json {
            eprintln!("All of it, with plots: {}", folder.join("index.html").display());
        }
    }
    Ok(exit_code(status))
}

/// The errors in terms of the command line, because the user has not written the checked configuration. `None` if an error concerns no option.
fn option_errors(options: &LinkArguments, found: &plan::Diagnostics) -> Option<String> {
    let mut said: Vec<String> = Vec::new();
    for error in found.errors() {
        let (side, key) = match error.path.strip_prefix("port.")?.split_once('.')? {
            ("inside", key) => (LinkDirection::Down, key.strip_prefix("link.").unwrap_or(key)),
            (_, key) => (LinkDirection::Up, key.strip_prefix("link.").unwrap_or(key)),
        };
        let (name, value) = match key {
            "delay" => ("delay", Some(&options.delay)),
            "jitter" => ("jitter", options.jitter.as_ref()),
            "loss" => ("loss", options.loss.as_ref()),
            "duplicate" => ("duplicate", options.duplicate.as_ref()),
            "reorder" => ("reorder", options.reorder.as_ref()),
            "mode" => ("mode", Some(&options.mode)),
            "end" => ("end", Some(&options.end)),
            "scheme" if side == LinkDirection::Up && options.up_scheme.is_some() => {
                ("up-scheme", options.up_scheme.as_ref())
            }
            "scheme" => ("scheme", Some(&options.scheme)),
            "rate" | "trace" if side == LinkDirection::Down => ("down", options.down.as_ref()),
            "rate" | "trace" => ("up", options.up.as_ref()),
            _ => return None,
        };
        let line = format!("--{name} {}: {}; {}", value?, error.reason, error.hint);
        // Both directions report it.
        if !said.contains(&line) {
            said.push(line);
        }
    }
    Some(said.join("\n")).filter(|said| !said.is_empty())
}

/// Hosts with a link between them, and the router that emulates it.
pub struct EmulatedNetwork {
    /// The hosts.
    pub hosts: LinkHosts,
    /// Their addresses.
    pub level: NestingLevel,
    plan: Plan,
    daemon: Arc<Daemon>,
    /// One for each of [`LinkDirection::BOTH`].
    stats: Vec<Arc<Mutex<LinkStats>>>,
    logs: Vec<Log>,
}

impl EmulatedNetwork {
    /// Creates the hosts and starts the router. This process must be allowed to create network namespaces.
    ///
    /// # Errors
    ///
    /// Why they cannot be created.
    pub fn start(options: &LinkArguments, level: NestingLevel) -> Result<EmulatedNetwork> {
        let text = configuration::text(options, &level);
        let plan = plan::check(&text, CONFIGURATION, &plane::catalogue()).map_err(|wrong| anyhow!("{wrong}"))?;
        let hosts = LinkHosts::new(&level)?;
        let epoch = clock::epoch();
        let mut devices = Devices::new(epoch).in_namespace(hosts.router().namespace().clone()).with_kernel_timestamps();
        let (mut tallies, mut logs) = (Vec::new(), Vec::new());
        for side in LinkDirection::BOTH {
            let (lines, log) = Log::create(options, side, Capacity::of(&plan, side), epoch)?.unzip();
            let overhead = link_of(&plan, side).map_or(0, |link| link.medium.overhead);
            let witness = LinkRecorder::new(overhead, lines);
            tallies.push(witness.stats());
            logs.extend(log);
            devices = devices.with_link_witness(side.port(), Box::new(witness));
        }
        // Give the router a higher priority than the command, which would else take its processor just when a packet is due. This needs root.
        let favour = NicePriority::acquire();
        let daemon = Daemon::start(&plan, DaemonOptions::new(devices, &text, CONFIGURATION, |_| {}));
        let daemon = daemon.map_err(|error| anyhow!("cannot create the link here: {error}"))?;
        drop(favour);
        Ok(EmulatedNetwork { hosts, level, plan, daemon, stats: tallies, logs })
    }

    /// Stops the router. The report covers this span.
    ///
    /// # Errors
    ///
    /// A log cannot be written.
    pub fn finish(self, (start, end): (Instant, Instant)) -> Result<EmulationReport> {
        let EmulatedNetwork { plan, daemon, stats: tallies, logs, .. } = self;
        let closing = daemon.stop();
        let mut report = EmulationReport::new(&plan, [&tallies[0], &tallies[1]], (start, end), &closing);
        for log in logs {
            let of = report.directions.iter().find(|direction| direction.side == log.side);
            let remarks = of.map(report::DirectionReport::distortions).unwrap_or_default();
            report.lost += log.finish(end, &remarks)?;
        }
        Ok(report)
    }
}

/// The exit code of a command, as a shell reports it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let number = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(number & 0xff).unwrap_or(1))
}
