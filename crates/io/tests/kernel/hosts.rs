//! Hosts with the kernel's own TCP, UDP and ping communicate through the router on packet ports. No link-layer address is configured: ARP and
//! neighbour discovery resolve all of them.

use crate::bench::router_mac;
use crate::link_ends::Link;
use crate::this_router::TestRouter;
use io::netns::{Lab, LabHost, Plug};
use io::offload::{Ethtool, EthtoolOffload};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The MTU of the link to the host `narrow`, unknown to that host.
const NARROW: u16 = 1300;
/// The time limit of every operation.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a transfer: far more than TCP's initial windows.
const TRANSFER: usize = 2 << 20;

/// Sets the stop flag when dropped, also during a panic.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The address of the host on a link, in either family.
fn address(link: Link, v6: bool) -> IpAddr {
    let number = link as u8 + 1;
    if v6 { ip(&format!("fd00:{number}::2")) } else { ip(&format!("198.18.{number}.2")) }
}

/// Three hosts at the router, which runs during `work`.
fn among_hosts(kind: &str, work: impl FnOnce(&[LabHost])) {
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(forbidden) => return println!("skipped: {forbidden}"),
    };
    let router = lab.host("switchpath").unwrap();
    router.silence_kernel().unwrap();
    let mut configuration = String::from("version = 1\n");
    let hosts = Link::ALL.map(|link| {
        let (host, name, number) = (lab.host(link.name()).unwrap(), link.name(), link as u8 + 1);
        let near = Plug { mac: Some(router_mac(link)), ..router.plug(name) };
        lab.cable(&near, &host.plug("eth0")).unwrap();
        for v6 in [false, true] {
            host.add_address("eth0", address(link, v6), if v6 { 64 } else { 24 }).unwrap();
        }
        host.add_default_route(ip(&format!("198.18.{number}.1"))).unwrap();
        host.add_default_route(ip(&format!("fd00:{number}::1"))).unwrap();
        // Like usual hosts, they leave checksums and TCP segmentation to a network card.
        let ethtool = host.run(|| Ethtool::open().unwrap()).unwrap();
        for offload in [EthtoolOffload::TransmitChecksum, EthtoolOffload::TcpSegmentation] {
            ethtool.switch("eth0", offload, kind == "xdp").unwrap();
        }
        let mtu = if link == Link::Narrow { NARROW } else { 1500 };
        writeln!(configuration, "[port.{name}]\ndevice = '{kind}:{name}'\nmtu = {mtu}").unwrap();
        writeln!(configuration, "address = ['198.18.{number}.1/24', 'fd00:{number}::1/64']").unwrap();
        host
    });
    let mut ours = match TestRouter::start(&router, &configuration) {
        Ok(ours) => ours,
        Err(missing) => {
            assert_ne!(kind, "packet", "{missing}");
            return println!("skipped: {missing}");
        }
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopped = Stop(&stop);
        let running = scope.spawn(|| {
            ours.run(&stop);
            ours.audit();
        });
        work(&hosts);
        drop(stopped);
        running.join().unwrap();
    });
}

/// The output of ping(8). `None` if it is not installed.
pub fn ping(from: &LabHost, arguments: &str, to: IpAddr) -> Option<(bool, String)> {
    let mut command = Command::new("ping");
    command.args(["-n", "-c1", "-W5"]).args(arguments.split_whitespace()).arg(to.to_string());
    command.env("LC_ALL", "C").stdout(Stdio::piped()).stderr(Stdio::piped());
    match from.spawn(command) {
        Err(error) => {
            println!("skipped: ping(8): {error}");
            None
        }
        Ok(child) => {
            let output = child.wait_with_output().unwrap();
            Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
        }
    }
}

/// A datagram in both directions.
fn datagram(from: &LabHost, to: &LabHost, address: IpAddr, length: usize) {
    let server = to.run(|| UdpSocket::bind(SocketAddr::new(address, 0)).unwrap()).unwrap();
    let client = from.run(|| UdpSocket::bind(SocketAddr::new(unspecified(address), 0)).unwrap()).unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let (sent, mut received) = (pattern(length), vec![0; length + 1]);
    client.send_to(&sent, server.local_addr().unwrap()).unwrap();
    let (count, peer) = server.recv_from(&mut received).unwrap();
    assert_eq!(received[..count], sent);
    server.send_to(&sent, peer).unwrap();
    assert_eq!(client.recv(&mut received).unwrap(), length);
    assert_eq!(received[..length], sent);
}

