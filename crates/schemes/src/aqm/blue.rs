//! BLUE: packets are dropped at random with a probability that rises when the queue overflows and falls when it runs empty,
//! whatever its length is in between (Feng et al., IEEE/ACM Transactions on Networking 10(4), 2002).

use super::{At, Manage, Turn, red};
use crate::chance::Register;
use crate::options::{BuildError, Values};
use crate::{Record, Size, Tell, Wires};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Instant, Nanos, Parts};

const ONE: u64 = 1 << 32;

/// BLUE's parameters.
#[derive(Clone, Debug)]
pub struct Blue {
    /// What an overflow adds to the probability, of 2^32.
    pub rise: u64,
    /// What an idle link takes from it.
    pub fall: u64,
    /// The least time between two changes.
    pub hold: Nanos,
    /// Whether packets are marked instead where their sender understands it.
    pub ecn: bool,
    /// Packets that wait at most.
    pub limit: u32,
    chance: Register,
}

/// What BLUE remembers of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Of 2^32.
    probability: u64,
    changed: Option<Instant>,
}

impl Blue {
    /// As the configuration names it.
    pub const DECLARATION: Declaration = Declaration {
        name: "blue",
        summary: "drops at random, likelier after the queue was full, less likely after it was empty",
        cost: DeclaredCost::None,
        source: "Feng et al., IEEE/ACM Transactions on Networking 10(4), 2002",
        options: &[
            OptionDeclaration {
                name: "rise",
                unit: Unit::Part,
                default: "2%",
                least: 1,
                most: 1_000_000,
                doc: "what a full queue adds to the probability",
            },
            OptionDeclaration {
                name: "fall",
                unit: Unit::Part,
                default: "0.2%",
                least: 1,
                most: 1_000_000,
                doc: "what an empty queue takes from it",
            },
            OptionDeclaration {
                name: "hold",
                unit: Unit::Time,
                default: "100ms",
                least: 0,
                most: 60_000_000_000,
                doc: "the least time between two changes",
            },
            super::ECN,
            super::LIMIT,
            red::SEED,
        ],
    };

    /// With these parameters, and chance that begins with `seed`.
    pub fn new(rise: Parts, fall: Parts, hold: Nanos, limit: u32, seed: u32) -> Blue {
        let (rise, fall) = (red::fixed(rise), red::fixed(fall));
        Blue { rise, fall, hold, ecn: false, limit, chance: Register::new(seed) }
    }

    /// With the values of its options.
    pub fn of(options: &Values<'_>) -> Result<Blue, BuildError> {
        let (rise, fall, hold) = (options.part("rise")?, options.part("fall")?, options.time("hold")?);
        let blue = Blue::new(rise, fall, hold, options.count("limit")?, options.count("seed")?);
        Ok(Blue { ecn: options.is_on("ecn")?, ..blue })
    }

    fn change(&self, memory: &mut Memory, now: Instant, change: impl Fn(u64) -> u64) {
        if memory.changed.is_none_or(|changed| now.since(changed) > self.hold) {
            memory.probability = change(memory.probability).min(ONE);
            memory.changed = Some(now);
        }
    }
}

impl Manage for Blue {
    type Memory = Memory;

    #[inline]
    fn arrive<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>, _: &Record) -> bool {
        if at.waiting.packets >= self.limit {
            self.change(memory, at.wires.now(), |probability| probability + self.rise);
            return false;
        }
        let spared = memory.probability == 0 || !self.chance.happens(memory.probability);
        (spared || self.ecn && at.wires.mark()) && at.wires.enqueue(at.queue)
    }

    #[inline]
    fn evaluate<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>) -> Turn {
        let turn = at.send();
        if at.size().packets == 0 && memory.probability > 0 {
            self.change(memory, at.wires.now(), |probability| probability.saturating_sub(self.fall));
        }
        turn
    }

    fn state(&self, memory: &Memory, _: Instant, _: Size, tell: &mut Tell<'_>) {
        tell("p", memory.probability as f64 / ONE as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::Model;
    use crate::single::Single;

    fn probability(scheme: &Single<Blue>) -> f64 {
        scheme.memory().probability as f64 / ONE as f64
    }

    #[test]
    fn the_probability_rises_once_a_hold_while_packets_are_lost_and_falls_while_the_queue_runs_empty() {
        let node = Blue::new(Parts::percent(2), Parts::percent(1), Nanos::millis(100), 10, 3);
        let (mut scheme, mut model) = (Single::new(node), Model::default());
        for _ in 0..1001 {
            model.arrive(&mut scheme, &[100; 11]);
            model.now += Nanos::millis(1);
        }
        // At 0, 101, 202 ... ms.
        assert!((probability(&scheme) - 0.2).abs() < 1e-6, "{}", probability(&scheme));
        for _ in 0..505 {
            model.ready(&mut scheme, 20);
            model.arrive(&mut scheme, &[100]);
            model.now += Nanos::millis(1);
        }
        assert!((probability(&scheme) - 0.15).abs() < 1e-6, "{}", probability(&scheme));
    }

    #[test]
    fn that_part_of_the_packets_is_dropped() {
        let mut node = Blue::new(Parts::percent(25), Parts::percent(1), Nanos::secs(50), 4, 3);
        node.rise = ONE / 4;
        let (mut scheme, mut model) = (Single::new(node), Model::default());
        model.arrive(&mut scheme, &[100; 5]);
        let before = model.fates.len();
        for _ in 0..10_000 {
            model.ready(&mut scheme, 1);
            model.arrive(&mut scheme, &[100]);
        }
        let sent = model.fated(|fate| matches!(fate, crate::model::Fate::Sent(_)));
        let refused = model.fates.len() - before - sent;
        assert!((2300..2700).contains(&refused), "{refused}");
    }
}
