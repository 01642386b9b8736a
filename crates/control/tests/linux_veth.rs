//! Programs of the machine on the links of a router: the kernel's interfaces have the addresses of both sides, and `ping`, TCP and ARP work through
//! them.

#![allow(clippy::print_stdout)]

use control::{Daemon, DaemonOptions};
use fib::{Origin, RouteQuery};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost, Namespace, Plug};
use io::wait::{Sleeper, Waker};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use units::{Mac, Nanos};

/// The longest wait for anything.
const PATIENCE: Nanos = Nanos::secs(20);

/// A router with one port to a host, and its interfaces of the kernel in a namespace with a name.
struct Net {
    daemon: Arc<Daemon>,
    host: LabHost,
    /// Of the kernel's interfaces.
    namespace: Namespace,
    name: String,
    /// Holds the router's end of the cable.
    _router: LabHost,
}

fn configuration(name: &str, port: &str, linux: &str) -> String {
    format!(
        "version = 1\n[port.lan]\ndevice = 'packet:line'\nmac = '02:00:00:00:00:01'\n{port}\n[linux]\nnamespace = '{name}'\n{linux}\n"
    )
}

impl Net {
    fn start(test: &str, port: &str, linux: &str) -> Option<Net> {
        let lab = match Lab::new() {
            Ok(lab) => lab,
            Err(error) => {
                println!("skipped: {}", error.reason);
                return None;
            }
        };
        let (router, host) = (lab.host("router").unwrap(), lab.host("host").unwrap());
        let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
        lab.cable(&Plug { host: &router, link: "line", mac }, &host.plug("eth0")).unwrap();
        host.add_address("eth0", address("192.0.2.9"), 24).unwrap();
        let name = format!("sp-{test}-{}", std::process::id());
        let text = configuration(&name, port, linux);
        let plan = plan::check(&text, "t", &plane::catalogue()).unwrap();
        let devices = Devices::new(clock::epoch()).in_namespace(router.namespace().clone());
        let options = DaemonOptions::new(devices, &text, "t", |_| {});
        let daemon = Daemon::start(&plan, options).unwrap();
        let namespace = Namespace::named(&name).unwrap();
        Some(Net { daemon, host, namespace, name, _router: router })
    }

    /// Runs a command among the programs of the machine; its output.
    fn ip(&self, command: &str) -> String {
        let mut parts = command.split(' ');
        let mut run = Command::new(parts.next().unwrap());
        run.args(parts);
        let output = self.namespace.run(|| run.output()).unwrap().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until `done` holds. Returns the time it took.
    fn wait(&self, what: &str, mut done: impl FnMut() -> bool) -> Nanos {
        let (begun, mut sleeper) = (clock::now(), Sleeper::new(Waker::new().unwrap()));
        while !done() {
            let waited = clock::now().since(begun);
            assert!(waited < PATIENCE, "{what}: not within {PATIENCE}");
            sleeper.sleep([], Nanos::millis(5)).unwrap();
        }
        clock::now().since(begun)
    }

    fn interface(&self) -> control::api::LinuxInterface {
        self.daemon.linux().interfaces.into_iter().find(|interface| interface.name == "lan").unwrap()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.daemon.stop();
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
        let _ = fs::remove_file(format!("/run/netns/{}", self.name));
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The answers to some pings of `to` from a namespace.
fn pings(from: &Namespace, to: &str) -> usize {
    let mut ping = Command::new("ping");
    ping.args(["-c", "3", "-i", "0.2", "-W", "5", to]);
    let output = from.run(|| ping.output()).unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains(" bytes from ")).count()
}

#[test]
fn programs_work_on_the_links_of_the_router() {
    let Some(net) = Net::start("use", "address = ['192.0.2.1/24']", "") else { return };
    let shown = net.ip("ip -br link show lan");
    assert!(shown.contains("02:00:00:00:00:01"), "{shown}");
    net.wait("the configured address", || net.ip("ip -br addr show lan").contains("192.0.2.1/24"));
    // A program of the machine to the host, and the host to the router.
    assert_eq!(pings(&net.namespace, "192.0.2.9"), 3);
    assert_eq!(pings(net.host.namespace(), "192.0.2.1"), 3, "one answer to each");
    let icmp = net.daemon.linux().protocols.into_iter().find(|protocol| protocol.protocol == "icmp").unwrap();
    assert_eq!((icmp.counters.punted, icmp.counters.injected), (3, 3), "pings of the host end at the router");
    // A server on the machine: a megabyte each way.
    let listener = net.namespace.run(|| TcpListener::bind("192.0.2.1:8179").unwrap()).unwrap();
    let data: Vec<u8> = (0..1_000_000u32).map(|at| (at / 7) as u8).collect();
    thread::scope(|scope| {
        let listener = &listener;
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = vec![0; 1_000_000];
            stream.read_exact(&mut got).unwrap();
            stream.write_all(&got).unwrap();
        });
        let mut stream = net.host.run(|| TcpStream::connect("192.0.2.1:8179").unwrap()).unwrap();
        let mut writer = stream.try_clone().unwrap();
        scope.spawn(move || writer.write_all(&data).unwrap());
        let mut got = vec![0; 1_000_000];
        stream.read_exact(&mut got).unwrap();
        assert!(got.iter().enumerate().all(|(at, byte)| *byte == (at / 7) as u8));
    });
    let linux = net.daemon.linux();
    assert_eq!(linux.refused_by_router, 0, "{linux:?}");
}

