//! Decides which objective is in force at a port (spec N-23). It is a pure function of time and counters.
//!
//! Hysteresis has three parts. An objective comes into force only with more than half of a window's bytes. The objective in force stays until
//! another reaches that share. After each change there is a pause. So a port changes at most once in [`PolicyRules::dwell`], independent of its
//! traffic.

use link::Demand;
use plan::{Objective, PolicyPlan};
use units::{Instant, Nanos, Parts};

/// The rules of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyRules {
    /// The length of a window, in which packets are counted.
    pub window: Nanos,
    /// The minimum time between two changes.
    pub dwell: Nanos,
    /// The share of a window's bytes that brings an objective into force: more than a half.
    pub share: Parts,
    /// A window with fewer packets is ignored.
    pub packets: u64,
}

impl From<&PolicyPlan> for PolicyRules {
    fn from(plan: &PolicyPlan) -> PolicyRules {
        PolicyRules { window: plan.window, dwell: plan.dwell, share: plan.share, packets: plan.packets }
    }
}

/// A change of the objective in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The previous objective.
    pub from: Objective,
    /// The new objective.
    pub to: Objective,
    /// The new objective's share of the window's bytes.
    pub share: Parts,
}

/// Decides for one port.
#[derive(Clone, Debug)]
pub struct Controller {
    rules: PolicyRules,
    in_force: Objective,
    /// The start of the window, and the counters at that time.
    window: Option<(Instant, Demand)>,
    /// The counts of the previous window.
    last_window: Demand,
    /// The time of the last decision, carried out or not.
    decided: Option<Instant>,
    changes: u64,
}

impl Controller {
    /// A controller without an objective in force and without history.
    pub fn new(rules: PolicyRules) -> Controller {
        let (in_force, lately) = (Objective::None, Demand::default());
        Controller { rules, in_force, window: None, last_window: lately, decided: None, changes: 0 }
    }

    /// Replaces the rules. The objective in force stays.
    pub fn set_rules(&mut self, rules: PolicyRules) {
        self.rules = rules;
    }

    /// The time until the window ends; zero if none has begun.
    pub fn next(&self, now: Instant) -> Nanos {
        self.window.map_or(Nanos::ZERO, |(begun, _)| (begun + self.rules.window).since(now))
    }

    /// Reads the cumulative counters at `now`. Returns the decision if the objective changes.
    pub fn observe(&mut self, now: Instant, counted: &Demand) -> Option<Decision> {
        if self.next(now) > Nanos::ZERO {
            return None;
        }
        // The first call only begins a window: there are no earlier counters to compare with.
        let (_, before) = self.window.replace((now, *counted))?;
        self.last_window = counted.since(&before);
        let (to, share) = self.winner()?;
        let held = self.decided.is_some_and(|decided| now.since(decided) < self.rules.dwell);
        if to == self.in_force || held {
            return None;
        }
        // Also the start of the pause for a decision that is withdrawn: a change that fails is not retried in each window.
        self.decided = Some(now);
        self.changes += 1;
        let from = std::mem::replace(&mut self.in_force, to);
        Some(Decision { from, to, share })
    }

    /// Withdraws a decision that could not be carried out. The previous objective remains in force. The next attempt comes after the dwell time.
    pub fn withdraw(&mut self, decision: Decision) {
        self.in_force = decision.from;
        self.changes -= 1;
    }

    /// The objective with the required share of the last window's bytes.
    fn winner(&self) -> Option<(Objective, Parts)> {
        let Demand { packets, bytes } = &self.last_window;
        // 128 bits: the sum of the counters may exceed 64, and so may a counter times a million below.
        let total: u128 = bytes.iter().map(|bytes| u128::from(*bytes)).sum();
        if total == 0 || packets.iter().sum::<u64>() < self.rules.packets {
            return None;
        }
        // A tie is never decided here: the required share is more than a half (51 % in the configuration).
        let (objective, most) = Objective::ALL.iter().zip(bytes).max_by_key(|(_, bytes)| **bytes)?;
        let share = u128::from(*most) * u128::from(Parts::ONE.get()) / total;
        let share = Parts::millionths(u32::try_from(share).unwrap_or(Parts::ONE.get()));
        (share >= self.rules.share).then_some((*objective, share))
    }

    /// The objective in force.
    pub fn in_force(&self) -> Objective {
        self.in_force
    }

    /// The counts of the last complete window.
    pub fn last_window(&self) -> &Demand {
        &self.last_window
    }

