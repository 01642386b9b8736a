//! When exactly an entry expires, and that nothing extends its lifetime (spec E-02, E-03, E-X15).

use super::packet_executor::{PacketExecutor, part};
use super::{Values, quantity};
use crate::random::RandomStream;
use esp::isa::StateInstruction;
use esp::site::InstructionFate;
use esp::store::StoreSpec;
use serde::Deserialize;
use units::{Instant, Nanos};

/// The times of writes and lookups.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct LifetimePlan {
    /// The lifetime of entries.
    #[serde(deserialize_with = "quantity")]
    pub lifetime: Nanos,
    /// The ages of lookups, in thousandths of a lifetime.
    pub looks: Vec<u64>,
    /// The age at which the entry is written, counted and marked again, in thousandths of a lifetime.
    pub writes: u64,
    /// The number of entries, each created at another time.
    pub entries: u64,
    /// The seed of the creation times.
    pub seed: u64,
}

/// Runs the trial with one entry after the other.
///
/// | value | meaning |
/// |---|---|
/// | `present.AGE` | the part of entries that is found at this age, in thousandths of a lifetime |
/// | `lived_min_us`, `lived_max_us` | how long entries were found, to the microsecond by binary search |
/// | `anew` | the part that can be created again after expiry, and then lives a full lifetime |
pub fn run(plan: &LifetimePlan) -> Values {
    let mut chance = RandomStream::new(plan.seed, "moments");
    let mut present = vec![0u64; plan.looks.len()];
    let (mut anew, mut shortest, mut longest) = (0u64, Nanos::new(u64::MAX), Nanos::ZERO);
    let of = |thousandths: u64| Nanos::new(plan.lifetime.get() / 1000 * thousandths);
    for n in 0..plan.entries {
        // A random time, so that entries start anywhere between two ticks of the store.
        let start = Instant::new(1_000_000_000 + chance.below(1_000_000_000));
        let mut looked: Vec<(usize, u64)> = plan.looks.iter().copied().enumerate().collect();
        looked.sort_by_key(|(_, at)| *at);
        let mut spot = create_entry(plan, n, start);
        let mut written = false;
        for (place, at) in looked {
            if at > plan.writes && !written {
                writes(&mut spot, n, start + of(plan.writes));
                written = true;
            }
            present[place] += u64::from(has_entry(&mut spot, n, start + of(at)));
        }
        let lived = measure_lifetime(plan, n, start);
        (shortest, longest) = (shortest.min(lived), longest.max(lived));
        let later = start + of(1500);
        let again = !has_entry(&mut spot, n, later) && {
            mark(&mut spot, n, later);
            has_entry(&mut spot, n, later + of(999)) && !has_entry(&mut spot, n, later + of(1000))
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

fn create_entry(plan: &LifetimePlan, tag: u64, start: Instant) -> PacketExecutor {
    let mut spot = PacketExecutor::with_own_store(StoreSpec { lifetime: plan.lifetime, ..StoreSpec::of(8) }, 1);
    mark(&mut spot, tag, start);
    spot
}

fn mark(spot: &mut PacketExecutor, tag: u64, now: Instant) {
    spot.execute(now, &part(1, StateInstruction::Mark { tag, value: 1 }));
}

/// Every operation that may write to an existing entry.
fn writes(spot: &mut PacketExecutor, tag: u64, now: Instant) {
    for instruction in [
        StateInstruction::Put { tag, value: 5 },
        StateInstruction::Mark { tag, value: 6 },
        StateInstruction::Count { counter: tag, threshold: 9, inclusive: false },
    ] {
        spot.execute(now, &part(1, instruction));
    }
}

fn has_entry(spot: &mut PacketExecutor, tag: u64, now: Instant) -> bool {
    spot.execute(now, &part(1, StateInstruction::Test { tag })) == InstructionFate::Forwarded
}

/// How long an entry is found that was created at `start` and written to later.
fn measure_lifetime(plan: &LifetimePlan, tag: u64, start: Instant) -> Nanos {
    let (mut found, mut gone) = (0, plan.lifetime.get() * 2);
    while gone - found > 1000 {
        let middle = found + (gone - found) / 2;
        let mut spot = create_entry(plan, tag, start);
        let at = Nanos::new(plan.lifetime.get() / 1000 * plan.writes);
        if at.get() < middle {
            writes(&mut spot, tag, start + at);
        }
        if has_entry(&mut spot, tag, start + Nanos::new(middle)) { found = middle } else { gone = middle }
    }
    Nanos::new(gone)
}
