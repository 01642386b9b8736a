//! The watchdog: reports each stuck worker once, and its recovery.
//!
//! An idle worker wakes at least every 100 ms to poll its ports. If the watchdog itself was delayed, the whole machine has stalled, and no worker is
//! reported.

use super::heartbeat::Heartbeat;
use std::sync::Arc;
use units::{Instant, Nanos, WorkerId};

/// The interval of its checks.
pub(super) const TICK: Nanos = Nanos::millis(100);
/// A longer interval means that the watchdog itself was delayed.
const DELAYED: Nanos = Nanos::millis(500);
/// The time over which the load of a worker is averaged.
const WINDOW: Nanos = Nanos::secs(1);

/// A finding of the watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finding {
    /// The worker has made no progress for this time.
    Stuck(WorkerId, Nanos),
    /// It makes progress again, after having been stuck for this time.
    Recovered(WorkerId, Nanos),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// The longest pause between two beats.
    stuck_after: Nanos,
    last_check: Option<Instant>,
    workers: Vec<WorkerWatch>,
}

/// The state of one worker.
#[derive(Clone, Copy, Debug, Default)]
struct WorkerWatch {
    /// Its last beat before it was found stuck.
    stuck: Option<Instant>,
    /// The time of the last load sample, and its values.
    sample: Option<(Instant, u64, Nanos)>,
}

impl Watchdog {
    pub fn new(patience: Nanos) -> Watchdog {
        Watchdog { stuck_after: patience, last_check: None, workers: Vec::new() }
    }

    /// Checks every worker.
    pub fn check(&mut self, now: Instant, pulses: &[Arc<Heartbeat>]) -> Vec<Finding> {
        let held_up = self.last_check.is_none_or(|looked| now.since(looked) > DELAYED);
        self.last_check = Some(now);
        self.workers.resize(pulses.len(), WorkerWatch::default());
        let mut findings = Vec::new();
        for (index, (seen, pulse)) in self.workers.iter_mut().zip(pulses).enumerate() {
            let (worker, beat) = (WorkerId::at(index), pulse.last_beat());
            seen.update_load(now, pulse);
            match seen.stuck {
                // It was given up meanwhile, which is reported elsewhere.
                Some(_) if !pulse.activity().is_alive() => seen.stuck = None,
                Some(since) if beat != since => {
                    seen.stuck = None;
                    findings.push(Finding::Recovered(worker, beat.since(since)));
                }
                None if !held_up && pulse.activity().is_alive() && now.since(beat) > self.stuck_after => {
                    seen.stuck = Some(beat);
                    findings.push(Finding::Stuck(worker, now.since(beat)));
                }
                _ => {}
            }
            pulse.set_stuck(seen.stuck.is_some());
        }
        findings
    }
}

impl WorkerWatch {
    /// Computes the load of the worker in the last window.
    fn update_load(&mut self, now: Instant, pulse: &Heartbeat) {
        let (packets, busy) = pulse.work();
        let Some((then, old_packets, old_busy)) = self.sample else {
            self.sample = Some((now, packets, busy));
            return;
        };
        let span = now.since(then).get();
        if span < WINDOW.get() {
            return;
        }
        let share = u128::from(busy.get().saturating_sub(old_busy.get())) * 1_000_000 / u128::from(span);
        let rate = u128::from(packets.saturating_sub(old_packets)) * 1_000_000_000 / u128::from(span);
        pulse.set_load((share as u64).min(1_000_000), rate as u64);
        self.sample = Some((now, packets, busy));
    }
}

#[cfg(test)]
mod tests {
    use super::super::heartbeat::Activity;
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Nanos::millis(millis)
    }

    /// Checks at every tick between two times (milliseconds) while the workers of `beating` beat; returns the findings and their times.
    fn look(
        dog: &mut Watchdog,
        pulses: &[Arc<Heartbeat>],
        times: std::ops::Range<u64>,
        beating: &[usize],
    ) -> Vec<(u64, Finding)> {
        let mut found = Vec::new();
        for time in times.step_by(100) {
            beating.iter().for_each(|&worker| pulses[worker].beat(at(time)));
            found.extend(dog.check(at(time), pulses).into_iter().map(|finding| (time, finding)));
        }
        found
    }

    fn two() -> (Watchdog, [Arc<Heartbeat>; 2]) {
        (Watchdog::new(Nanos::secs(1)), [(); 2].map(|()| Arc::new(Heartbeat::new(at(0)))))
    }

    #[test]
    fn a_stuck_worker_is_reported_once_and_its_recovery_once() {
        let (mut dog, pulses) = two();
        let (first, second) = (WorkerId(0), WorkerId(1));
        assert_eq!(look(&mut dog, &pulses, 0..3000, &[0, 1]), []);
        let found = look(&mut dog, &pulses, 3000..60_000, &[0]);
        assert_eq!(found, [(4000, Finding::Stuck(second, Nanos::millis(1100)))]);
        assert!(pulses[1].is_stuck() && !pulses[1].is_responsive() && pulses[0].is_responsive());
        let found = look(&mut dog, &pulses, 60_000..70_000, &[0, 1]);
        assert_eq!(found, [(60_000, Finding::Recovered(second, Nanos::millis(57_100)))]);
        assert!(!pulses[1].is_stuck());
        let found = look(&mut dog, &pulses, 70_000..80_000, &[1]);
        assert_eq!(found, [(71_000, Finding::Stuck(first, Nanos::millis(1100)))]);
        // A worker that is given up is not stuck.
        pulses[0].set_activity(Activity::GivenUp);
        assert_eq!(look(&mut dog, &pulses, 80_000..90_000, &[1]), []);
    }

    #[test]
    fn a_stalled_machine_is_not_reported_as_stuck_workers() {
        let (mut dog, pulses) = two();
        assert_eq!(look(&mut dog, &pulses, 0..1000, &[0, 1]), []);
        // The machine stalled for a minute; then the workers need a moment.
        assert_eq!(dog.check(at(61_000), &pulses), []);
        assert_eq!(look(&mut dog, &pulses, 61_100..63_000, &[0, 1]), []);
    }

    #[test]
    fn load_is_the_busy_share_of_the_last_second() {
        let (mut dog, pulses) = two();
        for time in (0..5000).step_by(100) {
            pulses.iter().for_each(|pulse| pulse.beat(at(time)));
            // 30 us of work and 1000 packets every millisecond.
            pulses[1].record_work(1000 * time, Nanos::micros(30 * time));
            assert_eq!(dog.check(at(time), &pulses), []);
        }
        let told = [0, 1].map(|worker: u16| pulses[usize::from(worker)].to_reply(worker, None, at(5000)));
        assert_eq!(told.each_ref().map(|worker| worker.busy_ppm), [0, 30_000]);
        assert_eq!(told.each_ref().map(|worker| worker.packets_per_second), [0, 1_000_000]);
        assert_eq!(told[0].heartbeat_age_ns, 100_000_000);
    }
}
