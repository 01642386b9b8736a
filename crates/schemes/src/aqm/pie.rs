//! PIE: arriving packets are dropped at random. The probability follows the queueing delay: it rises with the excess over the reference, and with the
//! increase since the last update (Pan et al., RFC 8033).
//!
//! The delay is read from the timestamp of the departing packet (section 4.3), not estimated from a rate (section 5.2). Updates of the probability
//! are made at arrivals and departures, one for each period that has passed.

use super::{Evaluation, Manage, QueueContext};
use crate::lfsr::Lfsr;
use crate::options::{BuildError, Values};
use crate::wires::{is_short, packet_bounds};
use crate::{Record, Size, Tell, Wires};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Bytes, Instant, Nanos, Parts};

/// A probability of one.
const ONE: i64 = 1 << 48;
/// The most missed updates that are made up for: 1024 idle updates reduce any probability to nothing (0.98^1024 < 10^-8).
const MOST_UPDATES: u64 = 1024;

/// PIE's parameters.
#[derive(Clone, Debug)]
pub struct Pie {
    /// The reference delay.
    pub reference: Nanos,
    /// The time between two updates.
    pub period: Nanos,
    /// The length of a burst without drops.
    pub burst: Nanos,
    /// The increase for a second above the reference, in millionths.
    pub alpha: u32,
    /// The increase for a second more than at the last update, in millionths.
    pub beta: u32,
    /// True to mark ECN-capable packets while the probability is at most `ecn_most`.
    pub ecn: bool,
    /// Above this probability packets are dropped instead of marked.
    pub ecn_most: Parts,
    /// The usual packet size. A packet is never dropped while two such packets or less wait.
    pub mean: Bytes,
    /// The most packets that wait.
    pub limit: u32,
    chance: Lfsr,
}

/// PIE's state of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct PieMemory {
    probability: i64,
    /// The delay of the packet that left last; now, and at the last update.
    delay: Nanos,
    previous_delay: Nanos,
    /// The rest of the burst allowance.
    allowance: Nanos,
    /// When the next update is due; none before the first packet.
    next_update: Option<Instant>,
    /// The sum of the probabilities since the last drop, which keeps drops neither too close together nor too far apart (section 5.4).
    accumulated: i64,
}

impl PieMemory {
    /// The probability, of 2^32.
    pub fn probability(&self) -> u64 {
        // From 48 to 32 fractional bits: `Lfsr::happens` compares 32-bit numbers.
        (self.probability >> 16) as u64
    }
}

impl Pie {
    /// The declaration for configurations.
    pub const DECLARATION: Declaration = Declaration {
        name: "pie",
        summary: "drops at random to keep the queueing delay near `target`",
        cost: DeclaredCost::None,
        source: "RFC 8033",
        options: &[
            OptionDeclaration {
                name: "target",
                unit: Unit::Time,
                default: "15ms",
                least: 1_000,
                most: 4_000_000_000,
                doc: "the reference delay",
            },
            OptionDeclaration {
                name: "update",
                unit: Unit::Time,
                default: "15ms",
                least: 100_000,
                most: 4_000_000_000,
                doc: "the time between two updates of the probability",
            },
            OptionDeclaration {
                name: "burst",
                unit: Unit::Time,
                default: "150ms",
                least: 0,
                most: 60_000_000_000,
                doc: "the length of a burst without drops",
            },
            OptionDeclaration {
                name: "alpha",
                unit: Unit::Part,
                default: "12.5%",
                least: 0,
                most: 100_000_000,
                doc: "the increase of the probability for each second of delay above `target`",
            },
            OptionDeclaration {
                name: "beta",
                unit: Unit::Part,
                default: "125%",
                least: 0,
                most: 100_000_000,
                doc: "the increase of the probability for each second of delay more than at the last update",
            },
            super::ECN,
            OptionDeclaration {
                name: "ecn_max",
                unit: Unit::Part,
                default: "10%",
                least: 0,
                most: 1_000_000,
                doc: "above this probability packets are dropped, not marked",
            },
            OptionDeclaration {
                name: "mean",
                unit: Unit::Size,
                default: "1000b",
                least: 1,
                most: 1 << 20,
                doc: "the usual packet size; with at most two such packets waiting none is dropped",
            },
            super::LIMIT,
            super::red::SEED,
        ],
    };

    /// PIE with the defaults of RFC 8033, except for these parameters.
    pub fn new(reference: Nanos, period: Nanos, limit: u32, seed: u32) -> Pie {
        Pie {
            reference,
            period,
            burst: Nanos::millis(150),
            alpha: 125_000,
            beta: 1_250_000,
            ecn: false,
            ecn_most: Parts::percent(10),
            mean: Bytes::new(1000),
            limit,
            chance: Lfsr::new(seed),
        }
    }

