//! `[[multicast]]`: the forwarded groups with their input and output interfaces.

use crate::connected::{Connected, InterfaceIndex, address, no_host_reason};
use crate::diagnostic::Report;
use crate::diff::{Step, steps};
use crate::document::{Node, Path, Section, Text};
use crate::key::{ADDRESS, INTERFACE, Key, Kind, key, required};
use crate::names::Name;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const KEY: Key = key(
    "multicast",
    Kind::List(KEYS),
    "",
    "[{ group = \"239.1.2.3\", from = \"lan\", to = [\"wan\"] }]",
    "Multicast groups to forward.",
);

/// Limits of groups, and of output interfaces per group.
const MOST_GROUPS: usize = 16_384;
const MOST_COPIES: usize = 64;

const KEYS: &[Key] = &[
    required(
        "group",
        Kind::Text(ADDRESS),
        "\"239.1.2.3\"",
        "The group: a multicast IPv4 or IPv6 address that routers may forward.",
    ),
    key(
        "source",
        Kind::Text(ADDRESS),
        "",
        "\"192.0.2.7\"",
        "The source host. By default the entry applies to all sources without an entry of their own.",
    ),
    required(
        "from",
        Kind::Text(INTERFACE),
        "\"lan\"",
        "The input interface: `lan`, or `lan.20`. Packets of the group from other interfaces are dropped as \
         `reverse_path`.",
    ),
    required(
        "to",
        Kind::OneOrMore(INTERFACE),
        "[\"wan\", \"wan.20\"]",
        "The output interfaces, each of which gets a copy: at most 64, in the same VRF, without the input interface.",
    ),
];

/// A configured group: its packets arrive by one interface, and each output interface gets a copy (RFC 1112, RFC 7761 4.2).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MulticastPlan {
    /// The VRF of its interfaces; `None` for the main one.
    pub vrf: Option<Name>,
    /// The group.
    pub group: IpAddr,
    /// The source; `None` for all sources without an entry of their own.
    pub source: Option<IpAddr>,
    /// The input interface.
    pub from: Name,
    /// The output interfaces, sorted; at least one, and never `from`.
    pub to: Vec<Name>,
}

impl fmt::Display for MulticastPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.title(), self.interfaces_text())
    }
}

impl MulticastPlan {
    /// `239.1.2.3`, or `239.1.2.3 source 192.0.2.7`, with the name of the VRF first if it is not the main one.
    pub fn title(&self) -> String {
        let vrf = self.vrf.as_ref().map_or_else(String::new, |vrf| format!("vrf {vrf} "));
        let source = self.source.map_or_else(String::new, |source| format!(" source {source}"));
        format!("{vrf}{}{source}", self.group)
    }

    /// Its path in a difference: `multicast[239.1.2.3]`.
    pub(crate) fn path(&self) -> String {
        format!("multicast[{}]", self.title())
    }

    /// `from lan to wan wan.20`.
    pub fn interfaces_text(&self) -> String {
        format!("from {} to {}", self.from, self.to.join(" "))
    }
}

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>, connected: &Connected) -> Vec<MulticastPlan> {
    let parent = Path::Key(&root.path, "multicast");
    let mut seen = HashMap::new();
    let mut out = Vec::new();
    for (index, span, value) in root.elements(report, "multicast", MOST_GROUPS) {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, KEYS, "[[multicast]]") else { continue };
        let from = section.text(report, "from").and_then(|text| connected.named(report, &text).ok());
        let to = from.and_then(|from| copies(report, &section, connected, from));
        let source = source(report, &section);
        let Some(text) = section.text(report, "group") else { continue };
        let Some(group) = address(report, &text).filter(|&group| is_forwardable(report, &text, group)) else {
            continue;
        };
        let (Some(from), Ok(source)) = (from, source) else { continue };
        if source.is_some_and(|source| source.is_ipv4() != group.is_ipv4()) {
            text.error(report, || {
                (
                    format!("{group} and its source are of different families"),
                    "write two addresses of the same family".to_string(),
                )
            });
            continue;
        }
        if !connected.has_family(from, group.is_ipv4()) {
            text.error(report, || {
                let (name, family) = (connected.interface_name(from), if group.is_ipv4() { "IPv4" } else { "IPv6" });
                (
                    format!("'{name}' cannot receive packets to {group}: it has no {family} address"),
                    "give it one".to_string(),
                )
            });
        }
        let first = *seen.entry((connected.vrf_of(from), group, source)).or_insert(index);
        if first != index {
            text.error(report, || {
                let of = source.map_or_else(String::new, |source| format!(" from {source}"));
                let reason = format!("packets to {group}{of} have an entry already: multicast[{first}]");
                (reason, "merge the two".to_string())
            });
        }
        let Some(to) = to else { continue };
        let mut to: Vec<_> = to.into_iter().map(|index| connected.interface_name(index).clone()).collect();
        to.sort_unstable();
        let vrf = connected.vrf_name(connected.vrf_of(from)).cloned();
        out.push(MulticastPlan { vrf, group, source, from: connected.interface_name(from).clone(), to });
    }
    out.sort_by(|a, b| (&a.vrf, a.group, a.source).cmp(&(&b.vrf, b.group, b.source)));
    out
}

/// True if routers may forward packets to `group` (RFC 5771 4, RFC 4291 2.7, RFC 7346 2). Otherwise reports it.
fn is_forwardable(report: &mut Report<'_>, text: &Text<'_>, group: IpAddr) -> bool {
    let why = match group {
        _ if !group.is_multicast() => "is no multicast address",
        IpAddr::V4(group) if group.octets()[..3] == [224, 0, 0] => "is link-local, so routers do not forward it",
        IpAddr::V6(group) if group.octets()[1] & 0xf <= 2 => "is link-local, so routers do not forward it",
        // All routers of a site (RFC 4291 2.7.1).
        IpAddr::V6(group) if group == Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2) => "is for the router itself",
        _ => return true,
    };
    text.error(report, || {
        let example = if group.is_ipv4() { IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)) } else { IpAddr::V6(SITE) };
        (format!("{group} {why}"), format!("write a group of wider scope, like '{example}'"))
    });
    false
}

/// A group of site-local scope, for a hint.
const SITE: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 3);

/// The source host, if one is set. `Err` if it was reported.
fn source(report: &mut Report<'_>, section: &Section<'_>) -> Result<Option<IpAddr>, ()> {
    if section.node("source").is_none() {
        return Ok(None);
    }
    let text = section.text(report, "source").ok_or(())?;
    let source = address(report, &text).ok_or(())?;
    if let Some(kind) = no_host_reason(source) {
        text.error(report, || {
            (format!("{source} is {kind}, which cannot be a source"), "write the address of a host".into())
        });
        return Err(());
    }
    Ok(Some(source))
}

/// The output interfaces. `None` if they were reported or excused.
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
            Some((format!("'{name}' is the input interface: packets would loop"), "leave it out"))
        } else if to.contains(&index) {
            Some((format!("'{name}' is named twice"), "remove one: each interface gets one copy"))
        } else if connected.vrf_of(index) != connected.vrf_of(from) {
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

pub(crate) fn diff<'p>(old: &'p [MulticastPlan], new: &'p [MulticastPlan]) -> Vec<Step<'p, MulticastPlan>> {
    steps(old, new, |multicast| (&multicast.vrf, multicast.group, multicast.source))
}
