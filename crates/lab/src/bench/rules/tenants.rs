//! Filters of tenants: look-ups, changes and memory of a full table.

use super::{BATCH_OF_CHANGES, CHANGES, LONGEST_CHANGE, MOST_BYTES, PACKETS, cost_of_batches, figure, generated};
use crate::bench::components::sequence;
use crate::bench::writer::timed;
use crate::bench::{BenchFigure, Rounds, median};
use classifier::{FilterChange, OpaqueKey, RuleResult, TenantFilter, TenantFilters, TenantId, TenantKey};
use io::clock::CycleCounter;
use packet::BATCH;
use std::hint::black_box;

const TENANTS: u16 = 16;
/// Filters of a tenant: together they fill the table.
const FILTERS: usize = (128 << 10) / TENANTS as usize;

/// A filter and a key that it matches.
type Made = (TenantFilter, OpaqueKey);

/// Filters of one entry each. The kind of keys depends on the tenant.
fn filters(tenant: u16) -> Vec<Made> {
    let mut random = sequence(u64::from(tenant) + 11);
    let mut next = move || random.next().unwrap_or(0) >> 5;
    match tenant % 4 {
        // Access lists on IPv4: addresses, protocol, and ports as ranges at the end of the key.
        0 => generated(FILTERS).iter().map(|rule| access_rule(rule, &mut next)).collect(),
        // Identifiers of 256 bits: most are exact, some are prefixes.
        1 => (0..FILTERS).map(|_| identifier(&mut next)).collect(),
        // IPv6 destinations of 32 to 64 bits, with a service or without.
        2 => (0..FILTERS).map(|_| destination(&mut next)).collect(),
        // Headers of 14 bytes, of which a filter compares some: one of eight selections.
        _ => {
            let selections: [[u64; 2]; 8] = std::array::from_fn(|_| some_bytes(&mut next));
            (0..FILTERS).map(|_| header(&selections, &mut next)).collect()
        }
    }
}

/// A key that agrees with `value` in the bits of `mask`.
fn made(value: [u64; 5], mask: [u64; 5], next: &mut impl FnMut() -> u64) -> Made {
    let key = std::array::from_fn(|w| value[w] & mask[w] | next() & !mask[w]);
    (TenantFilter::new(OpaqueKey(value), OpaqueKey(mask), RuleResult::default()), OpaqueKey(key))
}

fn access_rule(rule: &super::Rule, next: &mut impl FnMut() -> u64) -> Made {
    let leading = |length: u8| u64::from(u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0));
    let (source, destination) = (rule.source, rule.destination);
    let mut value = [u64::from(super::bits(source)) << 32 | u64::from(super::bits(destination)), 0, 0, 0, 0];
    let mut mask = [leading(source.length) << 32 | leading(destination.length), 0, 0, 0, 0];
    if let Some(protocol) = rule.protocol {
        (value[1], mask[1]) = (u64::from(protocol) << 56, 0xff << 56);
    }
    let (mut filter, mut key) = made(value, mask, next);
    for (range, first_bit) in [(&rule.sport, 288u16), (&rule.dport, 304)] {
        let (low, high) = (u64::from(*range.start()), u64::from(*range.end()));
        let number = low + next() % (high - low + 1);
        let shift = 304 - first_bit;
        key.0[4] = key.0[4] & !(0xffff << shift) | number << shift;
        filter = filter.range(first_bit, 16, (low, high));
    }
    (filter, key)
}

fn identifier(next: &mut impl FnMut() -> u64) -> Made {
    let value = [next() << 5, next() << 5, next() << 5, next() << 5, 0];
    let mask = match next() % 8 {
        0 => [u64::MAX << (next() % 32), 0, 0, 0, 0],
        1 => [u64::MAX, u64::MAX << (next() % 64), 0, 0, 0],
        _ => [u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0],
    };
    made(value, mask, next)
}

fn destination(next: &mut impl FnMut() -> u64) -> Made {
    let value = [0, 0, 1 << 61 | next() & (u64::MAX >> 3), 0, next() % 64];
    let service = if next().is_multiple_of(2) { 0xffff } else { 0 };
    made(value, [0, 0, u64::MAX << (next() % 33), 0, service], next)
}

/// About half of the first 14 bytes, at least the first two.
fn some_bytes(next: &mut impl FnMut() -> u64) -> [u64; 2] {
    let chosen = next() | 3;
    let mask = |first: u32, count: u32| {
        (0..count).filter(|i| chosen >> (first + i) & 1 == 1).fold(0, |mask, i| mask | 0xff << (56 - i * 8))
    };
    [mask(0, 8), mask(8, 6)]
}

fn header(selections: &[[u64; 2]; 8], next: &mut impl FnMut() -> u64) -> Made {
    let [first, second] = selections[next() as usize % 8];
    let value = [next() << 5, next() << 5, 0, 0, 0];
    made(value, [first, second, 0, 0, 0], next)
}

/// A full table of 16 tenants.
struct FullTable {
    filters: TenantFilters,
    /// The filters and their keys, by tenant and position.
    made: Vec<Vec<Made>>,
    /// The seconds that all inserts took.
    built: f64,
}

