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
/// How often an owner looks whether somebody was.
pub(super) const HEED: Nanos = Nanos::secs(900);

/// The expiry of a slot that is empty, and of one that nobody finds any more.
pub(super) const FREE: u32 = 0;
pub(super) const UNLINKED: u32 = 1;

/// A point in time, modulo 2^32 ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tick(pub u32);

impl Tick {
    /// The tick that contains a point in time. The first is none of those that mean something else.
    #[inline]
    pub fn of(now: Instant) -> Tick {
        Tick(((now.get() / TICK) as u32).wrapping_add(UNLINKED + 1))
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

    /// All that is alive now of what lives so long, told by one comparison; `None` for a lifetime once in twelve hours, when that
    /// would take an empty slot for one that is not.
    #[inline]
    pub fn alive(self, lifetime: Lifetime) -> Option<Alive> {
        let next = self.0.wrapping_add(1);
        // Expiries are at most a lifetime away; neither of those that mean something else may seem to be.
        let special = FREE.wrapping_sub(next) <= lifetime.0 || UNLINKED.wrapping_sub(next) <= lifetime.0;
        (!special).then_some(Alive { next, lifetime: lifetime.0 })
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

/// Which expiries are those of entries that live.
#[derive(Clone, Copy)]
pub(super) struct Alive {
    next: u32,
    lifetime: u32,
}

impl Alive {
    /// Whether this is one.
    #[inline(always)]
    pub fn has(self, expiry: u32) -> bool {
        expiry.wrapping_sub(self.next) < self.lifetime
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Also where ticks overflow, and at those that mean something else.
        #[test]
        fn one_comparison_tells_what_is_alive(
            from in prop_oneof![any::<u32>(), 0u32..8, (u32::MAX - 8)..],
            lifetime in prop_oneof![1u32..4, 1u32..180_000_000],
            ago in any::<u32>(),
        ) {
            let (now, lifetime) = (Tick(from), Lifetime(lifetime));
            let created = Tick(from.wrapping_sub(ago % (2 * lifetime.0)));
            let alive = now.alive(lifetime);
            for expiry in [FREE, UNLINKED, created.expiry(lifetime)] {
                let told = alive.is_none_or(|alive| alive.has(expiry) == now.is_before(expiry));
                prop_assert!(told, "{expiry} at {from}");
            }
            prop_assert!(alive.is_some() || from.wrapping_add(lifetime.0 + 1) <= lifetime.0 + 1, "seldom: not at {from}");
        }
    }

    #[test]
    fn a_clock_begins_where_one_comparison_tells() {
        assert!(Tick::of(Instant::START).alive(Lifetime::of(LONGEST)).is_some());
    }
}
