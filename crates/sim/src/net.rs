//! Everything outside of the routers: sources, links and sinks. The ports of routers are views of it.
//!
//! Nothing here is an event. A card knows its sources' schedules. A poll of a card returns all packets due by then. Packets that exceeded the receive
//! ring are lost, exactly as many as if each had been processed at its time.

mod cable;
mod card;
mod sink;

pub(crate) use cable::Cable;
pub(crate) use card::{Card, CardCounters};
pub(crate) use sink::{Delivery, Sink};

use crate::check::{Violations, WorldInvariant};
use crate::describe::{CardPlan, LinkEnd, WorldPlan};
use crate::frame::{FrameLoad, Tag, Template};
use crate::histogram::DurationHistogram;
use crate::source::{Pattern, Schedule};
use link::medium::{Trace, TransitResult};
use packet::{Batch, DropReason, Packet, Pool};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Mac, Parts};

/// The trace of each card's link, if it has one.
pub(crate) type Traces = Vec<Option<Arc<Trace>>>;

/// Packets dropped, by reason.
#[derive(Clone, Debug)]
pub(crate) struct Drops([u64; DropReason::COUNT]);

impl Default for Drops {
    fn default() -> Drops {
        Drops([0; DropReason::COUNT])
    }
}

impl Drops {
    pub fn add(&mut self, reason: DropReason, packets: u64) {
        self.0[reason.index()] += packets;
    }

    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason.index()]
    }

    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The fates of the packets of a source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fates {
    pub sent: u64,
    pub sent_bytes: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Lost at a card with a full receive ring.
    pub ring_full: u64,
    /// Lost on a link that was down.
    pub down: u64,
    /// Lost on a link with random loss.
    pub link: u64,
    /// Lost behind a card without a link.
    pub no_link: u64,
    /// Duplicates that a link made; each has a fate of its own.
    pub duplicated: u64,
    pub consumed: u64,
    /// Dropped by a router, by reason.
    pub dropped: Drops,
}

impl Fates {
    pub fn dropped(&self) -> u64 {
        self.dropped.sum()
    }

    /// The number of packets with a final fate.
    pub fn ended(&self) -> u64 {
        self.delivered + self.ring_full + self.down + self.link + self.no_link + self.consumed + self.dropped()
    }
}

impl std::ops::AddAssign<&Fates> for Fates {
    fn add_assign(&mut self, other: &Fates) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.ring_full += other.ring_full;
        self.down += other.down;
        self.link += other.link;
        self.no_link += other.no_link;
        self.duplicated += other.duplicated;
        self.consumed += other.consumed;
        DropReason::ALL.iter().for_each(|&reason| self.dropped.add(reason, other.dropped.of(reason)));
    }
}

/// A source and its counters.
pub(crate) struct TrafficSource {
    pub name: String,
    pub schedule: Schedule,
    /// The number of its flows, which take turns; zero if that is unknown.
    pub flows: u64,
    /// The template of its packets, once the router has an address; none for a capture.
    pub template: Option<Template>,
    /// Fates of packets sent during the warm-up, and of those sent in the measured time.
    pub fates: [Fates; 2],
    /// The time from arrival at a card to departure from the router.
    pub wait: DurationHistogram,
}

impl TrafficSource {
    /// True if its packets have tags, or some of them may.
    pub fn is_tagged(&self) -> bool {
        self.template.as_ref().is_none_or(|template| template.is_tagged)
    }

    /// The fates of all its packets.
    pub fn all(&self) -> Fates {
        let mut all = self.fates[0].clone();
        all += &self.fates[1];
        all
    }
}

/// Frames have arrived at a router from another one, readable from this time on.
pub(crate) struct Wakeup {
    pub router: usize,
    pub at: u64,
}

/// Everything outside of the routers.
pub(crate) struct Net {
    pub sources: Vec<TrafficSource>,
    pub cards: Vec<Card>,
    pub sinks: Vec<Sink>,
    pub wakeups: Vec<Wakeup>,
    pub violations: Violations,
    /// Fates of packets that belong to no source.
    pub others: Fates,
    /// True if all links preserve order.
    ordered: bool,
    /// Packets in each router, without those that it generated itself.
    pub inside: Vec<i64>,
    /// The start of the measured time.
    pub warmup: u64,
}

