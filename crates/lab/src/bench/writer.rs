//! Work on one core, with and without changes that another thread makes at a given rate.

use super::{Rounds, medians};
use io::clock::CycleCounter;
use io::wait::{Sleeper, Waker};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use units::Nanos;

/// How long the writer sleeps when it is ahead.
const PAUSE: Nanos = Nanos::micros(50);

/// Runs `work` and returns the seconds it took and its result.
pub(super) fn timed<T>(counter: &CycleCounter, work: impl FnOnce() -> T) -> (f64, T) {
    let start = counter.read();
    let done = work();
    (counter.between(start, counter.read()).get() as f64 / 1e9, done)
}

/// The result of [`beside_changes`].
pub(super) struct BesideChanges {
    /// The cost of the work beside the changes, without them, and the ratio.
    pub costs: (f64, f64, f64),
    /// Changes a second that the writer made during the work.
    pub rate: f64,
}

/// Measures `work`, which returns its cost, in turn without and with a thread that calls `change`. Each call makes `burst` changes, and all together
/// make `rate` changes a second.
pub(super) fn beside_changes(
    Rounds(rounds): Rounds,
    (rate, burst): (u64, u64),
    change: impl FnMut() + Send,
    mut work: impl FnMut() -> f64,
) -> BesideChanges {
    let (on, end, made) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let counter = CycleCounter::calibrated();
    let mut pairs = Vec::new();
    let mut rates = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| write(rate, burst, change, &on, &end, &made));
        for round in 0..=rounds {
            let quiet = work();
            on.store(true, Ordering::Relaxed);
            // Count only changes made during the measured pass.
            let before = made.load(Ordering::Relaxed);
            let (took, busy) = timed(&counter, &mut work);
            on.store(false, Ordering::Relaxed);
            if round > 0 {
                pairs.push((busy, quiet));
                rates.push((made.load(Ordering::Relaxed) - before) as f64 / took);
            }
        }
        end.store(true, Ordering::Relaxed);
    });
    BesideChanges { costs: medians(&pairs), rate: super::median(rates) }
}

/// Makes changes while `on` is set.
fn write(rate: u64, burst: u64, mut change: impl FnMut(), on: &AtomicBool, end: &AtomicBool, made: &AtomicU64) {
    let counter = CycleCounter::calibrated();
    let mut sleeper = Sleeper::new(Waker::new().expect("a thread may sleep"));
    let mut rest = || drop(sleeper.sleep([], PAUSE));
    // The start of the current run, and the changes made since.
    let (mut start, mut since) = (counter.read(), 0);
    while !end.load(Ordering::Relaxed) {
        if !on.load(Ordering::Relaxed) {
            rest();
            (start, since) = (counter.read(), 0);
            continue;
        }
        if since * 1_000_000_000 / rate > counter.between(start, counter.read()).get() {
            // Sleep instead of spinning: on shared processors a spinning writer would take time from the workers.
            rest();
            continue;
        }
        // A writer that was preempted catches up.
        change();
        made.fetch_add(burst, Ordering::Relaxed);
        since += burst;
    }
}
