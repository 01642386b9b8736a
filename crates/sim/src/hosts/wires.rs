//! The queues before a link of a world of hosts, as a queueing scheme sees them. The schemes are the same code as in routers; here they decide on
//! packet records. All queues share one array of places, so memory depends on the number of packets, not of queues.

use super::packet::{Fields, Packet};
use schemes::{Record, Scheme, Size, Wires};
use std::collections::BinaryHeap;
use units::{Bytes, Instant, QueueId, Rate};

/// The index of no place.
const NONE: u32 = u32::MAX;

/// The fate of a packet that was offered to a scheme.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fate {
    /// It was given to the link.
    Sent,
    /// The scheme refused it on arrival.
    Arrival,
    /// The scheme admitted it, and dropped it at the head.
    Front,
    /// The scheme admitted it, and dropped it at the tail.
    Tail,
    /// The buffer was full.
    Full,
    /// Its scheme was replaced with `flush`.
    Flush,
}

impl Fate {
    /// The fates of dropped packets, with the names that routers use.
    pub const DROPS: [(Fate, &'static str); 5] = [
        (Fate::Arrival, "scheme_arrival"),
        (Fate::Front, "scheme_front"),
        (Fate::Tail, "scheme_tail"),
        (Fate::Full, "buffer_full"),
        (Fate::Flush, "scheme_flush"),
    ];
}

#[derive(Clone, Copy, Debug)]
struct PacketSlot {
    packet: Packet,
    before: u32,
    behind: u32,
}

/// One of the queues, a doubly linked list of places.
#[derive(Clone, Copy, Debug)]
struct PacketList {
    first: u32,
    last: u32,
    packets: u32,
    bytes: u64,
}

const EMPTY: PacketList = PacketList { first: NONE, last: NONE, packets: 0, bytes: 0 };

/// The queues of one scheme, and the registers for the arriving packet and the one being sent.
#[derive(Debug)]
pub(super) struct SchemeQueues {
    /// The time of the call.
    pub now: Instant,
    /// The rate of the link.
    pub rate: Rate,
    /// The number of packets that the link can accept now.
    pub room: usize,
    /// The most packets in all queues together.
    capacity: u32,
    places: Vec<PacketSlot>,
    /// The head of the list of free places. Places that were never used are not in it.
    free: u32,
    queues: Box<[PacketList]>,
    /// The packets in all queues.
    waiting: Size,
    offered: Option<(Packet, Fields)>,
    arriving: Option<Packet>,
    /// True if there was no room for the arriving packet.
    full: bool,
    sending: Option<Packet>,
    /// The fates of packets, in order.
    pub fates: Vec<(Packet, Fate)>,
    /// Packets marked, in order: their streams and numbers.
    pub marked: Vec<(u32, u32)>,
}

impl SchemeQueues {
    /// Makes this many queues, which together hold `capacity` packets.
    pub fn new(queues: u32, capacity: u32) -> SchemeQueues {
        SchemeQueues {
            now: Instant::START,
            rate: Rate::ZERO,
            room: 0,
            capacity: capacity.min(NONE - 1),
            places: Vec::new(),
            free: NONE,
            queues: vec![EMPTY; queues.max(1) as usize].into(),
            waiting: Size::default(),
            offered: None,
            arriving: None,
            full: false,
            sending: None,
            fates: Vec::with_capacity(8),
            marked: Vec::new(),
        }
    }

    /// The packets in all queues.
    pub fn waiting(&self) -> Size {
        self.waiting
    }

    /// Raises `Arrival` for a packet.
    pub fn arrive(&mut self, scheme: &mut (impl Scheme<SchemeQueues> + ?Sized), packet: Packet, fields: Fields) {
        self.offered = Some((packet, fields));
        scheme.arrival(self);
        // If a scheme stops early, the packet counts as refused.
        while self.arriving().is_some() {}
    }

    /// Raises `LinkReady` for up to `room` packets.
    pub fn ready(&mut self, scheme: &mut (impl Scheme<SchemeQueues> + ?Sized), room: usize) {
        self.room = room;
        scheme.serve(self);
        self.transmit();
        self.room = 0;
    }

    /// Removes all packets, in the order of their arrival times.
    pub fn drain(&mut self) -> Vec<Packet> {
        let age = |lines: &SchemeQueues, queue: usize| {
            let packet = lines.places.get(lines.queues[queue].first as usize)?.packet;
            Some(std::cmp::Reverse((packet.arrived_at, queue)))
        };
        let mut ages: BinaryHeap<_> = (0..self.queues.len()).filter_map(|queue| age(self, queue)).collect();
        let mut packets = Vec::with_capacity(self.waiting.packets as usize);
        while let Some(std::cmp::Reverse((_, queue))) = ages.pop() {
            packets.extend(self.take_first(queue));
            ages.extend(age(self, queue));
        }
        packets
    }

    fn record(packet: &Packet) -> Record {
        let timestamp = Instant::new(packet.arrived_at);
        Record { length: packet.bytes, timestamp, ecn: packet.ecn, class: packet.class, ..Record::default() }
    }

