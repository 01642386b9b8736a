//! `switchpath show`: the state of the running router, as tables or JSON.

mod counters;
mod flows;
mod links;
mod linux;
mod multicast;
mod nat;
mod policy;
mod ports;
mod rules;
mod sets;
mod shares;
pub mod slices;
mod state;
mod subscribers;

use crate::arguments::{RuleSelection, ShareSelection, ShowArguments, ShowTarget, SubscriberSelection};
use crate::output::{Rows, brief, is_coloured, or_dash, print_json, short, span, time_of_day};
use anyhow::{Result, bail};
use control::Client;
use control::api;
use io::wait::{Sleeper, Waker};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
pub use state::entries;
use std::io::{Write, stdout};
use std::process::ExitCode;
pub(crate) use subscribers::{SUBSCRIBER_COLUMNS, subscriber_cells, subscribers_target};
use units::Nanos;

/// A view: its address in the API, and its table.
trait ShowView: Serialize + DeserializeOwned {
    /// Prints it. `before` is the previous answer, if the view is repeated.
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()>;
}

/// Shows the requested view, once or repeatedly.
pub fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let screen = ShowOptions { json: arguments.json, watch: arguments.watch.map(Nanos::secs) };
    let client = arguments.socket.client();
    match arguments.noun.clone().unwrap_or(ShowTarget::Status) {
        ShowTarget::Status => screen.show::<api::Status>(&client, "/v1/status"),
        ShowTarget::Ports => screen.show::<api::Ports>(&client, "/v1/ports"),
        ShowTarget::Paths => screen.show::<api::Paths>(&client, "/v1/paths"),
        ShowTarget::Latency => screen.show::<Latencies>(&client, "/v1/paths"),
        ShowTarget::Queues { port: None } => screen.show::<api::QueuesReply>(&client, "/v1/queues"),
        ShowTarget::Queues { port: Some(port) } => screen.links(&client, &port),
        ShowTarget::Workers => screen.show::<api::Workers>(&client, "/v1/workers"),
        ShowTarget::Tasks => screen.show::<api::TasksReply>(&client, "/v1/tasks"),
        ShowTarget::Routes { prefix, vrf, origin, limit } => {
            let prefix = prefix.map_or_else(String::new, |prefix| format!("&prefix={prefix}"));
            let given = |name: &str, value: Option<String>| {
                let mut query = form_urlencoded::Serializer::new(String::new());
                value.map_or_else(String::new, |value| format!("&{}", query.append_pair(name, &value).finish()))
            };
            let rest = given("vrf", vrf) + &given("origin", origin);
            screen.show::<api::Routes>(&client, &format!("/v1/routes?limit={limit}{prefix}{rest}"))
        }
        ShowTarget::Functions => screen.show::<api::FunctionsReply>(&client, "/v1/functions"),
        ShowTarget::Nat { limit } => screen.show::<api::NatReply>(&client, &format!("/v1/nat?limit={limit}")),
        ShowTarget::Rules(selection) => screen.show::<api::RuleLists>(&client, &rules_target(&selection)),
        ShowTarget::Shares(selection) => {
            screen.show::<api::SharesReply>(&client, &shares::shares_target(&selection, arguments.json))
        }
        ShowTarget::Subscribers(selection) => {
            screen.show::<api::SubscribersReply>(&client, &subscribers_target(&selection, arguments.json))
        }
        ShowTarget::Reservations { limit } => {
            screen.show::<api::FlowsReply>(&client, &flows_target(limit, arguments.json))
        }
        ShowTarget::Sites(selection) => {
            screen.show::<api::SitesReply>(&client, &subscribers::sites_target(&selection, arguments.json))
        }
        ShowTarget::Sets => screen.show::<api::SetsReply>(&client, "/v1/sets"),
        ShowTarget::State => screen.show::<api::Ephemeral>(&client, "/v1/state"),
        ShowTarget::Policy => screen.show::<api::Policies>(&client, "/v1/policy"),
        ShowTarget::Linux => screen.show::<api::Linux>(&client, "/v1/linux"),
        ShowTarget::Multicast => screen.show::<api::Multicast>(&client, "/v1/multicast"),
        ShowTarget::Counters => screen.show::<api::CountersReply>(&client, "/v1/counters"),
        ShowTarget::Neighbours => screen.show::<api::Neighbours>(&client, "/v1/neighbours"),
        ShowTarget::Drops => screen.show::<api::Drops>(&client, "/v1/drops"),
        ShowTarget::Events { since } => screen.show::<api::Events>(&client, &format!("/v1/events?since={since}")),
        ShowTarget::Accounting => screen.show::<api::Ledgers>(&client, "/v1/accounting"),
        ShowTarget::Ledger => bail!("`show ledger` is now `show accounting`"),
        ShowTarget::Config => screen.show::<api::Config>(&client, "/v1/config"),
    }
}

