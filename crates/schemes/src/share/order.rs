//! The order of the children of a node: a heap whose entries may be out of date.
//!
//! Keys of a child only grow: when it is served, and when it gets packets after an idle time. So nothing is done when a key changes. An entry whose key is out of date is put
//! in its place when it is the first. A child that left the active set keeps its entry until then. A change of a child therefore touches no other
//! child's memory.

use alloc::vec::Vec;

/// The rank of a child, the least first; and within a rank its virtual time, compared modulo 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OrderKey {
    pub rank: u32,
    pub time: u64,
}

impl OrderKey {
    #[inline(always)]
    fn precedes(self, other: OrderKey) -> bool {
        (self.rank, self.time.wrapping_sub(other.time) as i64) < (other.rank, 0)
    }
}

/// True if virtual time `one` is before `other`, modulo 2^64.
#[inline(always)]
pub(super) fn is_before(one: u64, other: u64) -> bool {
    (one.wrapping_sub(other) as i64) < 0
}

/// A child and its key at some time: 16 bytes, so that the four below another in the heap may fill a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderEntry {
    time: u64,
    rank: u32,
    pub child: u32,
}

impl OrderEntry {
    /// A child with this key.
    #[inline(always)]
    pub fn new(key: OrderKey, child: u32) -> OrderEntry {
        OrderEntry { time: key.time, rank: key.rank, child }
    }

    /// The key.
    #[inline(always)]
    pub fn key(self) -> OrderKey {
        OrderKey { rank: self.rank, time: self.time }
    }
}

/// A heap with four children a node.
#[derive(Debug, Default)]
pub(super) struct LazyHeap(Vec<OrderEntry>);

const CHILDREN: usize = 4;

impl LazyHeap {
    /// Makes room for so many entries.
    pub fn reserve(&mut self, entries: usize) {
        self.0.reserve_exact(entries.saturating_sub(self.0.len()));
    }

    #[inline(always)]
    pub fn first(&self) -> Option<OrderEntry> {
        self.0.first().copied()
    }

    /// The entries that follow the first, not in order: the next first one is among them.
    #[inline(always)]
    pub fn followers(&self) -> &[OrderEntry] {
        self.0.get(1..(1 + CHILDREN).min(self.0.len())).unwrap_or(&[])
    }

    /// Adds a child. If the memory is full, entries for which `is_current` is false are removed first.
    #[inline]
    pub fn push(&mut self, entry: OrderEntry, is_current: impl Fn(&OrderEntry) -> bool) {
        if self.0.len() == self.0.capacity() {
            self.clean(is_current);
        }
        self.0.push(entry);
        self.rise(self.0.len() - 1);
    }

    /// Removes entries that are out of date: those of children that were removed or moved.
    #[cold]
    fn clean(&mut self, is_current: impl Fn(&OrderEntry) -> bool) {
        self.0.retain(is_current);
        for place in (0..self.0.len().div_ceil(CHILDREN)).rev() {
            self.sink(place);
        }
    }

    /// Gives the first entry another key.
    #[inline]
    pub fn replace_first(&mut self, key: OrderKey) {
        if let Some(first) = self.0.first_mut() {
            *first = OrderEntry::new(key, first.child);
            self.sink(0);
        }
    }

    /// Removes the first entry.
    #[inline]
    pub fn pop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        self.0.swap_remove(0);
        if !self.0.is_empty() {
            self.sink(0);
        }
    }

    fn rise(&mut self, mut place: usize) {
        let entry = self.0[place];
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if !entry.key().precedes(self.0[parent].key()) {
                break;
            }
            self.0[place] = self.0[parent];
            place = parent;
        }
        self.0[place] = entry;
    }

    fn sink(&mut self, mut place: usize) {
        let Some(&entry) = self.0.get(place) else { return };
        loop {
            let first = place * CHILDREN + 1;
            let children = self.0.get(first..(first + CHILDREN).min(self.0.len())).unwrap_or(&[]);
            let Some((mut least, mut key)) = children.first().map(|child| (first, child.key())) else { break };
            for (child, at) in children.iter().zip(first..).skip(1) {
                if child.key().precedes(key) {
                    (least, key) = (at, child.key());
                }
            }
            if !key.precedes(entry.key()) {
                break;
            }
            self.0[place] = self.0[least];
            place = least;
        }
        self.0[place] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry((rank, time): (u32, u64), child: usize) -> OrderEntry {
        // Close to the end of the number range, so that times pass it.
        OrderEntry::new(OrderKey { rank, time: time.wrapping_sub(500) }, child as u32)
    }

    proptest! {
        #[test]
        fn entries_leave_by_rank_and_time(keys in prop::collection::vec((0u32..3, 0u64..1000), 1..80)) {
            let mut heap = LazyHeap::default();
            for (child, key) in keys.iter().enumerate() {
                heap.push(entry(*key, child), |_| true);
            }
            let mut left = keys.clone();
            left.sort_unstable();
            for (rank, time) in left {
                let first = heap.first().expect("all are there");
                prop_assert_eq!(first.key(), entry((rank, time), 0).key());
                heap.pop();
            }
            prop_assert!(heap.first().is_none());
        }

        #[test]
        fn replaced_and_cleaned_entries_keep_the_order(
            keys in prop::collection::vec((0u32..3, 0u64..1000), 1..40),
            growth in prop::collection::vec(0u64..300, 0..80),
        ) {
            let mut heap = LazyHeap::default();
            keys.iter().enumerate().for_each(|(child, key)| heap.push(entry(*key, child), |_| true));
            let mut present = keys.clone();
            for more in growth {
                let first = heap.first().expect("none is removed");
                let least = present.iter().map(|key| entry(*key, 0).key()).reduce(|a, b| if b.precedes(a) { b } else { a });
                prop_assert_eq!(Some(first.key()), least);
                present[first.child as usize].1 += more;
                heap.replace_first(entry(present[first.child as usize], 0).key());
            }
            heap.clean(|entry| entry.child % 2 == 0);
            let mut even: Vec<(u32, u64)> = present.iter().step_by(2).copied().collect();
            even.sort_unstable();
            for key in even {
                prop_assert_eq!(heap.first().map(|first| first.key()), Some(entry(key, 0).key()));
                heap.pop();
            }
        }
    }
}
