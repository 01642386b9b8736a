//! The time of a store: ticks of 10 µs in 32 bits, compared across their overflow.
//!
//! An entry has four bytes for its expiry. Ticks of 10 µs overflow after 12 hours, and what is at most half of that away can
//! be told from what is past; lifetimes are half an hour at most, and [`GAP`] sees to what stands still for longer.

use units::{Instant, Nanos};

/// Nanoseconds of a tick.
const TICK: u64 = 10_000;
/// The longest lifetime.
pub const LONGEST: Nanos = Nanos::secs(1800);
/// Whoever was away for longer may not compare ticks across it: everything there was has expired.
pub(super) const GAP: Nanos = Nanos::secs(3600);

/// The expiry of a slot that is empty, and of one that nobody finds any more.
pub(super) const FREE: u32 = 0;
pub(super) const UNLINKED: u32 = 1;

/// A point in time, modulo 2^32 ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tick(pub u32);

impl Tick {
    /// The tick that contains a point in time.
    #[inline]
    pub fn of(now: Instant) -> Tick {
        Tick((now.get() / TICK) as u32)
    }

    /// Whether something that expires at `expiry` is there still. Neither an empty slot nor an unlinked one is.
    #[inline(always)]
    pub fn is_before(self, expiry: u32) -> bool {
        (expiry.wrapping_sub(self.0) as i32 > 0) & (expiry > UNLINKED)
    }

    /// When what is created now expires: no later than its lifetime says, and at most a tick earlier (two more where the
    /// number is one of those that mean something else).
    #[inline(always)]
    pub fn expiry(self, lifetime: Lifetime) -> u32 {
        let expiry = self.0.wrapping_add(lifetime.0);
        if expiry <= UNLINKED { u32::MAX } else { expiry }
    }

    /// How long ago `expiry` was.
    pub fn since(self, expiry: u32) -> Nanos {
        Nanos::new(u64::from(self.0.wrapping_sub(expiry)) * TICK)
    }

    /// How long what expires at `expiry` lives yet.
    pub fn until(self, expiry: u32) -> Nanos {
        Nanos::new(u64::from(expiry.wrapping_sub(self.0)) * TICK)
    }
}

/// How long entries live, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lifetime(pub u32);

impl Lifetime {
    /// As many whole ticks, at least one.
    ///
    /// # Panics
    /// Beyond [`LONGEST`]: the configuration was not checked.
    pub fn of(span: Nanos) -> Lifetime {
        assert!(span <= LONGEST, "a lifetime of {} s", span.as_secs_f64());
        Lifetime(((span.get() / TICK) as u32).max(1))
    }

    /// In nanoseconds.
    pub fn span(self) -> Nanos {
        Nanos::new(u64::from(self.0) * TICK)
    }
}
