//! An exact token bucket: credit is kept as time, so nothing is rounded and nothing drifts.

use crate::{Instant, Nanos, PacketRate};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// A [`Bucket`] that several threads use, as the generic cell rate algorithm (ITU-T I.371): the time up to which events are paid for is one number.
#[derive(Debug, Default)]
pub struct SharedBucket(AtomicU64);

impl SharedBucket {
    /// Credit for the time since the start of the clock.
    pub const fn new() -> SharedBucket {
        SharedBucket(AtomicU64::new(0))
    }

    /// Uses credit for one event, if there is enough at this rate. The events of `burst` may happen at once, and always one.
    pub fn take(&self, rate: PacketRate, burst: Nanos, now: Instant) -> bool {
        if rate.get() == 0 {
            return false;
        }
        let interval = 1_000_000_000 / rate.get().min(1_000_000_000);
        let depth = burst.get().max(interval);
        let now = now.get();
        let step = |paid: u64| {
            let after = paid.max(now.saturating_sub(depth)) + interval;
            (after <= now.max(depth)).then_some(after)
        };
        self.0.try_update(Relaxed, Relaxed, step).is_ok()
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
    fn shared_bucket_admits_as_the_other_one() {
        let (mut bucket, shared) = (Bucket::per_second(10, 3), SharedBucket::new());
        for ms in 0..1000 {
            let now = Instant::START + Nanos::secs(100) + Nanos::millis(ms);
            assert_eq!(shared.take(PacketRate::pps(10), Nanos::millis(300), now), bucket.take(now), "{ms}");
        }
        assert!(!shared.take(PacketRate::ZERO, Nanos::millis(300), Instant::START + Nanos::secs(500)));
    }

    #[test]
    fn idle_time_earns_at_most_the_burst() {
        let mut bucket = Bucket::per_second(1000, 2);
        let late = Instant::START + Nanos::secs(3600);
        assert_eq!((0..10).filter(|_| bucket.take(late)).count(), 2);
    }
}
