//! Elements of a named set: prefixes, addresses and ranges of ports, with their text.

use crate::Prefix;
use crate::named::named;
use crate::text::{TextError, quote};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

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

fn addresses(text: &str) -> Result<Prefix, TextError> {
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

    proptest! {
        #[test]
        fn element_parses_back_as_printed(value in any_value()) {
            prop_assert_eq!(value.to_string().parse::<SetValue>().unwrap(), value);
        }

        #[test]
        fn any_text_is_an_element_or_an_error(text in "[-0-9a-f.:/+ ]{0,24}") {
            if let Ok(value) = text.parse::<SetValue>() {
                prop_assert_eq!(value.to_string().parse::<SetValue>().unwrap(), value);
            }
        }
    }
}
