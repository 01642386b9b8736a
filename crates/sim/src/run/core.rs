//! A simulated core: a worker, its meter, and its clock.

use super::fairness::Following;
use super::instant;
use crate::cost::{Cost, CostMeter, Spent, Weighing};
use cpu::meter::Flat;
use plan::CpuPlan;
use plane::{Step, Worker};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use units::Nanos;

/// Steps in a row without progress of time after which the world counts as stuck.
pub(super) const STILL: u32 = 1_000_000;
/// The polling interval of a worker without work that does not sleep, if polling costs nothing.
const AGAIN: u64 = 100;

pub(super) struct Core {
    /// The index of its router.
    pub node: usize,
    /// The index of its worker.
    pub number: usize,
    pub worker: Worker,
    pub meter: CostMeter,
    /// Its clock: the end of its last step.
    pub now: u64,
    /// The time of its next step.
    pub wake: u64,
    /// Idle time, in nanoseconds.
    pub idle: u64,
    /// Checks that its tasks get their shares.
    pub following: Following,
    /// Set by another core to wake this one.
    pub rung: Arc<AtomicBool>,
    idling: bool,
    spin: bool,
    weighs: bool,
    /// Steps in a row without progress of time.
    pub still: u32,
}

impl Core {
    pub fn new(node: usize, number: usize, worker: Worker, meter: CostMeter, spin: bool) -> Core {
        let rung = Arc::new(AtomicBool::new(false));
        Core {
            node,
            number,
            worker,
            meter,
            now: 0,
            wake: 0,
            idle: 0,
            following: Following::new(),
            rung,
            idling: false,
            spin,
            weighs: false,
            still: 0,
        }
    }

    /// Adopts a new configuration, with the costs of the functions of each path.
    pub fn adopt(&mut self, costs: Vec<Cost>, cpu: &CpuPlan) {
        self.following.entitle(&mut self.worker, cpu);
        self.meter.set_paths(costs);
        self.weighs = self.meter.weighs();
    }

    /// Steps the worker before the start of the world, at no cost.
    pub fn prepare(&mut self) {
        self.worker.step(instant(0), &mut Flat(Nanos::ZERO));
    }

    /// True if its last step found no work.
    pub fn is_idle(&self) -> bool {
        self.idling
    }

    /// Steps its worker at `now`. Returns false if time does not advance.
    pub fn step(&mut self, now: u64) -> bool {
        self.idle += now - self.now;
        if self.idling {
            self.worker.wakes();
        }
        self.meter.begin(now);
        let step = if self.weighs {
            self.worker.step(instant(now), &mut Weighing(&mut self.meter))
        } else {
            self.worker.step(instant(now), &mut self.meter)
        };
        self.now = self.meter.end();
        self.still = if self.now > now { 0 } else { self.still + 1 };
        self.wake = self.now;
        self.idling = false;
        self.following.stepped(&mut self.worker);
        if let Step::Idle(until) = step {
            // A worker that spins, and whose poll took time, is stepped again at once. So is one that may not sleep.
            if self.spin && self.now > now || !self.worker.may_sleep() {
                return self.still < STILL;
            }
            self.idling = true;
            self.wake = until.get().max(self.now);
            // Without this, a core that wakes at the time of its own step would be stepped there for ever.
            if self.wake == now {
                self.wake = now + AGAIN;
            }
            self.still = 0;
        }
        self.still < STILL
    }

    /// World time, if it is tied to machine time.
    pub fn look(&mut self) -> u64 {
        self.meter.pacer.as_mut().map_or(self.now, |pacer| pacer.look())
    }

    /// Excludes other work of the thread from world time.
    pub fn skip(&mut self) {
        if let Some(pacer) = &mut self.meter.pacer {
            pacer.skip();
        }
    }

    /// Wakes the core: something arrives for it at `at`.
    pub fn poke(&mut self, at: u64) {
        if self.wake > self.now {
            self.wake = self.wake.min(at.max(self.now));
        }
    }

    /// How its time until `time` was spent, and the idle part.
    pub fn spent(&self, time: u64) -> (Spent, u64) {
        (self.meter.spent, self.idle + if self.idling { time.saturating_sub(self.now) } else { 0 })
    }
}
