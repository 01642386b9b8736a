//! The slow path of an IPv4 router: the packets that answer or continue an exception. A function of its input, without sockets and clocks.
//!
//! It returns packets with the key that they are to be looked up with. So a packet with options, which the parser would refuse again, follows the same
//! routes as all others.

use super::key::lookup_key;
use crate::code::{ExceptionCode, KEY_BYTES};
use packet::wire::icmp4::{self, Error4};
use packet::wire::{Cast, Fragmenter, Ipv4, ipv4_options, may_answer_with_error4, protocol};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The time to live of packets that the router itself sends. The formatter takes one of it.
const HOPS: u8 = 65;

/// A packet to send, and the key that it is looked up with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyedPacket {
    /// The key.
    pub key: [u8; KEY_BYTES],
    /// The packet, from its IPv4 header on.
    pub bytes: Vec<u8>,
}

/// The slow path of a router.
#[derive(Clone, Debug, Default)]
pub struct Ipv4SlowPath {
    /// The address of each meta-interface.
    pub addresses: BTreeMap<u16, Ipv4Addr>,
    identification: u16,
}

impl Ipv4SlowPath {
    /// A router with these addresses of its meta-interfaces.
    pub fn new(addresses: impl IntoIterator<Item = (u16, Ipv4Addr)>) -> Ipv4SlowPath {
        Ipv4SlowPath { addresses: addresses.into_iter().collect(), identification: 0 }
    }

    /// The packets to send for a packet that `interface` received and that is an exception with this code: none if the router drops it. `mtu` is that of
    /// its next hop, and `midnight` has the milliseconds since midnight for timestamp options.
    pub fn answer(
        &mut self,
        code: ExceptionCode,
        interface: u16,
        bytes: &[u8],
        (mtu, midnight): (u16, u32),
    ) -> Vec<KeyedPacket> {
        let Ok(packet) = Ipv4::parse(bytes) else { return Vec::new() };
        let answers = match code {
            // Also with options, or at the end of its time to live.
            _ if self.is_own(packet.header.destination()) => self.local(interface, &packet),
            ExceptionCode::Options => self.options(interface, &packet, midnight),
            ExceptionCode::Ttl => self.error(Error4::TimeExceeded, interface, &packet),
            ExceptionCode::NoMatch => self.error(Error4::NetUnreachable, interface, &packet),
            ExceptionCode::Mtu if packet.header.dont_fragment() => {
                self.error(Error4::FragmentationNeeded { mtu }, interface, &packet)
            }
            ExceptionCode::Mtu => fragments(packet.bytes, mtu),
            _ => Vec::new(),
        };
        let keyed =
            |bytes: Vec<u8>| Some(KeyedPacket { key: lookup_key(interface, &Ipv4::parse(&bytes).ok()?), bytes });
        answers.into_iter().filter_map(keyed).collect()
    }

    /// True for an address of the router.
    pub(super) fn is_own(&self, address: Ipv4Addr) -> bool {
        self.addresses.values().any(|own| *own == address)
    }

    /// Answers an echo request, and refuses datagrams: `traceroute` shows the router by that.
    fn local(&mut self, interface: u16, packet: &Ipv4<'_>) -> Vec<Vec<u8>> {
        match packet.header.protocol() {
            protocol::ICMP => {
                let mut reply = packet.bytes.to_vec();
                let identification = self.next_identification();
                icmp4::reply_to_echo(&mut reply, HOPS, identification).map_or(Vec::new(), |_| vec![reply])
            }
            protocol::TCP => Vec::new(),
            protocol::UDP => self.error(Error4::PortUnreachable, interface, packet),
            _ => self.error(Error4::ProtocolUnreachable, interface, packet),
        }
    }

    /// Forwards a packet with options as RFC 1812 5.2.4 asks, but for source routes (RFC 7126 4.3 and 4.4). The router records the address of the
    /// meta-interface that received the packet: only the look-up decides which one sends it.
    fn options(&mut self, interface: u16, packet: &Ipv4<'_>, midnight: u32) -> Vec<Vec<u8>> {
        match ipv4_options::validate(packet.options) {
            Err(error) => self.error(Error4::ParameterProblem { pointer: error.pointer }, interface, packet),
            Ok(asks) if asks.source_route => Vec::new(),
            Ok(_) if packet.header.ttl() <= 1 => self.error(Error4::TimeExceeded, interface, packet),
            Ok(_) => {
                let mut bytes = packet.bytes.to_vec();
                let recorded = self.addresses.get(&interface).map_or(Ok(()), |own| {
                    ipv4_options::record(&mut bytes, *own, midnight, |address| self.is_own(address))
                });
                recorded.map_or(Vec::new(), |()| vec![bytes])
            }
        }
    }

    /// The ICMP error about a packet, if one is allowed.
    fn error(&mut self, error: Error4, interface: u16, packet: &Ipv4<'_>) -> Vec<Vec<u8>> {
        let Some(&source) = self.addresses.get(&interface) else { return Vec::new() };
        if may_answer_with_error4(Cast::Unicast, packet).is_err() {
            return Vec::new();
        }
        let mut bytes = vec![0; icmp4::LONGEST_ERROR];
        let identification = self.next_identification();
        let length = error.write(&mut bytes, packet, source, HOPS, identification);
        length.map_or(Vec::new(), |length| {
            bytes.truncate(length);
            vec![bytes]
        })
    }

    fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }
}

fn fragments(packet: &[u8], mtu: u16) -> Vec<Vec<u8>> {
    let Some(mut fragmenter) = Fragmenter::new(packet, 0, mtu.into()) else { return Vec::new() };
    let mut fragments = Vec::new();
    while fragmenter.next_length() > 0 {
        let mut fragment = vec![0; fragmenter.next_length()];
        if fragmenter.write(packet, &mut fragment).is_none() {
            break;
        }
        fragments.push(fragment);
    }
    fragments
}
