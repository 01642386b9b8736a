//! A running router between two memory links, and the hosts at their far ends.

use control::{Client, Daemon, DaemonOptions, Notice, Server};
use io::clock;
use io::devices::Devices;
use packet::port::{MemoryPort, Port};
use packet::{Batch, Pool};
use plane::rig::{LAN_AND_WAN, UdpFrame};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// The longest wait for anything before a test fails.
pub const PATIENCE: Nanos = Nanos::secs(20);

/// The base configuration of tests; `more` is appended.
pub fn config(more: &str) -> String {
    format!("{LAN_AND_WAN}{more}")
}

/// A router, its API, and the hosts around it.
pub struct Rig {
    pub daemon: Arc<Daemon>,
    pub client: Client,
    pub socket: PathBuf,
    pub lan: Host,
    pub wan: Host,
    // Declared in the order in which they are dropped.
    _server: Server,
    _directory: tempfile::TempDir,
}

/// The far end of a memory link.
pub struct Host {
    end: MemoryPort,
    pool: Pool,
}

impl Rig {
    pub fn start(more: &str) -> Rig {
        Rig::with(more, |options| options)
    }

    /// Starts a router with other options.
    pub fn with(more: &str, change: impl FnOnce(DaemonOptions) -> DaemonOptions) -> Rig {
        Rig::of(config(more), change)
    }

    /// Starts a router with another configuration.
    pub fn of(text: String, change: impl FnOnce(DaemonOptions) -> DaemonOptions) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan::check(&text, "test.toml", &plane::catalogue()).unwrap_or_else(|errors| panic!("{errors}"));
        let mut devices = Devices::new(clock::epoch());
        let ends = ["lan", "wan"].map(|name| devices.take_end(name));
        let notice = |notice| assert_eq!(notice, Notice::Exhausted, "memory never ends, and nothing may fail");
        let options = DaemonOptions::new(devices, &text, "test.toml", notice);
        let daemon = Daemon::start(&plan, change(options)).unwrap();
        let socket = directory.path().join("control.sock");
        let bound = control::socket::ControlSocket::new(&socket).unwrap();
        let server = Server::start(daemon.clone(), bound).unwrap();
        let [lan, wan] = ends.map(|end| Host { end, pool: Pool::new(daemon.region()) });
        let client = Client::new(&socket);
        Rig { daemon, client, socket, lan, wan, _server: server, _directory: directory }
    }

    /// Sends UDP packets from the host at `lan` to `destination`, with these times to live. Their source ports count from `first`.
    pub fn send(&mut self, destination: [u8; 4], ttls: &[u8], first: u16) {
        let numbered = ttls.iter().zip(0..);
        self.send_frames(numbered.map(|(&ttl, i)| udp(destination, ttl, first.wrapping_add(i))));
    }

    /// Sends these frames, at most a batch, from the host at `lan`.
    pub fn send_frames(&mut self, frames: impl Iterator<Item = Vec<u8>>) {
        let mut batch = Batch::new();
        for frame in frames {
            let mut packet = self.lan.pool.take().unwrap();
            assert!(packet.fill(&frame));
            batch.push(packet);
        }
        until(|| (self.lan.end.room() >= batch.len()).then_some(()));
        self.lan.end.transmit(clock::now(), &mut batch, &mut self.lan.pool);
    }
}

impl Rig {
    /// Sends UDP packets from the host at `wan` to a host at `lan` that does not answer, with these times to live.
    pub fn send_back(&mut self, ttls: &[u8]) {
        let Host { end, pool } = &mut self.wan;
        let mut batch = Batch::new();
        for &ttl in ttls.iter().take(end.room()) {
            let mut packet = pool.take().unwrap();
            assert!(packet.fill(&udp([192, 0, 2, 200], ttl, 7)));
            // To the MAC address of the router's other port.
            packet.bytes_mut()[5] = 2;
            batch.push(packet);
        }
        if end.is_up() {
            end.transmit(clock::now(), &mut batch, pool);
        }
        batch.drain().for_each(|packet| pool.give(packet));
    }

    /// Waits until `packets` UDP packets have reached `wan`. If one is lost, reports the router's drops.
    pub fn await_delivery(&mut self, seen: &mut Vec<u16>, packets: usize) {
        let end = clock::now() + Nanos::secs(5);
        loop {
            self.wan.receive(seen);
            if seen.len() >= packets {
                return;
            }
            if clock::now() >= end {
                let asked = |what: &str| String::from_utf8(self.client.fetch("GET", what, b"").unwrap()).unwrap();
                let gap = seen.windows(2).find(|pair| pair[1] != pair[0].wrapping_add(1));
                panic!(
                    "{} of {packets} came, gap {gap:?}\n{}{}{}{}",
                    seen.len(),
                    asked("/v1/drops"),
                    asked("/v1/accounting"),
                    asked("/v1/ports"),
                    asked("/v1/events")
                );
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Host {
    /// Adds the source ports of received UDP packets to `seen`.
    pub fn receive(&mut self, seen: &mut Vec<u16>) {
        let mut batch = Batch::new();
        self.end.receive(clock::now(), &mut batch, &mut self.pool);
        for packet in batch.drain() {
            seen.extend(
                packet::wire::PacketFields::of(packet.bytes()).filter(|f| f.protocol == 17).and_then(|f| f.sport),
            );
            self.pool.give(packet);
        }
    }

    /// Waits until this many UDP packets have arrived, and returns their source ports.
    pub fn await_ports(&mut self, packets: usize) -> Vec<u16> {
        let mut seen = Vec::new();
        until(|| {
            self.receive(&mut seen);
            (seen.len() >= packets).then_some(())
        });
        seen
    }
}

/// Returns a UDP packet of 20 bytes from a host at `lan`.
pub fn udp(destination: [u8; 4], ttl: u8, sport: u16) -> Vec<u8> {
    let packet = UdpFrame::between_ports(sport, 53);
    UdpFrame { network: (packet.network.0, Ipv4Addr::from(destination)), ttl, length: 62, ..packet }.frame(&[])
}

/// Repeats `ask` until it returns something.
pub fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(clock::now() < end, "nothing came within {PATIENCE}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
