//! Virtual time: how far the work of a task with a share has progressed, and how far that of all tasks.
//!
//! It is a whole number in units of 2^-9 ns, so that results are repeatable to the bit. A run of l advances a task of share r by l/r, and the clock
//! of all tasks, whose shares add up to R, by l/R.
//!
//! **Why it does not overflow.** A run counts for at most 2^32 ns and a share for at least 2^-20, so one step is at most 2^32 * 2^20 * 2^9 = 2^61.
//! The tag of a task is less than two steps ahead of the clock. When the clock reaches 2^62, everything is set back by 2^61
//! ([`Clock::needs_set_back`], [`EPOCH`]). Tags of waiting tasks are nearer to the clock than that and keep their distances. Tags of idle tasks
//! matter only ahead of the clock, so that clamping them at zero loses nothing. With shares that add up to one, a set-back occurs every 52 days; with
//! a single task of share 2^-20, every 4 seconds. It costs one pass over the tasks.

use units::{Nanos, Share};

/// Units of 2^-9 ns since the last set-back.
pub type Virtual = u64;

/// The distance of a set-back.
pub const EPOCH: Virtual = 1 << 61;

const FRACTION: u32 = 9;
/// The least share that counts, 2^-20 in units of 2^-32.
const LEAST: u64 = 1 << 12;

/// A share in units of 2^-32, raised to the least one that counts.
pub fn weight(share: Share) -> u64 {
    share.get().max(LEAST)
}

/// The speed of a task's virtual time: the inverse 1/r of its share, in units of 2^-32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slope(u64);

impl Slope {
    /// The slope of a share. The relative error is less than 2^-31.
    pub fn of(share: Share) -> Slope {
        Slope(((1u128 << 64) / u128::from(weight(share))) as u64)
    }

    /// l/r, to the nearest unit; less than 2^61 + 1.
    #[inline]
    pub fn span(self, work: Nanos) -> Virtual {
        let work = work.get().min(u64::from(u32::MAX));
        // Half a unit is added, so that the shift rounds to the nearest. 2^32 ns times a slope of at most 2^52 needs 84 bits.
        let rounded = u128::from(work) * u128::from(self.0) + (1 << (31 - FRACTION));
        (rounded >> (32 - FRACTION)) as u64
    }
}

/// The virtual time of all tasks together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// With 64 more binary places, so that it advances evenly with any number of tasks.
    now: u128,
    /// Units per nanosecond, with the same 64 more places.
    pace: u128,
    /// The sum of the competing shares, in units of 2^-32.
    weights: u64,
}

impl Clock {
    /// The current virtual time.
    #[inline]
    pub fn now(&self) -> Virtual {
        (self.now >> 64) as u64
    }

    /// Advances by a run: V += l/R.
    #[inline]
    pub fn advance(&mut self, work: Nanos) {
        // A longer run counts as 2^32 ns: the bound at the top relies on it.
        self.now += u128::from(work.get().min(u64::from(u32::MAX))) * self.pace;
    }

    /// Advances to at least `to`.
    #[inline]
    pub fn reach(&mut self, to: Virtual) {
        self.now = self.now.max(u128::from(to) << 64);
    }

    /// Adds a share to R.
    pub fn add(&mut self, weight: u64) {
        self.weigh(self.weights + weight);
    }

    /// Removes a share from R.
    pub fn remove(&mut self, weight: u64) {
        self.weigh(self.weights - weight);
    }

    /// Removes the share of a task whose tag is `tag`. Its lag is divided among the other tasks, which keep their lag behind all of them together: V
    /// += w (V - tag) / (R - w), where R includes w (Stoica et al. 1996, equation 18).
    pub fn leave(&mut self, weight: u64, tag: Virtual) {
        let others = self.weights - weight;
        let behind = u128::from(self.now().saturating_sub(tag)) * u128::from(weight);
        if let Some(forfeit) = behind.checked_div(u128::from(others)) {
            // A waiting task never lags by an epoch. The bound protects the clock from an overflow by any caller.
            self.now += forfeit.min(u128::from(EPOCH)) << 64;
        }
        self.weigh(others);
    }

    fn weigh(&mut self, weights: u64) {
        self.weights = weights;
        // 1/R: one division for each change of the shares, none for a run.
        self.pace = (1u128 << (32 + FRACTION + 64)).checked_div(u128::from(weights)).unwrap_or(0);
    }

    /// True if everything must be set back by [`EPOCH`].
    #[inline]
    pub fn needs_set_back(&self) -> bool {
        self.now() >= 2 * EPOCH
    }

    /// Sets the clock back, to zero at least: tags may be far ahead of the clock of a scheduler that does not bound them.
    pub fn set_back(&mut self) {
        self.now = self.now.saturating_sub(u128::from(EPOCH) << 64);
    }
}
