//! Tunnel headers: GRE (RFC 2784, RFC 2890), VXLAN (RFC 7348), and the ECN bits of packets that enter and leave a tunnel (RFC 6040).

use super::checksum;

const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// Bits 1, 4 and 5: source routing and recursion of RFC 1701. A receiver discards packets that have them (RFC 2784 2.3).
const OBSOLETE: u16 = 0x4c00;
const VERSION: u16 = 0x0007;
/// Bytes of the flags and the protocol, and of each optional field.
const WORD: usize = 4;

/// A GRE header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gre {
    /// The ethertype of the payload.
    pub ethertype: u16,
    /// The key, which distinguishes tunnels between the same addresses.
    pub key: Option<u32>,
    /// The sequence number.
    pub sequence: Option<u32>,
}

/// The reason why bytes are no GRE header that can be processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GreError {
    /// The packet ends within the header.
    Truncated,
    /// The version is not 0. Version 1 is that of PPTP (RFC 2637).
    Version,
    /// A flag of RFC 1701 is set that RFC 2784 has removed.
    ObsoleteFlag,
    /// The checksum is wrong.
    Checksum,
}

impl Gre {
    /// Parses the header at the start of `bytes`, which end with the packet. Returns it with its length in bytes. A checksum, if there is one, is
    /// verified over all bytes.
    ///
    /// # Errors
    /// See [`GreError`].
    pub fn parse(bytes: &[u8]) -> Result<(Gre, usize), GreError> {
        let &[f0, f1, e0, e1] = bytes.first_chunk().ok_or(GreError::Truncated)?;
        let flags = u16::from_be_bytes([f0, f1]);
        if flags & VERSION != 0 {
            return Err(GreError::Version);
        }
        if flags & OBSOLETE != 0 {
            return Err(GreError::ObsoleteFlag);
        }
        let mut length = WORD;
        let mut field = |flag: u16| {
            if flags & flag == 0 {
                return Ok(None);
            }
            let word = bytes.get(length..).and_then(|rest| rest.first_chunk::<WORD>()).ok_or(GreError::Truncated)?;
            length += WORD;
            Ok(Some(u32::from_be_bytes(*word)))
        };
        let (sum, key, sequence) = (field(CHECKSUM)?, field(KEY)?, field(SEQUENCE)?);
        // Over data with its own correct checksum, the sum is 0xffff (RFC 1071).
        if sum.is_some() && checksum::sum(bytes) != 0xffff {
            return Err(GreError::Checksum);
        }
        Ok((Gre { ethertype: u16::from_be_bytes([e0, e1]), key, sequence }, length))
    }

    /// Bytes of the header, without a checksum.
    pub fn length(&self) -> usize {
        WORD + WORD * usize::from(self.key.is_some()) + WORD * usize::from(self.sequence.is_some())
    }

    /// Writes the header, without a checksum, at the start of `buffer`. Returns its length, or `None` if it does not fit.
    pub fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let flag = |field: Option<u32>, flag| if field.is_some() { flag } else { 0 };
        let flags: u16 = flag(self.key, KEY) | flag(self.sequence, SEQUENCE);
        let place = buffer.get_mut(..self.length())?;
        let (words, _) = place.as_chunks_mut::<WORD>();
        let first = u32::from(flags) << 16 | u32::from(self.ethertype);
        let fields = [Some(first), self.key, self.sequence].into_iter().flatten();
        words.iter_mut().zip(fields).for_each(|(word, field)| *word = field.to_be_bytes());
        Some(self.length())
    }
}

/// The UDP port of VXLAN (IANA).
pub const VXLAN_PORT: u16 = 4789;
/// Bytes of a VXLAN header.
pub const VXLAN_HEADER: usize = 8;
/// The flag of a valid network identifier. Receivers ignore all others (RFC 7348 5).
const VXLAN_VALID: u8 = 8;

/// The VXLAN header of a network identifier, of which the lower 24 bits count.
pub const fn vxlan_header(vni: u32) -> [u8; VXLAN_HEADER] {
    let [_, a, b, c] = vni.to_be_bytes();
    [VXLAN_VALID, 0, 0, 0, a, b, c, 0]
}

/// The network identifier of the VXLAN header at the start of `bytes`. `None` if there is none.
pub fn vxlan_vni(bytes: &[u8]) -> Option<u32> {
    let &[flags, _, _, _, a, b, c, _] = bytes.first_chunk::<VXLAN_HEADER>()?;
    (flags & VXLAN_VALID != 0).then(|| u32::from_be_bytes([0, a, b, c]))
}

/// Congestion experienced (RFC 3168 5).
const CE: u8 = 3;

