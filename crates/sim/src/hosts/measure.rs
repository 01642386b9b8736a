//! The measurements of a world of hosts: values, time series, and samples that several runs can pool.

use super::flow::Flow;
use super::link::{self, Link};
use super::wires::Fate;
use crate::describe::WorldPlan;
use crate::histogram::DurationHistogram;
use crate::run::{Measurements, parameters};
use crate::tcp::SenderCounters;
use crate::tcp::application::{FlowTimes, SmoothedRtt, Transfer};
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// The counters of a flow at some time.
#[derive(Clone, Copy, Default)]
struct FlowMark {
    counts: super::flow::Counts,
    sender: SenderCounters,
    acknowledged: u64,
    transfers: usize,
}

impl FlowMark {
    fn of(flow: &Flow) -> FlowMark {
        let transfers = flow.application.completions().len();
        let acknowledged = flow.sender.acknowledged();
        FlowMark { counts: flow.counts, sender: flow.sender.counters(), acknowledged, transfers }
    }
}

/// The counters of a link at some time.
#[derive(Clone, Copy, Default)]
struct LinkMark {
    counts: link::Counts,
    used: u64,
    wasted: u64,
}

impl LinkMark {
    fn of(link: &Link) -> LinkMark {
        let opportunities = link.medium.opportunities();
        LinkMark { counts: link.counts, used: opportunities.used, wasted: opportunities.wasted }
    }
}

/// Samples a world at intervals.
pub(super) struct Meters {
    /// The start of the measured time.
    begun: u64,
    flows: Vec<FlowMark>,
    links: Vec<LinkMark>,
    /// The time of the last sample, and the counters at that time.
    sampled: u64,
    before: (Vec<FlowMark>, Vec<LinkMark>),
    series: BTreeMap<String, Vec<(f64, f64)>>,
}

fn marks(flows: &[Flow], links: &[Link]) -> (Vec<FlowMark>, Vec<LinkMark>) {
    (flows.iter().map(FlowMark::of).collect(), links.iter().map(LinkMark::of).collect())
}

impl Meters {
    pub fn new(flows: &[Flow], links: &[Link]) -> Meters {
        let (flows, links) = marks(flows, links);
        let before = (flows.clone(), links.clone());
        Meters { begun: 0, flows, links, sampled: 0, before, series: BTreeMap::new() }
    }

    /// Ends the warm-up: measurement begins.
    pub fn end_warmup(&mut self, flows: &mut [Flow], links: &mut [Link], time: u64) {
        (self.flows, self.links) = marks(flows, links);
        self.begun = time;
        for flow in flows {
            flow.one_way = DurationHistogram::new();
            flow.smoothed = SmoothedRtt::new(flow.plan.rtt_interval);
        }
        for link in links {
            (link.sojourn, link.max_queued) = (DurationHistogram::new(), link.queue.packets());
        }
    }

    /// Adds a point to each time series.
    pub fn sample(&mut self, flows: &[Flow], links: &[Link], time: u64) {
        let span = (time - self.sampled) as f64 / 1e9;
        let at = time as f64 / 1e9;
        let now = marks(flows, links);
        let series = &mut self.series;
        let mut put = |name: String, value: f64| series.entry(name).or_default().push((at, value));
        for (index, flow) in flows.iter().enumerate() {
            let name = &flow.plan.name;
            let acknowledged = now.0[index].acknowledged - self.before.0[index].acknowledged;
            put(format!("flow.{name}.goodput_bps"), bits(acknowledged, flow) / span);
            put(format!("flow.{name}.cwnd"), flow.sender.window());
            put(format!("flow.{name}.in_flight"), flow.sender.in_flight() as f64);
            put(format!("flow.{name}.rto_ms"), millis(flow.sender.timeout()));
            put(format!("flow.{name}.recoveries"), flow.sender.counters().recoveries as f64);
            flow.sender.smoothed_rtt().into_iter().for_each(|rtt| put(format!("flow.{name}.srtt_ms"), millis(rtt)));
        }
        for (index, link) in links.iter().enumerate() {
            let (name, since) = (&link.name, now.1[index].counts.since(&self.before.1[index].counts));
            put(format!("link.{name}.backlog"), f64::from(link.queue.packets()));
            put(format!("link.{name}.sent_bps"), since.sent_bytes as f64 * 8.0 / span);
            put(format!("link.{name}.dropped"), since.all_dropped() as f64);
            link.queue.state(Instant::new(time), &mut |what, value| put(format!("link.{name}.state.{what}"), value));
        }
        (self.sampled, self.before) = (time, now);
    }

    /// Collects all results.
    pub fn finish(self, world: &WorldPlan, flows: &[Flow], links: &[Link]) -> Measurements {
        let end = world.duration.get();
        let span = (end - self.begun) as f64 / 1e9;
        let mut measured =
            Measurements { parameters: parameters(world), series: self.series, ..Measurements::default() };
        for (flow, mark) in flows.iter().zip(&self.flows) {
            report_flow(&mut measured, flow, mark, span, Instant::new(end));
        }
        for (link, mark) in links.iter().zip(&self.links) {
            report_link(&mut measured.values, link, mark, span);
        }
        measured
    }
}

