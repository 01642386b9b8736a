//! Trials of discretized fair queueing beside fluid servers, in virtual time (spec P-38, F9).
//!
//! Flows with random reservations share a link, which sends a quantum of each flow with packets and credit in a cycle. Beside it, each flow has a fluid
//! server of its own. A quantum is late by the time from the departure of its last byte at the fluid server to that on the link. The grants are those
//! of the router (`schemes::dfq`).

use crate::Measurements;
use crate::random::RandomStream;
use schemes::ShareParameters;
use schemes::dfq::{FluidServer, QuantumScheduler};
use serde::Deserialize;
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos, Rate};

/// Bit-nanoseconds of a byte.
const BYTE: u128 = 8_000_000_000;
/// Bytes of packets and bursts.
const PACKETS: (u64, u64) = (64, 1514);
const BURSTS: (u64, u64) = (1514, 9000);
/// Bytes of a flow that always has some.
const ENDLESS: u64 = 1 << 40;

/// The traffic of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FluidTraffic {
    /// Packets at random times, at most a burst in any time of a service cycle.
    Regulated,
    /// Always more than the reservation, from a random time on.
    Greedy,
    /// Every second flow is greedy, and the others are regulated.
    Mixed,
}

/// A trial.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FluidPlan {
    /// Flows, each with a reservation. The quanta of all are 95 % of the link.
    pub flows: u32,
    /// The rate of the link, in bits a second.
    pub rate: u64,
    /// The length of a cycle, in nanoseconds.
    pub cycle: u64,
    /// Cycles of the trial.
    pub cycles: u32,
    /// The traffic.
    pub traffic: FluidTraffic,
    /// The seed.
    pub seed: u64,
}

impl FluidPlan {
    /// Parses the trial that `text`, of `file`, describes.
    ///
    /// # Errors
    ///
    /// The description is invalid; the message names the file.
    pub fn read(text: &str, file: &str) -> Result<FluidPlan, String> {
        let plan: FluidPlan = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
        let bounds = [
            ("flows", plan.flows.into(), 1, 1 << 16),
            ("rate", plan.rate, 1_000_000, 1_000_000_000_000),
            ("cycle", plan.cycle, 1000, 1_000_000_000),
            ("cycles", plan.cycles.into(), 8, 1 << 20),
        ];
        match bounds.into_iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
            Some((name, value, least, most)) => Err(format!("{file}: `{name}` is {value}, not from {least} to {most}")),
            None if plan.quantum() == 0 => Err(format!("{file}: a cycle has less than a byte for each flow")),
            None => Ok(plan),
        }
    }

    /// The bytes of a cycle.
    fn room(&self) -> u64 {
        (u128::from(self.rate) * u128::from(self.cycle) / BYTE) as u64
    }

    fn quantum(&self) -> u64 {
        self.room() * 95 / 100 / u64::from(self.flows)
    }

    fn end(&self) -> Instant {
        Instant::new(self.cycle * u64::from(self.cycles))
    }
}

/// A flow, its fluid server, and its bytes that have not left.
struct FluidFlow {
    parameters: ShareParameters,
    server: FluidServer,
    waiting: VecDeque<(Instant, u64)>,
}

/// A number from `range`, with both ends.
fn between(chance: &mut RandomStream, (least, most): (u64, u64)) -> u64 {
    least + chance.below(most - least + 1)
}

/// A random reservation with a quantum in each cycle while it has credit.
fn flow(plan: &FluidPlan, chance: &mut RandomStream) -> FluidFlow {
    let cycle = Nanos::new(plan.cycle);
    let peak = (u128::from(plan.quantum()) * BYTE / u128::from(plan.cycle)) as u64;
    let rate = peak / between(chance, (1, 10));
    // Not less than a cycle of its rate.
    let least = (u128::from(rate) * u128::from(cycle.get())).div_ceil(BYTE) as u64;
    let burst = between(chance, BURSTS).max(least);
    let delay = Nanos::new((u128::from(burst) * BYTE).div_ceil(peak.into()) as u64);
    let (rate, burst) = (Rate::bits(rate), Bytes::new(burst));
    let parameters = ShareParameters { rate, burst, delay, ..ShareParameters::default() };
    FluidFlow { server: FluidServer::new(&parameters), parameters, waiting: VecDeque::new() }
}

/// The arrivals of a flow: times and bytes.
fn arrivals(plan: &FluidPlan, number: u32, flow: &FluidFlow, chance: &mut RandomStream) -> Vec<(Instant, u32, u64)> {
    let ShareParameters { rate, burst, .. } = flow.parameters;
    let period = rate.time_for(burst) + Nanos::new(1);
    let mut now = Instant::new(chance.below(period.get().min(10 * plan.cycle)));
    let greedy = match plan.traffic {
        FluidTraffic::Regulated => false,
        FluidTraffic::Greedy => true,
        FluidTraffic::Mixed => number.is_multiple_of(2),
    };
    if greedy {
        return vec![(now, number, ENDLESS)];
    }
    let (mut all, mut recent, mut sum) = (Vec::new(), VecDeque::new(), 0);
    while now < plan.end() {
        for _ in 0..between(chance, (1, 4)) {
            while recent.front().is_some_and(|(then, _)| now.since(*then) > period) {
                sum -= recent.pop_front().map_or(0, |(_, length)| length);
            }
            let length = between(chance, PACKETS);
            if sum + length <= burst.get() {
                sum += length;
                recent.push_back((now, length));
                all.push((now, number, length));
            }
        }
        now += Nanos::new(1 + chance.below(period.get()));
    }
    all
}

