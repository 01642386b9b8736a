//! Everything outside of the routers: what comes to their cards, what leaves by them, and where it ends. Ports of routers
//! are windows to it.
//!
//! Nothing here is an event. A card knows what its sources will send; whoever looks at it at a time gets what has come until
//! then, and what found its receive ring full has been lost, exactly as many as would have been one by one.

mod cable;
mod card;
mod sink;

pub(crate) use cable::Cable;
pub(crate) use card::{Card, CardCounters};
pub(crate) use sink::{Delivery, Sink};

use crate::check::{Law, Violations};
use crate::describe::{CardPlan, End, World};
use crate::frame::{Tag, Template};
use crate::source::{Pattern, Schedule};
use crate::times::Times;
use link::medium::{Crossing, Trace};
use packet::{Batch, DropReason, Packet, Pool};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Mac, Parts};

/// The trace of each card's link, where it has one.
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

/// What became of the packets of a source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fates {
    pub sent: u64,
    pub sent_bytes: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Before a card whose receive ring was full.
    pub ring: u64,
    /// On a link that was down.
    pub down: u64,
    /// On a link that loses some.
    pub link: u64,
    /// Behind a card with no link.
    pub nowhere: u64,
    /// Made by a link that doubles some; each meets an end of its own.
    pub doubled: u64,
    pub consumed: u64,
    /// By a router, by reason.
    pub dropped: Drops,
}

impl Fates {
    pub fn dropped(&self) -> u64 {
        self.dropped.sum()
    }

    /// Packets that have met an end.
    pub fn ended(&self) -> u64 {
        self.delivered + self.ring + self.down + self.link + self.nowhere + self.consumed + self.dropped()
    }
}

impl std::ops::AddAssign<&Fates> for Fates {
    fn add_assign(&mut self, other: &Fates) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.ring += other.ring;
        self.down += other.down;
        self.link += other.link;
        self.nowhere += other.nowhere;
        self.doubled += other.doubled;
        self.consumed += other.consumed;
        DropReason::ALL.iter().for_each(|&reason| self.dropped.add(reason, other.dropped.of(reason)));
    }
}

/// A source with what is known of its packets.
pub(crate) struct Flow {
    pub name: String,
    pub schedule: Schedule,
    /// How many flows its packets are of, in turn; none where that is not known.
    pub flows: u64,
    /// How its packets look, once the router has an address; none for those of a capture.
    pub template: Option<Template>,
    /// Of those sent before the measured time, and of those sent in it.
    pub fates: [Fates; 2],
    /// From a card until they left their router by another.
    pub wait: Times,
}

impl Flow {
    /// All that it has sent.
    pub fn all(&self) -> Fates {
        let mut all = self.fates[0].clone();
        all += &self.fates[1];
        all
    }
}

/// Frames that came to a router from another, and when it may look at them.
pub(crate) struct Poke {
    pub router: usize,
    pub at: u64,
}

/// Everything outside.
pub(crate) struct Net {
    pub flows: Vec<Flow>,
    pub cards: Vec<Card>,
    pub sinks: Vec<Sink>,
    pub pokes: Vec<Poke>,
    pub violations: Violations,
    /// Fates of packets that are no source's.
    pub others: Fates,
    /// Whether all links keep the order of what they carry.
    ordered: bool,
    /// Packets in each router, but for those it has made itself.
    pub inside: Vec<i64>,
    /// From when on what is sent is measured.
    pub warmup: u64,
}

/// The outside, shared by the ports, and the time of the core that runs.
#[derive(Clone)]
pub(crate) struct Outside {
    net: Arc<Mutex<Net>>,
    pub clock: Arc<AtomicU64>,
}

