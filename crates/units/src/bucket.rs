//! An exact token bucket: credit is kept as time, so nothing is rounded and nothing drifts.

use crate::{Instant, Nanos};

/// Admits events at a steady rate with a bounded burst.
///
/// Every event costs `interval`; up to `burst` events of unused time are kept. Used for ICMP error limits (RFC 1812
/// 4.3.2.8, RFC 4443 2.4(f)) and for pacing replay.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    interval: Nanos,
    depth: Nanos,
    /// Events are paid for up to this time.
    paid: Instant,
}

impl Bucket {
    /// `rate` events per second (at least one), at most `burst` (at least one) at once; full at the start.
    pub fn per_second(rate: u64, burst: u64) -> Self {
        Self::every(Nanos::new(1_000_000_000 / rate.max(1)), burst)
    }

    /// One event each `interval`, at most `burst` (at least one) at once; full at the start.
    pub fn every(interval: Nanos, burst: u64) -> Self {
        Bucket { interval, depth: interval * burst.max(1), paid: Instant::START }
    }

    /// Uses credit for one event, if there is enough.
    pub fn take(&mut self, now: Instant) -> bool {
        let start = self.paid.max(now - self.depth);
        let after = start + self.interval;
        // At the start of the clock `now - depth` saturates at zero. Without this bound the first `burst` events would have no credit.
        if after > now.max(Instant::START + self.depth) {
            return false;
        }
        self.paid = after;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    #[test]
    fn bucket_admits_burst_then_rate() {
        let mut bucket = Bucket::per_second(10, 3);
        let at = |ms: u64| Instant::START + Nanos::secs(100) + Nanos::millis(ms);
        let passed: Vec<u64> = (0..1000).filter(|&ms| bucket.take(at(ms))).collect();
        assert_eq!(passed, [0, 1, 2, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    }

    #[test]
    fn idle_time_earns_at_most_the_burst() {
        let mut bucket = Bucket::per_second(1000, 2);
        let late = Instant::START + Nanos::secs(3600);
        assert_eq!((0..10).filter(|_| bucket.take(late)).count(), 2);
    }
}