/// The outside, shared by all ports, and the time of the running core.
#[derive(Clone)]
pub(crate) struct SharedNet {
    net: Arc<Mutex<Net>>,
    pub clock: Arc<AtomicU64>,
}

impl SharedNet {
    pub fn new(net: Net) -> SharedNet {
        SharedNet { net: Arc::new(Mutex::new(net)), clock: Arc::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, Net> {
        self.net.lock()
    }

    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }
}

impl Net {
    /// The outside of a world; `flows` are its sources.
    pub fn new(world: &WorldPlan, flows: Vec<TrafficSource>, traces: &Traces) -> Net {
        let card = |(plan, trace): (&CardPlan, &Option<_>)| Card::new(plan, trace.clone(), world.seed);
        let cards: Vec<Card> = world.cards.iter().zip(traces).map(card).collect();
        let width = world.sample.get();
        let (warmup, end) = (world.warmup.get(), world.duration.get());
        let sinks = world.sinks.iter().map(|name| Sink::new(name, (width, warmup, end), flows.len())).collect();
        let (pokes, violations, others) = (Vec::new(), Violations::default(), Fates::default());

        let keeps =
            |card: &CardPlan| card.medium.reorder == Parts::default() && card.medium.duplicate == Parts::default();
        let ordered = world.cards.iter().all(keeps);
        Net {
            sources: flows,
            cards,
            sinks,
            wakeups: pokes,
            violations,
            others,
            ordered,
            inside: vec![0; world.routers.len()],
            warmup,
        }
    }

    /// Starts the sources. Before that, routers need their first configurations, and cards their addresses.
    pub fn begin(&mut self, world: &WorldPlan) {
        for (index, source) in world.sources.iter().enumerate() {
            self.cards[source.card].sources.push(index);
        }
        (0..self.cards.len()).for_each(|card| self.look_ahead(card));
    }

    /// Sets the address of a card, and makes the packet templates of its sources.
    pub fn address(&mut self, world: &WorldPlan, card: usize, mac: Mac) {
        self.cards[card].mac = mac;
        for (flow, source) in self.sources.iter_mut().zip(&world.sources).filter(|(_, source)| source.card == card) {
            if !matches!(source.pattern, Pattern::Replay { .. }) {
                let load = FrameLoad { carries: source.carries, inner: source.inner.as_ref() };
                flow.template = Some(Template::new((&source.fields, load), &source.sizes, mac));
            }
        }
    }

    /// The time of the next arrival at a card as known now; `u64::MAX` if there is none.
    pub fn next_arrival(&self, card: usize) -> u64 {
        let card = &self.cards[card];
        match card.ring.front() {
            Some(first) => first.at,
            None if card.cable.as_ref().is_some_and(|cable| cable.has_arrivals()) => 0,
            None => card.next.min(card.incoming.front().map_or(u64::MAX, |frame| frame.at)),
        }
    }

    /// Finds the next source to send to a card.
    fn look_ahead(&mut self, card: usize) {
        let card = &mut self.cards[card];
        let next = card.sources.iter().map(|&flow| (self.sources[flow].schedule.next(), flow)).min();
        (card.next, card.next_source) = next.unwrap_or((u64::MAX, 0));
    }

    /// Admits all frames due at a card by `now` to the receive ring; those without room are lost.
    pub fn admit(&mut self, card: usize, now: u64) {
        loop {
            let one = &self.cards[card];
            // The earlier of the next frame from the link and the next packet of a source; at equal times the source is first.
            let fed = one.incoming.front().map_or(u64::MAX, |frame| frame.at);
            if fed.min(one.next) > now {
                return;
            }
            if fed < one.next { self.admit_frame(card) } else { self.admit_packet(card) }
        }
    }

    /// Advances the source that sends next to a card. Returns the time, the source, and the number of the packet.
    #[inline]
    pub fn next_packet(&mut self, index: usize) -> (u64, usize, u64) {
        let card = &mut self.cards[index];
        let (at, turn) = (card.next, card.next_source);
        let flow = &mut self.sources[turn];
        let sequence = flow.schedule.advance();
        let length = match &flow.template {
            Some(template) => template.length(sequence),
            None => flow.schedule.recorded[sequence as usize % flow.schedule.recorded.len()].frame.len(),
        };
        let fates = &mut flow.fates[usize::from(at >= self.warmup)];
        fates.sent += 1;
        fates.sent_bytes += length as u64 + crate::frame::CHECK_SEQUENCE;
        if let [only] = card.sources[..] {
            card.next = self.sources[only].schedule.next();
        } else {
            self.look_ahead(index);
        }
        (at, turn, sequence)
    }

