//! Packet numbers as ordered ranges: packets beyond a hole, or packets known to have arrived. Memory and time depend on the number of holes, not of
//! packets.

use std::collections::VecDeque;

/// Ranges `from..to`, disjoint, not adjacent, ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
    /// The number of packets in all ranges.
    packets: u64,
}

impl Ranges {
    /// The number of packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The end of the last range.
    pub fn end(&self) -> Option<u64> {
        self.ranges.back().map(|&(_, to)| to)
    }

    /// The index of the first range that ends at `seq` or later.
    fn place(&self, seq: u64) -> usize {
        // Nearly always it is the last or the first range, so the search is rare.
        match self.ranges.back() {
            Some(&(from, to)) if from <= seq => self.ranges.len() - usize::from(to >= seq),
            None => 0,
            _ => self.ranges.partition_point(|&(_, to)| to < seq),
        }
    }

    /// The range that contains `seq`.
    pub fn around(&self, seq: u64) -> Option<(u64, u64)> {
        // A range that ends at `seq` does not contain it, and ranges are never adjacent.
        let place = self.place(seq + 1);
        self.ranges.get(place).copied().filter(|&(from, to)| from <= seq && seq < to)
    }

    /// Inserts `from..to`, which must not be empty. Calls `fresh` with each part that was absent, ascending.
    pub fn insert(&mut self, from: u64, to: u64, mut fresh: impl FnMut(u64, u64)) {
        let first = self.place(from);
        let (mut low, mut high, mut last, mut seen) = (from, to, first, from);
        // Merge all ranges that overlap or touch the new one; the gaps between them are fresh.
        while let Some(&(start, end)) = self.ranges.get(last) {
            if start > to {
                break;
            }
            if start > seen {
                fresh(seen, start);
                self.packets += start - seen;
            }
            seen = seen.max(end);
            (low, high, last) = (low.min(start), high.max(end), last + 1);
        }
        if seen < to {
            fresh(seen, to);
            self.packets += to - seen;
        }
        if first == last {
            self.ranges.insert(first, (low, high));
        } else {
            self.ranges[first] = (low, high);
            if last > first + 1 {
                self.ranges.drain(first + 1..last);
            }
        }
    }

    /// Removes everything below `seq`. Returns the number of packets removed. A range that begins at `seq` stays.
    pub fn remove_below(&mut self, seq: u64) -> u64 {
        let mut removed = 0;
        while let Some(range) = self.ranges.front_mut().filter(|&&mut (from, _)| from < seq) {
            if range.1 > seq {
                removed += seq - range.0;
                range.0 = seq;
                break;
            }
            removed += range.1 - range.0;
            self.ranges.pop_front();
        }
        self.packets -= removed;
        removed
    }

    /// Removes the range that begins at `seq`, if there is one. Returns its end.
    pub fn take_at(&mut self, seq: u64) -> Option<u64> {
        let (_, to) = self.ranges.front().copied().filter(|&(from, _)| from == seq)?;
        self.ranges.pop_front();
        self.packets -= to - seq;
        Some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_hold_what_a_set_would(steps in prop::collection::vec((0..3u8, 0..60u64, 1..12u64), 1..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (what, at, length) in steps {
                match what {
                    0 | 1 => {
                        let mut fresh = Vec::new();
                        ranges.insert(at, at + length, |from, to| fresh.extend(from..to));
                        let expected: Vec<u64> = (at..at + length).filter(|&seq| set.insert(seq)).collect();
                        prop_assert_eq!(fresh, expected);
                    }
                    _ => {
                        let kept = set.split_off(&at);
                        prop_assert_eq!(ranges.remove_below(at), set.len() as u64);
                        set = kept;
                    }
                }
                prop_assert_eq!(ranges.packets(), set.len() as u64);
                prop_assert_eq!(ranges.end(), set.last().map(|last| last + 1));
                for seq in 0..80 {
                    let around = ranges.around(seq);
                    prop_assert_eq!(around.is_some(), set.contains(&seq));
                    if let Some((from, to)) = around {
                        prop_assert!((from..to).all(|seq| set.contains(&seq)));
                        prop_assert!(!set.contains(&to) && (from == 0 || !set.contains(&(from - 1))));
                    }
                }
            }
        }
    }
}
