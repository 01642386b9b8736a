//! `[port.NAME.tunnel]`: the outer header of the packets of a tunnel port.
//!
//! A tunnel is a port whose device is the router itself (ADR-0076). Its device names the other end: `gre:198.51.100.7`.

use crate::Call;
use crate::connected::{TunnelPlace, no_host_reason};
use crate::diagnostic::{Report, more_than};
use crate::diff::joined;
use crate::document::{Path, Section};
use crate::key::{ADDRESS, Form, Key, Kind, NAME, key, required};
use crate::named::named;
use crate::names::Name;
use crate::text::quote;
use crate::{dscp_name, dscp_number};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;
use units::Mac;

/// The MTU of the link that a tunnel is expected to cross: that of Ethernet.
const LINK_MTU: u16 = 1500;
/// The most other ends of a segment.
const MOST_REMOTES: usize = 64;
/// The most configured stations of a segment.
const MOST_STATIONS: usize = 1024;
/// The largest VXLAN network identifier (RFC 7348 5).
const MOST_VNI: u32 = (1 << 24) - 1;
/// A MAC address and an address.
const STATION: Form = Form::Pattern("^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5} +[0-9a-fA-F.:]+$");
/// The text of a code point that is copied from the packet.
const INHERIT: &str = "inherit";

pub(crate) const TUNNEL: &[Key] = &[
    required(
        "local",
        Kind::Text(ADDRESS),
        "\"192.0.2.1\"",
        "The source address of the outer header: an address of the router.",
    ),
    key(
        "key",
        Kind::Integer { least: 0, most: u32::MAX as u64 },
        "",
        "7",
        "`gre` only: the key (RFC 2890). Packets with another key, or without one, are dropped as `tunnel_key`.",
    ),
    key(
        "remotes",
        Kind::OneOrMore(ADDRESS),
        "",
        "[\"198.51.100.7\", \"198.51.100.8\"]",
        "`vxlan` only: the other ends of the segment. Broadcasts, multicast and packets to unknown stations go to each of them.",
    ),
    key(
        "learn",
        Kind::Boolean,
        "true",
        "false",
        "`vxlan` only: whether the router learns from received packets which station is behind which other end.",
    ),
    key(
        "stations",
        Kind::Texts { form: STATION, most: MOST_STATIONS },
        "[]",
        "[\"02:00:00:00:00:07 198.51.100.7\"]",
        "`vxlan` only: MAC addresses of stations, each with the other end that it is behind.",
    ),
    key(
        "sequence",
        Kind::Boolean,
        "false",
        "true",
        "`gre` only: whether the router numbers the packets that it sends (RFC 2890). It ignores the numbers of received packets.",
    ),
    key("ttl", Kind::Integer { least: 1, most: 254 }, "64", "8", "The time to live or hop limit of the outer header."),
    key(
        "dscp",
        Kind::Text(Form::Pattern("^([A-Za-z]+[0-9]*|[0-9]+|0[xX][0-9A-Fa-f]+)$")),
        "\"inherit\"",
        "\"af21\"",
        "The code point of the outer header: `inherit` for that of the packet, a name or a number.",
    ),
    key(
        "fragment",
        Kind::Boolean,
        "false",
        "true",
        "Whether routers may fragment the outer packets. With `false` their DF flag is set, and longer packets are refused with an ICMP error to \
         their sender. Only between IPv4 addresses.",
    ),
    key(
        "underlay_vrf",
        Kind::Text(NAME),
        "\"main\"",
        "\"red\"",
        "The VRF of the outer packets: that of `local`, and of the route to the other end.",
    ),
];

/// The encapsulation of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TunnelKind {
    /// Generic routing encapsulation (RFC 2784, RFC 2890).
    Gre,
    /// The packet follows the outer header: IPv4 and IPv6 in either (RFC 2003, RFC 4213, RFC 2473).
    Ipip,
    /// An Ethernet segment in UDP (RFC 7348).
    Vxlan,
}

