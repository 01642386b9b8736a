//! A port whose packets to the other end travel in batches.

use super::batch::MOST_BITMAP;
use super::flow_map::FlowMap;
use super::header::{ETHERTYPE, MessageError, MessageKind};
use super::message::{self, MapEntry, Message};
use super::receiver::{Delivery, LONGEST, WireReceiver};
use super::sender::{BatchLayout, WireSender};
use super::session::Session;
use packet::pool::FRAME;
use packet::port::{DfqWireState, DfqWireStatus, Offloads, Port, PortStatistics, UnsentPackets, WakeSource};
use packet::wire::ethernet::{HEADER, write_header};
use packet::{BATCH, Batch, DfqWireCounters, DropReason, Packet, Pool};
use plan::{DfqWirePlan, PortPlan};
use std::collections::VecDeque;
use units::{Instant, Mac, Nanos, Rate};

/// Frames that are received at once: each may have many packets, which occupy frames of the pool.
const FRAMES: usize = 16;
/// The frame that a medium without an MTU carries, in bytes without the Ethernet header.
const USUAL_MTU: u16 = 1500;

/// The settings of a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DfqWireOptions {
    /// The address of the port.
    pub mac: Mac,
    /// A number that differs each time the port is opened, such as the time: the other end notices a restart by it.
    pub opened: u64,
    /// The quantum of each flow in bytes.
    pub quantum: u16,
    /// The flows that a bitmap covers: a multiple of 8, at most 256.
    pub bitmap: u16,
    /// The most flows in each direction.
    pub flows: u16,
    /// The cycle of the port's scheme; zero if it has none.
    pub cycle: Nanos,
}

impl DfqWireOptions {
    /// The settings of a port whose device has the address `device`. `None` if it has no wire.
    pub fn of(plan: &PortPlan, device: Option<Mac>, opened: u64) -> Option<DfqWireOptions> {
        let DfqWirePlan { quantum, bitmap, flows } = plan.dfq_wire?;
        Some(DfqWireOptions { mac: plan.mac_address(device), opened, quantum, bitmap, flows, cycle: plan.cycle() })
    }
}

/// A port around another port.
// Large: both directions of a wire, with their scratch memory.
pub struct DfqWire {
    inner: Box<dyn Port>,
    mac: Mac,
    session: Session,
    map: FlowMap,
    sender: WireSender,
    receiver: WireReceiver,
    /// Received packets that the batch of the worker had no room for.
    ready: VecDeque<Packet>,
    /// Received frames.
    frames: Batch,
    /// Packets that leave plain, or frames with messages.
    out: Batch,
    /// Scratch for control messages.
    text: Vec<u8>,
    entries: Vec<MapEntry>,
    refused: UnsentPackets,
    counters: DfqWireCounters,
    expiry_due: Instant,
}

