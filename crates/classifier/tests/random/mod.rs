//! Random numbers of tests and benchmarks.

/// A generator whose numbers are the same in each run (xorshift*: Vigna 2016, "An experimental exploration of Marsaglia's xorshift generators").
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
