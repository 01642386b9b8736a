//! Advisories of the CPU scheduler about a task.

use units::Nanos;

/// An advisory about a task for the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advisory {
    /// Under the throttle, the task recently ran only after a time-out.
    TimeoutsOnly {
        /// Runs, and those of them after a time-out.
        runs: u64,
        /// The batch it waits for, in packets.
        batch: u32,
    },
    /// The batch it waits for is more than half of its queues' capacity (spec Q-49).
    NearCapacity {
        /// The batch it waits for, in packets.
        batch: u32,
        /// The capacity of its queues in packets.
        capacity: u32,
    },
    /// A packet costs over a tenth more than declared (spec Q-54).
    OverCost {
        /// The measured cost.
        cost: Nanos,
        /// The declared cost.
        declared: Nanos,
    },
    /// Its port may be left unpolled for longer than the receive ring lasts at the line's rate (spec Q-32).
    SleepsTooLong {
        /// The longest sleep.
        sleep: Nanos,
        /// The longest sleep without loss.
        lasts: Nanos,
    },
    /// It waited for the processor longer than its queue lasts at the reserved rate (spec Q-52).
    Lags {
        /// The time it waited.
        lag: Nanos,
        /// The time that the queue lasts.
        lasts: Nanos,
    },
    /// Packets of a path took longer from arrival to transmission than their reservation allows (spec Q-56).
    Late {
        /// The recent number.
        packets: u64,
        /// The reserved delay.
        promised: Nanos,
        /// The longest time so far.
        most: Nanos,
    },
    /// Many packets took longer to receive and classify than `classify_budget` allows (spec Q-05).
    OverBudget {
        /// The packets of slow vectors among those received recently.
        packets: u64,
        /// All packets received recently.
        of: u64,
        /// The budget of a packet.
        budget: Nanos,
    },
}

impl Advisory {
    /// The number of kinds.
    pub const KINDS: usize = 7;

    /// The number of this kind.
    pub const fn kind(&self) -> usize {
        match self {
            Advisory::TimeoutsOnly { .. } => 0,
            Advisory::NearCapacity { .. } => 1,
            Advisory::OverCost { .. } => 2,
            Advisory::SleepsTooLong { .. } => 3,
            Advisory::Lags { .. } => 4,
            Advisory::OverBudget { .. } => 5,
            // An advisory about a path, not a task.
            Advisory::Late { .. } => 6,
        }
    }
}