    /// PIE with the values of its options.
    pub fn of(options: &Values<'_>) -> Result<Pie, BuildError> {
        let (reference, period) = (options.time("target")?, options.time("update")?);
        Ok(Pie {
            burst: options.time("burst")?,
            alpha: options.part("alpha")?.get(),
            beta: options.part("beta")?.get(),
            ecn: options.is_on("ecn")?,
            ecn_most: options.part("ecn_max")?,
            mean: options.bytes("mean")?,
            ..Pie::new(reference, period, options.count("limit")?, options.count("seed")?)
        })
    }

    /// Makes the updates that are due.
    #[inline]
    fn catch_up<W: Wires>(&self, memory: &mut PieMemory, at: &QueueContext<'_, W>) {
        let now = at.wires.now();
        // Without packets there is nothing to update: the first packet starts the periods, with a full burst allowance.
        let due = *memory.next_update.get_or_insert_with(|| {
            memory.allowance = self.burst;
            now + self.period
        });
        if now < due {
            return;
        }
        let missed = now.since(due).get() / self.period.get().max(1) + 1;
        // From the due time, not from now: the updates stay one period apart on average.
        memory.next_update = Some(due + self.period * missed);
        // An empty queue has no delay, although no departure reports it.
        if at.waiting.packets == 0 {
            memory.delay = Nanos::ZERO;
        }
        (0..missed.min(MOST_UPDATES)).for_each(|_| self.update(memory));
    }

    /// One update: sections 4.2 and 5.5, and the burst allowance of section 4.4.
    fn update(&self, memory: &mut PieMemory) {
        let nanos = |time: Nanos| i128::from(time.get());
        let above = nanos(memory.delay) - nanos(self.reference);
        let more = nanos(memory.delay) - nanos(memory.previous_delay);
        // Millionths of the effect of a second, times nanoseconds: the unit is 10^-15.
        // 128 bits: an hour of delay times the largest coefficient, 10^8, exceeds 64.
        let effect = above * i128::from(self.alpha) + more * i128::from(self.beta);
        // The clamp keeps the product with 2^48 below 2^127. It changes no result: 2^70 units are a probability above 10^6.
        let mut step = effect.clamp(-(1 << 70), 1 << 70) * i128::from(ONE) / 1_000_000_000_000_000;
        let below = |part: i64| memory.probability < ONE / part;
        // Section 4.2: smaller steps at a small probability.
        step /= match () {
            () if below(1_000_000) => 2048,
            () if below(100_000) => 512,
            () if below(10_000) => 128,
            () if below(1_000) => 32,
            () if below(100) => 8,
            () if below(10) => 2,
            () => 1,
        };
        if !below(10) {
            // Section 5.5: from a probability of 10 % on, it rises by at most 2 % an update.
            step = step.min(i128::from(ONE / 50));
        }
        let mut probability = i128::from(memory.probability) + step;
        if memory.delay == Nanos::ZERO && memory.previous_delay == Nanos::ZERO {
            // Without delay the probability decays by 2 % an update.
            probability -= probability / 50;
        }
        memory.probability = probability.clamp(0, ONE.into()) as i64;
        // Section 4.4: each update uses up one period of the allowance.
        memory.allowance = memory.allowance.saturating_sub(self.period);
        let short = |delay: Nanos| delay.get() < self.reference.get() / 2;
        // Section 4.4: the congestion is over, and the next burst gets a full allowance.
        if memory.probability == 0 && short(memory.delay) && short(memory.previous_delay) {
            memory.allowance = self.burst;
        }
        memory.previous_delay = memory.delay;
    }

    /// True if the arriving packet is dropped or marked (sections 4.1 and 5.4).
    fn is_selected<W: Wires>(&mut self, memory: &mut PieMemory, at: &QueueContext<'_, W>) -> bool {
        // Section 4.4: no drops while the burst allowance lasts.
        if memory.allowance > Nanos::ZERO {
            return false;
        }
        // Section 4.1: no drops at a short delay and a low probability.
        if memory.previous_delay.get() < self.reference.get() / 2 && memory.probability < ONE / 5 {
            return false;
        }
        // Section 4.1: no drops with at most two packets waiting.
        if at.waiting.bytes.get() <= 2 * self.mean.get() {
            return false;
        }
        memory.accumulated =
            if memory.probability == 0 { 0 } else { memory.accumulated.saturating_add(memory.probability) };
        // Section 5.4: below a sum of 0.85 no drop, from 8.5 on always one.
        if memory.accumulated < ONE / 100 * 85 {
            return false;
        }
        // Between the two bounds the draw has the probability itself: the sum only limits the distance between drops.
        let hit = memory.accumulated >= ONE / 2 * 17 || self.chance.happens(memory.probability());
        if hit {
            memory.accumulated = 0;
        }
        hit
    }

