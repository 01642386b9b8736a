//! How fast a source sends: in packets or in bits a second, exactly. No rounding adds up: the thousandth packet of a
//! source of three a second comes at 333 s and a third, not some microseconds off.

use std::fmt;
use std::str::FromStr;
use units::{PacketRate, Rate, UnitError};

/// A rate of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// So many packets a second.
    Packets(PacketRate),
    /// So many bits a second, of frames with their check sequence.
    Bits(Rate),
}

impl Pace {
    fn number(self) -> u64 {
        match self {
            Pace::Packets(rate) => rate.get(),
            Pace::Bits(rate) => rate.get(),
        }
    }

    /// The time from one packet of `size` bytes to the next, as a fraction of nanoseconds.
    pub fn gap(self, size: u64) -> (u64, u64) {
        let second = 1_000_000_000;
        (if matches!(self, Pace::Packets(_)) { second } else { size * 8 * second }, self.number().max(1))
    }

    /// Whether it is of the same kind as `other`.
    pub fn is_like(self, other: Pace) -> bool {
        matches!((self, other), (Pace::Packets(_), Pace::Packets(_)) | (Pace::Bits(_), Pace::Bits(_)))
    }

    /// `times` of `step` more, or less where `other` is below; not past `other`.
    pub fn towards(self, other: Pace, step: Pace, times: u64) -> Pace {
        let (from, to, by) = (self.number(), other.number(), step.number().saturating_mul(times));
        let value = if from <= to { from.saturating_add(by).min(to) } else { from.saturating_sub(by).max(to) };
        match self {
            Pace::Packets(_) => Pace::Packets(PacketRate::pps(value)),
            Pace::Bits(_) => Pace::Bits(Rate::bits(value)),
        }
    }
}

impl FromStr for Pace {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Pace, UnitError> {
        let pace = if text.trim().to_ascii_lowercase().ends_with("pps") {
            Pace::Packets(text.parse()?)
        } else {
            let hint = "write packets as \"49kpps\", or bits as \"10mbit\"";
            let either = |error: UnitError| match text.trim_end().ends_with("bps") {
                true => error,
                false => UnitError { hint: hint.to_owned(), ..error },
            };
            Pace::Bits(text.parse().map_err(either)?)
        };
        if pace.number() == 0 {
            let reason = "a source that never sends is none".to_owned();
            return Err(UnitError { reason, hint: "leave the source out".into() });
        }
        Ok(pace)
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Bits(rate) => rate.fmt(f),
            Pace::Packets(rate) => rate.fmt(f),
        }
    }
}

/// A time that goes on by fractions of nanoseconds of which none is lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exact {
    /// Whole nanoseconds.
    pub at: u64,
    rest: u64,
    over: u64,
}

impl Exact {
    /// A whole number of nanoseconds.
    pub fn new(at: u64) -> Exact {
        Exact { at, rest: 0, over: 1 }
    }

    /// Goes on by `(part, whole)`: that many nanoseconds and parts of one.
    #[inline]
    pub fn pass(&mut self, (part, whole): (u64, u64)) {
        if whole != self.over {
            // Another denominator: what is left of the old one is rounded down, less than a nanosecond once.
            self.rest = (u128::from(self.rest) * u128::from(whole) / u128::from(self.over.max(1))) as u64;
            self.over = whole;
        }
        let sum = self.rest + part;
        self.at = self.at.saturating_add(sum / whole);
        self.rest = sum % whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_exactly_and_print_so_that_they_read_back() {
        for (text, pace) in [
            ("49kpps", Pace::Packets(PacketRate::kpps(49))),
            ("1.5mpps", Pace::Packets(PacketRate::kpps(1500))),
            ("10mbit", Pace::Bits(Rate::mbit(10))),
        ] {
            assert_eq!(text.parse(), Ok(pace));
            assert_eq!(pace.to_string().parse(), Ok(pace));
        }
        for text in ["", "pps", "1..5pps", "0pps", "0bit", "-1pps", "10mbps", "99999999999999999kpps", "49"] {
            assert!(text.parse::<Pace>().is_err(), "{text}");
        }
    }

    #[test]
    fn three_a_second_lose_nothing_to_rounding() {
        let mut time = Exact::new(0);
        (0..3000).for_each(|_| time.pass(Pace::Packets(PacketRate::pps(3)).gap(64)));
        assert_eq!(time.at, 1_000_000_000_000);
        let mut time = Exact::new(5);
        (0..7).for_each(|_| time.pass(Pace::Bits(Rate::bits(7)).gap(1)));
        assert_eq!(time.at, 8_000_000_005);
    }

    #[test]
    fn a_pace_goes_in_steps_and_not_past_its_end() {
        let pace = |text: &str| text.parse::<Pace>().unwrap();
        let climb = |times| pace("39kpps").towards(pace("84kpps"), pace("2kpps"), times);
        assert_eq!(
            [climb(0), climb(1), climb(22), climb(23)].map(|p| p.to_string()),
            ["39kpps", "41kpps", "83kpps", "84kpps"]
        );
        assert_eq!(pace("5mbit").towards(pace("1mbit"), pace("3mbit"), 2), pace("1mbit"));
    }
}
