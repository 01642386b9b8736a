//! The running router: the plane's control side, a thread for each worker, and the configuration that runs.

mod apply;
mod apply_request;
mod background;
mod confirm;
mod counters;
mod cpu_shares;
mod edit;
mod ephemeral;
mod failure;
mod flows;
mod functions;
mod guard;
mod heartbeat;
mod links;
mod linux;
mod multicast;
mod policy;
mod recording;
mod report;
mod rules;
mod secret;
mod sets;
mod share_upkeep;
mod shared_devices;
mod shares;
mod sites;
mod slices;
mod slow_path;
mod subscribers;
mod watchdog;
mod worker_thread;
mod workers;

pub use apply_request::{ApplyRequest, RollbackTarget};
pub use failure::ApplyFailure;
pub use sets::SetCommand;
pub use shares::ShareQuery;
pub use slow_path::SliceRights;
pub(crate) use slow_path::SlowPathReader;

use crate::api::{self, Author, HistoryState, Via};
use crate::arrivals::ReceivedFrames;
use crate::capture::{CaptureTaps, MOST_TAPS};
use crate::events::{EventLog, LoggedEvent};
use crate::history::{ConfigurationHistory, StoredConfiguration};
use crate::memory;
use crate::names::Names;
use crate::observer::WorkerObserver;
use crate::trace::Traces;
use apply_request::PendingConfirmation;
use arc_swap::ArcSwap;
use classifier::SetStore;
use cpu::calibrate;
use fib::Tables;
use io::advisories::Advisories;
use io::clock::{self, CycleCounter, CycleMeter};
use io::devices::Devices;
use io::login::Login;
use io::privilege::{Confined, PrivilegeLimits};
use io::wait::Waker;
use packet::Region;
use parking_lot::Mutex;
use plan::{Catalogue, Plan};
use plane::{ApplyError, Build, Opener, PublishedGeneration, Router, Worker};
use shared_devices::SharedDevices;
use slice::Slices;
use slice::code::CodeRegistration;
use stack::LocalProtocolLimits;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use units::{Instant, Nanos, WorkerId};

/// The longest wait until workers run a new configuration.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait for reports of workers.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval at which the journal is written.
const JOURNAL_INTERVAL: Duration = Duration::from_millis(500);
/// The time without progress after which a worker is reported as stuck. An idle worker makes progress every 100 ms.
const STUCK_AFTER: Nanos = Nanos::secs(1);

/// A notice for the program that has started the router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// No packet can arrive any more (every input file has ended), and every packet has met its fate.
    Exhausted,
    /// The first worker has failed for good, for this reason. It runs the router's local protocols, so the router should be ended.
    Failed(String),
}

/// The parameters of a router, besides its configuration.
pub struct DaemonOptions {
    /// Opens its ports.
    pub opener: Box<dyn Opener + Send>,
    /// Warnings of the ports, for the event log.
    pub advisories: Advisories,
    /// The text of the configuration.
    pub text: String,
    /// The origin of the text: a file name.
    pub name: String,
    /// The user who starts it.
    pub author: Author,
    /// The history of configurations.
    pub history: ConfigurationHistory,
    /// The generation of the history whose text this is, if it is restored.
    pub restores: Option<u64>,
    /// The time without progress after which a worker is reported as stuck.
    pub stuck_after: Nanos,
    /// Protects interfaces that carry a login, or the machine's only default route: see [`InterfaceGuard`].
    pub guard: Option<InterfaceGuard>,
    /// The guests for later configurations; none without a guest directory.
    pub guests: Option<Arc<dyn plan::Guests>>,
    /// Code options for slices besides those of this build.
    pub code_options: Vec<&'static CodeRegistration>,
    /// Called from the router's threads when something happens that it cannot handle itself.
    pub notice: Box<dyn Fn(Notice) + Send + Sync>,
    /// Called when all ports are closed: waits until pending output is written.
    pub finish: Box<dyn FnOnce() + Send>,
}

