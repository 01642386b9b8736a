//! A bounded first-in-first-out queue of packets.

use crate::{BATCH, Batch, Packet};

/// Packets waiting in order, never more than the capacity. Length and free space cost nothing to ask.
#[derive(Debug)]
pub struct Queue {
    slots: Box<[Option<Packet>]>,
    capacity: usize,
    head: usize,
    len: usize,
}

impl Queue {
    /// A queue for `capacity` packets, at least one.
    pub fn new(capacity: usize) -> Queue {
        let capacity = capacity.max(1);
        let slots = (0..capacity.next_power_of_two()).map(|_| None).collect();
        Queue { slots, capacity, head: 0, len: 0 }
    }

    /// Packets waiting.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most packets that may wait.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.len)
    }

    /// Adds one at the end, or gives it back where there is no room.
    #[inline(always)]
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, packet: Packet) -> Option<Packet> {
        if self.len >= self.capacity {
            return Some(packet);
        }
        let mask = self.slots.len() - 1;
        self.slots[(self.head + self.len) & mask] = Some(packet);
        self.len += 1;
        None
    }

    /// Takes the first.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        let mask = self.slots.len() - 1;
        let packet = self.slots[self.head & mask].take();
        self.len -= 1;
        // A queue that runs empty starts over, so that a short one stays in few cache lines.
        self.head = if self.len == 0 { 0 } else { (self.head + 1) & mask };
        packet
    }

    /// Takes the last.
    pub fn pop_back(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        let mask = self.slots.len() - 1;
        self.len -= 1;
        self.slots[(self.head + self.len) & mask].take()
    }

    /// The first, to look at.
    #[inline(always)]
    pub fn front(&self) -> Option<&Packet> {
        if self.len == 0 { None } else { self.slots[self.head & (self.slots.len() - 1)].as_ref() }
    }

    /// Moves as many as fit, but at most `most`, from the front to the end of `batch`.
    #[inline]
    pub fn pop_into(&mut self, batch: &mut Batch, most: usize) {
        for _ in 0..self.len.min(batch.room()).min(most).min(BATCH) {
            if let Some(packet) = self.pop() {
                batch.push(packet);
            }
        }
    }

    /// Changes the capacity and keeps every packet: where more wait than the new capacity, none is added until they
    /// have left.
    pub fn resize(&mut self, capacity: usize) {
        let mut larger = Queue::new(capacity.max(self.len));
        while let Some(packet) = self.pop() {
            let refused = larger.push(packet);
            debug_assert!(refused.is_none());
        }
        larger.capacity = capacity.max(1);
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Region};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_as_a_bounded_deque(capacity in 1usize..20, steps in prop::collection::vec(0u8..5, 0..300)) {
            let mut pool = Pool::new(Region::new(512));
            let mut queue = Queue::new(capacity);
            let mut oracle: VecDeque<u32> = VecDeque::new();
            let mut capacity = capacity;
            for (i, step) in steps.into_iter().enumerate() {
                let number = |p: &Packet| u32::from_be_bytes(p.bytes().try_into().unwrap());
                match step {
                    0 | 1 => {
                        let mut packet = pool.take().unwrap();
                        packet.fill(&(i as u32).to_be_bytes());
                        let fits = oracle.len() < capacity;
                        if fits { oracle.push_back(i as u32); }
                        let back = queue.push(packet);
                        prop_assert_eq!(back.is_none(), fits);
                        if let Some(p) = back { pool.give(p); }
                    }
                    2 | 3 => {
                        let popped = if step == 2 { queue.pop() } else { queue.pop_back() };
                        let expected = if step == 2 { oracle.pop_front() } else { oracle.pop_back() };
                        prop_assert_eq!(popped.as_ref().map(number), expected);
                        if let Some(p) = popped { pool.give(p); }
                    }
                    _ => {
                        capacity = i % 17 + 1;
                        queue.resize(capacity);
                    }
                }
                prop_assert_eq!(queue.len(), oracle.len());
                prop_assert_eq!(queue.front().map(number), oracle.front().copied());
            }
            while let Some(p) = queue.pop() { pool.give(p); }
            prop_assert_eq!(pool.outside(), 0);
        }
    }
}
