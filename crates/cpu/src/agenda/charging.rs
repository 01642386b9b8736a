//! The charge for a run.

use crate::PathCost;
use crate::task::Times;
use units::{Instant, Nanos, TaskId};

/// The charge for the running task, and the time of the core by use.
pub(super) struct Charging {
    /// The cost of a switch in the configuration; else the measured one holds.
    pub switch_cost: Option<Nanos>,
    pub measured: PathCost,
    pub last: Option<TaskId>,
    /// The cost of the switch to the running task.
    pub switched: Nanos,
    pub times: Times,
    /// When the running task was picked.
    pub picked: Instant,
    /// Bytes that it has moved, while a trace is kept.
    pub bytes: u64,
}

impl Charging {
    pub fn new(measured: Nanos) -> Charging {
        Charging {
            switch_cost: None,
            measured: PathCost::new((measured > Nanos::ZERO).then_some(measured), Instant::START),
            last: None,
            switched: Nanos::ZERO,
            times: Times::default(),
            picked: Instant::START,
            bytes: 0,
        }
    }
}
