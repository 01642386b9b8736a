//! Address and port translation in a whole router.

use classifier::{SetEdit, SetElement};
use nat::ConnectionKind;
use packet::DropReason;
use packet::pool::{Offload, PartialChecksum};
use packet::port::Offloads;
use packet::wire::checksum::Sum;
use packet::wire::{Icmp4, Ipv4, icmp4, transport};
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::{Instant, Mac, Nanos};

const PORTS: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.168.1.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["203.0.113.1/24"]
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
to = "0.0.0.0/0"
via = "203.0.113.9"
[[path]]
name = "home"
match = "any"
functions = ["nat", "ip"]
"#;

const INSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 7);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 8);
const OURS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 5);
const LAN: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 0x17]), Mac([2, 0, 0, 0, 0, 1]));
const WAN: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 0x29]), Mac([2, 0, 0, 0, 0, 2]));

type Socket = (Ipv4Addr, u16);

fn config(nat: &str) -> String {
    format!("{PORTS}[nat]\noutside = \"wan\"\n{nat}\n")
}

fn home(nat: &str) -> Rig {
    Rig::running(1024, Layout::Three, &config(nat))
}

/// A packet of `protocol` with correct checksums; `byte` is TCP's flags or ICMP's type.
fn ip(link: (Mac, Mac), protocol: u8, (from, to): (Socket, Socket), byte: u8, ttl: u8) -> Vec<u8> {
    let mut frame = UdpFrame { link, network: (from.0, to.0), ports: (from.1, to.1), ttl, length: 74 }.frame(&[]);
    frame[23] = protocol;
    frame[24..26].fill(0);
    let sum = packet::wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    match protocol {
        6 => {
            frame[38..46].fill(0);
            (frame[46], frame[47]) = (5 << 4, byte);
            frame[50..52].fill(0);
        }
        1 => {
            frame[34..38].copy_from_slice(&[byte, 0, 0, 0]);
            frame[38..40].copy_from_slice(&(from.1 | to.1).to_be_bytes());
        }
        _ => {}
    }
    let message = frame[34..].to_vec();
    let (at, sum) = match protocol {
        1 => (36, packet::wire::checksum::checksum(&message)),
        6 => (50, transport::transport_checksum(from.0.into(), to.0.into(), 6, &message)),
        _ => (40, transport::transport_checksum(from.0.into(), to.0.into(), 17, &message)),
    };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn udp(link: (Mac, Mac), from: Socket, to: Socket) -> Vec<u8> {
    ip(link, 17, (from, to), 0, 64)
}

/// Source and destination of a frame, after its checksums are verified.
fn ends(frame: &[u8]) -> (Socket, Socket) {
    let parsed = Ipv4::parse(&frame[14..]).expect("a sound header");
    let (from, to) = (parsed.header.source(), parsed.header.destination());
    let word = |at: usize| u16::from_be_bytes([parsed.payload[at], parsed.payload[at + 1]]);
    let ports = match parsed.header.protocol() {
        1 => {
            Icmp4::parse(parsed.payload).expect("a right checksum");
            let id = word(4);
            if parsed.payload[0] == icmp4::ECHO_REQUEST { (id, 0) } else { (0, id) }
        }
        protocol => {
            assert_eq!(transport::transport_checksum(from.into(), to.into(), protocol, parsed.payload), 0);
            (word(0), word(2))
        }
    };
    ((from, ports.0), (to, ports.1))
}

/// Sends a frame on `from`. Returns source and destination of the packets that leave on `to`.
fn through(rig: &mut Rig, (from, to): (&str, &str), frame: &[u8]) -> Vec<(Socket, Socket)> {
    rig.send(from, frame);
    rig.settle();
    // Skip the router's own neighbour requests and announcements.
    let ipv4 = |frame: &&Vec<u8>| frame[12..14] == [8, 0];
    rig.received(to).iter().filter(ipv4).map(|frame| ends(frame)).collect()
}

fn drops(rig: &Rig, reason: DropReason) -> u64 {
    rig.report().ledger.dropped_for(reason)
}

#[test]
fn outgoing_packets_get_the_outside_address_and_answers_reach_the_inside_host() {
    for (protocol, to) in [(17, 53), (6, 80), (1, 0)] {
        let mut rig = home("");
        let (inside, peer) = ((INSIDE, 4000), (PEER, to));
        let out = ip(LAN, protocol, (inside, peer), if protocol == 1 { icmp4::ECHO_REQUEST } else { 2 }, 64);
        assert_eq!(through(&mut rig, ("lan", "wan"), &out), [((OURS, 4000), peer)]);
        let back = ip(WAN, protocol, (peer, (OURS, 4000)), if protocol == 1 { 0 } else { 0x12 }, 64);
        assert_eq!(through(&mut rig, ("wan", "lan"), &back), [(peer, inside)]);
        // Another host with the same source port gets another outside port.
        let out = ip(LAN, protocol, ((OTHER, 4000), peer), if protocol == 1 { icmp4::ECHO_REQUEST } else { 2 }, 64);
        let [((from, port), _)] = through(&mut rig, ("lan", "wan"), &out)[..] else { panic!("it leaves") };
        assert!(from == OURS && port != 4000 && port % 2 == 0, "{from}:{port}");
    }
}

#[test]
fn mapping_is_endpoint_independent_and_filtering_address_dependent() {
    let mut rig = home("");
    let second = (Ipv4Addr::new(198, 51, 100, 6), 53);
    for peer in [(PEER, 53), second] {
        let out = through(&mut rig, ("lan", "wan"), &udp(LAN, (INSIDE, 4000), peer));
        assert_eq!(out, [((OURS, 4000), peer)]);
    }
    let stranger = (Ipv4Addr::new(198, 51, 100, 7), 53);
    assert_eq!(through(&mut rig, ("wan", "lan"), &udp(WAN, stranger, (OURS, 4000))), []);
    let mut rig = home("endpoint_independent_filtering = true");
    through(&mut rig, ("lan", "wan"), &udp(LAN, (INSIDE, 4000), (PEER, 53)));
    assert_eq!(through(&mut rig, ("wan", "lan"), &udp(WAN, stranger, (OURS, 4000))), [(stranger, (INSIDE, 4000))]);
}

#[test]
fn paths_choose_by_prefixes_and_sets_which_packets_are_translated() {
    let branch = (Ipv4Addr::new(172, 16, 5, 5), 53);
    let text = config("").replace(
        "[[path]]\nname = \"home\"\nmatch = \"any\"\nfunctions = [\"nat\", \"ip\"]\n",
        "[set.vpn]\nelements = [\"172.16.0.0/12\"]\n\
         [[path]]\nname = \"vpn\"\nmatch = \"ip daddr @vpn\"\n\
         [[path]]\nname = \"outgoing\"\nmatch = \"ip saddr 192.168.1.0/29\"\nfunctions = [\"nat\", \"ip\"]\n\
         [[path]]\nname = \"incoming\"\nmatch = \"iif wan ip daddr 203.0.113.1\"\nfunctions = [\"nat\", \"ip\"]\n",
    );
    let mut rig = Rig::running(1024, Layout::Three, &text);
    // Within the prefix, but not towards the set.
    let out = through(&mut rig, ("lan", "wan"), &udp(LAN, (INSIDE, 4000), (PEER, 53)));
    assert_eq!(out, [((OURS, 4000), (PEER, 53))]);
    let back = through(&mut rig, ("wan", "lan"), &udp(WAN, (PEER, 53), (OURS, 4000)));
    assert_eq!(back, [((PEER, 53), (INSIDE, 4000))]);
    let plain = through(&mut rig, ("lan", "wan"), &udp(LAN, (INSIDE, 4000), branch));
    assert_eq!(plain, [((INSIDE, 4000), branch)]);
    assert_eq!(through(&mut rig, ("wan", "lan"), &udp(WAN, branch, (INSIDE, 4000))), [(branch, (INSIDE, 4000))]);
    // Outside of the prefix.
    let plain = through(&mut rig, ("lan", "wan"), &udp(LAN, (OTHER, 4000), (PEER, 53)));
    assert_eq!(plain, [((OTHER, 4000), (PEER, 53))]);
    // A changed set decides for the next packet: a new element ends translation towards it, a removed one begins it.
    let element = |text: &str| -> plan::SetValue { text.parse().unwrap() };
    let add = SetEdit::Add(SetElement { value: element("198.51.100.0/24"), expires: Instant::NEVER });
    rig.router.sets().edit("vpn", [add, SetEdit::Remove(element("172.16.0.0/12"))], Instant::START).unwrap();
    let plain = through(&mut rig, ("lan", "wan"), &udp(LAN, (INSIDE, 4000), (PEER, 53)));
    assert_eq!(plain, [((INSIDE, 4000), (PEER, 53))]);
    let out = through(&mut rig, ("lan", "wan"), &udp(LAN, (INSIDE, 4000), branch));
    assert_eq!(out, [((OURS, 4000), branch)]);
}

#[test]
fn forwarded_port_works_from_outside_and_inside() {
    let mut rig = home("forward = [\"udp 8080 to 192.168.1.8:80\"]");
    let peer = (PEER, 999);
    assert_eq!(through(&mut rig, ("wan", "lan"), &udp(WAN, peer, (OURS, 8080))), [(peer, (OTHER, 80))]);
    assert_eq!(through(&mut rig, ("lan", "wan"), &udp(LAN, (OTHER, 80), peer)), [((OURS, 8080), peer)]);
    // Hairpinning: from inside to the outside address, and back.
    let hairpin = through(&mut rig, ("lan", "lan"), &udp(LAN, (INSIDE, 5000), (OURS, 8080)));
    assert_eq!(hairpin, [((OURS, 5000), (OTHER, 80))]);
    let back = through(&mut rig, ("lan", "lan"), &udp(LAN, (OTHER, 80), (OURS, 5000)));
    assert_eq!(back, [((OURS, 8080), (INSIDE, 5000))]);
}

#[test]
fn packets_to_the_router_itself_are_not_translated() {
    let mut rig = home("");
    let ask = ip(WAN, 1, ((PEER, 7), (OURS, 0)), icmp4::ECHO_REQUEST, 64);
    assert_eq!(through(&mut rig, ("wan", "wan"), &ask), [((OURS, 0), (PEER, 7))]);
}

/// The router completes a partial checksum before it verifies it, also behind translation.
#[test]
fn closed_router_ports_are_refused_with_any_pending_offload() {
    let lan_router = Ipv4Addr::new(192, 168, 1, 1);
    for (wire, link, from, to) in
        [("wan", WAN, PEER, OURS), ("lan", LAN, INSIDE, OURS), ("lan", LAN, INSIDE, lan_router)]
    {
        for (protocol, field) in [(6u8, 16u16), (17, 6)] {
            for partial in [false, true] {
                let takes = Offloads { super_frames: false, checksums: true, gather: false };
                let mut rig = Rig::offloading(1024, Layout::Three, &config(""), &[(wire, takes)]);
                let mut frame = ip(link, protocol, ((from, 4000), (to, 81)), 2, 64);
                let mut offload = Offload::NONE;
                if partial {
                    let length = (frame.len() - 34) as u16;
                    let pseudo = Sum::new().pseudo4(from, to, protocol, length).folded();
                    let at = 34 + usize::from(field);
                    frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
                    offload.checksum = Some(PartialChecksum { start: 34, offset: field });
                }
                rig.send_as(wire, &frame, offload);
                rig.settle();
                let mut answers = rig.received(wire);
                answers.retain(|frame| frame[12..14] == [8, 0]);
                let name = format!("{protocol} to {to} by {wire}, partial: {partial}");
                assert_eq!(answers.len(), 1, "{name}: {:?}", rig.report().ledger.drops().collect::<Vec<_>>());
                match protocol {
                    6 => {
                        assert_eq!(ends(&answers[0]), ((to, 81), (from, 4000)), "{name}");
                        assert_eq!(answers[0][47], 0x14, "{name}: a reset that acknowledges");
                    }
                    _ => {
                        assert_eq!(answers[0][34..36], [icmp4::UNREACHABLE, 3], "{name}: port unreachable");
                    }
                }
            }
        }
    }
}

#[test]
fn connections_survive_a_reload_until_their_timeout() {
    let mut rig = home("udp = \"100s\"");
    let (inside, peer) = ((INSIDE, 4000), (PEER, 53));
    through(&mut rig, ("lan", "wan"), &udp(LAN, inside, peer));
    let back = udp(WAN, peer, (OURS, 4000));
    for change in ["queue = 64", "functions = [\"spin(cost=1us)\", \"nat\", \"ip\"]", "class = 3"] {
        let base = config("udp = \"100s\"");
        let changed = match change.starts_with("functions") {
            true => base.replace("functions = [\"nat\", \"ip\"]", change),
            false => base.replace("match = \"any\"", &format!("match = \"any\"\n{change}")),
        };
        rig.apply(&changed).unwrap();
        rig.settle();
        rig.received("lan");
        assert_eq!(through(&mut rig, ("wan", "lan"), &back), [(peer, inside)], "{change}");
    }
    rig.advance(Nanos::secs(99));
    assert_eq!(through(&mut rig, ("wan", "lan"), &back), [(peer, inside)]);
    rig.advance(Nanos::secs(101));
    rig.received("lan");
    assert_eq!(through(&mut rig, ("wan", "lan"), &back), []);
}

#[test]
fn icmp_error_about_a_translated_packet_reaches_its_sender_untranslated() {
    let mut rig = home("");
    let out = udp(LAN, (INSIDE, 4000), (PEER, 53));
    rig.send("lan", &out);
    rig.settle();
    let left = rig.received("wan").remove(0);
    let router = Ipv4Addr::new(198, 51, 100, 77);
    let mut error = ip(WAN, 1, ((router, 0), (OURS, 0)), icmp4::TIME_EXCEEDED, 64);
    error.truncate(42);
    error.extend(&left[14..]);
    let length = (error.len() - 14) as u16;
    error[16..18].copy_from_slice(&length.to_be_bytes());
    error[24..26].fill(0);
    let sum = packet::wire::checksum::checksum(&error[14..34]);
    error[24..26].copy_from_slice(&sum.to_be_bytes());
    error[36..38].fill(0);
    let sum = packet::wire::checksum::checksum(&error[34..]);
    error[36..38].copy_from_slice(&sum.to_be_bytes());
    rig.send("wan", &error);
    rig.settle();
    let came = rig.received("lan").remove(0);
    let parsed = Ipv4::parse(&came[14..]).unwrap();
    assert_eq!((parsed.header.source(), parsed.header.destination()), (router, INSIDE));
    let Ok(Icmp4::TimeExceeded { original, .. }) = Icmp4::parse(parsed.payload) else { panic!("a right checksum") };
    // Forwarding changed only the TTL and the header checksum.
    assert_eq!(original[12..], out[26..], "the packet as its sender knows it");
    assert!(Ipv4::parse(original).is_ok(), "with a header checksum that is right");
}

#[test]
fn an_icmp_error_quotes_an_expired_packet_as_received() {
    let mut rig = home("forward = [\"udp 8080 to 192.168.1.8:80\"]");
    rig.send("wan", &ip(WAN, 17, ((PEER, 9), (OURS, 8080)), 0, 1));
    rig.settle();
    let told = rig.received("wan").remove(0);
    let parsed = Ipv4::parse(&told[14..]).unwrap();
    let Ok(Icmp4::TimeExceeded { original, .. }) = Icmp4::parse(parsed.payload) else { panic!("its sender is told") };
    assert_eq!(original[16..20], OURS.octets());
}

#[test]
fn fragments_follow_the_first_of_their_packet() {
    let mut rig = home("");
    let mut first = udp(LAN, (INSIDE, 4000), (PEER, 53));
    let mut second = first.clone();
    for (frame, fragment) in [(&mut first, [0x20, 0]), (&mut second, [0, 5])] {
        frame[20..22].copy_from_slice(&fragment);
        frame[24..26].fill(0);
        let sum = packet::wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    rig.send("lan", &first);
    rig.send("lan", &second);
    rig.settle();
    let left = rig.received("wan");
    assert_eq!(left.len(), 2);
    for frame in left {
        assert_eq!(Ipv4::parse(&frame[14..]).unwrap().header.source(), OURS);
    }
}

#[test]
fn every_nat_limit_has_a_drop_reason() {
    // Established TCP is never evicted.
    let establish = |rig: &mut Rig, host: Ipv4Addr, from: u16, to: u16| {
        rig.send("lan", &ip(LAN, 6, ((host, from), (PEER, to)), 2, 64));
        rig.settle();
        let Some(left) = rig.received("wan").into_iter().find(|frame| frame[12..14] == [8, 0]) else { return false };
        let ours = ends(&left).0;
        rig.send("wan", &ip(WAN, 6, ((PEER, to), ours), 0x12, 64));
        rig.send("lan", &ip(LAN, 6, ((host, from), (PEER, to)), 0x10, 64));
        rig.settle();
        rig.received("wan");
        true
    };
    let mut rig = home("connections = 16\nports = \"2000-2007\"\nper_host = 12");
    let made = (0..12).filter(|from| establish(&mut rig, INSIDE, 3000 + from, 80)).count();
    assert_eq!((made, drops(&rig, DropReason::NatPorts)), (8, 4));
    let made = (0..12).filter(|to| establish(&mut rig, INSIDE, 3000, 100 + to)).count();
    assert_eq!((made, drops(&rig, DropReason::NatHost)), (4, 8));
    let mut rig = home("connections = 16\nper_host = 12");
    let made = (0..12).filter(|from| establish(&mut rig, INSIDE, 3000 + from, 80)).count();
    let others = (0..12).filter(|from| establish(&mut rig, OTHER, 3000 + from, 80)).count();
    assert_eq!((made, others, drops(&rig, DropReason::NatTable)), (12, 4, 8));
    rig.send("lan", &ip(LAN, 47, ((INSIDE, 1), (PEER, 1)), 0, 64));
    rig.settle();
    assert_eq!(drops(&rig, DropReason::NatUnsupported), 1);
}

#[test]
fn tcp_connections_go_through_their_states() {
    let mut rig = home("");
    let ends = ((INSIDE, 4000), (PEER, 80));
    let back = ((PEER, 80), (OURS, 4000));
    let state = |rig: &Rig| {
        let translations = &rig.router.snapshot().translations;
        translations.with(|state| state.table.iter().next().map(|c| (c.kind, c.replied))).unwrap()
    };
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    const FIN: u8 = 1;
    for (outbound, flags, expected) in [
        (true, SYN, (ConnectionKind::Opening, false)),
        (false, SYN | ACK, (ConnectionKind::Opening, true)),
        (true, ACK, (ConnectionKind::Established, true)),
        (false, ACK, (ConnectionKind::Established, true)),
        (true, FIN | ACK, (ConnectionKind::Established, true)),
        (false, FIN | ACK, (ConnectionKind::Closing, true)),
        (true, ACK, (ConnectionKind::Closing, true)),
        (true, SYN, (ConnectionKind::Opening, false)),
    ] {
        let (wires, ends, link) = if outbound { (("lan", "wan"), ends, LAN) } else { (("wan", "lan"), back, WAN) };
        assert_eq!(through(&mut rig, wires, &ip(link, 6, ends, flags, 64)).len(), 1);
        assert_eq!(state(&rig), Some(expected), "{outbound} {flags}");
    }
}
