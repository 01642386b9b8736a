//! IPv4 packets of hosts on both sides of a router, with every field that translation must update.

#![allow(dead_code)]

use packet::wire::{checksum::checksum, icmp4, transport::transport_checksum};
use std::net::Ipv4Addr;

/// An address and a port; for ICMP the identifier.
pub type Socket = (Ipv4Addr, u16);

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP: u8 = 1;

/// A packet of a flow.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The router's link-layer address, and the sender's.
    pub link: [u8; 12],
    pub protocol: u8,
    pub from: Socket,
    pub to: Socket,
    /// TCP's flags, or ICMP's type.
    pub byte: u8,
    pub ttl: u8,
    pub dont_fragment: bool,
    pub identification: u16,
    pub options: Vec<u8>,
    /// The payload behind the transport header.
    pub payload: Vec<u8>,
}

impl Sent {
    /// A packet of `protocol` in a frame with this Ethernet header.
    pub fn new(link: [u8; 12], protocol: u8, from: Socket, to: Socket) -> Sent {
        Sent {
            link,
            protocol,
            from,
            to,
            byte: if protocol == TCP { 2 } else { icmp4::ECHO_REQUEST },
            ttl: 64,
            dont_fragment: false,
            identification: 7,
            options: Vec::new(),
            payload: vec![0x5a; 32],
        }
    }

    /// The answer of the other side, on its link.
    pub fn answer(&self, link: [u8; 12], ours: Socket) -> Sent {
        let byte = if self.protocol == TCP { 0x12 } else { icmp4::ECHO_REPLY };
        Sent { byte, ..Sent::new(link, self.protocol, self.to, ours) }
    }

    /// The frame with correct checksums.
    pub fn frame(&self) -> Vec<u8> {
        let mut message = match self.protocol {
            ICMP => vec![self.byte, 0, 0, 0],
            _ => [self.from.1.to_be_bytes(), self.to.1.to_be_bytes()].concat(),
        };
        match self.protocol {
            TCP => message.extend([0, 0, 0, 9, 0, 0, 0, 0, 0x50, self.byte, 2, 0, 0, 0, 0, 0]),
            UDP => message.extend([((self.payload.len() + 8) as u16).to_be_bytes(), [0, 0]].concat()),
            _ => message.extend([(self.from.1 | self.to.1).to_be_bytes(), [0, 1]].concat()),
        }
        message.extend(&self.payload);
        let (at, sum) = match self.protocol {
            ICMP => (2, checksum(&message)),
            kind => {
                let sum = transport_checksum(self.from.0.into(), self.to.0.into(), kind, &message);
                if kind == TCP { (16, sum) } else { (6, sum) }
            }
        };
        message[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let header = 20 + self.options.len();
        let mut ip = vec![0x40 | (header / 4) as u8, 0];
        ip.extend(((header + message.len()) as u16).to_be_bytes());
        ip.extend(self.identification.to_be_bytes());
        ip.extend([if self.dont_fragment { 0x40 } else { 0 }, 0, self.ttl, self.protocol, 0, 0]);
        ip.extend(self.from.0.octets());
        ip.extend(self.to.0.octets());
        ip.extend(&self.options);
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&self.link[..], &[8, 0], &ip, &message].concat()
    }
}

/// Fragments of a frame without IP options, each with `step` bytes of payload.
pub fn fragments(frame: &[u8], step: usize) -> Vec<Vec<u8>> {
    let payload = &frame[34..];
    let parts = payload.chunks(step / 8 * 8).enumerate();
    let cut = |(index, part): (usize, &[u8])| {
        let at = index * (step / 8 * 8);
        let mut fragment = [&frame[..34], part].concat();
        let more = at + part.len() < payload.len();
        fragment[16..18].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
        fragment[20..22].copy_from_slice(&(u16::from(more) << 13 | (at / 8) as u16).to_be_bytes());
        fragment[24..26].fill(0);
        let sum = checksum(&fragment[14..34]);
        fragment[24..26].copy_from_slice(&sum.to_be_bytes());
        fragment
    };
    parts.map(cut).collect()
}