named! { TunnelKind { Gre "gre", Ipip "ipip", Vxlan "vxlan" } }

impl TunnelKind {
    /// The kind of a device.
    pub(crate) fn of(device: &str) -> Option<TunnelKind> {
        TunnelKind::ALL.iter().copied().find(|kind| kind.name() == device)
    }
}

/// The outer header of a tunnel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TunnelPlan {
    /// Its encapsulation.
    pub kind: TunnelKind,
    /// The router's own address.
    pub local: IpAddr,
    /// The addresses of the other ends, of the same family: one, except in VXLAN.
    pub remotes: Vec<IpAddr>,
    /// The key of GRE, or the network identifier of VXLAN.
    pub key: Option<u32>,
    /// VXLAN: true if the other end of each station is learned.
    pub learn: bool,
    /// VXLAN: stations, and the other ends that they are behind, sorted.
    #[serde(serialize_with = "station_texts")]
    pub stations: Vec<(Mac, IpAddr)>,
    /// True if sent packets are numbered.
    pub sequence: bool,
    /// The time to live or hop limit.
    pub ttl: u8,
    /// The code point; `None` for that of the packet.
    pub dscp: Option<u8>,
    /// True if routers may fragment the outer packets.
    pub fragment: bool,
    /// The VRF of the outer packets; `None` for the main one.
    pub underlay_vrf: Option<Name>,
}

impl TunnelPlan {
    /// Bytes of the outer headers, from the outer IP header on.
    pub fn headers(&self) -> u16 {
        let ip = if self.local.is_ipv4() { 20 } else { 40 };
        let behind = match self.kind {
            TunnelKind::Gre => 4 + 4 * u16::from(self.key.is_some()) + 4 * u16::from(self.sequence),
            TunnelKind::Ipip => 0,
            // UDP and VXLAN.
            TunnelKind::Vxlan => 16,
        };
        ip + behind
    }

    /// Bytes by which the outer packet is longer than the IP packet within.
    pub fn overhead(&self) -> u16 {
        /// The Ethernet header of a frame in a segment.
        const LINK: u16 = 14;
        self.headers() + if self.kind == TunnelKind::Vxlan { LINK } else { 0 }
    }

    /// True if the interface is on an Ethernet segment, whose neighbours have MAC addresses.
    pub fn is_segment(&self) -> bool {
        self.kind == TunnelKind::Vxlan
    }

    /// The longest packet that needs no fragmentation on an Ethernet.
    pub(super) fn default_mtu(&self) -> u16 {
        LINK_MTU - self.overhead()
    }
}

impl fmt::Display for TunnelPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local {} ttl {}", self.local, self.ttl)?;
        if self.is_segment() {
            write!(f, " remotes {} learn {}", joined(&self.remotes), self.learn)?;
            let stations: Vec<String> = self.stations.iter().map(|(mac, end)| format!("{mac} {end}")).collect();
            return if stations.is_empty() {
                self.rest(f)
            } else {
                write!(f, " stations {}", joined(&stations)).and(self.rest(f))
            };
        }
        self.key.map_or(Ok(()), |key| write!(f, " key {key}"))?;
        self.rest(f)
    }
}

fn station_texts<S: Serializer>(stations: &[(Mac, IpAddr)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(stations.iter().map(|(mac, end)| format!("{mac} {end}")))
}

impl TunnelPlan {
    /// The settings that all kinds have.
    fn rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dscp.map_or(Ok(()), |dscp| write!(f, " dscp {}", dscp_name(dscp)))?;
        let words = [(self.sequence, " sequence true"), (self.fragment, " fragment true")];
        words.iter().filter(|(set, _)| *set).try_for_each(|(_, word)| f.write_str(word))?;
        self.underlay_vrf.as_ref().map_or(Ok(()), |vrf| write!(f, " underlay_vrf {vrf}"))
    }
}

