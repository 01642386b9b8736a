//! The link-layer headers of captured frames, and the offset of the IP packet after them.

use packet::wire::{Ethernet, LengthOrType, ethernet, ethertype};

/// The link type of a frame, with the numbers of <https://www.tcpdump.org/linktypes.html>.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkType(pub u16);

/// The number of IPv4 in a BSD loopback header, and the numbers that various systems use for IPv6.
const FAMILIES: [u32; 4] = [2, 24, 28, 30];
/// Bytes of that header.
const FAMILY: usize = 4;
/// Offset of the protocol in Linux's cooked header, and the length of the header.
const COOKED: (usize, usize) = (14, 16);
/// The same for its second version.
const COOKED2: (usize, usize) = (0, 20);

impl LinkType {
    /// A BSD loopback header: the number of the address family, in the byte order of the capturing machine.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet frames from the destination address on, without the frame check sequence.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IP packets of either version.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD's loopback header: the same number in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// The header that Linux generates for captures on all devices.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IPv4 packets.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6 packets.
    pub const IPV6: LinkType = LinkType(229);
    /// Like [`LINUX_SLL`](Self::LINUX_SLL), with the device.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// True if [`packet`](Self::packet) supports this type.
    pub const fn is_known(self) -> bool {
        matches!(
            self,
            LinkType::NULL
                | LinkType::ETHERNET
                | LinkType::RAW
                | LinkType::LOOP
                | LinkType::LINUX_SLL
                | LinkType::IPV4
                | LinkType::IPV6
                | LinkType::LINUX_SLL2
        )
    }

    /// The IP packet in a frame, after at most one tag. `None` for other payloads and unknown types.
    pub fn packet(self, frame: &[u8]) -> Option<&[u8]> {
        match self {
            LinkType::ETHERNET => {
                let link = Ethernet::parse(frame).ok()?;
                let ip = matches!(link.length_or_type, LengthOrType::Ethertype(ethertype::IPV4 | ethertype::IPV6));
                frame.get(link.payload..).filter(|_| ip)
            }
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => Some(frame),
            LinkType::NULL | LinkType::LOOP => {
                let (family, packet) = frame.split_first_chunk::<FAMILY>()?;
                // The file does not state the byte order of a NULL header. These numbers are so small that the other order cannot be another of them.
                let families = [u32::from_be_bytes(*family), u32::from_le_bytes(*family)];
                families.iter().any(|family| FAMILIES.contains(family)).then_some(packet)
            }
            LinkType::LINUX_SLL => cooked(frame, COOKED),
            LinkType::LINUX_SLL2 => cooked(frame, COOKED2),
            _ => None,
        }
    }
}

/// The packet after a cooked header. For a tagged frame the header's protocol field has the type of the tag, and the packet's type follows the tag.
fn cooked(frame: &[u8], (kind_at, header): (usize, usize)) -> Option<&[u8]> {
    let kind = |at: usize| frame.get(at..)?.first_chunk::<2>().map(|kind| u16::from_be_bytes(*kind));
    let (kind, header) = match kind(kind_at)? {
        // The tag's control field has two bytes and precedes the type of the packet.
        ethertype::VLAN | ethertype::SERVICE_VLAN => (kind(header + 2)?, header + ethernet::TAG),
        kind => (kind, header),
    };
    frame.get(header..).filter(|_| kind == ethertype::IPV4 || kind == ethertype::IPV6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: &[u8] = &[0x45, 1, 2, 3];

    fn check(link: LinkType, header: &[u8], is_ip: bool) {
        let frame = [header, PACKET].concat();
        assert!(link.is_known());
        assert_eq!(link.packet(&frame), is_ip.then_some(PACKET), "{link:?} {header:?}");
        for length in 0..header.len() {
            assert_eq!(link.packet(&frame[..length]).filter(|packet| !packet.is_empty()), None, "{link:?} {length}");
        }
    }

    #[test]
    fn a_packet_is_found_behind_the_header_of_its_link() {
        for link in [LinkType::RAW, LinkType::IPV4, LinkType::IPV6] {
            check(link, &[], true);
        }
        for (kind, is_ip) in [([0x08, 0x00], true), ([0x86, 0xdd], true), ([0x08, 0x06], false)] {
            check(LinkType::ETHERNET, &[&[2; 12][..], &kind].concat(), is_ip);
            check(LinkType::ETHERNET, &[&[2; 12][..], &[0x81, 0, 0, 7], &kind].concat(), is_ip);
            check(LinkType::LINUX_SLL, &[&[0; 14][..], &kind].concat(), is_ip);
            check(LinkType::LINUX_SLL, &[&[0; 14][..], &[0x81, 0, 0, 7], &kind].concat(), is_ip);
            check(LinkType::LINUX_SLL2, &[&kind, &[0; 18][..]].concat(), is_ip);
            check(LinkType::LINUX_SLL2, &[&[0x81, 0], &[0; 18][..], &[0, 7], &kind].concat(), is_ip);
        }
        for link in [LinkType::NULL, LinkType::LOOP] {
            for family in [[2, 0, 0, 0], [0, 0, 0, 2], [30, 0, 0, 0], [0, 0, 0, 24]] {
                check(link, &family, true);
            }
            check(link, &[0, 0, 0, 7], false);
        }
    }

    #[test]
    fn unknown_link_types_have_no_packet() {
        for link in [LinkType(105), LinkType(127), LinkType(u16::MAX)] {
            assert!(!link.is_known());
            assert_eq!(link.packet(PACKET), None);
        }
    }
}
