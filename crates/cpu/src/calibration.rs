//! The cost of a switch on this machine, measured before the first task exists (spec Q-14).

use super::Agenda;
use super::task::{Kind, Run, Terms};
use crate::meter::{Meter, Work};
use plan::CpuPlan;
use units::{Instant, Nanos, Share};

/// Switches in one measurement, and the number of measurements.
const TOGETHER: u64 = 256;
const ROUNDS: usize = 33;

/// Picks, switches to and charges three tasks that always have work, by the rules of `plan`. Returns the time of one dispatch: the median of the
/// rounds, which ignores a round that was interrupted. A running router measures its switches itself, cache misses included; this value is its first
/// estimate.
pub fn calibrate<M: Meter>(plan: &CpuPlan, meter: &mut M) -> Nanos {
    let mut now = Instant::START;
    let mut agenda = Agenda::new(Nanos::ZERO);
    agenda.rule(&CpuPlan { switch_cost: Some(Nanos::ZERO), tune: None, ..plan.clone() }, now);
    let terms =
        Terms { share: Share::of(1, 3), max_wait: None, capacity: 128, cost: Some(Nanos::micros(1)), prompt: true };
    for _ in 0..3 {
        let task = agenda.add(Kind::Forwarding, terms, now);
        agenda.look(task, 64, 64, now);
    }
    let mut rounds = [Nanos::ZERO; ROUNDS];
    for round in &mut rounds {
        meter.lap(Work::SWITCH);
        for _ in 0..TOGETHER {
            let grant = agenda.pick(now).expect("every task has work");
            agenda.switched(grant.task, Nanos::ZERO);
            now += Nanos::micros(1);
            agenda.ran(grant.task, Run { used: Nanos::micros(1), packets: 1, waiting: 64, room: 64, away: false }, now);
        }
        *round = meter.lap(Work::SWITCH);
    }
    rounds.sort_unstable();
    Nanos::new(rounds[ROUNDS / 2].get().div_ceil(TOGETHER))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tenth round is interrupted.
    struct Interrupted(u64);

    impl Meter for Interrupted {
        fn lap(&mut self, _: Work) -> Nanos {
            self.0 += 1;
            if self.0.is_multiple_of(10) { Nanos::millis(4) } else { Nanos::new(TOGETHER * 70) }
        }
    }

    #[test]
    fn an_interruption_does_not_count() {
        assert_eq!(calibrate(&CpuPlan::default(), &mut Interrupted(0)), Nanos::new(70));
    }

    #[test]
    fn every_discipline_and_every_way_of_batching_can_be_calibrated() {
        for scheduler in crate::SCHEDULERS.iter().map(crate::Registration::named) {
            let throttle = plan::Batching::Throttle { overhead: units::Parts::percent(2), slice: Nanos::micros(150) };
            for forwarding in [plan::Batching::None, plan::Batching::default(), throttle] {
                let plan = CpuPlan { scheduler, forwarding, strict: true, ..CpuPlan::default() };
                assert_eq!(calibrate(&plan, &mut Interrupted(0)), Nanos::new(70), "{scheduler:?} {forwarding:?}");
            }
        }
    }
}
