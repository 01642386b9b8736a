//! The thread of a worker: steps while there is work, spins for a moment, then sleeps until a port, another thread or
//! the time wakes it.

use io::clock::{self, CycleCounter};
use io::wait::{Sleeper, Waker, Woken};
use plane::meter::{Meter, Work};
use plane::port::Waiter;
use plane::{Step, Worker, WorkerReport};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Generation, Instant, Nanos};

/// How long a worker looks for work before it sleeps: about what falling asleep and waking costs.
const SPIN: Nanos = Nanos::micros(50);
/// How long a worker with a port that gives no sign sleeps, at first and at most.
const NAPS: (Nanos, Nanos) = (Nanos::micros(50), Nanos::millis(1));

/// Charges tasks with the time of the processor's cycle counter.
struct Cycles {
    counter: CycleCounter,
    last: u64,
    /// Packets moved since the start.
    moved: u64,
}

impl Meter for Cycles {
    #[inline]
    fn lap(&mut self, work: Work) -> Nanos {
        let now = self.counter.read();
        let used = self.counter.between(self.last, now);
        self.last = now;
        self.moved += u64::from(work.packets);
        used
    }
}

/// What a worker's thread needs.
pub(super) struct Driver {
    pub worker: Worker,
    pub waker: Waker,
    pub stop: Arc<AtomicBool>,
    /// Called once when nothing can ever arrive any more and everything has met its fate.
    pub exhausted: Box<dyn FnOnce() + Send>,
}

/// Steps until told to stop; answers the worker's last report, when it holds nothing any more.
pub(super) fn drive(driver: Driver) -> WorkerReport {
    let Driver { mut worker, waker, stop, exhausted } = driver;
    let mut exhausted = Some(exhausted);
    let counter = CycleCounter::calibrated();
    let mut meter = Cycles { last: counter.read(), counter, moved: 0 };
    let mut sleeper = Sleeper::new(waker);
    let mut descriptors = Vec::new();
    let (mut idle_since, mut moved, mut nap) = (None, 0, NAPS.0);
    while !stop.load(Ordering::Relaxed) {
        let now = clock::now();
        let Step::Idle(until) = worker.step(now, &mut meter) else { continue };
        if meter.moved != moved {
            (idle_since, moved, nap) = (None, meter.moved, NAPS.0);
        }
        if now.since(*idle_since.get_or_insert(now)) < SPIN {
            std::hint::spin_loop();
            continue;
        }
        let Some(mut timeout) = waiting(&worker, &mut descriptors, now, until) else {
            if exhausted.is_some() && worker.report().held == 0 {
                exhausted.take().into_iter().for_each(|tell| tell());
            }
            let _ = sleeper.sleep_on([], until.since(clock::now()));
            meter.last = meter.counter.read();
            continue;
        };
        if timeout > nap && descriptors.contains(&POLLED) {
            timeout = nap;
            nap = (nap * 2).min(NAPS.1);
        }
        descriptors.retain(|&fd| fd != POLLED);
        if !worker.may_sleep() {
            continue;
        }
        // Woken by a port or another thread, it looks around for a moment before it sleeps again.
        if let Ok(Woken::Rung | Woken::Ready) = sleeper.sleep_on(descriptors.drain(..), timeout) {
            idle_since = None;
        }
        worker.wakes();
        // What passed in sleep is nobody's work.
        meter.last = meter.counter.read();
    }
    worker.shut_down(clock::now());
    worker.report()
}

/// Stands for a port that has to be polled, among descriptors.
const POLLED: i32 = -1;

/// What to sleep on and for how long; nothing where no packet will ever arrive by any port.
fn waiting(worker: &Worker, descriptors: &mut Vec<i32>, now: Instant, until: Instant) -> Option<Nanos> {
    descriptors.clear();
    let (mut until, mut ports, mut ended) = (until, 0, 0);
    for waiter in worker.waiters() {
        ports += 1;
        match waiter {
            Waiter::Descriptor(fd) => descriptors.push(fd),
            Waiter::At(time) => until = until.min(time),
            Waiter::Poll => descriptors.push(POLLED),
            Waiter::Rung => {}
            Waiter::Never => ended += 1,
        }
    }
    let timeout = if until == Instant::FAR { Nanos::MAX } else { until.since(now) };
    // Before the first configuration nothing is known of what will arrive.
    (ended < ports || worker.generation() == Generation(0)).then_some(timeout)
}
