//! Cuts packets into quanta and fills batches with them.
//!
//! The scheme of the port decides which packets leave in a cycle. The sender gets them together, and deals a quantum to each of their flows in turn, in
//! ascending order of the flows (spec P-34, P-36). It repeats this until the batch is full, so the share of a flow in a batch may be several quanta
//! long: it then has a length of its own. The sender keeps nothing: all packets leave at once.

use super::batch::{Continuation, QuantumHeader, header_length, write_header};
use packet::port::refuse;
use packet::{BATCH, Batch, DropReason, Packet, Pool};

/// Octets of the length before each packet.
pub(super) const PREFIX: usize = 2;
/// The least room for a quantum in a batch: its own header fields, and some bytes.
const LEAST: usize = 32;

/// A packet of this round.
#[derive(Debug)]
struct Staged {
    flow: u16,
    /// Its place among all, so that packets of a flow keep their order.
    order: u16,
    packet: Packet,
}

/// The packets of one flow in this round: `staged[next..end]`.
#[derive(Debug)]
struct Stream {
    flow: u16,
    quantum: usize,
    next: usize,
    end: usize,
    /// Bytes of the next packet that were sent, with its length.
    at: usize,
    /// Bytes that are still to be sent, with their lengths.
    waiting: usize,
    /// The batch that had the last quantum.
    last: u32,
    /// The bytes granted to it in the next batch.
    granted: usize,
}

/// The contents of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BatchContents {
    /// Quanta.
    pub quanta: u8,
    /// Packets whose last byte is in it.
    pub packets: u8,
    /// Bytes of these packets.
    pub packet_bytes: u32,
}

/// How the batches of a sender are built.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchLayout {
    /// The session of the sender.
    pub session: u32,
    /// Octets of the bitmap.
    pub bitmap: u8,
    /// The most bytes of a message.
    pub frame: usize,
}

/// The sender of one wire.
#[derive(Debug, Default)]
pub(super) struct WireSender {
    /// The number of the next batch.
    sequence: u32,
    /// The flow with which the next batch begins.
    turn: u16,
    staged: Vec<Staged>,
    streams: Vec<Stream>,
    headers: Vec<QuantumHeader>,
}

impl WireSender {
    /// A sender without packets.
    pub fn new() -> WireSender {
        WireSender {
            staged: Vec::with_capacity(BATCH),
            streams: Vec::with_capacity(BATCH),
            headers: Vec::with_capacity(BATCH),
            ..WireSender::default()
        }
    }

    /// Adds a packet of a flow to this round: at most [`BATCH`] packets. It is in one piece and at most `u16::MAX - PREFIX` bytes long.
    #[inline]
    pub fn stage(&mut self, flow: u16, packet: Packet) {
        let order = self.staged.len() as u16;
        self.staged.push(Staged { flow, order, packet });
    }

    /// Ends the staging. `quantum` is the quantum of every flow in bytes.
    pub fn begin(&mut self, quantum: u16) {
        self.streams.clear();
        self.staged.sort_unstable_by_key(|staged| (staged.flow, staged.order));
        for (index, Staged { flow, packet, .. }) in self.staged.iter().enumerate() {
            let bytes = PREFIX + packet.len();
            match self.streams.last_mut().filter(|stream| stream.flow == *flow) {
                Some(stream) => (stream.end, stream.waiting) = (index + 1, stream.waiting + bytes),
                None => self.streams.push(Stream {
                    flow: *flow,
                    quantum: usize::from(quantum),
                    next: index,
                    end: index + 1,
                    at: 0,
                    waiting: bytes,
                    last: 0,
                    granted: 0,
                }),
            }
        }
    }