    fn take_first(&mut self, queue: usize) -> Option<Packet> {
        let line = self.queues.get_mut(queue)?;
        let number = line.first;
        let place = self.places.get_mut(number as usize)?;
        let packet = place.packet;
        // The freed place goes to the head of the free list, which uses `behind` as its link.
        line.first = std::mem::replace(&mut place.behind, self.free);
        self.free = number;
        let first = line.first;
        match self.places.get_mut(first as usize) {
            Some(first) => first.before = NONE,
            None => line.last = NONE,
        }
        self.taken(queue, packet.bytes);
        Some(packet)
    }

    fn take_last(&mut self, queue: usize) -> Option<Packet> {
        let line = self.queues.get_mut(queue)?;
        let number = line.last;
        let place = self.places.get_mut(number as usize)?;
        let packet = place.packet;
        line.last = place.before;
        // Likewise to the head of the free list.
        place.behind = self.free;
        self.free = number;
        let last = line.last;
        match self.places.get_mut(last as usize) {
            Some(last) => last.behind = NONE,
            None => line.first = NONE,
        }
        self.taken(queue, packet.bytes);
        Some(packet)
    }

    #[inline(always)]
    fn taken(&mut self, queue: usize, bytes: u32) {
        let line = &mut self.queues[queue];
        line.packets -= 1;
        line.bytes -= u64::from(bytes);
        self.waiting.packets -= 1;
        self.waiting.bytes = Bytes::new(self.waiting.bytes.get() - u64::from(bytes));
    }
}

impl Wires for SchemeQueues {
    #[inline(always)]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline(always)]
    fn size(&self, queue: QueueId) -> Size {
        let line = self.queues.get(queue.index());
        line.map_or(Size::default(), |line| Size { packets: line.packets, bytes: Bytes::new(line.bytes) })
    }

    #[inline(always)]
    fn head(&self, queue: QueueId) -> Option<Record> {
        let place = self.places.get(self.queues.get(queue.index())?.first as usize)?;
        Some(SchemeQueues::record(&place.packet))
    }

    #[inline(always)]
    fn arriving(&mut self) -> Option<Record> {
        if let Some(packet) = self.arriving.take() {
            self.fates.push((packet, if self.full { Fate::Full } else { Fate::Arrival }));
        }
        let (packet, fields) = self.offered.take()?;
        (self.arriving, self.full) = (Some(packet), false);
        let Fields { flow_hash, source, destination, dscp } = fields;
        Some(Record { flow_hash, source, destination, dscp, ..SchemeQueues::record(&packet) })
    }

    #[inline(always)]
    fn enqueue(&mut self, queue: QueueId) -> bool {
        let Some(packet) = self.arriving else { return false };
        let Some(line) = self.queues.get_mut(queue.index()) else { return false };
        if self.waiting.packets >= self.capacity {
            self.full = true;
            return false;
        }
        let (before, mut number) = (line.last, self.free);
        let new = PacketSlot { packet, before, behind: NONE };
        if let Some(place) = self.places.get_mut(number as usize) {
            self.free = place.behind;
            *place = new;
        } else {
            number = self.places.len() as u32;
            self.places.push(new);
        }
        match self.places.get_mut(before as usize) {
            Some(last) => last.behind = number,
            None => line.first = number,
        }
        line.last = number;
        line.packets += 1;
        line.bytes += u64::from(packet.bytes);
        self.waiting.packets += 1;
        self.waiting.bytes += Bytes::new(packet.bytes.into());
        self.arriving = None;
        true
    }

    fn drop_front(&mut self, queue: QueueId) -> Option<Record> {
        let packet = self.take_first(queue.index())?;
        self.fates.push((packet, Fate::Front));
        Some(SchemeQueues::record(&packet))
    }

    fn drop_tail(&mut self, queue: QueueId) -> Option<Record> {
        let packet = self.take_last(queue.index())?;
        self.fates.push((packet, Fate::Tail));
        Some(SchemeQueues::record(&packet))
    }

    #[inline(always)]
    fn dequeue(&mut self, queue: QueueId) -> Option<Record> {
        self.transmit();
        self.sending = self.take_first(queue.index());
        self.sending.as_ref().map(SchemeQueues::record)
    }

    #[inline(always)]
    fn transmit(&mut self) {
        if let Some(packet) = self.sending.take() {
            assert!(self.room > 0, "a packet is sent only while the link is ready");
            self.room -= 1;
            self.fates.push((packet, Fate::Sent));
        }
    }

    fn mark(&mut self) -> bool {
        let Some(packet) = self.sending.as_mut().or(self.arriving.as_mut()) else { return false };
        if packet.ecn != 0 {
            packet.ecn = 3;
            self.marked.push((packet.stream, packet.number));
        }
        packet.ecn != 0
    }

    #[inline(always)]
    fn link_ready(&self) -> bool {
        self.room > 0
    }

    #[inline(always)]
    fn link_rate(&self) -> Rate {
        self.rate
    }
}

#[cfg(test)]
mod tests;
