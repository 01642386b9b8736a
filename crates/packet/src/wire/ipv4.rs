//! IPv4 (RFC 791): the checks of a router (RFC 1812 5.2.2), and the operations of the hot path.

use super::checksum;
use std::fmt;
use std::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Bytes of the longest header, with 40 bytes of options.
pub const LONGEST_HEADER: usize = 60;

const RESERVED: u16 = 0x8000;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// The fixed header in its memory layout. Its setters update the checksum incrementally (RFC 1624).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv4Header {
    version_length: u8,
    type_of_service: u8,
    total_length: U16,
    identification: U16,
    fragment: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

impl Ipv4Header {
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

    /// The version field; 4 in a packet that passed [`Ipv4::parse`].
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_length >> 4
    }

    /// Header length in bytes from its field, including options: 0..=60, a multiple of four.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(self.version_length & 0x0f) * 4
    }

    /// The whole type-of-service byte: DSCP and ECN.
    #[inline]
    pub fn type_of_service(&self) -> u8 {
        self.type_of_service
    }

    /// Differentiated services codepoint, 0..=63 (RFC 2474).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.type_of_service >> 2
    }

    /// Explicit congestion notification, 0..=3 (RFC 3168).
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.type_of_service & 3
    }

    /// Bytes of header and payload, from the field.
    #[inline]
    pub fn total_length(&self) -> usize {
        usize::from(self.total_length.get())
    }

    /// The identification, which is equal in all fragments of a packet.
    #[inline]
    pub fn identification(&self) -> u16 {
        self.identification.get()
    }

    /// True if the packet must not be fragmented.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fragment.get() & DONT_FRAGMENT != 0
    }

    /// True if more fragments follow.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.fragment.get() & MORE_FRAGMENTS != 0
    }

    /// Offset of this fragment's payload in the whole packet, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment.get() & OFFSET) * 8
    }

    /// True for a fragment, false for a whole packet.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragment.get() & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// True if the packet has its upper-layer header: a whole packet or the first fragment.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.fragment.get() & OFFSET == 0
    }

    /// Time to live, in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.ttl
    }

    /// The protocol of the payload ([`super::protocol`]).
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The checksum field.
    #[inline]
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        self.source.into()
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        self.destination.into()
    }

    /// Sets the type-of-service byte.
    #[inline]
    pub fn set_type_of_service(&mut self, value: u8) {
        let old = u16::from_be_bytes([self.version_length, self.type_of_service]);
        self.type_of_service = value;
        self.covered(old, u16::from_be_bytes([self.version_length, value]));
    }

    /// Sets the DSCP (its low six bits) and keeps ECN.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set_type_of_service(dscp << 2 | self.ecn());
    }

    /// Sets ECN (its low two bits) and keeps the DSCP; 3 is "congestion experienced".
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        self.set_type_of_service(self.type_of_service & !3 | ecn & 3);
    }

    /// Sets the total length, in bytes.
    #[inline]
    pub fn set_total_length(&mut self, bytes: u16) {
        let old = self.total_length.get();
        self.total_length.set(bytes);
        self.covered(old, bytes);
    }

    /// Sets the identification.
    #[inline]
    pub fn set_identification(&mut self, identification: u16) {
        let old = self.identification.get();
        self.identification.set(identification);
        self.covered(old, identification);
    }

    /// Sets flags and offset (in bytes, a multiple of eight; lower bits are ignored) and clears the reserved bit.
    #[inline]
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: u16) {
        let flags = if dont_fragment { DONT_FRAGMENT } else { 0 } | if more_fragments { MORE_FRAGMENTS } else { 0 };
        let (old, new) = (self.fragment.get(), flags | (offset / 8));
        self.fragment.set(new);
        self.covered(old, new);
    }

    /// Sets the time to live. For forwarding use [`decrement_ttl`].
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        let old = u16::from_be_bytes([self.ttl, self.protocol]);
        self.ttl = ttl;
        self.covered(old, u16::from_be_bytes([ttl, self.protocol]));
    }

    /// Sets the source address. The caller updates the upper-layer checksum.
    #[inline]
    pub fn set_source(&mut self, address: Ipv4Addr) {
        let old = u32::from_be_bytes(self.source);
        self.source = address.octets();
        self.checksum.set(checksum::update_double(self.checksum.get(), old, address.to_bits()));
    }

    /// Sets the destination address. The caller updates the upper-layer checksum.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        let old = u32::from_be_bytes(self.destination);
        self.destination = address.octets();
        self.checksum.set(checksum::update_double(self.checksum.get(), old, address.to_bits()));
    }

    /// Updates the checksum after a covered word changed.
    #[inline]
    fn covered(&mut self, old: u16, new: u16) {
        self.checksum.set(checksum::update(self.checksum.get(), old, new));
    }
}

