//! Fragmentation of IPv4 packets that exceed the MTU of the next link (RFC 791 2.3, RFC 1812 4.2.2.7).
//!
//! Like a [`Segmenter`](super::offload::Segmenter) it holds no borrow: the packet may wait between two fragments.

use super::ipv4::LONGEST_HEADER;
use super::{Ipv4, checksum, ipv4_options};

/// Fragments one packet: the position of its payload, and the progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragmenter {
    l3: usize,
    /// Bytes of the header, equal in all fragments.
    header: usize,
    /// The header of all fragments but the first. Options that are not copied (RFC 791 3.1) are replaced by no-operations.
    later: [u8; LONGEST_HEADER],
    /// Payload bytes, and their offset in the datagram, if the packet is itself a fragment.
    payload: usize,
    offset: usize,
    /// True if the packet is itself a fragment and not the last one.
    more: bool,
    /// Payload bytes of a fragment, a multiple of eight.
    step: usize,
    /// Payload bytes written.
    done: usize,
}

impl Fragmenter {
    /// Fragments the packet of `frame` whose header begins at `l3` for this `mtu`. `None` if the packet must not be fragmented, `mtu` leaves no room
    /// after the header, or the packet would end beyond the maximum length.
    pub fn new(frame: &[u8], l3: usize, mtu: usize) -> Option<Fragmenter> {
        let packet = Ipv4::parse_without_checksum(frame.get(l3..)?).ok()?;
        let (header, payload) = (packet.header_length(), packet.payload.len());
        let step = mtu.checked_sub(header)? / 8 * 8;
        let offset = packet.header.fragment_offset();
        // A larger offset does not fit the offset field (RFC 791 3.1).
        let fits = step > 0 && header + offset + payload <= usize::from(u16::MAX);
        let more = packet.header.more_fragments();
        let fits = fits && !packet.header.dont_fragment();
        fits.then(|| Fragmenter { l3, header, later: later_header(&packet), payload, offset, more, step, done: 0 })
    }

    /// Length of the next fragment as a frame; zero after the last.
    pub fn next_length(&self) -> usize {
        match self.payload - self.done {
            0 => 0,
            left => self.l3 + self.header + left.min(self.step),
        }
    }

