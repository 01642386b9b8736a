//! A cleaner among adversarial workers: they hold on to entries that are being freed, and are never quiescent (spec E-31, E-32, E-X12).
//!
//! The trial looks for three kinds of errors. An entry is freed while a worker that was active when it was unlinked is still active. A worker finds
//! another worker's value or a dead one. A worker does not find a living value. It also measures how long expired entries are kept.

use super::{Values, quantity};
use crate::random::RandomStream;
use esp::store::{
    Cleaner, CleanerMode, CommitDecision, Grace, Inspector, InstructionTags, Session, Shard, Store, StoreResult,
    StoreSpec, TagView, WorkerEpochs,
};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::{Instant, Nanos};

/// Tags that each worker uses.
const TAGS: u64 = 24;
/// Rounds in a lifetime.
const ROUNDS: u64 = 40;
/// Store time advances in ticks of 10 µs. An entry that expires within two ticks may be found or not.
const TICKS: Nanos = Nanos::micros(30);

/// The workers, and how the cleaner waits.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct CleanerPlan {
    workers: usize,
    /// Entries of each worker's shard.
    capacity: u64,
    /// The grace-period mechanism: `counters` or `bits`.
    grace: GraceMechanism,
    /// True if every worker is in a session whenever the cleaner runs.
    busy: bool,
    #[serde(deserialize_with = "quantity")]
    lifetime: Nanos,
    /// The duration in lifetimes.
    lifetimes: u64,
    seed: u64,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum GraceMechanism {
    Counters,
    Bits,
}

/// The result of a trial's instruction: it commits its write.
struct AlwaysCommits;

impl CommitDecision for AlwaysCommits {
    fn commits(&self) -> bool {
        true
    }
}

/// The model of a worker's shard.
#[derive(Default)]
struct ShardModel {
    /// Values and their creation times, by tag.
    entries: BTreeMap<u64, (u64, Instant)>,
    /// The expiry times of entries not known to be freed, in the order of creation.
    unfreed: VecDeque<Instant>,
    /// The sessions that were active when an entry was unlinked that is not freed yet.
    limbo: Option<Vec<u64>>,
    freed: u64,
}

struct Adversary<'a> {
    plan: &'a CleanerPlan,
    cleaner: Cleaner,
    inspector: Inspector,
    models: Vec<ShardModel>,
    chance: RandomStream,
    now: Instant,
    /// The time of the cleaner's last step.
    cleaned_at: Instant,
    /// The open sessions, and the number of sessions so far.
    open: Vec<u64>,
    sessions: u64,
    values: u64,
    executed: u64,
    full: u64,
    violations: u64,
    latest: Nanos,
}

