//! Virtual time of a link: how far all that wait have come, and how far each, in bytes for a weight of one.
//!
//! Whole numbers, in units of 2^-16 byte, so that results repeat to the bit. A bin of weight w that sends L bytes moves on by
//! L/w; all together, with weights that add up to W, by L/W. Tags of bins that wait lie near the clock. When that reaches 2^62 all
//! are set back by 2^61: where only a weight of one has all of 100 Gbit/s, each three quarters of an hour.

use units::Bytes;

/// Units of 2^-16 byte since the last time that everything was set back.
pub(super) type Virtual = u64;

/// By how much everything is set back.
pub(super) const EPOCH: Virtual = 1 << 61;

const FRACTION: u32 = 16;
/// Bits of the clock behind those of a tag, that it moves evenly however many wait.
const FINER: u32 = 63 - FRACTION;

/// How far a bin moves on with each byte: the inverse of its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slope(u32);

impl Slope {
    /// That of a weight of at least one.
    pub fn of(weight: u32) -> Slope {
        Slope((1 << 31) / weight.max(1))
    }

    /// How far `length` bytes go, to the nearest unit and at least one.
    #[inline]
    pub fn span(self, length: u32) -> Virtual {
        ((u64::from(length) * u64::from(self.0) + (1 << (30 - FRACTION))) >> (31 - FRACTION)).max(1)
    }
}

/// The virtual time of all that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// With finer bits.
    now: u128,
    /// How far a byte goes.
    pace: u64,
    weights: u64,
}

impl Clock {
    /// What it shows.
    #[inline]
    pub fn now(&self) -> Virtual {
        (self.now >> FINER) as u64
    }

    /// So many bytes were sent.
    #[inline]
    pub fn advance(&mut self, length: u32) {
        self.now += u128::from(length) * u128::from(self.pace);
    }

    /// Not before `to`.
    #[inline]
    pub fn reach(&mut self, to: Virtual) {
        self.now = self.now.max(u128::from(to) << FINER);
    }

    /// Bytes that all together send until it shows `to`, rounded up.
    pub fn until(&self, to: Virtual) -> Bytes {
        let way = (u128::from(to) << FINER).saturating_sub(self.now);
        Bytes::new(u64::try_from(way.div_ceil(u128::from(self.pace.max(1)))).unwrap_or(u64::MAX))
    }

    /// One more weight counts.
    #[inline]
    pub fn add(&mut self, weight: u32) {
        self.weigh(self.weights + u64::from(weight));
    }

    /// It counts no more.
    #[inline]
    pub fn remove(&mut self, weight: u32) {
        self.weigh(self.weights - u64::from(weight));
    }

    #[inline]
    fn weigh(&mut self, weights: u64) {
        self.weights = weights;
        self.pace = (1u64 << 63).checked_div(weights).unwrap_or(0);
    }

    /// Whether it is time to set everything back by [`EPOCH`].
    #[inline]
    pub fn is_over(&self) -> bool {
        self.now >= (2 * u128::from(EPOCH)) << FINER
    }

    /// Sets itself back.
    pub fn set_back(&mut self) {
        self.now -= u128::from(EPOCH) << FINER;
    }

    /// Nothing waits, and nobody is to be ahead, whose tags are `latest` at most.
    pub fn rest(&mut self, latest: Virtual) {
        self.reach(latest);
        self.weigh(0);
    }
}
