//! The time of a store: ticks of 10 µs in 32 bits, compared modulo 2^32.
//!
//! An entry has four bytes for its expiry. Ticks of 10 µs wrap after 12 hours, and comparisons are right within half of that. Lifetimes are at most
//! half an hour. [`MAX_PAUSE`] covers owners and cleaners that pause for longer.

use units::{Instant, Nanos};

/// Nanoseconds per tick.
const TICK: u64 = 10_000;
/// The longest lifetime.
pub const LONGEST: Nanos = Nanos::secs(1800);
/// After a longer pause ticks may not be compared across it: everything from before has expired.
pub(super) const MAX_PAUSE: Nanos = Nanos::secs(3600);
/// How often an owner checks for such a pause.
pub(super) const PAUSE_CHECK_INTERVAL: Nanos = Nanos::secs(900);

/// Special expiries: of a free slot, and of an unlinked entry.
pub(super) const FREE: u32 = 0;
pub(super) const UNLINKED: u32 = 1;

/// A point in time, modulo 2^32 ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tick(pub u32);

impl Tick {
    /// The tick that contains a point in time. Time zero is the first tick that is no special expiry.
    #[inline]
    pub fn of(now: Instant) -> Tick {
        Tick(((now.get() / TICK) as u32).wrapping_add(UNLINKED + 1))
    }

    /// True if an entry with this expiry is live. False for free and unlinked slots.
    #[inline(always)]
    pub fn is_before(self, expiry: u32) -> bool {
        // A bitwise and: look-ups of random slots would mispredict a branch.
        (expiry.wrapping_sub(self.0) as i32 > 0) & (expiry > UNLINKED)
    }

    /// The expiry of an entry created now: never after its lifetime, and at most one tick before (three if the number is a special expiry).
    #[inline(always)]
    pub fn expiry(self, lifetime: Lifetime) -> u32 {
        let expiry = self.0.wrapping_add(lifetime.0);
        if expiry <= UNLINKED { u32::MAX } else { expiry }
    }

    /// A test for live entries by one comparison. `None` for one lifetime every twelve hours, while a special expiry is within the range of live
    /// ones.
    #[inline]
    pub fn live_range(self, lifetime: Lifetime) -> Option<LiveRange> {
        let next = self.0.wrapping_add(1);
        // Live expiries are at most one lifetime ahead. Neither special expiry may be in that range.
        let special = FREE.wrapping_sub(next) <= lifetime.0 || UNLINKED.wrapping_sub(next) <= lifetime.0;
        (!special).then_some(LiveRange { next, lifetime: lifetime.0 })
    }

    /// The time since `expiry`.
    pub fn since(self, expiry: u32) -> Nanos {
        Nanos::new(u64::from(self.0.wrapping_sub(expiry)) * TICK)
    }

    /// The time left until `expiry`.
    pub fn until(self, expiry: u32) -> Nanos {
        Nanos::new(u64::from(expiry.wrapping_sub(self.0)) * TICK)
    }
}

/// The range of live expiries.
#[derive(Clone, Copy)]
pub(super) struct LiveRange {
    next: u32,
    lifetime: u32,
}

impl LiveRange {
    /// True if the expiry is live.
    #[inline(always)]
    pub fn contains(self, expiry: u32) -> bool {
        // An expiry before `next` wraps to a large number, so one comparison checks both ends.
        expiry.wrapping_sub(self.next) < self.lifetime
    }
}

/// A lifetime in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lifetime(pub u32);

impl Lifetime {
    /// Rounds down to whole ticks, at least one.
    ///
    /// # Panics
    /// Above [`LONGEST`]: the configuration was not checked.
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
        /// Includes wrapped ticks and special expiries.
        #[test]
        fn one_comparison_decides_whether_an_entry_is_live(
            from in prop_oneof![any::<u32>(), 0u32..8, (u32::MAX - 8)..],
            lifetime in prop_oneof![1u32..4, 1u32..180_000_000],
            ago in any::<u32>(),
        ) {
            let (now, lifetime) = (Tick(from), Lifetime(lifetime));
            let created = Tick(from.wrapping_sub(ago % (2 * lifetime.0)));
            let alive = now.live_range(lifetime);
            for expiry in [FREE, UNLINKED, created.expiry(lifetime)] {
                let told = alive.is_none_or(|alive| alive.contains(expiry) == now.is_before(expiry));
                prop_assert!(told, "{expiry} at {from}");
            }
            prop_assert!(alive.is_some() || from.wrapping_add(lifetime.0 + 1) <= lifetime.0 + 1, "seldom: not at {from}");
        }
    }

    #[test]
    fn time_zero_allows_the_one_comparison_test() {
        assert!(Tick::of(Instant::START).live_range(Lifetime::of(LONGEST)).is_some());
    }
}
