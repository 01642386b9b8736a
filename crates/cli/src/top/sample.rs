//! Samples of the router's state, and the rates between two of them.

use crate::stats;
use control::api::{
    Drops, EventReply, Events, LatencyReply, LinkReply, Links, Paths, Ports, StateValue, Status, TasksReply,
};
use control::{Client, ClientError};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The number of points in the graphs.
const HISTORY: usize = 240;
/// The number of events kept.
const EVENTS: usize = 100;

/// The router's answers at one moment.
#[derive(Clone, Debug)]
pub struct TopSample {
    pub status: Status,
    pub ports: Ports,
    pub links: Links,
    pub paths: Paths,
    pub tasks: TasksReply,
    pub drops: Drops,
    /// Events since the previous sample.
    pub events: Events,
}

impl TopSample {
    /// Asks the router for a sample. Its events are those not known yet; all of them if the router has been restarted.
    pub fn ask(client: &Client, known: SampleCursor) -> Result<TopSample, ClientError> {
        let status: Status = client.get("/v1/status")?;
        let since = if known.started_ns == status.started_ns { known.next_event } else { 0 };
        Ok(TopSample {
            status,
            ports: client.get("/v1/ports")?,
            links: client.get("/v1/links")?,
            paths: client.get("/v1/paths")?,
            tasks: client.get("/v1/tasks")?,
            drops: client.get("/v1/drops")?,
            events: client.get(&format!("/v1/events?since={since}"))?,
        })
    }
}

/// The router of the previous sample, and the events known of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleCursor {
    /// Its start time.
    pub started_ns: u64,
    /// The number of the first unknown event.
    pub next_event: u64,
}

/// Packets and bits a second in both directions, and drops a second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Rates {
    pub received_pps: f64,
    pub sent_pps: f64,
    pub received_bps: f64,
    pub sent_bps: f64,
    pub dropped_pps: f64,
}

/// The line of a port.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PortLine {
    pub name: String,
    pub device: String,
    pub up: bool,
    pub closing: bool,
    #[serde(flatten)]
    pub rates: Rates,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
    pub dropped_packets: u64,
    /// The 99th percentile of sojourn times at the link since the previous sample; none without packets.
    pub p99_sojourn_ns: Option<u64>,
    /// The largest backlog in each tenth of a second, the latest last.
    #[serde(skip)]
    pub backlog_series: Vec<u64>,
}

/// The line of a link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkLine {
    /// Its port; with several workers also the worker, after a slash.
    pub name: String,
    pub scheme: String,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
    /// The median and the 99th percentile of sojourn times since the previous sample.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub dropped_pps: f64,
    pub marked_pps: f64,
    pub passed_pps: f64,
    /// Drops a second by reason.
    pub drops: Vec<(String, f64)>,
    pub queues: Vec<QueuesLine>,
    /// The largest backlog in each tenth of a second, the latest last; and the longest sojourn time of a sent packet.
    pub backlog_series: Vec<u64>,
    pub sojourn_series_ns: Vec<u64>,
}

/// The line of a queue group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueuesLine {
    pub name: String,
    pub backlog_packets: u64,
    pub p99_ns: Option<u64>,
    pub dropped_pps: f64,
    pub state: Vec<StateValue>,
}

/// The line of a path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PathLine {
    pub name: String,
    pub functions: String,
    pub entered_pps: f64,
    /// The part of a core that its tasks used, 1 for a whole core. Paths that share a task share its value.
    pub cpu: f64,
    pub dropped_pps: f64,
    pub dropped_packets: u64,
    pub queued_packets: u64,
    /// The 99th percentile of latencies since the previous sample; none without packets.
    pub p99_ns: Option<u64>,
    /// Packets a second that exceeded the promised latency.
    pub late_pps: f64,
}

/// The line of a drop reason.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DropLine {
    pub reason: String,
    pub explanation: String,
    pub packets: u64,
    /// Drops since the previous sample.
    pub new_packets: u64,
    pub dropped_pps: f64,
    /// The ports, and the drops of each.
    pub places: String,
}

/// All values of the view, for programs.
// Large: a field for each answer of the API that the screen shows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TopSnapshot {
    pub time_ns: u64,
    pub name: String,
    pub generation: u64,
    pub uptime_ns: u64,
    pub balanced: bool,
    pub held_packets: u64,
    pub frames: u64,
    pub frames_spare: u64,
    pub routes: u64,
    pub neighbours: u64,
    pub total: Rates,
    pub workers: Vec<WorkerLine>,
    pub ports: Vec<PortLine>,
    pub links: Vec<LinkLine>,
    pub paths: Vec<PathLine>,
    pub drops: Vec<DropLine>,
}