impl DaemonOptions {
    /// Builds the options for the configuration `text` from the file `name`, with the ports of `devices`.
    pub fn new(
        devices: Devices,
        text: &str,
        name: &str,
        notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> DaemonOptions {
        let warnings = devices.advisories().clone();
        let shared = SharedDevices(Arc::new(Mutex::new(Some(devices))));
        let opener = Box::new(shared.clone());
        let finish = Box::new(move || shared.0.lock().take().into_iter().for_each(Devices::finish));
        DaemonOptions {
            opener,
            advisories: warnings,
            text: text.into(),
            name: name.into(),
            author: Author::by(Via::Start),
            history: ConfigurationHistory::in_memory(),
            restores: None,
            stuck_after: STUCK_AFTER,
            guard: None,
            guests: None,
            code_options: Vec::new(),
            notice: Box::new(notice),
            finish,
        }
    }
}

/// The protection of the machine's interfaces. The router takes no interface that carries the login of its user or of a configuration's author,
/// unless forced. It warns when it takes the interface with the machine's only default route.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InterfaceGuard {
    /// The login of the user who starts it.
    pub login: Option<Login>,
    /// True to take such interfaces anyway.
    pub force: bool,
}

/// Why a router could not be started. Everything is released again.
#[derive(Debug)]
pub enum StartError {
    /// The configuration cannot run here, for these reasons.
    Apply(Vec<ApplyError>),
    /// A thread, or its waker, could not be created.
    System(std::io::Error),
    /// The workers did not adopt the configuration.
    AdoptionTimeout,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Apply(errors) => {
                let lines: Vec<String> = errors.iter().map(ApplyError::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            StartError::System(error) => write!(f, "cannot start a worker thread: {error}"),
            StartError::AdoptionTimeout => f.write_str("the workers did not start within 5 s"),
        }
    }
}

impl std::error::Error for StartError {}

/// The final state of a router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinalReport {
    /// The fates of all packets.
    pub ledgers: api::Ledgers,
    /// The last state of the ports.
    pub ports: api::Ports,
    /// The drops by reason.
    pub drops: api::Drops,
    /// The time it ran.
    pub uptime_ns: u64,
}

/// A running router. If it is dropped without [`Daemon::stop`], it ends in the background.
// Large: a method for each request of the API, in a file for each kind of answer under `daemon/`.
pub struct Daemon {
    control: Mutex<Control>,
    /// The forwarding tables of the router, to count routes without waiting for `control`.
    tables: Arc<Tables>,
    /// The named sets of the router, to read and change them without waiting for `control`.
    sets: Arc<SetStore>,
    names: ArcSwap<Names>,
    /// The users who own slices.
    slice_owners: ArcSwap<BTreeSet<u32>>,
    /// The progress of the present batch of routes.
    progress: edit::Progress,
    log: Arc<EventLog>,
    taps: Arc<CaptureTaps>,
    arrivals: Arc<ReceivedFrames>,
    traces: Arc<Traces>,
    recording: recording::CpuRecording,
    /// The bytes of all shares at the last two seconds.
    share_samples: shares::ShareSamples,
    notice: Arc<dyn Fn(Notice) + Send + Sync>,
    state: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
    workers: workers::Workers,
    finish: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    journal: Mutex<Journal>,
    /// The interfaces of the kernel; none without `[linux]`.
    linux: OnceLock<linux::Linux>,
    /// Wakes the thread that watches the trial.
    alarm: Waker,
    /// The names that a configuration may use.
    catalogue: Catalogue,
    /// See [`InterfaceGuard`].
    guarded: bool,
    /// The privileges that the process has dropped.
    confinement: OnceLock<(api::Confinement, PrivilegeLimits)>,
    started: Instant,
    epoch: Nanos,
}

/// The state of the process's log.
struct Journal {
    advisories: Advisories,
    /// The number of the next event to write.
    next: u64,
}

/// The state that an apply changes, under one lock, so that applies are serialized.
struct Control {
    router: Router,
    slices: Slices,
    opener: Box<dyn Opener + Send>,
    text: Arc<str>,
    name: Arc<str>,
    /// A generation that a worker has not adopted in time, with its text and name. It cannot be revoked.
    adopting: Option<(PublishedGeneration, Arc<str>, Arc<str>)>,
    history: ConfigurationHistory,
    /// The trial of the running configuration.
    pending: Option<PendingConfirmation>,
    /// The settings that programs of the machine have made on the kernel's interfaces.
    kernel_settings: linux::SettingsByName,
}

