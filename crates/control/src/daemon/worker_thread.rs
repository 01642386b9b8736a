//! The thread of a worker. It steps while there is work, polls for a moment, then sleeps until a port, another thread or a timer wakes it. After a
//! panic the worker restarts in the same thread, a few times.

use super::heartbeat::{Activity, Heartbeat};
use cpu::meter::{Work, WorkKind, WorkMeter};
use io::clock::{self, CycleCounter};
use io::preempt::PreemptThreads;
use io::wait::{self, Sleeper, WakeReason, Waker};
use packet::containment::panic_text;
use packet::port::WakeSource;
use plane::{StepResult, Worker, WorkerReport};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{Generation, Instant, Nanos};

/// The sleep of a worker with a port that must be polled: first and longest.
const NAPS: (Nanos, Nanos) = (Nanos::micros(50), Nanos::millis(1));
/// How early a sleep ends before an emulated link is due: the usual wakeup latency of a thread.
const WAKE_EARLY: Nanos = Nanos::micros(120);
/// A worker that panics more often than this within this time is given up.
const RESTARTS: (usize, Nanos) = (5, Nanos::secs(60));

/// Charges tasks with processor time, measured by the cycle counter.
struct WorkerMeter {
    counter: CycleCounter,
    last: u64,
    /// Packets moved since the start, and the time for it.
    moved: u64,
    busy: Nanos,
}

impl WorkMeter for WorkerMeter {
    const MEASURES_PROCESSOR: bool = true;
    #[inline]
    fn lap(&mut self, work: Work) -> Nanos {
        self.counter.spin(work.extra_time);
        let now = self.counter.read();
        let used = self.counter.between(self.last, now);
        self.last = now;
        self.moved += u64::from(work.packets);
        // An interrupted function has used time, but has not moved its packets yet.
        if work.packets > 0 || work.kind == WorkKind::Forwarding {
            self.busy += used;
        }
        used
    }
}

/// The parameters of a worker's thread.
pub(super) struct Driver {
    pub worker: Worker,
    pub waker: Waker,
    pub stop: Arc<AtomicBool>,
    pub heartbeat: Arc<Heartbeat>,
    /// How long to poll before sleeping, in nanoseconds.
    pub spin: Arc<AtomicU64>,
    /// Called once when no packet can arrive any more and all have met their fates, or when the worker is given up.
    pub exhausted: Box<dyn FnOnce() + Send>,
    /// Called when the worker has failed.
    pub fault: Box<dyn FnMut(WorkerPanic) + Send>,
}

/// A panic of a worker.
#[derive(Debug)]
pub(super) struct WorkerPanic {
    /// The panic message.
    pub reason: String,
    /// The state of the worker after it.
    pub outcome: PanicOutcome,
}

/// See [`WorkerPanic`].
#[derive(Debug)]
pub(super) enum PanicOutcome {
    /// It was restarted and has lost this many packets.
    Restarted { lost: u64 },
    /// It was given up for this reason; its last report, if there is one.
    GivenUp { why: String, report: Option<Box<WorkerReport>> },
}

/// Drives a worker until told to stop. Returns the worker when it holds no packets; none if it has failed for good.
pub(super) fn run_worker(driver: Driver) -> Option<Box<Worker>> {
    let mut thread = WorkerThread::new(driver);
    let mut restarts = Restarts::default();
    loop {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| thread.run())) else { break };
        let now = clock::now();
        if let Err(why) = thread.restart(&mut restarts, now, &panic_text(&*panic)) {
            thread.give_up(panic_text(&*panic), why);
            return None;
        }
    }
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| thread.worker.shut_down(clock::now()))) {
        thread.give_up(panic_text(&*panic), "it was stopping".into());
        return None;
    }
    thread.heartbeat.set_activity(Activity::Ended);
    Some(thread.worker)
}

/// The times of recent restarts.
#[derive(Debug, Default)]
struct Restarts(VecDeque<Instant>);

impl Restarts {
    /// Counts a restart. Returns whether it is allowed.
    fn allow(&mut self, now: Instant) -> bool {
        while self.0.front().is_some_and(|&then| now.since(then) >= RESTARTS.1) {
            self.0.pop_front();
        }
        let allowed = self.0.len() < RESTARTS.0;
        if allowed {
            self.0.push_back(now);
        }
        allowed
    }
}

/// The state of a worker's thread.
struct WorkerThread {
    worker: Box<Worker>,
    stop: Arc<AtomicBool>,
    heartbeat: Arc<Heartbeat>,
    spin: Arc<AtomicU64>,
    exhausted: Option<Box<dyn FnOnce() + Send>>,
    fault: Box<dyn FnMut(WorkerPanic) + Send>,
    meter: WorkerMeter,
    sleeper: Sleeper,
    descriptors: Vec<i32>,
    /// The time since which it has been idle.
    idle_since: Option<Instant>,
    /// The number of moved packets at the previous step.
    moved: u64,
    nap: Nanos,
}

impl WorkerThread {
    fn new(driver: Driver) -> WorkerThread {
        let Driver { mut worker, waker, stop, heartbeat: pulse, spin, exhausted, fault } = driver;
        worker.set_function_threads(Box::new(PreemptThreads::new()));
        let counter = CycleCounter::calibrated();
        wait::sleep_exactly();
        WorkerThread {
            worker: Box::new(worker),
            stop,
            heartbeat: pulse,
            spin,
            exhausted: Some(exhausted),
            fault,
            meter: WorkerMeter { last: counter.read(), counter, moved: 0, busy: Nanos::ZERO },
            sleeper: Sleeper::new(waker),
            descriptors: Vec::new(),
            idle_since: None,
            moved: 0,
            nap: NAPS.0,
        }
    }

