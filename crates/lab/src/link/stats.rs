//! The counters of packets at one link.

use super::log::{LogEvent, LogLine, LogSender};
use link::LinkObserver;
use packet::DropReason;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use units::{Instant, Nanos};

/// The interval of a series.
pub const WIDTH: Nanos = Nanos::millis(100);
/// Limit of points in a series: a day.
const MOST_POINTS: usize = 864_000;
/// Number of bits that divide each power of two: 1024 bins.
const PARTS: u32 = 10;

/// A histogram of times with a relative error of 1/1024.
#[derive(Clone, Debug, Default)]
pub struct DelayHistogram {
    bins: Vec<u64>,
    pub count: u64,
    pub most: u64,
}

impl DelayHistogram {
    fn add(&mut self, time: Nanos) {
        let value = time.get();
        let place = match value >> PARTS {
            0 => value as usize,
            _ => {
                let shift = 63 - value.leading_zeros() - PARTS;
                (((shift + 1) << PARTS) + ((value >> shift) & ((1 << PARTS) - 1)) as u32) as usize
            }
        };
        if place >= self.bins.len() {
            self.bins.resize(place + 1, 0);
        }
        self.bins[place] += 1;
        self.count += 1;
        self.most = self.most.max(value);
    }

    /// The cumulative distribution: times in milliseconds, and the fraction of all that does not exceed each.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let parts = (0..=999).map(|part| (self.per_mille(part).get() as f64 / 1e6, part as f64 / 1e3));
        let mut points: Vec<(f64, f64)> = parts.filter(|_| self.count > 0).collect();
        points.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = later.1;
            }
            same
        });
        points
    }

    /// The value that `part` of a thousand do not exceed.
    pub fn per_mille(&self, part: u64) -> Nanos {
        let wanted = (self.count * part).div_ceil(1000).max(1);
        let mut sum = 0;
        for (place, count) in self.bins.iter().enumerate() {
            sum += count;
            if sum >= wanted {
                let place = place as u64;
                let value = match place >> PARTS {
                    0 => place,
                    // The upper bound of the bin.
                    step => (((1 << PARTS) + (place & ((1 << PARTS) - 1)) + 1) << (step - 1)) - 1,
                };
                return Nanos::new(value.min(self.most));
            }
        }
        Nanos::new(self.most)
    }
}

/// One point of a series.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    pub bytes: u64,
    pub packets: u64,
    pub delay: u64,
}

/// The counters of one link: packets, and their bytes as the link counts them.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    pub offered: (u64, u64),
    pub sent: (u64, u64),
    pub delivered: u64,
    /// Bytes of the first packet that left.
    pub first_bytes: u64,
    /// The departures of the first and the last packet.
    pub span: Option<(Instant, Instant)>,
    /// Time from a packet's arrival until its last bit has left, and until it was at the far end.
    pub queue: DelayHistogram,
    pub whole: DelayHistogram,
    /// Departures later than described, by how much.
    pub late: DelayHistogram,
    /// How often and how long the link was idle although packets were queued.
    pub idle_backlogged: (u64, u64),
    pub drops: BTreeMap<&'static str, (u64, u64)>,
    pub series: Vec<Point>,
    /// When the link began.
    pub began: Option<Instant>,
}

impl LinkStats {
    /// Bits a second between the first departure and the last. The first packet's bytes do not count, because their transmission was before that
    /// interval.
    pub fn throughput(&self) -> f64 {
        let span = self.span.map_or(Nanos::ZERO, |(first, last)| last.since(first));
        if span == Nanos::ZERO { 0.0 } else { (self.sent.1 - self.first_bytes) as f64 * 8.0 / span.as_secs_f64() }
    }
}

/// Counts packets and writes a log.
pub struct LinkRecorder {
    start: Instant,
    /// Additional bytes of a frame on the link.
    overhead: i32,
    tally: Arc<Mutex<LinkStats>>,
    lines: Option<LogSender>,
}

impl LinkRecorder {
    /// For a link with this overhead per frame.
    pub fn new(overhead: i32, lines: Option<LogSender>) -> LinkRecorder {
        LinkRecorder { start: Instant::START, overhead, tally: Arc::default(), lines }
    }

