//! A simulated core: a worker, its meter, and its clock.

use super::fairness::FairnessCheck;
use super::instant;
use crate::cost::{ByteCostMeter, CoreTime, CostMeter, PacketCost};
use cpu::meter::ConstantMeter;
use plan::CpuPlan;
use plane::{StepResult, Worker};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use units::Nanos;

/// Steps in a row without progress of time after which the world counts as stuck.
pub(super) const MAX_STALLED_STEPS: u32 = 1_000_000;
/// The polling interval of a worker without work that does not sleep, if polling costs nothing.
const POLL_INTERVAL: u64 = 100;

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
    pub fairness: FairnessCheck,
    /// The settings of tasks whose shares change with the next step.
    new_shares: Option<Box<CpuPlan>>,
    /// Set by another core to wake this one.
    pub woken: Arc<AtomicBool>,
    idling: bool,
    busy_poll: bool,
    weighs: bool,
    /// Steps in a row without progress of time.
    pub stalled_steps: u32,
}

impl Core {
    pub fn new(node: usize, number: usize, worker: Worker, meter: CostMeter, busy_poll: bool) -> Core {
        let rung = Arc::new(AtomicBool::new(false));
        Core {
            node,
            number,
            worker,
            meter,
            now: 0,
            wake: 0,
            idle: 0,
            fairness: FairnessCheck::new(),
            woken: rung,
            idling: false,
            busy_poll,
            weighs: false,
            stalled_steps: 0,
            new_shares: None,
        }
    }

    /// The worker reads other shares of its tasks in its next step.
    pub fn expect_shares(&mut self, cpu: &CpuPlan) {
        self.new_shares = Some(Box::new(cpu.clone()));
    }

    /// Adopts a new configuration, with the costs of the functions of each path.
    pub fn adopt(&mut self, costs: Vec<PacketCost>, cpu: &CpuPlan) {
        self.fairness.entitle(&mut self.worker, cpu);
        self.meter.set_paths(costs);
        self.weighs = self.meter.has_byte_costs();
    }

    /// Steps the worker before the start of the world, at no cost.
    pub fn prepare(&mut self) {
        self.worker.step(instant(0), &mut ConstantMeter(Nanos::ZERO));
    }

    /// True if its last step found no work.
    pub fn is_idle(&self) -> bool {
        self.idling
    }

    /// Steps its worker at `now`. Returns false if time does not advance.
    pub fn step(&mut self, now: u64) -> bool {
        self.idle += now - self.now;
        if self.idling {
            self.worker.end_sleep();
        }
        self.meter.begin(now);
        let step = if self.weighs {
            self.worker.step(instant(now), &mut ByteCostMeter(&mut self.meter))
        } else {
            self.worker.step(instant(now), &mut self.meter)
        };
        self.now = self.meter.end();
        self.stalled_steps = if self.now > now { 0 } else { self.stalled_steps + 1 };
        self.wake = self.now;
        self.idling = false;
        match self.new_shares.take() {
            Some(cpu) => self.fairness.entitle(&mut self.worker, &cpu),
            None => self.fairness.record_step(&mut self.worker),
        }
        if let StepResult::Idle(until) = step {
            // A worker that spins, and whose poll took time, is stepped again at once. So is one that may not sleep.
            if self.busy_poll && self.now > now || !self.worker.prepare_sleep() {
                return self.stalled_steps < MAX_STALLED_STEPS;
            }
            self.idling = true;
            self.wake = until.get().max(self.now);
            // Without this, a core that wakes at the time of its own step would be stepped there for ever.
            if self.wake == now {
                self.wake = now + POLL_INTERVAL;
            }
            self.stalled_steps = 0;
        }
        self.stalled_steps < MAX_STALLED_STEPS
    }

    /// World time, if it is tied to machine time.
    pub fn read_clock(&mut self) -> u64 {
        self.meter.pacer.as_mut().map_or(self.now, |pacer| pacer.advance())
    }

    /// Excludes other work of the thread from world time.
    pub fn skip(&mut self) {
        if let Some(pacer) = &mut self.meter.pacer {
            pacer.skip();
        }
    }

    /// Wakes the core: something arrives for it at `at`.
    pub fn wake_at(&mut self, at: u64) {
        if self.wake > self.now {
            self.wake = self.wake.min(at.max(self.now));
        }
    }

    /// How its time until `time` was spent, and the idle part.
    pub fn spent(&self, time: u64) -> (CoreTime, u64) {
        (self.meter.spent, self.idle + if self.idling { time.saturating_sub(self.now) } else { 0 })
    }
}
