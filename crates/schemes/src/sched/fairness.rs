//! Tests of the orders with weights: against an ideal division, and against a search of all waiting bins.

use super::virtual_time::{Clock, Slope, Virtual};
use super::wf2q::WaitingBins;
use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

/// A backlogged bin with packets of these lengths in turn.
#[derive(Clone, Debug)]
struct Source {
    weight: u32,
    lengths: Vec<u32>,
}

fn sources(most: usize) -> impl Strategy<Value = Vec<Source>> {
    let source = (1u32..=255, prop::collection::vec(64u32..1515, 1..6));
    prop::collection::vec(source.prop_map(|(weight, lengths)| Source { weight, lengths }), 1..most)
}

fn packet(length: u32) -> Record {
    Record { length, ..Record::default() }
}

/// The greatest lag and lead of a bin relative to its part of all bytes sent. The bounds `behind` and `ahead` are subtracted; they depend on the
/// bin's longest packet, the longest of all, and its part.
fn max_lag_and_lead<O: BinOrder>(
    mut order: O,
    sources: &[Source],
    behind: impl Fn(f64, f64, f64) -> f64,
    ahead: impl Fn(f64, f64, f64) -> f64,
) -> (f64, f64) {
    let longest = |source: &Source| f64::from(*source.lengths.iter().max().unwrap());
    let all = sources.iter().map(longest).fold(0.0, f64::max);
    let weights: u32 = sources.iter().map(|source| source.weight).sum();
    let length = |bin: usize, turn: usize| sources[bin].lengths[turn % sources[bin].lengths.len()];
    for (bin, source) in sources.iter().enumerate() {
        order.wake(bin, source.weight, &packet(length(bin, 0)));
    }
    let (mut turns, mut sent, mut total) = (alloc::vec![0; sources.len()], alloc::vec![0.0; sources.len()], 0.0);
    let mut worst = (f64::MIN, f64::MIN);
    for _ in 0..40 * sources.len() {
        let bin = order.pick().expect("all of them have something");
        // Until the packet was sent, a second pick returns the same bin.
        assert_eq!(order.pick(), Some(bin));
        let now = length(bin, turns[bin]);
        turns[bin] += 1;
        order.sent(bin, now, length(bin, turns[bin]));
        (sent[bin], total) = (sent[bin] + f64::from(now), total + f64::from(now));
        for (source, sent) in sources.iter().zip(&sent) {
            let part = f64::from(source.weight) / f64::from(weights);
            let (own, short) = (longest(source), total * part - sent);
            worst = (worst.0.max(short - behind(own, all, part)), worst.1.max(-short - ahead(own, all, part)));
        }
    }
    worst
}

/// The rounding error in bytes.
const ROUNDED: f64 = 2.0;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn service_lag_and_lead_stay_within_bounds(sources in sources(24)) {
        let any = |_: f64, _: f64, _: f64| f64::INFINITY;
        // Parekh and Gallager: at most the longest packet behind the ideal division. There is no such bound for the lead.
        let (behind, _) = max_lag_and_lead(WfqOrder::new(24), &sources, |_, all, _| all, any);
        prop_assert!(behind <= ROUNDED, "wfq: {behind} more than the longest packet");
        let one = |own: f64, _: f64, _: f64| own;
        // Bennett and Zhang, theorem 4.
        let (behind, ahead) = max_lag_and_lead(ExactWf2q::new(24), &sources, |own, all, part| own + all * part, one);
        prop_assert!(behind <= ROUNDED && ahead <= ROUNDED, "wf2q+: {behind} behind, {ahead} ahead");
        // The bound of the module `wf2q_groups`: 6 L + 2 l w/W.
        let (behind, _) = max_lag_and_lead(GroupedWf2q::new(24), &sources, |own, all, part| 6.0 * own + 2.0 * all * part, any);
        prop_assert!(behind <= ROUNDED, "in groups: {behind} more than said");
    }
}

/// A reference that searches all bins for each packet.
#[derive(Debug, Default)]
struct LinearSearch(Vec<usize>);

impl WaitingBins for LinearSearch {
    fn new(_: usize) -> LinearSearch {
        LinearSearch::default()
    }
    fn contains(&self, _: &[super::wf2q::Bin], bin: usize) -> bool {
        self.0.contains(&bin)
    }
    fn insert(&mut self, _: &mut [super::wf2q::Bin], bin: usize, _: Virtual) {
        self.0.push(bin);
    }
    fn remove(&mut self, _: &mut [super::wf2q::Bin], bin: usize) {
        self.0.retain(|other| *other != bin);
    }
    fn pick(&mut self, bins: &[super::wf2q::Bin], now: Virtual) -> Option<(usize, Virtual)> {
        // V is never below the least start of the waiting bins.
        let now = now.max(self.0.iter().map(|bin| bins[*bin].start).min()?);
        let may = self.0.iter().copied().filter(|bin| bins[*bin].start <= now);
        may.min_by_key(|bin| (bins[*bin].finish, *bin)).map(|bin| (bin, now))
    }
    fn clear(&mut self, _: &mut [super::wf2q::Bin]) {
        self.0.clear();
    }
}

