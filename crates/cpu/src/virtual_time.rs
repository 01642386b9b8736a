//! Virtual time: how far the work of a task with a share has come, and how far that of all of them.
//!
//! Whole numbers, in units of 2^-9 ns, so that results repeat to the bit. A task with the share r that works for l moves on
//! by l/r; all tasks together, with shares that add up to R, by l/R.
//!
//! **Why it does not overflow.** A run counts for at most 2^32 ns and a share for at least 2^-20, so one step is at
//! most 2^32 * 2^20 * 2^9 = 2^61. The tags of tasks lie less than two steps ahead of the clock. Whenever the clock reaches
//! 2^62 everything is set back by 2^61 ([`Clock::over`], [`EPOCH`]): tags of tasks that wait are nearer to the clock
//! than that and keep their distances; those of idle tasks count only where they lie ahead of the clock, so that
//! nothing is lost where they end at zero. With shares that add up to one it takes 52 days until that happens; with a
//! single task of the share 2^-20, 4 seconds; the cost is one pass over the tasks.

use units::{Nanos, Share};

/// Units of 2^-9 ns since the last time that everything was set back.
pub type Virtual = u64;

/// By how much everything is set back.
pub const EPOCH: Virtual = 1 << 61;

const FRACTION: u32 = 9;
/// The least that a share counts for, 2^-20 in units of 2^-32.
const LEAST: u64 = 1 << 12;

/// A share as it counts, in units of 2^-32.
pub fn weight(share: Share) -> u64 {
    share.get().max(LEAST)
}

/// How far a task's virtual time moves with its work: the inverse 1/r of its share, in units of 2^-32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slope(u64);

impl Slope {
    /// That of a task with this share. The error is less than 2^-31 of it.
    pub fn of(share: Share) -> Slope {
        Slope(((1u128 << 64) / u128::from(weight(share))) as u64)
    }

    /// l/r, to the nearest unit; less than 2^61 + 1.
    #[inline]
    pub fn span(self, work: Nanos) -> Virtual {
        let work = work.get().min(u64::from(u32::MAX));
        let rounded = u128::from(work) * u128::from(self.0) + (1 << (31 - FRACTION));
        (rounded >> (32 - FRACTION)) as u64
    }
}

/// The virtual time of all tasks together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// With 64 more binary places, so that it moves evenly however many tasks there are.
    now: u128,
    /// Units a nanosecond, with as many more.
    pace: u128,
    /// The sum of the shares that count, in units of 2^-32.
    weights: u64,
}

impl Clock {
    /// What it shows.
    #[inline]
    pub fn now(&self) -> Virtual {
        (self.now >> 64) as u64
    }

    /// So much has been worked: V += l/R.
    #[inline]
    pub fn advance(&mut self, work: Nanos) {
        self.now += u128::from(work.get().min(u64::from(u32::MAX))) * self.pace;
    }

    /// Not before `to`.
    #[inline]
    pub fn reach(&mut self, to: Virtual) {
        self.now = self.now.max(u128::from(to) << 64);
    }

    /// One more share counts.
    pub fn add(&mut self, weight: u64) {
        self.weigh(self.weights + weight);
    }

    /// It counts no more.
    pub fn remove(&mut self, weight: u64) {
        self.weigh(self.weights - weight);
    }

    /// A share counts no more whose task has come to `tag`. What that was behind is nobody's now, and those who stay are
    /// as far behind all of them together as before: V += w (V - tag) / (R - w), R being the sum with w (Stoica et al.
    /// 1996, equation 18).
    pub fn leave(&mut self, weight: u64, tag: Virtual) {
        let others = self.weights - weight;
        let behind = u128::from(self.now().saturating_sub(tag)) * u128::from(weight);
        if let Some(forfeit) = behind.checked_div(u128::from(others)) {
            // Nobody who waits can be so far behind; but whatever a caller does, time is not to overflow.
            self.now += forfeit.min(u128::from(EPOCH)) << 64;
        }
        self.weigh(others);
    }

    fn weigh(&mut self, weights: u64) {
        self.weights = weights;
        self.pace = (1u128 << (32 + FRACTION + 64)).checked_div(u128::from(weights)).unwrap_or(0);
    }

    /// Whether it is time to set everything back by [`EPOCH`].
    #[inline]
    pub fn over(&self) -> bool {
        self.now() >= 2 * EPOCH
    }

    /// Sets itself back.
    pub fn set_back(&mut self) {
        self.now -= u128::from(EPOCH) << 64;
    }
}
