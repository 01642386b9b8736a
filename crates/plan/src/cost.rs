//! Processor costs of packets, and their source.

use crate::text::quote;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Nanos, UnitError};

/// The cost of a packet: a constant, and a part per byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// For any packet.
    pub packet: Nanos,
    /// For each 1000 bytes.
    pub kilobyte: Nanos,
}

impl Cost {
    /// The cost of a packet of `size` bytes.
    pub fn of(self, size: Bytes) -> Nanos {
        self.packet + Nanos::new(self.kilobyte.get().saturating_mul(size.get()) / 1000)
    }
}

impl fmt::Display for Cost {
    /// As in the configuration: `1us + 2ns/b`, or per kilobyte of 1000 bytes if the cost per byte is not an integer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kilobyte.get(), self.packet) {
            (0, packet) => return packet.fmt(f),
            (_, Nanos::ZERO) => {}
            (_, packet) => write!(f, "{packet} + ")?,
        }
        let (whole, rest) = (self.kilobyte.get() / 1000, self.kilobyte.get() % 1000);
        let text = format!("{whole}.{rest:03}");
        write!(f, "{}ns/b", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for Cost {
    type Err = UnitError;

    /// `6us`, `1us + 2ns/b` or `2ns/b`.
    fn from_str(text: &str) -> Result<Cost, UnitError> {
        let hint = || "write '6us', '1us + 2ns/b' or '2ns/b'".to_string();
        let wrong = |error: UnitError| UnitError { reason: error.reason, hint: hint() };
        let mut cost = Cost::default();
        let parts: Vec<&str> = text.split('+').collect();
        if parts.len() > 2 || (parts.len() == 2 && !parts[1].contains('/')) {
            return Err(UnitError { reason: format!("{} is no cost", quote(text)), hint: hint() });
        }
        for part in parts {
            let Some((time, byte)) = part.split_once('/') else {
                cost.packet = part.parse().map_err(wrong)?;
                continue;
            };
            if byte.trim() != "b" || cost.kilobyte != Nanos::ZERO {
                return Err(UnitError { reason: format!("{} is no cost of a byte", quote(part.trim())), hint: hint() });
            }
            // The cost of a byte in one unit is that of a thousand bytes in the next smaller one. So fractions of a nanosecond are exact.
            let time = time.trim();
            let (number, unit) = time.split_at(time.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(time.len()));
            let larger = match unit {
                "ns" => "us",
                "us" => "ms",
                _ => {
                    return Err(UnitError {
                        reason: format!("{} is no cost of a byte", quote(part.trim())),
                        hint: hint(),
                    });
                }
            };
            cost.kilobyte = format!("{number}{larger}").parse().map_err(wrong)?;
        }
        Ok(cost)
    }
}

/// The source of a cost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CostSource {
    /// Measured on this machine.
    Measured,
    /// Declared by the configuration or the function.
    Declared,
    /// Unknown: a guess of a usual size.
    Assumed,
}

impl CostSource {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            CostSource::Measured => "measured",
            CostSource::Declared => "declared",
            CostSource::Assumed => "assumed",
        }
    }
}

/// A cost with its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CostEstimate {
    /// The cost.
    pub cost: Cost,
    /// The source of the cost.
    pub source: CostSource,
}

impl CostEstimate {
    /// A constant cost per packet.
    pub const fn flat(packet: Nanos, source: CostSource) -> CostEstimate {
        CostEstimate { cost: Cost { packet, kilobyte: Nanos::ZERO }, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cost_is_a_time_per_packet_and_per_byte() {
        let cost = |packet, kilobyte| Ok(Cost { packet: Nanos::new(packet), kilobyte: Nanos::new(kilobyte) });
        assert_eq!("6us".parse::<Cost>(), cost(6_000, 0));
        assert_eq!("1us + 2ns/b".parse::<Cost>(), cost(1_000, 2_000));
        assert_eq!("0.25 ns / b".parse::<Cost>(), cost(0, 250));
        assert_eq!("1.5us+0.001ns/b".parse::<Cost>(), cost(1_500, 1));
        for wrong in ["", "6", "2ns/b + 1us", "1us + 2us", "1us+1ns/b+1ns/b", "1ns/kb", "1s/b", "-1us", "1ns/b + 1ns/b"]
        {
            assert!(wrong.parse::<Cost>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn cost_parses_back_as_printed(packet in 0u64..1 << 40, kilobyte in 0u64..1 << 40) {
            let cost = Cost { packet: Nanos::new(packet), kilobyte: Nanos::new(kilobyte) };
            prop_assert_eq!(cost.to_string().parse::<Cost>().unwrap(), cost);
        }

        #[test]
        fn no_cost_panics(text in "[0-9nsu/b+. é]{0,20}") {
            let _ = text.parse::<Cost>();
        }
    }
}
