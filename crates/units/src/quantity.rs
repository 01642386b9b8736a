//! Rates, sizes and shares.

use crate::Nanos;
use core::ops::{Add, AddAssign};

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

impl Rate {
    /// No traffic.
    pub const ZERO: Rate = Rate(0);
    /// Unlimited: a link without a rate of its own.
    pub const MAX: Rate = Rate(u64::MAX);

    /// `n` bits per second.
    pub const fn bits(n: u64) -> Self {
        Rate(n)
    }
    /// `n` megabits per second.
    pub const fn mbit(n: u64) -> Self {
        Rate(n * 1_000_000)
    }
    /// `n` gigabits per second.
    pub const fn gbit(n: u64) -> Self {
        Rate(n * 1_000_000_000)
    }
    /// Bits per second.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// How long `size` takes at this rate, rounded up; [`Nanos::MAX`] at rate zero.
    pub fn time_for(self, size: Bytes) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        let ns = (u128::from(size.get()) * 8_000_000_000).div_ceil(u128::from(self.0));
        Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// A rate in packets per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PacketRate(u64);

impl PacketRate {
    /// No packets.
    pub const ZERO: PacketRate = PacketRate(0);

    /// `n` packets per second.
    pub const fn pps(n: u64) -> Self {
        PacketRate(n)
    }
    /// `n` thousand packets per second.
    pub const fn kpps(n: u64) -> Self {
        PacketRate(n * 1_000)
    }
    /// Packets per second.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The packet rate of `size`-byte packets at `rate`, rounded up; zero if the size is zero.
    pub fn of(rate: Rate, size: Bytes) -> Self {
        let bits = size.get().saturating_mul(8);
        if bits == 0 {
            return PacketRate::ZERO;
        }
        PacketRate(rate.get().div_ceil(bits))
    }
    /// The highest packet rate of a line of this rate: the shortest Ethernet frames, with preamble, check sequence and gap (IEEE 802.3 4.2.3.2,
    /// 4.4.2).
    pub fn max_for_line(line: Rate) -> Self {
        PacketRate::of(line, Bytes::new(84))
    }
    /// Packets that arrive within `span`, rounded up.
    pub fn within(self, span: Nanos) -> u64 {
        let packets = (u128::from(self.0) * u128::from(span.get())).div_ceil(1_000_000_000);
        u64::try_from(packets).unwrap_or(u64::MAX)
    }
    /// The time in which `packets` arrive, rounded down; [`Nanos::MAX`] at rate zero.
    pub fn time_for(self, packets: u64) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        let ns = u128::from(packets) * 1_000_000_000 / u128::from(self.0);
        Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Bytes(n)
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The rate at which they are sent within a time, rounded up; zero if the time is zero.
    pub fn rate_within(self, time: Nanos) -> Rate {
        let bits = u128::from(self.0) * 8 * 1_000_000_000;
        let rate = if time == Nanos::ZERO { 0 } else { bits.div_ceil(u128::from(time.get())) };
        Rate::bits(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

/// A part of a whole, in units of 2^-32; at most one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Share(u64);

impl Share {
    /// None of it.
    pub const ZERO: Share = Share(0);
    /// The whole.
    pub const ONE: Share = Share(1 << 32);

    /// `part` of `whole`, rounded down and at most one; one if `whole` is zero.
    pub fn of(part: u64, whole: u64) -> Self {
        if whole == 0 || part >= whole {
            return Share::ONE;
        }
        Share(((u128::from(part) << 32) / u128::from(whole)) as u64)
    }
    /// The share in units of 2^-32.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The sum of both, at most the whole.
    pub fn plus(self, other: Share) -> Share {
        Share((self.0 + other.0).min(Share::ONE.0))
    }

    /// The difference, or zero if the other is larger.
    pub fn minus(self, other: Share) -> Share {
        Share(self.0.saturating_sub(other.0))
    }
    /// The share as a fraction, for printing only.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / (1u64 << 32) as f64
    }
}

/// A part of a whole, or a ratio, in millionths. It is exact if it was written with up to four decimals of a percent. It may exceed one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Parts(u32);

impl Parts {
    /// The whole.
    pub const ONE: Parts = Parts(1_000_000);

    /// `n` millionths.
    pub const fn millionths(n: u32) -> Self {
        Parts(n)
    }
    /// `n` hundredths.
    pub const fn percent(n: u32) -> Self {
        Parts(n * 10_000)
    }
    /// The number of millionths.
    pub const fn get(self) -> u32 {
        self.0
    }
    /// The ratio as a fraction, for printing only.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    #[test]
    fn transmission_time_is_exact_and_rounds_up() {
        assert_eq!(Rate::mbit(10).time_for(Bytes::new(1500)), Nanos::micros(1200));
        assert_eq!(Rate::bits(3).time_for(Bytes::new(1)), Nanos::new(2_666_666_667));
        assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), Nanos::MAX);
    }

    #[test]
    fn packet_rates_follow_from_bits_and_from_time() {
        assert_eq!(PacketRate::of(Rate::mbit(10), Bytes::new(1250)), PacketRate::kpps(1));
        assert_eq!(PacketRate::of(Rate::bits(1), Bytes::new(64)), PacketRate::pps(1));
        assert_eq!(PacketRate::of(Rate::MAX, Bytes::ZERO), PacketRate::ZERO);
        assert_eq!(PacketRate::kpps(140).time_for(48), Nanos::new(342_857));
        assert_eq!(PacketRate::ZERO.time_for(1), Nanos::MAX);
        assert_eq!(PacketRate::kpps(140).within(Nanos::millis(1)), 140);
        assert_eq!(PacketRate::kpps(140).within(Nanos::new(1)), 1);
    }

    #[test]
    fn shares_never_exceed_the_whole() {
        assert_eq!(Share::of(5, 4), Share::ONE);
        assert_eq!(Share::of(1, 4).as_f64(), 0.25);
    }
}
