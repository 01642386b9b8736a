//! RED: packets are dropped or marked at random, with a probability that rises with the average queue length (Floyd and Jacobson, IEEE/ACM
//! Transactions on Networking 1(4), 1993). All decisions are made at arrivals.
//!
//! Gaps between drops are uniform: p_a = p_b / (1 - count p_b) (section 7, method 2). The average has 32 fractional bits. With 16 bits, a weight of
//! 0.002 would lose differences below 0.01 packets.

use super::{Evaluation, Manage, QueueContext};
use crate::lfsr::Lfsr;
use crate::options::{BuildError, Values, switch};
use crate::wires::{is_short, packet_bounds};
use crate::{Record, Size, Tell, Wires};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Bytes, Instant, Nanos, Parts, Rate};

/// One packet, or a probability of one: fixed-point numbers have 32 fractional bits.
const ONE: u64 = 1 << 32;

/// RED's parameters.
#[derive(Clone, Debug)]
pub struct Red {
    /// The average in packets below which no packet is dropped.
    pub min_threshold: u32,
    /// The average from which all packets are dropped, unless `gentle`.
    pub max_threshold: u32,
    /// The probability just below `max_threshold`, of 2^32.
    pub max_probability: u64,
    /// The weight of a packet in the average, of 2^32.
    pub weight: u64,
    /// If true the probability rises to one between `max_threshold` and twice that, instead of at once.
    pub gentle: bool,
    /// The packet length with the full probability, if the probability is proportional to the length.
    pub byte_mode: Option<Bytes>,
    /// True to mark packets instead if they are ECN-capable.
    pub ecn: bool,
    /// The mean packet length: while the queue is empty the average decays as if such packets left.
    pub mean: Bytes,
    /// The most packets that wait.
    pub limit: u32,
    chance: Lfsr,
}

/// RED's state of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedMemory {
    /// The average in packets, with 32 fractional bits.
    average: u64,
    /// Packets since the last drop; none while the average is below `min_threshold`.
    count: Option<u32>,
    /// The time up to which idle time is accounted for.
    idle_until: Instant,
    /// When the queue was last known to be non-empty.
    last_busy: Instant,
    /// Idle time that the average has not decayed for yet: less than a packet time.
    idle: Nanos,
}

impl RedMemory {
    /// The average queue length in packets, with 16 fractional bits.
    pub fn average_q16(&self) -> u64 {
        self.average >> 16
    }

    /// Updates the average for a packet that arrives now.
    #[inline(always)]
    pub(super) fn update(&mut self, weight: u64, waiting: u32, now: Instant, rate: Rate, mean: Bytes) {
        if waiting > 0 {
            // avg + w (q - avg), figure 2 of the paper. The option `limit` allows 10^8 packets, so the difference and its product with the weight are
            // below 2^60.
            let above = (i64::from(waiting) << 32).wrapping_sub_unsigned(self.average);
            // Rounded down, also below the average: multiply the whole packets and the fraction separately.
            let (whole, part) = (above >> 32, above as u64 & (ONE - 1));
            let change = whole * weight as i64 + ((part * weight) >> 32) as i64;
            self.average = self.average.wrapping_add_signed(change);
            self.mark_busy(now);
        } else {
            self.decay(weight, now, rate.time_for(mean));
        }
    }

    /// A packet waits now or has just left.
    #[inline(always)]
    pub(super) fn mark_busy(&mut self, now: Instant) {
        (self.idle_until, self.last_busy) = (now, now);
    }

    /// Records whether the arriving packet, which found `waiting` packets, was enqueued.
    #[inline(always)]
    pub(super) fn record_arrival(&mut self, kept: bool, waiting: u32, now: Instant) -> bool {
        // If packets waited, `update` has recorded the time.
        if waiting == 0 && kept {
            self.mark_busy(now);
        }
        kept
    }

