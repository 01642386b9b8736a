//! Filters of tenants against a list that is tried position by position, also while a writer changes the table.

mod random;

use classifier::{
    FilterChange, OpaqueKey, RefusedChanges, RuleResult, TenantError, TenantFilter, TenantFilters, TenantId, TenantKey,
    TenantTable,
};
use proptest::prelude::*;
use random::Random;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The reference: the filters of each tenant by position.
type Model = BTreeMap<TenantId, BTreeMap<u32, TenantFilter>>;

fn first<'m>(model: &'m Model, key: &TenantKey) -> Option<(&'m u32, &'m TenantFilter)> {
    model.get(&key.tenant)?.iter().find(|(_, filter)| filter.matches(&key.key))
}

/// Keys that are tried in the long test. `make soak` tries more.
fn keys_count() -> usize {
    std::env::var("SWITCHPATH_KEYS").ok().and_then(|keys| keys.parse().ok()).unwrap_or(20_000)
}

/// A key in `filter`, as far as its mask says, or near it. Fields with a range get a number from it or next to it.
fn key_near(filter: &TenantFilter, random: &mut Random) -> OpaqueKey {
    let free: [u64; 5] = std::array::from_fn(|_| random.next());
    let mut key: [u64; 5] = std::array::from_fn(|w| filter.value.0[w] & filter.mask.0[w] | free[w] & !filter.mask.0[w]);
    for range in &filter.ranges {
        let span = (range.high - range.low).saturating_add(3);
        let number = range.low.wrapping_sub(1).wrapping_add(random.next() % span);
        for i in 0..range.width {
            let (bit, set) = (usize::from(range.first_bit + i), number >> (range.width - 1 - i) & 1);
            let place = 63 - bit % 64;
            key[bit / 64] = key[bit / 64] & !(1 << place) | set << place;
        }
    }
    if random.next().is_multiple_of(4) {
        key[random.next() as usize % 5] ^= 1 << (random.next() % 64);
    }
    OpaqueKey(key)
}

/// A filter with some exact bytes, prefixes and ranges. Its action is `action`.
fn random_filter(action: u32, random: &mut Random) -> TenantFilter {
    let mut mask = [0u64; 5];
    for word in &mut mask {
        *word = match random.next() % 8 {
            0..=3 => 0,
            4 => u64::MAX << (random.next() % 64),
            5 => 0xff << (random.next() % 8 * 8),
            6 => random.next() & random.next() & random.next(),
            _ => u64::MAX,
        };
    }
    // Few values, so that filters overlap.
    let value = std::array::from_fn(|_| (random.next() % 4).wrapping_mul(0x0101_0101_1010_1010));
    let mut filter = TenantFilter::new(
        OpaqueKey(value),
        OpaqueKey(mask),
        RuleResult { action, queue: random.next() as u32, ..RuleResult::default() },
    );
    for _ in 0..random.next() % 3 {
        let (first_bit, width) = match random.next() % 4 {
            0 => ((random.next() % 300) as u16, 1 + (random.next() % 12) as u16),
            lane => (256 + (lane as u16 * 16) % 64, 16),
        };
        let (a, b) = (random.next() >> (64 - width), random.next() >> (64 - width));
        filter = filter.range(first_bit, width, (a.min(b), a.max(b)));
    }
    filter
}

/// Compares the table and the model for these keys. Returns the number that found a filter.
fn agree(table: &TenantTable, model: &Model, keys: &[TenantKey]) -> usize {
    let mut results = vec![None; keys.len()];
    table.look_up(keys, &mut results);
    for (key, result) in keys.iter().zip(&results) {
        let expected = first(model, key).map(|(_, filter)| (filter.result.action, filter.result.queue));
        assert_eq!(result.map(|result| (result.action, result.queue)), expected, "{key:x?}");
    }
    results.iter().flatten().count()
}

