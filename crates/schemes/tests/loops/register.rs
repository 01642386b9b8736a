//! The shift register as in a hardware description, with 32 flip-flops and one shift a clock, and its mathematical properties.

/// The exponents of x^32 + x^22 + x^2 + x + 1 except zero. They are the flip-flops, counted from the left, that the output bit inverts.
const TAPS: [usize; 4] = [32, 22, 2, 1];

/// Flip-flops 1 to 32 from the right. Number 1 holds the output bit.
#[derive(Clone)]
pub struct Register([bool; 33]);

impl Register {
    /// Zero is a fixed point and is replaced by one.
    pub fn new(seed: u32) -> Register {
        let seed = if seed == 0 { 1 } else { seed };
        Register(std::array::from_fn(|flop| flop > 0 && seed >> (flop - 1) & 1 == 1))
    }

    fn clock(&mut self) {
        let before = self.0;
        let out = before[1];
        for flop in 1..=32 {
            let left = flop < 32 && before[flop + 1];
            self.0[flop] = left ^ (out && TAPS.contains(&flop));
        }
    }

    pub fn draw(&mut self) -> u32 {
        (0..32).for_each(|_| self.clock());
        self.0[1..].iter().enumerate().map(|(bit, set)| u32::from(*set) << bit).sum()
    }

    /// The probability is in parts of 2^32.
    pub fn happens(&mut self, part: u64) -> bool {
        u64::from(self.draw()) < part
    }

    pub fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.draw()) * u64::from(end)) >> 32) as u32
    }
}

/// x^32 + x^22 + x^2 + x + 1 over the field of two elements: bit i is the coefficient of x^i.
const POLYNOMIAL: u64 = 1 << 32 | 1 << 22 | 1 << 2 | 1 << 1 | 1;

/// The product of two polynomials, modulo that one.
fn times(a: u64, b: u64) -> u64 {
    let (mut product, mut shifted) = (0, a);
    for bit in 0..32 {
        product ^= if b >> bit & 1 == 1 { shifted } else { 0 };
        shifted <<= 1;
        shifted ^= if shifted >> 32 & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    product
}

fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        result = if exponent & 1 == 1 { times(result, square) } else { result };
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

#[test]
fn lfsr_visits_every_nonzero_state() {
    // The order of x is 2^32 - 1 = 3 * 5 * 17 * 257 * 65537 and no smaller number: the polynomial is primitive.
    let all = (1 << 32) - 1;
    assert_eq!(power(2, all), 1);
    assert!([3, 5, 17, 257, 65537].iter().all(|prime| power(2, all / prime) != 1));
}

#[test]
fn lfsr_output_satisfies_polynomial_recurrence() {
    let mut register = Register::new(0xdead_beef);
    let bits: Vec<bool> = (0..2000)
        .map(|_| {
            let out = register.0[1];
            register.clock();
            out
        })
        .collect();
    // A tap at flip-flop i feeds the bit back so that it is output again i clocks later.
    for n in 32..bits.len() {
        let fed = TAPS.iter().fold(false, |sum, tap| sum ^ bits[n - tap]);
        assert_eq!(bits[n], fed, "bit {n}");
    }
}
