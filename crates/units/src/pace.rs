//! The speed of a sender: in packets or in bits a second.

use crate::{PacketRate, Rate, UnitError};
use alloc::borrow::ToOwned;
use core::fmt;
use core::str::FromStr;

/// A sending rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Packets a second.
    Packets(PacketRate),
    /// Bits a second.
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

    /// True if it is of the same kind as `other`.
    pub fn has_same_unit(self, other: Pace) -> bool {
        matches!((self, other), (Pace::Packets(_), Pace::Packets(_)) | (Pace::Bits(_), Pace::Bits(_)))
    }

    /// Moves `times` steps of `step` towards `other`, up or down, but not past it.
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
            let reason = "a rate of zero sends no packets".to_owned();
            return Err(UnitError { reason, hint: "write a rate above zero, or leave it out".into() });
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    #[test]
    fn pace_text_round_trips() {
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
    fn pace_steps_stop_at_target() {
        let pace = |text: &str| text.parse::<Pace>().unwrap();
        let climb = |times| pace("39kpps").towards(pace("84kpps"), pace("2kpps"), times);
        assert_eq!(
            [climb(0), climb(1), climb(22), climb(23)].map(|p| p.to_string()),
            ["39kpps", "41kpps", "83kpps", "84kpps"]
        );
        assert_eq!(pace("5mbit").towards(pace("1mbit"), pace("3mbit"), 2), pace("1mbit"));
    }
}
