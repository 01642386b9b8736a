//! Routing protocols other than OSPFv2 and BGP, between FRR on the router and FRR on its neighbour: one of IPv6, one that is no IP, and one by distance.

use crate::daemons::{Frr, PROGRAMS};
use crate::home::{Home, TWO_LINKS, output};
use crate::network::{run_in, wait};
use serde_json::Value;
use std::sync::Arc;

/// A protocol, whose routes only it announces.
struct Protocol {
    daemon: &'static str,
    /// The configuration of a router: `LINK` is that with the neighbour, `OWN` the one to announce, `NUMBER` that of the router.
    configuration: &'static str,
    /// Shows that the neighbour is adjacent, by the output of a command.
    adjacency: (&'static str, &'static str),
    /// The network that the neighbour announces; its first address exists.
    announced: &'static str,
    /// As `switchpath show linux` calls it.
    kind: &'static str,
}

const PROTOCOLS: [Protocol; 4] = [
    Protocol {
        daemon: "ospf6d",
        configuration: "interface LINK
 ipv6 ospf6 area 0
 ipv6 ospf6 network point-to-point
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
interface OWN
 ipv6 ospf6 area 0
 ipv6 ospf6 passive
router ospf6
 ospf6 router-id 10.255.0.NUMBER
 timers throttle spf 10 50 500
 timers lsa min-arrival 50
",
        adjacency: ("show ipv6 ospf6 neighbor", "Full/"),
        announced: "2001:db8:91::/64",
        kind: "ospf",
    },
    // On a link of several routers, whose hellos are padded to the MTU. The first two lines precede the first announcement, which the interval follows.
    Protocol {
        daemon: "isisd",
        configuration: "router isis one
 lsp-gen-interval 1
 is-type level-2-only
 net 49.0001.0000.0000.000NUMBER.00
interface LINK
 ip router isis one
 isis circuit-type level-2-only
 isis hello-interval 1
 isis hello-multiplier 3
interface OWN
 ip router isis one
 isis passive
",
        adjacency: ("show isis neighbor", " Up "),
        announced: "10.9.2.0/24",
        kind: "isis",
    },
    Protocol {
        daemon: "ripd",
        configuration: "router rip
 network LINK
 network OWN
 passive-interface OWN
 timers basic 5 15 10
",
        adjacency: ("show ip rip status", "10.0.2."),
        announced: "10.9.3.0/24",
        kind: "rip",
    },
    Protocol {
        daemon: "ripngd",
        configuration: "router ripng
 network LINK
 network OWN
 passive-interface OWN
 timers basic 5 15 10
",
        adjacency: ("show ipv6 ripng status", "fe80::"),
        announced: "2001:db8:94::/64",
        kind: "rip",
    },
];

/// The first address of a network.
fn host(network: &str) -> String {
    let address = network.split('/').next().unwrap();
    if address.contains(':') { format!("{address}1") } else { format!("{}1", address.strip_suffix('0').unwrap()) }
}

/// The configurations of all daemons of a router.
fn daemons(number: &str, own: impl Fn(&Protocol) -> &'static str) -> Vec<(&'static str, String)> {
    let configure = |protocol: &Protocol| {
        let text = protocol.configuration.replace("LINK", "wan").replace("OWN", own(protocol));
        (protocol.daemon, text.replace("NUMBER", number))
    };
    PROTOCOLS.iter().map(configure).collect()
}

