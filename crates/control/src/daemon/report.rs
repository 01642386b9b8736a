//! Reports of the router, with names instead of ids.

use super::linux::protocol_name;
use super::{Daemon, REPORT_TIMEOUT};
use crate::api::{self, ApiError, ErrorKind};
use crate::capture::{CaptureFilter, VrfFilter};
use crate::explain::{self, ExplainPacket};
use crate::trace::{DEFAULT_RATE, TraceFormatter, TraceReader, TraceSession};
use classifier::{SetWriteError, Sets};
use cpu::CostVerdict;
use cpu::task::TaskAccount;
use fib::{Outcome, RouteQuery};
use io::clock;
use packet::{DropReason, Ledger};
use plan::{Condition, SetKind};
use plane::explain::ExplainContext;
use plane::snapshot::Snapshot;
use plane::{Command, PortReport, WorkerReport};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use units::{Nanos, PortId, Rate};

/// A worker did not report in time, or is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoReport;

impl From<NoReport> for ApiError {
    fn from(_: NoReport) -> ApiError {
        ApiError::new(
            ErrorKind::Unavailable,
            "a worker does not answer or has stopped",
            "look at the log of the router",
        )
    }
}

pub(super) type Answer<T> = Result<T, ApiError>;

impl Daemon {
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.control.lock().router.snapshot().clone()
    }

    pub(super) fn now_ns(&self) -> u64 {
        (clock::now() + self.epoch).get()
    }

    /// Returns the state of the router as a whole.
    pub fn status(&self) -> Answer<api::Status> {
        let reports = self.reports()?;
        let control = self.control.lock();
        let tables = control.router.tables();
        let plan = control.router.plan();
        let (captures, traces) = (self.taps.list(), self.traces.list());
        let capture = |tap: &crate::capture::CaptureTap| api::Capture {
            matching: tap.wanted().matching.to_string(),
            captured_packets: tap.captured(),
            missed_packets: tap.missed(),
        };
        Ok(api::Status {
            version: env!("CARGO_PKG_VERSION").into(),
            name: plan.map_or_else(String::new, |plan| plan.name.clone()),
            state: self.state(),
            generation: control.router.snapshot().generation.0,
            config: control.name.to_string(),
            pid: std::process::id(),
            started_ns: (self.started + self.epoch).get(),
            uptime_ns: clock::now().since(self.started).get(),
            workers: self.workers.heartbeats.len() as u16,
            frames: control.router.region().frames() as u64,
            frames_spare: control.router.region().spare() as u64,
            held_packets: reports.iter().map(|report| report.held_packets).sum(),
            routes: (tables.len4() + tables.len6()) as u64,
            neighbours: reports.iter().map(|report| report.neighbours.len() as u64).sum(),
            balanced: ledgers(&reports).balanced,
            pending: control.pending.as_ref().map(|pending| pending.to_reply(clock::now())),
            confinement: self.confinement.get().map(|(told, _)| told.clone()),
            captures: captures.iter().map(|tap| capture(tap)).collect(),
            traces: traces.iter().map(|trace| capture(trace.tap())).collect(),
        })
    }

    /// Returns the ports, their interfaces and links.
    pub fn ports(&self) -> Answer<api::Ports> {
        Ok(self.ports_of(&self.reports()?))
    }

    pub(super) fn ports_of(&self, reports: &[WorkerReport]) -> api::Ports {
        let names = self.names();
        let control = self.control.lock();
        let (plan, snapshot) = (control.router.plan(), control.router.snapshot());
        let port = |report: &PortReport| {
            let name = names.port(report.port);
            let plan = plan.and_then(|plan| plan.ports.iter().find(|port| *port.name == name && !report.closing));
            let interface = |i: &plan::InterfacePlan| api::InterfaceReply {
                name: i.name.to_string(),
                vlan: i.vlan,
                vrf: i.vrf.as_ref().map(ToString::to_string),
                addresses: i.addresses_in_force().map(|prefix| prefix.to_string()).collect(),
                mtu_bytes: report.mtu.map_or(i.mtu, |mtu| mtu.min(i.mtu)),
                configured_mtu_bytes: i.mtu,
            };
            api::PortReply {
                device: plan.map_or_else(String::new, |plan| plan.device.to_string()),
                mac: snapshot.port(report.port).map_or_else(String::new, |view| view.mac.to_string()),
                up: report.up,
                closing: report.closing,
                device_mtu_bytes: report.mtu,
                link_rate_bps: (report.rate != Rate::MAX).then_some(report.rate.get()),
                interfaces: plan.map_or_else(Vec::new, |plan| plan.interfaces.iter().map(interface).collect()),
                scheme: snapshot.port(report.port).map_or_else(String::new, |view| view.scheme.to_string()),
                counters: api::CounterFields(report.counters),
                route_cache: api::CounterFields(report.route_cache),
                link: api::CounterFields(report.link),
                dfq_counters: api::CounterFields(report.dfq_wire.map_or_else(Default::default, |wire| wire.counters)),
                dfq_wire: report.dfq_wire.as_ref().map(api::DfqWireReply::of),
                backlog_packets: report.backlog.into(),
                backlog_bytes: report.backlog_bytes.get(),
                drops: report.drops.iter().map(|&(reason, packets)| drop_at(&name, reason, packets)).collect(),
                name,
            }
        };
        let mut ports: Vec<api::PortReply> = PortReport::sum_workers(reports).iter().map(port).collect();
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        api::Ports { time_ns: self.now_ns(), ports }
    }

    /// Returns the paths, summed over all workers.
    pub fn paths(&self) -> Answer<api::Paths> {
        let reports = self.reports()?;
        let snapshot = self.snapshot();
        let rules = snapshot.rules.rules();
        let path = |position: usize| {
            let spec = &snapshot.paths[position];
            let rule = rules.iter().find(|status| usize::from(status.rule.result.path) == position);
            let mut counters = plane::PathCounters::default();
            let (mut queued, mut latency) = (0, packet::latency::Latency::default());
            for report in reports.iter().flat_map(|report| &report.paths).filter(|report| report.path == spec.id) {
                counters += report.counters;
                queued += report.queued as u64;
                latency.add(&report.latency);
            }
            let promised = spec.cpu.reservation.and_then(|reservation| reservation.delay);
            api::Path {
                name: spec.name.to_string(),
                matching: rule.map(|status| status.rule.matching.to_string()),
                functions: spec.functions.iter().map(ToString::to_string).collect(),
                class: spec.class,
                counters: api::CounterFields(counters),
                queued_packets: queued,
                waited_before: api::LatencyReply::of(&latency.before_functions),
                waited_behind: api::LatencyReply::of(&latency.after_functions),
                latency: api::LatencyReply::of(&latency.total),
                promised_delay_ns: promised.map(Nanos::get),
                late_packets: latency.late,
            }
        };
        Ok(api::Paths { time_ns: self.now_ns(), paths: (0..snapshot.paths.len()).map(path).collect() })
    }

    /// Returns the queues of paths and links.
    pub fn queues(&self) -> Answer<api::QueuesReply> {
        let reports = self.reports()?;
        let names = self.names();
        let mut queues = Vec::new();
        for report in reports.iter() {
            for queue in &report.queues {
                for (stage, packets) in [(api::QueueStage::Input, queue.input), (api::QueueStage::Output, queue.output)]
                {
                    queues.push(api::QueueReply {
                        worker: report.worker.0,
                        stage,
                        path: Some(names.path(queue.path)),
                        port: queue.port.map(|port| names.port(port)),
                        packets: packets as u64,
                        bytes: None,
                        capacity_packets: Some(queue.capacity as u64),
                        most_packets: (stage == api::QueueStage::Input).then_some(queue.fill.most as u64),
                        seen_packets: (stage == api::QueueStage::Input).then_some(queue.fill.sum),
                        looks: (stage == api::QueueStage::Input).then_some(queue.fill.observations),
                    });
                }
            }
        }
        for report in reports.iter() {
            queues.extend(report.ports.iter().map(|port| api::QueueReply {
                worker: report.worker.0,
                stage: api::QueueStage::Link,
                path: None,
                port: Some(names.port(port.port)),
                packets: port.backlog.into(),
                bytes: Some(port.backlog_bytes.get()),
                capacity_packets: None,
                most_packets: None,
                seen_packets: None,
                looks: None,
            }));
        }
        Ok(api::QueuesReply { time_ns: self.now_ns(), queues })
    }

    /// Returns the tasks of each worker's CPU scheduler.
    pub fn tasks(&self) -> Answer<api::TasksReply> {
        let reports = self.reports()?;
        let names = self.names();
        let paths_of = |paths: &[units::PathId]| {
            let list: Vec<String> = paths.iter().map(|&path| names.path(path)).collect();
            (!list.is_empty()).then(|| list.join(","))
        };
        let core = |report: &plane::WorkerReport| api::CoreReply {
            worker: report.worker.0,
            useful_ns: report.times.useful.get(),
            polling_ns: report.times.polling.get(),
            switching_ns: report.times.switching.get(),
            receive: report.receive.name().into(),
            switch_cost_ns: report.switch_cost.get(),
            overhead_ppm: report.throttle.map(|(overhead, _)| overhead.get()),
            slice_ns: report.throttle.map(|(_, slice)| slice.get()),
        };
        let cores = reports.iter().map(core).collect();
        let tasks = reports.iter().flat_map(|report| report.tasks.iter().map(|task| (report.worker, task)));
        let task = |(worker, task): (units::WorkerId, &plane::TaskReport)| api::Task {
            worker: worker.0,
            task: task.task.0,
            kind: task.kind.into(),
            port: task.port.map(|port| names.port(port)),
            path: paths_of(&task.paths),
            share_ppm: (task.view.share.as_f64() * 1e6).round() as u32,
            received_ppm: run_share(&task.view.account),
            state: task.view.state.name().into(),
            runs: task.view.account.runs,
            packets: task.view.account.packets,
            used_ns: task.view.account.used.get(),
            cost_ns: task.view.cost.0.get(),
            deviation_ns: task.view.cost.1.isqrt(),
            exceeds_declared_cost: task.view.verdict == CostVerdict::Exceeds,
            batch: task.view.threshold,
            capacity_packets: (task.view.capacity != u32::MAX).then_some(task.view.capacity),
            max_wait_ns: task.view.max_wait.map(Nanos::get),
            timeouts: task.view.account.timeouts,
            harvested: task.view.account.harvested,
            lag_ns: task.view.account.lag.get(),
            idle_ns: task.view.account.residency[0].get(),
            eligible_ns: task.view.account.residency[1].get(),
            active_ns: task.view.account.residency[2].get(),
            running_ns: task.view.account.residency[3].get(),
            polls_find_milli: task.view.estimator.map(|(packets, _)| packets),
            sleeps_ns: task.view.estimator.map(|(_, sleep)| sleep.get()),
        };
        Ok(api::TasksReply { time_ns: self.now_ns(), cores, tasks: tasks.map(task).collect() })
    }

    /// Returns at most `limit` of the `wanted` routes, in the VRF of this name if one is given.
    pub fn routes(&self, mut wanted: RouteQuery, vrf: Option<&str>, limit: usize) -> Answer<api::Routes> {
        if let Some(name) = vrf {
            let found = self.control.lock().router.vrf(name);
            let hint = "run `switchpath show routes` without it for the routes of all VRFs";
            wanted.vrf =
                Some(found.ok_or_else(|| {
                    ApiError::new(ErrorKind::BadRequest, format!("no port is in a VRF '{name}'"), hint)
                })?);
        }
        let tables = self.control.lock().router.tables().clone();
        let names = self.names();
        let mut reports = tables.routes(&wanted, limit.saturating_add(1));
        let truncated = reports.len() > limit;
        reports.truncate(limit);
        let gateway = |member: &fib::GroupMember| api::Gateway {
            address: member.hop.address.to_string(),
            interface: names.interface(member.hop.interface),
            weight: member.hop.weight,
            usable: member.usable,
            share: member.buckets as f64 / fib::GroupMember::BUCKETS as f64,
        };
        let vrfs = self.control.lock().router.vrf_names();
        let route = |report: &fib::RouteReport| api::RouteReply {
            vrf: vrfs.get(&report.vrf).map(ToString::to_string),
            gateways: report.members.iter().map(gateway).collect(),
            prefix: report.prefix.to_string(),
            origin: report.origin.name().into(),
            protocol: protocol_name(report.protocol),
            action: action(report.outcome).into(),
            gateway: report.next_hop.map(|address| address.to_string()),
            interface: report.interface.map(|interface| names.interface(interface)),
            active: report.active,
        };
        let total = (tables.len4() + tables.len6()) as u64;
        Ok(api::Routes { total, truncated, routes: reports.iter().map(route).collect() })
    }

    /// Returns the neighbours of every worker.
    pub fn neighbours(&self) -> Answer<api::Neighbours> {
        let reports = self.reports()?;
        let (names, now) = (self.names(), clock::now());
        let mut known: Vec<_> = reports.iter().flat_map(|report| report.neighbours.clone()).collect();
        for &(hop, packets) in reports.iter().flat_map(|report| &report.waiting) {
            let wanted = known.iter_mut().find(|neighbour| (neighbour.interface, neighbour.address) == hop);
            wanted.into_iter().for_each(|neighbour| neighbour.pending += packets);
        }
        known.sort_by_key(|neighbour| (neighbour.interface, neighbour.address));
        let neighbour = |n: &stack::NeighbourReport| api::NeighbourReply {
            interface: names.interface(n.interface),
            address: n.address.to_string(),
            mac: n.mac.map(|mac| mac.to_string()),
            state: n.state.name().into(),
            age_ns: now.since(n.since).get(),
            pending_packets: n.pending as u64,
        };
        Ok(api::Neighbours { neighbours: known.iter().map(neighbour).collect() })
    }

    /// Returns drops by reason.
    pub fn drops(&self) -> Answer<api::Drops> {
        Ok(self.drops_of(&self.reports()?))
    }

    pub(super) fn drops_of(&self, reports: &[WorkerReport]) -> api::Drops {
        let names = self.names();
        let mut total: BTreeMap<DropReason, u64> = BTreeMap::new();
        let mut places: BTreeMap<(DropReason, PortId), u64> = BTreeMap::new();
        for report in reports {
            report.ledger.drops().for_each(|(reason, packets)| *total.entry(reason).or_default() += packets);
            for port in &report.ports {
                port.drops.iter().for_each(|&(reason, n)| *places.entry((reason, port.port)).or_default() += n);
            }
        }
        let at = |wanted: DropReason| {
            let of = places.iter().filter(move |((reason, _), _)| *reason == wanted);
            of.map(|(&(reason, port), &packets)| drop_at(&names.port(port), reason, packets)).collect()
        };
        let drop = |(&reason, &packets): (&DropReason, &u64)| api::Drop {
            reason: reason.name().into(),
            explanation: reason.explanation().trim().into(),
            packets,
            ports: at(reason),
        };
        let mut drops: Vec<api::Drop> = total.iter().map(drop).collect();
        drops.sort_by_key(|drop| std::cmp::Reverse(drop.packets));
        api::Drops { time_ns: self.now_ns(), drops }
    }

    /// Returns recent events, from number `since` on.
    pub fn events(&self, since: u64) -> api::Events {
        self.log.report_suppressed(clock::now(), Nanos::ZERO);
        let (entries, next, missed) = self.log.since(since);
        let names = self.names();
        api::Events { next, missed, events: entries.iter().map(|entry| entry.to_reply(&names, self.epoch)).collect() }
    }

    /// Returns the packet ledgers.
    pub fn ledger(&self) -> Answer<api::Ledgers> {
        Ok(ledgers(&self.reports()?))
    }

    /// Explains what the router would do with a packet.
    pub fn explain(&self, asked: &ExplainPacket) -> Answer<api::ExplainReply> {
        let reports = self.reports()?;
        let (snapshot, tables, functions) = {
            let router = &self.control.lock().router;
            (router.snapshot().clone(), router.tables().clone(), router.functions().clone())
        };
        let question = ExplainContext {
            snapshot: &snapshot,
            tables: &tables,
            reports: &reports,
            functions: &functions,
            now: clock::now(),
        };
        explain::answer(&question, asked)
    }

    /// Returns the running configuration.
    pub fn config(&self) -> api::Config {
        let control = self.control.lock();
        api::Config {
            generation: control.router.snapshot().generation.0,
            name: control.name.to_string(),
            text: control.text.to_string(),
        }
    }

    /// Starts a trace.
    pub(crate) fn start_trace(&self, asked: crate::request::TraceRequest) -> Answer<TraceReader> {
        let wanted = CaptureFilter { limit: asked.capture.limit, ..self.capture_filter(asked.capture.matching)? };
        let port = asked.port.as_deref().map(|name| self.port_named(name)).transpose()?;
        let trace = match asked.injected {
            true => TraceSession::of_injected(wanted, port),
            false => TraceSession::new(wanted, port, asked.rate.unwrap_or(DEFAULT_RATE)),
        };
        let full = || {
            let reason = "the maximum number of traces is open";
            ApiError::new(ErrorKind::Busy, reason, "end one of them first")
        };
        let tracing = self.traces.open(trace).ok_or_else(full)?;
        // A worker reads the list of traces between its steps. After all have reported, every later packet is traced. A worker that does not answer
        // has no packets to trace.
        drop(self.reports());
        Ok(tracing)
    }

    /// Injects frames into a port, on its first worker.
    pub(crate) fn inject(&self, asked: crate::request::InjectRequest) -> Answer<api::Injected> {
        let crate::request::InjectRequest { port, ours, mut frames } = asked;
        let port = match port {
            Some(name) => self.port_named(&name)?,
            None => self.only_port()?,
        };
        let given = frames.len() as u64;
        if let (true, Some(view)) = (ours, self.snapshot().port(port)) {
            frames.iter_mut().for_each(|frame| explain::readdress(frame, view.mac));
        }
        let (sender, receiver) = channel();
        let mut frames = Some(frames);
        let command = || Command::Inject(port, frames.take().unwrap_or_default(), sender.clone());
        self.control.lock().router.post(command);
        drop(sender);
        let deadline = clock::now() + REPORT_TIMEOUT.into();
        let mut packets = 0;
        loop {
            match receiver.recv_timeout(deadline.since(clock::now()).into()) {
                Ok(taken) => packets += taken,
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(api::Injected { packets, refused_packets: given - packets });
                }
                Err(RecvTimeoutError::Timeout) => return Err(NoReport.into()),
            }
        }
    }

    fn only_port(&self) -> Answer<PortId> {
        let snapshot = self.snapshot();
        let mut ports = snapshot.ports.iter().enumerate().filter(|(_, port)| port.is_some());
        match (ports.next(), ports.next()) {
            (Some((only, _)), None) => Ok(PortId::at(only)),
            _ => {
                let reason = "the input port of the frames is missing";
                Err(ApiError::new(ErrorKind::BadRequest, reason, "give the parameter 'port'"))
            }
        }
    }

    pub(super) fn port_named(&self, name: &str) -> Answer<PortId> {
        let snapshot = self.snapshot();
        let ports = || snapshot.ports.iter().map(|port| port.as_ref().map(|port| &*port.name));
        let known: Vec<&str> = ports().flatten().collect();
        ports().position(|port| port == Some(name)).map(PortId::at).ok_or_else(|| {
            let hint = format!("the ports are {}", known.join(", "));
            ApiError::new(ErrorKind::BadRequest, format!("there is no port {}", plan::quote(name)), hint)
        })
    }

    /// Returns the formatter of traces.
    pub(crate) fn trace_formatter(&self) -> TraceFormatter {
        let control = self.control.lock();
        let (snapshot, tables) = (control.router.snapshot().clone(), control.router.tables().clone());
        TraceFormatter { names: self.names(), snapshot, tables, epoch: self.epoch }
    }

    /// Resolves a match: finds its interface, its VRF and its sets by their names.
    pub fn capture_filter(&self, matching: plan::Match) -> Answer<CaptureFilter> {
        let wrong = |reason: String, hint| ApiError::new(ErrorKind::BadRequest, reason, hint);
        let interface = match &matching.iif {
            None => None,
            Some(name) => {
                let snapshot = self.snapshot();
                let found = snapshot.interface_named(name).map(|interface| interface.id);
                Some(found.ok_or_else(|| {
                    let known: Vec<_> = snapshot.interfaces.iter().map(|i| i.name.as_str()).collect();
                    wrong(format!("there is no interface '{name}'"), format!("the interfaces are {}", known.join(", ")))
                })?)
            }
        };
        let control = self.control.lock();
        let vrf = match &matching.vrf {
            None => None,
            Some(name) => {
                let vrf = control.router.vrf(name).ok_or_else(|| {
                    let mut known: Vec<String> = control.router.vrf_names().values().map(ToString::to_string).collect();
                    known.sort();
                    known.insert(0, "main".to_owned());
                    wrong(format!("no port is in a VRF '{name}'"), format!("the VRFs are {}", known.join(", ")))
                })?;
                Some(VrfFilter { vrf, tables: control.router.tables().clone() })
            }
        };
        let sets = control.router.sets();
        let mut named = matching.sets().peekable();
        let needed = named.peek().is_some().then(|| sets.clone());
        named.try_for_each(|(name, field)| check_set(&sets.latest(), name, field))?;
        Ok(CaptureFilter { matching: matching.clone(), interface, vrf, sets: needed, ..CaptureFilter::default() })
    }
}

