//! A flood of packets for the router's local protocols disturbs no other traffic: a neighbour in use stays reachable, a new one is
//! resolved, and the router answers requests for its addresses.

use packet::event::NeighbourState;
use packet::wire::icmp4::{self, Echo};
use packet::wire::{
    Arp, ArpOperation, Ethernet, Ipv4, Ipv4Spec, Ipv6, Ipv6Spec, Ndp, ethernet, ethertype, icmp6, ipv6, ndp, protocol,
};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Instant, Mac, Nanos};

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["10.1.0.1/16", "2001:db8:1::1/64"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["10.2.0.1/16", "2001:db8:2::1/64"]
"#;

const LAN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const WAN: Mac = Mac([2, 0, 0, 0, 0, 2]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 0xaa]);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 0xbb]);
const NEWCOMER: Mac = Mac([2, 0, 0, 0, 0, 0xcc]);
/// Between two frames of a flood: 20,000 a second.
const GAP: Nanos = Nanos::micros(50);
/// Between two packets of a neighbour in use.
const BEAT: Nanos = Nanos::millis(10);

/// The address family of a test, and the hosts' addresses in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V4,
    V6,
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

impl Version {
    fn pick(self, four: &str, six: &str) -> IpAddr {
        if self == Version::V4 { v4(four).into() } else { v6(six).into() }
    }
    fn host(self) -> IpAddr {
        self.pick("10.1.0.7", "2001:db8:1::7")
    }
    fn peer(self) -> IpAddr {
        self.pick("10.2.0.7", "2001:db8:2::7")
    }
    fn newcomer(self) -> IpAddr {
        self.pick("10.2.0.99", "2001:db8:2::99")
    }
}

fn frame(to: Mac, from: Mac, kind: u16, l3: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 14];
    ethernet::write_header(&mut bytes, to, from, None, kind).unwrap();
    bytes.extend_from_slice(l3);
    bytes
}

/// A UDP packet without checksum; over IPv6 a packet of an experimental protocol.
fn packet(link: (Mac, Mac), ends: (IpAddr, IpAddr), ttl: u8) -> Vec<u8> {
    match ends {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ipv4(link, (source, destination), ttl, protocol::UDP, &[0, 9, 0, 9, 0, 8, 0, 0])
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => six(link, (source, destination), ttl, 253, &[0; 8]),
        _ => unreachable!("of one family"),
    }
}

fn ipv4(link: (Mac, Mac), (source, destination): (Ipv4Addr, Ipv4Addr), ttl: u8, protocol: u8, data: &[u8]) -> Vec<u8> {
    let spec =
        Ipv4Spec { type_of_service: 0, identification: 1, dont_fragment: false, ttl, protocol, source, destination };
    let mut bytes = vec![0; 20];
    spec.write(&mut bytes, data.len()).unwrap();
    bytes.extend_from_slice(data);
    frame(link.1, link.0, ethertype::IPV4, &bytes)
}

fn six(link: (Mac, Mac), (source, destination): (Ipv6Addr, Ipv6Addr), hop_limit: u8, next: u8, data: &[u8]) -> Vec<u8> {
    let spec = Ipv6Spec { traffic_class: 0, flow_label: 0, next_header: next, hop_limit, source, destination };
    let mut bytes = vec![0; 40];
    spec.write(&mut bytes, data.len()).unwrap();
    bytes.extend_from_slice(data);
    frame(link.1, link.0, ethertype::IPV6, &bytes)
}

/// A frame with an IPv6 packet that carries the message.
fn discovery(link: (Mac, Mac), write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    let length = write(&mut bytes).unwrap();
    frame(link.1, link.0, ethertype::IPV6, &bytes[..length])
}

/// The `n`th unknown sender: its addresses on the LAN, and its number.
struct Stranger {
    mac: Mac,
    four: Ipv4Addr,
    six: Ipv6Addr,
}

fn stranger(n: u32) -> Stranger {
    // Odd multipliers: no two of 2^15 successive hosts are equal.
    let host = n.wrapping_mul(40_503) as u16 | 0x100;
    let [a, b] = host.to_be_bytes();
    let [c, d, e, f] = n.wrapping_mul(2_654_435_761).to_be_bytes();
    Stranger {
        mac: Mac([6, c, d, e, f, a]),
        four: Ipv4Addr::new(10, 1, a, b),
        six: Ipv6Addr::new(
            0x2001,
            0xdb8,
            1,
            0,
            0x200,
            u16::from(c),
            u16::from_be_bytes([d, e]),
            u16::from_be_bytes([f, 1]),
        ),
    }
}

