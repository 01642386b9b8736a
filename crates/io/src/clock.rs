//! The two places that read time: the monotonic clock, and the cycle counter the meter of a worker reads.
//!
//! Everything else in the product is given its time as an argument.

use quanta::Clock as Counter;
use rustix::time::{ClockId, Timespec, clock_gettime};
use units::{Instant, Nanos};

fn nanoseconds(time: Timespec) -> u64 {
    (time.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Now, on CLOCK_MONOTONIC. Costs some 20 ns (vDSO), so once a batch and not once a packet.
pub fn now() -> Instant {
    Instant::new(nanoseconds(clock_gettime(ClockId::Monotonic)))
}

/// What to add to [`now`] to have nanoseconds since 1970-01-01 UTC. It moves when the system's clock is set: read it
/// once for each capture.
pub fn epoch() -> Nanos {
    Nanos::new(nanoseconds(clock_gettime(ClockId::Realtime)).saturating_sub(now().get()))
}

/// The processor's cycle counter, calibrated against the monotonic clock. Cloning it is cheap and keeps the calibration.
#[derive(Clone, Debug)]
pub struct CycleCounter {
    counter: Counter,
}

impl CycleCounter {
    /// Calibrates, which takes up to 200 ms the first time in a process.
    pub fn calibrated() -> Self {
        CycleCounter { counter: Counter::new() }
    }

    /// The counter as it stands, in its own ticks; some 7 ns.
    #[inline]
    pub fn read(&self) -> u64 {
        self.counter.raw()
    }

    /// How long the counter took from `earlier` to `later`; zero where they are the other way round, as they can be when
    /// read on different cores.
    #[inline]
    pub fn between(&self, earlier: u64, later: u64) -> Nanos {
        Nanos::new(self.counter.delta_as_nanos(earlier, later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let times: Vec<Instant> = (0..1000).map(|_| now()).collect();
        assert!(times.is_sorted());
        assert!(times[0] > Instant::START);
    }

    #[test]
    fn the_counter_agrees_with_the_clock() {
        let counter = CycleCounter::calibrated();
        let (start, ticks) = (now(), counter.read());
        while now().since(start) < Nanos::millis(5) {}
        let (clock, counted) = (now().since(start), counter.between(ticks, counter.read()));
        let ratio = counted.as_secs_f64() / clock.as_secs_f64();
        assert!((0.5..2.0).contains(&ratio), "{counted} by the counter, {clock} by the clock");
        assert_eq!(counter.between(2000, 1000), Nanos::ZERO);
    }

    #[test]
    fn the_epoch_is_this_century() {
        assert!(epoch() > Nanos::secs(1_500_000_000));
    }
}