fn millis(time: Nanos) -> f64 {
    time.get() as f64 / 1e6
}

/// The bits of a number of a flow's packets, with headers.
fn bits(packets: u64, flow: &Flow) -> f64 {
    packets as f64 * f64::from(flow.plan.packet) * 8.0
}

fn report_flow(measured: &mut Measurements, flow: &Flow, from: &FlowMark, span: f64, end: Instant) {
    let name = &flow.plan.name;
    let now = FlowMark::of(flow);
    let values = &mut measured.values;
    let mut put = |key: &str, value: f64| _ = values.insert(format!("flow.{name}.{key}"), value);
    let goodput = bits(now.acknowledged - from.acknowledged, flow) / span;
    put("goodput_bps", goodput);
    put("acknowledged", (now.acknowledged - from.acknowledged) as f64);
    put("restarts", (now.sender.restarts - from.sender.restarts) as f64);
    put("marked", (now.counts.marked - from.counts.marked) as f64);
    put("acks_dropped", (now.counts.acks_dropped - from.counts.acks_dropped) as f64);
    let dropped = now.counts.dropped.iter().zip(from.counts.dropped).map(|(now, then)| now - then);
    let dropped: Vec<u64> = dropped.collect();
    put("dropped", dropped.iter().sum::<u64>() as f64);
    for ((_, reason), count) in Fate::DROPS.iter().zip(dropped) {
        put(&format!("dropped.{reason}"), count as f64);
    }
    if let Some(mean) = flow.one_way.mean() {
        put("power", goodput / 1e6 / (mean / 1e9));
    }
    report_transport(name, (&now.sender, &from.sender), flow.smoothed.mean(end), values);
    flow.one_way.report_with_p95(&format!("flow.{name}.one_way"), values);
    report_transfers(name, &flow.application.completions()[from.transfers..], end, measured);
}

/// Reports what a sender has done since, and its round-trip times.
pub(super) fn report_transport(
    name: &str,
    (now, from): (&SenderCounters, &SenderCounters),
    smoothed: Option<(f64, u64)>,
    values: &mut BTreeMap<String, f64>,
) {
    let mut put = |key: &str, value: f64| _ = values.insert(format!("flow.{name}.{key}"), value);
    put("sent", (now.sent - from.sent) as f64);
    put("sent_again", (now.retransmitted - from.retransmitted) as f64);
    put("recoveries", (now.recoveries - from.recoveries) as f64);
    put("timeouts", (now.timeouts - from.timeouts) as f64);
    if let Some((seconds, looks)) = smoothed {
        put("srtt_mean_ms", seconds * 1e3);
        put("srtt_looks", looks as f64);
    }
}

/// Reports the durations of transfers.
pub(super) fn report_transfers(name: &str, transfers: &[Transfer], end: Instant, measured: &mut Measurements) {
    if transfers.is_empty() {
        return;
    }
    let times = |unfinished| {
        let mut times = FlowTimes::default();
        times.add(transfers, end, unfinished);
        times
    };
    let (all, done) = (times(true), times(false));
    let mut put = |key: &str, value: f64| _ = measured.values.insert(format!("flow.{name}.{key}"), value);
    put("transfers", all.count().0 as f64);
    put("transfers_unfinished", all.count().1 as f64);
    put("fct_mean_s", all.mean());
    for (key, part) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)] {
        let time = all.quantile(part).map_or(0.0, Nanos::as_secs_f64);
        put(&format!("fct_{key}_s"), time);
    }
    measured.samples.insert(format!("flow.{name}.fct_s"), all.seconds().collect());
    measured.samples.insert(format!("flow.{name}.fct_done_s"), done.seconds().collect());
}

fn report_link(values: &mut BTreeMap<String, f64>, link: &Link, from: &LinkMark, span: f64) {
    let name = &link.name;
    let now = LinkMark::of(link);
    let since = now.counts.since(&from.counts);
    let mut put = |key: &str, value: f64| _ = values.insert(format!("link.{name}.{key}"), value);
    put("offered", since.offered as f64);
    put("sent", since.sent as f64);
    put("sent_bps", since.sent_bytes as f64 * 8.0 / span);
    put("dropped", since.all_dropped() as f64);
    for ((_, reason), count) in Fate::DROPS.iter().zip(since.dropped) {
        put(&format!("dropped.{reason}"), count as f64);
    }
    put("marked", since.marked as f64);
    put("lost", since.lost as f64);
    put("duplicated", since.duplicated as f64);
    put("delivered", since.delivered as f64);
    put("waiting", f64::from(link.queue.packets()));
    put("waiting_max", f64::from(link.max_queued));
    if now.used + now.wasted > 0 {
        put("opportunities_used", (now.used - from.used) as f64);
        put("opportunities_wasted", (now.wasted - from.wasted) as f64);
    }
    link.sojourn.report_with_p95(&format!("link.{name}.sojourn"), values);
}