    /// True if there are packets that have not left.
    pub fn has_more(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Writes the next batch behind the Ethernet header in `frame`, which already has `ethernet` bytes. There must be more packets. Returns what
    /// the batch has; `None` if the frame is too short for any.
    pub fn fill(&mut self, frame: &mut Packet, ethernet: usize, layout: &BatchLayout) -> Option<BatchContents> {
        let window = self.grant(layout);
        self.headers.clear();
        for stream in &self.streams[window.clone()] {
            let (length, remaining) = stream.cut(&self.staged);
            if length == 0 {
                continue;
            }
            // A back reference is at most the number of batches of a round, which is small.
            let back = || u16::try_from(self.sequence.wrapping_sub(stream.last)).unwrap_or(u16::MAX);
            self.headers.push(QuantumHeader {
                flow: stream.flow,
                length: length as u16,
                has_length: length != stream.quantum,
                continues: (stream.at > 0).then(|| Continuation { back: back(), remaining: remaining as u16 }),
            });
        }
        let payload: usize = self.headers.iter().map(|header| usize::from(header.length)).sum();
        if !frame.resize(ethernet + layout.frame) {
            return None;
        }
        let out = frame.bytes_mut().get_mut(ethernet..)?;
        let header = write_header(out, (layout.session, self.sequence), layout.bitmap, &self.headers)?;
        let mut contents = BatchContents { quanta: self.headers.len() as u8, ..BatchContents::default() };
        let mut out = out.get_mut(header..header + payload)?;
        let mut sent = self.headers.iter().peekable();
        for stream in &mut self.streams[window] {
            let Some(quantum) = sent.next_if(|quantum| quantum.flow == stream.flow) else { continue };
            let (own, rest) = out.split_at_mut(usize::from(quantum.length));
            out = rest;
            stream.copy(own, &self.staged, &mut contents);
            stream.last = self.sequence;
        }
        frame.resize(ethernet + header + payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.streams.retain(|stream| stream.waiting > 0);
        Some(contents)
    }

    /// Grants the room of a batch to flows from `turn` on, as far as one bitmap covers them. Returns their range.
    fn grant(&mut self, layout: &BatchLayout) -> std::ops::Range<usize> {
        let start = self.streams.partition_point(|stream| stream.flow < self.turn);
        let start = if start == self.streams.len() { 0 } else { start };
        let Some(first) = self.streams.get(start) else { return 0..0 };
        let limit = u32::from(first.flow) + 8 * u32::from(layout.bitmap);
        let mut room = layout.frame.saturating_sub(header_length(layout.bitmap, 0, 0, 0));
        let mut end = start;
        for (count, stream) in self.streams[start..].iter_mut().enumerate() {
            // Its bits, a length of its own, and its place if it begins within a packet.
            let header = 2 + if stream.at > 0 { 4 } else { 0 } + if count % 8 == 0 { 2 } else { 0 };
            if u32::from(stream.flow) >= limit || room < header + LEAST {
                break;
            }
            room -= header;
            stream.granted = stream.quantum.min(stream.waiting).min(room);
            room -= stream.granted;
            end += 1;
        }
        // The next batch begins with the flow after the last, so that none waits for a second quantum of others.
        self.turn = self.streams.get(end).map_or(0, |stream| stream.flow);
        // Further rounds in the same batch: frames leave full, unless all flows of the bitmap are served.
        let mut is_dealt = room == 0;
        while !is_dealt {
            is_dealt = true;
            for stream in &mut self.streams[start..end] {
                let more = stream.quantum.min(stream.waiting - stream.granted).min(room);
                stream.granted += more;
                room -= more;
                is_dealt &= more == 0;
            }
        }
        start..end
    }

    /// Ends the round. The packets that left are given back. Others are refused for `reason` and returned in `refused`.
    pub fn finish(&mut self, pool: &mut Pool, refused: &mut Batch, reason: DropReason) {
        let mut waiting = self.streams.iter().peekable();
        for (index, Staged { packet, .. }) in self.staged.drain(..).enumerate() {
            while waiting.next_if(|stream| stream.end <= index).is_some() {}
            match waiting.peek() {
                Some(stream) if stream.next <= index => refuse(packet, reason, refused),
                _ => pool.give(packet),
            }
        }
        self.streams.clear();
    }
}

impl Stream {
    /// The bytes of its next quantum, at most as many as granted, and those of the packet within which it begins. A length is never cut, and never last.
    fn cut(&self, staged: &[Staged]) -> (usize, usize) {
        let mut left = self.granted;
        let mut at = self.at;
        let mut remaining = 0;
        for Staged { packet, .. } in &staged[self.next..self.end] {
            let rest = PREFIX + packet.len() - at;
            if at > 0 {
                remaining = rest;
            } else if left <= PREFIX {
                break;
            }
            left -= rest.min(left);
            at = 0;
            if left == 0 {
                break;
            }
        }
        (self.granted - left, remaining)
    }

    /// Copies the quantum `out` and moves on.
    fn copy(&mut self, mut out: &mut [u8], staged: &[Staged], contents: &mut BatchContents) {
        self.waiting -= out.len();
        self.granted = 0;
        while !out.is_empty() {
            let packet = &staged[self.next].packet;
            if self.at == 0 {
                let (prefix, rest) = out.split_at_mut(PREFIX);
                prefix.copy_from_slice(&(packet.len() as u16).to_be_bytes());
                (out, self.at) = (rest, PREFIX);
            }
            let from = &packet.bytes()[self.at - PREFIX..];
            let (own, rest) = out.split_at_mut(from.len().min(out.len()));
            own.copy_from_slice(&from[..own.len()]);
            self.at += own.len();
            out = rest;
            if self.at == PREFIX + packet.len() {
                contents.packets += 1;
                contents.packet_bytes += packet.len() as u32;
                (self.next, self.at) = (self.next + 1, 0);
            }
        }
    }
}
