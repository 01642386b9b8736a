//! What every scheme is held to, wherever it runs: each packet has one fate, an evaluation ends one packet at most, a link is
//! not idle while packets may leave, nothing overtakes its own flow.

use crate::model::{Fate, Model};
use crate::{Next, Progress, Record, Scheme};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use units::{Instant, Nanos, QueueId};

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
pub struct Trial {
    scheme: Box<dyn Scheme<Model>>,
    model: Model,
    came: Vec<Record>,
}

impl Trial {
    /// Of this scheme, with as many queues as it wants.
    pub fn new(scheme: Box<dyn Scheme<Model>>) -> Trial {
        let model = Model::with(scheme.queues().into());
        Trial { scheme, model, came: Vec::new() }
    }

    fn sent(&self) -> usize {
        self.model.fated(|fate| matches!(fate, Fate::Sent(_)))
    }

    /// Raises `LinkReady` as a link with so much room does, and holds each evaluation to what one may do.
    fn ready(&mut self, room: usize) {
        let before = self.sent();
        self.model.room = room;
        while self.model.room > 0 {
            let fates = self.model.fates.len();
            let progress = self.scheme.link_ready(&mut self.model);
            let done = self.model.fates.len() - fates;
            assert_eq!(done, usize::from(progress == Progress::Made), "one drop or one departure, or nothing");
            if progress == Progress::None {
                break;
            }
        }
        self.model.room = 0;
        let sent = self.sent() - before;
        let waits = matches!(self.scheme.next(&self.model), Next::At(time) if time > self.model.now);
        assert!(
            sent == room || waits || self.model.waiting() == 0,
            "the link is idle, and {} wait",
            self.model.waiting()
        );
    }

    /// One round. Panics where the scheme breaks a law.
    pub fn round(&mut self, round: &Round) {
        let idle = self.model.waiting() == 0 && self.scheme.passes_when_idle();
        self.came.extend_from_slice(&round.packets);
        self.model.arrive_all(&mut *self.scheme, round.packets.iter().copied());
        self.conserved();
        if idle && round.packets.len() == 1 && round.room > 0 {
            let (fates, marked) = (self.model.fates.len(), self.model.marked.len());
            self.ready(round.room);
            assert_eq!(self.model.fates[fates..], [Fate::Sent(self.came.len() - 1)], "it says that they pass");
            assert_eq!(self.model.marked.len(), marked);
        }
        self.model.now += round.pause;
        self.ready(round.room);
        self.conserved();
    }

    /// Takes the parameters of another.
    pub fn tune(&mut self, other: &dyn Scheme<Model>) -> bool {
        other.tunable().is_some_and(|other| self.scheme.tune(other, &self.model))
    }

    /// Panics where a packet is nowhere, or the scheme would not be asked though packets wait.
    pub fn conserved(&self) {
        assert_eq!(self.model.offered(), self.model.fates.len() + self.model.waiting());
        let idle = self.scheme.next(&self.model) == Next::Idle;
        assert_eq!(idle, self.model.waiting() == 0, "it is to be asked as long as packets wait");
    }

    /// The link, and what became of the packets so far.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Lets everything go, and looks at what became of all packets. Panics where the scheme broke a law.
    pub fn end(mut self) -> Model {
        self.ready(usize::MAX);
        while let Next::At(time) = self.scheme.next(&self.model) {
            assert!(time > self.model.now, "it is ready");
            self.model.now = time;
            self.ready(usize::MAX);
        }
        assert_eq!(self.model.waiting(), 0);
        let mut all: Vec<usize> = self.model.fates.iter().map(|fate| fate.number()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..self.came.len()), "each packet has one fate");
        let mut last = BTreeMap::new();
        for fate in &self.model.fates {
            let Fate::Sent(number) = *fate else { continue };
            let Record { class, queue, flow_hash, .. } = self.came[number];
            let before = last.insert((class, queue.0, flow_hash), number);
            assert!(before < Some(number), "{number} overtook {before:?} of its flow");
        }
        for number in &self.model.marked {
            assert!(self.came[*number].ecn != 0, "only those are marked whose senders understand it");
        }
        self.model
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
            queue: QueueId(self.draw(4) as u16),
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
