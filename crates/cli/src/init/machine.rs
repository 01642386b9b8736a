//! The Ethernet interfaces of this machine, with what a person needs to tell them from each other, and what a router on them would interrupt.

use io::login::Login;
use io::netlink::{KernelError, KernelLink, Netlink, RouteKind};
use io::offload::Ethtool;
use plan::Prefix;
use serde::{Serialize, Serializer};
use std::net::IpAddr;
use units::Rate;

/// ARPHRD_ETHER of <linux/if_arp.h>.
const ETHERNET: u16 = 1;
/// The main routing table (RT_TABLE_MAIN of <linux/rtnetlink.h>).
const MAIN_TABLE: u32 = 254;

/// An interface on which a port can work.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct FoundInterface {
    pub(super) name: String,
    /// The driver of a card, or the kind of a virtual interface.
    pub(super) driver: String,
    /// The reported speed in bits a second.
    #[serde(rename = "speed_bps", serialize_with = "bits", skip_serializing_if = "Option::is_none")]
    pub(super) speed: Option<Rate>,
    /// True if it is up.
    pub(super) up: bool,
    /// True if a cable with an active other end is plugged in.
    pub(super) carrier: bool,
    pub(super) addresses: Vec<FoundAddress>,
    /// True if a default route of the kernel leaves by it.
    pub(super) default_route: bool,
    /// The IPv4 gateway of that route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gateway: Option<std::net::Ipv4Addr>,
    /// Why the remote login of the caller depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) login: Option<String>,
}

/// An address of the kernel on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) struct FoundAddress {
    #[serde(serialize_with = "text")]
    pub(super) address: Prefix,
    /// True if it expires: a DHCP client or IPv6 autoconfiguration has set it.
    pub(super) dynamic: bool,
}

fn bits<S: Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    rate.map(Rate::get).serialize(serializer)
}

fn text<S: Serializer>(prefix: &Prefix, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(prefix)
}

impl FoundInterface {
    /// Its first IPv4 address that does not expire.
    pub(super) fn static_address(&self) -> Option<Prefix> {
        let mut own = self.addresses.iter().filter(|own| own.address.address.is_ipv4() && !own.dynamic);
        own.next().map(|own| own.address)
    }

    /// True if the kernel answers for it in a network. A link-local address is in none.
    pub(super) fn has_addresses(&self) -> bool {
        self.addresses.iter().any(|own| !is_link_local(own.address.address))
    }

    /// A line of the list that the question about interfaces shows, without the name.
    pub(super) fn summary(&self) -> String {
        let mut parts = vec![self.driver.clone()];
        parts.extend(self.speed.map(|speed| speed.to_string()));
        parts.push(match (self.up, self.carrier) {
            (false, _) => "down".to_owned(),
            (true, false) => "no cable".to_owned(),
            (true, true) => "up".to_owned(),
        });
        // Link-local addresses say nothing about the network.
        let shown = self.addresses.iter().filter(|own| !is_link_local(own.address.address));
        parts.extend(shown.map(|own| format!("{}{}", own.address, if own.dynamic { " (dhcp)" } else { "" })));
        parts.extend(self.default_route.then(|| "default route".to_owned()));
        parts.extend(self.login.as_ref().map(|_| "YOUR LOGIN".to_owned()));
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Lists the interfaces of the network namespace of the calling thread, in the order of their numbers.
pub(super) fn interfaces() -> Result<Vec<FoundInterface>, KernelError> {
    let mut netlink = Netlink::open()?;
    let links = netlink.links()?;
    let addresses = netlink.addresses()?;
    let default_links = netlink.default_route_links()?;
    let mut gateways = Vec::new();
    netlink.routes(Some(MAIN_TABLE), None, |route| {
        if route.prefix == 0 && route.kind == RouteKind::Unicast {
            gateways.extend(route.hops.own().iter().filter_map(|hop| Some((hop.link?.get(), hop.gateway?))));
        }
    })?;
    // A login that cannot be traced to an interface still is no reason to hide the interfaces.
    let carriers = Login::current().and_then(|login| login.carriers().ok()).unwrap_or_default();
    let ethtool = Ethtool::open().ok();
    let found = |link: &KernelLink| {
        let own = addresses.iter().filter(|own| own.link == link.index);
        let driver = ethtool.as_ref().and_then(|ethtool| ethtool.driver(&link.name).ok());
        FoundInterface {
            name: link.name.clone(),
            driver: driver.filter(|driver| !driver.is_empty()).unwrap_or_else(|| link.kind.clone()),
            speed: ethtool.as_ref().and_then(|ethtool| ethtool.link_rate(&link.name)),
            up: link.up,
            carrier: link.carrier,
            addresses: own
                .filter_map(|own| {
                    let address = Prefix::new(own.address, own.prefix)?;
                    Some(FoundAddress { address, dynamic: !own.flags.is_permanent() })
                })
                .collect(),
            default_route: default_links.contains(&link.index),
            gateway: gateways.iter().find_map(|&(index, gateway)| match gateway {
                IpAddr::V4(gateway) if index == link.index => Some(gateway),
                _ => None,
            }),
            login: carriers.iter().find(|carrier| carrier.interface == link.name).map(|carrier| carrier.reason.clone()),
        }
    };
    let mut usable: Vec<&KernelLink> = links.iter().filter(|link| is_usable(link)).collect();
    usable.sort_by_key(|link| link.index);
    Ok(usable.into_iter().map(found).collect())
}

/// True if a port can take the interface over: Ethernet, no tap device of a program, and no member of a bridge or bond, which has its packets.
fn is_usable(link: &KernelLink) -> bool {
    link.hardware == ETHERNET && link.kind != "tun" && link.master.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_bridge_members_and_other_media_are_not_offered() {
        let link = |kind: &str, hardware: u16, master: Option<u32>| KernelLink {
            kind: kind.into(),
            hardware,
            master,
            ..KernelLink::default()
        };
        assert!(
            is_usable(&link("", 1, None)) && is_usable(&link("veth", 1, None)) && is_usable(&link("vlan", 1, None))
        );
        assert!(!is_usable(&link("tun", 1, None)), "a tap device belongs to its program");
        assert!(!is_usable(&link("", 1, Some(4))), "the bridge has the packets of its members");
        assert!(!is_usable(&link("", 772, None)), "the loopback");
    }

    #[test]
    fn summary_names_what_an_interface_is_used_for() {
        let own = |text: &str, dynamic| FoundAddress { address: text.parse().unwrap(), dynamic };
        let mut found = FoundInterface {
            driver: "virtio_net".into(),
            speed: Some("1gbit".parse().unwrap()),
            up: true,
            carrier: true,
            addresses: vec![own("192.0.2.7/24", true), own("fe80::1/64", false)],
            default_route: true,
            ..FoundInterface::default()
        };
        assert_eq!(found.summary(), "virtio_net, 1gbit, up, 192.0.2.7/24 (dhcp), default route");
        assert_eq!(found.static_address(), None);
        found.addresses.push(own("203.0.113.2/30", false));
        assert_eq!(found.static_address(), Some("203.0.113.2/30".parse().unwrap()));
        found.carrier = false;
        found.login = Some("it has 192.0.2.7".into());
        assert!(found.summary().contains("no cable") && found.summary().ends_with("YOUR LOGIN"));
    }
}
