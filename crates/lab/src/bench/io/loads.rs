//! The highest forwarding rate over many offered loads: the maximum forwarding rate (MFR) of RFC 2285, section 3.6.3.
//!
//! A flood of far more packets than a router forwards measures how it drops packets, in particular if the sender shares a processor with the router.
//! So packets are offered at a number of rates, from far below the forwarding rate to far above. The highest output rate is the router's capacity.
//! The output rate under a flood (FRMOL, section 3.6.2) is reported too.
//!
//! All routers are offered the same loads for the same time, one after the other, load by load and round by round. The rate at a load is the median
//! over the rounds, so one lucky round does not decide. The ratio to the kernel's router compares rounds in pairs, each router at the load at which
//! it forwards the most.

use super::super::{Progress, median, medians};
use super::lane::LaneKind;
use super::packets::{ForwardingRates, OfferedLoad, Packets};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use units::Nanos;

/// The offered loads as fractions of the best lane's rate. They are dense around the expected rates of the kernel and of `xdp`. A flood is added.
const LOADS: [f64; 18] =
    [0.25, 0.32, 0.4, 0.5, 0.6, 0.68, 0.74, 0.79, 0.84, 0.89, 0.94, 1.0, 1.06, 1.12, 1.2, 1.3, 1.45, 1.7];
/// How long a load is offered, and the warm-up before it is counted.
const SPAN: Nanos = Nanos::millis(70);
const WARMUP: Nanos = Nanos::millis(20);
/// The survey that finds the range of loads: the first load in packets a second, the factor from one to the next, and their number.
const FIRST: (f64, f64) = (125e3, 1.5);
/// The first load and the factor for lanes of any rate.
const FIRST_OF_ANY: (f64, f64) = (2e3, 2.0);
const STEPS: i32 = 14;

/// The forwarding rates of a lane, in packets a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MaximumRates {
    /// The maximum forwarding rate.
    pub rate: f64,
    /// The load offered at that rate.
    pub offered: f64,
    /// The forwarding rate under a flood (at the maximum offered load).
    pub flooded: f64,
}

/// A lane beside the kernel's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LaneComparison {
    /// The kind of the lane.
    pub kind: LaneKind,
    /// Its forwarding rates.
    pub ours: MaximumRates,
    /// The kernel's forwarding rates.
    pub kernel: MaximumRates,
    /// Median over the rounds of the ratio of rates, each lane at its best load.
    pub ratio: f64,
    /// The same under a flood.
    pub flooded: f64,
}

/// The result of each load in each round, for one lane.
pub struct LoadRounds(Vec<Vec<ForwardingRates>>);

impl LoadRounds {
    /// The load with the highest output rate.
    fn best(&self) -> usize {
        let rate = |load: &usize| median(self.0.iter().map(|round| round[*load].out).collect());
        (0..=LOADS.len()).max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(0)
    }

    /// The medians over the rounds.
    pub fn maximum_rates(&self) -> MaximumRates {
        let best = self.best();
        let of = |value: &dyn Fn(&Vec<ForwardingRates>) -> f64| median(self.0.iter().map(value).collect());
        MaximumRates {
            rate: of(&|round| round[best].out),
            offered: of(&|round| round[best].offered),
            flooded: of(&|round| round[LOADS.len()].out),
        }
    }

    /// The median over the rounds of the ratio of this lane to another, each at its best load.
    pub fn ratio(&self, other: &LoadRounds) -> f64 {
        self.ratio_at(self.best(), (other, other.best()))
    }

    /// The same, each at the given load.
    fn ratio_at(&self, load: usize, (other, its): (&LoadRounds, usize)) -> f64 {
        let pairs: Vec<(f64, f64)> = self.0.iter().zip(&other.0).map(|(a, b)| (a[load].out, b[its].out)).collect();
        medians(&pairs).2
    }
}

/// The rate of which the loads are fractions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadUnit {
    /// The rate of the best lane: all lanes get the same loads.
    BestLane,
    /// The rate of each lane itself: for lanes that differ so much that no load suits both.
    EachLane,
}

/// Measures every lane at every load. The first lane is the kernel's.
pub fn compare(lanes: &[(LaneKind, Packets)], rounds: usize, progress: &Progress) -> Result<Vec<LaneComparison>> {
    let list: Vec<(&str, &Packets)> = lanes.iter().map(|(kind, lane)| (kind.name(), lane)).collect();
    let measured = measure(&list, LoadUnit::BestLane, rounds, progress)?;
    let kernel = &measured[0];
    let beside = |((kind, _), lane): (&(LaneKind, Packets), &LoadRounds)| LaneComparison {
        kind: *kind,
        ours: lane.maximum_rates(),
        kernel: kernel.maximum_rates(),
        ratio: lane.ratio(kernel),
        flooded: lane.ratio_at(LOADS.len(), (kernel, LOADS.len())),
    };
    Ok(lanes.iter().zip(&measured).skip(1).map(beside).collect())
}