/// A change of one of a few positions, which the model may refuse.
fn random_change(model: &BTreeMap<u32, TenantFilter>, action: u32, random: &mut Random) -> FilterChange {
    let position = (random.next() % 400) as u32;
    match model.contains_key(&position) {
        false => FilterChange::Insert(position, random_filter(action, random)),
        true if random.next().is_multiple_of(2) => FilterChange::Replace(position, random_filter(action, random)),
        true => FilterChange::Delete(position),
    }
}

fn apply(model: &mut BTreeMap<u32, TenantFilter>, change: &FilterChange) {
    match change {
        FilterChange::Insert(position, filter) | FilterChange::Replace(position, filter) => {
            model.insert(*position, filter.clone());
        }
        FilterChange::Delete(position) => _ = model.remove(position),
    }
}

/// Keys near filters of the model. Each key is for a random tenant, so most are near a filter of another one.
fn random_keys(model: &Model, count: usize, random: &mut Random) -> Vec<TenantKey> {
    let filters: Vec<&TenantFilter> = model.values().flat_map(BTreeMap::values).collect();
    let key = |_| {
        let key = match filters.len() {
            0 => OpaqueKey::default(),
            many => key_near(filters[random.next() as usize % many], random),
        };
        TenantKey { tenant: TenantId((random.next() % 5) as u16), key }
    };
    (0..count).map(key).collect()
}

#[test]
fn table_agrees_with_a_list_over_thousands_of_changes() {
    let (mut filters, mut model, mut random) = (TenantFilters::new(20_000), Model::new(), Random(1));
    let mut reader = filters.reader();
    for tenant in (0..4).map(TenantId) {
        filters.create(tenant, 5_000).unwrap();
        model.insert(tenant, BTreeMap::new());
    }
    let (mut tried, mut found, mut rebuilt) = (0, 0, 0);
    while tried < keys_count() {
        let tenant = TenantId((random.next() % 4) as u16);
        let own = model.get_mut(&tenant).unwrap();
        for _ in 0..random.next() % 8 {
            let change = random_change(own, tenant.0.into(), &mut random);
            let made = filters.change(tenant, [change.clone()]);
            if made.is_ok() {
                apply(own, &change);
            } else {
                assert_eq!(made.map_err(|refused| refused.error), Err(TenantError::NoKeyMatches));
            }
        }
        if let Some(worn) = filters.worn() {
            rebuilt += 1;
            assert!(filters.adopt(worn.rebuilt()));
        }
        let keys = random_keys(&model, 256, &mut random);
        found += agree(reader.refresh(), &model, &keys);
        tried += keys.len();
        for (tenant, own) in &model {
            let listed: Vec<_> = filters.filters(*tenant, 0).unwrap().collect();
            assert!(listed.iter().map(|(position, filter, _)| (position, *filter)).eq(own.iter()));
            let entries: usize = listed.iter().map(|(.., uses)| uses.entries as usize).sum();
            assert_eq!(filters.usage(*tenant).unwrap().entries, entries);
        }
    }
    assert!(found * 8 > tried, "{found} of {tried} keys found a filter");
    assert!(rebuilt > 0);
    let counters: Vec<u32> =
        model.keys().flat_map(|tenant| filters.filters(*tenant, 0).unwrap()).map(|(.., uses)| uses.counter).collect();
    assert_eq!(counters.iter().collect::<HashSet<_>>().len(), counters.len(), "each filter has a counter of its own");
}

