//! Exports all counters in the OpenMetrics text format, for Prometheus. Ports, paths and drop reasons are labels, under their usual names.

mod ephemeral;
mod format;
mod shares;

use crate::api::{
    ApiError, CoreReply, LatencyReply, LinkReply, ObjectiveReply, Path, PortPolicy, PortReply, QueueGroup, QueueReply,
    QueueStage, RelayCounters, Task, TasksReply, WorkerReply, WorkerState,
};
use crate::daemon::Daemon;
pub(crate) use format::Format;
use plan::Receive;
use plane::multicast::GroupCounters;
use plane::punt::PuntCounters;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;
use units::CounterSet;

/// The labels that distinguish the values of a metric.
trait Labels: EncodeLabelSet + Clone + Eq + std::hash::Hash + Send + Sync + std::fmt::Debug + 'static {}
impl<T: EncodeLabelSet + Clone + Eq + std::hash::Hash + Send + Sync + std::fmt::Debug + 'static> Labels for T {}

type PortLabel = [(&'static str, String); 1];
type DropLabels = [(&'static str, String); 2];

/// The name in base units, as Prometheus wants it, of a metric with the unit of the API in its name, and the factor between both. None if the unit
/// is the same.
fn base_unit(name: &str) -> Option<(String, f64)> {
    let in_base = |suffix: &str, base: &str, divisor: f64| {
        name.strip_suffix(suffix).map(|stem| (format!("{stem}{base}"), divisor))
    };
    in_base("_ns", "_seconds", 1e9).or_else(|| in_base("_ppm", "_ratio", 1e6)).or_else(|| in_base("_milli", "", 1e3))
}

fn counter<L: Labels>(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (L, u64)>) {
    let help = help.trim_end_matches('.');
    if let Some((name, divisor)) = base_unit(name) {
        let family: Family<L, Counter<f64, AtomicU64>> = Family::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value as f64 / divisor);
        }
        registry.register(name, help, family);
    } else {
        let family: Family<L, Counter> = Family::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        registry.register(name, help, family);
    }
}

fn gauge<L: Labels>(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (L, u64)>) {
    let help = help.trim_end_matches('.');
    if let Some((name, divisor)) = base_unit(name) {
        let family: Family<L, Gauge<f64, AtomicU64>> = Family::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value as f64 / divisor);
        }
        registry.register(name, help, family);
    } else {
        let family: Family<L, Gauge<u64, AtomicU64>> = Family::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        registry.register(name, help, family);
    }
}

/// Registers all counters of a set, each under `prefix` and its declared name.
fn counter_set<L: Labels, T: CounterSet>(registry: &mut Registry, prefix: &str, counted: &[(L, T)]) {
    for (place, declaration) in T::COUNTERS.iter().enumerate() {
        let value = |set: &T| set.values().nth(place).unwrap_or_default();
        let values = counted.iter().map(|(labels, set)| (labels.clone(), value(set)));
        counter(registry, &format!("{prefix}_{}", declaration.name), declaration.help, values);
    }
}

/// A histogram.
#[derive(Debug)]
struct LabelledHistogram<L> {
    labels: L,
    sum: f64,
    count: u64,
    /// The bounds of the buckets, and the count of each.
    buckets: Vec<(f64, u64)>,
}

/// Histograms with the same name.
#[derive(Debug)]
struct Histograms<L>(Vec<LabelledHistogram<L>>);

