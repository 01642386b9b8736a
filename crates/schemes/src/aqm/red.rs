//! RED: packets are dropped or marked at random, with a probability that rises with the average queue length (Floyd and Jacobson, IEEE/ACM
//! Transactions on Networking 1(4), 1993). All decisions are made at arrivals.
//!
//! Gaps between drops are uniform: p_a = p_b / (1 - count p_b) (section 7, method 2). The average has 32 fractional bits. With 16 bits, a weight of
//! 0.002 would lose differences below 0.01 packets.

use super::{At, Manage, Turn};
use crate::chance::Register;
use crate::options::{BuildError, Values, switch};
use crate::wires::{holding, is_short};
use crate::{Record, Size, Tell, Wires};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Bytes, Instant, Nanos, Parts, Rate};

/// One packet, or a probability of one: fixed-point numbers have 32 fractional bits.
const ONE: u64 = 1 << 32;

/// RED's parameters.
#[derive(Clone, Debug)]
pub struct Red {
    /// The average in packets below which no packet is dropped.
    pub least: u32,
    /// The average from which all packets are dropped, unless `gentle`.
    pub most: u32,
    /// The probability just below `most`, of 2^32.
    pub probability: u64,
    /// The weight of a packet in the average, of 2^32.
    pub weight: u64,
    /// If true the probability rises to one between `most` and twice that, instead of at once.
    pub gentle: bool,
    /// The packet length with the full probability, if the probability is proportional to the length.
    pub bytewise: Option<Bytes>,
    /// True to mark packets instead if they are ECN-capable.
    pub ecn: bool,
    /// The mean packet length: while the queue is empty the average decays as if such packets left.
    pub mean: Bytes,
    /// The most packets that wait.
    pub limit: u32,
    chance: Register,
}

/// RED's state of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// The average in packets, with 32 fractional bits.
    average: u64,
    /// Packets since the last drop; none while the average is below `least`.
    count: Option<u32>,
    /// The time up to which idle time is accounted for.
    seen: Instant,
    /// When the queue was last known to be non-empty.
    busy: Instant,
    /// Idle time that the average has not decayed for yet: less than a packet time.
    idle: Nanos,
}

impl Memory {
    /// The average queue length in packets, with 16 fractional bits.
    pub fn average_q16(&self) -> u64 {
        self.average >> 16
    }

    /// Updates the average for a packet that arrives now.
    #[inline(always)]
    pub(super) fn update(&mut self, weight: u64, waiting: u32, now: Instant, rate: Rate, mean: Bytes) {
        if waiting > 0 {
            let above = (i64::from(waiting) << 32).wrapping_sub_unsigned(self.average);
            // Rounded down, also below the average: multiply the whole packets and the fraction separately.
            let (whole, part) = (above >> 32, above as u64 & (ONE - 1));
            let change = whole * weight as i64 + ((part * weight) >> 32) as i64;
            self.average = self.average.wrapping_add_signed(change);
            self.touch(now);
        } else {
            self.decay(weight, now, rate.time_for(mean));
        }
    }

    /// A packet waits now or has just left.
    #[inline(always)]
    pub(super) fn touch(&mut self, now: Instant) {
        (self.seen, self.busy) = (now, now);
    }

    /// Records whether the arriving packet, which found `waiting` packets, was enqueued.
    #[inline(always)]
    pub(super) fn keeps(&mut self, kept: bool, waiting: u32, now: Instant) -> bool {
        // If packets waited, `update` has recorded the time.
        if waiting == 0 && kept {
            self.touch(now);
        }
        kept
    }

    /// Decays the average when a packet arrives at an empty queue; `packet` is the link's time for a packet of mean length. The queue was empty since
    /// `seen`, also if another scheme emptied it. Idle time counts once, even if packets are refused meanwhile. A remainder below one packet time is kept.
    #[inline(never)]
    fn decay(&mut self, weight: u64, now: Instant, packet: Nanos) {
        let since = core::mem::replace(&mut self.seen, now);
        if self.average == 0 {
            return;
        }
        self.idle += now.since(since);
        let packet = packet.get().max(1);
        let packets = self.idle.get() / packet;
        self.idle = Nanos::new(self.idle.get() - packets * packet);
        self.average = times(self.average, power(ONE - weight, packets));
        if now.since(self.busy) >= super::FORGOTTEN {
            self.average = 0;
        }
    }

    /// After a change of parameters, starts with the queue length if the average is above it.
    pub(super) fn retuned(&mut self, waiting: u32) {
        self.average = self.average.min(u64::from(waiting) << 32);
        self.count = None;
    }
}