fn unspecified(like: IpAddr) -> IpAddr {
    ip(if like.is_ipv4() { "0.0.0.0" } else { "::" })
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// All bytes in both directions over one connection.
fn transfer(from: &LabHost, to: &LabHost, address: IpAddr) {
    let listener = to.run(|| TcpListener::bind(SocketAddr::new(address, 0)).unwrap()).unwrap();
    let target = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut received = vec![0; TRANSFER];
            stream.read_exact(&mut received).unwrap();
            stream.write_all(&received).unwrap();
        });
        let mut stream = from.run(|| TcpStream::connect_timeout(&target, PATIENCE).unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (sent, mut received) = (pattern(TRANSFER), vec![0; TRANSFER]);
        stream.write_all(&sent).unwrap();
        stream.read_exact(&mut received).unwrap();
        assert!(sent == received, "what came back is what was sent");
        server.join().unwrap();
    });
}

#[test]
fn ping_udp_and_tcp_pass_in_both_families() {
    communicate("packet");
}

#[test]
fn hosts_with_offloads_communicate_over_xdp_ports() {
    communicate("xdp");
}

fn communicate(kind: &str) {
    among_hosts(kind, |hosts| {
        let [left, right, _] = hosts else { unreachable!("there are three") };
        for v6 in [false, true] {
            let to = address(Link::Right, v6);
            // The longest packets that the links carry unfragmented.
            let longest = if v6 { "-s 1452 -M do" } else { "-s 1472 -M do" };
            for arguments in ["", longest] {
                if let Some((answered, printed)) = ping(left, arguments, to) {
                    assert!(answered, "ping {arguments} {to}: {printed}");
                }
            }
            datagram(left, right, to, 1400);
            // In fragments, which the router forwards.
            datagram(left, right, to, 5000);
            transfer(left, right, to);
        }
    });
}

#[test]
fn path_mtu_discovery_finds_the_smaller_link() {
    among_hosts("packet", |hosts| {
        let [left, _, narrow] = hosts else { unreachable!("there are three") };
        for v6 in [false, true] {
            let to = address(Link::Narrow, v6);
            if let Some((answered, printed)) = ping(left, "-s 1400 -M do", to) {
                assert!(!answered && printed.contains("mtu = 1300") || printed.contains("mtu=1300"), "{printed}");
            }
            // Both ends agree on segments for 1500 bytes.
            transfer(left, narrow, to);
            transfer(narrow, left, address(Link::Left, v6));
        }
        // IPv4 packets that may be fragmented are.
        if let Some((answered, printed)) = ping(left, "-s 1400 -M dont", address(Link::Narrow, false)) {
            assert!(answered, "{printed}");
        }
    });
}

#[test]
fn traceroute_shows_the_router_and_ping_is_answered() {
    among_hosts("packet", |hosts| {
        let [left, right, _] = hosts else { unreachable!("there are three") };
        for (v6, router) in [(false, "198.18.1.1"), (true, "fd00:1::1")] {
            let to = address(Link::Right, v6);
            let Some((answered, printed)) = ping(left, "-t 1", to) else { return };
            let exceeded = if v6 { "Time exceeded: Hop limit" } else { "Time to live exceeded" };
            assert!(!answered && printed.contains(&format!("From {router} ")), "{printed}");
            assert!(printed.contains(exceeded), "{printed}");
            let (answered, printed) = ping(left, "-t 2", to).unwrap();
            assert!(answered, "{printed}");
            // Also if request and reply are fragmented.
            for length in ["", "-s 5000", "-s 65000"] {
                let (answered, printed) = ping(right, length, ip(router)).unwrap();
                assert!(answered, "the far address of the router, {length}: {printed}");
            }
            // No host has this address, and the router reports it to the sender.
            let nobody = if v6 { ip("fd00:2::99") } else { ip("198.18.2.99") };
            let (answered, printed) = ping(left, "-W 9", nobody).unwrap();
            let unreachable = if v6 { "Address unreachable" } else { "Destination Host Unreachable" };
            assert!(!answered && printed.contains(unreachable), "{printed}");
            // No process listens.
            let refused = left.run(|| TcpStream::connect_timeout(&SocketAddr::new(ip(router), 9), PATIENCE)).unwrap();
            assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        }
    });
}
