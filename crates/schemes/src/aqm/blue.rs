//! BLUE: packets are dropped at random. The probability rises when the queue overflows and falls when it is empty. Its length in between does not
//! matter (Feng et al., IEEE/ACM Transactions on Networking 10(4), 2002).
//!
//! While the queue stays empty the probability falls once in each hold time. A packet that arrives at an empty queue is always enqueued, unlike in
//! the paper. A drop there would only keep the link idle, and a probability near one would take a minute to fall.

use super::{Evaluation, Manage, QueueContext, red};
use crate::lfsr::Lfsr;
use crate::options::{BuildError, Values};
use crate::wires::{is_short, packet_bounds};
use crate::{Record, Size, Tell, Wires};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Instant, Nanos, Parts};

const ONE: u64 = 1 << 32;

/// BLUE's parameters.
#[derive(Clone, Debug)]
pub struct Blue {
    /// The increase of the probability at an overflow, of 2^32.
    pub rise: u64,
    /// The decrease when the link is idle.
    pub fall: u64,
    /// The least time between two changes.
    pub hold: Nanos,
    /// True to mark packets instead if they are ECN-capable.
    pub ecn: bool,
    /// The most packets that wait.
    pub limit: u32,
    chance: Lfsr,
}

/// BLUE's state of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlueMemory {
    /// The probability, of 2^32.
    probability: u64,
    changed: Option<Instant>,
    /// When the queue was last known to be non-empty.
    busy: Instant,
}

impl Blue {
    /// The declaration for configurations.
    pub const DECLARATION: Declaration = Declaration {
        name: "blue",
        summary: "drops at random, with a probability that rises when the queue is full and falls when it is empty",
        cost: DeclaredCost::None,
        source: "Feng et al., IEEE/ACM Transactions on Networking 10(4), 2002",
        options: &[
            OptionDeclaration {
                name: "rise",
                unit: Unit::Part,
                default: "2%",
                least: 1,
                most: 1_000_000,
                doc: "the increase of the probability when the queue is full",
            },
            OptionDeclaration {
                name: "fall",
                unit: Unit::Part,
                default: "0.2%",
                least: 1,
                most: 1_000_000,
                doc: "the decrease of the probability when the queue is empty",
            },
            OptionDeclaration {
                name: "hold",
                unit: Unit::Time,
                default: "100ms",
                least: 0,
                most: 60_000_000_000,
                doc: "the least time between two changes of the probability",
            },
            super::ECN,
            super::LIMIT,
            red::SEED,
        ],
    };

    /// BLUE with these parameters and a generator with `seed`.
    pub fn new(rise: Parts, fall: Parts, hold: Nanos, limit: u32, seed: u32) -> Blue {
        let (rise, fall) = (red::fixed(rise), red::fixed(fall));
        Blue { rise, fall, hold, ecn: false, limit, chance: Lfsr::new(seed) }
    }

    /// BLUE with the values of its options.
    pub fn of(options: &Values<'_>) -> Result<Blue, BuildError> {
        let (rise, fall, hold) = (options.part("rise")?, options.part("fall")?, options.time("hold")?);
        let blue = Blue::new(rise, fall, hold, options.count("limit")?, options.count("seed")?);
        Ok(Blue { ecn: options.is_on("ecn")?, ..blue })
    }

    /// The queue overflows: raises the probability at most once in a hold time.
    fn overflows(&self, memory: &mut BlueMemory, now: Instant) {
        // The paper's `freeze_time`: a change must take effect before the next one.
        if memory.changed.is_none_or(|changed| now.since(changed) > self.hold) {
            memory.probability = (memory.probability + self.rise).min(ONE);
            memory.changed = Some(now);
        }
    }

    /// The queue is empty: lowers the probability.
    #[inline(always)]
    fn idles(&self, memory: &mut BlueMemory, now: Instant) {
        // Without congestion the probability is zero, and this test is all that BLUE costs here.
        if memory.probability > 0 {
            self.falls(memory, now);
        }
    }

