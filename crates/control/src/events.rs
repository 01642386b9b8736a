//! The event log: bounded, written by workers and the control side, and readable by all.
//!
//! Each kind of event has a ring of its own, so that one kind cannot displace another. Events of one kind about one port, interface or path are
//! limited by a token bucket. Events beyond it are counted, and a later event reports their number.

use crate::api::{self, Who};
use crate::names::Names;
use crate::remarks;
use packet::LinkCounters;
use packet::event::{Event, NeighbourState, Way};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use units::{Bucket, Generation, Instant, InterfaceId, Mac, Nanos, PathId, PortId, WorkerId};

/// The most events kept of one kind.
const EACH: usize = 500;
/// The bucket of events of one kind about one subject: its size, and its rate per second.
const BURST: u64 = 200;
const RATE: u64 = 2;
/// The most subjects with a bucket of their own. A subject is forgotten when its bucket must be full again.
const SOURCES: usize = 1024;
const SOURCE_FORGOTTEN: Nanos = Nanos::secs(BURST / RATE);
/// The interval at which the number of suppressed events is reported if no reader asks.
const SUMMARY: Nanos = Nanos::secs(10);

/// An event with ids; names are looked up when it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Started,
    Stopping,
    Applied {
        generation: Generation,
        changes: usize,
        name: String,
        who: Who,
    },
    Pending {
        generation: Generation,
        back_to: u64,
        time: Nanos,
    },
    Confirmed {
        generation: Generation,
        who: Who,
    },
    RolledBack {
        generation: Generation,
        restores: u64,
        name: String,
        who: Who,
    },
    Refused {
        name: String,
        reason: String,
    },
    Edited {
        edited: api::Edited,
        name: String,
    },
    Adopted {
        worker: WorkerId,
        generation: Generation,
    },
    PortLink {
        port: PortId,
        up: bool,
    },
    PortMtu {
        port: PortId,
        mtu: u16,
        configured: u16,
    },
    PortDrained(PortId),
    PathDrained(PathId),
    Neighbour {
        interface: InterfaceId,
        address: IpAddr,
        mac: Option<Mac>,
        state: NeighbourState,
    },
    AddressConflict {
        interface: InterfaceId,
        address: IpAddr,
        mac: Mac,
    },
    RouterContradicts {
        interface: InterfaceId,
        router: Ipv6Addr,
        about: &'static str,
    },
    SchemeChanged {
        worker: WorkerId,
        port: PortId,
        way: Way,
        version: u32,
        before: LinkCounters,
        packets: (u32, u32),
    },
    Policy(Box<plane::Choice>),
    Remarked {
        port: Option<PortId>,
        path: Option<PathId>,
        remark: packet::Remark,
    },
    FunctionFailed {
        path: PathId,
        what: String,
    },
    SchemeFailed {
        worker: WorkerId,
        port: PortId,
        what: String,
    },
    GuestFailed {
        port: PortId,
        what: String,
        for_good: bool,
    },
    GuestSaid {
        port: PortId,
        line: String,
    },
    InstructionFailed {
        worker: WorkerId,
        instruction: String,
        what: String,
        for_good: bool,
    },
    WorkerFailed {
        worker: WorkerId,
        reason: String,
    },
    WorkerRestarted {
        worker: WorkerId,
        reason: String,
        lost: u64,
    },
    WorkerStuck {
        worker: WorkerId,
        time: Nanos,
    },
    WorkerRecovered {
        worker: WorkerId,
        time: Nanos,
    },
    Remark(String),
    /// This many events like the last one were suppressed within this time.
    LeftOut {
        count: u64,
        time: Nanos,
        last: Box<What>,
    },
}

