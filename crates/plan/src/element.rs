//! Elements of a named set: prefixes, addresses and ranges of ports, each with its lifetime. The configuration, files and the API use the same text:
//!
//! ```text
//! 10.0.0.0/8
//! 192.0.2.1 expires 1h   # a comment, in files only
//! 8000-8080
//! ```

use crate::Prefix;
use crate::diagnostic::{Diagnostics, Report};
use crate::named::named;
use crate::text::{TextError, quote};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use units::Nanos;

/// The range of lifetimes. Expired elements are removed in steps of half a second, so a shorter one would be inexact.
const LIFETIMES: RangeInclusive<Nanos> = Nanos::secs(1)..=Nanos::secs(365 * 86_400);

/// The values that a set can hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SetKind {
    /// IPv4 and IPv6 addresses, by prefix.
    Address,
    /// Ports, by range.
    Port,
}

named! {
    SetKind { Address "address", Port "port" }
}

/// An element of a named set: `10.0.0.0/8`, `2001:db8::1`, `443` or `8000-8080`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SetValue {
    /// A network, or a single address with the full length. No host bit is set.
    Addresses(Prefix),
    /// The first and the last port.
    Ports(u16, u16),
}

impl SetValue {
    /// The kind of set that can hold the element.
    pub fn kind(self) -> SetKind {
        match self {
            SetValue::Addresses(_) => SetKind::Address,
            SetValue::Ports(..) => SetKind::Port,
        }
    }
}

impl fmt::Display for SetValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SetValue::Addresses(prefix) if prefix == Prefix::host(prefix.address) => prefix.address.fmt(f),
            SetValue::Addresses(prefix) => prefix.fmt(f),
            SetValue::Ports(first, last) if first == last => first.fmt(f),
            SetValue::Ports(first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl FromStr for SetValue {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        if text.contains(['.', ':']) {
            return addresses(text).map(SetValue::Addresses);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(SetValue::Ports(first, last)),
            (Some(first), Some(last)) => {
                let reason = format!("the first port {first} is greater than the last, {last}");
                Err(TextError::whole(text, reason, format!("write {last}-{first}")))
            }
            _ => {
                let hint = "write a prefix, an address, a port or a range of ports, like 192.0.2.0/24, 2001:db8::1, 443 or 8000-8080";
                Err(TextError::whole(text, format!("{} is no element of a set", quote(text)), hint))
            }
        }
    }
}

impl Serialize for SetValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Units of lifetimes beside those of all times, the longest first.
const LONG_UNITS: [(&str, Nanos); 3] = [("d", Nanos::secs(86_400)), ("h", Nanos::secs(3600)), ("m", Nanos::secs(60))];

/// A lifetime in the longest unit that needs no fraction.
pub(crate) struct LifetimeText(pub Nanos);

impl fmt::Display for LifetimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match LONG_UNITS.iter().find(|(_, span)| self.0.get().is_multiple_of(span.get()) && self.0 >= *span) {
            Some((unit, span)) => write!(f, "{}{unit}", self.0.get() / span.get()),
            None => self.0.fmt(f),
        }
    }
}

/// An element with its lifetime, counted from the time at which the set gets it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SetEntry {
    /// The element.
    pub value: SetValue,
    /// Its lifetime; `None` for an element that stays.
    pub lifetime: Option<Nanos>,
}

impl fmt::Display for SetEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lifetime {
            Some(lifetime) => {
                write!(f, "{} expires {}", self.value, LifetimeText(lifetime))
            }
            None => self.value.fmt(f),
        }
    }
}

impl FromStr for SetEntry {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut words = text.split_ascii_whitespace();
        // An error of a part is at the position of that part.
        let at = |word: &str, error: TextError| TextError {
            offset: word.as_ptr().addr() - text.as_ptr().addr() + error.offset,
            ..error
        };
        let value = words.next().unwrap_or(text);
        let parsed = value.parse().map_err(|error| at(value, error))?;
        let lifetime = match (words.next(), words.next(), words.next()) {
            (None, ..) => None,
            (Some("expires"), Some(time), None) => Some(lifetime(time).map_err(|error| at(time, error))?),
            (Some(word), ..) => {
                let (reason, hint) = (
                    format!("{} does not belong here", quote(word)),
                    format!("write '{value}' or '{value} expires 1h'"),
                );
                return Err(at(word, TextError::whole(word, reason, hint)));
            }
        };
        Ok(SetEntry { value: parsed, lifetime })
    }
}

impl Serialize for SetEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Parses the elements of a file, one a line. Blank lines and comments from `#` on are ignored. `file` is only for messages. All errors are reported at
/// once, each with its line and column.
pub fn set_entries(text: &str, file: &str, kind: SetKind) -> Result<Vec<SetEntry>, Diagnostics> {
    let mut report = Report::new(text, file);
    let mut entries = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let place = start;
        start += line.len();
        let content = line.split_once('#').map_or(line, |(before, _)| before);
        let entry = content.trim_ascii();
        if entry.is_empty() {
            continue;
        }
        let offset = place + (entry.as_ptr().addr() - line.as_ptr().addr());
        match entry.parse::<SetEntry>() {
            Ok(parsed) if parsed.value.kind() == kind => entries.push(parsed),
            Ok(parsed) => report.error(offset..offset + entry.len(), "", || wrong_kind(parsed.value, kind)),
            Err(error) => {
                let span = offset + error.offset..offset + error.offset + error.length.max(1);
                report.error(span, "", || (error.reason, error.hint));
            }
        }
    }
    if report.failed() { Err(report.finish()) } else { Ok(entries) }
}

