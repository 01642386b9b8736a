//! IPv6 (RFC 8200): the fixed header, and the address forms that a router computes (RFC 4291).

use super::Mac;
use std::fmt;
use std::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the fixed header.
pub const HEADER: usize = 40;
/// The minimum MTU of a link in bytes (RFC 8200 5).
pub const MINIMUM_MTU: usize = 1280;

/// The fixed header in its memory layout. It has no checksum; those of TCP, UDP and ICMPv6 cover the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv6Header {
    version_class_flow: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

impl Ipv6Header {
    /// The header at the start of `l3`. Only the length is checked.
    #[inline]
    pub fn of(l3: &[u8]) -> Option<&Self> {
        Some(Self::ref_from_prefix(l3).ok()?.0)
    }

    /// The header at the start of `l3`, mutable.
    #[inline]
    pub fn of_mut(l3: &mut [u8]) -> Option<&mut Self> {
        Some(Self::mut_from_prefix(l3).ok()?.0)
    }

    /// The version field; 6 in a packet that passed [`Ipv6::parse`].
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }

    /// The whole traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Differentiated services codepoint, 0..=63 (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification, 0..=3 (RFC 3168).
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label, 20 bits (RFC 6437).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0x000f_ffff
    }

    /// Bytes after the fixed header, including extension headers, from the field.
    #[inline]
    pub fn payload_length(&self) -> usize {
        usize::from(self.payload_length.get())
    }

    /// The protocol after the fixed header ([`super::protocol`]).
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.next_header
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        self.source.into()
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        self.destination.into()
    }

    /// Sets the traffic class.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        self.version_class_flow.set(self.version_class_flow.get() & !0x0ff0_0000 | u32::from(class) << 20);
    }

    /// Sets the DSCP (its low six bits) and keeps ECN.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set_traffic_class(dscp << 2 | self.ecn());
    }

    /// Sets ECN (its low two bits) and keeps the DSCP; 3 is "congestion experienced".
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        self.set_traffic_class(self.traffic_class() & !3 | ecn & 3);
    }

    /// Sets the flow label (its low 20 bits).
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        self.version_class_flow.set(self.version_class_flow.get() & !0x000f_ffff | label & 0x000f_ffff);
    }

    /// Sets the payload length, in bytes.
    #[inline]
    pub fn set_payload_length(&mut self, bytes: u16) {
        self.payload_length.set(bytes);
    }

    /// Sets the protocol after the fixed header.
    #[inline]
    pub fn set_next_header(&mut self, protocol: u8) {
        self.next_header = protocol;
    }

    /// Sets the hop limit. For forwarding use [`Ipv6Header::decrement_hop_limit`].
    #[inline]
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.hop_limit = hops;
    }

    /// Sets the source address. The caller updates the upper-layer checksum.
    #[inline]
    pub fn set_source(&mut self, address: Ipv6Addr) {
        self.source = address.octets();
    }

    /// Sets the destination address. The caller updates the upper-layer checksum.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        self.destination = address.octets();
    }

    /// Decrements the hop limit. Returns false and changes nothing if it is 0 or 1: the packet must not be forwarded (RFC 8200 3).
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let forward = self.hop_limit > 1;
        self.hop_limit -= u8::from(forward);
        forward
    }
}

/// The reason why a router may not forward bytes as an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ipv6Error {
    /// Fewer than 40 bytes.
    Truncated,
    /// The version is not 6.
    Version,
    /// The payload length extends beyond the frame.
    PayloadLengthBeyondFrame,
}

impl fmt::Display for Ipv6Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "IPv6 header truncated",
            Self::Version => "IPv6 version is not 6",
            Self::PayloadLengthBeyondFrame => "IPv6 payload length longer than the frame",
        })
    }
}

impl std::error::Error for Ipv6Error {}

