//! A card: the receive ring with what comes to it, the transmit ring and the link behind it.

use super::cable::Cable;
use crate::check::RateBound;
use crate::describe::{CardPlan, End};
use crate::frame::{Tag, has_room};
use crate::line::Line;
use crate::source::Schedule;
use link::medium::Trace;
use packet::{DropReason, Packet};
use plan::Service;
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Mac, Rate};

/// A frame, made when it is handed out.
#[derive(Debug)]
pub(crate) enum Frame {
    /// Of a source.
    Made { flow: u32, sequence: u64 },
    /// Of another router.
    Carried(Vec<u8>),
    /// Came by a cable, lent by the pool.
    Held(Packet),
}

/// A frame that waits, and when it came.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub at: u64,
    pub what: Frame,
}

/// What a card has counted, in packets since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CardCounters {
    /// Handed to the router.
    pub received: u64,
    /// Lost for the receive ring was full.
    pub ring: u64,
    /// Given by the router.
    pub transmitted: u64,
    pub transmitted_bytes: u64,
    /// Lost for the link was down, either way.
    pub down: u64,
    /// Lost on the link.
    pub lost: u64,
    /// The most that waited in the receive ring.
    pub most: usize,
}

/// A card.
pub(crate) struct Card {
    pub name: String,
    pub router: usize,
    pub slots: usize,
    pub ring: VecDeque<Waiting>,
    /// Positions of the sources that send to it.
    pub sources: Vec<usize>,
    /// When one of them sends next, and which.
    pub next: u64,
    pub turn: usize,
    /// What takes the place of its link on real packets.
    pub cable: Option<Box<Cable>>,
    /// What comes over its link from another router.
    pub feed: VecDeque<Waiting>,
    /// Memory for frames to come.
    pub spare: Vec<Vec<u8>>,
    pub end: End,
    pub line: Line,
    pub up: bool,
    pub mac: Mac,
    pub counters: CardCounters,
    bound: RateBound,
}

impl Card {
    pub fn new(plan: &CardPlan, trace: Option<Arc<Trace>>, seed: u64) -> Card {
        let bound = match plan.medium.service {
            Service::Constant(rate) => rate,
            _ => Rate::MAX,
        };
        Card {
            name: plan.name.clone(),
            router: plan.router,
            slots: plan.ring,
            ring: VecDeque::with_capacity(plan.ring),
            sources: Vec::new(),
            next: u64::MAX,
            turn: 0,
            cable: None,
            feed: VecDeque::new(),
            spare: Vec::new(),
            end: plan.end,
            line: Line::new(&plan.medium, trace, plan.transmit_ring, seed, &format!("link {}", plan.name)),
            up: true,
            mac: Mac::default(),
            counters: CardCounters::default(),
            bound: RateBound::new(bound),
        }
    }

    /// A frame takes its place in the receive ring, which has room.
    #[inline]
    pub fn enter(&mut self, frame: Waiting) {
        self.ring.push_back(frame);
        self.counters.most = self.counters.most.max(self.ring.len());
    }

    /// What the rate bound says of a frame that leaves.
    #[inline]
    pub fn carried(&mut self, now: u64, left: u64, length: usize) -> Option<u64> {
        self.bound.carried(now, left, self.line.bits(length))
    }

    /// Makes `packet` a recorded one, to this card's station, with a tag where its payload has room for one.
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
}
