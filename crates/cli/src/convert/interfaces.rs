//! Interfaces and addresses: `ip -j addr`, best with `-d`.

use super::draft::{Draft, DumpPlace, PieceId, quoted};
use super::dumps::{DumpObject, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The longest name of a port.
const LONGEST: usize = 15;

/// The interfaces of the configuration, by their names in the kernel.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    /// The name here of each interface: `eth0`, `eth0.20`.
    names: BTreeMap<String, String>,
    /// The static addresses of each interface.
    addresses: BTreeMap<String, Vec<(IpAddr, u8)>>,
    /// Queueing schemes by interface, which become part of the port.
    pub(super) schemes: BTreeMap<String, Vec<(DumpPlace, String)>>,
}

/// An interface of the dump that becomes a port or a VLAN.
struct Candidate<'d> {
    object: &'d DumpObject,
    name: String,
    /// The parent and the number of a VLAN.
    vlan: Option<(String, u64)>,
    addresses: Vec<(DumpPlace, IpAddr, u8)>,
}

impl Interfaces {
    /// The name here of an interface of the kernel.
    pub(super) fn name(&self, interface: &str) -> Option<&str> {
        self.names.get(interface).map(String::as_str)
    }

    /// True if an interface has this address.
    pub(super) fn has(&self, interface: &str, address: IpAddr) -> bool {
        self.addresses.get(interface).is_some_and(|own| own.iter().any(|(one, _)| *one == address))
    }

    /// True if any interface has this address.
    pub(super) fn owns(&self, address: IpAddr) -> bool {
        self.addresses.keys().any(|interface| self.has(interface, address))
    }

    /// True if an interface has an address whose network contains this one: the kernel has added the route to it.
    pub(super) fn is_connected(&self, interface: &str, network: plan::Prefix) -> bool {
        let of = |own: &[(IpAddr, u8)]| {
            own.iter()
                .filter_map(|(address, length)| plan::Prefix::new(*address, *length))
                .any(|own| own.network() == network)
        };
        self.addresses.get(interface).is_some_and(|own| of(own))
    }
}

/// Adds the ports. `used` are interfaces of routes and queues: they become ports even without an address.
pub(super) fn convert(objects: &[DumpObject], used: &BTreeSet<String>, draft: &mut Draft, interfaces: &mut Interfaces) {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for object in objects {
        if let Some(candidate) = candidate(object, draft)
            && !candidates.iter().any(|other| other.name == candidate.name)
        {
            candidates.push(candidate);
        }
    }
    let parents: BTreeSet<String> = candidates
        .iter()
        .filter(|one| !one.addresses.is_empty())
        .filter_map(|one| one.vlan.as_ref().map(|(parent, _)| parent.clone()))
        .collect();
    let (vlans, ports): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| one.vlan.is_some());
    for port in &ports {
        let place = DumpPlace::new(&port.object.source, format!("interface {}", port.name));
        if port.addresses.is_empty() && !used.contains(&port.name) && !parents.contains(&port.name) {
            draft.leave_out(place, "it has no static address, and no route or VLAN uses it");
            continue;
        }
        add_port(port, &vlans, place, draft, interfaces);
    }
    for vlan in vlans.iter().filter(|vlan| interfaces.name(&vlan.name).is_none()) {
        let place = DumpPlace::new(&vlan.object.source, format!("interface {}", vlan.name));
        draft.leave_out(place, "its parent is no port, or it has no static address");
    }
}