const KINDS: [&str; 19] = [
    "ARP requests of random senders",
    "ARP requests that say they come from a neighbour in use",
    "unsolicited ARP replies",
    "gratuitous ARP",
    "ARP requests of one sender without end",
    "neighbour solicitations",
    "solicitations of who looks whether an address is free",
    "unsolicited neighbour advertisements",
    "advertisements that say they were solicited",
    "router solicitations",
    "router advertisements",
    "echo requests to the router",
    "IPv6 echo requests to the router",
    "packets whose time to live runs out",
    "IPv6 packets whose hop limit runs out",
    "packets to stations that are not there",
    "IPv6 packets to stations that are not there",
    "fragments of packets that are never complete",
    "packets without a route",
];

fn of_flood(kind: &str, n: u32) -> Vec<u8> {
    let Stranger { mac, four, six: from } = stranger(n);
    let router = v4("10.1.0.1");
    let router6 = v6("2001:db8:1::1");
    let arp = |to: Mac, message: Arp| frame(to, message.sender_mac, ethertype::ARP, &message.to_bytes());
    let solicited = ipv6::solicited_node(router6);
    let solicit = |from: Ipv6Addr, mac: Mac| {
        discovery((mac, ipv6::multicast_mac(solicited)), |buffer| {
            ndp::write_neighbour_solicitation(buffer, from, solicited, router6, mac)
        })
    };
    let advertise = |solicited: bool| {
        let flags = ndp::NeighbourFlags { router: false, solicited, overrides: true };
        let (to, link) =
            if solicited { (router6, LAN) } else { (ipv6::ALL_NODES, ipv6::multicast_mac(ipv6::ALL_NODES)) };
        discovery((mac, link), |buffer| ndp::write_neighbour_advertisement(buffer, from, to, from, flags, mac))
    };
    let mut echo = vec![0; 64];
    let said = Echo { identifier: n as u16, sequence: 1, data: &[7; 16] };
    match kind {
        "ARP requests of random senders" => arp(Mac::BROADCAST, Arp::request(mac, four, router)),
        "ARP requests that say they come from a neighbour in use" => {
            arp(Mac::BROADCAST, Arp::request(HOST, v4("10.1.0.7"), router))
        }
        "unsolicited ARP replies" => arp(LAN, Arp::request(LAN, router, four).reply(mac)),
        "gratuitous ARP" => arp(Mac::BROADCAST, Arp::announcement(mac, four)),
        "ARP requests of one sender without end" => {
            arp(Mac::BROADCAST, Arp::request(stranger(0).mac, stranger(0).four, router))
        }
        "neighbour solicitations" => solicit(from, mac),
        "solicitations of who looks whether an address is free" => {
            let link = (mac, ipv6::multicast_mac(solicited));
            let write = |buffer: &mut [u8]| {
                // A solicitation from the unspecified address carries no link-layer address (RFC 4861 4.3).
                ndp::write_neighbour_solicitation(buffer, Ipv6Addr::UNSPECIFIED, solicited, router6, mac)
            };
            discovery(link, write)
        }
        "unsolicited neighbour advertisements" => advertise(false),
        "advertisements that say they were solicited" => advertise(true),
        "router solicitations" => {
            let link = (mac, ipv6::multicast_mac(ipv6::ALL_ROUTERS));
            discovery(link, |buffer| ndp::write_router_solicitation(buffer, from, mac))
        }
        "router advertisements" => {
            let message = packet::wire::RouterAdvertisement {
                parameters: ndp::RouterParameters { lifetime_s: 1800, ..ndp::RouterParameters::default() },
                mac: Some(mac),
                mtu: Some(1300),
                prefixes: &[],
                servers: &[],
                search: &[],
                dns_lifetime_s: 0,
            };
            let source = ipv6::link_local(mac);
            let link = (mac, ipv6::multicast_mac(ipv6::ALL_NODES));
            discovery(link, |buffer| message.write(buffer, source, ipv6::ALL_NODES))
        }
        "echo requests to the router" => {
            let length = icmp4::write_echo(&mut echo, icmp4::ECHO_REQUEST, &said).unwrap();
            ipv4((mac, LAN), (four, router), 64, protocol::ICMP, &echo[..length])
        }
        "IPv6 echo requests to the router" => {
            discovery((mac, LAN), |buffer| icmp6::write_echo(buffer, icmp6::ECHO_REQUEST, from, router6, 64, &said))
        }
        "packets whose time to live runs out" => packet((mac, LAN), (four.into(), Version::V4.peer()), 1),
        "IPv6 packets whose hop limit runs out" => packet((mac, LAN), (from.into(), Version::V6.peer()), 1),
        "packets to stations that are not there" => {
            let [_, _, a, b] = four.octets();
            packet((HOST, LAN), (Version::V4.host(), Ipv4Addr::new(10, 2, a, b).into()), 64)
        }
        "IPv6 packets to stations that are not there" => {
            let there = v6("2001:db8:2::").to_bits() | from.to_bits() & u128::from(u64::MAX);
            packet((HOST, LAN), (Version::V6.host(), Ipv6Addr::from_bits(there).into()), 64)
        }
        "fragments of packets that are never complete" => {
            let mut fragment = ipv4((mac, LAN), (four, router), 64, protocol::UDP, &[0; 16]);
            fragment[18..20].copy_from_slice(&(n as u16).to_be_bytes());
            // More fragments follow, which changes the checksum by as much.
            fragment[20] = 0x20;
            fragment[24..26].fill(0);
            let sum = packet::wire::checksum::checksum(&fragment[14..34]);
            fragment[24..26].copy_from_slice(&sum.to_be_bytes());
            fragment
        }
        "packets without a route" => packet((mac, LAN), (four.into(), v4("8.8.8.8").into()), 64),
        other => panic!("{other}"),
    }
}

