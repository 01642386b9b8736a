//! Tests against the worked example of the paper, a naive table and the forwarding tables.

use super::*;
use crate::oracle::{Naive, Step, TableChange, prefixes, steps};
use crate::{Fib4, Fib6};
use proptest::prelude::*;
use std::collections::VecDeque;

/// The outcomes of the 4-bit addresses of the paper's figure 3 (P-12).
const EXAMPLE: [u32; 16] = [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3, 2, 2];

fn table_of(outcomes: &[u32]) -> Starts<u32> {
    let width = outcomes.len().ilog2() as u8;
    flatten(width, outcomes.iter().enumerate().map(|(address, &word)| (address as u32, width, word)))
}

fn routes<A: TryFrom<u128>>(naive: &Naive) -> impl Iterator<Item = Route<A>> {
    let narrow = |address: u128| A::try_from(address).ok().expect("within the width");
    naive.routes.iter().map(move |(&(length, prefix), &word)| (narrow(prefix), length, word))
}

#[test]
fn worked_example_needs_three_ranges_with_bit_one() {
    let table = table_of(&EXAMPLE);
    assert_eq!(table.len(), 8, "neighbours merge into ranges of two addresses");
    let totals = [0, 1, 2, 3].map(|bit| {
        let plan = IndexPlan::<u32>::with_bits(4, [bit]);
        plan.split(&table).iter().map(Vec::len).sum::<usize>()
    });
    assert_eq!(totals, [16, 3, 8, 8]);
    let plan = IndexPlan::choose(4, &table, &PlanOptions::new(1));
    assert_eq!(plan.steps(), [PlanStep { bit: 1, ranges: 3, variance: 0.25 }]);
    // Tags of bits 3, 2 and 0: A and C share the partition of bit 1 clear, B is the other partition.
    assert_eq!(plan.split(&table), [vec![(0b000, 1), (0b100, 3)], vec![(0b000, 2)]]);
    let partitions = Partitions::new(plan.into(), &table);
    let ranges =
        |word| (0..16).filter(|&a| partitions.find(partitions.plan().permute(a)).word == word).collect::<Vec<u32>>();
    assert_eq!(ranges(1), [0b0000, 0b0001, 0b0100, 0b0101]);
    assert_eq!(ranges(2), [2, 3, 6, 7, 10, 11, 14, 15]);
    assert_eq!(ranges(3), [0b1000, 0b1001, 0b1100, 0b1101]);
}

#[test]
fn more_index_bits_may_need_more_ranges() {
    let table = table_of(&EXAMPLE);
    let ranges = |bits| IndexPlan::choose(4, &table, &PlanOptions::new(bits)).steps().last().map(|step| step.ranges);
    assert_eq!([ranges(1), ranges(2)], [Some(3), Some(4)], "P-16");
}

/// Tables of 256 addresses whose outcomes depend on several bits together.
fn mixed_tables() -> impl Iterator<Item = Starts<u32>> {
    // A multiplicative hash as outcome of blocks of four addresses.
    let outcome = |seed: u32, address: u32| (((address >> 2) + seed).wrapping_mul(0x9e37_79b1) >> 30) + 1;
    (0..20).map(move |seed| table_of(&(0..256).map(|address| outcome(seed, address)).collect::<Vec<u32>>()))
}

#[test]
fn look_ahead_chooses_best_pair_of_bits_where_greedy_choice_does_not() {
    let mut fewer = 0;
    for table in mixed_tables() {
        let greedy = PlanOptions { objective: PlanObjective::Lexicographic, ..PlanOptions::new(2) };
        let ranges = |plan: &IndexPlan<u32>| plan.split(&table).iter().map(Vec::len).sum::<usize>();
        let plain = ranges(&IndexPlan::choose(8, &table, &greedy));
        let ahead = ranges(&IndexPlan::choose(8, &table, &PlanOptions { look_ahead: true, ..greedy }));
        let pairs = (0..8).flat_map(|a| (0..a).map(move |b| [a, b]));
        assert_eq!(Some(ahead), pairs.map(|pair| ranges(&IndexPlan::with_bits(8, pair))).min());
        fewer += usize::from(ahead < plain);
    }
    assert!(fewer > 0, "P-16: in some tables the greedy choice is worse");
}

