//! The text forms of quantities, as `tc(8)` writes them.

use crate::{Bytes, Nanos, PacketRate, Parts, Rate};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Why a text is not a quantity, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    /// The reason.
    pub reason: String,
    /// Text to write instead.
    pub hint: String,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.hint)
    }
}

impl core::error::Error for UnitError {}

const RATES: &[(&str, u64)] =
    &[("tbit", 1_000_000_000_000), ("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
const TIMES: &[(&str, u64)] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const SIZES: &[(&str, u64)] = &[("b", 1), ("kb", 1 << 10), ("mb", 1 << 20), ("gb", 1 << 30)];

const PACKET_RATES: &[(&str, u64)] = &[("mpps", 1_000_000), ("kpps", 1_000), ("pps", 1)];
/// Parts are written as a percentage or as a plain fraction.
const PARTS: &[(&str, u64)] = &[("%", 10_000), ("", 1_000_000), ("ppm", 1)];

/// A decimal number times a unit of the table, exact, or the reason why it cannot be parsed.
fn scaled(text: &str, units: &[(&str, u64)], what: &str, example: &str) -> Result<u64, UnitError> {
    let wrong = |reason: String, hint: String| Err(UnitError { reason, hint });
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim().to_ascii_lowercase());
    if number.is_empty() {
        return wrong(format!("'{text}' is no {what}"), format!("write a number and a unit, like '{example}'"));
    }
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let reason =
            if unit.is_empty() { format!("'{text}' has no unit") } else { format!("'{unit}' is no unit of {what}") };
        if let Some(scale) = unit.strip_suffix("bps").or(unit.strip_suffix("ps")).filter(|_| what == "rate") {
            return wrong(reason, format!("in tc 'bps' means bytes per second; say bits: '{number}{scale}bit'"));
        }
        return wrong(reason, format!("use one of {}, like '{example}'", names.join(", ")));
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let too_large =
        || UnitError { reason: format!("'{text}' is too large"), hint: format!("write a {what} like '{example}'") };
    if part.contains('.') || (whole.is_empty() && part.is_empty()) {
        return wrong(format!("'{number}' is no number"), format!("write a {what} like '{example}'"));
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_large())? };
    let mut value = u128::from(whole) * u128::from(scale);
    let mut place = u128::from(scale);
    for digit in part.bytes() {
        let add = u128::from(digit - b'0') * place;
        // A digit finer than the base unit is an error; it is never rounded.
        if add % 10 != 0 || (place == 0 && digit != b'0') {
            return wrong(
                format!(
                    "'{text}' is not a multiple of one {}",
                    units.iter().find(|u| u.1 == 1).map_or("unit", |u| u.0)
                ),
                "use fewer decimals".into(),
            );
        }
        value += add / 10;
        place /= 10;
    }
    u64::try_from(value).map_err(|_| too_large())
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, RATES, "rate", "10mbit").map(Rate::bits)
    }
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, TIMES, "time", "5ms").map(Nanos::new)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, SIZES, "size", "1500b").map(Bytes::new)
    }
}

impl FromStr for PacketRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, PACKET_RATES, "packet rate", "49kpps").map(PacketRate::pps)
    }
}

impl FromStr for Parts {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let millionths = scaled(text, PARTS, "part", "10%")?;
        u32::try_from(millionths).map(Parts::millionths).map_err(|_| UnitError {
            reason: format!("'{text}' is too large"),
            hint: "write a percentage or a fraction, like '10%' or '0.1'".into(),
        })
    }
}

/// Writes the value in the largest unit that needs no fraction.
fn shortest(value: u64, units: &[(&str, u64)]) -> String {
    let best = units.iter().filter(|(_, scale)| value.is_multiple_of(*scale)).max_by_key(|(_, scale)| *scale);
    let (name, scale) = best.expect("every table has a unit of one");
    if value == 0 {
        format!("0{}", units.iter().find(|u| u.1 == 1).expect("unit of one").0)
    } else {
        format!("{}{name}", value / scale)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.get(), RATES))
    }
}

impl fmt::Display for PacketRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.get(), PACKET_RATES))
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.get() / 10_000, self.get() % 10_000);
        let text = match rest {
            0 => format!("{whole}%"),
            _ => format!("{}%", format!("{whole}.{rest:04}").trim_end_matches('0')),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.get(), TIMES))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&shortest(self.get(), SIZES))
    }
}

/// A value in three or four figures, for messages: `141.1 MB`, `1.08 ms`. Values to be typed into a configuration must be exact; `Display` of the
/// quantity writes those.
struct Rounded {
    value: u64,
    /// The unit of the value, and larger units, each with its multiple of the first.
    units: &'static [(&'static str, u64)],
}

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = self.units.iter().rev().find(|(_, scale)| self.value >= *scale);
        let (name, scale) = fits.copied().unwrap_or(self.units[0]);
        let (whole, rest) = (self.value / scale, self.value % scale);
        // Rounded with integers: the plane uses no floating point.
        let digits = match whole {
            _ if scale == 1 || rest == 0 => 0,
            0..10 => 2,
            10..1000 => 1,
            _ => 0,
        };
        let shift = 10u128.pow(digits);
        let rounded = (u128::from(self.value) * shift + u128::from(scale) / 2) / u128::from(scale);
        let (whole, part) = (rounded / shift, rounded % shift);
        match digits {
            0 => write!(f, "{whole} {name}"),
            digits => write!(f, "{whole}.{part:0width$} {name}", width = digits as usize),
        }
    }
}

