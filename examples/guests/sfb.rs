//! @NAME@: Stochastic Fair BLUE. It limits a flow that does not respond to drops, so that the others lose nothing to it.
//!
//! Source: Feng, Kandlur, Saha and Shin, "Stochastic Fair Blue: A Queue Management Algorithm for Enforcing Fairness", INFOCOM 2001.
//!
//! All packets share one queue. Each flow has a bin in each of four levels, chosen by other bits of its hash. A bin has a drop probability
//! as in BLUE: it rises while too many of the bin's packets are queued, and falls while none are. A packet is dropped with the
//! minimum probability of its bins: a flow that shares a bin with a flood on one level does not on all levels. At a minimum of one
//! the flow is unresponsive, and all such flows together get a packet per `penalty`.
//!
//! A packet that finds the queue empty is enqueued, unless its flow is unresponsive: dropping it would keep the link idle.
//!
//! Missing: moving hashes, with which the paper frees a flow that shares all its bins with a flood. After a recount by the router, queued
//! packets count in no bin, because their flow hashes are unknown.

#![cfg_attr(not(test), no_std)]

use switchpath_guest::{
    Box, Instant, Nanos, Next, Options, Progress, QueueId, Record, Scheme, Vec, Wires, count, guest, random,
};

guest! {
    "summary Drops by flow: one that does not yield is held back.\n\
    option limit count 1000 1 16384 Packets that wait at most.\n\
    option bin count 30 1 16384 Packets of a bin that may wait before its probability rises.\n\
    option rise part 0.5% 1 1000000 What one too many adds to the probability.\n\
    option fall part 0.05% 1 1000000 What a packet that finds none of its bin waiting takes from it.\n\
    option penalty time 10ms 0 - Time for each packet of flows that do not yield.\n\
    option ecn switch off - - Mark instead, where the sender understands it.",
    |options: &Options| {
        Ok(Box::new(Blue {
            limit: options.value(0) as u32,
            most: options.value(1) as u32,
            rise: options.value(2) as u32,
            fall: options.value(3) as u32,
            penalty: Nanos::new(options.value(4)),
            ecn: options.value(5) == 1,
            bins: [[Bin { waiting: 0, probability: 0 }; BINS]; LEVELS],
            hashes: Hashes::new(options.value(0) as usize),
            parole: Instant::START,
        }))
    }
}

/// The only queue.
const QUEUE: QueueId = QueueId(0);
const LEVELS: usize = 4;
/// Bins of each level.
const BINS: usize = 32;
/// The probability of one: probabilities are multiples of its reciprocal.
const ONE: u32 = 1_000_000;
/// Counters: packets dropped at random, and dropped packets of unresponsive flows.
const EARLY: u32 = 0;
const HELD: u32 = 1;

#[derive(Clone, Copy)]
struct Bin {
    /// Its queued packets.
    waiting: u32,
    /// Drop probability in units of 1/[`ONE`].
    probability: u32,
}

struct Blue {
    limit: u32,
    most: u32,
    rise: u32,
    fall: u32,
    penalty: Nanos,
    ecn: bool,
    bins: [[Bin; BINS]; LEVELS],
    /// Flow hashes of the queued packets, in order.
    hashes: Hashes,
    /// When the next packet of an unresponsive flow may be enqueued.
    parole: Instant,
}

/// The index of a flow's bin in a level: five bits of its hash, different ones for each level.
fn place(level: usize, hash: u32) -> usize {
    (hash.wrapping_mul(0x9e37_79b1) >> (5 * level + 7)) as usize % BINS
}

impl Blue {
    /// Updates the flow's bins from their queue lengths, and returns their minimum probability.
    fn probability(&mut self, hash: u32) -> u32 {
        let mut least = ONE;
        for (level, bins) in self.bins.iter_mut().enumerate() {
            let bin = &mut bins[place(level, hash)];
            if bin.waiting > self.most {
                bin.probability = (bin.probability + self.rise).min(ONE);
            } else if bin.waiting == 0 {
                bin.probability = bin.probability.saturating_sub(self.fall);
            }
            least = least.min(bin.probability);
        }
        least
    }

