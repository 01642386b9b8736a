//! Frames for tests of the host.

use super::{A, IpAddr, Ipv4Addr, Ipv6Addr};
use crate::Interface;
use packet::wire::transport::seal;
use packet::wire::{Ipv4Spec, Ipv6Spec, checksum, ethernet, ethertype, icmp4, icmp6, ipv4, ipv6, protocol};
use units::Mac;

/// A frame of host A, from its ethertype on.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u16,
    pub l3: Vec<u8>,
    /// True if it was sent to a group address.
    pub group: bool,
    pub from: Mac,
}

impl Frame {
    pub fn new(kind: u16, l3: Vec<u8>) -> Frame {
        Frame { kind, l3, group: false, from: A }
    }

    pub fn broadcast(self) -> Frame {
        Frame { group: true, ..self }
    }

    pub fn is_ipv6(&self) -> bool {
        self.kind == ethertype::IPV6
    }

    /// The frame with its link header, as received by `interface`.
    pub fn whole(&self, interface: &Interface) -> Vec<u8> {
        let mut bytes = vec![0; ethernet::header_length(interface.vlan)];
        let to = if self.group { Mac::BROADCAST } else { interface.mac };
        ethernet::write_header(&mut bytes, to, self.from, interface.vlan, self.kind).unwrap();
        bytes.extend_from_slice(&self.l3);
        bytes
    }
}

/// An IPv4 packet.
#[derive(Clone, Copy)]
pub struct V4<'a> {
    pub source: &'a str,
    pub destination: &'a str,
    pub protocol: u8,
    pub ttl: u8,
    pub options: &'a [u8],
    /// Flags and offset as on the wire.
    pub fragment: u16,
}

impl Default for V4<'_> {
    fn default() -> Self {
        let (source, destination) = ("10.0.1.2", "10.0.2.2");
        V4 { source, destination, protocol: protocol::UDP, ttl: 64, options: &[], fragment: 0 }
    }
}

impl V4<'_> {
    /// With these bytes as payload.
    pub fn with(self, payload: &[u8]) -> Frame {
        let spec = Ipv4Spec {
            type_of_service: 0,
            identification: 7,
            dont_fragment: false,
            ttl: self.ttl,
            protocol: self.protocol,
            source: self.source.parse().unwrap(),
            destination: self.destination.parse().unwrap(),
        };
        let mut bytes = vec![0; ipv4::HEADER];
        spec.write(&mut bytes, self.options.len() + payload.len()).unwrap();
        bytes[0] = 0x45 + (self.options.len() / 4) as u8;
        bytes[6..8].copy_from_slice(&self.fragment.to_be_bytes());
        bytes.extend_from_slice(self.options);
        bytes[10..12].fill(0);
        let sum = checksum::checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend_from_slice(payload);
        Frame::new(ethertype::IPV4, bytes)
    }

    /// With a UDP datagram to port 9999 with `length` bytes of data.
    pub fn udp(self, length: usize) -> Frame {
        let ends = (self.source.parse().unwrap(), self.destination.parse().unwrap());
        self.with(&udp(ends, length))
    }

    /// With an echo request.
    pub fn echo(self, length: usize) -> Frame {
        let data = vec![7; length];
        let mut message = vec![0; icmp4::HEADER + length];
        let echo = icmp4::Echo { identifier: 3, sequence: 4, data: &data };
        icmp4::write_echo(&mut message, icmp4::ECHO_REQUEST, &echo).unwrap();
        V4 { protocol: protocol::ICMP, ..self }.with(&message)
    }
}

fn udp((source, destination): (IpAddr, IpAddr), length: usize) -> Vec<u8> {
    let mut datagram = vec![3, 232, 39, 15, 0, 0, 0, 0];
    datagram.extend(std::iter::repeat_n(5, length));
    let length = datagram.len() as u16;
    datagram[4..6].copy_from_slice(&length.to_be_bytes());
    assert!(seal(source, destination, protocol::UDP, &mut datagram));
    datagram
}

