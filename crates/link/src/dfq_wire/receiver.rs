//! Puts the packets of each flow together again, and finds the next packet after a loss.
//!
//! A quantum that begins within a packet says how many batches ago the packet's last bytes were sent. If this receiver has the bytes of that batch, and as
//! many bytes are missing as the quantum says remain, the quantum continues the packet. Otherwise bytes are lost: the part that arrived is dropped,
//! and the flow continues with the next packet, whose place the quantum states. So the loss of a batch ends the packets with bytes in it and no
//! other. Flows without a quantum in it notice nothing.

use super::batch::{BatchReader, ReceivedQuantum};
use super::message::MapEntry;
use super::sender::PREFIX;
use units::{Instant, Nanos};

/// The longest packet on the wire, in bytes with its Ethernet header: jumbo frames of 9216 bytes, and a tag.
pub(super) const LONGEST: usize = 9216 + 18;
/// The shortest: an Ethernet header.
const SHORTEST: usize = packet::wire::ethernet::HEADER;
/// A sender sends the bytes of a packet one after the other. If the rest is missing for this long, it is lost.
const INCOMPLETE: Nanos = Nanos::millis(200);

/// A delivery of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Delivery<'a> {
    /// A whole packet.
    Packet(&'a [u8]),
    /// The bytes of a packet whose other bytes are lost.
    Incomplete(&'a [u8]),
}

/// The outcome of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BatchOutcome {
    /// Batches that are missing before it.
    pub lost: u32,
    /// Quanta in it.
    pub quanta: u32,
    /// Flows that continue behind a packet with missing bytes.
    pub resynchronised: u32,
    /// False if the bytes of a flow are no packets, and the rest of its quantum was ignored.
    pub is_well_formed: bool,
}

/// A flow of the other end.
#[derive(Clone, Debug)]
struct ReceivedFlow {
    label: u32,
    /// The first bytes of a packet, if `missing` is not zero. The memory is kept for the next one.
    partial: Vec<u8>,
    /// The bytes that are missing until the end of the packet.
    missing: usize,
    /// The packet is ignored up to its end: its beginning is lost.
    skips: bool,
    /// The batch of its last quantum, and the time of that.
    last: u32,
    since: Instant,
}

/// The receiver of one wire.
#[derive(Debug)]
pub(super) struct WireReceiver {
    /// The number of the next batch; `None` before the first one.
    expected: Option<u32>,
    /// By flow number.
    flows: Vec<ReceivedFlow>,
    /// The quanta of the flows in bytes; zero for those without an entry in the map.
    quanta: Vec<u16>,
    mapped: u16,
}

impl ReceivedFlow {
    fn new() -> ReceivedFlow {
        ReceivedFlow { label: 0, partial: Vec::new(), missing: 0, skips: false, last: 0, since: Instant::START }
    }

