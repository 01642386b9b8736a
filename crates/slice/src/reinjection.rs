//! Packets that the slow path of a slice returns to the fast path (spec S-24).
//!
//! A returned packet goes to the function `slice` in a UDP packet to its meta-interface, as received packets do, so that the same path and the same limits
//! apply. In front of it a header says how it is processed. The function reads that header only in packets with [`Exception::Originated`], which no
//! received packet has.
//!
//! [`Exception::Originated`]: packet::Exception::Originated

use crate::code::LookupKey;
use classifier::OpaqueKey;
use packet::wire::transport::UDP_HEADER;
use packet::wire::{Ipv4Spec, Ipv6Spec, ipv4, ipv6, protocol};
use std::net::{IpAddr, SocketAddr};

/// How often a packet may return. Each round is an exception, so a program that returns every packet as it is does so for a bounded time.
pub(crate) const MOST_ROUNDS: u8 = 4;
/// The longest packet that is returned.
pub(crate) const LONGEST: usize = 16 << 10;

/// A packet that the slow path returns to the fast path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reinjection {
    /// The meta-interface that it counts as received by.
    pub interface: u16,
    /// The key to look up. Without one the code option parses the packet.
    pub key: Option<LookupKey>,
    /// The slice's own queue that it leaves by, instead of that of its filter.
    pub queue: Option<u16>,
    /// The rounds of the exception that it answers; 0 for a new packet.
    pub rounds: u8,
    /// The packet, without outer headers.
    pub packet: Vec<u8>,
}

/// The header in front of a returned packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReturnHeader {
    /// The serial number of the slice: another slice may have got its meta-interface meanwhile.
    pub serial: u64,
    pub slice: u16,
    pub interface: u16,
    pub key: Option<LookupKey>,
    pub queue: Option<u16>,
    /// How often the slow path has returned the packet, with this time.
    pub rounds: u8,
}

// In `flags`.
const HAS_KEY: u8 = 1;
const HAS_QUEUE: u8 = 2;

impl ReturnHeader {
    /// Its bytes: serial number, slice, meta-interface, queue, rounds, flags, key.
    pub const BYTES: usize = 8 + 2 + 2 + 2 + 1 + 1 + OpaqueKey::MOST_BYTES;

    fn bytes(&self) -> Vec<u8> {
        let flags = if self.key.is_some() { HAS_KEY } else { 0 } | if self.queue.is_some() { HAS_QUEUE } else { 0 };
        let mut bytes = Vec::with_capacity(ReturnHeader::BYTES);
        bytes.extend(self.serial.to_be_bytes());
        for number in [self.slice, self.interface, self.queue.unwrap_or(0)] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend([self.rounds, flags]);
        bytes.extend(self.key.unwrap_or_default().bytes::<{ OpaqueKey::MOST_BYTES }>());
        bytes
    }

    pub fn read(bytes: &[u8]) -> Option<ReturnHeader> {
        let (head, key) = bytes.get(..ReturnHeader::BYTES)?.split_at(16);
        let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        Some(ReturnHeader {
            serial: u64::from_be_bytes(*head.first_chunk()?),
            slice: number(8),
            interface: number(10),
            queue: (head[15] & HAS_QUEUE != 0).then(|| number(12)),
            rounds: head[14],
            key: (head[15] & HAS_KEY != 0).then(|| LookupKey::new(key)),
        })
    }

    /// The UDP packet that brings `inner` to the meta-interface with this address. `None` if it is too long.
    pub fn wrap(&self, place: SocketAddr, inner: &[u8]) -> Option<Vec<u8>> {
        let length = u16::try_from(UDP_HEADER + ReturnHeader::BYTES + inner.len()).ok()?;
        let mut bytes = vec![0; ipv6::HEADER];
        let network = match place.ip() {
            IpAddr::V4(own) => Ipv4Spec {
                type_of_service: 0,
                identification: 0,
                dont_fragment: true,
                ttl: u8::MAX,
                protocol: protocol::UDP,
                source: own,
                destination: own,
            }
            .write(&mut bytes, length.into()),
            IpAddr::V6(own) => Ipv6Spec {
                traffic_class: 0,
                flow_label: 0,
                next_header: protocol::UDP,
                hop_limit: u8::MAX,
                source: own,
                destination: own,
            }
            .write(&mut bytes, length.into()),
        };
        bytes.truncate(network?);
        // Without a checksum: nothing between here and the function changes or verifies the packet.
        for field in [place.port(), place.port(), length, 0] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(self.bytes());
        bytes.extend(inner);
        Some(bytes)
    }
}

/// The bytes in front of a returned packet, from its outer header on.
pub(crate) fn length_before(is_ipv6: bool) -> usize {
    ReturnHeader::BYTES + UDP_HEADER + if is_ipv6 { ipv6::HEADER } else { ipv4::HEADER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_as_it_was_written() {
        for (key, queue) in [(None, None), (Some(LookupKey::new(&[0xa5; 40])), Some(u16::MAX)), (None, Some(0))] {
            let header = ReturnHeader { serial: u64::MAX - 1, slice: 2047, interface: 1023, key, queue, rounds: 3 };
            for place in ["192.0.2.1:20000", "[2001:db8::1]:20000"] {
                let place: SocketAddr = place.parse().expect("an address");
                let bytes = header.wrap(place, b"inner").expect("it is short");
                let before = length_before(place.is_ipv6());
                assert_eq!(bytes[before..], *b"inner");
                let found = ReturnHeader::read(&bytes[before - ReturnHeader::BYTES..]);
                assert_eq!(found, Some(header));
            }
            assert_eq!(header.wrap("192.0.2.1:1".parse().expect("an address"), &[0; 65_535]), None);
        }
        assert_eq!(ReturnHeader::read(&[0; ReturnHeader::BYTES - 1]), None);
    }
}
