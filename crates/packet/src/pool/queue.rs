//! A bounded first-in-first-out queue of packets.

use super::{Batch, Packet};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::copy_nonoverlapping;

/// Packets in order, never more than the capacity. Length and free space cost nothing to read. Whole batches move in or out at once.
pub struct Queue {
    /// A power of two, at least the capacity. Initialised: `len` slots from `head` on, wrapping.
    slots: Box<[MaybeUninit<Packet>]>,
    capacity: usize,
    head: usize,
    len: usize,
}

impl Queue {
    /// A queue for `capacity` packets, at least one.
    pub fn new(capacity: usize) -> Queue {
        let capacity = capacity.max(1);
        let slots = Box::new_uninit_slice(capacity.next_power_of_two());
        Queue { slots, capacity, head: 0, len: 0 }
    }

    /// The number of packets.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no packet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The maximum number of packets.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.len)
    }

    /// The slot `offset` places after the head.
    #[inline(always)]
    fn slot(&self, offset: usize) -> usize {
        (self.head + offset) & (self.slots.len() - 1)
    }

    /// Adds a packet at the end. Returns it if there is no room.
    #[inline(always)]
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, packet: Packet) -> Option<Packet> {
        if self.len >= self.capacity {
            return Some(packet);
        }
        let slot = self.slot(self.len);
        // SAFETY: `slot` is masked by the number of slots, a power of two.
        unsafe { self.slots.get_unchecked_mut(slot) }.write(packet);
        self.len += 1;
        None
    }

    /// Removes the first packet.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        let slot = self.slot(0);
        // SAFETY: `slot` is masked by the number of slots, and initialised as `len` is above zero; it leaves the
        // initialised range before it can be read again.
        let packet = unsafe { self.slots.get_unchecked(slot).assume_init_read() };
        self.skip(1);
        Some(packet)
    }

    /// Removes the last packet.
    pub fn pop_back(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        let slot = self.slot(self.len);
        // SAFETY: the last of the initialised range, which has just left it.
        Some(unsafe { self.slots[slot].assume_init_read() })
    }

    /// The first packet.
    #[inline(always)]
    pub fn front(&self) -> Option<&Packet> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: masked, and initialised as `len` is above zero.
        Some(unsafe { self.slots.get_unchecked(self.slot(0)).assume_init_ref() })
    }

    /// All packets from the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        // SAFETY: slots less than `len` places after the head are initialised, and stay so while the queue is borrowed.
        (0..self.len).map(|offset| unsafe { self.slots[self.slot(offset)].assume_init_ref() })
    }

    /// The number of leading packets, at most `most`, for which `see` returns true. `see` is called up to the first packet for which it returns
    /// false.
    #[inline(always)]
    pub fn leading(&self, most: usize, mut see: impl FnMut(&Packet) -> bool) -> usize {
        let most = most.min(self.len);
        for offset in 0..most {
            // SAFETY: masked, and initialised as `offset` is below `len`.
            if !see(unsafe { self.slots.get_unchecked(self.slot(offset)).assume_init_ref() }) {
                return offset;
            }
        }
        most
    }

    /// Resets the head of an empty queue, so that a short queue stays in few cache lines.
    #[inline(always)]
    pub fn rewind(&mut self) {
        if self.len == 0 {
            self.head = 0;
        }
    }

    /// Removes the first `count` packets, which the caller has read.
    #[inline(always)]
    fn skip(&mut self, count: usize) {
        self.len -= count;
        self.head = self.slot(count);
    }

    /// Moves the first `count` packets of `batch` to the end, or as many as fit. Returns the number moved.
    #[inline]
    pub fn append(&mut self, batch: &mut Batch, count: usize) -> usize {
        self.rewind();
        let count = count.min(batch.len()).min(self.room());
        let from = batch.release_front(count);
        let slot = self.slot(self.len);
        let straight = count.min(self.slots.len() - slot);
        let to = self.slots.as_mut_ptr().cast::<Packet>();
        // SAFETY: the batch gave up the `count` packets at `from`. They go to free slots: after the last packet up to the end of the ring, and the
        // rest to its beginning; `count` is at most the room.
        unsafe {
            copy_nonoverlapping(from, to.add(slot), straight);
            copy_nonoverlapping(from.add(straight), to, count - straight);
        }
        self.len += count;
        count
    }

    /// Moves up to `most` packets, as many as fit, from the front to the end of `batch`.
    #[inline]
    pub fn pop_into(&mut self, batch: &mut Batch, most: usize) {
        batch.rewind();
        let count = self.len.min(batch.room()).min(most);
        let slot = self.slot(0);
        let straight = count.min(self.slots.len() - slot);
        let from = self.slots.as_ptr().cast::<Packet>();
        // SAFETY: the first `count` slots from the head on are initialised and are released below; the batch adds `count` slots, all of which are
        // written.
        unsafe {
            let to = batch.extend_back(count);
            copy_nonoverlapping(from.add(slot), to, straight);
            copy_nonoverlapping(from, to.add(straight), count - straight);
        }
        self.skip(count);
    }

    /// Changes the capacity and keeps every packet. If more are queued than the new capacity, no packet is added until they have left.
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

impl Drop for Queue {
    fn drop(&mut self) {
        while let Some(packet) = self.pop() {
            drop(packet);
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue of {} packets, at most {}", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BATCH, Pool, Region};
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn batch_emptied_from_the_front_has_full_room() {
        let mut pool = Pool::new(Region::new(2 * BATCH));
        let (mut queue, mut batch) = (Queue::new(2 * BATCH), Batch::new());
        for _ in 0..2 * BATCH {
            assert!(queue.push(pool.take().unwrap()).is_none());
        }
        for round in 0..2 {
            queue.pop_into(&mut batch, BATCH);
            assert_eq!(batch.len(), BATCH, "round {round}");
            while let Some(packet) = batch.pop_front() {
                pool.give(packet);
            }
        }
    }

    proptest! {
        #[test]
        fn queue_behaves_as_a_bounded_deque(capacity in 1usize..20, steps in prop::collection::vec(0u8..7, 0..300)) {
            let mut pool = Pool::new(Region::new(512));
            let mut queue = Queue::new(capacity);
            let mut oracle: VecDeque<u32> = VecDeque::new();
            let mut capacity = capacity;
            for (i, step) in steps.into_iter().enumerate() {
                let number = |p: &Packet| u32::from_be_bytes(p.bytes().try_into().unwrap());
                match step {
                    5 => {
                        let mut batch = Batch::new();
                        queue.pop_into(&mut batch, i % 7);
                        let expected: Vec<u32> = oracle.drain(..oracle.len().min(i % 7)).collect();
                        prop_assert_eq!(batch.as_slice().iter().map(number).collect::<Vec<_>>(), expected);
                        batch.drain().for_each(|p| pool.give(p));
                    }
                    6 => {
                        let mut batch = Batch::new();
                        let more: Vec<u32> = (0..i as u32 % 5).map(|k| i as u32 * 10 + k).collect();
                        for number in &more {
                            let mut packet = pool.take().unwrap();
                            packet.fill(&number.to_be_bytes());
                            batch.push(packet);
                        }
                        let fits = more.len().min(capacity.saturating_sub(oracle.len()));
                        oracle.extend(&more[..fits]);
                        prop_assert_eq!(queue.append(&mut batch, 99), fits);
                        prop_assert_eq!(batch.as_slice().iter().map(number).collect::<Vec<_>>(), &more[fits..]);
                        batch.drain().for_each(|p| pool.give(p));
                    }
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
            prop_assert_eq!(pool.frames_in_use(), 0);
        }
    }
}