/// A router between hosts that answer ARP and ND requests at once.
struct Town {
    rig: Rig,
    version: Version,
    /// Packets of the neighbours in use that arrived: at the peer, at the host, at the newcomer.
    arrived: [usize; 3],
    /// Requests for the peer, requests for the host, and answers to the host's own requests.
    questions: usize,
    answers: usize,
    start: Instant,
}

impl Town {
    fn new(version: Version) -> Town {
        let rig = Rig::running(8192, Layout::Three, CONFIG);
        let start = rig.now;
        let mut town = Town { rig, version, arrived: [0; 3], questions: 0, answers: 0, start };
        town.beat();
        town.run(Nanos::secs(3));
        town.arrived = [0; 3];
        town.questions = 0;
        town
    }

    /// The neighbours in use send a packet to each other.
    fn beat(&mut self) {
        let (host, peer) = (self.version.host(), self.version.peer());
        self.rig.send("lan", &packet((HOST, LAN), (host, peer), 64));
        self.rig.send("wan", &packet((PEER, WAN), (peer, host), 64));
        self.rig.settle();
        self.answer();
    }

    /// The hosts receive their packets and answer requests.
    fn answer(&mut self) {
        loop {
            let lan = self.rig.received("lan");
            let wan = self.rig.received("wan");
            if lan.is_empty() && wan.is_empty() {
                return;
            }
            lan.iter().for_each(|frame| self.receive("lan", frame));
            wan.iter().for_each(|frame| self.receive("wan", frame));
            self.rig.settle();
        }
    }

