//! Reads pcap (classic, in both byte orders, with microseconds or nanoseconds) and pcapng.
//!
//! The parsers of `pcap-parser` get one whole block at a time. Each block's length is checked against the limits first. Blocks without packets are
//! skipped unread.

use super::window::Window;
use super::{Fault, LinkType, MAX_BLOCK, MAX_INTERFACES, PcapDirection, PcapInterface, PcapRecord, ReadError};
use pcap_parser::{
    Block, EPB_MAGIC, EnhancedPacketBlock, IDB_MAGIC, InterfaceDescriptionBlock, OptionCode, PcapHeader, PcapNGOption,
    SHB_MAGIC, SPB_MAGIC, parse_block_be, parse_block_le, parse_pcap_header,
};
use std::io::Read;
use units::{Instant, Mac};

/// The packet block of the first drafts, still written by old tools: an enhanced packet block except for a 16-bit interface and a 16-bit drop count
/// (draft-ietf-opsawg-pcapng, appendix A).
const OBSOLETE_PACKET: u32 = 2;

const SECOND: i128 = 1_000_000_000;

/// Reads a capture packet by packet, in file order. After an error nothing more can be read.
pub struct Reader<R> {
    window: Window<R>,
    format: Format,
    interfaces: Vec<PcapInterface>,
    clocks: Vec<Clock>,
    /// The length of the last returned block, which stays in the window because the record borrows from it.
    block_length: usize,
    last: Instant,
    comment: String,
    found: Option<PacketPosition>,
    ended: bool,
}

enum Format {
    Pcap { big_endian: bool, nanoseconds: bool, header: usize },
    Pcapng { big_endian: bool },
}

/// The time format of an interface (pcapng `if_tsresol`, `if_tsoffset`).
#[derive(Clone, Copy)]
struct Clock {
    resolution: u8,
    offset: i64,
}

impl Clock {
    fn time(self, ticks: u64) -> Instant {
        // `if_tsresol`: the highest bit selects a power of two, otherwise of ten. The other bits are the negative exponent.
        let exponent = u32::from(self.resolution & 0x7f);
        let ns = if self.resolution & 0x80 != 0 {
            (u128::from(ticks) * SECOND as u128).checked_shr(exponent).unwrap_or(0)
        } else if exponent <= 9 {
            u128::from(ticks) * 10u128.pow(9 - exponent)
        } else {
            // A power beyond 128 bits exceeds every number of ticks.
            10u128.checked_pow(exponent - 9).map_or(0, |unit| u128::from(ticks) / unit)
        };
        let ns = ns as i128 + i128::from(self.offset) * SECOND;
        // Modulo 2^64: times before 1970 or after 2554 are wrong, but differences between packets stay correct.
        Instant::new(ns as u64)
    }
}

/// A packet found in the window: the position of its bytes, and the rest of its record.
struct PacketPosition {
    interface: u32,
    original: u32,
    from: usize,
    captured: usize,
    direction: PcapDirection,
}

impl<R: Read> Reader<R> {
    /// Starts reading. Fails if the source is not a capture.
    pub fn new(source: R) -> Result<Self, ReadError> {
        let mut reader = Reader {
            window: Window::new(source),
            format: Format::Pcapng { big_endian: false },
            interfaces: Vec::new(),
            clocks: Vec::new(),
            block_length: 0,
            last: Instant::START,
            comment: String::new(),
            found: None,
            ended: false,
        };
        let start = reader.window.peek(4)?;
        if start.len() < 4 {
            return reader.window.fail(Fault::NotACapture);
        }
        if start != SHB_MAGIC.to_le_bytes() {
            reader.pcap_header()?;
        }
        Ok(reader)
    }

    /// The interfaces described so far in the current section; one for pcap.
    pub fn interfaces(&self) -> &[PcapInterface] {
        &self.interfaces
    }

