//! The threads of the workers: starts and pins them, watches them, requests their reports, and ends them.

use super::heartbeat::{Activity, Heartbeat};
use super::report::NoReport;
use super::watchdog::{Finding, TICK, Watchdog};
use super::worker_thread::{Driver, PanicOutcome, WorkerPanic, run_worker};
use super::{Daemon, FAILED, Notice, REPORT_TIMEOUT};
use crate::api;
use crate::events::{EventLog, LoggedEvent};
use io::clock;
use io::cores;
use io::wait::Waker;
use parking_lot::Mutex;
use plan::{Cores, Plan};
use plane::{ApplyError, Command, Worker, WorkerReport};
use std::io::Result;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use units::{Nanos, WorkerId};

/// The longest wait for the end of a worker.
const END_TIMEOUT: Nanos = Nanos::secs(5);

/// The worker threads, as the control side sees them.
pub(super) struct Workers {
    wakers: Vec<Waker>,
    pub heartbeats: Vec<Arc<Heartbeat>>,
    cores: Cores,
    /// How long they poll before they sleep, in nanoseconds.
    spin: Arc<AtomicU64>,
    running: Mutex<Option<WorkerThreads>>,
    /// The latest report of each worker, used for a worker that does not answer.
    latest: Arc<Mutex<Vec<WorkerReport>>>,
}

/// The started threads.
struct WorkerThreads {
    threads: Vec<JoinHandle<()>>,
    /// Receives each worker that has ended; none for one that has failed for good.
    ended: Receiver<Option<Box<Worker>>>,
}

impl Workers {
    pub fn new(wakers: Vec<Waker>, plan: &Plan) -> Workers {
        let now = clock::now();
        Workers {
            heartbeats: wakers.iter().map(|_| Arc::new(Heartbeat::new(now))).collect(),
            wakers,
            cores: plan.cores.clone(),
            spin: Arc::new(AtomicU64::new(plan.busy_poll.get())),
            running: Mutex::new(None),
            latest: Arc::default(),
        }
    }

    /// Wakes all workers.
    pub fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Returns whether every worker makes progress.
    pub fn is_progressing(&self) -> bool {
        !self.heartbeats.iter().any(|pulse| pulse.is_stuck() || pulse.activity() == Activity::GivenUp)
    }

    /// Sets how long workers poll before they sleep.
    pub fn set_spin(&self, spin: Nanos) {
        self.spin.store(spin.get(), Ordering::Relaxed);
    }

    fn core(&self, worker: usize) -> Option<u16> {
        self.cores.list().get(worker).copied()
    }
}

/// Checks whether this process may run on the configured cores.
pub(super) fn check_cores(wanted: &Cores) -> std::result::Result<(), ApplyError> {
    let refuse = |reason: String, hint: String| Err(ApplyError { place: "router.cores".into(), reason, hint });
    if wanted.list().is_empty() {
        return Ok(());
    }
    let allowed = match cores::allowed() {
        Ok(allowed) => allowed,
        Err(error) => {
            return refuse(format!("cannot find the cores of this machine: {error}"), "leave it out".into());
        }
    };
    let Some(missing) = wanted.list().iter().find(|core| !allowed.contains(core)) else { return Ok(()) };
    let allowed: Vec<String> = allowed.iter().map(u16::to_string).collect();
    let allowed: std::result::Result<Cores, _> = allowed.join(",").parse();
    let hint = allowed.map_or("name others".into(), |allowed| format!("list some of {allowed}, or remove the key"));
    refuse(format!("this process must not run on core {missing}"), hint)
}

/// Handles the failure of a worker.
struct FailureHandler {
    worker: WorkerId,
    state: Arc<AtomicU8>,
    log: Arc<EventLog>,
    notice: Arc<dyn Fn(Notice) + Send + Sync>,
    latest: Arc<Mutex<Vec<WorkerReport>>>,
}

impl FailureHandler {
    fn handle(&self, fault: WorkerPanic) {
        let (worker, now) = (self.worker, clock::now());
        let WorkerPanic { reason, outcome } = fault;
        let (why, report) = match outcome {
            PanicOutcome::Restarted { lost } => {
                return self.log.push(now, LoggedEvent::WorkerRestarted { worker, reason, lost });
            }
            PanicOutcome::GivenUp { why, report } => (why, report),
        };
        let reason = format!("{reason}; {why}");
        if let Some(report) = report {
            let mut latest = self.latest.lock();
            latest.retain(|report| report.worker != worker);
            latest.push(*report);
        }
        self.log.push(now, LoggedEvent::WorkerFailed { worker, reason: reason.clone() });
        if worker == WorkerId(0) {
            // The first worker runs the local protocols; without it the router is lost.
            self.state.store(FAILED, Ordering::Release);
            (self.notice)(Notice::Failed(format!("worker {worker} has failed: {reason}")));
        }
    }
}

/// Reports of all workers, in order. When dropped, they become the latest reports.
pub(super) struct Reports<'a> {
    workers: &'a Workers,
    list: Vec<WorkerReport>,
}

