//! Detects stalls of this machine: its hypervisor took a processor away, and the threads on it were late.

use anyhow::{Context, Result, anyhow};
use io::clock;
use io::cores::{allowed, pin};
use io::thread_priority::RealtimePriority;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;
use units::{Instant, Nanos};

/// How often the watch thread on each processor wakes up.
const LOOK: Duration = Duration::from_millis(1);
/// A watch thread with the highest priority that is late by this much has a stalled processor. It is half of the shortest time after which Linux
/// retransmits (a loss probe, two ticks of 4 ms).
const STALL_LIMIT: Nanos = Nanos::millis(4);
/// How long after a stall a retransmission may be caused by it: the shortest timeout of Linux, and a wakeup interval.
const AFTER: Nanos = Nanos::millis(250);

/// A watch thread on each processor with the highest priority.
pub struct StallWatch {
    stopped: Arc<AtomicBool>,
    watches: Vec<JoinHandle<Result<Vec<Instant>>>>,
}

/// The ends of all stalls.
#[derive(Clone, Debug, Default)]
pub struct Stalls(Vec<Instant>);

impl StallWatch {
    pub fn begin() -> Result<StallWatch> {
        let over = Arc::new(AtomicBool::new(false));
        let watches = allowed().context("asking for the processors")?.into_iter().map(|core| {
            let over = over.clone();
            spawn(move || watch(core, &over))
        });
        Ok(StallWatch { watches: watches.collect(), stopped: over })
    }

    /// Ends the watch. Returns the stalls since it began.
    pub fn end(self) -> Result<Stalls> {
        self.stopped.store(true, Ordering::Relaxed);
        let ended = self.watches.into_iter().map(|watch| watch.join().map_err(|_| anyhow!("a watch panicked"))?);
        Ok(Stalls(ended.collect::<Result<Vec<_>>>()?.concat()))
    }
}

fn watch(core: u16, over: &AtomicBool) -> Result<Vec<Instant>> {
    pin(core).context("pinning the stall monitor to a processor")?;
    let _first = RealtimePriority::acquire().context("the stall monitor needs real-time priority (CAP_SYS_NICE)")?;
    let (mut ends, mut before) = (Vec::new(), clock::now());
    while !over.load(Ordering::Relaxed) {
        sleep(LOOK);
        let now = clock::now();
        if now.since(before) >= STALL_LIMIT + Nanos::from(LOOK) {
            ends.push(now);
        }
        before = now;
    }
    Ok(ends)
}

impl Stalls {
    /// True if a stall may have caused an event at this time.
    pub fn may_explain(&self, then: Instant) -> bool {
        self.0.iter().any(|&end| then + STALL_LIMIT >= end && then.since(end) <= AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stall_explains_only_events_soon_after() {
        let at = |ms: u64| Instant::START + Nanos::millis(ms);
        let still = Stalls(vec![at(1000), at(5000)]);
        for (ms, explained) in [(990, false), (998, true), (1000, true), (1249, true), (1251, false), (5100, true)] {
            assert_eq!(still.may_explain(at(ms)), explained, "{ms} ms");
        }
        assert!(!Stalls::default().may_explain(at(1000)));
    }

    /// A busy thread with the same priority as the watch keeps it from running, as a hypervisor does.
    #[test]
    fn processor_taken_by_another_thread_counts_as_stalled() {
        if RealtimePriority::acquire().is_err() {
            return;
        }
        let core = allowed().unwrap()[0];
        let watch = StallWatch::begin().unwrap();
        assert_eq!(watch.watches.len(), allowed().unwrap().len());
        sleep(LOOK * 20);
        let taken = spawn(move || {
            pin(core).unwrap();
            let _first = RealtimePriority::acquire().unwrap();
            let until = clock::now() + STALL_LIMIT * 5;
            while clock::now() < until {
                std::hint::spin_loop();
            }
            until
        });
        let until = taken.join().unwrap();
        sleep(LOOK * 5);
        let still = watch.end().unwrap();
        assert!(still.0.iter().any(|&end| end >= until), "{still:?} {until:?}");
    }
}