    /// Gives up the packet whose bytes are missing. Returns true if a part of it had arrived.
    fn give_up(&mut self, deliver: &mut dyn FnMut(Delivery<'_>)) -> bool {
        let had_part = self.missing > 0 && !self.skips;
        if had_part {
            deliver(Delivery::Incomplete(&self.partial));
        }
        (self.missing, self.skips) = (0, false);
        self.partial.clear();
        had_part
    }

    /// Receives a quantum of the batch `sequence`. Counts into `outcome`.
    fn receive(
        &mut self,
        sequence: u32,
        quantum: &ReceivedQuantum<'_>,
        outcome: &mut BatchOutcome,
        deliver: &mut dyn FnMut(Delivery<'_>),
    ) {
        let mut bytes = quantum.bytes;
        match quantum.continues {
            // The sender begins a packet only behind the last one: the rest of that is lost.
            None if self.missing > 0 => {
                self.give_up(deliver);
                outcome.resynchronised += 1;
            }
            None => {}
            Some(at) => {
                let remaining = usize::from(at.remaining);
                let follows = self.missing == remaining && self.last == sequence.wrapping_sub(at.back.into());
                let (own, rest) = bytes.split_at(remaining.min(bytes.len()));
                if !follows {
                    // A packet of which several parts arrive counts once: before the next packet, fewer bytes remain each time.
                    let is_same = self.skips && remaining < self.missing;
                    if !self.give_up(deliver) && !is_same {
                        deliver(Delivery::Incomplete(own));
                    }
                    (self.skips, self.missing) = (true, remaining);
                    outcome.resynchronised += 1;
                }
                self.append(own, deliver);
                bytes = rest;
            }
        }
        while !bytes.is_empty() {
            let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
                outcome.is_well_formed = false;
                break;
            };
            let length = usize::from(u16::from_be_bytes(*prefix));
            if !(SHORTEST..=LONGEST).contains(&length) {
                // The begin of the next packet is not known: the next quantum states it.
                outcome.is_well_formed = false;
                break;
            }
            if let Some((whole, rest)) = rest.split_at_checked(length) {
                deliver(Delivery::Packet(whole));
                bytes = rest;
            } else {
                self.missing = length;
                self.append(rest, deliver);
                break;
            }
        }
        self.last = sequence;
    }

    /// Adds bytes to the packet whose bytes are missing, at most as many.
    fn append(&mut self, bytes: &[u8], deliver: &mut dyn FnMut(Delivery<'_>)) {
        self.missing -= bytes.len();
        if self.skips {
            self.skips = self.missing > 0;
            return;
        }
        self.partial.extend_from_slice(bytes);
        if self.missing == 0 {
            deliver(Delivery::Packet(&self.partial));
            self.partial.clear();
        }
    }
}

impl WireReceiver {
    /// A receiver of flow numbers below `flows`.
    pub fn new(flows: u16) -> WireReceiver {
        let flows = usize::from(flows);
        WireReceiver { expected: None, flows: vec![ReceivedFlow::new(); flows], quanta: vec![0; flows], mapped: 0 }
    }

    /// Flows in the map of the other end, without flow 0.
    pub fn mapped(&self) -> u16 {
        self.mapped
    }

    /// The other end has a new session, and this quantum for flow 0.
    pub fn restart(&mut self, quantum: u16, deliver: &mut dyn FnMut(Delivery<'_>)) {
        for flow in &mut self.flows {
            flow.give_up(deliver);
        }
        self.quanta.fill(0);
        self.quanta.first_mut().into_iter().for_each(|first| *first = quantum);
        (self.expected, self.mapped) = (None, 0);
    }

    /// Enters an entry of the other end's map. Returns false if the flow number is too large, or reserved.
    pub fn map(&mut self, entry: &MapEntry, deliver: &mut dyn FnMut(Delivery<'_>)) -> bool {
        let at = usize::from(entry.flow);
        let (Some(flow), Some(quantum)) = (self.flows.get_mut(at), self.quanta.get_mut(at)) else { return false };
        if entry.flow == 0 || entry.quantum == 0 {
            return false;
        }
        self.mapped += u16::from(*quantum == 0);
        // A repeated entry changes nothing: the answer was lost, and a packet may be in parts meanwhile.
        if (flow.label, *quantum) != (entry.label, entry.quantum) {
            flow.give_up(deliver);
            (flow.label, *quantum) = (entry.label, entry.quantum);
        }
        true
    }

    /// The quantum of a flow in bytes; `None` if the map has no entry.
    #[inline]
    pub fn quantum(&self, flow: u16) -> Option<u16> {
        self.quanta.get(usize::from(flow)).copied().filter(|quantum| *quantum != 0)
    }

    /// Receives a batch that was read with [`WireReceiver::quantum`]. Returns `None` if it is late: its packets were given up.
    pub fn receive(
        &mut self,
        now: Instant,
        batch: &BatchReader<'_>,
        deliver: &mut dyn FnMut(Delivery<'_>),
    ) -> Option<BatchOutcome> {
        let lost = batch.sequence.wrapping_sub(self.expected.unwrap_or(batch.sequence));
        // Numbers wrap around: the half behind the expected one is late (RFC 1982).
        if lost > u32::MAX / 2 {
            return None;
        }
        self.expected = Some(batch.sequence.wrapping_add(1));
        let mut outcome = BatchOutcome { lost, is_well_formed: true, ..BatchOutcome::default() };
        let WireReceiver { flows, quanta, .. } = self;
        let usual = |flow: u16| quanta.get(usize::from(flow)).copied();
        for quantum in batch.quanta(&usual) {
            let Some(flow) = flows.get_mut(usize::from(quantum.flow)) else { continue };
            flow.receive(batch.sequence, &quantum, &mut outcome, deliver);
            flow.since = now;
            outcome.quanta += 1;
        }
        Some(outcome)
    }

    /// Gives up packets whose rest was lost, with no later quantum of their flow.
    pub fn expire(&mut self, now: Instant, deliver: &mut dyn FnMut(Delivery<'_>)) {
        for flow in &mut self.flows {
            if flow.missing > 0 && now.since(flow.since) >= INCOMPLETE {
                flow.give_up(deliver);
            }
        }
    }
}
