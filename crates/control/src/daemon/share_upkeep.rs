//! The upkeep of shares: ends leases, restores the shares of restarted workers, samples counters, reports slices that have failed, lets round-trip times
//! fade, and follows the files of subscribers.

use super::shares::end_leases;
use super::subscribers::SubscriberFiles;
use super::{Control, Daemon, flows, slices};
use io::clock;
use io::wait::{Sleeper, Waker};
use std::sync::Arc;
use units::Nanos;

/// The interval of upkeep and of samples, which rates cover.
const UPKEEP_INTERVAL: Nanos = Nanos::secs(1);

impl Daemon {
    /// Starts the thread of the upkeep.
    pub(super) fn start_share_upkeep(self: &Arc<Self>) -> std::io::Result<()> {
        let mut sleeper = Sleeper::new(Waker::new()?);
        let mut files = SubscriberFiles::default();
        let work = move |daemon: &Daemon| {
            daemon.maintain_shares();
            daemon.follow_subscriber_files(&mut files);
        };
        self.spawn_background("share-upkeep", work, move |()| drop(sleeper.sleep([], UPKEEP_INTERVAL)))
    }

    fn maintain_shares(&self) {
        let (ports, round_trips) = {
            let mut guard = self.control.lock();
            flows::end_leases(&mut guard, &self.log);
            flows::report_costly(&mut guard, &self.log);
            slices::report_failures(&guard, &self.log);
            guard.slices.free_ended();
            let Control { router, .. } = &mut *guard;
            end_leases(router, &self.log);
            router.restore_shares();
            let ports = router.share_counters().map(|(port, shares)| (port.clone(), shares.clone())).collect();
            (ports, router.snapshot().round_trips.clone())
        };
        let now = clock::now();
        self.share_samples.record(now, ports);
        // Without the lock: once a minute it reads and halves the histograms of all circuits.
        round_trips.into_iter().for_each(|times| times.fade(now));
    }
}
