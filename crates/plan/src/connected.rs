//! The connected subnets, and the checks of addresses against them.

use crate::address::masked;
use crate::diagnostic::Report;
use crate::document::{Section, Text};
use crate::names::MAIN_VRF;
use crate::names::Name;
use crate::text::{did_you_mean, quote};
use crate::{Prefix, SetKind};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Range;
use units::Mac;

/// An interface's index in [`Connected`].
pub(crate) type InterfaceIndex = usize;
/// A VRF's index in [`Connected`]; 0 is the main one.
pub(crate) type VrfIndex = usize;
pub(crate) const MAIN: VrfIndex = 0;

/// One local address.
struct LocalAddress {
    /// The local address with the prefix length of its subnet.
    prefix: Prefix,
    interface: InterfaceIndex,
    span: Range<usize>,
    path: String,
}

/// A tunnel port, and the position of its own address.
#[derive(Debug)]
pub(crate) struct TunnelPlace {
    pub name: Name,
    pub span: Range<usize>,
    pub path: String,
}

/// The router's interfaces, local addresses and connected subnets.
#[derive(Default)]
pub(crate) struct Connected {
    interfaces: Vec<Name>,
    /// The VRF of each interface.
    interface_vrfs: Vec<VrfIndex>,
    /// The names of the VRFs except the main one, which has the index 0.
    vrfs: Vec<Name>,
    by_name: HashMap<Name, InterfaceIndex>,
    attachments: Vec<LocalAddress>,
    /// Local addresses by VRF. Link-local ones also by interface, since each link may have the same.
    local_addresses: HashMap<(VrfIndex, IpAddr, Option<InterfaceIndex>), usize>,
    /// Subnets by VRF, without link-local ones, and an attachment of each.
    subnets: HashMap<(VrfIndex, Prefix), usize>,
    /// The prefix lengths of the subnets of each family. A lookup tries only these.
    lengths: [BTreeSet<u8>; 2],
    /// The tunnels, whose addresses are checked last.
    pub tunnels: Vec<TunnelPlace>,
    /// The named sets.
    pub sets: Vec<(Name, SetKind)>,
    /// True if an interface or address had an error: a name that is not found may be the missing one, so do not report it.
    pub incomplete: bool,
}

impl Connected {
    /// The VRF of a name; adds it if it is new.
    pub fn add_vrf(&mut self, name: &str) -> VrfIndex {
        self.vrf(name).unwrap_or_else(|| {
            self.vrfs.push(name.into());
            self.vrfs.len()
        })
    }

    /// The VRF of a name, if an interface is in it.
    pub fn vrf(&self, name: &str) -> Option<VrfIndex> {
        if name == MAIN_VRF {
            return Some(MAIN);
        }
        self.vrfs.iter().position(|vrf| &**vrf == name).map(|position| position + 1)
    }

    /// The name of a VRF; `None` for the main one.
    pub fn vrf_name(&self, vrf: VrfIndex) -> Option<&Name> {
        self.vrfs.get(vrf.checked_sub(1)?)
    }

    fn vrf_text(&self, vrf: VrfIndex) -> &str {
        self.vrf_name(vrf).map_or(MAIN_VRF, |name| name)
    }

    /// The number of VRFs without the main one.
    pub fn vrf_count(&self) -> usize {
        self.vrfs.len()
    }

    /// The VRF that `vrf` names, or an error with suggestions. `None` if it was reported or excused.
    pub fn vrf_named(&self, report: &mut Report<'_>, text: &Text<'_>) -> Option<VrfIndex> {
        let found = self.vrf(text.value);
        if found.is_none() && !self.incomplete {
            text.error(report, || {
                let known = self.vrfs.iter().map(|name| &**name).chain([MAIN_VRF]);
                let hint = did_you_mean(text.value, known);
                (format!("no port is in a VRF {}", quote(text.value)), hint)
            });
        }
        found
    }

    pub fn add_interface(&mut self, name: Name, vrf: VrfIndex) -> InterfaceIndex {
        self.interface_vrfs.push(vrf);
        let index = self.interfaces.len();
        self.interfaces.push(name.clone());
        self.by_name.insert(name, index);
        index
    }

    pub fn interface_name(&self, index: InterfaceIndex) -> &Name {
        &self.interfaces[index]
    }

    /// The VRF of an interface.
    pub fn vrf_of(&self, index: InterfaceIndex) -> VrfIndex {
        self.interface_vrfs[index]
    }

    /// True if an interface has an address of this family. An interface without one takes no part in the protocol.
    pub fn has_family(&self, index: InterfaceIndex, ipv4: bool) -> bool {
        let of = |a: &LocalAddress| a.interface == index && a.prefix.address.is_ipv4() == ipv4;
        self.incomplete || self.attachments.iter().any(of)
    }

