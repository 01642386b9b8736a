//! Upper-layer payloads of IP.

use crate::random::Random;
use packet::wire::{checksum, protocol, transport};
use std::net::IpAddr;

/// Sets the checksum of a message; a few are left wrong.
pub fn with_checksum(
    r: &mut Random,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    mut message: Vec<u8>,
) -> Vec<u8> {
    if protocol == protocol::ICMP {
        message[2..4].fill(0);
        let sum = checksum::checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    } else {
        transport::seal(source, destination, protocol, &mut message);
    }
    if r.percent(4) {
        let at = message.len() - 1 - r.below(message.len().min(8));
        message[at] ^= 1 << r.below(8);
    }
    message
}

/// A UDP datagram.
pub fn udp(r: &mut Random, source: IpAddr, destination: IpAddr, most: usize) -> Vec<u8> {
    let length = r.length(most.saturating_sub(8).max(1));
    let field = match r.below(30) {
        0 => r.below(2000),
        1 => 7,
        _ => length + 8,
    };
    let [h, l] = (field as u16).to_be_bytes();
    let [p, q] = r.word().to_be_bytes();
    let message = [&[p, q, 0x82, 0x9b, h, l, 0, 0][..], &r.bytes(length)].concat();
    if source.is_ipv4() && r.percent(10) {
        return message; // no checksum (RFC 768)
    }
    with_checksum(r, source, destination, protocol::UDP, message)
}

/// A TCP segment.
pub fn tcp(r: &mut Random, source: IpAddr, destination: IpAddr, most: usize) -> Vec<u8> {
    let length = r.length(most.saturating_sub(20).max(1));
    let offset = if r.percent(10) { r.byte() & 0xf0 } else { 0x50 };
    let flags = r.one(&[2u8, 0x10, 0x12, 0x18, 1, 0x11, 4, 0x14, 0, 0xc2, 0x29]);
    let mut message = r.bytes(20);
    (message[12], message[13]) = (offset, flags);
    message.extend(r.bytes(length));
    // Valid options: the treatment of others depends on the kernel's build options.
    let end = message.len().min(usize::from(offset >> 4) * 4).max(20);
    message[20..end].fill(1);
    with_checksum(r, source, destination, protocol::TCP, message)
}
