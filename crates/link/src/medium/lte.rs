//! A synthetic LTE trace: the downlink of a moving mobile phone, generated from a seed and equal on every machine. Experiments with traces run
//! without recorded files.
//!
//! The rate varies as Winstein, Sivaraman and Balakrishnan (NSDI 2013) observed, here around a mean. Its logarithm follows an Ornstein-Uhlenbeck
//! process, with occasional outages. Opportunities occur in random bursts of one millisecond. With the constants below its statistics resemble those
//! of the traces published with mahimahi: for the rates of single seconds, deviation over mean is 0.5 to 0.8; the longest gap is one to two seconds.

use super::trace::{MOST_LINES, Trace};
use crate::RandomStream;
use units::{Nanos, Rate};

/// The correlation time of the rate in milliseconds. In the published traces 0.74 to 0.92 of a deviation is left a second later.
const MEMORY: f64 = 6_000.0;
/// The standard deviation of the logarithm of the rate.
const SPREAD: f64 = 0.55;
/// Milliseconds for which the rate is constant.
const STEP: usize = 20;
/// In milliseconds: the mean time between two outages, and the mean and greatest length of an outage.
const SOUND: f64 = 8_000.0;
const SILENCE: f64 = 180.0;
const LONGEST: f64 = 1_500.0;
/// The fraction of milliseconds with an opportunity while the link is up.
const BUSY: f64 = 0.3;
/// The bits of a line of the trace.
const LINE: f64 = 12_000.0;

/// A trace of length `length` with the mean rate `mean`, at 1500 bytes a line.
pub fn lte(mean: Rate, length: Nanos, seed: u64) -> Trace {
    let millis = (length.get() / 1_000_000).clamp(1, u64::from(u32::MAX)) as usize;
    let lines = (mean.get() as f64 / LINE * millis as f64 / 1e3).clamp(1.0, MOST_LINES as f64 / 2.0);
    let shape = shape(millis, seed);
    let whole: f64 = shape.iter().sum::<f64>() * STEP as f64;
    // If the link is down all the time there is one opportunity, at the end.
    let scale = if whole > 0.0 { lines / whole } else { 0.0 };
    let (mut bunches, mut sizes) = (RandomStream::new(seed, "lte bunches"), RandomStream::new(seed, "lte sizes"));
    let mut at = Vec::with_capacity(lines as usize + lines as usize / 8);
    for milli in 0..millis {
        // `rate` opportunities a millisecond, in bursts of geometric size.
        let rate = shape[milli / STEP] * scale;
        let bunch = (rate / BUSY).max(1.25);
        if bunches.unit() < rate / bunch {
            loop {
                at.push(milli as u32);
                if sizes.unit() < 1.0 / bunch || at.len() >= MOST_LINES - 1 {
                    break;
                }
            }
        }
    }
    at.push(millis as u32);
    Trace::from_millis(at).expect("milliseconds were counted up")
}

/// The relative rate of the link in each step; 1 is the median.
fn shape(millis: usize, seed: u64) -> Vec<f64> {
    let (mut waves, mut silences) = (RandomStream::new(seed, "lte waves"), RandomStream::new(seed, "lte silences"));
    let steps = millis.div_ceil(STEP);
    let keep = libm::exp(-(STEP as f64) / MEMORY);
    let push = SPREAD * (1.0 - keep * keep).sqrt();
    let mut level = SPREAD * waves.normal();
    let (mut turn, mut silent) = (SOUND * silences.exponential(), false);
    (0..steps)
        .map(|step| {
            level = level * keep + push * waves.normal();
            while turn <= (step * STEP) as f64 {
                silent = !silent;
                // Outages and working periods alternate.
                turn += match silent {
                    true => (SILENCE * silences.exponential()).clamp(STEP as f64, LONGEST),
                    false => (SOUND * silences.exponential()).max(STEP as f64),
                };
            }
            if silent { 0.0 } else { libm::exp(level) }
        })
        .collect()
}
