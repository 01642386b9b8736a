//! Packets for programs of the machine, and packets that they send.

use crate::random::{Chance, frame as random_frame, seeds};
use etherparse::PacketBuilder;
use packet::wire::{Arp, ArpOperation, Ethernet, PacketFields, ethernet, ethertype};
use plan::PuntedProtocol::{self, Arp as ArpPackets, Bgp, Discovery, Icmp, Isis, Lldp, Membership, Ospf, Other};
use plane::punt::{PuntedFrame, protocol_of};
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::{InterfaceId, Mac, Nanos};

const CONFIG: &str = "
version = 1
[port.lan]
device = 'memory:lan'
mac = '02:00:00:00:00:01'
address = ['192.0.2.1/24', '2001:db8::1/64']
vlan.20 = { address = ['198.51.100.1/24'] }
[port.wan]
device = 'memory:wan'
mac = '02:00:00:00:00:02'
[port.spare]
device = 'memory:spare'
mac = '02:00:00:00:00:03'
address = ['203.0.113.1/24']
";
const LAN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn rig(linux: &str) -> Rig {
    Rig::running(4096, Layout::Three, &format!("{CONFIG}{linux}"))
}

fn interface(rig: &Rig, name: &str) -> InterfaceId {
    rig.router.snapshot().interface_named(name).unwrap().id
}

fn ethernet(destination: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&destination[..], &HOST.0, &kind.to_be_bytes(), payload].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn tcp(destination: [u8; 4], ttl: u8, port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet =
        PacketBuilder::ethernet2(HOST.0, LAN.0).ipv4([192, 0, 2, 9], destination, ttl).tcp(40_000, port, 1, 100);
    packet.write(&mut frame, &[]).unwrap();
    frame
}

/// An IP packet of a protocol without a builder.
fn ipv4(link: [u8; 6], destination: [u8; 4], protocol: u8) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(HOST.0, link).ipv4([192, 0, 2, 9], destination, 1);
    builder.write(&mut frame, protocol.into(), &[1; 24]).unwrap();
    frame
}

fn echo(destination: [u8; 4], is_request: bool) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(HOST.0, LAN.0).ipv4([192, 0, 2, 9], destination, 64);
    let builder = if is_request { builder.icmpv4_echo_request(1, 1) } else { builder.icmpv4_echo_reply(1, 1) };
    builder.write(&mut frame, &[7; 20]).unwrap();
    frame
}

fn arp(operation: ArpOperation, target: [u8; 4]) -> Vec<u8> {
    let message = Arp {
        operation,
        sender_mac: HOST,
        sender_ip: Ipv4Addr::new(192, 0, 2, 9),
        target_mac: LAN,
        target_ip: target.into(),
    };
    let to = if operation == ArpOperation::Request { [0xff; 6] } else { LAN.0 };
    ethernet(to, ethertype::ARP, &message.to_bytes())
}

/// The frames that the kernel has got.
fn punted(rig: &Rig) -> Vec<PuntedFrame> {
    std::iter::from_fn(|| rig.router.punt().next_for_kernel()).collect()
}

/// Sends a frame, and returns what the kernel and what the sender's link get.
fn exchange(rig: &mut Rig, wire: &str, frame: &[u8]) -> (Vec<PuntedFrame>, Vec<Vec<u8>>) {
    rig.send(wire, frame);
    rig.settle();
    (punted(rig), rig.received(wire))
}

