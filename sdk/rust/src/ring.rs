//! A ring buffer for guests with a single queue.

use crate::block::Shown;
use alloc::vec;
use alloc::vec::Vec;
use schemes::{Record, Size};
use units::{Bytes, Instant, QueueId};

/// The record of a queued packet.
#[derive(Clone, Copy, Default)]
struct Place {
    timestamp: u64,
    length: u32,
    queue: u16,
    class: u8,
    ecn: u8,
}

/// See the [module](self). Its methods are inlined into the scheme. If a record were passed in memory, its small stores would be read by one
/// large load, and the processor would stall because store forwarding fails.
pub struct Ring {
    /// The slots; their number is a power of two.
    places: Vec<Place>,
    first: u32,
    size: Size,
    most: u32,
}

impl Ring {
    /// Makes a ring for the given number of packets.
    pub fn new(holds: u32) -> Ring {
        let places = vec![Place::default(); holds.next_power_of_two() as usize];
        Ring { places, first: 0, size: Size::default(), most: holds }
    }

    /// Empties the ring.
    pub fn clear(&mut self) {
        self.size = Size::default();
    }

    /// The length of the queue.
    #[inline(always)]
    pub fn size(&self) -> Size {
        self.size
    }

    #[inline(always)]
    fn place(&mut self, number: u32) -> Option<&mut Place> {
        let mask = self.places.len().wrapping_sub(1);
        self.places.get_mut(self.first.wrapping_add(number) as usize & mask)
    }

    /// The first packet.
    #[inline(always)]
    pub fn head(&self) -> Option<Record> {
        if self.size.packets == 0 {
            return None;
        }
        self.places.get(self.first as usize & self.places.len().wrapping_sub(1)).map(told)
    }

    /// Appends a packet. False if there is no room.
    #[inline(always)]
    pub fn push(&mut self, shown: &Shown) -> bool {
        if self.size.packets >= self.most {
            return false;
        }
        let &Shown { timestamp, length, queue, class, ecn, .. } = shown;
        let Some(place) = self.place(self.size.packets) else { return false };
        *place = Place { timestamp, length, queue, class, ecn };
        self.size.packets += 1;
        self.size.bytes += Bytes::new(length.into());
        true
    }

    #[inline(always)]
    fn shrink(&mut self, length: u32) {
        self.size.packets -= 1;
        self.size.bytes = Bytes::new(self.size.bytes.get() - u64::from(length));
    }

    /// Removes the first packet.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Record> {
        let record = self.head()?;
        self.first = self.first.wrapping_add(1);
        self.shrink(record.length);
        Some(record)
    }

    /// Removes the last packet.
    pub fn pop_back(&mut self) -> Option<Record> {
        let last = self.size.packets.checked_sub(1)?;
        let record = self.place(last).map(|place| told(place))?;
        self.shrink(record.length);
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
