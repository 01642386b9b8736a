//! `[[passthrough]]`: pairs of ports that pass every frame from one to the other.

use crate::connected::Connected;
use crate::diagnostic::Report;
use crate::diff::{Step, steps};
use crate::document::{Node, Path, Section};
use crate::key::{INTERFACE, Key, Kind, key, required};
use crate::names::Name;
use crate::section::port::PortPlan;
use serde::Serialize;
use std::fmt;

pub(crate) const KEY: Key =
    key("passthrough", Kind::List(KEYS), "", "[{ ports = [\"line\", \"router\"] }]", "Pairs of pass-through ports.");

/// Limit of pairs.
const MOST_PAIRS: usize = 128;

const KEYS: &[Key] = &[required(
    "ports",
    Kind::OneOrMore(INTERFACE),
    "[\"line\", \"router\"]",
    "The two ports, without addresses and VLANs. Frames that arrive by one leave by the other, unchanged.",
)];

/// Two ports: every frame that arrives by one leaves by the other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PassThroughPlan {
    /// Their names, sorted.
    pub ports: [Name; 2],
}

impl fmt::Display for PassThroughPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.ports[0], self.ports[1])
    }
}

pub(crate) fn check(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    ports: &[PortPlan],
) -> Vec<PassThroughPlan> {
    let parent = Path::Key(&root.path, "passthrough");
    let mut out: Vec<PassThroughPlan> = Vec::new();
    for (index, span, value) in root.elements(report, "passthrough", MOST_PAIRS) {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, KEYS, "[[passthrough]]") else { continue };
        let Some(texts) = section.one_or_more(report, "ports", 2) else { continue };
        let [first, second] = &texts[..] else {
            if let Some(node) = section.node("ports") {
                report.error(node.span, node.path, || {
                    (
                        format!("a pair has two ports, not {}", texts.len()),
                        "write ports = [\"line\", \"router\"]".to_string(),
                    )
                });
            }
            continue;
        };
        let mut pair = Vec::new();
        for text in [first, second] {
            let Ok(found) = connected.named(report, text) else { continue };
            let name = connected.interface_name(found);
            let port = ports.iter().find(|port| port.name == *name);
            let routed = |port: &PortPlan| port.interfaces.iter().any(|i| i.vlan.is_some() || !i.addresses.is_empty());
            let wrong = match port {
                None => Some((
                    format!("'{name}' is a VLAN, but a port passes all its frames"),
                    "write the name of the port",
                )),
                Some(port) if routed(port) => {
                    let reason = format!("'{name}' has addresses or VLANs, which a pass-through port cannot use");
                    Some((reason, "remove the addresses and VLANs"))
                }
                _ if out.iter().any(|other| other.ports.contains(name)) => {
                    Some((format!("'{name}' belongs to another pair"), "merge the two"))
                }
                _ if pair.contains(name) => Some((format!("'{name}' is named twice"), "name two ports")),
                _ => None,
            };
            match wrong {
                Some((reason, hint)) => text.error(report, || (reason, hint.to_string())),
                None => pair.push(name.clone()),
            }
        }
        pair.sort_unstable();
        if let Ok(ports) = <[Name; 2]>::try_from(pair) {
            out.push(PassThroughPlan { ports });
        }
    }
    out.sort_by(|a, b| a.ports.cmp(&b.ports));
    out
}

pub(crate) fn diff<'p>(old: &'p [PassThroughPlan], new: &'p [PassThroughPlan]) -> Vec<Step<'p, PassThroughPlan>> {
    steps(old, new, |pair| &pair.ports)
}