#[test]
fn exchange_of_bits_never_adds_ranges_and_reports_each_step() {
    let mut fewer = 0;
    for table in mixed_tables() {
        let options = PlanOptions { objective: PlanObjective::Lexicographic, ..PlanOptions::new(3) };
        let greedy = IndexPlan::choose(8, &table, &options);
        let swapped = IndexPlan::choose(8, &table, &PlanOptions { swaps: true, ..options });
        let total = |plan: &IndexPlan<u32>| plan.split(&table).iter().map(Vec::len).sum::<usize>();
        assert!(total(&swapped) <= total(&greedy));
        fewer += usize::from(total(&swapped) < total(&greedy));
        for plan in [&greedy, &swapped] {
            assert_eq!(plan.steps().last().map(|step| step.ranges), Some(total(plan)));
        }
    }
    assert!(fewer > 0, "in some tables an exchange helps");
}

#[test]
fn tolerance_prefers_even_partitions_among_almost_equal_totals() {
    // Bit 3 leaves 1 + 8 ranges, bit 0 leaves 5 + 5: one more, but even.
    let outcomes: [u32; 16] = [1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    let table = table_of(&outcomes);
    let bit = |objective| IndexPlan::choose(4, &table, &PlanOptions { objective, ..PlanOptions::new(1) }).steps()[0];
    let (strict, even) = (bit(PlanObjective::Lexicographic), bit(PlanObjective::Tolerance(0.2)));
    assert_eq!((strict.bit, strict.ranges), (3, 9));
    assert_eq!((even.bit, even.ranges, even.variance), (0, 10, 0.0));
}

/// Checks the ranges of every partition against the table: they have the outcome of all their edges, and are as long as possible.
fn check_partitions<A: Address + TryFrom<u128> + Into<u128>>(partitions: &Partitions<A>, naive: &Naive) {
    let plan = partitions.plan();
    let narrow = |address: u128| A::try_from(address).ok().expect("within the width");
    for address in naive.edges() {
        let permuted = plan.permute(narrow(address));
        assert_eq!(permuted, plan.permute_loop(narrow(address)), "{address:x}");
        let range = partitions.find(permuted);
        assert!(range.first <= permuted && permuted <= range.last);
        assert_eq!(range.word, naive.lookup(address), "{address:x} in {range:x?}");
        assert_eq!(plan.partition(range.first), plan.partition(range.last));
    }
    // The same from the table anew: nothing is left of earlier changes.
    let fresh = Partitions::new(plan.clone(), &flatten(plan.width(), routes(naive)));
    assert_eq!(partitions.totals().ranges, fresh.totals().ranges);
    for address in naive.edges().into_iter().map(|address| plan.permute(narrow(address))) {
        assert_eq!(partitions.find(address), fresh.find(address));
    }
}

/// The ranges within a prefix after a change there.
fn inside<A: Address + TryFrom<u128>>(naive: &Naive, (prefix, length): (u128, u8)) -> Starts<A> {
    let narrow = |address: u128| A::try_from(address).ok().expect("within the width");
    let covering = naive.covering(prefix, length).map_or(0, |(_, word)| word);
    let longer = naive.routes.iter().filter(|((other, at), _)| *other > length && naive.masked(*at, length) == prefix);
    let longer: Vec<Route<A>> = longer.map(|(&(length, prefix), &word)| (narrow(prefix), length, word)).collect();
    flatten_within((narrow(prefix), length, covering), naive.width, longer)
}

fn patched<A: Address + TryFrom<u128> + Into<u128>>(width: u8, bits: u8, changes: &[Step]) {
    let mut naive = Naive::new(width);
    // The plan is that of the final table, so that its bits split the prefixes of the changes.
    changes.iter().for_each(|&change| _ = naive.apply(change));
    let plan = IndexPlan::choose(width, &flatten(width, routes::<A>(&naive)), &PlanOptions::new(bits));
    let mut naive = Naive::new(width);
    let mut partitions = Partitions::new(plan.into(), &flatten(width, []));
    for &change in changes {
        naive.apply(change);
        let (prefix, length) = change.0;
        let narrow = A::try_from(prefix).ok().expect("within the width");
        partitions.patch(narrow, length, &inside(&naive, (prefix, length)));
        check_partitions(&partitions, &naive);
    }
}

/// A table with its feed, and the packets whose misses wait for an answer.
struct Cached {
    naive: Naive,
    fib: Fib4,
    feed: CacheFeed<u32>,
    late: VecDeque<Fill<u32>>,
}

impl Cached {
    fn new(bits: u8, mode: Invalidation) -> Cached {
        let plan = IndexPlan::with_bits(32, (0..bits).map(|bit| bit * 31 / bits.max(1)));
        let feed = CacheFeed::with_plan(plan, &flatten(32, []), mode);
        Cached { naive: Naive::new(32), fib: Fib4::new(), feed, late: VecDeque::new() }
    }

    fn change(&mut self, change: Step) {
        let ((prefix, length), word) = change;
        match self.naive.apply(change) {
            TableChange::Insert => self.fib.insert(prefix as u32, length, word),
            TableChange::Remove(covering) => self.fib.remove(prefix as u32, length, covering),
            TableChange::Nothing => return,
        }
        self.feed.change(prefix as u32, length, &inside(&self.naive, (prefix, length)));
    }

    /// Looks up the edges of all prefixes one at a time. Misses are answered four look-ups later, or after the next change.
    fn look_up(&mut self, cache: &mut RouteCache<u32>) {
        for address in self.naive.edges() {
            assert!(self.feed.synchronise(cache), "no change is being made");
            match cache.lookup(address as u32) {
                Some(word) => assert_eq!(word, self.naive.lookup(address), "{address:08x}"),
                None => self.late.push_back(self.feed.resolve(address as u32)),
            }
            if self.late.len() > 4 {
                let fill = self.late.pop_front().expect("some wait");
                let current = fill.generation == self.feed.generation();
                assert_eq!(cache.install(fill), current, "a fill is stored if and only if nothing changed");
            }
        }
    }

    fn look_up_bulk(&mut self, cache: &mut RouteCache<u32>) {
        let addresses: Vec<u32> = self.naive.edges().into_iter().map(|address| address as u32).collect();
        let mut words = vec![0; addresses.len()];
        self.feed.lookup_bulk(cache, &addresses, &mut words, |asked, words| self.fib.lookup_bulk(asked, words));
        for (&address, &word) in addresses.iter().zip(&words) {
            assert_eq!(word, self.fib.lookup(address), "in bulk: {address:08x}");
            assert_eq!(word, self.naive.lookup(address.into()), "in bulk: {address:08x}");
        }
    }
}

proptest! {
    #[test]
    fn partitions_agree_with_naive_table_after_every_change(
        v4 in steps(32), v6 in steps(128), small in steps(8), bits in 0u8..8,
    ) {
        patched::<u32>(32, bits, &v4);
        patched::<u128>(128, bits, &v6);
        patched::<u32>(8, bits, &small);
    }

    #[test]
    fn cache_never_returns_stale_outcome(
        changes in steps(32), bits in 0u8..10, ways in 1usize..4, keeps_order: bool, full: bool,
    ) {
        let mode = if full { Invalidation::Full } else { Invalidation::Affected };
        let mut cached = Cached::new(bits, mode);
        let mut single = cached.feed.cache(CacheShape { ways, keeps_order });
        let mut bulk = cached.feed.cache(CacheShape { ways, keeps_order: false });
        for (n, change) in changes.into_iter().enumerate() {
            cached.change(change);
            cached.look_up(&mut single);
            cached.look_up_bulk(&mut bulk);
            if n % 10 == 9 {
                // A new plan, with fills of the old one on their way.
                let table = flatten(32, routes(&cached.naive));
                cached.feed.replace(IndexPlan::choose(32, &table, &PlanOptions::new(bits)), &table);
            }
        }
    }

    #[test]
    fn gather_by_tables_equals_loop_over_bits(bits in proptest::collection::btree_set(0u8..32, 0..20), address: u32) {
        let plan = IndexPlan::<u32>::with_bits(32, bits.clone());
        prop_assert_eq!(plan.permute(address), plan.permute_loop(address));
        let plan = IndexPlan::<u128>::with_bits(128, bits.into_iter().map(|bit| 64 + bit * 2));
        let address = u128::from(address) * 0x1_0000_0001_0000_0001_0000_0001;
        prop_assert_eq!(plan.permute(address), plan.permute_loop(address));
    }

    #[test]
    fn field_caches_agree_with_first_matching_rule(
        rules in proptest::collection::vec(proptest::collection::vec((0u32..40, 0u32..40), 0..4), 0..80),
        packets in proptest::collection::vec([0u32..40, 0u32..40, 0u32..40], 1..60),
    ) {
        let field = |&(a, b): &(u32, u32)| a.min(b)..=a.max(b);
        let rules: Vec<FieldRule> =
            rules.iter().map(|rule| FieldRule { fields: rule.iter().map(field).collect() }).collect();
        let naive = |values: &[u32]| {
            rules.iter().position(|rule| rule.fields.iter().zip(values).all(|(field, value)| field.contains(value)))
        };
        // Two fields have caches; the third is left to the classifier.
        let mut cache = FieldCache::new(rules.clone(), &[6, 16], &PlanOptions::new(2), CacheShape { ways: 2, keeps_order: false });
        for values in packets.iter().chain(&packets) {
            if let Some(cached) = cache.classify_cached(values) {
                prop_assert_eq!(cached, naive(values));
            }
            prop_assert_eq!(cache.classify(values), naive(values));
        }
    }

    #[test]
    fn prefix_affects_exactly_the_partitions_of_its_addresses((prefix, length) in prefixes(8), bits in 0u8..6) {
        let plan = IndexPlan::<u32>::with_bits(8, (0..bits).map(|bit| (bit * 3 + 1) % 8));
        let within = (0..256).filter(|&a| length == 0 || (a ^ prefix as u32) >> (8 - length) == 0);
        let mut partitions: Vec<usize> = within.map(|address| plan.partition(plan.permute(address))).collect();
        partitions.sort_unstable();
        partitions.dedup();
        prop_assert_eq!(plan.partitions_of(prefix as u32, length).collect::<Vec<_>>(), partitions);
    }
}

#[test]
fn rule_with_more_fields_than_caches_is_forced_miss() {
    let rule = |fields: &[u32]| FieldRule { fields: fields.iter().map(|&value| value..=value).collect() };
    let mut cache =
        FieldCache::new(vec![rule(&[1, 2, 3]), rule(&[1])], &[8, 8], &PlanOptions::new(1), CacheShape::default());
    for _ in 0..2 {
        assert_eq!(cache.classify(&[1, 2, 3]), Some(0));
        assert_eq!(cache.classify(&[1, 2, 4]), Some(1), "the classifier compares the third field");
        assert_eq!(cache.classify(&[1, 9, 3]), Some(1));
    }
    let FieldCounters { hits, misses, forced } = cache.counters();
    assert_eq!(hits + misses + forced, 6);
    assert!(forced >= 3, "all but the first look-up of 1, 2: {forced}");
    assert!(hits >= 1, "1, 9 needs no third field");
}

#[test]
fn packets_keep_order_while_an_earlier_one_waits() {
    let feed = CacheFeed::<u32>::new(32, &flatten(32, [(0, 0, 7)]), &PlanOptions::new(0), Invalidation::Affected);
    let mut cache = feed.cache(CacheShape { ways: 1, keeps_order: true });
    assert_eq!([cache.lookup(1), cache.lookup(1), cache.lookup(2)], [None; 3]);
    assert!(cache.install(feed.resolve(2)));
    assert_eq!(cache.lookup(2), Some(7), "all packets to 2 have been answered");
    assert_eq!(cache.lookup(1), None, "two earlier packets to 1 still wait");
    assert_eq!((cache.counters().misses, cache.counters().forced), (3, 1));
    cache.install(feed.resolve(1));
    cache.abandon(1);
    assert_eq!(cache.lookup(1), None, "one is left");
    (0..2).for_each(|_| _ = cache.install(feed.resolve(1)));
    assert_eq!(cache.lookup(1), Some(7));
}

#[test]
fn change_removes_only_entries_of_affected_partitions() {
    let top_bits = || IndexPlan::with_bits(32, [31, 30]);
    for (mode, left) in [(Invalidation::Affected, Some(5)), (Invalidation::Full, None)] {
        let feed = CacheFeed::<u32>::with_plan(top_bits(), &flatten(32, [(0, 0, 5)]), mode);
        let mut cache = feed.cache(CacheShape::default());
        for address in [0x1000_0000, 0xf000_0000] {
            cache.install(feed.resolve(address));
        }
        feed.change(0xf000_0000, 8, &[(0xf000_0000, 6)]);
        assert!(feed.synchronise(&mut cache));
        assert_eq!([cache.lookup(0x1000_0000), cache.lookup(0xf000_0000)], [left, None]);
        assert_eq!(cache.counters().invalidations, 1);
    }
}

#[test]
fn cache_far_behind_the_changes_removes_everything() {
    let feed = CacheFeed::<u32>::new(32, &flatten(32, []), &PlanOptions::new(4), Invalidation::Affected);
    let mut cache = feed.cache(CacheShape::default());
    cache.install(feed.resolve(9));
    (0..1000).for_each(|n| feed.change(n << 8, 24, &[(n << 8, n + 1)]));
    assert!(feed.synchronise(&mut cache));
    assert_eq!(cache.lookup(9), None);
    cache.install(feed.resolve(9));
    assert_eq!(cache.lookup(9), Some(1));
}

#[test]
fn least_recently_used_range_of_a_set_is_replaced() {
    let table = flatten(32, (0..4u32).map(|n| (n << 30, 2, n + 1)));
    let feed = CacheFeed::<u32>::new(32, &table, &PlanOptions::new(0), Invalidation::Affected);
    let mut cache = feed.cache(CacheShape { ways: 2, keeps_order: false });
    let mut look_up = |n: u32| {
        let found = cache.lookup(n << 30);
        if found.is_none() {
            cache.install(feed.resolve(n << 30));
        }
        found
    };
    assert_eq!([look_up(0), look_up(1), look_up(0)], [None, None, Some(1)]);
    assert_eq!([look_up(2), look_up(0), look_up(1)], [None, Some(1), None], "1 was replaced by 2, and now replaces it");
    assert_eq!(look_up(2), None);
}

#[test]
fn ipv6_ranges_use_bits_of_the_network_only() {
    let base = 0x2001_0db8u128 << 96;
    let table = flatten(128, (0..512u128).map(|n| (base | n << 80, 48, n as u32 % 3 + 1)));
    let plan = IndexPlan::choose(128, &table, &PlanOptions::new(9));
    assert!(plan.steps().iter().all(|step| step.bit >= 64), "{:?}", plan.steps());
    let (fib, feed) = (Fib6::new(), CacheFeed::with_plan(plan, &table, Invalidation::Affected));
    (0..512u128).for_each(|n| fib.insert(base | n << 80, 48, n as u32 % 3 + 1));
    let mut cache = feed.cache(CacheShape::default());
    let addresses: Vec<u128> = (0..600).map(|n| base | (n << 80) | (n * 77)).collect();
    for &address in &addresses {
        let mut words = [0; 2];
        for word in &mut words {
            feed.lookup_bulk(&mut cache, &[address], std::slice::from_mut(word), |asked, words| {
                fib.lookup_bulk(asked, words)
            });
        }
        assert_eq!(words, [fib.lookup(address); 2], "{address:x}");
    }
    assert!(cache.counters().hits >= 600, "the second look-up always hits: {:?}", cache.counters());
}

#[test]
fn reader_never_sees_outcome_of_before_a_completed_change() {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    let fib = Fib4::new();
    fib.insert(0x0a00_0000, 24, 1);
    let feed =
        CacheFeed::<u32>::new(32, &flatten(32, [(0x0a00_0000, 24, 1)]), &PlanOptions::new(6), Invalidation::Affected);
    let (completed, done) = (AtomicU32::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for word in 2..60_000 {
                fib.insert(0x0a00_0000, 24, word);
                feed.change(0x0a00_0000, 24, &[(0x0a00_0000, word)]);
                completed.store(word, Ordering::Release);
            }
            done.store(true, Ordering::Release);
        });
        let mut cache = feed.cache(CacheShape::default());
        while !done.load(Ordering::Acquire) {
            let least = completed.load(Ordering::Acquire);
            let mut words = [0; 8];
            feed.lookup_bulk(&mut cache, &[0x0a00_0001; 8], &mut words, |asked, words| fib.lookup_bulk(asked, words));
            words.into_iter().for_each(|word| assert!(word >= least, "{word} after {least}"));
        }
    });
}
