//! Two routers with a tunnel between them, and a kernel host behind each: pings and TCP pass in each kind of tunnel, in both families.

use crate::lab;
use crate::rig::{Running, ip};
use crate::transfers::transfer;
use io::netlink::{Netlink, Veth, VethEnd};
use io::netns::{Lab, LabHost};
use packet::DropReason;
use std::os::fd::AsFd;
use std::process::Command;

/// client - left [a] mid - mid [b] right - server: 10.0.1.2 and fd00:1::2 talk to 10.0.2.2 and fd00:2::2.
struct Chain {
    routers: [LabHost; 2],
    hosts: [LabHost; 2],
}

/// Connects two hosts by a cable.
fn cable((one, link): (&LabHost, &str), (other, far): (&LabHost, &str)) {
    let end = |name, namespace| VethEnd { name, namespace, mac: None };
    let ends = [end(link, None), end(far, Some(other.namespace().as_fd()))];
    one.run(|| Netlink::open().unwrap().add_veth(&Veth { ends }).unwrap()).unwrap();
    for (host, link) in [(one, link), (other, far)] {
        host.run(|| Netlink::open().unwrap().set_up(link, true).unwrap()).unwrap();
    }
}

impl Chain {
    fn lay(lab: &Lab) -> Chain {
        let [a, b, client, server] = ["a", "b", "client", "server"].map(|name| lab.host(name).unwrap());
        for router in [&a, &b] {
            router.silence_kernel().unwrap();
        }
        cable((&a, "mid"), (&b, "mid"));
        cable((&client, "eth0"), (&a, "lan"));
        cable((&server, "eth0"), (&b, "lan"));
        for (host, number) in [(&client, 1), (&server, 2)] {
            host.add_address("eth0", ip(&format!("10.0.{number}.2")), 24).unwrap();
            host.add_address("eth0", ip(&format!("fd00:{number}::2")), 64).unwrap();
            host.add_default_route(ip(&format!("10.0.{number}.1"))).unwrap();
            host.add_default_route(ip(&format!("fd00:{number}::1"))).unwrap();
        }
        Chain { routers: [a, b], hosts: [client, server] }
    }

    /// The configuration of router 1 or 2, whose tunnel has this device and these keys.
    fn configuration(number: u8, (kind, is_ipv4, keys): (&str, bool, &str)) -> String {
        let other = 3 - number;
        let end = |number: u8| if is_ipv4 { format!("192.0.2.{number}") } else { format!("2001:db8::{number}") };
        let (local, remote) = (end(number), end(other));
        format!(
            r#"
version = 1
[port.lan]
device = "packet:lan"
address = ["10.0.{number}.1/24", "fd00:{number}::1/64"]
[port.mid]
device = "packet:mid"
address = ["192.0.2.{number}/24", "2001:db8::{number}/64"]
[port.tun]
device = "{kind}:{remote}"
address = ["10.255.0.{number}/30", "fd00:255::{number}/64"]
tunnel = {{ local = "{local}"{keys} }}
[[route]]
to = "10.0.{other}.0/24"
via = "10.255.0.{other}"
[[route]]
to = "fd00:{other}::/64"
via = "fd00:255::{other}"
"#
        )
    }
}

/// The answers to three pings of `to`.
fn pings(from: &LabHost, to: &str, length: &str) -> usize {
    let mut ping = Command::new("ping");
    ping.args(["-c", "3", "-i", "0.2", "-W", "5", "-s", length, to]);
    let output = from.run(|| ping.output()).unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains(" bytes from ")).count()
}

fn through(tunnel: (&str, bool, &str)) {
    let Some(lab) = lab() else { return };
    let chain = Chain::lay(&lab);
    let [a, b] = &chain.routers;
    let running = [(a, 1), (b, 2)].map(|(host, number)| Running::start(host, &Chain::configuration(number, tunnel)));
    let [client, server] = &chain.hosts;
    assert_eq!(pings(client, "10.0.2.2", "56"), 3, "{tunnel:?}");
    for (to, length) in [("10.0.2.2", "56"), ("fd00:2::2", "56"), ("10.0.2.2", "1400"), ("fd00:2::2", "1400")] {
        assert_eq!(pings(client, to, length), 3, "{tunnel:?}: {to} {length}");
    }
    // Longer than the tunnel: fragmented by the router, or by the sender once it has the error of the router.
    assert_eq!(pings(client, "10.0.2.2", "2000"), 3, "{tunnel:?}");
    // The first request is lost, and the first reply: each end learns the MTU from its own.
    assert!(pings(client, "fd00:2::2", "2000") >= 1, "{tunnel:?}");
    transfer(client, server, "10.0.2.2", 1);
    transfer(server, client, "fd00:1::2", 2);
    for running in running {
        let report = running.stop();
        let usual = [
            DropReason::Multicast,
            DropReason::LinkLocal,
            DropReason::UnknownEthertype,
            DropReason::PortDown,
            DropReason::Shutdown,
            // TCP fills every queue if the other end is slow, and uses all of the 64 super-frames. It sends again.
            DropReason::TunnelQueue,
            DropReason::NoSuperFrame,
            // The first long packets of each sender, which learns the MTU from them.
            DropReason::TooBig,
            // Announcements of the router's addresses on the tunnel, until the routes of the configuration are there.
            DropReason::NoRoute,
            // They wait for the other router, and are dropped if it starts or answers seconds later, as on a busy machine.
            DropReason::NeighbourFailed,
        ];
        let drops: Vec<_> = report.ledger.drops().filter(|(reason, _)| !usual.contains(reason)).collect();
        assert_eq!(drops, [], "{tunnel:?}");
    }
}