/// The target of a tunnel device: the address of the other end, or the network identifier of a segment.
pub(super) fn check_target(kind: TunnelKind, target: &str) -> Result<(), (String, String)> {
    if kind == TunnelKind::Vxlan {
        let number = target.parse::<u32>().ok().filter(|vni| *vni <= MOST_VNI && vni.to_string() == target);
        return number.map(|_| ()).ok_or_else(|| {
            let hint = format!("write a number from 0 to {MOST_VNI} after the colon, like 'vxlan:42'");
            (format!("{} is no VXLAN network identifier", quote(target)), hint)
        });
    }
    remote_address(target).map(|_| ())
}

/// The address of another end.
fn remote_address(target: &str) -> Result<IpAddr, (String, String)> {
    let Ok(address) = target.parse::<IpAddr>() else {
        let hint = "write the address of the other end after the colon, like 'gre:198.51.100.7'".to_string();
        return Err((format!("{} is no address", quote(target)), hint));
    };
    let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    match no_host_reason(address) {
        _ if link_local => {
            Err((format!("{address} is link-local"), "write an address that routes lead to".to_string()))
        }
        Some(kind) => Err((format!("{address} is {kind}"), "write the unicast address of the other end".to_string())),
        None => Ok(address),
    }
}

/// Reads the table of a tunnel port. `None` if the port is no tunnel, or if it was reported.
pub(super) fn check(
    report: &mut Report<'_>,
    port: &Section<'_>,
    (kind, target): (TunnelKind, &str),
    (name, places): (&Name, &mut Vec<TunnelPlace>),
) -> Option<TunnelPlan> {
    const EXAMPLE: &str = "tunnel = { local = \"192.0.2.1\" }";
    let Some(node) = port.node("tunnel") else {
        report.missing(port.span.clone(), port.path, || {
            ("a tunnel needs the address of this end".to_string(), format!("add {EXAMPLE}"))
        });
        return None;
    };
    let section = node.section(report, TUNNEL, EXAMPLE)?;
    for (name, owner) in OWN_KEYS {
        if let Some(node) = section.node(name).filter(|_| kind != owner) {
            report.error(node.span, node.path, || {
                (format!("'{name}' is for '{owner}' devices, but this one is '{kind}'"), "remove it".to_string())
            });
        }
    }
    let text = section.text(report, "local")?;
    let local = crate::connected::address(report, &text)?;
    let remotes = remotes(report, &section, (kind, target), local)?;
    let fragment = section.boolean(report, "fragment");
    if fragment && local.is_ipv6() {
        report.error(section.place("fragment"), Path::Key(&section.path, "fragment"), || {
            ("routers do not fragment IPv6 packets".to_string(), "remove it, and set mtu on the port".to_string())
        });
    }
    // Only a number that was given can be read: the key has no default.
    let key = section.node("key").and_then(|_| section.integer(report, "key")).map(|key| key as u32);
    let key = if kind == TunnelKind::Vxlan { target.parse().ok() } else { key };
    let learn = section.boolean(report, "learn");
    let stations = stations(report, &section, &remotes);
    let sequence = section.boolean(report, "sequence");
    let ttl = section.integer(report, "ttl").unwrap_or(64) as u8;
    let dscp = section.text(report, "dscp").filter(|text| text.value != INHERIT).and_then(|text| {
        let dscp = dscp_number(text.value);
        if dscp.is_none() {
            text.error(report, || {
                let hint = "write 'inherit', a name like 'af21', or a number from 0 to 63".to_string();
                (format!("{} is no code point", quote(text.value)), hint)
            });
        }
        dscp
    });
    let underlay_vrf = section.text(report, "underlay_vrf").filter(|text| text.value != crate::names::MAIN_VRF);
    let underlay_vrf = underlay_vrf.map(|text| Name::from(text.value));
    places.push(TunnelPlace { name: name.clone(), span: text.span.clone(), path: text.path.to_string() });
    let own = TunnelPlan { kind, local, remotes, key, learn, stations, sequence, ttl, dscp, fragment, underlay_vrf };
    Some(own)
}

