//! Self-tuning of the batching throttle: overhead and slice follow the load (Qie et al. 2001, section 4.4).
//!
//! Under low load a large overhead is affordable. It buys short slices and low latency. The more of the processor the load needs, the less time may
//! be spent on switching.

use plan::{TunePlan, throttle};
use units::{Instant, Nanos, Parts};

/// The number of periods before a lower load counts: one quiet period may be the gap between two bursts.
const CALM: u32 = 4;

/// The throttle setting of every forwarding task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThrottleSetting {
    /// The part of the work that may be spent on switching.
    pub overhead: Parts,
    /// The slice.
    pub slice: Nanos,
}

/// Sets overhead and slice once a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    plan: TunePlan,
    switch: Nanos,
    setting: ThrottleSetting,
    next: Instant,
    /// The number of consecutive periods whose load allowed more overhead, and the least overhead that one of them allowed.
    calm: u32,
    overhead_limit: Parts,
}

impl Tuning {
    /// Starts with the least overhead, which suits any load, and observes the load after one period.
    pub fn new(plan: TunePlan, switch: Nanos, now: Instant) -> Tuning {
        let setting = setting(plan.least, switch);
        Tuning { plan, switch, setting, next: now + plan.period, calm: 0, overhead_limit: plan.most }
    }

    /// The current setting.
    pub fn setting(&self) -> ThrottleSetting {
        self.setting
    }

    /// When to call [`Tuning::observe`] next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// The part of the processor that the present load needs, with the margin. It may exceed the whole.
    fn required(&self, needed: Nanos, elapsed: Nanos) -> Parts {
        let elapsed = u128::from(elapsed.get().max(1));
        let load = u128::from(needed.get()) * 1_000_000 / elapsed;
        Parts::millionths(u32::try_from(load).unwrap_or(u32::MAX).saturating_add(self.plan.margin.get()))
    }

    /// Ends a period. In `elapsed` packets arrived that need `needed` of processor time: dropped packets count, switching does not. Returns the new
    /// setting if it has changed.
    ///
    /// A higher load takes effect at once, a lower one only after several periods, and a small difference never: every change moves the thresholds of
    /// all paths.
    pub fn observe(&mut self, needed: Nanos, elapsed: Nanos, now: Instant) -> Option<ThrottleSetting> {
        self.next = now + self.plan.period;
        let wanted = throttle::highest_overhead(self.required(needed, elapsed)).clamp(self.plan.least, self.plan.most);
        let present = u64::from(self.setting.overhead.get());
        // Hysteresis: below 15/16 of the present overhead takes effect at once, above 5/4 only after `CALM` periods.
        let much_less = u64::from(wanted.get()) * 16 < present * 15;
        let much_more = u64::from(wanted.get()) * 4 > present * 5;
        // At a configured bound the hysteresis must not keep the setting from reaching it.
        let at_a_bound = wanted != self.setting.overhead && (wanted == self.plan.least || wanted == self.plan.most);
        if much_less || (at_a_bound && wanted < self.setting.overhead) {
            return self.change(wanted);
        }
        if !(much_more || at_a_bound) {
            self.calm = 0;
            return None;
        }
        // The least of the periods, so that a single quiet one does not raise the overhead too far.
        self.overhead_limit = if self.calm == 0 { wanted } else { self.overhead_limit.min(wanted) };
        self.calm += 1;
        if self.calm < CALM { None } else { self.change(self.overhead_limit) }
    }

    fn change(&mut self, overhead: Parts) -> Option<ThrottleSetting> {
        self.calm = 0;
        self.setting = setting(overhead, self.switch);
        Some(self.setting)
    }

    /// Changes the configuration or the cost of a switch. Returns the new setting if it has changed.
    pub fn set(&mut self, plan: TunePlan, switch: Nanos) -> Option<ThrottleSetting> {
        (self.plan, self.switch) = (plan, switch);
        let new = setting(self.setting.overhead.clamp(plan.least, plan.most), switch);
        (core::mem::replace(&mut self.setting, new) != new).then_some(new)
    }
}

