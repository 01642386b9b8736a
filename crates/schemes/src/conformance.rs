//! The laws of every scheme, built in or guest. Each packet has one fate. An evaluation ends at most one packet. A link is not idle while packets may
//! leave. No packet overtakes another of its flow.

use crate::model::{Model, ModelFate};
use crate::{Next, Progress, Record, Scheme, Wires};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use units::{Bytes, Instant, Nanos, QueueId, Rate};

/// The number of waits that a scheme may request for each waiting packet.
const WAITS: usize = 1000;
/// A queue that was empty for this time is not congested.
const RECOVERY: Nanos = Nanos::secs(1);

/// The laws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchemeInvariant {
    /// Each packet has exactly one fate, or waits.
    Conservation,
    /// An evaluation that reports progress ends one packet; otherwise it ends none.
    OneAtATime,
    /// A link is not idle while packets may leave.
    WorkConservation,
    /// A scheme with waiting packets requests another evaluation, and one without does not.
    NextEvaluation,
    /// No packet overtakes another of its flow.
    Order,
    /// If the scheme passes packets on an idle link, such a packet is sent at once and unchanged.
    IdleBypass,
    /// Only packets of ECN-capable senders are marked.
    Marking,
    /// A queue that was empty for a second accepts a packet.
    Admission,
}

/// A violation of a law.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvariantViolation {
    /// The law.
    pub invariant: SchemeInvariant,
    /// The violation.
    pub detail: String,
}

impl fmt::Display for InvariantViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.detail)
    }
}

/// Checks a law; `how` describes the violation.
fn check(law: SchemeInvariant, is: bool, how: impl FnOnce() -> String) -> Result<(), InvariantViolation> {
    if is { Ok(()) } else { Err(InvariantViolation { invariant: law, detail: how() }) }
}

/// Panics if a law was violated.
fn panic_if_violated<T>(result: Result<T, InvariantViolation>) -> T {
    result.unwrap_or_else(|broken| panic!("{broken}"))
}

/// One round: packets arrive, time passes, and the link accepts packets.
#[derive(Clone, Debug)]
pub struct Round {
    /// The packets that arrive.
    pub packets: Vec<Record>,
    /// The time that passes after that.
    pub pause: Nanos,
    /// The packets that the link then accepts.
    pub room: usize,
}

/// The offered load, in thousandths of the link rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load(pub u64);

/// 6 % of the link.
const LIGHT: Load = Load(60);

/// One packet for each of four flows, with different hosts, classes and code points.
pub fn flows() -> [Record; 4] {
    [(0u8, 0u8), (1, 8), (2, 34), (3, 46)].map(|(class, dscp)| {
        let flow_hash = u32::from(class) * 0x4000_0000 + 7;
        let (queue, destination) = (QueueId(class.into()), 5);
        Record { length: 1000, flow_hash, source: flow_hash, destination, class, dscp, queue, ..Record::default() }
    })
}

/// A scheme on a model link, with the packets offered to it.
pub struct Trial<S: Scheme<Model> + ?Sized = dyn Scheme<Model>> {
    model: Model,
    offered: Vec<Record>,
    /// When each queue that received packets was last seen non-empty, by number. Queues that the scheme does not name count as one.
    busy: BTreeMap<Option<u32>, Instant>,
    scheme: Box<S>,
}

impl<S: Scheme<Model> + ?Sized> Trial<S> {
    /// A trial of this scheme, on a link with its number of queues.
    pub fn new(scheme: Box<S>) -> Trial<S> {
        let model = Model::with_queues(scheme.queues() as usize);
        Trial { model, offered: Vec::new(), busy: BTreeMap::new(), scheme }
    }

    /// Sets the memory of the link in packets.
    pub fn with_memory(mut self, packets: usize) -> Trial<S> {
        self.model.capacity = packets;
        self
    }

    /// Sets the link rate.
    pub fn with_link_rate(mut self, rate: Rate) -> Trial<S> {
        self.model.rate = rate;
        self
    }

    /// The queue of a packet like this, if the scheme names it.
    fn queue_of(&self, packet: &Record) -> Option<u32> {
        self.scheme.queue_of(packet).map(|queue| queue.0)
    }

    fn is_empty(&self, queue: Option<u32>) -> bool {
        queue.map_or(self.model.waiting(), |queue| self.model.size(QueueId(queue)).packets as usize) == 0
    }

