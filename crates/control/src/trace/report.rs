//! Puts traces into words.

use super::{PacketTrace, TraceStage};
use crate::api::{self, DropExplained};
use crate::explain::exception_text;
use crate::names::Names;
use fib::Tables;
use packet::event::Fate;
use packet::wire::{FieldDifference, PacketFields, summary};
use packet::{DropReason, Exception};
use plane::snapshot::Snapshot;
use std::sync::Arc;
use units::{InterfaceId, Nanos, PathId, PortId};

/// Formats traces with the names of ports, interfaces and paths, and the present routes.
pub(crate) struct TraceFormatter {
    pub names: Arc<Names>,
    pub snapshot: Arc<Snapshot>,
    pub tables: Arc<Tables>,
    /// The offset from times of the router to times since 1970.
    pub epoch: Nanos,
}

impl TraceFormatter {
    pub fn to_reply(&self, gathered: &PacketTrace) -> api::TracedPacket {
        let mut before = Nanos::ZERO;
        let mut stages: Vec<api::TracedStage> = Vec::new();
        for (after, seen) in &gathered.stages {
            let (stage, text) = self.stage(gathered, seen);
            let waited = after.get().saturating_sub(before.get());
            before = *after;
            stages.push(api::TracedStage { stage: stage.into(), after_ns: after.get(), waited_ns: waited, text });
        }
        let (fate, text) = self.fate(gathered.fate);
        if gathered.fate.is_some() {
            let (after_ns, waited_ns) = (gathered.elapsed.get(), gathered.elapsed.get().saturating_sub(before.get()));
            stages.push(api::TracedStage { stage: fate.into(), after_ns, waited_ns, text });
        }
        let in_port = gathered.stages.iter().find_map(|(_, seen)| match seen {
            TraceStage::Received { port, .. } => Some(*port),
            _ => None,
        });
        let station = |port: PortId| self.names.mac(port).map(|station| station.to_string());
        let out_port = match gathered.fate {
            Some(Fate::Sent(port)) => Some(port),
            _ => None,
        };
        api::TracedPacket {
            time_ns: (gathered.time + self.epoch).get(),
            packet: summary(&gathered.frame).to_string(),
            in_port: in_port.map(|port| self.names.port(port)).unwrap_or_default(),
            in_station: in_port.and_then(station),
            stages,
            skipped_stages: gathered.skipped as u64,
            fate: fate.to_owned(),
            out_port: out_port.map(|port| self.names.port(port)),
            out_station: out_port.and_then(station),
            drop: match gathered.fate {
                Some(Fate::Dropped(reason)) => Some(DropExplained::from(reason)),
                _ => None,
            },
            took_ns: gathered.elapsed.get(),
            frame: hex(&gathered.frame),
            sent_frame: gathered.sent.as_deref().map(hex),
        }
    }

    fn stage(&self, gathered: &PacketTrace, seen: &TraceStage) -> (&'static str, String) {
        match seen {
            TraceStage::Received { port, length } => {
                ("received", format!("by {}, {length} bytes", self.names.port(*port)))
            }
            TraceStage::Classified { refused: reason @ 1.., .. } => {
                let reason = DropReason::ALL.get(usize::from(*reason) - 1).map_or("?", |reason| reason.name());
                ("classified", format!("refused: {reason}"))
            }
            TraceStage::Classified { interface, exception: code @ 1.., .. } => {
                let why = Exception::of(*code).map_or("an exception", exception_text);
                ("classified", format!("interface {}, {why}", self.names.interface(*interface)))
            }
            TraceStage::Classified { interface, out, path, .. } if *out == plane::multicast::SEVERAL_INTERFACES => {
                let (from, path) = (self.names.interface(*interface), self.names.path(*path));
                ("classified", format!("interface {from}, copies go to its group, path {path}"))
            }
            TraceStage::Classified { interface, out, path, .. } => {
                let (from, to) = (self.names.interface(*interface), self.names.interface(*out));
                let route = self.route(*interface, &gathered.frame).unwrap_or_default();
                (
                    "classified",
                    format!(
                        "interface {from}{route}, leaves by {to}, path {}{}",
                        self.names.path(*path),
                        self.rule(*path)
                    ),
                )
            }
            TraceStage::Copied(out) => ("copied", format!("a copy leaves by {}", self.names.interface(*out))),
            TraceStage::Waiting { path, behind } => {
                ("queued", format!("on path {}, behind {behind} packets", self.names.path(*path)))
            }
            TraceStage::Function { path, index, changes } => {
                ("function", format!("{}: {}", self.function(*path, *index), format_changes(changes)))
            }
            TraceStage::Host(code) => ("host", Exception::of(*code).map_or("an exception", exception_text).to_owned()),
            TraceStage::Offered { port, passes: true, .. } => {
                ("link", format!("{} is idle: passes by the scheme", self.names.port(*port)))
            }
            TraceStage::Offered { port, packets, bytes, .. } => {
                let port = self.names.port(*port);
                ("link", format!("offered to the scheme of {port}, behind {packets} packets of {bytes} bytes"))
            }
            TraceStage::Changed(changes) => ("changed", format_changes(changes)),
        }
    }

    /// Returns the route to the destination of `frame` for packets received on `interface`.
    fn route(&self, interface: InterfaceId, frame: &[u8]) -> Option<String> {
        let routes = self.tables.covering(self.tables.vrf_of(interface), PacketFields::of(frame)?.destination);
        let route = routes.first()?;
        let members = route.members.iter().map(|member| format!(" via {}", member.hop.address));
        let via = route.next_hop.map_or_else(|| members.collect(), |hop| format!(" via {hop}"));
        Some(format!(", route {} {}{via}", route.prefix, route.origin.name()))
    }

    /// Returns the rule that selects a path, if there is only one: the trace does not know which one has matched.
    fn rule(&self, path: PathId) -> String {
        let position = self.snapshot.paths.iter().position(|spec| spec.id == path);
        let rules = position.map_or_else(Vec::new, |position| self.snapshot.rules.rules_to(position as u16));
        match &rules[..] {
            [rule] => format!(" ({})", rule.matching),
            _ => String::new(),
        }
    }

    fn function(&self, path: PathId, index: usize) -> String {
        let spec = self.snapshot.paths.iter().find(|spec| spec.id == path);
        let call = spec.and_then(|spec| spec.functions.get(index));
        call.map_or_else(|| format!("function {index}"), ToString::to_string)
    }

    fn fate(&self, fate: Option<Fate>) -> (&'static str, String) {
        match fate {
            Some(Fate::Sent(port)) => ("sent", format!("by {}", self.names.port(port))),
            Some(Fate::Consumed) => ("consumed", "by the router itself".into()),
            Some(Fate::Dropped(reason)) => ("dropped", format!("{}: {}", reason.name(), reason.explanation().trim())),
            None => ("unknown", "the trace ended before".into()),
        }
    }
}

fn format_changes(changes: &[FieldDifference]) -> String {
    let tell = |d: &FieldDifference| format!("{} {} -> {}", d.field, d.before, d.after);
    if changes.is_empty() { "changes nothing".into() } else { changes.iter().map(tell).collect::<Vec<_>>().join(", ") }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
