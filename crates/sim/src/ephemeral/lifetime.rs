//! When exactly something is gone, and that nothing prolongs it (spec E-02, E-03, E-X15).

use super::spot::{Spot, part};
use super::{Values, quantity};
use crate::chance::Chance;
use esp::isa::Instruction;
use esp::site::Fate;
use esp::store::StoreSpec;
use serde::Deserialize;
use units::{Instant, Nanos};

/// When what is written and looked for.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How long entries are to live.
    #[serde(deserialize_with = "quantity")]
    pub lifetime: Nanos,
    /// Ages at which it is looked for, in thousandths of a lifetime.
    pub looks: Vec<u64>,
    /// The age at which somebody writes, and counts, and marks again; in thousandths of a lifetime.
    pub writes: u64,
    /// Entries, each made at another moment.
    pub entries: u64,
    /// What moments are drawn from.
    pub seed: u64,
}

/// Runs it, with an entry after another.
///
/// | value | what |
/// |---|---|
/// | `present.AGE` | the part of entries that is found at this age, in thousandths of a lifetime |
/// | `lived_min_us`, `lived_max_us` | how long entries were found, by search to the microsecond |
/// | `anew` | the part that can be made again once it is gone, and lives a lifetime again |
pub fn run(plan: &Plan) -> Values {
    let mut chance = Chance::new(plan.seed, "moments");
    let mut present = vec![0u64; plan.looks.len()];
    let (mut anew, mut shortest, mut longest) = (0u64, Nanos::new(u64::MAX), Nanos::ZERO);
    let of = |thousandths: u64| Nanos::new(plan.lifetime.get() / 1000 * thousandths);
    for n in 0..plan.entries {
        // Anywhere between two ticks of a store.
        let start = Instant::new(1_000_000_000 + chance.below(1_000_000_000));
        let mut looked: Vec<(usize, u64)> = plan.looks.iter().copied().enumerate().collect();
        looked.sort_by_key(|(_, at)| *at);
        let mut spot = made(plan, n, start);
        let mut written = false;
        for (place, at) in looked {
            if at > plan.writes && !written {
                writes(&mut spot, n, start + of(plan.writes));
                written = true;
            }
            present[place] += u64::from(finds(&mut spot, n, start + of(at)));
        }
        let lived = lived(plan, n, start);
        (shortest, longest) = (shortest.min(lived), longest.max(lived));
        let later = start + of(1500);
        let again = !finds(&mut spot, n, later) && {
            mark(&mut spot, n, later);
            finds(&mut spot, n, later + of(999)) && !finds(&mut spot, n, later + of(1000))
        };
        anew += u64::from(again);
    }
    let part = |count: u64| count as f64 / plan.entries.max(1) as f64;
    let mut values: Values =
        plan.looks.iter().zip(&present).map(|(at, count)| (format!("present.{at}"), part(*count))).collect();
    values.insert("anew".to_owned(), part(anew));
    values.insert("lived_min_us".to_owned(), shortest.get() as f64 / 1e3);
    values.insert("lived_max_us".to_owned(), longest.get() as f64 / 1e3);
    values
}

fn made(plan: &Plan, tag: u64, start: Instant) -> Spot {
    let mut spot = Spot::of(StoreSpec { lifetime: plan.lifetime, ..StoreSpec::of(8) }, 1);
    mark(&mut spot, tag, start);
    spot
}

fn mark(spot: &mut Spot, tag: u64, now: Instant) {
    spot.pass(now, &part(1, Instruction::Mark { tag, value: 1 }));
}

/// Everything that may write to an entry that is there.
fn writes(spot: &mut Spot, tag: u64, now: Instant) {
    for instruction in [
        Instruction::Put { tag, value: 5 },
        Instruction::Mark { tag, value: 6 },
        Instruction::Count { counter: tag, threshold: 9, inclusive: false },
    ] {
        spot.pass(now, &part(1, instruction));
    }
}

fn finds(spot: &mut Spot, tag: u64, now: Instant) -> bool {
    spot.pass(now, &part(1, Instruction::Test { tag })) == Fate::Forwarded
}

/// How long an entry is found that was made at `start` and written to later.
fn lived(plan: &Plan, tag: u64, start: Instant) -> Nanos {
    let (mut found, mut gone) = (0, plan.lifetime.get() * 2);
    while gone - found > 1000 {
        let middle = found + (gone - found) / 2;
        let mut spot = made(plan, tag, start);
        let at = Nanos::new(plan.lifetime.get() / 1000 * plan.writes);
        if at.get() < middle {
            writes(&mut spot, tag, start + at);
        }
        if finds(&mut spot, tag, start + Nanos::new(middle)) { found = middle } else { gone = middle }
    }
    Nanos::new(gone)
}