    /// Updates the times at which queues were non-empty.
    fn update_busy_times(&mut self) {
        // Taken out, because `is_empty` borrows the whole trial.
        let mut busy = core::mem::take(&mut self.busy);
        for (queue, last) in &mut busy {
            if !self.is_empty(*queue) {
                *last = self.model.now;
            }
        }
        self.busy = busy;
    }

    /// The numbers of those arriving packets that the scheme must accept: each is the first packet of a queue that was empty for a second.
    fn must_accept(&mut self, packets: &[Record]) -> Vec<usize> {
        let (first, now) = (self.model.offered(), self.model.now);
        let mut named = BTreeSet::new();
        let mut welcome = Vec::new();
        for (place, packet) in packets.iter().enumerate() {
            let queue = self.queue_of(packet);
            let long = self.busy.get(&queue).is_none_or(|busy| now.since(*busy) >= RECOVERY);
            // Only the first packet of a queue: the scheme may hold no more than one.
            if named.insert(queue) && long && self.is_empty(queue) {
                welcome.push(first + place);
            }
            self.busy.entry(queue).or_insert(Instant::START);
        }
        // With little memory even an empty queue may refuse a packet.
        let room = self.model.waiting().saturating_add(packets.len()) <= self.model.capacity;
        if room { welcome } else { Vec::new() }
    }

    /// Raises `LinkReady` like a link with this room, and checks each evaluation.
    fn ready(&mut self, room: usize) -> Result<(), InvariantViolation> {
        let before = self.model.fates.len();
        self.update_busy_times();
        self.model.room = room;
        while self.model.room > 0 {
            let fates = self.model.fates.len();
            let progress = self.scheme.link_ready(&mut self.model);
            let done = self.model.fates.len() - fates;
            check(SchemeInvariant::OneAtATime, done == usize::from(progress == Progress::Made), || {
                format!("it says {progress:?}, and has ended {done} packets")
            })?;
            if progress == Progress::None {
                break;
            }
        }
        self.model.room = 0;
        self.update_busy_times();
        let sent = self.model.fates[before..].iter().filter(|fate| matches!(fate, ModelFate::Sent(_))).count();
        let waiting = self.model.waiting();
        // A shaper may leave the link idle until its next departure.
        let waits = matches!(self.scheme.next(&self.model), Next::At(time) if time > self.model.now);
        check(SchemeInvariant::WorkConservation, sent == room || waits || waiting == 0, || {
            format!("the link could take {room} packets and was given {sent}, while {waiting} wait")
        })
    }

    /// Runs one round. Panics if the scheme breaks a law.
    pub fn round(&mut self, round: &Round) {
        panic_if_violated(self.try_round(round));
    }

    /// Runs one round.
    ///
    /// # Errors
    ///
    /// The first law that the scheme broke.
    pub fn try_round(&mut self, round: &Round) -> Result<(), InvariantViolation> {
        let idle = self.model.waiting() == 0 && self.scheme.passes_when_idle();
        let (fates, marked) = (self.model.fates.len(), self.model.marked.len());
        self.arrive(&round.packets)?;
        // The link may bypass the scheme for such a packet, so the scheme must send it at once and unmarked.
        if idle && round.packets.len() == 1 && round.room > 0 && self.model.capacity > 0 {
            self.ready(round.room)?;
            let passed = self.model.fates[fates..] == [ModelFate::Sent(self.offered.len() - 1)];
            check(SchemeInvariant::IdleBypass, passed && self.model.marked.len() == marked, || {
                String::from("it says that a packet passes an idle link, and drops, marks or holds it")
            })?;
        }
        self.model.now += round.pause;
        self.ready(round.room)?;
        self.try_conservation()
    }

