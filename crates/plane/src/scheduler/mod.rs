//! Which task runs next on one core. A scheduler picks and charges; it never runs anything.

mod cost;
mod estimator;
mod round_robin;
mod tuning;

pub use cost::{PathCost, Sample, Verdict};
pub use estimator::{Estimator, Ring};
pub use round_robin::RoundRobin;
pub use tuning::{Setting, Tuning};

use units::{Instant, Nanos, Share, TaskId};

/// A CPU scheduler: a set of tasks, of which some are runnable.
pub trait CpuScheduler: Send {
    /// A new task, not runnable yet.
    fn add(&mut self, task: TaskId, share: Share);
    /// The task is gone.
    fn remove(&mut self, task: TaskId);
    /// The task's part of the core is another from now on.
    fn share(&mut self, task: TaskId, share: Share);
    /// The task has something to do, which is expected to take so long. Harmless where it is runnable already.
    fn wake(&mut self, task: TaskId, expected: Nanos, now: Instant);
    /// The task to run now; nothing where none is runnable. It is not picked again before it is charged.
    fn pick(&mut self, now: Instant) -> Option<TaskId>;
    /// The picked task ran for `used`. It has more to do that is expected to take `next`, or nothing.
    fn charge(&mut self, task: TaskId, used: Nanos, next: Option<Nanos>, now: Instant);
}
