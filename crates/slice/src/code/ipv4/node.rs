//! An IPv4 router without tables: all packets take the slow path.
//!
//! It is the baseline that a fast path is compared with, and the reference of its tests.

use super::slow_path::Ipv4SlowPath;
use crate::code::ExceptionCode;
use packet::wire::{Ipv4, ipv4};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

/// The next hop of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Hop {
    /// The address and UDP port of the next node.
    pub next: SocketAddr,
    /// The longest packet that it gets, in bytes.
    pub mtu: u16,
}

/// A router, and its routes.
#[derive(Clone, Debug)]
pub struct Ipv4Node {
    /// By host bits and network, so the longest prefixes are first.
    routes: BTreeMap<(u8, u32), Ipv4Hop>,
    slow_path: Ipv4SlowPath,
}

fn network(address: Ipv4Addr, host_bits: u8) -> u32 {
    address.to_bits() & u32::MAX.checked_shl(host_bits.into()).unwrap_or(0)
}

impl Ipv4Node {
    /// A router with these routes, each to so many leading bits (at most 32) of an address.
    pub fn new(slow_path: Ipv4SlowPath, routes: impl IntoIterator<Item = ((Ipv4Addr, u8), Ipv4Hop)>) -> Ipv4Node {
        let route = |((to, length), hop): ((Ipv4Addr, u8), Ipv4Hop)| {
            let host_bits = 32_u8.saturating_sub(length);
            ((host_bits, network(to, host_bits)), hop)
        };
        Ipv4Node { routes: routes.into_iter().map(route).collect(), slow_path }
    }

    /// The packets to send for a packet that `interface` received, and their next nodes. `midnight` has the milliseconds since midnight.
    pub fn process(&mut self, interface: u16, bytes: &[u8], midnight: u32) -> Vec<(SocketAddr, Vec<u8>)> {
        let Ok(packet) = Ipv4::parse(bytes) else { return Vec::new() };
        let to = packet.header.destination();
        let forwarded = match packet {
            _ if to.is_multicast() || to.is_broadcast() || self.slow_path.is_own(to) => Err((ExceptionCode::Local, 0)),
            packet if !packet.options.is_empty() => Err((ExceptionCode::Options, 0)),
            packet => self.forward(packet.bytes),
        };
        match forwarded {
            Ok(sent) => vec![sent],
            Err((code, mtu)) => {
                let answers = self.slow_path.answer(code, interface, packet.bytes, (mtu, midnight));
                answers.iter().filter_map(|answer| self.forward(&answer.bytes).ok()).collect()
            }
        }
    }

    /// The packet as its next hop gets it, or the reason why not, with the MTU of the next hop.
    fn forward(&self, bytes: &[u8]) -> Result<(SocketAddr, Vec<u8>), (ExceptionCode, u16)> {
        let mut bytes = bytes.to_vec();
        let length = bytes.len();
        let header = bytes.first_chunk_mut::<{ ipv4::HEADER }>().ok_or((ExceptionCode::SoftHeader, 0))?;
        if !ipv4::decrement_ttl(header) {
            return Err((ExceptionCode::Ttl, 0));
        }
        let to = Ipv4Addr::from(*header.last_chunk().ok_or((ExceptionCode::SoftHeader, 0))?);
        let route = (0..=32).find_map(|host_bits| self.routes.get(&(host_bits, network(to, host_bits))));
        let hop = route.ok_or((ExceptionCode::NoMatch, 0))?;
        if length > hop.mtu.into() { Err((ExceptionCode::Mtu, hop.mtu)) } else { Ok((hop.next, bytes)) }
    }
}
