//! A card: its receive ring and arriving frames, its transmit ring, and the link or cable behind it.
//!
//! On a cable, a port of the machine carries the frames of the card. Whenever the router polls, all frames that the kernel has for the card enter the
//! receive ring or are lost. Nothing is taken from the ring between two polls. So exactly as many frames are lost as if each had entered at its
//! arrival. Transmitted frames go to the kernel at once; the rate of the card's link only shows in how soon the transmit ring has room.

use super::Net;
use super::cable::Cable;
use crate::card_link::CardLink;
use crate::check::RateBound;
use crate::describe::{CardPlan, LinkEnd};
use crate::frame::{Tag, has_room};
use crate::source::Schedule;
use link::medium::{Trace, TransitResult};
use packet::port::discard_refused;
use packet::{Batch, DropReason, Packet, Pool};
use plan::LinkService;
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Instant, Mac, Rate};

/// A frame, whose bytes are made when it is handed out.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A packet of a source.
    Made { flow: u32, sequence: u64 },
    /// A frame from another router.
    Carried(Vec<u8>),
    /// A frame from a cable; its buffer belongs to the pool.
    Held(Packet),
}

/// A frame in a ring, with its arrival time.
#[derive(Debug)]
pub(crate) struct RingFrame {
    pub at: u64,
    pub frame: Frame,
}

/// The counters of a card, in packets since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CardCounters {
    /// Handed to the router.
    pub received: u64,
    /// Lost because the receive ring was full.
    pub ring_full: u64,
    /// Transmitted by the router.
    pub transmitted: u64,
    pub transmitted_bytes: u64,
    /// Lost because the link was down, in both directions.
    pub down: u64,
    /// Lost on the link.
    pub lost: u64,
    /// The most frames in the receive ring.
    pub ring_max: usize,
}

/// A card.
// Large: all that a card of a simulated world has, as real ones have it.
pub(crate) struct Card {
    pub name: String,
    pub router: usize,
    pub slots: usize,
    pub ring: VecDeque<RingFrame>,
    /// The indices of the sources that send to it.
    pub sources: Vec<usize>,
    /// The time of the next packet of its sources, and the source.
    pub next: u64,
    pub next_source: usize,
    /// The cable that replaces its link on real packets.
    pub cable: Option<Box<Cable>>,
    /// Frames in flight to it from another router.
    pub incoming: VecDeque<RingFrame>,
    /// Reusable frame buffers.
    pub spare: Vec<Vec<u8>>,
    pub end: LinkEnd,
    pub link: CardLink,
    pub up: bool,
    pub mac: Mac,
    pub counters: CardCounters,
    bound: RateBound,
}

impl Card {
    pub fn new(plan: &CardPlan, trace: Option<Arc<Trace>>, seed: u64) -> Card {
        let bound = match plan.medium.service {
            LinkService::Constant(rate) => rate,
            _ => Rate::MAX,
        };
        Card {
            name: plan.name.clone(),
            router: plan.router,
            slots: plan.ring,
            ring: VecDeque::with_capacity(plan.ring),
            sources: Vec::new(),
            next: u64::MAX,
            next_source: 0,
            cable: None,
            incoming: VecDeque::new(),
            spare: Vec::new(),
            end: plan.end,
            link: CardLink::new(&plan.medium, trace, plan.transmit_ring, seed, &format!("link {}", plan.name)),
            up: true,
            mac: Mac::default(),
            counters: CardCounters::default(),
            bound: RateBound::new(bound),
        }
    }

    /// Adds a frame to the receive ring, which has room.
    #[inline]
    pub fn push_frame(&mut self, frame: RingFrame) {
        self.ring.push_back(frame);
        self.counters.ring_max = self.counters.ring_max.max(self.ring.len());
    }

    /// Checks a departing frame against the rate bound.
    #[inline]
    pub fn check_rate(&mut self, now: u64, left: u64, length: usize) -> Option<u64> {
        self.bound.record_frame(now, left, self.link.bits(length))
    }

