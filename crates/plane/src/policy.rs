//! Which objective is in force at a port (spec N-23): from a time and counters to a decision, and nothing else.
//!
//! Hysteresis is in three places: an objective comes into force only with more than half of a window's bytes, the one in force
//! stays while no other has as much, and after each change all stays as it is for a while. So a port changes at most once in
//! [`Rules::dwell`], whatever arrives.

use link::Demand;
use plan::{Objective, PolicyPlan};
use units::{Instant, Nanos, Parts};

/// What a controller goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// How long packets are counted before they are looked at.
    pub window: Nanos,
    /// The least time between two changes.
    pub dwell: Nanos,
    /// The part of a window's bytes that brings an objective into force: more than a half.
    pub share: Parts,
    /// A window with fewer packets says nothing.
    pub packets: u64,
}

impl From<&PolicyPlan> for Rules {
    fn from(plan: &PolicyPlan) -> Rules {
        Rules { window: plan.window, dwell: plan.dwell, share: plan.share, packets: plan.packets }
    }
}

/// Another objective comes into force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The one before.
    pub from: Objective,
    /// The new one.
    pub to: Objective,
    /// Its part of the window's bytes.
    pub share: Parts,
}

/// Decides for one port.
#[derive(Clone, Debug)]
pub struct Controller {
    rules: Rules,
    in_force: Objective,
    /// When the window began, and what had been counted by then.
    window: Option<(Instant, Demand)>,
    /// What was counted in the window before.
    lately: Demand,
    /// When it last decided something, carried out or not.
    decided: Option<Instant>,
    changes: u64,
}

impl Controller {
    /// One with nothing in force, that has seen nothing.
    pub fn new(rules: Rules) -> Controller {
        let (in_force, lately) = (Objective::None, Demand::default());
        Controller { rules, in_force, window: None, lately, decided: None, changes: 0 }
    }

    /// Goes by other rules from now on; what is in force stays.
    pub fn rule(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// How long until the window is over; at once where none has begun.
    pub fn next(&self, now: Instant) -> Nanos {
        self.window.map_or(Nanos::ZERO, |(begun, _)| (begun + self.rules.window).since(now))
    }

    /// So much was counted by `now`, since counting began. Answers what comes into force because of it.
    pub fn observe(&mut self, now: Instant, counted: &Demand) -> Option<Decision> {
        if self.next(now) > Nanos::ZERO {
            return None;
        }
        let (_, before) = self.window.replace((now, *counted))?;
        self.lately = counted.since(&before);
        let (to, share) = self.winner()?;
        let held = self.decided.is_some_and(|decided| now.since(decided) < self.rules.dwell);
        if to == self.in_force || held {
            return None;
        }
        self.decided = Some(now);
        self.changes += 1;
        let from = std::mem::replace(&mut self.in_force, to);
        Some(Decision { from, to, share })
    }

    /// The decision could not be carried out: what was in force before still is. It is not tried again before the next may come.
    pub fn withdraw(&mut self, decision: Decision) {
        self.in_force = decision.from;
        self.changes -= 1;
    }

    /// The objective that has its share of the last window's bytes.
    fn winner(&self) -> Option<(Objective, Parts)> {
        let Demand { packets, bytes } = &self.lately;
        let total: u128 = bytes.iter().map(|bytes| u128::from(*bytes)).sum();
        if total == 0 || packets.iter().sum::<u64>() < self.rules.packets {
            return None;
        }
        let (objective, most) = Objective::ALL.iter().zip(bytes).max_by_key(|(_, bytes)| **bytes)?;
        let share = u128::from(*most) * u128::from(Parts::ONE.get()) / total;
        let share = Parts::millionths(u32::try_from(share).unwrap_or(Parts::ONE.get()));
        (share >= self.rules.share).then_some((*objective, share))
    }

    /// The objective in force.
    pub fn in_force(&self) -> Objective {
        self.in_force
    }

    /// What was counted in the last window that is over.
    pub fn lately(&self) -> &Demand {
        &self.lately
    }

    /// How often another objective came into force.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// For how long all stays as it is, whatever arrives.
    pub fn held(&self, now: Instant) -> Nanos {
        self.decided.map_or(Nanos::ZERO, |decided| (decided + self.rules.dwell).since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: Rules =
        Rules { window: Nanos::secs(1), dwell: Nanos::secs(10), share: Parts::percent(60), packets: 10 };

    /// A port at which so many packets of 1000 bytes arrive in each second; the objectives that come into force, with
    /// the second.
    fn play(rules: Rules, seconds: impl IntoIterator<Item = Vec<(Objective, u64)>>) -> Vec<(u64, Objective)> {
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
    fn what_most_bytes_want_comes_into_force() {
        let arrivals = [vec![(Delay, 70), (Throughput, 30)]].into_iter().cycle().take(3);
        assert_eq!(play(RULES, arrivals), [(1, Delay)]);
    }

    #[test]
    fn what_has_not_its_share_changes_nothing() {
        let mixed = vec![(Delay, 59), (Throughput, 41)];
        assert_eq!(play(RULES, vec![mixed.clone(); 30]), []);
        // Nor does it end what is in force.
        let first = std::iter::once(vec![(Fct, 100)]);
        assert_eq!(play(RULES, first.chain(vec![mixed; 30])), [(1, Fct)]);
    }

    #[test]
    fn few_packets_say_nothing() {
        assert_eq!(play(RULES, vec![vec![(Delay, 9)]; 30]), []);
        assert_eq!(play(RULES, vec![vec![]; 30]), []);
    }

    #[test]
    fn what_wants_nothing_brings_the_own_scheme_back() {
        let seconds = (0..30).map(|second| vec![(if second < 3 { Delay } else { Nothing }, 50)]);
        assert_eq!(play(RULES, seconds), [(1, Delay), (11, Nothing)]);
    }

    #[test]
    fn after_a_change_all_stays_for_a_while() {
        let seconds = (0..40).map(|second| vec![(if second % 2 == 0 { Delay } else { Throughput }, 50)]);
        assert_eq!(play(RULES, seconds), [(1, Delay), (12, Throughput), (23, Delay), (34, Throughput)]);
    }

    #[test]
    fn a_window_is_looked_at_when_it_is_over() {
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
        assert_eq!((controller.held(at(2005)), controller.lately().packets[Delay.index()]), (Nanos::secs(9), 50));
    }

    #[test]
    fn a_decision_that_fails_is_taken_back_and_tried_again_after_the_dwell() {
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
        /// The law of the dwell: between two changes there is never less, whatever arrives and however it is counted.
        #[test]
        fn a_port_changes_at_most_once_in_a_dwell(
            dwell in 1u64..20_000,
            window in 1u64..3000,
            share in 51u32..=100,
            looks in prop::collection::vec((0u64..4000, prop::array::uniform6(0u64..1 << 40), any::<bool>()), 1..200),
        ) {
            let (window, dwell) = (Nanos::millis(window), Nanos::millis(dwell));
            let mut controller = Controller::new(Rules { window, dwell, share: Parts::percent(share), packets: 1 });
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
