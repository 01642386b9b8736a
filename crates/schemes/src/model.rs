//! A minimal link for tests of schemes: packets are numbers, and every fate is recorded.

use crate::{Ahead, Record, Scheme, Size, Wires};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::Cell;
use units::{Bytes, Instant, QueueId, Rate};

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelFate {
    /// It was sent.
    Sent(usize),
    /// It was not enqueued.
    Refused(usize),
    /// It was enqueued and dropped later.
    Dropped(usize),
}

impl ModelFate {
    /// The number of the packet.
    pub fn number(self) -> usize {
        match self {
            ModelFate::Sent(number) | ModelFate::Refused(number) | ModelFate::Dropped(number) => number,
        }
    }
}

/// A packet: its number and its record.
type Numbered = (usize, Record);

/// A queue of packets and its length.
#[derive(Debug, Default)]
struct ModelQueue {
    packets: VecDeque<Numbered>,
    size: Size,
}

/// Unbounded queues before a link that is ready for `room` packets.
#[derive(Debug)]
pub struct Model {
    /// The time that the scheme sees.
    pub now: Instant,
    /// The link rate that the scheme sees.
    pub rate: Rate,
    /// The capacity of all queues together, in packets.
    pub capacity: usize,
    /// True if it implements [`Wires::enqueue_while`] and [`Wires::send_while`].
    pub vectors: bool,
    arriving: VecDeque<Numbered>,
    current: Option<Numbered>,
    /// The number of packets in `arriving` that [`Wires::peek_arriving`] has shown.
    peeked: usize,
    queues: Vec<ModelQueue>,
    /// Packets in all queues: there may be thousands.
    waiting: usize,
    dequeued: Option<Numbered>,
    count: usize,
    /// The room of the link in packets.
    pub room: usize,
    /// Fates in the order of the decisions.
    pub fates: Vec<ModelFate>,
    /// How often the scheme read the length or the first packet of a queue.
    pub queue_accesses: Cell<u64>,
    /// The numbers of the marked packets, in the order of marking.
    pub marked: Vec<usize>,
}

impl Default for Model {
    fn default() -> Model {
        Model::with_queues(8)
    }
}

impl Model {
    /// A model with `queues` queues.
    pub fn with_queues(queues: usize) -> Model {
        Model {
            now: Instant::START,
            rate: Rate::mbit(10),
            capacity: usize::MAX,
            vectors: true,
            arriving: VecDeque::new(),
            current: None,
            peeked: 0,
            queues: (0..queues).map(|_| ModelQueue::default()).collect(),
            waiting: 0,
            dequeued: None,
            count: 0,
            room: 0,
            fates: Vec::new(),
            queue_accesses: Cell::new(0),
            marked: Vec::new(),
        }
    }

    /// Raises `Arrival` for packets of these lengths. Packets are numbered in order of arrival.
    pub fn arrive(&mut self, scheme: &mut (impl Scheme<Self> + ?Sized), lengths: &[u32]) {
        let packets: Vec<(u32, u8)> = lengths.iter().map(|&length| (length, 0)).collect();
        self.arrive_as(scheme, &packets);
    }

    /// Like [`Model::arrive`], for packets of these lengths and classes.
    pub fn arrive_as(&mut self, scheme: &mut (impl Scheme<Self> + ?Sized), packets: &[(u32, u8)]) {
        let record = |&(length, class): &(u32, u8)| Record { length, class, ..Record::default() };
        self.arrive_all(scheme, packets.iter().map(record));
    }

    /// Like [`Model::arrive`], for these records, with the present time as timestamp.
    pub fn arrive_all(&mut self, scheme: &mut (impl Scheme<Self> + ?Sized), records: impl Iterator<Item = Record>) {
        for record in records {
            self.arriving.push_back((self.count, Record { timestamp: self.now, ..record }));
            self.count += 1;
        }
        scheme.arrival(self);
        // The link refuses the packet left in the register and all that the scheme did not fetch.
        while self.arriving().is_some() {}
    }

    /// Raises `LinkReady` for a link with room for `room` packets.
    pub fn ready(&mut self, scheme: &mut (impl Scheme<Self> + ?Sized), room: usize) {
        self.room = room;
        scheme.serve(self);
        // `transmit` then fails if the scheme sends outside of `LinkReady`.
        self.room = 0;
    }

    /// The number of packets that have arrived.
    pub fn offered(&self) -> usize {
        self.count
    }

    /// The number of packets that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The number of fates for which `is` is true.
    pub fn count_fates(&self, is: impl Fn(ModelFate) -> bool) -> usize {
        self.fates.iter().filter(|fate| is(**fate)).count()
    }