    /// The number of changes.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The time until the next change is possible.
    pub fn dwell_left(&self, now: Instant) -> Nanos {
        self.decided.map_or(Nanos::ZERO, |decided| (decided + self.rules.dwell).since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: PolicyRules =
        PolicyRules { window: Nanos::secs(1), dwell: Nanos::secs(10), share: Parts::percent(60), packets: 10 };

    /// Simulates a port at which these numbers of packets of 1000 bytes arrive in each second. Returns the changes of objective, with their
    /// second.
    fn play(rules: PolicyRules, seconds: impl IntoIterator<Item = Vec<(Objective, u64)>>) -> Vec<(u64, Objective)> {
        let (mut controller, mut counted, mut changes) = (Controller::new(rules), Demand::default(), Vec::new());
        assert_eq!(controller.observe(Instant::START, &counted), None);
        for (second, arrivals) in (1..).zip(seconds) {
            for (objective, packets) in arrivals {
                (0..packets).for_each(|_| counted.count(objective.index() as u8, 1000));
            }
            let decision = controller.observe(Instant::START + Nanos::secs(second), &counted);
            changes.extend(decision.map(|decision| (second, decision.to)));
        }
        changes
    }

    use Objective::{Delay, Fct, None as Nothing, Throughput};

    #[test]
    fn objective_of_most_bytes_comes_into_force() {
        let arrivals = [vec![(Delay, 70), (Throughput, 30)]].into_iter().cycle().take(3);
        assert_eq!(play(RULES, arrivals), [(1, Delay)]);
    }

    #[test]
    fn objective_below_its_share_changes_nothing() {
        let mixed = vec![(Delay, 59), (Throughput, 41)];
        assert_eq!(play(RULES, vec![mixed.clone(); 30]), []);
        // Nor does it replace the objective in force.
        let first = std::iter::once(vec![(Fct, 100)]);
        assert_eq!(play(RULES, first.chain(vec![mixed; 30])), [(1, Fct)]);
    }

    #[test]
    fn window_with_few_packets_is_ignored() {
        assert_eq!(play(RULES, vec![vec![(Delay, 9)]; 30]), []);
        assert_eq!(play(RULES, vec![vec![]; 30]), []);
    }

    #[test]
    fn packets_without_objective_restore_the_configured_scheme() {
        let seconds = (0..30).map(|second| vec![(if second < 3 { Delay } else { Nothing }, 50)]);
        assert_eq!(play(RULES, seconds), [(1, Delay), (11, Nothing)]);
    }

    #[test]
    fn objective_stays_for_the_dwell_after_a_change() {
        let seconds = (0..40).map(|second| vec![(if second % 2 == 0 { Delay } else { Throughput }, 50)]);
        assert_eq!(play(RULES, seconds), [(1, Delay), (12, Throughput), (23, Delay), (34, Throughput)]);
    }

    #[test]
    fn window_is_evaluated_at_its_end() {
        let mut controller = Controller::new(RULES);
        let mut counted = Demand::default();
        let at = |millis| Instant::START + Nanos::millis(millis);
        assert_eq!(controller.next(at(5)), Nanos::ZERO);
        controller.observe(at(5), &counted);
        (0..50).for_each(|_| counted.count(Delay.index() as u8, 100));
        assert_eq!(controller.observe(at(1004), &counted), None);
        assert_eq!(controller.next(at(1004)), Nanos::millis(1));
        let decision = Decision { from: Nothing, to: Delay, share: Parts::ONE };
        assert_eq!(controller.observe(at(1005), &counted), Some(decision));
        assert_eq!((controller.in_force(), controller.changes()), (Delay, 1));
        assert_eq!(
            (controller.dwell_left(at(2005)), controller.last_window().packets[Delay.index()]),
            (Nanos::secs(9), 50)
        );
    }

    #[test]
    fn failed_decision_is_withdrawn_and_retried_after_the_dwell() {
        let (mut controller, mut counted, mut tries) = (Controller::new(RULES), Demand::default(), Vec::new());
        for second in 0..25 {
            (0..50).for_each(|_| counted.count(Delay.index() as u8, 100));
            if let Some(decision) = controller.observe(Instant::START + Nanos::secs(second), &counted) {
                controller.withdraw(decision);
                tries.push(second);
            }
            assert_eq!((controller.in_force(), controller.changes()), (Nothing, 0));
        }
        assert_eq!(tries, [1, 11, 21]);
    }

    proptest! {
        /// The time between two changes is never less than the dwell, for any traffic and any reports.
        #[test]
        fn a_port_changes_at_most_once_in_a_dwell(
            dwell in 1u64..20_000,
            window in 1u64..3000,
            share in 51u32..=100,
            looks in prop::collection::vec((0u64..4000, prop::array::uniform6(0u64..1 << 40), any::<bool>()), 1..200),
        ) {
            let (window, dwell) = (Nanos::millis(window), Nanos::millis(dwell));
            let mut controller = Controller::new(PolicyRules { window, dwell, share: Parts::percent(share), packets: 1 });
            let (mut now, mut counted, mut last) = (Instant::START, Demand::default(), None::<Instant>);
            for (millis, arrivals, anew) in looks {
                now += Nanos::millis(millis);
                if anew {
                    counted = Demand::default();
                }
                counted += Demand { packets: arrivals, bytes: arrivals };
                let before = controller.in_force();
                match controller.observe(now, &counted) {
                    None => prop_assert_eq!(controller.in_force(), before),
                    Some(decision) => {
                        prop_assert!(decision.from == before && decision.to == controller.in_force());
                        prop_assert!(decision.from != decision.to && decision.share >= Parts::percent(share));
                        prop_assert!(last.is_none_or(|last| now.since(last) >= dwell));
                        last = Some(now);
                    }
                }
            }
        }
    }
}
