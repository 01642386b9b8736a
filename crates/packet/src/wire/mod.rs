//! Headers on the wire: checked views, builders, and checksums.
//!
//! The functions work on plain `&[u8]` and `&mut [u8]`, allocate nothing and accept any bytes: a malformed packet is a typed error, never a panic.
//! Returned offsets always lie inside the slice that they were computed from.
//!
//! | file | what | source |
//! |---|---|---|
//! | `ethernet` | [`Ethernet`], 802.1Q tag | IEEE 802.3, 802.1Q |
//! | `tag_stack` | [`TagStack`]: two VLAN tags, IP in a PPPoE session | IEEE 802.1Q, RFC 2516 |
//! | `arp` | [`Arp`] | RFC 826, 5227 |
//! | `ipv4`, `ipv4_options` | [`Ipv4`], hot-path checks, options | RFC 791, 1812, 2113 |
//! | `ipv6`, `ipv6_extensions` | [`Ipv6`], [`Chain`] of extension headers, address forms | RFC 8200, 4291 |
//! | `icmp4`, `icmp6`, `icmp_errors` | messages, echo replies, errors and when they may be sent | RFC 792, 1122, 1812, 4443 |
//! | `ndp` | neighbour discovery | RFC 4861 |
//! | `application` | names in a TLS ClientHello, HTTP requests and DNS questions | RFC 6066, 9112, 1035 |
//! | `offload` | segmentation of super-frames and their checksums | virtio 1.2 |
//! | `fragment` | fragmentation of IPv4 packets | RFC 791 |
//! | `tunnel` | GRE and VXLAN headers, ECN across a tunnel | RFC 2784, 2890, 7348, 6040 |
//! | `transport` | ports, completion of partial checksums | RFC 768, 9293 |
//! | `checksum` | sums, incremental update, pseudo-headers | RFC 1071, 1624 |
//! | `fields` | fields for the classifier; flow hash | |
//! | `summary` | one line for the operator | |
//! | `difference` | changes between two states of a frame | |

#![forbid(unsafe_code)]

pub mod application;
pub mod arp;
pub mod checksum;
mod cursor;
pub mod dhcp;
mod difference;
mod ecn;
pub mod ethernet;
mod exercise;
pub mod fields;
pub mod fragment;
pub mod icmp4;
pub mod icmp6;
pub mod icmp_errors;
pub mod ipv4;
pub mod ipv4_options;
pub mod ipv6;
pub mod ipv6_extensions;
pub mod mld;
pub mod ndp;
pub mod offload;
mod router_advertisement;
pub mod summary;
mod tag_stack;
pub mod transport;
mod tunnel;

#[cfg(test)]
mod tests;

pub use arp::{Arp, ArpError, ArpOperation};
pub use difference::{FieldDifference, differences};
pub use ecn::{set_congestion_experienced, set_dscp};
pub use ethernet::{Cast, Ethernet, LengthOrType, TruncatedFrame, Vlan};
pub use exercise::exercise;
pub use fields::{Family, HostHashes, PacketFields, flow_hash, hosts};
pub use fragment::Fragmenter;
pub use icmp_errors::{IcmpErrorForbidden, may_answer_with_error4, may_answer_with_error6};
pub use icmp4::{Error4, Icmp4};
pub use icmp6::{Error6, Icmp6};
pub use ipv4::{Ipv4, Ipv4Error, Ipv4Header, Ipv4Spec};
pub use ipv6::{Ipv6, Ipv6Error, Ipv6Header, Ipv6Spec};
pub use ipv6_extensions::{Chain, ChainError};
pub use ndp::{Ndp, NdpError};
pub use offload::{OffloadError, Segmenter};
pub use router_advertisement::RouterAdvertisement;
pub use summary::{FrameSummary, IpSummary, ip_summary, summary};
pub use tag_stack::TagStack;
pub use transport::{complete_checksum, complete_partial_checksum};
pub use tunnel::{Gre, GreError, VXLAN_HEADER, VXLAN_PORT, decapsulated_ecn, vxlan_header, vxlan_vni};
pub use units::Mac;

/// Ethertypes (IEEE 802 numbers registry). Below [`ethertype::LOWEST`] the field is an 802.3 length.
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// 802.1ad service tag, the outer one of a QinQ pair.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// The lowest value that is an ethertype (IEEE 802.3 3.2.6).
    pub const LOWEST: u16 = 0x0600;
}

/// Protocol numbers of the IPv4 protocol field and the IPv6 next header field (IANA).
pub mod protocol {
    /// IPv6 hop-by-hop options (RFC 8200 4.3).
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: u8 = 1;
    /// IGMP (RFC 3376).
    pub const IGMP: u8 = 2;
    /// IPv4 in a tunnel (RFC 2003).
    pub const IPIP: u8 = 4;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// DCCP (RFC 4340).
    pub const DCCP: u8 = 33;
    /// IPv6 in a tunnel (RFC 4213, RFC 2473).
    pub const IPV6: u8 = 41;
    /// IPv6 routing header (RFC 8200 4.4).
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header (RFC 8200 4.5).
    pub const FRAGMENT: u8 = 44;
    /// GRE (RFC 2784).
    pub const GRE: u8 = 47;
    /// IPsec encapsulating security payload (RFC 4303).
    pub const IPSEC_ESP: u8 = 50;
    /// IPsec authentication header (RFC 4302).
    pub const AUTHENTICATION: u8 = 51;
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// IPv6 "no next header" (RFC 8200 4.7).
    pub const NO_NEXT_HEADER: u8 = 59;
    /// IPv6 destination options (RFC 8200 4.6).
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: u8 = 136;
}
