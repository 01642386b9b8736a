//! The outer headers of a slice's packets: UDP over IPv4 or IPv6, removed from received packets and written to those that leave.

use packet::segment::complete;
use packet::wire::checksum::{Sum, sum};
use packet::wire::transport::UDP_HEADER;
use packet::wire::{Ipv4, Ipv6, Ipv6Spec, ethernet, ethertype, ipv4, ipv6, protocol};
use packet::{DropReason, Meta, Packet};
use plane::tunnel::send_as_own;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// The time to live of outer packets. `ip` decrements it when it forwards the packet.
const TTL: u8 = 64 + 1;
/// Bytes of the link header in front of an outer packet.
pub(crate) const LINK: usize = ethernet::HEADER;
/// The flag of IPv4 packets that routers may not fragment.
const DONT_FRAGMENT: u16 = 0x4000;
/// Bytes of the outer headers with the link header.
const OUTER4: usize = LINK + ipv4::HEADER + UDP_HEADER;
const OUTER6: usize = LINK + ipv6::HEADER + UDP_HEADER;

/// An address of either family as a number: that of an IPv4 address is the mapped one.
pub(crate) fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => mapped_bits(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mapped_bits(address: u32) -> u128 {
    0xffff << 32 | u128::from(address)
}

/// A UDP message within a frame.
pub(crate) struct OuterUdp {
    /// Its destination: the [bits](address_bits) of the address, and the port.
    pub to: (u128, u16),
    /// The sum of both addresses.
    addresses: Sum,
    /// The position of the message in the frame.
    message: Range<usize>,
    checksum: u16,
    is_ipv6: bool,
}

impl OuterUdp {
    /// Reads the headers of a packet that the classifier has checked. `None` if it is not UDP.
    ///
    /// # Errors
    /// The headers are wrong.
    #[inline(always)]
    pub fn of(packet: &Packet) -> Option<Result<OuterUdp, DropReason>> {
        let l3 = usize::from(packet.meta().l3);
        let bytes = packet.bytes().get(l3..)?;
        let is_ipv6 = packet.meta().flags & Meta::IPV6 != 0;
        let (to, addresses, offset, end);
        if is_ipv6 {
            let ip = Ipv6::parse(bytes).ok()?;
            let (protocol, upper) = ip.upper().ok()??;
            if protocol != protocol::UDP {
                return None;
            }
            let (source, destination) = (ip.header.source(), ip.header.destination());
            addresses = Sum::new().bytes(&source.octets()).bytes(&destination.octets());
            to = destination.to_bits();
            (offset, end) = (l3 + ip.bytes.len() - upper.len(), l3 + ip.bytes.len());
        } else {
            let ip = Ipv4::parse_without_checksum(bytes).ok().filter(|ip| ip.header.protocol() == protocol::UDP)?;
            if ip.header.is_fragment() {
                return Some(Err(DropReason::SliceHeader));
            }
            let (source, destination) = (ip.header.source().to_bits(), ip.header.destination().to_bits());
            addresses = Sum::new().double(source).double(destination);
            to = mapped_bits(destination);
            (offset, end) = (l3 + ip.header_length(), l3 + ip.bytes.len());
        }
        let message = packet.bytes().get(offset..end)?;
        let Some(&[_, _, high, low, long, short, sum, check]) = message.first_chunk::<UDP_HEADER>() else {
            return Some(Err(DropReason::SliceHeader));
        };
        let length = usize::from(u16::from_be_bytes([long, short]));
        if length < UDP_HEADER || length > message.len() {
            return Some(Err(DropReason::SliceHeader));
        }
        let to = (to, u16::from_be_bytes([high, low]));
        let checksum = u16::from_be_bytes([sum, check]);
        Some(Ok(OuterUdp { to, addresses, message: offset..offset + length, checksum, is_ipv6 }))
    }

    /// Verifies the checksum, and removes all headers, so that the packet begins with the payload.
    ///
    /// # Errors
    /// The checksum is wrong.
    #[inline(always)]
    pub fn remove(self, packet: &mut Packet) -> Result<(), DropReason> {
        let message = self.message;
        if packet.is_offloaded() {
            // A sender on this machine leaves the checksum to a network card. Cutting a message into several would need the code option.
            if packet.offload().is_super_frame() || packet.has_tail() || !complete(packet) {
                return Err(DropReason::BadOffload);
            }
        } else if self.checksum != 0 {
            // A message is shorter than 64 KB.
            let pseudo = self.addresses.word(protocol::UDP.into()).word(message.len() as u16);
            let bytes = packet.bytes().get(message.clone()).unwrap_or_default();
            if pseudo.bytes(bytes).checksum() != 0 {
                return Err(DropReason::SliceHeader);
            }
        } else if self.is_ipv6 {
            // Zero is no checksum in IPv4 (RFC 768), and wrong in IPv6 (RFC 8200 8.1).
            return Err(DropReason::SliceHeader);
        }
        let payload = message.start + UDP_HEADER;
        let cut = packet.resize(message.end) && packet.shift(payload as isize);
        cut.then_some(()).ok_or(DropReason::SliceHeader)
    }
}

/// The outer headers of all packets from a meta-interface to a next node. They differ in lengths and checksums.
#[derive(Clone, Debug)]
pub(crate) struct OuterHeaders {
    bytes: [u8; OUTER6],
    /// The bytes that are used: [`OUTER4`] or [`OUTER6`].
    length: usize,
    /// The sum of the IPv4 header, and that of the UDP header with the pseudo-header; both without lengths.
    header: Sum,
    message: Sum,
}

impl OuterHeaders {
    /// `None` if the families of the addresses differ.
    pub fn new(from: SocketAddr, to: SocketAddr) -> Option<OuterHeaders> {
        let mut bytes = [0; OUTER6];
        let length = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                // The identification is zero: it need not be unique, because routers may not fragment the packet (RFC 6864 4).
                let fields = [0x4500, 0, 0, DONT_FRAGMENT, u16::from_be_bytes([TTL, protocol::UDP]), 0];
                let (words, _) = bytes[LINK..].as_chunks_mut();
                words.iter_mut().zip(fields).for_each(|(word, field)| *word = field.to_be_bytes());
                bytes[LINK + 12..][..4].copy_from_slice(&from.octets());
                bytes[LINK + 16..][..4].copy_from_slice(&to.octets());
                OUTER4
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let fixed = Ipv6Spec {
                    traffic_class: 0,
                    flow_label: 0,
                    next_header: protocol::UDP,
                    hop_limit: TTL,
                    source,
                    destination,
                };
                fixed.write(&mut bytes[LINK..], 0)?;
                OUTER6
            }
            _ => return None,
        };
        // No link header yet: only its ethertype is read before the next hop is known.
        let kind = if length == OUTER4 { ethertype::IPV4 } else { ethertype::IPV6 };
        bytes[LINK - 2..LINK].copy_from_slice(&kind.to_be_bytes());
        let udp = length - UDP_HEADER;
        bytes[udp..udp + 2].copy_from_slice(&from.port().to_be_bytes());
        bytes[udp + 2..udp + 4].copy_from_slice(&to.port().to_be_bytes());
        let addresses = sum(if length == OUTER4 { &bytes[LINK + 12..udp] } else { &bytes[LINK + 8..udp] });
        let message = Sum::new().word(addresses).word(protocol::UDP.into()).bytes(&bytes[udp..length]);
        Some(OuterHeaders { header: Sum::new().bytes(&bytes[LINK..udp]), bytes, length, message })
    }

    /// Their length in bytes, with the link header.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Puts them in front of a packet, and describes the outer packet in its record. False, and nothing is changed, if the packet is too long.
    #[inline(always)]
    pub fn put_before(&self, packet: &mut Packet) -> bool {
        let length = packet.len() + UDP_HEADER;
        let (Ok(message), Ok(total)) = (u16::try_from(length), u16::try_from(length + ipv4::HEADER)) else {
            return false;
        };
        let payload = sum(packet.bytes());
        if !packet.shift(-(self.length as isize)) {
            return false;
        }
        let headers = packet.bytes_mut();
        let is_ipv6 = self.length == OUTER6;
        let udp = if is_ipv6 {
            let Some(headers) = headers.first_chunk_mut::<OUTER6>() else { return false };
            *headers = self.bytes;
            headers[LINK + 4..LINK + 6].copy_from_slice(&message.to_be_bytes());
            headers.last_chunk_mut::<UDP_HEADER>()
        } else {
            let Some(headers) = headers.first_chunk_mut::<OUTER4>() else { return false };
            headers.copy_from_slice(&self.bytes[..OUTER4]);
            headers[LINK + 2..LINK + 4].copy_from_slice(&total.to_be_bytes());
            headers[LINK + 10..LINK + 12].copy_from_slice(&self.header.word(total).checksum().to_be_bytes());
            headers.last_chunk_mut::<UDP_HEADER>()
        };
        let Some([_, _, _, _, fields @ ..]) = udp else { return false };
        // The pseudo-header and the header both have the length. A sum of zero is written as 0xffff, because zero is no checksum (RFC 768).
        let checksum = match self.message.word(message).word(message).word(payload).checksum() {
            0 => 0xffff,
            checksum => checksum,
        };
        *fields = (u32::from(message) << 16 | u32::from(checksum)).to_be_bytes();
        send_as_own(packet, LINK as u16, is_ipv6);
        true
    }
}
