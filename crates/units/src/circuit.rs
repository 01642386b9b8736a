//! Keys of a circuit: the connection of one subscriber to an access network.

use crate::Mac;
use core::fmt;
use core::net::IpAddr;

/// One key that identifies the packets of a circuit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CircuitKey {
    /// The subscriber's addresses: a prefix and its length in bits. Bits after the length are ignored.
    Prefix(IpAddr, u8),
    /// The link-layer address of the subscriber's equipment.
    Mac(Mac),
    /// The VLAN tags of the subscriber's frames, with identifiers from 1 to 4094.
    Vlan {
        /// The outer tag of two (QinQ). `None` if `vlan` is the outermost tag.
        outer: Option<u16>,
        /// The tag, the inner one of two.
        vlan: u16,
    },
}

impl fmt::Display for CircuitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CircuitKey::Prefix(address, length) => write!(f, "{address}/{length}"),
            CircuitKey::Mac(mac) => write!(f, "{mac}"),
            CircuitKey::Vlan { outer: Some(outer), vlan } => write!(f, "VLAN {outer}.{vlan}"),
            CircuitKey::Vlan { outer: None, vlan } => write!(f, "VLAN {vlan}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn circuit_key_names_prefix_mac_or_tags() {
        let text = |key: CircuitKey| key.to_string();
        assert_eq!(text(CircuitKey::Prefix("2001:db8::".parse().unwrap(), 56)), "2001:db8::/56");
        assert_eq!(text(CircuitKey::Mac("02:00:00:00:00:01".parse().unwrap())), "02:00:00:00:00:01");
        assert_eq!(text(CircuitKey::Vlan { outer: None, vlan: 100 }), "VLAN 100");
        assert_eq!(text(CircuitKey::Vlan { outer: Some(100), vlan: 20 }), "VLAN 100.20");
    }
}
