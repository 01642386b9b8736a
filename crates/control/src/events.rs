//! The event log: bounded, written by workers and the control side, and readable by all.
//!
//! Each kind of event has a ring of its own, so that one kind cannot displace another. Events of one kind about one port, interface or path are
//! limited by a token bucket. Events beyond it are counted, and a later event reports their number.

mod flows;
mod shares;

use crate::advisories;
use crate::api::{self, Author};
use crate::names::Names;
pub(crate) use flows::FlowEvent;
use packet::LinkCounters;
use packet::event::{Event, NeighbourState, SchemeTransition};
use packet::port::DfqWireState;
use parking_lot::{Condvar, Mutex};
pub(crate) use shares::ShareEvent;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use units::{Bucket, Generation, Instant, InterfaceId, Mac, Nanos, PathId, PortId, WorkerId};

/// The most events kept of one kind.
const MOST_PER_KIND: usize = 500;
/// The bucket of events of one kind about one subject: its size, and its rate per second.
const BURST: u64 = 200;
const RATE: u64 = 2;
/// The most subjects with a bucket of their own. A subject is forgotten when its bucket must be full again.
const MOST_SOURCES: usize = 1024;
const SOURCE_FORGOTTEN: Nanos = Nanos::secs(BURST / RATE);
/// The interval at which the number of suppressed events is reported if no reader asks.
const SUMMARY_INTERVAL: Nanos = Nanos::secs(10);

