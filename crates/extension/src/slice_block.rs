//! The block of memory that a code option shares with its host, and its layout. All numbers are little-endian.
//!
//! | byte | content | writer |
//! |---|---|---|
//! | 0 | bytes of the slice's memory, 8 bytes | host |
//! | 8 | number of packets, 4 bytes | host |
//! | 16 | `start`: bytes of each packet that the host shows, 0 to 2048, 4 bytes | guest |
//! | 20 | `start`: the address of the area for these bytes, a multiple of 8, 4 bytes | guest |
//! | 24 | `start`: the most packets of one call, 1 to 64; 0 means 64; 4 bytes | guest |
//! | 28 | `start`: 4 bytes: a sum of [`EDITS`], [`PASSES`] | guest |
//! | 32 | `start`: room in front of each packet in the area, 0 to 128, a multiple of 8, 4 bytes | guest |
//! | 64 | the values of 16 options, 8 bytes each | host |
//! | 192 | 64 records, 64 bytes each | both |
//!
//! A record:
//!
//! | byte | content | writer |
//! |---|---|---|
//! | 0 | the length of the packet, in bytes, 4 bytes; `format` with [`EDITS`]: the new length | both |
//! | 4 | the number of its bytes in the area, 2 bytes | host |
//! | 6 | the meta-interface by which it arrived, 2 bytes | host |
//! | 8 | `format`: the number of the slice's queue, 2 bytes | host |
//! | 10 | `format`: the meta-interface by which the packet leaves, 2 bytes | host |
//! | 12 | the verdict, 2 bytes; zero before the call | guest |
//! | 14 | `format` with [`EDITS`]: bytes removed from the front, 2 bytes with a sign; negative: added; zero before the call | guest |
//! | 16 | the key, 14 bytes; zero before the call | guest |
//! | 32 | `format`: the data of the filter, 32 bytes | host |
//!
//! | verdict | meaning |
//! |---|---|
//! | 0 | `parse`: look the key up; `format`: send the packet |
//! | 1 | it is malformed |
//! | 2 | drop it |
//! | 3 + CODE | it is an exception with that code |
//! | 64 | `format`: look another key up |
//!
//! The bytes of packet I begin in the area at I times the sum of the numbers at 32 and 16, rounded up to a multiple of 8, plus the number at 32.

use slice::code::{BatchPacket, DATA_BYTES, Diversion, ExceptionCode, KEY_BYTES, LookupKey};

/// The version of this layout and of the functions that use it.
pub(crate) const VERSION: i32 = 1;
/// Bytes of the whole block.
pub(crate) const SIZE: usize = RECORDS + MOST * RECORD;
/// The most packets of one call.
pub(crate) const MOST: usize = 64;
/// The most bytes of a packet that the host shows.
const MOST_BYTES: usize = 2048;
/// The most room in front of a packet.
const MOST_ROOM: usize = 128;

/// `format` changes packets.
pub(crate) const EDITS: u32 = 1;
/// `format` is not called: all packets are sent as they are.
pub(crate) const PASSES: u32 = 2;

/// The verdict of `format` for another look-up.
const AGAIN: u16 = 64;

const OPTIONS: usize = 64;
const RECORDS: usize = 192;
const RECORD: usize = 64;
/// The end of the fields of a record that both stages have, before the data.
const FIELDS: usize = 32;

/// The parts of packets that a guest requests when it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SliceNeeds {
    /// Bytes of each packet.
    pub bytes: usize,
    /// The address of the area for them.
    pub area: usize,
    /// The most packets of one call.
    pub most: usize,
    /// A sum of the flags above.
    pub flags: u32,
    /// Bytes in front of each packet.
    pub room: usize,
}

