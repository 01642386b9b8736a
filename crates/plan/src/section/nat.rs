//! `[nat]`: address and port translation, so that inside hosts reach the outside by the router's own addresses.

use crate::connected::Connected;
use crate::diagnostic::Report;
use crate::diff::{PropertyChange, edit, or_none};
use crate::document::{Node, Path, Section};
use crate::key::{Form, INTERFACE, Key, Kind, TIME, key, required};
use crate::names::Name;
use crate::section::linux::LinuxPlan;
use crate::section::path::{self, PathPlan};
use crate::section::port::PortPlan;
use crate::text::quote;
use crate::{AddressMatch, Match, MatchFamily, Prefix, protocol_name, protocol_number};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::str::FromStr;
use units::{Nanos, UnitError};

pub(crate) const KEY: Key = key(
    "nat",
    Kind::Table(KEYS),
    "",
    "{ outside = \"wan\" }",
    "Address and port translation, for paths with the function `nat`.",
);

/// Limits of outside interfaces, and of port forwards.
const MOST_OUTSIDE: usize = 8;
const MOST_FORWARDS: usize = 10_000;
/// Default lifetimes: of TCP by RFC 5382 REQ-5, of UDP by RFC 4787 REQ-5, of ICMP by RFC 5508 REQ-2.
const LIFETIMES: [(&str, Nanos); 5] = [
    ("tcp_opening", Nanos::secs(240)),
    ("tcp", Nanos::secs(7440)),
    ("tcp_closing", Nanos::secs(240)),
    ("udp", Nanos::secs(300)),
    ("icmp", Nanos::secs(60)),
];
/// The longest lifetime.
const LONGEST: Nanos = Nanos::secs(7 * 86400);

const KEYS: &[Key] = &[
    required(
        "outside",
        Kind::OneOrMore(INTERFACE),
        "\"wan\"",
        "The outside interfaces, at most 8. The first IPv4 address of each replaces the addresses of inside hosts.",
    ),
    key(
        "connections",
        Kind::Integer { least: 16, most: 4_194_304 },
        "65536",
        "65536",
        "The largest number of connections, at some 150 bytes each. A change requires a restart.",
    ),
    key(
        "per_host",
        Kind::Integer { least: 1, most: 4_194_304 },
        "",
        "4096",
        "The largest number of open connections per inside host (RFC 6888 REQ-4). The default is an eighth of \
         the smaller of `connections` and `ports`.",
    ),
    key(
        "ports",
        Kind::Text(Form::Pattern("^ *[0-9]{1,5} *- *[0-9]{1,5} *$")),
        "\"1024-65535\"",
        "\"1024-65535\"",
        "The range of ports for translated connections.",
    ),
    key(
        "endpoint_independent_filtering",
        Kind::Boolean,
        "false",
        "true",
        "If true, any outside host may send to a translated port. Otherwise only hosts that the inside host has \
         contacted may (RFC 4787 REQ-8).",
    ),
    key(
        "forward",
        Kind::Texts {
            form: Form::Pattern(r"^\s*(tcp|udp|6|17)\s+[0-9]{1,5}\s+to\s+[0-9.]+(:[0-9]{1,5})?\s*$"),
            most: MOST_FORWARDS,
        },
        "[]",
        "[\"tcp 8080 to 10.0.0.2:80\"]",
        "Port forwards from the router to inside hosts, at most 10000.",
    ),
    key("tcp", Kind::Text(TIME), "\"7440s\"", "\"7440s\"", "Idle timeout of an established TCP connection."),
    key(
        "tcp_opening",
        Kind::Text(TIME),
        "\"240s\"",
        "\"240s\"",
        "Idle timeout of a TCP connection before both sides have sent.",
    ),
    key(
        "tcp_closing",
        Kind::Text(TIME),
        "\"240s\"",
        "\"60s\"",
        "Idle timeout of a TCP connection after both sides have closed it.",
    ),
    key("udp", Kind::Text(TIME), "\"300s\"", "\"300s\"", "Idle timeout of a UDP flow."),
    key("icmp", Kind::Text(TIME), "\"60s\"", "\"60s\"", "Idle timeout of an ICMP query."),
];

/// Address and port translation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NatPlan {
    /// The outside interfaces.
    pub outside: Vec<Name>,
    /// Limit of connections.
    pub connections: u32,
    /// Limit of connections that one inside host has opened.
    pub per_host: u32,
    /// The range of ports for translated connections, first and last.
    pub ports: (u16, u16),
    /// True if any outside host may send to a translated port, and not only those that the inside has contacted.
    pub endpoint_independent_filtering: bool,
    /// Lifetimes after a connection's last packet: of TCP while opening, established, closing; of UDP; of ICMP.
    #[serde(serialize_with = "nanoseconds")]
    pub timeouts: [Nanos; 5],
    /// Ports forwarded to the inside, sorted.
    pub forwards: Vec<ForwardPlan>,
}

fn nanoseconds<S: Serializer>(times: &[Nanos; 5], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(|time| time.get()))
}

