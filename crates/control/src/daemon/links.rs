//! Reports about the links of all workers, with names instead of ids.

use super::report::{Answer, NoReport};
use super::{Daemon, REPORT_TIMEOUT};
use crate::api;
use io::clock;
use link::{EmulationStats, GroupReport, LinkReport, StateSeries};
use packet::DropReason;
use plane::{Command, LinksReport};
use std::sync::mpsc::channel;
use units::{Bytes, Nanos};

impl Daemon {
    /// Returns the links, or those of one port, with the latest `samples` of each. Workers that are stuck or have failed are missing.
    pub fn links(&self, port: Option<&str>, samples: usize) -> Answer<api::Links> {
        let wanted = port.map(|name| self.port_named(name)).transpose()?;
        let answering = self.responsive_workers();
        let (sender, receiver) = channel();
        {
            let control = self.control.lock();
            for worker in &answering {
                control.router.post_to(*worker, Command::Links(wanted, sender.clone()));
            }
        }
        drop(sender);
        let deadline = clock::now() + REPORT_TIMEOUT.into();
        let mut told: Vec<LinksReport> = Vec::new();
        while told.len() < answering.len() {
            // A worker that fails now drops its sender.
            let Ok(next) = receiver.recv_timeout(deadline.since(clock::now()).into()) else { break };
            told.push(next);
        }
        if told.is_empty() {
            return Err(NoReport.into());
        }
        let names = self.names();
        let snapshot = self.snapshot();
        let scheme = |report: &LinkReport| snapshot.port(report.port).map(|view| view.scheme.to_string());
        let each = told.iter().flat_map(|links| links.links.iter().map(|link| (links.worker, link)));
        let mut links: Vec<api::LinkReply> = each
            .map(|(worker, report)| api::LinkReply {
                port: names.port(report.port),
                worker: worker.0,
                scheme: scheme(report).unwrap_or_default(),
                series: series(report, samples, self.epoch),
                ..link(report)
            })
            .collect();
        links.sort_by(|a, b| (&a.port, a.worker).cmp(&(&b.port, b.worker)));
        Ok(api::Links { time_ns: self.now_ns(), links })
    }
}

fn link(report: &LinkReport) -> api::LinkReply {
    api::LinkReply {
        port: String::new(),
        worker: 0,
        scheme: String::new(),
        version: report.version,
        put_aside: report.panic_message.clone(),
        counters: api::CounterFields(report.counters),
        backlog_packets: report.packets.into(),
        backlog_bytes: report.bytes.get(),
        handler_ns: report.used.get(),
        handler_packets: report.moved,
        sojourn: api::LatencyReply::of(&report.sojourn),
        drops: drops(&report.drops),
        groups: report.groups.iter().map(group).collect(),
        longest: report.longest.iter().map(|queue| longest(queue, &report.groups)).collect(),
        series: api::LinkSeries::default(),
        emulated: report.emulated.as_ref().map(emulated),
    }
}

fn emulated(emulated: &EmulationStats) -> api::EmulatedLink {
    let (used, unused) = emulated.opportunities;
    api::EmulatedLink {
        link: emulated.link.clone(),
        under_way_packets: emulated.in_flight,
        arrived_packets: emulated.arrived,
        lost_packets: emulated.lost,
        doubled_packets: emulated.duplicated,
        late_packets: emulated.late,
        late_p99_ns: emulated.late_p99.get(),
        late_max_ns: emulated.late_most.get(),
        missed_packets: emulated.missed,
        missed_ns: emulated.missed_time.get(),
        opportunities_used: used,
        opportunities_unused: unused,
        trace_ended: emulated.failed,
    }
}

fn drops(drops: &[(DropReason, u64)]) -> Vec<api::LinkDrop> {
    drops.iter().map(|&(reason, packets)| api::LinkDrop { reason: reason.name().into(), packets }).collect()
}

fn group(group: &GroupReport) -> api::QueueGroup {
    let (sent, backlog) = (group.sojourn.count(), u64::from(group.packets));
    let dropped = group.drops.iter().map(|(_, packets)| packets).sum();
    api::QueueGroup {
        name: group.name.clone(),
        queues: group.queues.1,
        arrived_packets: sent + dropped + backlog,
        sent_packets: sent,
        dropped_packets: dropped,
        drops: drops(&group.drops),
        marked_packets: group.marked,
        collided_packets: group.collided,
        backlog_packets: backlog,
        backlog_bytes: group.bytes.get(),
        sojourn: api::LatencyReply::of(&group.sojourn),
        state: group.state.iter().map(|&(name, value)| api::StateValue { name: name.into(), value }).collect(),
    }
}

fn longest(queue: &link::QueueLength, groups: &[GroupReport]) -> api::LongQueue {
    // While a previous scheme drains, its groups come first, and the queues belong to it.
    let of = groups.iter().find(|group| (queue.queue.0.wrapping_sub(group.queues.0.0)) < group.queues.1);
    api::LongQueue {
        queue: queue.queue.0,
        group: of.map_or_else(String::new, |group| group.name.clone()),
        packets: queue.packets.into(),
        bytes: queue.bytes.get(),
    }
}

fn series(report: &LinkReport, most: usize, epoch: Nanos) -> api::LinkSeries {
    let samples = latest(&report.samples, most);
    let of = |value: fn(&link::LinkSample) -> u64| samples.iter().map(value).collect();
    let state = |state: &StateSeries| api::StateSeriesReply {
        group: state.group.clone(),
        name: state.name.into(),
        values: latest(&state.values, most).iter().map(|value| value.is_finite().then_some(*value)).collect(),
    };
    api::LinkSeries {
        time_ns: samples.iter().map(|sample| (sample.time + epoch).get()).collect(),
        backlog_packets: of(|sample| sample.packets.into()),
        backlog_bytes: of(|sample| Bytes::get(sample.bytes)),
        most_packets: of(|sample| sample.most.into()),
        sent_packets: of(|sample| sample.sent),
        mean_sojourn_ns: of(|sample| sample.mean.get()),
        max_sojourn_ns: of(|sample| sample.longest.get()),
        state: report.states.iter().map(state).collect(),
    }
}

/// Returns at most this many of the last elements of a list.
fn latest<T>(list: &[T], most: usize) -> &[T] {
    &list[list.len().saturating_sub(most)..]
}