/// An IPv6 packet.
#[derive(Clone, Copy)]
pub struct V6<'a> {
    pub source: &'a str,
    pub destination: &'a str,
    pub next: u8,
    pub hops: u8,
}

impl Default for V6<'_> {
    fn default() -> Self {
        V6 { source: "2001:db8:1::2", destination: "2001:db8:2::2", next: protocol::UDP, hops: 64 }
    }
}

impl V6<'_> {
    fn ends(self) -> (Ipv6Addr, Ipv6Addr) {
        (self.source.parse().unwrap(), self.destination.parse().unwrap())
    }

    /// With these bytes as payload.
    pub fn with(self, payload: &[u8]) -> Frame {
        let (source, destination) = self.ends();
        let (next_header, hop_limit) = (self.next, self.hops);
        let spec = Ipv6Spec { traffic_class: 0, flow_label: 0, next_header, hop_limit, source, destination };
        let mut bytes = vec![0; ipv6::HEADER];
        spec.write(&mut bytes, payload.len()).unwrap();
        bytes.extend_from_slice(payload);
        let mut frame = Frame::new(ethertype::IPV6, bytes);
        frame.group = destination.is_multicast();
        frame
    }

    /// With a UDP datagram to port 9999 with `length` bytes of data.
    pub fn udp(self, length: usize) -> Frame {
        let (source, destination) = self.ends();
        self.with(&udp((source.into(), destination.into()), length))
    }

    /// With an ICMPv6 message of these bytes, whose checksum is filled in.
    pub fn icmp(self, message: &[u8]) -> Frame {
        let (source, destination) = self.ends();
        let mut message = message.to_vec();
        assert!(seal(source.into(), destination.into(), protocol::ICMPV6, &mut message));
        V6 { next: protocol::ICMPV6, ..self }.with(&message)
    }

    /// With an echo request.
    pub fn echo(self, length: usize) -> Frame {
        let mut message = vec![icmp6::ECHO_REQUEST, 0, 0, 0, 0, 3, 0, 4];
        message.extend(std::iter::repeat_n(7, length));
        self.icmp(&message)
    }
}

/// An ARP packet as it is; see `packet::wire::Arp`.
pub fn arp(message: packet::wire::Arp) -> Frame {
    Frame::new(ethertype::ARP, message.to_bytes().to_vec())
}

/// An ARP request for a local address.
pub fn arp_request(target: &str, mac: Mac, sender: &str) -> Frame {
    let sender: Ipv4Addr = sender.parse().unwrap();
    let request = packet::wire::Arp::request(mac, sender, target.parse().unwrap());
    Frame { from: mac, ..arp(request).broadcast() }
}

/// The reply to our ARP request.
pub fn is_at(sender: &str, mac: Mac, (target_mac, target): (Mac, &str)) -> Frame {
    let reply = packet::wire::Arp {
        operation: packet::wire::ArpOperation::Reply,
        sender_mac: mac,
        sender_ip: sender.parse().unwrap(),
        target_mac,
        target_ip: target.parse().unwrap(),
    };
    Frame { from: mac, ..arp(reply) }
}

/// A neighbour advertisement: flags R, S, O in the three highest bits.
pub fn advertises(target: &str, mac: Option<Mac>, flags: u8, (source, destination): (&str, &str)) -> Frame {
    let target: Ipv6Addr = target.parse().unwrap();
    let mut message = vec![icmp6::NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    message.extend_from_slice(&target.octets());
    if let Some(mac) = mac {
        message.extend_from_slice(&[2, 1]);
        message.extend_from_slice(&mac.0);
    }
    V6 { source, destination, hops: 255, next: 0 }.icmp(&message)
}

/// A neighbour solicitation.
pub fn solicits(target: &str, mac: Option<Mac>, (source, destination): (&str, &str)) -> Frame {
    let target: Ipv6Addr = target.parse().unwrap();
    let mut message = vec![icmp6::NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&target.octets());
    if let Some(mac) = mac {
        message.extend_from_slice(&[1, 1]);
        message.extend_from_slice(&mac.0);
    }
    V6 { source, destination, hops: 255, next: 0 }.icmp(&message)
}