    /// True if the arriving packet may be enqueued. Marks it if it is hit and may be marked.
    fn admits<W: Wires>(&mut self, memory: &mut PieMemory, at: &mut QueueContext<'_, W>) -> bool {
        if !self.is_selected(memory, at) {
            return true;
        }
        // Section 5.1: at a high probability marks do not suffice. The division comes first, because 2^48 times a million exceeds 63 bits.
        let may_mark = self.ecn && memory.probability <= ONE / 1_000_000 * i64::from(self.ecn_most.get());
        may_mark && at.wires.mark()
    }
}

impl Manage for Pie {
    type Memory = PieMemory;
    const LOOKS: bool = true;

    #[inline]
    fn arrive<W: Wires>(&mut self, memory: &mut PieMemory, at: &mut QueueContext<'_, W>, packet: &Record) -> bool {
        // The updates come first, so that a packet after a pause is judged by the decayed probability.
        self.catch_up(memory, at);
        let kept = !at.is_full(self.limit, packet) && self.admits(memory, at) && at.wires.enqueue(at.queue);
        if !kept {
            // A tail drop also restarts the distance to the next drop (RFC 8033, appendix B).
            memory.accumulated = 0;
        }
        kept
    }

    #[inline]
    fn evaluate<W: Wires>(&mut self, memory: &mut PieMemory, at: &mut QueueContext<'_, W>) -> Evaluation {
        // Updates that were due before this departure use the delay known until then.
        self.catch_up(memory, at);
        let Some(packet) = at.wires.dequeue(at.queue) else { return Evaluation::Nothing };
        at.wires.transmit();
        // Section 4.3: the delay by timestamps, for the next update.
        memory.delay = at.wires.now().since(packet.timestamp);
        Evaluation::Sent(packet.length)
    }

    fn splits_super_frames(&self) -> bool {
        is_short(packet_bounds(self.limit))
    }

    fn state(&self, memory: &PieMemory, _: Instant, _: Size, tell: &mut Tell<'_>) {
        tell("p", memory.probability as f64 / ONE as f64);
        tell("qdelay", memory.delay.as_secs_f64());
        tell("burst_allowance", memory.allowance.as_secs_f64());
    }
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::{Model, ModelFate};
    use crate::single::Single;
    use proptest::prelude::*;

    fn pie() -> Pie {
        Pie::new(Nanos::millis(15), Nanos::millis(15), 10_000, 11)
    }

    /// For `millis` milliseconds `load` packets arrive in each, and one leaves.
    fn run(scheme: &mut Single<Pie>, model: &mut Model, millis: u64, load: f64) {
        let mut offered = 0.0;
        for _ in 0..millis {
            offered += load;
            while offered >= 1.0 {
                let record = Record { length: 1250, ecn: 1, ..Record::default() };
                model.arrive_all(scheme, [record].into_iter());
                offered -= 1.0;
            }
            model.ready(scheme, 1);
            model.now += Nanos::millis(1);
        }
    }

    #[test]
    fn pie_holds_target_delay_under_unresponsive_load() {
        let (mut scheme, mut model) = (Single::new(pie()), Model::default());
        run(&mut scheme, &mut model, 30_000, 1.25);
        let before = model.fates.len();
        run(&mut scheme, &mut model, 30_000, 1.25);
        let refused = model.fates[before..].iter().filter(|fate| matches!(fate, ModelFate::Refused(_))).count();
        let part = refused as f64 / 37_500.0;
        assert!((0.19..0.21).contains(&part), "a fifth is too much: {part}");
        assert!((8..25).contains(&model.waiting()), "15 ms are 15 packets: {}", model.waiting());
    }

    #[test]
    fn burst_within_its_allowance_loses_no_packet() {
        let (mut scheme, mut model) = (Single::new(pie()), Model::default());
        run(&mut scheme, &mut model, 140, 3.0);
        assert_eq!(model.count_fates(|fate| matches!(fate, ModelFate::Refused(_))), 0);
        run(&mut scheme, &mut model, 400, 3.0);
        assert!(model.count_fates(|fate| matches!(fate, ModelFate::Refused(_))) > 0, "it lasts longer");
    }