impl What {
    /// Converts an event of the plane; none for packets and dispatches, which are not logged.
    pub fn of(event: &Event<'_>) -> Option<What> {
        Some(match *event {
            Event::PortLink { port, up } => What::PortLink { port, up },
            Event::PortMtu { port, mtu, configured } => What::PortMtu { port, mtu, configured },
            Event::Neighbour { interface, address, mac, state } => What::Neighbour { interface, address, mac, state },
            Event::AddressConflict { interface, address, mac } => What::AddressConflict { interface, address, mac },
            Event::RouterContradicts { interface, router, about } => {
                What::RouterContradicts { interface, router, about }
            }
            Event::Adopted { worker, generation } => What::Adopted { worker, generation },
            Event::SchemeChanged { worker, port, way, version, before, packets } => {
                What::SchemeChanged { worker, port, way, version, before, packets }
            }
            Event::Remarked { port, path, remark, .. } => What::Remarked { port, path, remark },
            Event::FunctionFailed { path, misdeed, .. } => {
                What::FunctionFailed { path, what: remarks::misdeed(misdeed) }
            }
            Event::SchemeFailed { worker, port, what } => What::SchemeFailed { worker, port, what: what.into() },
            Event::GuestFailed { port, what, for_good, .. } => What::GuestFailed { port, what: what.into(), for_good },
            Event::InstructionFailed { worker, instruction, what, for_good } => {
                What::InstructionFailed { worker, instruction: instruction.into(), what: what.into(), for_good }
            }
            Event::GuestSaid { port, line, .. } => What::GuestSaid { port, line: line.into() },
            Event::PathDrained { path } => What::PathDrained(path),
            Event::PortDrained { port } => What::PortDrained(port),
            _ => return None,
        })
    }

    fn kind(&self) -> api::EventKind {
        match self {
            What::Started => api::EventKind::Started,
            What::Stopping => api::EventKind::Stopping,
            What::Applied { .. } => api::EventKind::Applied,
            What::Pending { .. } => api::EventKind::Pending,
            What::Confirmed { .. } => api::EventKind::Confirmed,
            What::RolledBack { .. } => api::EventKind::RolledBack,
            What::Refused { .. } => api::EventKind::Refused,
            What::Edited { .. } => api::EventKind::Edited,
            What::Adopted { .. } => api::EventKind::Adopted,
            What::PortLink { .. } => api::EventKind::PortLink,
            What::PortMtu { .. } => api::EventKind::PortMtu,
            What::PortDrained(_) => api::EventKind::PortDrained,
            What::PathDrained(_) => api::EventKind::PathDrained,
            What::Neighbour { .. } => api::EventKind::Neighbour,
            What::AddressConflict { .. } => api::EventKind::AddressConflict,
            What::RouterContradicts { .. } => api::EventKind::RouterContradicts,
            What::SchemeChanged { .. } => api::EventKind::SchemeChanged,
            What::Policy(choice) if choice.failed.is_some() => api::EventKind::PolicyFailed,
            What::Policy(_) => api::EventKind::PolicyChanged,
            What::Remarked { .. } => api::EventKind::Scheduling,
            What::FunctionFailed { .. } => api::EventKind::FunctionFailed,
            What::SchemeFailed { .. } => api::EventKind::SchemeFailed,
            What::GuestFailed { .. } => api::EventKind::GuestFailed,
            What::GuestSaid { .. } => api::EventKind::GuestSaid,
            What::InstructionFailed { .. } => api::EventKind::InstructionFailed,
            What::WorkerFailed { .. } => api::EventKind::WorkerFailed,
            What::WorkerRestarted { .. } => api::EventKind::WorkerRestarted,
            What::WorkerStuck { .. } => api::EventKind::WorkerStuck,
            What::WorkerRecovered { .. } => api::EventKind::WorkerRecovered,
            What::Remark(_) => api::EventKind::Remark,
            What::LeftOut { last, .. } => last.kind(),
        }
    }