impl Nanos {
    /// In three figures, for messages: `1.08 ms`.
    pub fn rounded(self) -> impl fmt::Display {
        Rounded { value: self.get(), units: &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)] }
    }
}

impl Bytes {
    /// In three figures, for messages: `141.1 MB`. A megabyte has 2^20 bytes, as in configurations.
    pub fn rounded(self) -> impl fmt::Display {
        Rounded { value: self.get(), units: &[("bytes", 1), ("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    #[test]
    fn tc_forms_are_read_exactly() {
        assert_eq!("10mbit".parse(), Ok(Rate::mbit(10)));
        assert_eq!("2.5gbit".parse(), Ok(Rate::mbit(2500)));
        assert_eq!(" 1.5 ms".parse(), Ok(Nanos::micros(1500)));
        assert_eq!("1500b".parse(), Ok(Bytes::new(1500)));
        assert_eq!("64kb".parse(), Ok(Bytes::new(65536)));
    }

    #[test]
    fn messages_have_three_figures() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (1_081_550, "1.08 ms"),
            (9_999_999, "10.00 ms"),
            (30_010, "30.0 us"),
            (342_857, "342.9 us"),
            (999_999, "1000.0 us"),
            (10_000_050, "10.0 ms"),
            (86_400_000_000_000, "86400 s"),
            (u64::MAX, "18446744074 s"),
        ] {
            assert_eq!(Nanos::new(ns).rounded().to_string(), text);
        }
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.50 kB"),
            (148_004_736, "141.1 MB"),
            (64 << 20, "64 MB"),
            (25_165_825, "24.0 MB"),
            (u64::MAX, "17179869184 GB"),
        ] {
            assert_eq!(Bytes::new(bytes).rounded().to_string(), text);
        }
    }

    #[test]
    fn packet_rates_and_parts_are_read_exactly() {
        assert_eq!("49kpps".parse(), Ok(PacketRate::kpps(49)));
        assert_eq!("140000pps".parse(), Ok(PacketRate::kpps(140)));
        assert_eq!("1.488095 Mpps".parse(), Ok(PacketRate::pps(1_488_095)));
        assert_eq!("10%".parse(), Ok(Parts::percent(10)));
        assert_eq!("0.05".parse(), Ok(Parts::percent(5)));
        assert_eq!(" 2.5 %".parse(), Ok(Parts::millionths(25_000)));
        assert_eq!("1".parse(), Ok(Parts::ONE));
        assert_eq!("62ppm".parse(), Ok(Parts::millionths(62)));
    }

    #[test]
    fn invalid_packet_rates_and_parts_give_a_reason() {
        for (text, reason) in [
            ("49", "'49' has no unit"),
            ("10mbit", "'mbit' is no unit of packet rate"),
            ("0.5pps", "'0.5pps' is not a multiple of one pps"),
            ("-1pps", "'-1pps' is no packet rate"),
            ("99999999999999mpps", "'99999999999999mpps' is too large"),
        ] {
            assert_eq!(text.parse::<PacketRate>().unwrap_err().reason, reason);
        }
        for (text, reason) in [
            ("", "'' is no part"),
            ("-5%", "'-5%' is no part"),
            ("5 percent", "'percent' is no unit of part"),
            ("0.0000001", "'0.0000001' is not a multiple of one ppm"),
            ("5000", "'5000' is too large"),
            ("429497%", "'429497%' is too large"),
        ] {
            assert_eq!(text.parse::<Parts>().unwrap_err().reason, reason);
        }
    }

    #[test]
    fn bytes_per_second_are_refused_with_a_hint() {
        let error = "10mbps".parse::<Rate>().unwrap_err();
        assert!(error.hint.contains("'10mbit'"), "{error}");
    }

    #[test]
    fn invalid_text_never_panics_and_gives_a_reason() {
        for text in [
            "",
            "mbit",
            "1",
            "1.2.3ms",
            "99999999999999999999gbit",
            "0.5bit",
            "5 parsecs",
            ".ms",
            "é",
            "-1ms",
            "1ps",
            "1éps",
            "1.05bit",
            "1.0000000001s",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn quantity_text_round_trips() {
        for bits in [0, 1, 999, 1000, 1_500_000, 10_000_000_000, u64::MAX] {
            assert_eq!(Rate::bits(bits).to_string().parse(), Ok(Rate::bits(bits)));
            assert_eq!(Nanos::new(bits).to_string().parse(), Ok(Nanos::new(bits)));
            assert_eq!(Bytes::new(bits).to_string().parse(), Ok(Bytes::new(bits)));
            assert_eq!(PacketRate::pps(bits).to_string().parse(), Ok(PacketRate::pps(bits)));
        }
        for (millionths, text) in
            [(0, "0%"), (1, "0.0001%"), (25_000, "2.5%"), (1_250_000, "125%"), (u32::MAX, "429496.7295%")]
        {
            assert_eq!(Parts::millionths(millionths).to_string(), text);
            assert_eq!(text.parse(), Ok(Parts::millionths(millionths)));
        }
    }
}
