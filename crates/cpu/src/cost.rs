//! The cost of the packets of a path, measured while they are forwarded (Qie et al. 2001, section 4.4).
//!
//! The batching throttle computes its thresholds from the mean, and admission control its shares. The operator is warned of a path that costs more
//! than declared. All arithmetic is in whole numbers, so that equal runs give equal results.

use units::{Instant, Nanos, PacketRate};

/// Means are kept in 2^-8 ns.
const FRACTION: u32 = 8;
/// The weight of a packet in the averages is `1 / WINDOW`. A vector weighs as much as its packets, but at most a quarter.
const WINDOW: u64 = 64;
const MOST_WEIGHT: u64 = WINDOW / 4;
/// The highest cost of a packet that is counted.
const MOST_COST: Nanos = Nanos::secs(1);
/// The number of packets before the first verdict.
const ENOUGH: u64 = 64;

/// The measured cost of a path, compared with the declared one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CostVerdict {
    /// No cost is declared, or too few packets were measured.
    #[default]
    Unknown,
    /// The path costs no more than declared.
    Within,
    /// The path costs over 10 % more than declared. It leaves this state below 5 %.
    Exceeds,
}

/// The offered and forwarded rate of a path and its need of processor time, since the last sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CostSample {
    /// Packets that arrived, dropped ones included.
    pub offered: PacketRate,
    /// Packets that were processed.
    pub served: PacketRate,
    /// The time that all packets that arrived would take at the mean cost: the input of [`Tuning`](super::Tuning).
    pub needed: Nanos,
    /// The length of the sample.
    pub elapsed: Nanos,
    /// The measured cost compared with the declared one.
    pub verdict: CostVerdict,
}

/// The meter of one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathCost {
    declared: Option<Nanos>,
    /// In 2^-8 ns.
    mean: u64,
    /// Of the cost of a single packet, in ns^2.
    variance: u64,
    /// Packets measured since the beginning, and the time they took.
    packets: u64,
    took: Nanos,
    /// Packets and time of the current run.
    run: (u64, Nanos),
    /// The mean number of packets of a run, in thousandths, and the mean cost of a run.
    batch: u64,
    run_cost: Nanos,
    offered: u64,
    served: u64,
    since: Instant,
    verdict: CostVerdict,
}

impl PathCost {
    /// A meter without measurements. `declared` is the declared cost of a packet of the size the path is meant for.
    pub fn new(declared: Option<Nanos>, now: Instant) -> PathCost {
        PathCost {
            declared,
            mean: 0,
            variance: 0,
            packets: 0,
            took: Nanos::ZERO,
            run: (0, Nanos::ZERO),
            batch: 0,
            run_cost: Nanos::ZERO,
            offered: 0,
            served: 0,
            since: now,
            verdict: CostVerdict::Unknown,
        }
    }

    /// Changes the declared cost. Measurements are kept.
    pub fn declare(&mut self, declared: Option<Nanos>) {
        if self.declared != declared {
            self.declared = declared;
            self.verdict = CostVerdict::Unknown;
        }
    }

    /// Counts packets that arrived for the path, dropped ones included.
    #[inline]
    pub fn count_offered(&mut self, packets: u32) {
        self.offered += u64::from(packets);
    }

    /// A vector of `packets` took `used`. An empty one counts into the run, but says nothing about the cost of a packet.
    #[inline]
    pub fn record_vector(&mut self, packets: u32, used: Nanos) {
        let packets = u64::from(packets);
        self.run = (self.run.0 + packets, self.run.1 + used);
        if packets == 0 {
            return;
        }
        self.served += packets;
        // 2^55 ns are a year: a longer vector would overflow the shift.
        let each = ((used.get().min(1 << 55) << FRACTION) / packets).min(MOST_COST.get() << FRACTION);
        if self.packets == 0 {
            // The first vector sets the mean. From zero the mean would need hundreds of packets to arrive there.
            self.mean = each;
        } else {
            self.average(each, packets);
        }
        self.packets = self.packets.saturating_add(packets);
        self.took += used;
    }

    fn average(&mut self, each: u64, packets: u64) {
        let weight = packets.min(MOST_WEIGHT);
        // Half of the divisor is added, so that the mean is rounded and reaches a constant cost.
        self.mean = (self.mean * (WINDOW - weight) + each * weight + WINDOW / 2) / WINDOW;
        // The variance of a mean of n costs is 1/n of that of one cost: multiply by n.
        let off = u128::from(each.abs_diff(self.mean) >> FRACTION);
        let square = off * off * u128::from(packets);
        let sum = u128::from(self.variance) * u128::from(WINDOW - weight) + square * u128::from(weight);
        self.variance = u64::try_from(sum / u128::from(WINDOW)).unwrap_or(u64::MAX);
    }

