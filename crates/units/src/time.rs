//! Points in time and spans of it, in whole nanoseconds of one monotonic clock.

use core::ops::{Add, AddAssign, Mul, Sub};

/// A span of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// The longest span: 584 years.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `n` nanoseconds.
    pub const fn new(n: u64) -> Self {
        Nanos(n)
    }
    /// `n` microseconds, saturating.
    pub const fn micros(n: u64) -> Self {
        Nanos(n.saturating_mul(1_000))
    }
    /// `n` milliseconds, saturating.
    pub const fn millis(n: u64) -> Self {
        Nanos(n.saturating_mul(1_000_000))
    }
    /// `n` seconds, saturating.
    pub const fn secs(n: u64) -> Self {
        Nanos(n.saturating_mul(1_000_000_000))
    }
    /// The span in nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The span in seconds, for printing and ratios only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The difference, or zero where `other` is longer.
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, factor: u64) -> Nanos {
        Nanos(self.0.saturating_mul(factor))
    }
}

impl From<core::time::Duration> for Nanos {
    fn from(d: core::time::Duration) -> Self {
        Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for core::time::Duration {
    fn from(n: Nanos) -> Self {
        core::time::Duration::from_nanos(n.0)
    }
}

/// A point in time: nanoseconds since the start of the clock that the caller passes in (CLOCK_MONOTONIC in the daemon,
/// the virtual clock in a simulation).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of the clock.
    pub const START: Instant = Instant(0);
    /// Never.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// `n` nanoseconds after the start of the clock.
    pub const fn new(n: u64) -> Self {
        Instant(n)
    }
    /// Nanoseconds since the start of the clock.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Time passed since `earlier`; zero if `earlier` is in the future.
    pub const fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    fn add(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Nanos> for Instant {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub<Nanos> for Instant {
    type Output = Instant;
    fn sub(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }
}
