//! Divides the processor again while the router runs, by the present costs of packets instead of those known at the last apply.

use super::Daemon;
use std::io::Result;
use std::sync::Arc;
use std::thread;
use units::Nanos;

/// The interval of the checks: short at first and after each change, long while nothing changes.
const SHORT_INTERVAL: Nanos = Nanos::millis(100);
const LONG_INTERVAL: Nanos = Nanos::secs(1);
/// The least number of packets since the last check. An almost idle router is not asked for reports.
const LEAST_PACKETS: u64 = 4096;

impl Daemon {
    /// Starts the thread that divides.
    pub(super) fn start_share_updates(self: &Arc<Self>) -> Result<()> {
        let (mut before, mut pause) = (0, SHORT_INTERVAL);
        let look = move |daemon: &Daemon| {
            let packets = daemon.workers.heartbeats.iter().map(|pulse| pulse.work().0).sum::<u64>();
            // A restarted worker counts from zero again.
            if packets.abs_diff(before) >= LEAST_PACKETS {
                before = packets;
                pause = if daemon.update_shares() { SHORT_INTERVAL } else { (pause * 2).min(LONG_INTERVAL) };
            }
            pause
        };
        self.spawn_background("division", look, |pause| thread::park_timeout(pause.into()))
    }

    /// Divides the processor again if that makes a difference. Returns whether it did.
    fn update_shares(&self) -> bool {
        let Ok(reports) = self.reports() else { return false };
        let mut control = self.control.lock();
        control.router.learn_costs(&reports);
        // A generation that is still being adopted is divided later.
        control.adopting.is_none() && control.router.divide_cpu()
    }
}
