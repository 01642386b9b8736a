//! A sink: where packets end well.

use crate::check::Order;
use crate::frame::Tag;
use crate::times::Times;

/// What of one source has come to one sink.
pub(crate) struct Delivery {
    /// In the measured time, by when they came.
    pub packets: u64,
    pub bytes: u64,
    /// From their source to here, of those that were sent in the measured time.
    pub latency: Times,
    /// Packets by when they came, a series' interval each.
    pub buckets: Vec<u64>,
    order: Order,
}

/// A sink.
pub(crate) struct Sink {
    pub name: String,
    /// By source.
    pub deliveries: Vec<Option<Box<Delivery>>>,
    /// Packets of no source.
    pub others: u64,
    /// The interval of a series, in nanoseconds.
    width: u64,
    warmup: u64,
    end: u64,
}

impl Sink {
    /// For so many sources. A series has an interval; what comes is measured from a time to another.
    pub fn new(name: &str, (width, warmup, end): (u64, u64, u64), sources: usize) -> Sink {
        let deliveries = (0..sources).map(|_| None).collect();
        Sink { name: name.to_owned(), deliveries, others: 0, width, warmup, end }
    }

    /// A packet comes. Answers which it has been overtaken by, if it was.
    #[inline]
    pub fn take(&mut self, tag: Tag, at: u64, size: u64, measured: bool, flows: u64) -> Option<u64> {
        let delivery = self.deliveries[tag.source].get_or_insert_with(|| {
            let (latency, order) = (Times::new(), Order::new(flows));
            Box::new(Delivery { packets: 0, bytes: 0, latency, buckets: Vec::new(), order })
        });
        if at >= self.warmup && at < self.end {
            delivery.packets += 1;
            delivery.bytes += size;
        }
        if at < self.end {
            let bucket = (at / self.width) as usize;
            if bucket >= delivery.buckets.len() {
                delivery.buckets.resize(bucket + 1, 0);
            }
            delivery.buckets[bucket] += 1;
        }
        if measured {
            delivery.latency.record(at.saturating_sub(tag.born));
        }
        delivery.order.passes(tag.sequence)
    }
}
