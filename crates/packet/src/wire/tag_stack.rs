//! The link headers of a frame in the access network of a provider: up to two VLAN tags and a PPPoE session before the IP header.
//!
//! Sources: IEEE 802.1Q (tags of types 0x8100 and 0x88a8), RFC 2516 (PPPoE), RFC 1332 and 5072 (IP in PPP). Type 0x9100 is that of outer tags in older
//! equipment.

use super::{Family, ethernet, ethertype};

/// An outer tag of equipment from before 802.1ad.
const OLD_SERVICE_VLAN: u16 = 0x9100;
/// A frame of a PPPoE session (RFC 2516 4).
const PPPOE_SESSION: u16 = 0x8864;
/// Version 1, type 1, and code 0 of a session frame.
const PPPOE_DATA: [u8; 2] = [0x11, 0];
const PPPOE_HEADER: usize = 6;
/// Protocol numbers of PPP (IANA), in two bytes: RFC 2516 7 advises against the compressed form.
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_PROTOCOL: usize = 2;

/// The VLAN tags of a frame and its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagStack {
    /// The identifiers of the tags, outermost first; zero for a tag that is missing, and for a priority tag, which names no VLAN.
    pub vlans: [u16; 2],
    /// The ethertype after the tags, or the length field of an 802.3 frame. The type of a third tag if there is one.
    pub ethertype: u16,
    /// The offset of the payload: 14, 18 or 22. Never beyond the frame.
    pub payload: usize,
}

impl TagStack {
    /// Parses the link header of `frame`. `None` if the frame is shorter than its header.
    #[inline]
    pub fn of(frame: &[u8]) -> Option<TagStack> {
        let mut stack =
            TagStack { vlans: [0; 2], ethertype: u16_at(frame, ethernet::HEADER - 2)?, payload: ethernet::HEADER };
        for vlan in &mut stack.vlans {
            if !matches!(stack.ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN | OLD_SERVICE_VLAN) {
                break;
            }
            let control = u16_at(frame, stack.payload)?;
            stack.ethertype = u16_at(frame, stack.payload + 2)?;
            *vlan = control & 0x0fff;
            stack.payload += ethernet::TAG;
        }
        Some(stack)
    }

    /// The offset and the version of the IP header in the parsed frame, directly after the tags or in a PPPoE session. `None` without one. The header
    /// itself is not checked. The offset is never beyond the frame.
    #[inline]
    pub fn ip_header(&self, frame: &[u8]) -> Option<(usize, Family)> {
        match self.ethertype {
            ethertype::IPV4 => Some((self.payload, Family::V4)),
            ethertype::IPV6 => Some((self.payload, Family::V6)),
            PPPOE_SESSION => {
                let header = frame.get(self.payload..self.payload + PPPOE_HEADER + PPP_PROTOCOL)?;
                let family = match u16_at(header, PPPOE_HEADER)? {
                    PPP_IPV4 => Family::V4,
                    PPP_IPV6 => Family::V6,
                    _ => return None,
                };
                header.starts_with(&PPPOE_DATA).then_some((self.payload + header.len(), family))
            }
            _ => None,
        }
    }
}

#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame with these bytes after its addresses, and 40 more.
    fn frame(link: &[u8]) -> Vec<u8> {
        [&[2; 12], link, &[0x45; 40]].concat()
    }

    #[test]
    fn ip_header_is_found_after_tags_and_in_a_pppoe_session() {
        const OUTER: [u8; 4] = [0x88, 0xa8, 0xe0, 100];
        const OLD: [u8; 4] = [0x91, 0, 0, 100];
        const INNER: [u8; 4] = [0x81, 0, 0x0f, 0xfe];
        const SESSION: [u8; 8] = [0x88, 0x64, 0x11, 0, 0, 1, 0, 42];
        for (link, vlans, found) in [
            (&[&[8u8, 0][..]][..], [0, 0], Some((14, Family::V4))),
            (&[&[0x86, 0xdd]], [0, 0], Some((14, Family::V6))),
            (&[&INNER, &[8, 0]], [4094, 0], Some((18, Family::V4))),
            (&[&OUTER, &INNER, &[0x86, 0xdd]], [100, 4094], Some((22, Family::V6))),
            (&[&OLD, &INNER, &[8, 0]], [100, 4094], Some((22, Family::V4))),
            (&[&SESSION, &[0, 0x21]], [0, 0], Some((22, Family::V4))),
            (&[&OUTER, &INNER, &SESSION, &[0, 0x57]], [100, 4094], Some((30, Family::V6))),
            // A priority tag, a third tag, another PPP protocol (LCP), PPPoE discovery, an 802.3 length, ARP.
            (&[&[0x81, 0, 0x60, 0], &[8, 0]], [0, 0], Some((18, Family::V4))),
            (&[&OUTER, &OUTER, &INNER, &[8, 0]], [100, 100], None),
            (&[&SESSION, &[0xc0, 0x21]], [0, 0], None),
            (&[&[0x88, 0x64, 0x11, 0xa7, 0, 1, 0, 42], &[0, 0x21]], [0, 0], None),
            (&[&[0x88, 0x63, 0x11, 9, 0, 0, 0, 4]], [0, 0], None),
            (&[&[0, 38, 0x42, 0x42, 3]], [0, 0], None),
            (&[&[8, 6]], [0, 0], None),
        ] {
            let bytes = frame(&link.concat());
            let stack = TagStack::of(&bytes).unwrap();
            assert_eq!((stack.vlans, stack.ip_header(&bytes)), (vlans, found), "{link:x?}");
        }
    }

    proptest! {
        #[test]
        fn tags_of_arbitrary_frames_lie_within_them(
            types in proptest::collection::vec(proptest::sample::select(vec![0x8100u16, 0x88a8, 0x9100, 0x8864, 0x800, 0x86dd, 60]), 0..4),
            rest: [u8; 12],
            cut in 0usize..50,
        ) {
            let mut bytes = vec![2; 12];
            types.iter().for_each(|kind| bytes.extend([&kind.to_be_bytes()[..], &[0x11, 0]].concat()));
            bytes.extend(rest);
            bytes.truncate(cut);
            if let Some(stack) = TagStack::of(&bytes) {
                prop_assert!(stack.payload <= bytes.len());
                prop_assert!(stack.ip_header(&bytes).is_none_or(|(at, _)| at >= stack.payload && at <= bytes.len()));
            } else {
                prop_assert!(bytes.len() < 22);
            }
        }
    }
}
