//! The lookup key of IPv4 packets, and the filters of routes.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | meta-interface that received the packet; 255 also stands for all higher numbers |
//! | 4 | destination |
//! | 4 | source |
//! | 2 | source port, zero without ports and in fragments other than the first |
//! | 2 | destination port, likewise |
//! | 1 | protocol |

use crate::bands::KeyCondition;
use crate::code::KEY_BYTES;
use packet::wire::{Ipv4, transport};
use std::net::Ipv4Addr;

/// The bytes of the destination.
const DESTINATION: std::ops::Range<usize> = 1..5;

/// The key of a packet that a meta-interface received.
pub fn lookup_key(interface: u16, packet: &Ipv4<'_>) -> [u8; KEY_BYTES] {
    let header = packet.header;
    let ports = if header.is_first() { transport::ports(header.protocol(), packet.payload) } else { None };
    let (source, destination) = ports.unwrap_or_default();
    let mut key = [0; KEY_BYTES];
    key[0] = u8::try_from(interface).unwrap_or(u8::MAX);
    key[DESTINATION].copy_from_slice(&header.destination().octets());
    key[5..9].copy_from_slice(&header.source().octets());
    key[9..11].copy_from_slice(&source.to_be_bytes());
    key[11..13].copy_from_slice(&destination.to_be_bytes());
    key[13] = header.protocol();
    key
}

/// The filter of a route to `length` leading bits of `address`, and its band: those of longer prefixes are lower, so the longest prefix that matches
/// decides. Band 0 is for filters that decide before all routes. `None` for more than 32 bits.
pub fn route4(address: Ipv4Addr, length: u8) -> Option<(u32, KeyCondition)> {
    let host_bits = 32_u8.checked_sub(length)?;
    let mask = u32::MAX.checked_shl(host_bits.into()).unwrap_or(0);
    let mut condition = KeyCondition { value: [0; KEY_BYTES], mask: [0; KEY_BYTES] };
    condition.value[DESTINATION].copy_from_slice(&(address.to_bits() & mask).to_be_bytes());
    condition.mask[DESTINATION].copy_from_slice(&mask.to_be_bytes());
    Some((1 + u32::from(host_bits), condition))
}