    /// Offset of the last returned record in the file, in bytes.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// The next packet, or `None` at the end of the file.
    pub fn next_record(&mut self) -> Result<Option<PcapRecord<'_>>, ReadError> {
        self.advance()?;
        Ok(self.record())
    }

    /// Advances to the next packet. False at the end of the file.
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        if self.ended {
            return Ok(false);
        }
        self.found = None;
        let result = self.find();
        self.ended = !matches!(result, Ok(Some(_)));
        self.found = result?;
        Ok(self.found.is_some())
    }

    /// The current packet. `None` before the first and after the last.
    pub fn record(&self) -> Option<PcapRecord<'_>> {
        let found = self.found.as_ref()?;
        Some(PcapRecord {
            time: self.last,
            interface: found.interface,
            link: self.interfaces[found.interface as usize].link,
            original: found.original,
            data: self.window.held(found.from..found.from + found.captured),
            direction: found.direction,
            comment: &self.comment,
        })
    }

    fn find(&mut self) -> Result<Option<PacketPosition>, ReadError> {
        self.comment.clear();
        self.window.skip(self.block_length as u64)?;
        self.block_length = 0;
        match self.format {
            Format::Pcap { big_endian, nanoseconds, header } => self.pcap_record(big_endian, nanoseconds, header),
            Format::Pcapng { .. } => self.pcapng_packet(),
        }
    }

    fn pcap_header(&mut self) -> Result<(), ReadError> {
        let bytes = self.window.peek(24)?;
        let header: PcapHeader = match parse_pcap_header(bytes) {
            Ok((_, header)) => header,
            Err(nom_incomplete) if nom_incomplete.is_incomplete() => return self.window.fail(Fault::Truncated),
            Err(_) => return self.window.fail(Fault::NotACapture),
        };
        // The upper bits state the length of a captured frame check sequence.
        let link = LinkType(header.network.0 as u16);
        self.interfaces = vec![PcapInterface { name: String::new(), link, snap_length: header.snaplen, mac: None }];
        self.format = Format::Pcap {
            big_endian: header.is_bigendian(),
            nanoseconds: header.is_nanosecond_precision(),
            // The modified format has eight bytes more in each record header: interface, protocol and packet type.
            header: if header.is_modified_format() { 24 } else { 16 },
        };
        self.window.skip(24)
    }

    fn pcap_record(
        &mut self,
        big_endian: bool,
        nanoseconds: bool,
        header: usize,
    ) -> Result<Option<PacketPosition>, ReadError> {
        let start = self.window.peek(header)?;
        if start.is_empty() {
            return Ok(None);
        }
        if start.len() < header {
            return self.window.fail(Fault::Truncated);
        }
        let field = |at: usize| u32_at(start, at, big_endian);
        let (seconds, fraction, captured, original) = (field(0), field(4), field(8) as usize, field(12));
        // Checked before the bytes are requested, so that a false length cannot make the buffer grow.
        if captured > MAX_BLOCK - header {
            return self.window.fail(Fault::TooLarge { claimed: captured as u64, limit: MAX_BLOCK as u64 });
        }
        let fraction = u64::from(fraction) * if nanoseconds { 1 } else { 1000 };
        self.window.need(header + captured)?;
        self.last = Instant::new(u64::from(seconds) * 1_000_000_000 + fraction);
        self.block_length = header + captured;
        // Some writers set the original length to zero.
        let original = original.max(captured as u32);
        Ok(Some(PacketPosition { interface: 0, original, from: header, captured, direction: PcapDirection::Unknown }))
    }

    fn pcapng_packet(&mut self) -> Result<Option<PacketPosition>, ReadError> {
        loop {
            // Twelve bytes are the smallest block, and reach the byte-order magic of a section header.
            let start = self.window.peek(12)?;
            if start.is_empty() {
                return Ok(None);
            }
            if start.len() < 12 {
                return self.window.fail(Fault::Truncated);
            }
            // The section header's type reads the same in both byte orders; its magic number then determines the order.
            let is_section = start[..4] == SHB_MAGIC.to_le_bytes();
            if is_section {
                let big_endian = match &start[8..12] {
                    [0x1a, 0x2b, 0x3c, 0x4d] => true,
                    [0x4d, 0x3c, 0x2b, 0x1a] => false,
                    _ => return self.window.fail(Fault::Malformed("a section header has no byte-order magic")),
                };
                self.format = Format::Pcapng { big_endian };
            }
            let Format::Pcapng { big_endian } = self.format else { unreachable!("a pcapng file stays one") };
            let start = self.window.held(0..12);
            let (kind, length) = (u32_at(start, 0, big_endian), u32_at(start, 4, big_endian));
            if length < 12 || length % 4 != 0 {
                return self.window.fail(Fault::Malformed("a block's length is no multiple of four or below twelve"));
            }
            // Blocks without packets may be larger than the limit: they are skipped without buffering.
            if !is_section && !matches!(kind, IDB_MAGIC | EPB_MAGIC | SPB_MAGIC | OBSOLETE_PACKET) {
                self.window.skip(u64::from(length))?;
                continue;
            }
            if length as usize > MAX_BLOCK {
                return self.window.fail(Fault::TooLarge { claimed: length.into(), limit: MAX_BLOCK as u64 });
            }
            let found = self.block(length as usize, big_endian)?;
            if found.is_some() {
                self.block_length = length as usize;
                return Ok(found);
            }
            self.window.skip(u64::from(length))?;
        }
    }

    /// Reads one whole block. For a packet block, returns the position of its packet.
    fn block(&mut self, length: usize, big_endian: bool) -> Result<Option<PacketPosition>, ReadError> {
        let offset = self.window.offset();
        let fail = |fault| Err(ReadError { offset, fault });
        let bytes = self.window.need(length)?;
        if u32_at(bytes, length - 4, big_endian) as usize != length {
            return fail(Fault::Malformed("a block's two lengths differ"));
        }
        if u32_at(bytes, 0, big_endian) == OBSOLETE_PACKET {
            return self.obsolete_packet(length, big_endian);
        }
        let parsed = if big_endian { parse_block_be(bytes) } else { parse_block_le(bytes) };
        let Ok((_, block)) = parsed else {
            return fail(Fault::Malformed("a block's fields or options do not fit into it"));
        };
        match block {
            Block::SectionHeader(header) => {
                if header.major_version != 1 {
                    return fail(Fault::Malformed("a section is of a pcapng version other than 1"));
                }
                // Interface numbers count from zero in each section.
                self.interfaces.clear();
                self.clocks.clear();
                Ok(None)
            }
            Block::InterfaceDescription(block) => {
                if self.interfaces.len() == MAX_INTERFACES {
                    return fail(Fault::Malformed("a section describes more than 4096 interfaces"));
                }
                self.clocks.push(clock(&block, big_endian));
                self.interfaces.push(interface(&block));
                Ok(None)
            }
            Block::EnhancedPacket(block) => {
                let Some(clock) = self.clocks.get(block.if_id as usize) else {
                    return fail(Fault::UnknownInterface(block.if_id));
                };
                if block.caplen as usize > block.data.len() {
                    return fail(Fault::Malformed("a packet is longer than its block"));
                }
                self.last = clock.time(u64::from(block.ts_high) << 32 | u64::from(block.ts_low));
                if let Some(text) = option(&block.options, OptionCode::Comment) {
                    self.comment.push_str(&String::from_utf8_lossy(text));
                }
                Ok(Some(enhanced(&block, big_endian)))
            }
            Block::SimplePacket(block) => {
                let Some(first) = self.interfaces.first() else { return fail(Fault::UnknownInterface(0)) };
                // A simple packet block has no captured length: it follows from the snap length and the block's size.
                let snap = if first.snap_length == 0 { u32::MAX } else { first.snap_length };
                let captured = (block.origlen.min(snap) as usize).min(block.data.len());
                let original = block.origlen;
                Ok(Some(PacketPosition {
                    interface: 0,
                    original,
                    from: 12,
                    captured,
                    direction: PcapDirection::Unknown,
                }))
            }
            _ => Ok(None),
        }
    }

    fn obsolete_packet(&mut self, length: usize, big_endian: bool) -> Result<Option<PacketPosition>, ReadError> {
        let bytes = self.window.held(0..length);
        // Type and length have eight bytes, the fields twenty, and the length at the end four.
        if length < 32 {
            return self.window.fail(Fault::Malformed("a packet block is too short for its fields"));
        }
        let field = |at: usize| u32_at(bytes, at, big_endian);
        let interface = if big_endian { field(8) >> 16 } else { field(8) & 0xffff };
        let (captured, original) = (field(20) as usize, field(24));
        let Some(clock) = self.clocks.get(interface as usize) else {
            return self.window.fail(Fault::UnknownInterface(interface));
        };
        if captured > length - 32 {
            return self.window.fail(Fault::Malformed("a packet is longer than its block"));
        }
        self.last = clock.time(u64::from(field(12)) << 32 | u64::from(field(16)));
        let original = original.max(captured as u32);
        Ok(Some(PacketPosition { interface, original, from: 28, captured, direction: PcapDirection::Unknown }))
    }
}