    /// True if a packet may be enqueued. Marks it instead of a drop if possible.
    fn admits<W: Wires>(&mut self, packet: Record, wires: &mut W) -> bool {
        let probability = self.probability(packet.flow_hash);
        if wires.size(QUEUE).packets >= self.limit {
            return false;
        }
        if probability == ONE {
            if wires.now() < self.parole {
                count(HELD, 1);
                return false;
            }
            self.parole = wires.now() + self.penalty;
            return true;
        }
        if wires.size(QUEUE).packets == 0 {
            return true;
        }
        let spared = probability == 0 || random() % u64::from(ONE) >= u64::from(probability);
        if !spared && !(self.ecn && wires.mark()) {
            count(EARLY, 1);
            return false;
        }
        true
    }

    fn each_bin(&mut self, hash: u32, change: impl Fn(&mut u32)) {
        for (level, bins) in self.bins.iter_mut().enumerate() {
            change(&mut bins[place(level, hash)].waiting);
        }
    }
}

impl<W: Wires> Scheme<W> for Blue {
    fn arrival(&mut self, wires: &mut W) {
        while let Some(packet) = wires.arriving() {
            if self.admits(packet, wires) && wires.enqueue(QUEUE) {
                self.hashes.push(Some(packet.flow_hash));
                self.each_bin(packet.flow_hash, |waiting| *waiting += 1);
            }
        }
    }

    fn link_ready(&mut self, wires: &mut W) -> Progress {
        if wires.dequeue(QUEUE).is_none() {
            return Progress::None;
        }
        wires.transmit();
        if let Some(hash) = self.hashes.pop() {
            self.each_bin(hash, |waiting| *waiting -= 1);
        }
        Progress::Made
    }

    fn next(&self, wires: &W) -> Next {
        if wires.size(QUEUE).packets == 0 { Next::Idle } else { Next::Ready }
    }

    fn wants_flow_hash(&self) -> bool {
        true
    }

    fn holds_at_most(&self) -> u32 {
        self.limit
    }

    fn recount(&mut self, wires: &W) {
        self.bins.iter_mut().flatten().for_each(|bin| bin.waiting = 0);
        self.hashes.clear();
        (0..wires.size(QUEUE).packets).for_each(|_| self.hashes.push(None));
    }
}

/// A ring of the flow hashes of the queued packets, if known.
struct Hashes {
    ring: Vec<Option<u32>>,
    first: usize,
    count: usize,
}

impl Hashes {
    fn new(most: usize) -> Hashes {
        let mut ring = Vec::with_capacity(most);
        ring.resize(most, None);
        Hashes { ring, first: 0, count: 0 }
    }

    fn clear(&mut self) {
        self.count = 0;
    }

    fn push(&mut self, hash: Option<u32>) {
        if self.count < self.ring.len() {
            let last = (self.first + self.count) % self.ring.len();
            self.ring[last] = hash;
            self.count += 1;
        }
    }

    fn pop(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        let hash = self.ring[self.first];
        self.first = (self.first + 1) % self.ring.len();
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchpath_guest::schemes::conformance::{Rounds, Trial};

    #[test]
    fn it_keeps_the_laws_that_every_scheme_keeps() {
        for seed in 0..100 {
            let bins = [[Bin { waiting: 0, probability: 0 }; BINS]; LEVELS];
            let blue = Blue {
                limit: 100,
                most: 10,
                rise: ONE / 20,
                fall: ONE / 200,
                penalty: Nanos::millis(10),
                ecn: true,
                bins,
                hashes: Hashes::new(100),
                parole: Instant::START,
            };
            let mut trial = Trial::new(Box::new(blue));
            Rounds::seeded(seed, 100).for_each(|round| trial.round(&round));
            trial.end();
        }
    }
}
