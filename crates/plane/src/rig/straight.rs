//! The straight-line forwarding loop: the least a router can do to a packet, in one loop without queues, tasks, paths or
//! counters. What the plane costs is said as a ratio to it.
//!
//! Parse and check Ethernet and IPv4, look the destination up in DIR-24-8, lower the time to live with the checksum,
//! rewrite the link header. The frames lie in the same pool memory as the plane's.

use fib::{Outcome, Tables};
use packet::Packet;
use packet::wire::ipv4;
use units::Mac;

/// Packets whose memory is prefetched at once.
const VECTOR: usize = 64;

/// The loop, with its next hops.
pub struct StraightLine<'a> {
    tables: &'a Tables,
    mac: u64,
    /// Destination and source of the link header, by adjacency.
    rewrites: Vec<[u8; 12]>,
}

impl<'a> StraightLine<'a> {
    /// A loop for frames to `mac`, which leave from `source`. It copies the link addresses of the resolved adjacencies
    /// of `tables` below `adjacencies`.
    pub fn new(tables: &'a Tables, mac: Mac, source: Mac, adjacencies: u32) -> StraightLine<'a> {
        let rewrite = |id: u32| {
            let mut ends = [0; 12];
            ends[..6].copy_from_slice(&tables.adjacencies().load(units::AdjacencyId(id)).mac().0);
            ends[6..].copy_from_slice(&source.0);
            ends
        };
        StraightLine { tables, mac: mac.number(), rewrites: (0..adjacencies).map(rewrite).collect() }
    }

    /// Forwards every packet in place, one after the other. Answers how many could be.
    #[inline(never)]
    pub fn run(&self, packets: &mut [Packet]) -> usize {
        let mut forwarded = 0;
        for packet in packets {
            let Some(destination) = self.destination(packet) else { continue };
            forwarded += usize::from(self.rewrite(packet, self.tables.fib4().lookup(destination)));
        }
        forwarded
    }

    /// The same in vectors of [`VECTOR`]: the frames of the next vector and the table's entries of this one are prefetched.
    /// It is faster where frames or routes do not fit into the caches, and slower where they do.
    #[inline(never)]
    pub fn run_ahead(&self, packets: &mut [Packet]) -> usize {
        let mut forwarded = 0;
        let mut rest = packets;
        rest.iter().take(2 * VECTOR).for_each(Packet::prefetch_meta);
        rest.iter().take(VECTOR).for_each(Packet::prefetch_bytes);
        while !rest.is_empty() {
            let (vector, behind) = rest.split_at_mut(VECTOR.min(rest.len()));
            // The pointer to the bytes lies in the slot's first line, which was prefetched a vector earlier.
            behind.iter().take(VECTOR).for_each(Packet::prefetch_bytes);
            behind.iter().skip(VECTOR).take(VECTOR).for_each(Packet::prefetch_meta);
            let (mut destinations, mut places, mut count) = ([0; VECTOR], [0u8; VECTOR], 0);
            for (place, packet) in (0..).zip(&mut *vector) {
                let Some(destination) = self.destination(packet) else { continue };
                (destinations[count], places[count]) = (destination, place);
                count += 1;
            }
            let mut words = [0; VECTOR];
            self.tables.fib4().lookup_bulk(&destinations[..count], &mut words[..count]);
            for (&word, &place) in words.iter().zip(&places).take(count) {
                forwarded += usize::from(self.rewrite(&mut vector[usize::from(place)], word));
            }
            rest = behind;
        }
        forwarded
    }

    /// Checks the headers of a frame. Answers where it goes.
    #[inline(always)]
    fn destination(&self, packet: &mut Packet) -> Option<u32> {
        let bytes = packet.bytes_mut();
        let available = bytes.len();
        let frame = bytes.first_chunk::<34>()?;
        let station = u64::from_be_bytes([0, 0, frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]]);
        let kind = u32::from_be_bytes([frame[12], frame[13], frame[14], 0]);
        let header = frame[14..].first_chunk::<{ ipv4::HEADER }>()?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let source = header[12];
        let sound = station == self.mac && kind == 0x0800_4500 && length >= 20 && 14 + length <= available;
        if !sound || !ipv4::header_checksum_ok_20(header) || source == 0 || source == 127 || source >= 224 {
            return None;
        }
        Some(u32::from_be_bytes([header[16], header[17], header[18], header[19]]))
    }

    /// Lowers the time to live and writes the link header, where the table's word names an adjacency.
    #[inline(always)]
    fn rewrite(&self, packet: &mut Packet, word: u32) -> bool {
        let Some(frame) = packet.bytes_mut().first_chunk_mut::<34>() else { return false };
        let (link, header) = frame.split_at_mut(14);
        let Some(header) = header.first_chunk_mut::<{ ipv4::HEADER }>() else { return false };
        let Some(adjacency) = Outcome::adjacency(word) else { return false };
        if !ipv4::decrement_ttl(header) {
            return false;
        }
        link[..12].copy_from_slice(&self.rewrites[adjacency.index()]);
        true
    }
}