/// Shows the routes behind an address of the API, once.
pub fn routes(client: &Client, target: &str, json: bool) -> Result<ExitCode> {
    ShowOptions { json, watch: None }.show::<api::Routes>(client, target)
}

/// Shows rules, once.
pub fn rules(client: &Client, selection: &RuleSelection, json: bool) -> Result<ExitCode> {
    ShowOptions { json, watch: None }.show::<api::RuleLists>(client, &rules_target(selection))
}

fn rules_target(RuleSelection { list, unused, limit }: &RuleSelection) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &limit.to_string()).append_pair("unused", &unused.to_string());
    if let Some(list) = list {
        query.append_pair("list", list);
    }
    format!("/v1/rules?{}", query.finish())
}

/// Shows shares, once.
pub fn shares(client: &Client, selection: &ShareSelection, json: bool) -> Result<ExitCode> {
    let target = shares::shares_target(selection, json);
    ShowOptions { json, watch: None }.show::<api::SharesReply>(client, &target)
}

/// Shows subscribers, once.
pub fn subscribers(client: &Client, selection: &SubscriberSelection, json: bool) -> Result<ExitCode> {
    let target = subscribers_target(selection, json);
    ShowOptions { json, watch: None }.show::<api::SubscribersReply>(client, &target)
}

/// Shows reserved flows, once.
pub fn flows(client: &Client, limit: Option<u64>, json: bool) -> Result<ExitCode> {
    ShowOptions { json, watch: None }.show::<api::FlowsReply>(client, &flows_target(limit, json))
}

fn flows_target(limit: Option<u64>, json: bool) -> String {
    format!("/v1/reservations?limit={}", shares::limit(limit, json))
}

/// Shows all sets, once.
pub fn sets(client: &Client, json: bool) -> Result<ExitCode> {
    ShowOptions { json, watch: None }.show::<api::SetsReply>(client, "/v1/sets")
}

/// Shows elements of a set, once.
pub fn set_elements(client: &Client, set: &str, first: Option<&str>, limit: u64, json: bool) -> Result<ExitCode> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("set", set).append_pair("limit", &limit.to_string());
    if let Some(first) = first {
        query.append_pair("first", first);
    }
    let target = format!("/v1/sets/elements?{}", query.finish());
    ShowOptions { json, watch: None }.show::<api::SetElements>(client, &target)
}

/// How views are shown.
struct ShowOptions {
    json: bool,
    watch: Option<Nanos>,
}

impl ShowOptions {
    fn show<T: ShowView>(&self, client: &Client, target: &str) -> Result<ExitCode> {
        let mut sleeper = Sleeper::new(Waker::new()?);
        let mut before: Option<T> = None;
        loop {
            let now: T = client.get(target)?;
            let mut text = Vec::new();
            match (self.json, self.watch) {
                (true, None) => print_json(&mut text, &now)?,
                // One line each, for programs that read the stream.
                (true, Some(_)) => writeln!(text, "{}", serde_json::to_string(&now)?)?,
                (false, _) => now.table(before.as_ref(), &mut text)?,
            }
            let mut out = stdout().lock();
            if self.watch.is_some() && !self.json && is_coloured(&stdout()) {
                out.write_all(b"\x1b[H\x1b[2J")?;
            }
            out.write_all(&text)?;
            out.flush()?;
            let Some(interval) = self.watch else { return Ok(ExitCode::SUCCESS) };
            before = Some(now);
            sleeper.sleep([], interval)?;
        }
    }
}

