//! Code options of slices as guests, on a router in virtual time: keys and changes of packets, the memory of the slice, faults, and replacement.

mod changes;
mod faults;
mod hostile;
mod laws;
mod swaps;

use extension::{Directory, Runtime};
use packet::DropReason;
use packet::wire::Ipv4;
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use slice::code::ExceptionCode;
use slice::{SliceCommand, SliceReport, Slices};
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::{Mac, Nanos};

/// The rates of the ports are high, so that queues lose nothing.
const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "share(rate=10gbit, leaves=64)"
shares = ["engine rate 8gbit"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
[[path]]
name = "slices"
match = "udp dport 20000-20999"
functions = ["slice"]
"#;

/// The addresses of the block and of the area for packets in the guests of these tests.
const BLOCK: u32 = 1024;
const AREA: u32 = 8192;

/// A guest in text. `parse` and `format` are expressions of type `i32`, the verdict. They may use the number `$i` of the packet, its record `$r`, and
/// its bytes `$b`. The key is the first byte of a packet, unless `parse` writes another one.
#[derive(Clone)]
struct Text {
    bytes: u32,
    most: u32,
    flags: u32,
    room: u32,
    parse: String,
    format: String,
    /// Anything else.
    rest: String,
    description: &'static str,
}

impl Default for Text {
    fn default() -> Text {
        Text {
            bytes: 16,
            most: 0,
            flags: 0,
            room: 0,
            parse: "(i32.const 0)".into(),
            format: "(i32.const 0)".into(),
            rest: String::new(),
            description: "summary Of a test.",
        }
    }
}

impl Text {
    fn text(&self) -> String {
        let Text { bytes, most, flags, room, parse, format, rest, description } = self;
        let stride = (room + bytes).next_multiple_of(8);
        let records = BLOCK + 192;
        let first = AREA + room;
        let each = |name: &str, before: &str, verdict: &str| {
            format!(
                r#"(func (export "{name}") (local $i i32) (local $r i32) (local $b i32)
                (block $end (loop $next
                    (br_if $end (i32.ge_u (local.get $i) (i32.load (i32.const 1032))))
                    (local.set $r (i32.add (i32.const {records}) (i32.shl (local.get $i) (i32.const 6))))
                    (local.set $b (i32.add (i32.const {first}) (i32.mul (local.get $i) (i32.const {stride}))))
                    {before}
                    (i32.store16 offset=12 (local.get $r) {verdict})
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br $next))))"#
            )
        };
        let key = "(if (i32.load16_u offset=4 (local.get $r))
            (then (i32.store8 offset=16 (local.get $r) (i32.load8_u (local.get $b)))))";
        let (parse, format) = (each("switchpath_parse", key, parse), each("switchpath_format", "", format));
        format!(
            r#"(module
            (import "switchpath" "load" (func $load (param i32 i32) (result i64)))
            (import "switchpath" "store" (func $store (param i32 i32 i64)))
            (import "switchpath" "add" (func $add (param i32 i32 i64) (result i64)))
            (memory (export "memory") 4)
            (data (i32.const 8) "{description}\0a\00")
            (func (export "switchpath_slice") (result i32) (i32.const 1))
            (func (export "switchpath_describe") (result i32) (i32.const 8))
            (func (export "switchpath_block") (result i32) (i32.const {BLOCK}))
            (func (export "switchpath_start") (result i32)
                (i32.store (i32.const 1040) (i32.const {bytes})) (i32.store (i32.const 1044) (i32.const {AREA}))
                (i32.store (i32.const 1048) (i32.const {most})) (i32.store (i32.const 1052) (i32.const {flags}))
                (i32.store (i32.const 1056) (i32.const {room}))
                (i32.const 0))
            {parse} {format} {rest})"#
        )
    }

    fn module(&self) -> Vec<u8> {
        wat::parse_str(self.text()).unwrap_or_else(|wrong| panic!("{wrong}"))
    }
}

/// An expression that has this value for packets whose first byte is `byte`, and 0 for others.
fn for_byte(byte: u8, then: &str) -> String {
    format!(
        "(if (result i32) (i32.eq (i32.load8_u (local.get $b)) (i32.const {byte})) (then {then}) (else (i32.const 0)))"
    )
}

/// A router with slices.
struct Node {
    place: tempfile::TempDir,
    rig: Rig,
    slices: Slices,
}

impl Node {
    fn new() -> Node {
        Node::with(Runtime::counted().unwrap())
    }

