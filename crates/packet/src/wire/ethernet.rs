//! Ethernet: addresses, frames with at most one 802.1Q tag, headers written in front of a payload.

use super::ethertype;
use std::fmt;
use units::Mac;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an Ethernet header without a tag.
pub const HEADER: usize = 14;
/// Bytes of one 802.1Q tag.
pub const TAG: usize = 4;

/// The kind of a destination address: unicast, multicast or broadcast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cast {
    /// One host.
    #[default]
    Unicast,
    /// A group of hosts.
    Multicast,
    /// All hosts.
    Broadcast,
}

impl Cast {
    /// The kind of this destination address.
    #[inline]
    pub fn of(destination: Mac) -> Cast {
        if !destination.is_group() {
            Cast::Unicast
        } else if destination.is_broadcast() {
            Cast::Broadcast
        } else {
            Cast::Multicast
        }
    }
}

/// The fixed header in its memory layout.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    destination: [u8; 6],
    source: [u8; 6],
    kind: U16,
}

/// An 802.1Q tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vlan {
    /// VLAN identifier, 0..=4095; 0 is a priority tag that names no VLAN, 4095 is reserved.
    pub id: u16,
    /// Priority code point, 0..=7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// True for an 802.1ad service tag (0x88a8), false for a customer tag (0x8100).
    pub service: bool,
}

/// The payload after the addresses and the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LengthOrType {
    /// A payload of this ethertype.
    Ethertype(u16),
    /// An 802.3 frame: the field (below 0x600) is a length, the payload begins with an LLC header.
    Length(u16),
    /// A second tag with this ethertype (QinQ), which the router does not parse. The payload begins after the first tag.
    SecondTag(u16),
}

/// The frame is shorter than its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncatedFrame;

impl fmt::Display for TruncatedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("frame shorter than its Ethernet header")
    }
}

impl std::error::Error for TruncatedFrame {}

/// The parsed header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// The destination address.
    pub destination: Mac,
    /// The source address.
    pub source: Mac,
    /// The first tag, if any.
    pub vlan: Option<Vlan>,
    /// The kind of payload.
    pub length_or_type: LengthOrType,
    /// The offset of the payload: 14, or 18 after a tag. Never beyond the frame.
    pub payload: usize,
}

impl Ethernet {
    /// Parses the header of `frame`.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, TruncatedFrame> {
        let (header, rest) = Header::ref_from_prefix(frame).map_err(|_| TruncatedFrame)?;
        let (destination, source, kind) = (Mac(header.destination), Mac(header.source), header.kind);
        let kind = kind.get();
        if kind != ethertype::VLAN && kind != ethertype::SERVICE_VLAN {
            return Ok(Self { destination, source, vlan: None, length_or_type: length_or_type(kind), payload: HEADER });
        }
        let &[t0, t1, k0, k1] = rest.first_chunk::<TAG>().ok_or(TruncatedFrame)?;
        let vlan = Vlan {
            id: u16::from_be_bytes([t0 & 0x0f, t1]),
            pcp: t0 >> 5,
            dei: t0 & 0x10 != 0,
            service: kind == ethertype::SERVICE_VLAN,
        };
        let carries = match u16::from_be_bytes([k0, k1]) {
            second @ (ethertype::VLAN | ethertype::SERVICE_VLAN) => LengthOrType::SecondTag(second),
            other => length_or_type(other),
        };
        Ok(Self { destination, source, vlan: Some(vlan), length_or_type: carries, payload: HEADER + TAG })
    }

    /// The ethertype of the payload. `None` for 802.3 frames and after a second tag.
    #[inline]
    pub fn ethertype(&self) -> Option<u16> {
        match self.length_or_type {
            LengthOrType::Ethertype(ethertype) => Some(ethertype),
            LengthOrType::Length(_) | LengthOrType::SecondTag(_) => None,
        }
    }
}

#[inline]
fn length_or_type(kind: u16) -> LengthOrType {
    if kind < ethertype::LOWEST { LengthOrType::Length(kind) } else { LengthOrType::Ethertype(kind) }
}

/// Bytes of a header with or without a tag.
#[inline]
pub const fn header_length(vlan: Option<u16>) -> usize {
    if vlan.is_some() { HEADER + TAG } else { HEADER }
}

/// Writes a header to the last bytes of `headroom`, which ends at the payload, and returns its length.
///
/// `vlan` is the identifier of a customer tag; only its low 12 bits are written, with priority 0. Returns `None` and writes nothing if `headroom` is
/// too short.
#[inline]
pub fn write_header(
    headroom: &mut [u8],
    destination: Mac,
    source: Mac,
    vlan: Option<u16>,
    ethertype: u16,
) -> Option<usize> {
    let length = header_length(vlan);
    let start = headroom.len().checked_sub(length)?;
    let (header, tag) = Header::mut_from_prefix(&mut headroom[start..]).ok()?;
    *header = Header {
        destination: destination.0,
        source: source.0,
        kind: U16::new(if vlan.is_some() { ethertype::VLAN } else { ethertype }),
    };
    if let (Some(id), Some(tag)) = (vlan, tag.first_chunk_mut::<TAG>()) {
        let [t0, t1] = (id & 0x0fff).to_be_bytes();
        let [k0, k1] = ethertype.to_be_bytes();
        *tag = [t0, t1, k0, k1];
    }
    Some(length)
}

