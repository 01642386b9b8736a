//! Subscribers of the access network: reports, and their files, which are read again when they have changed.

use super::failure::ApplyFailure;
use super::shares::MeasuredShare;
use super::{ADOPTION_TIMEOUT, Control, Daemon, RUNNING};
use crate::api::{self, ApiError, Author, RttReply, RttSideReply, ShareTraffic, SubscriberOrder};
use crate::events::{LoggedEvent, ShareEvent};
use io::clock;
use plan::{Name, ShareName, SubscriberSection};
use plane::RunningSubscriber;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use subscribers::{RoundTrips, RttHistogram, RttHistograms};
use units::Nanos;

/// The most errors of a file that become events.
const MOST_ERRORS: usize = 20;
/// A file that was written so shortly before the configuration was applied may have changed after the router has read it.
const RECENT: Nanos = Nanos::secs(2);

/// The version of a file: its size, its time of modification in nanoseconds since 1970-01-01 UTC, and its inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileStamp {
    size: u64,
    modified: i128,
    inode: u64,
}

impl FileStamp {
    /// The present stamp of a file; none if it is missing.
    fn of(path: &str) -> Option<FileStamp> {
        let found = std::fs::metadata(path).ok()?;
        let modified = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Some(FileStamp { size: found.len(), modified, inode: found.ino() })
    }
}

type Stamps = Vec<Option<FileStamp>>;

/// The files of subscribers as far as the router has followed them.
#[derive(Debug, Default)]
pub(super) struct SubscriberFiles {
    /// The section that the stamps belong to.
    section: Option<SubscriberSection>,
    /// The files as they were read last; none if that is not certain.
    read: Option<Stamps>,
    /// Changed files, seen once. A file that is still being written has another stamp a second later.
    changed: Option<Stamps>,
}

impl SubscriberFiles {
    /// Takes note of the present stamps. Returns true if the files are to be read. `now` is the time since 1970-01-01 UTC.
    fn look(&mut self, section: &SubscriberSection, stamps: Stamps, now: i128) -> bool {
        if self.section.as_ref() != Some(section) {
            let oldest = now - i128::from(RECENT.get());
            let is_old = stamps.iter().flatten().all(|stamp| stamp.modified < oldest);
            let read = is_old.then(|| stamps.clone());
            *self = SubscriberFiles { section: Some(section.clone()), read, changed: None };
        }
        if self.read.as_ref() == Some(&stamps) {
            self.changed = None;
            return false;
        }
        if self.changed.as_ref() != Some(&stamps) {
            self.changed = Some(stamps);
            return false;
        }
        // Also if reading fails: the same errors are reported once.
        self.read = self.changed.take();
        true
    }
}

/// The percentiles of histograms.
pub(super) fn rtt_reply(times: &RttHistograms) -> RttReply {
    let side = |histogram: &RttHistogram| RttSideReply {
        p50_ns: histogram.quantile(500).map(Nanos::get),
        p95_ns: histogram.quantile(950).map(Nanos::get),
        weight: histogram.weight(),
    };
    RttReply { subscriber: side(&times.subscriber), internet: side(&times.internet) }
}

/// The key by which to sort a subscriber or a site: the worst have the least.
pub(super) fn order_key(
    order: SubscriberOrder,
    directions: [Option<&MeasuredShare>; 2],
    rtt: impl FnOnce() -> Option<RttReply>,
) -> Reverse<(u64, u64)> {
    let traffic = directions.map(|share| share.map_or_else(ShareTraffic::default, MeasuredShare::traffic));
    match order {
        // The worse direction counts.
        SubscriberOrder::Traffic(order) => order.key(&traffic[0]).min(order.key(&traffic[1])),
        SubscriberOrder::Rtt => {
            let longest = rtt().and_then(|rtt| rtt.subscriber.p95_ns).unwrap_or(0);
            Reverse((longest, traffic.iter().map(|traffic| traffic.bytes).sum()))
        }
    }
}

/// A subscriber with the shares of both directions.
struct SubscriberRow<'s> {
    name: &'s ShareName,
    title: &'s str,
    down: Option<&'s MeasuredShare>,
    up: Option<&'s MeasuredShare>,
    round_trips: Option<&'s RoundTrips>,
}

