//! The queues between threads, against the standard library's bounded channel: items between two pinned threads, in batches as packets cross, and one
//! at a time as requests do.

use super::{BenchFigure, Rounds, medians};
use ::io::clock::CycleCounter;
use ::io::cores;
use packet::spsc::{Consumer, Producer, ring, void_list};
use std::sync::mpsc::sync_channel;
use std::thread;

/// Items of one measurement.
const ITEMS: u64 = 1_000_000;
/// The bound of each queue: that of the rings between workers.
const BOUND: usize = 1024;
const BATCH: usize = 32;

/// Runs a producer and a consumer on two cores until both end. Returns the nanoseconds per item.
fn time(pair: [u16; 2], produce: impl FnOnce() + Send, consume: impl FnOnce() + Send) -> f64 {
    let counter = CycleCounter::calibrated();
    let pin = |core| cores::pin(core).expect("the core was among those allowed");
    let start = counter.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(pair[0]);
            produce();
        });
        scope.spawn(|| {
            pin(pair[1]);
            consume();
        });
    });
    counter.between(start, counter.read()).get() as f64 / ITEMS as f64
}

fn queue(
    pair: [u16; 2],
    batch: usize,
    (mut producer, mut consumer): (impl Producer<u64> + Send, impl Consumer<u64> + Send),
) -> f64 {
    let produce = move || {
        let mut next = 0;
        while next < ITEMS {
            next += match batch {
                1 => u64::from(producer.push(next).is_ok()),
                _ => producer.push_many(batch.min((ITEMS - next) as usize), next..) as u64,
            };
        }
    };
    let consume = move || {
        let mut received = 0;
        while received < ITEMS {
            received += match batch {
                1 => u64::from(consumer.pop().is_some()),
                _ => consumer.pop_many(batch, |_| ()) as u64,
            };
        }
    };
    time(pair, produce, consume)
}

fn channel(pair: [u16; 2]) -> f64 {
    let (sender, receiver) = sync_channel(BOUND);
    let produce = move || (0..ITEMS).for_each(|item| sender.send(item).expect("the receiver waits for all"));
    time(pair, produce, move || assert_eq!(receiver.iter().count() as u64, ITEMS))
}

/// Each queue against the channel, on two cores.
pub(super) fn measure(Rounds(rounds): Rounds, pair: [u16; 2]) -> Vec<BenchFigure> {
    type Subject = (&'static str, fn([u16; 2]) -> f64);
    let subjects: [Subject; 4] = [
        ("ring between two threads, 32 items at once, against std's channel", |pair| queue(pair, BATCH, ring(BOUND))),
        ("void-element list, 32 items at once, against std's channel", |pair| {
            queue(pair, BATCH, void_list(BOUND, BOUND))
        }),
        ("ring between two threads, an item at a time, against std's channel", |pair| queue(pair, 1, ring(BOUND))),
        ("void-element list, an item at a time, against std's channel", |pair| queue(pair, 1, void_list(BOUND, BOUND))),
    ];
    let figure = |(name, subject): Subject| {
        let times: Vec<(f64, f64)> = (0..rounds).map(|_| (subject(pair), channel(pair))).collect();
        BenchFigure::against("workers", name, medians(&times), "ns/item", None)
    };
    subjects.into_iter().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_without_locks_are_measured_against_the_channel() {
        let allowed = cores::allowed().unwrap_or_default();
        let Some(&[one, other]) = allowed.first_chunk() else { return };
        let figures = measure(Rounds(1), [one, other]);
        assert!(
            figures.len() == 4 && figures.iter().all(|figure| figure.value > 0.0 && figure.ratio.is_some()),
            "{figures:?}"
        );
    }
}