#[test]
fn look_up_beside_a_writer_sees_all_changes_of_a_batch_or_none() {
    let mut filters = TenantFilters::new(20_000);
    let mut model = Model::new();
    for tenant in (0..4).map(TenantId) {
        filters.create(tenant, 5_000).unwrap();
        model.insert(tenant, BTreeMap::new());
    }
    let mut reader = filters.reader();
    // All versions of the model. A version is here before the table is published; `published` counts those that are.
    let versions = Mutex::new(vec![Arc::new(model.clone())]);
    let (published, done) = (AtomicUsize::new(1), AtomicBool::new(false));
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut random, mut batches) = (Random(3), 0);
            while !done.load(Ordering::Acquire) || batches < 50 {
                let newest = versions.lock().unwrap().last().unwrap().clone();
                let keys = random_keys(&newest, 128, &mut random);
                let first_possible = published.load(Ordering::Acquire) - 1;
                let mut results = [None; 128];
                reader.refresh().look_up(&keys, &mut results);
                let possible = versions.lock().unwrap()[first_possible..].to_vec();
                let agrees = possible.iter().any(|model| {
                    keys.iter().zip(&results).all(|(key, result)| {
                        let expected = first(model, key).map(|(_, filter)| filter.result.queue);
                        result.map(|result: RuleResult| result.queue) == expected
                    })
                });
                assert!(agrees, "the results of a batch are of none of {} versions", possible.len());
                batches += 1;
            }
        });
        let mut random = Random(4);
        for round in 0..600 {
            let tenant = TenantId((random.next() % 4) as u16);
            let own = model.get_mut(&tenant).unwrap();
            // One change, or so many that the table of the tenant is built anew.
            let count = [1, 5, 400][round % 3];
            let mut changed = own.clone();
            let mut changes = Vec::new();
            while changes.len() < count {
                let change = random_change(&changed, 0, &mut random);
                if let FilterChange::Insert(_, filter) | FilterChange::Replace(_, filter) = &change
                    && !filter.ranges.is_empty()
                {
                    continue;
                }
                apply(&mut changed, &change);
                changes.push(change);
            }
            *own = changed;
            versions.lock().unwrap().push(Arc::new(model.clone()));
            filters.change(tenant, changes).unwrap();
            published.fetch_add(1, Ordering::Release);
            if let Some(worn) = filters.worn() {
                assert!(filters.adopt(worn.rebuilt()));
            }
        }
        done.store(true, Ordering::Release);
        reading.join().expect("the reader finds a version for each batch");
    });
}

fn all_keys(action: u32) -> TenantFilter {
    let result = RuleResult { action, ..RuleResult::default() };
    TenantFilter::new(OpaqueKey::default(), OpaqueKey::default(), result)
}

fn exact(number: u64, action: u32) -> TenantFilter {
    let result = RuleResult { action, ..RuleResult::default() };
    TenantFilter::new(OpaqueKey([number, 0, 0, 0, 0]), OpaqueKey([u64::MAX; 5]), result)
}

fn found(table: &TenantTable, tenant: u16, number: u64) -> Option<u32> {
    let mut result = [None];
    table.look_up(&[TenantKey { tenant: TenantId(tenant), key: OpaqueKey([number, 0, 0, 0, 0]) }], &mut result);
    result[0].map(|result| result.action)
}

#[test]
fn no_tenant_matches_or_lists_or_changes_the_filters_of_another() {
    let mut filters = TenantFilters::default();
    let mut reader = filters.reader();
    for tenant in 0..3 {
        filters.create(TenantId(tenant), 100).unwrap();
    }
    filters.insert(TenantId(0), 0, all_keys(10)).unwrap();
    filters.insert(TenantId(1), 5, exact(7, 11)).unwrap();
    let table = reader.refresh();
    assert_eq!([0, 1, 2, 3, u16::MAX].map(|tenant| found(table, tenant, 7)), [Some(10), Some(11), None, None, None]);
    assert_eq!(found(table, 1, 8), None, "the filter of tenant 0 that matches all keys is not for tenant 1");
    assert_eq!(filters.filters(TenantId(2), 0).unwrap().count(), 0);
    assert_eq!(filters.delete(TenantId(1), 0), Err(TenantError::NoFilter { position: 0 }));
    assert_eq!(filters.replace(TenantId(2), 5, all_keys(12)), Err(TenantError::NoFilter { position: 5 }));
    // The same position and the same key are free for each tenant.
    filters.insert(TenantId(2), 5, exact(7, 12)).unwrap();
    assert_eq!(filters.remove(TenantId(1)), Ok(1));
    let table = reader.refresh();
    assert_eq!([0, 1, 2].map(|tenant| found(table, tenant, 7)), [Some(10), None, Some(12)]);
    filters.create(TenantId(1), 100).unwrap();
    assert_eq!(found(reader.refresh(), 1, 7), None, "a new tenant of this number begins without filters");
    assert_eq!(filters.tenants().collect::<Vec<_>>(), [0, 1, 2].map(TenantId));
    assert_eq!(filters.remove(TenantId(9)), Err(TenantError::UnknownTenant { tenant: TenantId(9) }));
    assert!(filters.filters(TenantId(9), 0).is_err() && filters.usage(TenantId(9)).is_err());
}

