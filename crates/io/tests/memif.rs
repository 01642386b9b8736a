//! Two ends of a shared-memory link: packets arrive complete and in order, either end may restart, and a peer that violates the protocol is
//! disconnected.

#![allow(clippy::print_stdout)]

use io::advisories::Advisories;
use io::memif::message::{ETHERNET, LENGTH, Message, VERSION};
use io::memif::{MemifPort, MemifRole};
use io::wait::{Sleeper, WakeReason, Waker};
use packet::port::{Port, WakeSource, discard_refused};
use packet::{BATCH, Batch, Pool, Region};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket};
use std::os::fd::OwnedFd;
use std::path::Path;
use units::{Instant, Nanos};

/// Long enough for a busy machine, short enough for a test.
const PATIENCE: Nanos = Nanos::secs(10);

struct MemifSide {
    port: MemifPort,
    pool: Pool,
    sleeper: Sleeper,
    advisories: Advisories,
}

impl MemifSide {
    fn open(end: MemifRole) -> MemifSide {
        let warnings = Advisories::default();
        let port = MemifPort::open(&end, "test", warnings.clone()).unwrap();
        MemifSide {
            port,
            pool: Pool::new(Region::new(4096)),
            sleeper: Sleeper::new(Waker::new().unwrap()),
            advisories: warnings,
        }
    }

    /// Sleeps like a worker, on the port's waiter.
    fn sleep(&mut self) {
        if let WakeSource::Descriptor(fd) = self.port.wake_source() {
            assert_ne!(self.sleeper.sleep_on([fd], PATIENCE).unwrap(), WakeReason::Timeout, "nothing happens");
        }
    }

    /// The same, for at most a tenth of a second. True if it was woken.
    fn nap(&mut self) -> bool {
        let WakeSource::Descriptor(fd) = self.port.wake_source() else { return true };
        self.sleeper.sleep_on([fd], Nanos::millis(100)).unwrap() != WakeReason::Timeout
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut batch = Batch::new();
        self.port.receive(Instant::new(7), &mut batch, &mut self.pool);
        let seen = batch.as_slice().iter().map(|packet| packet.bytes().to_vec()).collect();
        batch.drain().for_each(|packet| self.pool.give(packet));
        seen
    }

    /// Sends as many of `frames` as there is room for. Returns their number.
    fn send(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut batch = Batch::new();
        for frame in frames.iter().take(self.port.room().min(BATCH)) {
            let mut packet = self.pool.take().unwrap();
            assert!(packet.fill(frame));
            batch.push(packet);
        }
        let sent = batch.len();
        self.port.transmit(Instant::new(7), &mut batch, &mut self.pool);
        sent - discard_refused(&mut batch, &mut self.pool) as usize
    }

    /// Polls the port, asleep in between, until its state is `up`.
    fn until(&mut self, up: bool) {
        for _ in 0..1000 {
            self.receive();
            if self.port.is_up() == up {
                return;
            }
            self.sleep();
        }
        panic!("the port is not {}", if up { "up" } else { "down" });
    }
}

fn ends(path: &Path) -> (MemifRole, MemifRole) {
    (MemifRole::Listen(path.to_owned()), MemifRole::Connect(path.to_owned()))
}

/// A frame with its number, and a length of its own.
fn frame(number: u32) -> Vec<u8> {
    let mut bytes = vec![number as u8; 60 + (number as usize * 37) % 1455];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[test]
fn frames_cross_unchanged_and_in_order_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let (listen, connect) = ends(&directory.path().join("link"));
    let (mut a, mut b) = (MemifSide::open(listen), MemifSide::open(connect));
    a.until(true);
    b.until(true);
    let mut sent = [0u32; 2];
    let mut received = [0u32; 2];
    while received != [100_000; 2] {
        step(&mut a, &mut b, &mut sent[0], &mut received[0]);
        step(&mut b, &mut a, &mut sent[1], &mut received[1]);
    }
    assert_eq!((a.pool.frames_in_use(), b.pool.frames_in_use()), (0, 0));
    assert_eq!(a.port.statistics().lost_after_transmit + b.port.statistics().lost_after_transmit, 0);
}

fn step(from: &mut MemifSide, to: &mut MemifSide, sent: &mut u32, received: &mut u32) {
    let frames: Vec<Vec<u8>> = (*sent..100_000).take(200).map(frame).collect();
    *sent += from.send(&frames) as u32;
    for got in to.receive() {
        assert_eq!(got, frame(*received));
        *received += 1;
    }
}

#[test]
fn first_frame_wakes_the_sleeping_receiver() {
    let directory = tempfile::tempdir().unwrap();
    let (listen, connect) = ends(&directory.path().join("link"));
    let (mut a, mut b) = (MemifSide::open(listen), MemifSide::open(connect));
    a.until(true);
    b.until(true);
    for round in 0..100 {
        let sleeper = std::thread::spawn(move || {
            let mut got = a.receive();
            while got.is_empty() {
                a.sleep();
                got = a.receive();
            }
            (a, got)
        });
        assert_eq!(b.send(&[frame(round)]), 1);
        let (back, got) = sleeper.join().unwrap();
        a = back;
        assert_eq!(got, [frame(round)]);
    }
}