impl SubscriberRow<'_> {
    fn key(&self, order: SubscriberOrder) -> Reverse<(u64, u64)> {
        order_key(order, [self.down, self.up], || self.rtt())
    }

    fn rtt(&self) -> Option<RttReply> {
        // The share has the same number at both ports.
        let share = self.down.or(self.up)?;
        Some(rtt_reply(&self.round_trips?.of(share.report.id)))
    }

    fn reply(&self) -> api::SubscriberReply {
        let site = self.down.or(self.up).and_then(|share| share.report.parent.as_ref());
        api::SubscriberReply {
            name: self.name.as_str().to_owned(),
            title: self.title.to_owned(),
            site: site.map(|site| site.as_str().to_owned()),
            down: self.down.map(MeasuredShare::traffic),
            up: self.up.map(MeasuredShare::traffic),
            rtt: self.rtt(),
        }
    }
}

/// The subscribers of the running configuration, before the counters are read.
pub(super) struct AccessNetwork {
    /// The first port inside, and the first one outside.
    pub inside: Option<Name>,
    pub outside: Option<Name>,
    pub subscribers: Vec<RunningSubscriber>,
    pub round_trips: Option<Arc<RoundTrips>>,
}

impl Daemon {
    pub(super) fn access_network(&self) -> AccessNetwork {
        let router = &self.control.lock().router;
        let section = router.plan().and_then(|plan| plan.subscribers.as_ref());
        AccessNetwork {
            inside: section.and_then(|section| section.inside.first().cloned()),
            outside: section.and_then(|section| section.outside.first().cloned()),
            subscribers: router.subscribers().to_vec(),
            round_trips: router.snapshot().round_trips.clone(),
        }
    }

    /// Returns the subscribers, those that are worst in an order first, with the counters of both directions.
    pub fn subscribers(&self, order: Option<SubscriberOrder>, limit: usize) -> api::SubscribersReply {
        let AccessNetwork { inside, outside, subscribers, round_trips } = self.access_network();
        let [down, up] = [&inside, &outside].map(|port| self.shares_by_name(port.as_ref()));
        let round_trips = round_trips.as_deref();
        let mut rows: Vec<SubscriberRow<'_>> = Vec::with_capacity(subscribers.len());
        rows.extend(subscribers.iter().map(|RunningSubscriber { name, title, .. }| {
            let (down, up) = (down.get(name), up.get(name));
            SubscriberRow { name, title, down, up, round_trips }
        }));
        if let Some(order) = order {
            rows.sort_by_cached_key(|row| row.key(order));
        }
        api::SubscribersReply {
            time_ns: self.now_ns(),
            inside: inside.map(|port| port.to_string()),
            outside: outside.map(|port| port.to_string()),
            total: rows.len() as u64,
            subscribers: rows.iter().take(limit).map(SubscriberRow::reply).collect(),
        }
    }

    pub(super) fn shares_by_name(&self, port: Option<&Name>) -> HashMap<ShareName, MeasuredShare> {
        let shares = port.and_then(|port| self.measured_shares(port)).unwrap_or_default();
        shares.into_iter().map(|share| (share.report.name.clone(), share)).collect()
    }

    /// Reads the files of subscribers again: all of their changes take effect, or none.
    pub fn reload_subscribers(&self, author: &Author) -> Result<api::SubscribersReloaded, ApplyFailure> {
        self.reload_subscribers_for(Some(author))
    }

    /// `author`: none if a file has changed.
    fn reload_subscribers_for(&self, author: Option<&Author>) -> Result<api::SubscribersReloaded, ApplyFailure> {
        let result = self.try_reload_subscribers();
        let now = clock::now();
        match &result {
            Ok(reloaded) => {
                let event = ShareEvent::Reloaded { reloaded: reloaded.clone(), author: author.cloned() };
                self.log.push(now, LoggedEvent::Shares(Box::new(event)));
                for warning in &reloaded.warnings {
                    self.log.push(now, LoggedEvent::Warning(warning.clone()));
                }
            }
            Err(ApplyFailure::CannotRun(errors)) => {
                for error in errors.iter().take(MOST_ERRORS) {
                    self.log_refused(format!("{}; {}", error.reason, error.hint));
                }
                if errors.len() > MOST_ERRORS {
                    self.log_refused(format!("and {} more errors", errors.len() - MOST_ERRORS));
                }
            }
            Err(failure) => self.log_refused(ApiError::from(failure).reason),
        }
        result
    }

