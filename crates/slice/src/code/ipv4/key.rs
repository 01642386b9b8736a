//! The lookup key of IPv4 packets.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | meta-interface that received the packet; 255 also stands for all higher numbers |
//! | 4 | destination |
//! | 4 | source |
//! | 2 | source port, zero without ports and in fragments other than the first |
//! | 2 | destination port, likewise |
//! | 1 | protocol |

use crate::code::{KEY_BYTES, LookupKey};
use packet::wire::{Ipv4, transport};
use std::ops::Range;

/// The bytes of the destination.
pub(super) const DESTINATION: Range<usize> = 1..5;

/// The key of a packet that a meta-interface received.
pub fn lookup_key(interface: u16, packet: &Ipv4<'_>) -> [u8; KEY_BYTES] {
    LookupKey::from_words(key_words(interface, packet)).bytes()
}

/// The key as words: the last two bytes are not used.
#[inline(always)]
pub(super) fn key_words(interface: u16, packet: &Ipv4<'_>) -> [u64; 2] {
    let header = packet.header;
    let ports = if header.is_first() { transport::ports(header.protocol(), packet.payload) } else { None };
    let (source, destination) = ports.unwrap_or_default();
    let interface = u64::from(u8::try_from(interface).unwrap_or(u8::MAX));
    let (from, to) = (u64::from(header.source().to_bits()), u64::from(header.destination().to_bits()));
    let ports = u64::from(source) << 40 | u64::from(destination) << 24;
    [interface << 56 | to << 24 | from >> 8, from << 56 | ports | u64::from(header.protocol()) << 16]
}
