//! The virtual-time tags of many flows, rounded: selecting the next flow costs the same for any number of flows (QFQ: Checconi, Rizzo and Valente,
//! "QFQ: Efficient Packet Scheduling With Tight Guarantees", IEEE/ACM Transactions on Networking 21(3), 2013).
//!
//! S and F are the start and finish tags of a flow. Group g contains the flows with 2^(g-1) < F - S <= 2^g. With s = 2^g it rounds their start tags
//! down to multiples of s; flows with the same rounded start lie in one *slot*. The tags of a group are those of its first slot, S' = floor(S/s) s
//! and F' = S' + 2s >= F. Among the groups with S' <= V the one with the least F' is served next.
//!
//! QFQ keeps four sets of groups in bit maps to find it in a few instructions. Here the groups in use are scanned: usually a dozen, in two or three
//! cache lines.
//!
//! A group spans 64 slots. A flow that starts beyond them is put into a coarser group that can hold it.

use core::hint::select_unpredictable;

/// Slots of a group.
const SPAN: u64 = 64;

/// The open slots of up to 64 groups, and the tags of the groups. The owner keeps the contents of the slots.
#[derive(Clone, Debug)]
pub struct QfqSlots<const GROUPS: usize> {
    windows: [Window; GROUPS],
    /// S' and F' of each group.
    start: [u64; GROUPS],
    finish: [u64; GROUPS],
    /// A bit for each group with an open slot.
    used: u64,
}

/// The open slots of a group.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// A bit for each slot; slots are reused in a circle.
    open: u64,
    /// The number of the first open slot, counted from virtual time zero.
    first: u64,
}

impl Window {
    /// True if the window can hold a slot of that number. If the number precedes the first slot, it becomes the first.
    #[inline]
    fn reach(&mut self, number: u64) -> bool {
        if self.open == 0 {
            self.first = number;
            return true;
        }
        if number >= self.first {
            return number - self.first < SPAN;
        }
        // The slot lies before the window: the window may move back only if its last open slot still fits into 64 slots.
        let last = self.first + (63 - u64::from(self.in_turn().leading_zeros()));
        let fits = last - number < SPAN;
        if fits {
            self.first = number;
        }
        fits
    }

    /// The bits of the open slots, rotated so that the first slot has the lowest bit.
    #[inline]
    fn in_turn(&self) -> u64 {
        self.open.rotate_right((self.first % SPAN) as u32)
    }
}

impl<const GROUPS: usize> Default for QfqSlots<GROUPS> {
    fn default() -> QfqSlots<GROUPS> {
        const { assert!(GROUPS > 0 && GROUPS as u64 <= SPAN) };
        let windows = [Window { open: 0, first: 0 }; GROUPS];
        QfqSlots { windows, start: [0; GROUPS], finish: [0; GROUPS], used: 0 }
    }
}

impl<const GROUPS: usize> QfqSlots<GROUPS> {
    /// The number of slots. Slots are numbered from 0.
    pub const COUNT: usize = GROUPS * SPAN as usize;

    /// The slot for a flow with these tags, and whether it was open before; it is open now. `start` must be close to the tags of the flows in open
    /// slots: less than 2^(GROUPS + 4) away.
    #[inline]
    pub fn open(&mut self, start: u64, finish: u64) -> (usize, bool) {
        let mut g = ((64 - (finish - start).saturating_sub(1).leading_zeros()) as usize).min(GROUPS - 1);
        // The window of a coarser group spans twice the time, so it may hold a slot that does not fit here.
        while !self.windows[g].reach(start >> g) && g < GROUPS - 1 {
            g += 1;
        }
        let window = &mut self.windows[g];
        let slot = (start >> g) % SPAN;
        let was_open = window.open >> slot & 1 != 0;
        window.open |= 1 << slot;
        self.used |= 1 << g;
        self.update_tags(g);
        (g << 6 | slot as usize, was_open)
    }

