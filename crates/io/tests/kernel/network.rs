//! The network of both routers: addresses, neighbours, routes.

use crate::bench::{NARROW, VLAN, host_mac, router_mac};
use crate::link_ends::Link;
use std::fmt::Write as _;

/// The action of a route.
pub enum Action {
    /// Forward to this neighbour.
    Via(&'static str),
    /// Drop silently.
    Blackhole,
    /// Drop and send an ICMP error.
    Unreachable,
}
use Action::{Blackhole, Unreachable, Via};

/// The router's own addresses by interface.
pub const ADDRESSES: &[(&str, &[&str])] = &[
    ("left", &["198.18.1.1/24", "fd00:1::1/64"]),
    ("left.20", &["198.18.20.1/24", "fd00:20::1/64"]),
    ("right", &["198.18.2.1/24", "fd00:2::1/64"]),
    ("narrow", &["198.18.3.1/24", "fd00:3::1/64"]),
];

/// The neighbours on the links.
pub const NEIGHBOURS: &[(&str, Link, &[&str])] = &[
    (
        "left",
        Link::Left,
        &["198.18.1.2", "198.18.1.3", "fd00:1::2", "fd00:1::3", "fd00:1::55", "fd00:1::56", "fd00:1::77", "fe80::2"],
    ),
    ("left.20", Link::Left, &["198.18.20.2", "fd00:20::2", "fe80::2"]),
    ("right", Link::Right, &["198.18.2.2", "198.18.2.3", "fd00:2::2", "fd00:2::3", "fd00:2::77", "fe80::2"]),
    ("narrow", Link::Narrow, &["198.18.3.2", "198.18.3.3", "fd00:3::2", "fd00:3::3", "fd00:3::77", "fe80::2"]),
];

/// All destinations but 100.64.0.0/10 have routes, and so do all global unicast addresses of IPv6.
pub const ROUTES: &[(&str, Action)] = &[
    ("0.0.0.0/2", Via("198.18.2.2")),
    ("64.0.0.0/3", Via("198.18.2.2")),
    ("96.0.0.0/6", Via("198.18.2.2")),
    ("100.0.0.0/10", Via("198.18.2.2")),
    ("100.128.0.0/9", Via("198.18.2.2")),
    ("101.0.0.0/8", Via("198.18.2.2")),
    ("102.0.0.0/7", Via("198.18.2.2")),
    ("104.0.0.0/5", Via("198.18.2.2")),
    ("112.0.0.0/4", Via("198.18.2.2")),
    ("128.0.0.0/1", Via("198.18.2.2")),
    ("198.19.1.0/24", Via("198.18.1.2")),
    ("198.19.3.0/24", Via("198.18.3.2")),
    ("198.19.20.0/24", Via("198.18.20.2")),
    ("198.19.8.0/24", Blackhole),
    ("198.19.9.0/24", Unreachable),
    ("2000::/3", Via("fd00:2::2")),
    ("2001:db8:1::/48", Via("fd00:1::2")),
    ("2001:db8:3::/48", Via("fd00:3::2")),
    ("2001:db8:20::/48", Via("fd00:20::2")),
    ("2001:db8:8::/48", Blackhole),
    ("2001:db8:9::/48", Unreachable),
];

/// The network as a configuration of this router, on ports of this kind.
pub fn configuration(kind: &str, redirects: bool) -> String {
    let mut text = String::from("version = 1\n[router]\nframes = 4096\nicmp_rate = 1000000\nicmp_burst = 100000\n");
    let addresses = |interface: &str| {
        let (_, addresses) = ADDRESSES.iter().find(|(name, _)| *name == interface).expect("every interface has some");
        addresses.iter().map(|address| format!("'{address}'")).collect::<Vec<_>>().join(", ")
    };
    for link in Link::ALL {
        let (name, mac) = (link.name(), router_mac(link));
        let mtu = if link == Link::Narrow { NARROW } else { 1500 };
        writeln!(
            text,
            "[port.{name}]
device = '{kind}:{name}'
mac = '{mac}'
mtu = {mtu}"
        )
        .unwrap();
        writeln!(
            text,
            "address = [{}]
redirects = {redirects}",
            addresses(name)
        )
        .unwrap();
    }
    writeln!(text, "[port.left.vlan.{VLAN}]\naddress = [{}]", addresses("left.20")).unwrap();
    for (prefix, action) in ROUTES {
        let action = match action {
            Via(gateway) => format!("via = '{gateway}'"),
            Blackhole => "blackhole = true".into(),
            Unreachable => "unreachable = true".into(),
        };
        writeln!(text, "[[route]]\nto = '{prefix}'\n{action}").unwrap();
    }
    for (interface, link, addresses) in NEIGHBOURS {
        for address in *addresses {
            let mac = host_mac(*link);
            writeln!(text, "[[neighbour]]\nport = '{interface}'\naddress = '{address}'\nmac = '{mac}'").unwrap();
        }
    }
    text
}
