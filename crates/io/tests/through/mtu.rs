//! Interfaces whose MTU is smaller than the configured one, from the start or later. The kernel at the other end receives every packet that the
//! router counts as sent. Hosts find the smaller MTU, and connections continue.

use crate::lab;
use crate::rig::{Cable, Line, PATIENCE, Running, ip};
use crate::taps::ip_command;
use crate::transfers::transfer;
use io::clock;
use io::netlink::Netlink;
use io::netns::LabHost;
use packet::DropReason;
use plane::PortReport;
use std::fs;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use units::Nanos;

/// The Ethernet frames that a host's interface has received, by its kernel's counter.
fn received(host: &LabHost, link: &str) -> u64 {
    let table = host.run(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{link}:"))).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn set_mtu(host: &LabHost, link: &str, mtu: u32) {
    host.run(|| Netlink::open().unwrap().set_mtu(link, mtu).unwrap()).unwrap();
}

/// A socket of the client. `fragments` permits fragmentation of its packets; without it the kernel also ignores routers' reports (IP_PMTUDISC_PROBE).
fn socket(client: &LabHost, address: &str, fragments: bool) -> UdpSocket {
    let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = client.run(|| UdpSocket::bind(any).unwrap()).unwrap();
    let mode: libc::c_int = if fragments { libc::IP_PMTUDISC_DONT } else { libc::IP_PMTUDISC_PROBE };
    let (level, name) = match address.contains(':') {
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        false => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    };
    set_option(&socket, level, name, mode);
    socket.connect(SocketAddr::new(ip(address), 9)).unwrap();
    socket
}

fn set_option(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) {
    use std::os::fd::AsRawFd;
    // SAFETY: the option's value is an integer that outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size_of_val(&value) as u32)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// The step between the lengths of one round: this many rounds cover all lengths.
const STRIDE: usize = 7;

/// Sends datagrams of every length that the client's own link carries, over both families, fragmentable or not, until it is stopped. Counts the
/// rounds.
fn every_length(client: &LabHost, rounds: &AtomicUsize, stop: &AtomicBool) -> u64 {
    let kinds = [("10.0.2.2", true), ("10.0.2.2", false), ("fd00:2::2", false)];
    let sockets = kinds.map(|(address, fragments)| (socket(client, address, fragments), address.contains(':')));
    let (bytes, mut sent) = ([0; 1500], 0);
    for round in 0.. {
        for length in (18 + round % STRIDE..=1472).step_by(STRIDE) {
            if stop.load(Ordering::Acquire) {
                break;
            }
            for (socket, is_v6) in &sockets {
                // A report of a router or the server about an earlier datagram is an error of this call.
                let most = if *is_v6 { 1452 } else { 1472 };
                sent += u64::from(socket.send(&bytes[..length.min(most)]).is_ok());
            }
            if length % 16 == 0 {
                thread::yield_now();
            }
        }
        rounds.store(round + 1, Ordering::Release);
        if stop.load(Ordering::Acquire) {
            break;
        }
        thread::park_timeout(Nanos::millis(1).into());
    }
    sent
}

/// Waits for this many more rounds.
fn await_rounds(rounds: &AtomicUsize, more: usize) {
    let (end, deadline) = (rounds.load(Ordering::Acquire) + more, clock::now() + Nanos::secs(60));
    while rounds.load(Ordering::Acquire) < end {
        assert!(clock::now() < deadline, "the client sends");
        thread::park_timeout(Nanos::millis(1).into());
    }
}

/// The counters of the port on a side.
fn port(report: &plane::WorkerReport, side: usize) -> PortReport {
    PortReport::sum_workers(std::slice::from_ref(report)).swap_remove(side)
}

fn is_xdp_missing(running: &Running) -> bool {
    let warnings = running.advisories.take();
    let missing = warnings.iter().any(|warning| warning.contains("instead of AF_XDP"));
    if missing {
        println!("skipped: {warnings:?}");
    }
    missing
}

/// The law, over cables of one kind: traffic of all lengths passes while the MTUs of the router's interface and of its other end change.
fn every_frame_is_received_or_dropped(cable: Cable) {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab, [Cable::Packet, cable]);
    let far = if cable == Cable::Tap { "right" } else { "eth0" };
    let before = if cable == Cable::Tap { 0 } else { received(&line.server, far) };
    if cable == Cable::Tap {
        // A device that the router creates would be gone before its counters can be read.
        ip_command(&line.router, "tuntap add right mode tap");
    }
    let running = line.start("");
    if is_xdp_missing(&running) {
        return;
    }
    for address in ["10.0.2.2", "fd00:2::2"] {
        // The router and the hosts resolve each other first, and then send nothing of their own for a while.
        let nobody_listens = || TcpStream::connect_timeout(&SocketAddr::new(ip(address), 9), PATIENCE.into());
        let refused = line.client.run(|| nobody_listens().unwrap_err().kind()).unwrap();
        assert_eq!(refused, std::io::ErrorKind::ConnectionRefused, "{cable:?}: {address}");
    }
    let (rounds, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| every_length(&line.client, &rounds, &stop));
        for mtu in [1500, 1400, 700, 1300, 1500, 1280, 68, 1500] {
            match cable {
                // The interface is at the server; the router has a descriptor.
                Cable::Tap => set_mtu(&line.server, far, mtu),
                _ => set_mtu(&line.router, "right", mtu),
            }
            // Rounds of all lengths until the router has read the MTU, which it does ten times a second.
            let seen = clock::now() + Nanos::millis(250);
            while clock::now() < seen {
                await_rounds(&rounds, 2);
            }
            if cable != Cable::Tap {
                // At least IPv6's minimum MTU: below it the server would lose its addresses.
                set_mtu(&line.server, far, 1290);
                await_rounds(&rounds, 1);
                set_mtu(&line.server, far, 1500);
            }
        }
        stop.store(true, Ordering::Release);
        sender.join().unwrap()
    });
    let report = running.stop();
    let (port, came) = (port(&report, 1), received(&line.server, far) - before);
    println!("{cable:?}: {sent} datagrams, {} frames sent, {came} received; {:?}", port.link.sent, report.ledger);
    assert_eq!(port.link.sent, came, "{cable:?}: {port:?}");
    assert_eq!(port.link.offered, port.link.sent + port.link.dropped + u64::from(port.backlog), "{cable:?}");
    assert!(came > 1000, "{cable:?}: {came}");
    // The router cannot see the MTU of an interface in another namespace, and a tap device accepts longer frames.
    assert!(report.ledger.dropped_for(DropReason::TooBig) > 0 || cable == Cable::Tap, "{cable:?}");
}