impl Outside {
    pub fn new(net: Net) -> Outside {
        Outside { net: Arc::new(Mutex::new(net)), clock: Arc::default() }
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
    pub fn new(world: &World, flows: Vec<Flow>, traces: &Traces) -> Net {
        let card = |(plan, trace): (&CardPlan, &Option<_>)| Card::new(plan, trace.clone(), world.seed);
        let cards: Vec<Card> = world.cards.iter().zip(traces).map(card).collect();
        let width = world.sample.get();
        let (warmup, end) = (world.warmup.get(), world.duration.get());
        let sinks = world.sinks.iter().map(|name| Sink::new(name, (width, warmup, end), flows.len())).collect();
        let (pokes, violations, others) = (Vec::new(), Violations::default(), Fates::default());

        let keeps =
            |card: &CardPlan| card.medium.reorder == Parts::default() && card.medium.duplicate == Parts::default();
        let ordered = world.cards.iter().all(keeps);
        Net { flows, cards, sinks, pokes, violations, others, ordered, inside: vec![0; world.routers.len()], warmup }
    }

    /// The sources begin: routers have their first configurations, and cards their addresses.
    pub fn begin(&mut self, world: &World) {
        for (index, source) in world.sources.iter().enumerate() {
            self.cards[source.card].sources.push(index);
        }
        (0..self.cards.len()).for_each(|card| self.look_ahead(card));
    }

    /// A card has this address, and the sources that send to it know how their packets look.
    pub fn address(&mut self, world: &World, card: usize, mac: Mac) {
        self.cards[card].mac = mac;
        for (flow, source) in self.flows.iter_mut().zip(&world.sources).filter(|(_, source)| source.card == card) {
            if !matches!(source.pattern, Pattern::Replay { .. }) {
                flow.template = Some(Template::new((&source.fields, source.carries), &source.sizes, mac));
            }
        }
    }

    /// When something comes to the card next, by what is known now; `u64::MAX` where nothing does.
    pub fn next_arrival(&self, card: usize) -> u64 {
        let card = &self.cards[card];
        match card.ring.front() {
            Some(first) => first.at,
            None if card.cable.as_ref().is_some_and(|cable| cable.has_arrivals()) => 0,
            None => card.next.min(card.feed.front().map_or(u64::MAX, |frame| frame.at)),
        }
    }

    /// Finds the source of a card that sends next.
    fn look_ahead(&mut self, card: usize) {
        let card = &mut self.cards[card];
        let next = card.sources.iter().map(|&flow| (self.flows[flow].schedule.next(), flow)).min();
        (card.next, card.turn) = next.unwrap_or((u64::MAX, 0));
    }

    /// Everything that comes to a card until `now` takes its place in the receive ring, or is lost.
    pub fn admit(&mut self, card: usize, now: u64) {
        loop {
            let one = &self.cards[card];
            let fed = one.feed.front().map_or(u64::MAX, |frame| frame.at);
            if fed.min(one.next) > now {
                return;
            }
            if fed < one.next { self.admit_frame(card) } else { self.admit_made(card) }
        }
    }

    /// The packet that a source sends next to a card is sent: when, by which source, and its number.
    #[inline]
    pub fn made(&mut self, index: usize) -> (u64, usize, u64) {
        let card = &mut self.cards[index];
        let (at, turn) = (card.next, card.turn);
        let flow = &mut self.flows[turn];
        let sequence = flow.schedule.advance();
        let length = match &flow.template {
            Some(template) => template.length(sequence),
            None => flow.schedule.recorded[sequence as usize % flow.schedule.recorded.len()].frame.len(),
        };
        let fates = &mut flow.fates[usize::from(at >= self.warmup)];
        fates.sent += 1;
        fates.sent_bytes += length as u64 + crate::frame::CHECK_SEQUENCE;
        if let [only] = card.sources[..] {
            card.next = self.flows[only].schedule.next();
        } else {
            self.look_ahead(index);
        }
        (at, turn, sequence)
    }

    /// The packet that a source sends next comes to the card.
    #[inline]
    fn admit_made(&mut self, index: usize) {
        let (at, turn, sequence) = self.made(index);
        let card = &mut self.cards[index];
        let fates = &mut self.flows[turn].fates[usize::from(at >= self.warmup)];
        if !card.up {
            fates.down += 1;
            card.counters.down += 1;
        } else if card.ring.len() >= card.slots {
            fates.ring += 1;
            card.counters.ring += 1;
        } else {
            card.enter(card::Waiting { at, what: card::Frame::Made { flow: turn as u32, sequence } });
        }
    }

    /// Makes `packet` one of a source that sends to a card.
    #[inline]
    pub fn print(&self, index: usize, packet: &mut Packet, tag: Tag) {
        let flow = &self.flows[tag.source];
        match &flow.template {
            Some(template) => template.fill(packet, tag),
            None => self.cards[index].replay(&flow.schedule, packet, tag),
        }
    }

    /// The frame that comes next over the card's link comes to it.
    fn admit_frame(&mut self, index: usize) {
        let card = &mut self.cards[index];
        let Some(frame) = card.feed.pop_front() else { return };
        if card.up && card.ring.len() < card.slots {
            return card.enter(frame);
        }
        let lost = if card.up { &mut card.counters.ring } else { &mut card.counters.down };
        *lost += 1;
        let up = card.up;
        if let card::Frame::Carried(bytes) = frame.what {
            self.fate(Tag::read(&bytes), |fates| if up { fates.ring += 1 } else { fates.down += 1 });
        }
    }

    /// Counts what became of a packet.
    pub fn fate(&mut self, tag: Option<Tag>, count: impl FnOnce(&mut Fates)) {
        let warmup = self.warmup;
        let flow = tag.and_then(|tag| Some((tag.born, self.flows.get_mut(tag.source)?)));
        count(match flow {
            Some((born, flow)) => &mut flow.fates[usize::from(born >= warmup)],
            None => &mut self.others,
        });
    }

    /// Hands out what waits in the receive ring of a card.
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
            match waiting.what {
                card::Frame::Made { flow, sequence } => {
                    self.print(index, &mut packet, Tag { born: waiting.at, sequence, source: flow as usize });
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
        self.handed_out(index, batch.len() - before);
    }

    /// Packets have gone from a card to its router.
    #[inline]
    fn handed_out(&mut self, index: usize, packets: usize) {
        let card = &mut self.cards[index];
        card.counters.received += packets as u64;
        self.inside[card.router] += packets as i64;
    }

    /// Sends a batch by a card.
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
                Crossing::Lost => [None, None],
                Crossing::Once(at) => [Some(at), None],
                Crossing::Twice(at, again) => [Some(at), Some(again)],
            };
            for (copy, at) in came.into_iter().flatten().enumerate() {
                if copy > 0 {
                    self.fate(tag, |fates| fates.doubled += 1);
                }
                let waited = now.saturating_sub(packet.meta().timestamp.get());
                match self.cards[index].end {
                    End::Nothing => self.fate(tag, |fates| fates.nowhere += 1),
                    End::Card(other) => self.feed(other, at.get(), bytes),
                    End::Sink(sink) => self.deliver(sink, at.get(), bytes.len(), tag, Some(waited)),
                }
            }
            pool.give(packet);
        }
    }

    /// A frame goes out by a card. Answers when it is at the other end of the link.
    #[inline]
    fn depart(&mut self, index: usize, now: u64, length: usize, tag: Option<Tag>) -> Crossing {
        let card = &mut self.cards[index];
        card.counters.transmitted += 1;
        card.counters.transmitted_bytes += length as u64;
        if !card.up {
            card.counters.down += 1;
            self.fate(tag, |fates| fates.down += 1);
            return Crossing::Lost;
        }
        let left = card.line.send(now, length);
        if let Some(early) = card.carried(now, left, length) {
            let name = &card.name;
            self.violations.add(now, Law::RateBound, || {
                format!("the link of card {name} is done with a frame {early} ns before its rate allows")
            });
        }
        let card = &mut self.cards[index];
        let crossing = card.line.cross(left);
        if crossing == Crossing::Lost {
            card.counters.lost += 1;
            self.fate(tag, |fates| fates.link += 1);
        }
        crossing
    }

    fn feed(&mut self, other: usize, at: u64, bytes: &[u8]) {
        let card = &mut self.cards[other];
        let mut copy = card.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        // A link that reorders brings some before others that were sent earlier.
        let position = card.feed.iter().rposition(|frame| frame.at <= at).map_or(0, |before| before + 1);
        card.feed.insert(position, card::Waiting { at, what: card::Frame::Carried(copy) });
        self.pokes.push(Poke { router: card.router, at });
    }

    /// A frame comes to a sink. It waited so long in its last router, where that is known here.
    #[inline]
    pub fn deliver(&mut self, sink: usize, at: u64, length: usize, tag: Option<Tag>, waited: Option<u64>) {
        let Net { flows, sinks, violations, warmup, ordered, .. } = self;
        let sink = &mut sinks[sink];
        let size = length as u64 + crate::frame::CHECK_SEQUENCE;
        let Some((tag, flow)) = tag.and_then(|tag| Some((tag, flows.get_mut(tag.source)?))) else {
            sink.others += 1;
            self.others.delivered += 1;
            return;
        };
        let measured = tag.born >= *warmup;
        let fates = &mut flow.fates[usize::from(measured)];
        fates.delivered += 1;
        fates.delivered_bytes += size;
        if let Some(waited) = waited.filter(|_| measured) {
            flow.wait.record(waited);
        }
        if let Some(later) = sink.take(tag, at, size, measured, flow.flows).filter(|_| *ordered) {
            let (sequence, source, sink) = (tag.sequence, &flow.name, &sink.name);
            violations.add(at, Law::Order, || {
                format!("packet {sequence} of source {source} came to sink {sink} after packet {later} of its flow")
            });
        }
    }

    /// Takes the link of a card down or up, with the other end.
    pub fn set_link(&mut self, card: usize, up: bool) {
        let other = match self.cards[card].end {
            End::Card(other) => Some(other),
            _ => None,
        };
        for card in [Some(card), other].into_iter().flatten() {
            self.cards[card].up = up;
        }
    }

    /// What the stations have counted by themselves belongs to the same world.
    pub fn join(&mut self, stations: Net) {
        for (flow, theirs) in self.flows.iter_mut().zip(&stations.flows) {
            flow.fates.iter_mut().zip(&theirs.fates).for_each(|(all, more)| *all += more);
        }
        self.others += &stations.others;
        self.sinks = stations.sinks;
        self.violations.list.extend(stations.violations.list);
        self.violations.more += stations.violations.more;
    }
}
