//! `[[neighbour]]`: static ARP and ND entries for hosts on connected subnets.

use crate::address::mac_text;
use crate::connected::{Connected, MAIN, address, mac};
use crate::diagnostic::Report;
use crate::diff::{Step, steps};
use crate::document::{Node, Path, Section};
use crate::key::{ADDRESS, INTERFACE, Key, Kind, MAC, key, required};
use crate::names::Name;
use serde::Serialize;
use std::collections::HashMap;
use std::net::IpAddr;
use units::Mac;

pub(crate) const KEY: Key = key(
    "neighbour",
    Kind::List(KEYS),
    "",
    "[{ address = \"192.0.2.9\", mac = \"02:00:00:00:00:09\", port = \"lan\" }]",
    "Static neighbours.",
);

const MOST_NEIGHBOURS: usize = 65_536;

const KEYS: &[Key] = &[
    required("address", Kind::Text(ADDRESS), "\"192.0.2.9\"", "The neighbour's address, on a subnet of the interface."),
    required("mac", Kind::Text(MAC), "\"02:00:00:00:00:09\"", "The neighbour's MAC address."),
    required("port", Kind::Text(INTERFACE), "\"lan\"", "The interface of its subnet: `lan`, or `lan.20`."),
];

/// A static neighbour.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NeighbourPlan {
    /// Its address, on a subnet of the interface or IPv6 link-local.
    pub address: IpAddr,
    /// Its MAC address; always unicast.
    #[serde(serialize_with = "mac_text")]
    pub mac: Mac,
    /// The interface it is on.
    pub interface: Name,
}

impl NeighbourPlan {
    /// `192.0.2.9 mac 02:00:00:00:00:09 port lan`.
    pub(crate) fn summary(&self) -> String {
        format!("{} mac {} port {}", self.address, self.mac, self.interface)
    }

    /// Its path in a difference: `neighbour[192.0.2.9 port lan]`.
    pub(crate) fn path(&self) -> String {
        format!("neighbour[{} port {}]", self.address, self.interface)
    }
}

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>, connected: &Connected) -> Vec<NeighbourPlan> {
    let parent = Path::Key(&root.path, "neighbour");
    let mut seen = HashMap::new();
    let mut out = Vec::new();
    for (index, span, value) in root.elements(report, "neighbour", MOST_NEIGHBOURS) {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, KEYS, "[[neighbour]]") else { continue };
        let mac = section.text(report, "mac").and_then(|text| mac(report, &text));
        let on = connected.own_port(report, &section);
        let Some(text) = section.text(report, "address") else { continue };
        let Some(address) = address(report, &text) else { continue };
        let Ok(on) = on else { continue };
        let Ok(interface) = connected.host_interface(report, &text, address, on, MAIN) else { continue };
        let first = *seen.entry((address, interface)).or_insert(index);
        if first != index {
            text.error(report, || {
                (
                    format!("the neighbour {address} is given already, by neighbour[{first}]"),
                    "remove one of the two".to_string(),
                )
            });
        }
        if let Some(mac) = mac {
            out.push(NeighbourPlan { address, mac, interface: connected.interface_name(interface).clone() });
        }
    }
    out.sort_by(|a, b| (&a.interface, a.address).cmp(&(&b.interface, b.address)));
    out
}

pub(crate) fn diff<'p>(old: &'p [NeighbourPlan], new: &'p [NeighbourPlan]) -> Vec<Step<'p, NeighbourPlan>> {
    steps(old, new, |neighbour| (&neighbour.interface, neighbour.address))
}
