//! Seeded random choices (splitmix64: Steele, Lea and Flood, OOPSLA 2014): every run sends the same frames.

/// A sequence of choices.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the values.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// Sixteen bits.
    pub fn word(&mut self) -> u16 {
        self.next() as u16
    }

    /// Random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// The length of a payload: mostly short, sometimes as long as `most`.
    pub fn length(&mut self, most: usize) -> usize {
        match self.below(10) {
            0 => 0,
            1..6 => self.below(64),
            6 | 7 => self.below(most),
            _ => most - self.below(200.min(most)),
        }
    }
}