impl fmt::Display for NatPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.outside.iter().map(|name| &**name).collect();
        let [opening, tcp, closing, udp, icmp] = self.timeouts;
        write!(f, "outside {} connections {} per_host {}", names.join(" "), self.connections, self.per_host)?;
        write!(
            f,
            " ports {}-{} endpoint_independent_filtering {}",
            self.ports.0, self.ports.1, self.endpoint_independent_filtering
        )?;
        write!(f, " tcp_opening {opening} tcp {tcp} tcp_closing {closing} udp {udp} icmp {icmp}")?;
        self.forwards.iter().try_for_each(|forward| write!(f, " forward {forward}"))
    }
}

/// A forwarded port: `tcp 8080 to 10.0.0.2:80`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ForwardPlan {
    /// TCP or UDP.
    pub protocol: u8,
    /// The router's port.
    pub port: u16,
    /// The inside host.
    pub address: Ipv4Addr,
    /// Its port.
    pub to: u16,
}

impl fmt::Display for ForwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} to {}:{}", protocol_name(self.protocol), self.port, self.address, self.to)
    }
}

impl Serialize for ForwardPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for ForwardPlan {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<ForwardPlan, UnitError> {
        let wrong = |reason: String| UnitError { reason, hint: "write it like 'tcp 8080 to 10.0.0.2:80'".to_string() };
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[protocol, port, "to", target] = words.as_slice() else {
            return Err(wrong(format!("{} is not a port forward", quote(text))));
        };
        let number = |text: &str| text.parse().ok().filter(|&port: &u16| port > 0);
        let known = protocol_number(protocol).filter(|&number| number == 6 || number == 17);
        let protocol = known.ok_or_else(|| wrong(format!("{} is neither tcp nor udp", quote(protocol))))?;
        let port = number(port).ok_or_else(|| wrong(format!("{} is no port", quote(port))))?;
        // Without a port, use the same one inside.
        let whole = if target.contains(':') { target.to_string() } else { format!("{target}:{port}") };
        let target: SocketAddrV4 =
            whole.parse().map_err(|_| wrong(format!("{} is no IPv4 address with a port", quote(target))))?;
        if target.port() == 0 || target.ip().is_unspecified() || target.ip().is_multicast() || target.ip().is_loopback()
        {
            return Err(wrong(format!("{target} is not the address of a host")));
        }
        Ok(ForwardPlan { protocol, port, address: *target.ip(), to: target.port() })
    }
}