    /// Offers packets, and checks which are accepted.
    fn arrive(&mut self, packets: &[Record]) -> Result<(), InvariantViolation> {
        self.offered.extend_from_slice(packets);
        let (welcome, before) = (self.must_accept(packets), self.model.fates.len());
        self.model.arrive_all(&mut *self.scheme, packets.iter().copied());
        self.update_busy_times();
        // A queue was also non-empty if its packet was enqueued and then dropped for a packet of another queue, all in this call.
        let first = self.model.offered() - packets.len();
        for (place, packet) in packets.iter().enumerate() {
            if !self.model.fates[before..].contains(&ModelFate::Refused(first + place)) {
                self.busy.insert(self.queue_of(packet), self.model.now);
            }
        }
        let refused = |number: &usize| self.model.fates[before..].contains(&ModelFate::Refused(*number));
        let refused = welcome.into_iter().find(refused);
        check(SchemeInvariant::Admission, refused.is_none(), || {
            format!("it refuses packet {}, whose queue has been empty for a second", refused.unwrap_or_default())
        })?;
        self.try_conservation()
    }

    /// Takes over the parameters of another scheme.
    pub fn tune(&mut self, other: &dyn Scheme<Model>) -> bool {
        other.tunable().is_some_and(|other| self.scheme.tune(other, &self.model))
    }

    /// Panics if a packet is lost, or the scheme does not request an evaluation although packets wait.
    pub fn check_conservation(&self) {
        panic_if_violated(self.try_conservation());
    }

    fn try_conservation(&self) -> Result<(), InvariantViolation> {
        let (came, ended, waiting) = (self.model.offered(), self.model.fates.len(), self.model.waiting());
        check(SchemeInvariant::Conservation, came == ended + waiting, || {
            format!("{came} packets came, {ended} ended and {waiting} wait")
        })?;
        let idle = self.scheme.next(&self.model) == Next::Idle;
        check(SchemeInvariant::NextEvaluation, idle == (waiting == 0), || {
            format!("{waiting} packets wait, and it is {}to be asked again", if idle { "not " } else { "" })
        })
    }

    /// The link and the fates so far.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The scheme, and the link with the fates so far.
    pub fn into_parts(self) -> (Box<S>, Model) {
        (self.scheme, self.model)
    }

    /// The scheme under test.
    pub fn scheme(&mut self) -> &mut S {
        &mut self.scheme
    }

    /// Offers these packets in turn for `length`. One slot is the time of the longest packet on the link; `load` is the number of arrivals in it.
    ///
    /// # Errors
    ///
    /// The first law that the scheme broke.
    pub fn try_load(&mut self, packets: &[Record], load: Load, length: Nanos) -> Result<(), InvariantViolation> {
        let longest = packets.iter().map(|packet| packet.length).max().unwrap_or(0);
        let slot = self.model.rate.time_for(Bytes::new(longest.into()));
        let mut next = packets.iter().copied().cycle();
        for turn in 1..=length.get() / slot.get().max(1) {
            // The difference of rounded sums: the load is exact over any time.
            let come = turn * load.0 / 1000 - (turn - 1) * load.0 / 1000;
            if come > 0 {
                let packets: Vec<Record> = next.by_ref().take(come as usize).collect();
                self.arrive(&packets)?;
            }
            self.model.now += slot;
            // Like the router: a scheme without waiting packets is not evaluated.
            if self.scheme.next(&self.model) != Next::Idle {
                self.ready(1)?;
            }
        }
        Ok(())
    }

    /// Offers two overloads of [flows]. After the first one and a second of silence, one packet of each flow must be accepted. A second after the
    /// queues have drained from the other, nearly all packets of a light load must be sent.
    ///
    /// # Errors
    ///
    /// The first law that the scheme broke.
    pub fn try_overload(&mut self, load: Load, length: Nanos) -> Result<(), InvariantViolation> {
        let flows = flows();
        self.try_load(&flows, load, length)?;
        for packet in flows {
            self.drain_and_idle()?;
            self.try_load(&[packet], Load(1000), Nanos::millis(1))?;
        }
        self.try_load(&flows, load, length)?;
        self.try_drain()?;
        self.try_load(&flows, LIGHT, Nanos::secs(1))?;
        let before = self.model.fates.len();
        self.try_load(&flows, LIGHT, Nanos::secs(4))?;
        let fates = &self.model.fates[before..];
        let sent = fates.iter().filter(|fate| matches!(fate, ModelFate::Sent(_))).count();
        // One packet in 13 ms, of which up to three in a hundred may be lost.
        check(SchemeInvariant::Admission, sent >= 285 && sent * 100 >= fates.len() * 97, || {
            format!(
                "of a light load behind an overload it sends {sent} packets, of {} that came to an end",
                fates.len()
            )
        })
    }

