//! The lookup key of IPv6 packets. An address alone has 128 bits, so a lookup key of 112 has a part of it, and a hash of the rest.
//!
//! | bytes | field | a filter can match |
//! |---|---|---|
//! | 1 | meta-interface that received the packet | its value |
//! | 1 | protocol behind the extension headers | its value |
//! | 8 | leading half of the destination | a prefix of up to 64 bits |
//! | 2 | hash of the other half of the destination | one whole address, which the formatter compares in full |
//! | 2 | destination port, zero without ports and in fragments other than the first | its value, a prefix of it |
//!
//! Prefixes of 65 to 127 bits, sources and source ports have no filters.

use crate::code::KEY_BYTES;
use packet::wire::{Chain, Ipv6, transport};
use std::net::Ipv6Addr;
use std::ops::Range;

/// The bytes of the leading half of the destination in a key, and of the hash of the other half.
pub(super) const NETWORK: Range<usize> = 2..10;
pub(super) const HASH: Range<usize> = 10..12;
/// The byte of a filter's data that is not zero if an address follows, and the bytes of the address.
pub(super) const HAS_HOST: usize = 2;
pub(super) const HOST: Range<usize> = 3..19;

/// The key of a packet that a meta-interface received.
pub(super) fn lookup_key(interface: u16, packet: &Ipv6<'_>, chain: &Chain) -> [u8; KEY_BYTES] {
    let to = packet.header.destination();
    let ports = chain.offset.and_then(|at| transport::ports(chain.protocol, packet.bytes.get(at..)?));
    let mut key = [0; KEY_BYTES];
    (key[0], key[1]) = (u8::try_from(interface).unwrap_or(u8::MAX), chain.protocol);
    key[NETWORK].copy_from_slice(&to.octets()[..8]);
    key[HASH].copy_from_slice(&host_hash(to).to_be_bytes());
    key[12..].copy_from_slice(&ports.map_or(0, |(_, destination)| destination).to_be_bytes());
    key
}

/// The hash of the second half of an address. The product with an odd constant spreads each bit to the upper ones (Fibonacci hashing, Knuth 6.4).
pub(super) fn host_hash(address: Ipv6Addr) -> u16 {
    let host = address.to_bits() as u64;
    ((host ^ host >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
}
