//! The block of memory that a packet function shares with its host, and its layout. All numbers are little-endian.
//!
//! | byte | content | writer |
//! |---|---|---|
//! | 0 | the time of the call, in nanoseconds, 8 bytes | host |
//! | 8 | number of packets, 4 bytes | host |
//! | 12 | number of rules of the path, 4 bytes | host |
//! | 16 | `start`: bytes of each packet that the host shows, from its IP header on, 0 to 2048, 4 bytes | guest |
//! | 20 | `start`: the address of the area for these bytes, a multiple of 8, 4 bytes | guest |
//! | 24 | `start`: the most packets of one call, 1 to 64; 0 means 64; 4 bytes | guest |
//! | 28 | `start`: the properties that it uses, 4 bytes: a sum of [`FLOWS`], [`FIELDS`], [`WRITES`], [`WORDS`] | guest |
//! | 64 | the values of 16 options, 8 bytes each | host |
//! | 192 | 64 verdicts, 2 bytes each: 0 pass, 1 drop, 2 + R as rule R says; zero before the call | both |
//! | 320 | 64 records, 32 bytes each | host |
//!
//! A record:
//!
//! | byte | content | writer |
//! |---|---|---|
//! | 0 | the time of arrival, in nanoseconds, 8 bytes | host |
//! | 8 | the length of the IP packet, in bytes, 4 bytes | host |
//! | 12 | the word that functions of a path pass on, 4 bytes; with [`WORDS`] the guest may change it | both |
//! | 16 | with [`FLOWS`]: the hash of its flow, 4 bytes | host |
//! | 20 | the number of its bytes in the area, 2 bytes | host |
//! | 22 | with [`FIELDS`]: the offset of the transport header from the IP header, 0 if there is none, 2 bytes | host |
//! | 24 | with [`FIELDS`]: the offset of the TCP or UDP payload, 0 if there is none, 2 bytes | host |
//! | 26 | the number of its ingress port, 2 bytes | host |
//! | 28 | with [`FIELDS`]: the transport protocol | host |
//! | 29 | flags: a sum of [`IPV6`], [`PENDING`], [`GENERATED`] | host |
//! | 30 | the class of its path | host |
//!
//! The bytes of packet I begin in the area at I times the number of bytes at 16, rounded up to a multiple of 8.

use packet::Packet;
use units::Instant;

/// The version of this layout and of the functions that use it.
pub(crate) const VERSION: i32 = 1;
/// Bytes of the whole block.
pub(crate) const SIZE: usize = RECORD + MOST * RECORD_SIZE;
/// The most packets of one call.
pub(crate) const MOST: usize = 64;
/// The most options, without the one that every function has.
pub(crate) const OPTIONS: usize = 15;
/// The most bytes of a packet that the host shows.
pub(crate) const MOST_BYTES: usize = 2048;

/// The guest uses the hash of a packet's flow.
pub(crate) const FLOWS: u32 = 1;
/// The guest uses the offsets of headers and the transport protocol.
pub(crate) const FIELDS: u32 = 2;
/// The guest changes bytes of packets.
pub(crate) const WRITES: u32 = 4;
/// The guest changes the word that functions pass on.
pub(crate) const WORDS: u32 = 8;

/// In a record: the packet is IPv6.
pub(crate) const IPV6: u8 = 1;
/// In a record: the packet is to be segmented, or its checksum is not complete.
pub(crate) const PENDING: u8 = 2;
/// In a record: a function has made the packet.
pub(crate) const GENERATED: u8 = 4;

/// The verdict that the packet continues.
pub(crate) const PASS: u16 = 0;
/// The verdict that the packet is dropped.
pub(crate) const DROP: u16 = 1;
/// The verdict that the first rule applies.
pub(crate) const RULE: u16 = 2;

const OPTION: usize = 64;
const VERDICT: usize = 192;
const RECORD: usize = 320;
const RECORD_SIZE: usize = 32;

