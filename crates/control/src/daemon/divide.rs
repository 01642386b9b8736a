//! The processor divided anew while the router runs: by what packets cost now, not by what was known at the last apply.

use super::Daemon;
use std::io::Result;
use std::sync::Arc;
use std::thread;
use units::Nanos;

/// How often it is looked whether there is something to divide by: at first and after each change, and when all stays.
const SOON: Nanos = Nanos::millis(100);
const LATER: Nanos = Nanos::secs(1);
/// Packets that say what packets cost. A router that hardly forwards is not asked anything.
const ENOUGH: u64 = 4096;

impl Daemon {
    /// Starts the thread that does it.
    pub(super) fn start_dividing(self: &Arc<Self>) -> Result<()> {
        let (mut before, mut pause) = (0, SOON);
        let look = move |daemon: &Daemon| {
            let packets = daemon.workers.pulses.iter().map(|pulse| pulse.work().0).sum::<u64>();
            // A worker that begins anew begins to count anew.
            if packets.abs_diff(before) >= ENOUGH {
                before = packets;
                pause = if daemon.divide() { SOON } else { (pause * 2).min(LATER) };
            }
            pause
        };
        self.attend("division", look, |pause| thread::park_timeout(pause.into()))
    }

    /// Divides the processor anew, where that makes a difference. Answers whether.
    fn divide(&self) -> bool {
        let Ok(reports) = self.reports() else { return false };
        let mut control = self.control.lock();
        control.router.learn(&reports);
        // One that no worker runs yet is divided when it runs.
        control.late.is_none() && control.router.divide()
    }
}
