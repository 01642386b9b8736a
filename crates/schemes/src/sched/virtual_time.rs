//! Virtual time of a link: the progress of all waiting bins, and of each, in bytes for a weight of one.
//!
//! It is a whole number in units of 2^-16 byte, so that results are repeatable to the bit. A bin of weight w that sends L bytes advances by L/w, and
//! the clock of all, whose weights add up to W, by L/W. Tags of waiting bins are near the clock. When the clock reaches 2^62 all are set back by
//! 2^61. At 100 Gbit/s and a total weight of one, that is every three quarters of an hour.

use units::Bytes;

/// Units of 2^-16 byte since the last set-back.
pub(super) type Virtual = u64;

/// The distance of a set-back.
pub(super) const EPOCH: Virtual = 1 << 61;

const FRACTION: u32 = 16;
/// The extra bits of the clock, so that it advances evenly with any number of bins.
const FINER: u32 = 63 - FRACTION;

/// The advance of a bin per byte: the inverse of its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slope(u32);

impl Slope {
    /// The slope of a weight of at least one.
    pub fn of(weight: u32) -> Slope {
        Slope((1 << 31) / weight.max(1))
    }

    /// The advance for `length` bytes, to the nearest unit and at least one.
    #[inline]
    pub fn span(self, length: u32) -> Virtual {
        // Below 2^63: a length of 32 bits times at most 2^31. A tag that did not advance would let its bin send for ever.
        ((u64::from(length) * u64::from(self.0) + (1 << (30 - FRACTION))) >> (31 - FRACTION)).max(1)
    }
}

/// The virtual time of all waiting bins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// With the extra bits.
    now: u128,
    /// The advance per byte.
    pace: u64,
    weights: u64,
}

impl Clock {
    /// The present virtual time.
    #[inline]
    pub fn now(&self) -> Virtual {
        (self.now >> FINER) as u64
    }

    /// Advances by `length` bytes sent.
    #[inline]
    pub fn advance(&mut self, length: u32) {
        // A packet of 2^32 bytes at the pace of a single weight of one, 2^63, exceeds 64 bits.
        self.now += u128::from(length) * u128::from(self.pace);
    }

    /// Advances to at least `to`.
    #[inline]
    pub fn reach(&mut self, to: Virtual) {
        self.now = self.now.max(u128::from(to) << FINER);
    }

    /// The bytes that all together send until the clock shows `to`, rounded up.
    pub fn until(&self, to: Virtual) -> Bytes {
        let way = (u128::from(to) << FINER).saturating_sub(self.now);
        Bytes::new(u64::try_from(way.div_ceil(u128::from(self.pace.max(1)))).unwrap_or(u64::MAX))
    }

    /// Adds a weight to W.
    #[inline]
    pub fn add(&mut self, weight: u32) {
        self.weigh(self.weights + u64::from(weight));
    }

    /// Removes a weight from W.
    #[inline]
    pub fn remove(&mut self, weight: u32) {
        self.weigh(self.weights - u64::from(weight));
    }

    #[inline]
    fn weigh(&mut self, weights: u64) {
        self.weights = weights;
        // Without weights, that is without bins to advance for, the clock stops.
        self.pace = (1u64 << 63).checked_div(weights).unwrap_or(0);
    }

    /// True if everything must be set back by [`EPOCH`].
    #[inline]
    pub fn needs_set_back(&self) -> bool {
        self.now >= (2 * u128::from(EPOCH)) << FINER
    }

    /// Sets the clock back.
    pub fn set_back(&mut self) {
        self.now -= u128::from(EPOCH) << FINER;
    }

    /// No bin waits: advances past `latest`, the highest tag, so that no bin has a lead.
    pub fn rest(&mut self, latest: Virtual) {
        self.reach(latest);
        self.weigh(0);
    }
}
