//! The sites of the access network: the counters and round-trip times of all subscribers behind a common link.

use super::Daemon;
use super::shares::MeasuredShare;
use super::subscribers::{AccessNetwork, order_key, rtt_reply};
use crate::api::{self, RttReply, SubscriberOrder};
use plan::ShareOrigin;
use std::collections::HashSet;
use subscribers::RttHistograms;

/// The subscribers below a share.
#[derive(Clone, Copy, Default)]
struct Below {
    subscribers: u64,
    times: RttHistograms,
}

impl Below {
    fn add(&mut self, other: &Below) {
        self.subscribers += other.subscribers;
        self.times.merge(&other.times);
    }
}

/// A site with the shares of both directions.
struct SiteRow<'s> {
    down: &'s MeasuredShare,
    up: Option<&'s MeasuredShare>,
    subscribers: u64,
    rtt: Option<RttReply>,
}

impl SiteRow<'_> {
    fn reply(&self) -> api::SiteReply {
        let report = &self.down.report;
        api::SiteReply {
            name: report.name.as_str().to_owned(),
            parent: report.parent.as_ref().map(|parent| parent.as_str().to_owned()),
            level: report.level as u64,
            subscribers: self.subscribers,
            down: Some(self.down.traffic()),
            up: self.up.map(MeasuredShare::traffic),
            rtt: self.rtt,
        }
    }
}

impl Daemon {
    /// Returns the sites, those that are worst in an order first, or else each before those below it.
    pub fn sites(&self, order: Option<SubscriberOrder>, limit: usize) -> api::SitesReply {
        let AccessNetwork { inside, outside, subscribers, round_trips } = self.access_network();
        let down = inside.as_ref().and_then(|port| self.measured_shares(port)).unwrap_or_default();
        let up = self.shares_by_name(outside.as_ref());
        let subscribers: HashSet<_> = subscribers.iter().map(|one| &one.name).collect();
        let rtt = |below: &Below| round_trips.as_ref().map(|_| rtt_reply(&below.times));
        // From the last share to the first, those below a share are before it. An entry counts the subscribers below the next share of the level above.
        let mut levels: Vec<Below> = vec![Below::default()];
        let mut rows: Vec<SiteRow<'_>> = Vec::new();
        for share in down.iter().rev() {
            let report = &share.report;
            levels.resize(levels.len().max(report.level + 1), Below::default());
            let mut below = std::mem::take(&mut levels[report.level]);
            if subscribers.contains(&report.name) {
                let times = round_trips.as_ref().map(|times| times.of(report.id)).unwrap_or_default();
                below.add(&Below { subscribers: 1, times });
            } else if report.origin == ShareOrigin::Subscribers {
                let (up, rtt) = (up.get(&report.name), rtt(&below));
                rows.push(SiteRow { down: share, up, subscribers: below.subscribers, rtt });
            }
            levels[report.level - 1].add(&below);
        }
        rows.reverse();
        if let Some(order) = order {
            rows.sort_by_cached_key(|row| order_key(order, [Some(row.down), row.up], || row.rtt));
        }
        api::SitesReply {
            time_ns: self.now_ns(),
            inside: inside.map(|port| port.to_string()),
            outside: outside.map(|port| port.to_string()),
            total: rows.len() as u64,
            is_tree: order.is_none(),
            rtt: rtt(&levels[0]),
            sites: rows.iter().take(limit).map(SiteRow::reply).collect(),
        }
    }
}