    fn with(runtime: Runtime) -> Node {
        let place = tempfile::tempdir().unwrap();
        let mut rig = Rig::new(8192, Layout::Three, Box::new(packet::event::Silent));
        let mut slices = Slices::default();
        slices.set_guests(Some(Arc::new(Directory::new(place.path(), runtime))));
        slices.provide(&mut rig.router);
        rig.apply(CONFIG).unwrap_or_else(|errors| panic!("{errors:?}"));
        rig.settle();
        let mut node = Node { place, rig, slices };
        ["lan", "wan"].into_iter().for_each(|wire| drop(node.rig.received(wire)));
        node
    }

    fn put(&self, name: &str, text: &Text) {
        std::fs::write(self.place.path().join(name).with_extension("wasm"), text.module()).unwrap();
    }

    /// Makes changes of slices, one a line.
    fn try_run(&mut self, lines: &str) -> Result<(), String> {
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        let commands: Vec<SliceCommand> = lines.map(|line| line.parse().unwrap()).collect();
        self.slices.run(&mut self.rig.router, &commands).map(drop).map_err(|(_, error)| error.to_string())
    }

    fn run(&mut self, lines: &str) {
        self.try_run(lines).unwrap_or_else(|wrong| panic!("{lines}: {wrong}"));
    }

    /// A slice with this code option at a port of `lan`, whose only filter sends all packets.
    fn slice(&mut self, name: &str, port: u16, code: &str) {
        self.run(&format!(
            "create {name} code {code} filters 300 memory 1kb exceptions 1000000
            mi add {name} 0 192.0.2.1:{port}
            mi add {name} 1 198.51.100.1:{port}
            reserve {name} wan/engine
            queue set {name} 1 wan/engine
            filter insert {name} 100 send 1 1 198.51.100.9:9000 data 5a5b"
        ));
    }

    /// The slice `a` with this guest at port 20000, and the slice `b` with `null` at port 20100.
    fn two(text: &Text) -> Node {
        let mut node = Node::new();
        node.put("mine", text);
        node.slice("a", 20_000, "guest:mine");
        node.slice("b", 20_100, "null");
        node
    }

    /// Sends payloads to the slice at a port as one batch, and runs the router until it is idle.
    fn send(&mut self, port: u16, payloads: &[Vec<u8>]) {
        payloads.iter().for_each(|payload| self.rig.send("lan", &frame(port, payload)));
        self.rig.settle();
    }

    /// The payloads that have left from a port.
    fn arrived(&mut self, port: u16) -> Vec<Vec<u8>> {
        self.rig.advance(Nanos::millis(5));
        let udp = |frame: Vec<u8>| {
            let ip = Ipv4::parse(&frame[14..]).unwrap();
            (u16::from_be_bytes([ip.payload[0], ip.payload[1]]), ip.payload[8..].to_vec())
        };
        let of_port = |(from, payload): (u16, Vec<u8>)| (from == port).then_some(payload);
        self.rig.received("wan").into_iter().map(udp).filter_map(of_port).collect()
    }

    /// Sends payloads to `a`, and returns those that leave it.
    fn pass(&mut self, payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.send(20_000, payloads);
        self.arrived(20_000)
    }

    fn report(&self, name: &str) -> SliceReport {
        let report = self.slices.report(&self.rig.router, name).unwrap();
        let c = report.counters;
        let drops = c.header_drops + c.malformed + c.policy_drops + c.faults + c.suspended + c.lost_exceptions;
        assert_eq!(c.received, c.forwarded + c.exceptions + drops + c.route_drops, "each packet has one fate: {c:?}");
        report
    }

    fn word(&self, name: &str, offset: usize) -> u64 {
        self.slices.memory(name).unwrap().load(offset).unwrap()
    }

    fn exceptions(&self, name: &str) -> Vec<(ExceptionCode, Vec<u8>)> {
        let taken = self.slices.take_exceptions(name, 1000).unwrap();
        taken.into_iter().map(|exception| (exception.code, exception.packet.into())).collect()
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.rig.report().ledger.dropped_for(reason)
    }
}

/// A frame of the host at `lan` to a port of the router, with this payload in UDP.
fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 0x99]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(192, 0, 2, 1));
    UdpFrame { link, network, ports: (7000, port), ttl: 64, length: 42 + payload.len() }.frame(payload)
}

/// So many payloads, the first byte of which is their number.
fn numbered(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]).collect()
}
