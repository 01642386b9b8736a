//! `[linux]`: a network interface of the kernel for each interface of the router, so that programs of the machine work on the router's links.

use crate::connected::{Connected, no_host_reason};
use crate::diagnostic::{Report, more_than};
use crate::diff::{PropertyChange, edit, joined, or_none};
use crate::document::Section;
use crate::key::{Form, INTERFACE, Key, Kind, key};
use crate::named::named;
use crate::names::Name;
use crate::section::passthrough::PassThroughPlan;
use crate::section::port::PortPlan;
use crate::section::port::interface::InterfacePlan;
use crate::text::{did_you_mean, quote};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;
use units::PacketRate;

pub(crate) const KEY: Key = key(
    "linux",
    Kind::Table(KEYS),
    "",
    "{ namespace = \"router\" }",
    "A network interface of the kernel for each interface of the router, on which routing daemons, DHCP clients and other programs work.",
);

/// The key whose change requires a restart.
pub(crate) const NAMESPACE: &str = "namespace";
/// The longest name of a network interface of Linux (IFNAMSIZ without its final zero).
const LONGEST: usize = 15;
/// The kinds of ports whose device is an interface of the kernel.
const KERNEL_DEVICES: [&str; 3] = ["packet", "xdp", "tap"];
/// The highest limit of a protocol.
const MOST: PacketRate = PacketRate::kpps(1000);

const KEYS: &[Key] = &[
    key("enabled", Kind::Boolean, "true", "false", "With `false` the table has no effect."),
    key(
        "namespace",
        Kind::Text(Form::Pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")),
        "",
        "\"router\"",
        "The network namespace of the interfaces, as in `ip netns`. The router creates it if it does not exist. The default is the namespace in \
         which the router was started; there, no interface may have the name of a port.",
    ),
    key(
        "ports",
        Kind::OneOrMore(INTERFACE),
        "",
        "[\"lan\", \"wan\"]",
        "The ports that have an interface in the kernel, and so have their VLANs. The default is all but pass-through ports and the tunnels `gre` and `ipip`.",
    ),
    key(
        "answer",
        Kind::Text(Form::Choice(Answerer::NAMES)),
        "\"router\"",
        "\"kernel\"",
        "The side that answers ARP requests, neighbour solicitations and pings for the router's addresses: `router` or `kernel`.",
    ),
    key(
        "limits",
        Kind::Texts {
            form: Form::Pattern("^ *[a-z]+ +[0-9.]+ *[kmKM]?[pP][pP][sS] *$"),
            most: PuntedProtocol::ALL.len(),
        },
        "[]",
        "[\"bgp 50kpps\", \"other 500pps\"]",
        "Limits of packets that the kernel gets, by protocol. The defaults are in the page on Linux programs.",
    ),
    key(
        "dhcp_relay",
        Kind::Texts { form: Form::Pattern("^ *[^ ]+( +[0-9a-fA-F.:]+)+ *$"), most: MOST_RELAYS },
        "[]",
        "[\"lan 198.51.100.5\", \"lan.20 198.51.100.5 2001:db8::5\"]",
        "Interfaces whose clients get their addresses from DHCP servers elsewhere: the interface, then the servers, IPv4 for DHCPv4 and IPv6 for DHCPv6.",
    ),
];

/// Limit of interfaces with a DHCP relay.
const MOST_RELAYS: usize = 256;
/// Limit of servers of one relay.
const MOST_SERVERS: usize = 8;

/// The side that answers for the router's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answerer {
    /// The router's own protocols.
    #[default]
    Router,
    /// The kernel, which gets the requests.
    Kernel,
}

