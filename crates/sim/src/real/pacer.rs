//! The time of a world on real packets. The router's processor makes it: it goes by as fast as that processor works, so
//! many times slower, and stands still while either processor is doing something else.

use cpu::meter::{Stage, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Reads the time of the machine.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some moment, the same on all processors.
    fn now(&self) -> u64;
}

/// A look at the clock comes at least this often while the router's processor is ours: what takes longer was taken by
/// somebody else. A batch of frames handed to the kernel takes a third of it.
const AWAY: u64 = 400_000;
/// The stations have looked at the time within so long, or their processor is not theirs.
const SILENT: u64 = 150_000;
/// Looks in a row without time going by before the processor is offered to others.
const PATIENCE: u32 = 64;

/// What the router and its stations have in common.
pub(crate) struct Common {
    pub clock: Arc<dyn Clock>,
    /// The time of the world.
    now: AtomicU64,
    /// When the stations last looked at it, by the machine's clock.
    seen: AtomicU64,
    stations_over: AtomicBool,
    router_over: AtomicBool,
}

impl Common {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Common> {
        let seen = AtomicU64::new(clock.now());
        let (stations_over, router_over) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Common { clock, now: AtomicU64::new(0), seen, stations_over, router_over })
    }

    /// The time of the world, for the stations, which thereby say that they are there.
    pub fn look(&self) -> u64 {
        self.seen.store(self.clock.now(), Ordering::Release);
        self.now.load(Ordering::Acquire)
    }

    /// Whether the router has come to the end of the world, or to its own.
    pub fn is_router_over(&self) -> bool {
        self.router_over.load(Ordering::Acquire)
    }
}

/// One side says that it has ended, also where it panics: nobody shall wait for it.
pub(crate) struct Leaves {
    common: Arc<Common>,
    router: bool,
}

impl Leaves {
    pub fn router(common: &Arc<Common>) -> Leaves {
        Leaves { common: common.clone(), router: true }
    }

    pub fn stations(common: &Arc<Common>) -> Leaves {
        Leaves { common: common.clone(), router: false }
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        let flag = if self.router { &self.common.router_over } else { &self.common.stations_over };
        flag.store(true, Ordering::Release);
    }
}

/// What work of one kind took by itself, in nanoseconds of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Own {
    pub laps: u64,
    pub packets: u64,
    pub time: u64,
}

impl Own {
    /// Nanoseconds a packet; a lap where no packets are moved.
    pub fn each(&self) -> f64 {
        let units = if self.packets > 0 { self.packets } else { self.laps };
        if units > 0 { self.time as f64 / units as f64 } else { 0.0 }
    }
}

/// What the machine has taken beyond the world's costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Toll {
    /// Looks in vain, switches, input, functions, output.
    pub own: [Own; 5],
    pub laps: u64,
    /// Laps that took longer by themselves than the world says, where it says that they take anything.
    pub dearer: u64,
    /// By how much, all laps together, in nanoseconds of the machine.
    pub excess: u64,
    /// How long the world stood still, in nanoseconds of the machine, and how often.
    pub still: u64,
    pub stops: u64,
}

/// The names of [`Toll::own`].
pub(crate) const OWN: [&str; 5] = ["poll", "switch", "input", "forwarding", "output"];

/// Makes costs true: whatever work takes by itself, it has taken what the world says once its lap is over.
pub(crate) struct Pacer {
    common: Arc<Common>,
    slower: u64,
    /// The machine's time of the last look.
    last: u64,
    /// Nanoseconds of the machine that the world has lasted.
    counted: u64,
    /// When the last lap was over, in the time of the world.
    lap: u64,
    patience: u32,
    pub toll: Toll,
}

impl Pacer {
    pub fn new(common: Arc<Common>, slower: u64) -> Pacer {
        let last = common.clock.now();
        Pacer { common, slower, last, counted: 0, lap: 0, patience: 0, toll: Toll::default() }
    }

    /// The time of the world.
    pub fn now(&self) -> u64 {
        self.counted / self.slower
    }

    /// Looks at the clock. Answers the time of the world.
    #[inline]
    pub fn look(&mut self) -> u64 {
        let time = self.common.clock.now();
        let since = time.saturating_sub(self.last);
        self.last = time;
        let alone = self.common.stations_over.load(Ordering::Relaxed);
        let silent = time.saturating_sub(self.common.seen.load(Ordering::Acquire)) > SILENT && !alone;
        if since > AWAY || silent {
            self.stand_still(since);
        } else {
            self.counted += since;
            self.patience = 0;
            self.common.now.store(self.now(), Ordering::Release);
        }
        self.now()
    }

    #[cold]
    fn stand_still(&mut self, since: u64) {
        self.toll.still += since;
        self.toll.stops += u64::from(self.patience == 0);
        self.patience += 1;
        if self.patience > PATIENCE {
            std::thread::yield_now();
        }
    }

    /// What was done since the last look takes no time in the world.
    pub fn skip(&mut self) {
        self.last = self.common.clock.now();
    }

    /// A lap begins at `now`, unless the one before has only just ended.
    pub fn begin(&mut self, now: u64) {
        self.lap = self.lap.max(now);
    }

    /// Work has been done that costs so much in the world. Answers what it took there, once it is over.
    #[inline]
    pub fn spend(&mut self, work: Work, cost: u64) -> u64 {
        let mut now = self.look();
        let own = self.counted - self.lap * self.slower;
        let allowed = cost * self.slower;
        let stage = match work.stage {
            Stage::Switch => 1,
            Stage::Input | Stage::Interrupt if work.packets == 0 => 0,
            Stage::Input | Stage::Interrupt => 2,
            Stage::Forwarding => 3,
            Stage::Output => 4,
        };
        let kind = &mut self.toll.own[stage];
        *kind = Own { laps: kind.laps + 1, packets: kind.packets + u64::from(work.packets), time: kind.time + own };
        self.toll.laps += 1;
        if own > allowed {
            self.toll.excess += own - allowed;
            self.toll.dearer += u64::from(cost > 0);
            let took = now - self.lap;
            self.lap = now;
            return took;
        }
        let end = self.lap + cost;
        while now < end {
            std::hint::spin_loop();
            now = self.look();
        }
        // What was waited too long is the next lap's: dispatches are short, and it would add up.
        self.lap = end;
        cost
    }
}