fn enhanced(block: &EnhancedPacketBlock<'_>, big_endian: bool) -> PacketPosition {
    // `epb_flags`: its lowest two bits are the direction.
    let flags = option(&block.options, OptionCode(2)).filter(|value| value.len() >= 4);
    let direction = match flags.map_or(0, |value| u32_at(value, 0, big_endian) & 3) {
        1 => PcapDirection::In,
        2 => PcapDirection::Out,
        _ => PcapDirection::Unknown,
    };
    let original = block.origlen.max(block.caplen);
    PacketPosition { interface: block.if_id, original, from: 28, captured: block.caplen as usize, direction }
}

fn interface(block: &InterfaceDescriptionBlock<'_>) -> PcapInterface {
    let name =
        option(&block.options, OptionCode::IfName).map_or(String::new(), |v| String::from_utf8_lossy(v).into_owned());
    let station = option(&block.options, OptionCode::IfMacAddr).and_then(|v| v.first_chunk::<6>()).copied().map(Mac);
    PcapInterface { name, link: LinkType(block.linktype.0 as u16), snap_length: block.snaplen, mac: station }
}

fn clock(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Clock {
    // Without the option the unit is a microsecond.
    let resolution = option(&block.options, OptionCode::IfTsresol).and_then(|v| v.first().copied()).unwrap_or(6);
    let offset = option(&block.options, OptionCode::IfTsoffset).and_then(|v| v.first_chunk::<8>());
    let offset = offset.map_or(0, |v| if big_endian { i64::from_be_bytes(*v) } else { i64::from_le_bytes(*v) });
    Clock { resolution, offset }
}

/// The value of the first option with that code, without padding.
fn option<'a>(options: &'a [PcapNGOption<'_>], code: OptionCode) -> Option<&'a [u8]> {
    let option = options.iter().find(|option| option.code == code)?;
    option.value.get(..usize::from(option.len))
}

fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let field = *bytes[at..].first_chunk::<4>().expect("the caller has checked the length");
    if big_endian { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) }
}