#[test]
fn routes_of_ospfv3_isis_and_rip_are_forwarded() {
    let Some(home) = Home::new("protocols", &PROGRAMS, TWO_LINKS) else { return };
    let router = home.start_router();
    let (mirror, client, neighbour) = (home.mirror(), home.client.namespace(), home.provider.namespace().clone());
    for command in [
        "ip link set dev eth0 down name wan",
        "ip link set wan up",
        "ip addr add 10.0.2.2/24 dev wan",
        "ip addr add 2001:db8:2::2/64 dev wan nodad",
    ] {
        run_in(&neighbour, command);
    }
    home.provider.forward_in_kernel().unwrap();
    for protocol in &PROTOCOLS {
        // A network of its own for each, on a link of the neighbour that has a carrier.
        let name = protocol.daemon;
        run_in(&neighbour, &format!("ip link add {name} type veth peer name {name}-end"));
        run_in(&neighbour, &format!("ip link set {name}-end up"));
        run_in(&neighbour, &format!("ip link set {name} up"));
        let length = protocol.announced.split('/').nth(1).unwrap();
        let nodad = if protocol.announced.contains(':') { " nodad" } else { "" };
        run_in(&neighbour, &format!("ip addr add {}/{length} dev {name}{nodad}", host(protocol.announced)));
    }
    for command in [
        "ip addr add 10.0.1.2/24 dev eth0",
        "ip addr add 2001:db8:1::2/64 dev eth0 nodad",
        "ip route add default via 10.0.1.1",
        "ip route add default via 2001:db8:1::1",
    ] {
        run_in(client, command);
    }
    let here = Frr::start(Arc::new(mirror), home.place.path("frr"), &daemons("1", |_| "lan"));
    let there = Frr::start(neighbour, home.place.path("neighbour"), &daemons("2", |protocol| protocol.daemon));
    for protocol in &PROTOCOLS {
        let (command, adjacent) = protocol.adjacency;
        let logs = || format!("{}\n{}\n{}", here.ask(command), here.logs(), there.logs());
        wait(protocol.daemon, logs, || here.ask(command).contains(adjacent) && there.ask(command).contains(adjacent));
        let routes = || home.place.json(&["show", "routes", "--origin", "kernel"]);
        // RIPng has a name of its own among the programs.
        let is_named = |route: &Value| route["protocol"].as_str().is_some_and(|name| name.starts_with(protocol.kind));
        let is_announced =
            |route: &Value| route["prefix"] == protocol.announced && route["interface"] == "wan" && is_named(route);
        let shown = || format!("{:#}\n{}", routes(), logs());
        wait(protocol.announced, shown, || routes()["routes"].as_array().unwrap().iter().any(is_announced));
        let ping = || output(client, &["ping", "-n", "-c", "1", "-W", "1", &host(protocol.announced)]);
        wait("a ping", || format!("{}\n{}", ping(), logs()), || ping().contains("1 received"));
    }
    let shown = home.place.json(&["show", "linux"]);
    for protocol in &PROTOCOLS {
        let counters = shown["protocols"].as_array().unwrap().iter().find(|one| one["protocol"] == protocol.kind);
        let counters = counters.unwrap();
        assert!(counters["punted_packets"].as_u64() > Some(0) && counters["limited_packets"] == 0, "{counters}");
    }
    router.stop();
}

const UNNUMBERED: &str = "version = 1
[port.lan]
device = 'packet:to-lan'
address = ['10.0.1.1/24']
[port.wan]
device = 'packet:to-wan'
[linux]
namespace = 'MIRROR'
";

/// BGP over a link without IPv4 addresses, which finds its neighbour by router advertisements.
fn unnumbered(number: &str, announced: &str) -> [(&'static str, String); 2] {
    let bgp = format!(
        "router bgp 6500{number}\n bgp router-id 10.255.0.{number}\n no bgp ebgp-requires-policy\n timers bgp 1 3\n\
         \x20neighbor wan interface remote-as external\n address-family ipv4 unicast\n  network {announced}\n"
    );
    [("zebra", "interface wan\n ipv6 nd ra-interval msec 500\n no ipv6 nd suppress-ra\n".into()), ("bgpd", bgp)]
}

#[test]
fn ipv4_routes_by_ipv6_next_hops_of_unnumbered_bgp_are_forwarded() {
    let Some(home) = Home::new("unnumbered", &PROGRAMS, UNNUMBERED) else { return };
    let router = home.start_router();
    let (mirror, client, neighbour) = (home.mirror(), home.client.namespace(), home.provider.namespace().clone());
    home.provider.forward_in_kernel().unwrap();
    for (namespace, commands) in [
        (
            &*neighbour,
            &["ip link set dev eth0 down name wan", "ip link set wan up", "ip addr add 10.9.1.1/24 dev lo"][..],
        ),
        (client, &["ip addr add 10.0.1.2/24 dev eth0", "ip route add default via 10.0.1.1"]),
    ] {
        commands.iter().for_each(|command| drop(run_in(namespace, command)));
    }
    let here = Frr::start(Arc::new(mirror), home.place.path("frr"), &unnumbered("1", "10.0.1.0/24"));
    let there = Frr::start(neighbour, home.place.path("neighbour"), &unnumbered("2", "10.9.1.0/24"));
    let routes = || home.place.json(&["show", "routes", "--origin", "kernel"]);
    let details = || format!("{:#}\n{}\n{}\n{}", routes(), here.ask("show bgp summary"), here.logs(), there.logs());
    let is_announced = |route: &Value| {
        route["prefix"] == "10.9.1.0/24"
            && route["gateway"].as_str().is_some_and(|gateway| gateway.starts_with("fe80::"))
    };
    wait("10.9.1.0/24", details, || routes()["routes"].as_array().unwrap().iter().any(is_announced));
    let ping = || output(client, &["ping", "-n", "-c", "3", "-i", "0.2", "-W", "1", "10.9.1.1"]);
    wait("pings", || format!("{}\n{}", ping(), details()), || ping().contains("3 received"));
    router.stop();
}