/// Runs the trial that `text`, of `file`, describes.
///
/// | value | meaning |
/// |---|---|
/// | `lag_mean_us` | mean time by which the last bytes of quanta leave the link later than their fluid servers |
/// | `lag_max_us`, `lag_cycles` | the largest of these times, and in cycles; a byte that waits at the end counts as one that leaves then |
/// | `lag_p999_cycles` | the time in cycles that one quantum in a thousand exceeds |
/// | `quanta` | quanta that left |
///
/// # Errors
///
/// The description is invalid; the message names the file. Or a grant is of bytes that a flow does not have, or beyond the cycle.
pub fn run(text: &str, file: &str) -> Result<Measurements, String> {
    let plan = FluidPlan::read(text, file)?;
    let values = measure(&plan).map_err(|why| format!("{file}: {why}"))?;
    Ok(Measurements {
        parameters: vec![("trial".to_owned(), text.trim().to_owned())],
        values: values.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Measurements::default()
    })
}

fn measure(plan: &FluidPlan) -> Result<[(&'static str, f64); 5], String> {
    let mut chance = RandomStream::new(plan.seed, "fluid");
    let (rate, cycle, room) = (Rate::bits(plan.rate), Nanos::new(plan.cycle), plan.room());
    let mut scheduler = QuantumScheduler::new(cycle);
    let mut flows: Vec<FluidFlow> = (0..plan.flows).map(|_| flow(plan, &mut chance)).collect();
    let mut all = Vec::new();
    for (number, flow) in (1..).zip(&flows) {
        scheduler.reserve(number, &flow.parameters, Instant::START);
        all.extend(arrivals(plan, number, flow, &mut chance));
    }
    all.sort_unstable();
    let mut all = all.into_iter().peekable();
    let (mut lags, mut grants) = (Vec::new(), Vec::new());
    for number in 0..u64::from(plan.cycles) {
        let now = Instant::new(plan.cycle * number);
        while let Some((at, number, bytes)) = all.next_if(|(at, ..)| *at <= now) {
            scheduler.arrive(number, Bytes::new(bytes), at);
            flows[number as usize - 1].waiting.push_back((at, bytes));
        }
        grants.clear();
        scheduler.cycle(Bytes::new(room), now, &mut grants);
        let mut sent = 0;
        for (number, bytes) in &grants {
            let FluidFlow { server, waiting, .. } = &mut flows[*number as usize - 1];
            let (mut left, mut fluid) = (bytes.get(), 0.0);
            while left > 0 {
                let Some((at, rest)) = waiting.front_mut() else {
                    return Err(format!("flow {number} was granted {left} bytes that it does not have"));
                };
                let part = left.min(*rest);
                fluid = server.departure(*at, part as u32);
                (left, *rest) = (left - part, *rest - part);
                if *rest == 0 {
                    waiting.pop_front();
                }
            }
            sent += bytes.get();
            lags.push((now + rate.time_for(Bytes::new(sent))).get() as f64 - fluid);
        }
        if sent > room {
            return Err(format!("a cycle of {room} bytes was granted {sent}"));
        }
    }
    let quanta = lags.len();
    if quanta == 0 {
        return Err("no quantum left".to_owned());
    }
    let mean = lags.iter().sum::<f64>() / quanta as f64;
    let p999 = *lags.select_nth_unstable_by(quanta * 999 / 1000, f64::total_cmp).1;
    for FluidFlow { server, waiting, .. } in &mut flows {
        let fluid = waiting.front().map(|(at, _)| server.departure(*at, 1));
        lags.extend(fluid.map(|fluid| plan.end().get() as f64 - fluid));
    }
    let largest = lags.into_iter().fold(f64::MIN, f64::max);
    Ok([
        ("lag_max_us", largest / 1000.0),
        ("lag_mean_us", mean / 1000.0),
        ("lag_p999_cycles", p999 / plan.cycle as f64),
        ("lag_cycles", largest / plan.cycle as f64),
        ("quanta", quanta as f64),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(flows: u32, cycle: u64, traffic: &str) -> Result<Measurements, String> {
        let text = format!(
            "flows = {flows}\nrate = 1000000000\ncycle = {cycle}\ncycles = 60\ntraffic = '{traffic}'\nseed = 3"
        );
        run(&text, "trial.toml")
    }

    #[test]
    fn quanta_are_at_most_two_cycles_behind_fluid_servers() {
        for traffic in ["regulated", "greedy", "mixed"] {
            for (flows, cycle) in [(1, 200_000), (30, 1_000_000), (300, 500_000)] {
                let measured = trial(flows, cycle, traffic).unwrap();
                let of = |name: &str| measured.get(name).unwrap();
                assert!(of("lag_cycles") <= 2.0, "{traffic} {flows}: {measured:?}");
                assert!(of("quanta") >= f64::from(flows), "{traffic} {flows}: {measured:?}");
            }
        }
    }

    #[test]
    fn invalid_trials_are_refused() {
        for (flows, cycle, traffic, why) in [
            (0, 200_000, "greedy", "`flows` is 0, not from 1"),
            (1, 5, "greedy", "`cycle` is 5, not from 1000"),
            (60_000, 1000, "greedy", "less than a byte"),
            (1, 200_000, "some", "some"),
        ] {
            let error = trial(flows, cycle, traffic).expect_err(why);
            assert!(error.starts_with("trial.toml: ") && error.contains(why), "{error}");
        }
    }
}
