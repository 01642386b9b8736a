//! The header of I3 packets.
//!
//! | byte | contents |
//! |---|---|
//! | 0 | version, 0x10 |
//! | 1 | flags: data 0x10, option list 0x20, first hop 0x40; low nibble: the last-hop mark (0x08) and the high bits of the hop count |
//! | 2 | high nibble: the low bits of the hop count; low nibble: identifiers of the stack, 1 to 15 |
//! | 3 | the identifiers, 32 bytes each; then the option list, if there is one; then the payload |
//!
//! The published implementation wraps packets between two routers in a Chord header of 24 bytes. Only two of its fields are not in the packet anyway: the
//! hops left, and if the sender takes the receiver for the responsible router. They fit into the eight bits that the header leaves unused, so the header
//! of a packet has 35 bytes on all its way. The bits are zero in packets from and to end systems.

use super::id::I3Id;
use std::fmt;

/// Bytes before the identifiers.
pub const FIXED: usize = 3;
/// Bytes of an identifier.
pub const ID: usize = 32;
/// Bytes of the header of a packet with one identifier and no options.
pub const SINGLE_ID_HEADER: usize = FIXED + ID;

/// The routers that may forward a packet (Chord's `DEF_TTL`).
pub const HOP_LIMIT: u8 = 64;

const VERSION: u8 = 0x10;
/// Flag: a payload follows.
pub const DATA: u8 = 0x10;
/// Flag: an option list follows the identifiers.
pub const OPTIONS: u8 = 0x20;
/// Flag: the packet comes from an end system.
pub const FIRST_HOP: u8 = 0x40;
const UNKNOWN_FLAG: u8 = 0x80;
const LAST: u8 = 0x08;

/// The mark of a packet on its way along the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingMark {
    /// The routers that have forwarded the packet, 0 to 127.
    pub hops: u8,
    /// True if the sender takes the receiver for the responsible router.
    pub is_last: bool,
}

/// The reason why bytes are no I3 packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum I3Error {
    /// It ends before its last identifier.
    Truncated,
    /// Its version is not 0x10.
    Version,
    /// It has the unknown flag 0x80, or neither data nor options.
    Flags,
    /// It has no identifier.
    Stack,
}

impl fmt::Display for I3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "I3 header truncated",
            Self::Version => "I3 version is not 0x10",
            Self::Flags => "I3 flags invalid",
            Self::Stack => "I3 stack without identifiers",
        })
    }
}

impl std::error::Error for I3Error {}

/// A checked packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct I3Packet<'a> {
    /// The flags, without the mark.
    pub flags: u8,
    /// The mark of the ring.
    pub mark: RingMark,
    /// The identifiers, 1 to 15. The packet is on its way to the first one.
    pub stack: &'a [[u8; ID]],
    /// The option list, if the flags have one, and the payload.
    pub rest: &'a [u8],
}

impl<'a> I3Packet<'a> {
    /// Checks the header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, I3Error> {
        let (&[version, flags, stack], rest) = bytes.split_first_chunk::<FIXED>().ok_or(I3Error::Truncated)?;
        if version != VERSION {
            return Err(I3Error::Version);
        }
        if flags & UNKNOWN_FLAG != 0 || flags & (DATA | OPTIONS) == 0 {
            return Err(I3Error::Flags);
        }
        let ids = usize::from(stack & 0x0f);
        if ids == 0 {
            return Err(I3Error::Stack);
        }
        let (stack_bytes, rest) = rest.split_at_checked(ids * ID).ok_or(I3Error::Truncated)?;
        let mark = RingMark { hops: (flags & 0x07) << 4 | stack >> 4, is_last: flags & LAST != 0 };
        Ok(Self { flags: flags & 0xf0, mark, stack: stack_bytes.as_chunks().0, rest })
    }

    /// The identifier that the packet is on its way to.
    pub fn id(&self) -> I3Id {
        I3Id(self.stack[0])
    }
}

/// The three bytes before `ids` identifiers. Of the flags only the high nibble counts.
pub fn fixed_header(flags: u8, mark: RingMark, ids: usize) -> [u8; FIXED] {
    debug_assert!(ids <= 15 && mark.hops < 128);
    let last = if mark.is_last { LAST } else { 0 };
    [VERSION, flags & 0xf0 | last | mark.hops >> 4, mark.hops << 4 | ids as u8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(fixed: [u8; FIXED], rest: usize) -> Vec<u8> {
        [&fixed[..], &vec![7; rest]].concat()
    }

    #[test]
    fn i3_header_35_bytes() {
        assert_eq!(SINGLE_ID_HEADER, 35);
        // Seven bytes more than the IPv4 and UDP headers of the other application.
        assert_eq!(SINGLE_ID_HEADER, packet::wire::ipv4::HEADER + packet::wire::transport::UDP_HEADER + 7);
        let bytes = packet(fixed_header(DATA, RingMark::default(), 1), 32 + 5);
        let parsed = I3Packet::parse(&bytes).unwrap();
        assert_eq!((parsed.stack.len(), parsed.rest.len(), parsed.flags), (1, 5, DATA));
        assert!(I3Packet::parse(&bytes[..35]).is_ok());
        for length in 0..35 {
            assert_eq!(I3Packet::parse(&bytes[..length]), Err(I3Error::Truncated), "{length} bytes");
        }
    }

    #[test]
    fn invalid_headers_are_refused() {
        let error = |fixed, rest| I3Packet::parse(&packet(fixed, rest)).unwrap_err();
        assert_eq!(error([0x20, 0x10, 1], 32), I3Error::Version);
        assert_eq!(error([0x11, 0x10, 1], 32), I3Error::Version);
        assert_eq!(error([0x10, 0x90, 1], 32), I3Error::Flags);
        assert_eq!(error([0x10, 0x40, 1], 32), I3Error::Flags);
        assert_eq!(error([0x10, 0x10, 0], 32), I3Error::Stack);
        assert_eq!(error([0x10, 0x10, 15], 15 * 32 - 1), I3Error::Truncated);
        assert!(I3Packet::parse(&packet([0x10, 0x70, 15], 15 * 32)).is_ok());
    }

    proptest! {
        #[test]
        fn header_reads_as_written(flags in 1u8..8, hops in 0u8..128, is_last: bool, ids in 1usize..16) {
            let (flags, mark) = (flags << 4, RingMark { hops, is_last });
            let bytes = packet(fixed_header(flags, mark, ids), ids * 32);
            match I3Packet::parse(&bytes) {
                Ok(parsed) => prop_assert_eq!((parsed.flags, parsed.mark, parsed.stack.len()), (flags, mark, ids)),
                Err(error) => prop_assert_eq!((error, flags), (I3Error::Flags, FIRST_HOP)),
            }
        }
    }
}