/// Checks that a set exists and has elements of the kind that a field asks for.
fn check_set(sets: &Sets, name: &str, field: Condition) -> Answer<()> {
    let wrong = |reason: String, hint: String| ApiError::new(ErrorKind::BadRequest, reason, hint);
    let stored = sets.named(name).map_err(|error| match error {
        SetWriteError::UnknownSet { name, hint } => wrong(format!("there is no set '{name}'"), hint),
        refused @ SetWriteError::Refused { .. } => wrong(refused.to_string(), String::new()),
    })?;
    let kind = stored.set.kind();
    if field.set_kind().is_some_and(|needed| needed != kind) {
        let (has, needs) = match kind {
            SetKind::Address => ("addresses", "a set of ports"),
            SetKind::Port => ("ports", "a set of addresses"),
        };
        return Err(wrong(format!("the set '{name}' has {has}"), format!("'{}' needs {needs}", field.name())));
    }
    Ok(())
}

/// Returns the ledgers of workers, and their sum.
pub(super) fn ledgers(reports: &[WorkerReport]) -> api::Ledgers {
    let workers: Vec<api::LedgerReply> =
        reports.iter().map(|report| ledger(Some(report.worker.0), &report.ledger, report.held_packets)).collect();
    let mut total = api::LedgerReply::default();
    for one in &workers {
        total.received_packets += one.received_packets;
        total.generated_packets += one.generated_packets;
        total.taken_over_packets += one.taken_over_packets;
        total.sent_packets += one.sent_packets;
        total.consumed_packets += one.consumed_packets;
        total.replicated_packets += one.replicated_packets;
        total.copies_packets += one.copies_packets;
        total.dropped_packets += one.dropped_packets;
        total.handed_over_packets += one.handed_over_packets;
        total.held_packets += one.held_packets;
    }
    api::Ledgers { balanced: workers.iter().all(api::LedgerReply::is_balanced), total, workers }
}

