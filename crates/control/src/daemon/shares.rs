//! Shares of ports while the router runs: reports with rates, changes, and leases.

use super::failure::ApplyFailure;
use super::{ADOPTION_TIMEOUT, Daemon, RUNNING};
use crate::api::{self, Author, ShareOrder, ShareReply, ShareTraffic};
use crate::events::{LoggedEvent, ShareEvent};
use io::clock;
use link::{LinkShares, ShareCounts};
use parking_lot::Mutex;
use plan::{Name, ShareChange, ShareOrigin, share_batch};
use plane::{Router, ShareReport};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use units::{Instant, Nanos, Rate, ShareId};

/// The longest wait until the worker has carried out a batch, and the interval of checks. An idle worker looks every 100 ms.
const CARRY_OUT_TIMEOUT: Nanos = Nanos::secs(1);
const CARRY_OUT_CHECK: Nanos = Nanos::millis(1);

/// The shares to report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShareQuery {
    /// Only those of this port.
    pub port: Option<String>,
    /// Only those without others below them.
    pub only_leaves: bool,
    /// The order; `None` for that of the tree.
    pub order: Option<ShareOrder>,
    /// At most this many of each port.
    pub limit: usize,
}

/// The bytes that the shares of a port had sent at a time, by their numbers.
#[derive(Debug, Default)]
struct ShareSample {
    time: Instant,
    bytes: Vec<u64>,
}

/// The last two samples of each port.
#[derive(Debug, Default)]
pub(super) struct ShareSamples(Mutex<BTreeMap<Name, ShareRates>>);

/// The bytes that the shares of a port have sent between the last two samples.
#[derive(Clone, Debug, Default)]
pub(super) struct ShareRates {
    before: Option<Arc<ShareSample>>,
    last: Arc<ShareSample>,
}

impl ShareRates {
    /// The bytes of a share itself, without those below it.
    pub fn bytes(&self, share: ShareId) -> u64 {
        let of = |sample: &ShareSample| sample.bytes.get(share.index()).copied().unwrap_or(0);
        // A share without a count in the earlier sample has sent nothing before.
        self.before.as_ref().map_or(0, |before| of(&self.last).saturating_sub(of(before)))
    }

    /// Bits per second; none before the second sample.
    pub fn rate(&self, bytes: u64) -> Option<u64> {
        let time = self.last.time.since(self.before.as_ref()?.time).get();
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        (time > 0).then(|| (bits / u128::from(time)) as u64)
    }
}

impl ShareSamples {
    pub fn record(&self, now: Instant, ports: Vec<(Name, Arc<LinkShares>)>) {
        // Outside of the lock: a hundred thousand shares take some milliseconds.
        let samples: Vec<(Name, ShareSample)> = ports
            .into_iter()
            .map(|(port, shares)| (port, ShareSample { time: now, bytes: shares.sent_bytes() }))
            .collect();
        let mut kept = self.0.lock();
        kept.retain(|port, _| samples.iter().any(|(present, _)| present == port));
        for (port, sample) in samples {
            let sample = Arc::new(sample);
            match kept.get_mut(&port) {
                Some(rates) => rates.before = Some(std::mem::replace(&mut rates.last, sample)),
                None => drop(kept.insert(port, ShareRates { before: None, last: sample })),
            }
        }
    }

    pub fn of(&self, port: &str) -> ShareRates {
        self.0.lock().get(port).cloned().unwrap_or_default()
    }
}

/// A share with the rate at which it and those below it have sent over the last second.
pub(super) struct MeasuredShare {
    pub report: ShareReport,
    sent: Option<u64>,
}