impl SliceNeeds {
    /// Reads and checks them. `memory` is the guest's memory, in bytes. The error gives the reason.
    pub fn read(block: &[u8; SIZE], memory: usize) -> Result<SliceNeeds, String> {
        let word = |at: usize| u32::from_le_bytes(read(block, at));
        let (bytes, area, most) = (word(16) as usize, word(20) as usize, word(24) as usize);
        let (flags, room) = (word(28), word(32) as usize);
        let needs = SliceNeeds { bytes, area, most: if most == 0 { MOST } else { most }, flags, room };
        if bytes > MOST_BYTES {
            return Err(format!("it asks for {bytes} bytes of each packet; the limit is {MOST_BYTES}"));
        }
        if needs.most > MOST {
            return Err(format!("it asks for {most} packets at once; the limit is {MOST}"));
        }
        if flags & !(EDITS | PASSES) != 0 {
            return Err(format!("it asks for unknown properties: {flags:#x}"));
        }
        if room > MOST_ROOM || !room.is_multiple_of(8) {
            return Err(format!(
                "it asks for {room} bytes in front of packets; the limit is {MOST_ROOM}, in steps of 8"
            ));
        }
        let area_fits = area.is_multiple_of(8) && area.saturating_add(needs.most * needs.stride()) <= memory;
        if needs.stride() > 0 && !area_fits {
            return Err("its area for packets is not in its memory, or not at a multiple of 8".into());
        }
        Ok(needs)
    }

    /// True if the guest uses the property.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The distance between two packets in the area.
    fn stride(&self) -> usize {
        (self.room + self.bytes).next_multiple_of(8)
    }

    /// The address of the first byte of a packet; `which` is below [`MOST`].
    pub fn place(&self, which: usize) -> usize {
        self.area + which * self.stride() + self.room
    }
}

fn read<const N: usize>(block: &[u8; SIZE], at: usize) -> [u8; N] {
    // All callers pass offsets within the block, so zeros are never returned in practice.
    block.get(at..).and_then(|bytes| bytes.first_chunk().copied()).unwrap_or([0; N])
}

/// Writes the size of the slice's memory and the options.
pub(crate) fn put_start(block: &mut [u8; SIZE], memory: usize, options: &[u64]) {
    block[..8].copy_from_slice(&(memory as u64).to_le_bytes());
    let places = block[OPTIONS..RECORDS].as_chunks_mut::<8>().0;
    places.iter_mut().zip(options).for_each(|(place, value)| *place = value.to_le_bytes());
}

/// Writes the number of packets of a call.
pub(crate) fn put_count(block: &mut [u8; SIZE], count: usize) {
    block[8..12].copy_from_slice(&(count as u32).to_le_bytes());
}

/// Writes the record of a packet; `which` is below [`MOST`]. `format` also gets the data of the filter.
#[inline]
pub(crate) fn put_record(
    block: &mut [u8; SIZE],
    (which, shown): (usize, usize),
    packet: &BatchPacket<'_>,
    has_data: bool,
) {
    let record = &mut block[RECORDS + which * RECORD..][..RECORD];
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let result = &packet.result;
    let first = two(packet.bytes.len() as u32, shown as u32 | u32::from(packet.interface) << 16);
    let second = two(u32::from(result.queue) | u32::from(result.interface) << 16, 0);
    record[..8].copy_from_slice(&first.to_le_bytes());
    record[8..16].copy_from_slice(&second.to_le_bytes());
    record[16..FIELDS].fill(0);
    if has_data {
        record[FIELDS..].copy_from_slice(&result.data);
    }
}

/// The decision of a guest about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SliceRecord {
    pub verdict: u16,
    /// Bytes removed from the front; negative: added.
    pub front: i16,
    pub length: u32,
    key: [u8; KEY_BYTES],
}

impl SliceRecord {
    /// Reads the record of a packet; `which` is below [`MOST`].
    #[inline]
    pub fn read(block: &[u8; SIZE], which: usize) -> SliceRecord {
        let at = RECORDS + which * RECORD;
        SliceRecord {
            verdict: u16::from_le_bytes(read(block, at + 12)),
            front: i16::from_le_bytes(read(block, at + 14)),
            length: u32::from_le_bytes(read(block, at)),
            key: read(block, at + 16),
        }
    }

    /// The key.
    pub fn key(&self) -> LookupKey {
        LookupKey::new(&self.key)
    }

    /// True if the verdict is another look-up.
    pub fn is_again(&self) -> bool {
        self.verdict == AGAIN
    }

    /// The diversion of the packet; `None` if it continues. The error gives the reason why the verdict is wrong.
    pub fn diversion(&self, may_look_up: bool) -> Result<Option<Diversion>, String> {
        match self.verdict {
            0 => Ok(None),
            1 => Ok(Some(Diversion::Malformed)),
            2 => Ok(Some(Diversion::Policy)),
            AGAIN if may_look_up => Ok(None),
            other => {
                let code = u8::try_from(other - 3).ok().and_then(ExceptionCode::of);
                let code = code.ok_or_else(|| format!("its verdict {other} has no meaning here"))?;
                Ok(Some(Diversion::Exception(code)))
            }
        }
    }
}