pub(crate) fn check(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    (ports, paths): (&[PortPlan], &[PathPlan]),
    linux: Option<&LinuxPlan>,
) -> Option<NatPlan> {
    let used = paths.iter().find(|path| path.functions.iter().any(|call| call.name == "nat"));
    let Some(node) = root.node("nat") else {
        if let Some(path) = used {
            report.error(root.span.clone(), "path", || {
                let hint = "add [nat] with outside = \"wan\", the outside interface";
                (format!("path '{}' has the function 'nat', but there is no [nat]", path.name), hint.to_string())
            });
        }
        return None;
    };
    let span = node.span.clone();
    let section = node.section(report, KEYS, "[nat]")?;
    if used.is_none() && report.error_count() == 0 {
        report.warning(span, "nat", || {
            let hint = "add it to a path: functions = [\"nat\", \"ip\"]";
            ("no path has the function 'nat', so nothing is translated".to_string(), hint.to_string())
        });
    }
    let outside = outside(report, &section, connected, (ports, linux));
    if let Some(outside) = &outside {
        check_path_order(report, root, outside, (ports, paths));
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
    let endpoint_independent_filtering = section.boolean(report, "endpoint_independent_filtering");
    Some(NatPlan {
        outside: outside?,
        connections,
        per_host,
        ports: range,
        endpoint_independent_filtering,
        timeouts,
        forwards,
    })
}

/// Warns of paths without `nat` that match before one with it. Their packets leave with inside addresses, or their replies from outside end at the
/// router.
fn check_path_order(
    report: &mut Report<'_>,
    root: &Section<'_>,
    outside: &[Name],
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
    // Packets of a named set may have any address.
    let some = |addresses: &AddressMatch, holds: &dyn Fn(Prefix) -> bool| {
        addresses.networks().is_empty() || addresses.networks().iter().any(|network| holds(*network))
    };
    // Matches packets on their way out, and the replies to them.
    let leaves = |m: &Match| {
        m.iif.as_ref().is_none_or(|iif| !outside.iter().any(|name| **name == **iif))
            && some(&m.source, &may_be_inside)
            && some(&m.destination, &|to| !is_inside(to) && !is_multicast(to))
    };
    let comes = |m: &Match| {
        m.iif.as_ref().is_none_or(|iif| outside.iter().any(|name| **name == **iif))
            && some(&m.source, &|from| !is_inside(from))
            && some(&m.destination, &|to| prefixes(true).any(|own| to.contains(own.address)))
    };
    let parent = Path::Key(&root.path, "path");
    for (index, span, value) in root.list(report, "path").into_iter().take(last) {
        let Some(path) = paths.get(index).filter(|path| !translates(path)) else { continue };
        let Some(matching) = &path.matching else { continue };
        let what = match (leaves(matching), comes(matching)) {
            _ if matching.family == MatchFamily::V6 => continue,
            (true, _) => "leave with the addresses of inside hosts",
            (false, true) => "end at the router, also replies to inside hosts",
            (false, false) => continue,
        };
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, path::KEYS, "[[path]]") else { continue };
        let Some(text) = section.text(report, "match") else { continue };
        let next = paths[index..].iter().find(|path| translates(path)).map_or("", |path| path.name.as_str());
        report.warning(text.span.clone(), text.path, || {
            let reason = format!("'{}' does not translate: packets that match it before '{next}' {what}", path.name);
            let hint = "add the function 'nat' before its 'ip', move the path after the other, or narrow its match";
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
    (ports, linux): (&[PortPlan], Option<&LinuxPlan>),
) -> Option<Vec<Name>> {
    let texts = section.one_or_more(report, "outside", MOST_OUTSIDE)?;
    if let Some(text) = texts.get(MOST_OUTSIDE) {
        text.error(report, || {
            (format!("there are more than {MOST_OUTSIDE} outside interfaces"), "name fewer".to_string())
        });
        return None;
    }
    let mut names: Vec<Name> = Vec::new();
    for text in texts {
        let interfaces = ports.iter().flat_map(|port| port.interfaces.iter().map(move |interface| (port, interface)));
        let Some((port, interface)) = interfaces.into_iter().find(|(_, interface)| *interface.name == *text.value)
        else {
            if !connected.incomplete {
                let (reason, hint) = connected.no_interface(text.value);
                text.error(report, || (reason, hint));
            }
            continue;
        };
        // The address may come from the kernel, where a DHCP client sets it.
        let comes = linux.is_some_and(|linux| linux.ports.contains(&port.name));
        if !comes && !interface.addresses.iter().any(|prefix| matches!(prefix.address, IpAddr::V4(_))) {
            text.error(report, || {
                let hint = format!("give {} an IPv4 address, which replaces those of inside hosts", interface.name);
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

/// Limit of connections that one inside host has opened. The default is an eighth of all: a busy browser or game has a few hundred.
fn per_host(report: &mut Report<'_>, section: &Section<'_>, connections: u32, (first, last): (u16, u16)) -> u32 {
    const SHARE: u32 = 8;
    let ports = u32::from(last - first) + 1;
    let (most, what) = if ports < connections { (ports, "ports") } else { (connections, "connections") };
    let Some(said) = section.integer(report, "per_host") else { return (most / SHARE).max(1) };
    if said >= u64::from(most)
        && let Some(node) = section.node("per_host")
    {
        report.warning(node.span, "nat.per_host", || {
            let hint = format!("one host can use all {most} {what}: write less, such as {}", (most / SHARE).max(1));
            (format!("with {said} connections one host leaves none for the others"), hint)
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
    let surplus = |most| (format!("there are more than {most} forwards"), "remove some".to_string());
    let mut known: Vec<ForwardPlan> = Vec::new();
    // The forward of each port, and of each target.
    let (mut ports, mut targets) = (HashMap::new(), HashMap::new());
    section.texts(report, "forward", surplus, "\"tcp 8080 to 10.0.0.2:80\"", |report, text| {
        let new: ForwardPlan =
            text.value.parse().map_err(|error: UnitError| text.error(report, || (error.reason, error.hint))).ok()?;
        let (port, target) = ((new.protocol, new.port), (new.protocol, new.address, new.to));
        if let Some(old) = ports.get(&port).or_else(|| targets.get(&target)) {
            let hint = "forward each port to one target, and each target from one port".to_string();
            text.error(report, || (format!("there is '{old}' already"), hint));
        } else {
            ports.insert(port, new);
            targets.insert(target, new);
            known.push(new);
        }
        Some(())
    });
    known.sort_unstable();
    known
}

pub(crate) fn diff(old: &Option<NatPlan>, new: &Option<NatPlan>) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    edit(&mut what, "rules", or_none(old), or_none(new));
    what
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_parses_back_as_printed_and_errors_have_a_reason() {
        for text in ["tcp 8080 to 10.0.0.2:80", "udp 53 to 192.168.1.1:53"] {
            assert_eq!(text.parse::<ForwardPlan>().unwrap().to_string(), text);
        }
        assert_eq!("tcp 22 to 10.0.0.2".parse::<ForwardPlan>().unwrap().to_string(), "tcp 22 to 10.0.0.2:22");
        for (text, reason) in [
            ("", "is not a port forward"),
            ("tcp 80 10.0.0.2", "is not a port forward"),
            ("gre 80 to 10.0.0.2", "neither tcp nor udp"),
            ("tcp 0 to 10.0.0.2", "is no port"),
            ("tcp 80 to ::1", "is no IPv4 address"),
            ("tcp 80 to 127.0.0.1", "is not the address of a host"),
        ] {
            let error = text.parse::<ForwardPlan>().unwrap_err();
            assert!(error.reason.contains(reason), "{text}: {}", error.reason);
        }
    }
}