/// Formats the rate of a counter between two readings; a dash if there is only one.
fn per_second(now: (u64, u64), before: Option<(u64, u64)>, show: impl Fn(f64) -> String) -> String {
    let Some((count, time)) = before.filter(|before| before.1 < now.1) else { return "-".into() };
    show(now.0.saturating_sub(count) as f64 * 1e9 / (now.1 - time) as f64)
}

/// Summarizes the dropped privileges of a process in a line.
pub fn confinement(confinement: &api::Confinement) -> String {
    let capabilities = match &confinement.capabilities[..] {
        [] => "no capabilities".to_owned(),
        some => some.join(" "),
    };
    let fences = match (confinement.landlock, confinement.seccomp) {
        (true, true) => "files and system calls restricted",
        (true, false) => "files restricted",
        (false, true) => "system calls restricted",
        (false, false) => "no restrictions",
    };
    format!("user {}, {capabilities}, {fences}", confinement.user)
}

fn on_trial(status: &api::Status) -> String {
    let Some(pending) = &status.pending else { return String::new() };
    let seconds = pending.left_ns.div_ceil(1_000_000_000);
    format!("; `switchpath confirm` within {seconds} s, or the router rolls back to generation {}", pending.back_to)
}

impl ShowView for api::Status {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let state = match self.state {
            api::RouterState::Running => "forwards",
            api::RouterState::Stopping => "is ending",
            api::RouterState::Degraded => "forwards with a failed worker (see `switchpath show workers`),",
            api::RouterState::Failed => "HAS FAILED",
        };
        let lines = [
            ("router", format!("{} {state}, version {}, process {}", self.name, self.version, self.pid)),
            ("running for", span(self.uptime_ns)),
            ("configuration", format!("generation {}, from {}{}", self.generation, self.config, on_trial(self))),
            ("confinement", self.confinement.as_ref().map_or("none".into(), confinement)),
            ("workers", self.workers.to_string()),
            ("frames", format!("{} of {} spare", self.frames_spare, self.frames)),
            ("routes", self.routes.to_string()),
            ("neighbours", self.neighbours.to_string()),
            ("packets held", self.held_packets.to_string()),
            ("ledger", if self.balanced { "balances".into() } else { "DOES NOT BALANCE".into() }),
        ];
        lines.iter().try_for_each(|(what, value)| writeln!(out, "{what:<14} {value}"))?;
        for capture in &self.captures {
            let api::Capture { matching, captured_packets, missed_packets } = capture;
            writeln!(out, "{:<14} {matching}: {captured_packets} packets, {missed_packets} missed", "capture")?;
        }
        Ok(())
    }
}

impl ShowView for api::Paths {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows =
            Rows::new(&["path", "match", "functions", ">entered", ">left", ">dropped", ">other", ">queued", ">in/s"]);
        for path in &self.paths {
            let old = before
                .and_then(|b| b.paths.iter().find(|p| p.name == path.name).map(|p| (p.counters.entered, b.time_ns)));
            rows.add([
                path.name.clone(),
                or_dash(path.matching.as_deref()),
                path.functions.join(" "),
                path.counters.entered.to_string(),
                path.counters.left.to_string(),
                path.counters.dropped.to_string(),
                (path.counters.consumed + path.counters.diverted).to_string(),
                path.queued_packets.to_string(),
                per_second((path.counters.entered, self.time_ns), old, short),
            ]);
        }
        rows.print(out)
    }
}

/// The paths, shown by the latency of their packets.
#[derive(Serialize, Deserialize)]
struct Latencies(api::Paths);

