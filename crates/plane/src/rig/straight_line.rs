//! The straight-line forwarding loop: the minimum work of a router on a packet, in one loop without queues, tasks, paths or counters. The cost
//! of the plane is a ratio to that of this loop.
//!
//! Parse and check Ethernet and IPv4, look the destination up in DIR-24-8, lower the time to live with the checksum,
//! rewrite the link header. The frames lie in the same pool memory as the plane's.

use fib::{Outcome, Tables};
use packet::Packet;
use packet::wire::ipv4;
use units::Mac;

/// The prefetch distance. The table's entry is prefetched so many packets ahead, the packet's bytes twice as many. Values from 4 to 10 make no
/// difference.
const AHEAD: usize = 8;

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

    /// Forwards every packet in place, one after the other. Returns the number forwarded.
    #[inline(never)]
    pub fn run(&self, packets: &mut [Packet]) -> usize {
        let mut forwarded = 0;
        for packet in packets {
            let Some(destination) = self.destination(packet) else { continue };
            forwarded += usize::from(self.rewrite(packet, self.tables.fib4().lookup(destination)));
        }
        forwarded
    }

    /// The same with prefetching of the packets ahead: their records, their bytes, and their entries in the table. It is faster if frames or
    /// routes do not fit into the caches near the processor, and slower if they do.
    #[inline(never)]
    pub fn run_ahead(&self, packets: &mut [Packet]) -> usize {
        let mut forwarded = 0;
        for place in 0..packets.len() {
            if let Some(packet) = packets.get(place + 4 * AHEAD) {
                packet.prefetch_meta();
            }
            if let Some(packet) = packets.get(place + 2 * AHEAD) {
                packet.prefetch_bytes();
            }
            if let Some(packet) = packets.get(place + AHEAD)
                && let Some(&[a, b, c, d]) = packet.bytes().get(30..).and_then(<[u8]>::first_chunk)
            {
                self.tables.fib4().prefetch(u32::from_be_bytes([a, b, c, d]));
            }
            let packet = &mut packets[place];
            let Some(destination) = self.destination(packet) else { continue };
            forwarded += usize::from(self.rewrite(packet, self.tables.fib4().lookup(destination)));
        }
        forwarded
    }

    /// Checks the headers of a frame. Returns its destination.
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

    /// Lowers the time to live and writes the link header, if the table's word names an adjacency.
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
