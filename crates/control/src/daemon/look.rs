//! What looking at the CPU schedulers takes: the workers are asked, and one at a time looks.

use super::Daemon;
use crate::api::Needs;
use parking_lot::{Condvar, Mutex};
use plane::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long the owner waits until a look that was ended is over.
const PATIENCE: Duration = Duration::from_secs(2);

/// The caller that records the CPU schedulers.
#[derive(Default)]
pub(super) struct Look {
    current: Mutex<Option<Current>>,
    over: Condvar,
}

struct Current {
    caller: Needs,
    end: Arc<Notify>,
}

impl Daemon {
    /// Records the CPU schedulers for this caller, unless another one does. The owner ends the recording of a caller who may
    /// only look: the answer is notified then.
    pub(crate) fn take_look(&self, caller: Needs) -> Option<Arc<Notify>> {
        let mut current = self.look.current.lock();
        if let Some(Current { caller: before, end }) = &*current {
            if *before >= caller {
                return None;
            }
            end.notify_one();
            let _ = self.look.over.wait_while_for(&mut current, |current| current.is_some(), PATIENCE);
            if current.is_some() {
                return None;
            }
        }
        let end = Arc::new(Notify::new());
        *current = Some(Current { caller, end: end.clone() });
        Some(end)
    }

    /// The recording is over.
    pub(crate) fn give_look(&self) {
        *self.look.current.lock() = None;
        self.look.over.notify_all();
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

    /// The number of routes. Takes no lock.
    pub(crate) fn route_count(&self) -> usize {
        self.tables.len4() + self.tables.len6()
    }

    /// The text of the configuration that runs; none while one is being applied.
    pub(crate) fn text_at_once(&self) -> Option<Arc<str>> {
        Some(self.control.try_lock()?.text.clone())
    }

    /// The length of the text of the configuration that runs, or that of a generation. None where there is none, or one is
    /// being applied.
    pub(crate) fn text_length(&self, generation: Option<u64>) -> Option<usize> {
        let control = self.control.try_lock()?;
        match generation {
            None => Some(control.text.len()),
            Some(generation) => control.history.get(generation).map(|entry| entry.text.len()),
        }
    }
}