/// The line of a worker.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct WorkerLine {
    pub worker: u16,
    /// The part of its time spent on tasks, from 0 to 1.
    pub busy: f64,
    /// The efficiency index: the part of its time in which it moved packets; the second value counts empty polls as work.
    pub efficiency: Option<f64>,
    pub efficiency_literal: Option<f64>,
}

impl TopSnapshot {
    /// Returns the values of the latest sample; none without samples.
    pub fn of(samples: &Samples) -> Option<TopSnapshot> {
        let TopSample { status, ports, .. } = samples.now()?;
        Some(TopSnapshot {
            time_ns: ports.time_ns,
            name: status.name.clone(),
            generation: status.generation,
            uptime_ns: status.uptime_ns,
            balanced: status.balanced,
            held_packets: status.held_packets,
            frames: status.frames,
            frames_spare: status.frames_spare,
            routes: status.routes,
            neighbours: status.neighbours,
            total: samples.total(),
            workers: samples.busy().into_iter().map(|line| worker_line(samples, line)).collect(),
            ports: samples.ports(),
            links: samples.links(),
            paths: samples.paths(),
            drops: samples.drops(),
        })
    }
}

fn worker_line(samples: &Samples, (worker, busy): (u16, f64)) -> WorkerLine {
    let efficiency = samples.efficiency(worker);
    WorkerLine {
        worker,
        busy,
        efficiency: efficiency.map(|both| both.0),
        efficiency_literal: efficiency.map(|both| both.1),
    }
}

/// The samples so far.
#[derive(Default)]
pub struct Samples {
    now: Option<TopSample>,
    before: Option<TopSample>,
    /// Packets received per second; the latest last.
    pub packets: VecDeque<u64>,
    /// Drops per second; the latest last.
    pub drops: VecDeque<u64>,
    /// The latest first.
    pub events: VecDeque<EventReply>,
}

impl Samples {
    /// Adds a sample. Samples of a router that has been replaced are discarded.
    pub fn add(&mut self, sample: TopSample) {
        if self.now.as_ref().is_some_and(|now| now.status.started_ns != sample.status.started_ns) {
            *self = Samples::default();
        }
        for event in &sample.events.events {
            self.events.push_front(event.clone());
        }
        self.events.truncate(EVENTS);
        self.before = self.now.replace(sample);
        if self.before.is_some() {
            let rates = self.total();
            push_history(&mut self.packets, rates.received_pps);
            push_history(&mut self.drops, rates.dropped_pps);
        }
    }

    /// Returns the state that need not be requested again.
    pub fn cursor(&self) -> SampleCursor {
        let known = |now: &TopSample| SampleCursor { started_ns: now.status.started_ns, next_event: now.events.next };
        self.now.as_ref().map_or_else(SampleCursor::default, known)
    }

    /// Returns the latest sample.
    pub fn now(&self) -> Option<&TopSample> {
        self.now.as_ref()
    }

    /// Returns the rate of a counter between two readings; 0 if one is missing.
    fn counter_rate(now: (u64, u64), before: Option<(u64, u64)>) -> f64 {
        match before {
            Some((count, time)) if time < now.1 => now.0.saturating_sub(count) as f64 * 1e9 / (now.1 - time) as f64,
            _ => 0.0,
        }
    }

    /// Returns the lines of the ports, with their rates.
    pub fn ports(&self) -> Vec<PortLine> {
        let Some(now) = &self.now else { return Vec::new() };
        let time = now.ports.time_ns;
        let line = |port: &control::api::PortReply| {
            let old = self.before.as_ref().map(|sample| &sample.ports);
            let old = old.and_then(|old| Some((old.ports.iter().find(|p| p.name == port.name)?, old.time_ns)));
            let grew = |count: fn(&control::api::PortReply) -> u64| {
                Self::counter_rate((count(port), time), old.map(|(port, time)| (count(port), time)))
            };
            let dropped = |port: &control::api::PortReply| port.drops.iter().map(|drop| drop.packets).sum();
            PortLine {
                name: port.name.clone(),
                device: port.device.clone(),
                up: port.up,
                closing: port.closing,
                rates: Rates {
                    received_pps: grew(|p| p.counters.received),
                    sent_pps: grew(|p| p.link.sent),
                    received_bps: grew(|p| p.counters.received_bytes) * 8.0,
                    sent_bps: grew(|p| p.link.sent_bytes) * 8.0,
                    dropped_pps: grew(dropped),
                },
                backlog_packets: port.backlog_packets,
                backlog_bytes: port.backlog_bytes,
                dropped_packets: dropped(port),
                p99_sojourn_ns: self
                    .links_of(&port.name)
                    .filter_map(|(link, old)| sojourn_percentile(link, old, 990))
                    .max(),
                backlog_series: self.links_of(&port.name).fold(Vec::new(), |sum, (link, _)| summed(sum, link)),
            }
        };
        now.ports.ports.iter().map(line).collect()
    }