    /// Removes a packet from a queue.
    fn take(&mut self, queue: QueueId, which: fn(&mut VecDeque<Numbered>) -> Option<Numbered>) -> Option<Numbered> {
        let line = self.queues.get_mut(queue.index())?;
        let packet = which(&mut line.packets)?;
        line.size.packets -= packet.1.packets();
        line.size.bytes = Bytes::new(line.size.bytes.get() - u64::from(packet.1.length));
        self.waiting -= 1;
        Some(packet)
    }
}

impl Wires for Model {
    fn now(&self) -> Instant {
        self.now
    }
    fn size(&self, queue: QueueId) -> Size {
        self.queue_accesses.set(self.queue_accesses.get() + 1);
        self.queues.get(queue.index()).map_or_else(Size::default, |line| line.size)
    }
    fn head(&self, queue: QueueId) -> Option<Record> {
        self.queue_accesses.set(self.queue_accesses.get() + 1);
        Some(self.queues.get(queue.index())?.packets.front()?.1)
    }
    fn arriving(&mut self) -> Option<Record> {
        // The previous packet was not enqueued, or the register would be empty.
        self.fates.extend(self.current.take().map(|(number, ..)| ModelFate::Refused(number)));
        self.current = self.arriving.pop_front();
        self.peeked = self.peeked.saturating_sub(1);
        self.current.map(|(_, record)| record)
    }
    fn enqueue(&mut self, queue: QueueId) -> bool {
        // The packet stays current, so that the next `arriving` refuses it.
        if self.waiting() >= self.capacity {
            return false;
        }
        let packet = self.current.take();
        let (Some(line), Some(packet)) = (self.queues.get_mut(queue.index()), packet) else { return false };
        line.size.packets += packet.1.packets();
        line.size.bytes += Bytes::new(packet.1.length.into());
        line.packets.push_back(packet);
        self.waiting += 1;
        true
    }
    fn drop_front(&mut self, queue: QueueId) -> Option<Record> {
        let packet = self.take(queue, VecDeque::pop_front)?;
        self.fates.push(ModelFate::Dropped(packet.0));
        Some(packet.1)
    }
    fn drop_tail(&mut self, queue: QueueId) -> Option<Record> {
        let packet = self.take(queue, VecDeque::pop_back)?;
        self.fates.push(ModelFate::Dropped(packet.0));
        Some(packet.1)
    }
    fn dequeue(&mut self, queue: QueueId) -> Option<Record> {
        // There is one register: the link sends the previous packet before it takes out another.
        self.transmit();
        self.dequeued = self.take(queue, VecDeque::pop_front);
        self.dequeued.map(|(_, record)| record)
    }
    fn transmit(&mut self) {
        if let Some((number, ..)) = self.dequeued.take() {
            assert!(self.room > 0, "a packet is sent only while the link is ready");
            self.room -= 1;
            self.fates.push(ModelFate::Sent(number));
        }
    }
    fn mark(&mut self) -> bool {
        let Some((number, record)) = self.dequeued.as_mut().or(self.current.as_mut()) else { return false };
        if record.ecn != 0 {
            self.marked.push(*number);
            record.ecn = 3;
        }
        record.ecn != 0
    }
    fn link_ready(&self) -> bool {
        self.room > 0
    }
    fn link_rate(&self) -> Rate {
        self.rate
    }
    fn enqueue_while(&mut self, queue: QueueId, bounds: Size) -> u32 {
        let mut taken = 0;
        while let Some((_, next)) = self.arriving.front().filter(|_| self.vectors && self.waiting < self.capacity) {
            // The same conditions as for single enqueues: an invariant compares the fates of both ways.
            let Size { packets, bytes } = self.size(queue);
            let fits = packets.saturating_add(next.more) < bounds.packets
                && bytes + Bytes::new(next.length.into()) <= bounds.bytes;
            if !fits || self.arriving().is_none() || !self.enqueue(queue) {
                break;
            }
            taken += 1;
        }
        taken
    }
    fn send_while(&mut self, queue: QueueId, since: Instant) -> u32 {
        let mut sent = 0;
        while self.vectors && self.room > 0 && self.head(queue).is_some_and(|head| head.timestamp >= since) {
            self.dequeue(queue);
            self.transmit();
            sent += 1;
        }
        sent
    }
    fn peek_arriving(&mut self) -> Option<Record> {
        let (_, record) = self.arriving.get(self.peeked)?;
        self.peeked += 1;
        Some(*record)
    }
}

impl Ahead for Model {
    fn offered(&self, place: usize) -> Option<Record> {
        self.arriving.get(place).map(|(_, record)| *record)
    }
    fn room(&self) -> usize {
        self.room
    }
    fn visit(&self, queue: QueueId, see: &mut dyn FnMut(Record)) {
        let line = self.queues.get(queue.index());
        line.into_iter().flat_map(|line| &line.packets).for_each(|(_, record)| see(*record));
    }
}
