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
const FIRST: f64 = 125e3;
const STEP: f64 = 1.5;
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

/// The result of each load in each round.
struct Rounds(Vec<Vec<ForwardingRates>>);

impl Rounds {
    /// The load with the highest output rate.
    fn best(&self) -> usize {
        let rate = |load: &usize| median(self.0.iter().map(|round| round[*load].out).collect());
        (0..=LOADS.len()).max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(0)
    }

    fn maximum_rates(&self) -> MaximumRates {
        let best = self.best();
        let of = |value: &dyn Fn(&Vec<ForwardingRates>) -> f64| median(self.0.iter().map(value).collect());
        MaximumRates {
            rate: of(&|round| round[best].out),
            offered: of(&|round| round[best].offered),
            flooded: of(&|round| round[LOADS.len()].out),
        }
    }

    /// The median over the rounds of the ratio of this lane to another, each at the given load.
    fn ratio(&self, load: usize, (other, its): (&Rounds, usize)) -> f64 {
        let pairs: Vec<(f64, f64)> = self.0.iter().zip(&other.0).map(|(a, b)| (a[load].out, b[its].out)).collect();
        medians(&pairs).2
    }
}

/// Measures every lane at every load. The first lane is the kernel's.
pub fn compare(lanes: &[(LaneKind, Packets)], rounds: usize, progress: &Progress) -> Result<Vec<LaneComparison>> {
    let unit = survey(lanes, progress)?;
    let loads = LOADS.iter().map(|part| OfferedLoad::Rate(part * unit)).chain([OfferedLoad::Flood]);
    let loads: Vec<OfferedLoad> = loads.collect();
    let mut measured: Vec<Rounds> = lanes.iter().map(|_| Rounds(Vec::new())).collect();
    for round in 0..rounds {
        measured.iter_mut().for_each(|lane| lane.0.push(Vec::new()));
        for load in &loads {
            for ((kind, lane), Rounds(seen)) in lanes.iter().zip(&mut measured) {
                seen[round].push(lane.offer(*load, WARMUP, SPAN).with_context(|| kind.name())?);
            }
        }
        let mut said = format!("io: Mpps of 64 bytes, round {} of {rounds}:", round + 1);
        for ((kind, _), Rounds(seen)) in lanes.iter().zip(&measured) {
            let out = |load: usize| seen[round][load].out;
            let best = (0..loads.len()).max_by(|a, b| out(*a).total_cmp(&out(*b))).unwrap_or(0);
            let ForwardingRates { offered, out } = seen[round][best];
            let separator = if *kind == lanes[0].0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(said, "{separator} {} {:.2} of {:.2}", kind.name(), out / 1e6, offered / 1e6);
        }
        progress.say(&said);
    }
    let kernel = &measured[0];
    let beside = |((kind, _), lane): (&(LaneKind, Packets), &Rounds)| LaneComparison {
        kind: *kind,
        ours: lane.maximum_rates(),
        kernel: kernel.maximum_rates(),
        ratio: lane.ratio(lane.best(), (kernel, kernel.best())),
        flooded: lane.ratio(LOADS.len(), (kernel, LOADS.len())),
    };
    Ok(lanes.iter().zip(&measured).skip(1).map(beside).collect())
}

/// The approximate rate of the best lane, the unit of the loads.
fn survey(lanes: &[(LaneKind, Packets)], progress: &Progress) -> Result<f64> {
    let mut best: f64 = 0.0;
    for step in 0..STEPS {
        let load = FIRST * STEP.powi(step);
        for (kind, lane) in lanes {
            best = best.max(lane.offer(OfferedLoad::Rate(load), WARMUP, SPAN).with_context(|| kind.name())?.out);
        }
        if load > 2.0 * best {
            break;
        }
    }
    progress.say(&format!(
        "io: 64 bytes, about {:.2} Mpps at most; offered is {:.2} to {:.2} of it, then a flood",
        best / 1e6,
        LOADS[0],
        LOADS[LOADS.len() - 1]
    ));
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a router that forwards `most`, and less the further the load exceeds that.
    fn rounds(most: f64, luck: &[f64]) -> Rounds {
        let round = |luck: &f64| {
            let passed = |offered: f64| {
                let out = if offered <= most { offered } else { most - 0.3 * (offered - most) };
                ForwardingRates { offered, out: out * luck }
            };
            LOADS.iter().map(|part| passed(*part)).chain([passed(2.5)]).collect()
        };
        Rounds(luck.iter().map(round).collect())
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
        assert!((ours.ratio(ours.best(), (&kernel, kernel.best())) - 0.89).abs() < 1e-9);
    }

    #[test]
    fn one_lucky_round_does_not_set_the_maximum() {
        let mut measured = rounds(1.0, &[1.0, 1.0, 1.0]);
        measured.0[1][0].out = 7.0;
        assert_eq!(measured.maximum_rates().rate, 1.0);
    }
}
