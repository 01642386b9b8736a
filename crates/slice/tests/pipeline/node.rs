//! A router with two ports, a scheduler at each, and slices.

use crate::trial::TRIAL;
use packet::wire::transport::transport_checksum;
use packet::wire::{Ipv4, protocol};
use packet::{DropReason, frames::UdpFrame};
use plan::ShareName;
use plane::rig::Rig;
use plane::snapshot::Layout;
use slice::code::{CodeConfig, ExceptionCode};
use slice::{
    FilterAction, FilterEdit, FilterSpec, QueueSpec, SchedulerId, SliceQuota, SliceRates, SliceReport, SliceSpec,
    Slices,
};
use std::net::{Ipv4Addr, SocketAddr};
use units::{Mac, Nanos, Rate};

/// Both ports have a scheduler of 80 Mbit/s. The overhead of a frame on the wire is that of Ethernet (spec S-22).
pub const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
scheme = "share(rate=100mbit, leaves=64, overhead=24b)"
shares = ["engine rate 80mbit ceiling 80mbit"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "share(rate=100mbit, leaves=64, overhead=24b)"
shares = ["engine rate 80mbit ceiling 80mbit"]
[port.wan.vlan.10]
address = ["203.0.113.1/24"]
[[neighbour]]
address = "203.0.113.9"
mac = "02:00:00:00:00:23"
port = "wan.10"
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:99"
port = "lan"
[[path]]
name = "slices"
match = "udp dport 20000-20999"
functions = ["slice"]
"#;

pub const LAN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const WAN: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// The node and its slices.
pub struct Node {
    pub rig: Rig,
    pub slices: Slices,
}

pub fn place(address: Ipv4Addr, port: u16) -> SocketAddr {
    (address, port).into()
}

pub fn scheduler(port: &str) -> SchedulerId {
    SchedulerId { port: port.into(), share: Some(ShareName::new("engine").unwrap()) }
}

pub fn spec(name: &str) -> SliceSpec {
    SliceSpec {
        name: name.into(),
        code: "trial".into(),
        config: CodeConfig::default(),
        quota: SliceQuota { rate: Rate::mbit(80), ..SliceQuota::default() },
        drops_unmatched: false,
        owner: None,
    }
}

/// The filter for packets that begin with these bytes.
pub fn filter(value: &[u8], action: FilterAction) -> FilterSpec {
    let mask = vec![0xff; value.len()];
    FilterSpec { value: value.to_vec(), mask, ranges: Vec::new(), action, index: None }
}

/// Sends by meta-interface 1 to the host at `wan`, which listens at port 9000.
pub fn to_wan(queue: u16) -> FilterAction {
    let next = (Ipv4Addr::new(198, 51, 100, 9), 9000).into();
    FilterAction::Send { queue, interface: 1, next, data: [0x5a; 32] }
}

/// A frame of the host at `lan` to a port of the router, with this payload in UDP.
pub fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 0x99]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 9), LAN);
    UdpFrame { link, network, ports: (7000, port), ttl: 64, length: 42 + payload.len() }.frame(payload)
}

impl Node {
    pub fn new() -> Node {
        Node::with(Slices::default())
    }

    pub fn with(mut slices: Slices) -> Node {
        let mut rig = Rig::new(8192, Layout::Three, Box::new(packet::event::Silent));
        slices.register_code(&TRIAL);
        slices.provide(&mut rig.router);
        rig.apply(CONFIG).unwrap_or_else(|errors| panic!("{errors:?}"));
        rig.settle();
        let mut node = Node { rig, slices };
        ["lan", "wan"].into_iter().for_each(|wire| drop(node.rig.received(wire)));
        node
    }

    /// A slice with meta-interface 0 at port `port` of `lan` and 1 at the same port of `wan`, queue 1 at `wan`, and no filter.
    pub fn slice(&mut self, name: &str, port: u16) {
        self.slices.create(spec(name)).unwrap();
        self.furnish(name, port);
    }

    /// Gives a slice what [`Node::slice`] has besides the slice itself.
    pub fn furnish(&mut self, name: &str, port: u16) {
        let Node { rig, slices } = self;
        slices.create_interface(&rig.router, name, (0, place(LAN, port))).unwrap();
        slices.create_interface(&rig.router, name, (1, place(WAN, port))).unwrap();
        slices.reserve(&mut rig.router, name, &scheduler("wan"), SliceRates::default()).unwrap();
        self.queue(name, 1, 1);
    }

    pub fn queue(&mut self, name: &str, number: u16, weight: u32) {
        let spec = QueueSpec { scheduler: scheduler("wan"), weight, limit: None };
        self.slices.set_queue(&mut self.rig.router, name, (number, spec)).unwrap();
    }

    pub fn insert(&mut self, name: &str, position: u32, filter: FilterSpec) -> Vec<u32> {
        self.slices.edit_filters(name, &[FilterEdit::Insert(position, filter)]).unwrap()
    }

    /// The host at `lan` sends a payload to a slice.
    pub fn send(&mut self, port: u16, payload: &[u8]) {
        self.rig.send("lan", &frame(port, payload));
        self.rig.settle();
    }

    /// The payloads that arrive at the host at `wan` within 5 ms, in which queues become empty.
    pub fn received(&mut self) -> Vec<(u16, Vec<u8>)> {
        self.rig.advance(Nanos::millis(5));
        self.arrived()
    }

    /// The payloads that the host at `wan` has received in UDP from a port of the router, with those ports.
    pub fn arrived(&mut self) -> Vec<(u16, Vec<u8>)> {
        let udp = |frame: Vec<u8>| {
            let ip = Ipv4::parse(&frame[14..]).unwrap();
            assert_eq!((ip.header.protocol(), ip.header.ttl()), (protocol::UDP, 64));
            assert_eq!((ip.header.source(), ip.header.destination()), (WAN, Ipv4Addr::new(198, 51, 100, 9)));
            let (from, to) = (ip.header.source().into(), ip.header.destination().into());
            assert_eq!(transport_checksum(from, to, protocol::UDP, ip.payload), 0, "the checksum is right");
            assert_eq!(ip.payload[2..4], 9000u16.to_be_bytes());
            assert_eq!(usize::from(u16::from_be_bytes([ip.payload[4], ip.payload[5]])), ip.payload.len());
            (u16::from_be_bytes([ip.payload[0], ip.payload[1]]), ip.payload[8..].to_vec())
        };
        self.rig.received("wan").into_iter().map(udp).collect()
    }

    pub fn report(&self, name: &str) -> SliceReport {
        let report = self.slices.report(&self.rig.router, name).unwrap();
        let c = report.counters;
        let drops = c.header_drops + c.malformed + c.policy_drops + c.faults + c.suspended + c.lost_exceptions;
        assert_eq!(c.received, c.forwarded + c.exceptions + drops + c.route_drops, "each packet has one fate: {c:?}");
        report
    }

    /// The packets that the router has dropped, by reason.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.rig.report().ledger.drops().collect()
    }

    /// The codes of the packets for the slow path of a slice.
    pub fn exceptions(&self, name: &str) -> Vec<ExceptionCode> {
        self.slices.take_exceptions(name, 1000).unwrap().into_iter().map(|exception| exception.code).collect()
    }
}