    /// The queue has been empty since `busy`: lowers the probability once for each hold time that ended since then.
    #[inline(never)]
    fn falls(&self, memory: &mut BlueMemory, now: Instant) {
        // Changes are more than one hold apart, so at least a nanosecond more than that.
        let (hold, tick) = (self.hold, Nanos::new(1));
        let first = memory.changed.map_or(memory.busy, |changed| (changed + hold + tick).max(memory.busy));
        if now < first {
            return;
        }
        // Hold times that ended after `first`, besides the change that is due at `first` itself.
        let more = now.since(first).get() / (hold + tick).get();
        memory.probability = memory.probability.saturating_sub(self.fall.saturating_mul(more.saturating_add(1)));
        // The time of the last of these changes, not now: the part of a hold time that has passed is not lost.
        memory.changed = Some(first + (hold + tick) * more);
    }
}

impl Manage for Blue {
    type Memory = BlueMemory;

    #[inline]
    fn arrive<W: Wires>(&mut self, memory: &mut BlueMemory, at: &mut QueueContext<'_, W>, packet: &Record) -> bool {
        let (waiting, now) = (at.waiting.packets, at.wires.now());
        if waiting == 0 {
            self.idles(memory, now);
        }
        memory.busy = now;
        if at.is_full(self.limit, packet) {
            self.overflows(memory, now);
            return false;
        }
        // Draw nothing at a probability of zero: the sequence then depends only on real decisions.
        let spared = memory.probability == 0 || !self.chance.happens(memory.probability);
        // `mark` is called before `waiting` is compared: a packet at an empty queue is marked too.
        (spared || self.ecn && at.wires.mark() || waiting == 0) && at.wires.enqueue(at.queue)
    }

    #[inline]
    fn evaluate<W: Wires>(&mut self, memory: &mut BlueMemory, at: &mut QueueContext<'_, W>) -> Evaluation {
        let (turn, now) = (at.send(), at.wires.now());
        if turn != Evaluation::Nothing {
            memory.busy = now;
        }
        // The last packet has left: the link idle event of the paper.
        if memory.probability > 0 && at.size().packets == 0 {
            self.falls(memory, now);
        }
        turn
    }

    fn splits_super_frames(&self) -> bool {
        is_short(packet_bounds(self.limit))
    }

    fn state(&self, memory: &BlueMemory, _: Instant, _: Size, tell: &mut Tell<'_>) {
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
    fn blue_changes_probability_once_per_hold_time() {
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
    fn empty_queue_lowers_probability_once_a_hold_and_admits_a_packet() {
        let node = Blue::new(Parts::percent(2), Parts::percent(1), Nanos::millis(100), 10, 3);
        let (mut scheme, mut model) = (Single::new(node), Model::default());
        scheme.remember(BlueMemory { probability: ONE, ..BlueMemory::default() });
        // Each packet finds an empty queue, at 6 % of the link rate. No scheme evaluates an empty queue in between.
        for millis in [0u64, 13, 26, 1000, 2000] {
            model.now = Instant::START + Nanos::millis(millis);
            model.arrive(&mut scheme, &[100]);
            model.ready(&mut scheme, 1);
        }
        assert_eq!(model.count_fates(|fate| matches!(fate, crate::model::ModelFate::Sent(_))), 5);
        // The probability falls at 0 ms, and then each 100 ms plus a nanosecond.
        assert!((probability(&scheme) - 0.8).abs() < 1e-6, "{}", probability(&scheme));
    }

    #[test]
    fn blue_drops_packets_with_its_probability() {
        let mut node = Blue::new(Parts::percent(25), Parts::percent(1), Nanos::secs(50), 4, 3);
        node.rise = ONE / 4;
        let (mut scheme, mut model) = (Single::new(node), Model::default());
        model.arrive(&mut scheme, &[100; 5]);
        let before = model.fates.len();
        for _ in 0..10_000 {
            // Keep a packet waiting: one that finds an empty queue is always enqueued.
            model.ready(&mut scheme, usize::from(model.waiting() > 1));
            model.arrive(&mut scheme, &[100]);
        }
        let sent = model.count_fates(|fate| matches!(fate, crate::model::ModelFate::Sent(_)));
        let refused = model.fates.len() - before - sent;
        assert!((2300..2700).contains(&refused), "{refused}");
    }
}