#[test]
fn kernel_answers_if_it_is_configured_to() {
    let Some(net) = Net::start("answer", "address = ['192.0.2.1/24']", "answer = 'kernel'") else { return };
    net.wait("the configured address", || net.ip("ip -br addr show lan").contains("192.0.2.1/24"));
    assert_eq!(pings(net.host.namespace(), "192.0.2.1"), 3);
    let protocols = net.daemon.linux().protocols;
    let of = |name: &str| protocols.iter().find(|protocol| protocol.protocol == name).unwrap().counters.0;
    assert!(of("arp").punted >= 1 && of("icmp").punted == 3 && of("icmp").injected == 3, "{protocols:?}");
}

#[test]
fn addresses_of_the_kernel_are_those_of_the_router_and_back() {
    let Some(net) = Net::start("addresses", "", "") else { return };
    assert_eq!(net.interface().kernel_addresses.iter().filter(|address| address.contains('.')).count(), 0);
    // As a DHCP client would.
    net.ip("ip addr add 192.0.2.77/24 dev lan");
    let has = |text: &str| net.interface().kernel_addresses.iter().any(|address| address == text);
    let time = net.wait("the address in the router", || has("192.0.2.77/24"));
    println!("adopted after {time}");
    assert_eq!(pings(net.host.namespace(), "192.0.2.77"), 3);
    net.ip("ip addr del 192.0.2.77/24 dev lan");
    net.wait("its removal", || !has("192.0.2.77/24"));
    // The configuration adds an address to the kernel's interface, and removes it again.
    let with = configuration(&net.name, "address = ['192.0.2.1/24', '198.51.100.1/24']", "");
    net.daemon.apply(&with, "t").unwrap();
    net.wait("both addresses", || {
        let shown = net.ip("ip -br addr show lan");
        shown.contains("192.0.2.1/24") && shown.contains("198.51.100.1/24")
    });
    net.daemon.apply(&configuration(&net.name, "address = ['192.0.2.1/24']", ""), "t").unwrap();
    net.wait("the removal", || !net.ip("ip -br addr show lan").contains("198.51.100.1/24"));
    assert!(net.interface().kernel_addresses.iter().all(|address| address.starts_with("fe80")), "no echo of its own");
    // Down and up, and the MTU.
    net.ip("ip link set lan down");
    net.wait("the state down", || !net.interface().up);
    net.ip("ip link set lan up mtu 1400");
    net.wait("the state up", || net.interface().up && net.interface().mtu == 1400);
    net.wait("the address again", || net.ip("ip -br addr show lan").contains("192.0.2.1/24"));
    assert_eq!(pings(net.host.namespace(), "192.0.2.1"), 3);
}

