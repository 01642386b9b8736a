//! Threads that look after the router as long as there is one.

use super::Daemon;
use std::io::Result;
use std::sync::Arc;
use std::thread;

impl Daemon {
    /// Starts a thread that looks at the router, waits as what it found tells it, and looks again until the router has ended.
    pub(super) fn attend<T>(
        self: &Arc<Self>,
        name: &str,
        mut look: impl FnMut(&Daemon) -> T + Send + 'static,
        mut wait: impl FnMut(T) + Send + 'static,
    ) -> Result<()> {
        let daemon = Arc::downgrade(self);
        let attend = move || {
            while let Some(daemon) = daemon.upgrade() {
                let found = look(&daemon);
                // The router may end while this waits.
                drop(daemon);
                wait(found);
            }
        };
        thread::Builder::new().name(name.into()).spawn(attend).map(drop)
    }
}
