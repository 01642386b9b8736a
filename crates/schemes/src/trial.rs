//! What every scheme is held to, wherever it runs: each packet has one fate, an evaluation ends one packet at most, a link is
//! not idle while packets may leave, nothing overtakes its own flow.

use crate::model::{Fate, Model};
use crate::{Next, Progress, Record, Scheme};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use units::{Instant, Nanos, QueueId};

/// How often a scheme may wait for each packet that is to leave.
const WAITS: usize = 1000;

/// What a scheme may not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// Each packet has one fate, and none is nowhere.
    Conservation,
    /// An evaluation ends one packet, or none and says so.
    OneAtATime,
    /// A link is not idle while packets may leave.
    WorkConservation,
    /// A scheme in which packets wait is to be asked again, and one in which none wait is not.
    Asking,
    /// Nothing overtakes its own flow.
    Order,
    /// A packet that passes an idle link, as the scheme says that it would, does so unchanged.
    Passing,
    /// Only what understands it is marked.
    Marking,
}

/// A law that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Which.
    pub law: Law,
    /// How.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.law, self.how)
    }
}

/// The law holds, or this is how it was broken.
fn holds(law: Law, is: bool, how: impl FnOnce() -> String) -> Result<(), Broken> {
    if is { Ok(()) } else { Err(Broken { law, how: how() }) }
}

/// Panics where a law was broken.
fn held<T>(result: Result<T, Broken>) -> T {
    result.unwrap_or_else(|broken| panic!("{broken}"))
}

/// Packets come, time passes, and the link takes some.
#[derive(Clone, Debug)]
pub struct Round {
    /// What comes.
    pub packets: Vec<Record>,
    /// Then so much time passes.
    pub pause: Nanos,
    /// Then the link takes so many.
    pub room: usize,
}

/// A scheme on the link, and what came to it.
pub struct Trial<S: Scheme<Model> + ?Sized = dyn Scheme<Model>> {
    model: Model,
    came: Vec<Record>,
    scheme: Box<S>,
}

impl<S: Scheme<Model> + ?Sized> Trial<S> {
    /// Of this scheme, with as many queues as it wants.
    pub fn new(scheme: Box<S>) -> Trial<S> {
        let model = Model::with(scheme.queues() as usize);
        Trial { model, came: Vec::new(), scheme }
    }

    /// On a link whose memory has room for so many packets.
    pub fn with_memory_for(mut self, packets: usize) -> Trial<S> {
        self.model.capacity = packets;
        self
    }

    fn sent(&self) -> usize {
        self.model.fated(|fate| matches!(fate, Fate::Sent(_)))
    }

    /// Raises `LinkReady` as a link with so much room does, and holds each evaluation to what one may do.
    fn ready(&mut self, room: usize) -> Result<(), Broken> {
        let before = self.sent();
        self.model.room = room;
        while self.model.room > 0 {
            let fates = self.model.fates.len();
            let progress = self.scheme.link_ready(&mut self.model);
            let done = self.model.fates.len() - fates;
            holds(Law::OneAtATime, done == usize::from(progress == Progress::Made), || {
                format!("it says {progress:?}, and has ended {done} packets")
            })?;
            if progress == Progress::None {
                break;
            }
        }
        self.model.room = 0;
        let (sent, waiting) = (self.sent() - before, self.model.waiting());
        let waits = matches!(self.scheme.next(&self.model), Next::At(time) if time > self.model.now);
        holds(Law::WorkConservation, sent == room || waits || waiting == 0, || {
            format!("the link could take {room} packets and was given {sent}, while {waiting} wait")
        })
    }

    /// One round. Panics where the scheme breaks a law.
    pub fn round(&mut self, round: &Round) {
        held(self.try_round(round));
    }

