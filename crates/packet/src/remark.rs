//! What the CPU scheduler has to say of a task.

use units::Nanos;

/// Something about a task that somebody who runs the router wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remark {
    /// Under the throttle, it has run only because it had waited long enough, so often lately.
    TimeoutsOnly {
        /// Runs, and those of them after a time-out.
        runs: u64,
        /// Packets it waits for.
        batch: u32,
    },
    /// It waits for more than half of what its queues hold (spec Q-49).
    NearCapacity {
        /// Packets it waits for.
        batch: u32,
        /// Packets its queues hold.
        capacity: u32,
    },
    /// A packet costs over a tenth more than was declared (spec Q-54).
    OverCost {
        /// What it costs.
        cost: Nanos,
        /// What was declared.
        declared: Nanos,
    },
    /// Its port may be left alone for longer than the receive ring lasts at the line's rate (spec Q-32).
    SleepsTooLong {
        /// The longest sleep.
        sleep: Nanos,
        /// The longest that loses nothing.
        lasts: Nanos,
    },
    /// It waited for the processor for longer than its queue lasts at the reserved rate (spec Q-52).
    Lags {
        /// How long it waited.
        lag: Nanos,
        /// How long the queue lasts.
        lasts: Nanos,
    },
    /// Packets of a path took longer from coming in to transmission than it was promised (spec Q-56).
    Late {
        /// How many lately.
        packets: u64,
        /// What was promised.
        promised: Nanos,
        /// The longest that one ever took.
        most: Nanos,
    },
    /// Many packets took longer to receive and classify than `classify_budget` allows (spec Q-05).
    OverBudget {
        /// Those of vectors that took longer, of all that came lately.
        packets: u64,
        /// All that came.
        of: u64,
        /// What a packet may take.
        budget: Nanos,
    },
}

impl Remark {
    /// How many kinds there are.
    pub const KINDS: usize = 7;

    /// Which kind it is.
    pub const fn kind(&self) -> usize {
        match self {
            Remark::TimeoutsOnly { .. } => 0,
            Remark::NearCapacity { .. } => 1,
            Remark::OverCost { .. } => 2,
            Remark::SleepsTooLong { .. } => 3,
            Remark::Lags { .. } => 4,
            Remark::OverBudget { .. } => 5,
            // It is said of a path, not of a task.
            Remark::Late { .. } => 6,
        }
    }
}