    fn receive(&mut self, wire: &str, bytes: &[u8]) {
        let link = Ethernet::parse(bytes).unwrap();
        let l3 = &bytes[link.payload..];
        let stations = [
            ("lan", HOST, self.version.host()),
            ("wan", PEER, self.version.peer()),
            ("wan", NEWCOMER, self.version.newcomer()),
        ];
        let here = |address: IpAddr| stations.iter().find(|(at, _, own)| *at == wire && *own == address).copied();
        match link.ethertype() {
            Some(ethertype::ARP) => {
                let message = Arp::parse(l3).unwrap();
                if message.operation == ArpOperation::Reply {
                    self.answers += usize::from(message.target_mac == HOST);
                } else if let Some((_, mac, _)) = here(message.target_ip.into()) {
                    self.questions += 1;
                    let reply = message.reply(mac);
                    self.rig.send(wire, &frame(message.sender_mac, mac, ethertype::ARP, &reply.to_bytes()));
                }
            }
            Some(ethertype::IPV4) => {
                let ip = Ipv4::parse(l3).unwrap();
                self.arrive(here(ip.header.destination().into()), ip.header.protocol() == protocol::UDP);
            }
            Some(ethertype::IPV6) => {
                let ip = Ipv6::parse(l3).unwrap();
                if ip.header.next_header() == protocol::ICMPV6
                    && let Ok(Ndp::NeighbourSolicitation { target, .. }) = Ndp::of(&ip)
                    && let Some((_, mac, _)) = here(target.into())
                {
                    self.questions += 1;
                    let (router, to) = (ip.header.source(), link.source);
                    let flags = ndp::NeighbourFlags { router: false, solicited: true, overrides: true };
                    let reply = discovery((mac, to), |buffer| {
                        ndp::write_neighbour_advertisement(buffer, target, router, target, flags, mac)
                    });
                    self.rig.send(wire, &reply);
                } else if let Ok(Ndp::NeighbourAdvertisement { .. }) = Ndp::of(&ip) {
                    self.answers += usize::from(link.destination == HOST);
                } else {
                    self.arrive(here(ip.header.destination().into()), ip.header.next_header() == 253);
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn arrive(&mut self, station: Option<(&str, Mac, IpAddr)>, data: bool) {
        let all = [PEER, HOST, NEWCOMER];
        if let Some((_, mac, _)) = station.filter(|_| data) {
            let place = all.iter().position(|one| *one == mac).unwrap();
            self.arrived[place] += 1;
        }
    }

    /// Lets time pass; the hosts answer at once.
    fn run(&mut self, span: Nanos) {
        let end = self.rig.now + span;
        while self.rig.now < end {
            let step = Nanos::millis(1).min(end.since(self.rig.now));
            self.rig.advance(step);
            self.answer();
        }
    }

    /// The times of the next probes of both neighbours in use, counted from the start.
    fn probes(version: Version) -> (Nanos, Nanos) {
        let mut town = Town::new(version);
        let mut at = Vec::new();
        while at.len() < 2 {
            let before = town.questions;
            town.run(Nanos::millis(1));
            at.extend((before..town.questions).map(|_| town.rig.now.since(town.start)));
            assert!(town.rig.now.since(town.start) < Nanos::secs(60), "neighbours in use are asked");
        }
        (at[0], at[1])
    }

    /// The host requests the router's address, as a host does whose entry is stale.
    fn ask(&mut self) {
        let (host, router) = (self.version.host(), self.version.pick("10.1.0.1", "2001:db8:1::1"));
        let question = match (host, router) {
            (IpAddr::V4(host), IpAddr::V4(router)) => {
                frame(LAN, HOST, ethertype::ARP, &Arp::request(HOST, host, router).to_bytes())
            }
            (IpAddr::V6(host), IpAddr::V6(router)) => {
                discovery((HOST, LAN), |buffer| ndp::write_neighbour_solicitation(buffer, host, router, router, HOST))
            }
            _ => unreachable!("of one family"),
        };
        self.rig.send("lan", &question);
    }
}

/// Floods the router around the probe of a neighbour in use.
fn undisturbed(version: Version, kind: &str, probe: Nanos) {
    let mut town = Town::new(version);
    let begin = town.start + probe + Nanos::millis(1) - Nanos::millis(400);
    let quiet = begin.since(town.rig.now);
    town.run(quiet);
    let (mut n, mut sent, mut fresh, mut asked) = (0u32, 0, 0, 0);
    let questions = town.questions;
    let mut beat = begin;
    while town.rig.now < begin + Nanos::millis(800) {
        // First evenly spaced frames, which use up every token of a limit; then bursts, as interfaces deliver them.
        let burst = if n < 10_000 { 1 } else { 100 };
        for _ in 0..burst {
            town.rig.send("lan", &of_flood(kind, n));
            n += 1;
        }
        town.rig.advance(GAP * burst);
        town.answer();
        if town.rig.now >= beat {
            beat += BEAT;
            town.beat();
            sent += 1;
            if n >= 12_000 {
                // The first packet to a host that was silent so far.
                let ends = (version.host(), version.newcomer());
                town.rig.send("lan", &packet((HOST, LAN), ends, 64));
                fresh += 1;
            }
            if n % 1000 == 0 {
                town.ask();
                asked += 1;
            }
        }
    }
    town.rig.settle();
    town.answer();
    assert!(town.questions - questions >= 2, "{kind}: the moment was met, and the newcomer was asked for");
    assert_eq!(town.arrived, [sent, sent, fresh], "{version:?}, {kind}: at the peer, the host, the newcomer");
    assert!(asked > 5 && town.answers >= asked, "{version:?}, {kind}: {} answers to {asked} questions", town.answers);
    // A neighbour whose answer was lost would be probed again, and removed after three probes.
    for neighbour in [version.host(), version.peer(), version.newcomer()] {
        let known = town.rig.report().neighbours.into_iter().find(|known| known.address == neighbour);
        let state = known.map(|known| known.state);
        assert_eq!(state, Some(NeighbourState::Reachable), "{version:?}, {kind}: {neighbour}");
    }
}

#[test]
fn no_flood_of_local_protocols_disturbs_neighbours_in_use() {
    for version in [Version::V4, Version::V6] {
        let (first, second) = Town::probes(version);
        for kind in KINDS {
            undisturbed(version, kind, first);
        }
        // The same at the probe of the other neighbour in use.
        for kind in [KINDS[0], KINDS[5]] {
            undisturbed(version, kind, second);
        }
    }
}
