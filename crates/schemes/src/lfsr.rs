//! A random number generator as hardware builds it: a linear-feedback shift register. Every implementation of a scheme makes the same decisions.

/// The feedback of x^32 + x^22 + x^2 + x + 1, whose period is 2^32 - 1: all states but zero (Xilinx XAPP 052, table 3).
const TAPS: u32 = 1 << 31 | 1 << 21 | 1 << 1 | 1;

/// The state after 32 shifts for each value of each byte, with the other bytes zero. A shift is linear over XOR, so the state of a word is the XOR of
/// the states of its bytes.
static AHEAD: [[u32; 256]; 4] = ahead();

const fn ahead() -> [[u32; 256]; 4] {
    let mut table = [[0; 256]; 4];
    let mut entry = 0;
    // A constant function cannot use iterators.
    while entry < 1024 {
        table[entry / 256][entry % 256] = shifted(((entry % 256) << (entry / 256 * 8)) as u32);
        entry += 1;
    }
    table
}

/// The state after 32 shifts.
const fn shifted(mut state: u32) -> u32 {
    let mut left = 32;
    while left > 0 {
        // The negated lowest bit is a mask of all ones or of none: no branch.
        state = (state >> 1) ^ (TAPS & (state & 1).wrapping_neg());
        left -= 1;
    }
    state
}

/// A shift register in Galois form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lfsr(u32);

impl Lfsr {
    /// Starts with `seed`. Zero is a fixed point of the register and is replaced by one.
    pub const fn new(seed: u32) -> Lfsr {
        Lfsr(if seed == 0 { 1 } else { seed })
    }

    /// The next 32 bits, one shift each.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        // 32 shifts at once: the XOR of the states to which each byte alone leads.
        let [a, b, c, d] = self.0.to_le_bytes();
        let [of_a, of_b, of_c, of_d] = &AHEAD;
        self.0 = of_a[usize::from(a)] ^ of_b[usize::from(b)] ^ of_c[usize::from(c)] ^ of_d[usize::from(d)];
        self.0
    }

    /// True with the probability `part` of 2^32: never for zero, always from 2^32 on.
    #[inline]
    pub fn happens(&mut self, part: u64) -> bool {
        u64::from(self.draw()) < part
    }

    /// A whole number below `end`, which is not zero.
    #[inline]
    pub fn below(&mut self, end: u32) -> u32 {
        // The upper half of the product needs no division. Its bias is at most `end` of 2^32.
        ((u64::from(self.draw()) * u64::from(end)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_lookup_equals_32_single_shifts() {
        let (mut register, mut state) = (Lfsr::new(0xdead_beef), 0xdead_beef);
        for _ in 0..10_000 {
            state = shifted(state);
            assert_eq!(register.draw(), state);
        }
    }

    #[test]
    fn bits_are_uniform_and_repeatable() {
        let (mut one, mut other) = (Lfsr::new(7), Lfsr::new(7));
        let mut set = [0u32; 32];
        for _ in 0..20_000 {
            let drawn = one.draw();
            assert_eq!(drawn, other.draw());
            set.iter_mut().enumerate().for_each(|(bit, set)| *set += drawn >> bit & 1);
        }
        assert!(set.iter().all(|set| (9_700..10_300).contains(set)), "{set:?}");
    }

    #[test]
    fn zero_seed_is_replaced_and_states_do_not_repeat() {
        let mut register = Lfsr::new(0);
        let first = register.draw();
        assert!((0..100_000).all(|_| register.draw() != first));
    }

    #[test]
    fn probability_zero_never_happens_and_probability_one_always_does() {
        let mut register = Lfsr::new(1);
        assert!((0..1000).all(|_| !register.happens(0) && register.happens(1 << 32)));
        let often = (0..100_000).filter(|_| register.happens(1 << 30)).count();
        assert!((24_500..25_500).contains(&often), "a quarter: {often}");
        assert!((0..1000).all(|_| register.below(3) < 3));
    }
}