    /// Ends a run: all vectors since the last call belong to it.
    #[inline]
    pub fn end_run(&mut self) {
        let (packets, used) = core::mem::take(&mut self.run);
        if packets > 0 {
            // An average over about 16 runs. The first run sets it.
            let slowly = |old: u64, new: u64| if old == 0 { new } else { old - old / 16 + new / 16 };
            self.batch = slowly(self.batch, packets * 1000);
            self.run_cost = Nanos::new(slowly(self.run_cost.get(), used.get()));
        }
    }

    /// The mean cost of a packet; the declared one before the first measurement, or none.
    #[inline]
    pub fn mean(&self) -> Option<Nanos> {
        if self.packets == 0 {
            self.declared
        } else {
            Some(Nanos::new((self.mean + (1 << (FRACTION - 1))) >> FRACTION))
        }
    }

    /// The mean cost of a packet since the beginning, once enough were measured. It follows changes more slowly than [`PathCost::mean`], and is
    /// robust against moments in which another process had the processor.
    pub fn long_mean(&self) -> Option<Nanos> {
        (self.packets >= ENOUGH).then(|| Nanos::new(self.took.get().div_ceil(self.packets)))
    }

    /// The declared cost.
    pub fn declared(&self) -> Option<Nanos> {
        self.declared
    }

    /// The variance of a packet's cost, in ns^2.
    pub fn variance(&self) -> u64 {
        self.variance
    }

    /// The standard deviation of a packet's cost.
    pub fn deviation(&self) -> Nanos {
        Nanos::new(self.variance.isqrt())
    }

    /// Packets measured.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The mean number of packets of a run, in thousandths.
    pub fn batch_milli(&self) -> u64 {
        self.batch
    }

    /// The mean time of a run.
    pub fn run_cost(&self) -> Nanos {
        self.run_cost
    }

    /// Ends a period and returns its rates and the verdict.
    pub fn sample(&mut self, now: Instant) -> CostSample {
        let elapsed = now.since(self.since);
        let (offered, served) = (core::mem::take(&mut self.offered), core::mem::take(&mut self.served));
        self.since = now;
        self.verdict = self.verdict();
        // In 128 bits: a measured mean has up to 38 bits (`MOST_COST`), and a declared one may have more.
        let needed =
            Nanos::new(u64::try_from((u128::from(offered) * self.fine_mean()) >> FRACTION).unwrap_or(u64::MAX));
        let rate = |packets: u64| match elapsed {
            Nanos::ZERO => PacketRate::ZERO,
            span => {
                let rate = u128::from(packets) * 1_000_000_000 / u128::from(span.get());
                PacketRate::pps(u64::try_from(rate).unwrap_or(u64::MAX))
            }
        };
        CostSample { offered: rate(offered), served: rate(served), needed, elapsed, verdict: self.verdict }
    }

    /// The mean in 2^-8 ns.
    fn fine_mean(&self) -> u128 {
        match self.packets {
            0 => u128::from(self.declared.unwrap_or(Nanos::ZERO).get()) << FRACTION,
            _ => self.mean.into(),
        }
    }

