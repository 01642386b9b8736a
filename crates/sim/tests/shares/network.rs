//! A router between an access network and the Internet, with TCP connections and constant streams of packets through it.
//!
//! Data crosses the router. Acknowledgements return to their senders after a constant time.

use packet::Offload;
use packet::pool::Segmentation;
use packet::port::Offloads;
use plan::share_batch;
use plane::Router;
use plane::rig::{MemoryWires, Rig, UdpFrame};
use plane::snapshot::Layout;
use sim::tcp::{Ack, Cubic, Receiver, Sender, Settings, TcpSegment};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::Ipv4Addr;
use units::{Instant, Mac, Nanos};

/// The time between two looks at the hosts.
const STEP: Nanos = Nanos::micros(100);
/// The time from the arrival of data to that of its acknowledgement.
const RETURN: Nanos = Nanos::millis(10);
/// The length of a frame with data.
pub const FRAME: usize = 1514;
/// A host of the Internet.
const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// The MAC addresses of the neighbours of `lan` and of `wan`.
const INSIDE: Mac = Mac([2, 0, 0, 0, 0, 0x99]);
const OUTSIDE: Mac = Mac([2, 0, 0, 0, 0, 0x22]);

/// The configuration with this table of subscribers; see [`table`]. `of_lan` are further keys of the port `lan`.
pub fn config(table: &str, of_lan: &str) -> String {
    format!(
        r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
scheme = "share(rate=100mbit)"
{of_lan}
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "share(rate=100mbit)"
[[neighbour]]
address = "198.51.100.9"
mac = "{OUTSIDE}"
port = "wan"
[[neighbour]]
address = "192.0.2.9"
mac = "{INSIDE}"
port = "lan"
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.9"
[[route]]
to = "0.0.0.0/0"
via = "198.51.100.9"
[subscribers]
inside = ["lan"]
outside = ["wan"]
file = "/{table}"
"#
    )
}

