//! What happened lately: a bounded log that workers and the control side write and everybody may read.

use crate::api::{self, Who};
use crate::names::Names;
use crate::remarks;
use parking_lot::{Condvar, Mutex};
use plane::LinkCounters;
use plane::event::{Event, NeighbourState, Way};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use units::{Generation, Instant, InterfaceId, Mac, Nanos, PathId, PortId, WorkerId};

/// Events that are kept.
const MOST: usize = 1000;

/// What happened, by ids: names are found when somebody asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Started,
    Stopping,
    Applied { generation: Generation, changes: usize, name: String, who: Who },
    Pending { generation: Generation, back_to: u64, time: Nanos },
    Confirmed { generation: Generation, who: Who },
    RolledBack { generation: Generation, restores: u64, name: String, who: Who },
    Refused { name: String, reason: String },
    Edited { edited: api::Edited, name: String },
    Adopted { worker: WorkerId, generation: Generation },
    PortLink { port: PortId, up: bool },
    PortMtu { port: PortId, mtu: u16, configured: u16 },
    PortDrained(PortId),
    PathDrained(PathId),
    Neighbour { interface: InterfaceId, address: IpAddr, mac: Option<Mac>, state: NeighbourState },
    AddressConflict { interface: InterfaceId, address: IpAddr, mac: Mac },
    RouterContradicts { interface: InterfaceId, router: Ipv6Addr, about: &'static str },
    SchemeChanged { worker: WorkerId, port: PortId, way: Way, version: u32, before: LinkCounters, packets: (u32, u32) },
    Policy(Box<plane::Choice>),
    Remarked { port: Option<PortId>, path: Option<PathId>, remark: plane::scheduler::task::Remark },
    FunctionFailed { path: PathId, what: String },
    SchemeFailed { worker: WorkerId, port: PortId, what: String },
    GuestFailed { port: PortId, what: String, for_good: bool },
    GuestSaid { port: PortId, line: String },
    InstructionFailed { worker: WorkerId, instruction: String, what: String, for_good: bool },
    WorkerFailed { worker: WorkerId, reason: String },
    WorkerRestarted { worker: WorkerId, reason: String, lost: u64 },
    WorkerStuck { worker: WorkerId, time: Nanos },
    WorkerRecovered { worker: WorkerId, time: Nanos },
    Remark(String),
}

impl What {
    /// An event of the plane; nothing for packets and dispatches, which are not logged.
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
        }
    }

    fn subject(&self, names: &Names) -> Option<String> {
        match self {
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
    /// As the API tells it; `epoch` is what to add to have time since 1970.
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
                    "mend the guest and apply it anew (docs/guests.md), or give the port a scheme that is built in"
                        .into(),
                ),
                What::InstructionFailed { .. } => {
                    Some("mend the guest and apply it anew (docs/guests.md), or take it out of [state]".into())
                }
                What::PortMtu { mtu, configured, .. } if mtu < configured => Some(format!(
                    "`ip link set INTERFACE mtu {configured}` where it should carry more, or mtu = {mtu} for the port{}",
                    if *mtu < 1280 { "; IPv6 needs 1280" } else { "" }
                )),
                What::Policy(choice) => choice.failed.as_ref().map(|error| error.hint.clone()),
                _ => None,
            },
        }
    }
}

/// The log. Writing takes a lock that is held for a copy of the log at most, and never allocates without bound.
#[derive(Debug, Default)]
pub struct EventLog {
    kept: Mutex<Kept>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    /// How many there ever were: the sequence number of the latest.
    count: u64,
    latest: VecDeque<Entry>,
}

impl EventLog {
    pub(crate) fn push(&self, time: Instant, what: What) {
        let mut kept = self.kept.lock();
        kept.count += 1;
        let sequence = kept.count;
        if kept.latest.len() == MOST {
            kept.latest.pop_front();
        }
        kept.latest.push_back(Entry { sequence, time, what });
        drop(kept);
        self.arrived.notify_all();
    }

    /// The events from number `since` on, the number of the next, and how many of them were forgotten.
    pub(crate) fn since(&self, since: u64) -> (Vec<Entry>, u64, u64) {
        self.kept.lock().since(since.max(1))
    }

    /// As `since`; waits for at most `patience` where there is none yet.
    pub(crate) fn wait_since(&self, since: u64, patience: Duration) -> (Vec<Entry>, u64, u64) {
        let mut kept = self.kept.lock();
        if kept.count < since {
            self.arrived.wait_for(&mut kept, patience);
        }
        kept.since(since.max(1))
    }
}

impl Kept {
    fn since(&self, since: u64) -> (Vec<Entry>, u64, u64) {
        let first = self.count + 1 - self.latest.len() as u64;
        let skip = since.saturating_sub(first).min(self.latest.len() as u64) as usize;
        let entries = self.latest.range(skip..).cloned().collect();
        (entries, self.count + 1, first.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(log: &EventLog, since: u64) -> (Vec<u64>, u64, u64) {
        let (entries, next, missed) = log.since(since);
        (entries.iter().map(|entry| entry.sequence).collect(), next, missed)
    }

    #[test]
    fn a_reader_gets_each_event_once_and_learns_how_many_it_missed() {
        let log = EventLog::default();
        assert_eq!(numbers(&log, 0), (vec![], 1, 0));
        for i in 0..3 {
            log.push(Instant::new(i), What::Started);
        }
        assert_eq!(numbers(&log, 0), (vec![1, 2, 3], 4, 0));
        assert_eq!(numbers(&log, 3), (vec![3], 4, 0));
        assert_eq!(numbers(&log, 4), (vec![], 4, 0));
        assert_eq!(numbers(&log, u64::MAX), (vec![], 4, 0));
        for i in 3..MOST as u64 + 5 {
            log.push(Instant::new(i), What::Stopping);
        }
        let (kept, next, missed) = numbers(&log, 4);
        assert_eq!((kept.len(), kept[0], next, missed), (MOST, 6, MOST as u64 + 6, 2));
    }

    #[test]
    fn a_waiting_reader_is_woken() {
        let log = std::sync::Arc::new(EventLog::default());
        let writer = log.clone();
        let thread = std::thread::spawn(move || writer.push(Instant::START, What::Started));
        let mut seen = Vec::new();
        while seen.is_empty() {
            seen = log.wait_since(1, Duration::from_secs(5)).0;
        }
        assert_eq!(seen[0].what, What::Started);
        thread.join().unwrap();
    }
}