/// The product of two fixed-point numbers, of which the second is at most one. It is computed in two steps, because WebAssembly has no 128-bit
/// multiplication.
#[inline]
fn times(a: u64, b: u64) -> u64 {
    (a >> 32) * b + (((a & (ONE - 1)) * b) >> 32)
}

/// `base` to the power of `exponent`, by repeated squaring.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = ONE;
    while exponent > 0 && result > 0 {
        if exponent & 1 == 1 {
            result = times(result, base);
        }
        base = times(base, base);
        exponent >>= 1;
    }
    result
}

/// Millionths as a fixed-point number.
pub(super) fn fixed(parts: Parts) -> u64 {
    u64::from(parts.get()) * ONE / 1_000_000
}

pub(super) const LEAST: OptionDeclaration = OptionDeclaration {
    name: "min",
    unit: Unit::Count,
    default: "5",
    least: 0,
    most: 65536,
    doc: "the average queue length in packets below which none is dropped",
};
pub(super) const MOST: OptionDeclaration = OptionDeclaration {
    name: "max",
    unit: Unit::CountAbove("min"),
    default: "15",
    least: 1,
    most: 65536,
    doc: "the average queue length in packets at which the drop probability is `maxp`",
};
pub(super) const MAXP: OptionDeclaration = OptionDeclaration {
    name: "maxp",
    unit: Unit::Part,
    default: "10%",
    least: 1,
    most: 1_000_000,
    doc: "the drop probability at an average queue length of `max`",
};
pub(super) const WEIGHT: OptionDeclaration = OptionDeclaration {
    name: "weight",
    unit: Unit::Part,
    default: "0.2%",
    least: 1,
    most: 1_000_000,
    doc: "the weight of each arriving packet in the average",
};
pub(super) const MEAN: OptionDeclaration = OptionDeclaration {
    name: "mean",
    unit: Unit::Size,
    default: "500b",
    least: 1,
    most: 1 << 20,
    doc: "the usual packet size; while the queue is empty the average decays as if such packets left",
};
pub(super) const GENTLE: OptionDeclaration =
    switch("gentle", "on", "if on, drops become certain at twice `max`, not at `max`");
/// The seed of the generator.
pub(super) const SEED: OptionDeclaration = OptionDeclaration {
    name: "seed",
    unit: Unit::Count,
    default: "1",
    least: 1,
    most: u32::MAX as u64,
    doc: "the seed of the random generator: the same seed and arrivals give the same decisions",
};

/// The decision about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lot {
    /// It is enqueued.
    Spared,
    /// It is dropped or marked.
    Hit,
}

impl Red {
    /// The declaration for configurations.
    pub const DECLARATION: Declaration = Declaration {
        name: "red",
        summary: "drops at random, with a probability that rises with the average queue length",
        cost: DeclaredCost::None,
        source: "Floyd and Jacobson, IEEE/ACM Transactions on Networking 1(4), 1993",
        options: &[
            LEAST,
            MOST,
            MAXP,
            WEIGHT,
            GENTLE,
            OptionDeclaration {
                name: "mode",
                unit: Unit::Choice(&["packets", "bytes"]),
                default: "packets",
                least: 0,
                most: 1,
                doc: "drop all packets with the same probability, or in proportion to their length, with the full probability at `mtu`",
            },
            OptionDeclaration {
                name: "mtu",
                unit: Unit::Size,
                default: "1514b",
                least: 64,
                most: 1 << 20,
                doc: "the packet length with the full probability, for `mode = bytes`",
            },
            super::ECN,
            MEAN,
            super::LIMIT,
            SEED,
        ],
    };

    /// RED with these parameters and a generator with `seed`.
    pub fn new(least: u32, most: u32, maxp: Parts, weight: Parts, limit: u32, seed: u32) -> Red {
        Red {
            least,
            most: most.max(least + 1),
            probability: fixed(maxp),
            weight: fixed(weight),
            gentle: true,
            bytewise: None,
            ecn: false,
            mean: Bytes::new(500),
            limit,
            chance: Register::new(seed),
        }
    }

    /// RED with the values of its options.
    pub fn of(options: &Values<'_>) -> Result<Red, BuildError> {
        Ok(Red {
            bytewise: options.choice("mode", &[None, Some(options.bytes("mtu")?)])?,
            ecn: options.is_on("ecn")?,
            ..Red::shared(options)?
        })
    }

    /// RED with the options that CHOKe shares.
    pub(super) fn shared(options: &Values<'_>) -> Result<Red, BuildError> {
        let (maxp, weight) = (options.part("maxp")?, options.part("weight")?);
        let (limit, seed) = (options.count("limit")?, options.count("seed")?);
        let red = Red::new(options.count("min")?, options.count("max")?, maxp, weight, limit, seed);
        Ok(Red { mean: options.bytes("mean")?, gentle: options.is_on("gentle")?, ..red })
    }