    /// Admits the next packet of a card's sources to the receive ring, or loses it.
    #[inline]
    fn admit_packet(&mut self, index: usize) {
        let (at, turn, sequence) = self.next_packet(index);
        let card = &mut self.cards[index];
        let fates = &mut self.sources[turn].fates[usize::from(at >= self.warmup)];
        if !card.up {
            fates.down += 1;
            card.counters.down += 1;
        } else if card.ring.len() >= card.slots {
            fates.ring_full += 1;
            card.counters.ring_full += 1;
        } else {
            card.push_frame(card::RingFrame { at, frame: card::Frame::Made { flow: turn as u32, sequence } });
        }
    }

    /// Fills `packet` with the frame of a source that sends to a card.
    #[inline]
    pub fn write_frame(&self, index: usize, packet: &mut Packet, tag: Tag) {
        let flow = &self.sources[tag.source];
        match &flow.template {
            Some(template) => template.fill(packet, tag),
            None => self.cards[index].replay(&flow.schedule, packet, tag),
        }
    }

    /// Admits the next frame from a card's link to the receive ring, or loses it.
    fn admit_frame(&mut self, index: usize) {
        let card = &mut self.cards[index];
        let Some(frame) = card.incoming.pop_front() else { return };
        if card.up && card.ring.len() < card.slots {
            return card.push_frame(frame);
        }
        let lost = if card.up { &mut card.counters.ring_full } else { &mut card.counters.down };
        *lost += 1;
        let up = card.up;
        if let card::Frame::Carried(bytes) = frame.frame {
            self.count_fate(Tag::read(&bytes), |fates| if up { fates.ring_full += 1 } else { fates.down += 1 });
        }
    }

    /// Counts the fate of a packet.
    pub fn count_fate(&mut self, tag: Option<Tag>, count: impl FnOnce(&mut Fates)) {
        let warmup = self.warmup;
        let flow = tag.and_then(|tag| Some((tag.sent_at, self.sources.get_mut(tag.source)?)));
        count(match flow {
            Some((born, flow)) => &mut flow.fates[usize::from(born >= warmup)],
            None => &mut self.others,
        });
    }

    /// Moves frames from a card's receive ring into a batch.
    #[inline]
    pub fn receive(&mut self, index: usize, now: u64, batch: &mut Batch, pool: &mut Pool) {
        if self.cards[index].cable.is_some() {
            return self.receive_by_cable(index, now, batch, pool);
        }
        self.admit(index, now);
        let before = batch.len();
        for _ in 0..self.cards[index].ring.len().min(batch.room()) {
            let Some(mut packet) = pool.take() else { break };
            let Some(waiting) = self.cards[index].ring.pop_front() else { break };
            match waiting.frame {
                card::Frame::Made { flow, sequence } => {
                    self.write_frame(index, &mut packet, Tag { sent_at: waiting.at, sequence, source: flow as usize });
                }
                card::Frame::Carried(bytes) => {
                    packet.fill(&bytes);
                    self.cards[index].spare.push(bytes);
                }
                card::Frame::Held(_) => unreachable!("only what came by a cable is held"),
            }
            packet.meta_mut().timestamp = units::Instant::new(waiting.at);
            batch.push(packet);
        }
        self.count_received(index, batch.len() - before);
    }

    /// Counts packets that a card has handed to its router.
    #[inline]
    fn count_received(&mut self, index: usize, packets: usize) {
        let card = &mut self.cards[index];
        card.counters.received += packets as u64;
        self.inside[card.router] += packets as i64;
    }