#[test]
fn routes_of_the_kernel_are_those_of_the_router() {
    let Some(net) = Net::start("routes", "address = ['192.0.2.1/24', '2001:db8::1/64']", "") else { return };
    let shown = || {
        let wanted = RouteQuery { origin: Some(Origin::Kernel), ..RouteQuery::default() };
        let routes = net.daemon.routes(wanted, None, 100).unwrap().routes;
        routes.into_iter().map(|route| {
            let (protocol, gateway) = (route.protocol.unwrap_or_default(), route.gateway.unwrap_or_default());
            format!("{} {protocol} {} {gateway}", route.prefix, route.action)
        })
    };
    net.wait("the address", || net.ip("ip -br addr show lan").contains("192.0.2.1/24"));
    assert_eq!(shown().count(), 0, "prefixes of addresses are connected routes");
    net.ip("ip route add 198.51.100.0/24 via 192.0.2.9 proto bgp");
    net.ip("ip route add blackhole 198.51.101.0/24");
    net.ip("ip route add unreachable 198.51.102.0/24");
    net.ip("ip -6 route add 2001:db8:9::/48 via 2001:db8::9");
    net.ip("ip route add 198.51.103.0/24 nexthop via 192.0.2.9 weight 2 nexthop via 192.0.2.10");
    let expected = [
        "198.51.100.0/24 bgp via 192.0.2.9",
        "198.51.101.0/24 boot blackhole ",
        "198.51.102.0/24 boot unreachable ",
        "198.51.103.0/24 boot via ",
        "2001:db8:9::/48 boot via 2001:db8::9",
    ];
    let time = net.wait("the routes", || shown().eq(expected));
    println!("taken over after {time}");
    // A changed next hop, and a route that is gone.
    net.ip("ip route del 198.51.100.0/24 proto bgp");
    net.ip("ip route add 198.51.100.0/24 via 192.0.2.77 proto 199");
    net.ip("ip route del 198.51.101.0/24");
    net.wait("the changes", || {
        let now: Vec<String> = shown().collect();
        now[0] == "198.51.100.0/24 199 via 192.0.2.77" && now.len() == 4
    });
    // The kernel removes the routes of an interface that is set down without a word.
    net.ip("ip link set lan down");
    net.wait("their removal", || shown().all(|route| route.contains("unreachable")));
}