    /// The probability p_b by the average alone, of 2^32; none below `least`.
    #[inline]
    fn base(&self, average: u64) -> Option<u64> {
        let (least, most) = (u64::from(self.least) << 32, u64::from(self.most) << 32);
        if average < least {
            return None;
        }
        // Both are fixed-point, and the divisor is a whole number: a 64-bit division is exact enough.
        let part = |above: u64, of: u64| above / (of >> 32);
        Some(if average < most {
            times(self.probability, part(average - least, most - least))
        } else if self.gentle && average < 2 * most {
            self.probability + times(ONE - self.probability, part(average - most, most))
        } else {
            ONE
        })
    }

    /// Decides whether the arriving packet is hit, by the present average.
    #[inline(always)]
    pub(super) fn cast(&mut self, memory: &mut Memory, length: u32) -> Lot {
        let Some(mut base) = self.base(memory.average) else {
            memory.count = None;
            return Lot::Spared;
        };
        if base >= ONE {
            // A certain drop restarts the count like any other.
            memory.count = Some(0);
            return Lot::Hit;
        }
        // The first packet at or above `least` has the count zero.
        let count = memory.count.map_or(0, |count| count.saturating_add(1));
        if let Some(mtu) = self.bytewise {
            base = (base * u64::from(length) / mtu.get().max(1)).min(ONE);
        }
        // 1 - count p_b of the paper.
        let left = ONE.saturating_sub(base.saturating_mul(count.into()));
        // A hit with probability `base / left`, without a division: drawn < base * 2^32 / left, rounded down.
        let hit = left == 0 || {
            let drawn = u64::from(self.chance.draw());
            base >= left || (base << 32).checked_sub(left).is_some_and(|most| drawn * left <= most)
        };
        memory.count = Some(if hit { 0 } else { count });
        if hit { Lot::Hit } else { Lot::Spared }
    }

    /// Reports the average and its probability (p_b of the paper).
    pub(super) fn tell(&self, memory: &Memory, tell: &mut Tell<'_>) {
        tell("avg", memory.average as f64 / ONE as f64);
        tell("p", self.base(memory.average).unwrap_or(0) as f64 / ONE as f64);
    }

    /// Updates the average for a packet that arrives now.
    #[inline(always)]
    pub(super) fn average<W: Wires>(&self, memory: &mut Memory, at: &At<'_, W>, waiting: u32) {
        memory.update(self.weight, waiting, at.wires.now(), at.wires.link_rate(), self.mean);
    }
}

impl Manage for Red {
    type Memory = Memory;

