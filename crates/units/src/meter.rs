//! An exact meter of bytes. Credit is kept in bits times nanoseconds, so nothing is rounded and nothing drifts.

use crate::{Bytes, Instant, Nanos, Rate};

/// The credit of a byte, in bits times nanoseconds: eight bits over a second.
const BYTE: i64 = 8_000_000_000;

/// A token bucket for packets whose length is known only after they are sent. A packet may be sent while the credit is not negative. Its bytes are
/// then subtracted, and the credit may become negative.
///
/// In any span of time at most rate times span, plus the burst, plus one packet is sent. [`Meter::catch_up`] makes an exception of at most 1 ms.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    rate: u64,
    /// The largest credit, in bits times nanoseconds.
    depth: i64,
    /// The current credit; negative after a packet that was longer than the credit.
    credit: i64,
    /// When the credit was last updated.
    at: Instant,
}

/// How late packets that waited for a meter may leave without a loss of rate.
pub(crate) const MOST_LATE: Nanos = Nanos::millis(1);

/// The credit of so many bytes.
#[inline(always)]
fn credit_of(size: Bytes) -> i64 {
    i64::try_from(size.get()).unwrap_or(i64::MAX).saturating_mul(BYTE)
}

impl Meter {
    /// The largest burst. The credit of more bytes would not fit into 64 bits.
    pub const MOST_BURST: Bytes = Bytes::new(1 << 30);

    /// A meter of `rate` with a burst of `burst` bytes, at most [`Meter::MOST_BURST`]. It is full at the start.
    pub fn new(rate: Rate, burst: Bytes) -> Meter {
        let depth = credit_of(burst.min(Meter::MOST_BURST));
        Meter { rate: rate.get(), depth, credit: depth, at: Instant::START }
    }

    /// Its rate.
    pub fn rate(&self) -> Rate {
        Rate::bits(self.rate)
    }

    /// Adopts rate and burst of `other` from `now` on. Negative credit stays; credit beyond the new burst is lost.
    pub fn reconfigure(&mut self, other: &Meter, now: Instant) {
        self.refill(now);
        (self.rate, self.depth) = (other.rate, other.depth);
        self.credit = self.credit.min(self.depth);
    }

    #[inline]
    fn refill(&mut self, now: Instant) {
        self.refill_up_to(self.depth, now);
    }

    #[inline(always)]
    fn refill_up_to(&mut self, depth: i64, now: Instant) {
        if now > self.at {
            // More than the largest number is more than any burst.
            let earned = now.since(self.at).get().checked_mul(self.rate).and_then(|earned| i64::try_from(earned).ok());
            self.credit = self.credit.saturating_add(earned.unwrap_or(i64::MAX));
            // The cap applies only if a whole nanosecond is in excess. Otherwise the fraction of the nanosecond in which the bucket filled up would
            // be lost.
            if self.credit >= depth.saturating_add_unsigned(self.rate) {
                self.credit = depth;
            }
            self.at = now;
        }
    }

    /// Updates the credit for packets that have waited for it since [`Meter::ready`] and leave only now. They may send at the
    /// rate of the time since then, up to 1 ms, even if that is more than the burst. So a busy worker and a late timer cost no rate, as in CAKE's shaper
    /// (Høiland-Jørgensen, Täht and Morton, IEEE LANMAN 2018). Credit beyond the burst is lost with the next update.
    #[inline]
    pub fn catch_up(&mut self, now: Instant) {
        let late = i64::try_from(MOST_LATE.get().saturating_mul(self.rate)).unwrap_or(i64::MAX);
        self.refill_up_to(self.depth.max(late), now);
    }

    /// True if a packet may be sent.
    #[inline]
    pub fn allows(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.credit >= 0
    }

    /// The same for a meter whose packets are charged with [`Meter::charge_at`]. It costs a comparison while there is credit, which time only increases.
    #[inline(always)]
    pub fn has_credit(&mut self, now: Instant) -> bool {
        self.credit >= 0 || self.allows(now)
    }

    /// Subtracts packets of `size` bytes that are being sent at this time.
    #[inline]
    pub fn charge_at(&mut self, size: Bytes, now: Instant) {
        self.refill(now);
        self.charge(size);
    }

    /// Bytes that may be sent now without making the credit negative.
    #[inline]
    pub fn available(&mut self, now: Instant) -> Bytes {
        self.refill(now);
        Bytes::new((self.credit.max(0) / BYTE) as u64)
    }

