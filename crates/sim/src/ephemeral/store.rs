//! Packets that create state, at a rate, in a store of a size (spec E-X1, E-X7; Calvert et al. 2003, 2 and Figure 3).

use super::spot::{Spot, part};
use super::{Values, quantity};
use crate::chance::Chance;
use esp::isa::{Abort, Instruction};
use esp::site::Fate;
use esp::store::{Cleaner, Cleaning, Epochs, Grace, Key, Store, StoreSpec};
use serde::Deserialize;
use std::sync::Arc;
use units::{Instant, Nanos, PacketRate};

/// How often a cleaner that assists looks at least, in parts of a lifetime.
const LOOKS: u64 = 1000;

/// What comes, and into what.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Packets a second.
    #[serde(deserialize_with = "quantity")]
    pub rate: PacketRate,
    /// Entries that each creates: 1 (COUNT) or 2 (RCHLD).
    pub creates: u64,
    /// Entries of the store.
    pub capacity: u64,
    /// How long they live.
    #[serde(deserialize_with = "quantity")]
    pub lifetime: Nanos,
    /// How long packets come.
    #[serde(deserialize_with = "quantity")]
    pub duration: Nanos,
    /// Who cleans: `inline` or `assist`.
    #[serde(default)]
    pub cleaning: Who,
    /// Whether packets come at random and not in step.
    #[serde(default)]
    pub random: bool,
    /// What tags and random arrivals are drawn from.
    #[serde(default)]
    pub seed: u64,
}

/// Who cleans.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// The owner, after each packet.
    #[default]
    Inline,
    /// Somebody who comes by a thousand times a lifetime.
    Assist,
}

/// Runs it. What is a rate is of the time behind the first lifetime.
///
/// | value | what |
/// |---|---|
/// | `executed`, `aborted` | packets whose instruction was executed, and that found no room |
/// | `executed_pps`, `offered_pps` | behind the first lifetime |
/// | `size_pps` | packets a second that the store has room for: its size by lifetime and creates |
/// | `of_size`, `of_offered` | `executed_pps` in parts of that, and of what was offered |
/// | `high_water` | the most entries there were, expired ones that were not freed included |
/// | `late` | aborts only because the cleaner was behind |
/// | `lag_us` | the longest that an entry had been expired when it was freed |
pub fn run(plan: &Plan) -> Values {
    let cleaning = if plan.cleaning == Who::Inline { Cleaning::Inline } else { Cleaning::Assist };
    let spec = StoreSpec { lifetime: plan.lifetime, cleaning, ..StoreSpec::of(plan.capacity) };
    let Store { mut shards, mut cleaner, .. } = Store::new(spec, &Arc::new(Epochs::new(1)), Grace::Counters);
    let mut spot = Spot::new(shards.remove(0), 1);
    let (tags, mut chance) = (Key::new([plan.seed, 0x7465]), Chance::new(plan.seed, "arrivals"));
    let gap = 1e9 / plan.rate.get().max(1) as f64;
    let (mut executed, mut aborted, mut behind, mut offered) = (0u64, 0u64, 0u64, 0u64);
    let (mut at, mut n, mut lag, mut looked) = (0.0, 0u64, Nanos::ZERO, Instant::START);
    let look = Nanos::new((plan.lifetime.get() / LOOKS).max(1));
    while at < plan.duration.get() as f64 {
        let now = Instant::new(at as u64);
        if let Some(cleaner) = cleaner.as_mut().filter(|_| now.since(looked) >= look) {
            looked = now;
            clean(cleaner, now, &mut lag);
        }
        let tag = tags.hash(n);
        let instruction = match plan.creates {
            1 => Instruction::Count { counter: tag, threshold: 2, inclusive: false },
            _ => Instruction::Rchld { counter: tag, child: n },
        };
        let fate = spot.pass(now, &part(tags.hash(!n), instruction));
        let done = fate == Fate::Forwarded;
        executed += u64::from(done);
        aborted += u64::from(fate == Fate::Aborted(Abort::Full));
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

/// Everything that is due, by somebody who has the time.
fn clean(cleaner: &mut Cleaner, now: Instant, lag: &mut Nanos) {
    while cleaner.step(now) > 0 {}
    *lag = (*lag).max(cleaner.counters().most_lag);
}
