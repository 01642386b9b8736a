//! Seeded randomness. Each random decision has a stream of its own, named after the decision. An additional source therefore does not change the
//! packets of the others.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use units::Parts;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct RandomStream(ChaCha8Rng);

impl RandomStream {
    /// The stream `name` of a seed.
    pub fn new(seed: u64, name: &str) -> RandomStream {
        // FNV-1a.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(name.bytes().fold(0xcbf2_9ce4_8422_2325, step));
        RandomStream(rng)
    }

    /// Jumps far ahead in the stream: for a second use of the same name.
    pub fn branch(&mut self) {
        // A stream of ChaCha has 2^68 words. No use draws 2^60 of them, so the two uses share no number.
        self.0.set_word_pos(1 << 60);
    }

    /// Uniform in `0.0..1.0`, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        // The upper 53 bits: a double holds no more.
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..below`, or zero if `below` is zero (Lemire 2019, without the correction: `below` is far from 2^64).
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(below)) >> 64) as u64
    }

    /// True with this probability.
    pub fn happens(&mut self, often: Parts) -> bool {
        often > Parts::default() && self.below(1_000_000) < u64::from(often.get())
    }

    /// Exponentially distributed with mean one. The logarithm is from `libm`, so that every machine draws the same values.
    pub fn exponential(&mut self) -> f64 {
        // One minus the draw is above zero, so the logarithm is finite.
        -libm::log(1.0 - self.unit())
    }

    /// Normally distributed, mean zero and deviation one (Box, Muller 1958).
    pub fn normal(&mut self) -> f64 {
        // The radius is the root of -2 ln u. The second value of the pair, with the sine, is not used.
        let radius = (2.0 * self.exponential()).sqrt();
        radius * libm::cos(core::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_by_name_and_repeat() {
        let draw = |seed, name| {
            let mut chance = RandomStream::new(seed, name);
            [chance.below(1 << 40), chance.below(1 << 40)]
        };
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    #[test]
    fn exponential_has_mean_and_deviation_one() {
        let mut chance = RandomStream::new(7, "x");
        let draws: Vec<f64> = (0..200_000).map(|_| chance.exponential()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
