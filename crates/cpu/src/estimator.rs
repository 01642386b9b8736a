//! The queue estimator: when an input task polls its port next (Qie et al. 2001, section 3.3).
//!
//! The number of packets in a device is unknown without polling it, so it is predicted. Runs that find few packets lengthen the sleep, runs that find
//! many shorten it, until a run finds enough to be worth its cost. Each rule that the paper leaves open is explained where it is implemented.

use plan::{EstimatorPlan, Ring, SleepLaw};
use units::{Instant, Nanos, Parts};

/// The smallest change of the sleep by a factor: without it the sleep would stay at zero.
const LEAST_CHANGE: Nanos = Nanos::micros(1);
/// Averages are kept in 2^-16 packets.
const FRACTION: u32 = 16;
/// The most packets of a run that are counted.
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
    /// The mean number of packets that a run finds, in 2^-16.
    average: u64,
    sleep: Nanos,
    wake_at: Instant,
    /// The last run stopped at its limit: the next one finds its rest.
    unfinished: bool,
}

impl Estimator {
    /// An estimator whose first wakeup is due at once.
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

    /// Changes the settings. The learned sleep is kept, clamped to the new bounds.
    pub fn set(&mut self, plan: &EstimatorPlan, ring: Ring) {
        // `learn` subtracts the weight from one.
        self.weight = plan.weight.min(Parts::ONE);
        self.low = u64::from(plan.low) << FRACTION;
        self.high = u64::from(plan.high.max(plan.low)) << FRACTION;
        self.sleep_min = plan.sleep_min;
        // Never below the shortest sleep: `clamp` panics if its bounds are reversed.
        self.sleep_max = plan.sleep_max.unwrap_or_else(|| ring.longest_sleep()).max(plan.sleep_min);
        self.law = plan.law;
        self.fast_attack = plan.fast_attack;
        self.stay = plan.stay;
        self.settle = plan.settle;
        self.sleep = self.sleep.clamp(self.sleep_min, self.sleep_max);
    }

