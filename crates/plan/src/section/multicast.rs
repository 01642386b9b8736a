//! `[[multicast]]`: the groups whose packets are forwarded.

use super::connected::{Connected, InterfaceIndex, no_host};
use super::hop::address;
use super::route::elements;
use crate::MulticastPlan;
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section, Text};
use crate::keys::{MOST_COPIES, MOST_GROUPS, MULTICAST};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn read(report: &mut Report<'_>, root: &Section<'_>, connected: &Connected) -> Vec<MulticastPlan> {
    let parent = Path::Key(&root.path, "multicast");
    let mut seen = HashMap::new();
    let mut out = Vec::new();
    for (index, span, value) in elements(report, root, "multicast", MOST_GROUPS) {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, MULTICAST, "[[multicast]]") else { continue };
        let from = section.text(report, "from").and_then(|text| connected.named(report, &text).ok());
        let to = from.and_then(|from| copies(report, &section, connected, from));
        let source = source(report, &section);
        let Some(text) = section.text(report, "group") else { continue };
        let Some(group) = address(report, &text).filter(|&group| forwarded(report, &text, group)) else { continue };
        let (Some(from), Ok(source)) = (from, source) else { continue };
        if source.is_some_and(|source| source.is_ipv4() != group.is_ipv4()) {
            text.error(report, || {
                (format!("{group} and its source are of different families"), "write two addresses of one".to_string())
            });
            continue;
        }
        if !connected.speaks(from, group.is_ipv4()) {
            text.error(report, || {
                let (name, family) = (connected.interface_name(from), if group.is_ipv4() { "IPv4" } else { "IPv6" });
                (
                    format!("nothing to {group} comes by '{name}', which has no {family} address"),
                    "give it one".to_string(),
                )
            });
        }
        let first = *seen.entry((connected.place(from), group, source)).or_insert(index);
        if first != index {
            text.error(report, || {
                let of = source.map_or_else(String::new, |source| format!(" from {source}"));
                let reason = format!("where packets to {group}{of} go is said already, by multicast[{first}]");
                (reason, "make one of the two".to_string())
            });
        }
        let Some(to) = to else { continue };
        let mut to: Vec<_> = to.into_iter().map(|index| connected.interface_name(index).clone()).collect();
        to.sort_unstable();
        let vrf = connected.vrf_name(connected.place(from)).cloned();
        out.push(MulticastPlan { vrf, group, source, from: connected.interface_name(from).clone(), to });
    }
    out.sort_by(|a, b| (&a.vrf, a.group, a.source).cmp(&(&b.vrf, b.group, b.source)));
    out
}

/// Whether routers forward packets to `group` (RFC 5771 4, RFC 4291 2.7, RFC 7346 2); where not, that is reported.
fn forwarded(report: &mut Report<'_>, text: &Text<'_>, group: IpAddr) -> bool {
    let why = match group {
        _ if !group.is_multicast() => "is no multicast address",
        IpAddr::V4(group) if group.octets()[..3] == [224, 0, 0] => "stays on its link",
        IpAddr::V6(group) if group.octets()[1] & 0xf <= 2 => "stays on its link",
        // All routers of a site (RFC 4291 2.7.1).
        IpAddr::V6(group) if group == Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2) => "is the router's own",
        _ => return true,
    };
    text.error(report, || {
        let example = if group.is_ipv4() { IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)) } else { IpAddr::V6(SITE) };
        (format!("{group} {why}"), format!("write a group of wider scope, like '{example}'"))
    });
    false
}

/// A group within the scope of a site, for a hint.
const SITE: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 3);

/// The host named as source, if one is. Err: reported.
fn source(report: &mut Report<'_>, section: &Section<'_>) -> Result<Option<IpAddr>, ()> {
    if section.node("source").is_none() {
        return Ok(None);
    }
    let text = section.text(report, "source").ok_or(())?;
    let source = address(report, &text).ok_or(())?;
    if let Some(kind) = no_host(source) {
        text.error(report, || (format!("{source} is {kind}, and sends nothing"), "write the address of a host".into()));
        return Err(());
    }
    Ok(Some(source))
}

/// The interfaces that get copies. None: reported, or excused.
fn copies(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &Connected,
    from: InterfaceIndex,
) -> Option<Vec<InterfaceIndex>> {
    let texts = section.one_or_more(report, "to", MOST_COPIES)?;
    let mut to = Vec::with_capacity(texts.len());
    for text in texts {
        let Ok(index) = connected.named(report, &text) else { return None };
        let name = connected.interface_name(index);
        let wrong = if index == from {
            Some((format!("'{name}' is where its packets come from: they would go round in circles"), "leave it out"))
        } else if to.contains(&index) {
            Some((format!("'{name}' is named twice"), "leave one out: each interface gets one copy"))
        } else if connected.place(index) != connected.place(from) {
            Some((format!("'{name}' is in another VRF than '{}'", connected.interface_name(from)), "leave it out"))
        } else if to.len() == MOST_COPIES {
            Some((format!("there are more than {MOST_COPIES} interfaces"), "use fewer"))
        } else {
            None
        };
        if let Some((reason, hint)) = wrong {
            text.error(report, || (reason, hint.to_string()));
            return None;
        }
        to.push(index);
    }
    Some(to)
}