    /// Returns the links of a port, each with its previous state.
    fn links_of(&self, port: &str) -> impl Iterator<Item = (&LinkReply, Option<&LinkReply>)> {
        let links = self.now.iter().flat_map(|now| &now.links.links).filter(move |link| link.port == port);
        links.map(|link| (link, self.before.as_ref().and_then(|before| stats::find_link(&before.links.links, link))))
    }

    /// Returns the lines of the links, with their rates.
    pub fn links(&self) -> Vec<LinkLine> {
        let Some(now) = &self.now else { return Vec::new() };
        let several = now.links.links.iter().any(|link| link.worker > 0);
        let line = |link: &LinkReply| {
            let old = self.before.as_ref();
            let old = old.and_then(|old| Some((stats::find_link(&old.links.links, link)?, old.links.time_ns)));
            let rate = |count: u64, old: Option<u64>| {
                Self::counter_rate((count, now.links.time_ns), old.zip(self.links_before()))
            };
            let grew = |count: fn(&LinkReply) -> u64| rate(count(link), old.map(|(old, _)| count(old)));
            let drop = |drop: &control::api::LinkDrop| {
                let known =
                    |old: &LinkReply| old.drops.iter().find(|d| d.reason == drop.reason).map_or(0, |d| d.packets);
                (drop.reason.clone(), rate(drop.packets, old.map(|(old, _)| known(old))))
            };
            let queues = |group: &control::api::QueueGroup| {
                let old = old.and_then(|(old, _)| stats::find_group(old, group));
                QueuesLine {
                    name: group.name.clone(),
                    backlog_packets: group.backlog_packets,
                    p99_ns: recent_percentile(group.sojourn.as_ref(), old.and_then(|old| old.sojourn.as_ref()), 990),
                    dropped_pps: rate(group.dropped_packets, old.map(|old| old.dropped_packets)),
                    state: group.state.clone(),
                }
            };
            let before = old.map(|(old, _)| old);
            LinkLine {
                name: if several { format!("{}/{}", link.port, link.worker) } else { link.port.clone() },
                scheme: match &link.put_aside {
                    None => link.scheme.clone(),
                    Some(_) => format!("{} (disabled: it panicked)", link.scheme),
                },
                backlog_packets: link.backlog_packets,
                backlog_bytes: link.backlog_bytes,
                p50_ns: sojourn_percentile(link, before, 500),
                p99_ns: sojourn_percentile(link, before, 990),
                dropped_pps: grew(|link| link.counters.dropped),
                marked_pps: grew(|link| link.counters.marked),
                passed_pps: grew(|link| link.counters.passed),
                drops: link.drops.iter().map(drop).collect(),
                queues: link.groups.iter().map(queues).collect(),
                backlog_series: link.series.most_packets.clone(),
                sojourn_series_ns: link.series.max_sojourn_ns.clone(),
            }
        };
        now.links.links.iter().map(line).collect()
    }

    /// Returns the time of the previous link sample.
    fn links_before(&self) -> Option<u64> {
        Some(self.before.as_ref()?.links.time_ns)
    }

    /// Returns the lines of the paths, with their rates.
    pub fn paths(&self) -> Vec<PathLine> {
        let Some(now) = &self.now else { return Vec::new() };
        let time = now.paths.time_ns;
        let line = |path: &control::api::Path| {
            let old = self.before.as_ref().map(|sample| &sample.paths);
            let old = old.and_then(|old| Some((old.paths.iter().find(|p| p.name == path.name)?, old.time_ns)));
            let grew = |count: fn(&control::api::Path) -> u64| {
                Self::counter_rate((count(path), time), old.map(|(path, time)| (count(path), time)))
            };
            PathLine {
                name: path.name.clone(),
                functions: path.functions.join(" "),
                entered_pps: grew(|p| p.counters.entered),
                cpu: self
                    .cpu(|task| task.path.as_deref().is_some_and(|paths| paths.split(',').any(|p| p == path.name))),
                dropped_pps: grew(|p| p.counters.dropped),
                dropped_packets: path.counters.dropped,
                queued_packets: path.queued_packets,
                p99_ns: path
                    .latency
                    .as_ref()
                    .and_then(|latency| latency.recent_quantile_ns(old.and_then(|(old, _)| old.latency.as_ref()), 990)),
                late_pps: grew(|p| p.late_packets),
            }
        };
        now.paths.paths.iter().map(line).collect()
    }

