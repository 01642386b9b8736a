//! The rules of both queues, each tested on both through the one interface.

use super::{Consumer, ListProducer, Producer, ring, void_list};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::thread;

/// An item that counts the living ones.
#[derive(Debug)]
struct Counted(u64, Rc<Cell<i64>>);

impl Counted {
    fn new(number: u64, living: &Rc<Cell<i64>>) -> Counted {
        living.set(living.get() + 1);
        Counted(number, living.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}

/// Compares a queue with a naive one, step by step, and counts its items at the end.
fn behaves_like_a_deque(
    (mut producer, mut consumer): (impl Producer<Counted>, impl Consumer<Counted>),
    bound: usize,
    steps: &[(u8, usize)],
    consumer_ends_first: bool,
    living: &Rc<Cell<i64>>,
) {
    let (mut naive, mut next) = (VecDeque::new(), 0);
    for &(step, most) in steps {
        match step {
            0 | 1 => {
                let pushed = producer.push(Counted::new(next, living));
                assert_eq!(pushed.is_ok(), naive.len() < bound);
                match pushed {
                    Ok(()) => naive.push_back(next),
                    Err(refused) => assert_eq!(refused.0, next, "a refused item comes back"),
                }
                next += 1;
            }
            2 => {
                let mut items = (next..next + 8).map(|number| Counted::new(number, living));
                let pushed = producer.push_many(most, &mut items);
                assert_eq!(pushed, most.min(8).min(bound - naive.len()));
                naive.extend(next..next + pushed as u64);
                next += pushed as u64;
                assert_eq!(items.count(), 8 - pushed, "the other items stay");
            }
            3 | 4 => assert_eq!(consumer.pop().map(|item| item.0), naive.pop_front()),
            _ => {
                let mut popped = Vec::new();
                let count = consumer.pop_many(most, |item| popped.push(item.0));
                assert_eq!(count, popped.len());
                assert_eq!(popped, naive.drain(..most.min(naive.len())).collect::<Vec<_>>());
            }
        }
        assert_eq!(consumer.peek().map(|item| item.0), naive.front().copied());
        assert_eq!((producer.room(), producer.queued()), (bound - naive.len(), naive.len()));
        assert_eq!((consumer.queued(), consumer.is_empty()), (naive.len(), naive.is_empty()));
        assert_eq!(living.get(), naive.len() as i64, "a dequeued item is gone from the queue");
    }
    assert!(!producer.is_abandoned() && !consumer.is_abandoned());
    if consumer_ends_first {
        drop(consumer);
        assert!(producer.is_abandoned());
        assert_eq!(producer.queued(), naive.len(), "stranded items stay counted");
    } else {
        drop(producer);
        assert!(consumer.is_abandoned());
        assert_eq!(consumer.pop().map(|item| item.0), naive.pop_front());
    }
}

proptest! {
    #[test]
    fn any_sequence_of_calls_behaves_like_a_deque(
        bound in 1usize..12,
        ready in 0usize..4,
        steps in prop::collection::vec((0u8..6, 0usize..14), 0..200),
        consumer_ends_first in any::<bool>(),
    ) {
        let living = Rc::default();
        behaves_like_a_deque(ring(bound), bound, &steps, consumer_ends_first, &living);
        prop_assert_eq!(living.get(), 0, "a ring frees the items that remain");
        behaves_like_a_deque(void_list(bound, ready), bound, &steps, consumer_ends_first, &living);
        prop_assert_eq!(living.get(), 0, "a list frees the items that remain");
    }
}

#[test]
fn list_allocates_only_for_its_longest_backlog() {
    let (mut producer, mut consumer) = void_list(1000, 0);
    let mut round = |producer: &mut ListProducer<u32>, backlog: u32| {
        (0..backlog).for_each(|number| producer.push(number).unwrap());
        assert!((0..backlog).all(|number| consumer.pop() == Some(number)));
    };
    round(&mut producer, 10);
    let elements = producer.elements();
    // The backlog, the void element, and the element of the latest item, which is free only after the next one.
    assert!((11..=12).contains(&elements), "{elements}");
    (0..1000).for_each(|_| round(&mut producer, 10));
    assert!(producer.elements() <= 12, "steady state: {}", producer.elements());
    round(&mut producer, 100);
    assert!((101..=102).contains(&producer.elements()), "{}", producer.elements());
}

#[test]
fn list_with_ready_elements_allocates_none_within_them() {
    let (mut producer, mut consumer) = void_list(64, 8);
    for number in 0..1000u32 {
        producer.push_many(8, number..);
        assert_eq!(consumer.pop_many(8, |_| ()), 8);
    }
    assert!(producer.elements() <= 10, "{}", producer.elements());
}

/// The paper's rule: the last element stays, void, until the producer has linked a successor to it.
#[test]
fn void_head_is_not_reused_before_it_has_a_successor() {
    let (mut producer, mut consumer) = void_list(4, 0);
    producer.push(1).unwrap();
    assert_eq!(consumer.pop(), Some(1));
    // Elements: the first void one, which is free, and that of item 1, which is the void head.
    assert_eq!((producer.elements(), consumer.is_empty()), (2, true));
    producer.push(2).unwrap();
    assert_eq!(producer.elements(), 2, "reuses the free element");
    producer.push(3).unwrap();
    assert_eq!(producer.elements(), 3, "the head is void but not free");
    assert_eq!([consumer.pop(), consumer.pop(), consumer.pop()], [Some(2), Some(3), None]);
}

/// Items with memory of their own, between threads: a lost, doubled or half-written item would show.
fn crosses_threads((mut producer, mut consumer): (impl Producer<Box<u64>> + Send, impl Consumer<Box<u64>> + Send)) {
    const ITEMS: u64 = 100_000;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0;
            while next < ITEMS {
                // One at a time, then several at once.
                if next % 3 == 0 {
                    next += u64::from(producer.push(Box::new(next)).is_ok());
                } else {
                    next += producer.push_many(5.min((ITEMS - next) as usize), (next..).map(Box::new)) as u64;
                }
                if producer.room() == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < ITEMS {
            if next % 2 == 0 {
                let found = consumer.queued();
                let mut expected = next..;
                let popped = consumer.pop_many(7, |item| assert_eq!(Some(*item), expected.next()));
                assert!(popped >= found.min(7), "counted items can be dequeued: {popped} of {found}");
                next += popped as u64;
            } else if let Some(item) = consumer.pop() {
                assert_eq!(*item, next);
                next += 1;
            }
            if consumer.is_empty() {
                thread::yield_now();
            }
        }
        assert_eq!(consumer.pop(), None);
    });
}

#[test]
fn items_cross_threads_in_order_and_once() {
    for bound in [1, 2, 7, 1024] {
        crosses_threads(ring(bound));
        crosses_threads(void_list(bound, 0));
    }
}
