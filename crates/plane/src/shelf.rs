//! Many queues of packets that share their places: memory is for as many packets as wait in all of them, and the places used
//! last are used again first, so that few packets stay in few cache lines however many queues there are.

use crate::offload::wire_length;
use packet::Packet;
use units::Heap;

/// No place.
const NONE: u32 = u32::MAX;

/// Queues, and what waits in them.
pub(crate) struct Shelf {
    places: Vec<Place>,
    /// The first of the places that are free again; the others have never been used.
    free: u32,
    capacity: usize,
    queues: Box<[Line]>,
    /// The queues that are not empty, by when their first packet came: for [`Shelf::pop_oldest`].
    ages: Heap,
}

struct Place {
    packet: Option<Packet>,
    before: u32,
    behind: u32,
}

/// One of the queues.
#[derive(Clone, Copy)]
struct Line {
    first: u32,
    last: u32,
    packets: u32,
    bytes: u64,
}

const EMPTY: Line = Line { first: NONE, last: NONE, packets: 0, bytes: 0 };

impl Shelf {
    /// So many queues, for so many packets together.
    pub fn new(queues: usize, capacity: usize) -> Shelf {
        let capacity = capacity.min(NONE as usize);
        let (places, mut ages) = (Vec::with_capacity(capacity), Heap::default());
        ages.grow(queues);
        Shelf { places, free: NONE, capacity, queues: vec![EMPTY; queues].into(), ages }
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Packets that all of them hold together.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Packets and bytes of a queue; nothing where there is no such queue.
    #[inline(always)]
    pub fn size(&self, queue: usize) -> (u32, u64) {
        self.queues.get(queue).map_or((0, 0), |line| (line.packets, line.bytes))
    }

    /// The first packet of a queue.
    #[inline(always)]
    pub fn front(&self, queue: usize) -> Option<&Packet> {
        self.places.get(self.queues.get(queue)?.first as usize)?.packet.as_ref()
    }

    /// Makes ready for [`Shelf::pop_oldest`].
    pub fn sort(&mut self) {
        self.ages.clear();
        (0..self.queues.len()).for_each(|queue| self.note_age(queue));
    }

    fn note_age(&mut self, queue: usize) {
        if let Some(packet) = self.front(queue) {
            self.ages.insert(packet.meta().timestamp.get(), queue);
        }
    }

    /// Takes out the packet that came to the router first of all. They have been [sorted](Shelf::sort), and nothing else was
    /// done to them since.
    pub fn pop_oldest(&mut self) -> Option<Packet> {
        let (_, queue) = self.ages.pop()?;
        let (packet, _) = self.pop(queue, |packet| wire_length(packet) as u64)?;
        self.note_age(queue);
        Some(packet)
    }

    /// All packets of a queue, the first one first.
    pub fn iter(&self, queue: usize) -> impl Iterator<Item = &Packet> {
        let first = self.queues.get(queue).and_then(|line| self.places.get(line.first as usize));
        std::iter::successors(first, |place| self.places.get(place.behind as usize))
            .filter_map(|place| place.packet.as_ref())
    }

    /// Puts a packet of so many bytes at the end of a queue, or gives it back where there is no room.
    #[inline(always)]
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, queue: usize, packet: Packet, bytes: u64) -> Option<Packet> {
        let Some(line) = self.queues.get_mut(queue) else { return Some(packet) };
        let (before, mut number) = (line.last, self.free);
        if let Some(place) = self.places.get_mut(number as usize) {
            self.free = place.behind;
            *place = Place { packet: Some(packet), before, behind: NONE };
        } else if self.places.len() < self.capacity {
            number = self.places.len() as u32;
            self.places.push(Place { packet: Some(packet), before, behind: NONE });
        } else {
            return Some(packet);
        }
        match self.places.get_mut(before as usize) {
            Some(last) => last.behind = number,
            None => line.first = number,
        }
        line.last = number;
        line.packets += 1;
        line.bytes += bytes;
        None
    }

    /// Takes the first packet of a queue, whose bytes `length` knows.
    #[inline(always)]
    pub fn pop(&mut self, queue: usize, length: impl FnOnce(&Packet) -> u64) -> Option<(Packet, u64)> {
        let line = self.queues.get_mut(queue)?;
        let number = line.first;
        let place = self.places.get_mut(number as usize)?;
        let packet = place.packet.take()?;
        let behind = std::mem::replace(&mut place.behind, self.free);
        self.free = number;
        line.first = behind;
        match self.places.get_mut(behind as usize) {
            Some(first) => first.before = NONE,
            None => line.last = NONE,
        }
        let bytes = length(&packet);
        line.packets -= 1;
        line.bytes -= bytes;
        Some((packet, bytes))
    }