#[test]
fn gre_carries_pings_and_tcp_between_two_routers() {
    through(("gre", true, ", key = 7, sequence = true"));
    through(("gre", false, ""));
}

#[test]
fn ipip_carries_pings_and_tcp_between_two_routers() {
    through(("ipip", true, ""));
    through(("ipip", false, ""));
}

/// The kernel at the other end of a VXLAN segment: client - lan [router] mid - the kernel of `server`, which has the device `vx`.
fn through_kernel_segment(is_ipv4: bool) {
    let Some(lab) = lab() else { return };
    let [router, client, server] = ["router", "client", "server"].map(|name| lab.host(name).unwrap());
    router.silence_kernel().unwrap();
    cable((&client, "eth0"), (&router, "lan"));
    cable((&server, "eth0"), (&router, "mid"));
    client.add_address("eth0", ip("10.0.1.2"), 24).unwrap();
    client.add_address("eth0", ip("fd00:1::2"), 64).unwrap();
    client.add_default_route(ip("10.0.1.1")).unwrap();
    client.add_default_route(ip("fd00:1::1")).unwrap();
    server.add_address("eth0", ip("192.0.2.2"), 24).unwrap();
    server.add_address("eth0", ip("2001:db8::2"), 64).unwrap();
    let (local, remote) = if is_ipv4 { ("192.0.2.2", "192.0.2.1") } else { ("2001:db8::2", "2001:db8::1") };
    let mut make = Command::new("ip");
    make.args(["link", "add", "vx", "type", "vxlan", "id", "42", "local", local, "remote", remote, "dstport", "4789"]);
    let made = server.run(|| make.output()).unwrap().unwrap();
    if !made.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&made.stderr));
        return;
    }
    server.run(|| Netlink::open().unwrap().set_up("vx", true).unwrap()).unwrap();
    server.add_address("vx", ip("10.255.0.2"), 24).unwrap();
    server.add_address("vx", ip("fd00:255::2"), 64).unwrap();
    server.add_route((ip("10.0.1.0"), 24), ip("10.255.0.1")).unwrap();
    server.add_route((ip("fd00:1::"), 64), ip("fd00:255::1")).unwrap();
    let configuration = format!(
        r#"
version = 1
[port.lan]
device = "packet:lan"
address = ["10.0.1.1/24", "fd00:1::1/64"]
[port.mid]
device = "packet:mid"
address = ["192.0.2.1/24", "2001:db8::1/64"]
[port.segment]
device = "vxlan:42"
address = ["10.255.0.1/24", "fd00:255::1/64"]
mtu = {mtu}
tunnel = {{ local = "{remote}", remotes = "{local}" }}
"#,
        mtu = if is_ipv4 { 1450 } else { 1430 }
    );
    let running = Running::start(&router, &configuration);
    for (to, length) in [("10.255.0.2", "56"), ("fd00:255::2", "56"), ("10.255.0.2", "1400"), ("fd00:255::2", "1300")] {
        assert_eq!(pings(&client, to, length), 3, "{is_ipv4}: {to} {length}");
    }
    assert_eq!(pings(&server, "10.0.1.2", "56"), 3);
    transfer(&client, &server, "10.255.0.2", 1);
    transfer(&server, &client, "fd00:1::2", 2);
    let report = running.stop();
    let usual = [
        DropReason::Multicast,
        DropReason::LinkLocal,
        DropReason::UnknownEthertype,
        DropReason::PortDown,
        DropReason::Shutdown,
        DropReason::OtherStation,
        DropReason::TooBig,
        DropReason::NoRoute,
    ];
    let drops: Vec<_> = report.ledger.drops().filter(|(reason, _)| !usual.contains(reason)).collect();
    assert_eq!(drops, [], "{is_ipv4}");
}

#[test]
fn vxlan_carries_pings_and_tcp_to_the_kernel() {
    through_kernel_segment(true);
    through_kernel_segment(false);
}
