//! Multicast listener discovery for IPv6. Switches and multicast routers use it to learn the members of groups (RFC 3810, and RFC 2710 for old
//! queriers). This module parses queries and writes reports.

use super::cursor::Cursor;
use super::icmp6::seal;
use super::ipv6::{self, Ipv6Spec};
use super::ipv6_extensions::Ipv6Option;
use super::{Ipv6, icmp6::checksum_ok, protocol};
use std::fmt;
use std::net::Ipv6Addr;

/// Type of a query.
pub const QUERY: u8 = 130;
/// Type of a report of version 1.
pub const REPORT_V1: u8 = 131;
/// Type of a report of version 2.
pub const REPORT: u8 = 143;
/// The destination of version 2 reports: all MLDv2-capable routers (RFC 3810 5.2.14).
pub const ALL_MLD_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The hop limit of every message: messages stay on their link.
pub const HOP_LIMIT: u8 = 1;
/// The maximum number of group records in a report of 1280 bytes.
pub const MOST_RECORDS: usize = (ipv6::MINIMUM_MTU - ipv6::HEADER - ALERT.len() - 8) / 20;

/// Length of a version 1 query, and below the minimum length of version 2 (RFC 3810 8.1).
const QUERY_V1_LENGTH: usize = 24;
const QUERY_LENGTH: usize = 28;
/// Hop-by-hop options with the router alert of RFC 2711, value 0, and padding.
const ALERT: [u8; 8] = [protocol::ICMPV6, 0, Ipv6Option::ROUTER_ALERT, 2, 0, 0, Ipv6Option::PADN, 0];

/// A query that passed the checks of RFC 3810 6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MldQuery {
    /// True for version 1: the querier does not understand version 2 reports.
    pub is_v1: bool,
    /// The queried group; unspecified for all groups.
    pub group: Ipv6Addr,
    /// The time limit for the answer, in milliseconds.
    pub max_response_ms: u32,
}

/// The reason why a query is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MldError {
    /// Not a query.
    Kind,
    /// Shorter than a query, or of a length between the two versions.
    Length,
    /// The ICMPv6 checksum is wrong.
    Checksum,
    /// The source is not link-local, so the query may come from another link.
    Source,
    /// The hop limit is not 1, or there is no router alert.
    Hops,
    /// The group is not a multicast address.
    Group,
}

impl fmt::Display for MldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "not a multicast listener query",
            Self::Length => "multicast listener query of a wrong length",
            Self::Checksum => "multicast listener query checksum wrong",
            Self::Source => "multicast listener query from beyond the link",
            Self::Hops => "multicast listener query without hop limit 1 and router alert",
            Self::Group => "multicast listener query for no group",
        })
    }
}

impl std::error::Error for MldError {}

impl MldQuery {
    /// Parses and checks `message`, the ICMPv6 upper layer of `packet`.
    pub fn parse(packet: &Ipv6<'_>, message: &[u8]) -> Result<MldQuery, MldError> {
        let fixed: &[u8; QUERY_V1_LENGTH] = message.first_chunk().ok_or(MldError::Length)?;
        let [kind, _, _, _, c0, c1, _, _, group @ ..] = *fixed;
        if kind != QUERY {
            return Err(MldError::Kind);
        }
        let old = message.len() == QUERY_V1_LENGTH;
        if !old && message.len() < QUERY_LENGTH {
            return Err(MldError::Length);
        }
        let (source, destination) = (packet.header.source(), packet.header.destination());
        if !checksum_ok(source, destination, message) {
            return Err(MldError::Checksum);
        }
        if !ipv6::is_link_local(source) {
            return Err(MldError::Source);
        }
        let options = packet.hop_by_hop().ok().flatten();
        let alert = options.into_iter().flatten().flatten().any(|option| option.kind == Ipv6Option::ROUTER_ALERT);
        if packet.header.hop_limit() != HOP_LIMIT || !alert {
            return Err(MldError::Hops);
        }
        let group = Ipv6Addr::from(group);
        if !group.is_unspecified() && !group.is_multicast() {
            return Err(MldError::Group);
        }
        let code = u16::from_be_bytes([c0, c1]);
        Ok(MldQuery { is_v1: old, group, max_response_ms: if old { code.into() } else { milliseconds(code) } })
    }
}

/// A maximum response code (RFC 3810 5.1.3): a floating-point number from 32768 on.
fn milliseconds(code: u16) -> u32 {
    match code {
        0..0x8000 => code.into(),
        _ => (u32::from(code & 0xfff) | 0x1000) << ((code >> 12 & 7) + 3),
    }
}

/// A record about a group in a report (RFC 3810 5.2.12). The router does not filter by source, so it needs only these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRecord {
    /// The router is a member.
    Member,
    /// The router has just joined.
    Joined,
    /// The router has left.
    Left,
}

impl GroupRecord {
    fn kind(self) -> u8 {
        match self {
            GroupRecord::Member => 2,
            GroupRecord::Joined => 4,
            GroupRecord::Left => 3,
        }
    }
}

/// Writes a version 2 report, including the IPv6 header, and returns its length, `None` if it does not fit.
///
/// `source` is link-local, or unspecified while the interface has no such address (RFC 3810 5.2.13).
pub fn write_report(buffer: &mut [u8], source: Ipv6Addr, records: &[(GroupRecord, Ipv6Addr)]) -> Option<usize> {
    let [h, l] = u16::try_from(records.len()).ok()?.to_be_bytes();
    write(buffer, source, ALL_MLD_ROUTERS, |message| {
        message.put(&[REPORT, 0, 0, 0, 0, 0, h, l])?;
        for (record, group) in records {
            message.put(&[record.kind(), 0, 0, 0])?;
            message.put(&group.octets())?;
        }
        Some(())
    })
}

/// Writes a version 1 report to its group (RFC 2710 4), including the IPv6 header, and returns its length, `None` if it does not fit.
pub fn write_report_v1(buffer: &mut [u8], source: Ipv6Addr, group: Ipv6Addr) -> Option<usize> {
    write(buffer, source, group, |message| {
        message.put(&[REPORT_V1, 0, 0, 0, 0, 0, 0, 0])?;
        message.put(&group.octets())
    })
}

fn write(
    buffer: &mut [u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    fill: impl FnOnce(&mut Cursor<'_>) -> Option<()>,
) -> Option<usize> {
    const MESSAGE: usize = ipv6::HEADER + ALERT.len();
    let mut cursor = Cursor::new(buffer, ipv6::HEADER);
    cursor.put(&ALERT)?;
    fill(&mut cursor)?;
    let end = cursor.position();
    let next_header = protocol::HOP_BY_HOP;
    let spec = Ipv6Spec { traffic_class: 0, flow_label: 0, next_header, hop_limit: HOP_LIMIT, source, destination };
    spec.write(buffer, end - ipv6::HEADER)?;
    seal(source, destination, buffer.get_mut(MESSAGE..end)?);
    Some(end)
}
