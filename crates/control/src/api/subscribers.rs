//! Subscribers of the access network, and their sites.

use super::{ShareOrder, ShareTraffic};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The subscribers of the access network.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscribersReply {
    /// The time of the answer, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The port whose shares are the downlinks: the first one inside. Null without subscribers.
    pub inside: Option<String>,
    /// The port whose shares are the uplinks: the first one outside.
    pub outside: Option<String>,
    /// The number of all subscribers.
    pub total: u64,
    /// The subscribers, as far as they were asked for.
    pub subscribers: Vec<SubscriberReply>,
}

/// A subscriber.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscriberReply {
    /// The name of the circuit, and of its shares.
    pub name: String,
    /// The name for people; may be empty.
    pub title: String,
    /// The site above it; null for the port.
    pub site: Option<String>,
    /// The packets to the subscriber; null if the port does not have its share any more.
    pub down: Option<ShareTraffic>,
    /// The packets from the subscriber.
    pub up: Option<ShareTraffic>,
    /// The round-trip times of its TCP connections; null if they are not measured.
    pub rtt: Option<RttReply>,
}

/// The sites of the access network.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SitesReply {
    /// The time of the answer, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The port whose shares are the downlinks: the first one inside. Null without subscribers.
    pub inside: Option<String>,
    /// The port whose shares are the uplinks: the first one outside.
    pub outside: Option<String>,
    /// The number of all sites.
    pub total: u64,
    /// True if the sites are in the order of the tree: each site is before those below it.
    pub is_tree: bool,
    /// The round-trip times of all subscribers together; null if they are not measured.
    pub rtt: Option<RttReply>,
    /// The sites, as far as they were asked for.
    pub sites: Vec<SiteReply>,
}

/// A site, with all sites and subscribers below it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SiteReply {
    /// The name of the site, and of its shares.
    pub name: String,
    /// The site above it; null for the port.
    pub parent: Option<String>,
    /// Its level: 1 directly below the port.
    pub level: u64,
    /// The number of subscribers below it.
    pub subscribers: u64,
    /// The packets to its subscribers.
    pub down: Option<ShareTraffic>,
    /// The packets from its subscribers; null if the port outside has no such share.
    pub up: Option<ShareTraffic>,
    /// The round-trip times of its subscribers together; null if they are not measured.
    pub rtt: Option<RttReply>,
}

/// Round-trip times of TCP connections on both sides of the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RttReply {
    /// Between the router and the subscriber. It includes the time that packets wait for the downlink.
    pub subscriber: RttSideReply,
    /// Between the router and hosts in the Internet. It includes the time that packets wait for the uplink.
    pub internet: RttSideReply,
}

/// Round-trip times of the last minutes: the weight of each sample halves every minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RttSideReply {
    /// The median; null without samples.
    pub p50_ns: Option<u64>,
    /// The 95th percentile.
    pub p95_ns: Option<u64>,
    /// The weight of the samples.
    pub weight: u64,
}

/// The result of reading the files of subscribers again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscribersReloaded {
    /// The number of subscribers now.
    pub subscribers: u64,
    /// The number of new subscribers.
    pub added: u64,
    /// The number of subscribers with another site, other rates or keys than before.
    pub changed: u64,
    /// The number of subscribers that are gone.
    pub removed: u64,
    /// Warnings about the files.
    pub warnings: Vec<String>,
}

/// An order of subscribers, or of sites: the worst first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriberOrder {
    /// By the packets of the worse direction.
    Traffic(ShareOrder),
    /// The longest 95th percentile of round-trip times toward the subscriber first.
    Rtt,
}

impl SubscriberOrder {
    /// Its name in requests and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            SubscriberOrder::Traffic(order) => order.name(),
            SubscriberOrder::Rtt => "rtt",
        }
    }
}

impl FromStr for SubscriberOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<SubscriberOrder, String> {
        if text == SubscriberOrder::Rtt.name() {
            return Ok(SubscriberOrder::Rtt);
        }
        let order = text.parse().map(SubscriberOrder::Traffic);
        order.map_err(|_: String| "write rtt, bytes, drops, sojourn, rate or use".to_string())
    }
}

impl fmt::Display for SubscriberOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