impl DfqWire {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Port>, options: &DfqWireOptions) -> DfqWire {
        let frame = inner.mtu().unwrap_or(USUAL_MTU).min((FRAME - HEADER) as u16);
        let bitmap = (options.bitmap / 8).clamp(1, u16::from(MOST_BITMAP)) as u8;
        let cycle = u32::try_from(options.cycle.get()).unwrap_or(u32::MAX);
        let terms =
            message::Terms { bitmap, flows: options.flows.max(1), frame, quantum: options.quantum.max(16), cycle };
        // Two ports that were opened at the same time differ by their addresses.
        let mixed = options.mac.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ options.opened;
        let session = Session::new((mixed ^ mixed >> 32) as u32, terms);
        DfqWire {
            inner,
            mac: options.mac,
            session,
            map: FlowMap::new(terms.flows, terms.quantum),
            sender: WireSender::new(),
            receiver: WireReceiver::new(terms.flows),
            ready: VecDeque::with_capacity(BATCH),
            frames: Batch::new(),
            out: Batch::new(),
            text: Vec::with_capacity(FRAME),
            entries: Vec::with_capacity(message::MOST_ENTRIES),
            refused: UnsentPackets::default(),
            counters: DfqWireCounters::default(),
            expiry_due: Instant::START,
        }
    }

    /// Handles a received frame: messages are consumed, their packets and all other frames go to `batch`.
    fn receive_frame(&mut self, now: Instant, mut frame: Packet, batch: &mut Batch, pool: &mut Pool) {
        let bytes = frame.bytes();
        let header = bytes.split_first_chunk::<HEADER>();
        let message = header.filter(|(header, _)| header[12..] == ETHERTYPE.to_be_bytes());
        // A frame that an injected fault has lost is not read.
        let Some((header, message)) = message.filter(|_| frame.meta().refused == 0) else {
            return pass(&mut self.ready, frame, batch, pool);
        };
        let (&[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..], at) = (header, frame.meta().timestamp);
        let (to, from) = (Mac([d0, d1, d2, d3, d4, d5]), Mac([s0, s1, s2, s3, s4, s5]));
        if self.receive_message(now, (from, to), (at, message), batch, pool) {
            pool.give(frame);
        } else {
            frame.meta_mut().refused = DropReason::DfqBadFrame as u8 + 1;
            pass(&mut self.ready, frame, batch, pool);
        }
    }

    /// Handles a message that arrived at time `at`. Returns false if it is not one of the other end.
    fn receive_message(
        &mut self,
        now: Instant,
        (from, to): (Mac, Mac),
        (at, message): (Instant, &[u8]),
        batch: &mut Batch,
        pool: &mut Pool,
    ) -> bool {
        // Its own frame, for instance from a loop, or one for another station.
        if from == self.mac || from.is_group() || (to != self.mac && !to.is_group()) {
            return false;
        }
        let DfqWire { receiver, ready, session, counters, map, .. } = self;
        let (id, message) = match message::parse(message, &|flow| receiver.quantum(flow)) {
            Ok(message) => message,
            Err(MessageError::Version(version)) => {
                let is_alone = session.peer().is_none();
                if session.receive_other_version(now, version) {
                    self.send_hello(now, false, pool);
                }
                return is_alone;
            }
            Err(MessageError::Malformed) => return false,
        };
        let mut deliver = |delivery: Delivery<'_>| {
            if let Some(packet) = delivered(delivery, at, counters, pool) {
                pass(ready, packet, batch, pool);
            }
        };
        match message {
            Message::Hello(hello) => {
                let outcome = session.receive_hello(now, from, id, &hello);
                if outcome.is_new_session {
                    receiver.restart(hello.terms.quantum, &mut deliver);
                    map.restart(hello.terms.flows.min(session.own().flows), now);
                }
                if outcome.answer {
                    self.send_hello(now, false, pool);
                }
                true
            }
            _ if !session.accepts(from, id) => false,
            Message::Batch(quanta) => {
                let Some(outcome) = receiver.receive(now, &quanta, &mut deliver) else { return false };
                self.counters.batches_received += 1;
                self.counters.quanta_received += u64::from(outcome.quanta);
                self.counters.batches_lost += u64::from(outcome.lost);
                self.counters.resynchronised += u64::from(outcome.resynchronised);
                outcome.is_well_formed
            }
            Message::Map(entries) => {
                self.entries.clear();
                self.entries.extend(entries.iter().filter(|entry| receiver.map(entry, &mut deliver)));
                self.send_entries(now, MessageKind::MapAnswer, pool);
                true
            }
            Message::MapAnswer(entries) => {
                entries.iter().for_each(|entry| map.acknowledge(&entry));
                true
            }
        }
    }

    fn send_hello(&mut self, now: Instant, leaves: bool, pool: &mut Pool) {
        self.text.clear();
        message::write_hello(&mut self.text, self.session.id(), &message::Hello { leaves, ..self.session.hello() });
        // To all: the address of the other end is not known yet, and a switch between both ends has to forward it.
        self.send_control(now, Mac::BROADCAST, pool);
    }

    /// Sends `entries` to the other end.
    fn send_entries(&mut self, now: Instant, kind: MessageKind, pool: &mut Pool) {
        let Some(peer) = self.session.peer().map(|peer| peer.mac).filter(|_| !self.entries.is_empty()) else { return };
        self.text.clear();
        message::write_map(&mut self.text, kind, self.session.id(), &self.entries);
        self.send_control(now, peer, pool);
    }

    /// Sends the message in `text`. If there is no room or no frame, it is lost: control messages are repeated.
    fn send_control(&mut self, now: Instant, to: Mac, pool: &mut Pool) {
        let Some(mut frame) = Some(()).filter(|()| self.inner.room() > 0).and_then(|()| pool.take()) else { return };
        frame.resize(HEADER + self.text.len());
        let Some((header, body)) = frame.bytes_mut().split_first_chunk_mut::<HEADER>() else { return pool.give(frame) };
        write_header(header, to, self.mac, None, ETHERTYPE);
        // A message is shorter than any frame of the pool.
        body.copy_from_slice(&self.text);
        self.counters.control_sent += 1;
        self.out.push(frame);
        self.inner.transmit(now, &mut self.out, pool);
        self.out.drain().for_each(|frame| pool.give(frame));
    }

    /// Sends the frames of `out`, which have batches. Packets whose last byte was in a frame that the medium refuses are refused late.
    fn send_batches(&mut self, now: Instant, pool: &mut Pool) {
        self.inner.transmit(now, &mut self.out, pool);
        for frame in self.out.drain() {
            self.refused.packets += u64::from(frame.meta().class);
            self.refused.bytes += u64::from(frame.meta().function_time);
            pool.give(frame);
        }
    }

    /// Sends the staged packets in batches. Packets that do not leave stay in `refused`.
    fn multiplex(&mut self, now: Instant, to: Mac, frame: usize, refused: &mut Batch, pool: &mut Pool) {
        let layout = BatchLayout { session: self.session.id(), bitmap: self.session.own().bitmap, frame };
        self.sender.begin(self.map.quantum());
        let mut room = self.inner.room();
        let mut reason = DropReason::BufferFull;
        while self.sender.has_more() && room > 0 {
            let Some(mut frame) = pool.take() else {
                reason = DropReason::PoolEmpty;
                break;
            };
            // Grows the frame, so that its header can be written first.
            frame.resize(HEADER);
            let written = write_header(frame.bytes_mut(), to, self.mac, None, ETHERTYPE);
            let filled = written.and_then(|_| self.sender.fill(&mut frame, HEADER, &layout));
            let Some(contents) = filled else {
                pool.give(frame);
                break;
            };
            self.counters.batches_sent += 1;
            self.counters.quanta_sent += u64::from(contents.quanta);
            self.counters.packets_sent += u64::from(contents.packets);
            // The record of a frame that the port made is unused: it keeps what the frame has until the medium accepts it.
            (frame.meta_mut().class, frame.meta_mut().function_time) = (contents.packets, contents.packet_bytes);
            self.out.push(frame);
            room -= 1;
            if self.out.room() == 0 {
                self.send_batches(now, pool);
            }
        }
        self.send_batches(now, pool);
        self.sender.finish(pool, refused, reason);
    }
}

