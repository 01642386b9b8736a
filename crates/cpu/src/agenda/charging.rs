//! What a run is charged for.

use crate::PathCost;
use crate::task::Times;
use units::{Instant, Nanos, TaskId};

/// What the running task is charged for, and where the time of the core went.
pub(super) struct Charging {
    /// What a switch costs, as the configuration says; else as measured.
    pub switch_cost: Option<Nanos>,
    pub measured: PathCost,
    pub last: Option<TaskId>,
    /// What the switch to the running task cost.
    pub switched: Nanos,
    pub times: Times,
    /// When the running task was picked.
    pub picked: Instant,
    /// Bytes that it has moved, where somebody looks.
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