    /// Returns the number of its subject among those of its kind.
    fn thing(&self) -> Option<usize> {
        match self {
            What::PortLink { port, .. }
            | What::PortMtu { port, .. }
            | What::PortDrained(port)
            | What::SchemeChanged { port, .. }
            | What::SchemeFailed { port, .. }
            | What::Remarked { port: Some(port), .. }
            | What::GuestFailed { port, .. }
            | What::GuestSaid { port, .. } => Some(port.index()),
            What::Policy(choice) => Some(choice.port.index()),
            What::PathDrained(path) | What::FunctionFailed { path, .. } => Some(path.index()),
            What::Neighbour { interface, .. }
            | What::AddressConflict { interface, .. }
            | What::RouterContradicts { interface, .. } => Some(interface.index()),
            What::Adopted { worker, .. }
            | What::WorkerFailed { worker, .. }
            | What::WorkerRestarted { worker, .. }
            | What::WorkerStuck { worker, .. }
            | What::WorkerRecovered { worker, .. } => Some(worker.index()),
            What::LeftOut { last, .. } => last.thing(),
            _ => None,
        }
    }

    fn subject(&self, names: &Names) -> Option<String> {
        match self {
            What::LeftOut { last, .. } => last.subject(names),
            What::PortLink { port, .. }
            | What::PortMtu { port, .. }
            | What::PortDrained(port)
            | What::SchemeChanged { port, .. }
            | What::SchemeFailed { port, .. } => Some(names.port(*port)),
            What::Policy(choice) => Some(names.port(choice.port)),
            What::PathDrained(path) | What::FunctionFailed { path, .. } => Some(names.path(*path)),
            What::Remarked { port: Some(port), .. } | What::GuestFailed { port, .. } | What::GuestSaid { port, .. } => {
                Some(names.port(*port))
            }
            What::InstructionFailed { instruction, .. } => Some(instruction.clone()),
            What::Remarked { path: Some(path), .. } => Some(names.path(*path)),
            What::Neighbour { interface, .. }
            | What::AddressConflict { interface, .. }
            | What::RouterContradicts { interface, .. } => Some(names.interface(*interface)),
            What::Applied { name, .. }
            | What::RolledBack { name, .. }
            | What::Refused { name, .. }
            | What::Edited { name, .. } => Some(name.clone()),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            What::Started => "the router forwards".into(),
            What::Stopping => "the router is ending".into(),
            What::Applied { generation, changes, who, .. } => {
                let plural = if *changes == 1 { "" } else { "s" };
                format!("generation {generation} runs, {changes} change{plural}, by {who}")
            }
            What::Pending { generation, back_to, time } => format!(
                "generation {generation} is to be confirmed within {} s, or generation {back_to} comes back",
                time.get().div_ceil(1_000_000_000)
            ),
            What::Confirmed { generation, who } => format!("generation {generation} is confirmed, by {who}"),
            What::RolledBack { generation, restores, who, .. } => {
                format!("generation {generation} runs, back to the configuration of generation {restores}: {who}")
            }
            What::Refused { reason, .. } => format!("refused: {reason}"),
            What::Edited { edited: e, .. } => format!(
                "routes: {} set, {} taken away; neighbours: {} set, {} taken away",
                e.routes_added, e.routes_removed, e.neighbours_added, e.neighbours_removed
            ),
            What::Adopted { worker, generation } => format!("worker {worker} runs generation {generation}"),
            What::PortLink { up: true, .. } => "the medium is connected".into(),
            What::PortLink { up: false, .. } => "the medium is disconnected".into(),
            What::PortMtu { mtu, configured, .. } if mtu < configured => format!(
                "its interface accepts packets of {mtu} bytes, fewer than the {configured} of the configuration: longer packets \
                 are fragmented or refused as too big"
            ),
            What::PortMtu { configured, .. } => {
                format!("its interface accepts packets of {configured} bytes, as the configuration says")
            }
            What::PortDrained(_) => "removed, and closed".into(),
            What::PathDrained(_) => "removed, and empty".into(),
            What::Neighbour { address, mac: Some(mac), state, .. } => format!("{address} at {mac} is {}", state.name()),
            What::Neighbour { address, state, .. } => format!("{address} is {}", state.name()),
            What::AddressConflict { address, mac, .. } => format!("{mac} answers for {address}, which is ours"),
            What::RouterContradicts { router, about, .. } => {
                format!("the router {router} advertises something else than this one: {about}")
            }
            What::SchemeChanged { worker, way, version, before, packets, .. } => {
                remarks::scheme_changed(*worker, (*way, *packets), *version, before)
            }
            What::Policy(choice) => remarks::chosen(choice),
            What::Remarked { remark, .. } => remarks::text(remark),
            What::FunctionFailed { what, .. } => what.clone(),
            What::SchemeFailed { worker, what, .. } => {
                format!(
                    "its queueing scheme panicked and is put aside, and packets leave first come, first served (worker {worker}): {what}"
                )
            }
            What::GuestFailed { what, for_good, .. } => {
                let then = if *for_good { "until there is another configuration" } else { "for a second" };
                format!("the guest is put aside, and packets leave first come, first served, {then}: {what}")
            }
            What::InstructionFailed { worker, what, for_good, .. } => {
                let then = if *for_good { ", and is not executed until there is another configuration" } else { "" };
                format!("the instruction failed, and its packet was not executed{then} (worker {worker}): {what}")
            }
            What::GuestSaid { line, .. } => format!("the guest says: {line}"),
            What::WorkerFailed { worker, reason } => format!("worker {worker} has failed: {reason}"),
            What::WorkerRestarted { worker, reason, lost } => {
                let plural = if *lost == 1 { "" } else { "s" };
                format!("worker {worker} began anew and has lost {lost} packet{plural}: {reason}")
            }
            What::WorkerStuck { worker, time } => {
                format!("worker {worker} has not moved for {} ms", time.get() / 1_000_000)
            }
            What::WorkerRecovered { worker, time } => {
                format!("worker {worker} moves again after {} ms", time.get() / 1_000_000)
            }
            What::Remark(text) => text.clone(),
            What::LeftOut { count, time, last } => {
                let (plural, were) = if *count == 1 { ("", "was") } else { ("s", "were") };
                let seconds = time.get() as f64 / 1e9;
                let last = last.text();
                format!(
                    "{count} more event{plural} of this kind {were} left out within {seconds:.1} s, the last of them: {last}"
                )
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub sequence: u64,
    pub time: Instant,
    pub what: What,
}

impl Entry {
    /// Returns the event for the API; `epoch` is the offset to times since 1970.
    pub fn told(&self, names: &Names, epoch: Nanos) -> api::Event {
        api::Event {
            sequence: self.sequence,
            time_ns: (self.time + epoch).get(),
            kind: self.what.kind(),
            subject: self.what.subject(names),
            text: self.what.text(),
            hint: match &self.what {
                What::Remarked { remark, .. } => Some(crate::remarks::hint(remark)),
                What::SchemeFailed { .. } => Some(
                    "it is a fault of this program: please report it; another scheme, or another option of this one, takes its place with \
                     the next apply"
                        .into(),
                ),
                What::GuestFailed { .. } => Some(
                    "mend the guest and apply it anew (docs/operate/guests.md), or give the port a scheme that is built in"
                        .into(),
                ),
                What::InstructionFailed { .. } => {
                    Some("mend the guest and apply it anew (docs/operate/guests.md), or take it out of [state]".into())
                }
                What::PortMtu { mtu, configured, .. } if mtu < configured => Some(format!(
                    "`ip link set INTERFACE mtu {configured}` where it should carry more, or mtu = {mtu} for the port{}",
                    if *mtu < 1280 { "; IPv6 needs 1280" } else { "" }
                )),
                What::Policy(choice) => choice.failed.as_ref().map(|error| error.hint.clone()),
                _ => None,
            },
            left_out: if let What::LeftOut { count, .. } = self.what { count } else { 0 },
        }
    }
}

/// The log. Its lock is held at most for the time of a copy of the log, and its memory is bounded.
#[derive(Debug, Default)]
pub struct EventLog {
    kept: Mutex<Kept>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of events kept so far, which is the sequence number of the latest.
    count: u64,
    kinds: BTreeMap<api::EventKind, VecDeque<Entry>>,
    sources: BTreeMap<SourceKey, Source>,
}

type SourceKey = (api::EventKind, Option<usize>);

/// Events of one kind about one subject.
#[derive(Debug)]
struct Source {
    allowed: Bucket,
    last: Instant,
    left_out: Option<LeftOut>,
}

/// Suppressed events since the last report about them.
#[derive(Debug)]
struct LeftOut {
    count: u64,
    first: Instant,
    last: What,
}

impl EventLog {
    pub(crate) fn push(&self, time: Instant, what: What) {
        if self.kept.lock().push(time, what) {
            self.arrived.notify_all();
        }
    }

    /// Reports how many events were suppressed, for subjects whose first suppressed event is at least `age` old.
    pub(crate) fn settle(&self, now: Instant, age: Nanos) {
        self.kept.lock().settle(now, age);
    }

    /// Same as `settle`, for a reader that asks repeatedly.
    pub(crate) fn settle_old(&self, now: Instant) {
        self.settle(now, SUMMARY);
    }

    /// Returns the events from number `since` on, the number of the next, and how many of them are no longer stored.
    pub(crate) fn since(&self, since: u64) -> (Vec<Entry>, u64, u64) {
        self.kept.lock().since(since.max(1))
    }

    /// Same as `since`; waits at most `patience` if there are none.
    pub(crate) fn wait_since(&self, since: u64, patience: Duration) -> (Vec<Entry>, u64, u64) {
        let mut kept = self.kept.lock();
        if kept.count < since {
            self.arrived.wait_for(&mut kept, patience);
        }
        kept.since(since.max(1))
    }
}

impl Kept {
    /// Keeps an event, or counts it as suppressed. Returns whether it was kept.
    fn push(&mut self, time: Instant, what: What) -> bool {
        let key = self.source(&what, time);
        let new = || Source { allowed: Bucket::per_second(RATE, BURST), last: time, left_out: None };
        let source = self.sources.entry(key).or_insert_with(new);
        source.last = time;
        if source.allowed.take(time) {
            self.keep(time, what);
            return true;
        }
        match &mut source.left_out {
            Some(left_out) => {
                left_out.count += 1;
                left_out.last = what;
            }
            none => *none = Some(LeftOut { count: 1, first: time, last: what }),
        }
        false
    }

    /// Returns the bucket of an event. If there are too many subjects, the new ones of a kind share one bucket.
    fn source(&mut self, what: &What, now: Instant) -> SourceKey {
        let (kind, thing) = (what.kind(), what.thing());
        if self.sources.len() >= SOURCES && !self.sources.contains_key(&(kind, thing)) {
            // Forget subjects without suppressed events whose bucket is full again. If all others are in use, share one bucket.
            self.sources.retain(|_, source| source.left_out.is_some() || now.since(source.last) < SOURCE_FORGOTTEN);
            if self.sources.len() >= SOURCES {
                return (kind, None);
            }
        }
        (kind, thing)
    }

    fn keep(&mut self, time: Instant, what: What) {
        self.count += 1;
        let sequence = self.count;
        let ring = self.kinds.entry(what.kind()).or_default();
        if ring.len() == EACH {
            ring.pop_front();
        }
        ring.push_back(Entry { sequence, time, what });
    }

    fn settle(&mut self, now: Instant, age: Nanos) {
        let due = |source: &mut Source| source.left_out.take_if(|left_out| now.since(left_out.first) >= age);
        let said: Vec<LeftOut> = self.sources.values_mut().filter_map(due).collect();
        for LeftOut { count, first, last } in said {
            self.keep(now, What::LeftOut { count, time: now.since(first), last: Box::new(last) });
        }
    }

    fn since(&self, since: u64) -> (Vec<Entry>, u64, u64) {
        let newer = |ring: &VecDeque<Entry>| ring.partition_point(|entry| entry.sequence < since);
        let mut entries: Vec<Entry> = self.kinds.values().flat_map(|ring| ring.range(newer(ring)..)).cloned().collect();
        // Each ring is sorted by number, but the rings interleave.
        entries.sort_unstable_by_key(|entry| entry.sequence);
        // Numbers without an entry were displaced from their ring.
        let asked = (self.count + 1).saturating_sub(since);
        let missed = asked - entries.len() as u64;
        (entries, self.count + 1, missed)
    }
}

#[cfg(test)]
mod tests;