/// Runs the trial.
///
/// | value | meaning |
/// |---|---|
/// | `violations` | errors of any kind: freed too soon, a wrong or dead value found, a living one not found |
/// | `executed`, `full` | instructions, and those for which the store had no room |
/// | `freed`, `kept` | entries freed; expired entries not freed when the workers stopped |
/// | `freed_late` | the longest time from an entry's expiry until it was freed, in lifetimes |
/// | `left` | entries not freed a lifetime after all workers stopped |
pub fn run(plan: &CleanerPlan) -> Values {
    let grace = if plan.grace == GraceMechanism::Bits { Grace::Bits } else { Grace::Counters };
    let spec = StoreSpec {
        lifetime: plan.lifetime,
        shards: plan.workers,
        cleaning: CleanerMode::Dedicated,
        ..StoreSpec::of(plan.capacity * plan.workers as u64)
    };
    let Store { mut shards, cleaner, inspector } = Store::new(spec, &Arc::new(WorkerEpochs::new(plan.workers)), grace);
    let Some(cleaner) = cleaner else { return Values::new() };
    let mut adversary = Adversary {
        plan,
        cleaner,
        inspector,
        models: (0..plan.workers).map(|_| ShardModel::default()).collect(),
        chance: RandomStream::new(plan.seed, "adversary"),
        now: Instant::START,
        cleaned_at: Instant::START,
        open: Vec::new(),
        sessions: 0,
        values: 0,
        executed: 0,
        full: 0,
        violations: 0,
        latest: Nanos::ZERO,
    };
    for _ in 0..plan.lifetimes * ROUNDS {
        adversary.now += Nanos::new(plan.lifetime.get() / ROUNDS);
        adversary.round(0, &mut shards);
        if !plan.busy {
            adversary.run_cleaner();
        }
    }
    let now = adversary.now;
    let due = adversary.models.iter().flat_map(|shard| &shard.unfreed).filter(|expiry| **expiry <= now);
    let (kept, oldest) = due.fold((0u64, now), |(count, oldest), expiry| (count + 1, oldest.min(*expiry)));
    adversary.latest = adversary.latest.max(now.since(oldest));
    let (freed, latest) = (adversary.cleaner.counters().freed, adversary.latest);
    adversary.now += plan.lifetime * 2;
    (0..8).for_each(|_| adversary.run_cleaner());
    let left: usize = adversary.models.iter().map(|shard| shard.unfreed.len()).sum();
    [
        ("violations", adversary.violations as f64),
        ("executed", adversary.executed as f64),
        ("full", adversary.full as f64),
        ("freed", freed as f64),
        ("kept", kept as f64),
        ("freed_late", latest.as_secs_f64() / plan.lifetime.as_secs_f64()),
        ("left", left as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

impl Adversary<'_> {
    /// The workers from `first` on open their sessions, nested in each other.
    fn round(&mut self, first: usize, shards: &mut [Shard]) {
        let Some((shard, others)) = shards.split_first_mut() else {
            // All workers are in their sessions now.
            return self.run_cleaner();
        };
        if !self.plan.busy && self.chance.below(3) == 0 {
            return self.round(first + 1, others);
        }
        self.sessions += 1;
        self.open.push(self.sessions);
        let mut session = shard.begin(self.now);
        let began = self.now;
        self.use_tag(first, &mut session, began);
        self.round(first + 1, others);
        self.use_tag(first, &mut session, began);
        drop(session);
        self.open.pop();
        if !self.plan.busy && self.chance.below(2) == 0 {
            self.run_cleaner();
        }
    }

    /// A worker reads and writes a tag. The cleaner may run in the middle of that, at a later time.
    fn use_tag(&mut self, worker: usize, session: &mut Session<'_>, began: Instant) {
        let tag = self.chance.below(TAGS);
        let mut tags = InstructionTags::of([tag]);
        session.prepare::<1>(&mut tags);
        self.values += 1;
        let (value, looked) = (self.values, self.cleaned_at);
        let (mut found, mut ran) = (None, false);
        let comes = !self.plan.busy && self.chance.below(2) == 0;
        if comes {
            self.now += Nanos::new(self.plan.lifetime.get() / ROUNDS / 8);
        }
        let done = session.execute::<1, _>(&tags, 0, |view: &mut TagView| {
            (found, ran) = (view.get(0), true);
            if comes {
                self.run_cleaner();
            }
            view.set(0, value);
            AlwaysCommits
        });
        self.executed += 1;
        if !ran {
            // The store had no room. Nothing was executed, and the worker did not learn if its tag exists.
            self.full += 1;
            return;
        }
        let lifetime = self.plan.lifetime;
        let believed = &mut self.models[worker];
        let known = believed.entries.get(&tag).copied();
        let expiry = known.map(|(_, created)| created + lifetime);
        self.violations += u64::from(match (found, known) {
            // Another worker's value, or one that was never written.
            (Some(found), Some((value, _))) if found != value => true,
            (Some(_), None) => true,
            // A dead value.
            (Some(_), _) => expiry.is_some_and(|expiry| expiry <= began),
            // A living value was not found, though it had expired neither by the worker's clock nor by the cleaner's.
            (None, _) => expiry.is_some_and(|expiry| expiry > looked.max(began) + TICKS),
        });
        if matches!(done, StoreResult::Full) {
            self.full += 1;
            return;
        }
        let created = match (found, known) {
            (Some(_), Some((_, created))) => created,
            _ => {
                believed.unfreed.push_back(began + lifetime);
                began
            }
        };
        believed.entries.insert(tag, (value, created));
    }

    /// The cleaner runs one step. Its result is compared with the model.
    fn run_cleaner(&mut self) {
        self.cleaned_at = self.now;
        self.cleaner.step(self.now);
        let occupancies = self.inspector.occupancy(self.now);
        for (believed, is) in self.models.iter_mut().zip(occupancies) {
            let freed = is.created - is.live - is.expired;
            if freed > believed.freed {
                let waits = believed.limbo.take().unwrap_or_default();
                self.violations += u64::from(waits.iter().any(|session| self.open.contains(session)));
                for _ in believed.freed..freed {
                    let Some(expiry) = believed.unfreed.pop_front() else {
                        self.violations += 1;
                        break;
                    };
                    self.violations += u64::from(expiry > self.now + TICKS);
                    self.latest = self.latest.max(self.now.since(expiry));
                }
                believed.freed = freed;
            }
            if is.expired > 0 && believed.limbo.is_none() {
                believed.limbo = Some(self.open.clone());
            }
        }
    }
}
