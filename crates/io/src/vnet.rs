//! The offload header of a frame between the kernel and the router (`struct virtio_net_hdr`: OASIS virtio 1.2, 5.1.6). It is in the machine's byte
//! order, the default of tap devices and packet sockets.
//!
//! A received header may come from a guest, so it is untrusted: a header that does not fit its frame is an error.

use packet::Packet;
use packet::pool::{Offload, PartialChecksum, Segmentation};

/// Its length in bytes.
pub(crate) const HEADER: usize = 10;

/// The maximum number of super-frames per receive call. They are copied in and soon copied out again: more would leave the second-level cache in
/// between. A TCP without its own pacing limit moves a quarter more bytes with two than with thirty-two.
pub(crate) const SUPER_FRAMES_AT_ONCE: usize = 2;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Combined with the kind: only the first segment has the CWR flag (RFC 3168 6.1.2).
const GSO_ECN: u8 = 0x80;
/// CWR in the flags of a TCP header, and the offsets of the flags and the length.
const CWR: u8 = 0x80;
const TCP_FLAGS: usize = 13;
const TCP_LENGTH: usize = 12;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// The header is contradictory, or asks for an unsupported offload (UFO).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InvalidHeader;

fn u16_at(header: &[u8; HEADER], at: usize) -> u16 {
    u16::from_ne_bytes([header[at], header[at + 1]])
}

/// True if a header asks for neither a checksum nor segmentation.
#[inline]
pub(crate) fn has_no_offload(header: &[u8; HEADER]) -> bool {
    header[0] & NEEDS_CHECKSUM == 0 && header[1] == 0
}

/// Stores the offloads of a header in its packet. `moved` is the number of bytes that were inserted at the front of the frame since, for a tag.
pub(crate) fn store_offload(header: &[u8; HEADER], moved: u16, packet: &mut Packet) -> Result<(), InvalidHeader> {
    if has_no_offload(header) {
        return Ok(());
    }
    let (flags, size) = (header[0], u16_at(header, 4));
    let segmentation = match header[1] & !GSO_ECN {
        0 => Segmentation::None,
        GSO_TCP4 => Segmentation::Tcp4,
        GSO_TCP6 => Segmentation::Tcp6,
        GSO_UDP => Segmentation::Udp,
        _ => return Err(InvalidHeader),
    };
    let checksum = (flags & NEEDS_CHECKSUM != 0)
        .then(|| PartialChecksum { start: u16_at(header, 6).saturating_add(moved), offset: u16_at(header, 8) });
    // Without segmentation the size has no meaning.
    let size = if segmentation == Segmentation::None { 0 } else { size };
    if packet.set_offload(Offload { segmentation, size, checksum }) { Ok(()) } else { Err(InvalidHeader) }
}