/// The tables of the tests, by the name of their file.
fn table(file: &str) -> io::Result<Vec<u8>> {
    let tables = [("accuracy.csv", crate::accuracy::TABLE), ("safety.csv", crate::safety::TABLE)];
    let others = [("catch-all.csv", crate::safety::CATCH_ALL), ("vlan.csv", crate::safety::VLANS)];
    if file.ends_with("many.csv") {
        return Ok(crate::safety::many().into_bytes());
    }
    let found = tables.into_iter().chain(others).find(|(name, _)| file.ends_with(name));
    found.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The address of a subscriber by its number.
pub fn subscriber(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// The direction of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To subscribers.
    Down,
    /// From subscribers.
    Up,
}

impl Direction {
    /// The wires by which packets enter and leave.
    fn wires(self) -> (&'static str, &'static str) {
        match self {
            Direction::Down => ("wan", "lan"),
            Direction::Up => ("lan", "wan"),
        }
    }
}

/// A frame between a subscriber's address and the Internet.
pub fn frame(address: Ipv4Addr, direction: Direction, ports: (u16, u16), length: usize) -> UdpFrame {
    let (link, network) = match direction {
        Direction::Down => ((OUTSIDE, Mac([2, 0, 0, 0, 0, 2])), (FAR, address)),
        Direction::Up => ((INSIDE, Mac([2, 0, 0, 0, 0, 1])), (address, FAR)),
    };
    UdpFrame { link, network, ports, ttl: 64, length }
}

/// The sender of a stream's packets.
enum Source {
    /// A TCP connection that always has data, and the acknowledgements on their way to it.
    Tcp(Box<(Sender, Receiver)>, VecDeque<(Instant, Ack)>),
    /// A packet of this length at constant times. With `super_frames` many are sent at once, as one frame with this length of segments.
    Constant { space: Nanos, next: Instant, length: usize, super_frames: bool },
}

/// Packets from or to an address.
pub struct Stream {
    address: Ipv4Addr,
    direction: Direction,
    source: Source,
    /// The number of flows among which packets alternate, by their ports.
    flows: u32,
    sent: u32,
    /// The link headers between the MAC addresses and the IP header, instead of the usual type.
    link: Vec<u8>,
    /// The times that its packets needed to the other side.
    pub delays: Vec<Nanos>,
}

impl Stream {
    fn new(address: Ipv4Addr, direction: Direction, source: Source) -> Stream {
        Stream { address, direction, source, flows: 1, sent: 0, link: vec![8, 0], delays: Vec::new() }
    }

    /// A TCP connection.
    pub fn tcp(address: Ipv4Addr, direction: Direction) -> Stream {
        let settings = Settings::kernel();
        let mut sender = Sender::new(settings, Box::new(Cubic::new(&settings)));
        sender.offer(Instant::START, 1 << 30);
        let ends = Box::new((sender, Receiver::new(&settings)));
        Stream::new(address, direction, Source::Tcp(ends, VecDeque::new()))
    }

    /// Packets of this length at this rate in Mbit/s.
    pub fn constant(address: Ipv4Addr, direction: Direction, rate: f64, length: usize) -> Stream {
        let space = Nanos::new((length as f64 * 8000.0 / rate) as u64);
        let source = Source::Constant { space, next: Instant::START, length, super_frames: false };
        Stream::new(address, direction, source)
    }

    /// Super-frames of 64 KB at this rate in Mbit/s, made of segments of the usual length.
    pub fn super_frames(address: Ipv4Addr, direction: Direction, rate: f64) -> Stream {
        let length = 42 + 44 * (FRAME - 42);
        let space = Nanos::new((length as f64 * 8000.0 / rate) as u64);
        let source = Source::Constant { space, next: Instant::START, length, super_frames: true };
        Stream::new(address, direction, source)
    }

    /// The same in this many flows.
    pub fn in_flows(self, flows: u32) -> Stream {
        Stream { flows, ..self }
    }

    /// The same with these link headers.
    pub fn behind(self, link: &[u8]) -> Stream {
        Stream { link: link.to_vec(), ..self }
    }
}

/// The router, and the streams through it.
pub struct Network {
    pub rig: Rig,
    pub streams: Vec<Stream>,
}

impl Network {
    pub fn new(config: &str) -> Network {
        let mut wires = MemoryWires::default();
        wires.read_file = Some(table);
        let takes = Offloads { super_frames: true, checksums: true, gather: true };
        wires.offloads = ["lan", "wan"].map(|wire| (wire.to_owned(), takes)).into();
        Network { rig: Rig::running_with(wires, 16_384, Layout::Three, config), streams: Vec::new() }
    }

    pub fn add(&mut self, stream: Stream) -> &mut Network {
        self.streams.push(stream);
        self
    }

    /// Changes shares of a port.
    pub fn edit(&mut self, port: &str, text: &str) {
        let batch = share_batch(text, "test").unwrap_or_else(|wrong| panic!("{wrong}"));
        let changes: Vec<_> = batch.changes.into_iter().map(|(_, change)| change).collect();
        self.rig.router.edit_shares(port, &changes).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    }

    /// Lets time pass.
    pub fn run(&mut self, span: Nanos) {
        for _ in 0..span.get() / STEP.get() {
            let now = self.rig.now;
            for number in 0..self.streams.len() {
                self.send(number, now);
            }
            self.rig.advance(STEP);
            for wire in ["lan", "wan"] {
                for (frame, offload) in self.rig.received_as(wire) {
                    self.receive(&frame, offload);
                }
            }
        }
    }

    /// The stream sends the packets that are due.
    fn send(&mut self, number: usize, now: Instant) {
        let stream = &mut self.streams[number];
        let (from, _) = stream.direction.wires();
        let mut due: Vec<(TcpSegment, usize, Offload)> = Vec::new();
        match &mut stream.source {
            Source::Tcp(ends, acks) => {
                let (sender, receiver) = &mut **ends;
                while acks.front().is_some_and(|(at, _)| *at <= now) {
                    let (_, ack) = acks.pop_front().expect("just seen");
                    sender.acknowledge(now, &ack);
                }
                if sender.timer().is_some_and(|at| at <= now) {
                    sender.expire(now);
                }
                if receiver.timer().is_some_and(|at| at <= now) {
                    acks.extend(receiver.expire(now).map(|ack| (now + RETURN, ack)));
                }
                due.extend(std::iter::from_fn(|| sender.next(now)).map(|segment| (segment, FRAME, Offload::NONE)));
            }
            Source::Constant { space, next, length, super_frames } => {
                let mut offload = Offload::NONE;
                if *super_frames {
                    offload = Offload { segmentation: Segmentation::Udp, size: (FRAME - 42) as u16, checksum: None };
                }
                *next = (*next).max(now);
                while *next < now + STEP {
                    *next += *space;
                    let segment = TcpSegment { seq: 0, sent: now, retransmitted: false, pushed: false };
                    due.push((segment, *length, offload));
                }
            }
        }
        for (segment, length, offload) in due {
            let flow = stream.sent % stream.flows;
            stream.sent = stream.sent.wrapping_add(1);
            let ports = (5000 + number as u16 * 16 + (flow >> 16) as u16, 9 + flow as u16);
            let mut payload = Vec::with_capacity(24);
            payload.extend((number as u32).to_be_bytes());
            payload.extend(segment.seq.to_be_bytes());
            payload.extend(segment.sent.get().to_be_bytes());
            payload.extend([u8::from(segment.retransmitted), u8::from(segment.pushed)]);
            let plain = frame(stream.address, stream.direction, ports, length).frame(&payload);
            let bytes = [&plain[..12], &stream.link, &plain[14..]].concat();
            self.rig.send_as(from, &bytes, offload);
        }
    }

    /// A frame has crossed the router.
    fn receive(&mut self, frame: &[u8], offload: Offload) {
        let now = self.rig.now;
        let tags = if frame[12..14] == [8, 0] { 0 } else { 4 };
        let Some(payload) = frame.get(42 + tags..42 + tags + 22).filter(|_| frame[23 + tags] == 17) else { return };
        let number = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        let (stream, sent) = (payload[3], Instant::new(number(12)));
        // Segments of a super-frame have the number in the first one only.
        if offload.segmentation != Segmentation::None || payload[..3] != [0; 3] || sent > now {
            return;
        }
        let Some(stream) = self.streams.get_mut(usize::from(stream)) else { return };
        stream.delays.push(now.since(sent));
        if let Source::Tcp(ends, acks) = &mut stream.source {
            let (retransmitted, pushed) = (payload[20] != 0, payload[21] != 0);
            let segment = TcpSegment { seq: number(4), sent, retransmitted, pushed };
            // Congestion experienced (RFC 3168 5).
            let marked = frame[15 + tags] & 3 == 3;
            acks.extend(ends.1.segment(now, segment, marked).map(|ack| (now + RETURN, ack)));
        }
    }

    /// The bytes that each share of a port has sent, with those of the shares below it.
    pub fn sent(&self, port: &str) -> BTreeMap<String, u64> {
        let shares = shares(&self.rig.router, port);
        shares.into_iter().map(|share| (share.name.to_string(), share.counts.bytes.get())).collect()
    }

    /// The packets and bytes that wait in a share.
    pub fn waiting(&self, port: &str, name: &str) -> (u64, u64) {
        let shares = shares(&self.rig.router, port);
        let found = shares.into_iter().find(|share| share.name.as_str() == name);
        let waiting = found.expect("the share is there").counts.waiting;
        (waiting.packets.into(), waiting.bytes.get())
    }

    /// Runs for `span`, and returns the rate in Mbit/s that each share of a port had in it.
    pub fn rates(&mut self, port: &str, span: Nanos) -> BTreeMap<String, f64> {
        let before = self.sent(port);
        self.run(span);
        let rate = |bytes: u64| bytes as f64 * 8e-6 / span.as_secs_f64();
        self.sent(port).into_iter().map(|(name, bytes)| (name.clone(), rate(bytes - before[&name]))).collect()
    }
}

fn shares(router: &Router, port: &str) -> Vec<plane::ShareReport> {
    router.shares(port).expect("the port has shares")
}

/// True if a rate is within this part of the expected one.
pub fn is_near(rate: f64, expected: f64, part: f64) -> bool {
    (rate - expected).abs() <= part * expected
}
