//! `switchpath demo`: two clients, a server and Switchpath between them. It shows a live table, and accounts for every packet at the end.
//!
//! The hosts are network namespaces with the kernel's own TCP, UDP and ping if the system allows them, else machines in memory. In both cases the
//! router is the one that `switchpath run` runs.

mod kernel;
mod memory;
mod network;
mod pattern;
mod screen;
mod summary;
mod traffic;
mod view;

use anyhow::{Context, Result, anyhow};
use cli::arguments::DemoArguments;
use control::{Daemon, Notice, StartError};
use io::clock;
use io::netns::{self, NamespaceError};
use io::wait::{Sleeper, Waker};
use kernel::KernelHosts;
use memory::MemoryHosts;
use screen::Screen;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use traffic::Traffic;
use units::{Instant, Nanos};
use view::{DemoSample, DemoView};

/// The configuration's name in messages.
const CONFIGURATION: &str = "demo.toml";
/// If set, the demonstration does not use namespaces. For tests of the alternative.
const NO_NAMESPACES: &str = "SWITCHPATH_NO_NAMESPACES";
/// Time between two drawings on a terminal, and between two lines elsewhere.
const FRAME: Nanos = Nanos::millis(200);
const LINE: Nanos = Nanos::secs(1);
/// Losses within this time after a reload are attributed to it.
const AFTERMATH: Nanos = Nanos::secs(1);

/// Callback for events that the router reports.
type Notify = Box<dyn Fn(Notice) + Send + Sync>;

/// The hosts of either kind.
trait Hosts {
    /// The kind of hosts, for people.
    fn place(&self) -> &'static str;
    /// The kind of the router's ports to them.
    fn ports(&self) -> &'static str;
    /// The router's configuration and ports for these hosts.
    fn router(&mut self, text: &str, notice: Notify) -> control::DaemonOptions;
    /// Starts the flows once the router forwards. The threads end some time after the traffic.
    fn begin(&mut self, traffic: &Arc<Traffic>) -> Result<Vec<JoinHandle<()>>>;
}

/// A running demonstration.
struct Running {
    hosts: Box<dyn Hosts>,
    daemon: Arc<Daemon>,
    notices: Receiver<Notice>,
    text: String,
}

/// The configuration change at half time.
#[derive(Clone, Debug)]
pub struct Reload {
    /// When, since the start.
    at: Nanos,
    /// How long it took until every packet used the new configuration.
    took: Nanos,
    /// The changes, or the error.
    result: Result<Vec<String>, String>,
    /// Missing datagrams before the change.
    missing: u64,
    /// Datagrams lost in the second after it.
    lost: u64,
}

/// Runs the demonstration. Returns true if it succeeded. Must be called before the process has a second thread.
pub fn run(options: &DemoArguments) -> Result<bool> {
    let signals = Signals::register()?;
    let mut screen = Screen::new(options.plain);
    let mut running = start(options, &mut screen)?;
    let seconds = options.seconds;
    screen.say(&format!("Two clients, a server and Switchpath between them, for {seconds} s."))?;
    screen.say(&format!("Hosts: {}.", running.hosts.place()))?;
    screen.say("Bob also sends packets that the router must drop: time to live 1, to a blackhole, without a route.")?;
    screen.say("")?;
    let traffic = Arc::new(Traffic::new());
    let threads = running.hosts.begin(&traffic).context("cannot start the hosts")?;
    let shown = show(&running, &traffic, Nanos::secs(seconds), &signals, &mut screen);
    traffic.end();
    let lost_thread = threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
    let paths = running.daemon.paths();
    let closing = running.daemon.stop();
    let (elapsed, reload) = shown?;
    let failure = match running.notices.try_iter().find_map(|notice| match notice {
        Notice::Failed(reason) => Some(reason),
        Notice::Exhausted => None,
    }) {
        None if lost_thread > 0 => Some("a host has failed".into()),
        other => other,
    };
    let end = summary::DemoResult {
        elapsed,
        interrupted: signals.has_arrived(),
        reload,
        paths: paths.ok(),
        closing,
        failure,
    };
    let (lines, good) = summary::summarise(&traffic, &end);
    lines.iter().try_for_each(|line| screen.say(line))?;
    Ok(good)
}

/// Creates the hosts and starts the router.
fn start(options: &DemoArguments, screen: &mut Screen) -> Result<Running> {
    if !options.memory {
        let made = enter().map_err(anyhow::Error::from).and_then(|()| KernelHosts::new());
        match made.and_then(|hosts| start_router(Box::new(hosts))) {
            Ok(running) => return Ok(running),
            Err(error) => screen.say(&format!("No network namespaces, so the hosts run in memory: {error:#}."))?,
        }
    }
    start_router(Box::new(MemoryHosts::new()))
}

