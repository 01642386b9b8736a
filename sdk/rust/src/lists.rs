//! Many queues as linked lists that share one array of packet slots.

use crate::block::Shown;
use alloc::vec;
use alloc::vec::Vec;
use schemes::{Record, Size};
use units::{Bytes, Instant, QueueId};

/// No slot.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Place {
    timestamp: u64,
    length: u32,
    before: u16,
    behind: u16,
    queue: u16,
    class: u8,
    ecn: u8,
}

#[derive(Clone, Copy)]
struct Line {
    bytes: u64,
    packets: u32,
    first: u16,
    last: u16,
}

const EMPTY: Line = Line { bytes: 0, packets: 0, first: NONE, last: NONE };

/// See the [module](self).
pub struct Lists {
    places: Vec<Place>,
    /// The first slot of the free list. Slots beyond the used ones have never been used.
    free: u16,
    most: usize,
    lines: Vec<Line>,
}

impl Lists {
    /// Makes the given number of queues, with a shared limit on packets.
    pub fn new(queues: usize, holds: u32) -> Lists {
        let most = holds as usize;
        Lists { places: Vec::with_capacity(most), free: NONE, most, lines: vec![EMPTY; queues] }
    }

    /// Empties all queues.
    pub fn clear(&mut self) {
        self.places.clear();
        self.free = NONE;
        self.lines.fill(EMPTY);
    }

    /// The length of a queue.
    #[inline(always)]
    pub fn size(&self, queue: QueueId) -> Size {
        let line = self.lines.get(queue.index()).copied().unwrap_or(EMPTY);
        Size { packets: line.packets, bytes: Bytes::new(line.bytes) }
    }

    /// The first packet of a queue.
    #[inline(always)]
    pub fn head(&self, queue: QueueId) -> Option<Record> {
        let line = self.lines.get(queue.index())?;
        self.places.get(usize::from(line.first)).map(told)
    }

    /// Appends a packet to a queue. False if there is no room or no such queue.
    #[inline(always)]
    pub fn push(&mut self, queue: QueueId, shown: &Shown) -> bool {
        let Some(line) = self.lines.get_mut(queue.index()) else { return false };
        let (before, mut number) = (line.last, self.free);
        let place = Place {
            timestamp: shown.timestamp,
            length: shown.length,
            before,
            behind: NONE,
            queue: shown.queue,
            class: shown.class,
            ecn: shown.ecn,
        };
        if let Some(free) = self.places.get_mut(usize::from(number)) {
            self.free = free.behind;
            *free = place;
        } else if self.places.len() < self.most {
            number = self.places.len() as u16;
            self.places.push(place);
        } else {
            return false;
        }
        match self.places.get_mut(usize::from(before)) {
            Some(last) => last.behind = number,
            None => line.first = number,
        }
        line.last = number;
        line.packets += 1;
        line.bytes += u64::from(shown.length);
        true
    }

    /// Removes the first packet of a queue.
    #[inline(always)]
    pub fn pop(&mut self, queue: QueueId) -> Option<Record> {
        let line = self.lines.get_mut(queue.index())?;
        let number = line.first;
        let place = self.places.get_mut(usize::from(number))?;
        let record = told(place);
        let behind = core::mem::replace(&mut place.behind, self.free);
        self.free = number;
        line.first = behind;
        match self.places.get_mut(usize::from(behind)) {
            Some(first) => first.before = NONE,
            None => line.last = NONE,
        }
        line.packets -= 1;
        line.bytes -= u64::from(record.length);
        Some(record)
    }

    /// Removes the last packet of a queue.
    pub fn pop_back(&mut self, queue: QueueId) -> Option<Record> {
        let line = self.lines.get_mut(queue.index())?;
        let number = line.last;
        let place = self.places.get_mut(usize::from(number))?;
        let record = told(place);
        let before = place.before;
        place.behind = self.free;
        self.free = number;
        line.last = before;
        match self.places.get_mut(usize::from(before)) {
            Some(last) => last.behind = NONE,
            None => line.first = NONE,
        }
        line.packets -= 1;
        line.bytes -= u64::from(record.length);
        Some(record)
    }
}

#[inline(always)]
fn told(place: &Place) -> Record {
    Record {
        length: place.length,
        timestamp: Instant::new(place.timestamp),
        queue: QueueId(place.queue.into()),
        class: place.class,
        ecn: place.ecn,
        ..Record::default()
    }
}
