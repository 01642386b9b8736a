//! Interfaces: a port's untagged one, with its keys in `[port.NAME]`, and its VLANs, `[port.NAME.vlan.ID]`.

use super::ra::{self, ADVERTISES, RaPlan};
use crate::Prefix;
use crate::connected::{Connected, InterfaceIndex, MAIN, VrfIndex, no_host_reason, reserved_address_name};
use crate::diagnostic::{Report, more_than};
use crate::diff::{PropertyChange, Step, edit, joined, or_none, steps};
use crate::document::{Node, Path, Section};
use crate::key::{Form, Key, Kind, NAME, PREFIX, key};
use crate::named::named;
use crate::names::{self, MAIN_VRF, Name, PORT_PATTERN};
use crate::section::objectives::Objective;
use crate::text::quote;
use serde::Serialize;
use units::Mac;

pub(crate) const MOST_INTERFACES: usize = 4096;
/// Limit of addresses of one interface.
pub(crate) const MOST_ADDRESSES: usize = 64;
/// Limit of VRFs besides the main one.
const MOST_VRFS: usize = 256;
/// The smallest MTU of an IPv6 link (RFC 8200, section 5).
const IPV6_MTU: u64 = 1280;

pub(super) const VRF_DOC: &str = "The VRF, whose routes alone apply to packets received here.";

/// A key of ports and VLANs.
pub(super) const REDIRECTS: Key = key(
    "redirects",
    Kind::Boolean,
    "false",
    "true",
    "If true, the interface sends ICMP redirects to hosts on its link that have a better first hop there. Packets \
     that leave by their input interface then take the slower general path.",
);
/// A key of ports, and of VLANs that differ from their port. `default` is the default of the section.
pub(super) const fn reverse_path(default: &'static str) -> Key {
    key(
        "reverse_path",
        Kind::Text(Form::Choice(ReversePath::NAMES)),
        default,
        "\"strict\"",
        "Checks the source of each received packet against the routes (RFC 3704). `strict` requires that the route \
         to it leaves by this interface. `loose` requires any route to it, including the default route. Other \
         packets are dropped as `reverse_path`. Use `strict` for interfaces whose hosts have no other connection. \
         The default for a VLAN is its port's value.",
    )
}
/// A key of interfaces. `default` is the default of the section.
pub(super) const fn trust(default: &'static str) -> Key {
    key(
        "trust",
        Kind::Boolean,
        default,
        "true",
        "Whether the code points of received packets select their objective (`[objectives]`). Use it for hosts that \
         the operator controls. The default for a VLAN is its port's value.",
    )
}

/// The objective of packets that are not trusted or request none.
pub(super) const fn objective(default: &'static str) -> Key {
    key(
        "objective",
        Kind::Text(Form::Choice(Objective::NAMES)),
        default,
        "\"fct\"",
        "The objective of all other received packets: `throughput`, `delay`, `power`, `fct`, `tail`, `none`. The \
         default for a VLAN is its port's value.",
    )
}

/// The smallest MTU is IPv4's (RFC 791). The largest is the limit of the IPv4 length field.
pub(super) const MTU: Kind = Kind::Integer { least: 68, most: 65_535 };

pub(crate) const VLAN: &[Key] = &[
    key(
        "address",
        Kind::Texts { form: PREFIX, most: MOST_ADDRESSES },
        "[]",
        "[\"198.51.100.1/24\"]",
        "The router's own addresses in the VLAN, each with its prefix length.",
    ),
    key("vrf", Kind::Text(NAME), "", "\"red\"", "The VRF. The default is that of the port."),
    key("mtu", MTU, "", "1500", "The MTU in bytes. The default and the maximum is that of the port."),
    REDIRECTS,
    reverse_path(""),
    trust(""),
    objective(""),
    ADVERTISES,
];

/// A layer 3 interface of the router.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct InterfacePlan {
    /// `lan`, or `lan.20`.
    pub name: Name,
    /// The 802.1Q VLAN id, 1 to 4094; `None` for the untagged interface.
    pub vlan: Option<u16>,
    /// Its addresses with their prefix lengths, in the order of the file.
    pub addresses: Vec<Prefix>,
    /// Its VRF; `None` for the main one.
    pub vrf: Option<Name>,
    /// The largest IP packet in bytes.
    pub mtu: u16,
    /// True if it sends ICMP redirects to hosts on its link.
    pub redirects: bool,
    /// The reverse path check of received packets.
    pub reverse_path: ReversePath,
    /// Its router advertisements; `None` if it sends none.
    pub ra: Option<RaPlan>,
    /// True if the code points of received packets select their objective.
    pub trust: bool,
    /// The objective of all other received packets.
    pub objective: Objective,
    /// The settings that programs of the machine have made on the kernel's interface for it.
    #[serde(skip)]
    pub kernel: KernelSettings,
}

