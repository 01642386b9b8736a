//! The messages of the wire. Each Ethernet frame of type [`ETHERTYPE`](super::header::ETHERTYPE) has one message.
//!
//! All numbers are in network byte order. Each message begins with this header:
//!
//! | octets | field |
//! |---|---|
//! | 0 | version (upper four bits), kind (lower four bits) |
//! | 1 | zero |
//! | 2 to 5 | session: a number that the sender chose when its port was opened |
//!
//! A hello continues with the terms of its sender, a map and its answer with entries, a batch with quanta ([`super::batch`]).

use super::batch::BatchReader;
use super::header::{MessageError, MessageKind, VERSION, take};

/// Flags of a hello.
const REFUSES: u8 = 1;
const LEAVES: u8 = 2;
/// Octets of an entry of a map.
pub(super) const ENTRY: usize = 8;
/// The most entries of a map message, which then fits the shortest frame that a peer may ask for.
pub(super) const MOST_ENTRIES: usize = 30;

/// The terms on which a router receives and sends batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Terms {
    /// Octets of the bitmap of a batch.
    pub bitmap: u8,
    /// It accepts flow numbers below this.
    pub flows: u16,
    /// The longest message that it receives, in bytes without the Ethernet header.
    pub frame: u16,
    /// The quantum of flow 0, in bytes.
    pub quantum: u16,
    /// The scheduling cycle of its scheme in nanoseconds. The clocks of both ends run freely: this is for the operator.
    pub cycle: u32,
}

/// A hello: both ends repeat it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    /// The session that the sender has heard, or zero.
    pub heard: u32,
    /// True if the sender cannot use the terms of the session that it has heard.
    pub refuses: bool,
    /// True if the sender closes its wire: it reads no more batches.
    pub leaves: bool,
    /// The terms of the sender.
    pub terms: Terms,
}

/// One entry of a flow map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MapEntry {
    /// The number of the flow in batches; not zero.
    pub flow: u16,
    /// The number of the flow at the sender: of its share.
    pub label: u32,
    /// Its quantum in bytes; not zero.
    pub quantum: u16,
}

/// The entries of a map message, as received.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapEntries<'a>(&'a [u8]);

impl MapEntries<'_> {
    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = MapEntry> {
        self.0.as_chunks::<ENTRY>().0.iter().map(|&[f0, f1, l0, l1, l2, l3, q0, q1]| MapEntry {
            flow: u16::from_be_bytes([f0, f1]),
            label: u32::from_be_bytes([l0, l1, l2, l3]),
            quantum: u16::from_be_bytes([q0, q1]),
        })
    }
}

/// A received message.
#[derive(Debug)]
pub(super) enum Message<'a> {
    Hello(Hello),
    Map(MapEntries<'a>),
    MapAnswer(MapEntries<'a>),
    Batch(BatchReader<'a>),
}

/// Reads the message in `bytes`, which begin behind the Ethernet header. Returns the session of its sender and the message. `quantum` knows the
/// quantum of each flow that the sender may use.
pub(super) fn parse<'a>(
    mut bytes: &'a [u8],
    quantum: &dyn Fn(u16) -> Option<u16>,
) -> Result<(u32, Message<'a>), MessageError> {
    let [first, zero] = take::<2>(&mut bytes)?;
    if first >> 4 != VERSION {
        // Only a hello says the version of its sender. Other frames may be those of another program.
        let is_hello = first & 0xf == MessageKind::Hello as u8;
        return Err(if is_hello { MessageError::Version(first >> 4) } else { MessageError::Malformed });
    }
    let session = u32::from_be_bytes(take(&mut bytes)?);
    if zero != 0 {
        return Err(MessageError::Malformed);
    }
    let message = match first & 0xf {
        1 => Message::Hello(hello(bytes)?),
        2 => Message::Map(entries(bytes)?),
        3 => Message::MapAnswer(entries(bytes)?),
        4 => Message::Batch(BatchReader::parse(bytes, quantum)?),
        _ => return Err(MessageError::Malformed),
    };
    Ok((session, message))
}

fn hello(mut bytes: &[u8]) -> Result<Hello, MessageError> {
    let heard = u32::from_be_bytes(take(&mut bytes)?);
    let [flags, bitmap] = take(&mut bytes)?;
    let mut number = || Ok(u16::from_be_bytes(take(&mut bytes)?));
    let (flows, frame, quantum) = (number()?, number()?, number()?);
    let cycle = u32::from_be_bytes(take(&mut bytes)?);
    if flags & !(REFUSES | LEAVES) != 0 || quantum == 0 || flows == 0 {
        return Err(MessageError::Malformed);
    }
    let terms = Terms { bitmap, flows, frame, quantum, cycle };
    Ok(Hello { heard, refuses: flags & REFUSES != 0, leaves: flags & LEAVES != 0, terms })
}

fn entries(mut bytes: &[u8]) -> Result<MapEntries<'_>, MessageError> {
    let count = usize::from(u16::from_be_bytes(take(&mut bytes)?));
    let entries = bytes.get(..count * ENTRY).ok_or(MessageError::Malformed)?;
    if count > MOST_ENTRIES {
        return Err(MessageError::Malformed);
    }
    Ok(MapEntries(entries))
}

/// Appends the header of a message.
pub(super) fn write_header(out: &mut Vec<u8>, kind: MessageKind, session: u32) {
    out.extend([VERSION << 4 | kind as u8, 0]);
    out.extend(session.to_be_bytes());
}

/// Appends a hello.
pub(super) fn write_hello(out: &mut Vec<u8>, session: u32, hello: &Hello) {
    let Hello { heard, refuses, leaves, terms } = hello;
    write_header(out, MessageKind::Hello, session);
    out.extend(heard.to_be_bytes());
    let flags = if *refuses { REFUSES } else { 0 } | if *leaves { LEAVES } else { 0 };
    out.extend([flags, terms.bitmap]);
    out.extend([terms.flows, terms.frame, terms.quantum].map(u16::to_be_bytes).as_flattened());
    out.extend(terms.cycle.to_be_bytes());
}

/// Appends a map or the answer to one: at most [`MOST_ENTRIES`].
pub(super) fn write_map(out: &mut Vec<u8>, kind: MessageKind, session: u32, entries: &[MapEntry]) {
    write_header(out, kind, session);
    out.extend((entries.len() as u16).to_be_bytes());
    for MapEntry { flow, label, quantum } in entries {
        out.extend(flow.to_be_bytes());
        out.extend(label.to_be_bytes());
        out.extend(quantum.to_be_bytes());
    }
}