    pub fn interface_count(&self) -> usize {
        self.interfaces.len()
    }

    /// Adds a local address, unless the router has it already.
    pub fn add_address(&mut self, report: &mut Report<'_>, prefix: Prefix, interface: InterfaceIndex, text: &Text<'_>) {
        let scope = is_link_local(prefix.address).then_some(interface);
        let key = (self.interface_vrfs[interface], prefix.address, scope);
        if let Some(first) = self.local_addresses.get(&key) {
            let owner = &self.interfaces[self.attachments[*first].interface];
            return text.error(report, || {
                (
                    format!("the address {} is given twice, first to '{owner}'", prefix.address),
                    "remove one of the two".to_string(),
                )
            });
        }
        let index = self.attachments.len();
        self.local_addresses.insert(key, index);
        let path = text.path.to_string();
        self.attachments.push(LocalAddress { prefix, interface, span: text.span.clone(), path });
    }

    /// Indexes the subnets, and reports subnets of different interfaces that overlap: the output interface would be ambiguous.
    pub fn index_subnets(&mut self, report: &mut Report<'_>) {
        let mut order: Vec<usize> = (0..self.attachments.len()).collect();
        order.retain(|&index| !is_link_local(self.attachments[index].prefix.address));
        // Prefixes are sorted after those that contain them. So the enclosing ones form a stack, with at most one of each length.
        order.sort_by_key(|&index| {
            let a = &self.attachments[index];
            (self.interface_vrfs[a.interface], a.prefix.network(), a.span.start)
        });
        let mut open: Vec<usize> = Vec::new();
        for index in order {
            let (subnet, interface) = (self.attachments[index].prefix.network(), self.attachments[index].interface);
            let vrf = self.interface_vrfs[interface];
            // Entries that do not contain this subnet cannot contain a later one either, because of the sort order.
            let apart = |top: &LocalAddress| self.interface_vrfs[top.interface] != vrf || !top.prefix.covers(subnet);
            while open.last().is_some_and(|&top| apart(&self.attachments[top])) {
                open.pop();
            }
            let clash = open.iter().rev().find(|&&other| self.attachments[other].interface != interface);
            if let Some(&clash) = clash {
                self.report_overlap(report, index, clash);
            }
            if self.subnets.contains_key(&(vrf, subnet)) {
                continue;
            }
            self.subnets.insert((vrf, subnet), index);
            self.lengths[usize::from(subnet.address.is_ipv6())].insert(subnet.length);
            open.push(index);
        }
    }

    fn report_overlap(&self, report: &mut Report<'_>, one: usize, other: usize) {
        // Report the later line.
        let later = one.max(other);
        let first = &self.attachments[one.min(other)];
        let later = &self.attachments[later];
        report.error(later.span.clone(), &later.path, || {
            let owner = &self.interfaces[first.interface];
            let subnet = later.prefix.network();
            let reason = format!("the subnet {subnet} overlaps with {} of '{owner}'", first.prefix.network());
            (reason, "give each interface a subnet of its own".to_string())
        });
    }

    /// The attachment whose subnet contains the address in a VRF; the longest match if they nest.
    fn find(&self, vrf: VrfIndex, address: IpAddr) -> Option<&LocalAddress> {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        let subnet = |&length: &u8| self.subnets.get(&(vrf, Prefix { address: masked(address, length), length }));
        lengths.iter().rev().find_map(subnet).map(|&index| &self.attachments[index])
    }

    /// The interface of a VRF that has this address, which is not link-local.
    pub fn owner(&self, vrf: VrfIndex, address: IpAddr) -> Option<&Name> {
        let index = self.local_addresses.get(&(vrf, address, None))?;
        Some(&self.interfaces[self.attachments[*index].interface])
    }

    /// The interface of a VRF on whose subnet the address is, and the length of the subnet's prefix.
    pub fn subnet_of(&self, vrf: VrfIndex, address: IpAddr) -> Option<(&Name, u8)> {
        let found = self.find(vrf, address)?;
        Some((&self.interfaces[found.interface], found.prefix.length))
    }

    /// The interface of a VRF whose subnet is exactly this one.
    pub fn subnet(&self, vrf: VrfIndex, prefix: Prefix) -> Option<&Name> {
        self.subnets.get(&(vrf, prefix)).map(|&index| &self.interfaces[self.attachments[index].interface])
    }

    /// The interface of a name, or an error with suggestions. `Err` if it was reported or excused.
    pub fn named(&self, report: &mut Report<'_>, text: &Text<'_>) -> Result<InterfaceIndex, ()> {
        self.interface(text.value).ok_or_else(|| {
            if !self.incomplete {
                text.error(report, || self.no_interface(text.value));
            }
        })
    }

