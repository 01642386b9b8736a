//! What is measured of the links of a laboratory, under the names that those of a simulated world have.

use super::ends::Times;
use super::laboratory::{Laboratory, Passed, Went};
use anyhow::Result;
use io::clock;
use io::wait::{Sleeper, Waker};
use sim::{Measured, Passage};
use std::collections::BTreeMap;
use units::Nanos;

/// Looks at a laboratory's router now and then.
pub struct Watch {
    names: [String; 2],
    every: Nanos,
    last: [Passed; 2],
    went: [Went; 2],
    series: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Watch {
    /// A point of each series is made so often.
    pub fn new(passage: &Passage, every: Nanos) -> Watch {
        let names = [passage.forward.name.clone(), passage.back.name.clone()];
        Watch { names, every, last: Default::default(), went: Default::default(), series: BTreeMap::new() }
    }

    /// Looks until the end.
    ///
    /// # Errors
    ///
    /// That the router has failed.
    pub fn run(&mut self, laboratory: &Laboratory, times: Times) -> Result<()> {
        let mut sleeper = Sleeper::new(Waker::new()?);
        let mut due = times.begin;
        let mut before = due;
        loop {
            let now = clock::now();
            if now < due {
                sleeper.sleep([], due.since(now))?;
                continue;
            }
            let passed = laboratory.passed()?;
            if now > times.begin {
                let (at, span) = (now.since(times.begin).as_secs_f64(), now.since(before).as_secs_f64());
                for ((name, passed), last) in self.names.iter().zip(&passed).zip(&self.last) {
                    let mut put = |what: &str, value: f64| {
                        self.series.entry(format!("link.{name}.{what}")).or_default().push((at, value));
                    };
                    put("backlog", passed.waiting as f64);
                    put("sent_bps", (passed.sent_bytes - last.sent_bytes) as f64 * 8.0 / span.max(1e-9));
                    put("dropped", (passed.dropped - last.dropped) as f64);
                }
            }
            (self.last, before) = (passed, now);
            if now >= times.end {
                self.went = laboratory.went()?;
                return Ok(());
            }
            due = (due + self.every).max(now).min(times.end);
        }
    }

    /// Adds what was measured.
    pub fn finish(self, measured: &mut Measured) {
        for ((name, passed), went) in self.names.iter().zip(self.last).zip(self.went) {
            let mut put = |what: &str, value: f64| _ = measured.values.insert(format!("link.{name}.{what}"), value);
            put("offered", passed.offered as f64);
            put("sent", passed.sent as f64);
            put("dropped", passed.dropped as f64);
            put("marked", passed.marked as f64);
            put("waiting", passed.waiting as f64);
            put("sojourn_p95_us", went.sojourn_p95_us);
            put("late_p99_us", went.late_p99_us);
            put("missed_ms", went.missed_ms);
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