const RUNNING: u8 = 0;
const STOPPING: u8 = 1;
const FAILED: u8 = 2;

impl Daemon {
    /// Starts a router with `plan`, the checked form of `options.text`, and returns when it forwards.
    pub fn start(plan: &Plan, options: DaemonOptions) -> Result<Arc<Daemon>, StartError> {
        let DaemonOptions {
            mut opener,
            advisories: warnings,
            text,
            name,
            author: who,
            mut history,
            restores,
            stuck_after,
            guard,
            ..
        } = options;
        let DaemonOptions { guests, code_options, notice, finish, .. } = options;
        workers::check_cores(&plan.cores).map_err(|error| StartError::Apply(vec![error]))?;
        let (log, taps) = (Arc::new(EventLog::default()), Arc::new(CaptureTaps::new(MOST_TAPS)));
        let (traces, arrivals) = (Arc::new(Traces::default()), Arc::new(ReceivedFrames::default()));
        let limits = LocalProtocolLimits {
            icmp_rate: plan.icmp_rate.into(),
            icmp_burst: plan.icmp_burst.into(),
            secret: secret::draw().map_err(StartError::System)?,
            ..LocalProtocolLimits::default()
        };
        let build = Build {
            frames: plan.frames as usize,
            super_frames: plan.super_frames as usize,
            workers: plan.workers,
            layout: None,
            switch_cost: calibrate(&plan.cpu, &mut CycleMeter::new(CycleCounter::calibrated())),
            limits,
        };
        let observer = |_: WorkerId| -> Box<dyn packet::event::Observer> {
            let (log, taps, traces, arrivals) = (log.clone(), taps.clone(), traces.clone(), arrivals.clone());
            Box::new(WorkerObserver { log, taps, traces, arrivals })
        };
        let (mut router, workers) = Router::new(build, observer);
        let counter = CycleCounter::calibrated();
        let begun = counter.read();
        let clock = esp::InstructionClock::new(move || counter.between(begun, counter.read()));
        let cleaners = esp::Cleaners::default();
        router.set_hook_maker(Arc::new(
            esp::Executor::new().in_large_pages().timed_by(clock).cleaned_by(cleaners.clone()),
        ));
        let mut slices = Slices::default();
        code_options.into_iter().for_each(|code| slices.register_code(code));
        slices.set_guests(guests.clone());
        slices.measure_time(clock::processor_time);
        slices.provide(&mut router);
        let wakers: Vec<Waker> =
            workers.iter().map(|_| Waker::new()).collect::<Result<_, _>>().map_err(StartError::System)?;
        for (index, waker) in wakers.iter().enumerate() {
            let waker = waker.clone();
            router.set_wakeup(WorkerId::at(index), Box::new(move || waker.wake()));
        }
        router.continue_from(units::Generation(history.last()));
        if let Some(InterfaceGuard { login, force }) = &guard {
            let login = login.filter(|_| !force);
            let seized = guard::check_interfaces(plan, None, login.as_slice()).map_err(StartError::Apply)?;
            seized.into_iter().for_each(|warning| warnings.add(warning));
        }
        router.set_time(clock::now());
        let prepared = router.prepare(plan, &mut *opener).map_err(StartError::Apply)?;
        prepared.advisories().chain(memory::warning(plan)).for_each(|warning| warnings.add(warning));
        // All routes at once: no worker thread runs yet, so no packet can see a route before its port.
        let published = router.publish(prepared);
        router.complete(published);
        let mut names = Names::default();
        names.add_generation(router.snapshot());
        let entry = StoredConfiguration {
            generation: router.snapshot().generation.0,
            time_ns: (clock::now() + clock::epoch()).get(),
            who,
            name: name.clone(),
            state: HistoryState::Running,
            restores,
            changes: Vec::new(),
            changes_total: 0,
            text: text.clone(),
        };
        if let Err(warning) = history.push(entry, HistoryState::Replaced) {
            warnings.add(warning);
        }
        let (tables, sets) = (router.tables().clone(), router.sets().clone());
        let control = Control {
            router,
            slices,
            opener,
            text: text.into(),
            name: name.into(),
            adopting: None,
            history,
            pending: None,
            kernel_settings: linux::SettingsByName::new(),
        };
        let daemon = Arc::new(Daemon {
            control: Mutex::new(control),
            tables,
            sets,
            names: ArcSwap::from_pointee(names),
            slice_owners: ArcSwap::default(),
            progress: edit::Progress::default(),
            log,
            taps,
            arrivals,
            traces,
            recording: recording::CpuRecording::default(),
            share_samples: shares::ShareSamples::default(),
            notice: Arc::from(notice),
            state: Arc::new(AtomicU8::new(RUNNING)),
            stop: Arc::new(AtomicBool::new(false)),
            workers: workers::Workers::new(wakers, plan),
            finish: Mutex::new(Some(finish)),
            journal: Mutex::new(Journal { advisories: warnings, next: 1 }),
            linux: OnceLock::new(),
            alarm: Waker::new().map_err(StartError::System)?,
            catalogue: Catalogue { guests, ..plane::catalogue() },
            guarded: guard.is_some(),
            confinement: OnceLock::new(),
            started: clock::now(),
            epoch: clock::epoch(),
        });
        let begun = daemon.spawn(workers, stuck_after, cleaners);
        if let Err(error) = begun.and_then(|()| daemon.first_adoption()).and_then(|()| daemon.start_linux(plan)) {
            daemon.stop();
            return Err(error);
        }
        daemon.restore_flows();
        daemon.log.push(clock::now(), LoggedEvent::Started);
        Ok(daemon)
    }

