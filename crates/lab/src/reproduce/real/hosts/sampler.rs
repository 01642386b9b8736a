//! The measurements at the links of a laboratory, under the same names as in a simulated world.

use super::endpoints::RunTimes;
use super::laboratory::{DirectionCounters, Laboratory, RunSummary};
use anyhow::Result;
use io::clock;
use io::wait::{Sleeper, Waker};
use sim::{HostNetwork, Measurements, SchemeReplacement};
use std::collections::{BTreeMap, VecDeque};
use units::{Instant, Nanos};

/// The drop reasons of schemes: reported even if zero.
const DROPS: [&str; 5] = ["scheme_arrival", "scheme_front", "scheme_tail", "buffer_full", "scheme_flush"];

/// A time of the world, on the machine's clock.
fn machine_time(times: RunTimes, at: Instant) -> Instant {
    times.begin + at.since(Instant::START)
}

/// Samples a laboratory's router and changes its schemes on schedule.
pub struct RouterSampler {
    names: [String; 2],
    every: Nanos,
    last: [DirectionCounters; 2],
    /// The longest queue seen, in packets.
    max_queued: [u64; 2],
    summaries: [RunSummary; 2],
    /// The remaining scheme changes in order of time: true for the reverse link, false for the link to the receivers.
    changes: VecDeque<(bool, SchemeReplacement)>,
    /// The largest delay of a scheme change.
    late: Nanos,
    series: BTreeMap<String, Vec<(f64, f64)>>,
}

impl RouterSampler {
    /// Adds a point to each series at this interval.
    pub fn new(passage: &HostNetwork, every: Nanos) -> RouterSampler {
        let names = [passage.forward.name.clone(), passage.back.name.clone()];
        let of = |back: bool, changes: &[SchemeReplacement]| -> Vec<(bool, SchemeReplacement)> {
            changes.iter().map(|change| (back, change.clone())).collect()
        };
        let mut changes = [of(false, &passage.forward.changes), of(true, &passage.back.changes)].concat();
        changes.sort_by_key(|(_, change)| change.at);
        let (last, most, went) = Default::default();
        RouterSampler {
            names,
            every,
            last,
            max_queued: most,
            summaries: went,
            changes: changes.into(),
            late: Nanos::ZERO,
            series: BTreeMap::new(),
        }
    }

    /// Samples until the end, and changes schemes on schedule.
    ///
    /// # Errors
    ///
    /// The router has failed or refuses a scheme.
    pub fn run(&mut self, laboratory: &mut Laboratory, times: RunTimes) -> Result<()> {
        let mut sleeper = Sleeper::new(Waker::new()?);
        let mut due = times.begin;
        let mut before = due;
        loop {
            let now = clock::now();
            let next = self.changes.front().map_or(Instant::NEVER, |(_, change)| machine_time(times, change.at));
            if now >= next
                && let Some((back, change)) = self.changes.pop_front()
            {
                laboratory.change(back, &change)?;
                self.late = self.late.max(clock::now().since(next));
                continue;
            }
            if now < due {
                sleeper.sleep([], due.min(next).since(now))?;
                continue;
            }
            let passed = laboratory.counters()?;
            for (most, passed) in self.max_queued.iter_mut().zip(&passed) {
                *most = (*most).max(passed.queued);
            }
            if now > times.begin {
                let (at, span) = (now.since(times.begin).as_secs_f64(), now.since(before).as_secs_f64());
                for ((name, passed), last) in self.names.iter().zip(&passed).zip(&self.last) {
                    let mut put = |what: &str, value: f64| {
                        self.series.entry(format!("link.{name}.{what}")).or_default().push((at, value));
                    };
                    put("backlog", passed.queued as f64);
                    put("sent_bps", (passed.sent_bytes - last.sent_bytes) as f64 * 8.0 / span.max(1e-9));
                    put("dropped", (passed.dropped - last.dropped) as f64);
                }
            }
            (self.last, before) = (passed, now);
            if now >= times.end {
                self.summaries = laboratory.summary()?;
                return Ok(());
            }
            // After a stall continue from now instead of catching up, and always sample the very end.
            due = (due + self.every).max(now).min(times.end);
        }
    }

    /// Adds the measurements.
    pub fn finish(self, measured: &mut Measurements) {
        if self.late > Nanos::ZERO {
            measured.values.insert("real.changed_late_ms".into(), self.late.get() as f64 / 1e6);
        }
        for (((name, passed), most), went) in self.names.iter().zip(self.last).zip(self.max_queued).zip(self.summaries)
        {
            let mut put = |what: &str, value: f64| _ = measured.values.insert(format!("link.{name}.{what}"), value);
            put("offered", passed.offered as f64);
            put("sent", passed.sent as f64);
            put("dropped", passed.dropped as f64);
            put("marked", passed.marked as f64);
            put("waiting", passed.queued as f64);
            put("waiting_max", most as f64);
            put("sojourn_p95_us", went.sojourn_p95_us);
            put("late_p99_us", went.late_p99_us);
            put("missed_ms", went.missed_ms);
            DROPS.iter().for_each(|reason| put(&format!("dropped.{reason}"), 0.0));
            went.drops.iter().for_each(|(reason, packets)| put(&format!("dropped.{reason}"), *packets as f64));
            if went.opportunities != (0, 0) {
                put("opportunities_used", went.opportunities.0 as f64);
                put("opportunities_wasted", went.opportunities.1 as f64);
            }
            let mut worst = |what: &str, value: f64| {
                let known = measured.values.entry(format!("real.{what}")).or_default();
                *known = known.max(value);
            };
            worst("late_p99_us", went.late_p99_us);
            worst("missed_ms", went.missed_ms);
            *measured.values.entry("real.kernel_lost".into()).or_default() += passed.kernel_lost as f64;
        }
        measured.series.extend(self.series);
    }
}
