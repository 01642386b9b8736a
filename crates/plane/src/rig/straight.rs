//! The straight-line forwarding loop: the least a router can do to a packet, in one loop without queues, tasks, paths or
//! counters. What the plane costs is said as a ratio to it.
//!
//! Parse and check Ethernet and IPv4, look the destination up in DIR-24-8, lower the time to live with the checksum,
//! rewrite the link header. The frames lie in the same pool memory as the plane's.

use fib::{Outcome, Tables};
use packet::Packet;
use packet::wire::ipv4;
use units::Mac;

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

    /// Forwards every packet in place. Answers how many could be.
    #[inline(never)]
    pub fn run(&self, packets: &mut [Packet]) -> usize {
        let mut forwarded = 0;
        for packet in packets {
            let bytes = packet.bytes_mut();
            let available = bytes.len();
            let Some(frame) = bytes.first_chunk_mut::<34>() else { continue };
            let station = u64::from_be_bytes([0, 0, frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]]);
            let kind = u32::from_be_bytes([frame[12], frame[13], frame[14], 0]);
            let (link, header) = frame.split_at_mut(14);
            let Some(header) = header.first_chunk_mut::<{ ipv4::HEADER }>() else { continue };
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            if station != self.mac || kind != 0x0800_4500 || length < 20 || 14 + length > available {
                continue;
            }
            let source = header[12];
            if !ipv4::header_checksum_ok_20(header) || source == 0 || source == 127 || source >= 224 {
                continue;
            }
            let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
            let word = self.tables.fib4().lookup(destination);
            let Some(adjacency) = Outcome::adjacency(word) else { continue };
            if !ipv4::decrement_ttl(header) {
                continue;
            }
            link[..12].copy_from_slice(&self.rewrites[adjacency.index()]);
            forwarded += 1;
        }
        forwarded
    }
}
