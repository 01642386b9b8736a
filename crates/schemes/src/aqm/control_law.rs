//! CoDel's control law: the time between drops shrinks with the square root of their number. The rate of a TCP flow is proportional to the inverse
//! square root of its loss rate, so it falls linearly (RFC 8289, section 3.3).

use units::Nanos;

/// The method of the square root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SquareRoot {
    /// Exact to the nanosecond.
    Exact,
    /// From a table of 1024 entries, as in hardware. Higher counts use the last entry.
    Table,
    /// By Newton iterations of a 32-bit reciprocal.
    Newton,
}

impl SquareRoot {
    /// Their names in a configuration, in the order of [`SquareRoot::ALL`].
    pub const NAMES: &'static [&'static str] = &["exact", "table", "newton"];
    /// All variants.
    pub const ALL: [SquareRoot; 3] = [SquareRoot::Exact, SquareRoot::Table, SquareRoot::Newton];

    /// `interval / sqrt(count)`. A count of zero counts as one. Except for [`SquareRoot::Exact`] the interval must be below 2^32 ns (4.29 s).
    #[inline]
    pub fn divide(self, interval: Nanos, count: u32) -> Nanos {
        let (interval, count) = (interval.get(), count.max(1));
        Nanos::new(match self {
            // Above this count a 32-bit reciprocal has too few significant bits.
            _ if self == SquareRoot::Exact || self == SquareRoot::Newton && count > 1 << 20 => {
                match interval.checked_mul(interval) {
                    // 64 bits hold the square of intervals up to 4.29 s, the usual case.
                    Some(square) => (square / u64::from(count)).isqrt(),
                    None => (u128::from(interval) * u128::from(interval) / u128::from(count)).isqrt() as u64,
                }
            }
            // Beyond the table the time between drops no longer shrinks: with an interval of 100 ms it stays at 3.1 ms.
            SquareRoot::Table => scale(interval, TABLE[count.min(TABLE.len() as u32 - 1) as usize]),
            _ => scale(interval, reciprocal(count)),
        })
    }
}

/// `interval * inverse / 2^32`.
#[inline]
fn scale(interval: u64, inverse: u32) -> u64 {
    ((u128::from(interval) * u128::from(inverse)) >> 32) as u64
}

/// `2^32 / sqrt(i)`, rounded to 32 bits. The entry of zero equals that of one.
static TABLE: [u32; 1024] = {
    let mut table = [u32::MAX; 1024];
    let mut i = 2;
    while i < table.len() {
        // The root of 2^64 / i is 2^32 / sqrt(i).
        table[i] = (u64::MAX / i as u64).isqrt() as u32;
        i += 1;
    }
    table
};

/// `2^32 / sqrt(count)`: a first guess from the highest bit, then steps x (3 - count x^2) / 2, each of which doubles the correct digits.
fn reciprocal(count: u32) -> u32 {
    if count == 1 {
        return u32::MAX;
    }
    // The guess is at most the result, so the factor 3 - count x^2 is positive. It is at least about half of it: five steps then reduce the error to
    // about 10^-6.
    let mut x = u64::from(u32::MAX >> (count.ilog2() / 2 + 1));
    for _ in 0..5 {
        let square = (x * x) >> 32;
        let rest = (3u64 << 32) - u64::from(count) * square;
        // Shift by two, so that the product fits in 64 bits.
        x = (x * (rest >> 2)) >> 31;
    }
    x.min(u32::MAX.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invsqrt_table_error() {
        for root in SquareRoot::ALL {
            for interval in [Nanos::millis(100), Nanos::millis(10), Nanos::micros(400)] {
                for count in 1..1024u32 {
                    let exact = interval.get() as f64 / f64::from(count).sqrt();
                    let error = (root.divide(interval, count).get() as f64 - exact).abs() / exact;
                    assert!(error < 0.001, "{root:?} of {interval} and {count} is {error} off");
                }
            }
        }
    }

    #[test]
    fn counts_above_table_use_its_last_entry() {
        let interval = Nanos::millis(100);
        for count in [1024, 4096, 65_537, 1 << 20, u32::MAX] {
            let exact = SquareRoot::Exact.divide(interval, count).get();
            assert_eq!(exact, (interval.get() as f64 / f64::from(count).sqrt()) as u64);
            assert!(SquareRoot::Newton.divide(interval, count).get().abs_diff(exact) <= 1 + exact / 1000, "{count}");
            assert_eq!(SquareRoot::Table.divide(interval, count), SquareRoot::Table.divide(interval, 1023));
        }
    }

    #[test]
    fn count_zero_counts_as_one_and_one_hour_does_not_overflow() {
        assert_eq!(SquareRoot::Exact.divide(Nanos::millis(100), 0), Nanos::millis(100));
        assert_eq!(SquareRoot::Exact.divide(Nanos::secs(3600), 4), Nanos::secs(1800));
    }
}
