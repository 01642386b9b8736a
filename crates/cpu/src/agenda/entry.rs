//! What an agenda keeps of each task.

use super::rules::Rule;
use crate::task::{Account, Kind, State, Terms};
use crate::{Estimator, PathCost, Sample};
use packet::Remark;
use units::{Instant, Nanos};

/// What is known of a task since the last look.
#[derive(Clone, Copy, Default)]
pub(super) struct Lately {
    pub runs: u64,
    pub timeouts: u64,
    /// The longest it was active before it ran.
    pub lag: Nanos,
    /// How long its queue or its ring lasts, where there is a rate to say so.
    pub lasts: Option<Nanos>,
    /// Packets received under a budget, and those beyond it.
    pub weighed: (u64, u64),
    /// Of each kind of remark, looks until it may be made again.
    pub told: [u8; Remark::KINDS],
}

// Large: all that a dispatch reads of a task lies together.
pub(super) struct Entry {
    pub live: bool,
    pub kind: Kind,
    pub state: State,
    /// An input task that found nothing when it last looked: it is active only because it polls.
    pub dry: bool,
    /// An input task that keeps its turns though it finds nothing.
    pub greedy: bool,
    /// It was picked for a look, without the discipline.
    pub looking: bool,
    pub threshold: u32,
    pub waiting: u32,
    /// What the discipline was told that the next run takes.
    pub foretold: Nanos,
    pub since: Instant,
    /// When its timer goes off; FAR where it has none.
    pub due: Instant,
    pub cost: PathCost,
    /// Time spent on packets that are not done yet.
    pub begun: Nanos,
    /// Of the period before this one.
    pub sample: Sample,
    /// Time charged when that ended.
    pub sampled: Nanos,
    /// Of the present run, what was another task's work.
    pub inlined: Nanos,
    /// What it owes for having been changed from.
    pub owes: Nanos,
    pub terms: Terms,
    pub estimator: Option<Box<Estimator>>,
    pub account: Account,
    pub lately: Lately,
}

impl Entry {
    /// An idle one.
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

    /// What a packet costs; zero where that is not known.
    #[inline]
    pub fn each(&self) -> Nanos {
        self.cost.mean().unwrap_or_default()
    }

    /// What the next run is expected to take.
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