    /// Subtracts a packet of `size` bytes that is being sent.
    #[inline]
    pub fn charge(&mut self, size: Bytes) {
        self.credit = self.credit.saturating_sub(credit_of(size));
    }

    /// When the next packet may be sent, if none is sent before. The time is in the past if one may be sent now, and never at rate zero.
    pub fn ready(&self) -> Instant {
        let owed = self.credit.min(0).unsigned_abs();
        // Rounded up: at this time the credit is not negative any more.
        let wait = if self.rate == 0 && owed > 0 { u64::MAX } else { owed.div_ceil(self.rate.max(1)) };
        self.at + Nanos::new(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    #[test]
    fn meter_spaces_packets_exactly_by_rate() {
        // 1000 bytes at 3 bit/s take 2666.66... s: three of them exactly 8000 s.
        let mut meter = Meter::new(Rate::bits(3), Bytes::new(0));
        let mut gone = [Instant::START; 7];
        for at in &mut gone {
            *at = meter.ready().max(*at);
            assert!(meter.allows(*at));
            meter.charge(Bytes::new(1000));
            assert!(!meter.allows(*at));
        }
        let seconds = |n: u64| Instant::START + Nanos::secs(n);
        assert_eq!((gone[3], gone[6]), (seconds(8000), seconds(16000)));
    }

    #[test]
    fn idle_time_earns_at_most_the_burst() {
        let mut meter = Meter::new(Rate::mbit(8), Bytes::new(3000));
        let late = Instant::START + Nanos::secs(3600);
        let sent = (0..10)
            .filter(|_| {
                meter.allows(late) && {
                    meter.charge(Bytes::new(1000));
                    true
                }
            })
            .count();
        assert_eq!(sent, 4, "three, and one on credit");
        assert_eq!(meter.ready(), late + Nanos::millis(1));
        meter.reconfigure(&Meter::new(Rate::ZERO, Bytes::new(3000)), late);
        assert_eq!(meter.ready(), Instant::NEVER);
    }

    #[test]
    fn packets_that_waited_lose_no_rate_to_late_service() {
        // A packet of 1000 bytes takes 1 us. The meter is served every 100 us, which is much more than its burst.
        let mut meter = Meter::new(Rate::gbit(8), Bytes::new(3000));
        let serve = |meter: &mut Meter, now: Instant| {
            meter.catch_up(now);
            std::iter::repeat_with(|| meter.allows(now).then(|| meter.charge(Bytes::new(1000))))
                .map_while(|sent| sent)
                .count()
        };
        let begin = Instant::START + Nanos::secs(1);
        let sent: usize = (0..100).map(|turn| serve(&mut meter, begin + Nanos::micros(100) * turn)).sum();
        // The first turn follows an idle time, for which `catch_up` is not meant.
        assert_eq!(sent, 1001 + 99 * 100);
        // Credit beyond the burst does not stay, and no more than 1 ms is caught up on.
        let late = begin + Nanos::secs(2);
        meter.catch_up(late);
        assert_eq!(meter.available(late), Bytes::new(1_000_000));
        assert_eq!(meter.available(late + Nanos::micros(1)), Bytes::new(3000));
    }

    proptest! {
        /// Looks at every span between two packets.
        #[test]
        fn no_interval_exceeds_rate_plus_burst_plus_one_packet(
            rate in 1u64..100_000_000_000,
            burst in 0u64..10_000,
            steps in prop::collection::vec((0u64..2_000_000, 64u64..1514), 1..120),
        ) {
            let mut meter = Meter::new(Rate::bits(rate), Bytes::new(burst));
            let (mut now, mut sent) = (Instant::new(1), Vec::new());
            for (wait, length) in steps {
                now += Nanos::new(wait);
                let ready = meter.ready();
                prop_assert_eq!(meter.allows(now), now >= ready);
                if meter.allows(now) {
                    meter.charge(Bytes::new(length));
                    sent.push((now, length));
                }
            }
            for (first, &(from, _)) in sent.iter().enumerate() {
                let mut bytes = 0;
                for &(to, length) in &sent[first..] {
                    let most = u128::from(rate) * u128::from(to.since(from).get() + 1) + u128::from(burst) * 8_000_000_000;
                    prop_assert!(bytes * 8_000_000_000 <= most, "{} before the last", bytes);
                    bytes += u128::from(length);
                }
            }
        }
    }
}
