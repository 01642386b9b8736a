//! The time of a world on real packets. The router's processor advances it, slower than machine time by a fixed factor. It stops while either
//! processor does other work.

use cpu::meter::{Work, WorkKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Reads machine time.
pub trait MonotonicClock: Send + Sync {
    /// Nanoseconds since a fixed moment, the same on all processors.
    fn now(&self) -> u64;
}

/// While the router has its processor, two looks at the clock are never further apart. A longer gap means that another process had the processor.
/// Handing a batch of frames to the kernel takes a third of this.
const PREEMPTION_GAP: u64 = 400_000;
/// If the end systems have not looked at the time for so long, they have lost their processor.
const SILENCE_LIMIT: u64 = 150_000;
/// Looks without progress of time before the thread yields its processor.
const PATIENCE: u32 = 64;

/// The state that the router shares with the end systems.
pub(crate) struct WorldClock {
    pub clock: Arc<dyn MonotonicClock>,
    /// World time.
    now: AtomicU64,
    /// When the end systems last looked at it, in machine time.
    last_read: AtomicU64,
    end_systems_done: AtomicBool,
    router_done: AtomicBool,
}

impl WorldClock {
    pub fn new(clock: Arc<dyn MonotonicClock>) -> Arc<WorldClock> {
        let seen = AtomicU64::new(clock.now());
        let (stations_over, router_over) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(WorldClock {
            clock,
            now: AtomicU64::new(0),
            last_read: seen,
            end_systems_done: stations_over,
            router_done: router_over,
        })
    }

    /// World time, for the end systems. The call also shows that they have their processor.
    pub fn read(&self) -> u64 {
        self.last_read.store(self.clock.now(), Ordering::Release);
        self.now.load(Ordering::Acquire)
    }

    /// True if the router has reached the end of the world, or has failed.
    pub fn is_router_done(&self) -> bool {
        self.router_done.load(Ordering::Acquire)
    }
}

/// Reports the end of one side when it is dropped, also by a panic, so that the other side does not wait for it.
pub(crate) struct EndNotice {
    common: Arc<WorldClock>,
    router: bool,
}

impl EndNotice {
    pub fn router(common: &Arc<WorldClock>) -> EndNotice {
        EndNotice { common: common.clone(), router: true }
    }

    pub fn end_systems(common: &Arc<WorldClock>) -> EndNotice {
        EndNotice { common: common.clone(), router: false }
    }
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        let flag = if self.router { &self.common.router_done } else { &self.common.end_systems_done };
        flag.store(true, Ordering::Release);
    }
}

/// The real cost of one kind of work, in nanoseconds of machine time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LapCost {
    pub laps: u64,
    pub packets: u64,
    pub time: u64,
}

impl LapCost {
    /// Nanoseconds for each packet, or for each lap if the work has no packets.
    pub fn each(&self) -> f64 {
        let units = if self.packets > 0 { self.packets } else { self.laps };
        if units > 0 { self.time as f64 / units as f64 } else { 0.0 }
    }
}

/// The machine's overhead beyond the declared costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineOverhead {
    /// The kinds of work: polls without packets, switches, input, functions, output.
    pub work: [LapCost; 5],
    pub laps: u64,
    /// Laps that took longer than the world declares, if it declares a cost for them.
    pub exceeded_laps: u64,
    /// The sum of the excess, in nanoseconds of machine time.
    pub excess: u64,
    /// How long world time was stopped, in nanoseconds of machine time, and how often.
    pub stopped: u64,
    pub stops: u64,
}

/// The names of the entries of [`MachineOverhead::work`].
pub(crate) const WORK_NAMES: [&str; 5] = ["poll", "switch", "input", "forwarding", "output"];

/// Enforces declared costs: a lap lasts as long as the world declares, unless the real work took longer.
pub(crate) struct Pacer {
    common: Arc<WorldClock>,
    slower: u64,
    /// Machine time at the last look.
    last: u64,
    /// Nanoseconds of machine time that count as world time.
    counted: u64,
    /// The end of the last lap, in world time.
    lap: u64,
    patience: u32,
    pub overhead: MachineOverhead,
}

impl Pacer {
    pub fn new(common: Arc<WorldClock>, slower: u64) -> Pacer {
        let last = common.clock.now();
        Pacer { common, slower, last, counted: 0, lap: 0, patience: 0, overhead: MachineOverhead::default() }
    }

    /// World time.
    pub fn now(&self) -> u64 {
        self.counted / self.slower
    }

    /// Looks at the clock. Returns world time.
    #[inline]
    pub fn advance(&mut self) -> u64 {
        let time = self.common.clock.now();
        let since = time.saturating_sub(self.last);
        self.last = time;
        let alone = self.common.end_systems_done.load(Ordering::Relaxed);
        // Without end systems there is none to wait for.
        let silent = time.saturating_sub(self.common.last_read.load(Ordering::Acquire)) > SILENCE_LIMIT && !alone;
        if since > PREEMPTION_GAP || silent {
            self.stop_time(since);
        } else {
            self.counted += since;
            self.patience = 0;
            self.common.now.store(self.now(), Ordering::Release);
        }
        self.now()
    }

    #[cold]
    fn stop_time(&mut self, since: u64) {
        self.overhead.stopped += since;
        self.overhead.stops += u64::from(self.patience == 0);
        self.patience += 1;
        if self.patience > PATIENCE {
            std::thread::yield_now();
        }
    }

    /// Excludes the time since the last look from world time.
    pub fn skip(&mut self) {
        self.last = self.common.clock.now();
    }

    /// Begins a lap at `now`, or at the end of the previous lap if that is later.
    pub fn begin(&mut self, now: u64) {
        self.lap = self.lap.max(now);
    }

    /// Completes work with a declared cost. Waits until the cost has passed, and returns the world time that it took.
    #[inline]
    pub fn spend(&mut self, work: Work, cost: u64) -> u64 {
        let mut now = self.advance();
        let own = self.counted - self.lap * self.slower;
        let allowed = cost * self.slower;
        let stage = match work.kind {
            WorkKind::Switch => 1,
            WorkKind::Input | WorkKind::Interrupt if work.packets == 0 => 0,
            WorkKind::Input | WorkKind::Interrupt => 2,
            WorkKind::Forwarding => 3,
            WorkKind::Output => 4,
        };
        let kind = &mut self.overhead.work[stage];
        *kind = LapCost { laps: kind.laps + 1, packets: kind.packets + u64::from(work.packets), time: kind.time + own };
        self.overhead.laps += 1;
        if own > allowed {
            self.overhead.excess += own - allowed;
            self.overhead.exceeded_laps += u64::from(cost > 0);
            let took = now - self.lap;
            self.lap = now;
            return took;
        }
        let end = self.lap + cost;
        while now < end {
            std::hint::spin_loop();
            now = self.advance();
        }
        // The lap ends at its declared time. An overshoot of the wait counts for the next lap; else it would add up over many short dispatches.
        self.lap = end;
        cost
    }
}
