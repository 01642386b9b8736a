//! Address prefixes and their text.

use crate::text::{TextError, quote};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use units::Mac;

/// Serializes a MAC address as text.
pub(crate) fn mac_text<S: Serializer>(mac: &Mac, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mac)
}

/// Serializes an optional MAC address as text.
pub(crate) fn optional_mac_text<S: Serializer>(mac: &Option<Mac>, serializer: S) -> Result<S::Ok, S::Error> {
    match mac {
        Some(mac) => serializer.collect_str(mac),
        None => serializer.serialize_none(),
    }
}

/// An address with a prefix length, like `192.0.2.1/24`. For a route's destination it is the network address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    /// The address. Host bits may be set.
    pub address: IpAddr,
    /// The prefix length: at most 32 for IPv4, 128 for IPv6.
    pub length: u8,
}

impl Prefix {
    /// The prefix, or `None` if the length exceeds the family's.
    pub fn new(address: IpAddr, length: u8) -> Option<Prefix> {
        (length <= bits(address)).then_some(Prefix { address, length })
    }

    /// A single address: length 32 or 128.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, length: bits(address) }
    }

    /// The same prefix with the host bits cleared.
    pub fn network(self) -> Prefix {
        Prefix { address: masked(self.address, self.length), length: self.length }
    }

    /// True if no host bit is set.
    pub fn is_network(self) -> bool {
        self.network() == self
    }

    /// True if `address` is of the same family and within the prefix.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.length) == masked(self.address, self.length)
    }

    /// True if the prefix contains every address of `other`.
    pub fn covers(self, other: Prefix) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// The last address of the prefix: for IPv4 the subnet's broadcast address.
    pub fn last(self) -> IpAddr {
        match self.address {
            IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() | !mask4(self.length))),
            IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() | !mask6(self.length))),
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask4(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0)
}

fn mask6(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0)
}

/// The address with all bits after `length` cleared.
pub(crate) fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask4(length))),
        IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask6(length))),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = TextError;
    /// Parses `ADDRESS/LENGTH`; the length is required.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let Some((address, length)) = text.split_once('/') else {
            return Err(match text.parse::<IpAddr>() {
                Ok(address) => TextError::whole(
                    text,
                    format!("{} has no prefix length", quote(text)),
                    format!("write '{}' for this one address", Prefix::host(address)),
                ),
                Err(_) => no_prefix(text),
            });
        };
        let address: IpAddr = address.parse().map_err(|_| no_prefix(text))?;
        // `u8::from_str` accepts "+8"; a configuration does not.
        let length = if length.bytes().all(|b| b.is_ascii_digit()) { length.parse::<u8>().ok() } else { None };
        length.and_then(|length| Prefix::new(address, length)).ok_or_else(|| {
            let reason = format!("{} has no prefix length from 0 to {}", quote(text), bits(address));
            TextError::whole(text, reason, format!("write '{address}/N' with N from 0 to {}", bits(address)))
        })
    }
}

fn no_prefix(text: &str) -> TextError {
    let hint = "write an address and a length, like '192.0.2.0/24' or '2001:db8::/64'";
    TextError::whole(text, format!("{} is no address prefix", quote(text)), hint)
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefix_contains_its_addresses_and_no_others() {
        assert!(prefix("10.0.0.0/8").contains("10.255.0.1".parse().unwrap()));
        assert!(!prefix("10.0.0.0/8").contains("11.0.0.0".parse().unwrap()));
        assert!(prefix("0.0.0.0/0").contains("255.255.255.255".parse().unwrap()));
        assert!(!prefix("0.0.0.0/0").contains("::".parse().unwrap()));
        assert!(prefix("2001:db8::/32").covers(prefix("2001:db8:1::/48")));
        assert!(!prefix("2001:db8:1::/48").covers(prefix("2001:db8::/32")));
        assert_eq!(prefix("192.0.2.77/24").network(), prefix("192.0.2.0/24"));
        assert_eq!(prefix("192.0.2.77/24").last(), "192.0.2.255".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn malformed_prefixes_are_refused() {
        for text in ["", "/", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "1.2.3.4/+8", "::/129", "1.2.3/8", "::1/64/1", "é/1"]
        {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn prefix_parses_back_as_printed(address: IpAddr, length in 0u8..=128) {
            if let Some(prefix) = Prefix::new(address, length) {
                prop_assert_eq!(prefix.to_string().parse::<Prefix>().unwrap(), prefix);
                prop_assert!(prefix.contains(address) && prefix.network().is_network());
            }
        }
    }
}
