//! The bounded ring (spec P-63): the array of the `rtrb` crate, whose ends keep a copy of each other's index and read the shared one only if the copy
//! shows no room or no item.

use super::ends::{Consumer, Producer};
use super::sync::rtrb;

/// The producer's end of a ring.
#[derive(Debug)]
pub struct RingProducer<T>(rtrb::Producer<T>);

/// The consumer's end of a ring.
#[derive(Debug)]
pub struct RingConsumer<T>(rtrb::Consumer<T>);

/// A ring with `capacity` slots.
pub fn ring<T>(capacity: usize) -> (RingProducer<T>, RingConsumer<T>) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity);
    (RingProducer(producer), RingConsumer(consumer))
}

impl<T> Producer<T> for RingProducer<T> {
    #[inline]
    fn room(&self) -> usize {
        self.0.slots()
    }

    fn queued(&self) -> usize {
        self.0.buffer().capacity() - self.0.slots()
    }

    #[inline]
    fn push(&mut self, item: T) -> Result<(), T> {
        self.0.push(item).map_err(|rtrb::PushError::Full(item)| item)
    }

    #[inline]
    fn push_many(&mut self, most: usize, items: impl Iterator<Item = T>) -> usize {
        let fit = most.min(self.0.slots());
        // Cannot fail: the consumer only makes more room.
        self.0.write_chunk_uninit(fit).map_or(0, |chunk| chunk.fill_from_iter(items))
    }

    #[inline]
    fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}

impl<T> Consumer<T> for RingConsumer<T> {
    #[inline]
    fn queued(&self) -> usize {
        self.0.slots()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    fn peek(&self) -> Option<&T> {
        self.0.peek().ok()
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        self.0.pop().ok()
    }

    #[inline]
    fn pop_many(&mut self, most: usize, each: impl FnMut(T)) -> usize {
        let found = most.min(self.0.slots());
        // Cannot fail: the producer only adds items. The slots are free once all items are read.
        let Ok(chunk) = self.0.read_chunk(found) else { return 0 };
        chunk.into_iter().for_each(each);
        found
    }

    #[inline]
    fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}
