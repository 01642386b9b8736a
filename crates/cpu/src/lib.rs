//! CPU schedulers: they choose which task of a core runs next. A scheduler picks and charges tasks and executes nothing.
//!
//! [`ShareScheduler`] holds the part that all CPU schedulers share: which tasks are runnable, which one runs, and the background class. Each
//! scheduler has a file of its own with its order.

#![forbid(unsafe_code)]

mod calibration;
mod cost;
mod drr;
mod eevdf;
mod estimator;
pub mod meter;
mod potential;
mod round_robin;
pub mod run_queue;
mod sfq;
mod share_scheduler;
mod stride;
pub mod task;
#[cfg(test)]
mod tests;
pub mod trace;
mod tuning;
mod virtual_time;
mod wf2q;

pub use calibration::calibrate;
pub use cost::{CostSample, CostVerdict, PathCost};
pub use drr::Drr;
pub use eevdf::Eevdf;
pub use estimator::Estimator;
pub use plan::Ring;
pub use potential::PotentialTasks;
pub use round_robin::RoundRobin;
pub use run_queue::RunQueue;
pub use sfq::Sfq;
pub use share_scheduler::ShareScheduler;
pub use stride::Stride;
pub use tuning::{ThrottleSetting, Tuning};
pub use wf2q::Wf2q;

use plan::{CpuSchedulerDeclaration, Lag};
use std::sync::Arc;
use units::declare::{Declaration, DeclaredCost};
use units::{Instant, Nanos, Share, TaskId};

/// A CPU scheduler: a set of tasks, of which some are runnable.
///
/// Every implementation guarantees:
///
/// - A runnable task is picked after finitely many picks of others. A task that is not runnable is never picked.
///
/// - One task runs at a time: a picked task is charged or removed before the next pick.
///
/// - A share of zero is the background class. Such tasks take turns while no task with a share is runnable. A task that wakes during a background run
///   waits for its end, and is not charged for it.
///
/// - A share below a millionth counts as 2^-20. Shares need not add up to one: only their ratio matters.
///
/// - Memory is allocated only when a task is added.
pub trait CpuScheduler: Send {
    /// Adds a task that is not runnable yet.
    ///
    /// # Panics
    /// If the task exists already.
    fn add(&mut self, task: TaskId, share: Share);
    /// Removes the task in any state: idle, runnable or running. Its last run need not be charged.
    fn remove(&mut self, task: TaskId);
    /// Changes the share of the task. A run in progress is charged at the new share.
    fn share(&mut self, task: TaskId, share: Share);
    /// The task has work that is expected to take `expected`. No effect on a runnable task. A running task is runnable again after its run.
    fn wake(&mut self, task: TaskId, expected: Nanos, now: Instant);
    /// A runnable task has received more work: its next run is expected to take `expected`. Only a scheduler that predicts uses this; no effect on
    /// other tasks.
    fn expect(&mut self, _task: TaskId, _expected: Nanos) {}
    /// The task to run now; none if none is runnable. It is not picked again before it is charged.
    ///
    /// # Panics
    /// If the task that was picked before is neither charged nor removed.
    fn pick(&mut self, now: Instant) -> Option<TaskId>;
    /// The picked task ran for `used`. `next` is the expected length of its next run; none if it is idle. No effect on a task that was removed
    /// meanwhile.
    ///
    /// # Panics
    /// If the task exists and was not picked.
    fn charge(&mut self, task: TaskId, used: Nanos, next: Option<Nanos>, now: Instant);
}

/// A CPU scheduler as registered: its name in a configuration and its constructor.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerRegistration {
    /// The name in a configuration.
    pub name: &'static str,
    /// One sentence for the operator.
    pub summary: &'static str,
    /// The paper that it implements.
    pub source: &'static str,
    /// The bound on how far a task may lag behind its share.
    pub lag: Lag,
    /// Makes one without tasks.
    pub make: fn() -> Box<dyn CpuScheduler>,
}

impl SchedulerRegistration {
    /// The name and lag bound as a plan holds them.
    pub const fn named(&self) -> plan::CpuSchedulerChoice {
        plan::CpuSchedulerChoice { name: self.name, lag: self.lag }
    }

    /// The declaration for the catalogue.
    pub const fn declaration(&self) -> CpuSchedulerDeclaration {
        let &SchedulerRegistration { name, summary, source, lag, .. } = self;
        let declaration = Declaration { name, summary, source, cost: DeclaredCost::None, options: &[] };
        CpuSchedulerDeclaration { declaration, lag }
    }
}

/// The CPU schedulers of this crate. The first is the default.
pub const SCHEDULERS: &[SchedulerRegistration] = &[
    wf2q::REGISTRATION,
    sfq::REGISTRATION,
    stride::REGISTRATION,
    eevdf::REGISTRATION,
    drr::REGISTRATION,
    round_robin::REGISTRATION,
    potential::SPFQ,
    potential::LITERAL,
];

/// The CPU schedulers that a configuration may name.
#[derive(Clone, Debug)]
pub struct Schedulers(Arc<[SchedulerRegistration]>);

impl Default for Schedulers {
    fn default() -> Schedulers {
        Schedulers(SCHEDULERS.into())
    }
}

impl Schedulers {
    /// These schedulers and one more.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn with(&self, scheduler: SchedulerRegistration) -> Schedulers {
        assert!(
            self.0.iter().all(|one| one.name != scheduler.name),
            "there is a CPU scheduler {} already",
            scheduler.name
        );
        Schedulers(self.0.iter().copied().chain([scheduler]).collect())
    }

    /// The declarations for the catalogue.
    pub fn declarations(&self) -> Vec<CpuSchedulerDeclaration> {
        self.0.iter().map(SchedulerRegistration::declaration).collect()
    }

    /// Builds the scheduler of this name, without tasks. None if it is not registered: the configuration was checked against another list.
    pub fn build(&self, name: &str) -> Option<Box<dyn CpuScheduler>> {
        self.0.iter().find(|one| one.name == name).map(|one| (one.make)())
    }
}