fn ledger(worker: Option<u16>, ledger: &Ledger, held: u64) -> api::LedgerReply {
    api::LedgerReply {
        worker,
        received_packets: ledger.received(),
        generated_packets: ledger.generated(),
        taken_over_packets: ledger.taken_over(),
        sent_packets: ledger.sent(),
        consumed_packets: ledger.consumed(),
        replicated_packets: ledger.replicated(),
        copies_packets: ledger.copies(),
        dropped_packets: ledger.dropped(),
        handed_over_packets: ledger.handed_over(),
        held_packets: held,
    }
}

/// Returns the share of its total time that a task has run, in millionths.
fn run_share(account: &TaskAccount) -> u32 {
    let all = account.residency.iter().map(|time| time.get()).sum::<u64>().max(1);
    (u128::from(account.used.get()) * 1_000_000 / u128::from(all)).min(1_000_000) as u32
}

fn drop_at(port: &str, reason: DropReason, packets: u64) -> api::DropAt {
    api::DropAt { port: port.into(), reason: reason.name().into(), packets }
}

fn action(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NoRoute => "none",
        Outcome::Via(_) | Outcome::Group(_) => "via",
        Outcome::Connected(_) => "connected",
        Outcome::Local(_) => "local",
        Outcome::Broadcast(_) => "broadcast",
        Outcome::Blackhole => "blackhole",
        Outcome::Unreachable => "unreachable",
        Outcome::Special => "special",
    }
}