/// An event with ids; names are looked up when it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LoggedEvent {
    Started,
    Stopping,
    Applied {
        generation: Generation,
        changes: usize,
        name: String,
        author: Author,
    },
    Pending {
        generation: Generation,
        back_to: u64,
        time: Nanos,
    },
    Confirmed {
        generation: Generation,
        author: Author,
    },
    RolledBack {
        generation: Generation,
        restores: u64,
        name: String,
        author: Author,
    },
    Refused {
        name: String,
        reason: String,
    },
    Edited {
        edited: api::Edited,
        name: String,
    },
    SetEdited {
        set: String,
        edited: api::SetEdited,
        author: Author,
    },
    RulesEdited {
        list: String,
        edited: api::RulesEdited,
        author: Author,
    },
    Shares(Box<ShareEvent>),
    /// Reserved flows were changed.
    Flows(Box<FlowEvent>),
    PacketLogged {
        path: PathId,
        text: String,
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
    DfqWire(PortId, DfqWireState, Option<Mac>),
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
        way: SchemeTransition,
        version: u32,
        before: LinkCounters,
        packets: (u32, u32),
    },
    Policy(Box<plane::PolicyChange>),
    Advisory {
        port: Option<PortId>,
        path: Option<PathId>,
        warning: packet::Advisory,
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
    GuestLogged {
        port: PortId,
        path: Option<PathId>,
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
    Warning(String),
    /// This many events like the last one were suppressed within this time.
    Suppressed {
        count: u64,
        time: Nanos,
        last: Box<LoggedEvent>,
    },
}

impl LoggedEvent {
    /// Converts an event of the plane; none for packets and dispatches, which are not logged.
    pub fn of(event: &Event<'_>) -> Option<LoggedEvent> {
        Some(match *event {
            Event::PortLink { port, up } => LoggedEvent::PortLink { port, up },
            Event::PortMtu { port, mtu, configured } => LoggedEvent::PortMtu { port, mtu, configured },
            Event::DfqWire { port, state, peer } => LoggedEvent::DfqWire(port, state, peer),
            Event::Neighbour { interface, address, mac, state } => {
                LoggedEvent::Neighbour { interface, address, mac, state }
            }
            Event::AddressConflict { interface, address, mac } => {
                LoggedEvent::AddressConflict { interface, address, mac }
            }
            Event::RouterContradicts { interface, router, about } => {
                LoggedEvent::RouterContradicts { interface, router, about }
            }
            Event::Adopted { worker, generation } => LoggedEvent::Adopted { worker, generation },
            Event::SchemeChanged { worker, port, transition: way, version, before, packets } => {
                LoggedEvent::SchemeChanged { worker, port, way, version, before, packets }
            }
            Event::Advisory { port, path, advisory: warning, .. } => LoggedEvent::Advisory { port, path, warning },
            Event::FunctionFailed { path, failure: misdeed, .. } => {
                LoggedEvent::FunctionFailed { path, what: advisories::function_failure(misdeed) }
            }
            Event::SchemeFailed { worker, port, message: what } => {
                LoggedEvent::SchemeFailed { worker, port, what: what.into() }
            }
            Event::GuestFailed { port, failure: what, is_permanent: for_good, .. } => {
                LoggedEvent::GuestFailed { port, what: what.into(), for_good }
            }
            Event::InstructionFailed { worker, instruction, failure: what, is_permanent: for_good } => {
                LoggedEvent::InstructionFailed { worker, instruction: instruction.into(), what: what.into(), for_good }
            }
            Event::GuestLogged { port, path, line, .. } => LoggedEvent::GuestLogged { port, path, line: line.into() },
            Event::PathDrained { path } => LoggedEvent::PathDrained(path),
            Event::PortDrained { port } => LoggedEvent::PortDrained(port),
            _ => return None,
        })
    }

    fn kind(&self) -> api::EventKind {
        match self {
            LoggedEvent::Started => api::EventKind::Started,
            LoggedEvent::Stopping => api::EventKind::Stopping,
            LoggedEvent::Applied { .. } => api::EventKind::Applied,
            LoggedEvent::Pending { .. } => api::EventKind::Pending,
            LoggedEvent::Confirmed { .. } => api::EventKind::Confirmed,
            LoggedEvent::RolledBack { .. } => api::EventKind::RolledBack,
            LoggedEvent::Refused { .. } => api::EventKind::Refused,
            LoggedEvent::Edited { .. } => api::EventKind::Edited,
            LoggedEvent::SetEdited { .. } => api::EventKind::SetEdited,
            LoggedEvent::RulesEdited { .. } => api::EventKind::RulesEdited,
            LoggedEvent::Shares(event) => event.kind(),
            LoggedEvent::Flows(event) => event.kind(),
            LoggedEvent::PacketLogged { .. } => api::EventKind::PacketLogged,
            LoggedEvent::Adopted { .. } => api::EventKind::Adopted,
            LoggedEvent::PortLink { .. } => api::EventKind::PortLink,
            LoggedEvent::PortMtu { .. } => api::EventKind::PortMtu,
            LoggedEvent::DfqWire(..) => api::EventKind::DfqWire,
            LoggedEvent::PortDrained(_) => api::EventKind::PortDrained,
            LoggedEvent::PathDrained(_) => api::EventKind::PathDrained,
            LoggedEvent::Neighbour { .. } => api::EventKind::Neighbour,
            LoggedEvent::AddressConflict { .. } => api::EventKind::AddressConflict,
            LoggedEvent::RouterContradicts { .. } => api::EventKind::RouterContradicts,
            LoggedEvent::SchemeChanged { .. } => api::EventKind::SchemeChanged,
            LoggedEvent::Policy(choice) if choice.failed.is_some() => api::EventKind::PolicyFailed,
            LoggedEvent::Policy(_) => api::EventKind::PolicyChanged,
            LoggedEvent::Advisory { .. } => api::EventKind::Scheduling,
            LoggedEvent::FunctionFailed { .. } => api::EventKind::FunctionFailed,
            LoggedEvent::SchemeFailed { .. } => api::EventKind::SchemeFailed,
            LoggedEvent::GuestFailed { .. } => api::EventKind::GuestFailed,
            LoggedEvent::GuestLogged { .. } => api::EventKind::GuestSaid,
            LoggedEvent::InstructionFailed { .. } => api::EventKind::InstructionFailed,
            LoggedEvent::WorkerFailed { .. } => api::EventKind::WorkerFailed,
            LoggedEvent::WorkerRestarted { .. } => api::EventKind::WorkerRestarted,
            LoggedEvent::WorkerStuck { .. } => api::EventKind::WorkerStuck,
            LoggedEvent::WorkerRecovered { .. } => api::EventKind::WorkerRecovered,
            LoggedEvent::Warning(_) => api::EventKind::Warning,
            LoggedEvent::Suppressed { last, .. } => last.kind(),
        }
    }

    /// Returns the number of its subject among those of its kind.
    fn subject_index(&self) -> Option<usize> {
        match self {
            LoggedEvent::PortLink { port, .. }
            | LoggedEvent::PortMtu { port, .. }
            | LoggedEvent::DfqWire(port, ..)
            | LoggedEvent::PortDrained(port)
            | LoggedEvent::SchemeChanged { port, .. }
            | LoggedEvent::SchemeFailed { port, .. }
            | LoggedEvent::Advisory { port: Some(port), .. }
            | LoggedEvent::GuestFailed { port, .. }
            | LoggedEvent::GuestLogged { port, path: None, .. } => Some(port.index()),
            LoggedEvent::Policy(choice) => Some(choice.port.index()),
            LoggedEvent::PathDrained(path)
            | LoggedEvent::FunctionFailed { path, .. }
            | LoggedEvent::GuestLogged { path: Some(path), .. }
            | LoggedEvent::PacketLogged { path, .. } => Some(path.index()),
            LoggedEvent::Neighbour { interface, .. }
            | LoggedEvent::AddressConflict { interface, .. }
            | LoggedEvent::RouterContradicts { interface, .. } => Some(interface.index()),
            LoggedEvent::Adopted { worker, .. }
            | LoggedEvent::WorkerFailed { worker, .. }
            | LoggedEvent::WorkerRestarted { worker, .. }
            | LoggedEvent::WorkerStuck { worker, .. }
            | LoggedEvent::WorkerRecovered { worker, .. } => Some(worker.index()),
            LoggedEvent::Shares(event) => event.subject_index(),
            LoggedEvent::Suppressed { last, .. } => last.subject_index(),
            _ => None,
        }
    }

    fn subject(&self, names: &Names) -> Option<String> {
        match self {
            LoggedEvent::Suppressed { last, .. } => last.subject(names),
            LoggedEvent::PortLink { port, .. }
            | LoggedEvent::PortMtu { port, .. }
            | LoggedEvent::DfqWire(port, ..)
            | LoggedEvent::PortDrained(port)
            | LoggedEvent::SchemeChanged { port, .. }
            | LoggedEvent::SchemeFailed { port, .. } => Some(names.port(*port)),
            LoggedEvent::Policy(choice) => Some(names.port(choice.port)),
            LoggedEvent::PathDrained(path)
            | LoggedEvent::FunctionFailed { path, .. }
            | LoggedEvent::GuestLogged { path: Some(path), .. }
            | LoggedEvent::PacketLogged { path, .. } => Some(names.path(*path)),
            LoggedEvent::Advisory { port: Some(port), .. }
            | LoggedEvent::GuestFailed { port, .. }
            | LoggedEvent::GuestLogged { port, path: None, .. } => Some(names.port(*port)),
            LoggedEvent::InstructionFailed { instruction, .. } => Some(instruction.clone()),
            LoggedEvent::Advisory { path: Some(path), .. } => Some(names.path(*path)),
            LoggedEvent::Neighbour { interface, .. }
            | LoggedEvent::AddressConflict { interface, .. }
            | LoggedEvent::RouterContradicts { interface, .. } => Some(names.interface(*interface)),
            LoggedEvent::Applied { name, .. }
            | LoggedEvent::RolledBack { name, .. }
            | LoggedEvent::Refused { name, .. }
            | LoggedEvent::Edited { name, .. } => Some(name.clone()),
            LoggedEvent::SetEdited { set, .. } => Some(set.clone()),
            LoggedEvent::RulesEdited { list, .. } => Some(list.clone()),
            LoggedEvent::Shares(event) => event.subject(),
            LoggedEvent::Flows(event) => event.subject(),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            LoggedEvent::Started => "the router forwards".into(),
            LoggedEvent::Stopping => "the router is stopping".into(),
            LoggedEvent::Applied { generation, changes, author: who, .. } => {
                let plural = if *changes == 1 { "" } else { "s" };
                format!("generation {generation} applied, {changes} change{plural}, by {who}")
            }
            LoggedEvent::Pending { generation, back_to, time } => format!(
                "confirm generation {generation} within {} s, or the router rolls back to generation {back_to}",
                time.get().div_ceil(1_000_000_000)
            ),
            LoggedEvent::Confirmed { generation, author: who } => {
                format!("generation {generation} confirmed, by {who}")
            }
            LoggedEvent::RolledBack { generation, restores, author: who, .. } => {
                format!("rolled back: generation {generation} has the configuration of generation {restores}: {who}")
            }
            LoggedEvent::Refused { reason, .. } => format!("refused: {reason}"),
            LoggedEvent::Edited { edited: e, .. } => format!(
                "routes: {} added, {} removed; neighbours: {} added, {} removed",
                e.routes_added, e.routes_removed, e.neighbours_added, e.neighbours_removed
            ),
            LoggedEvent::SetEdited { edited: e, author, .. } => format!(
                "elements: {} added, {} renewed, {} removed, {} in the set; by {author}",
                e.added, e.renewed, e.removed, e.elements
            ),
            LoggedEvent::RulesEdited { edited: e, author, .. } => {
                format!("rules: {} added, {} removed, {} in the list; by {author}", e.added.len(), e.removed, e.total)
            }
            LoggedEvent::Shares(event) => event.to_string(),
            LoggedEvent::Flows(event) => event.to_string(),
            LoggedEvent::PacketLogged { text, .. } => text.clone(),
            LoggedEvent::Adopted { worker, generation } => format!("worker {worker} runs generation {generation}"),
            LoggedEvent::PortLink { up: true, .. } => "the link is up".into(),
            LoggedEvent::PortLink { up: false, .. } => "the link is down".into(),
            LoggedEvent::PortMtu { mtu, configured, .. } if mtu < configured => format!(
                "its interface has an MTU of {mtu}, less than the configured {configured}: longer packets are fragmented or \
                 refused as too big"
            ),
            LoggedEvent::PortMtu { configured, .. } => {
                format!("its interface has an MTU of {configured}, as configured")
            }
            LoggedEvent::DfqWire(_, state, peer) => advisories::dfq_wire(*state, *peer),
            LoggedEvent::PortDrained(_) => "removed and closed".into(),
            LoggedEvent::PathDrained(_) => "removed and empty".into(),
            LoggedEvent::Neighbour { address, mac: Some(mac), state, .. } => {
                format!("{address} at {mac} is {}", state.name())
            }
            LoggedEvent::Neighbour { address, state, .. } => format!("{address} is {}", state.name()),
            LoggedEvent::AddressConflict { address, mac, .. } => {
                format!("{mac} answers for {address}, the router's own address")
            }
            LoggedEvent::RouterContradicts { router, about, .. } => {
                format!("the advertisements of router {router} contradict this router's: {about}")
            }
            LoggedEvent::SchemeChanged { worker, way, version, before, packets, .. } => {
                advisories::scheme_changed(*worker, (*way, *packets), *version, before)
            }
            LoggedEvent::Policy(choice) => advisories::policy_decision(choice),
            LoggedEvent::Advisory { warning, .. } => advisories::text(warning),
            LoggedEvent::FunctionFailed { what, .. } => what.clone(),
            LoggedEvent::SchemeFailed { worker, what, .. } => {
                format!("its queueing scheme panicked and is replaced by a fifo (worker {worker}): {what}")
            }
            LoggedEvent::GuestFailed { what, for_good, .. } => {
                let then = if *for_good { "until the next configuration" } else { "for a second" };
                format!("the guest is replaced by a fifo {then}: {what}")
            }
            LoggedEvent::InstructionFailed { worker, what, for_good, .. } => {
                let then = if *for_good { ", and it is off until the next configuration" } else { "" };
                format!("the instruction failed, and its packet was not executed{then} (worker {worker}): {what}")
            }
            LoggedEvent::GuestLogged { line, .. } => format!("the guest says: {line}"),
            LoggedEvent::WorkerFailed { worker, reason } => format!("worker {worker} has failed: {reason}"),
            LoggedEvent::WorkerRestarted { worker, reason, lost } => {
                let plural = if *lost == 1 { "" } else { "s" };
                format!("worker {worker} restarted and lost {lost} packet{plural}: {reason}")
            }
            LoggedEvent::WorkerStuck { worker, time } => {
                format!("worker {worker} has made no progress for {} ms", time.get() / 1_000_000)
            }
            LoggedEvent::WorkerRecovered { worker, time } => {
                format!("worker {worker} makes progress again after {} ms", time.get() / 1_000_000)
            }
            LoggedEvent::Warning(text) => text.clone(),
            LoggedEvent::Suppressed { count, time, last } => {
                let (plural, were) = if *count == 1 { ("", "was") } else { ("s", "were") };
                let seconds = time.get() as f64 / 1e9;
                let last = last.text();
                format!(
                    "{count} more event{plural} of this kind {were} left out within {seconds:.1} s, the latest: {last}"
                )
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub sequence: u64,
    pub time: Instant,
    pub event: LoggedEvent,
}

impl LogEntry {
    /// Returns the event for the API; `epoch` is the offset to times since 1970.
    pub fn to_reply(&self, names: &Names, epoch: Nanos) -> api::EventReply {
        api::EventReply {
            sequence: self.sequence,
            time_ns: (self.time + epoch).get(),
            kind: self.event.kind(),
            subject: self.event.subject(names),
            text: self.event.text(),
            hint: match &self.event {
                LoggedEvent::Advisory { warning, .. } => Some(crate::advisories::hint(warning)),
                LoggedEvent::SchemeFailed { .. } => Some(
                    "this is a bug in Switchpath: please report it; until then apply another scheme, or other options"
                        .into(),
                ),
                LoggedEvent::GuestFailed { .. } => Some(
                    "fix the guest and apply it again (docs/operate/guests.md), or give the port a built-in scheme"
                        .into(),
                ),
                LoggedEvent::InstructionFailed { .. } => {
                    Some("fix the guest and apply it again (docs/operate/guests.md), or remove it from [state]".into())
                }
                LoggedEvent::PortMtu { mtu, configured, .. } if mtu < configured => Some(format!(
                    "`ip link set INTERFACE mtu {configured}`, or write mtu = {mtu} for the port{}",
                    if *mtu < 1280 { "; IPv6 needs 1280" } else { "" }
                )),
                LoggedEvent::DfqWire(_, state, _) => advisories::dfq_wire_hint(*state),
                LoggedEvent::Policy(choice) => choice.failed.as_ref().map(|error| error.hint.clone()),
                _ => None,
            },
            left_out: if let LoggedEvent::Suppressed { count, .. } = self.event { count } else { 0 },
        }
    }
}

/// The log. Its lock is held at most for the time of a copy of the log, and its memory is bounded.
#[derive(Debug, Default)]
pub struct EventLog {
    stored: Mutex<StoredEvents>,
    new_events: Condvar,
}

#[derive(Debug, Default)]
struct StoredEvents {
    /// The number of events kept so far, which is the sequence number of the latest.
    count: u64,
    kinds: BTreeMap<api::EventKind, VecDeque<LogEntry>>,
    sources: BTreeMap<SourceKey, EventSource>,
}

type SourceKey = (api::EventKind, Option<usize>);

/// Events of one kind about one subject.
#[derive(Debug)]
struct EventSource {
    bucket: Bucket,
    last: Instant,
    suppressed: Option<SuppressedEvents>,
}

/// Suppressed events since the last report about them.
#[derive(Debug)]
struct SuppressedEvents {
    count: u64,
    first: Instant,
    last: LoggedEvent,
}

impl EventLog {
    pub(crate) fn push(&self, time: Instant, what: LoggedEvent) {
        if self.stored.lock().push(time, what) {
            self.new_events.notify_all();
        }
    }

    /// Reports how many events were suppressed, for subjects whose first suppressed event is at least `age` old.
    pub(crate) fn report_suppressed(&self, now: Instant, age: Nanos) {
        self.stored.lock().report_suppressed(now, age);
    }

    /// Same as `settle`, for a reader that asks repeatedly.
    pub(crate) fn report_old_suppressed(&self, now: Instant) {
        self.report_suppressed(now, SUMMARY_INTERVAL);
    }

    /// Returns the events from number `since` on, the number of the next, and how many of them are no longer stored.
    pub(crate) fn since(&self, since: u64) -> (Vec<LogEntry>, u64, u64) {
        self.stored.lock().since(since.max(1))
    }

    /// Same as `since`; waits at most `patience` if there are none.
    pub(crate) fn wait_since(&self, since: u64, patience: Duration) -> (Vec<LogEntry>, u64, u64) {
        let mut kept = self.stored.lock();
        if kept.count < since {
            self.new_events.wait_for(&mut kept, patience);
        }
        kept.since(since.max(1))
    }
}

impl StoredEvents {
    /// Keeps an event, or counts it as suppressed. Returns whether it was kept.
    fn push(&mut self, time: Instant, what: LoggedEvent) -> bool {
        let key = self.source(&what, time);
        let new = || EventSource { bucket: Bucket::per_second(RATE, BURST), last: time, suppressed: None };
        let source = self.sources.entry(key).or_insert_with(new);
        source.last = time;
        if source.bucket.take(time) {
            self.store(time, what);
            return true;
        }
        match &mut source.suppressed {
            Some(left_out) => {
                left_out.count += 1;
                left_out.last = what;
            }
            none => *none = Some(SuppressedEvents { count: 1, first: time, last: what }),
        }
        false
    }

    /// Returns the bucket of an event. If there are too many subjects, the new ones of a kind share one bucket.
    fn source(&mut self, what: &LoggedEvent, now: Instant) -> SourceKey {
        let (kind, thing) = (what.kind(), what.subject_index());
        if self.sources.len() >= MOST_SOURCES && !self.sources.contains_key(&(kind, thing)) {
            // Forget subjects without suppressed events whose bucket is full again. If all others are in use, share one bucket.
            self.sources.retain(|_, source| source.suppressed.is_some() || now.since(source.last) < SOURCE_FORGOTTEN);
            if self.sources.len() >= MOST_SOURCES {
                return (kind, None);
            }
        }
        (kind, thing)
    }

    fn store(&mut self, time: Instant, what: LoggedEvent) {
        self.count += 1;
        let sequence = self.count;
        let ring = self.kinds.entry(what.kind()).or_default();
        if ring.len() == MOST_PER_KIND {
            ring.pop_front();
        }
        ring.push_back(LogEntry { sequence, time, event: what });
    }

    fn report_suppressed(&mut self, now: Instant, age: Nanos) {
        let due = |source: &mut EventSource| source.suppressed.take_if(|left_out| now.since(left_out.first) >= age);
        let suppressed: Vec<SuppressedEvents> = self.sources.values_mut().filter_map(due).collect();
        for SuppressedEvents { count, first, last } in suppressed {
            self.store(now, LoggedEvent::Suppressed { count, time: now.since(first), last: Box::new(last) });
        }
    }

    fn since(&self, since: u64) -> (Vec<LogEntry>, u64, u64) {
        let newer = |ring: &VecDeque<LogEntry>| ring.partition_point(|entry| entry.sequence < since);
        let mut entries: Vec<LogEntry> =
            self.kinds.values().flat_map(|ring| ring.range(newer(ring)..)).cloned().collect();
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
