//! The queue estimator: when an input task looks for packets next (Qie et al. 2001, section 3.3).
//!
//! How many packets wait in a device is not to be had without asking it, so it is predicted. Runs that find little make
//! the task sleep longer, runs that find much make it sleep less, until a run finds as many as are worth a run. What the
//! paper leaves open is said at each rule.

use plan::{EstimatorPlan, Ring, SleepLaw};
use units::{Instant, Nanos, Parts};

/// The least change of sleep that is a factor, so that it leaves zero.
const LEAST_CHANGE: Nanos = Nanos::micros(1);
/// Averages are kept in 2^-16 packets.
const FRACTION: u32 = 16;
/// A run is taken to have found no more than this many packets.
const MOST_FOUND: u32 = 1 << 20;

/// The estimator of one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimator {
    weight: Parts,
    low: u64,
    high: u64,
    sleep_min: Nanos,
    sleep_max: Nanos,
    law: SleepLaw,
    fast_attack: bool,
    stay: bool,
    settle: bool,
    /// Packets a run finds on average, in 2^-16.
    average: u64,
    sleep: Nanos,
    wake_at: Instant,
    /// The last run was ended by its limit, and what the next finds is the rest of it.
    unfinished: bool,
}

impl Estimator {
    /// An estimator that wakes at once.
    pub fn new(plan: &EstimatorPlan, ring: Ring) -> Estimator {
        let mut estimator = Estimator {
            weight: plan.weight,
            low: 0,
            high: 0,
            sleep_min: plan.sleep_min,
            sleep_max: Nanos::ZERO,
            law: plan.law,
            fast_attack: plan.fast_attack,
            stay: plan.stay,
            settle: plan.settle,
            average: 0,
            sleep: plan.sleep_min,
            wake_at: Instant::START,
            unfinished: false,
        };
        estimator.set(plan, ring);
        estimator
    }

    /// Goes on by other settings; what has been learnt is kept as far as it is within them.
    pub fn set(&mut self, plan: &EstimatorPlan, ring: Ring) {
        self.weight = plan.weight.min(Parts::ONE);
        self.low = u64::from(plan.low) << FRACTION;
        self.high = u64::from(plan.high.max(plan.low)) << FRACTION;
        self.sleep_min = plan.sleep_min;
        self.sleep_max = plan.sleep_max.unwrap_or_else(|| ring.longest_sleep()).max(plan.sleep_min);
        self.law = plan.law;
        self.fast_attack = plan.fast_attack;
        self.stay = plan.stay;
        self.settle = plan.settle;
        self.sleep = self.sleep.clamp(self.sleep_min, self.sleep_max);
    }

    /// A run is over: it found so many packets, and its limit of packets or time ended it or not. Answers when to run
    /// next.
    ///
    /// A run that its limit has ended says nothing of how many there were, only that they were more: there is no sleep
    /// before the next (`stay`), and that one, which finds the rest, is not held against the sleep before both.
    #[inline]
    pub fn ran(&mut self, found: u32, hit_limit: bool, now: Instant) -> Instant {
        let rest = core::mem::replace(&mut self.unfinished, hit_limit && self.stay);
        if self.fast_attack && hit_limit && !rest && self.sleep == self.sleep_max && self.sleep > self.sleep_min {
            // After a silence the average is far behind, and would put the task to sleep again in the middle of a burst.
            self.average = u64::from(found.min(MOST_FOUND)) << FRACTION;
            self.sleep = self.sleep_min;
        } else if hit_limit || !rest {
            self.learn(found);
        }
        self.wake_at = if self.unfinished { now } else { now + self.sleep };
        self.wake_at
    }

    fn learn(&mut self, found: u32) {
        let newest = u64::from(found.min(MOST_FOUND)) << FRACTION;
        let part = |packets: u64, weight: u32| packets * u64::from(weight);
        // At most 2^36 packets times 10^6: within 64 bits. Rounded, so that the average reaches what it is drawn to.
        let sum = part(self.average, Parts::ONE.get() - self.weight.get()) + part(newest, self.weight.get());
        self.average = (sum + 500_000) / 1_000_000;
        // The average is behind. A run that is back in the range already is not driven past it: with a small weight the
        // sleep would swing for ever. By the law of the paper the average alone decides.
        let (below, above) = (newest < self.low || !self.settle, newest > self.high || !self.settle);
        if self.average < self.low && below {
            self.sleep = self.longer().min(self.sleep_max);
        } else if self.average > self.high && above {
            self.sleep = self.shorter().max(self.sleep_min);
        }
    }

    fn longer(&self) -> Nanos {
        match self.law {
            SleepLaw::Multiply(factor) => {
                scaled(self.sleep, factor.get().into(), 1_000_000).max(self.sleep + LEAST_CHANGE)
            }
            SleepLaw::Add(step) => self.sleep + step,
        }
    }

    fn shorter(&self) -> Nanos {
        match self.law {
            SleepLaw::Multiply(factor) => scaled(self.sleep, 1_000_000, u64::from(factor.get()).max(1_000_000))
                .min(self.sleep.saturating_sub(LEAST_CHANGE)),
            SleepLaw::Add(step) => self.sleep.saturating_sub(step),
        }
    }

