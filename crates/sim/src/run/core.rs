//! A simulated core: a worker, its meter, and its own time.

use super::fairness::Following;
use super::instant;
use crate::cost::{Cost, CostMeter, Spent, Weighing};
use cpu::meter::Flat;
use plan::CpuPlan;
use plane::{Step, Worker};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use units::Nanos;

/// Steps in a row during which no time passes before the world is thought to be stuck.
pub(super) const STILL: u32 = 1_000_000;
/// How soon a worker that finds nothing to do and does not wait is asked again, where asking costs nothing.
const AGAIN: u64 = 100;

pub(super) struct Core {
    /// Position of its router.
    pub node: usize,
    /// Number of its worker.
    pub number: usize,
    pub worker: Worker,
    pub meter: CostMeter,
    /// Its time: the end of its last step.
    pub now: u64,
    /// When it is stepped next.
    pub wake: u64,
    /// Time without anything to do, in nanoseconds.
    pub idle: u64,
    /// Who looks whether its tasks get their shares.
    pub following: Following,
    /// Set by who has woken it.
    pub rung: Arc<AtomicBool>,
    idling: bool,
    spin: bool,
    weighs: bool,
    /// Steps in a row during which no time has passed.
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

    /// It runs another configuration: what the functions of each path cost from now on.
    pub fn adopt(&mut self, costs: Vec<Cost>, cpu: &CpuPlan) {
        self.following.entitle(&mut self.worker, cpu);
        self.meter.set_paths(costs);
        self.weighs = self.meter.weighs();
    }

    /// A step before the world begins, which costs nothing.
    pub fn prepare(&mut self) {
        self.worker.step(instant(0), &mut Flat(Nanos::ZERO));
    }

    /// Whether its last step found nothing to do.
    pub fn is_idle(&self) -> bool {
        self.idling
    }

    /// One step of its worker at `now`. False where time stands still.
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
            if self.spin && self.now > now || !self.worker.may_sleep() {
                return self.still < STILL;
            }
            self.idling = true;
            self.wake = until.get().max(self.now);
            if self.wake == now {
                self.wake = now + AGAIN;
            }
            self.still = 0;
        }
        self.still < STILL
    }

    /// The time of the world, where it goes by for real.
    pub fn look(&mut self) -> u64 {
        self.meter.pacer.as_mut().map_or(self.now, |pacer| pacer.look())
    }

    /// What was done besides takes no time in the world.
    pub fn skip(&mut self) {
        if let Some(pacer) = &mut self.meter.pacer {
            pacer.skip();
        }
    }

    /// Something has come for it at `at`.
    pub fn poke(&mut self, at: u64) {
        if self.wake > self.now {
            self.wake = self.wake.min(at.max(self.now));
        }
    }

    /// Where its time has gone, and how much of it was idle, until `time`.
    pub fn spent(&self, time: u64) -> (Spent, u64) {
        (self.meter.spent, self.idle + if self.idling { time.saturating_sub(self.now) } else { 0 })
    }
}