    /// Drains the queues as fast as the scheme allows, then lets a second pass without arrivals.
    ///
    /// # Errors
    ///
    /// The first law that the scheme broke.
    pub fn drain_and_idle(&mut self) -> Result<(), InvariantViolation> {
        self.try_drain()?;
        self.model.now += RECOVERY;
        Ok(())
    }

    /// Drains the queues and checks the fates of all packets. Panics if the scheme breaks a law.
    pub fn end(mut self) -> Model {
        panic_if_violated(self.try_end());
        self.model
    }

    /// Like [`Trial::end`], without a panic.
    ///
    /// # Errors
    ///
    /// The first law that the scheme broke.
    pub fn try_end(&mut self) -> Result<(), InvariantViolation> {
        self.try_drain()?;
        let waiting = self.model.waiting();
        check(SchemeInvariant::WorkConservation, waiting == 0, || format!("{waiting} packets are never sent"))?;
        self.try_fates()
    }

    /// Drains the queues as fast as the scheme allows.
    ///
    /// # Errors
    ///
    /// The first law that the scheme broke.
    pub fn try_drain(&mut self) -> Result<(), InvariantViolation> {
        self.ready(usize::MAX)?;
        // A shaper may wait several times for each packet, but not without end.
        let mut patience = WAITS * (self.model.waiting() + 1);
        while let Next::At(time) = self.scheme.next(&self.model) {
            check(SchemeInvariant::NextEvaluation, time > self.model.now, || {
                String::from("it waits for a time that is past")
            })?;
            check(SchemeInvariant::WorkConservation, patience > 0, || {
                String::from("it says again and again that it waits")
            })?;
            patience -= 1;
            self.model.now = time;
            self.ready(usize::MAX)?;
        }
        Ok(())
    }

    /// Checks the fates of all packets.
    fn try_fates(&self) -> Result<(), InvariantViolation> {
        let mut all: Vec<usize> = self.model.fates.iter().map(|fate| fate.number()).collect();
        all.sort_unstable();
        check(SchemeInvariant::Conservation, all.into_iter().eq(0..self.offered.len()), || {
            String::from("a packet has no fate, or more than one")
        })?;
        let mut last = BTreeMap::new();
        for fate in &self.model.fates {
            let ModelFate::Sent(number) = *fate else { continue };
            // Orders may use the class or the queue: only packets with the same three values are one flow.
            let Record { class, queue, flow_hash, .. } = self.offered[number];
            if let Some(before) = last.insert((class, queue.0, flow_hash), number) {
                check(SchemeInvariant::Order, before < number, || {
                    format!("packet {number} overtook packet {before} of its flow")
                })?;
            }
        }
        let wrong = self.model.marked.iter().find(|number| self.offered[**number].ecn == 0);
        check(SchemeInvariant::Marking, wrong.is_none(), || {
            String::from("it marks a packet whose sender does not understand it")
        })
    }
}

/// Arrivals from a seed: bursts and silences, several flows, all classes and ECN code points.
#[derive(Clone, Debug)]
pub struct Rounds {
    state: u64,
    left: usize,
}

impl Rounds {
    /// `rounds` rounds.
    pub fn seeded(seed: u64, rounds: usize) -> Rounds {
        // The generator never leaves a state of zero.
        Rounds { state: seed | 1, left: rounds }
    }

    /// A number below `below`. Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below
    }

    fn record(&mut self) -> Record {
        let flow_hash = (self.draw(5) as u32).wrapping_mul(0x9e37_79b9);
        Record {
            length: 64 + self.draw(1451) as u32,
            timestamp: Instant::START,
            queue: QueueId(self.draw(4) as u32),
            class: self.draw(4) as u8,
            flow_hash,
            source: flow_hash ^ flow_hash << 16,
            destination: flow_hash & 1,
            dscp: flow_hash as u8 & 63,
            ecn: self.draw(4) as u8,
            more: 0,
        }
    }
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        self.left = self.left.checked_sub(1)?;
        let count = self.draw(24);
        let packets = (0..count).map(|_| self.record()).collect();
        let longest = [1, 1_000_000, 50_000_000, 3_000_000_000][self.draw(4) as usize];
        Some(Round { packets, pause: Nanos::new(self.draw(longest)), room: self.draw(24) as usize })
    }
}