    /// When to run next.
    pub fn wake_at(&self) -> Instant {
        self.wake_at
    }

    /// How long the task sleeps at present.
    pub fn sleep(&self) -> Nanos {
        self.sleep
    }

    /// The longest sleep, as configured or as follows from ring and line.
    pub fn sleep_max(&self) -> Nanos {
        self.sleep_max
    }

    /// Thousandths of a packet that a run finds on average.
    pub fn average_milli(&self) -> u64 {
        (self.average * 1000 + (1 << (FRACTION - 1))) >> FRACTION
    }
}

/// `time * numerator / denominator`, saturating.
fn scaled(time: Nanos, numerator: u64, denominator: u64) -> Nanos {
    let ns = u128::from(time.get()) * u128::from(numerator) / u128::from(denominator);
    Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::PacketRate;

    const RING: Ring = Ring { slots: 64, batch: 16, line_rate: Some(PacketRate::kpps(140)) };

    fn plan() -> EstimatorPlan {
        EstimatorPlan::default()
    }

    fn after(runs: &[(u32, bool)]) -> Estimator {
        let mut estimator = Estimator::new(&plan(), RING);
        for &(found, hit_limit) in runs {
            estimator.ran(found, hit_limit, Instant::START);
        }
        estimator
    }

    #[test]
    fn a_silent_port_is_looked_at_as_seldom_as_its_ring_allows() {
        let mut estimator = Estimator::new(&plan(), RING);
        let mut now = Instant::START;
        let mut sleeps = Vec::new();
        for _ in 0..40 {
            let next = estimator.ran(0, false, now);
            sleeps.push(next.since(now).get());
            now = next;
        }
        assert_eq!(sleeps[..6], [1_000, 2_000, 3_000, 4_000, 5_000, 6_250]);
        assert_eq!(sleeps[39], 342_857);
        assert!(sleeps.is_sorted());
    }

    #[test]
    fn a_run_that_its_limit_ends_is_followed_by_another_at_once() {
        let now = Instant::new(1_000_000);
        let mut estimator = after(&[(0, false); 5]);
        let before = estimator.sleep();
        assert_eq!(estimator.ran(16, true, now), now);
        // The rest of the same wake-up: it ends the stay, and does not make the sleep longer.
        assert_eq!(estimator.ran(2, false, now), now + before);
        assert_eq!(estimator.sleep(), before);

        let mut plain = Estimator::new(&EstimatorPlan { stay: false, ..plan() }, RING);
        plain.ran(0, false, now);
        assert_eq!(plain.ran(16, true, now), now + plain.sleep());
    }

    #[test]
    fn one_full_run_after_the_longest_sleep_ends_it() {
        let mut quiet = after(&[(0, false); 60]);
        assert_eq!(quiet.sleep(), quiet.sleep_max());
        quiet.ran(16, true, Instant::START);
        assert_eq!((quiet.sleep(), quiet.average_milli()), (Nanos::ZERO, 16_000));

        let mut slow = Estimator::new(&EstimatorPlan { fast_attack: false, ..plan() }, RING);
        for _ in 0..60 {
            slow.ran(0, false, Instant::START);
        }
        slow.ran(16, true, Instant::START);
        assert_eq!(slow.sleep(), slow.sleep_max());
    }

    #[test]
    fn the_average_is_weighted_and_within_the_range_nothing_changes() {
        assert_eq!(after(&[(10, false)]).average_milli(), 2_500);
        assert_eq!(after(&[(10, false); 2]).average_milli(), 4_375);
        let mut settled = after(&[(10, false); 40]);
        assert_eq!(settled.average_milli(), 10_000);
        let sleep = settled.sleep();
        for found in [8, 12, 9, 11] {
            settled.ran(found, false, Instant::START);
        }
        assert_eq!(settled.sleep(), sleep);
    }

    #[test]
    fn by_the_law_of_the_paper_the_average_alone_decides() {
        let paper = EstimatorPlan { settle: false, fast_attack: false, stay: false, ..plan() };
        let sleeps = |plan: EstimatorPlan, runs: &[(u32, bool)]| -> Vec<u64> {
            let mut estimator = Estimator::new(&plan, RING);
            let ran = |&(found, full): &(u32, bool)| {
                let now = Instant::new(1_000);
                estimator.ran(found, full, now).since(now).get()
            };
            runs.iter().map(ran).collect()
        };
        // Four silent runs, then three that are in the range: the average is below it all the while, and sleep goes on to grow.
        let runs = [[(0, false); 4].as_slice(), &[(10, false); 3]].concat();
        assert_eq!(sleeps(paper, &runs), [1_000, 2_000, 3_000, 4_000, 5_000, 6_250, 7_812]);
        assert_eq!(sleeps(plan(), &runs), [1_000, 2_000, 3_000, 4_000, 4_000, 4_000, 4_000]);
        // Nor does it stay, or wake up at once, for a full run.
        let full = [[(0, false); 40].as_slice(), &[(16, true); 2]].concat();
        assert_eq!(sleeps(paper, &full)[40..], [342_857, 342_857]);
        assert_eq!(sleeps(plan(), &full)[40], 0);
    }

    #[test]
    fn sleep_may_change_by_steps_and_keeps_within_its_bounds() {
        let law = SleepLaw::Add(Nanos::micros(10));
        let bounds = (Nanos::micros(5), Some(Nanos::micros(30)));
        let plan = EstimatorPlan { law, sleep_min: bounds.0, sleep_max: bounds.1, fast_attack: false, ..plan() };
        let mut estimator = Estimator::new(&plan, RING);
        let mut sleeps = |found, runs| -> Vec<u64> {
            (0..runs)
                .map(|_| {
                    estimator.ran(found, false, Instant::START);
                    estimator.sleep().get() / 1000
                })
                .collect()
        };
        assert_eq!(sleeps(0, 4), [15, 25, 30, 30]);
        assert_eq!(sleeps(16, 9), [30, 30, 30, 30, 20, 10, 5, 5, 5]);
    }

    #[test]
    fn other_settings_keep_what_was_learnt() {
        let mut estimator = after(&[(0, false); 60]);
        estimator.set(&EstimatorPlan { sleep_max: Some(Nanos::micros(50)), ..plan() }, RING);
        assert_eq!(estimator.sleep(), Nanos::micros(50));
    }

    /// A ring that fills at a constant rate and is emptied by runs when the estimator says; `cost` a packet.
    fn at_constant_rate(rate: u64, ring: Ring, plan: EstimatorPlan, cost: u64, runs: usize) -> Vec<Estimator> {
        let mut estimator = Estimator::new(&plan, ring);
        let (mut now, mut taken, mut lost) = (0u64, 0u64, 0u64);
        let mut history = Vec::with_capacity(runs);
        for _ in 0..runs {
            let come = (u128::from(rate) * u128::from(now) / 1_000_000_000) as u64;
            lost += (come - taken - lost).saturating_sub(ring.slots.into());
            let found = (come - taken - lost).min(ring.batch.into());
            taken += found;
            now += 500 + found * cost;
            let next = estimator.ran(found as u32, found == u64::from(ring.batch), Instant::new(now));
            now = next.get();
            history.push(estimator);
        }
        history
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Section 3.8 of the specification. Below `low` packets in the longest sleep there are too few to find, and the
        /// sleep is the longest.
        #[test]
        fn it_settles_in_its_range_at_any_constant_rate(rate in 500u64..450_000, weight in 5u32..=100, low in 4u16..10) {
            let plan = EstimatorPlan { weight: Parts::percent(weight), low, high: low + low.div_ceil(2), ..plan() };
            let ring = Ring { slots: 64, batch: 16, line_rate: Some(PacketRate::kpps(140)) };
            let history = at_constant_rate(rate, ring, plan, 1_600, 4000);
            let longest = ring.longest_sleep();
            let reachable = u128::from(rate) * u128::from(longest.get()) / 1_000_000_000;
            for estimator in &history[3000..] {
                let average = estimator.average_milli();
                if reachable <= u128::from(low - 1) {
                    prop_assert!(estimator.sleep() == longest, "sleeps {} at {rate} pps", estimator.sleep());
                } else if reachable > u128::from(low) {
                    let (low, high) = (u64::from(low) * 1000, u64::from(plan.high) * 1000);
                    // One packet more or less is what a whole number of them does to an average.
                    prop_assert!((low - 1000..=high + 1000).contains(&average), "{average} at {rate} pps");
                }
            }
            let sleeps: Vec<Nanos> = history[3000..].iter().map(|e| e.sleep()).collect();
            let (least, most) = (sleeps.iter().min().unwrap(), sleeps.iter().max().unwrap());
            prop_assert!(most.get() <= least.get() * 2 + 2_000, "swings between {least} and {most} at {rate} pps");
        }

        #[test]
        fn no_run_wakes_before_now_or_after_the_longest_sleep(
            runs in prop::collection::vec((any::<u32>(), any::<bool>()), 1..200),
            (min, max) in (0u64..1 << 40, 0u64..1 << 40),
            (low, high, weight) in (any::<u16>(), any::<u16>(), any::<u32>()),
            factor in any::<u32>(),
        ) {
            let plan = EstimatorPlan {
                weight: Parts::millionths(weight), low, high, law: SleepLaw::Multiply(Parts::millionths(factor)),
                sleep_min: Nanos::new(min), sleep_max: Some(Nanos::new(max)), ..plan()
            };
            let mut estimator = Estimator::new(&plan, RING);
            let now = Instant::new(7);
            for (found, hit_limit) in runs {
                let wake = estimator.ran(found, hit_limit, now);
                prop_assert!(wake >= now && wake.since(now) <= estimator.sleep_max());
                prop_assert!(estimator.sleep() >= Nanos::new(min));
            }
        }
    }
}