impl Deref for Reports<'_> {
    type Target = [WorkerReport];
    fn deref(&self) -> &[WorkerReport] {
        &self.list
    }
}

impl Drop for Reports<'_> {
    fn drop(&mut self) {
        let mut latest = self.workers.latest.lock();
        for report in self.list.drain(..) {
            let gone = self.workers.heartbeats[report.worker.index()].activity() == Activity::GivenUp;
            match latest.iter_mut().find(|known| known.worker == report.worker) {
                // The last report of a failed worker is already there, and final.
                Some(_) if gone => {}
                Some(known) => *known = report,
                None => latest.push(report),
            }
        }
    }
}

impl Daemon {
    pub(super) fn start_workers(&self, workers: Vec<Worker>) -> Result<()> {
        let count = Arc::new(AtomicUsize::new(workers.len()));
        let (sender, ended) = channel();
        let mut running = self.workers.running.lock();
        let threads = &mut running.insert(WorkerThreads { threads: Vec::new(), ended }).threads;
        for (index, (worker, waker)) in workers.into_iter().zip(&self.workers.wakers).enumerate() {
            let (notice, count) = (self.notice.clone(), count.clone());
            let exhausted = Box::new(move || {
                if count.fetch_sub(1, Ordering::AcqRel) == 1 {
                    notice(Notice::Exhausted);
                }
            });
            let failure = FailureHandler {
                worker: WorkerId::at(index),
                state: self.state.clone(),
                log: self.log.clone(),
                notice: self.notice.clone(),
                latest: self.workers.latest.clone(),
            };
            let driver = Driver {
                worker,
                waker: waker.clone(),
                stop: self.stop.clone(),
                heartbeat: self.workers.heartbeats[index].clone(),
                spin: self.workers.spin.clone(),
                exhausted,
                fault: Box::new(move |fault| failure.handle(fault)),
            };
            let (core, log, sender) = (self.workers.core(index), self.log.clone(), sender.clone());
            let run = move || {
                if let Some(core) = core
                    && let Err(error) = cores::pin(core)
                {
                    let warning = format!("cannot pin worker {index} to core {core}: {error}");
                    log.push(clock::now(), LoggedEvent::Warning(warning));
                }
                // Optional: without it the worker only sleeps a little longer.
                let _ = cores::sleep_exactly();
                let worker = run_worker(driver);
                // If the router no longer listens, the worker and its ports are dropped here.
                let _ = sender.send(worker);
            };
            threads.push(thread::Builder::new().name(format!("worker {index}")).spawn(run)?);
        }
        Ok(())
    }

    pub(super) fn start_watchdog(self: &Arc<Self>, patience: Nanos) -> Result<()> {
        let mut dog = Watchdog::new(patience);
        let look = move |daemon: &Daemon| {
            let now = clock::now();
            for finding in dog.check(now, &daemon.workers.heartbeats) {
                let what = match finding {
                    Finding::Stuck(worker, time) => LoggedEvent::WorkerStuck { worker, time },
                    Finding::Recovered(worker, time) => LoggedEvent::WorkerRecovered { worker, time },
                };
                daemon.log.push(now, what);
            }
        };
        self.spawn_background("watchdog", look, |()| thread::park_timeout(TICK.into()))
    }

    /// Returns whether every worker makes progress, for the supervisor of this process.
    pub fn is_progressing(&self) -> bool {
        self.workers.is_progressing()
    }