    /// The interface of the key `port`, if it is set. `Err` if it was reported or excused.
    pub fn own_port(&self, report: &mut Report<'_>, section: &Section<'_>) -> Result<Option<InterfaceIndex>, ()> {
        match section.node("port") {
            None => Ok(None),
            Some(_) => section.text(report, "port").ok_or(()).and_then(|text| self.named(report, &text)).map(Some),
        }
    }

    /// The interface of a name.
    pub fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        self.by_name.get(name).copied()
    }

    /// The reason and the hint for an unknown interface.
    pub fn no_interface(&self, name: &str) -> (String, String) {
        let hint = did_you_mean(name, self.interfaces.iter().map(|name| &**name));
        (format!("there is no port or VLAN {}", quote(name)), hint)
    }

    /// The interface of a neighbour or gateway with this address. The address has to be on a connected subnet. It must not be a local, network or
    /// broadcast address. The lookup uses the VRF of `on`, or `vrf` if no interface is named. `Err` if it was reported or excused.
    pub fn host_interface(
        &self,
        report: &mut Report<'_>,
        text: &Text<'_>,
        address: IpAddr,
        on: Option<InterfaceIndex>,
        vrf: VrfIndex,
    ) -> Result<InterfaceIndex, ()> {
        self.interface_of_host(address, on, vrf).map_err(|wrong| {
            if let Some(wrong) = wrong {
                text.error(report, || wrong);
            }
        })
    }

    /// As [`host_interface`](Connected::host_interface). An error has the reason and a hint, or nothing if it is excused.
    fn interface_of_host(
        &self,
        address: IpAddr,
        on: Option<InterfaceIndex>,
        vrf: VrfIndex,
    ) -> Result<InterfaceIndex, Option<(String, String)>> {
        let vrf = on.map_or(vrf, |on| self.interface_vrfs[on]);
        let wrong = |reason: String, hint: &str| Err(Some((reason, hint.to_string())));
        if let Some(kind) = no_host_reason(address) {
            return wrong(format!("{address} is {kind}, not the address of a host"), "write a unicast address");
        }
        let local = is_link_local(address);
        // Local addresses are indexed by interface only if they are link-local.
        if self.local_addresses.contains_key(&(vrf, address, on.filter(|_| local))) {
            return wrong(format!("{address} is the router's own address"), "write the address of the other host");
        }
        if local {
            let hint = "add port = \"NAME\"";
            return on.map_or_else(|| wrong(format!("{address} is link-local, so its port is ambiguous"), hint), Ok);
        }
        let Some(found) = self.find(vrf, address) else {
            let of = self.vrf_name(vrf).map_or_else(String::new, |name| format!(" of the VRF '{name}'"));
            let reason = || (format!("{address} is on no connected subnet{of}"), self.connected_hint(address, vrf));
            return Err((!self.incomplete).then(reason));
        };
        if let Some(kind) = reserved_address_name(found.prefix, address) {
            return wrong(
                format!("{address} is the {kind} of {}", found.prefix.network()),
                "write the address of a host",
            );
        }
        match on {
            Some(on) if on != found.interface => {
                let (is, not) = (&self.interfaces[found.interface], &self.interfaces[on]);
                let hint = format!("write port = \"{is}\", or an address on a subnet of '{not}'");
                wrong(format!("{address} is on a subnet of '{is}', not of '{not}'"), &hint)
            }
            _ => Ok(found.interface),
        }
    }

    /// The interface of a next hop that a rule names: on any VRF's connected subnet. Only a link-local address needs `on`. An error has the reason
    /// and a hint, or nothing if it is excused.
    pub fn rule_hop_interface(
        &self,
        address: IpAddr,
        on: Option<InterfaceIndex>,
    ) -> Result<InterfaceIndex, Option<(String, String)>> {
        if is_link_local(address) && on.is_none() {
            let reason = format!("{address} is link-local, so its port is ambiguous");
            return Err(Some((reason, format!("write 'via {address} dev lan'"))));
        }
        let vrfs: Vec<VrfIndex> =
            (0..=self.vrfs.len()).filter(|vrf| self.find(*vrf, address).is_some()).take(2).collect();
        match (on, &vrfs[..]) {
            (None, [first, second]) => {
                let (first, second) = (self.vrf_text(*first), self.vrf_text(*second));
                let reason = format!("{address} is on subnets of several VRFs, '{first}' and '{second}'");
                Err(Some((reason, format!("name the port: via {address} dev lan"))))
            }
            (Some(on), _) => {
                let other = self.find(self.interface_vrfs[on], address).filter(|found| found.interface != on);
                let Some(other) = other else { return self.interface_of_host(address, Some(on), MAIN) };
                let (is, not) = (&self.interfaces[other.interface], &self.interfaces[on]);
                let hint = format!("write 'dev {is}', or an address on a subnet of '{not}'");
                Err(Some((format!("{address} is on a subnet of '{is}', not of '{not}'"), hint)))
            }
            (None, vrfs) => self.interface_of_host(address, None, vrfs.first().copied().unwrap_or(MAIN)),
        }
    }

    /// True if the interface of a gateway is in the VRF of its route. Otherwise reports it, unless the route may leak.
    pub fn is_gateway_in_vrf(
        &self,
        report: &mut Report<'_>,
        text: &Text<'_>,
        on: InterfaceIndex,
        (vrf, leak): (VrfIndex, bool),
    ) -> bool {
        let (its, name) = (self.interface_vrfs[on], &self.interfaces[on]);
        if its == vrf || leak {
            return true;
        }
        text.error(report, || {
            let (its, ours) = (self.vrf_text(its), self.vrf_text(vrf));
            let reason = format!("'{name}' is in the VRF '{its}', but the route is in '{ours}'");
            (reason, format!("add leak = true to let packets leave '{ours}' by this route, or use another port"))
        });
        false
    }

    fn connected_hint(&self, address: IpAddr, vrf: VrfIndex) -> String {
        const LISTED: usize = 4;
        let family = self.attachments.iter().filter(|a| a.prefix.address.is_ipv4() == address.is_ipv4());
        let known = family.filter(|a| !is_link_local(a.prefix.address) && self.interface_vrfs[a.interface] == vrf);
        let mut listed: Vec<String> = known
            .take(LISTED + 1)
            .map(|a| format!("{} ({})", a.prefix.network(), self.interfaces[a.interface]))
            .collect();
        if listed.is_empty() {
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            return format!("give a port an {family} address first");
        }
        if listed.len() > LISTED {
            listed[LISTED] = "...".to_string();
        }
        format!("the connected subnets are {}", listed.join(", "))
    }
}