    fn restart(&mut self, restarts: &mut Restarts, now: Instant, reason: &str) -> Result<(), String> {
        if !restarts.allow(now) {
            return Err(format!(
                "it has failed {} times within {} s",
                RESTARTS.0 + 1,
                RESTARTS.1.get() / 1_000_000_000
            ));
        }
        let begun = catch_unwind(AssertUnwindSafe(|| self.worker.restart(now)));
        let lost = begun.map_err(|panic| panic_text(&*panic))?.map_err(|half| half.to_string())?;
        self.heartbeat.record_restart();
        (self.fault)(WorkerPanic { reason: reason.into(), outcome: PanicOutcome::Restarted { lost } });
        Ok(())
    }

    /// Gives up a worker: settles its counters and reports the fault. Dropping it closes its ports.
    fn give_up(mut self, reason: String, why: String) {
        let report = catch_unwind(AssertUnwindSafe(|| {
            self.worker.give_up();
            Box::new(self.worker.report())
        }));
        self.heartbeat.set_activity(Activity::GivenUp);
        (self.fault)(WorkerPanic { reason, outcome: PanicOutcome::GivenUp { why, report: report.ok() } });
        self.notify_exhausted();
        // Closing a port may panic again; nothing is left to recover.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self.worker)));
    }

    fn notify_exhausted(&mut self) {
        self.exhausted.take().into_iter().for_each(|tell| tell());
    }

    fn run(&mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let now = clock::now();
            self.heartbeat.beat(now);
            let step = self.worker.step(now, &mut self.meter);
            self.heartbeat.record_work(self.meter.moved, self.meter.busy);
            if self.meter.moved != self.moved {
                if self.idle_since.is_some() {
                    self.heartbeat.set_activity(Activity::Working);
                }
                (self.idle_since, self.moved, self.nap) = (None, self.meter.moved, NAPS.0);
            }
            if let StepResult::Idle(until) = step {
                self.idle(now, until);
            }
        }
    }

    /// Handles a step without work: polls, or sleeps.
    fn idle(&mut self, now: Instant, until: Instant) {
        let since = *self.idle_since.get_or_insert_with(|| {
            self.heartbeat.set_activity(Activity::Spinning);
            now
        });
        let exactly = self.worker.due_exactly();
        let polls = !self.worker.is_timer_driven() && now.since(since).get() < self.spin.load(Ordering::Relaxed);
        // An emulated link that is due within the wakeup latency is polled for: a sleep would end too late.
        if polls || exactly.since(now) <= WAKE_EARLY {
            return std::hint::spin_loop();
        }
        let awake = Instant::new(exactly.get().saturating_sub(WAKE_EARLY.get()));
        let until = until.max(self.worker.sleep_deadline()).min(awake);
        let Some(mut timeout) = sleep_timeout(&self.worker, &mut self.descriptors, now, until) else {
            // No port can receive any more; the worker is done once it holds no packets.
            if self.exhausted.is_some() && self.worker.report().held_packets == 0 {
                self.notify_exhausted();
            }
            self.heartbeat.set_activity(Activity::Asleep);
            let _ = self.sleeper.sleep_on([], until.since(clock::now()));
            self.meter.last = self.meter.counter.read();
            return;
        };
        // No descriptor reports arrivals on such a port: nap instead, twice as long each time while the worker is idle.
        if timeout > self.nap && self.descriptors.contains(&POLLED) {
            timeout = self.nap;
            self.nap = (self.nap * 2).min(NAPS.1);
        }
        self.descriptors.retain(|&fd| fd != POLLED);
        // The worker first asks its peers for wakeups and then checks its mailboxes again: otherwise a post in between would be missed.
        if !self.worker.prepare_sleep() {
            return;
        }
        self.heartbeat.set_activity(Activity::Asleep);
        // Poll again for a moment after a wakeup, because more packets are likely.
        if let Ok(WakeReason::Signalled | WakeReason::Ready) =
            self.sleeper.sleep_on(self.descriptors.drain(..), timeout)
        {
            self.idle_since = None;
            self.heartbeat.record_wakeup();
        }
        self.worker.end_sleep();
        // The time asleep is charged to no task.
        self.meter.last = self.meter.counter.read();
    }
}

/// A placeholder for a port that must be polled, among descriptors.
const POLLED: i32 = -1;

/// Returns how long to sleep, and fills in the descriptors to wait for; none if no packet can arrive on any port any more.
fn sleep_timeout(worker: &Worker, descriptors: &mut Vec<i32>, now: Instant, until: Instant) -> Option<Nanos> {
    descriptors.clear();
    let (mut until, mut ports, mut ended) = (until, 0, 0);
    for waiter in worker.waiters() {
        ports += 1;
        match waiter {
            WakeSource::Descriptor(fd) => descriptors.push(fd),
            WakeSource::At(time) => until = until.min(time),
            WakeSource::Poll => descriptors.push(POLLED),
            WakeSource::WakesWorker => {}
            WakeSource::Never => ended += 1,
        }
    }
    let timeout = if until == Instant::NEVER { Nanos::MAX } else { until.since(now) };
    // Before the first configuration the ports are unknown.
    (ended < ports || worker.generation() == Generation(0)).then_some(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_restarts_at_most_five_times_a_minute() {
        let mut restarts = Restarts::default();
        let at = |seconds| Instant::START + Nanos::secs(seconds);
        let allowed: Vec<u64> = (0..200).step_by(10).filter(|&second| restarts.allow(at(second))).collect();
        assert_eq!(allowed, [0, 10, 20, 30, 40, 60, 70, 80, 90, 100, 120, 130, 140, 150, 160, 180, 190]);
    }
}
