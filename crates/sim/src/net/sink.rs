//! A sink: the destination of packets.

use crate::check::Order;
use crate::frame::Tag;
use crate::histogram::DurationHistogram;

/// The packets of one source at one sink.
pub(crate) struct Delivery {
    /// Packets that arrived in the measured time.
    pub packets: u64,
    pub bytes: u64,
    /// Latencies of packets that were sent in the measured time.
    pub latency: DurationHistogram,
    /// Packets by arrival time, one count per sampling interval.
    pub buckets: Vec<u64>,
    order: Order,
}

/// A sink.
pub(crate) struct Sink {
    pub name: String,
    /// Deliveries by source.
    pub deliveries: Vec<Option<Box<Delivery>>>,
    /// Packets that belong to no source.
    pub others: u64,
    /// The sampling interval, in nanoseconds.
    width: u64,
    warmup: u64,
    end: u64,
}

impl Sink {
    /// A sink for this many sources. `width` is the sampling interval; arrivals are measured from `warmup` to `end`.
    pub fn new(name: &str, (width, warmup, end): (u64, u64, u64), sources: usize) -> Sink {
        let deliveries = (0..sources).map(|_| None).collect();
        Sink { name: name.to_owned(), deliveries, others: 0, width, warmup, end }
    }

    /// Records a packet. If it was overtaken, returns the number of the packet that overtook it.
    #[inline]
    pub fn record_packet(&mut self, tag: Tag, at: u64, size: u64, measured: bool, flows: u64) -> Option<u64> {
        let delivery = self.deliveries[tag.source].get_or_insert_with(|| {
            let (latency, order) = (DurationHistogram::new(), Order::new(flows));
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
            delivery.latency.record(at.saturating_sub(tag.sent_at));
        }
        delivery.order.record_packet(tag.sequence)
    }
}