/// The reason why a router may not forward bytes as an IPv4 packet (RFC 1812 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ipv4Error {
    /// Fewer than 20 bytes: test (1).
    Truncated,
    /// The version is not 4: test (3).
    Version,
    /// The header length field is below five words: test (4).
    HeaderLength,
    /// The header length field extends beyond the frame.
    HeaderTruncated,
    /// The total length is below the header length: test (5).
    TotalLengthBelowHeader,
    /// The total length extends beyond the frame (RFC 1812 5.2.2, last but one paragraph).
    TotalLengthBeyondFrame,
    /// The header checksum is wrong: test (2).
    Checksum,
}

impl fmt::Display for Ipv4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "IPv4 header truncated",
            Self::Version => "IPv4 version is not 4",
            Self::HeaderLength => "IPv4 header length below 20",
            Self::HeaderTruncated => "IPv4 header longer than the frame",
            Self::TotalLengthBelowHeader => "IPv4 total length below the header length",
            Self::TotalLengthBeyondFrame => "IPv4 total length longer than the frame",
            Self::Checksum => "IPv4 header checksum wrong",
        })
    }
}

impl std::error::Error for Ipv4Error {}

/// A checked packet. The slices end with the packet, without Ethernet padding.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    /// The whole packet: header, options and payload.
    pub bytes: &'a [u8],
    /// The fixed header.
    pub header: &'a Ipv4Header,
    /// The options, 0..=40 bytes ([`super::ipv4_options`]).
    pub options: &'a [u8],
    /// The payload, or the part of it in this fragment.
    pub payload: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Checks everything that RFC 1812 5.2.2 requires. `l3` begins with the header and may end in padding.
    #[inline]
    pub fn parse(l3: &'a [u8]) -> Result<Self, Ipv4Error> {
        let packet = Self::parse_without_checksum(l3)?;
        if packet.header_checksum_ok() { Ok(packet) } else { Err(Ipv4Error::Checksum) }
    }

    /// [`Ipv4::parse`] without the checksum, for frames whose checksum was verified before.
    #[inline]
    pub fn parse_without_checksum(l3: &'a [u8]) -> Result<Self, Ipv4Error> {
        let (header, _) = Ipv4Header::ref_from_prefix(l3).map_err(|_| Ipv4Error::Truncated)?;
        if header.version() != 4 {
            return Err(Ipv4Error::Version);
        }
        let length = header.header_length();
        if length < HEADER {
            return Err(Ipv4Error::HeaderLength);
        }
        let options = l3.get(HEADER..length).ok_or(Ipv4Error::HeaderTruncated)?;
        if header.total_length() < length {
            return Err(Ipv4Error::TotalLengthBelowHeader);
        }
        let bytes = l3.get(..header.total_length()).ok_or(Ipv4Error::TotalLengthBeyondFrame)?;
        Ok(Self { bytes, header, options, payload: &bytes[length..] })
    }

    /// The packet quoted in an ICMP error: the total length may exceed the quoted bytes, and the checksum may be stale.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Ipv4Error> {
        let (header, _) = Ipv4Header::ref_from_prefix(bytes).map_err(|_| Ipv4Error::Truncated)?;
        if header.version() != 4 {
            return Err(Ipv4Error::Version);
        }
        let length = header.header_length();
        if length < HEADER {
            return Err(Ipv4Error::HeaderLength);
        }
        let options = bytes.get(HEADER..length).ok_or(Ipv4Error::HeaderTruncated)?;
        let bytes = &bytes[..bytes.len().min(header.total_length().max(length))];
        Ok(Self { bytes, header, options, payload: &bytes[length..] })
    }

    /// Bytes of header and options.
    #[inline]
    pub fn header_length(&self) -> usize {
        HEADER + self.options.len()
    }

    /// True if the header checksum is correct.
    #[inline]
    pub fn header_checksum_ok(&self) -> bool {
        match self.bytes.first_chunk::<HEADER>() {
            Some(header) if self.options.is_empty() => header_checksum_ok_20(header),
            _ => checksum::sum(&self.bytes[..self.header_length()]) == 0xffff,
        }
    }
}

