//! The outer headers of a slice's packets: UDP over IPv4 or IPv6, removed from received packets and written to those that leave.

use packet::segment::complete;
use packet::wire::checksum::Sum;
use packet::wire::transport::{UDP_HEADER, seal, transport_checksum};
use packet::wire::{Ipv4, Ipv6, Ipv6Spec, ethernet, ethertype, ipv4, ipv6, protocol};
use packet::{DropReason, Meta, Packet};
use plane::tunnel::send_as_own;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;

/// The time to live of outer packets. `ip` decrements it when it forwards the packet.
const TTL: u8 = 64 + 1;
/// Bytes of the link header in front of an outer packet.
pub(crate) const LINK: usize = ethernet::HEADER;
/// The flag of IPv4 packets that routers may not fragment.
const DONT_FRAGMENT: u16 = 0x4000;

/// A UDP message within a frame.
pub(crate) struct OuterUdp {
    pub source: IpAddr,
    /// Its destination.
    pub place: SocketAddr,
    /// The position of the message in the frame.
    message: Range<usize>,
    checksum: u16,
}

impl OuterUdp {
    /// Reads the headers of a packet that the classifier has checked. `None` if it is not UDP.
    ///
    /// # Errors
    /// The headers are wrong.
    pub fn of(packet: &Packet) -> Option<Result<OuterUdp, DropReason>> {
        let l3 = usize::from(packet.meta().l3);
        let bytes = packet.bytes().get(l3..)?;
        let (source, destination, offset, end): (IpAddr, IpAddr, usize, usize);
        if packet.meta().flags & Meta::IPV6 == 0 {
            let ip = Ipv4::parse_without_checksum(bytes).ok().filter(|ip| ip.header.protocol() == protocol::UDP)?;
            if ip.header.is_fragment() {
                return Some(Err(DropReason::SliceHeader));
            }
            (source, destination) = (ip.header.source().into(), ip.header.destination().into());
            (offset, end) = (l3 + ip.header_length(), l3 + ip.bytes.len());
        } else {
            let ip = Ipv6::parse(bytes).ok()?;
            let (protocol, upper) = ip.upper().ok()??;
            if protocol != protocol::UDP {
                return None;
            }
            (source, destination) = (ip.header.source().into(), ip.header.destination().into());
            (offset, end) = (l3 + ip.bytes.len() - upper.len(), l3 + ip.bytes.len());
        }
        let message = packet.bytes().get(offset..end)?;
        let Some(&[_, _, to, port, long, short, sum, check]) = message.first_chunk::<UDP_HEADER>() else {
            return Some(Err(DropReason::SliceHeader));
        };
        let length = usize::from(u16::from_be_bytes([long, short]));
        if length < UDP_HEADER || length > message.len() {
            return Some(Err(DropReason::SliceHeader));
        }
        let place = SocketAddr::new(destination, u16::from_be_bytes([to, port]));
        let checksum = u16::from_be_bytes([sum, check]);
        Some(Ok(OuterUdp { source, place, message: offset..offset + length, checksum }))
    }

    /// Verifies the checksum, and removes all headers, so that the packet begins with the payload.
    ///
    /// # Errors
    /// The checksum is wrong.
    pub fn remove(self, packet: &mut Packet) -> Result<(), DropReason> {
        let message = self.message;
        if packet.is_offloaded() {
            // A sender on this machine leaves the checksum to a network card. Cutting a message into several would need the code option.
            if packet.offload().is_super_frame() || packet.has_tail() || !complete(packet) {
                return Err(DropReason::BadOffload);
            }
        } else {
            // Zero is no checksum in IPv4 (RFC 768), and wrong in IPv6 (RFC 8200 8.1).
            let unchecked = self.checksum == 0 && self.source.is_ipv4();
            let bytes = packet.bytes().get(message.clone()).unwrap_or_default();
            if !unchecked
                && (self.checksum == 0 || transport_checksum(self.source, self.place.ip(), protocol::UDP, bytes) != 0)
            {
                return Err(DropReason::SliceHeader);
            }
        }
        let payload = message.start + UDP_HEADER;
        let cut = packet.resize(message.end) && packet.shift(payload as isize);
        cut.then_some(()).ok_or(DropReason::SliceHeader)
    }
}

