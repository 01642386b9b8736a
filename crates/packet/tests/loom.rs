//! Both queues between threads, in every interleaving that the memory model allows: `make loom`. The test compiles the crate's own files with the model
//! checker's atomics and cells. For the ring it does the same with the sources of the `rtrb` crate in the locked version, which `.ci/loom` prepares.
//!
//! The model checker sees each item of the list's elements. The ring's slots are raw memory, so each item names a cell that the producer writes before
//! and the consumer reads: the same accesses as those of a slot, in the same order.

#![cfg(loom)]
// The files are included whole, and each model uses only parts of them.
#![allow(dead_code, missing_docs, unused_imports, unexpected_cfgs, unsafe_code, unreachable_pub, clippy::all)]

extern crate alloc;

mod rtrb {
    include!(concat!(env!("RTRB_UNDER_LOOM"), "/lib.rs"));
}
mod sync {
    pub(super) use crate::rtrb;
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::Arc;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
}
#[path = "../src/pool/spsc/ends.rs"]
mod ends;
#[path = "../src/pool/spsc/list.rs"]
mod list;
#[path = "../src/pool/spsc/ring.rs"]
mod ring;

use ends::{Consumer, Producer};
use list::void_list;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ring::ring;

/// The memory that items name: cell `n % bound` belongs to item `n`, like a slot.
struct Cells(Vec<UnsafeCell<usize>>);

// SAFETY: the queue under test orders the accesses; the model checker fails if it does not.
unsafe impl Sync for Cells {}
unsafe impl Send for Cells {}

impl Cells {
    fn new(bound: usize) -> Arc<Cells> {
        Arc::new(Cells((0..bound).map(|_| UnsafeCell::new(usize::MAX)).collect()))
    }

    fn write(&self, item: usize) {
        self.0[item % self.0.len()].with_mut(|cell| unsafe { *cell = item });
    }

    fn read(&self, item: usize) -> usize {
        self.0[item % self.0.len()].with(|cell| unsafe { *cell })
    }
}

/// Pushes items one at a time while there is room. Returns the number of items so far.
fn push_some(producer: &mut impl Producer<usize>, cells: &Cells, mut next: usize, attempts: usize) -> usize {
    for _ in 0..attempts {
        if producer.room() > 0 {
            // Room means that the consumer is done with the previous item of this cell.
            cells.write(next);
            producer.push(next).expect("there was room");
            next += 1;
        }
    }
    next
}

/// Pops items one at a time while there are some. Returns the number of items so far.
fn pop_some(consumer: &mut impl Consumer<usize>, cells: &Cells, mut next: usize, attempts: usize) -> usize {
    for _ in 0..attempts {
        if let Some(&item) = consumer.peek() {
            assert_eq!((item, cells.read(item)), (next, next), "in order, with all that was written before");
            assert_eq!(consumer.pop(), Some(item));
            next += 1;
        }
    }
    next
}

fn items_arrive_in_order<P, C>(bound: usize, pushes: usize, pops: usize, make: fn(usize) -> (P, C))
where
    P: Producer<usize> + Send + 'static,
    C: Consumer<usize> + 'static,
{
    loom::model(move || {
        let (mut producer, mut consumer) = make(bound);
        let cells = Cells::new(bound);
        let theirs = cells.clone();
        let thread = thread::spawn(move || {
            let pushed = push_some(&mut producer, &theirs, 0, pushes);
            (producer, pushed)
        });
        let next = pop_some(&mut consumer, &cells, 0, pops);
        let (producer, pushed) = thread.join().unwrap();
        assert_eq!(producer.queued(), pushed - next);
        assert_eq!(consumer.queued(), pushed - next);
        assert_eq!(pop_some(&mut consumer, &cells, next, pushes), pushed, "nothing is lost or doubled");
        assert!(consumer.is_empty());
    });
}

/// A bound of one: each push waits for the pop before it.
#[test]
fn items_arrive_in_order_with_room_for_one() {
    items_arrive_in_order(1, 3, 2, ring);
    items_arrive_in_order(1, 3, 2, |bound| void_list(bound, 0));
}