fn add_port(
    port: &Candidate<'_>,
    vlans: &[Candidate<'_>],
    place: DumpPlace,
    draft: &mut Draft,
    interfaces: &mut Interfaces,
) {
    let name = port_name(&port.name, &interfaces.names);
    let device = quoted(&format!("packet:{}", port.name));
    let id = draft.piece(None, place, format!("\n[port.{name}]\ndevice = {device}"));
    add_addresses(port, id, draft, interfaces);
    add_mtu(port, id, draft);
    for (place, text) in interfaces.schemes.remove(&port.name).unwrap_or_default() {
        draft.piece(Some(id), place, text);
    }
    for vlan in vlans {
        let Some((_, number)) = vlan.vlan.as_ref().filter(|(parent, _)| *parent == port.name) else { continue };
        if vlan.addresses.is_empty() {
            continue;
        }
        let place = DumpPlace::new(&vlan.object.source, format!("interface {}", vlan.name));
        let table = draft.piece(Some(id), place, format!("\n[port.{name}.vlan.{number}]"));
        add_addresses(vlan, table, draft, interfaces);
        add_mtu(vlan, table, draft);
        interfaces.names.insert(vlan.name.clone(), format!("{name}.{number}"));
    }
    interfaces.names.insert(port.name.clone(), name);
}

fn add_addresses(of: &Candidate<'_>, id: PieceId, draft: &mut Draft, interfaces: &mut Interfaces) {
    if of.addresses.is_empty() {
        return;
    }
    draft.glue(id, "address = [");
    for (place, address, length) in &of.addresses {
        draft.piece(Some(id), place.clone(), format!("  \"{address}/{length}\","));
        interfaces.addresses.entry(of.name.clone()).or_default().push((*address, *length));
    }
    draft.glue(id, "]");
}

fn add_mtu(of: &Candidate<'_>, id: PieceId, draft: &mut Draft) {
    if let Some(mtu) = of.object.value["mtu"].as_u64().filter(|mtu| *mtu != 1500) {
        let place = DumpPlace::new(&of.object.source, format!("interface {}, MTU", of.name));
        draft.piece(Some(id), place, format!("mtu = {mtu}"));
    }
}

/// Reads an interface, and reports why it cannot become a port.
fn candidate<'d>(object: &'d DumpObject, draft: &mut Draft) -> Option<Candidate<'d>> {
    let value = &object.value;
    let name = text(&value["ifname"]).to_owned();
    if name.is_empty() {
        draft.leave_out(DumpPlace::new(&object.source, "an object"), "it is no interface: it has no 'ifname'");
        return None;
    }
    let place = || DumpPlace::new(&object.source, format!("interface {name}"));
    let kind = text(&value["linkinfo"]["info_kind"]);
    let is_loopback = value["link_type"] == "loopback";
    let addresses = static_addresses(object, &name, is_loopback, draft);
    let reason = if is_loopback {
        for (place, ..) in addresses {
            draft.leave_out(place, "the router has no loopback interface: give the address to a port");
        }
        return None;
    } else if value["link_type"] != "ether" {
        Some(format!("ports are Ethernet interfaces, and this one is '{}'", text(&value["link_type"])))
    } else if kind == "vrf" {
        Some("it is a VRF: give its interfaces the key `vrf`, and its routes too".to_owned())
    } else if kind == "tun" {
        Some("it belongs to a program that has made it".to_owned())
    } else {
        value["master"].as_str().map(|master| format!("it is a part of '{master}', whose packets it has"))
    };
    if let Some(reason) = reason {
        draft.leave_out(place(), reason);
        return None;
    }
    let parent = text(&value["link"]);
    let number = value["linkinfo"]["info_data"]["id"].as_u64().filter(|_| kind == "vlan");
    // Without -d the usual names tell: `eth0.20` on `eth0`.
    let by_name = || name.strip_prefix(parent)?.strip_prefix('.')?.parse().ok();
    let number =
        number.or_else(|| Some(parent).filter(|parent| !parent.is_empty() && kind.is_empty()).and_then(|_| by_name()));
    Some(Candidate { object, vlan: number.map(|number| (parent.to_owned(), number)), name, addresses })
}

/// The addresses that the router gets. Reports the others.
fn static_addresses(
    object: &DumpObject,
    name: &str,
    is_loopback: bool,
    draft: &mut Draft,
) -> Vec<(DumpPlace, IpAddr, u8)> {
    let mut found = Vec::new();
    for info in object.value["addr_info"].as_array().into_iter().flatten() {
        let local = text(&info["local"]);
        let place = DumpPlace::new(&object.source, format!("interface {name}, address {local}"));
        let parsed =
            local.parse::<IpAddr>().ok().zip(info["prefixlen"].as_u64().and_then(|length| u8::try_from(length).ok()));
        let Some((address, length)) = parsed else {
            draft.leave_out(place, "this is no address with a prefix length");
            continue;
        };
        let is_link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        // The router forms link-local addresses itself. Loopback addresses are in every kernel.
        if is_link_local || (is_loopback && address.is_loopback()) {
            continue;
        }
        let is_set = |key: &str| info[key] == Value::Bool(true);
        if is_set("dynamic") || is_set("temporary") || is_set("mngtmpaddr") {
            let reason = "it expires: DHCP or autoconfiguration has set it. With [linux] the client can set it on the interface of the port";
            draft.leave_out(place, reason);
        } else if info["address"].is_string() {
            draft.leave_out(place, "it has another end of a point-to-point link");
        } else if is_set("deprecated") || is_set("dadfailed") {
            draft.leave_out(place, "the kernel does not use it");
        } else {
            found.push((place, address, length));
        }
    }
    found
}

/// A name of a port that resembles that of the interface.
fn port_name(interface: &str, taken: &BTreeMap<String, String>) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' { c } else { '-' };
    let mut name: String = interface.to_ascii_lowercase().chars().map(plain).take(LONGEST).collect();
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name = format!("p{name}").chars().take(LONGEST).collect();
    }
    let is_taken = |name: &str| taken.values().any(|other| other == name);
    if !is_taken(&name) {
        return name;
    }
    let numbered = (2..).map(|number| format!("{}-{number}", name.chars().take(LONGEST - 6).collect::<String>()));
    numbered.into_iter().find(|name| !is_taken(name)).unwrap_or(name)
}