    /// Compares the measured cost with the declared one.
    pub fn verdict(&self) -> CostVerdict {
        let Some(declared) = self.declared.filter(|_| self.packets >= ENOUGH) else { return CostVerdict::Unknown };
        // Hysteresis: exceeded above 110 %, until the cost is at most 105 %.
        let allowed = if self.verdict == CostVerdict::Exceeds { 105 } else { 110 };
        let over = self.fine_mean() * 100 > (u128::from(declared.get()) << FRACTION) * allowed;
        if over { CostVerdict::Exceeds } else { CostVerdict::Within }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: Nanos = Nanos::micros(1);

    fn meter(declared: u64) -> PathCost {
        PathCost::new(Some(Nanos::new(declared)), Instant::START)
    }

    #[test]
    fn unmeasured_path_has_declared_cost() {
        assert_eq!(PathCost::new(None, Instant::START).mean(), None);
        let mut cost = meter(6_000);
        assert_eq!(cost.mean(), Some(US * 6));
        cost.record_vector(0, US * 50);
        assert_eq!(cost.mean(), Some(US * 6), "a look at an empty queue is no packet");
        cost.record_vector(1, US * 9);
        assert_eq!((cost.mean(), cost.variance()), (Some(US * 9), 0));
    }

    #[test]
    fn constant_cost_is_measured_exactly_with_any_vector_size() {
        let mut cost = meter(0);
        for packets in (1..200).map(|n| n % 37 + 1) {
            cost.record_vector(packets, Nanos::new(333) * u64::from(packets));
        }
        assert_eq!((cost.mean(), cost.deviation()), (Some(Nanos::new(333)), Nanos::ZERO));
    }

    #[test]
    fn changed_cost_is_measured_within_a_few_hundred_packets() {
        let mut cost = meter(0);
        (0..1000).for_each(|_| cost.record_vector(1, US));
        (0..300).for_each(|_| cost.record_vector(1, US * 10));
        let mean = cost.mean().unwrap();
        assert!((Nanos::new(9_900)..=US * 10).contains(&mean), "{mean}");
    }

    /// Packets of 1 and 9 us in turn: the mean is 5 us, the deviation 4 us. Vectors of two would all cost the same.
    #[test]
    fn variance_is_per_packet() {
        let mut cost = meter(0);
        (0..5000u64).for_each(|i| cost.record_vector(1, US * (1 + 8 * (i % 2))));
        assert!(cost.mean().unwrap().get().abs_diff(5_000) < 100, "{:?}", cost.mean());
        assert!(cost.deviation().get().abs_diff(4_000) < 200, "{}", cost.deviation());
    }

    #[test]
    fn verdict_exceeds_until_cost_is_below_a_twentieth_over_declared() {
        let mut cost = meter(1_000);
        let mut verdict = |each: u64, packets: u32| {
            (0..packets).for_each(|_| cost.record_vector(1, Nanos::new(each)));
            cost.sample(Instant::START).verdict
        };
        assert_eq!(verdict(2_000, 63), CostVerdict::Unknown, "too few packets");
        assert_eq!(verdict(2_000, 1), CostVerdict::Exceeds);
        assert_eq!(verdict(1_080, 5_000), CostVerdict::Exceeds, "not below a twentieth more yet");
        assert_eq!(verdict(1_040, 5_000), CostVerdict::Within);
        assert_eq!(verdict(1_080, 5_000), CostVerdict::Within, "not above a tenth more");
        assert_eq!(verdict(1_150, 5_000), CostVerdict::Exceeds);
        cost.declare(Some(Nanos::new(2_000)));
        assert_eq!(cost.sample(Instant::START).verdict, CostVerdict::Within);
        cost.declare(None);
        assert_eq!(cost.sample(Instant::START).verdict, CostVerdict::Unknown);
    }

    #[test]
    fn sample_reports_offered_rate_served_rate_and_needed_time() {
        let mut cost = meter(0);
        cost.count_offered(1_000);
        (0..20).for_each(|_| cost.record_vector(16, US * 32));
        let sample = cost.sample(Instant::START + Nanos::millis(10));
        assert_eq!((sample.offered, sample.served), (PacketRate::kpps(100), PacketRate::kpps(32)));
        assert_eq!((sample.needed, sample.elapsed), (Nanos::millis(2), Nanos::millis(10)));
        let quiet = cost.sample(Instant::START + Nanos::millis(20));
        assert_eq!((quiet.offered, quiet.served, quiet.needed), (PacketRate::ZERO, PacketRate::ZERO, Nanos::ZERO));
        assert_eq!(cost.sample(Instant::START + Nanos::millis(20)).offered, PacketRate::ZERO, "no time has passed");
    }

    #[test]
    fn runs_are_averaged_over_their_vectors() {
        let mut cost = meter(0);
        for _ in 0..100 {
            (0..4).for_each(|_| cost.record_vector(8, US * 8));
            cost.end_run();
            cost.end_run();
        }
        assert_eq!((cost.batch_milli(), cost.run_cost()), (32_000, US * 32));
    }

    proptest! {
        #[test]
        fn mean_lies_between_minimum_and_maximum_without_overflow(
            vectors in prop::collection::vec((1u32.., any::<u64>()), 1..200)
        ) {
            let mut cost = meter(u64::MAX);
            let each = |&(packets, used): &(u32, u64)| (used.min(1 << 55) / u64::from(packets)).min(MOST_COST.get());
            let (least, most) = (vectors.iter().map(each).min().unwrap(), vectors.iter().map(each).max().unwrap());
            for &(packets, used) in &vectors {
                cost.count_offered(packets);
                cost.record_vector(packets, Nanos::new(used));
                cost.end_run();
            }
            let mean = cost.mean().unwrap().get();
            prop_assert!(least <= mean + 1 && mean <= most + 1, "{least} {mean} {most}");
            cost.sample(Instant::NEVER);
        }
    }
}
