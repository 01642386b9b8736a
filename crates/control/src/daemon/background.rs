//! Background threads that run as long as the router.

use super::Daemon;
use std::io::Result;
use std::sync::Arc;
use std::thread;

impl Daemon {
    /// Starts a thread that alternates `look` and `wait` until the router has ended.
    pub(super) fn spawn_background<T>(
        self: &Arc<Self>,
        name: &str,
        mut look: impl FnMut(&Daemon) -> T + Send + 'static,
        mut wait: impl FnMut(T) + Send + 'static,
    ) -> Result<()> {
        let daemon = Arc::downgrade(self);
        let attend = move || {
            while let Some(daemon) = daemon.upgrade() {
                let found = look(&daemon);
                // Without a reference, so that the router can end during the wait.
                drop(daemon);
                wait(found);
            }
        };
        thread::Builder::new().name(name.into()).spawn(attend).map(drop)
    }
}
