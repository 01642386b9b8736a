//! Many queues of packets with shared slots: memory is allocated for the total number of waiting packets.
//!
//! With tens of thousands of queues the cost of a packet is that of its cache misses. A queue is therefore one cache line, which also holds its first
//! packets. Further packets are in slots that all queues share; the slot used last is reused first. A scheme that knows its next queue calls
//! [`QueueArena::prefetch`], so that the cache line has arrived when it is needed.

use packet::Packet;
use packet::pool::{HugeTable, prefetch_far};
use schemes::Size;
use units::{Bytes, Heap};

/// No slot.
const NONE: u32 = u32::MAX;
/// The packets held in the cache line of their queue.
const INLINE_PACKETS: usize = 4;

/// Queues of packets, or of stand-ins for packets in a measurement.
pub struct QueueArena<T = Packet> {
    queues: HugeTable<QueueLine<T>>,
    slots: Vec<ArenaSlot<T>>,
    /// The first of the slots that are free again. Slots beyond `slots.len()` have never been used.
    free: u32,
    /// The number of packets in all queues, and its limit.
    waiting: usize,
    capacity: usize,
    /// The queues that are not empty, by the arrival time of their first packet: for [`QueueArena::pop_oldest`].
    ages: Heap,
}

struct ArenaSlot<T> {
    packet: Option<T>,
    before: u32,
    behind: u32,
}

/// One of the queues.
#[repr(align(64))]
struct QueueLine<T> {
    bytes: u64,
    /// The length in packets, with a super-frame counted as its segments.
    packets: u32,
    /// The slots behind `inline_packets`. While any is in use, new packets are appended there, which preserves the order.
    first: u32,
    last: u32,
    /// `inline_packets` is a ring: the index of its first packet and the number of packets.
    start: u8,
    count: u8,
    /// The mark of the flow that last joined the queue.
    flow: u16,
    inline_packets: [Option<T>; INLINE_PACKETS],
    /// The bytes of each packet in `inline_packets`, or [`LONG`], also for one that counts as several packets.
    lengths: [u16; INLINE_PACKETS],
}

/// The size is not recorded: the packet is at least this long, or counts as several.
const LONG: u16 = u16::MAX;

const _: () = assert!(size_of::<QueueLine<Packet>>() == 64, "a queue is one cache line");

impl<T> QueueLine<T> {
    const EMPTY: QueueLine<T> = QueueLine {
        bytes: 0,
        packets: 0,
        first: NONE,
        last: NONE,
        start: 0,
        count: 0,
        flow: 0,
        inline_packets: [const { None }; INLINE_PACKETS],
        lengths: [0; INLINE_PACKETS],
    };

    /// The index in `inline_packets` of the packet `behind` places after the first.
    #[inline(always)]
    fn place(&self, behind: u8) -> usize {
        usize::from(self.start + behind) % INLINE_PACKETS
    }
}

