//! A recorded link that nobody recorded: the downlink of a mobile phone that moves, made up from a seed, the same on every
//! machine. With it everything that goes by traces runs without their files.
//!
//! The rate wanders as Winstein, Sivaraman and Balakrishnan (NSDI 2013) found it to, here around a mean: its logarithm follows
//! an Ornstein-Uhlenbeck process, and now and then there is nothing at all for a while. Opportunities come in bunches of
//! one millisecond, by chance. With what is set below its numbers are like those of the traces published with mahimahi:
//! deviation over mean of the rates of single seconds 0.5 to 0.8, longest gap one to two seconds.

use super::trace::{MOST_LINES, Trace};
use crate::Chance;
use units::{Nanos, Rate};

/// The time after which the rate has changed, in milliseconds: of the published ones 0.74 to 0.92 of it is left a second later.
const MEMORY: f64 = 6_000.0;
/// The deviation of its logarithm.
const SPREAD: f64 = 0.55;
/// Milliseconds in which it does not change.
const STEP: usize = 20;
/// The mean time between two silences, and how long one is on average and at most, in milliseconds.
const SOUND: f64 = 8_000.0;
const SILENCE: f64 = 180.0;
const LONGEST: f64 = 1_500.0;
/// Milliseconds with an opportunity, of those that could have one.
const BUSY: f64 = 0.3;
/// What a line stands for, in bits.
const LINE: f64 = 12_000.0;

/// A trace that goes on for `length`, of `mean` bits a second on average with 1500 bytes a line.
pub fn lte(mean: Rate, length: Nanos, seed: u64) -> Trace {
    let millis = (length.get() / 1_000_000).clamp(1, u64::from(u32::MAX)) as usize;
    let lines = (mean.get() as f64 / LINE * millis as f64 / 1e3).clamp(1.0, MOST_LINES as f64 / 2.0);
    let shape = shape(millis, seed);
    let whole: f64 = shape.iter().sum::<f64>() * STEP as f64;
    // Where it is silent all the time there is one opportunity, at the end.
    let scale = if whole > 0.0 { lines / whole } else { 0.0 };
    let (mut bunches, mut sizes) = (Chance::new(seed, "lte bunches"), Chance::new(seed, "lte sizes"));
    let mut at = Vec::with_capacity(lines as usize + lines as usize / 8);
    for milli in 0..millis {
        // So many opportunities a millisecond, in bunches of a geometric number of them.
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

/// How good the link is in each step, 1 being as usual.
fn shape(millis: usize, seed: u64) -> Vec<f64> {
    let (mut waves, mut silences) = (Chance::new(seed, "lte waves"), Chance::new(seed, "lte silences"));
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
                turn += match silent {
                    true => (SILENCE * silences.exponential()).clamp(STEP as f64, LONGEST),
                    false => (SOUND * silences.exponential()).max(STEP as f64),
                };
            }
            if silent { 0.0 } else { libm::exp(level) }
        })
        .collect()
}