    /// Decays the average when a packet arrives at an empty queue; `packet` is the link's time for a packet of mean length. The queue was empty since
    /// `idle_until`, also if another scheme emptied it. Idle time counts once, even if packets are refused meanwhile. A remainder below one packet
    /// time is kept.
    #[inline(never)]
    fn decay(&mut self, weight: u64, now: Instant, packet: Nanos) {
        let since = core::mem::replace(&mut self.idle_until, now);
        // The usual case of an uncongested queue: no division.
        if self.average == 0 {
            return;
        }
        self.idle += now.since(since);
        let packet = packet.get().max(1);
        // m = (time - q_time) / s, and avg becomes (1 - w)^m avg (figure 2 of the paper).
        let packets = self.idle.get() / packet;
        self.idle = Nanos::new(self.idle.get() - packets * packet);
        self.average = times(self.average, power(ONE - weight, packets));
        // Otherwise a slow link or a small weight could keep the average above `max`, and an idle queue would refuse packets.
        if now.since(self.last_busy) >= super::FORGOTTEN {
            self.average = 0;
        }
    }

    /// After a change of parameters, starts with the queue length if the average is above it.
    pub(super) fn cap_average(&mut self, waiting: u32) {
        self.average = self.average.min(u64::from(waiting) << 32);
        // The count belongs to the probability of the old parameters.
        self.count = None;
    }
}

/// The product of two fixed-point numbers, of which the second is at most one. It is computed in two steps, because WebAssembly has no 128-bit
/// multiplication.
#[inline]
fn times(a: u64, b: u64) -> u64 {
    // No overflow: `b` is at most one, so the product of the upper part is at most `a`.
    (a >> 32) * b + (((a & (ONE - 1)) * b) >> 32)
}

