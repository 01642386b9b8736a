//! A hierarchical timing wheel over numbered items (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987, scheme 7).
//!
//! An item waits on the level of the highest digit in which its tick differs from the wheel's. When the wheel reaches a slot of an upper level, the items
//! of the slot move to lower levels. Each item moves at most once a level, so an item costs O(1), however many there are.

use crate::Instant;
use alloc::vec::Vec;

/// The resolution: 2^10 nanoseconds, about a microsecond.
const TICK_BITS: u32 = 10;
/// The slots of a level are the values of this many bits of a tick.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 8;
/// No item.
const NONE: u32 = u32::MAX;
/// Ticks beyond this many bits, about nine years from the start, never come.
const HORIZON_BITS: u32 = DIGIT_BITS * LEVELS as u32;

/// The timer of an item: a member of the doubly linked list of its slot.
#[derive(Clone, Copy, Debug)]
struct Timer {
    tick: u64,
    next: u32,
    previous: u32,
    /// Its slot: level times [`SLOTS`] plus digit; [`IDLE`] if the timer does not run.
    slot: u16,
}

const IDLE: u16 = u16::MAX;
const STOPPED: Timer = Timer { tick: 0, next: NONE, previous: NONE, slot: IDLE };

/// See the [module](self). Only [`TimerWheel::grow`] allocates.
#[derive(Debug)]
pub struct TimerWheel {
    /// By item.
    timers: Vec<Timer>,
    /// The first item of each slot.
    heads: [u32; SLOTS * LEVELS],
    /// The slots with items, a word for each level.
    occupied: [u64; LEVELS],
    /// The present tick: no item has an earlier one.
    tick: u64,
    /// No item is due before this tick.
    next: u64,
}

impl Default for TimerWheel {
    fn default() -> TimerWheel {
        TimerWheel { timers: Vec::new(), heads: [NONE; SLOTS * LEVELS], occupied: [0; LEVELS], tick: 0, next: u64::MAX }
    }
}

impl TimerWheel {
    /// Makes room for items with numbers below `items`.
    pub fn grow(&mut self, items: usize) {
        if items > self.timers.len() {
            self.timers.resize(items, STOPPED);
        }
    }

    /// True if the timer of the item runs.
    pub fn contains(&self, item: u32) -> bool {
        self.timers[item as usize].slot != IDLE
    }

    /// Starts the timer of an item, or sets it anew. It ends at `at`, or up to a tick of 1.024 us later.
    pub fn start(&mut self, item: u32, at: Instant) {
        self.stop(item);
        // Rounded up: the timer never ends early.
        let tick = at.get().div_ceil(1 << TICK_BITS).max(self.tick);
        if tick >> HORIZON_BITS != 0 {
            return;
        }
        self.next = self.next.min(tick);
        self.insert(item, tick);
    }

    fn insert(&mut self, item: u32, tick: u64) {
        let differing = tick ^ self.tick;
        // The highest digit that differs; of equal ticks the lowest digit.
        let level = (u64::BITS - 1 - (differing | 1).leading_zeros()) / DIGIT_BITS;
        let digit = (tick >> (level * DIGIT_BITS)) as usize % SLOTS;
        let slot = level as usize * SLOTS + digit;
        let next = core::mem::replace(&mut self.heads[slot], item);
        if let Some(next) = self.timers.get_mut(next as usize) {
            next.previous = item;
        }
        self.timers[item as usize] = Timer { tick, next, previous: NONE, slot: slot as u16 };
        self.occupied[level as usize] |= 1 << digit;
    }