#[test]
fn packets_without_use_for_the_router_go_to_the_kernel_unchanged() {
    let mut rig = rig("[linux]\n");
    let lan = interface(&rig, "lan");
    let llc = ethernet([1, 0x80, 0xc2, 0, 0, 0x14], 60, &[0xfe, 0xfe, 3, 0x83, 1, 2, 3]);
    for (frame, protocol) in [
        (tcp([192, 0, 2, 1], 1, 179), Bgp),
        (tcp([192, 0, 2, 1], 64, 22), Other),
        // To the address of another interface.
        (tcp([203, 0, 113, 1], 64, 22), Other),
        (ipv4([1, 0, 0x5e, 0, 0, 5], [224, 0, 0, 5], 89), Ospf),
        (ipv4(LAN.0, [192, 0, 2, 1], 89), Ospf),
        (ipv4([1, 0, 0x5e, 0, 0, 22], [224, 0, 0, 22], 2), Membership),
        (ipv4([1, 0, 0x5e, 1, 1, 1], [239, 1, 1, 1], 2), Membership),
        (ipv4([0xff; 6], [255, 255, 255, 255], 200), Other),
        (ipv4([0xff; 6], [192, 0, 2, 255], 200), Other),
        (echo([192, 0, 2, 1], false), Icmp),
        (arp(ArpOperation::Reply, [192, 0, 2, 1]), ArpPackets),
        (ethernet([1, 0x80, 0xc2, 0, 0, 0xe], 0x88cc, &[2, 7]), Lldp),
        (llc, Isis),
    ] {
        let (kernel, answers) = exchange(&mut rig, "lan", &frame);
        assert_eq!(protocol_of(&frame), protocol);
        let [only] = &kernel[..] else { panic!("{protocol}: {} frames", kernel.len()) };
        let length = PacketFields::of(&frame)
            .map_or(frame.len(), |fields| fields.l3_offset + usize::from(u16::from_be_bytes([frame[16], frame[17]])));
        assert_eq!((only.interface, &only.bytes[..]), (lan, &frame[..length]), "{protocol}");
        assert!(answers.is_empty(), "{protocol}: nobody else answers");
    }
    let report = rig.report();
    assert_eq!((report.ledger.dropped(), report.held_packets), (0, 0));
    let counters = rig.router.punt().counters();
    assert_eq!(counters[Ospf as usize].punted, 2);
    assert_eq!(counters[Membership as usize].punted, 2);
}

#[test]
fn either_the_router_or_the_kernel_answers() {
    for (linux, kernel_answers) in [("[linux]\n", false), ("[linux]\nanswer = 'kernel'\n", true)] {
        let mut rig = rig(linux);
        for frame in [arp(ArpOperation::Request, [192, 0, 2, 1]), echo([192, 0, 2, 1], true)] {
            let (kernel, answers) = exchange(&mut rig, "lan", &frame);
            // The answer to the ping may be preceded by the router's own ARP request.
            let counts = (kernel.len(), !answers.is_empty());
            assert_eq!(counts, if kernel_answers { (1, false) } else { (0, true) }, "{linux}");
        }
    }
}

#[test]
fn interface_without_an_address_passes_everything_for_a_dhcp_client() {
    let mut rig = rig("[linux]\n");
    let mut discover = UdpFrame::between_ports(68, 67).frame(&[1, 1, 6, 0]);
    discover[..6].fill(0xff);
    let (kernel, _) = exchange(&mut rig, "wan", &discover);
    assert_eq!(kernel.len(), 1);
    assert_eq!(kernel[0].interface, interface(&rig, "wan"));
    assert_eq!(protocol_of(&kernel[0].bytes), PuntedProtocol::Dhcp);
}

#[test]
fn ports_without_an_interface_in_the_kernel_drop_as_before() {
    for linux in ["", "[linux]\nenabled = false\n", "[linux]\nports = ['wan', 'spare']\n"] {
        let mut rig = rig(linux);
        let hello = ipv4([1, 0, 0x5e, 0, 0, 5], [224, 0, 0, 5], 89);
        let (kernel, answers) = exchange(&mut rig, "lan", &hello);
        assert!(kernel.is_empty() && answers.is_empty(), "{linux}");
        assert_eq!(rig.report().ledger.dropped(), 1, "{linux}");
        let (kernel, answers) = exchange(&mut rig, "lan", &tcp([192, 0, 2, 1], 64, 22));
        assert!(kernel.is_empty(), "{linux}");
        assert!(!answers.is_empty(), "{linux}: the router resets the connection, or asks for its sender");
    }
}

#[test]
fn vlans_lose_their_tag_on_the_way_to_the_kernel_and_get_it_back() {
    let mut rig = rig("[linux]\n");
    let vlan = interface(&rig, "lan.20");
    let plain = ipv4([1, 0, 0x5e, 0, 0, 5], [224, 0, 0, 5], 89);
    let tagged = [&plain[..12], &ethernet::tag(20), &plain[12..]].concat();
    let (kernel, _) = exchange(&mut rig, "lan", &tagged);
    assert_eq!(kernel, [PuntedFrame { interface: vlan, bytes: plain.clone().into() }]);
    assert!(rig.router.punt().inject(kernel[0].clone()));
    rig.settle();
    assert_eq!(rig.received("lan"), [tagged]);
}

