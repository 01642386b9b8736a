//! All counters in the text form of OpenMetrics, for Prometheus. The same names for the same things as everywhere: ports,
//! paths and drop reasons are labels.

use crate::api::{ApiError, Port, Worker, WorkerState};
use crate::daemon::Daemon;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

/// What tells one value of a metric from another.
trait Labels: EncodeLabelSet + Clone + Eq + std::hash::Hash + Send + Sync + std::fmt::Debug + 'static {}
impl<T: EncodeLabelSet + Clone + Eq + std::hash::Hash + Send + Sync + std::fmt::Debug + 'static> Labels for T {}

type PortLabel = [(&'static str, String); 1];
type DropLabels = [(&'static str, String); 2];

fn counter<L: Labels>(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (L, u64)>) {
    let family: Family<L, Counter> = Family::default();
    for (labels, value) in values {
        family.get_or_create(&labels).inc_by(value);
    }
    registry.register(name, help.trim_end_matches('.'), family);
}

fn gauge<L: Labels>(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (L, u64)>) {
    let family: Family<L, Gauge<u64, AtomicU64>> = Family::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
    registry.register(name, help.trim_end_matches('.'), family);
}

/// The page a scrape gets.
pub(crate) fn page(daemon: &Daemon) -> Result<String, ApiError> {
    let mut registry = Registry::with_prefix("switchpath");
    let r = &mut registry;
    whole(daemon, r)?;
    ports(daemon, r)?;
    paths(daemon, r)?;
    let tasks = daemon.tasks()?.tasks;
    let task = |t: &crate::api::Task| {
        let name = [t.path.as_deref(), t.port.as_deref()].into_iter().flatten().collect::<Vec<_>>().join("@");
        [("worker", t.worker.to_string()), ("kind", t.kind.clone()), ("of", name)]
    };
    counter(r, "task_used_ns", "Time charged to a task.", tasks.iter().map(|t| (task(t), t.used_ns)));
    counter(r, "task_runs", "Dispatches of a task.", tasks.iter().map(|t| (task(t), t.runs)));
    counter(r, "task_packets", "Packets a task moved.", tasks.iter().map(|t| (task(t), t.packets)));
    workers(daemon, r);
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string does not fail");
    Ok(text)
}

fn whole(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let status = daemon.status()?;
    gauge(r, "info", "The version that runs.", [([("version", status.version)], 1)]);
    for (name, help, value) in [
        ("generation", "The number of the configuration that runs", status.generation),
        ("uptime_ns", "How long the router has run", status.uptime_ns),
        ("frames", "Frames of the pool", status.frames),
        ("frames_spare", "Frames nobody uses", status.frames_spare),
        ("held_packets", "Packets in queues", status.held_packets),
        ("routes", "Routes", status.routes),
        ("neighbours", "Neighbours", status.neighbours),
        ("ledger_balanced", "1 where every packet has met one fate", status.balanced.into()),
    ] {
        let gauge: Gauge<u64, AtomicU64> = Gauge::default();
        gauge.set(value);
        r.register(name, help, gauge);
    }
    let total = daemon.ledger()?.total;
    let fates = [
        ("received", total.received_packets),
        ("generated", total.generated_packets),
        ("sent", total.sent_packets),
        ("consumed", total.consumed_packets),
        ("dropped", total.dropped_packets),
    ];
    let fates = fates.into_iter().map(|(fate, n)| ([("fate", fate.to_owned())], n));
    counter(r, "packets", "Packets by what became of them.", fates);
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
    let of = |value: fn(&Port) -> u64| {
        let label = |port: &Port| -> PortLabel { [("port", port.name.clone())] };
        ports.iter().map(move |port| (label(port), value(port))).collect::<Vec<_>>()
    };
    gauge(r, "port_up", "1 where the medium is connected.", of(|p| p.up.into()));
    counter(r, "port_received_packets", "Packets received.", of(|p| p.received_packets));
    counter(r, "port_received_bytes", "Bytes received.", of(|p| p.received_bytes));
    counter(r, "port_sent_packets", "Packets transmitted.", of(|p| p.sent_packets));
    counter(r, "port_sent_bytes", "Bytes transmitted.", of(|p| p.sent_bytes));
    counter(r, "port_marked_packets", "Packets marked by the scheme.", of(|p| p.marked_packets));
    gauge(r, "port_backlog_packets", "Packets waiting for the link.", of(|p| p.backlog_packets));
    gauge(r, "port_backlog_bytes", "Bytes waiting for the link.", of(|p| p.backlog_bytes));
    let lost = |p: &Port| [("receive", p.lost_before_receive_packets), ("transmit", p.lost_after_transmit_packets)];
    let lost = ports.iter().flat_map(|port| {
        lost(port).map(|(way, n)| -> (DropLabels, u64) { ([("port", port.name.clone()), ("way", way.into())], n) })
    });
    counter(r, "port_lost_packets", "Packets lost by the medium.", lost);
    let drops = ports.iter().flat_map(|port| &port.drops).map(|drop| -> (DropLabels, u64) {
        ([("port", drop.port.clone()), ("reason", drop.reason.clone())], drop.packets)
    });
    counter(r, "port_drops", "Packets dropped at a port, by reason.", drops);
    Ok(())
}

/// Whether the worker moves.
fn lives(worker: &Worker) -> bool {
    !matches!(worker.state, WorkerState::Stuck | WorkerState::Failed)
}

fn workers(daemon: &Daemon, r: &mut Registry) {
    let workers = daemon.workers().workers;
    let of = |value: fn(&Worker) -> u64| {
        let label = |worker: &Worker| [("worker", worker.worker.to_string())];
        workers.iter().map(move |worker| (label(worker), value(worker))).collect::<Vec<_>>()
    };
    gauge(r, "worker_up", "1 where the worker moves, 0 where it is stuck or has failed.", of(|w| u64::from(lives(w))));
    gauge(r, "worker_heartbeat_age_ns", "Since when the worker has not moved.", of(|w| w.heartbeat_age_ns));
    counter(r, "worker_busy_ns", "Time in which the worker moved packets.", of(|w| w.busy_ns));
    counter(r, "worker_packets", "Packets moved, counted by each task that moves them.", of(|w| w.packets));
    counter(r, "worker_wakeups", "How often a port or a thread has ended its sleep.", of(|w| w.wakeups));
    counter(r, "worker_restarts", "How often the worker has failed and begun anew.", of(|w| w.restarts));
    counter(r, "worker_handed_over_packets", "Packets handed to other workers.", of(|w| w.handed_over_packets));
    counter(r, "worker_taken_over_packets", "Packets taken over from other workers.", of(|w| w.taken_over_packets));
}

fn paths(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let paths = daemon.paths()?.paths;
    let of = |value: fn(&crate::api::Path) -> u64| {
        paths.iter().map(move |path| ([("path", path.name.clone())], value(path))).collect::<Vec<_>>()
    };
    counter(r, "path_entered_packets", "Packets that took a path.", of(|p| p.entered_packets));
    counter(r, "path_left_packets", "Packets a path gave to a link.", of(|p| p.left_packets));
    counter(r, "path_dropped_packets", "Packets dropped on a path.", of(|p| p.dropped_packets));
    gauge(r, "path_queued_packets", "Packets in the queues of a path.", of(|p| p.queued_packets));
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
    counter(r, "filter_packets", "Packets a rule of a packet filter was about.", of(|c| c.packets));
    counter(r, "filter_bytes", "Bytes of those.", of(|c| c.bytes));
    let nat = daemon.nat(0)?;
    if nat.most > 0 {
        let one = |what: &str, value: u64| ([("way", what.to_owned())], value);
        gauge(
            r,
            "nat_connections",
            "Translated connections there are, and may be.",
            [one("used", nat.total), one("most", nat.most)],
        );
        counter(
            r,
            "nat_packets",
            "Packets by what translation made of them.",
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
