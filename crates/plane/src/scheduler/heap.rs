//! Tasks in the order of a key, ties by the lowest id: a heap that knows where each task is.
//!
//! Four children a node: those of one node lie in one cache line, and there are half as many levels as with two.

use std::hint::select_unpredictable;

/// A key and the index of a task.
pub type Keyed = (u64, usize);

/// Every operation is O(log n); the first is looked at in O(1). Nothing is allocated but by [`Heap::grow`].
#[derive(Debug, Default)]
pub struct Heap {
    /// Key and task in one number, so that one comparison sees both.
    nodes: Vec<u128>,
    /// Where each task is.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;
const CHILDREN: usize = 4;

fn pack((key, task): Keyed) -> u128 {
    u128::from(key) << 32 | task as u128
}

fn unpack(node: u128) -> Keyed {
    ((node >> 32) as u64, node as u32 as usize)
}

impl Heap {
    /// Makes room for tasks below `tasks`.
    pub fn grow(&mut self, tasks: usize) {
        if tasks > self.places.len() {
            self.places.resize(tasks, ABSENT);
            self.nodes.reserve(tasks - self.nodes.len());
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether the task is there.
    pub fn contains(&self, task: usize) -> bool {
        self.places[task] != ABSENT
    }

    /// The first.
    #[inline]
    pub fn first(&self) -> Option<Keyed> {
        self.nodes.first().copied().map(unpack)
    }

    /// Adds a task that is not there.
    #[inline]
    pub fn insert(&mut self, key: u64, task: usize) {
        debug_assert!(!self.contains(task));
        let last = self.nodes.len();
        self.nodes.push(0);
        self.rise(last, pack((key, task)));
    }

    /// Takes the first out.
    #[inline]
    pub fn pop(&mut self) -> Option<Keyed> {
        let first = self.first()?;
        self.remove(first.1);
        Some(first)
    }

    /// Takes a task out; nothing where it is not there.
    pub fn remove(&mut self, task: usize) {
        let place = std::mem::replace(&mut self.places[task], ABSENT) as usize;
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
