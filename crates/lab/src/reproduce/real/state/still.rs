//! When this machine stood still: its host had taken a processor away, and whoever was to run there was late.

use anyhow::{Context, Result, anyhow};
use io::clock;
use io::cores::{allowed, pin};
use io::precedence::Precedence;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;
use units::{Instant, Nanos};

/// How often somebody on each processor looks whether it is run.
const LOOK: Duration = Duration::from_millis(1);
/// Whoever goes before all others and is not run for so long is on a processor that stands still: half of the shortest time after
/// which Linux sends again what is not acknowledged (a loss probe, two ticks of 4 ms).
const STILL: Nanos = Nanos::millis(4);
/// For how long after that senders may take for loss what is late by it: the shortest timeout of Linux, and a look.
const AFTER: Nanos = Nanos::millis(250);

/// Somebody on each processor, who goes before all others, from now on.
pub struct Watch {
    over: Arc<AtomicBool>,
    watches: Vec<JoinHandle<Result<Vec<Instant>>>>,
}

/// The ends of the times in which a processor stood still.
#[derive(Clone, Debug, Default)]
pub struct Still(Vec<Instant>);

impl Watch {
    pub fn begin() -> Result<Watch> {
        let over = Arc::new(AtomicBool::new(false));
        let watches = allowed().context("asking for the processors")?.into_iter().map(|core| {
            let over = over.clone();
            spawn(move || watch(core, &over))
        });
        Ok(Watch { watches: watches.collect(), over })
    }

    /// Answers when the machine stood still since.
    pub fn end(self) -> Result<Still> {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.watches.into_iter().map(|watch| watch.join().map_err(|_| anyhow!("a watch panicked"))?);
        Ok(Still(ended.collect::<Result<Vec<_>>>()?.concat()))
    }
}

fn watch(core: u16, over: &AtomicBool) -> Result<Vec<Instant>> {
    pin(core).context("keeping a watch to a processor")?;
    let _first = Precedence::take().context("a watch has to go before all others (CAP_SYS_NICE)")?;
    let (mut ends, mut before) = (Vec::new(), clock::now());
    while !over.load(Ordering::Relaxed) {
        sleep(LOOK);
        let now = clock::now();
        if now.since(before) >= STILL + Nanos::from(LOOK) {
            ends.push(now);
        }
        before = now;
    }
    Ok(ends)
}

impl Still {
    /// Whether what happened then may come of it.
    pub fn explains(&self, then: Instant) -> bool {
        self.0.iter().any(|&end| then + STILL >= end && then.since(end) <= AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_of_standing_still_comes_soon_after() {
        let at = |ms: u64| Instant::START + Nanos::millis(ms);
        let still = Still(vec![at(1000), at(5000)]);
        for (ms, explained) in [(990, false), (998, true), (1000, true), (1249, true), (1251, false), (5100, true)] {
            assert_eq!(still.explains(at(ms)), explained, "{ms} ms");
        }
        assert!(!Still::default().explains(at(1000)));
    }

    /// Who goes before others as the watch does, and does not rest, keeps it from being run, as a host does.
    #[test]
    fn a_processor_that_is_taken_away_stands_still() {
        if Precedence::take().is_err() {
            return;
        }
        let core = allowed().unwrap()[0];
        let watch = Watch::begin().unwrap();
        assert_eq!(watch.watches.len(), allowed().unwrap().len());
        sleep(LOOK * 20);
        let taken = spawn(move || {
            pin(core).unwrap();
            let _first = Precedence::take().unwrap();
            let until = clock::now() + STILL * 5;
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