    /// Returns the report of every worker, made between two of its steps. For a worker that is stuck or has failed it is the latest known one.
    pub(super) fn reports(&self) -> std::result::Result<Reports<'_>, NoReport> {
        let mut waiting: Vec<(WorkerId, Receiver<WorkerReport>)> = Vec::new();
        let mut list: Vec<WorkerReport> = Vec::new();
        let mut silent: Vec<WorkerId> = Vec::new();
        {
            let control = self.control.lock();
            for (index, pulse) in self.workers.heartbeats.iter().enumerate() {
                let worker = WorkerId::at(index);
                if !pulse.is_responsive() {
                    silent.push(worker);
                    continue;
                }
                let (sender, receiver) = channel();
                control.router.post_to(worker, Command::Report(sender));
                waiting.push((worker, receiver));
            }
        }
        // One deadline for all: the workers were asked together and answer in parallel.
        let deadline = clock::now() + REPORT_TIMEOUT.into();
        let mut late = false;
        for (worker, receiver) in waiting {
            match receiver.recv_timeout(deadline.since(clock::now()).into()) {
                Ok(report) => list.push(report),
                // It fails or restarts at this moment; the others are still asked.
                Err(error) => {
                    late |= error == RecvTimeoutError::Timeout;
                    silent.push(worker);
                }
            }
        }
        {
            let latest = self.workers.latest.lock();
            let last = |worker: &WorkerId| latest.iter().find(|report| report.worker == *worker).cloned();
            list.extend(silent.iter().filter_map(last));
        }
        // A late worker with an earlier report counts with that report; without one the sums would be wrong.
        if list.is_empty() || late && list.len() < self.workers.heartbeats.len() {
            return Err(NoReport);
        }
        list.sort_by_key(|report| report.worker);
        Ok(Reports { workers: &self.workers, list })
    }

    /// Returns the workers that answer.
    pub(super) fn responsive_workers(&self) -> Vec<WorkerId> {
        let answers = self.workers.heartbeats.iter().enumerate().filter(|(_, pulse)| pulse.is_responsive());
        answers.map(|(index, _)| WorkerId::at(index)).collect()
    }

    /// Returns all workers, whether they answer or not.
    pub fn workers(&self) -> api::Workers {
        let now = clock::now();
        // Read before the reports are requested, because a request wakes a sleeping worker.
        let told =
            |(index, pulse): (usize, &Arc<Heartbeat>)| pulse.to_reply(index as u16, self.workers.core(index), now);
        let mut workers: Vec<api::WorkerReply> = self.workers.heartbeats.iter().enumerate().map(told).collect();
        for report in self.reports().iter().flat_map(|reports| reports.iter()) {
            let worker = &mut workers[report.worker.index()];
            worker.handed_over_packets = report.ledger.handed_over();
            worker.taken_over_packets = report.ledger.taken_over();
            worker.held_packets = report.held_packets;
            worker.stalls = api::CounterFields(report.stalls);
        }
        api::Workers { time_ns: (now + self.epoch).get(), spin_ns: self.workers.spin.load(Ordering::Relaxed), workers }
    }

    /// Ends the threads. Returns the last report of each worker, and whether all have ended.
    pub(super) fn end_workers(&self) -> (Vec<WorkerReport>, bool) {
        self.workers.wake();
        let Some(WorkerThreads { threads, ended }) = self.workers.running.lock().take() else {
            return (Vec::new(), true);
        };
        let deadline = clock::now() + END_TIMEOUT;
        let mut workers = Vec::new();
        let mut left = threads.len();
        while left > 0 {
            let Ok(worker) = ended.recv_timeout(deadline.since(clock::now()).into()) else { break };
            workers.extend(worker);
            left -= 1;
        }
        if left == 0 {
            // Each thread sends its worker as its last action; an earlier panic has been reported.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
        let now = clock::now();
        // No worker runs any more, so packets handed off between them in the meantime can be counted now.
        let finish = |worker: &mut Box<Worker>| {
            let work = || {
                worker.shut_down(now);
                worker.report()
            };
            catch_unwind(AssertUnwindSafe(work)).ok()
        };
        let mut reports: Vec<WorkerReport> = workers.iter_mut().filter_map(finish).collect();
        for report in self.workers.latest.lock().drain(..) {
            if !reports.iter().any(|known| known.worker == report.worker) {
                reports.push(report);
            }
        }
        reports.sort_by_key(|report| report.worker);
        (reports, left == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RUNNING;
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn only_the_failure_of_the_first_worker_fails_the_router() {
        for (worker, expected) in [(0, FAILED), (3, RUNNING)] {
            let (log, state) = (Arc::new(EventLog::default()), Arc::new(AtomicU8::new(RUNNING)));
            let (sender, notices) = channel();
            let failure = FailureHandler {
                worker: WorkerId(worker),
                state: state.clone(),
                log: log.clone(),
                notice: Arc::new(move |notice| drop(sender.send(notice))),
                latest: Arc::default(),
            };
            failure.handle(WorkerPanic { reason: "7 is 8".into(), outcome: PanicOutcome::Restarted { lost: 3 } });
            assert_eq!(state.load(Ordering::Relaxed), RUNNING);
            let why = "it has failed too often".to_owned();
            failure
                .handle(WorkerPanic { reason: "7 is 8".into(), outcome: PanicOutcome::GivenUp { why, report: None } });
            assert_eq!(state.load(Ordering::Relaxed), expected);
            let said = format!("worker {worker} has failed: 7 is 8; it has failed too often");
            assert_eq!(notices.try_recv().ok(), (worker == 0).then_some(Notice::Failed(said)));
            let (entries, ..) = log.since(0);
            let [restarted, failed] = &entries[..] else { panic!("{entries:?}") };
            assert!(matches!(restarted.event, LoggedEvent::WorkerRestarted { lost: 3, .. }));
            assert!(matches!(failed.event, LoggedEvent::WorkerFailed { .. }));
        }
    }

    #[test]
    fn missing_core_error_lists_available_cores() {
        let allowed = cores::allowed().unwrap();
        assert_eq!(check_cores(&Cores::default()), Ok(()));
        assert_eq!(check_cores(&allowed[0].to_string().parse().unwrap()), Ok(()));
        let Some(missing) = (0..1024).find(|core| !allowed.contains(core)) else { return };
        let refused = check_cores(&format!("{},{missing}", allowed[0]).parse().unwrap()).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("router.cores: this process must not run on core {missing}; list")),
            "{refused}"
        );
    }
}
