//! The router's own ICMP errors about translated packets, by direction, error and protocol. Each quotes the packet as its sender
//! sent it (RFC 5508 REQ-4). No address of the inside leaves the router.

use crate::nat_packets::{ICMP, Sent, Socket, TCP, UDP};
use packet::wire::{Icmp4, Ipv4, icmp4};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Nanos;

const OURS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const LAN_ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);
const LAN: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x17];
const WAN: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0x29];
/// Inside hosts: one answers, one does not, and two have no route.
const HOST: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 7);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 8);
const SILENT: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 99);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(10, 97, 0, 1);
const CLOSED: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const INSIDE: [Ipv4Addr; 5] = [HOST, OTHER, SILENT, NOWHERE, CLOSED];
/// Outside peers: one answers, a filter rejects one's packets, and the others are unreachable.
const PEER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 5);
const REJECTED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 66);
const FAR_SILENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 99);
const FAR_NOWHERE: Ipv4Addr = Ipv4Addr::new(100, 97, 0, 1);
const FAR_CLOSED: Ipv4Addr = Ipv4Addr::new(100, 98, 0, 1);

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.168.1.1/24"]
mtu = 600
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["203.0.113.1/24"]
mtu = 600
[[neighbour]]
address = "192.168.1.7"
mac = "02:00:00:00:00:17"
port = "lan"
[[neighbour]]
address = "192.168.1.8"
mac = "02:00:00:00:00:18"
port = "lan"
[[neighbour]]
address = "203.0.113.9"
mac = "02:00:00:00:00:29"
port = "wan"
[[route]]
to = "198.51.100.0/24"
via = "203.0.113.9"
[[route]]
to = "10.98.0.0/16"
unreachable = true
[[route]]
to = "100.98.0.0/16"
unreachable = true
[[path]]
name = "home"
match = "any"
functions = ["nat", "filter", "ip"]
filter = [
  "iif wan ip saddr 198.51.100.66 reject", "iif lan ip daddr 198.51.100.66 udp dport 54 reject", "iif lan udp dport 81 reject",
  "iif lan ip daddr 198.51.100.66 tcp dport 54 reject", "iif lan tcp dport 81 reject", "iif lan ip daddr 198.51.100.67 reject",
]
[nat]
outside = "wan"
forward = [
  "udp 8080 to 192.168.1.8:80", "udp 8081 to 192.168.1.99:80", "udp 8082 to 10.97.0.1:80", "udp 8083 to 10.98.0.1:80",
  "udp 8084 to 192.168.1.8:81",
  "tcp 8080 to 192.168.1.8:80", "tcp 8081 to 192.168.1.99:80", "tcp 8082 to 10.97.0.1:80", "tcp 8083 to 10.98.0.1:80",
  "tcp 8084 to 192.168.1.8:81",
]
"#;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Error {
    Expired,
    TooBig,
    NoRoute,
    Unreachable,
    NoAnswer,
    Rejected,
    BadOption,
}

const ERRORS: [Error; 7] = [
    Error::Expired,
    Error::TooBig,
    Error::NoRoute,
    Error::Unreachable,
    Error::NoAnswer,
    Error::Rejected,
    Error::BadOption,
];

impl Error {
    /// The ICMP type and code.
    fn code(self) -> [u8; 2] {
        match self {
            Error::Expired => [icmp4::TIME_EXCEEDED, 0],
            Error::TooBig => [icmp4::UNREACHABLE, 4],
            Error::NoRoute => [icmp4::UNREACHABLE, 0],
            Error::Unreachable | Error::NoAnswer => [icmp4::UNREACHABLE, 1],
            Error::Rejected => [icmp4::UNREACHABLE, 13],
            Error::BadOption => [icmp4::PARAMETER_PROBLEM, 0],
        }
    }