impl FullTable {
    fn new() -> Self {
        let made: Vec<Vec<Made>> = (0..TENANTS).map(filters).collect();
        let mut filters = TenantFilters::default();
        let (built, ()) = timed(&CycleCounter::calibrated(), || {
            for (tenant, made) in (0..).map(TenantId).zip(&made) {
                filters.create(tenant, FILTERS).expect("the quotas fill the table");
                let insert = |(position, (filter, _)): (u32, &Made)| FilterChange::Insert(position, filter.clone());
                filters.change(tenant, (0..).zip(made).map(insert)).expect("each filter is one entry");
            }
        });
        FullTable { filters, made, built }
    }

    /// Keys of random filters of random tenants.
    fn keys(&self) -> Vec<TenantKey> {
        let mut random = sequence(5);
        let mut next = || (random.next().unwrap_or(0) >> 16) as usize;
        let key = |_| {
            let (tenant, position) = (next() % usize::from(TENANTS), next() % FILTERS);
            TenantKey { tenant: TenantId(tenant as u16), key: self.made[tenant][position].1 }
        };
        (0..PACKETS).map(key).collect()
    }

    /// Deletes a random filter, or inserts it again.
    fn flips(&self, seed: u64) -> impl Iterator<Item = (TenantId, FilterChange)> {
        sequence(seed).flat_map(|random| {
            let (tenant, position) = ((random >> 16) as u16 % TENANTS, (random >> 32) as u32 % FILTERS as u32);
            let filter = self.made[usize::from(tenant)][position as usize].0.clone();
            [FilterChange::Delete(position), FilterChange::Insert(position, filter)]
                .map(|change| (TenantId(tenant), change))
        })
    }

    /// Seconds of each of some changes, one at a time.
    fn change_times(&mut self) -> Vec<f64> {
        let counter = CycleCounter::calibrated();
        let flips: Vec<_> = self.flips(77).take(CHANGES).collect();
        let change = |(tenant, change)| {
            let (took, made) = timed(&counter, || self.filters.change(tenant, [change]));
            made.expect("the filter is there, or is not");
            took
        };
        flips.into_iter().map(change).collect()
    }

    /// Seconds of many changes of one tenant together: half of its filters and more leave their places to others.
    fn batch_time(&mut self, tenant: u16) -> f64 {
        let replace = |(i, (filter, _)): (u32, &Made)| FilterChange::Replace(i * 13 % FILTERS as u32, filter.clone());
        let changes: Vec<_> =
            (0..).zip(self.made[usize::from(tenant)].iter().cycle().take(BATCH_OF_CHANGES)).map(replace).collect();
        let (took, made) = timed(&CycleCounter::calibrated(), || self.filters.change(TenantId(tenant), changes));
        made.expect("all positions have a filter");
        took
    }
}

/// Look-ups, changes and memory of a full table of 16 tenants.
pub(super) fn measure(rounds: Rounds) -> Vec<BenchFigure> {
    let mut table = FullTable::new();
    let entries = f64::from(TENANTS) * FILTERS as f64;
    let name = |what: &str| format!("131072 filters of {TENANTS} tenants: {what}");
    let keys = table.keys();
    let reader = table.filters.reader();
    let prepare = |state: &mut Vec<TenantKey>, batch: &[TenantKey]| {
        state.clear();
        state.extend_from_slice(batch);
    };
    let cost = cost_of_batches(rounds, &keys, &mut Vec::with_capacity(BATCH), prepare, |keys| {
        let mut results = [None; BATCH];
        reader.get().look_up(keys, &mut results[..keys.len()]);
        assert!(black_box(results)[..keys.len()].iter().all(Option::is_some), "each key has a filter");
    });
    let (in_table, in_list) = table.filters.bytes();
    let times: Vec<Vec<f64>> = (0..rounds.0).map(|_| table.change_times()).collect();
    let times: Vec<f64> = (0..CHANGES).map(|i| median(times.iter().map(|times| times[i] * 1e6).collect())).collect();
    let batch = |_| median((0..4).map(|tenant| table.batch_time(tenant) * 1e3).collect());
    let together = median((0..rounds.0).map(batch).collect());
    let one = |what: &str, value| figure(name(&format!("one change, {what}")), value, "us", Some(LONGEST_CHANGE));
    vec![
        figure(name("look-up"), cost, "ns/packet", Some(150.0)),
        figure(name("memory"), (in_table + in_list) as f64 / entries, "bytes/filter", Some(MOST_BYTES)),
        figure(name("memory of the look-up table alone"), in_table as f64 / entries, "bytes/filter", None),
        figure(name("inserted, a tenant at a time"), table.built * 1e3, "ms", None),
        one("mean", times.iter().sum::<f64>() / CHANGES as f64),
        one(&format!("the slowest of {CHANGES}"), times.iter().copied().fold(0.0, f64::max)),
        figure(name("10^4 changes of a tenant together"), together, "ms", None),
    ]
}
