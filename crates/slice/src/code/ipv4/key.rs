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

use crate::code::KEY_BYTES;
use packet::wire::{Ipv4, transport};
use std::ops::Range;

/// The bytes of the destination.
pub(super) const DESTINATION: Range<usize> = 1..5;

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