const _: () = assert!(FIELDS + DATA_BYTES == RECORD && KEY_BYTES <= FIELDS - 16);

#[cfg(test)]
mod tests {
    use super::*;
    use slice::code::LookupResult;

    #[test]
    fn needs_outside_of_the_limits_are_refused() {
        let read = |bytes: u32, area: u32, most: u32, flags: u32, room: u32| {
            let mut block = [0; SIZE];
            [bytes, area, most, flags, room]
                .iter()
                .zip([16, 20, 24, 28, 32])
                .for_each(|(word, at)| block[at..at + 4].copy_from_slice(&word.to_le_bytes()));
            SliceNeeds::read(&block, 65536)
        };
        assert_eq!(read(0, 7, 0, 0, 0), Ok(SliceNeeds { bytes: 0, area: 7, most: 64, flags: 0, room: 0 }));
        assert_eq!(read(100, 1024, 2, 1, 16).map(|needs| (needs.place(0), needs.place(1))), Ok((1040, 1160)));
        // Two packets of 1024 bytes end exactly with the memory.
        assert!(read(896, 65536 - 2048, 2, 0, 128).is_ok());
        for (needs, wrong) in [
            (read(2049, 0, 1, 0, 0), "2049 bytes of each packet"),
            (read(0, 0, 65, 0, 0), "65 packets at once"),
            (read(0, 0, 1, 4, 0), "unknown properties: 0x4"),
            (read(0, 0, 1, 1, 4), "4 bytes in front of packets"),
            (read(0, 0, 1, 1, 136), "136 bytes in front of packets"),
            (read(8, 1025, 1, 0, 0), "not at a multiple of 8"),
            (read(0, 65536 - 8, 1, 1, 16), "not in its memory"),
            (read(8, u32::MAX - 7, 64, 0, 0), "not in its memory"),
        ] {
            assert!(needs.as_ref().is_err_and(|error| error.contains(wrong)), "{wrong}: {needs:?}");
        }
    }

    #[test]
    fn record_fields_have_their_documented_offsets() {
        let mut block = [0xff; SIZE];
        put_count(&mut block, 3);
        let result = LookupResult { queue: 0x3132, interface: 0x4142, data: std::array::from_fn(|at| at as u8) };
        let packet = BatchPacket { position: 9, interface: 0x2122, bytes: &[0; 0x1112], result };
        put_record(&mut block, (63, 0x1516), &packet, true);
        let last = &block[SIZE - 64..];
        assert_eq!(last[..12], [0x12, 0x11, 0, 0, 0x16, 0x15, 0x22, 0x21, 0x32, 0x31, 0x42, 0x41]);
        assert_eq!((&last[12..32], &last[32..]), (&[0; 20][..], &result.data[..]));
        assert_eq!(block[8..12], [3, 0, 0, 0]);
        let at = SIZE - 64;
        block[at + 12..at + 32].copy_from_slice(&std::array::from_fn::<u8, 20, _>(|at| at as u8 + 1));
        let record = SliceRecord::read(&block, 63);
        assert_eq!((record.verdict, record.front, record.length), (0x0201, 0x0403, 0x1112));
        assert_eq!(record.key().bytes(), [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]);
    }

    #[test]
    fn verdict_without_meaning_is_refused() {
        let verdict = |verdict| SliceRecord { verdict, front: 0, length: 0, key: [0; KEY_BYTES] };
        let of = |number, may_look_up| verdict(number).diversion(may_look_up);
        assert_eq!((of(0, false), of(64, true)), (Ok(None), Ok(None)));
        assert_eq!((of(1, true), of(2, true)), (Ok(Some(Diversion::Malformed)), Ok(Some(Diversion::Policy))));
        assert_eq!(of(3, true), Ok(Some(Diversion::Exception(ExceptionCode::NoMatch))));
        assert_eq!(of(26, true), Ok(Some(Diversion::Exception(ExceptionCode::Own(15)))));
        for (number, may_look_up) in [(27, true), (64, false), (65, true), (259, true), (u16::MAX, true)] {
            assert!(of(number, may_look_up).is_err(), "{number}");
        }
    }
}