    /// Takes the last one.
    pub fn pop_back(&mut self, queue: usize, length: impl FnOnce(&Packet) -> u64) -> Option<(Packet, u64)> {
        let line = self.queues.get_mut(queue)?;
        let number = line.last;
        let place = self.places.get_mut(number as usize)?;
        let packet = place.packet.take()?;
        let before = place.before;
        place.behind = self.free;
        self.free = number;
        line.last = before;
        match self.places.get_mut(before as usize) {
            Some(last) => last.behind = NONE,
            None => line.first = NONE,
        }
        let bytes = length(&packet);
        line.packets -= 1;
        line.bytes -= bytes;
        Some((packet, bytes))
    }

    /// Forgets what waits: its frames go home by themselves.
    pub fn forget(&mut self) {
        *self = Shelf::new(self.queues.len(), self.capacity);
    }

    /// Makes room for so many packets besides those that wait, where there is less.
    #[cold]
    pub fn grow(&mut self, packets: usize) {
        let waiting: usize = self.queues.iter().map(|line| line.packets as usize).sum();
        self.capacity = self.capacity.max(waiting + packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Pool, Region};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(usize, u8),
        Pop(usize),
        PopBack(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0usize..5, 1u8..60).prop_map(|(queue, length)| Step::Push(queue, length)),
            2 => (0usize..5).prop_map(Step::Pop),
            1 => (0usize..5).prop_map(Step::PopBack),
        ]
    }

    #[test]
    fn there_is_room_for_what_was_cut_though_other_queues_are_full() {
        let mut pool = Pool::new(Region::new(16));
        let mut shelf = Shelf::new(2, 2);
        let mut push =
            |shelf: &mut Shelf, queue| shelf.push(queue, pool.take().expect("there are frames"), 1).is_none();
        assert!(push(&mut shelf, 0) && push(&mut shelf, 0) && !push(&mut shelf, 1));
        shelf.grow(2);
        assert!(push(&mut shelf, 1) && push(&mut shelf, 1) && !push(&mut shelf, 1));
    }

    proptest! {
        /// The fifth queue does not exist.
        #[test]
        fn queues_that_share_places_are_queues(steps in prop::collection::vec(step(), 1..200), capacity in 1usize..20) {
            let region = Region::new(256);
            let mut pool = Pool::new(region);
            let mut shelf = Shelf::new(4, capacity);
            let mut oracle: [VecDeque<u8>; 4] = Default::default();
            let length = |packet: &Packet| packet.len() as u64;
            for step in steps {
                let waiting: usize = oracle.iter().map(VecDeque::len).sum();
                let taken = match step {
                    Step::Push(queue, bytes) => {
                        let mut packet = pool.take().expect("there are frames");
                        prop_assert!(packet.fill(&vec![bytes; bytes.into()]));
                        let fits = queue < 4 && waiting < capacity;
                        let back = shelf.push(queue, packet, bytes.into());
                        prop_assert_eq!(back.is_none(), fits);
                        back.into_iter().for_each(|packet| pool.give(packet));
                        if fits {
                            oracle[queue].push_back(bytes);
                        }
                        continue;
                    }
                    Step::Pop(queue) => (shelf.pop(queue, length), oracle.get_mut(queue).and_then(VecDeque::pop_front)),
                    Step::PopBack(queue) => {
                        (shelf.pop_back(queue, length), oracle.get_mut(queue).and_then(VecDeque::pop_back))
                    }
                };
                prop_assert_eq!(taken.0.as_ref().map(|(packet, _)| packet.bytes()[0]), taken.1);
                taken.0.into_iter().for_each(|(packet, _)| pool.give(packet));
                for queue in 0..5 {
                    let none = VecDeque::new();
                    let expected = oracle.get(queue).unwrap_or(&none);
                    let bytes: u64 = expected.iter().map(|bytes| u64::from(*bytes)).sum();
                    prop_assert_eq!(shelf.size(queue), (expected.len() as u32, bytes));
                    prop_assert_eq!(shelf.front(queue).map(|packet| packet.bytes()[0]), expected.front().copied());
                    prop_assert!(shelf.iter(queue).map(|packet| packet.bytes()[0]).eq(expected.iter().copied()));
                }
            }
        }
    }
}
