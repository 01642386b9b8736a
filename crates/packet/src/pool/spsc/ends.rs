//! The interface of a queue between two threads. Callers know only its two ends, so a queue is replaced by the other kind where it is made.

/// The end of the thread that enqueues.
pub trait Producer<T> {
    /// The number of items that fit. The consumer can only increase it.
    fn room(&self) -> usize;

    /// The number of items enqueued and not yet dequeued. The number is exact and constant once the consumer has ended.
    fn queued(&self) -> usize;

    /// Enqueues an item.
    ///
    /// # Errors
    /// Returns the item if there is no room. If the consumer has ended, the item may be accepted, and is freed with the queue.
    fn push(&mut self, item: T) -> Result<(), T>;

    /// Enqueues the first `most` items, or as many as fit, and publishes them together. Returns their number. The other items stay in `items`.
    fn push_many(&mut self, most: usize, items: impl Iterator<Item = T>) -> usize;

    /// True if the consumer has ended.
    fn is_abandoned(&self) -> bool;
}

/// The end of the thread that dequeues.
pub trait Consumer<T> {
    /// The number of items to dequeue. The producer can only increase it.
    fn queued(&self) -> usize;

    /// True if there is no item to dequeue.
    fn is_empty(&self) -> bool;

    /// The next item. `None` if there is none.
    fn peek(&self) -> Option<&T>;

    /// Dequeues the next item. `None` if there is none.
    fn pop(&mut self) -> Option<T>;

    /// Dequeues at most `most` items in order. Returns their number.
    fn pop_many(&mut self, most: usize, each: impl FnMut(T)) -> usize;

    /// True if the producer has ended. A consumer that reads true also sees all items of the producer.
    fn is_abandoned(&self) -> bool;
}