/// The counts of a share with its guarantee, its ceiling, and the rate of the last second.
pub(super) fn traffic(
    counts: &ShareCounts,
    (guarantee, ceiling): (Rate, Option<Rate>),
    sent_bps: Option<u64>,
) -> ShareTraffic {
    let ceiling = ceiling.map(|ceiling| ceiling.get());
    let part = |(sent, ceiling): (u64, u64)| (u128::from(sent) * 1_000_000 / u128::from(ceiling.max(1))) as u64;
    // A percentile is the end of a class of times, which may be behind the longest.
    let percentile = |part| counts.sojourn(part).map(|time| time.min(counts.longest).get());
    ShareTraffic {
        guarantee_bps: guarantee.get(),
        ceiling_bps: ceiling,
        sent_bps,
        use_ppm: sent_bps.zip(ceiling).map(part),
        packets: counts.packets,
        bytes: counts.bytes.get(),
        dropped_packets: counts.dropped,
        marked_packets: counts.marked,
        waiting_packets: counts.waiting.packets.into(),
        waiting_bytes: counts.waiting.bytes.get(),
        p50_ns: percentile(0.5),
        p95_ns: percentile(0.95),
        p99_ns: percentile(0.99),
        longest_ns: counts.longest.get(),
    }
}

impl MeasuredShare {
    pub fn traffic(&self) -> ShareTraffic {
        let ShareReport { settings, guarantee, counts, .. } = &self.report;
        traffic(counts, (*guarantee, settings.ceiling), self.sent)
    }

    fn reply(&self) -> ShareReply {
        let report = &self.report;
        let origin = match report.origin {
            ShareOrigin::Configuration => "configuration",
            ShareOrigin::Subscribers => "subscribers",
            ShareOrigin::Api => "api",
            ShareOrigin::Flow => "flow",
        };
        ShareReply {
            name: report.name.as_str().to_owned(),
            parent: report.parent.as_ref().map(|parent| parent.as_str().to_owned()),
            level: report.level as u64,
            origin: origin.to_owned(),
            is_leaf: !report.has_children,
            rate_bps: report.settings.rate.map(|rate| rate.get()),
            weight: report.settings.weight.map(u64::from),
            burst_bytes: report.settings.burst.map(|burst| burst.get()),
            delay_ns: report.settings.delay.map(Nanos::get),
            priority: report.settings.priority.map(u64::from),
            lease_left_ns: report.lease_left.map(Nanos::get),
            traffic: self.traffic(),
        }
    }
}

/// Adds the rates to the shares of a port.
fn measured(reports: Vec<ShareReport>, rates: &ShareRates) -> Vec<MeasuredShare> {
    // From the last to the first, those below a share are before it: the bytes of each level that are not yet part of a share above.
    let mut below: Vec<u64> = Vec::new();
    let one = |report: ShareReport| {
        below.resize(below.len().max(report.level + 2), 0);
        let bytes = rates.bytes(report.id) + std::mem::take(&mut below[report.level + 1]);
        below[report.level] += bytes;
        MeasuredShare { report, sent: rates.rate(bytes) }
    };
    let mut shares: Vec<MeasuredShare> = reports.into_iter().rev().map(one).collect();
    shares.reverse();
    shares
}

/// Removes the shares whose leases have ended.
pub(super) fn end_leases(router: &mut Router, log: &crate::events::EventLog) {
    let now = clock::now();
    for (port, share) in router.end_share_leases(now) {
        let (port, share) = (port.to_string(), share.as_str().to_owned());
        log.push(now, LoggedEvent::Shares(Box::new(ShareEvent::Expired { port, share })));
    }
}

impl Daemon {
    /// Returns the shares of ports with their counters and rates.
    pub fn shares(&self, wanted: &ShareQuery) -> Result<api::SharesReply, ApplyFailure> {
        let mut ports: Vec<Name> = self.control.lock().router.share_ports().cloned().collect();
        if let Some(only) = &wanted.port {
            if !ports.iter().any(|port| **port == **only) {
                return Err(no_shares(only, &ports));
            }
            ports.retain(|port| **port == **only);
        }
        let of_port = |port: Name| {
            let mut shares = self.measured_shares(&port)?;
            let total = shares.len() as u64;
            let leaves = shares.iter().filter(|share| !share.report.has_children).count() as u64;
            if wanted.only_leaves {
                shares.retain(|share| !share.report.has_children);
            }
            if let Some(order) = wanted.order {
                shares.sort_by_cached_key(|share| order.key(&share.traffic()));
            }
            let selected = shares.len() as u64;
            let is_tree = !wanted.only_leaves && wanted.order.is_none();
            let shares = shares.iter().take(wanted.limit).map(MeasuredShare::reply).collect();
            Some(api::PortSharesReply { port: port.to_string(), total, leaves, selected, is_tree, shares })
        };
        Ok(api::SharesReply { time_ns: self.now_ns(), ports: ports.into_iter().filter_map(of_port).collect() })
    }