/// A protocol of packets for programs of the machine. Each has a limit and counters of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PuntedProtocol {
    /// ARP.
    Arp,
    /// Neighbour discovery of IPv6, with router advertisements.
    Discovery,
    /// All other ICMP and ICMPv6 messages.
    Icmp,
    /// Membership of multicast groups: IGMP and MLD.
    Membership,
    /// DHCP for IPv4 and IPv6.
    Dhcp,
    /// DNS.
    Dns,
    /// BGP (RFC 4271).
    Bgp,
    /// OSPF for IPv4 and IPv6 (RFC 2328, RFC 5340).
    Ospf,
    /// IS-IS (ISO 10589).
    Isis,
    /// RIP and RIPng (RFC 2453, RFC 2080).
    Rip,
    /// BFD over one hop and several hops (RFC 5881, RFC 5883).
    Bfd,
    /// VRRP (RFC 9568).
    Vrrp,
    /// PIM (RFC 7761).
    Pim,
    /// LLDP (IEEE 802.1AB).
    Lldp,
    /// PPPoE discovery and sessions (RFC 2516).
    Pppoe,
    /// Packets to multicast groups that have no route yet, for programs that make one.
    Multicast,
    /// All other packets.
    Other,
}

named! {
    Answerer { Router "router", Kernel "kernel" }
    PuntedProtocol {
        Arp "arp", Discovery "nd", Icmp "icmp", Membership "membership", Dhcp "dhcp", Dns "dns", Bgp "bgp", Ospf "ospf",
        Isis "isis", Rip "rip", Bfd "bfd", Vrrp "vrrp", Pim "pim", Lldp "lldp", Pppoe "pppoe", Multicast "multicast",
        Other "other",
    }
}

impl PuntedProtocol {
    /// The default limit. A full BGP table is some 30,000 packets, which may arrive within a second; BFD of a thousand sessions sends 20,000 packets a
    /// second. Everything else is slow.
    pub const fn default_limit(self) -> PacketRate {
        match self {
            PuntedProtocol::Bgp | PuntedProtocol::Bfd | PuntedProtocol::Pppoe => PacketRate::kpps(30),
            PuntedProtocol::Ospf | PuntedProtocol::Isis | PuntedProtocol::Dns | PuntedProtocol::Other => {
                PacketRate::kpps(5)
            }
            _ => PacketRate::kpps(1),
        }
    }
}

/// The limit of each protocol, in the order of [`PuntedProtocol::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PuntLimits(pub [PacketRate; PuntedProtocol::ALL.len()]);

impl PuntLimits {
    /// The limit of a protocol.
    pub fn of(&self, protocol: PuntedProtocol) -> PacketRate {
        self.0[protocol as usize]
    }
}

impl fmt::Display for PuntLimits {
    /// The limits that differ from their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = PuntedProtocol::ALL.iter().zip(self.0);
        let set = all.filter(|(protocol, limit)| *limit != protocol.default_limit());
        let texts: Vec<String> = set.map(|(protocol, limit)| format!("{protocol} {limit}")).collect();
        if texts.is_empty() { f.write_str("none") } else { f.write_str(&texts.join(", ")) }
    }
}

impl Default for PuntLimits {
    fn default() -> Self {
        let mut limits = [PacketRate::ZERO; PuntedProtocol::ALL.len()];
        limits.iter_mut().zip(PuntedProtocol::ALL).for_each(|(limit, protocol)| *limit = protocol.default_limit());
        PuntLimits(limits)
    }
}

impl Serialize for PuntLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(PuntedProtocol::ALL.iter().zip(self.0).map(|(protocol, limit)| (protocol.name(), limit.get())))
    }
}

/// A DHCP relay agent: the router passes requests of clients on an interface to servers elsewhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct DhcpRelayPlan {
    /// The interface of the clients.
    pub interface: Name,
    /// The servers, of both families.
    pub servers: Vec<IpAddr>,
}

impl fmt::Display for DhcpRelayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.interface)?;
        self.servers.iter().try_for_each(|server| write!(f, " {server}"))
    }
}

/// The interfaces of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LinuxPlan {
    /// Their network namespace; `None`: the one in which the router was started.
    pub namespace: Option<String>,
    /// The ports whose interfaces have one, sorted.
    pub ports: Vec<Name>,
    /// The side that answers ARP requests, neighbour solicitations and pings.
    pub answer: Answerer,
    /// The limits of packets by protocol.
    pub limits: PuntLimits,
    /// The DHCP relay agents, by interface.
    pub dhcp_relay: Vec<DhcpRelayPlan>,
}