    fn spawn(
        self: &Arc<Self>,
        workers: Vec<Worker>,
        stuck_after: Nanos,
        cleaners: esp::Cleaners,
    ) -> Result<(), StartError> {
        self.start_workers(workers).map_err(StartError::System)?;
        self.start_watchdog(stuck_after).map_err(StartError::System)?;
        self.start_share_updates().map_err(StartError::System)?;
        self.start_policies().map_err(StartError::System)?;
        self.start_cleaning(cleaners).map_err(StartError::System)?;
        self.start_expiry().map_err(StartError::System)?;
        self.start_share_upkeep().map_err(StartError::System)?;
        let log = self.log.clone();
        let journal = self.spawn_background("journal", Daemon::write_journal, move |next| {
            drop(log.wait_since(next, JOURNAL_INTERVAL))
        });
        journal.map_err(StartError::System)?;
        self.watch_confirmation().map_err(StartError::System)
    }

    fn first_adoption(&self) -> Result<(), StartError> {
        let wanted = self.control.lock().router.snapshot().generation;
        let deadline = clock::now() + ADOPTION_TIMEOUT.into();
        // A worker answers between two steps and adopts in a step, so two rounds suffice.
        while clock::now() < deadline {
            let reports = self.reports().map_err(|_| StartError::AdoptionTimeout)?;
            if reports.iter().all(|report| report.generation == wanted) {
                return Ok(());
            }
        }
        Err(StartError::AdoptionTimeout)
    }

