//! Shares of ports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// The shares of ports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SharesReply {
    /// The time of the answer, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The ports that have shares.
    pub ports: Vec<PortSharesReply>,
}

/// The shares of a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PortSharesReply {
    /// The port.
    pub port: String,
    /// The number of all its shares.
    pub total: u64,
    /// The number of shares without others below them.
    pub leaves: u64,
    /// The number of shares that were asked for, those behind the limit included.
    pub selected: u64,
    /// True if the shares are in the order of the tree: each share is before those below it.
    pub is_tree: bool,
    /// The shares, as far as they were asked for.
    pub shares: Vec<ShareReply>,
}

/// A share of a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShareReply {
    /// Its name.
    pub name: String,
    /// The share above it; null for the port.
    pub parent: Option<String>,
    /// Its level: 1 directly below the port.
    pub level: u64,
    /// `configuration`, `subscribers`, or `api` if a batch has added it.
    pub origin: String,
    /// True if no share is below it.
    pub is_leaf: bool,
    /// Its own guaranteed rate; null if it guarantees the sum of the guarantees below it.
    pub rate_bps: Option<u64>,
    /// Its weight; null for the default of 1.
    pub weight: Option<u64>,
    /// The bytes that it may send at once after an idle time; null for the default.
    pub burst_bytes: Option<u64>,
    /// The time within which its burst leaves; null if only its rate bounds it.
    pub delay_ns: Option<u64>,
    /// Its turn at the excess, 0 (first) to 7; null for the default of 0.
    pub priority: Option<u64>,
    /// The time until its lease ends; null if it stays.
    pub lease_left_ns: Option<u64>,
    /// Its packets, and for a share with others below it also theirs.
    pub traffic: ShareTraffic,
}

/// The packets of a share: counters since its name was first used, and the rate of the last second.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShareTraffic {
    /// The guaranteed rate.
    pub guarantee_bps: u64,
    /// The ceiling; null if there is none.
    pub ceiling_bps: Option<u64>,
    /// The rate sent over the last second; null before the second sample.
    pub sent_bps: Option<u64>,
    /// This rate in millionths of the ceiling; null without a ceiling.
    pub use_ppm: Option<u64>,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Packets on which congestion experienced was set.
    pub marked_packets: u64,
    /// Packets that wait.
    pub waiting_packets: u64,
    /// Bytes of these packets.
    pub waiting_bytes: u64,
    /// The sojourn time that half of the packets did not exceed; null without packets. At most 1.42 times too large, as are the other percentiles.
    pub p50_ns: Option<u64>,
    /// The 95th percentile of sojourn times.
    pub p95_ns: Option<u64>,
    /// The 99th percentile of sojourn times.
    pub p99_ns: Option<u64>,
    /// The longest sojourn time.
    pub longest_ns: u64,
}

/// The result of changes of a port's shares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SharesEdited {
    /// The port.
    pub port: String,
    /// Shares that were added, changed, moved or removed, with those above them.
    pub changed: u64,
    /// The number of shares after the changes.
    pub total: u64,
    /// True if the worker of the port has carried them out. False if it did not within 1 s: it carries them out before its next packets.
    pub carried_out: bool,
}

/// An order of shares by their packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareOrder {
    /// Most bytes sent first.
    Bytes,
    /// Most dropped packets first.
    Drops,
    /// The longest 99th percentile of sojourn times first.
    Sojourn,
    /// The highest rate over the last second first.
    Rate,
    /// The largest part of the ceiling in use first.
    Use,
}

impl ShareOrder {
    /// All orders.
    pub const ALL: [ShareOrder; 5] =
        [ShareOrder::Bytes, ShareOrder::Drops, ShareOrder::Sojourn, ShareOrder::Rate, ShareOrder::Use];

    /// Its name in requests and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            ShareOrder::Bytes => "bytes",
            ShareOrder::Drops => "drops",
            ShareOrder::Sojourn => "sojourn",
            ShareOrder::Rate => "rate",
            ShareOrder::Use => "use",
        }
    }

    /// The key by which to sort. Shares with equal values are ordered by bytes.
    pub(crate) fn key(self, traffic: &ShareTraffic) -> Reverse<(u64, u64)> {
        let value = match self {
            ShareOrder::Bytes => Some(traffic.bytes),
            ShareOrder::Drops => Some(traffic.dropped_packets),
            ShareOrder::Sojourn => traffic.p99_ns,
            ShareOrder::Rate => traffic.sent_bps,
            ShareOrder::Use => traffic.use_ppm,
        };
        Reverse((value.unwrap_or(0), traffic.bytes))
    }
}

impl FromStr for ShareOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<ShareOrder, String> {
        let found = ShareOrder::ALL.into_iter().find(|order| order.name() == text);
        found.ok_or_else(|| "write bytes, drops, sojourn, rate or use".to_string())
    }
}

impl fmt::Display for ShareOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
