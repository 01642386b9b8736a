//! Frames for tests and benchmarks.

use crate::wire::{Ipv4Spec, ethernet, ethertype, protocol};
use std::net::Ipv4Addr;
use units::Mac;

/// Bytes of the headers of a UDP packet over IPv4 and Ethernet.
const HEADERS: usize = 14 + 20 + 8;

/// A UDP packet over IPv4 and Ethernet without a checksum (RFC 768 allows it).
#[derive(Clone, Copy, Debug)]
pub struct UdpFrame {
    /// Link addresses: source, destination.
    pub link: (Mac, Mac),
    /// Addresses: source, destination.
    pub network: (Ipv4Addr, Ipv4Addr),
    /// Ports: source, destination.
    pub ports: (u16, u16),
    /// Time to live.
    pub ttl: u8,
    /// Length of the frame in bytes, at least that of its headers (42).
    pub length: usize,
}

impl UdpFrame {
    /// A packet of 60 bytes from 192.0.2.7 to 198.51.100.9, between these ports.
    pub fn between_ports(from: u16, to: u16) -> UdpFrame {
        let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
        let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
        UdpFrame { link, network, ports: (from, to), ttl: 64, length: 60 }
    }

    /// The frame. Its payload is zero except for `payload` at the beginning.
    ///
    /// # Panics
    /// If the length is too short for the headers and `payload`, or exceeds an IPv4 packet.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        self.frame_with_dscp(0, payload)
    }

    /// The frame with this DSCP, 0 to 63.
    ///
    /// # Panics
    /// See [`UdpFrame::frame`].
    pub fn frame_with_dscp(&self, dscp: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; self.length];
        let (link, rest) = frame.split_at_mut(14);
        ethernet::write_header(link, self.link.1, self.link.0, None, ethertype::IPV4).expect("14 bytes are enough");
        let spec = Ipv4Spec {
            type_of_service: dscp << 2,
            identification: 0,
            dont_fragment: true,
            ttl: self.ttl,
            protocol: protocol::UDP,
            source: self.network.0,
            destination: self.network.1,
        };
        spec.write(rest, self.length - 34).expect("the length is that of an IPv4 packet");
        frame[34..36].copy_from_slice(&self.ports.0.to_be_bytes());
        frame[36..38].copy_from_slice(&self.ports.1.to_be_bytes());
        frame[38..40].copy_from_slice(&((self.length - 34) as u16).to_be_bytes());
        frame[HEADERS..HEADERS + payload.len()].copy_from_slice(payload);
        frame
    }
}