/// Prepares this process to create network namespaces.
fn enter() -> Result<(), NamespaceError> {
    if std::env::var_os(NO_NAMESPACES).is_some() {
        return Err(NamespaceError {
            reason: format!("user namespaces are forbidden here: {NO_NAMESPACES} is set"),
            hint: "elsewhere `sysctl -w kernel.unprivileged_userns_clone=1`, or on newer systems `sysctl -w \
                   kernel.apparmor_restrict_unprivileged_userns=0`, allows them, or run this as root"
                .into(),
        });
    }
    netns::enter().map(drop)
}

fn start_router(mut hosts: Box<dyn Hosts>) -> Result<Running> {
    let text = network::configuration(hosts.ports());
    let plan = plan::check(&text, CONFIGURATION, &plane::catalogue()).map_err(|wrong| anyhow!("{wrong}"))?;
    let (sender, notices) = channel();
    // The receiver may have ended already.
    let options = hosts.router(&text, Box::new(move |notice| drop(sender.send(notice))));
    let daemon = Daemon::start(&plan, options).map_err(|error: StartError| anyhow!(error))?;
    Ok(Running { hosts, daemon, notices, text })
}

/// Shows the counters until the time is over or a signal arrives. Returns the elapsed time and the result of the reload.
fn show(
    running: &Running,
    traffic: &Traffic,
    span: Nanos,
    signals: &Signals,
    screen: &mut Screen,
) -> Result<(Nanos, Option<Reload>)> {
    let mut sleeper = Sleeper::new(Waker::new()?);
    let begun = clock::now();
    let mut view = DemoView::new(span);
    // The first sample, the base of the rates.
    DemoSample::take(&running.daemon, traffic, Nanos::ZERO).into_iter().for_each(|sample| view.add(sample));
    let pace = if screen.is_live() { FRAME } else { LINE };
    let mut due = begun + pace;
    let mut reload: Option<Reload> = None;
    loop {
        let now = clock::now();
        let elapsed = now.since(begun);
        if reload.is_none() && elapsed * 2 >= span {
            reload = Some(change(running, traffic, elapsed));
        }
        if let Some(reload) = reload.as_mut().filter(|reload| elapsed < reload.at + AFTERMATH) {
            reload.lost = traffic.missing().saturating_sub(reload.missing);
        }
        let over =
            elapsed >= span || signals.has_arrived() || running.daemon.state() != control::api::RouterState::Running;
        if now >= due || over {
            due = now.max(due + pace);
            // If the router is too busy to answer, the next round asks again.
            if let Ok(sample) = DemoSample::take(&running.daemon, traffic, elapsed) {
                view.add(sample);
                screen.draw(&view, traffic, reload.as_ref())?;
            }
        }
        if over {
            screen.leave()?;
            return Ok((elapsed, reload));
        }
        let next = due.min(half(begun, span, reload.is_some())).min(begun + span);
        sleeper.sleep([signals.pipe.as_fd()], next.since(clock::now()))?;
    }
}

/// The time of the configuration change.
fn half(begun: Instant, span: Nanos, done: bool) -> Instant {
    if done { Instant::NEVER } else { begun + Nanos::new(span.get() / 2) }
}

/// Adds a path for the voice packets while they flow.
fn change(running: &Running, traffic: &Traffic, at: Nanos) -> Reload {
    let (missing, before) = (traffic.missing(), clock::now());
    let applied = running.daemon.apply(&format!("{}{}", running.text, network::VOICE_PATH), CONFIGURATION);
    let result = applied
        .map(|applied| applied.changes.into_iter().map(|change| change.text).collect())
        .map_err(|error| error.to_string());
    Reload { at, took: clock::now().since(before), result, missing, lost: 0 }
}

/// SIGINT and SIGTERM end the demonstration cleanly; a second one ends it at once.
struct Signals {
    received: Arc<AtomicBool>,
    pipe: UnixStream,
}

impl Signals {
    fn register() -> Result<Signals> {
        let came = Arc::new(AtomicBool::new(false));
        let (pipe, write) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            // The order matters: at the first signal this handler finds the flag unset and does nothing; the next handler sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, came.clone())?;
            signal_hook::flag::register(signal, came.clone())?;
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(Signals { received: came, pipe })
    }

    fn has_arrived(&self) -> bool {
        self.received.load(Ordering::Relaxed)
    }
}