impl<T> QueueArena<T> {
    /// At least one queue, for `capacity` packets together.
    pub fn new(queues: usize, capacity: usize) -> QueueArena<T> {
        // A slot number must not equal `NONE`.
        let capacity = capacity.min(NONE as usize);
        let lines = HugeTable::from_fn(queues, |_| QueueLine::EMPTY);
        let (places, mut ages) = (Vec::with_capacity(capacity), Heap::default());
        // Allocated here, so that `sort` allocates nothing when a worker replaces its scheme.
        ages.grow(queues);
        QueueArena { queues: lines, slots: places, free: NONE, waiting: 0, capacity, ages }
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The number of packets that all queues can hold together.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The length of a queue; zero if there is no such queue.
    #[inline(always)]
    pub fn size(&self, queue: usize) -> Size {
        let size = |line: &QueueLine<T>| Size { packets: line.packets, bytes: Bytes::new(line.bytes) };
        self.queues.get(queue).map_or_else(Size::default, size)
    }

    /// A packet of the flow with this mark is about to join a queue. True if packets wait and the last one was of another flow.
    #[inline(always)]
    pub fn joins_another(&mut self, queue: usize, mark: u16) -> bool {
        let Some(line) = self.queues.get_mut(queue) else { return false };
        let before = std::mem::replace(&mut line.flow, mark);
        line.packets > 0 && before != mark
    }

    /// Prefetches a queue that is used soon.
    #[inline(always)]
    pub fn prefetch(&self, queue: usize) {
        if let Some(line) = self.queues.get(queue) {
            prefetch_far(line);
        }
    }

    /// The first packet of a queue.
    #[inline(always)]
    pub fn front(&self, queue: usize) -> Option<&T> {
        let line = self.queues.get(queue)?;
        if line.count > 0 {
            return line.inline_packets[line.place(0)].as_ref();
        }
        // `NONE` is beyond all slots, so an empty queue has no first packet.
        self.slots.get(line.first as usize)?.packet.as_ref()
    }

    /// The bytes of the first packet of a queue; `length` computes them if they are not recorded.
    #[inline(always)]
    pub fn front_bytes(&self, queue: usize, length: impl FnOnce(&T) -> u64) -> Option<u64> {
        let line = self.queues.get(queue)?;
        match line.lengths[line.place(0)] {
            bytes if line.count > 0 && bytes < LONG => Some(bytes.into()),
            _ => self.front(queue).map(length),
        }
    }

    /// Calls `see` for the first packet of a queue and for those behind it up to `bytes`, as far as they are in the cache line.
    #[inline(always)]
    pub fn heads(&self, queue: usize, bytes: u32, mut see: impl FnMut(&T)) {
        let Some(line) = self.queues.get(queue).filter(|line| line.count > 0) else { return };
        let [first, second] = [0, 1].map(|behind| line.place(behind));
        line.inline_packets[first].iter().for_each(&mut see);
        // The number of packets to see is unpredictable. Seeing the first one twice costs less than a mispredicted branch.
        let mut bytes = bytes.saturating_sub(line.lengths[first].into());
        let both = (bytes > 0) & (line.count > 1);
        line.inline_packets[if both { second } else { first }].iter().for_each(&mut see);
        bytes = bytes.saturating_sub(line.lengths[second].into());
        if bytes > 0 {
            for behind in 2..line.count {
                let place = line.place(behind);
                line.inline_packets[place].iter().for_each(&mut see);
                bytes = bytes.saturating_sub(line.lengths[place].into());
                if bytes == 0 {
                    return;
                }
            }
        }
    }

    /// All packets of a queue in order.
    pub fn iter(&self, queue: usize) -> impl Iterator<Item = &T> {
        let line = self.queues.get(queue);
        let near =
            line.into_iter().flat_map(|line| (0..line.count).map(|behind| &line.inline_packets[line.place(behind)]));
        let first = line.and_then(|line| self.slots.get(line.first as usize));
        let far = std::iter::successors(first, |place| self.slots.get(place.behind as usize));
        // Packets in shared slots arrived after all those in the cache line.
        near.chain(far.map(|place| &place.packet)).filter_map(Option::as_ref)
    }

    /// Appends a packet of this size to a queue. Returns it if there is no room.
    #[inline(always)]
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, queue: usize, packet: T, size: Size) -> Option<T> {
        let Some(line) = self.queues.get_mut(queue).filter(|_| self.waiting < self.capacity) else {
            return Some(packet);
        };
        line.packets += size.packets;
        line.bytes += size.bytes.get();
        self.waiting += 1;
        // Only if no packet is in a shared slot: otherwise this one would overtake it.
        if line.first == NONE && usize::from(line.count) < INLINE_PACKETS {
            let place = line.place(line.count);
            line.lengths[place] =
                if size.packets == 1 { u16::try_from(size.bytes.get()).unwrap_or(LONG) } else { LONG };
            let before = line.inline_packets[place].replace(packet);
            debug_assert!(before.is_none(), "nothing lies there");
            // `before` is always `None`, but the compiler cannot know: `forget` saves the code that drops it.
            std::mem::forget(before);
            line.count += 1;
        } else {
            self.push_shared(queue, packet);
        }
        None
    }