/// The parts of packets that a guest requests when it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FunctionNeeds {
    /// Bytes of each packet.
    pub bytes: usize,
    /// The address of the area for them.
    pub area: usize,
    /// The most packets of one call.
    pub most: usize,
    /// A sum of the flags above.
    pub flags: u32,
}

impl FunctionNeeds {
    /// Reads and checks them. `memory` is the guest's memory, in bytes. The error gives the reason.
    pub fn read(block: &[u8; SIZE], memory: usize) -> Result<FunctionNeeds, String> {
        let word = |at: usize| u32::from_le_bytes(read(block, at));
        let (bytes, area, most, flags) = (word(16) as usize, word(20) as usize, word(24) as usize, word(28));
        let needs = FunctionNeeds { bytes, area, most: if most == 0 { MOST } else { most }, flags };
        if bytes > MOST_BYTES {
            return Err(format!("it asks for {bytes} bytes of each packet; the limit is {MOST_BYTES}"));
        }
        if needs.most > MOST {
            return Err(format!("it asks for {most} packets at once; the limit is {MOST}"));
        }
        if flags & !(FLOWS | FIELDS | WRITES | WORDS) != 0 {
            return Err(format!("it asks for unknown properties: {flags:#x}"));
        }
        if bytes > 0 && (!area.is_multiple_of(8) || area.saturating_add(needs.most * needs.stride()) > memory) {
            return Err("its area for packets is not in its memory, or not at a multiple of 8".into());
        }
        Ok(needs)
    }

    /// True if the guest uses the property.
    #[inline(always)]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The bytes of a packet in the guest's memory: as many as the host has shown of it.
    #[inline]
    pub fn shown<'m>(&self, memory: &'m [u8], which: usize, packet: &Packet) -> &'m [u8] {
        let at = self.area + which * self.stride();
        let length = packet.len().saturating_sub(packet.meta().l3.into()).min(self.bytes);
        memory.get(at..at + length).unwrap_or_default()
    }

    /// The distance between the bytes of two packets in the area.
    #[inline(always)]
    pub fn stride(&self) -> usize {
        self.bytes.next_multiple_of(8)
    }
}

/// A packet as the guest sees it, without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FunctionRecord {
    pub timestamp: Instant,
    pub length: u32,
    pub word: u32,
    pub flow_hash: u32,
    pub shown: u16,
    pub transport: u16,
    pub payload: u16,
    pub in_port: u16,
    pub protocol: u8,
    pub flags: u8,
    pub class: u8,
}

#[inline(always)]
fn read<const N: usize>(block: &[u8; SIZE], at: usize) -> [u8; N] {
    // All callers pass offsets within the block, so zeros are never returned in practice.
    block.get(at..).and_then(|bytes| bytes.first_chunk().copied()).unwrap_or([0; N])
}

/// Writes at an offset within the block.
#[inline(always)]
fn put<const N: usize>(block: &mut [u8; SIZE], at: usize, bytes: [u8; N]) {
    if let Some(place) = block.get_mut(at..).and_then(|place| place.first_chunk_mut()) {
        *place = bytes;
    }
}

/// Writes the options, and the number of the path's rules.
pub(crate) fn put_start(block: &mut [u8; SIZE], options: &[u64], rules: usize) {
    put(block, 12, (rules as u32).to_le_bytes());
    for (place, value) in options.iter().enumerate().take(OPTIONS) {
        put(block, OPTION + place * 8, value.to_le_bytes());
    }
}

/// Writes the head of a call with this many packets, and clears their verdicts.
#[inline]
pub(crate) fn put_head(block: &mut [u8; SIZE], now: Instant, count: usize) {
    put(block, 0, now.get().to_le_bytes());
    put(block, 8, (count as u32).to_le_bytes());
    put(block, VERDICT, [0; MOST * 2]);
}

