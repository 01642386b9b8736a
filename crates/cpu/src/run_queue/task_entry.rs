//! The state of one task in the run queue.

use super::configuration::BatchingRule;
use crate::task::{TaskAccount, TaskKind, TaskState, TaskTerms};
use crate::{CostSample, Estimator, PathCost};
use packet::Advisory;
use units::{Instant, Nanos};

/// Values since the last check for warnings.
#[derive(Clone, Copy, Default)]
pub(super) struct SinceCheck {
    pub runs: u64,
    pub timeouts: u64,
    /// The longest it was active before it ran.
    pub lag: Nanos,
    /// The time in which its queue or ring fills at the guaranteed rate or the line rate, if there is one.
    pub fill_time: Option<Nanos>,
    /// Packets received while a classification budget is set, and those over it.
    pub weighed: (u64, u64),
    /// For each kind of warning, the number of checks until it may be reported again.
    pub silent_checks: [u8; Advisory::KINDS],
}

// Large: all fields that a dispatch reads of a task are adjacent.
pub(super) struct TaskEntry {
    pub live: bool,
    pub kind: TaskKind,
    pub state: TaskState,
    /// An input task whose last poll was empty: it is active only in order to poll.
    pub last_poll_empty: bool,
    /// An input task that keeps its turns after an empty poll.
    pub greedy: bool,
    /// It was picked for one poll, without the CPU scheduler.
    pub single_poll: bool,
    pub threshold: u32,
    pub waiting: u32,
    /// The length of the next run, as passed to the CPU scheduler.
    pub expected_run: Nanos,
    pub since: Instant,
    /// When its timer expires; [`Instant::NEVER`] if it has none.
    pub due: Instant,
    pub cost: PathCost,
    /// Time spent on packets that are not finished yet.
    pub begun: Nanos,
    /// The sample of the previous period.
    pub sample: CostSample,
    /// The time charged when that period ended.
    pub sampled: Nanos,
    /// The part of the present run that was work of a forwarding task, done inline.
    pub inlined: Nanos,
    /// The cost of the switch away from it, which its next run pays.
    pub switch_debt: Nanos,
    pub terms: TaskTerms,
    pub estimator: Option<Box<Estimator>>,
    pub account: TaskAccount,
    pub since_check: SinceCheck,
}

impl TaskEntry {
    /// An idle task.
    pub fn new(kind: TaskKind, terms: TaskTerms, now: Instant) -> TaskEntry {
        TaskEntry {
            live: true,
            kind,
            state: TaskState::Idle,
            last_poll_empty: false,
            greedy: false,
            single_poll: false,
            threshold: 1,
            waiting: 0,
            expected_run: Nanos::ZERO,
            since: now,
            due: Instant::NEVER,
            cost: PathCost::new(terms.cost, now),
            begun: Nanos::ZERO,
            sample: CostSample::default(),
            sampled: Nanos::ZERO,
            inlined: Nanos::ZERO,
            switch_debt: Nanos::ZERO,
            terms,
            estimator: None,
            account: TaskAccount::default(),
            since_check: SinceCheck::default(),
        }
    }

    /// The mean cost of a packet; zero if unknown.
    #[inline]
    pub fn mean_cost(&self) -> Nanos {
        self.cost.mean().unwrap_or_default()
    }

    /// The expected length of the next run.
    #[inline]
    pub fn expected(&self, rule: BatchingRule) -> Nanos {
        // At least one packet: an input task polls without knowing of any. An unknown cost gives zero.
        let packets = u64::from(self.waiting.min(rule.packets).max(1));
        Nanos::new((self.mean_cost().get() * packets).min(rule.slice.get()))
    }

    #[inline]
    pub fn enter(&mut self, state: TaskState, now: Instant) {
        self.account.residency[self.state as usize] += now.since(self.since);
        (self.state, self.since) = (state, now);
    }
}
