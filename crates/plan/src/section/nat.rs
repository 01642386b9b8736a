//! `[nat]`: address and port translation.

use super::connected::Connected;
use crate::diagnostic::Report;
use crate::document::{Path, Section};
use crate::keys::{MOST_FORWARDS, MOST_OUTSIDE, NAT, PATH};
use crate::nat::{ForwardPlan, NatPlan};
use crate::text::quote;
use crate::{Family, Match, PathPlan, PortPlan, Prefix};
use std::net::IpAddr;
use units::Nanos;

/// Lifetimes where none are said: of TCP RFC 5382 REQ-5, of UDP RFC 4787 REQ-5, of ICMP RFC 5508 REQ-2.
const LIFETIMES: [(&str, Nanos); 5] = [
    ("tcp_opening", Nanos::secs(240)),
    ("tcp", Nanos::secs(7440)),
    ("tcp_closing", Nanos::secs(240)),
    ("udp", Nanos::secs(300)),
    ("icmp", Nanos::secs(60)),
];
/// The longest that makes sense.
const LONGEST: Nanos = Nanos::secs(7 * 86400);

pub(super) fn read(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    (ports, paths): (&[PortPlan], &[PathPlan]),
) -> Option<NatPlan> {
    let used = paths.iter().find(|path| path.functions.iter().any(|call| call.name == "nat"));
    let Some(node) = root.node("nat") else {
        if let Some(path) = used {
            report.error(root.span.clone(), "path", || {
                let hint = "add [nat] with outside = \"wan\", the interface that leads outside";
                (format!("path '{}' has the function 'nat', and there is no [nat]", path.name), hint.to_string())
            });
        }
        return None;
    };
    let span = node.span.clone();
    let section = node.section(report, NAT, "[nat]")?;
    if used.is_none() && report.error_count() == 0 {
        report.warning(span, "nat", || {
            let hint = "name it in one: functions = [\"nat\", \"ip\"]";
            ("no path has the function 'nat', so nothing is translated".to_string(), hint.to_string())
        });
    }
    let outside = outside(report, &section, connected, ports);
    if let Some(outside) = &outside {
        untranslated(report, root, outside, (ports, paths));
    }
    let connections = section.integer(report, "connections").unwrap_or(1) as u32;
    let mut timeouts = LIFETIMES.map(|(_, time)| time);
    for (slot, (name, _)) in timeouts.iter_mut().zip(LIFETIMES) {
        let Some(text) = section.text(report, name) else { continue };
        let hint = "write a time from 1s to 7 days, like 300s";
        match text.value.parse::<Nanos>() {
            Err(error) => text.error(report, || (error.reason, error.hint)),
            Ok(time) if !(Nanos::secs(1)..=LONGEST).contains(&time) => {
                text.error(report, || (format!("{time} is out of range"), hint.to_string()));
            }
            Ok(time) => *slot = time,
        }
    }
    let range = port_range(report, &section);
    let per_host = per_host(report, &section, connections, range);
    let forwards = forwards(report, &section);
    let anybody = section.boolean(report, "anybody");
    Some(NatPlan { outside: outside?, connections, per_host, ports: range, anybody, timeouts, forwards })
}

/// Warns of paths without `nat` ahead of one with it: their packets leave with addresses of the inside, or answers from outside end
/// at the router.
fn untranslated(
    report: &mut Report<'_>,
    root: &Section<'_>,
    outside: &[crate::Name],
    (ports, paths): (&[PortPlan], &[PathPlan]),
) {
    let translates = |path: &PathPlan| path.functions.iter().any(|call| call.name == "nat");
    let Some(last) = paths.iter().rposition(translates) else { return };
    if report.error_count() > 0 {
        return;
    }
    let prefixes = |leads: bool| {
        let interfaces = ports.iter().flat_map(|port| &port.interfaces);
        let on = interfaces.filter(move |interface| outside.contains(&interface.name) == leads);
        on.flat_map(|interface| interface.addresses.iter().copied()).filter(|prefix| prefix.address.is_ipv4())
    };
    let is_inside = |prefix: Prefix| prefixes(false).any(|own| own.network().covers(prefix));
    let overlaps = |one: Prefix, other: Prefix| one.covers(other) || other.covers(one);
    let may_be_inside = |prefix: Prefix| {
        is_private(prefix) || prefixes(false).any(|own| overlaps(own.network(), prefix)) || prefix.length == 0
    };
    // As its packets leave, and as the answers to them come.
    let leaves = |m: &Match| {
        m.iif.as_ref().is_none_or(|iif| !outside.iter().any(|name| **name == **iif))
            && m.source.is_none_or(may_be_inside)
            && m.destination.is_none_or(|to| !is_inside(to) && !is_multicast(to))
    };
    let comes = |m: &Match| {
        m.iif.as_ref().is_none_or(|iif| outside.iter().any(|name| **name == **iif))
            && m.source.is_none_or(|from| !is_inside(from))
            && m.destination.is_none_or(|to| prefixes(true).any(|own| to.contains(own.address)))
    };
    let parent = Path::Key(&root.path, "path");
    for (index, span, value) in root.list(report, "path").into_iter().take(last) {
        let Some(path) = paths.get(index).filter(|path| !translates(path)) else { continue };
        let what = match (leaves(&path.matching), comes(&path.matching)) {
            _ if path.matching.family == Family::V6 => continue,
            (true, _) => "leave with the addresses of the hosts inside",
            (false, true) => "end at the router, also those that answer a host inside",
            (false, false) => continue,
        };
        let node = crate::document::Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, PATH, "[[path]]") else { continue };
        let Some(text) = section.text(report, "match") else { continue };
        let next = paths[index..].iter().find(|path| translates(path)).map_or("", |path| path.name.as_str());
        report.warning(text.span.clone(), text.path, || {
            let reason = format!("'{}' does not translate: packets that it takes ahead of '{next}' {what}", path.name);
            let hint = "give it the function 'nat' too, before 'ip'; or put it behind, or narrow its match";
            (reason, hint.to_string())
        });
    }
}