    fn size(&self, bytes: u32) -> u32 {
        bytes.saturating_add_signed(self.overhead)
    }

    /// Its counters.
    pub fn stats(&self) -> Arc<Mutex<LinkStats>> {
        self.tally.clone()
    }

    fn count(&self, count: impl FnOnce(&mut LinkStats)) {
        count(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn write(&self, line: LogLine) {
        if let Some(lines) = &self.lines {
            lines.write(line);
        }
    }
}

impl LinkObserver for LinkRecorder {
    fn link_started(&mut self, at: Instant) {
        self.start = at;
        self.count(|tally| tally.began = Some(at));
        self.write(LogLine::Began { at });
    }

    fn packet_received(&mut self, at: Instant, bytes: u32) {
        let size = self.size(bytes);
        self.count(|tally| tally.offered = (tally.offered.0 + 1, tally.offered.1 + u64::from(size)));
        self.write(LogLine::Packet { at, event: LogEvent::Arrived(size) });
    }

    fn packet_sent(&mut self, at: Instant, bytes: u32, since: Instant) {
        let (size, waited) = (self.size(bytes), at.since(since));
        let place = (at.since(self.start).get() / WIDTH.get()) as usize;
        self.count(|tally| {
            tally.sent = (tally.sent.0 + 1, tally.sent.1 + u64::from(size));
            if tally.span.is_none() {
                tally.first_bytes = u64::from(size);
            }
            tally.span = Some(tally.span.map_or((at, at), |(first, last)| (first, last.max(at))));
            tally.queue.add(waited);
            if place < MOST_POINTS {
                if place >= tally.series.len() {
                    tally.series.resize(place + 1, Point::default());
                }
                let point = &mut tally.series[place];
                *point = Point {
                    bytes: point.bytes + u64::from(size),
                    packets: point.packets + 1,
                    delay: point.delay + waited.get(),
                };
            }
        });
        self.write(LogLine::Packet { at, event: LogEvent::Sent(size, waited) });
    }

    fn packet_dropped(&mut self, at: Instant, bytes: u32, reason: DropReason) {
        let size = self.size(bytes);
        self.count(|tally| {
            let drops = tally.drops.entry(reason.name()).or_default();
            *drops = (drops.0 + 1, drops.1 + u64::from(size));
        });
        self.write(LogLine::Packet { at, event: LogEvent::Dropped(size) });
    }

    fn packet_delivered(&mut self, at: Instant, due: Instant, _bytes: u32, since: Instant) {
        self.count(|tally| {
            tally.delivered += 1;
            tally.whole.add(at.since(since));
            tally.late.add(at.since(due));
        });
    }

    fn capacity_missed(&mut self, time: Nanos) {
        self.count(|tally| tally.idle_backlogged = (tally.idle_backlogged.0 + 1, tally.idle_backlogged.1 + time.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_never_exceeds_link_rate_in_short_runs() {
        let mut witness = LinkRecorder::new(0, None);
        let tally = witness.stats();
        let measured = || tally.lock().unwrap().throughput();
        assert_eq!(measured(), 0.0);
        // At 10 Mbit/s, 1250 bytes take a millisecond.
        for (packets, expected) in [(1u64, 0.0), (2, 10e6), (3, 10e6)] {
            witness.packet_sent(Instant::new(packets * 1_000_000), 1250, Instant::START);
            assert_eq!(measured(), expected, "{packets} packets");
        }
    }

    #[test]
    fn percentile_error_is_at_most_1_in_1024_and_never_negative() {
        let mut times = DelayHistogram::default();
        (1..=100_000).for_each(|n| times.add(Nanos::new(n * 1000)));
        for (part, exact) in [(500, 50_000_000.0), (950, 95_000_000.0), (990, 99_000_000.0)] {
            let got = times.per_mille(part).get() as f64;
            assert!((1.0..1.001).contains(&(got / exact)), "{part}: {got}");
        }
        assert!(times.per_mille(1000).get() <= times.most);
        assert_eq!(DelayHistogram::default().per_mille(500), Nanos::ZERO);
    }
}
