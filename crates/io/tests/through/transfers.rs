//! TCP between two kernels through the router, for every pair of kinds of port: the received bytes equal the sent ones. Super-frames pass whole if
//! both ends support them.

use crate::lab;
use crate::rig::{Cable, Line, PATIENCE, Running, ip};
use io::netns::LabHost;
use packet::DropReason;
use plane::WorkerReport;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Bytes of each transfer.
pub const BYTES: usize = 24 << 20;
/// Payload of a TCP segment on a link with MTU 1500.
pub const SEGMENT: u64 = 1448;
const CHUNK: usize = 256 << 10;

/// The byte stream of a seed (splitmix64).
struct Stream(u64);

impl Stream {
    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..word.len()]);
        }
    }
}

/// Sends the bytes of a seed over a connection and compares each received byte.
pub fn transfer(from: &LabHost, to: &LabHost, address: &str, seed: u64) {
    let listener = to.run(|| TcpListener::bind((ip(address), 0)).unwrap()).unwrap();
    let target: SocketAddr = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE.into())).unwrap();
            let (mut expected, mut due, mut came) = (Stream(seed), vec![0; CHUNK], vec![0; CHUNK]);
            for _ in 0..BYTES / CHUNK {
                stream.read_exact(&mut came).unwrap();
                expected.fill(&mut due);
                assert!(came == due, "other bytes than were sent");
            }
            assert_eq!(stream.read(&mut came).unwrap(), 0, "more bytes than were sent");
        });
        let mut stream = from.run(|| TcpStream::connect_timeout(&target, PATIENCE.into()).unwrap()).unwrap();
        stream.set_write_timeout(Some(PATIENCE.into())).unwrap();
        let (mut source, mut bytes) = (Stream(seed), vec![0; CHUNK]);
        for _ in 0..BYTES / CHUNK {
            source.fill(&mut bytes);
            stream.write_all(&bytes).unwrap();
        }
        drop(stream);
        receiver.join().unwrap();
    });
}

/// One direction over IPv4, the other over IPv6.
fn both_ways(line: &Line) {
    transfer(&line.client, &line.server, "10.0.2.2", 1);
    transfer(&line.server, &line.client, "fd00:1::2", 2);
}

/// Drops, except for host packets that no router forwards, announcements before a neighbour is resolved, and retransmissions that are still in flight
/// at the end.
fn drops(report: &WorkerReport) -> Vec<(&'static str, u64)> {
    use DropReason::{LinkLocal, Multicast, PortDown, Shutdown, UnknownEthertype};
    let usual = [Multicast, LinkLocal, UnknownEthertype, PortDown, Shutdown];
    let ours = report.ports.iter().flat_map(|port| port.drops.iter());
    ours.filter(|(reason, _)| !usual.contains(reason)).map(|(reason, count)| (reason.name(), *count)).collect()
}

/// Runs the transfers over one pair of cables. Does nothing if one of them is not available here.
fn through(cables: [Cable; 2]) {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab, cables);
    let running = line.start("");
    let warnings = running.advisories.take();
    if warnings.iter().any(|warning| warning.contains("instead of AF_XDP")) {
        return println!("skipped: {warnings:?}");
    }
    both_ways(&line);
    let report = running.stop();
    let [left, right] = &report.ports[..] else { panic!("two ports") };
    println!(
        "{cables:?}: received {} and {}, sent {} and {}",
        left.counters.received, right.counters.received, left.link.sent, right.link.sent
    );
    assert_eq!(drops(&report), [], "{cables:?}");
    let segments = BYTES as u64 / SEGMENT;
    // Each port carries the data of one transfer and the acknowledgements of the other.
    for (port, from, to) in [(right, cables[0], cables[1]), (left, cables[1], cables[0])] {
        if from.carries_super_frames() && to.carries_super_frames() {
            assert!(port.link.sent < segments / 2, "{from:?} to {to:?}: {} packets sent", port.link.sent);
        } else {
            assert!(port.link.sent >= segments, "{from:?} to {to:?}: {} packets sent", port.link.sent);
        }
    }
    for (port, cable) in [(left, cables[0]), (right, cables[1])] {
        if cable.carries_super_frames() {
            assert!(port.counters.received < 2 * segments, "{cable:?}: {} packets received", port.counters.received);
        }
    }
}

#[test]
fn super_frames_pass_whole_between_capable_ports() {
    for cables in [[Cable::Packet; 2], [Cable::Tap; 2], [Cable::Tap, Cable::Packet]] {
        through(cables);
    }
}

#[test]
fn super_frames_are_segmented_for_other_ports() {
    for cables in [[Cable::Packet, Cable::Plain], [Cable::Tap, Cable::Plain], [Cable::Plain; 2]] {
        through(cables);
    }
}

#[test]
fn super_frames_are_segmented_for_xdp_ports() {
    for cables in [[Cable::Packet, Cable::Xdp], [Cable::Tap, Cable::Xdp], [Cable::Plain, Cable::Xdp], [Cable::Xdp; 2]] {
        through(cables);
    }
}

/// left [router] memory of both [router] right
#[test]
fn chained_routers_forward_transfers() {
    let Some(lab) = lab() else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("chain.sock");
    for cables in [[Cable::Packet, Cable::Tap], [Cable::Plain, Cable::Packet]] {
        let line = Line::lay(&lab, cables);
        let start = |side: usize| {
            let (role, name, other) = [("listen", "east", 1), ("connect", "west", 0)][side];
            let (near, far) = (side + 1, other + 1);
            let text = format!(
                "version = 1\n{}[port.{name}]\ndevice = 'memif:{role}:{}'\n\
                 address = ['10.0.9.{near}/24', 'fd00:9::{near}/64']\n\
                 [[route]]\nto = '10.0.{far}.0/24'\nvia = '10.0.9.{far}'\n\
                 [[route]]\nto = 'fd00:{far}::/64'\nvia = 'fd00:9::{far}'\n",
                line.port(side, ""),
                socket.display()
            );
            Running::start(&line.router, &text)
        };
        let routers = [start(0), start(1)];
        line.connect();
        both_ways(&line);
        for router in routers {
            let report = router.stop();
            assert_eq!(drops(&report), [], "{cables:?}");
        }
    }
}