    /// Stops the timer of an item, if it runs.
    pub fn stop(&mut self, item: u32) {
        let Timer { next, previous, slot, .. } = core::mem::replace(&mut self.timers[item as usize], STOPPED);
        if slot == IDLE {
            return;
        }
        match self.timers.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => {
                let slot = usize::from(slot);
                self.heads[slot] = next;
                if next == NONE {
                    self.occupied[slot / SLOTS] &= !(1 << (slot % SLOTS));
                }
            }
        }
        if let Some(next) = self.timers.get_mut(next as usize) {
            next.previous = previous;
        }
    }

    /// True if [`TimerWheel::pop`] may return an item at this time.
    #[inline(always)]
    pub fn is_due(&self, now: Instant) -> bool {
        now.get() >> TICK_BITS >= self.next
    }

    /// The time of the next timer, or an earlier one; never if none runs.
    #[inline]
    pub fn next(&self) -> Instant {
        Instant::new(self.next.saturating_mul(1 << TICK_BITS))
    }

    /// The first slot with items and the tick at which it begins.
    fn first_slot(&self) -> Option<(usize, u64)> {
        // Slots of a lower level begin earlier than those of a higher one, because all items of a level have the higher digits of the present tick.
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let digit = self.occupied[level].trailing_zeros();
        let shift = level as u32 * DIGIT_BITS;
        let above = self.tick >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS);
        Some((level * SLOTS + digit as usize, above | u64::from(digit) << shift))
    }

    /// The next item whose timer has ended. To be called until it returns none.
    pub fn pop(&mut self, now: Instant) -> Option<u32> {
        let present = now.get() >> TICK_BITS;
        loop {
            let first = self.first_slot();
            let Some((slot, tick)) = first.filter(|(_, tick)| *tick <= present) else {
                self.tick = self.tick.max(present);
                // From the slot as it is, although a slot of a higher level may hold only later items.
                self.next = first.map_or(u64::MAX, |(_, tick)| tick);
                return None;
            };
            self.tick = self.tick.max(tick);
            if slot < SLOTS {
                let item = self.heads[slot];
                self.stop(item);
                return Some(item);
            }
            // The items of an upper slot have its digits from now on: all of them move to lower levels, before the tick moves on.
            while let Some(Timer { tick, .. }) = self.timers.get(self.heads[slot] as usize).copied() {
                let item = self.heads[slot];
                self.stop(item);
                self.insert(item, tick);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;
    use proptest::prelude::*;
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    const TICK: u64 = 1 << TICK_BITS;

    #[test]
    fn timers_of_all_spans_end_once_and_on_time() {
        let mut wheel = TimerWheel::default();
        wheel.grow(60);
        let at = |item: u32| Instant::new(77 + (1 << item));
        (0..58).for_each(|item| wheel.start(item, at(item)));
        for item in 0..58 {
            // The first items share a tick.
            if item > 10 {
                assert!(wheel.next() <= at(item) + Nanos::new(TICK), "{item}");
                assert_eq!(wheel.pop(Instant::new(at(item).get() - 1)), None, "{item}");
            }
            let end = Instant::new(at(item).get().next_multiple_of(TICK));
            assert!(wheel.is_due(end) || item <= 10);
            while wheel.pop(end).is_some() {}
            assert!(!wheel.contains(item), "{item}");
        }
        assert_eq!(wheel.next(), Instant::NEVER);
        wheel.start(3, Instant::NEVER);
        assert!(!wheel.contains(3));
    }

    proptest! {
        #[test]
        fn wheel_does_what_a_sorted_list_does(
            steps in prop::collection::vec((0u32..12, prop_oneof![0u64..5000, 0u64..10_000_000, 0u64..1 << 50], 0u8..4), 1..200),
        ) {
            let mut wheel = TimerWheel::default();
            wheel.grow(12);
            let (mut oracle, mut now) = ([None::<Instant>; 12], Instant::START);
            for (item, span, kind) in steps {
                match kind {
                    0 | 1 => {
                        let at = now + Nanos::new(span);
                        wheel.start(item, at);
                        oracle[item as usize] = Some(at);
                    }
                    2 => {
                        wheel.stop(item);
                        oracle[item as usize] = None;
                    }
                    _ => {
                        now += Nanos::new(span / 16);
                        let due = |at: &Option<Instant>| {
                            at.is_some_and(|at| at.get().div_ceil(TICK) <= now.get() / TICK)
                        };
                        let mut expected: Vec<u32> = (0..12).filter(|item| due(&oracle[*item as usize])).collect();
                        prop_assert!(expected.is_empty() || wheel.is_due(now));
                        let mut found: Vec<u32> = core::iter::from_fn(|| wheel.pop(now)).collect();
                        // Earlier ticks first.
                        let ticks: Vec<u64> = found.iter().map(|item| oracle[*item as usize].unwrap().get().div_ceil(TICK)).collect();
                        prop_assert!(ticks.is_sorted());
                        found.sort_unstable();
                        expected.sort_unstable();
                        prop_assert_eq!(&found, &expected);
                        found.iter().for_each(|item| oracle[*item as usize] = None);
                    }
                }
                for (item, at) in oracle.iter().enumerate() {
                    prop_assert_eq!(wheel.contains(item as u32), at.is_some());
                    prop_assert!(at.is_none_or(|at| wheel.next().get() < at.get() + TICK));
                }
            }
        }
    }
}
