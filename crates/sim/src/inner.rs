//! The packets inside of the UDP packets of a source: those of a slice's network.

use packet::wire::checksum::checksum;
use packet::wire::{Ipv4Spec, protocol};
use slice::code::i3::SINGLE_ID_HEADER;
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes of an IPv4 header, of one with options, and of a UDP header.
const IPV4: usize = 20;
const OPTIONS: usize = 4;
const UDP: usize = 8;

/// The packets inside of a source's packets, which use them in turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InnerPackets {
    /// UDP over IPv4.
    Ipv4(InnerIpv4),
    /// Data packets of I3: their headers with one identifier.
    I3(Vec<Vec<u8>>),
}

/// The headers of UDP packets over IPv4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InnerIpv4 {
    /// The destinations.
    pub destinations: Vec<Ipv4Addr>,
    /// The source.
    pub source: Ipv4Addr,
    /// The source and the destination port.
    pub ports: (u16, u16),
    /// Time to live.
    pub ttl: u8,
    /// True if the header has options.
    pub options: bool,
}

impl fmt::Display for InnerPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InnerPackets::Ipv4(inner) => write!(f, "inner {inner:?}"),
            InnerPackets::I3(headers) => write!(f, "inner I3 packets of {} triggers", headers.len()),
        }
    }
}

impl InnerPackets {
    /// The number of different packets.
    pub fn count(&self) -> usize {
        match self {
            InnerPackets::Ipv4(inner) => inner.destinations.len(),
            InnerPackets::I3(headers) => headers.len(),
        }
    }

    /// The bytes before the payload.
    pub fn header_length(&self) -> usize {
        match self {
            InnerPackets::Ipv4(inner) => IPV4 + if inner.options { OPTIONS } else { 0 } + UDP,
            InnerPackets::I3(_) => SINGLE_ID_HEADER,
        }
    }

    /// The packet of this number, in `bytes` that are long enough for its headers. The payload is zero.
    pub fn write(&self, number: usize, bytes: &mut [u8]) {
        match self {
            InnerPackets::Ipv4(inner) => inner.write(inner.destinations[number], bytes),
            InnerPackets::I3(headers) => bytes[..SINGLE_ID_HEADER].copy_from_slice(&headers[number]),
        }
    }
}

impl InnerIpv4 {
    fn write(&self, destination: Ipv4Addr, bytes: &mut [u8]) {
        let spec = Ipv4Spec {
            type_of_service: 0,
            identification: 0,
            dont_fragment: true,
            ttl: self.ttl,
            protocol: protocol::UDP,
            source: self.source,
            destination,
        };
        let length = bytes.len();
        spec.write(bytes, length - IPV4).expect("the size was checked");
        let header = if self.options { IPV4 + OPTIONS } else { IPV4 };
        if self.options {
            // Six words, with four options that do nothing.
            bytes[0] = 0x46;
            bytes[IPV4..header].fill(1);
            bytes[10..12].fill(0);
            let sum = checksum(&bytes[..header]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let udp = &mut bytes[header..];
        udp[..2].copy_from_slice(&self.ports.0.to_be_bytes());
        udp[2..4].copy_from_slice(&self.ports.1.to_be_bytes());
        // No checksum: the tag differs in each packet.
        udp[4..6].copy_from_slice(&((length - header) as u16).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::wire::Ipv4;

    #[test]
    fn inner_packets_have_valid_headers() {
        for options in [false, true] {
            let ttl = 7;
            let destinations = vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
            let source = Ipv4Addr::new(172, 16, 0, 1);
            let inner = InnerPackets::Ipv4(InnerIpv4 { destinations, source, ports: (5, 6), ttl, options });
            let mut bytes = vec![0; inner.header_length() + 3];
            inner.write(1, &mut bytes);
            assert_eq!(checksum(&bytes[..inner.header_length() - UDP]), 0);
            let parsed = Ipv4::parse(&bytes).unwrap();
            assert_eq!(parsed.header.destination(), Ipv4Addr::new(10, 0, 0, 2));
            assert_eq!((parsed.header.ttl(), parsed.payload.len(), parsed.payload[1]), (7, 11, 5));
        }
    }
}
