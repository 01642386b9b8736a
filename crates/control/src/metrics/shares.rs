//! Metrics of shares: all of a port together, and those of some shares, so that a hundred thousand subscribers do not become as many time series.

use super::{DropLabels, PortLabel, counter, gauge};
use crate::api::{self, ApiError, RttReply, RttSideReply, ShareReply, ShareTraffic};
use crate::daemon::{Daemon, ShareQuery};
use prometheus_client::registry::Registry;
use std::cmp::Reverse;

/// The shares of each port with metrics of their own: those that have sent most bytes.
const MOST_SHARES: usize = 100;
/// The most shares directly below each port with others below them, such as sites, that have metrics regardless of their bytes.
const MOST_SITES: usize = 1000;

/// Returns whether each share has metrics of its own.
fn selected(shares: &[ShareReply]) -> Vec<bool> {
    let mut places: Vec<usize> = (0..shares.len()).collect();
    places.sort_by_key(|place| Reverse(shares[*place].traffic.bytes));
    let mut chosen = vec![false; shares.len()];
    places.iter().take(MOST_SHARES).for_each(|place| chosen[*place] = true);
    let sites = places.iter().filter(|place| shares[**place].level == 1 && !shares[**place].is_leaf);
    sites.take(MOST_SITES).for_each(|place| chosen[*place] = true);
    chosen
}

/// Registers the metrics of shares.
pub(super) fn register(daemon: &Daemon, r: &mut Registry) -> Result<(), ApiError> {
    let all = ShareQuery { limit: usize::MAX, ..ShareQuery::default() };
    let ports = daemon.shares(&all).map_err(|failure| ApiError::from(&failure))?.ports;
    let totals = |value: fn(&ShareTraffic) -> u64| {
        let of_port = ports.iter().map(move |port| -> (PortLabel, u64) {
            // The counters of these include those of all shares below them.
            let whole = port.shares.iter().filter(|share| share.level == 1);
            ([("port", port.port.clone())], whole.map(|share| value(&share.traffic)).sum())
        });
        of_port.collect::<Vec<_>>()
    };
    let number = ports.iter().map(|port| -> (PortLabel, u64) { ([("port", port.port.clone())], port.total) });
    gauge(r, "port_shares", "Shares of a port.", number);
    counter(r, "port_shares_packets", "Packets sent by the shares of a port.", totals(|t| t.packets));
    counter(r, "port_shares_bytes", "Bytes of these packets.", totals(|t| t.bytes));
    counter(r, "port_shares_dropped_packets", "Packets of shares that were dropped.", totals(|t| t.dropped_packets));
    counter(r, "port_shares_marked_packets", "Packets of shares that were marked.", totals(|t| t.marked_packets));
    gauge(r, "port_shares_waiting_packets", "Packets of shares that wait.", totals(|t| t.waiting_packets));
    let some: Vec<(DropLabels, &ShareTraffic)> = ports
        .iter()
        .flat_map(|port| {
            let chosen = port.shares.iter().zip(selected(&port.shares)).filter(|(_, is_chosen)| *is_chosen);
            chosen.map(|(share, _)| ([("port", port.port.clone()), ("share", share.name.clone())], &share.traffic))
        })
        .collect();
    let of = |value: fn(&ShareTraffic) -> Option<u64>| {
        some.iter().filter_map(move |(labels, traffic)| Some((labels.clone(), value(traffic)?))).collect::<Vec<_>>()
    };
    counter(
        r,
        "share_packets",
        "Packets sent by a share: the 100 shares of a port with most bytes, and shares with others below them directly below the \
         port.",
        of(|t| Some(t.packets)),
    );
    counter(r, "share_bytes", "Bytes of these packets.", of(|t| Some(t.bytes)));
    counter(r, "share_dropped_packets", "Packets of these shares that were dropped.", of(|t| Some(t.dropped_packets)));
    counter(r, "share_marked_packets", "Packets of these shares that were marked.", of(|t| Some(t.marked_packets)));
    gauge(r, "share_waiting_packets", "Packets of these shares that wait.", of(|t| Some(t.waiting_packets)));
    gauge(r, "share_ceiling_bps", "Ceilings of these shares in bits per second.", of(|t| t.ceiling_bps));
    gauge(r, "share_sojourn_p99_ns", "99th percentile of the sojourn times in these shares.", of(|t| t.p99_ns));
    register_round_trips(daemon, r);
    Ok(())
}