    /// One round.
    ///
    /// # Errors
    ///
    /// The first law that the scheme broke in it.
    pub fn try_round(&mut self, round: &Round) -> Result<(), Broken> {
        let idle = self.model.waiting() == 0 && self.scheme.passes_when_idle();
        self.came.extend_from_slice(&round.packets);
        self.model.arrive_all(&mut *self.scheme, round.packets.iter().copied());
        self.try_conserved()?;
        if idle && round.packets.len() == 1 && round.room > 0 && self.model.capacity > 0 {
            let (fates, marked) = (self.model.fates.len(), self.model.marked.len());
            self.ready(round.room)?;
            let passed = self.model.fates[fates..] == [Fate::Sent(self.came.len() - 1)];
            holds(Law::Passing, passed && self.model.marked.len() == marked, || {
                String::from("it says that a packet passes an idle link, and drops, marks or holds it")
            })?;
        }
        self.model.now += round.pause;
        self.ready(round.room)?;
        self.try_conserved()
    }

    /// Takes the parameters of another.
    pub fn tune(&mut self, other: &dyn Scheme<Model>) -> bool {
        other.tunable().is_some_and(|other| self.scheme.tune(other, &self.model))
    }

    /// Panics where a packet is nowhere, or the scheme would not be asked though packets wait.
    pub fn conserved(&self) {
        held(self.try_conserved());
    }

    fn try_conserved(&self) -> Result<(), Broken> {
        let (came, ended, waiting) = (self.model.offered(), self.model.fates.len(), self.model.waiting());
        holds(Law::Conservation, came == ended + waiting, || {
            format!("{came} packets came, {ended} ended and {waiting} wait")
        })?;
        let idle = self.scheme.next(&self.model) == Next::Idle;
        holds(Law::Asking, idle == (waiting == 0), || {
            format!("{waiting} packets wait, and it is {}to be asked again", if idle { "not " } else { "" })
        })
    }

    /// The link, and what became of the packets so far.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The scheme, and the link with what became of the packets so far.
    pub fn apart(self) -> (Box<S>, Model) {
        (self.scheme, self.model)
    }

    /// The scheme that is tried.
    pub fn scheme(&mut self) -> &mut S {
        &mut self.scheme
    }

    /// Lets everything go, and looks at what became of all packets. Panics where the scheme broke a law.
    pub fn end(mut self) -> Model {
        held(self.try_end());
        self.model
    }

    /// The same.
    ///
    /// # Errors
    ///
    /// The first law that was broken.
    pub fn try_end(&mut self) -> Result<(), Broken> {
        self.ready(usize::MAX)?;
        let mut patience = WAITS * (self.model.waiting() + 1);
        while let Next::At(time) = self.scheme.next(&self.model) {
            holds(Law::Asking, time > self.model.now, || String::from("it waits for a time that is past"))?;
            holds(Law::WorkConservation, patience > 0, || String::from("it says again and again that it waits"))?;
            patience -= 1;
            self.model.now = time;
            self.ready(usize::MAX)?;
        }
        let waiting = self.model.waiting();
        holds(Law::WorkConservation, waiting == 0, || format!("{waiting} packets are never sent"))?;
        let mut all: Vec<usize> = self.model.fates.iter().map(|fate| fate.number()).collect();
        all.sort_unstable();
        holds(Law::Conservation, all.into_iter().eq(0..self.came.len()), || {
            String::from("a packet has no fate, or more than one")
        })?;
        let mut last = BTreeMap::new();
        for fate in &self.model.fates {
            let Fate::Sent(number) = *fate else { continue };
            let Record { class, queue, flow_hash, .. } = self.came[number];
            if let Some(before) = last.insert((class, queue.0, flow_hash), number) {
                holds(Law::Order, before < number, || format!("packet {number} overtook packet {before} of its flow"))?;
            }
        }
        let wrong = self.model.marked.iter().find(|number| self.came[**number].ecn == 0);
        holds(Law::Marking, wrong.is_none(), || String::from("it marks a packet whose sender does not understand it"))
    }
}

/// Arrivals that are the same for the same seed: bursts and silences, some flows, all classes and code points of congestion.
#[derive(Clone, Debug)]
pub struct Rounds {
    state: u64,
    left: usize,
}

impl Rounds {
    /// So many rounds.
    pub fn seeded(seed: u64, rounds: usize) -> Rounds {
        Rounds { state: seed | 1, left: rounds }
    }

    /// Less than `below`. Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
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