/// RFC 4291, section 2.5.6. (IPv4 link-local addresses are connected subnets like any other.)
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(a) if a.is_unicast_link_local())
}

/// The reason why no host can have the address (RFC 1122, section 3.2.1.3; RFC 4291, section 2.5 and 2.7).
pub(crate) fn no_host_reason(address: IpAddr) -> Option<&'static str> {
    Some(match address {
        IpAddr::V4(a) if a.is_broadcast() => "the broadcast address",
        IpAddr::V4(a) if a.octets()[0] == 0 => "an address of 'this network'",
        IpAddr::V4(a) if a.octets()[0] >= 240 => "a reserved address",
        IpAddr::V6(a) if a.is_unspecified() => "the unspecified address",
        IpAddr::V6(a) if a.to_ipv4_mapped().is_some() => "an IPv4-mapped address",
        a if a.is_loopback() => "a loopback address",
        a if a.is_multicast() => "a multicast address",
        _ => return None,
    })
}

/// The name of a reserved first or last address of a subnet. These are network and broadcast (RFC 1122; not for /31, RFC 3021), and subnet-router
/// anycast (RFC 4291, section 2.6.1; not for /127, RFC 6164).
pub(crate) fn reserved_address_name(subnet: Prefix, address: IpAddr) -> Option<&'static str> {
    let first = subnet.network().address == address;
    match address {
        IpAddr::V4(_) if subnet.length >= 31 => None,
        IpAddr::V4(_) if first => Some("network address"),
        IpAddr::V4(_) => (subnet.last() == address).then_some("broadcast address"),
        IpAddr::V6(_) => (first && subnet.length < 127).then_some("subnet-router anycast address"),
    }
}

/// Parses an address. `None` if it was reported.
pub(crate) fn address(report: &mut Report<'_>, text: &Text<'_>) -> Option<IpAddr> {
    let parsed = text.value.parse::<IpAddr>();
    if parsed.is_err() {
        text.error(report, || {
            let hint = match text.value.split_once('/').map(|(address, _)| address.parse::<IpAddr>()) {
                Some(Ok(address)) => format!("write '{address}', without a length"),
                _ => "write an address, like '192.0.2.9' or '2001:db8::9'".to_string(),
            };
            (format!("{} is no address", quote(text.value)), hint)
        });
    }
    parsed.ok()
}

/// Parses a unicast MAC address.
pub(crate) fn mac(report: &mut Report<'_>, text: &Text<'_>) -> Option<Mac> {
    let (reason, hint) = match text.value.parse::<Mac>() {
        Ok(mac) if mac.is_group() => (format!("{mac} is a multicast address"), "make the first byte even, like '02'"),
        Ok(mac) if mac.number() == 0 => {
            (format!("{mac} is no address"), "write a unicast address, like '02:00:00:00:00:01'")
        }
        Ok(mac) => return Some(mac),
        Err(_) => (
            format!("{} is no MAC address", quote(text.value)),
            "write six bytes in hexadecimal, like '02:00:00:00:00:01'",
        ),
    };
    text.error(report, || (reason, hint.to_string()));
    None
}
