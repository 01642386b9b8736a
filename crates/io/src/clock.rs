//! The only code that reads time: the monotonic clock, and the cycle counter for a worker's meter.
//!
//! All other code gets its time as an argument.

use cpu::meter::{Work, WorkMeter};
use quanta::Clock as Counter;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;
use units::{Instant, Nanos};

fn nanoseconds(time: Timespec) -> u64 {
    (time.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// The current time of CLOCK_MONOTONIC. Costs some 20 ns (vDSO), so it is read once per batch and not per packet.
pub fn now() -> Instant {
    Instant::new(nanoseconds(clock_gettime(ClockId::Monotonic)))
}

/// The offset from [`now`] to nanoseconds since 1970-01-01 UTC. It changes when the system's clock is set: read it once for each capture.
pub fn epoch() -> Nanos {
    Nanos::new(nanoseconds(clock_gettime(ClockId::Realtime)).saturating_sub(now().get()))
}

/// The processor time of the calling thread.
pub fn processor_time() -> Nanos {
    Nanos::new(nanoseconds(clock_gettime(ClockId::ThreadCPUTime)))
}

/// The processor time of another thread: see [`processor_time`].
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of `thread`. It reads zero after the thread has ended.
    pub fn of<T>(thread: &JoinHandle<T>) -> io::Result<ThreadClock> {
        let mut clock = 0;
        // SAFETY: the handle exists and was not joined, so the thread id is valid; `clock` is valid for writes.
        match unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) } {
            0 => Ok(ThreadClock(clock)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Reads the clock, which is a system call.
    pub fn read(&self) -> Nanos {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writes.
        match unsafe { libc::clock_gettime(self.0, &raw mut time) } {
            0 => Nanos::new(nanoseconds(Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec })),
            _ => Nanos::ZERO,
        }
    }
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

    /// The counter in its own ticks; takes some 7 ns.
    #[inline]
    pub fn read(&self) -> u64 {
        self.counter.raw()
    }

    /// The time from `earlier` to `later`; zero if they are in reverse order, as reads on different cores can be.
    #[inline]
    pub fn between(&self, earlier: u64, later: u64) -> Nanos {
        Nanos::new(self.counter.delta_as_nanos(earlier, later))
    }

    /// Busy-waits for `time` by the counter. Time in which other threads preempt this one counts.
    #[inline]
    pub fn spin(&self, time: Nanos) {
        if time == Nanos::ZERO {
            return;
        }
        let began = self.read();
        while self.between(began, self.read()) < time {
            std::hint::spin_loop();
        }
    }
}

/// The meter of a worker in the daemon: the cost of work is its time by the cycle counter.
#[derive(Clone, Debug)]
pub struct CycleMeter {
    counter: CycleCounter,
    last: u64,
}

impl CycleMeter {
    /// Starts measuring now.
    pub fn new(counter: CycleCounter) -> Self {
        let last = counter.read();
        CycleMeter { counter, last }
    }
}

impl WorkMeter for CycleMeter {
    const MEASURES_PROCESSOR: bool = true;
    #[inline]
    fn lap(&mut self, work: Work) -> Nanos {
        // Before the counter is read, so that the requested time counts as cost.
        self.counter.spin(work.extra_time);
        let now = self.counter.read();
        let spent = self.counter.between(self.last, now);
        self.last = now;
        spent
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
    fn meter_laps_sum_to_elapsed_time() {
        let counter = CycleCounter::calibrated();
        let (began, mut meter) = (counter.read(), CycleMeter::new(counter.clone()));
        let work = Work::SWITCH;
        let laps = (0..1000).map(|_| meter.lap(work).get()).sum::<u64>();
        let passed = counter.between(began, counter.read()).get();
        assert!(laps > 0 && laps <= passed, "{laps} of {passed}: each lap rounds down");
    }

    #[test]
    fn requested_time_is_spent_on_the_processor() {
        let mut meter = CycleMeter::new(CycleCounter::calibrated());
        let mut asked = Work::SWITCH;
        for micros in [1, 50, 300] {
            asked.extra_time = Nanos::micros(micros);
            assert!(meter.lap(asked) >= asked.extra_time, "{micros} us");
        }
    }

    #[test]
    fn the_epoch_is_this_century() {
        assert!(epoch() > Nanos::secs(1_500_000_000));
    }
}