    /// The shares of a port with their rates, each before those below it; none if it has no shares.
    pub(super) fn measured_shares(&self, port: &str) -> Option<Vec<MeasuredShare>> {
        let reports = self.control.lock().router.shares(port)?;
        Some(measured(reports, &self.share_samples.of(port)))
    }

    /// Changes shares of a port: all changes, or none. `text` has one change a line; `source` is its name in messages. Returns when the worker has
    /// carried them out, or after a second.
    pub fn edit_shares(
        &self,
        port: &str,
        (text, source): (&str, &str),
        author: &Author,
    ) -> Result<api::SharesEdited, ApplyFailure> {
        let result = self.try_edit_shares(port, text, source);
        self.log_edit(source, &result, |edited| {
            LoggedEvent::Shares(Box::new(ShareEvent::Edited { edited: edited.clone(), author: author.clone() }))
        });
        result
    }

    fn try_edit_shares(&self, port: &str, text: &str, source: &str) -> Result<api::SharesEdited, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        // Without the lock: parsing many lines takes time.
        let batch = share_batch(text, source).map_err(ApplyFailure::Batch)?;
        let changes: Vec<ShareChange> = batch.changes.iter().map(|(_, change)| change.clone()).collect();
        let changed = {
            // Not while a configuration is being adopted: that may give the port other shares.
            let mut control = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?;
            let router = &mut control.router;
            let ports: Vec<Name> = router.share_ports().cloned().collect();
            if !ports.iter().any(|known| **known == *port) {
                return Err(no_shares(port, &ports));
            }
            // Sets the time from which new leases count.
            end_leases(router, &self.log);
            router
                .edit_shares(port, &changes)
                .map_err(|(position, reason, hint)| ApplyFailure::Batch(batch.refuse(position, reason, hint)))?
        };
        let deadline = clock::now() + CARRY_OUT_TIMEOUT;
        while !changed.is_done() && clock::now() < deadline {
            thread::park_timeout(CARRY_OUT_CHECK.into());
        }
        Ok(api::SharesEdited {
            port: port.to_owned(),
            changed: changed.shares as u64,
            total: changed.total as u64,
            carried_out: changed.is_done(),
        })
    }
}

fn no_shares(port: &str, known: &[Name]) -> ApplyFailure {
    ApplyFailure::NoShares(port.to_owned(), known.iter().map(|name| name.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(sent: &[(u32, u64)]) -> Arc<LinkShares> {
        let shared = Arc::new(LinkShares::default());
        let put =
            |(share, _): &(u32, u64)| schemes::ShareEdit::Put(ShareId(*share), schemes::ShareParameters::default());
        shared.change(&sent.iter().map(put).collect::<Vec<_>>());
        let reader = link::ShareReader::new(&shared, || {});
        for (share, bytes) in sent {
            reader.record_departure(ShareId(*share), *bytes, Nanos::ZERO);
        }
        shared
    }

    #[test]
    fn rate_is_that_between_last_two_samples() {
        let samples = ShareSamples::default();
        let lan = Name::from("lan");
        let at = |seconds: u64| Instant::new(seconds * 1_000_000_000);
        samples.record(at(1), vec![(lan.clone(), shares(&[(1, 1000)]))]);
        assert_eq!(samples.of("lan").rate(0), None, "one sample gives no rate");
        // Share 600 is new, and in another chunk of counters.
        samples.record(at(3), vec![(lan.clone(), shares(&[(1, 3500), (600, 500)]))]);
        let rates = samples.of("lan");
        assert_eq!(rates.rate(rates.bytes(ShareId(1))), Some(10_000));
        assert_eq!(rates.rate(rates.bytes(ShareId(600))), Some(2000));
        assert_eq!(rates.rate(rates.bytes(ShareId(599))), Some(0));
        samples.record(at(4), Vec::new());
        assert_eq!(samples.of("lan").rate(0), None, "the port has no shares any more");
    }
}