/// Reads the table. `None` without one, or if it is not enabled.
pub(crate) fn check(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    (ports, passthrough): (&[PortPlan], &[PassThroughPlan]),
) -> Option<LinuxPlan> {
    let section = root.node("linux")?.section(report, KEYS, "[linux]")?;
    let enabled = section.boolean(report, "enabled");
    let namespace = section.text(report, "namespace").and_then(|text| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let valid = text.value.len() <= 64
            && text.value.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.value.chars().all(plain);
        if !valid {
            text.error(report, || {
                let hint = "use letters, digits, '.', '_' and '-', 64 at most".to_string();
                (format!("{} is no name for a network namespace", quote(text.value)), hint)
            });
        }
        valid.then(|| text.value.to_string())
    });
    let passes = |port: &PortPlan| passthrough.iter().any(|pair| pair.ports.contains(&port.name));
    let chosen = match section.node("ports") {
        None => ports.iter().filter(|port| !passes(port) && !is_tunnel(port)).collect(),
        Some(_) => chosen(report, &section, connected, (ports, passes)),
    };
    for port in &chosen {
        name_conflict(report, &section, port, namespace.is_none());
    }
    let answer = section.choice(report, "answer", Answerer::ALL).unwrap_or_default();
    let limits = limits(report, &section);
    let dhcp_relay = relays(report, &section, &chosen, connected.incomplete);
    let mut ports: Vec<Name> = chosen.into_iter().map(|port| port.name.clone()).collect();
    ports.sort();
    ports.dedup();
    enabled.then_some(LinuxPlan { namespace, ports, answer, limits, dhcp_relay })
}

/// The ports that `ports` names.
fn chosen<'p>(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &Connected,
    (ports, passes): (&'p [PortPlan], impl Fn(&PortPlan) -> bool),
) -> Vec<&'p PortPlan> {
    let mut chosen = Vec::new();
    for text in section.one_or_more(report, "ports", ports.len().max(1)).unwrap_or_default() {
        match ports.iter().find(|port| *port.name == *text.value) {
            Some(port) if passes(port) => text.error(report, || {
                let hint = "leave it out: the router neither sends nor receives packets of its own there".to_string();
                (format!("{} is a pass-through port", quote(text.value)), hint)
            }),
            Some(port) if is_tunnel(port) => text.error(report, || {
                let hint = "leave it out: a tunnel has no link-layer addresses, which the kernel's interface would use";
                (format!("{} is a tunnel", quote(text.value)), hint.to_string())
            }),
            Some(port) => chosen.push(port),
            None if connected.incomplete => {}
            None => text.error(report, || {
                let hint = did_you_mean(text.value, ports.iter().map(|port| &*port.name));
                (format!("there is no port {}", quote(text.value)), hint)
            }),
        }
    }
    chosen
}

/// True for a tunnel without link-layer addresses. A segment of VXLAN has them.
fn is_tunnel(port: &PortPlan) -> bool {
    port.device.tunnel.as_ref().is_some_and(|tunnel| !tunnel.is_segment())
}

/// Reports an interface whose name the kernel would refuse.
fn name_conflict(report: &mut Report<'_>, section: &Section<'_>, port: &PortPlan, is_shared: bool) {
    let long = port.interfaces.iter().find(|interface| interface.name.len() > LONGEST);
    let (span, path) = (section.span.clone(), section.path);
    if let Some(interface) = long {
        report.error(span, path, || {
            let hint = format!("give the port a shorter name: Linux allows {LONGEST} characters");
            (format!("'{}' is too long for an interface of the kernel", interface.name), hint)
        });
    } else if is_shared && KERNEL_DEVICES.contains(&&*port.device.kind) && port.device.target == *port.name {
        report.error(span, path, || {
            let hint = "give the port another name, or the interfaces a namespace of their own: namespace = \"router\"";
            (
                format!("the port '{}' and its device have one name, but the kernel needs two", port.name),
                hint.to_string(),
            )
        });
    }
}