impl ShowView for Latencies {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows =
            Rows::new(&["path", "where", ">packets", ">mean", ">p50", ">p99", ">p99.9", ">max", ">promised", ">late"]);
        for path in &self.0.paths {
            let old = before.and_then(|b| b.0.paths.iter().find(|p| p.name == path.name));
            let places: [(&str, LatencyField); 3] = [
                ("before functions", |path| path.waited_before.as_ref()),
                ("behind them", |path| path.waited_behind.as_ref()),
                ("in total", |path| path.latency.as_ref()),
            ];
            for (index, (place, of)) in places.into_iter().enumerate() {
                let Some(latency) = of(path) else { continue };
                let old = old.and_then(of);
                // In a repeated view, only packets since the previous answer count.
                let at = |thousandths| latency.recent_quantile_ns(old, thousandths).map_or("-".into(), brief);
                let last = index == 2;
                let promised = path.promised_delay_ns.filter(|_| last).map_or(String::new(), brief);
                rows.add([
                    path.name.clone(),
                    place.into(),
                    latency.packets.saturating_sub(old.map_or(0, |old| old.packets)).to_string(),
                    brief(latency.mean_ns()),
                    at(500),
                    at(990),
                    at(999),
                    brief(latency.max_ns),
                    promised,
                    if last && path.promised_delay_ns.is_some() {
                        path.late_packets.to_string()
                    } else {
                        String::new()
                    },
                ]);
            }
        }
        rows.print(out)
    }
}

/// The place of one latency in a path.
type LatencyField = fn(&api::Path) -> Option<&api::LatencyReply>;

impl ShowView for api::QueuesReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&["stage", "path", "port", ">packets", ">bytes", ">capacity", ">worker"]);
        for queue in &self.queues {
            let stage = match queue.stage {
                api::QueueStage::Input => "input",
                api::QueueStage::Output => "output",
                api::QueueStage::Link => "link",
            };
            rows.add([
                stage.into(),
                or_dash(queue.path.as_deref()),
                or_dash(queue.port.as_deref()),
                queue.packets.to_string(),
                queue.bytes.map_or("-".into(), |bytes| bytes.to_string()),
                queue.capacity_packets.map_or("-".into(), |packets| packets.to_string()),
                queue.worker.to_string(),
            ]);
        }
        rows.print(out)
    }
}

/// The state of a worker in a word.
fn state(state: api::WorkerState) -> &'static str {
    match state {
        api::WorkerState::Working => "working",
        api::WorkerState::Spinning => "spinning",
        api::WorkerState::Asleep => "asleep",
        api::WorkerState::Stuck => "STUCK",
        api::WorkerState::Failed => "FAILED",
        api::WorkerState::Ended => "ended",
    }
}

impl ShowView for api::Workers {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&[
            ">worker",
            ">core",
            "state",
            ">load",
            ">packets/s",
            ">packets",
            ">wake-ups",
            ">handed over",
            ">taken over",
            ">held",
            ">stalls",
            ">stalled",
            ">restarts",
            ">heartbeat",
        ]);
        for worker in &self.workers {
            rows.add([
                worker.worker.to_string(),
                worker.core.map_or("any".into(), |core| core.to_string()),
                state(worker.state).into(),
                format!("{:.1}%", worker.busy_ppm as f64 / 1e4),
                short(worker.packets_per_second as f64),
                worker.packets.to_string(),
                worker.wakeups.to_string(),
                worker.handed_over_packets.to_string(),
                worker.taken_over_packets.to_string(),
                worker.held_packets.to_string(),
                (worker.stalls.handoff_stalls + worker.stalls.pool_stalls + worker.stalls.link_stalls).to_string(),
                span(worker.stalls.handoff_stalled + worker.stalls.pool_stalled + worker.stalls.link_stalled),
                worker.restarts.to_string(),
                format!("{} ago", span(worker.heartbeat_age_ns)),
            ]);
        }
        rows.print(out)
    }
}

