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

/// One queue, unbounded, before a link that is ready for `room` packets.
#[derive(Debug, Default)]
pub struct Model {
    arriving: VecDeque<(usize, u32)>,
    current: Option<(usize, u32)>,
    queue: VecDeque<(usize, u32)>,
    hand: Option<(usize, u32)>,
    count: usize,
    pub room: usize,
    pub fates: Vec<Fate>,
}

impl Model {
    /// Raises `Arrival` for packets of these lengths; numbers go on from the last.
    pub fn arrive(&mut self, scheme: &mut impl Scheme<Self>, lengths: &[u32]) {
        let first = self.count;
        self.arriving.extend(lengths.iter().enumerate().map(|(i, &length)| (first + i, length)));
        self.count += lengths.len();
        scheme.arrival(self);
        while self.arriving().is_some() {}
    }

    /// The link takes `room` more packets.
    pub fn ready(&mut self, scheme: &mut impl Scheme<Self>, room: usize) {
        self.room = room;
        scheme.serve(self);
    }

    fn record(&(_, length): &(usize, u32)) -> Record {
        Record { length, ..Record::default() }
    }
}

impl Wires for Model {
    fn now(&self) -> Instant {
        Instant::START
    }
    fn size(&self, _queue: QueueId) -> Size {
        let bytes = self.queue.iter().map(|&(_, length)| u64::from(length)).sum();
        Size { packets: self.queue.len() as u32, bytes: Bytes::new(bytes) }
    }
    fn head(&self, _queue: QueueId) -> Option<Record> {
        self.queue.front().map(Self::record)
    }
    fn arriving(&mut self) -> Option<Record> {
        self.fates.extend(self.current.take().map(|(number, _)| Fate::Refused(number)));
        self.current = self.arriving.pop_front();
        self.current.as_ref().map(Self::record)
    }
    fn enqueue(&mut self, _queue: QueueId) -> bool {
        let packet = self.current.take();
        self.queue.extend(packet);
        packet.is_some()
    }
    fn drop_front(&mut self, _queue: QueueId) -> Option<Record> {
        let packet = self.queue.pop_front()?;
        self.fates.push(Fate::Dropped(packet.0));
        Some(Self::record(&packet))
    }
    fn drop_tail(&mut self, _queue: QueueId) -> Option<Record> {
        let packet = self.queue.pop_back()?;
        self.fates.push(Fate::Dropped(packet.0));
        Some(Self::record(&packet))
    }
    fn dequeue(&mut self, _queue: QueueId) -> Option<Record> {
        self.transmit();
        self.hand = self.queue.pop_front();
        self.hand.as_ref().map(Self::record)
    }
    fn transmit(&mut self) {
        if let Some((number, _)) = self.hand.take() {
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
