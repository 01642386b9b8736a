//! Datagrams of a kernel to multicast groups: the members on two other links receive each once and unchanged, with every kind of port.

use crate::lab;
use crate::rig::{Cable, Line, PATIENCE, Running, ip};
use io::netlink::{Netlink, Veth, VethEnd};
use io::netns::LabHost;
use rustix::net::sockopt::set_ipv6_multicast_hops;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;

const PORT: u16 = 5004;
const ROUNDS: usize = 40;
/// Payload sizes: small ones are copied whole, larger ones partly by reference, and the last one arrives in fragments.
const SIZES: [usize; 7] = [1, 100, 200, 300, 1400, 1452, 4000];

fn payload(number: usize) -> Vec<u8> {
    let length = SIZES[number % SIZES.len()];
    (0..length).map(|i| (i * 31 + number * 7 + i / 256) as u8).collect()
}

/// A program of `host` that has joined the group on its only link.
fn member(host: &LabHost, group: IpAddr, own: &str) -> UdpSocket {
    host.run(|| {
        let any: IpAddr = if group.is_ipv4() { ip("0.0.0.0") } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, PORT)).unwrap();
        match (group, ip(own)) {
            (IpAddr::V4(group), IpAddr::V4(own)) => socket.join_multicast_v4(&group, &own).unwrap(),
            (IpAddr::V6(group), _) => {
                let link = Netlink::open().unwrap().links().unwrap();
                let link = link.iter().find(|link| link.name != "lo").expect("it has a link");
                socket.join_multicast_v6(&group, link.index).unwrap();
            }
            _ => panic!("two families"),
        }
        socket.set_read_timeout(Some(PATIENCE.into())).unwrap();
        socket
    })
    .unwrap()
}

/// Waits until the router resets a TCP connection of a host, because no program listens on the port.
fn reach(host: &LabHost, addresses: [String; 2]) {
    let answer = |address: String| TcpStream::connect_timeout(&SocketAddr::new(ip(&address), 9), PATIENCE.into());
    for answer in host.run(|| addresses.map(answer)).unwrap() {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}

fn through(cables: [Cable; 2]) {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab, cables);
    let third = lab.host("third").unwrap();
    let ends = [
        VethEnd { name: "eth0", namespace: None, mac: None },
        VethEnd { name: "third", namespace: Some(line.router.namespace().as_fd()), mac: None },
    ];
    third.run(|| Netlink::open().unwrap().add_veth(&Veth { ends }).unwrap()).unwrap();
    third.add_address("eth0", ip("10.0.3.2"), 24).unwrap();
    third.add_address("eth0", ip("fd00:3::2"), 64).unwrap();
    third.run(|| Netlink::open().unwrap().set_up("eth0", true).unwrap()).unwrap();
    line.router.run(|| Netlink::open().unwrap().set_up("third", true).unwrap()).unwrap();
    let mut config = line.configuration("");
    config += "[port.third]\ndevice = 'packet:third'\naddress = ['10.0.3.1/24', 'fd00:3::1/64']\n";
    for group in ["239.1.2.3", "ff3e::99"] {
        config += &format!("[[multicast]]\ngroup = '{group}'\nfrom = 'left'\nto = ['right', 'third']\n");
    }
    let running = Running::start(&line.router, &config);
    let warnings = running.advisories.take();
    if warnings.iter().any(|warning| warning.contains("instead of AF_XDP")) {
        return println!("skipped: {warnings:?}");
    }
    line.connect();
    // The kernel drops packets at an interface that has just come up.
    for (host, side) in [(&line.client, 1), (&line.server, 2), (&third, 3)] {
        reach(host, [format!("10.0.{side}.1"), format!("fd00:{side}::1")]);
    }
    for (group, right, other) in [("239.1.2.3", "10.0.2.2", "10.0.3.2"), ("ff3e::99", "fd00:2::2", "fd00:3::2")] {
        let group = ip(group);
        let members = [member(&line.server, group, right), member(&third, group, other)];
        let sender = line.client.run(|| {
            let own = if group.is_ipv4() { ip("10.0.1.2") } else { ip("fd00:1::2") };
            let socket = UdpSocket::bind((own, 0)).unwrap();
            match group {
                IpAddr::V4(_) => socket.set_multicast_ttl_v4(4).unwrap(),
                IpAddr::V6(_) => set_ipv6_multicast_hops(&socket, 4).unwrap(),
            }
            socket
        });
        let sender = sender.unwrap();
        for number in 0..ROUNDS {
            sender.send_to(&payload(number), SocketAddr::new(group, PORT)).unwrap();
            // One after the other, so that no queue fills up.
            for member in &members {
                let mut buffer = vec![0; 8192];
                let (length, from) = member.recv_from(&mut buffer).unwrap();
                assert_eq!(from.ip(), sender.local_addr().unwrap().ip());
                assert!(buffer[..length] == payload(number), "{cables:?}: datagram {number}, {length} bytes of it");
            }
        }
    }
    let report = running.stop();
    let (ledger, groups) = (&report.ledger, &report.groups);
    println!("{cables:?}: {groups:?}");
    // The largest are fragments.
    let least = ROUNDS as u64;
    assert!(
        groups.iter().all(|group| group.packets > least && group.copies == 2 * group.packets && group.dropped == 0)
    );
    assert_eq!(ledger.copies(), 2 * ledger.replicated());
}

#[test]
fn group_members_on_packet_ports_receive_each_datagram_once() {
    through([Cable::Packet, Cable::Packet]);
    through([Cable::Plain, Cable::Plain]);
}

#[test]
fn group_members_on_xdp_ports_receive_each_datagram_once() {
    through([Cable::Xdp, Cable::Xdp]);
    through([Cable::Packet, Cable::Xdp]);
}

#[test]
fn group_members_on_tap_ports_receive_each_datagram_once() {
    through([Cable::Tap, Cable::Tap]);
}