#[test]
fn filter_between_two_others_leaves_their_positions_and_counters() {
    let mut filters = TenantFilters::default();
    let mut reader = filters.reader();
    filters.create(TenantId(0), 100).unwrap();
    let last = filters.insert(TenantId(0), 20, all_keys(20)).unwrap();
    let head = filters.insert(TenantId(0), 10, exact(1, 10)).unwrap();
    let middle = filters.insert(TenantId(0), 15, exact(2, 15)).unwrap();
    assert_eq!([1, 2, 3].map(|number| found(reader.refresh(), 0, number)), [Some(10), Some(15), Some(20)]);
    let listed = |filters: &TenantFilters, from| {
        filters.filters(TenantId(0), from).unwrap().map(|(position, _, uses)| (position, uses)).collect::<Vec<_>>()
    };
    assert_eq!(listed(&filters, 0), [(10, head), (15, middle), (20, last)]);
    assert_eq!(listed(&filters, 11), [(15, middle), (20, last)]);
    assert_eq!(filters.replace(TenantId(0), 15, all_keys(16)), Ok(middle), "the counter stays");
    assert_eq!([1, 3].map(|number| found(reader.refresh(), 0, number)), [Some(10), Some(16)]);
    assert_eq!(filters.insert(TenantId(0), 15, all_keys(1)), Err(TenantError::PositionTaken { position: 15 }));
    assert_eq!(filters.insert(TenantId(0), u32::MAX, all_keys(1)), Err(TenantError::PositionTooLarge));
    assert!(filters.insert(TenantId(0), u32::MAX - 1, all_keys(1)).is_ok());
}

#[test]
fn result_has_the_number_of_the_counter_of_its_filter() {
    let mut filters = TenantFilters::default();
    filters.create(TenantId(3), 100).unwrap();
    let uses: Vec<_> = (0..50).map(|n| filters.insert(TenantId(3), n, exact(n.into(), n)).unwrap()).collect();
    let keys: Vec<_> = (0..50).map(|n| TenantKey { tenant: TenantId(3), key: OpaqueKey([n, 0, 0, 0, 0]) }).collect();
    let mut results = [None; 50];
    filters.reader().get().look_up(&keys, &mut results);
    for (result, uses) in results.iter().zip(&uses) {
        assert_eq!(result.map(|result| result.counter), Some(uses.counter));
        assert!(uses.counter < filters.counters());
    }
}

#[test]
fn counter_is_not_used_again_while_a_worker_has_the_old_table() {
    let mut filters = TenantFilters::new(2);
    filters.create(TenantId(0), 2).unwrap();
    let first = filters.insert(TenantId(0), 0, exact(0, 0)).unwrap().counter;
    let mut worker = filters.reader();
    filters.delete(TenantId(0), 0).unwrap();
    let others: Vec<u32> = (1..4)
        .map(|n| filters.insert(TenantId(0), n, exact(n.into(), 0)).map(|uses| uses.counter))
        .take(2)
        .map(Result::unwrap)
        .collect();
    assert!(!others.contains(&first));
    for position in [1, 2] {
        filters.delete(TenantId(0), position).unwrap();
    }
    let mut used = HashSet::from([first, others[0], others[1]]);
    assert!(used.insert(filters.insert(TenantId(0), 5, all_keys(0)).unwrap().counter));
    let refused = filters.insert(TenantId(0), 6, all_keys(0));
    assert_eq!(refused, Err(TenantError::CountersInUse));
    worker.refresh();
    assert!(
        !used.insert(filters.insert(TenantId(0), 6, all_keys(0)).unwrap().counter),
        "it is one of the former counters"
    );
}

