//! Packets of many given headers, in turns: traffic for rules that look at addresses, protocols, ports and TCP flags.

use super::{LENGTH, MARK, MARKED, NUMBERED, PacketAddresses, PacketGenerator, ProgramBuilder, VALUE};
use crate::bpf::instruction::{and, copy, load64, set, set64, store16, store64};
use crate::bpf::{Map, MapKind, RECORD};
use packet::wire::checksum::Sum;
use packet::wire::{Ipv4Spec, protocol};
use std::io;
use std::net::Ipv4Addr;
use units::Mac;

/// The most headers of a source: more would leave the cache of the processor that sends.
const MOST_HEADERS: usize = 1 << 16;
/// Offset of the bytes that differ between packets: the second half of the first line of the IPv4 header, and all that follows.
const VARIES: usize = 18;
/// Offsets of the IPv4 header and of its payload.
const IP: usize = 14;
const PAYLOAD: usize = 34;
const _: () = assert!(VARIES + RECORD + 2 == LENGTH);

/// The header of an IPv4 packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PacketHeader {
    /// Source and destination.
    pub network: (Ipv4Addr, Ipv4Addr),
    /// The IP protocol.
    pub protocol: u8,
    /// Source and destination port of TCP and UDP. Not used for other protocols.
    pub ports: (u16, u16),
    /// The flags of TCP.
    pub tcp_flags: u8,
}

impl PacketHeader {
    /// A frame with this header, correct checksums, and the mark of a source.
    fn frame(&self, link: (Mac, Mac)) -> [u8; LENGTH] {
        let mut bytes = PacketAddresses { link, network: self.network }.packet();
        let spec = Ipv4Spec {
            type_of_service: 0,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: self.protocol,
            source: self.network.0,
            destination: self.network.1,
        };
        spec.write(&mut bytes[IP..], LENGTH - PAYLOAD);
        bytes[PAYLOAD..].fill(0);
        // Within the urgent pointer of TCP, which means nothing without the flag.
        bytes[MARK as usize..][..4].copy_from_slice(&MARKED.to_ne_bytes());
        let length = (LENGTH - PAYLOAD) as u16;
        let checksum = match self.protocol {
            protocol::TCP => {
                // The header has five words of four bytes; window of one segment.
                bytes[46] = 5 << 4;
                bytes[47] = self.tcp_flags;
                bytes[48..50].copy_from_slice(&1460u16.to_be_bytes());
                50
            }
            protocol::UDP => {
                bytes[38..40].copy_from_slice(&length.to_be_bytes());
                40
            }
            _ => return bytes,
        };
        bytes[34..36].copy_from_slice(&self.ports.0.to_be_bytes());
        bytes[36..38].copy_from_slice(&self.ports.1.to_be_bytes());
        let (source, destination) = self.network;
        let sum =
            Sum::default().pseudo4(source, destination, self.protocol, length).bytes(&bytes[PAYLOAD..]).checksum();
        bytes[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// A generator of packets with given headers. They have no number, so the `late` of a [`UdpSink`](super::UdpSink) means nothing.
#[derive(Debug)]
pub struct HeaderSource {
    generator: PacketGenerator,
    _records: Map,
}

impl HeaderSource {
    /// Makes packets with these headers, in turns, that leave by the link with this index, in the network namespace of the calling thread. Uses the
    /// first headers, a power of two of them, at most 65536. `link` has the sender's and the first router's link-layer addresses. Needs CAP_BPF and
    /// CAP_NET_ADMIN.
    pub fn new(link: (Mac, Mac), headers: &[PacketHeader], index: u32) -> io::Result<HeaderSource> {
        let frames = headers.iter().take(MOST_HEADERS).map(|header| header.frame(link));
        HeaderSource::of_frames(&frames.collect::<Vec<_>>(), index)
    }

    /// Makes these frames, in turns, as [`HeaderSource::new`] does. All are of one length, at least [`LENGTH`], and differ only in the bytes from 18 to
    /// 57: from the identification of the outer IPv4 header on. Routers may change the bytes before 60.
    pub fn of_frames<F: AsRef<[u8]>>(frames: &[F], index: u32) -> io::Result<HeaderSource> {
        let wrong = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let Some(log) = frames.len().min(MOST_HEADERS).checked_ilog2() else {
            return Err(wrong("a source has at least one frame"));
        };
        let (first, frames) = (frames[0].as_ref(), &frames[..1 << log]);
        let is_alike = |frame: &[u8]| {
            frame.len() == first.len()
                && frame[..VARIES] == first[..VARIES]
                && frame[VARIES + RECORD..] == first[VARIES + RECORD..]
        };
        if first.len() < LENGTH || !frames.iter().all(|frame| is_alike(frame.as_ref())) {
            return Err(wrong("the frames of a source have one length and differ in the bytes from 18 to 57"));
        }
        let records = Map::create(MapKind::Records, frames.len() as u32)?;
        for (key, frame) in (0..).zip(frames) {
            let record = frame.as_ref()[VARIES..].first_chunk().expect("a record fits into a frame");
            records.set_record(key, record)?;
        }
        let numbers = Map::create(MapKind::Array, 1)?;
        let mut text = ProgramBuilder::source(&numbers);
        text.put([copy(2, NUMBERED), and(2, frames.len() as i32 - 1)]).value_at(&records);
        // The last of these words ends within the record, which is written after it.
        for (word, bytes) in first[..IP + 10].as_chunks::<8>().0.iter().enumerate() {
            text.put(set64(1, u64::from_ne_bytes(*bytes))).put([store64(super::DATA, 8 * word as i16, 1)]);
        }
        for word in (0..RECORD as i16).step_by(8) {
            text.put([load64(1, VALUE, word), store64(super::DATA, VARIES as i16 + word, 1)]);
        }
        let last = u16::from_ne_bytes([first[LENGTH - 2], first[LENGTH - 1]]);
        text.put([set(1, last.into()), store16(super::DATA, LENGTH as i16 - 2, 1)]);
        let generator = PacketGenerator::load(text, (numbers, first), index)?;
        Ok(HeaderSource { generator, _records: records })
    }

    /// Sends `count` packets, at least one, from a thread in the network namespace of the link. Packets without room in the link's queue are lost.
    pub fn send(&self, count: u32) -> io::Result<()> {
        self.generator.send(count)
    }

    /// The number of packets sent.
    pub fn sent(&self) -> io::Result<u64> {
        self.generator.numbers.get(0)
    }
}