#[test]
fn either_end_may_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link");
    let (listen, connect) = ends(&path);
    let mut a = MemifSide::open(listen.clone());
    let mut b = MemifSide::open(connect.clone());
    a.until(true);
    drop(b);
    a.until(false);
    b = MemifSide::open(connect);
    a.until(true);
    b.until(true);
    assert_eq!(b.send(&[frame(1)]), 1);
    drop(a);
    assert!(!path.exists(), "the socket goes with the port");
    b.until(false);
    a = MemifSide::open(listen);
    b.until(true);
    a.until(true);
    assert_eq!(a.send(&[frame(2)]), 1);
    b.sleep();
    assert_eq!(b.receive(), [frame(2)]);
}

#[test]
fn second_listener_is_refused_and_stale_socket_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link");
    let a = MemifPort::open(&MemifRole::Listen(path.clone()), "a", Advisories::default()).unwrap();
    let error = MemifPort::open(&MemifRole::Listen(path.clone()), "b", Advisories::default()).unwrap_err();
    assert!(error.reason.contains("Address already in use"), "{error}");
    drop(a);
    // The remains of a killed program: a socket without a listener.
    let dead = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::bind(&dead, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    drop(dead);
    assert!(MemifPort::open(&MemifRole::Listen(path), "c", Advisories::default()).is_ok());
}

fn raw_peer(path: &Path) -> OwnedFd {
    let peer = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&peer, &SocketAddrUnix::new(path).unwrap()).unwrap();
    peer
}

/// The last message of the server before it disconnects.
fn last_message(peer: &OwnedFd) -> Option<Message> {
    let mut last = None;
    let mut bytes = [0; LENGTH];
    while let Ok((_, length @ 1..)) = recv(peer, &mut bytes, rustix::net::RecvFlags::empty()) {
        last = Message::decode(&bytes[..length]);
    }
    last
}

#[test]
fn client_that_violates_the_protocol_is_disconnected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link");
    let mut a = MemifSide::open(MemifRole::Listen(path.clone()));
    let init = |version, id| Message::Init { version, id, mode: ETHERNET }.encode("x").to_vec();
    let stories: [(&str, Vec<Vec<u8>>); 7] = [
        ("silence", vec![]),
        ("too short", vec![vec![1; 5]]),
        ("too long", vec![vec![1; 200]]),
        ("no message", vec![vec![0xff; LENGTH]]),
        ("another version", vec![init(0x0100, 0)]),
        (
            "memory without a descriptor",
            vec![init(VERSION, 0), Message::AddRegion { index: 0, size: 1 }.encode("").into()],
        ),
        ("connects without rings", vec![init(VERSION, 0), Message::Connect.encode("").into()]),
    ];
    for (story, messages) in stories {
        let peer = raw_peer(&path);
        for message in &messages {
            send(&peer, message, SendFlags::NOSIGNAL).unwrap();
        }
        if story == "silence" {
            rustix::net::shutdown(&peer, rustix::net::Shutdown::Write).unwrap();
        }
        let last = last_message(&peer);
        assert!(last != Some(Message::Connected), "{story}: {last:?}");
        assert!(!a.port.is_up(), "{story}");
    }
    assert_eq!(a.advisories.take().len(), 1, "complained of once");
    let mut b = MemifSide::open(MemifRole::Connect(path));
    a.until(true);
    b.until(true);
}

struct Testpmd(std::process::Child);

impl Drop for Testpmd {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// DPDK's memif end, which returns every frame with swapped addresses. `None` if it is not installed (Debian: dpdk-dev).
fn testpmd(role: &str, path: &Path) -> Option<Testpmd> {
    let device = format!("net_memif0,role={role},socket={},socket-abstract=no,id=0", path.display());
    let mut command = std::process::Command::new("dpdk-testpmd");
    command.args(["--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--no-shconf", "-l", "0,1"]);
    command.args([&format!("--vdev={device}"), "--", "--forward-mode=macswap", "--port-topology=loop"]);
    command.args(["--no-mlockall", "--disable-link-check", "--total-num-mbufs=4096", "--auto-start"]);
    // By default it discards frames that arrived before forwarding starts: the first frames after the link is up.
    command.arg("--no-flush-rx");
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn().ok().map(Testpmd)
}

#[test]
fn memif_interoperates_with_dpdk_in_both_roles() {
    let directory = tempfile::tempdir().unwrap();
    for (role, listens) in [("client", true), ("server", false)] {
        let path = directory.path().join(role);
        let end = if listens { MemifRole::Listen(path.clone()) } else { MemifRole::Connect(path.clone()) };
        let mut a = MemifSide::open(end);
        let Some(peer) = testpmd(role, &path) else {
            println!("skipped: dpdk-testpmd is not installed (Debian: dpdk-dev)");
            return;
        };
        a.until(true);
        let (mut returned, mut sent, mut naps) = (0, 0, 0);
        while returned < 5000 {
            let frames: Vec<Vec<u8>> = (sent..5000).take(32).map(addressed).collect();
            if sent < returned + 500 {
                sent += a.send(&frames) as u32;
            }
            let back = a.receive();
            if back.is_empty() && sent > returned {
                // DPDK may check for a sleeping receiver before its packets are visible, and then sends no signal. A worker checks again after at
                // most this time.
                naps = if a.nap() { 0 } else { naps + 1 };
                assert!(naps < 100, "{returned} of {sent} came back from DPDK's {role}, and then nothing");
            }
            for got in back {
                let mut expected = addressed(returned);
                let (to, from) = expected[..12].split_at_mut(6);
                to.swap_with_slice(from);
                assert!(got == expected, "frame {returned} as DPDK's {role} returned it");
                returned += 1;
            }
        }
        drop(peer);
        a.until(false);
    }
}

/// A frame with addresses, for a host that checks them.
fn addressed(number: u32) -> Vec<u8> {
    let mut bytes = frame(number);
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}
