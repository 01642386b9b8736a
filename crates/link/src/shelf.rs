//! Many queues of packets that share their places: memory is for as many packets as wait in all of them.
//!
//! With tens of thousands of queues a packet costs what it takes to fetch what it touches, so that is little: a queue is one cache
//! line, in which its first packets lie as well. Those behind them lie in places that all queues share, of which the one used
//! last is used again first. Whoever knows which queue is next says so ([`Shelf::soon`]), and its line is there by then.

use packet::Packet;
use packet::pool::{Huge, prefetch_far};
use schemes::Size;
use units::{Bytes, Heap};

/// No place.
const NONE: u32 = u32::MAX;
/// Packets that lie in the line of their queue.
const NEAR: usize = 4;

/// Queues, and what waits in them: packets, or what stands for them in a measurement.
pub struct Shelf<T = Packet> {
    lines: Huge<Line<T>>,
    places: Vec<Place<T>>,
    /// The first of the places that are free again; the others have never been used.
    free: u32,
    /// What waits in all queues, and how much may.
    waiting: usize,
    capacity: usize,
    /// The queues that are not empty, by when their first packet came: for [`Shelf::pop_oldest`].
    ages: Heap,
}

struct Place<T> {
    packet: Option<T>,
    before: u32,
    behind: u32,
}

/// One of the queues.
#[repr(align(64))]
struct Line<T> {
    bytes: u64,
    /// As how many its packets count: a super-frame as its segments.
    packets: u32,
    /// Those behind the ones that are near: they go there as long as any are there.
    first: u32,
    last: u32,
    /// Which of `near` is the first, and how many there are from it on, round and round.
    start: u8,
    count: u8,
    /// A mark of the flow that joined it last.
    flow: u16,
    near: [Option<T>; NEAR],
    /// Their bytes, or [`LONG`], also where one counts as more than one packet.
    lengths: [u16; NEAR],
}

/// The packet itself knows its size: as long as that, or longer, or more than one packet.
const LONG: u16 = u16::MAX;

const _: () = assert!(size_of::<Line<Packet>>() == 64, "a queue is one cache line");

impl<T> Line<T> {
    const EMPTY: Line<T> = Line {
        bytes: 0,
        packets: 0,
        first: NONE,
        last: NONE,
        start: 0,
        count: 0,
        flow: 0,
        near: [const { None }; NEAR],
        lengths: [0; NEAR],
    };

    /// The near packet so many behind the first.
    #[inline(always)]
    fn place(&self, behind: u8) -> usize {
        usize::from(self.start + behind) % NEAR
    }
}

impl<T> Shelf<T> {
    /// So many queues, at least one, for so many packets together.
    pub fn new(queues: usize, capacity: usize) -> Shelf<T> {
        let capacity = capacity.min(NONE as usize);
        let lines = Huge::of(queues, |_| Line::EMPTY);
        let (places, mut ages) = (Vec::with_capacity(capacity), Heap::default());
        ages.grow(queues);
        Shelf { lines, places, free: NONE, waiting: 0, capacity, ages }
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.lines.len()
    }

    /// Packets that all of them hold together.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Packets and bytes of a queue; nothing where there is no such queue.
    #[inline(always)]
    pub fn size(&self, queue: usize) -> Size {
        let size = |line: &Line<T>| Size { packets: line.packets, bytes: Bytes::new(line.bytes) };
        self.lines.get(queue).map_or_else(Size::default, size)
    }

    /// A packet of the flow with this mark is about to join a queue. True where the one before it was of another flow and packets
    /// wait.
    #[inline(always)]
    pub fn joins_another(&mut self, queue: usize, mark: u16) -> bool {
        let Some(line) = self.lines.get_mut(queue) else { return false };
        let before = std::mem::replace(&mut line.flow, mark);
        line.packets > 0 && before != mark
    }

    /// A hint: something is about to be done to that queue.
    #[inline(always)]
    pub fn soon(&self, queue: usize) {
        if let Some(line) = self.lines.get(queue) {
            prefetch_far(line);
        }
    }

    /// The first packet of a queue.
    #[inline(always)]
    pub fn front(&self, queue: usize) -> Option<&T> {
        let line = self.lines.get(queue)?;
        if line.count > 0 {
            return line.near[line.place(0)].as_ref();
        }
        self.places.get(line.first as usize)?.packet.as_ref()
    }