    #[test]
    fn congestion_estimate_decays_while_no_packets_arrive() {
        let (mut scheme, mut model) = (Single::new(pie()), Model::default());
        run(&mut scheme, &mut model, 3000, 2.0);
        assert!(scheme.memory().probability() > 1 << 28);
        while model.waiting() > 0 {
            model.ready(&mut scheme, 100);
        }
        model.now += Nanos::secs(20);
        model.arrive(&mut scheme, &[100]);
        assert!(scheme.memory().probability() < 1 << 18, "{}", scheme.memory().probability());
    }

    #[test]
    fn pie_marks_at_a_low_probability_and_drops_at_a_high_one() {
        let (mut scheme, mut model) = (Single::new(Pie { ecn: true, ..pie() }), Model::default());
        run(&mut scheme, &mut model, 3000, 1.04);
        assert!(!model.marked.is_empty());
        run(&mut scheme, &mut model, 10_000, 2.0);
        assert!(model.count_fates(|fate| matches!(fate, ModelFate::Refused(_))) > 3000);
    }

    #[test]
    fn pie_tail_drop_resets_accumulated_probability() {
        let mut model = Model::default();
        let mut scheme = Single::new(Pie { limit: 3, ..pie() });
        // One more packet could be dropped: the sum has passed 0.85.
        let near = PieMemory {
            probability: ONE / 10,
            next_update: Some(Instant::new(1)),
            accumulated: ONE,
            previous_delay: Nanos::millis(15),
            ..PieMemory::default()
        };
        scheme.remember(near);
        model.arrive(&mut scheme, &[1000; 3]);
        assert!(
            model.fates.is_empty() && scheme.memory().accumulated >= ONE,
            "nothing is dropped with two packets waiting"
        );
        model.arrive(&mut scheme, &[1000]);
        assert_eq!((model.fates.len(), scheme.memory().accumulated), (1, 0));
    }

    /// RFC 8033, sections 4.2 and 5.5, in floating point.
    fn real(p: f64, delay: f64, before: f64) -> f64 {
        let (alpha, beta, reference) = (0.125, 1.25, 0.015);
        let mut step = alpha * (delay - reference) + beta * (delay - before);
        let tuned = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (0.1, 2.0)];
        step /= tuned.iter().find(|(below, _)| p < *below).map_or(1.0, |(_, by)| *by);
        if p >= 0.1 {
            step = step.min(0.02);
        }
        let p = p + step;
        (if delay == 0.0 && before == 0.0 { p * 0.98 } else { p }).clamp(0.0, 1.0)
    }

    proptest! {
        /// Each update is compared from the state before it. Near a bound of the RFC's table the last bit may select another row, after which a
        /// longer sequence would diverge.
        #[test]
        fn pie_rfc8033_probability(delays in prop::collection::vec(prop_oneof![Just(0u64), 0u64..60_000_000], 1..400)) {
            let (pie, mut memory, mut before) = (pie(), PieMemory::default(), 0.0);
            for delay in delays {
                let seconds = delay as f64 / 1e9;
                let expected = real(memory.probability as f64 / ONE as f64, seconds, before);
                memory.delay = Nanos::new(delay);
                pie.update(&mut memory);
                let probability = memory.probability as f64 / ONE as f64;
                prop_assert!((probability - expected).abs() < 1e-12, "{probability} for {expected}");
                before = seconds;
            }
        }
    }

    #[test]
    fn no_drop_while_two_packets_wait_or_delay_is_below_half_the_target() {
        let sure = PieMemory {
            probability: ONE / 5,
            next_update: Some(Instant::new(1)),
            accumulated: ONE,
            ..PieMemory::default()
        };
        let mut model = Model::default();
        let mut node = pie();
        let mut scheme = Single::new(pie());
        model.arrive(&mut scheme, &[1000, 1000]);
        let mut ask = |memory: PieMemory, model: &mut Model| {
            let queue = units::QueueId(0);
            let at = QueueContext { backlog: Bytes::ZERO, queue, waiting: model.size(queue), wires: model };
            (0..100).any(|_| node.is_selected(&mut memory.clone(), &at))
        };
        let (late, short) = (Nanos::millis(15), Nanos::millis(4));
        assert!(!ask(PieMemory { previous_delay: late, ..sure }, &mut model), "two packets wait");
        model.arrive(&mut scheme, &[1]);
        assert!(ask(PieMemory { previous_delay: late, ..sure }, &mut model));
        assert!(!ask(PieMemory { previous_delay: late, allowance: late, ..sure }, &mut model), "a burst");
        assert!(
            ask(PieMemory { previous_delay: short, ..sure }, &mut model),
            "a fifth is dropped however short the delay"
        );
        assert!(!ask(PieMemory { previous_delay: short, probability: ONE / 5 - 1, ..sure }, &mut model));
    }
}
