//! ARP for IPv4 over Ethernet (RFC 826), with the probes and announcements of RFC 5227.

use super::{Mac, ethertype};
use std::fmt;
use std::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const LENGTH: usize = 28;

const HARDWARE_ETHERNET: u16 = 1;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    hardware: U16,
    protocol: U16,
    hardware_length: u8,
    protocol_length: u8,
    operation: U16,
    sender_mac: [u8; 6],
    sender_ip: [u8; 4],
    target_mac: [u8; 6],
    target_ip: [u8; 4],
}

/// The operation of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArpOperation {
    /// Asks who has the target address.
    Request,
    /// States that the sender has the sender address.
    Reply,
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Request or reply.
    pub operation: ArpOperation,
    /// Link address of the sender.
    pub sender_mac: Mac,
    /// Address of the sender; unspecified in a probe.
    pub sender_ip: Ipv4Addr,
    /// Link address of the target; zero in a request.
    pub target_mac: Mac,
    /// Address asked for.
    pub target_ip: Ipv4Addr,
}

/// The reason why bytes are not a supported ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpError {
    /// Fewer than 28 bytes.
    Truncated,
    /// Not Ethernet addresses of six bytes.
    Hardware,
    /// Not IPv4 addresses of four bytes.
    Protocol,
    /// Neither request nor reply.
    Operation,
}

impl fmt::Display for ArpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "ARP packet truncated",
            Self::Hardware => "ARP not for Ethernet addresses",
            Self::Protocol => "ARP not for IPv4 addresses",
            Self::Operation => "ARP neither request nor reply",
        })
    }
}

impl std::error::Error for ArpError {}

impl Arp {
    /// Parses an ARP packet. Bytes after the first 28 are Ethernet padding.
    pub fn parse(payload: &[u8]) -> Result<Self, ArpError> {
        let (raw, _) = Layout::ref_from_prefix(payload).map_err(|_| ArpError::Truncated)?;
        if raw.hardware.get() != HARDWARE_ETHERNET || raw.hardware_length != 6 {
            return Err(ArpError::Hardware);
        }
        if raw.protocol.get() != ethertype::IPV4 || raw.protocol_length != 4 {
            return Err(ArpError::Protocol);
        }
        let operation = match raw.operation.get() {
            1 => ArpOperation::Request,
            2 => ArpOperation::Reply,
            _ => return Err(ArpError::Operation),
        };
        Ok(Self {
            operation,
            sender_mac: Mac(raw.sender_mac),
            sender_ip: raw.sender_ip.into(),
            target_mac: Mac(raw.target_mac),
            target_ip: raw.target_ip.into(),
        })
    }

    /// A request from the owner of `mac` and `ip` for `target`.
    pub fn request(mac: Mac, ip: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self {
            operation: ArpOperation::Request,
            sender_mac: mac,
            sender_ip: ip,
            target_mac: Mac::ZERO,
            target_ip: target,
        }
    }

    /// A probe that asks if another host uses `target` (RFC 5227 2.1.1).
    pub fn probe(mac: Mac, target: Ipv4Addr) -> Self {
        Self::request(mac, Ipv4Addr::UNSPECIFIED, target)
    }

    /// An announcement that `mac` uses `ip` from now on (RFC 5227 2.3).
    pub fn announcement(mac: Mac, ip: Ipv4Addr) -> Self {
        Self::request(mac, ip, ip)
    }

