//! The cost of a switch on this machine, measured before the first task exists (spec Q-14).

use super::RunQueue;
use super::task::{RunOutcome, TaskKind, TaskTerms};
use crate::meter::{Work, WorkMeter};
use plan::CpuPlan;
use units::{Instant, Nanos, Share};

/// Switches in one measurement, and the number of measurements.
const TOGETHER: u64 = 256;
const ROUNDS: usize = 33;

/// Picks, switches to and charges three tasks that always have work, by the rules of `plan`. Returns the time of one dispatch: the median of the
/// rounds, which ignores a round that was interrupted. A running router measures its switches itself, cache misses included; this value is its first
/// estimate.
pub fn calibrate<M: WorkMeter>(plan: &CpuPlan, meter: &mut M) -> Nanos {
    let mut now = Instant::START;
    let mut agenda = RunQueue::new(Nanos::ZERO);
    // A free switch makes every threshold one packet: the tasks stay active under a throttle too, even a strict one.
    agenda.configure(&CpuPlan { switch_cost: Some(Nanos::ZERO), tune: None, ..plan.clone() }, now);
    let terms =
        TaskTerms { share: Share::of(1, 3), max_wait: None, capacity: 128, cost: Some(Nanos::micros(1)), prompt: true };
    for _ in 0..3 {
        let task = agenda.add(TaskKind::Forwarding, terms, now);
        agenda.update_queue(task, 64, 64, now);
    }
    let mut rounds = [Nanos::ZERO; ROUNDS];
    for round in &mut rounds {
        // Starts a lap: the time before it, such as that of adding the tasks, is no switch.
        meter.lap(Work::SWITCH);
        for _ in 0..TOGETHER {
            let grant = agenda.pick(now).expect("every task has work");
            agenda.record_switch(grant.task, Nanos::ZERO);
            now += Nanos::micros(1);
            agenda.record_run(
                grant.task,
                RunOutcome { used: Nanos::micros(1), packets: 1, waiting: 64, room: 64, in_function_thread: false },
                now,
            );
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

    impl WorkMeter for Interrupted {
        fn lap(&mut self, _: Work) -> Nanos {
            self.0 += 1;
            if self.0.is_multiple_of(10) { Nanos::millis(4) } else { Nanos::new(TOGETHER * 70) }
        }
    }

    #[test]
    fn calibration_ignores_interruptions() {
        assert_eq!(calibrate(&CpuPlan::default(), &mut Interrupted(0)), Nanos::new(70));
    }

    #[test]
    fn every_scheduler_and_batching_can_be_calibrated() {
        for scheduler in crate::SCHEDULERS.iter().map(crate::SchedulerRegistration::named) {
            let throttle = plan::Batching::Throttle { overhead: units::Parts::percent(2), slice: Nanos::micros(150) };
            for forwarding in [plan::Batching::None, plan::Batching::default(), throttle] {
                let plan = CpuPlan { scheduler, forwarding, strict: true, ..CpuPlan::default() };
                assert_eq!(calibrate(&plan, &mut Interrupted(0)), Nanos::new(70), "{scheduler:?} {forwarding:?}");
            }
        }
    }
}
