//! A link in a few lines, to try schemes on: packets are numbers, and every fate is written down.

use crate::{Record, Scheme, Size, Wires};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use units::{Bytes, Instant, QueueId, Rate};

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Sent(usize),
    Refused(usize),
    Dropped(usize),
}

/// A packet: its number, its length, its class.
type Numbered = (usize, u32, u8);

/// Some queues, unbounded, before a link that is ready for `room` packets.
#[derive(Debug, Default)]
pub struct Model {
    arriving: VecDeque<Numbered>,
    current: Option<Numbered>,
    queues: [VecDeque<Numbered>; 8],
    hand: Option<Numbered>,
    count: usize,
    pub room: usize,
    pub fates: Vec<Fate>,
}

impl Model {
    /// Raises `Arrival` for packets of these lengths; numbers go on from the last.
    pub fn arrive(&mut self, scheme: &mut impl Scheme<Self>, lengths: &[u32]) {
        let packets: Vec<(u32, u8)> = lengths.iter().map(|&length| (length, 0)).collect();
        self.arrive_as(scheme, &packets);
    }

    /// The same for packets of these lengths and classes.
    pub fn arrive_as(&mut self, scheme: &mut impl Scheme<Self>, packets: &[(u32, u8)]) {
        let first = self.count;
        self.arriving.extend(packets.iter().enumerate().map(|(i, &(length, class))| (first + i, length, class)));
        self.count += packets.len();
        scheme.arrival(self);
        while self.arriving().is_some() {}
    }

    /// The link takes `room` more packets.
    pub fn ready(&mut self, scheme: &mut impl Scheme<Self>, room: usize) {
        self.room = room;
        scheme.serve(self);
    }

    fn record(&(_, length, class): &Numbered) -> Record {
        Record { length, class, ..Record::default() }
    }

    fn queue(&mut self, queue: QueueId) -> Option<&mut VecDeque<Numbered>> {
        self.queues.get_mut(queue.index())
    }
}

impl Wires for Model {
    fn now(&self) -> Instant {
        Instant::START
    }
    fn size(&self, queue: QueueId) -> Size {
        let Some(queue) = self.queues.get(queue.index()) else { return Size::default() };
        let bytes = queue.iter().map(|&(_, length, _)| u64::from(length)).sum();
        Size { packets: queue.len() as u32, bytes: Bytes::new(bytes) }
    }
    fn head(&self, queue: QueueId) -> Option<Record> {
        self.queues.get(queue.index())?.front().map(Self::record)
    }
    fn arriving(&mut self) -> Option<Record> {
        self.fates.extend(self.current.take().map(|(number, ..)| Fate::Refused(number)));
        self.current = self.arriving.pop_front();
        self.current.as_ref().map(Self::record)
    }
    fn enqueue(&mut self, queue: QueueId) -> bool {
        let packet = self.current.take();
        let Some(queue) = self.queue(queue) else { return false };
        queue.extend(packet);
        packet.is_some()
    }
    fn drop_front(&mut self, queue: QueueId) -> Option<Record> {
        let packet = self.queue(queue)?.pop_front()?;
        self.fates.push(Fate::Dropped(packet.0));
        Some(Self::record(&packet))
    }
    fn drop_tail(&mut self, queue: QueueId) -> Option<Record> {
        let packet = self.queue(queue)?.pop_back()?;
        self.fates.push(Fate::Dropped(packet.0));
        Some(Self::record(&packet))
    }
    fn dequeue(&mut self, queue: QueueId) -> Option<Record> {
        self.transmit();
        self.hand = self.queue(queue).and_then(VecDeque::pop_front);
        self.hand.as_ref().map(Self::record)
    }
    fn transmit(&mut self) {
        if let Some((number, ..)) = self.hand.take() {
            assert!(self.room > 0, "a packet is sent only while the link is ready");
            self.room -= 1;
            self.fates.push(Fate::Sent(number));
        }
    }
    fn mark(&mut self) -> bool {
        false
    }
    fn link_ready(&self) -> bool {
        self.room > 0
    }
    fn link_rate(&self) -> Rate {
        Rate::mbit(10)
    }
}