/// The reason and the hint for an element of the other kind.
pub(crate) fn wrong_kind(value: SetValue, kind: SetKind) -> (String, String) {
    let hint = match kind {
        SetKind::Address => "write an address or a prefix, like 192.0.2.1 or 2001:db8::/32, or set type = \"port\"",
        SetKind::Port => "write a port or a range of ports, like 443 or 8000-8080, or set type = \"address\"",
    };
    (format!("{value} does not fit a set of type '{kind}'"), hint.to_string())
}

/// Parses a lifetime.
pub fn lifetime(text: &str) -> Result<Nanos, TextError> {
    let hint = "write a time from 1s to 365d, like 90s, 15m, 1h or 7d";
    // Quantities elsewhere end at seconds, as those of tc do. A lifetime may be long.
    let long = LONG_UNITS.iter().find_map(|(unit, span)| {
        let number = text.strip_suffix(unit)?;
        let number: u64 = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
        Some(*span * number)
    });
    match long.map_or_else(|| text.parse::<Nanos>(), Ok) {
        Err(error) => Err(TextError::whole(text, error.reason, hint)),
        Ok(time) if !LIFETIMES.contains(&time) => Err(TextError::whole(text, format!("{time} is out of range"), hint)),
        Ok(time) => Ok(time),
    }
}

/// Parses an address or a prefix without host bits.
pub(crate) fn addresses(text: &str) -> Result<Prefix, TextError> {
    if !text.contains('/') {
        let address: IpAddr = text.parse().map_err(|_| {
            let hint = "write an address or a prefix, like 192.0.2.1 or 2001:db8::/32";
            TextError::whole(text, format!("{} is no address", quote(text)), hint)
        })?;
        return Ok(Prefix::host(address));
    }
    let prefix: Prefix = text.parse()?;
    if prefix.is_network() {
        return Ok(prefix);
    }
    let (network, address) = (prefix.network(), prefix.address);
    let hint = format!("write {network} for the network, or {address} for the address");
    Err(TextError::whole(text, format!("{prefix} has bits set behind its length"), hint))
}

/// `u16::from_str` accepts "+8"; an element does not.
fn port(text: &str) -> Option<u16> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = SetValue> {
        let prefix = (any::<IpAddr>(), 0u8..=128).prop_filter_map("length", |(address, length)| {
            Some(SetValue::Addresses(Prefix::new(address, length)?.network()))
        });
        let ports = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| SetValue::Ports(a.min(b), a.max(b)));
        prop_oneof![prefix, ports]
    }

    #[test]
    fn elements_are_printed_as_short_as_possible() {
        for (text, printed) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.1/32", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::/0", "::/0"),
            ("443", "443"),
            ("443-443", "443"),
            ("0-65535", "0-65535"),
        ] {
            assert_eq!(text.parse::<SetValue>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn malformed_elements_are_refused_with_a_hint() {
        for text in [
            "",
            "x",
            "1.2.3",
            "1.2.3.4/33",
            "10.0.0.1/8",
            "+1",
            "-1",
            "1-",
            "65536",
            "9-8",
            "1-2-3",
            "::g",
            "1.2.3.4-1.2.3.9",
        ] {
            let error = text.parse::<SetValue>().unwrap_err();
            assert!(!error.hint.is_empty(), "{text}");
        }
        let error = "10.0.0.1/8".parse::<SetValue>().unwrap_err();
        assert_eq!(error.hint, "write 10.0.0.0/8 for the network, or 10.0.0.1 for the address");
    }

    #[test]
    fn file_errors_name_line_and_column() {
        let text = "10.0.0.0/8\n\n  # nothing\n192.0.2.1 expires 1h # guest\n  10.0.0.300\n10.0.0.1 until 5s\n80\n::1 expires 0s";
        let errors = set_entries(text, "list.txt", SetKind::Address).unwrap_err();
        let places: Vec<_> = errors.errors().map(|error| (error.line, error.column)).collect();
        assert_eq!(places, [(5, 3), (6, 10), (7, 1), (8, 13)], "{errors}");
        let right: String = text.lines().take(4).map(|line| format!("{line}\r\n")).collect();
        let entries = set_entries(&right, "list.txt", SetKind::Address).unwrap();
        let printed: Vec<String> = entries.iter().map(ToString::to_string).collect();
        assert_eq!(printed, ["10.0.0.0/8", "192.0.2.1 expires 1h"]);
        for (text, printed) in [("90s", "90s"), ("120m", "2h"), ("7d", "7d"), ("3601s", "3601s"), ("90m", "90m")] {
            let entry: SetEntry = format!("1 expires {text}").parse().unwrap();
            assert_eq!(entry.to_string(), format!("1 expires {printed}"));
        }
        for text in ["1", "h", "+1h", "1.5h", "0s", "999999999999999999h", "366d", "1w"] {
            assert!(format!("1 expires {text}").parse::<SetEntry>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn element_parses_back_as_printed(value in any_value()) {
            prop_assert_eq!(value.to_string().parse::<SetValue>().unwrap(), value);
        }

        #[test]
        fn any_text_is_an_element_or_an_error(text in "[-0-9a-f.:/+ ]{0,24}|[1-9. expirsmh#\n]{0,40}|.{0,30}") {
            if let Ok(entry) = text.parse::<SetEntry>() {
                prop_assert_eq!(entry.to_string().parse::<SetEntry>().unwrap(), entry);
            }
            for kind in SetKind::ALL {
                let entries = set_entries(&text, "t", *kind).unwrap_or_default();
                prop_assert!(entries.iter().all(|entry| entry.value.kind() == *kind));
            }
        }
    }
}
