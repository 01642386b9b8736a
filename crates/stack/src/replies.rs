//! ICMP requests and replies: echo (RFC 1122 3.2.2.6, RFC 4443 4.2) and timestamp (RFC 1122 3.2.2.8).

use super::options::{is_own4, only_records, timestamp};
use super::output::{HOPS, next_hop_key, packet_with};
use super::{LocalProtocols, Parsed, World, l3, parse};
use packet::wire::icmp4::{self, Icmp4};
use packet::wire::{Ipv4, Ipv4Spec, checksum, icmp6, ipv4, ipv4_options, protocol};
use packet::{DropReason, Packet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The types of a timestamp request and its reply.
pub(super) const TIMESTAMP: u8 = 13;
const TIMESTAMP_REPLY: u8 = 14;
/// The bytes of a timestamp message: identifier, sequence number and three times behind its type.
const TIMESTAMP_LENGTH: usize = 20;

impl LocalProtocols {
    /// Replies to a request, from the address to which it was sent.
    pub(super) fn reply(&mut self, packet: Packet, world: &mut impl World) {
        let id = packet.meta().in_interface;
        let (from, asked) = match parse(&packet) {
            Some(Parsed::V4(ip)) => (IpAddr::V4(ip.header.source()), IpAddr::V4(ip.header.destination())),
            Some(Parsed::V6(ip)) => (IpAddr::V6(ip.header.source()), IpAddr::V6(ip.header.destination())),
            None => return world.drop(packet, DropReason::HeaderTruncated),
        };
        let Some(way) = next_hop_key(from, id, world) else { return world.consume(packet) };
        let reply = match asked {
            IpAddr::V4(asked) => self.reply4(&packet, asked, world),
            IpAddr::V6(to) => {
                // The reply to a multicast request leaves by the same interface, from an address of that interface (RFC 4443 4.2).
                let alone = world.interfaces().iter().any(|interface| super::is_own(interface, asked));
                if !alone && way.0 != id {
                    return world.consume(packet);
                }
                let own = || self.source6(world.interface(id)?, v6(from)?);
                let source = if alone { Some(to) } else { own() };
                source.and_then(|source| echo6(&packet, source, world))
            }
        };
        match reply {
            Some(reply) => self.originate(way, reply, world),
            // The request was validated before, so the pool is empty.
            None => return world.drop(packet, DropReason::PoolEmpty),
        }
        world.consume(packet);
    }

    fn reply4(&mut self, packet: &Packet, asked: Ipv4Addr, world: &mut impl World) -> Option<Packet> {
        let now = timestamp(world.now());
        let ip = Ipv4::parse_without_checksum(l3(packet)).ok()?;
        let identification = self.next_identification();
        let mut reply = match Icmp4::parse_without_checksum(ip.payload).ok()? {
            Icmp4::Other { kind: TIMESTAMP, body, .. } => {
                packet_with(ip.header_length() + TIMESTAMP_LENGTH, world, |buffer| {
                    write_times(buffer, &ip, body, identification, now)?;
                    only_records(buffer)
                })
            }
            _ => packet_with(ip.bytes.len(), world, |buffer| {
                buffer.copy_from_slice(ip.bytes);
                icmp4::reply_to_echo(buffer, HOPS, identification).ok()?;
                only_records(buffer)
            }),
        }?;
        // A route and times are recorded on the way back too (RFC 1122 3.2.2.6). The options were validated.
        let own = |address| is_own4(address, packet.meta().in_interface, world);
        let recorded = ipv4_options::record_in_reply(reply.bytes_mut(), asked, now, own);
        debug_assert!(recorded.is_ok());
        Some(reply)
    }
}

fn v6(address: IpAddr) -> Option<Ipv6Addr> {
    if let IpAddr::V6(address) = address { Some(address) } else { None }
}

fn echo6(packet: &Packet, source: Ipv6Addr, world: &mut impl World) -> Option<Packet> {
    let request = l3(packet);
    packet_with(request.len(), world, |buffer| {
        buffer.copy_from_slice(request);
        icmp6::reply_to_echo(buffer, source, HOPS).ok()
    })
}

/// Writes the reply to a timestamp request whose message from the identifier on is `body`. It was received and is answered at `now`.
fn write_times(buffer: &mut [u8], request: &Ipv4<'_>, body: &[u8], identification: u16, now: u32) -> Option<()> {
    let spec = Ipv4Spec {
        type_of_service: request.header.type_of_service(),
        identification,
        dont_fragment: false,
        ttl: HOPS,
        protocol: protocol::ICMP,
        source: request.header.destination(),
        destination: request.header.source(),
    };
    let options = request.options.len();
    spec.write(buffer, options + TIMESTAMP_LENGTH)?;
    buffer[0] = 0x40 | ((ipv4::HEADER + options) / 4) as u8;
    buffer.get_mut(ipv4::HEADER..)?.get_mut(..options)?.copy_from_slice(request.options);
    let message = buffer.get_mut(ipv4::HEADER + options..)?;
    message[..4].copy_from_slice(&[TIMESTAMP_REPLY, 0, 0, 0]);
    message[4..12].copy_from_slice(body.get(..8)?);
    message[12..16].copy_from_slice(&now.to_be_bytes());
    message[16..20].copy_from_slice(&now.to_be_bytes());
    let sum = checksum::checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(())
}
