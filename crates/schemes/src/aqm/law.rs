//! CoDel's control law: drops follow each other at intervals that shrink with the square root of their number, so that
//! the rate of a TCP, which goes with the inverse square root of its losses, falls linearly (RFC 8289, section 3.3).

use units::Nanos;

/// How the square root is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// To the nanosecond.
    Exact,
    /// From a table of 1024, as hardware does; later ones go as the last.
    Table,
    /// By Newton's steps on a reciprocal of 32 bits.
    Newton,
}

impl Root {
    /// As they are written in a configuration, in the order of [`Root::ALL`].
    pub const NAMES: &'static [&'static str] = &["exact", "table", "newton"];
    /// All of them.
    pub const ALL: [Root; 3] = [Root::Exact, Root::Table, Root::Newton];

    /// `interval / sqrt(count)`; a count of zero counts as one. The interval must be below 2^32 ns (4.29 s) but for
    /// [`Root::Exact`].
    #[inline]
    pub fn divide(self, interval: Nanos, count: u32) -> Nanos {
        let (interval, count) = (interval.get(), count.max(1));
        Nanos::new(match self {
            // 32 bits of a reciprocal are too few from here on.
            _ if self == Root::Exact || self == Root::Newton && count > 1 << 20 => match interval.checked_mul(interval)
            {
                Some(square) => (square / u64::from(count)).isqrt(),
                None => (u128::from(interval) * u128::from(interval) / u128::from(count)).isqrt() as u64,
            },
            Root::Table => scale(interval, TABLE[count.min(TABLE.len() as u32 - 1) as usize]),
            _ => scale(interval, reciprocal(count)),
        })
    }
}

/// `interval * inverse / 2^32`.
#[inline]
fn scale(interval: u64, inverse: u32) -> u64 {
    ((u128::from(interval) * u128::from(inverse)) >> 32) as u64
}

/// `2^32 / sqrt(i)`, as near as 32 bits come; of zero as of one.
static TABLE: [u32; 1024] = {
    let mut table = [u32::MAX; 1024];
    let mut i = 2;
    while i < table.len() {
        table[i] = (u64::MAX / i as u64).isqrt() as u32;
        i += 1;
    }
    table
};

/// `2^32 / sqrt(count)`: a first guess from the highest bit, and steps x (3 - count x^2) / 2, each of which doubles the digits.
fn reciprocal(count: u32) -> u32 {
    if count == 1 {
        return u32::MAX;
    }
    let mut x = u64::from(u32::MAX >> (count.ilog2() / 2 + 1));
    for _ in 0..5 {
        let square = (x * x) >> 32;
        let rest = (3u64 << 32) - u64::from(count) * square;
        // Two bits fewer, that the product fits.
        x = (x * (rest >> 2)) >> 31;
    }
    x.min(u32::MAX.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invsqrt_table_error() {
        for root in Root::ALL {
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
    fn beyond_the_table_exact_and_newton_agree_and_the_table_stays() {
        let interval = Nanos::millis(100);
        for count in [1024, 4096, 65_537, 1 << 20, u32::MAX] {
            let exact = Root::Exact.divide(interval, count).get();
            assert_eq!(exact, (interval.get() as f64 / f64::from(count).sqrt()) as u64);
            assert!(Root::Newton.divide(interval, count).get().abs_diff(exact) <= 1 + exact / 1000, "{count}");
            assert_eq!(Root::Table.divide(interval, count), Root::Table.divide(interval, 1023));
        }
    }

    #[test]
    fn nothing_counts_as_one_and_an_hour_does_not_overflow() {
        assert_eq!(Root::Exact.divide(Nanos::millis(100), 0), Nanos::millis(100));
        assert_eq!(Root::Exact.divide(Nanos::secs(3600), 4), Nanos::secs(1800));
    }
}