#[test]
fn configured_routes_are_in_the_kernel_too() {
    let port = "address = ['192.0.2.1/24', '2001:db8::1/64']";
    let Some(net) = Net::start("static", port, "") else { return };
    let routes = |family: &str| {
        let shown = net.ip(&format!("ip {family} route show proto 83"));
        shown.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let with = |more: &str| {
        let ports = configuration(&net.name, port, "");
        net.daemon.apply(&format!("{ports}{more}"), "t").unwrap();
    };
    with(
        "[[route]]\nto = '0.0.0.0/0'\nvia = '192.0.2.9'\n[[route]]\nto = '198.51.100.0/24'\nblackhole = true\n[[route]]\nto = '2001:db8:9::/48'\nvia = '2001:db8::9'\n",
    );
    let expected = ["default via 192.0.2.9 dev lan", "blackhole 198.51.100.0/24"];
    let has_all =
        || routes("-4") == expected && routes("-6") == ["2001:db8:9::/48 via 2001:db8::9 dev lan metric 1 pref medium"];
    net.wait("the routes", has_all);
    // The router has them once, by the configuration.
    let query = RouteQuery { origin: Some(Origin::Kernel), ..RouteQuery::default() };
    assert_eq!(net.daemon.routes(query, None, 10).unwrap().routes.len(), 0);
    // The kernel loses the routes of an interface that is set down, and a program may remove them.
    net.ip("ip link set lan down");
    net.ip("ip link set lan up");
    net.wait("the routes after the interface was down", has_all);
    net.ip("ip route del default");
    net.wait("the removed route", has_all);
    with("[[route]]\nto = '0.0.0.0/0'\nvia = '192.0.2.8'\n");
    let default = "default via 192.0.2.8 dev lan";
    net.wait("the changes", || routes("-4") == [default] && routes("-6").is_empty());
    // Those of the API too, except where the configuration has one.
    let batch = "add 0.0.0.0/0 via 192.0.2.7\nadd 198.51.100.0/24 via 192.0.2.7\nadd 198.51.101.0/24 unreachable\n\
                 add 198.51.102.0/24 via 192.0.2.7 weight 2 via 192.0.2.8\n";
    net.daemon.edit(batch, "t").unwrap();
    let added = [
        default,
        "198.51.100.0/24 via 192.0.2.7 dev lan",
        "unreachable 198.51.101.0/24",
        "198.51.102.0/24",
        "nexthop via 192.0.2.8 dev lan weight 1",
        "nexthop via 192.0.2.7 dev lan weight 2",
    ];
    net.wait("the routes of the API", || routes("-4").len() == added.len());
    assert_eq!(routes("-4"), added);
    net.daemon.edit("del 198.51.102.0/24", "t").unwrap();
    net.wait("the removal", || routes("-4") == added[..3]);
    net.daemon.edit("flush", "t").unwrap();
    net.wait("the end of all", || routes("-4") == [default]);
}

#[test]
fn loopback_addresses_and_virtual_routers_of_the_kernel_are_the_routers() {
    let Some(net) = Net::start("vrrp", "address = ['192.0.2.1/24']", "") else { return };
    net.ip("ip link set lo up");
    net.ip("ip addr add 10.255.0.1/32 dev lo");
    net.ip("ip link add vrrp5 link lan type macvlan mode bridge");
    net.ip("ip link set vrrp5 address 00:00:5e:00:01:05");
    net.ip("ip addr add 192.0.2.254/32 dev vrrp5");
    net.ip("ip link set vrrp5 up");
    // Otherwise the kernel answers for the address of the virtual router with the router's own MAC address too.
    net.namespace.run(|| fs::write("/proc/sys/net/ipv4/conf/lan/arp_ignore", "1")).unwrap().unwrap();
    net.host.add_default_route(address("192.0.2.254")).unwrap();
    let host = |command: &str| {
        let mut parts = command.split(' ');
        let mut run = Command::new(parts.next().unwrap());
        run.args(parts);
        let output = net.host.run(|| run.output()).unwrap().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The kernel answers ARP with the virtual address, and frames to it are received and routed.
    net.wait("the virtual router", || pings(net.host.namespace(), "192.0.2.254") == 3);
    assert!(host("ip neigh show 192.0.2.254").contains("00:00:5e:00:01:05"), "{}", host("ip neigh"));
    // Routed by the virtual router: the host has no other.
    assert_eq!(pings(net.host.namespace(), "10.255.0.1"), 3);
    // A daemon may have a route to the same address, which does not count.
    net.ip("ip route add 10.255.0.1/32 via 192.0.2.9 metric 50");
    net.ip("ip route add 198.51.100.0/24 via 192.0.2.9");
    let routed =
        || net.daemon.routes(RouteQuery { origin: Some(Origin::Kernel), ..RouteQuery::default() }, None, 9).unwrap();
    net.wait("the later route", || routed().routes.iter().any(|route| route.prefix == "198.51.100.0/24"));
    assert_eq!(pings(net.host.namespace(), "10.255.0.1"), 3);
    // The other router has taken over.
    net.ip("ip link set vrrp5 down");
    host("ip neigh flush all");
    net.wait("the end of the virtual router", || pings(net.host.namespace(), "192.0.2.254") == 0);
}
