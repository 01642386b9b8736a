//! Comparison with the answers of a Linux router, byte for byte.
//!
//! `linux.txt` was recorded from a router with kernel 6.18 and the addresses of the laboratory. For each case it has the name, the frames sent by
//! host A (`> station|group ETHERTYPE PACKET`) and the frames that A received (`< DESTINATION ETHERTYPE PACKET`), in hexadecimal. Two fields are not
//! compared: the identification of IPv4 packets that may be fragmented, and the flow label of IPv6 packets. Linux draws both from a keyed hash; RFC
//! 6864 4.1 and RFC 6437 3 require no particular values. Transport checksums over IPv6 are completed first, because the kernel leaves some of them to
//! the device.

use super::frames::Frame;
use super::*;
use packet::wire::{Ipv6Header, checksum, complete_checksum};

/// The cases with different answers, the answer, and the reason.
const DIFFERENCES: &[(&str, usize, &str)] = &[
    ("arp conflict", 1, "RFC 5227 2.4(c): an address is defended with an announcement"),
    ("arp conflict reply", 1, "RFC 5227 2.4(c): an address is defended with an announcement"),
    ("echo4 from bcast mac", 0, "RFC 1122 3.3.6: a unicast packet in a link-layer broadcast is discarded"),
];

struct Case {
    name: String,
    sent: Frame,
    answers: Vec<Vec<u8>>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    hex.as_bytes().as_chunks::<2>().0.iter().map(|[a, b]| digit(*a) << 4 | digit(*b)).collect()
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut name = String::new();
    for line in include_str!("linux.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [">", to, packet] => {
                let packet = bytes(packet);
                let kind = u16::from_be_bytes([packet[0], packet[1]]);
                let mut sent = Frame::new(kind, packet[2..].to_vec());
                sent.group = to == "group";
                cases.push(Case { name: name.clone(), sent, answers: Vec::new() });
            }
            ["<", to, packet] => {
                let frame = [bytes(to), LAN_MAC.0.to_vec(), bytes(packet)].concat();
                cases.last_mut().unwrap().answers.push(frame);
            }
            _ => name = line.to_string(),
        }
    }
    cases
}

/// Blanks the fields that are not compared.
fn blanked(mut frame: Vec<u8>) -> Vec<u8> {
    let (link, l3) = frame.split_at_mut(14);
    match u16::from_be_bytes([link[12], link[13]]) {
        ethertype::IPV4 if l3[6] & 0x40 == 0 => {
            l3[4..6].fill(0);
            l3[10..12].fill(0);
            let header = usize::from(l3[0] & 0xf) * 4;
            let sum = checksum::checksum(&l3[..header]);
            l3[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        ethertype::IPV6 => {
            Ipv6Header::of_mut(l3).unwrap().set_flow_label(0);
            complete_checksum(l3).unwrap();
        }
        _ => {}
    }
    frame
}

/// The exception of a frame received by the LAN, as the classifier finds it; none if it drops or forwards the frame.
fn exception(lab: &Lab, frame: &Frame, options_done: bool) -> Option<Exception> {
    let l3 = &frame.l3;
    let (destination, hops, options) = match frame.kind {
        ethertype::ARP => return Some(Exception::Arp),
        ethertype::IPV4 => {
            let ip = Ipv4::parse(l3).ok()?;
            (IpAddr::V4(ip.header.destination()), ip.header.ttl(), !ip.options.is_empty())
        }
        _ => {
            let ip = Ipv6::parse(l3).ok()?;
            (IpAddr::V6(ip.header.destination()), ip.header.hop_limit(), ip.header.next_header() == 0)
        }
    };
    if options && !options_done {
        return Some(Exception::Options);
    }
    let link_local = matches!(destination, IpAddr::V6(address) if address.is_unicast_link_local());
    if destination.is_multicast() || link_local {
        return Some(Exception::Local);
    }
    match lab.net.tables.lookup(destination) {
        _ if frame.group => None,
        Outcome::Local(_) => Some(Exception::Local),
        Outcome::NoRoute => Some(Exception::NoRoute),
        Outcome::Unreachable => Some(Exception::Unreachable),
        Outcome::Connected(_) | Outcome::Via(_) if hops <= 1 => Some(Exception::Expired),
        Outcome::Connected(_) | Outcome::Via(_) if l3.len() > 1400 => Some(Exception::TooBig),
        Outcome::Connected(_) => Some(Exception::Resolve),
        _ => None,
    }
}

/// The frames that host A receives.
fn answers(sent: &Frame) -> Vec<Vec<u8>> {
    let mut lab = Lab::new().quiet();
    for address in ["10.0.1.2", "2001:db8:1::2"] {
        assert!(lab.host.set_static_neighbour(LAN, ip(address), A, &mut lab.net));
    }
    let mut sent = sent.clone();
    if exception(&lab, &sent, false) == Some(Exception::Options) {
        lab.receive(LAN, &sent, Exception::Options);
        match lab.forwarded().pop() {
            Some(frame) => sent.l3 = frame[14..].to_vec(),
            None => sent.l3.clear(),
        }
    }
    if let Some(exception) = exception(&lab, &sent, true) {
        lab.receive(LAN, &sent, exception);
    }
    lab.pass(Nanos::secs(4));
    lab.forwarded();
    lab.net.sent.into_iter().filter(|&(interface, _)| interface == LAN).map(|(_, frame)| frame).collect()
}

#[test]
fn answers_equal_those_of_a_linux_router() {
    let cases = cases();
    assert!(cases.len() >= 70, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for Case { name, sent, answers: expected } in cases {
        let ours = answers(&sent);
        if let Some((_, count, _)) = DIFFERENCES.iter().find(|(differs, ..)| *differs == name) {
            assert_eq!(ours.len(), *count, "{name}");
            assert_ne!(ours.len(), expected.len(), "{name} is no difference any more");
            continue;
        }
        let ours: Vec<_> = ours.into_iter().map(blanked).collect();
        let expected: Vec<_> = expected.into_iter().map(blanked).collect();
        if ours != expected {
            let show =
                |frames: &[Vec<u8>]| frames.iter().map(|f| format!("  {} {f:02x?}\n", summary(f))).collect::<String>();
            wrong.push(format!("{name}: Linux says\n{}we say\n{}", show(&expected), show(&ours)));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