/// How the core receives, if the router reports it.
fn receive_mode(core: &api::CoreReply) -> String {
    if core.receive.is_empty() { String::new() } else { format!(" receives by {}", core.receive) }
}

/// The measurements of the throttle, if there is one.
fn throttle(core: &api::CoreReply) -> String {
    let (Some(overhead), Some(slice)) = (core.overhead_ppm, core.slice_ns) else { return String::new() };
    format!("; throttled to an overhead of {:.1}% and slices of {}", f64::from(overhead) / 1e4, brief(slice))
}

impl ShowView for api::TasksReply {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let columns =
            ["task", "state", ">share", ">cpu", ">runs", ">batch", ">cost", ">B", ">D", ">late", ">lag", ">queue"];
        let mut rows = Rows::new(&columns);
        for task in &self.tasks {
            let same = |t: &&api::Task| (t.worker, t.task) == (task.worker, task.task) && t.used_ns <= task.used_ns;
            let old = before.and_then(|b| b.tasks.iter().find(same).map(|t| (t.used_ns, b.time_ns)));
            let percent = |ppm: f64| format!("{:.1}%", ppm / 1e4);
            let cpu = match old {
                Some(_) => per_second((task.used_ns, self.time_ns), old, |ns| percent(ns / 1e3)),
                None => percent(task.received_ppm.into()),
            };
            let over = if task.exceeds_declared_cost { "!" } else { "" };
            let mean = task.packets as f64 / task.runs.max(1) as f64;
            let several = if self.cores.len() > 1 { format!("{}: ", task.worker) } else { String::new() };
            let of = task.path.as_deref().or(task.port.as_deref()).unwrap_or("-");
            rows.add([
                format!("{several}{} {of}", task.kind),
                task.state.clone(),
                percent(task.share_ppm.into()),
                cpu,
                short(task.runs as f64),
                format!("{mean:.1}"),
                format!("{}{over}", brief(task.cost_ns)),
                task.batch.to_string(),
                // An input task waits as long as its estimator decides (spec Q-34).
                task.sleeps_ns.or(task.max_wait_ns).map_or("-".into(), brief),
                short(task.timeouts as f64),
                brief(task.lag_ns),
                task.capacity_packets.map_or("-".into(), |packets| packets.to_string()),
            ]);
        }
        rows.print(out)?;
        for core in &self.cores {
            let percent = |part: Option<f64>| part.map_or("-".into(), |part| format!("{:.1}%", 100.0 * part));
            writeln!(
                out,
                "worker {}{}: efficiency {}, counting empty polls as work {}; a switch costs {}{}",
                core.worker,
                receive_mode(core),
                percent(core.efficiency()),
                percent(core.efficiency_literal()),
                brief(core.switch_cost_ns),
                throttle(core),
            )?;
        }
        Ok(())
    }
}

impl ShowView for api::Routes {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows =
            Rows::new(&["", "vrf", "prefix", "origin", "protocol", "action", "gateway", "interface", ">share"]);
        for route in &self.routes {
            rows.add([
                if route.active { "*".into() } else { String::new() },
                route.vrf.clone().unwrap_or_else(|| "main".into()),
                route.prefix.clone(),
                route.origin.clone(),
                or_dash(route.protocol.as_deref()),
                route.action.clone(),
                or_dash(route.gateway.as_deref()),
                or_dash(route.interface.as_deref()),
                String::new(),
            ]);
            for hop in &route.gateways {
                let state = if hop.usable { String::new() } else { "left out".into() };
                let share = format!("{:.1}%", hop.share * 100.0);
                let blank = String::new;
                rows.add([
                    blank(),
                    blank(),
                    blank(),
                    blank(),
                    blank(),
                    state,
                    hop.address.clone(),
                    hop.interface.clone(),
                    share,
                ]);
            }
        }
        rows.print(out)?;
        if self.truncated {
            writeln!(out, "and more: {} routes in all; see --limit and --prefix", self.total)?;
        }
        Ok(())
    }
}

