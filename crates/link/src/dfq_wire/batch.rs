//! A batch: one quantum of each of several flows, in ascending order of the flows (spec P-36).
//!
//! | octets | field |
//! |---|---|
//! | 4 | sequence number of the batch in its session |
//! | 2 | number of the first flow |
//! | 1 | octets of the bitmap, *n* |
//! | *n* | bitmap: bit *i*, counted from the most significant, is set if flow *first + i* has a quantum. Bit 0 is set. |
//! | *c*/8 | of the *c* quanta, those with a length of their own. The map has the length of the others. |
//! | *c*/8 | of the *c* quanta, those that begin within a packet |
//! | 2 each | the lengths |
//! | 4 each | of the quanta that begin within a packet: how many batches ago the last quantum of the packet was sent, and the bytes until the next packet |
//! | rest | the bytes of the quanta |
//!
//! The bytes of a flow are a stream of packets. Each packet is a whole Ethernet frame with its length before it, in two octets. A length is never cut.

use super::header::{HEADER, MessageError, MessageKind, VERSION, take};

/// The most octets of a bitmap.
pub(super) const MOST_BITMAP: u8 = 32;
/// Octets of a batch before the bitmap, with the header of the message.
const FIXED: usize = HEADER + 7;
/// Ethernet pads frames to this many octets behind the header (IEEE 802.3, 4.2.3.3).
const PADDED: usize = 46;

/// The place of a quantum that begins within a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Continuation {
    /// The last bytes of the packet were sent this many batches before, at least 1.
    pub back: u16,
    /// Bytes of the packet that were not sent before, at least 1: the next packet begins behind them.
    pub remaining: u16,
}

/// A quantum in a received batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReceivedQuantum<'a> {
    pub flow: u16,
    pub bytes: &'a [u8],
    /// Set if it begins within a packet.
    pub continues: Option<Continuation>,
}

/// A quantum that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QuantumHeader {
    pub flow: u16,
    pub length: u16,
    /// True if its length differs from what the map says.
    pub has_length: bool,
    pub continues: Option<Continuation>,
}

/// A batch, checked: all its quanta lie within the frame.
#[derive(Debug)]
pub(super) struct BatchReader<'a> {
    /// Its sequence number.
    pub sequence: u32,
    first: u16,
    present: &'a [u8],
    with_length: &'a [u8],
    continuing: &'a [u8],
    lengths: &'a [[u8; 2]],
    continuations: &'a [[u8; 4]],
    payload: &'a [u8],
}

fn ones(bits: &[u8]) -> usize {
    bits.iter().map(|octet| octet.count_ones() as usize).sum()
}

/// The positions of the bits of an octet that are set, from the most significant.
fn set_bits(mut octet: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = octet.leading_zeros();
        octet &= !(0x80u8.checked_shr(bit)?);
        Some(bit as usize)
    })
}

fn is_set(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|octet| octet & 0x80 >> (at % 8) != 0)
}

fn set(bits: &mut [u8], at: usize) {
    if let Some(octet) = bits.get_mut(at / 8) {
        *octet |= 0x80 >> (at % 8);
    }
}

/// Splits `count` octets off.
fn split<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], MessageError> {
    let (first, rest) = bytes.split_at_checked(count).ok_or(MessageError::Malformed)?;
    *bytes = rest;
    Ok(first)
}

