//! Multicast listener discovery for IPv6: how a switch or a multicast router learns who is in which group (RFC 3810, and
//! RFC 2710 where somebody still asks by it). Queries read, reports written.

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
/// Where reports of version 2 go: every router that speaks it (RFC 3810 5.2.14).
pub const ALL_MLD_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The hop limit of every message: it stays on its link.
pub const HOP_LIMIT: u8 = 1;
/// Group records that fit in a report of 1280 bytes.
pub const MOST_RECORDS: usize = (ipv6::MINIMUM_MTU - ipv6::HEADER - ALERT.len() - 8) / 20;

/// Length of a query of version 1, and the least of version 2 (RFC 3810 8.1).
const QUERY_V1_LENGTH: usize = 24;
const QUERY_LENGTH: usize = 28;
/// Hop-by-hop options with the router alert of RFC 2711, value 0, and padding.
const ALERT: [u8; 8] = [protocol::ICMPV6, 0, Ipv6Option::ROUTER_ALERT, 2, 0, 0, Ipv6Option::PADN, 0];

/// A query that passed the checks of RFC 3810 6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Whether it is of version 1: who asks so understands no reports of version 2.
    pub old: bool,
    /// The group it is about; all of them where unspecified.
    pub group: Ipv6Addr,
    /// Within how many milliseconds to answer.
    pub within_ms: u32,
}

/// Why a query must be ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MldError {
    /// It is none.
    Kind,
    /// Shorter than a query, or of a length between the two versions.
    Length,
    /// The ICMPv6 checksum is wrong.
    Checksum,
    /// The source is not link-local: it may come from anywhere.
    Source,
    /// The hop limit is not 1, or there is no router alert.
    Hops,
    /// The group is none.
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

impl Query {
    /// Reads and checks `message`, the ICMPv6 upper layer of `packet`.
    pub fn parse(packet: &Ipv6<'_>, message: &[u8]) -> Result<Query, MldError> {
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
        Ok(Query { old, group, within_ms: if old { code.into() } else { milliseconds(code) } })
    }
}

/// A maximum response code (RFC 3810 5.1.3): from 32768 on a floating-point number.
fn milliseconds(code: u16) -> u32 {
    match code {
        0..0x8000 => code.into(),
        _ => (u32::from(code & 0xfff) | 0x1000) << ((code >> 12 & 7) + 3),
    }
}

/// What a report says of a group (RFC 3810 5.2.12). Only these: nobody here cares who sends to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The router is in it.
    Member,
    /// The router is in it from now on.
    Joined,
    /// The router is no longer in it.
    Left,
}

impl Record {
    fn kind(self) -> u8 {
        match self {
            Record::Member => 2,
            Record::Joined => 4,
            Record::Left => 3,
        }
    }
}

/// Writes a report of version 2, IPv6 header included, and says how many bytes it has; `None` when it does not fit.
///
/// `source` is link-local, or unspecified while there is no such address yet (RFC 3810 5.2.13).
pub fn write_report(buffer: &mut [u8], source: Ipv6Addr, records: &[(Record, Ipv6Addr)]) -> Option<usize> {
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

/// Writes a report of version 1, to the group it is about (RFC 2710 4), IPv6 header included, and says how many bytes it
/// has; `None` when it does not fit.
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
