//! Which task runs next on one core. A scheduler picks and charges; it never runs anything.
//!
//! What every discipline has in common (which task is runnable, which runs, which comes last) is in [`Tasks`]; each
//! discipline has a file of its own that says whose turn it is.

#![forbid(unsafe_code)]

pub mod agenda;
mod calibration;
mod cost;
mod drr;
mod eevdf;
mod estimator;
pub mod meter;
mod round_robin;
mod sfq;
mod stride;
pub mod task;
mod tasks;
#[cfg(test)]
mod tests;
pub mod trace;
mod tuning;
mod virtual_time;
mod wf2q;

pub use agenda::Agenda;
pub use calibration::calibrate;
pub use cost::{PathCost, Sample, Verdict};
pub use drr::Drr;
pub use eevdf::Eevdf;
pub use estimator::Estimator;
pub use plan::Ring;
pub use round_robin::RoundRobin;
pub use sfq::Sfq;
pub use stride::Stride;
pub use tasks::Tasks;
pub use tuning::{Setting, Tuning};
pub use wf2q::Wf2q;

use plan::{CpuSchedulerDeclaration, Lag};
use std::sync::Arc;
use units::declare::{Declaration, DeclaredCost};
use units::{Instant, Nanos, Share, TaskId};

/// A CPU scheduler: a set of tasks, of which some are runnable.
///
/// What every one of them keeps, whatever its discipline:
///
/// - A task that is runnable is picked after finitely many others; one that is not, never.
/// - One task runs at a time: what was picked is charged, or removed, before the next is picked.
/// - A share of zero is the background: such tasks take turns where no task with a share is runnable. Whoever wakes
///   meanwhile waits for the end of that run, and is not charged for it.
/// - Shares below a millionth count as 2^-20. They need not add up to one: it is their ratio that matters.
/// - Nothing is allocated but where a task is added.
pub trait CpuScheduler: Send {
    /// A new task, not runnable yet.
    ///
    /// # Panics
    /// Where it is there already.
    fn add(&mut self, task: TaskId, share: Share);
    /// The task is gone, whether it was idle, runnable or running. What it ran last need not be charged.
    fn remove(&mut self, task: TaskId);
    /// The task's part of the core is another from now on; a run under way is charged at the new one.
    fn share(&mut self, task: TaskId, share: Share);
    /// The task has something to do, which is expected to take so long. Harmless where it is runnable already; where it
    /// runs it will be runnable again after its run.
    fn wake(&mut self, task: TaskId, expected: Nanos, now: Instant);
    /// A runnable task has more to do by now than it was woken for: its next run is expected to take so long. Matters only
    /// to a discipline that goes by expectations, and harmless for any other task.
    fn expect(&mut self, _task: TaskId, _expected: Nanos) {}
    /// The task to run now; nothing where none is runnable. It is not picked again before it is charged.
    fn pick(&mut self, now: Instant) -> Option<TaskId>;
    /// The picked task ran for `used`. It has more to do that is expected to take `next`, or nothing. Harmless where it
    /// has been removed since.
    fn charge(&mut self, task: TaskId, used: Nanos, next: Option<Nanos>, now: Instant);
}

/// A CPU scheduler as it is registered: how a configuration names it, and how it is made.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// How a configuration names it.
    pub name: &'static str,
    /// One sentence for the operator.
    pub summary: &'static str,
    /// The paper it follows.
    pub source: &'static str,
    /// How far a task may fall behind its share.
    pub lag: Lag,
    /// Makes one without tasks.
    pub make: fn() -> Box<dyn CpuScheduler>,
}

impl Registration {
    /// As a plan names it.
    pub const fn named(&self) -> plan::CpuScheduler {
        plan::CpuScheduler { name: self.name, lag: self.lag }
    }

    /// For the catalogue.
    pub const fn declaration(&self) -> CpuSchedulerDeclaration {
        let &Registration { name, summary, source, lag, .. } = self;
        let declaration = Declaration { name, summary, source, cost: DeclaredCost::None, options: &[] };
        CpuSchedulerDeclaration { declaration, lag }
    }
}

/// The CPU schedulers of this crate; the first is used where the configuration names none.
pub const SCHEDULERS: &[Registration] = &[
    wf2q::REGISTRATION,
    sfq::REGISTRATION,
    stride::REGISTRATION,
    eevdf::REGISTRATION,
    drr::REGISTRATION,
    round_robin::REGISTRATION,
];

/// The CPU schedulers that a configuration may name.
#[derive(Clone, Debug)]
pub struct Schedulers(Arc<[Registration]>);

impl Default for Schedulers {
    fn default() -> Schedulers {
        Schedulers(SCHEDULERS.into())
    }
}

impl Schedulers {
    /// These, and one more.
    ///
    /// # Panics
    /// Where there is one of that name.
    pub fn with(&self, scheduler: Registration) -> Schedulers {
        assert!(self.build(scheduler.name).is_none(), "there is a CPU scheduler {} already", scheduler.name);
        Schedulers(self.0.iter().copied().chain([scheduler]).collect())
    }

    /// For the catalogue.
    pub fn declarations(&self) -> Vec<CpuSchedulerDeclaration> {
        self.0.iter().map(Registration::declaration).collect()
    }

    /// The scheduler of this name, without tasks. None: it is not registered, and the configuration was checked against others.
    pub fn build(&self, name: &str) -> Option<Box<dyn CpuScheduler>> {
        self.0.iter().find(|one| one.name == name).map(|one| (one.make)())
    }
}