/// A step: a packet arrives, leaves or is dropped.
#[derive(Clone, Copy, Debug)]
struct Step {
    bin: usize,
    length: u32,
    what: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0usize..12, 64u32..1515, 0u8..8).prop_map(|(bin, length, what)| Step { bin, length, what });
    prop::collection::vec(step, 1..400)
}

/// Applies the steps to an order and returns the bins in the order of departures. `weight` is the weight of a bin.
fn play(order: &mut impl BinOrder, steps: &[Step], weight: impl Fn(usize) -> u32) -> Vec<usize> {
    let (mut queues, mut left) = (alloc::vec![Vec::<u32>::new(); 12], Vec::new());
    for &Step { bin, length, what } in steps {
        match what {
            0..=3 => {
                queues[bin].push(length);
                if queues[bin].len() == 1 {
                    order.wake(bin, weight(bin), &packet(length));
                }
            }
            4 => {
                if !queues[bin].is_empty() {
                    queues[bin].remove(0);
                    match queues[bin].first() {
                        Some(next) => order.dropped(bin, *next),
                        None => order.empty(bin, 0),
                    }
                }
            }
            _ => {
                let picked = order.pick();
                assert_eq!(picked.is_some(), queues.iter().any(|queue| !queue.is_empty()), "somebody has something");
                let Some(bin) = picked else { continue };
                let length = queues[bin].remove(0);
                match queues[bin].first() {
                    Some(next) => order.sent(bin, length, *next),
                    None => order.empty(bin, length),
                }
                left.push(bin);
            }
        }
    }
    left
}

proptest! {
    #[test]
    fn wf2q_heaps_equal_linear_search(steps in steps()) {
        let weight = |bin: usize| 1 + bin as u32 % 5;
        let (mut heaps, mut search) = (ExactWf2q::new(12), crate::sched::wf2q::Wf2qOrder::<LinearSearch>::new(12));
        prop_assert_eq!(play(&mut heaps, &steps, weight), play(&mut search, &steps, weight));
    }

    /// In every form exactly the waiting bins send.
    #[test]
    fn every_backlogged_queue_is_served(steps in steps()) {
        fn drained(mut order: impl BinOrder, steps: &[Step]) -> Option<usize> {
            play(&mut order, steps, |bin| 1 + bin as u32 % 5);
            order.pick()
        }
        let mut steps = steps;
        steps.extend([Step { bin: 0, length: 64, what: 7 }; 400]);
        prop_assert_eq!(drained(ExactWf2q::new(12), &steps), None);
        prop_assert_eq!(drained(GroupedWf2q::new(12), &steps), None);
        prop_assert_eq!(drained(WfqOrder::new(12), &steps), None);
    }
}

/// Deficit round robin with lists that are searched.
#[derive(Debug)]
struct ListDrr {
    quantum: u32,
    favours_new: bool,
    /// Quantum and credit.
    bins: [(u32, i64); 12],
    new: Vec<usize>,
    old: Vec<usize>,
}

impl ListDrr {
    fn leave(&mut self, bin: usize) {
        self.new.retain(|other| *other != bin);
        self.old.retain(|other| *other != bin);
    }
}

impl BinOrder for ListDrr {
    fn wake(&mut self, bin: usize, weight: u32, _: &Record) {
        if !self.new.contains(&bin) && !self.old.contains(&bin) {
            let quantum = self.quantum * weight;
            self.bins[bin] = (quantum, quantum.into());
            if self.favours_new { self.new.push(bin) } else { self.old.push(bin) }
        }
    }
    fn pick(&mut self) -> Option<usize> {
        loop {
            let bin = *self.new.first().or(self.old.first())?;
            let (quantum, credit) = self.bins[bin];
            if credit > 0 || quantum == 0 && credit == 0 {
                return Some(bin);
            }
            self.bins[bin].1 = if quantum == 0 { 0 } else { credit + i64::from(quantum) };
            self.leave(bin);
            self.old.push(bin);
        }
    }
    fn sent(&mut self, bin: usize, length: u32, _: u32) {
        self.bins[bin].1 -= i64::from(length);
    }
    fn empty(&mut self, bin: usize, length: u32) {
        self.bins[bin].1 -= i64::from(length);
        if self.favours_new && length > 0 {
            return;
        }
        let was_new = self.new.contains(&bin);
        self.leave(bin);
        if was_new {
            self.old.push(bin);
        }
    }
    fn clear(&mut self) {
        self.new.clear();
        self.old.clear();
    }
}