    /// The bytes of the first packet of a queue; `length` knows them where they are not written down.
    #[inline(always)]
    pub fn front_bytes(&self, queue: usize, length: impl FnOnce(&T) -> u64) -> Option<u64> {
        let line = self.lines.get(queue)?;
        match line.lengths[line.place(0)] {
            bytes if line.count > 0 && bytes < LONG => Some(bytes.into()),
            _ => self.front(queue).map(length),
        }
    }

    /// Shows the first packet of a queue, and those behind it up to so many bytes, as far as they are near.
    #[inline(always)]
    pub fn heads(&self, queue: usize, bytes: u32, mut see: impl FnMut(&T)) {
        let Some(line) = self.lines.get(queue).filter(|line| line.count > 0) else { return };
        let [first, second] = [0, 1].map(|behind| line.place(behind));
        line.near[first].iter().for_each(&mut see);
        // Whether one or two are to be seen is what nobody can guess: without a jump it costs less, if the first is seen twice.
        let mut bytes = bytes.saturating_sub(line.lengths[first].into());
        let both = (bytes > 0) & (line.count > 1);
        line.near[if both { second } else { first }].iter().for_each(&mut see);
        bytes = bytes.saturating_sub(line.lengths[second].into());
        if bytes > 0 {
            for behind in 2..line.count {
                let place = line.place(behind);
                line.near[place].iter().for_each(&mut see);
                bytes = bytes.saturating_sub(line.lengths[place].into());
                if bytes == 0 {
                    return;
                }
            }
        }
    }

    /// All packets of a queue, the first one first.
    pub fn iter(&self, queue: usize) -> impl Iterator<Item = &T> {
        let line = self.lines.get(queue);
        let near = line.into_iter().flat_map(|line| (0..line.count).map(|behind| &line.near[line.place(behind)]));
        let first = line.and_then(|line| self.places.get(line.first as usize));
        let far = std::iter::successors(first, |place| self.places.get(place.behind as usize));
        near.chain(far.map(|place| &place.packet)).filter_map(Option::as_ref)
    }