impl<L: Labels> EncodeMetric for Histograms<L> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for LabelledHistogram { labels, sum, count, buckets } in &self.0 {
            encoder.encode_family(labels)?.encode_histogram::<[(&str, String); 1]>(*sum, *count, buckets, None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl<L> LabelledHistogram<L> {
    fn of(labels: L, latency: &LatencyReply) -> LabelledHistogram<L> {
        LabelledHistogram::with_bounds(labels, latency, bounds())
    }

    fn with_bounds(labels: L, latency: &LatencyReply, bounds: impl Iterator<Item = u64>) -> LabelledHistogram<L> {
        let mut counted = latency.buckets.iter().peekable();
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        for bound in bounds {
            let mut packets = 0;
            while let Some(bucket) = counted.next_if(|bucket| bucket.most_ns <= bound) {
                packets += bucket.packets;
            }
            buckets.push((bound as f64 / 1e9, packets));
        }
        buckets.push((f64::MAX, counted.map(|bucket| bucket.packets).sum()));
        LabelledHistogram { labels, sum: latency.sum_ns as f64 / 1e9, count: latency.packets, buckets }
    }
}

/// Bounds of the buckets of latencies: 1, 2, 5 of each decade from a microsecond to a second.
fn bounds() -> impl Iterator<Item = u64> {
    let decades = (3..9).map(|exponent| 10u64.pow(exponent));
    decades.flat_map(|decade| [1, 2, 5].map(|n| n * decade)).chain([1_000_000_000])
}

fn latencies(paths: &[Path], r: &mut Registry) {
    let mut rows = Vec::new();
    for path in paths {
        let stages = [("before", &path.waited_before), ("behind", &path.waited_behind), ("total", &path.latency)];
        for (stage, latency) in stages.into_iter().filter_map(|(stage, latency)| Some((stage, latency.as_ref()?))) {
            let labels = [("path", path.name.clone()), ("class", path.class.to_string()), ("stage", stage.to_owned())];
            rows.push(LabelledHistogram::of(labels, latency));
        }
    }
    let help = "Latency of packets: before their functions, from there to transmission, and in total";
    r.register("path_latency_seconds", help, Histograms(rows));
}

/// Returns the page of a scrape.
pub(crate) fn page(daemon: &Daemon) -> Result<String, ApiError> {
    let mut registry = Registry::with_prefix("switchpath");
    let r = &mut registry;
    router(daemon, r)?;
    ports(daemon, r)?;
    links(&daemon.links(None, 0)?.links, r);
    policies(daemon, r)?;
    multicast(daemon, r)?;
    punt(daemon, r);
    paths(daemon, r)?;
    scheduling(&daemon.tasks()?, r);
    queues(daemon, r)?;
    ephemeral::register(&daemon.ephemeral()?, r);
    workers(daemon, r);
    shares::register(daemon, r)?;
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string does not fail");
    Ok(text)
}

/// Registers the measurements of the CPU scheduler (spec Q-56), as sums where possible, so that two scrapes give the mean over any time.
fn scheduling(tasks: &TasksReply, r: &mut Registry) {
    let label = |t: &Task| {
        let name = [t.path.as_deref(), t.port.as_deref()].into_iter().flatten().collect::<Vec<_>>().join("@");
        [("worker", t.worker.to_string()), ("kind", t.kind.clone()), ("of", name)]
    };
    let of = |value: fn(&Task) -> u64| tasks.tasks.iter().map(move |t| (label(t), value(t))).collect::<Vec<_>>();
    let some = |value: fn(&Task) -> Option<u64>| {
        tasks.tasks.iter().filter_map(move |t| Some((label(t), value(t)?))).collect::<Vec<_>>()
    };
    counter(r, "task_used_ns", "Time charged to a task.", of(|t| t.used_ns));
    counter(r, "task_runs", "Dispatches of a task.", of(|t| t.runs));
    counter(r, "task_packets", "Packets a task moved.", of(|t| t.packets));
    counter(r, "task_timeouts", "Runs of a task started by its time-out.", of(|t| t.timeouts));
    counter(r, "task_harvested", "Runs of a task started because the core was idle otherwise.", of(|t| t.harvested));
    gauge(r, "task_share_ppm", "Reserved share of the core.", of(|t| t.share_ppm.into()));
    gauge(r, "task_cost_ns", "Mean cost of a packet.", of(|t| t.cost_ns));
    gauge(r, "task_cost_deviation_ns", "Standard deviation of the cost of a packet.", of(|t| t.deviation_ns));
    let exceeds = of(|t| t.exceeds_declared_cost.into());
    gauge(r, "task_exceeds_declared_cost", "1 if a packet costs over a tenth more than declared.", exceeds);
    gauge(r, "task_batch_packets", "Packets a task waits for (B).", of(|t| t.batch.into()));
    gauge(r, "task_max_wait_ns", "Longest wait for a full batch (D).", some(|t| t.max_wait_ns));
    gauge(r, "task_most_lag_ns", "Longest time a task was runnable without running.", of(|t| t.lag_ns));
    gauge(r, "task_sleep_ns", "Sleep between runs of an input task with an estimator.", some(|t| t.sleeps_ns));
    let finds = some(|t| t.polls_find_milli);
    gauge(r, "task_packets_per_run_milli", "Mean packets per run of an input task with an estimator.", finds);
    let states = |t: &Task| {
        [("idle", t.idle_ns), ("eligible", t.eligible_ns), ("active", t.active_ns), ("running", t.running_ns)]
    };
    let states = tasks.tasks.iter().flat_map(|t| {
        let [worker, kind, of] = label(t);
        states(t).map(|(state, ns)| ([worker.clone(), kind.clone(), of.clone(), ("state", state.to_owned())], ns))
    });
    counter(r, "task_state_ns", "Time a task was in each state.", states);
    let parts = |c: &CoreReply| [("useful", c.useful_ns), ("polling", c.polling_ns), ("switching", c.switching_ns)];
    let spent = tasks
        .cores
        .iter()
        .flat_map(|c| parts(c).map(|(on, ns)| ([("worker", c.worker.to_string()), ("on", on.to_owned())], ns)));
    counter(r, "cpu_spent_ns", "Time of a worker spent moving packets, polling in vain, and switching.", spent);
    let worker = |value: fn(&CoreReply) -> Option<u64>| {
        let value = move |c: &CoreReply| Some(([("worker", c.worker.to_string())], value(c)?));
        tasks.cores.iter().filter_map(value).collect::<Vec<_>>()
    };
    let useful = worker(|c| c.efficiency().map(|part| (part * 1e6).round() as u64));
    gauge(r, "cpu_efficiency_ppm", "Part of the spent time that moved packets, since the start.", useful);
    let literal = worker(|c| c.efficiency_literal().map(|part| (part * 1e6).round() as u64));
    gauge(r, "cpu_efficiency_literal_ppm", "The same, with empty polls counted as work.", literal);
    let interrupts = worker(|c| Some((c.receive == Receive::Interrupt.name()).into()));
    gauge(r, "cpu_receives_by_interrupt", "1 if packets are received before all other work.", interrupts);
    gauge(r, "cpu_switch_cost_ns", "Cost of a switch between tasks.", worker(|c| Some(c.switch_cost_ns)));
    let overhead = worker(|c| c.overhead_ppm.map(u64::from));
    gauge(r, "cpu_throttle_overhead_ppm", "Bound of switching overhead relative to the work (T).", overhead);
    gauge(r, "cpu_throttle_slice_ns", "Longest run of a throttled task (G).", worker(|c| c.slice_ns));
}

/// Registers the present and past lengths of path input queues.
fn queues(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let queues = daemon.queues()?.queues;
    let label = |queue: &QueueReply| {
        let of = |name: &Option<String>| name.clone().unwrap_or_default();
        [("worker", queue.worker.to_string()), ("path", of(&queue.path)), ("port", of(&queue.port))]
    };
    let of = |value: fn(&QueueReply) -> Option<u64>| {
        let before = queues.iter().filter(|queue| queue.stage == QueueStage::Input);
        before.filter_map(move |queue| Some((label(queue), value(queue)?))).collect::<Vec<_>>()
    };
    gauge(r, "queue_packets", "Packets in the input queue of a path.", of(|q| Some(q.packets)));
    gauge(r, "queue_capacity_packets", "Capacity of the input queue.", of(|q| q.capacity_packets));
    gauge(r, "queue_most_packets", "Largest queue length at the start of a run.", of(|q| q.most_packets));
    let sum = of(|q| q.seen_packets);
    counter(r, "queue_seen_packets", "Sum of the queue lengths at the start of each run.", sum);
    counter(r, "queue_looks", "Number of these runs; seen divided by looks is the mean length.", of(|q| q.looks));
    Ok(())
}

fn router(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let status = daemon.status()?;
    gauge(r, "info", "The running version.", [([("version", status.version)], 1)]);
    for (name, help, value) in [
        ("generation", "The generation of the running configuration", status.generation),
        ("frames", "Frames of the pool", status.frames),
        ("frames_spare", "Free frames", status.frames_spare),
        ("held_packets", "Packets in queues", status.held_packets),
        ("routes", "Routes", status.routes),
        ("neighbours", "Neighbours", status.neighbours),
        ("ledger_balanced", "1 if every packet has met one fate", status.balanced.into()),
    ] {
        let gauge: Gauge<u64, AtomicU64> = Gauge::default();
        gauge.set(value);
        r.register(name, help, gauge);
    }
    let uptime: Gauge<f64, AtomicU64> = Gauge::default();
    uptime.set(status.uptime_ns as f64 / 1e9);
    r.register("uptime_seconds", "The time since the start", uptime);
    let total = daemon.ledger()?.total;
    let fates = [
        ("received", total.received_packets),
        ("generated", total.generated_packets),
        ("sent", total.sent_packets),
        ("consumed", total.consumed_packets),
        ("dropped", total.dropped_packets),
    ];
    let fates = fates.into_iter().map(|(fate, n)| ([("fate", fate.to_owned())], n));
    counter(r, "packets", "Packets by fate.", fates);
    let drops = daemon.drops()?.drops;
    counter(
        r,
        "drops",
        "Packets dropped, by reason.",
        drops.iter().map(|d| ([("reason", d.reason.clone())], d.packets)),
    );
    Ok(())
}

fn ports(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let ports = daemon.ports()?.ports;
    let of = |value: fn(&PortReply) -> u64| {
        let label = |port: &PortReply| -> PortLabel { [("port", port.name.clone())] };
        ports.iter().map(move |port| (label(port), value(port))).collect::<Vec<_>>()
    };
    gauge(r, "port_up", "1 if the link is up.", of(|p| p.up.into()));
    let label = |port: &PortReply| -> PortLabel { [("port", port.name.clone())] };
    counter_set(r, "port", &ports.iter().map(|port| (label(port), port.counters.0)).collect::<Vec<_>>());
    counter_set(r, "port", &ports.iter().map(|port| (label(port), port.link.0)).collect::<Vec<_>>());
    counter_set(r, "port", &ports.iter().map(|port| (label(port), port.route_cache.0)).collect::<Vec<_>>());
    counter_set(r, "port", &ports.iter().map(|port| (label(port), port.dfq_counters.0)).collect::<Vec<_>>());
    let is_multiplexed = |port: &PortReply| port.dfq_wire.as_ref().is_some_and(|wire| wire.state == "multiplexed");
    let wires = ports.iter().filter(|port| port.dfq_wire.is_some());
    let wires = wires.map(|port| (label(port), u64::from(is_multiplexed(port)))).collect::<Vec<_>>();
    gauge(r, "port_dfq_multiplexed", "1 if frames travel in batches of quanta.", wires);
    gauge(r, "port_backlog_packets", "Packets queued at the link.", of(|p| p.backlog_packets));
    gauge(r, "port_backlog_bytes", "Bytes queued at the link.", of(|p| p.backlog_bytes));
    let lost =
        |p: &PortReply| [("receive", p.counters.lost_before_receive), ("transmit", p.counters.lost_after_transmit)];
    let lost = ports.iter().flat_map(|port| {
        lost(port).map(|(way, n)| -> (DropLabels, u64) { ([("port", port.name.clone()), ("way", way.into())], n) })
    });
    counter(r, "port_lost_packets", "Packets lost by the link.", lost);
    let drops = ports.iter().flat_map(|port| &port.drops).map(|drop| -> (DropLabels, u64) {
        ([("port", drop.port.clone()), ("reason", drop.reason.clone())], drop.packets)
    });
    counter(r, "port_drops", "Packets dropped at a port, by reason.", drops);
    Ok(())
}

/// Registers the links, and the queue groups of their schemes (spec N-36).
fn links(links: &[LinkReply], r: &mut Registry) {
    let label = |link: &LinkReply| [("worker", link.worker.to_string()), ("port", link.port.clone())];
    let of =
        |value: fn(&LinkReply) -> u64| links.iter().map(move |link| (label(link), value(link))).collect::<Vec<_>>();
    counter_set(r, "link", &links.iter().map(|link| (label(link), link.counters.0)).collect::<Vec<_>>());
    counter(r, "link_handler_ns", "Time used to run the scheme of a link, and to transmit.", of(|l| l.handler_ns));
    counter(r, "link_handler_packets", "Packets moved in that time.", of(|l| l.handler_packets));
    let uses = |link: &LinkReply| {
        let idle = link.counters.wasted.saturating_sub(link.counters.withheld);
        [("used", link.counters.sent), ("idle", idle), ("withheld", link.counters.withheld)]
    };
    let opportunities = links.iter().flat_map(|link| {
        let [worker, port] = label(link);
        uses(link).map(|(by, n)| ([worker.clone(), port.clone(), ("by", by.to_owned())], n))
    });
    let help = "Opportunities of a link to send: used, idle, or withheld by the scheme.";
    counter(r, "link_opportunities", help, opportunities);
    let each = || links.iter().flat_map(|link| link.groups.iter().map(move |group| (link, group)));
    let labels = |(link, group): (&LinkReply, &QueueGroup)| {
        let [worker, port] = label(link);
        [worker, port, ("queues", group.name.clone())]
    };
    let of = |value: fn(&QueueGroup) -> u64| each().map(|both| (labels(both), value(both.1))).collect::<Vec<_>>();
    counter(r, "queues_arrived_packets", "Packets enqueued by a scheme.", of(|g| g.arrived_packets));
    counter(r, "queues_sent_packets", "Packets dequeued by a scheme.", of(|g| g.sent_packets));
    counter(r, "queues_marked_packets", "Packets marked by a scheme (ECN).", of(|g| g.marked_packets));
    let help = "Packets enqueued behind another flow in a queue meant for one flow.";
    counter(r, "queues_collided_packets", help, of(|g| g.collided_packets));
    gauge(r, "queues_backlog_packets", "Packets in these queues.", of(|g| g.backlog_packets));
    gauge(r, "queues_backlog_bytes", "Bytes in these queues.", of(|g| g.backlog_bytes));
    let drops = each().flat_map(|both| {
        let [worker, port, queues] = labels(both);
        let drop = move |drop: &crate::api::LinkDrop| {
            ([worker.clone(), port.clone(), queues.clone(), ("reason", drop.reason.clone())], drop.packets)
        };
        both.1.drops.iter().map(drop).collect::<Vec<_>>()
    });
    counter(r, "queues_drops", "Packets dropped from queues of a scheme or before them, by reason.", drops);
    let rows = each().filter_map(|both| Some(LabelledHistogram::of(labels(both), both.1.sojourn.as_ref()?))).collect();
    let help = "Sojourn time of packets in these queues, from the end of their functions";
    r.register("queues_sojourn_seconds", help, Histograms(rows));
    let rows =
        links.iter().filter_map(|link| Some(LabelledHistogram::of(label(link), link.sojourn.as_ref()?))).collect();
    let help = "Sojourn time of all packets of a link, including those that passed its idle scheme by";
    r.register("link_sojourn_seconds", help, Histograms(rows));
    let state: Family<_, Gauge<f64, AtomicU64>> = Family::default();
    for both in each() {
        let [worker, port, queues] = labels(both);
        for value in &both.1.state {
            let of = ("of", value.name.clone());
            state.get_or_create(&[worker.clone(), port.clone(), queues.clone(), of]).set(value.value);
        }
    }
    r.register("scheme_state", "State variables of a scheme for the longest of these queues", state);
}

/// Registers the objectives of packets at ports with a policy, and the objective in force.
fn policies(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let ports = daemon.policies()?.ports;
    let of = |value: fn(&PortPolicy, &ObjectiveReply) -> u64| {
        let each = ports.iter().flat_map(move |port| {
            port.wanted.iter().map(move |wanted| -> (DropLabels, u64) {
                let labels = [("port", port.port.clone()), ("objective", wanted.objective.clone())];
                (labels, value(port, wanted))
            })
        });
        each.collect::<Vec<_>>()
    };
    counter(r, "port_wanted_packets", "Packets offered to a port with a policy, by objective.", of(|_, w| w.packets));
    counter(r, "port_wanted_bytes", "Bytes of these packets.", of(|_, w| w.bytes));
    let in_force = of(|port, wanted| u64::from(port.objective == wanted.objective));
    gauge(r, "port_objective", "1 for the objective in force at a port.", in_force);
    let changes = ports.iter().map(|port| -> (PortLabel, u64) { ([("port", port.port.clone())], port.changes) });
    counter(r, "port_objective_changes", "Changes of the objective in force.", changes);
    Ok(())
}

/// Registers the counters of multicast groups.
fn multicast(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let groups = daemon.multicast()?.groups;
    let each = groups.iter().map(|group| -> ([(&'static str, String); 4], GroupCounters) {
        let or_any = |text: &Option<String>| text.clone().unwrap_or_default();
        let labels = [
            ("group", group.group.clone()),
            ("source", or_any(&group.source)),
            ("vrf", or_any(&group.vrf)),
            ("origin", group.origin.clone()),
        ];
        (labels, group.counters.0)
    });
    let each: Vec<_> = each.collect();
    counter_set(r, "multicast", &each);
    Ok(())
}

/// Registers the counters of packets for programs of the machine, and of DHCP relay agents.
fn punt(daemon: &Daemon, r: &mut Registry) {
    let linux = daemon.linux();
    let relays = linux.dhcp_relays.into_iter().map(|relay| ([("interface", relay.interface)], relay.counters.0));
    let relays: Vec<([(&'static str, String); 1], RelayCounters)> = relays.collect();
    counter_set(r, "dhcp_relay", &relays);
    let each = linux.protocols.into_iter().map(|protocol| ([("protocol", protocol.protocol)], protocol.counters.0));
    let each: Vec<([(&'static str, String); 1], PuntCounters)> = each.collect();
    counter_set(r, "punt", &each);
}

/// Returns whether the worker makes progress.
fn is_alive(worker: &WorkerReply) -> bool {
    !matches!(worker.state, WorkerState::Stuck | WorkerState::Failed)
}

fn workers(daemon: &Daemon, r: &mut Registry) {
    let workers = daemon.workers().workers;
    let of = |value: fn(&WorkerReply) -> u64| {
        let label = |worker: &WorkerReply| [("worker", worker.worker.to_string())];
        workers.iter().map(move |worker| (label(worker), value(worker))).collect::<Vec<_>>()
    };
    gauge(
        r,
        "worker_up",
        "1 if the worker makes progress, 0 if it is stuck or has failed.",
        of(|w| u64::from(is_alive(w))),
    );
    gauge(r, "worker_heartbeat_age_ns", "Time since the last progress of the worker.", of(|w| w.heartbeat_age_ns));
    counter(r, "worker_busy_ns", "Time in which the worker moved packets.", of(|w| w.busy_ns));
    counter(r, "worker_packets", "Packets moved, counted by each task that moves them.", of(|w| w.packets));
    counter(r, "worker_wakeups", "Wakeups by a port or another thread.", of(|w| w.wakeups));
    counter(r, "worker_restarts", "Restarts of the worker after a failure.", of(|w| w.restarts));
    counter(r, "worker_handed_over_packets", "Packets handed off to other workers.", of(|w| w.handed_over_packets));
    counter(r, "worker_taken_over_packets", "Packets handed off by other workers.", of(|w| w.taken_over_packets));
    let label = |worker: &WorkerReply| [("worker", worker.worker.to_string())];
    counter_set(r, "worker", &workers.iter().map(|worker| (label(worker), worker.stalls.0)).collect::<Vec<_>>());
}

fn paths(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let paths = daemon.paths()?.paths;
    let of = |value: fn(&crate::api::Path) -> u64| {
        paths.iter().map(move |path| ([("path", path.name.clone())], value(path))).collect::<Vec<_>>()
    };
    let label = |path: &Path| [("path", path.name.clone())];
    counter_set(r, "path", &paths.iter().map(|path| (label(path), path.counters.0)).collect::<Vec<_>>());
    gauge(r, "path_queued_packets", "Packets in the queues of a path.", of(|p| p.queued_packets));
    counter(
        r,
        "path_late_packets",
        "Packets that exceeded the promised latency of their path.",
        of(|p| p.late_packets),
    );
    latencies(&paths, r);
    functions(daemon, r)
}

fn functions(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let functions = daemon.functions()?.functions;
    let of = |value: fn(&crate::api::FunctionCounter) -> u64| {
        let each = functions.iter().flat_map(move |function| {
            function.counters.iter().map(move |counter| -> ([(&'static str, String); 2], u64) {
                ([("path", function.path.clone()), ("rule", counter.name.clone())], value(counter))
            })
        });
        each.collect::<Vec<_>>()
    };
    counter(r, "filter_packets", "Packets that a rule of a packet filter has matched.", of(|c| c.packets));
    counter(r, "filter_bytes", "Bytes of these packets.", of(|c| c.bytes));
    let nat = daemon.nat(0)?;
    if nat.most > 0 {
        let one = |what: &str, value: u64| ([("way", what.to_owned())], value);
        gauge(
            r,
            "nat_connections",
            "Translated connections, and their limit.",
            [one("used", nat.total), one("most", nat.most)],
        );
        counter(
            r,
            "nat_connections_lost",
            "Connections evicted for others, or refused because their inside host had reached its limit.",
            [one("evicted", nat.evicted), one("host_limit", nat.limited)],
        );
        counter(
            r,
            "nat_packets",
            "Packets by the result of translation.",
            [
                one("out", nat.out_packets),
                one("back", nat.back_packets),
                one("error", nat.error_packets),
                one("fragment", nat.fragment_packets),
                one("own", nat.own_packets),
                one("refused", nat.refused_packets),
            ],
        );
    }
    Ok(())
}