#[test]
fn frames_counted_as_sent_by_packet_ports_were_received_while_mtus_change() {
    every_frame_is_received_or_dropped(Cable::Packet);
    every_frame_is_received_or_dropped(Cable::Plain);
}

#[test]
fn frames_counted_as_sent_by_xdp_ports_were_received_while_mtus_change() {
    every_frame_is_received_or_dropped(Cable::Xdp);
}

#[test]
fn frames_counted_as_sent_by_tap_ports_were_received_while_mtus_change() {
    every_frame_is_received_or_dropped(Cable::Tap);
}

/// Both connections began with segments of 1460 bytes, but the path carries less.
#[test]
fn tcp_passes_an_interface_with_a_smaller_mtu_than_the_port() {
    let Some(lab) = lab() else { return };
    for (cable, mtu) in [(Cable::Packet, 1300), (Cable::Plain, 1280), (Cable::Xdp, 1400)] {
        let line = Line::lay(&lab, [cable; 2]);
        set_mtu(&line.router, "right", mtu);
        let running = line.start("");
        if is_xdp_missing(&running) {
            continue;
        }
        let begun = clock::now();
        transfer(&line.client, &line.server, "10.0.2.2", 1);
        transfer(&line.client, &line.server, "fd00:2::2", 2);
        let took = clock::now().since(begun);
        let report = running.stop();
        println!("{cable:?} with an MTU of {mtu}: {took:?}, {} too big", report.ledger.dropped_for(DropReason::TooBig));
        assert!(report.ledger.dropped_for(DropReason::TooBig) >= 2, "{cable:?}: one word for each family at least");
        assert_eq!(port(&report, 1).mtu, Some(mtu as u16));
    }
}