    /// Puts a packet of this size at the end of a queue, or gives it back where there is no room.
    #[inline(always)]
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, queue: usize, packet: T, size: Size) -> Option<T> {
        let Some(line) = self.lines.get_mut(queue).filter(|_| self.waiting < self.capacity) else {
            return Some(packet);
        };
        line.packets += size.packets;
        line.bytes += size.bytes.get();
        self.waiting += 1;
        if line.first == NONE && usize::from(line.count) < NEAR {
            let place = line.place(line.count);
            line.lengths[place] =
                if size.packets == 1 { u16::try_from(size.bytes.get()).unwrap_or(LONG) } else { LONG };
            let before = line.near[place].replace(packet);
            debug_assert!(before.is_none(), "nothing lies there");
            // What is not there need not be dropped, and the compiler cannot know.
            std::mem::forget(before);
            line.count += 1;
        } else {
            self.push_behind(queue, packet);
        }
        None
    }

    /// Puts a packet behind those that are near.
    fn push_behind(&mut self, queue: usize, packet: T) {
        let line = &mut self.lines[queue];
        let (before, mut number) = (line.last, self.free);
        let place = Place { packet: Some(packet), before, behind: NONE };
        if let Some(free) = self.places.get_mut(number as usize) {
            self.free = free.behind;
            *free = place;
        } else {
            number = self.places.len() as u32;
            self.places.push(place);
        }
        match self.places.get_mut(before as usize) {
            Some(last) => last.behind = number,
            None => line.first = number,
        }
        line.last = number;
    }

    /// Takes the first packet of a queue, whose size `size` knows.
    #[inline(always)]
    pub fn pop(&mut self, queue: usize, size: impl FnOnce(&T) -> Size) -> Option<(T, Size)> {
        let line = self.lines.get_mut(queue)?;
        let (packet, size) = if line.count > 0 {
            let place = line.place(0);
            let packet = line.near[place].take()?;
            line.start = (line.start + 1) % NEAR as u8;
            line.count -= 1;
            // Not asked of the packet: it is left alone.
            let size = match line.lengths[place] {
                LONG => size(&packet),
                bytes => Size { packets: 1, bytes: Bytes::new(bytes.into()) },
            };
            (packet, size)
        } else {
            let number = line.first;
            let place = self.places.get_mut(number as usize)?;
            let packet = place.packet.take()?;
            // That the one behind has nothing before it any more is known without saying so there.
            line.first = std::mem::replace(&mut place.behind, self.free);
            if line.first == NONE {
                line.last = NONE;
            }
            self.free = number;
            let size = size(&packet);
            (packet, size)
        };
        line.packets -= size.packets;
        line.bytes -= size.bytes.get();
        self.waiting -= 1;
        Some((packet, size))
    }

    /// Takes the last one.
    pub fn pop_back(&mut self, queue: usize, size: impl FnOnce(&T) -> Size) -> Option<(T, Size)> {
        let line = self.lines.get_mut(queue)?;
        let packet = if line.first == NONE {
            line.count = line.count.checked_sub(1)?;
            line.near[line.place(line.count)].take()?
        } else {
            let number = line.last;
            let place = self.places.get_mut(number as usize)?;
            let packet = place.packet.take()?;
            let before = place.before;
            place.behind = self.free;
            self.free = number;
            if line.first == number {
                (line.first, line.last) = (NONE, NONE);
            } else {
                line.last = before;
                if let Some(last) = self.places.get_mut(before as usize) {
                    last.behind = NONE;
                }
            }
            packet
        };
        let size = size(&packet);
        line.packets -= size.packets;
        line.bytes -= size.bytes.get();
        self.waiting -= 1;
        Some((packet, size))
    }

    /// Forgets what waits: its frames go home by themselves.
    pub fn forget(&mut self) {
        *self = Shelf::new(self.lines.len(), self.capacity);
    }

    /// Makes room for so many packets besides those that wait, where there is less.
    #[cold]
    pub fn grow(&mut self, packets: usize) {
        self.capacity = self.capacity.max(self.waiting + packets);
    }

    /// Makes ready for [`Shelf::pop_oldest`], `came` telling when a packet came.
    pub fn sort(&mut self, came: impl Fn(&T) -> u64) {
        self.ages.clear();
        (0..self.lines.len()).for_each(|queue| self.note_age(queue, &came));
    }

    fn note_age(&mut self, queue: usize, came: impl Fn(&T) -> u64) {
        if let Some(came) = self.front(queue).map(came) {
            self.ages.insert(came, queue);
        }
    }

    /// Takes out the packet that came first of all. They have been [sorted](Shelf::sort) by the same, and nothing else was
    /// done to them since.
    pub fn pop_oldest(&mut self, came: impl Fn(&T) -> u64, size: impl FnOnce(&T) -> Size) -> Option<T> {
        let (_, queue) = self.ages.pop()?;
        let (packet, _) = self.pop(queue, size)?;
        self.note_age(queue, came);
        Some(packet)
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

    fn one(bytes: u64) -> Size {
        Size { packets: 1, bytes: Bytes::new(bytes) }
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
            |shelf: &mut Shelf, queue| shelf.push(queue, pool.take().expect("there are frames"), one(1)).is_none();
        assert!(push(&mut shelf, 0) && push(&mut shelf, 0) && !push(&mut shelf, 1));
        shelf.grow(2);
        assert!(push(&mut shelf, 1) && push(&mut shelf, 1) && !push(&mut shelf, 1));
    }

    proptest! {
        /// The fifth queue does not exist.
        #[test]
        fn queues_that_share_places_are_queues(steps in prop::collection::vec(step(), 1..200), capacity in 1usize..40) {
            let region = Region::new(256);
            let mut pool = Pool::new(region);
            let mut shelf = Shelf::new(4, capacity);
            let mut oracle: [VecDeque<u8>; 4] = Default::default();
            let length = |packet: &Packet| one(packet.len() as u64);
            for step in steps {
                let waiting: usize = oracle.iter().map(VecDeque::len).sum();
                let taken = match step {
                    Step::Push(queue, bytes) => {
                        let mut packet = pool.take().expect("there are frames");
                        prop_assert!(packet.fill(&vec![bytes; bytes.into()]));
                        let fits = queue < 4 && waiting < capacity;
                        let back = shelf.push(queue, packet, one(bytes.into()));
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
                    prop_assert_eq!(shelf.size(queue), Size { packets: expected.len() as u32, bytes: Bytes::new(bytes) });
                    prop_assert_eq!(shelf.front(queue).map(|packet| packet.bytes()[0]), expected.front().copied());
                    prop_assert!(shelf.iter(queue).map(|packet| packet.bytes()[0]).eq(expected.iter().copied()));
                }
            }
        }
    }
}