    /// Changes a packet so that it causes the error.
    fn befalls(self, sent: Sent) -> Sent {
        match self {
            Error::Expired => Sent { ttl: 1, ..sent },
            Error::TooBig => Sent { dont_fragment: true, payload: vec![3; 900], ..sent },
            // A record route option that is longer than the header.
            Error::BadOption => Sent { options: vec![7, 40, 4, 0], ..sent },
            _ => sent,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Out,
    In,
    Hairpin,
}

/// A running router, the packet that causes the error, and the wire on which it arrives. `None` if there is no such
/// packet: the router itself answers pings of its own addresses.
fn case(direction: Direction, error: Error, protocol: u8) -> Option<(Rig, &'static str, Sent)> {
    let mut rig = Rig::running(1024, Layout::Three, CONFIG);
    let port = |to: u16| if protocol == ICMP { 0 } else { to };
    let (wire, sent) = match direction {
        Direction::Out => {
            let to = match error {
                Error::NoRoute => (FAR_NOWHERE, port(53)),
                Error::Unreachable => (FAR_CLOSED, port(53)),
                Error::NoAnswer => (FAR_SILENT, port(53)),
                Error::Rejected if protocol == ICMP => (Ipv4Addr::new(198, 51, 100, 67), 0),
                Error::Rejected => (REJECTED, 54),
                _ => (PEER, port(53)),
            };
            ("lan", Sent::new(LAN, protocol, (HOST, 4000), to))
        }
        Direction::In => {
            let inside = match error {
                Error::NoRoute => NOWHERE,
                Error::Unreachable => CLOSED,
                Error::NoAnswer => SILENT,
                _ => HOST,
            };
            let peer: Socket = (if error == Error::Rejected { REJECTED } else { PEER }, port(53));
            let asked = Sent::new(LAN, protocol, (inside, 4000), peer);
            rig.send("lan", &asked.frame());
            rig.settle();
            assert_eq!(ipv4(&mut rig, "wan").len(), 1, "it leaves: {direction:?} {error:?} {protocol}");
            ("wan", asked.answer(WAN, (OURS, 4000)))
        }
        Direction::Hairpin if protocol == ICMP => return None,
        Direction::Hairpin => {
            let led = match error {
                Error::NoAnswer => 8081,
                Error::NoRoute => 8082,
                Error::Unreachable => 8083,
                Error::Rejected => 8084,
                _ => 8080,
            };
            ("lan", Sent::new(LAN, protocol, (HOST, 4000), (OURS, led)))
        }
    };
    Some((rig, wire, error.befalls(sent)))
}

fn ipv4(rig: &mut Rig, wire: &str) -> Vec<Vec<u8>> {
    let mut frames = rig.received(wire);
    frames.retain(|frame| frame[12..14] == [8, 0]);
    frames
}

/// An inside address anywhere in the frame.
fn leaks(frame: &[u8]) -> Option<Ipv4Addr> {
    let inside = |bytes: &[u8]| INSIDE.into_iter().chain([LAN_ROUTER]).find(|address| address.octets() == bytes);
    frame.windows(4).find_map(inside)
}

#[test]
fn icmp_errors_quote_packets_as_sent_and_hide_inside_addresses() {
    for direction in [Direction::Out, Direction::In, Direction::Hairpin] {
        for error in ERRORS {
            for protocol in [UDP, TCP, ICMP] {
                let Some((mut rig, wire, sent)) = case(direction, error, protocol) else { continue };
                let name = format!("{direction:?} {error:?} {protocol}");
                let frame = sent.frame();
                rig.send(wire, &frame);
                rig.settle();
                // Resolving a neighbour fails after three seconds.
                rig.advance(Nanos::secs(4));
                let (lan, wan) = (ipv4(&mut rig, "lan"), ipv4(&mut rig, "wan"));
                for frame in &wan {
                    assert_eq!(leaks(frame), None, "{name}: {frame:02x?}");
                }
                let told = if wire == "lan" { &lan } else { &wan };
                assert_eq!(told.len(), 1, "{name}: {:?}", rig.report().ledger.drops().collect::<Vec<_>>());
                let ip = Ipv4::parse(&told[0][14..]).unwrap();
                if error == Error::Rejected && protocol == TCP {
                    // A TCP reset carries the address of the intended destination.
                    assert_eq!((ip.header.source(), ip.header.destination()), (sent.to.0, sent.from.0), "{name}");
                    let ports = [sent.to.1.to_be_bytes(), sent.from.1.to_be_bytes()].concat();
                    assert_eq!((&ip.payload[..4], ip.payload[13] & 4), (&ports[..], 4), "{name}: a reset");
                    continue;
                }
                Icmp4::parse(ip.payload).unwrap_or_else(|error| panic!("{name}: {error:?}"));
                assert_eq!(ip.payload[..2], error.code(), "{name}");
                let own = if wire == "wan" || direction == Direction::Hairpin { OURS } else { LAN_ROUTER };
                assert_eq!((ip.header.source(), ip.header.destination()), (own, sent.from.0), "{name}");
                assert_eq!(as_sent(&ip.payload[8..], &frame[14..]), frame[14..14 + ip.payload.len() - 8], "{name}");
                if error == Error::TooBig {
                    assert_eq!(ip.payload[6..8], 600u16.to_be_bytes(), "{name}: the MTU of the next link");
                }
            }
        }
    }
}

/// The quoted packet with the time to live and the header checksum of the packet that was sent: forwarding changes both.
fn as_sent(quoted: &[u8], sent: &[u8]) -> Vec<u8> {
    assert!(quoted.len() >= 28 && sent[8] - quoted[8] <= 1, "the time to live is lowered once at most");
    assert!(
        packet::wire::checksum::checksum(&quoted[..usize::from(quoted[0] & 15) * 4]) == 0,
        "the header's sum is right"
    );
    let mut quoted = quoted.to_vec();
    quoted[8] = sent[8];
    quoted[10..12].copy_from_slice(&sent[10..12]);
    quoted
}

/// Only the connection's entry knows the original addresses of its packets.
#[test]
fn no_icmp_error_is_sent_for_an_expired_connection() {
    let (mut rig, wire, sent) = case(Direction::In, Error::NoAnswer, ICMP).unwrap();
    rig.send(wire, &sent.frame());
    rig.settle();
    rig.router.snapshot().translations.with(|state| {
        let slot = state.table.from_inside(
            ICMP,
            nat::NatEndpoint::new(SILENT.into(), 4000),
            nat::NatEndpoint::new(PEER.into(), 0),
        );
        state.table.remove(slot.unwrap());
    });
    rig.advance(Nanos::secs(4));
    assert_eq!(ipv4(&mut rig, wire), Vec::<Vec<u8>>::new());
}