#[test]
fn injected_frames_leave_by_their_interface_as_they_are() {
    let mut rig = rig("[linux]\n");
    let (lan, wan) = (interface(&rig, "lan"), interface(&rig, "wan"));
    // A time to live of 1, and a protocol that the router does not know.
    let hello = ipv4([1, 0, 0x5e, 0, 0, 5], [224, 0, 0, 5], 89);
    let lldp = ethernet([1, 0x80, 0xc2, 0, 0, 0xe], 0x88cc, &[2, 7]);
    for (interface, frame) in [(lan, &hello), (wan, &lldp), (wan, &hello)] {
        assert!(rig.router.punt().inject(PuntedFrame { interface, bytes: frame.clone().into() }));
    }
    // Of an interface that does not exist, and a runt.
    assert!(rig.router.punt().inject(PuntedFrame { interface: InterfaceId(999), bytes: hello.clone().into() }));
    assert!(rig.router.punt().inject(PuntedFrame { interface: wan, bytes: [1, 2, 3].into() }));
    rig.settle();
    assert_eq!(rig.received("lan"), std::slice::from_ref(&hello));
    assert_eq!(rig.received("wan")[..2], [lldp, hello]);
    assert_eq!(rig.router.punt().counters()[Ospf as usize].injected, 3);
    assert_eq!(rig.report().held_packets, 0);
}

#[test]
fn flood_of_one_protocol_neither_reaches_the_kernel_nor_delays_another() {
    let mut rig = rig("[linux]\nlimits = ['other 1000pps']\n");
    let (flood, bgp) = (tcp([192, 0, 2, 1], 64, 22), tcp([192, 0, 2, 1], 255, 179));
    // Credit is bounded by the time since the start of the clock.
    rig.advance(Nanos::secs(1));
    let mut kernel = Vec::new();
    // A hundred thousand packets a second for a tenth of a second, and a BGP packet each millisecond.
    for _ in 0..100 {
        for _ in 0..100 {
            rig.send("lan", &flood);
        }
        rig.send("lan", &bgp);
        rig.advance(Nanos::millis(1));
        kernel.extend(punted(&rig));
        rig.received("lan");
    }
    let of = |protocol| kernel.iter().filter(|frame| protocol_of(&frame.bytes) == protocol).count();
    assert_eq!(of(Bgp), 100, "no packet of BGP is lost");
    // One source has a quarter of the limit: a tenth of a second's packets at once, and a tenth of a second.
    assert!((48..=53).contains(&of(Other)), "{}", of(Other));
    let counters = rig.router.punt().counters()[Other as usize];
    assert_eq!(counters.punted + counters.limited, 10_000);
    let report = rig.report();
    assert_eq!(report.ledger.dropped(), counters.limited);
}

#[test]
fn neighbour_advertisements_reach_both() {
    let mut rig = rig("[linux]\n");
    let host = "2001:db8::9".parse::<std::net::Ipv6Addr>().unwrap();
    // Type, code, checksum, flags, target, and the option with the link-layer address (RFC 4861 4.4).
    let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    message.extend(host.octets());
    message.extend([2, 1]);
    message.extend(HOST.0);
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(HOST.0, LAN.0)
        .ipv6(host.octets(), "2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets(), 255)
        .icmpv6_raw(136, 0, [0x60, 0, 0, 0]);
    builder.write(&mut frame, &message[8..]).unwrap();
    let (kernel, _) = exchange(&mut rig, "lan", &frame);
    assert_eq!(kernel.len(), 1);
    assert_eq!(protocol_of(&kernel[0].bytes), Discovery);
}

#[test]
fn random_frames_keep_the_ledger() {
    let mut rig = rig("[linux]\n");
    let (seeds, mut chance) = (seeds(), Chance(5));
    let ids = [interface(&rig, "lan"), interface(&rig, "lan.20"), InterfaceId(77)];
    for round in 0..200 {
        for _ in 0..20 {
            let station = [LAN.0, [0xff; 6], [1, 0, 0x5e, 0, 0, 5], [0x33, 0x33, 0, 0, 0, 1]][chance.below(4)];
            let bytes = random_frame(station, &seeds, &mut chance);
            match chance.below(3) {
                0 => {
                    let frame = PuntedFrame { interface: ids[chance.below(3)], bytes: bytes.into() };
                    assert!(rig.router.punt().inject(frame), "the queue is emptied each round");
                }
                _ => rig.send("lan", &bytes),
            }
        }
        rig.advance(Nanos::millis(5));
        for frame in punted(&rig) {
            assert!(frame.interface == ids[0] || frame.interface == ids[1]);
            assert!(Ethernet::parse(&frame.bytes).is_ok());
        }
        for wire in ["lan", "wan", "spare"] {
            rig.received(wire);
        }
        let report = rig.report();
        assert!(report.ledger.received() > 0, "round {round}");
    }
}
