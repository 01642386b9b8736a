//! The round-trip time and the retransmission timeout: RFC 6298, in whole nanoseconds, with a clock that ticks in steps. It uses timestamps, so
//! retransmissions are measured too (RFC 6298, 3 requires Karn's algorithm only without them).

use super::settings::{Settings, TimeoutFloor};
use units::Nanos;

/// The estimator of one sender.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    clock: u64,
    least: u64,
    longest: u64,
    floor: TimeoutFloor,
    /// Eight times the smoothed round-trip time, in nanoseconds; zero before the first sample.
    smoothed: i64,
    /// Four times its mean deviation.
    deviation: i64,
    /// For the Linux variant: the largest deviation of this round trip, and the one in effect.
    largest: i64,
    counted: i64,
    /// The timeout without backoff.
    timeout: u64,
    /// How often the timer has expired since the last sample.
    backoff: u32,
    latest: u64,
    shortest: u64,
}

impl Rtt {
    pub fn new(settings: &Settings) -> Rtt {
        Rtt {
            clock: settings.clock.get().max(1),
            least: settings.least_timeout.get(),
            longest: settings.longest_timeout.get(),
            floor: settings.floor,
            smoothed: 0,
            deviation: 0,
            largest: 0,
            counted: 0,
            timeout: settings.initial_timeout.get(),
            backoff: 0,
            latest: 0,
            shortest: u64::MAX,
        }
    }

    /// Adds a round-trip time. `round` is true if a whole round trip has passed since the last call with true.
    pub fn sample(&mut self, took: Nanos, round: bool) {
        self.latest = took.get();
        self.shortest = self.shortest.min(self.latest);
        // Rounded to the nearest step, at least one.
        let steps = ((took.get() + self.clock / 2) / self.clock).max(1);
        let took = (steps * self.clock) as i64;
        match self.floor {
            TimeoutFloor::Whole => self.sample_whole(took),
            TimeoutFloor::Variation => self.sample_variation(took, round),
        }
        self.backoff = 0;
    }

    /// RFC 6298, 2.2 and 2.3.
    fn sample_whole(&mut self, took: i64) {
        if self.smoothed == 0 {
            (self.smoothed, self.deviation) = (took * 8, took * 2);
        } else {
            let error = took - self.smoothed / 8;
            self.deviation += error.abs() - self.deviation / 4;
            self.smoothed += error;
        }
        let wait = (self.smoothed / 8) as u64 + (self.deviation as u64).max(self.clock);
        self.timeout = wait.clamp(self.least, self.longest);
    }

    /// Like Linux. The deviation term has the minimum timeout as its floor. It rises at once, and falls by a quarter per round trip. A falling
    /// round-trip time raises it less.
    fn sample_variation(&mut self, took: i64, round: bool) {
        let least = self.least as i64;
        if self.smoothed == 0 {
            (self.smoothed, self.deviation) = (took * 8, took * 2);
            self.counted = self.deviation.max(least);
            self.largest = self.counted;
        } else {
            let error = took - self.smoothed / 8;
            self.smoothed += error;
            let mut change = error.abs() - self.deviation / 4;
            if error < 0 && change > 0 {
                change /= 8;
            }
            self.deviation += change;
            if self.deviation > self.largest {
                self.largest = self.deviation;
                self.counted = self.counted.max(self.largest);
            }
            if round {
                if self.largest < self.counted {
                    self.counted -= (self.counted - self.largest) / 4;
                }
                // A new round trip: collect its maximum again, from the floor.
                self.largest = least;
            }
        }
        self.timeout = ((self.smoothed / 8 + self.counted) as u64).min(self.longest);
    }

    /// The timer has expired: double the timeout (RFC 6298, 5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(30);
    }

    /// True if the timer has expired since the last sample.
    pub fn backed_off(&self) -> bool {
        self.backoff > 0
    }

    /// The current timeout.
    pub fn timeout(&self) -> Nanos {
        Nanos::new((self.timeout << self.backoff).min(self.longest))
    }

    /// The smoothed round-trip time, if there is one.
    pub fn smoothed(&self) -> Option<Nanos> {
        (self.smoothed > 0).then(|| Nanos::new(self.smoothed as u64 / 8))
    }

    /// The last sample, unrounded.
    pub fn latest(&self) -> Option<Nanos> {
        (self.latest > 0).then(|| Nanos::new(self.latest))
    }

    /// The shortest sample so far.
    pub fn shortest(&self) -> Option<Nanos> {
        (self.shortest < u64::MAX).then(|| Nanos::new(self.shortest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(rtt: &Rtt) -> (f64, f64) {
        (rtt.smoothed().map_or(0.0, |s| s.get() as f64 / 1e6), rtt.timeout().get() as f64 / 1e6)
    }

    #[test]
    fn timeout_follows_rfc_6298() {
        let mut rtt = Rtt::new(&Settings::plain());
        assert_eq!(millis(&rtt), (0.0, 3000.0), "2.1, with the initial value of the simulations");
        rtt.sample(Nanos::millis(100), false);
        assert_eq!(millis(&rtt), (100.0, 300.0), "2.2: R + 4 R/2");
        rtt.sample(Nanos::millis(180), false);
        // RTTVAR = 3/4 50 + 1/4 80 = 57.5, SRTT = 7/8 100 + 1/8 180 = 110
        assert_eq!(millis(&rtt), (110.0, 340.0), "2.3");
        rtt.back_off();
        rtt.back_off();
        assert_eq!(millis(&rtt), (110.0, 1360.0), "5.5");
        (0..9).for_each(|_| rtt.back_off());
        assert_eq!(millis(&rtt), (110.0, 60_000.0), "2.5");
        rtt.sample(Nanos::millis(110), false);
        // RTTVAR = 3/4 57.5, SRTT stays; a sample ends the backoff
        assert_eq!(millis(&rtt), (110.0, 282.5));
        (0..100).for_each(|_| rtt.sample(Nanos::millis(110), false));
        assert_eq!(rtt.timeout(), Nanos::millis(200), "2.4, with a shorter least");
    }

    #[test]
    fn rtt_has_clock_granularity() {
        let mut rtt = Rtt::new(&Settings::plain());
        rtt.sample(Nanos::micros(150_049), false);
        assert_eq!(rtt.smoothed(), Some(Nanos::millis(150)));
        let mut fast = Rtt::new(&Settings::plain());
        fast.sample(Nanos::micros(3), false);
        assert_eq!(fast.smoothed(), Some(Nanos::micros(100)), "no round trip takes no time");
    }

    #[test]
    fn linux_adds_min_timeout_to_rtt() {
        let mut rtt = Rtt::new(&Settings::kernel());
        for n in 0..200 {
            rtt.sample(Nanos::millis(150), n % 10 == 9);
        }
        let close = |least| (Nanos::millis(least)..Nanos::millis(least + 1)).contains(&rtt.timeout());
        assert!(close(350), "{:?}", rtt.timeout());
        rtt.sample(Nanos::millis(350), false);
        // From a deviation of zero, four times a quarter of 200 ms makes 200 ms, no more than the minimum: 175 and 200.
        assert!((375..=376).contains(&(rtt.timeout().get() / 1_000_000)), "{:?}", rtt.timeout());
    }
}