    /// Records a run that found `found` packets, and returns when to run next. `hit_limit`: the run ended at its limit of packets or time.
    ///
    /// A run that ended at its limit found only a part of the packets. With `stay` the next run follows without a sleep. That run finds the rest, and
    /// does not lengthen the sleep.
    #[inline]
    pub fn record_run(&mut self, found: u32, hit_limit: bool, now: Instant) -> Instant {
        let rest = core::mem::replace(&mut self.unfinished, hit_limit && self.stay);
        if self.fast_attack && hit_limit && !rest && self.sleep == self.sleep_max && self.sleep > self.sleep_min {
            // After a long silence the average lags far behind, and would put the task to sleep again in the middle of a burst.
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
        // At most 2^36 packets times 10^6: within 64 bits. Rounding lets the average reach its limit.
        let sum = part(self.average, Parts::ONE.get() - self.weight.get()) + part(newest, self.weight.get());
        self.average = (sum + 500_000) / 1_000_000;
        // The average lags behind. With a small weight the sleep would oscillate forever, so a run that is already within the range changes nothing.
        // In the paper the average alone decides (`settle` off).
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
                // At least `LEAST_CHANGE`, or a sleep of zero would never grow.
                scaled(self.sleep, factor.get().into(), 1_000_000).max(self.sleep + LEAST_CHANGE)
            }
            SleepLaw::Add(step) => self.sleep + step,
        }
    }

    fn shorter(&self) -> Nanos {
        match self.law {
            // A factor below one would lengthen the sleep here, hence the lower bound of the divisor.
            SleepLaw::Multiply(factor) => scaled(self.sleep, 1_000_000, u64::from(factor.get()).max(1_000_000))
                .min(self.sleep.saturating_sub(LEAST_CHANGE)),
            SleepLaw::Add(step) => self.sleep.saturating_sub(step),
        }
    }

    /// The time of the next run.
    pub fn wake_at(&self) -> Instant {
        self.wake_at
    }

    /// The current sleep.
    pub fn sleep(&self) -> Nanos {
        self.sleep
    }

    /// The longest sleep: as configured, or derived from the ring size and line rate.
    pub fn sleep_max(&self) -> Nanos {
        self.sleep_max
    }

    /// The mean number of packets that a run finds, in thousandths.
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
            estimator.record_run(found, hit_limit, Instant::START);
        }
        estimator
    }

    #[test]
    fn silent_port_is_polled_as_rarely_as_its_ring_allows() {
        let mut estimator = Estimator::new(&plan(), RING);
        let mut now = Instant::START;
        let mut sleeps = Vec::new();
        for _ in 0..40 {
            let next = estimator.record_run(0, false, now);
            sleeps.push(next.since(now).get());
            now = next;
        }
        assert_eq!(sleeps[..6], [1_000, 2_000, 3_000, 4_000, 5_000, 6_250]);
        assert_eq!(sleeps[39], 342_857);
        assert!(sleeps.is_sorted());
    }

    #[test]
    fn run_at_its_packet_limit_is_repeated_at_once() {
        let now = Instant::new(1_000_000);
        let mut estimator = after(&[(0, false); 5]);
        let before = estimator.sleep();
        assert_eq!(estimator.record_run(16, true, now), now);
        // The rest of the same wakeup: it ends the stay, and does not lengthen the sleep.
        assert_eq!(estimator.record_run(2, false, now), now + before);
        assert_eq!(estimator.sleep(), before);

        let mut plain = Estimator::new(&EstimatorPlan { stay: false, ..plan() }, RING);
        plain.record_run(0, false, now);
        assert_eq!(plain.record_run(16, true, now), now + plain.sleep());
    }

    #[test]
    fn one_full_run_after_the_longest_sleep_ends_it() {
        let mut quiet = after(&[(0, false); 60]);
        assert_eq!(quiet.sleep(), quiet.sleep_max());
        quiet.record_run(16, true, Instant::START);
        assert_eq!((quiet.sleep(), quiet.average_milli()), (Nanos::ZERO, 16_000));

        let mut slow = Estimator::new(&EstimatorPlan { fast_attack: false, ..plan() }, RING);
        for _ in 0..60 {
            slow.record_run(0, false, Instant::START);
        }
        slow.record_run(16, true, Instant::START);
        assert_eq!(slow.sleep(), slow.sleep_max());
    }

    #[test]
    fn sleep_is_constant_while_average_is_in_range() {
        assert_eq!(after(&[(10, false)]).average_milli(), 2_500);
        assert_eq!(after(&[(10, false); 2]).average_milli(), 4_375);
        let mut settled = after(&[(10, false); 40]);
        assert_eq!(settled.average_milli(), 10_000);
        let sleep = settled.sleep();
        for found in [8, 12, 9, 11] {
            settled.record_run(found, false, Instant::START);
        }
        assert_eq!(settled.sleep(), sleep);
    }

    #[test]
    fn paper_law_uses_average_only() {
        let paper = EstimatorPlan { settle: false, fast_attack: false, stay: false, ..plan() };
        let sleeps = |plan: EstimatorPlan, runs: &[(u32, bool)]| -> Vec<u64> {
            let mut estimator = Estimator::new(&plan, RING);
            let ran = |&(found, full): &(u32, bool)| {
                let now = Instant::new(1_000);
                estimator.record_run(found, full, now).since(now).get()
            };
            runs.iter().map(ran).collect()
        };
        // Four silent runs, then three within the range: the average stays below the range, and the sleep goes on growing.
        let runs = [[(0, false); 4].as_slice(), &[(10, false); 3]].concat();
        assert_eq!(sleeps(paper, &runs), [1_000, 2_000, 3_000, 4_000, 5_000, 6_250, 7_812]);
        assert_eq!(sleeps(plan(), &runs), [1_000, 2_000, 3_000, 4_000, 4_000, 4_000, 4_000]);
        // By the paper's rules a full run neither makes the estimator stay nor wakes it at once.
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
                    estimator.record_run(found, false, Instant::START);
                    estimator.sleep().get() / 1000
                })
                .collect()
        };
        assert_eq!(sleeps(0, 4), [15, 25, 30, 30]);
        assert_eq!(sleeps(16, 9), [30, 30, 30, 30, 20, 10, 5, 5, 5]);
    }

    #[test]
    fn changed_settings_keep_the_learned_sleep() {
        let mut estimator = after(&[(0, false); 60]);
        estimator.set(&EstimatorPlan { sleep_max: Some(Nanos::micros(50)), ..plan() }, RING);
        assert_eq!(estimator.sleep(), Nanos::micros(50));
    }

    /// A ring that fills at a constant rate. The estimator decides when it is read; each packet costs `cost` ns.
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
            let next = estimator.record_run(found as u32, found == u64::from(ring.batch), Instant::new(now));
            now = next.get();
            history.push(estimator);
        }
        history
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Section 3.8 of the specification. If fewer than `low` packets arrive in the longest sleep, the sleep is the longest.
        #[test]
        fn estimator_settles_in_range_at_constant_rate(rate in 500u64..450_000, weight in 5u32..=100, low in 4u16..10) {
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
                    // The average of whole packets may be off by one packet.
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
                let wake = estimator.record_run(found, hit_limit, now);
                prop_assert!(wake >= now && wake.since(now) <= estimator.sleep_max());
                prop_assert!(estimator.sleep() >= Nanos::new(min));
            }
        }
    }
}