proptest! {
    #[test]
    fn drr_ring_equals_linked_lists(
        steps in steps(),
        quantum in prop::sample::select(alloc::vec![0u32, 300, 1514]),
        favours_new: bool,
    ) {
        let bins = [(0, 0); 12];
        let mut lists = ListDrr { quantum, favours_new, bins, new: Vec::new(), old: Vec::new() };
        let mut ring = DrrOrder::new(12, quantum, favours_new);
        let mut queues = alloc::vec![Vec::<u32>::new(); 12];
        // Calls both like `BinScheme` does.
        macro_rules! both {
            ($call:ident($($with:expr),*)) => {{
                let done = lists.$call($($with),*);
                prop_assert_eq!(done, ring.$call($($with),*));
                done
            }};
        }
        for Step { bin, length, what } in steps {
            match what {
                0..=2 => {
                    queues[bin].push(length);
                    if queues[bin].len() == 1 {
                        // With new bins favoured all have the same weight.
                        let weight = 1 + bin as u32 % 5;
                        lists.wake(bin, if favours_new { 1 } else { weight }, &packet(length));
                        ring.wake(bin, weight, &packet(length));
                    }
                }
                3 | 4 if !queues[bin].is_empty() => {
                    queues[bin].remove(0);
                    match queues[bin].first() {
                        Some(next) => both!(dropped(bin, *next)),
                        None => both!(empty(bin, 0)),
                    }
                }
                _ => while let Some(bin) = both!(pick()) {
                    if queues[bin].is_empty() {
                        both!(empty(bin, 0));
                        continue;
                    }
                    let length = queues[bin].remove(0);
                    match queues[bin].first() {
                        Some(next) => both!(sent(bin, length, *next)),
                        None => both!(empty(bin, length)),
                    }
                    break;
                },
            }
        }
    }
}

/// Two thousand bins of one weight take turns in every order.
#[test]
fn queues_of_equal_weight_are_served_round_robin() {
    fn turns<O: BinOrder>(mut order: O) -> Vec<usize> {
        (0..2000).for_each(|bin| order.wake(bin, 1, &packet(1000)));
        let mut next = || {
            let bin = order.pick().expect("all have something");
            order.sent(bin, 1000, 1000);
            bin
        };
        (0..6000).map(|_| next()).collect()
    }
    let expected: Vec<usize> = (0..6000).map(|turn| turn % 2000).collect();
    assert_eq!(turns(ExactWf2q::new(2000)), expected);
    assert_eq!(turns(WfqOrder::new(2000)), expected);
    // The groups round the tags, so only the rounds are the same, not the order within one.
    let mut grouped = turns(GroupedWf2q::new(2000));
    for round in grouped.chunks_mut(2000) {
        round.sort_unstable();
        assert!(round.iter().copied().eq(0..2000), "each has its turn before any has another");
    }
}

/// The bound of the ideal division: a heavy bin's burst in one order is spread out in the other.
#[test]
fn wfq_serves_queue_ahead_of_its_share_and_wf2q_does_not() {
    fn first_twenty<O: BinOrder>(mut order: O) -> Vec<usize> {
        (0..11).for_each(|bin| order.wake(bin, if bin == 0 { 10 } else { 1 }, &packet(1000)));
        let mut next = || {
            let bin = order.pick().expect("all have something");
            order.sent(bin, 1000, 1000);
            bin
        };
        (0..20).map(|_| next()).collect()
    }
    // Bennett and Zhang 1996, figure 2: ten packets of the heavy bin in a row.
    let heavy = |turns: &[usize]| turns.iter().take_while(|bin| **bin == 0).count();
    assert_eq!(heavy(&first_twenty(WfqOrder::new(11))), 10);
    let spread = first_twenty(ExactWf2q::new(11));
    let (in_a_row, all) = (spread.windows(2).any(|two| two == [0, 0]), spread.iter().filter(|bin| **bin == 0).count());
    assert!(!in_a_row && (9..=10).contains(&all), "{spread:?}");
}

/// A set-back of all tags does not change the order.
#[test]
fn virtual_time_set_back_keeps_order() {
    fn far<O: BinOrder>(mut order: O) -> [u32; 3] {
        let weights = [1, 2, 5];
        weights.iter().enumerate().for_each(|(bin, weight)| order.wake(bin, *weight, &packet(u32::MAX)));
        let mut turns = [0; 3];
        // Each packet has the greatest length; with the least weight it takes 2^48 units.
        for _ in 0..500_000 {
            let bin = order.pick().expect("all have something");
            order.sent(bin, u32::MAX, u32::MAX);
            turns[bin] += 1;
        }
        turns
    }
    for turns in [far(ExactWf2q::new(3)), far(GroupedWf2q::new(3)), far(WfqOrder::new(3))] {
        let parts = [turns[0] * 10, turns[1] * 5, turns[2] * 2];
        assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 40, "{turns:?}");
    }
    let mut clock = Clock::default();
    clock.add(1);
    (0..500_000).for_each(|_| clock.advance(u32::MAX));
    assert!(clock.needs_set_back(), "it was set back on the way");
    assert_eq!(Slope::of(1).span(1), 1 << 16);
}