    /// Appends a packet in a shared slot.
    fn push_shared(&mut self, queue: usize, packet: T) {
        let line = &mut self.queues[queue];
        let (before, mut number) = (line.last, self.free);
        let place = ArenaSlot { packet: Some(packet), before, behind: NONE };
        // Free slots form a list through `behind`. If it is empty, the next slot was never used.
        if let Some(free) = self.slots.get_mut(number as usize) {
            self.free = free.behind;
            *free = place;
        } else {
            number = self.slots.len() as u32;
            self.slots.push(place);
        }
        match self.slots.get_mut(before as usize) {
            Some(last) => last.behind = number,
            None => line.first = number,
        }
        line.last = number;
    }

    /// Removes the first packet of a queue; `size` computes its size.
    #[inline(always)]
    pub fn pop(&mut self, queue: usize, size: impl FnOnce(&T) -> Size) -> Option<(T, Size)> {
        let line = self.queues.get_mut(queue)?;
        let (packet, size) = if line.count > 0 {
            let place = line.place(0);
            let packet = line.inline_packets[place].take()?;
            line.start = (line.start + 1) % INLINE_PACKETS as u8;
            line.count -= 1;
            // The recorded length saves a read of the packet, which may not be in the cache.
            let size = match line.lengths[place] {
                LONG => size(&packet),
                bytes => Size { packets: 1, bytes: Bytes::new(bytes.into()) },
            };
            (packet, size)
        } else {
            let number = line.first;
            let place = self.slots.get_mut(number as usize)?;
            let packet = place.packet.take()?;
            // The next slot still names this one as `before`. That is harmless, because `line.first` marks the beginning.
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

    /// Removes the last packet of a queue.
    pub fn pop_back(&mut self, queue: usize, size: impl FnOnce(&T) -> Size) -> Option<(T, Size)> {
        let line = self.queues.get_mut(queue)?;
        let packet = if line.first == NONE {
            line.count = line.count.checked_sub(1)?;
            line.inline_packets[line.place(line.count)].take()?
        } else {
            let number = line.last;
            let place = self.slots.get_mut(number as usize)?;
            let packet = place.packet.take()?;
            let before = place.before;
            place.behind = self.free;
            self.free = number;
            // Not by `before`: that of the first slot may name a slot which another queue uses by now.
            if line.first == number {
                (line.first, line.last) = (NONE, NONE);
            } else {
                line.last = before;
                if let Some(last) = self.slots.get_mut(before as usize) {
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

    /// Discards the waiting packets. Their frames return to the region by themselves.
    pub fn discard_packets(&mut self) {
        *self = QueueArena::new(self.queues.len(), self.capacity);
    }

    /// Raises the capacity, if necessary, to hold `packets` more than those that wait.
    #[cold]
    pub fn grow(&mut self, packets: usize) {
        self.capacity = self.capacity.max(self.waiting + packets);
    }

    /// Prepares for [`QueueArena::pop_oldest`]; `came` returns the arrival time of a packet.
    pub fn sort(&mut self, came: impl Fn(&T) -> u64) {
        self.ages.clear();
        (0..self.queues.len()).for_each(|queue| self.note_age(queue, &came));
    }

    fn note_age(&mut self, queue: usize, came: impl Fn(&T) -> u64) {
        // One entry per queue suffices, as the packets of a queue are in order.
        if let Some(came) = self.front(queue).map(came) {
            self.ages.insert(came, queue);
        }
    }

    /// Removes the packet that arrived first. [`QueueArena::sort`] was called with the same `came`, and no other method since.
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
    fn grown_arena_has_room_for_segments_when_other_queues_are_full() {
        let mut pool = Pool::new(Region::new(16));
        let mut shelf = QueueArena::new(2, 2);
        let mut push =
            |shelf: &mut QueueArena, queue| shelf.push(queue, pool.take().expect("there are frames"), one(1)).is_none();
        assert!(push(&mut shelf, 0) && push(&mut shelf, 0) && !push(&mut shelf, 1));
        shelf.grow(2);
        assert!(push(&mut shelf, 1) && push(&mut shelf, 1) && !push(&mut shelf, 1));
    }

    proptest! {
        /// The fifth queue does not exist.
        #[test]
        fn arena_queues_behave_like_separate_queues(steps in prop::collection::vec(step(), 1..200), capacity in 1usize..40) {
            let region = Region::new(256);
            let mut pool = Pool::new(region);
            let mut shelf = QueueArena::new(4, capacity);
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