/// The settings that programs of the machine have made on the kernel's interface for an interface of the router. They are no part of the configuration:
/// the router learns them while it runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelSettings {
    /// Addresses that the configuration does not have, sorted.
    pub addresses: Vec<Prefix>,
    /// An MTU below the configured one, in bytes.
    pub mtu: Option<u16>,
    /// True if the interface was set down: the router has no addresses there.
    pub down: bool,
    /// MAC addresses of further interfaces of the kernel on this one (macvlan), sorted: virtual routers (RFC 9568 7.3). The router receives their frames
    /// too.
    pub stations: Vec<Mac>,
    /// True if a program of the machine routes multicast on it: the kernel gets packets of groups that have no route yet.
    pub routes_groups: bool,
    /// True if IPv4 routes lead to IPv6 next hops on it (RFC 8950): it forwards IPv4 packets, also without an IPv4 address.
    pub carries_ipv4: bool,
}

impl InterfacePlan {
    /// The addresses in force: the configured ones, then those that programs of the machine have added.
    pub fn addresses_in_force(&self) -> impl Iterator<Item = Prefix> + '_ {
        let all = self.addresses.iter().chain(&self.kernel.addresses);
        all.copied().filter(|_| !self.kernel.down)
    }
}

/// The check of a packet's source against the routes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ReversePath {
    /// No check.
    #[default]
    Off,
    /// A route to it exists, including the default route (RFC 3704 2.4).
    Loose,
    /// The best route to it leaves by the input interface (RFC 3704 2.2).
    Strict,
}

named! { ReversePath { Off "off", Loose "loose", Strict "strict" } }

/// Reads the interfaces of a port, the untagged one first. `port_mtu` is the MTU of the port.
pub(super) fn check(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &mut Connected,
    port: &Name,
    port_mtu: u64,
) -> Vec<InterfacePlan> {
    let port_vrf = own_vrf(report, section, connected, MAIN);
    let inherited = (ReversePath::Off, false, Objective::None);
    let mut interfaces =
        vec![interface(report, section, connected, (port.clone(), None, port_vrf), (port_mtu, inherited))];
    let inherited = (interfaces[0].reverse_path, interfaces[0].trust, interfaces[0].objective);
    let parent = Path::Key(&section.path, "vlan");
    for (span, id, value) in section.tables(report, "vlan") {
        let path = Path::Key(&parent, id);
        let Some(vlan) = names::vlan_id(id) else {
            report.error(span, path, || {
                (format!("{} is no VLAN id", quote(id)), "use a number from 1 to 4094".to_string())
            });
            connected.incomplete = true;
            continue;
        };
        if connected.interface_count() >= MOST_INTERFACES {
            report.error(span, path, || more_than(MOST_INTERFACES, "interfaces"));
            connected.incomplete = true;
            break;
        }
        let node = Node::new(value.get_ref(), value.span(), path);
        let Some(section) = node.section(report, VLAN, &format!("[port.{port}.vlan.{id}]")) else {
            connected.incomplete = true;
            continue;
        };
        let mtu = section.integer(report, "mtu").unwrap_or(port_mtu);
        if mtu > port_mtu {
            report.error(section.place("mtu"), Path::Key(&section.path, "mtu"), || {
                let reason = format!("an MTU of {mtu} is more than {port_mtu}, the port's");
                (reason, "raise the port's mtu or lower this one".to_string())
            });
        }
        let name = Name::from(format!("{port}.{vlan}"));
        let vrf = own_vrf(report, &section, connected, port_vrf);
        interfaces.push(interface(report, &section, connected, (name, Some(vlan), vrf), (mtu, inherited)));
    }
    interfaces.sort_by_key(|interface| interface.vlan);
    interfaces
}

/// Reads an interface. `inherited` has the values of keys that the section does not set.
fn interface(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &mut Connected,
    (name, vlan, vrf): (Name, Option<u16>, VrfIndex),
    (mtu, inherited): (u64, (ReversePath, bool, Objective)),
) -> InterfacePlan {
    let index = connected.add_interface(name.clone(), vrf);
    let addresses = addresses(report, section, connected, index);
    if mtu < IPV6_MTU && addresses.iter().any(|prefix| prefix.address.is_ipv6()) {
        report.error(section.place("mtu"), Path::Key(&section.path, "mtu"), || {
            let reason = format!("an MTU of {mtu} is too small for IPv6");
            (reason, format!("use at least {IPV6_MTU}, or no IPv6 address"))
        });
    }
    let (reverse_path, trust, objective) = inherited;
    InterfacePlan {
        name,
        vlan,
        vrf: connected.vrf_name(vrf).cloned(),
        mtu: mtu as u16,
        redirects: section.boolean(report, "redirects"),
        reverse_path: section.choice(report, "reverse_path", ReversePath::ALL).unwrap_or(reverse_path),
        ra: ra::check(report, section, &addresses),
        trust: if section.node("trust").is_some() { section.boolean(report, "trust") } else { trust },
        objective: section.choice(report, "objective", Objective::ALL).unwrap_or(objective),
        kernel: KernelSettings::default(),
        addresses,
    }
}

