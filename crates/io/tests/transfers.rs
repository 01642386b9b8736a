//! Numbered items cross each kind of queue between two pinned threads, in order and once. `SWITCHPATH_TRANSFERS` says how many: ten million by default,
//! a thousand million in `make soak`.

#![allow(clippy::print_stdout)]

use io::{clock, cores};
use packet::spsc::{Consumer, Producer, ring, void_list};
use std::thread;

/// The bound of both queues: that of the rings between workers.
const BOUND: usize = 1024;
/// Items at once, as workers hand over batches.
const BATCH: usize = 32;
/// Looks at a full or empty queue before the thread lets others run.
const SPINS: u32 = 64;

fn transfers() -> u64 {
    std::env::var("SWITCHPATH_TRANSFERS").map_or(10_000_000, |n| n.parse().expect("SWITCHPATH_TRANSFERS is a number"))
}

/// Counts vain looks. With fewer processors than threads the other one must run too.
struct Patience(u32);

impl Patience {
    fn found(&mut self, items: usize) {
        self.0 = if items > 0 { 0 } else { self.0 + 1 };
        if self.0 >= SPINS {
            self.0 = 0;
            thread::yield_now();
        } else if items == 0 {
            std::hint::spin_loop();
        }
    }
}

fn pin(place: usize) {
    let allowed = cores::allowed().unwrap_or_default();
    if let Some(&core) = allowed.get(place % allowed.len().max(1)) {
        // The test moves all items also if pinning is forbidden.
        let _ = cores::pin(core);
    }
}

fn cross(
    name: &str,
    batch: usize,
    (mut producer, mut consumer): (impl Producer<u64> + Send, impl Consumer<u64> + Send),
) {
    let (items, began) = (transfers(), clock::now());
    let received = thread::scope(|scope| {
        scope.spawn(move || {
            pin(0);
            let (mut next, mut patience) = (0, Patience(0));
            while next < items {
                let pushed = if batch == 1 {
                    usize::from(producer.push(next).is_ok())
                } else {
                    producer.push_many(batch.min((items - next) as usize), next..)
                };
                next += pushed as u64;
                patience.found(pushed);
            }
        });
        let consumer = scope.spawn(move || {
            pin(1);
            let (mut next, mut patience) = (0, Patience(0));
            loop {
                // Read before the queue: after the producer has ended, an empty queue stays empty.
                let last = consumer.is_abandoned();
                let mut receive = |item| {
                    assert_eq!(item, next, "in order and once");
                    next += 1;
                };
                let popped = match batch {
                    1 => consumer.pop().map_or(0, |item| {
                        receive(item);
                        1
                    }),
                    _ => consumer.pop_many(batch, receive),
                };
                if last && popped == 0 {
                    return next;
                }
                patience.found(popped);
            }
        });
        consumer.join().unwrap()
    });
    assert_eq!(received, items, "{name}: none is lost");
    let span = clock::now().since(began);
    println!("{name}, {batch} at once: {items} items in {span}, {:.2} ns each", span.get() as f64 / items as f64);
}

#[test]
fn ring_transfers_every_item_once_and_in_order() {
    cross("ring", BATCH, ring(BOUND));
    cross("ring", 1, ring(BOUND));
}

#[test]
fn void_element_list_transfers_every_item_once_and_in_order() {
    cross("void-element list", BATCH, void_list(BOUND, 0));
    cross("void-element list", 1, void_list(BOUND, 0));
}
