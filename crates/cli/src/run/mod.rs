//! `switchpath run`: runs the router until it is ended.

mod confine;
mod history;

use crate::arguments::{RemoteApi, RunArguments, UsageError};
use crate::configuration::{read, require_valid};
use crate::guests;
use crate::notify::{notify, reloading, watchdog};
use crate::output::{Rows, is_coloured, print_json, short, show_diagnostics, span};
use anyhow::{Context, Result, anyhow};
use control::api::{AccessLevel, ApiError, Author, Via};
use control::remote::{Remote, RemoteOptions, listen};
use control::socket::ControlSocket;
use control::{
    ApplyRequest, Daemon, DaemonOptions, FinalReport, InterfaceGuard, Listeners, Notice, Server, SliceRights,
    StartError,
};
use history::Start;
use io::clock;
use io::devices::Devices;
use io::login::Login;
use plan::Catalogue;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::fs;
use std::io::{Write, stderr, stdout};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use units::Instant;

/// Events that wake the main thread.
enum MainEvent {
    Signal(i32),
    Notice(Notice),
}

/// Runs the router.
pub fn run(arguments: &RunArguments) -> Result<ExitCode> {
    start_log(&arguments.log)?;
    let (past, warnings) = history::open(arguments)?;
    let guests = guests::directory(&arguments.guests)?;
    let catalogue = guests::catalogue(guests.clone());
    let file = read(&arguments.config, &catalogue)?;
    let slices = arguments.slices.as_deref().map(read_slices).transpose()?;
    let Start { configuration, restores } = history::choose(&past, file, arguments.force, &catalogue)?;
    let (configuration, plan) = require_valid(configuration)?;
    let (sender, wakes) = channel();
    // Before anything is opened, so that a signal from now on ends the router cleanly.
    forward_signals(sender.clone())?;
    let wants_socket = !arguments.until_idle || arguments.socket.is_some();
    let path = arguments.socket.clone().unwrap_or_else(control::socket::default_path);
    let sharing = confine::sharing(&arguments.sharing)?;
    let socket = wants_socket.then(|| ControlSocket::shared(&path, &sharing)).transpose()?;
    let remote = open_remote(&arguments.remote)?;
    let metrics = arguments.metrics.map(open_metrics).transpose()?;
    let notice = move |notice| drop(sender.send(MainEvent::Notice(notice)));
    let options = DaemonOptions::new(Devices::new(clock::epoch()), &configuration.text, &configuration.name, notice);
    warnings.into_iter().for_each(|warning| options.advisories.add(warning));
    let state = past.directory().map(Path::to_path_buf);
    let guard = Some(InterfaceGuard { login: Login::current(), force: arguments.force });
    let options = DaemonOptions { author: process_user(Via::Start), history: past, restores, guard, guests, ..options };
    let daemon = Daemon::start(&plan, options).map_err(|error| match error {
        StartError::Apply(errors) => {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            anyhow!("this machine cannot run the configuration:\n  {}", lines.join("\n  "))
        }
        other => anyhow!(other),
    })?;
    if let Some((name, text)) = slices {
        let rights = SliceRights { author: &process_user(Via::Start), allowed: AccessLevel::Full };
        daemon.edit_slices(rights, (&text, &name)).map_err(|failure| anyhow!(ApiError::from(&failure)))?;
    }
    // Before the first request can arrive.
    confine::confine(&daemon, arguments, &plan, state.as_deref(), socket.as_ref())?;
    let server = serve(&daemon, Listeners { socket, remote, metrics })?;
    notify("READY=1");
    let mut well = WatchdogNotifier::new(watchdog());
    let failure = loop {
        let wake = match wakes.recv_timeout(well.time_left()) {
            Ok(wake) => wake,
            Err(RecvTimeoutError::Timeout) => {
                well.notify_if_due(&daemon);
                continue;
            }
            Err(gone) => return Err(gone).context("nobody can wake the router any more"),
        };
        well.notify_if_due(&daemon);
        match wake {
            MainEvent::Signal(SIGHUP) => reload(&daemon, arguments, &catalogue),
            // A file has grown to its size limit. The write fails and reports it to its caller; forwarding continues.
            MainEvent::Signal(SIGXFSZ) => {}
            MainEvent::Signal(_) => break None,
            MainEvent::Notice(Notice::Exhausted) if arguments.until_idle => break None,
            MainEvent::Notice(Notice::Exhausted) => {}
            MainEvent::Notice(Notice::Failed(reason)) => break Some(reason),
        }
    };
    notify("STOPPING=1");
    let closing = daemon.stop();
    drop(server);
    print_closing(&closing, arguments.json)?;
    if let Some(reason) = failure {
        return Err(anyhow!(reason));
    }
    Ok(if closing.ledgers.balanced { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read_slices(file: &Path) -> Result<(String, String)> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the slices in {}", file.display()))?;
    Ok((file.display().to_string(), text))
}

/// Notifies systemd at the wanted interval while all workers make progress, and stops while one does not.
struct WatchdogNotifier {
    interval: Option<Duration>,
    due: Instant,
}

impl WatchdogNotifier {
    fn new(interval: Option<Duration>) -> WatchdogNotifier {
        WatchdogNotifier { interval, due: clock::now() }
    }

    /// Returns the time until the next notification.
    fn time_left(&self) -> Duration {
        match self.interval {
            Some(_) => self.due.since(clock::now()).into(),
            // No notification is wanted: any long time will do.
            None => Duration::from_secs(3600),
        }
    }

    fn notify_if_due(&mut self, daemon: &Daemon) {
        let (Some(interval), now) = (self.interval, clock::now()) else { return };
        if now < self.due {
            return;
        }
        self.due = now + interval.into();
        if daemon.is_progressing() {
            notify("WATCHDOG=1");
        }
    }
}

/// Returns the user of this process, as the author of a configuration.
fn process_user(via: Via) -> Author {
    let uid = rustix::process::getuid().as_raw();
    Author { uid: Some(uid), user: io::accounts::user_name(uid), ..Author::by(via) }
}

fn start_log(level: &str) -> Result<()> {
    let filter = EnvFilter::try_new(level)
        .with_context(|| format!("'{level}' is no log level: use error, warn, info or debug"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_target(false);
    let log = log.with_ansi(is_coloured(&stderr()));
    // systemd writes the time itself.
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        log.without_time().init()
    } else {
        log.init()
    }
    Ok(())
}

fn forward_signals(sender: Sender<MainEvent>) -> Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGXFSZ]).context("cannot wait for signals")?;
    let forward = move || {
        for signal in signals.forever() {
            if sender.send(MainEvent::Signal(signal)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(forward)?;
    Ok(())
}

fn serve(daemon: &Arc<Daemon>, doors: Listeners) -> Result<Option<Server>> {
    if let Some(socket) = &doors.socket {
        tracing::info!("answering on {}", socket.path().display());
    }
    if let Some(remote) = &doors.remote {
        tracing::info!("answering on https://{}, requests with a token", remote.address()?);
    }
    if let Some(metrics) = &doors.metrics {
        tracing::info!("answering on http://{}/metrics, requests from this machine", metrics.local_addr()?);
    }
    let any = doors.socket.is_some() || doors.remote.is_some() || doors.metrics.is_some();
    let start = || Server::start(daemon.clone(), doors).context("the API cannot be served");
    any.then(start).transpose()
}

/// Listens for metrics scrapers on this machine.
fn open_metrics(address: SocketAddr) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        let hint = "use 127.0.0.1:PORT; other machines get the metrics at --listen, over TLS";
        return Err(anyhow!(UsageError(format!("--metrics {address} is no loopback address; {hint}"))));
    }
    listen(address).with_context(|| format!("cannot listen on {address}"))
}

/// Opens remote access to the API, if it is wanted. Reads its files and binds its port before privileges are dropped.
fn open_remote(arguments: &RemoteApi) -> Result<Option<Remote>> {
    let RemoteApi { listen, tls_cert, tls_key, token_file, read_token_file } = arguments;
    let (Some(listen), Some(certificate), Some(key), Some(token)) = (listen, tls_cert, tls_key, token_file) else {
        return Ok(None);
    };
    let options = RemoteOptions {
        listen: *listen,
        certificate: certificate.clone(),
        key: key.clone(),
        token: token.clone(),
        read_token: read_token_file.clone(),
    };
    Ok(Some(Remote::open(&options)?))
}

/// Applies the file again. If it has errors, the running configuration stays.
fn reload(daemon: &Daemon, arguments: &RunArguments, catalogue: &Catalogue) {
    reloading();
    let result = read(&arguments.config, catalogue).and_then(|configuration| {
        show_diagnostics(&configuration.checked.diagnostics)?;
        // Also with errors: the router records the refusal in its history.
        let logins = Login::current().into_iter().collect();
        let order = ApplyRequest::new(&configuration.text, &configuration.name);
        let applied = daemon.apply_request(ApplyRequest { author: Author::by(Via::Signal), logins, ..order });
        anyhow::ensure!(configuration.checked.plan.is_some(), "it has errors");
        applied?;
        Ok(())
    });
    if let Err(error) = result {
        tracing::error!("the configuration is not applied, the previous one stays in force: {error:#}");
    }
    notify("READY=1");
}

/// Prints the fates of all packets.
fn print_closing(closing: &FinalReport, json: bool) -> Result<()> {
    let mut out = stdout();
    if json {
        let FinalReport { ledgers, ports, drops, uptime_ns } = closing;
        let whole = json!({ "uptime_ns": uptime_ns, "ledger": ledgers, "ports": ports.ports, "drops": drops.drops });
        return print_json(&mut out, &whole);
    }
    let total = &closing.ledgers.total;
    writeln!(out, "forwarded for {}", span(closing.uptime_ns))?;
    let mut rows = Rows::new(&["port", ">received", ">bytes", ">sent", ">bytes", ">dropped"]);
    for port in &closing.ports.ports {
        let dropped: u64 = port.drops.iter().map(|drop| drop.packets).sum();
        rows.add([
            port.name.clone(),
            port.counters.received.to_string(),
            short(port.counters.received_bytes as f64),
            port.link.sent.to_string(),
            short(port.link.sent_bytes as f64),
            dropped.to_string(),
        ]);
    }
    rows.print(&mut out)?;
    if !closing.drops.drops.is_empty() {
        let mut rows = Rows::new(&["dropped", ">packets"]);
        closing.drops.drops.iter().for_each(|drop| rows.add([drop.reason.clone(), drop.packets.to_string()]));
        rows.print(&mut out)?;
    }
    let law = if closing.ledgers.balanced { "every packet accounted for" } else { "THE LEDGER DOES NOT BALANCE" };
    writeln!(
        out,
        "received {} + generated {} = sent {} + consumed {} + dropped {} + held {}: {law}",
        total.received_packets,
        total.generated_packets,
        total.sent_packets,
        total.consumed_packets,
        total.dropped_packets,
        total.held_packets
    )?;
    Ok(())
}
