//! Tunnel ports: their outer headers, defaults, and the errors of both.

use expect_test::{Expect, expect};
use plan::{Catalogue, Plan, TunnelKind, diff, examine};
use units::declare::{Declaration, DeclaredCost};

const BASE: &str = r#"version = 1
[port.wan]
device = "memory:wan"
address = ["192.0.2.1/24", "2001:db8::1/64"]
[port.red]
device = "memory:red"
vrf = "red"
address = ["192.0.2.1/24"]
"#;

fn catalogue() -> Catalogue {
    let mut catalogue = crate::catalogue::catalogue();
    let device = |name| Declaration { name, summary: "", cost: DeclaredCost::None, source: "", options: &[] };
    catalogue.devices.extend(["gre", "ipip", "vxlan"].map(device));
    catalogue
}

fn plan(more: &str) -> Plan {
    examine(&format!("{BASE}{more}"), "f", &catalogue()).into_result().unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn errors(more: &str, expected: Expect) {
    let checked = examine(&format!("{BASE}{more}"), "f", &catalogue());
    let lines: String = checked.diagnostics.list().iter().map(|d| format!("{}| {d}\n", d.path)).collect();
    expected.assert_eq(&lines);
}

#[test]
fn tunnel_has_the_mtu_of_an_ethernet_without_its_headers() {
    for (device, local, keys, mtu) in [
        ("gre:198.51.100.7", "192.0.2.1", "", 1476),
        ("gre:198.51.100.7", "192.0.2.1", ", key = 0", 1472),
        ("gre:198.51.100.7", "192.0.2.1", ", key = 1, sequence = true", 1468),
        ("gre:2001:db8:7::7", "2001:db8::1", "", 1456),
        ("ipip:198.51.100.7", "192.0.2.1", "", 1480),
        ("ipip:2001:db8:7::7", "2001:db8::1", "", 1460),
    ] {
        let plan = plan(&format!("[port.t]\ndevice = \"{device}\"\ntunnel = {{ local = \"{local}\"{keys} }}\n"));
        let port = plan.ports.iter().find(|port| &*port.name == "t").unwrap();
        assert_eq!(port.interfaces[0].mtu, mtu, "{device}{keys}");
        let tunnel = port.device.tunnel.as_ref().unwrap();
        assert_eq!(u16::from(tunnel.ttl) + tunnel.overhead(), 64 + 1500 - mtu);
    }
    let plan = plan("[port.t]\ndevice = \"ipip:198.51.100.7\"\nmtu = 900\ntunnel = { local = \"192.0.2.1\" }\n");
    assert_eq!(plan.ports[1].interfaces[0].mtu, 900);
    assert_eq!(plan.ports[1].device.tunnel.as_ref().unwrap().kind, TunnelKind::Ipip);
}

#[test]
fn change_of_a_tunnel_is_reported_as_one_of_its_port() {
    let with = |keys: &str| {
        plan(&format!("[port.t]\ndevice = \"gre:198.51.100.7\"\ntunnel = {{ local = \"192.0.2.1\"{keys} }}\n"))
    };
    let changes = diff(&with(""), &with(", key = 7, dscp = \"ef\", fragment = true, underlay_vrf = \"red\""));
    let lines: String = changes.iter().map(|change| format!("{change}\n")).collect();
    assert!(lines.contains("key 7 dscp ef fragment true underlay_vrf red"), "{lines}");
}

#[test]
fn tunnels_without_a_usable_outer_header_are_refused() {
    errors(
        r#"[port.a]
device = "gre:198.51.100.7"
[port.b]
device = "gre:example.org"
tunnel = { local = "192.0.2.1" }
[port.c]
device = "gre:224.0.0.1"
tunnel = { local = "192.0.2.1" }
[port.d]
device = "ipip:2001:db8:7::7"
tunnel = { local = "192.0.2.1" }
[port.e]
device = "ipip:198.51.100.8"
tunnel = { local = "192.0.2.9", key = 7, sequence = true }
[port.f]
device = "ipip:fe80::1"
tunnel = { local = "2001:db8::1" }
[port.g]
device = "gre:2001:db8:7::7"
tunnel = { local = "2001:db8::1", fragment = true, dscp = "best", ttl = 255 }
[port.h]
device = "gre:198.51.100.9"
tunnel = { local = "192.0.2.1", underlay_vrf = "blue" }
[port.i]
device = "memory:i"
tunnel = { local = "192.0.2.1" }
[port.j]
device = "gre:198.51.100.10"
address = ["10.8.0.1/30"]
scheme = "share"
tunnel = { local = "10.8.0.1" }
[port.j.vlan.7]
"#,
        expect![[r#"
            port.a| f:9:1: error: a tunnel needs the address of this end; add tunnel = { local = "192.0.2.1" }
            port.b.device| f:12:15: error: 'example.org' is no address; write the address of the other end after the colon, like 'gre:198.51.100.7'
            port.c.device| f:15:15: error: 224.0.0.1 is a multicast address; write the unicast address of the other end
            port.d.tunnel.local| f:19:20: error: 192.0.2.1 and the other end, 2001:db8:7::7, are of different families; write two IPv4 addresses, or two of the other family
            port.e.tunnel.local| f:22:20: error: 192.0.2.9 is no address of the router; write an address that a port has in 'address'
            port.e.tunnel.key| f:22:39: error: 'key' is for 'gre' devices, but this one is 'ipip'; remove it
            port.e.tunnel.sequence| f:22:53: error: 'sequence' is for 'gre' devices, but this one is 'ipip'; remove it
            port.f.device| f:24:16: error: fe80::1 is link-local; write an address that routes lead to
            port.g.tunnel.fragment| f:28:46: error: routers do not fragment IPv6 packets; remove it, and set mtu on the port
            port.g.tunnel.dscp| f:28:59: error: 'best' is no code point; write 'inherit', a name like 'af21', or a number from 0 to 63
            port.g.tunnel.ttl| f:28:73: error: 255 is out of range; give 1 to 254; the default is 64
            port.h.tunnel.local| f:31:20: error: 192.0.2.1 is no address of the router in the VRF 'blue'; write an address that a port has in 'address'
            port.i.tunnel| f:34:10: error: 'tunnel' is for 'gre' and 'ipip' and 'vxlan' devices, but this one is 'memory'; remove it
            port.j.scheme| f:38:10: error: the scheme 'share' is not for tunnels; divide the link of the port by which the outer packets leave
            port.j.tunnel.local| f:39:20: error: 10.8.0.1 is the address of the tunnel itself; write the address of the port by which the outer packets leave
            port.j.vlan| f:40:9: error: a tunnel has no 'vlan'; remove it
        "#]],
    );
}

#[test]
fn tunnels_that_cannot_be_distinguished_are_refused() {
    errors(
        r#"[port.a]
device = "gre:198.51.100.7"
tunnel = { local = "192.0.2.1", key = 7 }
[port.b]
device = "gre:198.51.100.7"
tunnel = { local = "192.0.2.1", key = 8 }
[port.c]
device = "gre:198.51.100.7"
tunnel = { local = "192.0.2.1", key = 7 }
[port.d]
device = "gre:198.51.100.7"
tunnel = { local = "192.0.2.1", key = 7, underlay_vrf = "red" }
[port.e]
device = "ipip:198.51.100.7"
tunnel = { local = "192.0.2.1" }
[port.f]
device = "ipip:198.51.100.7"
tunnel = { local = "192.0.2.1", ttl = 9 }
"#,
        expect![[r#"
            port.c.tunnel.local| f:17:20: error: 'a' is a tunnel between the same addresses; give each tunnel a key of its own
            port.f.tunnel.local| f:26:20: error: 'e' is a tunnel between the same addresses; use another address, or 'gre' with a key for each tunnel
        "#]],
    );
}

#[test]
fn tunnel_whose_other_end_is_behind_itself_is_refused() {
    errors(
        r#"[port.a]
device = "gre:10.1.0.9"
address = ["10.1.0.1/24"]
tunnel = { local = "192.0.2.1" }
[port.b]
device = "gre:203.0.113.9"
address = ["10.2.0.1/24"]
tunnel = { local = "192.0.2.1" }
[port.c]
device = "gre:203.0.114.9"
address = ["10.3.0.1/24"]
tunnel = { local = "192.0.2.1" }
[port.d]
device = "gre:203.0.115.9"
address = ["10.4.0.1/24"]
tunnel = { local = "192.0.2.1" }
[[route]]
to = "203.0.113.0/24"
via = "10.3.0.2"
[[route]]
to = "203.0.114.0/24"
via = ["192.0.2.9", "10.2.0.2"]
[[route]]
to = "203.0.115.0/24"
via = "10.4.0.2"
[[route]]
to = "203.0.115.9/32"
via = "192.0.2.9"
"#,
        expect![[r#"
            port.a.tunnel.local| f:12:20: error: the route to the other end, 10.1.0.9, leads into the tunnel itself; add a route to it by another port
            port.b.tunnel.local| f:16:20: error: the route to the other end, 203.0.113.9, leads into the tunnel itself; add a route to it by another port
            port.c.tunnel.local| f:20:20: error: the route to the other end, 203.0.114.9, leads into the tunnel itself; add a route to it by another port
        "#]],
    );
}

#[test]
fn segments_have_an_identifier_other_ends_and_stations() {
    let more = r#"[port.s]
device = "vxlan:42"
address = ["10.8.0.1/24"]
[port.s.tunnel]
local = "192.0.2.1"
remotes = ["198.51.100.8", "198.51.100.7", "198.51.100.8"]
stations = ["02:00:00:00:00:07 198.51.100.7"]
"#;
    let plan = plan(more);
    let port = plan.ports.iter().find(|port| &*port.name == "s").unwrap();
    let tunnel = port.device.tunnel.as_ref().unwrap();
    assert_eq!((tunnel.key, tunnel.remotes.len(), tunnel.learn, tunnel.stations.len()), (Some(42), 2, true, 1));
    assert_eq!(port.interfaces[0].mtu, 1450);
    errors(
        r#"[port.a]
device = "vxlan:16777216"
tunnel = { local = "192.0.2.1", remotes = "198.51.100.7" }
[port.b]
device = "vxlan:1"
tunnel = { local = "192.0.2.1" }
[port.c]
device = "vxlan:2"
tunnel = { local = "192.0.2.1", remotes = ["198.51.100.7", "2001:db8:7::7", "any"] }
[port.d]
device = "vxlan:3"
tunnel = { local = "192.0.2.1", remotes = "198.51.100.7", key = 3, stations = ["02:00:00:00:00:07 198.51.100.9", "ff:ff:ff:ff:ff:ff 198.51.100.7"] }
[port.e]
device = "gre:198.51.100.7"
tunnel = { local = "192.0.2.1", remotes = "198.51.100.7", learn = false, stations = [] }
[port.f]
device = "vxlan:3"
tunnel = { local = "192.0.2.1", remotes = ["198.51.100.7", "198.51.100.8"] }
"#,
        expect![[r#"
            port.a.device| f:10:17: error: '16777216' is no VXLAN network identifier; write a number from 0 to 16777215 after the colon, like 'vxlan:42'
            port.b.tunnel| f:14:10: error: the segment has no other end; add remotes = ["198.51.100.7"]
            port.c.tunnel.remotes| f:17:60: error: 192.0.2.1 and the other end, 2001:db8:7::7, are of different families; write two IPv4 addresses, or two of the other family
            port.c.tunnel.remotes| f:17:77: error: 'any' is no address; write the address of the other end after the colon, like 'gre:198.51.100.7'
            port.d.tunnel.key| f:20:65: error: 'key' is for 'gre' devices, but this one is 'vxlan'; remove it
            port.d.tunnel.stations[0]| f:20:80: error: '02:00:00:00:00:07 198.51.100.9' is no station behind another end; write the MAC address of one station and one of 'remotes', like "02:00:00:00:00:07 198.51.100.7"
            port.d.tunnel.stations[1]| f:20:114: error: 'ff:ff:ff:ff:ff:ff 198.51.100.7' is no station behind another end; write the MAC address of one station and one of 'remotes', like "02:00:00:00:00:07 198.51.100.7"
            port.e.tunnel.remotes| f:23:43: error: 'remotes' is for 'vxlan' devices, but this one is 'gre'; remove it
            port.e.tunnel.learn| f:23:67: error: 'learn' is for 'vxlan' devices, but this one is 'gre'; remove it
            port.e.tunnel.stations| f:23:85: error: 'stations' is for 'vxlan' devices, but this one is 'gre'; remove it
            port.f.tunnel.local| f:26:20: error: 'd' is a tunnel between the same addresses; give each segment a network identifier of its own
        "#]],
    );
}