/// The header of an outgoing packet.
pub(crate) fn header(packet: &Packet) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    if !packet.is_offloaded() {
        return header;
    }
    let Offload { segmentation, size, checksum } = packet.offload();
    let mut put = |at: usize, value: u16| header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    let transport = checksum.map_or(usize::MAX, |sum| usize::from(sum.start));
    let tcp = |at: usize| packet.bytes().get(transport.saturating_add(at)).copied();
    if let Some(PartialChecksum { start, offset }) = checksum {
        put(6, start);
        put(8, offset);
    }
    if segmentation != Segmentation::None {
        put(4, size);
        // The header length is only a hint; without it the kernel computes it.
        let length = match segmentation {
            Segmentation::Udp => Some(UDP_HEADER),
            _ => tcp(TCP_LENGTH).map(|words| (usize::from(words >> 4) * 4).max(TCP_HEADER)),
        };
        let end = length.and_then(|length| transport.checked_add(length)).filter(|&end| end <= packet.len());
        put(2, end.map_or(0, |end| end as u16));
    }
    let kind = match segmentation {
        Segmentation::None => 0,
        Segmentation::Tcp4 => GSO_TCP4,
        Segmentation::Tcp6 => GSO_TCP6,
        Segmentation::Udp => GSO_UDP,
    };
    let is_tcp = matches!(segmentation, Segmentation::Tcp4 | Segmentation::Tcp6);
    // A super-frame with CWR needs this flag, so that the kernel sets CWR in the first segment only.
    let ecn = if is_tcp && tcp(TCP_FLAGS).is_some_and(|flags| flags & CWR != 0) { GSO_ECN } else { 0 };
    header[0] = if checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
    header[1] = kind | ecn;
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Pool, Region};
    use proptest::prelude::*;

    /// `struct virtio_net_hdr`, field by field.
    fn of(flags: u8, kind: u8, length: u16, size: u16, start: u16, offset: u16) -> [u8; HEADER] {
        let words = [length, size, start, offset].map(u16::to_ne_bytes).concat();
        [&[flags, kind][..], &words].concat().try_into().unwrap()
    }

    /// A frame of zeros of that length with the header: the stored offload, and its outgoing header.
    fn through(header: &[u8; HEADER], moved: u16, bytes: &[u8]) -> Option<(Offload, [u8; HEADER])> {
        let mut pool = Pool::new(Region::new(1));
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(bytes));
        let noted = store_offload(header, moved, &mut packet).ok().map(|()| (packet.offload(), super::header(&packet)));
        pool.give(packet);
        noted
    }

    #[test]
    fn vnet_header_round_trips() {
        let mut frame = [0; 200];
        // A TCP header of 32 bytes behind Ethernet and IPv4.
        frame[34 + TCP_LENGTH] = 8 << 4;
        for (header, kind) in [
            (of(1, GSO_TCP4, 66, 1448, 34, 16), Segmentation::Tcp4),
            (of(1, GSO_TCP6, 66, 1428, 34, 16), Segmentation::Tcp6),
            (of(1, GSO_UDP, 42, 1200, 34, 6), Segmentation::Udp),
            (of(1, 0, 0, 0, 34, 16), Segmentation::None),
            (of(0, 0, 0, 0, 0, 0), Segmentation::None),
        ] {
            let (offload, left) = through(&header, 0, &frame).unwrap();
            assert_eq!((offload.segmentation, left), (kind, header));
        }
        // With an inserted tag all offsets are four larger; DATA_VALID is for the receiver only.
        frame[38 + TCP_LENGTH] = 8 << 4;
        frame[38 + TCP_FLAGS] = CWR;
        let (_, left) = through(&of(1 | 2, GSO_TCP4 | GSO_ECN, 66, 1448, 34, 16), 4, &frame).unwrap();
        assert_eq!(left, of(1, GSO_TCP4 | GSO_ECN, 70, 1448, 38, 16));
    }

    #[test]
    fn contradictory_vnet_header_is_invalid() {
        for (why, header) in [
            ("no size", of(1, GSO_TCP4, 66, 0, 34, 16)),
            ("UFO", of(1, 3, 42, 1400, 34, 6)),
            ("no such kind", of(1, 0x7f, 42, 1400, 34, 6)),
            ("starts behind the end", of(1, 0, 0, 0, 200, 0)),
            ("ends behind the end", of(1, GSO_TCP4, 66, 1448, 183, 16)),
            ("starts nowhere", of(1, 0, 0, 0, 0xffff, 0xffff)),
            ("field far away", of(1, 0, 0, 0, 0, 0xffff)),
        ] {
            assert_eq!(through(&header, 4, &[0; 200]), None, "{why}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_vnet_headers_and_frames_never_panic(header: [u8; HEADER], moved in 0u16..5, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some((offload, left)) = through(&header, moved, &bytes) {
                // The outgoing header is equivalent.
                let again = through(&left, 0, &bytes).map(|(offload, _)| offload);
                prop_assert_eq!(again, Some(offload));
            }
        }
    }
}