    /// Fills `packet` with a recorded frame, addressed to this card, with a tag if its payload has room.
    pub fn replay(&self, schedule: &Schedule, packet: &mut Packet, tag: Tag) {
        let recorded = &schedule.recorded[tag.sequence as usize % schedule.recorded.len()];
        if !packet.fill(&recorded.frame) {
            packet.meta_mut().refused = DropReason::FrameTooLong as u8 + 1;
            return;
        }
        let tagged = has_room(&recorded.frame);
        let bytes = packet.bytes_mut();
        if let Some(station) = bytes.first_chunk_mut::<6>().filter(|station| station[0] & 1 == 0) {
            *station = self.mac.0;
        }
        if tagged {
            tag.write(bytes);
        }
    }

    /// Moves frames from the cable into the receive ring. Reports those without room to `lost`.
    fn fill_ring(&mut self, now: u64, pool: &mut Pool, mut lost: impl FnMut(Option<Tag>)) {
        let Some(mut cable) = self.cable.take() else { return };
        loop {
            cable.port.receive(Instant::new(now), &mut cable.batch, pool);
            let came = cable.batch.len();
            for packet in cable.batch.drain() {
                if self.ring.len() < self.slots {
                    pool.export(1);
                    self.push_frame(RingFrame { at: now, frame: Frame::Held(packet) });
                } else {
                    lost(Tag::read(packet.bytes()));
                    pool.give(packet);
                }
            }
            if came < packet::BATCH {
                self.cable = Some(cable);
                return;
            }
        }
    }
}

impl Net {
    /// Admits all frames that have arrived over a card's cable to the receive ring; those without room are lost.
    pub fn admit_by_cable(&mut self, index: usize, now: u64, pool: &mut Pool) {
        let mut lost = Vec::new();
        self.cards[index].fill_ring(now, pool, |tag| lost.push(tag));
        self.cards[index].counters.ring_full += lost.len() as u64;
        lost.into_iter().for_each(|tag| self.count_fate(tag, |fates| fates.ring_full += 1));
    }

    pub(super) fn receive_by_cable(&mut self, index: usize, now: u64, batch: &mut Batch, pool: &mut Pool) {
        self.admit_by_cable(index, now, pool);
        let before = batch.len();
        for _ in 0..self.cards[index].ring.len().min(batch.room()) {
            let Some(RingFrame { at, frame: Frame::Held(mut packet) }) = self.cards[index].ring.pop_front() else {
                break;
            };
            pool.import(1);
            packet.meta_mut().timestamp = Instant::new(at);
            batch.push(packet);
        }
        self.count_received(index, batch.len() - before);
    }

    pub(super) fn transmit_by_cable(&mut self, index: usize, now: u64, batch: &mut Batch, pool: &mut Pool) {
        let Some(mut cable) = self.cards[index].cable.take() else { return };
        for packet in batch.drain() {
            let tag = Tag::read(packet.bytes());
            if self.depart(index, now, packet.len(), tag) == TransitResult::Lost {
                pool.give(packet);
                continue;
            }
            self.record_wait(tag, now.saturating_sub(packet.meta().timestamp.get()));
            cable.batch.push(packet);
        }
        if !cable.batch.is_empty() {
            cable.port.transmit(Instant::new(now), &mut cable.batch, pool);
            cable.refused += discard_refused(&mut cable.batch, pool) + cable.port.take_late_refusals().packets;
        }
        self.cards[index].cable = Some(cable);
    }

    /// Records the time that a source's packet spent in its router.
    fn record_wait(&mut self, tag: Option<Tag>, waited: u64) {
        let warmup = self.warmup;
        let Some(tag) = tag.filter(|tag| tag.sent_at >= warmup) else { return };
        if let Some(flow) = self.sources.get_mut(tag.source) {
            flow.wait.record(waited);
        }
    }
}