/// The keys that only one kind has.
const OWN_KEYS: [(&str, TunnelKind); 5] = [
    ("key", TunnelKind::Gre),
    ("sequence", TunnelKind::Gre),
    ("remotes", TunnelKind::Vxlan),
    ("learn", TunnelKind::Vxlan),
    ("stations", TunnelKind::Vxlan),
];

/// The other ends of a tunnel. `None` if they were reported.
fn remotes(
    report: &mut Report<'_>,
    section: &Section<'_>,
    (kind, target): (TunnelKind, &str),
    local: IpAddr,
) -> Option<Vec<IpAddr>> {
    let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
    let same = |remote: IpAddr| remote.is_ipv4() == local.is_ipv4();
    let differs = |remote: IpAddr| {
        let reason = format!("{local} and the other end, {remote}, are of different families");
        (reason, format!("write two {family} addresses, or two of the other family"))
    };
    if kind != TunnelKind::Vxlan {
        // The device was checked before.
        let remote = remote_address(target).ok()?;
        if !same(remote) {
            report.error(section.place("local"), Path::Key(&section.path, "local"), || differs(remote));
            return None;
        }
        return Some(vec![remote]);
    }
    let Some(texts) = section.one_or_more(report, "remotes", MOST_REMOTES) else {
        if section.node("remotes").is_none() {
            report.missing(section.span.clone(), section.path, || {
                ("the segment has no other end".to_string(), "add remotes = [\"198.51.100.7\"]".to_string())
            });
        }
        return None;
    };
    if let Some(text) = texts.get(MOST_REMOTES) {
        text.error(report, || more_than(MOST_REMOTES, "other ends"));
        return None;
    }
    let mut remotes = Vec::with_capacity(texts.len());
    for text in &texts {
        match remote_address(text.value) {
            Err(wrong) => text.error(report, || wrong),
            Ok(remote) if !same(remote) => text.error(report, || differs(remote)),
            Ok(remote) => remotes.push(remote),
        }
    }
    remotes.sort_unstable();
    remotes.dedup();
    (!remotes.is_empty()).then_some(remotes)
}

/// The configured stations of a segment.
fn stations(report: &mut Report<'_>, section: &Section<'_>, remotes: &[IpAddr]) -> Vec<(Mac, IpAddr)> {
    let surplus = |most| more_than(most, "stations");
    let example = "\"02:00:00:00:00:07 198.51.100.7\"";
    let mut stations = section.texts(report, "stations", surplus, example, |report, text| {
        let (mac, end) = text.value.split_once(' ').unwrap_or((text.value, ""));
        let station = mac.parse::<Mac>().ok().zip(end.trim().parse::<IpAddr>().ok());
        let valid = station.filter(|(mac, end)| !mac.is_group() && remotes.contains(end));
        if valid.is_none() {
            text.error(report, || {
                let hint = format!("write the MAC address of one station and one of 'remotes', like {example}");
                (format!("{} is no station behind another end", quote(text.value)), hint)
            });
        }
        valid
    });
    stations.sort_unstable();
    stations.dedup_by_key(|(mac, _)| *mac);
    stations
}

/// Reports the keys of a tunnel port that a tunnel cannot have.
pub(super) fn check_port(report: &mut Report<'_>, section: &Section<'_>, scheme: &Call) {
    for name in ["vlan", "dfq_wire"] {
        if let Some(node) = section.node(name) {
            report.error(node.span, node.path, || (format!("a tunnel has no '{name}'"), "remove it".to_string()));
        }
    }
    if scheme.has_shares() {
        report.error(section.place("scheme"), Path::Key(&section.path, "scheme"), || {
            let reason = format!("the scheme '{}' is not for tunnels", scheme.name);
            (reason, "divide the link of the port by which the outer packets leave".to_string())
        });
    }
}