    /// Writes new events to the process's log; returns the number of the next event.
    fn write_journal(&self) -> u64 {
        let mut journal = self.journal.lock();
        for warning in journal.advisories.take() {
            self.log.push(clock::now(), LoggedEvent::Warning(warning));
        }
        self.log.report_old_suppressed(clock::now());
        let (entries, next, missed) = self.log.since(journal.next);
        journal.next = next;
        let names = self.names.load();
        if missed > 0 {
            tracing::warn!("{missed} events arrived too fast to be logged");
        }
        for entry in entries {
            let event = entry.to_reply(&names, self.epoch);
            let subject = event.subject.map_or_else(String::new, |subject| format!("{subject}: "));
            match event.kind {
                api::EventKind::WorkerFailed
                | api::EventKind::WorkerRestarted
                | api::EventKind::WorkerStuck
                | api::EventKind::SchemeFailed => {
                    tracing::error!("{subject}{}", event.text)
                }
                api::EventKind::Refused
                | api::EventKind::Pending
                | api::EventKind::RolledBack
                | api::EventKind::AddressConflict
                | api::EventKind::RouterContradicts
                | api::EventKind::Scheduling
                | api::EventKind::FunctionFailed
                | api::EventKind::SliceFailed
                | api::EventKind::GuestFailed
                | api::EventKind::InstructionFailed
                | api::EventKind::PolicyFailed
                | api::EventKind::Warning => {
                    tracing::warn!("{subject}{}", event.text)
                }
                api::EventKind::Neighbour => tracing::debug!("{subject}{}", event.text),
                _ => tracing::info!("{subject}{}", event.text),
            }
        }
        next
    }

    /// Records the dropped privileges. Later configurations must respect `fence`. Only the first call counts.
    pub fn record_confinement(&self, confined: &Confined, fence: PrivilegeLimits) {
        let told = api::Confinement {
            user: confined.user.clone(),
            capabilities: confined.capabilities.iter().map(ToString::to_string).collect(),
            landlock: confined.landlock,
            seccomp: confined.seccomp,
            new_ports: !fence.no_new_ports,
        };
        if self.confinement.set((told, fence)).is_ok() {
            confined
                .advisories
                .iter()
                .for_each(|warning| self.log.push(clock::now(), LoggedEvent::Warning(warning.clone())));
        }
    }

    /// Returns the state of the router.
    pub fn state(&self) -> api::RouterState {
        match self.state.load(Ordering::Acquire) {
            RUNNING if self.workers.is_progressing() => api::RouterState::Running,
            RUNNING => api::RouterState::Degraded,
            STOPPING => api::RouterState::Stopping,
            _ => api::RouterState::Failed,
        }
    }

    /// Returns the open captures.
    pub fn taps(&self) -> &Arc<CaptureTaps> {
        &self.taps
    }

    /// Returns packets as received, for the captures that want them.
    pub(crate) fn arrivals(&self) -> &ReceivedFrames {
        &self.arrivals
    }

    /// Returns the open traces.
    pub fn traces(&self) -> &Arc<Traces> {
        &self.traces
    }

    /// Returns the present names by id.
    pub fn names(&self) -> Arc<Names> {
        self.names.load_full()
    }

    /// Returns the frame pool of its ports. Tests and benchmarks at the far end of a memory link take frames from it.
    pub fn region(&self) -> Arc<Region> {
        self.control.lock().router.region().clone()
    }

    /// Returns the offset from times of the router to nanoseconds since 1970-01-01 UTC.
    pub fn epoch(&self) -> Nanos {
        self.epoch
    }

    /// Ends the router: every worker drops its packets with a reason, and closes its ports. Returns the fates of all packets, as far as a stuck
    /// worker has reported them. A second call does nothing.
    pub fn stop(&self) -> FinalReport {
        if self.state.compare_exchange(RUNNING, STOPPING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.log.push(clock::now(), LoggedEvent::Stopping);
        }
        self.stop.store(true, Ordering::Relaxed);
        // The trial thread sleeps on this alarm and has to notice the end.
        self.alarm.wake();
        self.linux.get().into_iter().for_each(linux::Linux::wake);
        let (reports, all_ended) = self.end_workers();
        self.taps.close();
        self.traces.close();
        // With a stuck worker the wait would be endless, because it still holds output.
        let finish = self.finish.lock().take().filter(|_| all_ended);
        finish.into_iter().for_each(|finish| finish());
        self.write_journal();
        FinalReport {
            ledgers: report::ledgers(&reports),
            ports: self.ports_of(&reports),
            drops: self.drops_of(&reports),
            uptime_ns: clock::now().since(self.started).get(),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.alarm.wake();
        self.linux.get().into_iter().for_each(linux::Linux::wake);
        self.stop.store(true, Ordering::Relaxed);
        self.workers.wake();
    }
}