/// An 802.1Q tag of a VLAN, with priority 0: the four bytes behind the addresses.
#[inline]
pub const fn tag(vlan: u16) -> [u8; TAG] {
    let ([t0, t1], [v0, v1]) = (ethertype::VLAN.to_be_bytes(), (vlan & 0x0fff).to_be_bytes());
    [t0, t1, v0, v1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Ethernet2Header, SingleVlanHeader};
    use proptest::prelude::*;

    #[test]
    fn mac_addresses_are_unicast_multicast_or_broadcast() {
        for (text, cast, unicast) in [
            ("02:00:00:00:00:01", Cast::Unicast, true),
            ("00:00:00:00:00:00", Cast::Unicast, false),
            ("01:00:5e:00:00:01", Cast::Multicast, false),
            ("33:33:00:00:00:01", Cast::Multicast, false),
            ("ff:ff:ff:ff:ff:ff", Cast::Broadcast, false),
        ] {
            let mac: Mac = text.parse().unwrap();
            assert_eq!((Cast::of(mac), mac.is_unicast()), (cast, unicast), "{text}");
            assert_eq!(mac.is_group(), cast != Cast::Unicast, "{text}");
        }
    }

    #[test]
    fn second_vlan_tag_is_reported_but_not_parsed() {
        let mut frame = [0u8; 64];
        frame[12..20].copy_from_slice(&[0x88, 0xa8, 0xb0, 0x64, 0x81, 0x00, 0x00, 0x07]);
        let parsed = Ethernet::parse(&frame).unwrap();
        assert_eq!(parsed.vlan, Some(Vlan { id: 100, pcp: 5, dei: true, service: true }));
        assert_eq!((parsed.length_or_type, parsed.payload), (LengthOrType::SecondTag(0x8100), 18));
        assert_eq!(parsed.ethertype(), None);
    }

    #[test]
    fn a_length_is_not_an_ethertype() {
        let mut frame = [0u8; 64];
        for (kind, expected) in [
            (0x0026, LengthOrType::Length(0x26)),
            (0x05ff, LengthOrType::Length(0x5ff)),
            (0x0600, LengthOrType::Ethertype(0x600)),
        ] {
            frame[12..14].copy_from_slice(&u16::to_be_bytes(kind));
            assert_eq!(Ethernet::parse(&frame).unwrap().length_or_type, expected);
        }
    }

    #[test]
    fn short_ethernet_header_is_truncated() {
        let mut frame = [0u8; 18];
        assert_eq!(Ethernet::parse(&frame[..13]), Err(TruncatedFrame));
        frame[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
        assert_eq!(Ethernet::parse(&frame[..17]), Err(TruncatedFrame));
        assert!(Ethernet::parse(&frame).is_ok());
    }

    proptest! {
        #[test]
        fn written_header_parses_here_and_in_etherparse(
            destination: [u8; 6],
            source: [u8; 6],
            vlan in proptest::option::of(0u16..4096),
            kind in 0x9000u16..,
            room in 0usize..40,
        ) {
            let mut buffer = vec![0xa5; room];
            let written = write_header(&mut buffer, Mac(destination), Mac(source), vlan, kind);
            let Some(length) = written else {
                prop_assert!(room < header_length(vlan));
                prop_assert!(buffer.iter().all(|&byte| byte == 0xa5));
                return Ok(());
            };
            prop_assert!(buffer[..room - length].iter().all(|&byte| byte == 0xa5));
            let frame = &buffer[room - length..];
            let ours = Ethernet::parse(frame).unwrap();
            prop_assert_eq!((ours.destination, ours.source), (Mac(destination), Mac(source)));
            prop_assert_eq!((ours.vlan.map(|tag| tag.id), ours.ethertype(), ours.payload), (vlan, Some(kind), length));
            let (theirs, rest) = Ethernet2Header::from_slice(frame).unwrap();
            prop_assert_eq!((theirs.destination, theirs.source), (destination, source));
            match vlan {
                None => prop_assert_eq!(theirs.ether_type.0, kind),
                Some(id) => {
                    let (tag, _) = SingleVlanHeader::from_slice(rest).unwrap();
                    prop_assert_eq!((tag.vlan_id.value(), tag.ether_type.0), (id, kind));
                }
            }
        }
    }
}
