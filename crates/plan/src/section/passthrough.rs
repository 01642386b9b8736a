//! `[[passthrough]]`: pairs of ports that are a piece of cable.

use super::connected::Connected;
use super::route::elements;
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section};
use crate::keys::{MOST_PAIRS, PASSTHROUGH};
use crate::{PassThroughPlan, PortPlan};

pub(super) fn read(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    ports: &[PortPlan],
) -> Vec<PassThroughPlan> {
    let parent = Path::Key(&root.path, "passthrough");
    let mut out: Vec<PassThroughPlan> = Vec::new();
    for (index, span, value) in elements(report, root, "passthrough", MOST_PAIRS) {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, PASSTHROUGH, "[[passthrough]]") else { continue };
        let Some(texts) = section.one_or_more(report, "ports", 2) else { continue };
        let [first, second] = &texts[..] else {
            if let Some(node) = section.node("ports") {
                report.error(node.span, node.path, || {
                    (format!("{} ports are no pair", texts.len()), "write ports = [\"line\", \"router\"]".to_string())
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
                None => Some((format!("'{name}' is a VLAN, and all that comes by a port passes"), "name the port")),
                Some(port) if routed(port) => {
                    let reason = format!("'{name}' has addresses or VLANs, and nothing that passes by comes to them");
                    Some((reason, "take them away: a pair of ports is a piece of cable"))
                }
                _ if out.iter().any(|other| other.ports.contains(name)) => {
                    Some((format!("'{name}' is one of another pair"), "make one of the two"))
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
        if let Ok(ports) = <[crate::Name; 2]>::try_from(pair) {
            out.push(PassThroughPlan { ports });
        }
    }
    out.sort_by(|a, b| a.ports.cmp(&b.ports));
    out
}
