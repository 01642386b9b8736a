//! The slices of a running router: their changes, their slow paths, and their values.

use super::faulty_code::FAULTY;
use super::{RunError, RunningRouter, RunningWorld};
use link::ShareCounts;
use plane::Router;
use slice::{SliceCommand, SliceCounters, Slices};
use std::collections::BTreeMap;
use units::CounterSet;

/// The slices of a router, with the packets that their slow paths have received.
#[derive(Default)]
pub(super) struct RunningSlices {
    slices: Slices,
    /// For each slice, packets by the name of their exception.
    received: BTreeMap<String, BTreeMap<String, u64>>,
}

/// The counters of a slice.
#[derive(Clone, Debug, Default)]
pub(super) struct SliceCount {
    counters: SliceCounters,
    exceptions: BTreeMap<String, u64>,
    queues: Vec<(u16, ShareCounts)>,
}

impl RunningSlices {
    /// Provides slices to a router that has none yet.
    pub fn new(router: &mut Router) -> RunningSlices {
        let mut slices = RunningSlices::default();
        slices.slices.register_code(&FAULTY);
        slices.slices.provide(router);
        slices
    }

    fn run(&mut self, router: &mut Router, changes: &[SliceCommand]) -> Result<(), String> {
        self.slices.run(router, changes).map(drop).map_err(|(at, error)| format!("change {}: {error}", at + 1))
    }

    /// The slow paths read all packets that wait for them.
    fn read_exceptions(&mut self) {
        for name in self.slices.names() {
            for exception in self.slices.take_exceptions(name, usize::MAX).unwrap_or_default() {
                let by_code = self.received.entry(name.to_string()).or_default();
                *by_code.entry(exception.code.to_string()).or_default() += 1;
            }
        }
    }

    fn counts(&self, router: &Router) -> BTreeMap<String, SliceCount> {
        let reports = self.slices.names().filter_map(|name| Some((name, self.slices.report(router, name).ok()?)));
        let count = |(name, report): (&plan::Name, slice::SliceReport)| {
            let queues = report.queues.iter().map(|queue| (queue.queue, queue.counts)).collect();
            let exceptions = self.received.get(&**name).cloned().unwrap_or_default();
            (name.to_string(), SliceCount { counters: report.counters, exceptions, queues })
        };
        reports.map(count).collect()
    }
}

impl SliceCount {
    /// Adds the values by name, as differences to `was`.
    pub fn report(&self, was: &SliceCount, span: f64, mut put: impl FnMut(&str, f64)) {
        let since = |now: u64, was: u64| now.saturating_sub(was) as f64;
        for ((counter, now), was) in
            SliceCounters::COUNTERS.iter().zip(self.counters.values()).zip(was.counters.values())
        {
            put(counter.name, since(now, was));
        }
        put("forwarded_pps", since(self.counters.forwarded, was.counters.forwarded) / span);
        for (code, now) in &self.exceptions {
            put(&format!("exceptions.{code}"), since(*now, was.exceptions.get(code).copied().unwrap_or(0)));
        }
        for (number, now) in &self.queues {
            let was = was.queue(*number);
            let mut put = |key: &str, value: f64| put(&format!("queue.{number}.{key}"), value);
            put("sent", since(now.packets, was.packets));
            put("sent_pps", since(now.packets, was.packets) / span);
            put("dropped", since(now.dropped, was.dropped));
            put("waiting", now.waiting.packets.into());
        }
    }

    /// The points of its time series.
    pub fn sample(&self, was: &SliceCount, span: f64, mut put: impl FnMut(&str, f64)) {
        put("forwarded_pps", self.counters.forwarded.saturating_sub(was.counters.forwarded) as f64 / span);
        for (number, now) in &self.queues {
            let sent = now.packets.saturating_sub(was.queue(*number).packets);
            put(&format!("queue.{number}.sent_pps"), sent as f64 / span);
            put(&format!("queue.{number}.waiting"), now.waiting.packets.into());
        }
    }

    fn queue(&self, number: u16) -> ShareCounts {
        let found = self.queues.iter().find(|(known, _)| *known == number);
        found.map(|(_, counts)| *counts).unwrap_or_default()
    }
}

impl RunningWorld<'_> {
    /// Changes the slices of a router.
    pub(super) fn change_slices(&mut self, node: usize, changes: &[SliceCommand]) -> Result<(), RunError> {
        let RunningRouter { router, plan, slices, .. } = &mut self.nodes[node];
        let slices = slices.get_or_insert_with(|| RunningSlices::new(router));
        slices.run(router, changes).map_err(|reason| RunError::Slices(plan.name.clone(), reason))
    }

    /// Lets the slow paths of all slices read their packets.
    pub(super) fn read_exceptions(&mut self) {
        self.nodes.iter_mut().filter_map(|node| node.slices.as_mut()).for_each(RunningSlices::read_exceptions);
    }

    pub(super) fn slice_counts(&self, node: usize) -> BTreeMap<String, SliceCount> {
        let RunningRouter { router, slices, .. } = &self.nodes[node];
        slices.as_ref().map_or_else(BTreeMap::new, |slices| slices.counts(router))
    }
}