/// True if the checksum of a header without options is correct.
///
/// It is correct if the sum of its five words is zero in ones' complement, that is a multiple of 65535. The test for divisibility by a constant is
/// one multiplication, which is shorter than folding. An all-zero header is not correct: its checksum would be 0xffff.
#[inline]
pub fn header_checksum_ok_20(header: &[u8; HEADER]) -> bool {
    let sum = sum_20(header);
    sum != 0 && sum.is_multiple_of(0xffff)
}

#[inline]
fn sum_20(header: &[u8; HEADER]) -> u64 {
    let (words, _) = header.as_chunks::<4>();
    words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum()
}

/// Decrements the time to live and updates the checksum (RFC 1624). Returns false and changes nothing if it is 0 or 1: the packet must not be
/// forwarded (RFC 1812 5.3.1).
///
/// The word of TTL and protocol decreases by 0x0100, so the checksum increases by it. 0xffff, the other form of zero, becomes 0x0000, like in a
/// recomputation.
#[inline]
pub fn decrement_ttl(header: &mut [u8; HEADER]) -> bool {
    let header: &mut Ipv4Header = zerocopy::transmute_mut!(header);
    if header.ttl <= 1 {
        return false;
    }
    header.ttl -= 1;
    let grown = u32::from(header.checksum.get()) + 0x0100;
    header.checksum.set((grown + u32::from(grown >= 0xffff)) as u16);
    true
}

/// The fields of a header to build. Version, length and checksum are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Spec {
    /// DSCP and ECN.
    pub type_of_service: u8,
    /// Identification; need not be unique when `dont_fragment` is set (RFC 6864).
    pub identification: u16,
    /// True if routers must not fragment it.
    pub dont_fragment: bool,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4Spec {
    /// The header, without options, of a packet with `payload` bytes after it. `None` beyond 65515 bytes.
    pub fn header(&self, payload: usize) -> Option<Ipv4Header> {
        let total_length = u16::try_from(payload.checked_add(HEADER)?).ok()?;
        let mut header = Ipv4Header {
            version_length: 0x45,
            type_of_service: self.type_of_service,
            total_length: U16::new(total_length),
            identification: U16::new(self.identification),
            fragment: U16::new(if self.dont_fragment { DONT_FRAGMENT } else { 0 }),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: U16::ZERO,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        header.checksum.set(checksum::checksum(header.as_bytes()));
        Some(header)
    }

    /// Writes [`Ipv4Spec::header`] at the start of `buffer` and returns its length (20), `None` if it does not fit.
    pub fn write(&self, buffer: &mut [u8], payload: usize) -> Option<usize> {
        *buffer.first_chunk_mut::<HEADER>()? = zerocopy::transmute!(self.header(payload)?);
        Some(HEADER)
    }
}

/// True if `address` can be the source of a packet from another host: not "this network" (0/8), multicast, reserved or broadcast (240/4), or loopback
/// (RFC 1812 4.2.2.11 and 5.3.7).
pub fn is_unicast_source(address: Ipv4Addr) -> bool {
    !matches!(address.octets()[0], 0 | 127 | 224..)
}

/// The Ethernet address of a multicast group: its low 23 bits after 01:00:5e (RFC 1112 6.4).
pub fn multicast_mac(group: Ipv4Addr) -> super::Mac {
    let [_, b, c, d] = group.octets();
    super::Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

/// True if the reserved flag is set ("evil" in RFC 3514, otherwise meaningless). It is forwarded unchanged.
pub fn has_reserved_flag(header: &Ipv4Header) -> bool {
    header.fragment.get() & RESERVED != 0
}