#[test]
fn quotas_share_the_table_and_limit_each_tenant() {
    let mut filters = TenantFilters::default();
    assert_eq!(filters.free_entries(), 131_072);
    filters.create(TenantId(0), 131_000).unwrap();
    let refused = filters.create(TenantId(1), 100).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a quota of 100 filter entries exceeds the 72 that other tenants leave; lower it, or the quota of another tenant"
    );
    filters.set_quota(TenantId(0), 60).unwrap();
    filters.create(TenantId(1), 131_012).unwrap();
    assert_eq!(filters.create(TenantId(1), 0), Err(TenantError::TenantExists { tenant: TenantId(1) }));
    assert!(matches!(filters.create(TenantId(4096), 0), Err(TenantError::TenantTooLarge { .. })));
    // Two ranges of 16 bits that are no prefixes: 30 entries each.
    filters.insert(TenantId(0), 0, all_keys(0).range(0, 16, (1, 65_534))).unwrap();
    filters.insert(TenantId(0), 1, all_keys(0).range(0, 16, (1, 65_534))).unwrap();
    let refused = filters.insert(TenantId(0), 2, all_keys(0)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the filters of tenant 0 would need 61 entries, more than its quota of 60; delete some, or raise the quota"
    );
    assert_eq!(filters.usage(TenantId(0)).map(|uses| (uses.entries, uses.filters)), Ok((60, 2)));
    assert!(matches!(filters.set_quota(TenantId(0), 59), Err(TenantError::QuotaExceeded { entries: 60, .. })));
    assert!(matches!(filters.set_quota(TenantId(0), 61), Err(TenantError::TableTooSmall { free: 60, .. })));
    // A batch that fits as a whole may insert first.
    let swap = [FilterChange::Insert(2, all_keys(2)), FilterChange::Delete(0)];
    assert_eq!(filters.change(TenantId(0), swap).unwrap()[0].entries, 1);
    assert_eq!(filters.usage(TenantId(0)).map(|uses| (uses.entries, uses.filters)), Ok((31, 2)));
    // A range is refused before it uses memory for more entries than the table has.
    let wide =
        all_keys(0).range(0, 64, (1, u64::MAX - 1)).range(64, 64, (1, u64::MAX - 1)).range(128, 64, (1, u64::MAX - 1));
    assert!(matches!(filters.insert(TenantId(1), 0, wide), Err(TenantError::TooManyEntries { .. })));
}

#[test]
fn ten_thousand_changes_are_made_together_or_not_at_all() {
    let mut filters = TenantFilters::default();
    let mut reader = filters.reader();
    filters.create(TenantId(0), 20_000).unwrap();
    let insert = |n: u32| FilterChange::Insert(n, exact(n.into(), n));
    let mut changes: Vec<FilterChange> = (0..10_000).map(insert).collect();
    changes[9_999] = FilterChange::Delete(70_000);
    let refused = filters.change(TenantId(0), changes.clone()).unwrap_err();
    assert_eq!(refused, RefusedChanges { change: Some(9_999), error: TenantError::NoFilter { position: 70_000 } });
    assert_eq!(refused.to_string(), "change 10000: there is no filter at position 70000");
    assert_eq!(filters.usage(TenantId(0)).unwrap().entries, 0);
    assert_eq!(found(reader.refresh(), 0, 5), None);
    changes[9_999] = insert(9_999);
    filters.change(TenantId(0), changes).unwrap();
    assert!((0..10_000).all(|n| found(reader.refresh(), 0, n) == Some(n as u32)));
    // A refused batch restores the deleted and the replaced filters, also if both are at one position.
    let several = [
        FilterChange::Delete(5),
        insert(5),
        FilterChange::Replace(5, all_keys(1)),
        FilterChange::Delete(5),
        FilterChange::Replace(6, all_keys(2)),
        FilterChange::Insert(7, all_keys(3)),
    ];
    let before: Vec<_> =
        filters.filters(TenantId(0), 0).unwrap().map(|(at, filter, uses)| (at, filter.clone(), uses)).collect();
    let refused = filters.change(TenantId(0), several.clone()).unwrap_err();
    assert_eq!(refused, RefusedChanges { change: Some(5), error: TenantError::PositionTaken { position: 7 } });
    assert!(filters.filters(TenantId(0), 0).unwrap().map(|(at, filter, uses)| (at, filter.clone(), uses)).eq(before));
    assert_eq!(found(reader.refresh(), 0, 5), Some(5));
    filters.change(TenantId(0), several[..5].to_vec()).unwrap();
    assert_eq!([5, 6].map(|number| found(reader.refresh(), 0, number)), [Some(2), Some(2)]);
}