fn setting(overhead: Parts, switch: Nanos) -> ThrottleSetting {
    ThrottleSetting { overhead, slice: throttle::least_slice(switch, overhead) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAN: TunePlan = TunePlan {
        period: Nanos::millis(10),
        least: Parts::percent(2),
        most: Parts::percent(30),
        margin: Parts::percent(10),
    };
    const SWITCH: Nanos = Nanos::micros(3);

    /// The work of `percent` of the processor in one period.
    fn load(percent: u64) -> Nanos {
        Nanos::new(PLAN.period.get() * percent / 100)
    }

    /// Overheads in millionths after periods of these loads.
    fn follow(tuning: &mut Tuning, loads: &[u64]) -> Vec<u32> {
        let one = |&percent: &u64| {
            let now = tuning.next();
            tuning.observe(load(percent), PLAN.period, now);
            assert_eq!(tuning.next(), now + PLAN.period);
            tuning.setting().overhead.get()
        };
        loads.iter().map(one).collect()
    }

    fn start() -> Tuning {
        Tuning::new(PLAN, SWITCH, Instant::START)
    }

    #[test]
    fn tuning_starts_with_the_least_overhead() {
        assert_eq!(start().setting(), ThrottleSetting { overhead: Parts::percent(2), slice: Nanos::micros(150) });
        assert_eq!(start().next(), Instant::START + PLAN.period);
    }

    /// The step of experiment E13: 40 % of the processor, then 85 %. `1 / 0.95 - 1` is 5.26 %, and a slice of 57 us makes 3 us that part of it.
    #[test]
    fn higher_load_takes_effect_in_one_period_and_lower_load_in_four() {
        let mut tuning = start();
        assert_eq!(follow(&mut tuning, &[40; 6]), [20_000, 20_000, 20_000, 300_000, 300_000, 300_000]);
        assert_eq!(tuning.setting().slice, Nanos::micros(10));
        assert_eq!(follow(&mut tuning, &[85; 3]), [52_631; 3]);
        assert_eq!(tuning.setting().slice, Nanos::new(57_001));
        assert_eq!(follow(&mut tuning, &[40; 4]), [52_631, 52_631, 52_631, 300_000]);
    }

    #[test]
    fn overload_and_idle_select_the_configured_bounds() {
        let mut tuning = start();
        assert_eq!(follow(&mut tuning, &[0; 4])[3], 300_000);
        assert_eq!(follow(&mut tuning, &[90, 250]), [20_000, 20_000]);
        let now = tuning.next();
        assert_eq!(tuning.observe(Nanos::MAX, Nanos::ZERO, now), None);
    }

    #[test]
    fn small_differences_change_nothing() {
        let mut tuning = start();
        follow(&mut tuning, &[80; 4]);
        let settled = tuning.setting();
        let wobble: Vec<u64> = (0..200).map(|i| if i % 3 == 0 { 79 } else { 80 }).collect();
        follow(&mut tuning, &wobble);
        assert_eq!(tuning.setting(), settled);
    }

    #[test]
    fn bursts_with_gaps_below_four_periods_do_not_change_throttle() {
        let mut tuning = start();
        let bursts: Vec<u64> = (0..400).map(|i| if i % 4 == 0 { 85 } else { 40 }).collect();
        let overheads = follow(&mut tuning, &bursts);
        let changes = overheads.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 1, "{changes} changes");
    }

    #[test]
    fn changed_switch_cost_changes_slice() {
        let mut tuning = start();
        assert_eq!(tuning.set(PLAN, SWITCH), None);
        let dear = tuning.set(PLAN, Nanos::micros(6)).unwrap();
        assert_eq!(dear, ThrottleSetting { overhead: Parts::percent(2), slice: Nanos::micros(300) });
        let narrow = TunePlan { least: Parts::percent(5), ..PLAN };
        assert_eq!(tuning.set(narrow, SWITCH).unwrap().overhead, Parts::percent(5));
    }

    proptest! {
        #[test]
        fn slice_fits_overhead_and_load_fits_beside_it_at_any_load(
            loads in prop::collection::vec(0u64..=120, 1..60),
            switch in 1u64..20_000,
        ) {
            let switch = Nanos::new(switch);
            let mut tuning = Tuning::new(PLAN, switch, Instant::START);
            for percent in loads {
                let now = tuning.next();
                tuning.observe(load(percent), PLAN.period, now);
                let ThrottleSetting { overhead, slice } = tuning.setting();
                prop_assert!(PLAN.least <= overhead && overhead <= PLAN.most);
                prop_assert_eq!(slice, throttle::least_slice(switch, overhead));
                // The hysteresis of a sixteenth costs less than half of the margin.
                let reached = u64::from(throttle::reachable_share(overhead).get());
                prop_assert!(overhead == PLAN.least || percent * 10_000 + 50_000 <= reached, "{percent} % at {overhead}");
            }
        }
    }
}