/// The bytes of the outer headers to a destination, with the link header.
pub(crate) fn outer_length(to: IpAddr) -> usize {
    LINK + UDP_HEADER + if to.is_ipv4() { ipv4::HEADER } else { ipv6::HEADER }
}

/// Puts outer headers in front of a packet, without the UDP checksum, and describes the outer packet in its record. False, and nothing is changed, if
/// the packet is too long or the addresses differ in their families.
#[inline]
pub(crate) fn write_outer(packet: &mut Packet, from: SocketAddr, to: SocketAddr) -> bool {
    match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => write_outer4(packet, from, to),
        (SocketAddr::V6(from), SocketAddr::V6(to)) => write_outer6(packet, from, to),
        _ => false,
    }
}

/// Bytes of the headers of IPv4, with the link header.
const OUTER4: usize = LINK + ipv4::HEADER + UDP_HEADER;

#[inline]
fn write_outer4(packet: &mut Packet, from: SocketAddrV4, to: SocketAddrV4) -> bool {
    let length = packet.len() + UDP_HEADER;
    let Ok(total) = u16::try_from(length + ipv4::HEADER) else { return false };
    if !packet.shift(-(OUTER4 as isize)) {
        return false;
    }
    let Some(headers) = packet.bytes_mut().first_chunk_mut::<OUTER4>() else { return false };
    // No link header yet: only its ethertype is read before the next hop is known. The identification is zero: it need not be unique, because
    // routers may not fragment the packet (RFC 6864 4).
    let mut written = [0; OUTER4];
    written[LINK - 2..LINK].copy_from_slice(&ethertype::IPV4.to_be_bytes());
    let fields = [0x4500, total, 0, DONT_FRAGMENT, u16::from_be_bytes([TTL, protocol::UDP])];
    let (source, destination) = (from.ip().to_bits(), to.ip().to_bits());
    let sum = fields.iter().fold(Sum::new(), |sum, field| sum.word(*field)).double(source).double(destination);
    let (header, udp) = written[LINK..].split_at_mut(ipv4::HEADER);
    for (place, field) in header.as_chunks_mut::<2>().0.iter_mut().zip(fields.into_iter().chain([sum.checksum()])) {
        *place = field.to_be_bytes();
    }
    header[12..16].copy_from_slice(&from.ip().octets());
    header[16..].copy_from_slice(&to.ip().octets());
    for (place, field) in udp.as_chunks_mut::<2>().0.iter_mut().zip([from.port(), to.port(), length as u16, 0]) {
        *place = field.to_be_bytes();
    }
    *headers = written;
    send_as_own(packet, LINK as u16, false);
    true
}

fn write_outer6(packet: &mut Packet, from: SocketAddrV6, to: SocketAddrV6) -> bool {
    let headers = outer_length((*to.ip()).into());
    let Ok(length) = u16::try_from(packet.len() + UDP_HEADER) else { return false };
    if !packet.shift(-(headers as isize)) {
        return false;
    }
    let (link, l3) = packet.bytes_mut().split_at_mut(LINK);
    let spec = Ipv6Spec {
        traffic_class: 0,
        flow_label: 0,
        next_header: protocol::UDP,
        hop_limit: TTL,
        source: *from.ip(),
        destination: *to.ip(),
    };
    let written = spec.write(l3, usize::from(length)).and_then(|at| l3.get_mut(at..));
    let Some(udp) = written.and_then(|rest| rest.first_chunk_mut::<UDP_HEADER>()) else {
        packet.shift(headers as isize);
        return false;
    };
    for (field, value) in udp.as_chunks_mut::<2>().0.iter_mut().zip([from.port(), to.port(), length, 0]) {
        *field = value.to_be_bytes();
    }
    link.fill(0);
    link[LINK - 2..].copy_from_slice(&ethertype::IPV6.to_be_bytes());
    send_as_own(packet, LINK as u16, true);
    true
}

/// Completes the UDP checksum of a packet that [`write_outer`] has made.
pub(crate) fn seal_outer(packet: &mut Packet, from: IpAddr, to: IpAddr) {
    let message = outer_length(to) - UDP_HEADER;
    if let Some(message) = packet.bytes_mut().get_mut(message..) {
        seal(from, to, protocol::UDP, message);
    }
}