    #[inline(always)]
    fn arrive<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>, packet: &Record) -> bool {
        let waiting = at.waiting.packets;
        self.average(memory, at, waiting);
        let kept = !at.is_full(self.limit, packet)
            && match self.cast(memory, packet.length) {
                Lot::Hit if !(self.ecn && at.wires.mark()) => false,
                _ => at.wires.enqueue(at.queue),
            };
        memory.keeps(kept, waiting, at.wires.now());
        // Each further segment of a super-frame finds the segments before it waiting, if they were enqueued.
        (1..packet.packets()).for_each(|before| self.average(memory, at, waiting + if kept { before } else { 0 }));
        kept
    }

    #[inline(always)]
    fn evaluate<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>) -> Turn {
        let turn = at.send();
        if turn != Turn::Nothing {
            memory.touch(at.wires.now());
        }
        turn
    }

    #[inline(always)]
    fn send_unquestioned<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>) {
        if at.wires.send_while(at.queue, Instant::START) > 0 {
            memory.touch(at.wires.now());
        }
    }

    fn retuned(&self, memory: &mut Memory, waiting: Size) {
        memory.retuned(waiting.packets);
    }

    fn splits_super_frames(&self) -> bool {
        is_short(holding(self.limit))
    }

    fn state(&self, memory: &Memory, _: Instant, _: Size, tell: &mut Tell<'_>) {
        self.tell(memory, tell);
    }
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::{Fate, Model};
    use crate::single::Single;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use units::Nanos;

    fn red() -> Red {
        Red::new(5, 15, Parts::percent(10), Parts::millionths(2_000), 1000, 7)
    }

    proptest! {
        /// The average equals one in floating point, to a thousandth of a packet.
        #[test]
        fn the_average_is_that_of_real_numbers(
            arrivals in prop::collection::vec((0u32..100, 0u64..200), 1..2000),
            weight in 100u32..100_000,
        ) {
            let (rate, mean) = (Rate::mbit(10), Bytes::new(500));
            let (mut memory, mut exact) = (Memory::default(), 0.0f64);
            let part = f64::from(weight) / 1e6;
            let mut now = Instant::START;
            for (waiting, idle) in arrivals {
                if waiting == 0 {
                    memory.touch(now);
                    now += rate.time_for(mean) * idle;
                    exact *= (1.0 - part).powi(idle as i32);
                } else {
                    exact += part * (f64::from(waiting) - exact);
                }
                memory.update(fixed(Parts::millionths(weight)), waiting, now, rate, mean);
                let average = memory.average as f64 / ONE as f64;
                prop_assert!((average - exact).abs() < 1e-3, "{average} for {exact}");
            }
        }
    }

    #[test]
    fn red_idle_decay() {
        let (rate, mean, weight) = (Rate::mbit(10), Bytes::new(500), fixed(Parts::percent(1)));
        let mut memory = Memory { average: 100 * ONE, ..Memory::default() };
        // 400 us a packet: (1 - 0.01)^100 is 0.366.
        memory.update(weight, 0, Instant::START + Nanos::millis(40), rate, mean);
        assert!((36.5..36.7).contains(&(memory.average as f64 / ONE as f64)));
        memory.update(weight, 0, Instant::START + Nanos::secs(1 << 20), rate, mean);
        assert_eq!(memory.average, 0, "after weeks nothing is left");
    }

    /// Gaps between hits at a constant average.
    fn gaps(red: &mut Red, average: u64, hits: usize) -> Vec<u32> {
        let mut memory = Memory { average: average * ONE, ..Memory::default() };
        let (mut gaps, mut gap) = (Vec::new(), 0);
        while gaps.len() < hits {
            gap += 1;
            if red.cast(&mut memory, 1000) == Lot::Hit {
                gaps.push(gap);
                gap = 0;
            }
        }
        gaps
    }

    #[test]
    fn red_uniform_gap_between_marks() {
        // p_b is 0.1 * (10 - 5) / 10 = 1/20. The first packet behind a hit counts as one: gaps are uniform over 1 to 19.
        let gaps = gaps(&mut red(), 10, 20_000);
        let mut counts = [0u32; 20];
        gaps.iter().for_each(|gap| counts[*gap as usize] += 1);
        assert!(counts[1..].iter().all(|count| (950..1160).contains(count)), "{counts:?}");
    }

    #[test]
    fn red_gentle() {
        let mean = |gaps: &[u32]| gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
        let mut sharp = Red { gentle: false, ..red() };
        assert_eq!(mean(&gaps(&mut sharp, 15, 100)), 1.0, "all are hit from `max` on");
        // With `gentle`, p_b is 0.1 + 0.9 * (18 - 15) / 15 = 0.28. A packet is hit with probability 0.28/0.72, else the next with 0.28/0.44, else the
        // third.
        let gently = mean(&gaps(&mut red(), 18, 20_000));
        assert!((1.80..1.86).contains(&gently), "{gently}");
        assert_eq!(mean(&gaps(&mut red(), 30, 100)), 1.0);
    }

    #[test]
    fn byte_mode_drops_short_packets_less_often() {
        let mut bytewise = Red { bytewise: Some(Bytes::new(2000)), ..red() };
        let mean = |gaps: &[u32]| gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
        let (half, whole) = (mean(&gaps(&mut bytewise, 10, 20_000)), mean(&gaps(&mut red(), 10, 20_000)));
        assert!((1.85..2.1).contains(&(half / whole)), "{half} and {whole}");
    }

    #[test]
    fn drops_or_marks_hold_the_average_between_its_bounds() {
        for ecn in [false, true] {
            let node = Red { ecn, weight: fixed(Parts::percent(5)), ..red() };
            let (mut scheme, mut model) = (Single::new(node), Model::default());
            for step in 0..20_000u32 {
                // Unlike TCP, this source does not slow down when packets are lost or marked.
                let packets = 1 + usize::from(step % 16 == 0);
                let record = Record { length: 1000, ecn: 1, ..Record::default() };
                model.arrive_all(&mut scheme, core::iter::repeat_n(record, packets));
                model.ready(&mut scheme, 1);
                model.now += Nanos::micros(800);
            }
            let refused = model.fated(|fate| matches!(fate, Fate::Refused(_)));
            if ecn {
                assert!(model.marked.len() > 1000 && refused < 400, "{} {refused}", model.marked.len());
            } else {
                assert!((900..1500).contains(&refused) && model.marked.is_empty(), "{refused}");
                assert!(model.waiting() < 20);
            }
        }
    }

    #[test]
    fn packet_beyond_the_limit_is_refused_at_any_average() {
        let node = Red { limit: 3, ..red() };
        let (mut scheme, mut model) = (Single::new(node), Model::default());
        model.arrive(&mut scheme, &[1000; 5]);
        assert_eq!(model.fates, [Fate::Refused(3), Fate::Refused(4)]);
    }
}
