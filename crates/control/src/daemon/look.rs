//! What looking at the CPU schedulers takes: the workers are asked, and one at a time looks.

use super::Daemon;
use plane::Command;
use std::sync::atomic::Ordering;

impl Daemon {
    /// Whether nobody looks yet; from now on somebody does.
    pub(crate) fn take_look(&self) -> bool {
        !self.looked_at.swap(true, Ordering::AcqRel)
    }

    /// Nobody looks any more.
    pub(crate) fn give_look(&self) {
        self.looked_at.store(false, Ordering::Release);
    }

    /// Tells every worker something, and wakes it.
    pub(crate) fn post(&self, make: impl FnMut() -> Command) {
        self.control.lock().router.post(make);
    }

    /// Workers there are, those included that do not answer.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers.pulses.len()
    }

    /// The router's name.
    pub(crate) fn name(&self) -> String {
        self.control.lock().router.plan().map_or_else(String::new, |plan| plan.name.clone())
    }
}
