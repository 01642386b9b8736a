//! Link-layer addresses (IEEE 802 48-bit MAC).

use crate::UnitError;
use alloc::format;
use alloc::string::ToString;
use core::fmt;
use core::str::FromStr;

/// A 48-bit link-layer address, first byte first on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Every host of the segment.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// No address: `00:00:00:00:00:00`.
    pub const ZERO: Mac = Mac([0; 6]);

    /// True if it is a group address (multicast or broadcast).
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// True if it is the broadcast address.
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// True if it can be the address of one interface: neither a group address nor zero.
    pub fn is_unicast(self) -> bool {
        !self.is_group() && self != Self::ZERO
    }

    /// The address as a number below 2^48, first byte highest.
    pub const fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address of a number; bits above the 48th are ignored.
    pub const fn from_number(number: u64) -> Mac {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        f.pad(&format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"))
    }
}

impl FromStr for Mac {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError {
            reason: format!("'{text}' is no MAC address"),
            hint: "write six bytes in hexadecimal, like '02:00:00:00:00:01'".to_string(),
        };
        let mut bytes = [0; 6];
        let mut parts = text.trim().split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(part.ok_or_else(error)?, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(Mac(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_it_is_read() {
        let mac: Mac = "02:00:00:ab:cd:EF".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:00:ab:cd:ef");
        assert_eq!(Mac::from_number(mac.number()), mac);
        for wrong in
            ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "+2:00:00:00:00:00", "zz:00:00:00:00:00"]
        {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }
}