impl ShowView for api::FunctionsReply {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&["path", "function", "declared", "counted", ">packets", ">bytes", ">packets/s"]);
        for (index, function) in self.functions.iter().enumerate() {
            let byte = match function.kilobyte_ns {
                0 => String::new(),
                kilobyte => format!(" + {}ns/b", kilobyte as f64 / 1000.0),
            };
            let cost = format!("{}{byte}, {}", span(function.packet_ns), function.cost_source);
            let first = [function.path.clone(), function.function.clone(), cost];
            if function.counters.is_empty() {
                let [path, name, cost] = first.clone();
                rows.add([path, name, cost, "-".into(), "-".into(), "-".into(), "-".into()]);
            }
            for (place, counter) in function.counters.iter().enumerate() {
                let [path, name, cost] = if place == 0 { first.clone() } else { Default::default() };
                let known = before.and_then(|before| {
                    let counter = before.functions.get(index)?.counters.get(place)?;
                    Some((counter.packets, before.time_ns))
                });
                let rate = per_second((counter.packets, self.time_ns), known, short);
                let (packets, bytes) = (counter.packets.to_string(), counter.bytes.to_string());
                rows.add([path, name, cost, counter.name.clone(), packets, bytes, rate]);
            }
        }
        rows.print(out)
    }
}

impl ShowView for api::Neighbours {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&["interface", "address", "mac", "state", ">for", ">waiting"]);
        for neighbour in &self.neighbours {
            rows.add([
                neighbour.interface.clone(),
                neighbour.address.clone(),
                or_dash(neighbour.mac.as_deref()),
                neighbour.state.clone(),
                span(neighbour.age_ns),
                neighbour.pending_packets.to_string(),
            ]);
        }
        rows.print(out)
    }
}

impl ShowView for api::Drops {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&["reason", ">packets", ">/s", "where", "meaning"]);
        for drop in &self.drops {
            let old = before.map(|b| {
                let packets = b.drops.iter().find(|d| d.reason == drop.reason).map_or(0, |d| d.packets);
                (packets, b.time_ns)
            });
            let places: Vec<String> = drop.ports.iter().map(|at| format!("{} {}", at.port, at.packets)).collect();
            rows.add([
                drop.reason.clone(),
                drop.packets.to_string(),
                per_second((drop.packets, self.time_ns), old, short),
                places.join(", "),
                drop.explanation.clone(),
            ]);
        }
        rows.print(out)
    }
}

impl ShowView for api::Events {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if self.missed > 0 {
            writeln!(out, "{} older events are no longer stored", self.missed)?;
        }
        let mut rows = Rows::new(&[">number", "time (UTC)", "subject", "event"]);
        for event in &self.events {
            let subject = or_dash(event.subject.as_deref());
            rows.add([event.sequence.to_string(), time_of_day(event.time_ns), subject, event.text.clone()]);
            if let Some(hint) = &event.hint {
                rows.add([String::new(), String::new(), String::new(), format!("  {hint}")]);
            }
        }
        rows.print(out)
    }
}

impl ShowView for api::Ledgers {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows =
            Rows::new(&["worker", ">received", ">generated", ">sent", ">consumed", ">dropped", ">held", "balances"]);
        for ledger in self.workers.iter().chain([&self.total]) {
            rows.add([
                ledger.worker.map_or("all".into(), |worker| worker.to_string()),
                ledger.received_packets.to_string(),
                ledger.generated_packets.to_string(),
                ledger.sent_packets.to_string(),
                ledger.consumed_packets.to_string(),
                ledger.dropped_packets.to_string(),
                ledger.held_packets.to_string(),
                if ledger.is_balanced() { "yes".into() } else { "NO".into() },
            ]);
        }
        rows.print(out)
    }
}

impl ShowView for api::Config {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "# generation {}, from {}", self.generation, self.name)?;
        write!(out, "{}", self.text)?;
        if self.text.ends_with('\n') { Ok(()) } else { Ok(writeln!(out)?) }
    }
}
