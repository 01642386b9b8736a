//! Packets that create state at a rate, in a store of limited size (spec E-X1, E-X7; Calvert et al. 2003, 2 and Figure 3).

use super::packet_executor::{PacketExecutor, part};
use super::{Values, quantity};
use crate::random::RandomStream;
use esp::isa::{Abort, StateInstruction};
use esp::site::InstructionFate;
use esp::store::{Cleaner, CleanerMode, Grace, Key, Store, StoreSpec, WorkerEpochs};
use serde::Deserialize;
use std::sync::Arc;
use units::{Instant, Nanos, PacketRate};

/// An assisting cleaner runs this often in a lifetime.
const CLEANINGS_PER_LIFETIME: u64 = 1000;

/// The traffic and the store.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct StorePlan {
    /// Packets a second.
    #[serde(deserialize_with = "quantity")]
    pub rate: PacketRate,
    /// Entries that each packet creates: 1 (COUNT) or 2 (RCHLD).
    pub creates: u64,
    /// Entries of the store.
    pub capacity: u64,
    /// Their lifetime.
    #[serde(deserialize_with = "quantity")]
    pub lifetime: Nanos,
    /// How long packets arrive.
    #[serde(deserialize_with = "quantity")]
    pub duration: Nanos,
    /// The cleaning mode: `inline` or `assist`.
    #[serde(default)]
    pub cleaning: CleaningMode,
    /// True for random arrivals, false for evenly spaced ones.
    #[serde(default)]
    pub random: bool,
    /// The seed of tags and random arrivals.
    #[serde(default)]
    pub seed: u64,
}

/// The cleaning mode.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub enum CleaningMode {
    /// The owner cleans after each packet.
    #[default]
    Inline,
    /// A separate cleaner runs a thousand times in a lifetime.
    Assist,
}

/// Runs the trial. Rates are measured after the first lifetime.
///
/// | value | meaning |
/// |---|---|
/// | `executed`, `aborted` | packets whose instruction was executed; packets for which the store had no room |
/// | `executed_pps`, `offered_pps` | rates after the first lifetime |
/// | `size_pps` | the packet rate that the store has room for: its size divided by lifetime and `creates` |
/// | `of_size`, `of_offered` | `executed_pps` as a part of `size_pps` and of `offered_pps` |
/// | `high_water` | the most entries at one time, with expired entries not yet freed |
/// | `late` | aborts only because the cleaner was behind |
/// | `lag_us` | the longest time from the expiry of an entry until it was freed |
pub fn run(plan: &StorePlan) -> Values {
    let cleaning = if plan.cleaning == CleaningMode::Inline { CleanerMode::Inline } else { CleanerMode::Assist };
    let spec = StoreSpec { lifetime: plan.lifetime, cleaning, ..StoreSpec::of(plan.capacity) };
    let Store { mut shards, mut cleaner, .. } = Store::new(spec, &Arc::new(WorkerEpochs::new(1)), Grace::Counters);
    let mut spot = PacketExecutor::new(shards.remove(0), 1);
    let (tags, mut chance) = (Key::new([plan.seed, 0x7465]), RandomStream::new(plan.seed, "arrivals"));
    let gap = 1e9 / plan.rate.get().max(1) as f64;
    let (mut executed, mut aborted, mut behind, mut offered) = (0u64, 0u64, 0u64, 0u64);
    let (mut at, mut n, mut lag, mut looked) = (0.0, 0u64, Nanos::ZERO, Instant::START);
    let look = Nanos::new((plan.lifetime.get() / CLEANINGS_PER_LIFETIME).max(1));
    while at < plan.duration.get() as f64 {
        let now = Instant::new(at as u64);
        if let Some(cleaner) = cleaner.as_mut().filter(|_| now.since(looked) >= look) {
            looked = now;
            clean(cleaner, now, &mut lag);
        }
        let tag = tags.hash(n);
        let instruction = match plan.creates {
            1 => StateInstruction::Count { counter: tag, threshold: 2, inclusive: false },
            _ => StateInstruction::Rchld { counter: tag, child: n },
        };
        let fate = spot.execute(now, &part(tags.hash(!n), instruction));
        let done = fate == InstructionFate::Forwarded;
        executed += u64::from(done);
        aborted += u64::from(fate == InstructionFate::Aborted(Abort::Full));
        if now >= Instant::START + plan.lifetime {
            behind += u64::from(done);
            offered += 1;
        }
        lag = lag.max(spot.site.lag().unwrap_or_default());
        n += 1;
        at = if plan.random { at + gap * chance.exponential() } else { n as f64 * gap };
    }
    let (seconds, counters) = (plan.duration.saturating_sub(plan.lifetime).as_secs_f64(), spot.site.shard_counters());
    let rate = |count: u64| count as f64 / seconds.max(1e-9);
    let size = plan.capacity as f64 / plan.lifetime.as_secs_f64() / plan.creates.max(1) as f64;
    [
        ("executed", executed as f64),
        ("aborted", aborted as f64),
        ("executed_pps", rate(behind)),
        ("offered_pps", rate(offered)),
        ("size_pps", size),
        ("of_size", rate(behind) / size),
        ("of_offered", behind as f64 / offered.max(1) as f64),
        ("high_water", counters.high_water as f64),
        ("late", counters.late as f64),
        ("lag_us", lag.get() as f64 / 1e3),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Cleans everything that is due.
fn clean(cleaner: &mut Cleaner, now: Instant, lag: &mut Nanos) {
    while cleaner.step(now) > 0 {}
    *lag = (*lag).max(cleaner.counters().most_lag);
}