    fn log_refused(&self, reason: String) {
        self.log.push(clock::now(), LoggedEvent::Refused { name: "subscribers".into(), reason });
    }

    fn try_reload_subscribers(&self) -> Result<api::SubscribersReloaded, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        let mut guard = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?;
        let Control { router, opener, .. } = &mut *guard;
        if router.plan().is_none_or(|plan| plan.subscribers.is_none()) {
            return Err(ApplyFailure::NoSubscribers);
        }
        let settings = |router: &plane::Router| -> HashMap<ShareName, u64> {
            router.subscribers().iter().map(|one| (one.name.clone(), one.settings)).collect()
        };
        let before = settings(router);
        let warnings = router.reload_subscribers(&mut **opener).map_err(ApplyFailure::CannotRun)?;
        let after = settings(router);
        let count = |is: &dyn Fn(Option<&u64>, &u64) -> bool| {
            after.iter().filter(|(name, settings)| is(before.get(*name), settings)).count() as u64
        };
        Ok(api::SubscribersReloaded {
            subscribers: after.len() as u64,
            added: count(&|before, _| before.is_none()),
            changed: count(&|before, settings| before.is_some_and(|before| before != settings)),
            removed: before.keys().filter(|name| !after.contains_key(*name)).count() as u64,
            warnings,
        })
    }

    /// Reads the files of subscribers again if one has changed, and has then stayed the same for a second.
    pub(super) fn follow_subscriber_files(&self, files: &mut SubscriberFiles) {
        let section = {
            let control = self.control.lock();
            // A configuration that is being adopted may name other files.
            if control.adopting.is_some() {
                return;
            }
            control.router.plan().and_then(|plan| plan.subscribers.clone())
        };
        let Some(section) = section else {
            *files = SubscriberFiles::default();
            return;
        };
        let stamps = section.source.files().map(FileStamp::of).collect();
        let now = i128::from((clock::now() + self.epoch).get());
        if files.look(&section, stamps, now) {
            // Events report the result.
            let _ = self.reload_subscribers_for(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(size: u64, modified: i128) -> Stamps {
        vec![Some(FileStamp { size, modified, inode: 1 })]
    }

    #[test]
    fn changed_file_is_read_when_two_looks_agree() {
        let section = |file: &str| SubscriberSection {
            inside: vec!["lan".into()],
            outside: vec!["wan".into()],
            source: plan::SubscriberSource::File(file.into()),
            rtt: true,
        };
        let second = 1_000_000_000;
        let (one, mut files) = (section("/a.csv"), SubscriberFiles::default());
        let mut look = |section: &SubscriberSection, stamps: Stamps, at: i128| files.look(section, stamps, at * second);
        assert!(!look(&one, stamps(10, 0), 100), "it was read with the configuration");
        assert!(!look(&one, stamps(10, 0), 101));
        assert!(!look(&one, stamps(20, 102 * second), 102), "it may still be written");
        assert!(!look(&one, stamps(30, 103 * second), 103), "it was");
        assert!(look(&one, stamps(30, 103 * second), 104));
        assert!(!look(&one, stamps(30, 103 * second), 105), "it is read once");
        // The former version is restored before the second look.
        assert!(!look(&one, vec![None], 106));
        assert!(!look(&one, stamps(30, 103 * second), 107));
        assert!(!look(&one, vec![None], 108));
        assert!(look(&one, vec![None], 109), "a missing file is reported");
        // A file written just before the configuration was applied may have changed since.
        let other = section("/b.csv");
        assert!(!look(&other, stamps(10, 199 * second), 200));
        assert!(look(&other, stamps(10, 199 * second), 201));
        assert!(!look(&other, stamps(10, 199 * second), 202));
    }
}
