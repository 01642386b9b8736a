//! The state of one task in the run queue.

use super::rules::Rule;
use crate::task::{Account, Kind, State, Terms};
use crate::{Estimator, PathCost, Sample};
use packet::Remark;
use units::{Instant, Nanos};

/// Values since the last check for warnings.
#[derive(Clone, Copy, Default)]
pub(super) struct Lately {
    pub runs: u64,
    pub timeouts: u64,
    /// The longest it was active before it ran.
    pub lag: Nanos,
    /// The time in which its queue or ring fills at the guaranteed rate or the line rate, if there is one.
    pub lasts: Option<Nanos>,
    /// Packets received while a classification budget is set, and those over it.
    pub weighed: (u64, u64),
    /// For each kind of warning, the number of checks until it may be reported again.
    pub told: [u8; Remark::KINDS],
}

// Large: all fields that a dispatch reads of a task are adjacent.
pub(super) struct Entry {
    pub live: bool,
    pub kind: Kind,
    pub state: State,
    /// An input task whose last poll was empty: it is active only in order to poll.
    pub dry: bool,
    /// An input task that keeps its turns after an empty poll.
    pub greedy: bool,
    /// It was picked for one poll, without the CPU scheduler.
    pub looking: bool,
    pub threshold: u32,
    pub waiting: u32,
    /// The length of the next run, as passed to the CPU scheduler.
    pub foretold: Nanos,
    pub since: Instant,
    /// When its timer expires; FAR if it has none.
    pub due: Instant,
    pub cost: PathCost,
    /// Time spent on packets that are not finished yet.
    pub begun: Nanos,
    /// The sample of the previous period.
    pub sample: Sample,
    /// The time charged when that period ended.
    pub sampled: Nanos,
    /// The part of the present run that was work of a forwarding task, done inline.
    pub inlined: Nanos,
    /// The cost of the switch away from it, which its next run pays.
    pub owes: Nanos,
    pub terms: Terms,
    pub estimator: Option<Box<Estimator>>,
    pub account: Account,
    pub lately: Lately,
}

impl Entry {
    /// An idle task.
    pub fn new(kind: Kind, terms: Terms, now: Instant) -> Entry {
        Entry {
            live: true,
            kind,
            state: State::Idle,
            dry: false,
            greedy: false,
            looking: false,
            threshold: 1,
            waiting: 0,
            foretold: Nanos::ZERO,
            since: now,
            due: Instant::FAR,
            cost: PathCost::new(terms.cost, now),
            begun: Nanos::ZERO,
            sample: Sample::default(),
            sampled: Nanos::ZERO,
            inlined: Nanos::ZERO,
            owes: Nanos::ZERO,
            terms,
            estimator: None,
            account: Account::default(),
            lately: Lately::default(),
        }
    }

    /// The mean cost of a packet; zero if unknown.
    #[inline]
    pub fn each(&self) -> Nanos {
        self.cost.mean().unwrap_or_default()
    }

    /// The expected length of the next run.
    #[inline]
    pub fn expected(&self, rule: Rule) -> Nanos {
        let packets = u64::from(self.waiting.min(rule.packets).max(1));
        Nanos::new((self.each().get() * packets).min(rule.slice.get()))
    }

    #[inline]
    pub fn enter(&mut self, state: State, now: Instant) {
        self.account.residency[self.state as usize] += now.since(self.since);
        (self.state, self.since) = (state, now);
    }
}