#[test]
fn rebuilt_table_has_the_changes_made_meanwhile() {
    let mut filters = TenantFilters::default();
    let mut reader = filters.reader();
    filters.create(TenantId(0), 5_000).unwrap();
    filters.create(TenantId(1), 5_000).unwrap();
    assert!(filters.worn().is_none());
    let fill = |filters: &mut TenantFilters, tenant| {
        (0..1_000).for_each(|n| _ = filters.insert(TenantId(tenant), n, exact(n.into(), n)).unwrap());
    };
    fill(&mut filters, 0);
    let worn = filters.worn().expect("all filters are new");
    assert!(filters.worn().is_none(), "a tenant is given out once");
    filters.delete(TenantId(0), 3).unwrap();
    filters.insert(TenantId(0), 5_000, all_keys(9)).unwrap();
    assert!(filters.adopt(worn.rebuilt()));
    assert_eq!([2, 3, 4].map(|number| found(reader.refresh(), 0, number)), [Some(2), Some(9), Some(4)]);
    assert!(filters.worn().is_none());
    // A tenant that was removed meanwhile gets no filters back, not even under the same number.
    fill(&mut filters, 1);
    let worn = filters.worn().expect("all filters are new");
    filters.remove(TenantId(1)).unwrap();
    filters.create(TenantId(1), 100).unwrap();
    assert!(!filters.adopt(worn.rebuilt()));
    assert_eq!(found(reader.refresh(), 1, 2), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_changes_leave_the_table_as_the_list(seed: u64, batches in proptest::collection::vec((0u16..3, 1usize..40, any::<bool>()), 1..20)) {
        let (mut filters, mut model, mut random) = (TenantFilters::new(3_000), Model::new(), Random(seed | 1));
        for tenant in (0..3).map(TenantId) {
            filters.create(tenant, 1_000).unwrap();
            model.insert(tenant, BTreeMap::new());
        }
        let mut reader = filters.reader();
        for (tenant, count, wrong) in batches {
            let tenant = TenantId(tenant);
            let mut changed = model[&tenant].clone();
            let mut changes = Vec::new();
            for _ in 0..count {
                let change = random_change(&changed, tenant.0.into(), &mut random);
                apply(&mut changed, &change);
                changes.push(change);
            }
            if wrong {
                changes.push(FilterChange::Delete(401));
            }
            match filters.change(tenant, changes).map_err(|refused| refused.error) {
                Ok(_) => _ = model.insert(tenant, changed),
                Err(error) => {
                    let is_wrong = wrong && error == TenantError::NoFilter { position: 401 };
                    let is_large = matches!(error, TenantError::QuotaExceeded { .. });
                    prop_assert!(is_wrong || is_large || error == TenantError::NoKeyMatches, "{}", error);
                }
            }
            agree(reader.refresh(), &model, &random_keys(&model, 64, &mut random));
        }
    }
}
