//! The charges for runs and switches.

use crate::PathCost;
use crate::task::CoreTimes;
use units::{Instant, Nanos, TaskId};

/// The charges for runs and switches, and the time of the core by use.
pub(super) struct Charging {
    /// The cost of a switch as configured; none: the measured cost is used.
    pub switch_cost: Option<Nanos>,
    pub measured: PathCost,
    pub last: Option<TaskId>,
    /// The time of the switch to the running task, if that task pays for it.
    pub switched: Nanos,
    pub times: CoreTimes,
    /// When the running task was picked.
    pub picked: Instant,
    /// Bytes that the running task has moved. Counted only while a trace is kept.
    pub bytes: u64,
}

impl Charging {
    pub fn new(measured: Nanos) -> Charging {
        Charging {
            switch_cost: None,
            // The calibration is the mean until the first switch is measured. Zero means that nothing was calibrated.
            measured: PathCost::new((measured > Nanos::ZERO).then_some(measured), Instant::START),
            last: None,
            switched: Nanos::ZERO,
            times: CoreTimes::default(),
            picked: Instant::START,
            bytes: 0,
        }
    }
}