    /// The reply to this request by `mac`, the owner of the target address.
    #[must_use]
    pub fn reply(&self, mac: Mac) -> Self {
        Self {
            operation: ArpOperation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// True for a request that claims no address (RFC 5227 1.1). It must not update a cache.
    pub fn is_probe(&self) -> bool {
        self.operation == ArpOperation::Request && self.sender_ip.is_unspecified()
    }

    /// True for an announcement of the sender's own address (RFC 5227 2.3, "gratuitous").
    pub fn is_announcement(&self) -> bool {
        self.sender_ip == self.target_ip && !self.sender_ip.is_unspecified()
    }

    /// True if the sender's link address is unicast. Others MUST not be believed (RFC 1812 3.3.2).
    pub fn has_unicast_sender(&self) -> bool {
        self.sender_mac.is_unicast()
    }

    /// The bytes on the wire, to follow an Ethernet header with the ARP ethertype.
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let raw = Layout {
            hardware: U16::new(HARDWARE_ETHERNET),
            protocol: U16::new(ethertype::IPV4),
            hardware_length: 6,
            protocol_length: 4,
            operation: U16::new(match self.operation {
                ArpOperation::Request => 1,
                ArpOperation::Reply => 2,
            }),
            sender_mac: self.sender_mac.0,
            sender_ip: self.sender_ip.octets(),
            target_mac: self.target_mac.0,
            target_ip: self.target_ip.octets(),
        };
        zerocopy::transmute!(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{ArpEthIpv4Packet, ArpPacketSlice};
    use proptest::prelude::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    #[test]
    fn a_request_is_answered_to_its_sender() {
        let request = Arp::request(MAC, IP, Ipv4Addr::new(192, 0, 2, 9));
        let reply = request.reply(Mac([2, 0, 0, 0, 0, 9]));
        assert_eq!(
            reply,
            Arp {
                operation: ArpOperation::Reply,
                sender_mac: Mac([2, 0, 0, 0, 0, 9]),
                sender_ip: Ipv4Addr::new(192, 0, 2, 9),
                target_mac: MAC,
                target_ip: IP,
            }
        );
    }

    #[test]
    fn arp_probes_and_announcements_are_distinguished_from_requests() {
        let kinds = |arp: Arp| (arp.is_probe(), arp.is_announcement());
        assert_eq!(kinds(Arp::request(MAC, IP, Ipv4Addr::new(192, 0, 2, 9))), (false, false));
        assert_eq!(kinds(Arp::probe(MAC, IP)), (true, false));
        assert_eq!(kinds(Arp::announcement(MAC, IP)), (false, true));
        assert!(Arp::announcement(MAC, IP).has_unicast_sender());
        assert!(!Arp::announcement(Mac::BROADCAST, IP).has_unicast_sender());
        assert!(!Arp::announcement(Mac::ZERO, IP).has_unicast_sender());
    }

    #[test]
    fn other_hardware_protocols_and_operations_are_refused() {
        let good = Arp::request(MAC, IP, IP).to_bytes();
        for (at, value, error) in [
            (1, 6, ArpError::Hardware),
            (4, 8, ArpError::Hardware),
            (2, 0x86, ArpError::Protocol),
            (5, 16, ArpError::Protocol),
            (7, 0, ArpError::Operation),
            (7, 3, ArpError::Operation),
        ] {
            let mut bytes = good;
            bytes[at] = value;
            assert_eq!(Arp::parse(&bytes), Err(error), "byte {at} = {value}");
        }
        assert_eq!(Arp::parse(&good[..27]), Err(ArpError::Truncated));
    }

    proptest! {
        #[test]
        fn built_arp_packets_parse_here_and_in_etherparse(
            reply: bool,
            sender_mac: [u8; 6], sender_ip: [u8; 4], target_mac: [u8; 6], target_ip: [u8; 4],
            padding in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let arp = Arp {
                operation: if reply { ArpOperation::Reply } else { ArpOperation::Request },
                sender_mac: Mac(sender_mac),
                sender_ip: sender_ip.into(),
                target_mac: Mac(target_mac),
                target_ip: target_ip.into(),
            };
            let bytes = [arp.to_bytes().as_slice(), &padding].concat();
            prop_assert_eq!(Arp::parse(&bytes), Ok(arp));
            let theirs = ArpPacketSlice::from_slice(&bytes).unwrap().to_packet().try_eth_ipv4().unwrap();
            prop_assert_eq!(theirs, ArpEthIpv4Packet {
                operation: etherparse::ArpOperation(1 + u16::from(reply)),
                sender_mac, sender_ipv4: sender_ip, target_mac, target_ipv4: target_ip,
            });
        }
    }
}