    /// Writes the next fragment of `frame`, for which this fragmenter was made, to `fragment`, which must have [`Fragmenter::next_length`] bytes.
    /// Returns `None` and changes nothing if either has a wrong length.
    pub fn write(&mut self, frame: &[u8], fragment: &mut [u8]) -> Option<()> {
        const FLAGS_AND_OFFSET: usize = 6;
        let start = self.l3 + self.header;
        let bytes = self.next_length().checked_sub(start)?;
        let payload = frame.get(start + self.done..start + self.done + bytes)?;
        let (headers, rest) = fragment.split_at_mut_checked(start)?;
        if rest.len() != bytes {
            return None;
        }
        rest.copy_from_slice(payload);
        headers.copy_from_slice(&frame[..start]);
        let header = &mut headers[self.l3..];
        if self.done > 0 {
            header.copy_from_slice(&self.later[..self.header]);
        }
        let end = self.done + bytes;
        let more = end < self.payload || self.more;
        let offset = u16::try_from((self.offset + self.done) / 8).ok()?;
        let field = u16::from(more) << 13 | offset & 0x1fff;
        header[FLAGS_AND_OFFSET..8].copy_from_slice(&field.to_be_bytes());
        header[2..4].copy_from_slice(&u16::try_from(self.header + bytes).ok()?.to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        self.done = end;
        Some(())
    }
}

/// The header with all options blanked that belong only to the first fragment. A packet that is itself a later fragment has no such options.
fn later_header(packet: &Ipv4<'_>) -> [u8; LONGEST_HEADER] {
    const COPIED: u8 = 0x80;
    const NO_OPERATION: u8 = 1;
    let mut header = [0; LONGEST_HEADER];
    header[..packet.header_length()].copy_from_slice(&packet.bytes[..packet.header_length()]);
    if !packet.header.is_first() {
        return header;
    }
    // From the first malformed option on, the list is copied unchanged: the receiver judges it.
    for option in ipv4_options::options(packet.options).map_while(Result::ok) {
        let (at, length) = (usize::from(option.offset), usize::from(option.length));
        if header[at] & COPIED == 0 && header[at] != 0 {
            header[at..at + length].fill(NO_OPERATION);
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Ipv4Spec;
    use crate::wire::ipv4::HEADER;
    use proptest::prelude::*;

    fn packet(options: &[u8], payload: &[u8]) -> Vec<u8> {
        let spec = Ipv4Spec {
            type_of_service: 0xb8,
            identification: 7,
            dont_fragment: false,
            ttl: 9,
            protocol: 17,
            source: [10, 0, 1, 2].into(),
            destination: [10, 0, 2, 2].into(),
        };
        let mut bytes = vec![0; HEADER];
        spec.write(&mut bytes, payload.len() + options.len()).unwrap();
        bytes.extend_from_slice(options);
        bytes.extend_from_slice(payload);
        bytes[0] = 0x45 + (options.len() / 4) as u8;
        let end = HEADER + options.len();
        bytes[10..12].fill(0);
        let sum = checksum::checksum(&bytes[..end]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn cut(bytes: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut cut = Fragmenter::new(bytes, 0, mtu).unwrap();
        let mut fragments = Vec::new();
        while cut.next_length() > 0 {
            let mut buffer = vec![0; cut.next_length()];
            cut.write(bytes, &mut buffer).unwrap();
            fragments.push(buffer);
        }
        fragments
    }

    #[test]
    fn options_not_marked_for_copying_stay_in_the_first_fragment() {
        // Record route (not copied), no-operation, security (copied): the later header as a Linux router writes it.
        let bytes = packet(&[7, 7, 4, 0, 0, 0, 0, 1, 130, 4, 0, 0], &[5; 40]);
        let fragments = cut(&bytes, 32 + 24);
        assert_eq!(fragments.len(), 2);
        assert_eq!(fragments[0][20..32], [7, 7, 4, 0, 0, 0, 0, 1, 130, 4, 0, 0]);
        assert_eq!(fragments[1][20..32], [1, 1, 1, 1, 1, 1, 1, 1, 130, 4, 0, 0]);
    }

    #[test]
    fn mtu_below_eight_payload_bytes_cannot_fragment() {
        let bytes = packet(&[], &[5; 40]);
        assert!(Fragmenter::new(&bytes, 0, 27).is_none());
        assert!(Fragmenter::new(&bytes, 0, 28).is_some());
    }

    proptest! {
        #[test]
        fn reassembled_fragments_equal_the_packet_even_if_fragmented_twice(
            payload in proptest::collection::vec(any::<u8>(), 1..1600),
            first in 68usize..1500,
            second in 68usize..1500,
        ) {
            let bytes = packet(&[], &payload);
            let pieces: Vec<_> = cut(&bytes, first).iter().flat_map(|fragment| cut(fragment, second)).collect();
            let mut whole = vec![0; payload.len()];
            let mut last = 0;
            for (i, piece) in pieces.iter().enumerate() {
                let ip = Ipv4::parse(piece).unwrap();
                prop_assert!(piece.len() <= first.min(second));
                let at = ip.header.fragment_offset();
                whole[at..at + ip.payload.len()].copy_from_slice(ip.payload);
                last += usize::from(!ip.header.more_fragments());
                prop_assert_eq!(ip.header.more_fragments(), i + 1 < pieces.len());
                prop_assert_eq!((ip.header.ttl(), ip.header.type_of_service()), (9, 0xb8));
                prop_assert_eq!((ip.header.identification(), ip.header.protocol()), (7, 17));
            }
            prop_assert_eq!(last, 1);
            prop_assert_eq!(whole, payload);
        }
    }
}