/// `base` to the power of `exponent`, by repeated squaring.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = ONE;
    // After a long idle time the result soon rounds to zero: stop there.
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
pub(super) enum RedDecision {
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
            min_threshold: least,
            max_threshold: most.max(least + 1),
            max_probability: fixed(maxp),
            weight: fixed(weight),
            gentle: true,
            byte_mode: None,
            ecn: false,
            mean: Bytes::new(500),
            limit,
            chance: Lfsr::new(seed),
        }
    }

    /// RED with the values of its options.
    pub fn of(options: &Values<'_>) -> Result<Red, BuildError> {
        Ok(Red {
            byte_mode: options.choice("mode", &[None, Some(options.bytes("mtu")?)])?,
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

    /// The probability p_b by the average alone, of 2^32; none below `min_threshold`.
    #[inline]
    fn base_probability(&self, average: u64) -> Option<u64> {
        let (least, most) = (u64::from(self.min_threshold) << 32, u64::from(self.max_threshold) << 32);
        if average < least {
            return None;
        }
        // Both are fixed-point, and the divisor is a whole number: a 64-bit division is exact enough.
        let part = |above: u64, of: u64| above / (of >> 32);
        // p_b = maxp (avg - min) / (max - min), figure 2 of the paper. With `gentle` (Floyd, 2000) p_b then rises from maxp to one.
        Some(if average < most {
            times(self.max_probability, part(average - least, most - least))
        } else if self.gentle && average < 2 * most {
            self.max_probability + times(ONE - self.max_probability, part(average - most, most))
        } else {
            ONE
        })
    }

    /// Decides whether the arriving packet is hit, by the present average.
    #[inline(always)]
    pub(super) fn decide(&mut self, memory: &mut RedMemory, length: u32) -> RedDecision {
        let Some(mut base) = self.base_probability(memory.average) else {
            memory.count = None;
            return RedDecision::Spared;
        };
        if base >= ONE {
            // A certain drop restarts the count like any other.
            memory.count = Some(0);
            return RedDecision::Hit;
        }
        // The first packet at or above `min_threshold` has the count zero.
        let count = memory.count.map_or(0, |count| count.saturating_add(1));
        // The option of the paper for a probability in proportion to the length: p_b L / MTU.
        if let Some(mtu) = self.byte_mode {
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
        if hit { RedDecision::Hit } else { RedDecision::Spared }
    }

    /// Reports the average and its probability (p_b of the paper).
    pub(super) fn report_state(&self, memory: &RedMemory, tell: &mut Tell<'_>) {
        tell("avg", memory.average as f64 / ONE as f64);
        tell("p", self.base_probability(memory.average).unwrap_or(0) as f64 / ONE as f64);
    }

    /// Updates the average for a packet that arrives now.
    #[inline(always)]
    pub(super) fn update_average<W: Wires>(&self, memory: &mut RedMemory, at: &QueueContext<'_, W>, waiting: u32) {
        memory.update(self.weight, waiting, at.wires.now(), at.wires.link_rate(), self.mean);
    }
}

impl Manage for Red {
    type Memory = RedMemory;

    #[inline(always)]
    fn arrive<W: Wires>(&mut self, memory: &mut RedMemory, at: &mut QueueContext<'_, W>, packet: &Record) -> bool {
        let waiting = at.waiting.packets;
        self.update_average(memory, at, waiting);
        // Refused packets update the average too: their arrival was counted above.
        let kept = !at.is_full(self.limit, packet)
            && match self.decide(memory, packet.length) {
                // `mark` is false for a packet that is not ECN-capable: that one is dropped.
                RedDecision::Hit if !(self.ecn && at.wires.mark()) => false,
                _ => at.wires.enqueue(at.queue),
            };
        memory.record_arrival(kept, waiting, at.wires.now());
        // Each further segment of a super-frame finds the segments before it waiting, if they were enqueued.
        (1..packet.packets())
            .for_each(|before| self.update_average(memory, at, waiting + if kept { before } else { 0 }));
        kept
    }

    #[inline(always)]
    fn evaluate<W: Wires>(&mut self, memory: &mut RedMemory, at: &mut QueueContext<'_, W>) -> Evaluation {
        // The idle time of the average begins with the last departure.
        let turn = at.send();
        if turn != Evaluation::Nothing {
            memory.mark_busy(at.wires.now());
        }
        turn
    }

    #[inline(always)]
    fn send_unconditionally<W: Wires>(&mut self, memory: &mut RedMemory, at: &mut QueueContext<'_, W>) {
        // RED decides only about arrivals: any waiting packet may leave, however long it waited.
        if at.wires.send_while(at.queue, Instant::START) > 0 {
            memory.mark_busy(at.wires.now());
        }
    }

    fn parameters_changed(&self, memory: &mut RedMemory, waiting: Size) {
        memory.cap_average(waiting.packets);
    }

    fn splits_super_frames(&self) -> bool {
        is_short(packet_bounds(self.limit))
    }

    fn state(&self, memory: &RedMemory, _: Instant, _: Size, tell: &mut Tell<'_>) {
        self.report_state(memory, tell);
    }
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::{Model, ModelFate};
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
        fn red_average_equals_floating_point(
            arrivals in prop::collection::vec((0u32..100, 0u64..200), 1..2000),
            weight in 100u32..100_000,
        ) {
            let (rate, mean) = (Rate::mbit(10), Bytes::new(500));
            let (mut memory, mut exact) = (RedMemory::default(), 0.0f64);
            let part = f64::from(weight) / 1e6;
            let mut now = Instant::START;
            for (waiting, idle) in arrivals {
                if waiting == 0 {
                    memory.mark_busy(now);
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
        let mut memory = RedMemory { average: 100 * ONE, ..RedMemory::default() };
        // 400 us a packet: (1 - 0.01)^100 is 0.366.
        memory.update(weight, 0, Instant::START + Nanos::millis(40), rate, mean);
        assert!((36.5..36.7).contains(&(memory.average as f64 / ONE as f64)));
        memory.update(weight, 0, Instant::START + Nanos::secs(1 << 20), rate, mean);
        assert_eq!(memory.average, 0, "after weeks nothing is left");
    }

    /// Gaps between hits at a constant average.
    fn gaps(red: &mut Red, average: u64, hits: usize) -> Vec<u32> {
        let mut memory = RedMemory { average: average * ONE, ..RedMemory::default() };
        let (mut gaps, mut gap) = (Vec::new(), 0);
        while gaps.len() < hits {
            gap += 1;
            if red.decide(&mut memory, 1000) == RedDecision::Hit {
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
        let mut bytewise = Red { byte_mode: Some(Bytes::new(2000)), ..red() };
        let mean = |gaps: &[u32]| gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
        let (half, whole) = (mean(&gaps(&mut bytewise, 10, 20_000)), mean(&gaps(&mut red(), 10, 20_000)));
        assert!((1.85..2.1).contains(&(half / whole)), "{half} and {whole}");
    }

    #[test]
    fn red_holds_average_between_thresholds() {
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
            let refused = model.count_fates(|fate| matches!(fate, ModelFate::Refused(_)));
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
        assert_eq!(model.fates, [ModelFate::Refused(3), ModelFate::Refused(4)]);
    }
}