    /// Returns the lines of the drop reasons.
    pub fn drops(&self) -> Vec<DropLine> {
        let Some(now) = &self.now else { return Vec::new() };
        let time = now.drops.time_ns;
        let line = |drop: &control::api::Drop| {
            let old = self.before.as_ref().map(|sample| &sample.drops);
            let count = |old: &Drops| old.drops.iter().find(|d| d.reason == drop.reason).map_or(0, |d| d.packets);
            let old = old.map(|old| (count(old), old.time_ns));
            let places: Vec<String> = drop.ports.iter().map(|at| format!("{} {}", at.port, at.packets)).collect();
            DropLine {
                reason: drop.reason.clone(),
                explanation: drop.explanation.clone(),
                packets: drop.packets,
                new_packets: old.map_or(0, |(count, _)| drop.packets.saturating_sub(count)),
                dropped_pps: Self::counter_rate((drop.packets, time), old),
                places: places.join(", "),
            }
        };
        now.drops.drops.iter().map(line).collect()
    }

    /// Returns the rates of all ports together, and the rate of all drops.
    pub fn total(&self) -> Rates {
        let mut total = Rates::default();
        for PortLine { rates, .. } in self.ports() {
            total.received_pps += rates.received_pps;
            total.sent_pps += rates.sent_pps;
            total.received_bps += rates.received_bps;
            total.sent_bps += rates.sent_bps;
        }
        total.dropped_pps = self.drops().iter().map(|drop| drop.dropped_pps).sum();
        total
    }

    /// Returns the part of a core that these tasks used together.
    fn cpu(&self, of: impl Fn(&control::api::Task) -> bool) -> f64 {
        let used =
            |tasks: &TasksReply| tasks.tasks.iter().filter(|task| of(task)).map(|task| task.used_ns).sum::<u64>();
        let Some(now) = &self.now else { return 0.0 };
        let old = self.before.as_ref().map(|sample| (used(&sample.tasks), sample.tasks.time_ns));
        Self::counter_rate((used(&now.tasks), now.tasks.time_ns), old) / 1e9
    }

    /// Returns the efficiency index of a worker between two samples, and the index that counts empty polls as work; none if it did nothing.
    pub fn efficiency(&self, worker: u16) -> Option<(f64, f64)> {
        let of = |sample: &TopSample| sample.tasks.cores.iter().find(|core| core.worker == worker).cloned();
        let mut core = of(self.now.as_ref()?)?;
        if let Some(before) = self.before.as_ref().and_then(of) {
            core.useful_ns = core.useful_ns.saturating_sub(before.useful_ns);
            core.polling_ns = core.polling_ns.saturating_sub(before.polling_ns);
            core.switching_ns = core.switching_ns.saturating_sub(before.switching_ns);
        }
        core.efficiency().zip(core.efficiency_literal())
    }

    /// Returns the load of each worker from 0 to 1, by its number.
    pub fn busy(&self) -> BTreeMap<u16, f64> {
        let Some(now) = &self.now else { return BTreeMap::new() };
        let used = |tasks: &TasksReply| {
            let mut used: BTreeMap<u16, u64> = BTreeMap::new();
            tasks.tasks.iter().for_each(|task| *used.entry(task.worker).or_default() += task.used_ns);
            used
        };
        let before = self.before.as_ref().map(|sample| (used(&sample.tasks), sample.tasks.time_ns));
        let share = |(worker, ns): (u16, u64)| {
            let old = before.as_ref().map(|(used, time)| (used.get(&worker).copied().unwrap_or(0), *time));
            (worker, (Self::counter_rate((ns, now.tasks.time_ns), old) / 1e9).min(1.0))
        };
        used(&now.tasks).into_iter().map(share).collect()
    }
}

/// Returns a percentile of sojourn times at a link since the previous sample.
fn sojourn_percentile(link: &LinkReply, before: Option<&LinkReply>, thousandths: u64) -> Option<u64> {
    recent_percentile(link.sojourn.as_ref(), before.and_then(|before| before.sojourn.as_ref()), thousandths)
}

fn recent_percentile(now: Option<&LatencyReply>, before: Option<&LatencyReply>, thousandths: u64) -> Option<u64> {
    now?.recent_quantile_ns(before, thousandths)
}

/// Adds the backlog series of several workers' links, the latest last.
fn summed(mut sum: Vec<u64>, link: &LinkReply) -> Vec<u64> {
    let series = &link.series.most_packets;
    if sum.len() < series.len() {
        sum.splice(0..0, std::iter::repeat_n(0, series.len() - sum.len()));
    }
    sum.iter_mut().rev().zip(series.iter().rev()).for_each(|(sum, packets)| *sum += packets);
    sum
}

fn push_history(history: &mut VecDeque<u64>, value: f64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value as u64);
}