/// Measures every lane at every load, load by load and lane by lane in each round. The lanes have names for reports.
pub fn measure(
    lanes: &[(&str, &Packets)],
    unit: LoadUnit,
    rounds: usize,
    progress: &Progress,
) -> Result<Vec<LoadRounds>> {
    let units = survey(lanes, unit, progress)?;
    let mut measured: Vec<LoadRounds> = lanes.iter().map(|_| LoadRounds(Vec::new())).collect();
    for round in 0..rounds {
        measured.iter_mut().for_each(|lane| lane.0.push(Vec::new()));
        for load in 0..=LOADS.len() {
            for (((name, lane), LoadRounds(seen)), unit) in lanes.iter().zip(&mut measured).zip(&units) {
                let load = LOADS.get(load).map_or(OfferedLoad::Flood, |part| OfferedLoad::Rate(part * unit));
                seen[round].push(lane.offer(load, WARMUP, SPAN).with_context(|| (*name).to_owned())?);
            }
        }
        let mut said = format!("io: Mpps of 64 bytes, round {} of {rounds}:", round + 1);
        for (number, ((name, _), LoadRounds(seen))) in lanes.iter().zip(&measured).enumerate() {
            let out = |load: usize| seen[round][load].out;
            let best = (0..=LOADS.len()).max_by(|a, b| out(*a).total_cmp(&out(*b))).unwrap_or(0);
            let ForwardingRates { offered, out } = seen[round][best];
            let separator = if number == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(said, "{separator} {name} {:.3} of {:.3}", out / 1e6, offered / 1e6);
        }
        progress.say(&said);
    }
    Ok(measured)
}

/// The approximate rate that the loads of each lane are fractions of.
fn survey(lanes: &[(&str, &Packets)], unit: LoadUnit, progress: &Progress) -> Result<Vec<f64>> {
    let (first, step) = match unit {
        LoadUnit::BestLane => FIRST,
        LoadUnit::EachLane => FIRST_OF_ANY,
    };
    let mut rates = vec![0.0f64; lanes.len()];
    for number in 0..STEPS {
        let load = first * step.powi(number);
        let best = rates.iter().copied().fold(0.0, f64::max);
        for ((name, lane), rate) in lanes.iter().zip(&mut rates) {
            let enough = if unit == LoadUnit::BestLane { best } else { *rate };
            if number == 0 || load <= 2.0 * step * enough {
                let measured = lane.offer(OfferedLoad::Rate(load), WARMUP, SPAN);
                *rate = rate.max(measured.with_context(|| (*name).to_owned())?.out);
            }
        }
    }
    let best = rates.iter().copied().fold(0.0, f64::max);
    if unit == LoadUnit::BestLane {
        rates.fill(best);
    }
    progress.say(&format!(
        "io: 64 bytes, about {:.2} Mpps at most; offered is {:.2} to {:.2} of it, then a flood",
        best / 1e6,
        LOADS[0],
        LOADS[LOADS.len() - 1]
    ));
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a router that forwards `most`, and less the further the load exceeds that.
    fn rounds(most: f64, luck: &[f64]) -> LoadRounds {
        let round = |luck: &f64| {
            let passed = |offered: f64| {
                let out = if offered <= most { offered } else { most - 0.3 * (offered - most) };
                ForwardingRates { offered, out: out * luck }
            };
            LOADS.iter().map(|part| passed(*part)).chain([passed(2.5)]).collect()
        };
        LoadRounds(luck.iter().map(round).collect())
    }

    #[test]
    fn maximum_forwarding_rate_is_not_the_rate_under_flood() {
        let most = rounds(1.0, &[1.0, 0.9, 1.1]).maximum_rates();
        assert_eq!((most.rate, most.offered), (1.0, 1.0));
        assert!((most.flooded - 0.55).abs() < 1e-9, "{}", most.flooded);
    }

    #[test]
    fn ratio_compares_rounds_in_pairs_each_router_at_its_best_load() {
        // The third round was bad for both alike: the ratio does not change.
        let (ours, kernel) = (rounds(0.89, &[1.0, 1.0, 0.5]), rounds(1.0, &[1.0, 1.0, 0.5]));
        assert!((ours.ratio(&kernel) - 0.89).abs() < 1e-9);
    }

    #[test]
    fn one_lucky_round_does_not_set_the_maximum() {
        let mut measured = rounds(1.0, &[1.0, 1.0, 1.0]);
        measured.0[1][0].out = 7.0;
        assert_eq!(measured.maximum_rates().rate, 1.0);
    }
}
