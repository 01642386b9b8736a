//! Least attained service: the bin that has sent the fewest bytes since it was last empty is next. Of several, the one that has waited longest is
//! next (Rai, Urvoy-Keller and Biersack, SIGMETRICS 2003).
//!
//! The waiting bins are in an indexed heap: a turn costs the logarithm of their number.

use super::BinOrder;
use crate::Record;
use alloc::vec::Vec;

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct LasOrder {
    /// By bin: bytes sent since it was empty, and the sequence number of the last change, which breaks ties.
    keys: Vec<(u64, u64)>,
    /// By bin: its index in the heap.
    places: Vec<u32>,
    /// A binary heap with the least key first, and room for all bins.
    heap: Vec<u32>,
    changes: u64,
}

impl LasOrder {
    /// `bins` empty bins.
    pub fn new(bins: usize) -> LasOrder {
        let heap = Vec::with_capacity(bins);
        LasOrder { keys: alloc::vec![(0, 0); bins], places: alloc::vec![NOWHERE; bins], heap, changes: 0 }
    }

    fn key(&self, place: usize) -> (u64, u64) {
        self.keys[self.heap[place] as usize]
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a] as usize] = a as u32;
        self.places[self.heap[b] as usize] = b as u32;
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.key(place) < self.key((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = (2 * place + 1..=2 * place + 2).filter(|child| *child < self.heap.len());
            let Some(least) = children.min_by_key(|child| self.key(*child)) else { return };
            if self.key(place) <= self.key(least) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn set(&mut self, bin: usize, attained: u64) {
        self.changes += 1;
        self.keys[bin] = (attained, self.changes);
    }
}

impl BinOrder for LasOrder {
    #[inline]
    fn wake(&mut self, bin: usize, _: u32, _: &Record) {
        if self.places[bin] != NOWHERE {
            return;
        }
        self.set(bin, 0);
        self.places[bin] = self.heap.len() as u32;
        self.heap.push(bin as u32);
        self.rise(self.heap.len() - 1);
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        self.heap.first().map(|bin| *bin as usize)
    }

    #[inline]
    fn sent(&mut self, bin: usize, length: u32, _: u32) {
        self.set(bin, self.keys[bin].0 + u64::from(length));
        // The key has grown, so the bin can only move down.
        self.sink(self.places[bin] as usize);
    }

    #[inline]
    fn empty(&mut self, bin: usize, _: u32) {
        let place = self.places[bin];
        if place == NOWHERE {
            return;
        }
        let (place, last) = (place as usize, self.heap.len() - 1);
        // The last element takes the place, and may have to move in either direction.
        self.swap(place, last);
        self.heap.pop();
        self.places[bin] = NOWHERE;
        if place < last {
            self.sink(place);
            self.rise(place);
        }
    }

    fn clear(&mut self) {
        self.heap.clear();
        self.places.fill(NOWHERE);
    }
}