    /// Closes a slot that has become empty.
    #[inline]
    pub fn close(&mut self, slot: usize) {
        let (g, slot) = (slot >> 6, slot & 63);
        let window = &mut self.windows[g];
        window.open &= !(1 << slot);
        if window.open == 0 {
            self.used &= !(1 << g);
            return;
        }
        // If the first slot was closed, the window advances to the next open one; else its lowest bit is set and it stays.
        window.first += u64::from(window.in_turn().trailing_zeros());
        self.update_tags(g);
    }

    #[inline]
    fn update_tags(&mut self, g: usize) {
        let first = self.windows[g].first;
        self.start[g] = first << g;
        self.finish[g] = (first + 2) << g;
    }

    /// The group of a slot.
    #[inline]
    pub fn group(slot: usize) -> usize {
        slot >> 6
    }

    /// The first open slot of a group that has one.
    #[inline]
    pub fn first(&self, group: usize) -> usize {
        group << 6 | (self.windows[group].first % SPAN) as usize
    }

    /// The better of two groups with open slots at `now`: `group`, if it is eligible and finishes before `other` or there is no other.
    #[inline]
    pub fn better(&self, group: usize, other: Option<usize>, now: u64) -> Option<usize> {
        let is_better = self.start[group] <= now
            && other.is_none_or(|other| (self.finish[group], group) < (self.finish[other], other));
        if is_better { Some(group) } else { other }
    }

    /// The group to serve at `now`.
    #[inline]
    pub fn next_group(&self, now: u64) -> Option<usize> {
        let (mut least, mut best) = (u64::MAX, GROUPS);
        for g in self.groups() {
            let finish = select_unpredictable(self.start[g] <= now, self.finish[g], u64::MAX);
            let better = finish < least;
            least = select_unpredictable(better, finish, least);
            best = select_unpredictable(better, g, best);
        }
        (best < GROUPS).then_some(best)
    }

    /// The earliest time at which a group becomes eligible.
    #[inline]
    pub fn least_start(&self) -> Option<u64> {
        self.groups().map(|g| self.start[g]).min()
    }

    /// The groups with open slots.
    #[inline]
    pub fn groups(&self) -> impl Iterator<Item = usize> + use<GROUPS> {
        let mut left = self.used;
        core::iter::from_fn(move || {
            let g = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (g < GROUPS).then_some(g)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::QfqSlots;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Compares with a plain list of flows: the selected group is eligible, and no eligible flow finishes earlier than its rounded tags allow.
        #[test]
        fn next_group_is_eligible_with_earliest_finish(
            steps in prop::collection::vec((any::<bool>(), 0u64..2000, 1u64..5000), 1..200)
        ) {
            let mut slots = QfqSlots::<20>::default();
            let mut inside: Vec<(usize, u64, u64)> = Vec::new();
            let mut now = 0;
            for (comes, ahead, length) in steps {
                now += length / 7;
                if comes {
                    let (start, finish) = (now + ahead, now + ahead + length);
                    let (slot, was_open) = slots.open(start, finish);
                    prop_assert_eq!(was_open, inside.iter().any(|&(other, ..)| other == slot));
                    prop_assert!(slot < QfqSlots::<20>::COUNT);
                    inside.push((slot, start, finish));
                } else if let Some(group) = slots.next_group(now) {
                    let slot = slots.first(group);
                    let width = 1 << group;
                    let (_, start, finish) = *inside.iter().find(|&&(other, ..)| other == slot).expect("something is in it");
                    prop_assert!(start / width * width <= now);
                    for &(other, s, f) in &inside {
                        let coarse = 1 << QfqSlots::<20>::group(other);
                        if s <= now {
                            prop_assert!(start / width * width + 2 * width <= s / coarse * coarse + 2 * coarse);
                            prop_assert!(f <= s / coarse * coarse + 2 * coarse);
                        }
                    }
                    prop_assert!(finish <= start / width * width + 2 * width);
                    inside.retain(|&(other, ..)| other != slot);
                    slots.close(slot);
                } else if let Some(first) = slots.least_start() {
                    prop_assert!(first > now && inside.iter().all(|&(_, start, _)| start >= first));
                    now = first;
                }
            }
        }
    }
}