/// The ECN bits of a packet that leaves a tunnel, from its own bits and those of the outer header (RFC 6040 4.2, figure 4). `None`: the packet must be
/// dropped, because a router has marked it and its sender does not react to marks.
pub const fn decapsulated_ecn(inner: u8, outer: u8) -> Option<u8> {
    match (inner & 3, outer & 3) {
        (0, CE) => None,
        (0, _) => Some(0),
        (_, CE) => Some(CE),
        // ECT(1) of the outer header replaces ECT(0): it may be a mark of its own (RFC 6040 4.2).
        (2, 1) => Some(1),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let sum = checksum::checksum(&bytes);
        bytes[4..6].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn gre_headers_of_both_rfcs_parse() {
        // Flags, fields and payload of a packet, and its header.
        for (bytes, key, sequence, length) in [
            (&[0, 0, 8, 0, 0x45][..], None, None, 4),
            (&[0x20, 0, 8, 0, 0, 0, 0, 7, 0x45], Some(7), None, 8),
            (&[0x10, 0, 8, 0, 0, 0, 1, 0, 0x45], None, Some(256), 8),
            (&[0x30, 0, 8, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0x45], Some(7), Some(9), 12),
            // Bits 6 to 12 are ignored (RFC 2784 2.3).
            (&[0x03, 0xf8, 8, 0], None, None, 4),
        ] {
            assert_eq!(Gre::parse(bytes), Ok((Gre { ethertype: 0x0800, key, sequence }, length)), "{bytes:02x?}");
        }
    }

    #[test]
    fn gre_checksum_covers_header_and_payload() {
        let whole = sealed(vec![0xa0, 0, 0x86, 0xdd, 0, 0, 0, 0, 0, 0, 0, 7, 1, 2, 3]);
        assert_eq!(Gre::parse(&whole), Ok((Gre { ethertype: 0x86dd, key: Some(7), sequence: None }, 12)));
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0x40;
            assert!(Gre::parse(&broken).is_err(), "byte {at}");
        }
    }

    #[test]
    fn malformed_gre_headers_are_refused() {
        for (bytes, error) in [
            (&[][..], GreError::Truncated),
            (&[0, 0, 8], GreError::Truncated),
            (&[0x20, 0, 8, 0, 0, 0, 0], GreError::Truncated),
            (&[0x30, 0, 8, 0, 0, 0, 0, 7], GreError::Truncated),
            (&[0, 1, 8, 0], GreError::Version),
            (&[0x30, 1, 0x88, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0], GreError::Version),
            (&[0x40, 0, 8, 0], GreError::ObsoleteFlag),
            (&[0x08, 0, 8, 0], GreError::ObsoleteFlag),
            (&[0x04, 0, 8, 0], GreError::ObsoleteFlag),
        ] {
            assert_eq!(Gre::parse(bytes), Err(error), "{bytes:02x?}");
        }
    }

    #[test]
    fn vxlan_headers_have_a_flag_and_24_bits() {
        assert_eq!(vxlan_header(0x0012_3456), [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(vxlan_vni(&[0xff, 1, 2, 3, 0, 0, 42, 9, 0xaa]), Some(42));
        assert_eq!(vxlan_vni(&[0xf7, 0, 0, 0, 0, 0, 42, 0]), None, "without the flag");
        assert_eq!(vxlan_vni(&[8, 0, 0, 0, 0, 0, 42]), None, "truncated");
    }

    /// The table of RFC 6040, figure 4, by inner and outer bits: Not-ECT 0, ECT(1) 1, ECT(0) 2, CE 3.
    #[test]
    fn ecn_of_decapsulated_packets_follows_rfc_6040() {
        let expected = [
            [Some(0), Some(0), Some(0), None],
            [Some(1), Some(1), Some(1), Some(3)],
            [Some(2), Some(1), Some(2), Some(3)],
            [Some(3), Some(3), Some(3), Some(3)],
        ];
        for inner in 0..4 {
            for outer in 0..4 {
                assert_eq!(
                    decapsulated_ecn(inner, outer),
                    expected[usize::from(inner)][usize::from(outer)],
                    "{inner} in {outer}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn written_gre_headers_parse_back(ethertype: u16, key: Option<u32>, sequence: Option<u32>, rest: Vec<u8>) {
            let header = Gre { ethertype, key, sequence };
            let mut bytes = vec![0xff; header.length()];
            prop_assert_eq!(header.write(&mut bytes), Some(header.length()));
            bytes.extend(rest);
            prop_assert_eq!(Gre::parse(&bytes), Ok((header, header.length())));
            prop_assert_eq!(header.write(&mut bytes[..header.length() - 1]), None);
        }

        #[test]
        fn any_bytes_parse_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((header, length)) = Gre::parse(&bytes) {
                prop_assert!(length <= bytes.len() && length >= header.length());
            }
        }
    }
}
