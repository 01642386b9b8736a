//! Access for recordings of the CPU schedulers: requests to workers, and one recording at a time.

use super::Daemon;
use crate::api::AccessLevel;
use parking_lot::{Condvar, Mutex};
use plane::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long the owner waits for the end of another caller's recording.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The caller who records the CPU schedulers.
#[derive(Default)]
pub(super) struct CpuRecording {
    current: Mutex<Option<RecordingOwner>>,
    released: Condvar,
}

struct RecordingOwner {
    caller: AccessLevel,
    end: Arc<Notify>,
}

impl Daemon {
    /// Reserves the recording for this caller, unless another one has it. The owner ends the recording of a caller with read access, who is notified
    /// through the returned value.
    pub(crate) fn reserve_recording(&self, caller: AccessLevel) -> Option<Arc<Notify>> {
        let mut current = self.recording.current.lock();
        if let Some(RecordingOwner { caller: before, end }) = &*current {
            if *before >= caller {
                return None;
            }
            // The owner has precedence over readers: end their recording, and wait until its thread has released it.
            end.notify_one();
            let _ = self.recording.released.wait_while_for(&mut current, |current| current.is_some(), RELEASE_TIMEOUT);
            if current.is_some() {
                return None;
            }
        }
        let end = Arc::new(Notify::new());
        *current = Some(RecordingOwner { caller, end: end.clone() });
        Some(end)
    }

    /// Releases the recording.
    pub(crate) fn release_recording(&self) {
        *self.recording.current.lock() = None;
        self.recording.released.notify_all();
    }

    /// Posts a command to every worker, and wakes it.
    pub(crate) fn post(&self, make: impl FnMut() -> Command) {
        self.control.lock().router.post(make);
    }

    /// Returns the number of workers, including those that do not answer.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers.heartbeats.len()
    }

    /// Returns the router's name.
    pub(crate) fn name(&self) -> String {
        self.control.lock().router.plan().map_or_else(String::new, |plan| plan.name.clone())
    }

    /// Returns the number of routes. Takes no lock.
    pub(crate) fn route_count(&self) -> usize {
        self.tables.len4() + self.tables.len6()
    }

    /// Returns the text of the running configuration; none while one is being applied.
    pub(crate) fn text_unless_applying(&self) -> Option<Arc<str>> {
        Some(self.control.try_lock()?.text.clone())
    }

    /// Returns the length of the text of the running configuration, or of a generation; none if it does not exist, or while one is being applied.
    pub(crate) fn text_length(&self, generation: Option<u64>) -> Option<usize> {
        let control = self.control.try_lock()?;
        match generation {
            None => Some(control.text.len()),
            Some(generation) => control.history.get(generation).map(|entry| entry.text.len()),
        }
    }
}