    /// Transmits a batch through a card.
    #[inline]
    pub fn transmit(&mut self, index: usize, now: u64, batch: &mut Batch, pool: &mut Pool) {
        let router = self.cards[index].router;
        self.inside[router] -= batch.len() as i64;
        if self.cards[index].cable.is_some() {
            return self.transmit_by_cable(index, now, batch, pool);
        }
        for packet in batch.drain() {
            let bytes = packet.bytes();
            let tag = Tag::read(bytes);
            let came = match self.depart(index, now, bytes.len(), tag) {
                TransitResult::Lost => [None, None],
                TransitResult::Once(at) => [Some(at), None],
                TransitResult::Twice(at, again) => [Some(at), Some(again)],
            };
            for (copy, at) in came.into_iter().flatten().enumerate() {
                if copy > 0 {
                    self.count_fate(tag, |fates| fates.duplicated += 1);
                }
                let waited = now.saturating_sub(packet.meta().timestamp.get());
                match self.cards[index].end {
                    LinkEnd::Nothing => self.count_fate(tag, |fates| fates.no_link += 1),
                    LinkEnd::Card(other) => self.feed(other, at.get(), bytes),
                    LinkEnd::Sink(sink) => self.deliver(sink, at.get(), bytes.len(), tag, Some(waited)),
                }
            }
            pool.give(packet);
        }
    }

    /// Sends a frame over a card's link. Returns when it arrives at the other end.
    #[inline]
    fn depart(&mut self, index: usize, now: u64, length: usize, tag: Option<Tag>) -> TransitResult {
        let card = &mut self.cards[index];
        card.counters.transmitted += 1;
        card.counters.transmitted_bytes += length as u64;
        if !card.up {
            card.counters.down += 1;
            self.count_fate(tag, |fates| fates.down += 1);
            return TransitResult::Lost;
        }
        let left = card.link.send(now, length);
        if let Some(early) = card.check_rate(now, left, length) {
            let name = &card.name;
            self.violations.add(now, WorldInvariant::RateBound, || {
                format!("the link of card {name} sent a frame {early} ns earlier than its rate allows")
            });
        }
        let card = &mut self.cards[index];
        let crossing = card.link.cross(left);
        if crossing == TransitResult::Lost {
            card.counters.lost += 1;
            self.count_fate(tag, |fates| fates.link += 1);
        }
        crossing
    }

    fn feed(&mut self, other: usize, at: u64, bytes: &[u8]) {
        let card = &mut self.cards[other];
        let mut copy = card.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        // On a reordering link a frame may arrive before others that were sent earlier.
        let position = card.incoming.iter().rposition(|frame| frame.at <= at).map_or(0, |before| before + 1);
        card.incoming.insert(position, card::RingFrame { at, frame: card::Frame::Carried(copy) });
        self.wakeups.push(Wakeup { router: card.router, at });
    }

    /// Delivers a frame to a sink. `waited` is its time in the last router, if known.
    #[inline]
    pub fn deliver(&mut self, sink: usize, at: u64, length: usize, tag: Option<Tag>, waited: Option<u64>) {
        let Net { sources: flows, sinks, violations, warmup, ordered, .. } = self;
        let sink = &mut sinks[sink];
        let size = length as u64 + crate::frame::CHECK_SEQUENCE;
        let Some((tag, flow)) = tag.and_then(|tag| Some((tag, flows.get_mut(tag.source)?))) else {
            sink.others += 1;
            self.others.delivered += 1;
            return;
        };
        let measured = tag.sent_at >= *warmup;
        let fates = &mut flow.fates[usize::from(measured)];
        fates.delivered += 1;
        fates.delivered_bytes += size;
        if let Some(waited) = waited.filter(|_| measured) {
            flow.wait.record(waited);
        }
        if let Some(later) = sink.record_packet(tag, at, size, measured, flow.flows).filter(|_| *ordered) {
            let (sequence, source, sink) = (tag.sequence, &flow.name, &sink.name);
            violations.add(at, WorldInvariant::Order, || {
                format!("packet {sequence} of source {source} arrived at sink {sink} after packet {later} of its flow")
            });
        }
    }

    /// Takes the link of a card down or up, at both ends.
    pub fn set_link(&mut self, card: usize, up: bool) {
        let other = match self.cards[card].end {
            LinkEnd::Card(other) => Some(other),
            _ => None,
        };
        for card in [Some(card), other].into_iter().flatten() {
            self.cards[card].up = up;
        }
    }

    /// Adds the counts of the end systems, which they kept separately.
    pub fn merge(&mut self, stations: Net) {
        for (flow, theirs) in self.sources.iter_mut().zip(&stations.sources) {
            flow.fates.iter_mut().zip(&theirs.fates).for_each(|(all, more)| *all += more);
        }
        self.others += &stations.others;
        self.sinks = stations.sinks;
        self.violations.list.extend(stations.violations.list);
        self.violations.omitted += stations.violations.omitted;
    }
}
