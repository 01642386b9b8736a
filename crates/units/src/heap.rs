//! A heap of numbered items ordered by key, ties by the lowest number. It tracks the position of each item, so that any item can be removed.
//!
//! Each node has four children. They share a cache line, and the heap has half as many levels as a binary one.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// A key, and the number of the item that has it.
pub type KeyedItem = (u64, usize);

/// Every operation is O(log n); [`Heap::first`] is O(1). Only [`Heap::grow`] allocates.
#[derive(Debug, Default)]
pub struct Heap {
    /// Key and number in one, so that one comparison sees both.
    nodes: Vec<u128>,
    /// The position of each item in `nodes`.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;
const CHILDREN: usize = 4;

fn pack((key, thing): KeyedItem) -> u128 {
    u128::from(key) << 32 | thing as u128
}

fn unpack(node: u128) -> KeyedItem {
    ((node >> 32) as u64, node as u32 as usize)
}

impl Heap {
    /// Makes room for items with numbers below `things`.
    pub fn grow(&mut self, things: usize) {
        if things > self.places.len() {
            self.places.resize(things, ABSENT);
            self.nodes.reserve(things - self.nodes.len());
        }
    }

    /// True if the heap is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// True if the item is in the heap.
    pub fn contains(&self, thing: usize) -> bool {
        self.places[thing] != ABSENT
    }

    /// The item with the least key.
    #[inline]
    pub fn first(&self) -> Option<KeyedItem> {
        self.nodes.first().copied().map(unpack)
    }

    /// Adds an item that is not in the heap.
    #[inline]
    pub fn insert(&mut self, key: u64, thing: usize) {
        debug_assert!(!self.contains(thing));
        let last = self.nodes.len();
        self.nodes.push(0);
        self.rise(last, pack((key, thing)));
    }

    /// Removes the first item.
    #[inline]
    pub fn pop(&mut self) -> Option<KeyedItem> {
        let first = self.first()?;
        self.remove(first.1);
        Some(first)
    }

    /// Removes an arbitrary item in O(1).
    pub fn pop_any(&mut self) -> Option<KeyedItem> {
        let last = self.nodes.pop().map(unpack)?;
        self.places[last.1] = ABSENT;
        Some(last)
    }

    /// Removes an item; does nothing if it is absent.
    pub fn remove(&mut self, thing: usize) {
        let place = core::mem::replace(&mut self.places[thing], ABSENT) as usize;
        if place == ABSENT as usize {
            return;
        }
        // The last node fills the gap. It comes from another subtree, so it may have to move up or down.
        let last = self.nodes.pop().expect("one is there");
        if place == self.nodes.len() {
            return;
        }
        if place > 0 && last < self.nodes[(place - 1) / CHILDREN] {
            self.rise(place, last);
        } else {
            self.sink(place, last);
        }
    }

    /// Adds an item, or changes its key if it is in the heap.
    #[inline]
    pub fn set(&mut self, key: u64, thing: usize) {
        let place = self.places[thing] as usize;
        let node = pack((key, thing));
        match self.nodes.get(place) {
            None => self.insert(key, thing),
            Some(old) if node < *old => self.rise(place, node),
            Some(_) => self.sink(place, node),
        }
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.drain().for_each(drop);
    }

    /// Subtracts `by` from all keys, saturating at zero.
    pub fn subtract(&mut self, by: u64) {
        // Saturated keys become equal, and the order of ties may then differ from the heap's. Each parent stays no larger than its children by key.
        for node in &mut self.nodes {
            let (key, thing) = unpack(*node);
            *node = pack((key.saturating_sub(by), thing));
        }
    }

    /// Removes all items, in no particular order.
    pub fn drain(&mut self) -> impl Iterator<Item = KeyedItem> {
        self.nodes.iter().for_each(|&node| self.places[unpack(node).1] = ABSENT);
        self.nodes.drain(..).map(unpack)
    }

    /// Puts `node` at `place`, which is free, or moves it up from there.
    fn rise(&mut self, mut place: usize, node: u128) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.nodes[parent] <= node {
                break;
            }
            self.put(place, self.nodes[parent]);
            place = parent;
        }
        self.put(place, node);
    }

    /// Puts `node` at `place`, which is free, or moves it down from there.
    fn sink(&mut self, mut place: usize, node: u128) {
        while let Some(least) = self.least_child(place) {
            if node <= self.nodes[least] {
                break;
            }
            self.put(place, self.nodes[least]);
            place = least;
        }
        self.put(place, node);
    }

    #[inline]
    fn least_child(&self, place: usize) -> Option<usize> {
        let first = place * CHILDREN + 1;
        let children = self.nodes.get(first..)?;
        let Some(&[a, b, c, d]) = children.first_chunk() else {
            return children.iter().zip(first..).min().map(|(_, child)| child);
        };
        // The comparison is random, so a branch predictor would miss half the time. These selections compile without branches.
        let (left, right) = (select_unpredictable(b < a, 1, 0), select_unpredictable(d < c, 3, 2));
        Some(first + select_unpredictable(children[right] < children[left], right, left))
    }

    #[inline]
    fn put(&mut self, place: usize, node: u128) {
        self.places[unpack(node).1] = place as u32;
        self.nodes[place] = node;
    }
}
