//! The next event of each of a fixed number of items, and the earliest of all.
//!
//! A tournament tree (Knuth, The Art of Computer Programming 3, 5.4.1): each match is between two neighbours. An item with a new time repeats only
//! the matches on its path to the root. Unlike a heap it never sifts down, and most updates end at the second match. Of equal times the item with the
//! lower number wins, because it is on the left.

use std::hint::select_unpredictable;

/// No event.
const NEVER: u64 = u64::MAX;

/// A time, and the number of the item.
type Entry = (u64, usize);

/// The event times of items numbered from zero.
#[derive(Debug)]
pub(super) struct Events {
    /// Node `n` has the winner of nodes `2n` and `2n + 1`. The second half are the items themselves.
    nodes: Vec<Entry>,
}

impl Events {
    /// Makes room for `things` items without events.
    pub fn new(things: usize) -> Events {
        let leaves = things.next_power_of_two().max(2);
        let mut nodes = vec![(NEVER, 0); leaves];
        nodes.extend((0..leaves).map(|thing| (NEVER, thing)));
        Events { nodes }
    }

    /// The earliest event.
    #[inline(always)]
    pub fn first(&self) -> Option<Entry> {
        let first = self.nodes[1];
        (first.0 != NEVER).then_some(first)
    }

    /// True if an event is set for the item.
    #[inline(always)]
    pub fn contains(&self, thing: usize) -> bool {
        self.nodes[self.nodes.len() / 2 + thing].0 != NEVER
    }

    /// Sets the only event of an item.
    #[inline]
    pub fn set(&mut self, time: u64, thing: usize) {
        let mut node = self.nodes.len() / 2 + thing;
        self.nodes[node].0 = time;
        while node > 1 {
            let left = node & !1;
            node /= 2;
            let [a, b] = [self.nodes[left], self.nodes[left + 1]];
            let winner = select_unpredictable(b.0 < a.0, b, a);
            // No match above can change either.
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
    }

    /// Removes the event of an item.
    #[inline]
    pub fn remove(&mut self, thing: usize) {
        self.set(NEVER, thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_first_and_of_several_the_one_with_the_lowest_number(
            things in 1..20usize,
            changes in prop::collection::vec((0..20usize, prop::option::of(0..9u64)), 1..60),
        ) {
            let (mut events, mut plain) = (Events::new(things), vec![None; things]);
            for (thing, time) in changes {
                let thing = thing % things;
                plain[thing] = time;
                match time {
                    Some(time) => events.set(time, thing),
                    None => events.remove(thing),
                }
                let first = plain.iter().enumerate().filter_map(|(thing, time)| Some(((*time)?, thing))).min();
                prop_assert_eq!(events.first(), first);
                prop_assert_eq!(events.contains(thing), time.is_some());
            }
        }
    }
}