fn relays(report: &mut Report<'_>, section: &Section<'_>, ports: &[&PortPlan], incomplete: bool) -> Vec<DhcpRelayPlan> {
    let interfaces: Vec<&InterfacePlan> = ports.iter().flat_map(|port| &port.interfaces).collect();
    let surplus = |most| more_than(most, "DHCP relays");
    let mut known: Vec<Name> = Vec::new();
    let mut relays = section.texts(report, "dhcp_relay", surplus, "\"lan 198.51.100.5\"", |report, text| {
        let mut words = text.value.split_whitespace();
        let name = words.next().unwrap_or_default();
        let Some(interface) = interfaces.iter().find(|interface| *interface.name == *name) else {
            if !incomplete {
                text.error(report, || {
                    let hint = did_you_mean(name, interfaces.iter().map(|interface| &*interface.name));
                    (format!("{} is no interface with one in the kernel", quote(name)), hint)
                });
            }
            return None;
        };
        if known.contains(&interface.name) {
            text.error(report, || {
                (format!("the relay of {name} is set twice"), "put its servers into one line".into())
            });
            return None;
        }
        known.push(interface.name.clone());
        let mut servers = Vec::new();
        for word in words {
            match word.parse::<IpAddr>() {
                Ok(server) if no_host_reason(server).is_none() => servers.push(server),
                _ => {
                    text.error(report, || {
                        (
                            format!("{} is no address of a server", quote(word)),
                            "write an address like 198.51.100.5".into(),
                        )
                    });
                    return None;
                }
            }
        }
        if servers.is_empty() || servers.len() > MOST_SERVERS {
            text.error(report, || {
                let hint = "write the interface, then the addresses of its servers: \"lan 198.51.100.5\"".into();
                (format!("the relay of {name} has {} servers instead of 1 to {MOST_SERVERS}", servers.len()), hint)
            });
            return None;
        }
        Some(DhcpRelayPlan { interface: interface.name.clone(), servers })
    });
    relays.sort();
    relays
}

fn limits(report: &mut Report<'_>, section: &Section<'_>) -> PuntLimits {
    let mut limits = PuntLimits::default();
    let surplus = |most| (format!("there are more than {most} limits"), "give each protocol one".to_string());
    section.texts(report, "limits", surplus, "\"bgp 50kpps\"", |report, text| {
        let (name, rate) = text.value.trim().split_once(' ').unwrap_or((text.value, ""));
        let Some(protocol) = PuntedProtocol::ALL.iter().find(|protocol| protocol.name() == name) else {
            text.error(report, || {
                (
                    format!("{} is no protocol with a limit", quote(name)),
                    did_you_mean(name, PuntedProtocol::NAMES.iter().copied()),
                )
            });
            return None;
        };
        match rate.parse::<PacketRate>() {
            Ok(rate) if rate > MOST => {
                text.error(report, || (format!("{rate} is out of range"), format!("give at most {MOST}")));
            }
            Ok(rate) => limits.0[*protocol as usize] = rate,
            Err(error) => text.error(report, || (error.reason, error.hint)),
        }
        Some(())
    });
    limits
}

pub(crate) fn diff(old: &Option<LinuxPlan>, new: &Option<LinuxPlan>) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    let namespace = |plan: &Option<LinuxPlan>| match plan {
        Some(LinuxPlan { namespace: Some(name), .. }) => name.clone(),
        Some(_) => "that of the router".to_string(),
        None => or_none(&None::<String>),
    };
    edit(&mut what, NAMESPACE, namespace(old), namespace(new));
    if let (Some(old), Some(new)) = (old, new) {
        edit(&mut what, "ports", joined(&old.ports), joined(&new.ports));
        edit(&mut what, "answer", old.answer, new.answer);
        edit(&mut what, "limits", old.limits, new.limits);
        edit(&mut what, "dhcp_relay", joined(&old.dhcp_relay), joined(&new.dhcp_relay));
    }
    what
}