/// True for private and shared addresses (RFC 1918, RFC 6598).
fn is_private(prefix: Prefix) -> bool {
    let IpAddr::V4(address) = prefix.address else { return false };
    let [a, b, ..] = address.octets();
    address.is_private() || address.is_link_local() || a == 100 && b & 0xc0 == 64
}

fn is_multicast(prefix: Prefix) -> bool {
    prefix.address.is_multicast()
}

fn outside(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &Connected,
    ports: &[PortPlan],
) -> Option<Vec<crate::Name>> {
    let texts = section.one_or_more(report, "outside", MOST_OUTSIDE)?;
    if let Some(text) = texts.get(MOST_OUTSIDE) {
        text.error(report, || (format!("more than {MOST_OUTSIDE} interfaces lead outside"), "name fewer".to_string()));
        return None;
    }
    let mut names: Vec<crate::Name> = Vec::new();
    for text in texts {
        let interface = ports.iter().flat_map(|port| &port.interfaces).find(|i| *i.name == *text.value);
        let Some(interface) = interface else {
            if !connected.incomplete {
                let (reason, hint) = connected.no_interface(text.value);
                text.error(report, || (reason, hint));
            }
            continue;
        };
        if !interface.addresses.iter().any(|prefix| matches!(prefix.address, IpAddr::V4(_))) {
            text.error(report, || {
                let hint = format!("give {} one: it stands for the hosts inside", interface.name);
                (format!("{} has no IPv4 address", quote(text.value)), hint)
            });
        }
        if !names.contains(&interface.name) {
            names.push(interface.name.clone());
        }
    }
    names.sort();
    Some(names)
}

/// Connections that one host inside may have begun at a time. The default is an eighth of all: a busy browser or
/// game has a few hundred.
fn per_host(report: &mut Report<'_>, section: &Section<'_>, connections: u32, (first, last): (u16, u16)) -> u32 {
    const SHARE: u32 = 8;
    let ports = u32::from(last - first) + 1;
    let (most, what) = if ports < connections { (ports, "ports") } else { (connections, "connections") };
    let Some(said) = section.integer(report, "per_host") else { return (most / SHARE).max(1) };
    if said >= u64::from(most)
        && let Some(node) = section.node("per_host")
    {
        report.warning(node.span, "nat.per_host", || {
            let hint = format!("one host can take all {most} {what}: give less, such as {}", (most / SHARE).max(1));
            (format!("{said} connections of one host leave none for the others"), hint)
        });
    }
    said.min(u64::from(u32::MAX)) as u32
}

fn port_range(report: &mut Report<'_>, section: &Section<'_>) -> (u16, u16) {
    const ALL: (u16, u16) = (1024, 65535);
    let Some(text) = section.text(report, "ports") else { return ALL };
    let parts = text
        .value
        .split_once('-')
        .and_then(|(first, last)| Some((first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?)));
    match parts {
        Some((first, last)) if first > 0 && last > first => (first, last),
        _ => {
            text.error(report, || {
                (format!("{} is no range of ports", quote(text.value)), "write it like '1024-65535'".to_string())
            });
            ALL
        }
    }
}

fn forwards(report: &mut Report<'_>, section: &Section<'_>) -> Vec<ForwardPlan> {
    let mut list = section.list(report, "forward");
    if let Some((_, span, _)) = list.get(MOST_FORWARDS) {
        report.error(span.clone(), "nat.forward", || {
            (format!("there are more than {MOST_FORWARDS} forwards"), "remove some".to_string())
        });
        list.truncate(MOST_FORWARDS);
    }
    let mut forwards: Vec<ForwardPlan> = Vec::with_capacity(list.len());
    let parent = Path::Key(&section.path, "forward");
    for (index, span, value) in list {
        let node = crate::document::Node::new(value, span, Path::Index(&parent, index));
        let Some(text) = node.text() else {
            node.no_text(report, "\"tcp 8080 to 10.0.0.2:80\"");
            continue;
        };
        match text.value.parse::<ForwardPlan>() {
            Err(error) => text.error(report, || (error.reason, error.hint)),
            Ok(new) => {
                let same = |old: &&ForwardPlan| {
                    let to = (old.address, old.to) == (new.address, new.to);
                    old.protocol == new.protocol && (old.port == new.port || to)
                };
                match forwards.iter().find(same) {
                    Some(old) => {
                        let hint = "a port leads to one place, and a place has one port".to_string();
                        text.error(report, || (format!("there is '{old}' already"), hint));
                    }
                    None => forwards.push(new),
                }
            }
        }
    }
    forwards.sort_unstable();
    forwards
}