/// Writes a record; `which` is below [`MOST`]. The stores have at least the width of the guest's loads, so that loads are forwarded from the store
/// buffer.
#[inline(always)]
pub(crate) fn put_record(block: &mut [u8; SIZE], which: usize, record: &FunctionRecord) {
    let at = RECORD + which * RECORD_SIZE;
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let [shown, transport, payload, port] =
        [record.shown, record.transport, record.payload, record.in_port].map(u32::from);
    let last = u32::from_le_bytes([record.protocol, record.flags, record.class, 0]);
    put(block, at, record.timestamp.get().to_le_bytes());
    put(block, at + 8, two(record.length, record.word).to_le_bytes());
    put(block, at + 16, two(record.flow_hash, shown | transport << 16).to_le_bytes());
    put(block, at + 24, two(payload | port << 16, last).to_le_bytes());
}

/// True if no verdict changes anything.
#[inline(always)]
pub(crate) fn all_pass(block: &[u8; SIZE]) -> bool {
    read::<{ MOST * 2 }>(block, VERDICT) == [0; MOST * 2]
}

/// The verdict on a packet; `which` is below [`MOST`].
#[inline(always)]
pub(crate) fn verdict(block: &[u8; SIZE], which: usize) -> u16 {
    u16::from_le_bytes(read(block, VERDICT + which * 2))
}

/// The word of a packet; `which` is below [`MOST`].
#[inline(always)]
pub(crate) fn word(block: &[u8; SIZE], which: usize) -> u32 {
    u32::from_le_bytes(read(block, RECORD + which * RECORD_SIZE + 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u32, area: u32, most: u32, flags: u32) -> [u8; SIZE] {
        let mut block = [0; SIZE];
        [bytes, area, most, flags]
            .iter()
            .zip([16, 20, 24, 28])
            .for_each(|(word, at)| put(&mut block, at, word.to_le_bytes()));
        block
    }

    #[test]
    fn needs_outside_of_the_limits_are_refused() {
        let read = |bytes, area, most, flags| FunctionNeeds::read(&block(bytes, area, most, flags), 65536);
        assert_eq!(read(0, 7, 0, 0), Ok(FunctionNeeds { bytes: 0, area: 7, most: 64, flags: 0 }));
        assert_eq!(read(100, 1024, 2, 15).map(|needs| needs.stride()), Ok(104));
        // Two packets of 1024 bytes end exactly with the memory.
        assert!(read(1024, 65536 - 2048, 2, 0).is_ok());
        for (needs, wrong) in [
            (read(2049, 0, 1, 0), "2049 bytes of each packet"),
            (read(0, 0, 65, 0), "65 packets at once"),
            (read(0, 0, 1, 16), "unknown properties: 0x10"),
            (read(8, 1025, 1, 0), "not at a multiple of 8"),
            (read(1024, 65536 - 2040, 2, 0), "not in its memory"),
            (read(8, u32::MAX - 7, 64, 0), "not in its memory"),
        ] {
            assert!(needs.as_ref().is_err_and(|error| error.contains(wrong)), "{wrong}: {needs:?}");
        }
    }

    #[test]
    fn record_fields_have_their_documented_offsets() {
        let mut block = [0xff; SIZE];
        put_head(&mut block, Instant::new(5), 3);
        let record = FunctionRecord {
            timestamp: Instant::new(0x0102_0304_0506_0708),
            length: 0x1112_1314,
            word: 0x2122_2324,
            flow_hash: 0x3132_3334,
            shown: 0x4142,
            transport: 0x5152,
            payload: 0x6162,
            in_port: 0x7172,
            protocol: 0x81,
            flags: 0x82,
            class: 0x83,
        };
        put_record(&mut block, 63, &record);
        assert_eq!((block[0], block[8], verdict(&block, 63), word(&block, 63)), (5, 3, 0, 0x2122_2324));
        let last = &block[SIZE - 32..];
        assert_eq!([last[0], last[8], last[12], last[16]], [8, 0x14, 0x24, 0x34]);
        assert_eq!([last[20], last[22], last[24], last[26]], [0x42, 0x52, 0x62, 0x72]);
        assert_eq!(last[28..], [0x81, 0x82, 0x83, 0]);
    }
}