#[test]
fn items_arrive_in_order_with_room_for_two() {
    items_arrive_in_order(2, 3, 3, ring);
    items_arrive_in_order(2, 3, 3, |bound| void_list(bound, 0));
    items_arrive_in_order(2, 3, 3, |bound| void_list(bound, 1));
}

/// The slots of a batch are free after its last item was handled, so there are as many cells as slots.
fn batches_arrive_whole<P, C>(make: fn(usize) -> (P, C))
where
    P: Producer<usize> + Send + 'static,
    C: Consumer<usize> + 'static,
{
    loom::model(move || {
        let (mut producer, mut consumer) = make(2);
        let cells = Cells::new(2);
        let theirs = cells.clone();
        let thread = thread::spawn(move || {
            let mut next = 0;
            for _ in 0..2 {
                let written = theirs.clone();
                next += producer.push_many(2, (next..4).inspect(move |item| written.write(*item)));
            }
            next
        });
        let mut next = 0;
        for _ in 0..2 {
            let found = consumer.queued();
            let popped = consumer.pop_many(2, |item| {
                assert_eq!((item, cells.read(item)), (next, next));
                next += 1;
            });
            assert!(popped >= found, "counted items can be dequeued");
        }
        let pushed = thread.join().unwrap();
        while consumer.pop_many(2, |item| {
            assert_eq!(item, next);
            next += 1;
        }) > 0
        {}
        assert_eq!(next, pushed);
    });
}

#[test]
fn batches_arrive_in_order_and_are_counted_after_they_can_be_dequeued() {
    batches_arrive_whole(ring);
    batches_arrive_whole(|bound| void_list(bound, 0));
}

/// Either end may end first. A consumer that sees the end of the producer sees all its items, and each item is freed once.
fn ends_free_all_items<P, C>(make: fn(usize) -> (P, C), consumer_stays: bool)
where
    P: Producer<Arc<()>> + Send + 'static,
    C: Consumer<Arc<()>> + 'static,
{
    loom::model(move || {
        let (mut producer, mut consumer) = make(2);
        let item = Arc::new(());
        let theirs = item.clone();
        let thread = thread::spawn(move || {
            let mut pushed = 0;
            for _ in 0..2 {
                pushed += usize::from(producer.push(theirs.clone()).is_ok());
            }
            pushed
        });
        let mut popped = usize::from(consumer.pop().is_some());
        if consumer_stays && consumer.is_abandoned() {
            while consumer.pop().is_some() {
                popped += 1;
            }
            assert_eq!(popped, 2);
        }
        drop(consumer);
        assert_eq!(thread.join().unwrap(), 2);
        assert_eq!(Arc::strong_count(&item), 1, "freed once each");
    });
}

#[test]
fn ended_queue_shows_its_last_items_and_frees_them() {
    for consumer_stays in [true, false] {
        ends_free_all_items(ring, consumer_stays);
        ends_free_all_items(|bound| void_list(bound, 0), consumer_stays);
    }
}

/// The items that a consumer leaves behind when it ends are counted exactly: the ledger drops so many packets.
fn stranded_items_are_counted<P, C>(make: fn(usize) -> (P, C))
where
    P: Producer<usize> + Send + 'static,
    C: Consumer<usize> + Send + 'static,
{
    loom::model(move || {
        let (mut producer, mut consumer) = make(2);
        let thread = thread::spawn(move || usize::from(consumer.pop().is_some()));
        let pushed = usize::from(producer.push(0).is_ok()) + usize::from(producer.push(1).is_ok());
        let seen = producer.is_abandoned().then(|| producer.queued());
        let popped = thread.join().unwrap();
        assert_eq!(producer.queued(), pushed - popped);
        assert!(seen.is_none_or(|seen| seen == pushed - popped), "exact as soon as the end is seen");
    });
}

#[test]
fn items_stranded_by_an_ended_consumer_are_counted_exactly() {
    stranded_items_are_counted(ring);
    stranded_items_are_counted(|bound| void_list(bound, 0));
}