/// Registers the round-trip times of all subscribers together, and those of each site directly below the port. Sites further down have none, so that the
/// number of time series follows that of the largest sites.
fn register_round_trips(daemon: &Daemon, r: &mut Registry) {
    let api::SitesReply { rtt: all, mut sites, .. } = daemon.sites(None, usize::MAX);
    sites.retain(|site| site.level == 1);
    sites.sort_by_key(|site| Reverse(site.down.as_ref().map_or(0, |traffic| traffic.bytes)));
    let sides = |rtt: &RttReply| [("subscriber", rtt.subscriber), ("internet", rtt.internet)];
    let of_all: Vec<(PortLabel, RttSideReply)> =
        all.iter().flat_map(sides).map(|(side, times)| ([("side", side.to_owned())], times)).collect();
    let of_sites: Vec<(DropLabels, RttSideReply)> = sites
        .iter()
        .take(MOST_SITES)
        .flat_map(|site| site.rtt.iter().flat_map(sides).map(|(side, times)| (site.name.clone(), side, times)))
        .map(|(site, side, times)| ([("site", site), ("side", side.to_owned())], times))
        .collect();
    let median = |times: &RttSideReply| times.p50_ns;
    let p95 = |times: &RttSideReply| times.p95_ns;
    let help =
        "Median of the round-trip times of TCP connections between the router and one side, over the last minutes.";
    gauge(r, "subscribers_rtt_p50_ns", help, present(&of_all, median));
    gauge(r, "subscribers_rtt_p95_ns", "95th percentile of these round-trip times.", present(&of_all, p95));
    let help = "Median of the round-trip times of the subscribers of a site directly below the port.";
    gauge(r, "site_rtt_p50_ns", help, present(&of_sites, median));
    gauge(r, "site_rtt_p95_ns", "95th percentile of these round-trip times.", present(&of_sites, p95));
    let weight = |times: &RttSideReply| Some(times.weight);
    gauge(
        r,
        "site_rtt_samples",
        "Samples in these percentiles, whose weight halves every minute.",
        present(&of_sites, weight),
    );
}

/// The values that exist, with their labels.
fn present<L: Clone>(all: &[(L, RttSideReply)], value: fn(&RttSideReply) -> Option<u64>) -> Vec<(L, u64)> {
    all.iter().filter_map(|(labels, times)| Some((labels.clone(), value(times)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busiest_shares_and_all_sites_have_metrics() {
        let share = |number: u64, level: u64, is_leaf: bool| ShareReply {
            name: number.to_string(),
            parent: None,
            level,
            origin: "subscribers".into(),
            is_leaf,
            rate_bps: None,
            weight: None,
            burst_bytes: None,
            delay_ns: None,
            priority: None,
            lease_left_ns: None,
            traffic: ShareTraffic { bytes: number, ..ShareTraffic::default() },
        };
        let mut shares: Vec<ShareReply> = (0..5000).map(|number| share(number, 2, true)).collect();
        shares.extend((0..5).map(|number| share(number, 1, false)));
        // A leaf directly below the port is no site.
        shares.push(share(0, 1, true));
        let chosen = selected(&shares);
        let places: Vec<usize> = (0..shares.len()).filter(|place| chosen[*place]).collect();
        assert_eq!(places, (4900..5005).collect::<Vec<_>>());
    }
}