/// The VRF of an interface; `default` if it is not set.
fn own_vrf(report: &mut Report<'_>, section: &Section<'_>, connected: &mut Connected, default: VrfIndex) -> VrfIndex {
    let Some(text) = section.text(report, "vrf") else { return default };
    if !names::is_vrf(text.value) {
        text.error(report, || {
            let hint = format!("use a letter, then letters, digits, '_' and '-', 15 at most: {PORT_PATTERN}");
            (format!("{} is no name for a VRF", quote(text.value)), hint)
        });
        connected.incomplete = true;
        return default;
    }
    if connected.vrf(text.value).is_none() && connected.vrf_count() >= MOST_VRFS {
        text.error(report, || more_than(MOST_VRFS, "VRFs"));
        connected.incomplete = true;
        return default;
    }
    connected.add_vrf(text.value)
}

fn addresses(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &mut Connected,
    interface: InterfaceIndex,
) -> Vec<Prefix> {
    let before = report.error_count();
    let surplus = |most| more_than(most, "addresses on the interface");
    let addresses = section.texts(report, "address", surplus, "\"192.0.2.1/24\"", |report, text| {
        let prefix = own_address(text.value).map_err(|wrong| text.error(report, || wrong)).ok()?;
        connected.add_address(report, prefix, interface, text);
        Some(prefix)
    });
    connected.incomplete |= report.error_count() > before;
    addresses
}

/// Parses a valid local address of an interface.
fn own_address(text: &str) -> Result<Prefix, (String, String)> {
    let prefix: Prefix = match text.parse::<Prefix>() {
        Ok(prefix) => prefix,
        Err(_) if !text.contains('/') && text.parse::<std::net::IpAddr>().is_ok() => {
            let example = if text.contains(':') { 64 } else { 24 };
            let reason = format!("{} has no prefix length", quote(text));
            return Err((reason, format!("add the length of the subnet, like '{text}/{example}'")));
        }
        Err(error) => {
            return Err((
                error.reason,
                "write an address and the length of its subnet, like '192.0.2.1/24'".to_string(),
            ));
        }
    };
    if let Some(kind) = no_host_reason(prefix.address) {
        return Err((
            format!("{} is {kind}, which an interface cannot have", prefix.address),
            "write a unicast address".to_string(),
        ));
    }
    if prefix.length == 0 {
        return Err((
            format!("with the length 0 the subnet of {prefix} is the whole Internet"),
            "write the prefix length of the subnet; a default route belongs in [[route]]".to_string(),
        ));
    }
    if let Some(kind) = reserved_address_name(prefix, prefix.address) {
        let reason = format!("{} is the {kind} of {}", prefix.address, prefix.network());
        return Err((reason, "write the router's own address on the subnet".to_string()));
    }
    Ok(prefix)
}

/// Compares the interfaces of a port.
pub(crate) fn diff<'p>(old: &'p [InterfacePlan], new: &'p [InterfacePlan]) -> Vec<Step<'p, InterfacePlan>> {
    steps(old, new, |interface| interface.vlan)
}

pub(crate) fn edits(old: &InterfacePlan, new: &InterfacePlan) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    edit(&mut what, "address", joined(&old.addresses), joined(&new.addresses));
    edit(&mut what, "vrf", vrf(&old.vrf), vrf(&new.vrf));
    edit(&mut what, "mtu", old.mtu, new.mtu);
    edit(&mut what, "redirects", old.redirects, new.redirects);
    edit(&mut what, "reverse_path", old.reverse_path, new.reverse_path);
    edit(&mut what, "ra", or_none(&old.ra), or_none(&new.ra));
    edit(&mut what, "trust", old.trust, new.trust);
    edit(&mut what, "objective", old.objective, new.objective);
    what
}

fn vrf(name: &Option<Name>) -> &str {
    name.as_deref().unwrap_or(MAIN_VRF)
}

/// `address 192.0.2.1/24 mtu 1500`, and all values other than the default.
pub(crate) fn summary(interface: &InterfacePlan) -> String {
    let own = interface.vrf.as_ref().map_or_else(String::new, |vrf| format!(" vrf {vrf}"));
    let redirects = if interface.redirects { " redirects true" } else { "" };
    let ra = interface.ra.as_ref().map_or_else(String::new, |ra| format!(" ra {ra}"));
    let sources = match interface.reverse_path {
        ReversePath::Off => String::new(),
        checked => format!(" reverse_path {checked}"),
    };
    let trust = if interface.trust { " trust true" } else { "" };
    let wants = match interface.objective {
        Objective::None => String::new(),
        objective => format!(" objective {objective}"),
    };
    format!("address {} mtu {}{own}{redirects}{sources}{ra}{trust}{wants}", joined(&interface.addresses), interface.mtu)
}