/// A checked packet. The slices end with the packet, without Ethernet padding.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    /// The whole packet: header and payload.
    pub bytes: &'a [u8],
    /// The fixed header.
    pub header: &'a Ipv6Header,
    /// Extension headers and their payload ([`Ipv6::chain`]).
    pub payload: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// Checks version and length. `l3` begins with the header and may end in padding.
    ///
    /// A payload length of zero is taken literally: jumbograms (RFC 2675) need links that no port has.
    #[inline]
    pub fn parse(l3: &'a [u8]) -> Result<Self, Ipv6Error> {
        let (header, rest) = Ipv6Header::ref_from_prefix(l3).map_err(|_| Ipv6Error::Truncated)?;
        if header.version() != 6 {
            return Err(Ipv6Error::Version);
        }
        let payload = rest.get(..header.payload_length()).ok_or(Ipv6Error::PayloadLengthBeyondFrame)?;
        Ok(Self { bytes: &l3[..HEADER + payload.len()], header, payload })
    }

    /// The packet quoted in an ICMPv6 error: the payload length may exceed the quoted bytes.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Ipv6Error> {
        let (header, rest) = Ipv6Header::ref_from_prefix(bytes).map_err(|_| Ipv6Error::Truncated)?;
        if header.version() != 6 {
            return Err(Ipv6Error::Version);
        }
        let payload = &rest[..rest.len().min(header.payload_length())];
        Ok(Self { bytes: &bytes[..HEADER + payload.len()], header, payload })
    }
}

/// The fields of a header to build. Version and length are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Spec {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// The protocol after the header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6Spec {
    /// The header of a packet with `payload` bytes after it. `None` beyond 65535 bytes.
    pub fn header(&self, payload: usize) -> Option<Ipv6Header> {
        let class = u32::from(self.traffic_class) << 20;
        Some(Ipv6Header {
            version_class_flow: U32::new(6 << 28 | class | self.flow_label & 0x000f_ffff),
            payload_length: U16::new(u16::try_from(payload).ok()?),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        })
    }

    /// Writes [`Ipv6Spec::header`] at the start of `buffer` and returns its length (40), `None` if it does not fit.
    pub fn write(&self, buffer: &mut [u8], payload: usize) -> Option<usize> {
        *buffer.first_chunk_mut::<HEADER>()? = zerocopy::transmute!(self.header(payload)?);
        Some(HEADER)
    }
}

/// The scope of a multicast address: its scope field (RFC 4291 2.7, RFC 7346).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MulticastScope {
    /// 0 or 15: reserved. Packets to scope 0 must not be sent and are dropped on reception.
    Reserved(u8),
    /// 1: interface-local, never leaves the interface.
    Interface,
    /// 2: link-local, never leaves the link.
    Link,
    /// 3: realm-local.
    Realm,
    /// 4: administratively configured.
    Admin,
    /// 5: site-local.
    Site,
    /// 8: organization-local.
    Organization,
    /// 14: global.
    Global,
    /// Another value, unassigned.
    Other(u8),
}

/// The scope of a multicast address, `None` for every other address.
pub fn multicast_scope(address: Ipv6Addr) -> Option<MulticastScope> {
    let [0xff, flags_scope, ..] = address.octets() else { return None };
    Some(match flags_scope & 0x0f {
        reserved @ (0 | 15) => MulticastScope::Reserved(reserved),
        1 => MulticastScope::Interface,
        2 => MulticastScope::Link,
        3 => MulticastScope::Realm,
        4 => MulticastScope::Admin,
        5 => MulticastScope::Site,
        8 => MulticastScope::Organization,
        14 => MulticastScope::Global,
        other => MulticastScope::Other(other),
    })
}

/// True if `address` is link-local unicast, fe80::/10. A router must not forward packets from or to it (RFC 4291 2.5.6).
#[inline]
pub fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// True if `address` can be the source of a packet from another host: not unspecified, loopback or multicast (RFC 4291 2.5.2, 2.5.3, 2.7).
#[inline]
pub fn is_unicast_source(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}

/// The Ethernet address of a multicast group: its last four bytes after 33:33 (RFC 2464 7).
pub fn multicast_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// The solicited-node multicast address of `address`: ff02::1:ff00:0/104 and its last 24 bits (RFC 4291 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// The link-local address of an interface with the modified EUI-64 of `mac` (RFC 4291 2.5.6 and appendix A).
pub fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// All nodes on the link, ff02::1 (RFC 4291 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers on the link, ff02::2 (RFC 4291 2.7.1).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// All routers of the site, ff05::2 (RFC 4291 2.7.1).
pub const ALL_SITE_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 2);
