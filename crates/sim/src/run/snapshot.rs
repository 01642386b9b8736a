//! Snapshots of a running world: samples of time series, measured values, and the laws that concern the whole world.

use super::counts::{Counts, ratio};
use super::measurements::{Measurements, parameters};
use super::{RunError, RunningRouter, RunningWorld};
use crate::check::WorldInvariant;
use crate::histogram::DurationHistogram;
use crate::net::{CardCounters, Delivery, Fates};
use packet::DropReason;
use plan::Batching;
use std::collections::BTreeMap;

/// The snapshots so far.
#[derive(Default)]
pub(super) struct Snapshots {
    /// The start of the measured time, and the counters at that time.
    pub(super) warm: (u64, Vec<Counts>, Vec<CardCounters>),
    /// The same at the last sample of the time series, and the packets sent by each source.
    last: (u64, Vec<Counts>, Vec<CardCounters>, Vec<u64>),
    pub(super) series: BTreeMap<String, Vec<(f64, f64)>>,
    /// For each router, packets that it generated and that are still inside.
    generated: Vec<i64>,
}

impl RunningWorld<'_> {
    /// The prefix of the names of a router's values.
    pub(super) fn prefix(&self, node: usize) -> String {
        if self.nodes.len() > 1 { format!("{}.", self.nodes[node].plan.name) } else { String::new() }
    }

    /// Admits all frames that have arrived before `time`, and takes a snapshot.
    fn take_snapshot(&mut self, time: u64) -> (Vec<Counts>, Vec<CardCounters>) {
        self.read_exceptions();
        let counts: Vec<Counts> = (0..self.nodes.len()).map(|node| self.counts(node, time)).collect();
        let mut net = self.outside.lock();
        // Cards are only advanced when polled. Frames due at `time` itself belong to the next interval.
        (0..net.cards.len()).for_each(|card| net.admit(card, time.saturating_sub(1)));
        self.snapshots.generated =
            counts.iter().zip(&net.inside).map(|(counts, inside)| counts.ledger[5] as i64 - inside).collect();
        let cards = net.cards.iter().map(|card| card.counters).collect();
        drop(net);
        if !self.has_real_end_systems {
            self.check_conservation(time, &counts);
        }
        (counts, cards)
    }

    /// Starts the measurement.
    pub(super) fn end_warmup(&mut self, time: u64) {
        let (counts, cards) = self.take_snapshot(time);
        self.snapshots.warm = (time, counts, cards);
    }

    /// Takes a sample of the time series.
    pub(super) fn sample(&mut self, time: u64) {
        self.check_fairness(time);
        let (counts, cards) = self.take_snapshot(time);
        let span = (time - self.snapshots.last.0) as f64 / 1e9;
        let mut points: Vec<(String, f64)> = Vec::new();
        for (node, now) in counts.iter().enumerate() {
            let prefix = self.prefix(node);
            let nothing = Counts::default();
            let before = self.snapshots.last.1.get(node).unwrap_or(&nothing);
            for (path, count) in &now.paths {
                let was = before.paths.get(path).map_or_else(Default::default, |count| count.counters);
                let counters = count.counters;
                let name = format!("{prefix}path.{path}");
                points.push((format!("{name}.forwarded_pps"), (counters.left - was.left) as f64 / span));
                points.push((format!("{name}.dropped_pps"), (counters.dropped - was.dropped) as f64 / span));
                points.push((format!("{name}.queue"), count.queued as f64));
            }
            for (slice, count) in &now.slices {
                let was = before.slices.get(slice).cloned().unwrap_or_default();
                count.sample(&was, span, |key, value| points.push((format!("{prefix}slice.{slice}.{key}"), value)));
            }
            let (spent, idle) = now.since(before);
            let all = (spent.busy() + idle).max(1) as f64;
            points.push((format!("{prefix}cpu.idle"), idle as f64 / all));
            points.push((format!("{prefix}cpu.efficiency"), ratio(spent.useful(), spent.busy())));
        }
        let mut sent = Vec::new();
        {
            let net = self.outside.lock();
            for (index, (card, now)) in net.cards.iter().zip(&cards).enumerate() {
                let was = self.snapshots.last.2.get(index).copied().unwrap_or_default();
                let name = format!("card.{}", card.name);
                points.push((format!("{name}.received_pps"), (now.received - was.received) as f64 / span));
                points.push((format!("{name}.ring_dropped_pps"), (now.ring_full - was.ring_full) as f64 / span));
                points.push((format!("{name}.ring"), card.ring.len() as f64));
            }
            for (index, (flow, plan)) in net.sources.iter().zip(&self.world.sources).enumerate() {
                sent.push(flow.fates[0].sent + flow.fates[1].sent);
                let was = self.snapshots.last.3.get(index).copied().unwrap_or(0);
                points.push((format!("source.{}.sent_pps", plan.name), (sent[index] - was) as f64 / span));
            }
        }
        let at = time as f64 / 1e9;
        for (name, value) in points {
            self.snapshots.series.entry(name).or_default().push((at, value));
        }
        self.snapshots.last = (time, counts, cards, sent);
    }

    /// Checks the conservation of all packets so far.
    fn check_conservation(&mut self, time: u64, counts: &[Counts]) {
        let mut net = self.outside.lock();
        let mut all = net.others.clone();
        let mut broken = Vec::new();
        let sources = self.world.sources.iter();
        for (flow, plan) in net.sources.iter().zip(sources) {
            let fates = flow.all();
            if flow.flows > 0 && fates.ended() > fates.sent + fates.duplicated {
                let (ended, sent) = (fates.ended(), fates.sent + fates.duplicated);
                broken.push(format!("{ended} packets of source {} have a fate, but the source sent {sent}", plan.name));
            }
            all += &fates;
        }
        let waiting: usize = net.cards.iter().map(|card| card.ring.len() + card.incoming.len()).sum();
        let (mut generated, mut inside) = (0, 0);
        for (node, counts) in counts.iter().enumerate() {
            let cards = net.cards.iter().filter(|card| card.router == node);
            let (mut handed, mut taken) = (0, 0);
            cards.for_each(|card| {
                (handed, taken) = (handed + card.counters.received, taken + card.counters.transmitted)
            });
            let [received, sent, made, .., held] = counts.ledger;
            let name = &self.nodes[node].plan.name;
            if (received, sent) != (handed, taken) {
                broken.push(format!(
                    "router {name} reports {received} received and {sent} sent packets; its cards report {handed} and {taken}"
                ));
            }
            (generated, inside) = (generated + made, inside + held);
        }
        let (came, known) = (all.sent + all.duplicated + generated, all.ended() + inside + waiting as u64);
        if came != known {
            broken.push(format!(
                "there are {came} packets, but only {known} are accounted for: {} with a fate, {inside} in routers, {waiting} \
                 on cards",
                all.ended()
            ));
        }
        for what in broken {
            net.violations.add(time, WorldInvariant::Conservation, || what);
        }
    }

    /// Checks work conservation when a core has found no work.
    pub(super) fn check_work_conservation(&mut self, index: usize) {
        let core = &self.cores[index];
        let (node, now) = (core.node, core.now);
        let RunningRouter { plan, pending, .. } = &self.nodes[node];
        let cpu = &plan.plan.cpu;
        let waits = |batching: &Batching| matches!(batching, Batching::Throttle { .. });
        // A throttled task may wait for a batch while its core is idle, unless idle cores harvest such work.
        let promised = cpu.work_conserving || ![&cpu.input, &cpu.forwarding, &cpu.output].into_iter().any(waits);
        if !promised || pending.is_some() || core.wake <= now {
            return;
        }
        let own = self.snapshots.generated.get(node).copied().unwrap_or(0);
        if self.outside.lock().inside[node] + own.max(0) <= 0 {
            return;
        }
        let report = core.worker.report();
        let snapshot = self.nodes[node].router.snapshot();
        let mut net = self.outside.lock();
        for queue in &report.queues {
            let name = snapshot.paths.iter().find(|path| path.id == queue.path).map_or("?", |path| &*path.name);
            let port = queue.port.and_then(|port| snapshot.port(port)).map(|port| port.name.clone());
            let card = plan.plan.ports.iter().find(|plan| Some(&*plan.name) == port.as_deref());
            let card = card.and_then(|plan| net.cards.iter().position(|card| card.name == plan.device.target));
            let room = card.is_none_or(|card| net.cards[card].link.room(now) > 0);
            let what = if queue.input > 0 && queue.output < queue.capacity && card.is_some() {
                format!("{} packets wait for the functions of path {name}", queue.input)
            } else if queue.output > 0 && room && card.is_some() {
                format!("{} packets of path {name} could leave", queue.output)
            } else {
                continue;
            };
            let router = &plan.name;
            net.violations
                .add(now, WorldInvariant::WorkConservation, || format!("router {router} is idle, and {what}"));
        }
    }

    /// The result, or the broken laws.
    pub(super) fn finish(mut self) -> Result<Measurements, RunError> {
        let end = self.world.duration.get();
        self.check_fairness(end);
        let (counts, cards) = self.take_snapshot(end);
        let violations = std::mem::take(&mut self.outside.lock().violations);
        if !violations.is_empty() {
            return Err(RunError::Broken(violations.list, violations.omitted));
        }
        let mut values = BTreeMap::new();
        let span = (end - self.snapshots.warm.0) as f64 / 1e9;
        for (node, counts) in counts.iter().enumerate() {
            self.router_values(node, counts, span, &mut values);
            self.report_lags(node, &mut values);
        }
        self.card_values(&cards, span, &mut values);
        self.source_values(span, &mut values);
        self.sink_values(span, &mut values);
        let series = self.all_series();
        Ok(Measurements { parameters: parameters(self.world), values, series, ..Measurements::default() })
    }

    fn card_values(&self, cards: &[CardCounters], span: f64, values: &mut BTreeMap<String, f64>) {
        for ((plan, now), was) in self.world.cards.iter().zip(cards).zip(&self.snapshots.warm.2) {
            let mut put =
                |name: &str, value: u64| _ = values.insert(format!("card.{}.{name}", plan.name), value as f64);
            put("received", now.received - was.received);
            put("ring_dropped", now.ring_full - was.ring_full);
            put("ring_max", now.ring_max as u64);
            put("transmitted", now.transmitted - was.transmitted);
            put("link_lost", now.lost - was.lost);
            put("down_lost", now.down - was.down);
            let bits = (now.transmitted_bytes - was.transmitted_bytes) as f64 * 8.0;
            values.insert(format!("card.{}.transmitted_bps", plan.name), bits / span);
        }
    }

    fn source_values(&self, span: f64, values: &mut BTreeMap<String, f64>) {
        let net = self.outside.lock();
        for (index, (plan, flow)) in self.world.sources.iter().zip(&net.sources).enumerate() {
            let fates: &Fates = &flow.fates[1];
            let name = format!("source.{}", plan.name);
            let mut put = |key: &str, value: f64| _ = values.insert(format!("{name}.{key}"), value);
            put("sent", fates.sent as f64);
            put("sent_pps", fates.sent as f64 / span);
            put("sent_bps", fates.sent_bytes as f64 * 8.0 / span);
            // Without tags the fates of its packets are unknown.
            if !flow.is_tagged() {
                continue;
            }
            put("received", fates.delivered as f64);
            put("received_pps", fates.delivered as f64 / span);
            put("delivery", ratio(fates.delivered, fates.sent));
            let lost = fates.ring_full + fates.link + fates.down + fates.no_link + fates.dropped();
            put("lost", lost as f64);
            put("lost.ring", fates.ring_full as f64);
            put("lost.link", fates.link as f64);
            put("lost.down", fates.down as f64);
            put("lost.nowhere", fates.no_link as f64);
            for &reason in DropReason::ALL.iter().filter(|reason| fates.dropped.of(**reason) > 0) {
                put(&format!("lost.{}", reason.name()), fates.dropped.of(reason) as f64);
            }
            put("consumed", fates.consumed as f64);
            put("under_way", (fates.sent + fates.duplicated).saturating_sub(fates.ended()) as f64);
            let mut latency = DurationHistogram::new();
            let deliveries = net.sinks.iter().filter_map(|sink| sink.deliveries[index].as_deref());
            deliveries.for_each(|delivery| latency.add(&delivery.latency));
            latency.report(&format!("{name}.latency"), values);
            flow.wait.report(&format!("{name}.wait"), values);
        }
    }

    fn sink_values(&self, span: f64, values: &mut BTreeMap<String, f64>) {
        let net = self.outside.lock();
        for sink in &net.sinks {
            let deliveries: Vec<&Delivery> = sink.deliveries.iter().flatten().map(|delivery| &**delivery).collect();
            let packets: u64 = deliveries.iter().map(|delivery| delivery.packets).sum();
            let bytes: u64 = deliveries.iter().map(|delivery| delivery.bytes).sum();
            let name = format!("sink.{}", sink.name);
            values.insert(format!("{name}.received"), packets as f64);
            values.insert(format!("{name}.received_pps"), packets as f64 / span);
            values.insert(format!("{name}.received_bps"), bytes as f64 * 8.0 / span);
            values.insert(format!("{name}.others"), sink.others as f64);
            let mut latency = DurationHistogram::new();
            deliveries.iter().for_each(|delivery| latency.add(&delivery.latency));
            latency.report(&format!("{name}.latency"), values);
        }
    }

    /// The time series, with those that are known only at the end.
    fn all_series(&mut self) -> BTreeMap<String, Vec<(f64, f64)>> {
        let mut series = std::mem::take(&mut self.snapshots.series);
        let net = self.outside.lock();
        let width = self.world.sample.get();
        let points = (self.world.duration.get() / self.world.sample.get()) as usize;
        let mut add = |name: String, buckets: &mut dyn Iterator<Item = &Vec<u64>>| {
            let mut sums = vec![0u64; points];
            buckets.for_each(|buckets| sums.iter_mut().zip(buckets).for_each(|(sum, more)| *sum += more));
            let point = |(index, &sum): (usize, &u64)| {
                (((index + 1) as u64 * width) as f64 / 1e9, sum as f64 * 1e9 / width as f64)
            };
            series.insert(name, sums.iter().enumerate().map(point).collect());
        };
        for (index, plan) in self.world.sources.iter().enumerate().filter(|(index, _)| net.sources[*index].is_tagged())
        {
            let of = net.sinks.iter().filter_map(|sink| Some(&sink.deliveries[index].as_ref()?.buckets));
            add(format!("source.{}.received_pps", plan.name), &mut of.into_iter());
        }
        for sink in &net.sinks {
            let of = sink.deliveries.iter().flatten().map(|delivery| &delivery.buckets);
            add(format!("sink.{}.received_pps", sink.name), &mut of.into_iter());
        }
        series
    }
}