impl<'a> BatchReader<'a> {
    /// Reads a batch behind the header of its message.
    pub fn parse(mut bytes: &'a [u8], quantum: &dyn Fn(u16) -> Option<u16>) -> Result<BatchReader<'a>, MessageError> {
        let whole = bytes.len() + HEADER;
        let sequence = u32::from_be_bytes(take(&mut bytes)?);
        let first = u16::from_be_bytes(take(&mut bytes)?);
        let [octets] = take(&mut bytes)?;
        let present = split(&mut bytes, usize::from(octets))?;
        let count = ones(present);
        let with_length = split(&mut bytes, count.div_ceil(8))?;
        let continuing = split(&mut bytes, count.div_ceil(8))?;
        let lengths = split(&mut bytes, 2 * ones(with_length))?.as_chunks().0;
        let continuations = split(&mut bytes, 4 * ones(continuing))?.as_chunks().0;
        let batch =
            BatchReader { sequence, first, present, with_length, continuing, lengths, continuations, payload: bytes };
        // One encoding for each batch: a frame with other bits was damaged.
        let unused = |bits: &[u8]| !count.is_multiple_of(8) && bits.last().is_some_and(|last| last << (count % 8) != 0);
        if octets > MOST_BITMAP || !is_set(present, 0) || unused(with_length) || unused(continuing) {
            return Err(MessageError::Malformed);
        }
        let mut used = 0;
        for place in batch.places(quantum) {
            let (_, length, continues) = place?;
            if length == 0 || continues.is_some_and(|at| at.back == 0 || at.remaining == 0) {
                return Err(MessageError::Malformed);
            }
            used += length;
        }
        // Octets behind the last quantum can only be the padding of a short frame.
        match batch.payload.len().checked_sub(used) {
            Some(0) => Ok(batch),
            Some(_) if whole <= PADDED => Ok(batch),
            _ => Err(MessageError::Malformed),
        }
    }

    /// The flow, length and continuation of each quantum.
    fn places(
        &self,
        quantum: &dyn Fn(u16) -> Option<u16>,
    ) -> impl Iterator<Item = Result<(u16, usize, Option<Continuation>), MessageError>> {
        let (mut lengths, mut continuations) = (self.lengths.iter(), self.continuations.iter());
        let flows =
            self.present.iter().enumerate().flat_map(|(octet, bits)| set_bits(*bits).map(move |bit| 8 * octet + bit));
        flows.enumerate().map(move |(place, at)| {
            let flow = u16::try_from(usize::from(self.first) + at).map_err(|_| MessageError::Malformed)?;
            let own = if is_set(self.with_length, place) { lengths.next() } else { None };
            let length = own.map(|octets| u16::from_be_bytes(*octets));
            // Also if it has a length of its own: a sender waits for the answer to its map before it uses a flow.
            let usual = quantum(flow).ok_or(MessageError::Malformed)?;
            let at = if is_set(self.continuing, place) { continuations.next() } else { None };
            let continues = at.map(|&[b0, b1, r0, r1]| Continuation {
                back: u16::from_be_bytes([b0, b1]),
                remaining: u16::from_be_bytes([r0, r1]),
            });
            Ok((flow, usize::from(length.unwrap_or(usual)), continues))
        })
    }

    /// The quanta in order. `quantum` is that of [`BatchReader::parse`].
    pub fn quanta(&self, quantum: &dyn Fn(u16) -> Option<u16>) -> impl Iterator<Item = ReceivedQuantum<'a>> {
        let mut payload = self.payload;
        self.places(quantum).map_while(move |place| {
            let (flow, length, continues) = place.ok()?;
            let bytes = split(&mut payload, length).ok()?;
            Some(ReceivedQuantum { flow, bytes, continues })
        })
    }
}

/// The octets of a batch with `quanta` quanta before their bytes, if `lengths` of them have lengths and `continuing` begin within a packet.
pub(super) fn header_length(bitmap: u8, quanta: usize, lengths: usize, continuing: usize) -> usize {
    FIXED + usize::from(bitmap) + 2 * quanta.div_ceil(8) + 2 * lengths + 4 * continuing
}

/// Writes the header of a batch into `out`: the bytes of the quanta follow behind it. The quanta are in ascending order of their flows, and the
/// bitmap covers them. Returns the length of the header; `None` if `out` is too short.
pub(super) fn write_header(
    out: &mut [u8],
    (session, sequence): (u32, u32),
    bitmap: u8,
    quanta: &[QuantumHeader],
) -> Option<usize> {
    let first = quanta.first()?.flow;
    let with_length = quanta.iter().filter(|quantum| quantum.has_length).count();
    let continuing = quanta.iter().filter(|quantum| quantum.continues.is_some()).count();
    let length = header_length(bitmap, quanta.len(), with_length, continuing);
    let out = out.get_mut(..length)?;
    out.fill(0);
    let (fixed, rest) = out.split_first_chunk_mut::<FIXED>()?;
    fixed[0] = VERSION << 4 | MessageKind::Batch as u8;
    fixed[2..6].copy_from_slice(&session.to_be_bytes());
    fixed[6..10].copy_from_slice(&sequence.to_be_bytes());
    fixed[10..12].copy_from_slice(&first.to_be_bytes());
    fixed[12] = bitmap;
    let (present, rest) = rest.split_at_mut(usize::from(bitmap));
    let (own, rest) = rest.split_at_mut(quanta.len().div_ceil(8));
    let (within, rest) = rest.split_at_mut(quanta.len().div_ceil(8));
    let (lengths, continuations) = rest.split_at_mut(2 * with_length);
    let mut lengths = lengths.as_chunks_mut::<2>().0.iter_mut();
    let mut continuations = continuations.as_chunks_mut::<4>().0.iter_mut();
    for (place, quantum) in quanta.iter().enumerate() {
        set(present, usize::from(quantum.flow - first));
        if quantum.has_length {
            set(own, place);
            *lengths.next()? = quantum.length.to_be_bytes();
        }
        if let Some(Continuation { back, remaining }) = quantum.continues {
            set(within, place);
            let ([b0, b1], [r0, r1]) = (back.to_be_bytes(), remaining.to_be_bytes());
            *continuations.next()? = [b0, b1, r0, r1];
        }
    }
    Some(length)
}