/// Adds a packet to `batch`, or keeps it if there is no room: the pool then counts it as outside.
fn pass(ready: &mut VecDeque<Packet>, packet: Packet, batch: &mut Batch, pool: &mut Pool) {
    if batch.room() > 0 {
        batch.push(packet);
    } else {
        pool.export(1);
        ready.push_back(packet);
    }
}

/// The packet of a delivery, which arrived at `at`. `None` if the pool has no frame for it.
fn delivered(delivery: Delivery<'_>, at: Instant, counters: &mut DfqWireCounters, pool: &mut Pool) -> Option<Packet> {
    let (bytes, reason) = match delivery {
        Delivery::Packet(bytes) => (bytes, None),
        Delivery::Incomplete(bytes) => (bytes, Some(DropReason::DfqBatchLost)),
    };
    let packet = pool.take_for(bytes.len());
    counters.packets_received += u64::from(reason.is_none());
    let Some(mut packet) = packet else {
        counters.pool_empty += 1;
        return None;
    };
    packet.fill(bytes);
    packet.meta_mut().timestamp = at;
    packet.meta_mut().refused = reason.map_or(0, |reason| reason as u8 + 1);
    Some(packet)
}

impl Port for DfqWire {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        loop {
            while batch.room() > 0 && !self.ready.is_empty() {
                self.ready.pop_front().into_iter().for_each(|packet| batch.push(packet));
                pool.import(1);
            }
            let most = batch.room().min(if self.session.peer().is_some() { FRAMES } else { BATCH });
            if most == 0 {
                return;
            }
            self.frames.limit(most);
            self.inner.receive(now, &mut self.frames, pool);
            self.frames.unlimit();
            let received = self.frames.len();
            while let Some(frame) = self.frames.pop_front() {
                self.receive_frame(now, frame, batch, pool);
            }
            if received < most {
                return;
            }
        }
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let Some(peer) = self.session.receiver() else { return self.inner.transmit(now, batch, pool) };
        // The MTU may have changed since the agreement.
        let mtu = self.inner.mtu().unwrap_or(USUAL_MTU);
        let (to, frame) = (peer.mac, usize::from(peer.terms.frame.min(self.session.own().frame).min(mtu)));
        for packet in batch.drain() {
            let is_whole = !packet.has_tail() && !packet.is_offloaded();
            let is_to_peer = packet.bytes().get(..6) == Some(&to.0[..]);
            // Other stations of the segment, and groups, get plain frames.
            if is_whole && is_to_peer && (HEADER..=LONGEST).contains(&packet.len()) {
                let flow = self.map.flow_of(packet.meta().share(), now);
                self.sender.stage(flow, packet);
            } else {
                self.out.push(packet);
            }
        }
        self.inner.transmit(now, &mut self.out, pool);
        self.out.drain().for_each(|packet| batch.push(packet));
        self.multiplex(now, to, frame, batch, pool);
        self.entries.clear();
        self.map.take_due(now, &mut self.entries);
        self.send_entries(now, MessageKind::Map, pool);
    }

    fn maintain(&mut self, now: Instant, pool: &mut Pool) -> Option<DfqWireState> {
        self.session.check(now, self.inner.is_up());
        if self.session.take_due_hello(now) && self.inner.is_up() {
            self.send_hello(now, false, pool);
        }
        if self.session.receiver().is_some() {
            self.entries.clear();
            self.map.take_due(now, &mut self.entries);
            self.send_entries(now, MessageKind::Map, pool);
        }
        if now >= self.expiry_due {
            self.expiry_due = now + super::session::INTERVAL;
            self.map.expire(now);
        }
        let DfqWire { receiver, counters, ready, .. } = self;
        receiver.expire(now, &mut |delivery| {
            let incomplete = delivered(delivery, now, counters, pool);
            incomplete.into_iter().for_each(|packet| {
                pool.export(1);
                ready.push_back(packet);
            });
        });
        self.session.take_change()
    }

    fn take_leave(&mut self, now: Instant, pool: &mut Pool) {
        if self.session.peer().is_some() {
            self.send_hello(now, true, pool);
        }
    }

    fn dfq_wire(&self) -> Option<DfqWireStatus> {
        let peer = self.session.peer();
        Some(DfqWireStatus {
            state: self.session.state(),
            peer: peer.map(|peer| peer.mac),
            peer_cycle_ns: peer.map_or(0, |peer| peer.terms.cycle),
            flows_out: self.map.acknowledged(),
            flows_in: self.receiver.mapped(),
            counters: self.counters,
        })
    }

    /// A packet may need two frames, and each flow one that is not full; a map message comes last.
    fn room(&self) -> usize {
        let room = self.inner.room();
        if self.session.receiver().is_none() { room } else { room.saturating_sub(1) / 3 }
    }

    fn take_late_refusals(&mut self) -> UnsentPackets {
        let mut refused = std::mem::take(&mut self.refused);
        refused.join(self.inner.take_late_refusals());
        refused
    }

    fn unsent_packets(&self) -> UnsentPackets {
        let mut unsent = self.inner.unsent_packets();
        unsent.join(self.refused);
        unsent
    }

    /// A batch may have several packets, so the arrival of a packet is that of its frame.
    fn sets_timestamps(&self) -> bool {
        self.inner.sets_timestamps()
    }

    fn mtu(&self) -> Option<u16> {
        self.inner.mtu()
    }

    fn link_rate(&self) -> Rate {
        self.inner.link_rate()
    }

    fn ring_size(&self) -> u32 {
        self.inner.ring_size()
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    /// Packets are cut here, so they come whole and finished.
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }

    fn wake_source(&self) -> WakeSource {
        self.inner.wake_source()
    }

    fn has_arrivals(&self) -> bool {
        !self.ready.is_empty() || self.inner.has_arrivals()
    }

    fn may_close(&self) -> bool {
        self.ready.is_empty() && self.inner.may_close()
    }

    fn take_abandoned(&mut self) -> usize {
        self.inner.take_abandoned()
    }

    fn mac(&self) -> Option<Mac> {
        self.inner.mac()
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self.inner.undecorated()
    }

    fn statistics(&self) -> PortStatistics {
        let mut statistics = self.inner.statistics();
        statistics.lost_before_receive += self.counters.pool_empty;
        statistics
    }
}
