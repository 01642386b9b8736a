//! Things in the order of a key, ties by the lowest number: a heap that knows where each of them is.
//!
//! Four children a node: those of one node lie in one cache line, and there are half as many levels as with two.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// A key, and the number of what has it.
pub type Keyed = (u64, usize);

/// Every operation is O(log n); the first is looked at in O(1). Nothing is allocated but by [`Heap::grow`].
#[derive(Debug, Default)]
pub struct Heap {
    /// Key and number in one, so that one comparison sees both.
    nodes: Vec<u128>,
    /// Where each is.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;
const CHILDREN: usize = 4;

fn pack((key, thing): Keyed) -> u128 {
    u128::from(key) << 32 | thing as u128
}

fn unpack(node: u128) -> Keyed {
    ((node >> 32) as u64, node as u32 as usize)
}

impl Heap {
    /// Makes room for numbers below `things`.
    pub fn grow(&mut self, things: usize) {
        if things > self.places.len() {
            self.places.resize(things, ABSENT);
            self.nodes.reserve(things - self.nodes.len());
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether it is there.
    pub fn contains(&self, thing: usize) -> bool {
        self.places[thing] != ABSENT
    }

    /// The first.
    #[inline]
    pub fn first(&self) -> Option<Keyed> {
        self.nodes.first().copied().map(unpack)
    }

    /// Adds one that is not there.
    #[inline]
    pub fn insert(&mut self, key: u64, thing: usize) {
        debug_assert!(!self.contains(thing));
        let last = self.nodes.len();
        self.nodes.push(0);
        self.rise(last, pack((key, thing)));
    }

    /// Takes the first out.
    #[inline]
    pub fn pop(&mut self) -> Option<Keyed> {
        let first = self.first()?;
        self.remove(first.1);
        Some(first)
    }

    /// Takes any one out, in one step.
    pub fn shed(&mut self) -> Option<Keyed> {
        let last = self.nodes.pop().map(unpack)?;
        self.places[last.1] = ABSENT;
        Some(last)
    }

    /// Takes one out; nothing where it is not there.
    pub fn remove(&mut self, thing: usize) {
        let place = core::mem::replace(&mut self.places[thing], ABSENT) as usize;
        if place == ABSENT as usize {
            return;
        }
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

    /// Adds one, or gives it another key where it is there.
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

    /// Takes all out.
    pub fn clear(&mut self) {
        self.drain().for_each(drop);
    }

    /// All keys are so much less; none below zero.
    pub fn set_back(&mut self, by: u64) {
        for node in &mut self.nodes {
            let (key, thing) = unpack(*node);
            *node = pack((key.saturating_sub(by), thing));
        }
    }

    /// Takes all out, in no order.
    pub fn drain(&mut self) -> impl Iterator<Item = Keyed> {
        self.nodes.iter().for_each(|&node| self.places[unpack(node).1] = ABSENT);
        self.nodes.drain(..).map(unpack)
    }

    /// Puts `node` at `place`, which is free, or above it.
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

    /// Puts `node` at `place`, which is free, or below it.
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
        // Which of four is the least nobody could guess.
        let (left, right) = (select_unpredictable(b < a, 1, 0), select_unpredictable(d < c, 3, 2));
        Some(first + select_unpredictable(children[right] < children[left], right, left))
    }

    #[inline]
    fn put(&mut self, place: usize, node: u128) {
        self.places[unpack(node).1] = place as u32;
        self.nodes[place] = node;
    }
}
