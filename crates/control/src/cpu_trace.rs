//! Records the CPU schedulers of a running router: every worker records events for a while, within a memory bound, and hands its record over. Without
//! a recording, workers store no events.

use crate::api::{AccessLevel, ApiError, ErrorKind};
use crate::daemon::Daemon;
use crate::names::Names;
use cpu::trace::TaskTrace;
use cpu::trace::export::{TracedCore, TracedRouter, write};
use io::clock;
use plane::{Command, TaskReport, TraceReport};
use std::io::{Result, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::sync::Notify;
use units::Instant;

/// The longest wait for the record of a worker.
const RECORD_TIMEOUT: Duration = Duration::from_secs(2);

/// A recording, which lasts until this is dropped.
pub(crate) struct ScheduleRecording {
    daemon: Arc<Daemon>,
    since: Instant,
    end: Arc<Notify>,
}

/// Makes every worker record the latest `events` of its CPU scheduler from now on.
pub(crate) fn start_recording(
    daemon: &Arc<Daemon>,
    caller: AccessLevel,
    events: usize,
) -> std::result::Result<ScheduleRecording, ApiError> {
    let end = daemon.reserve_recording(caller).ok_or_else(|| {
        let reason = "another trace of the CPU schedulers is running";
        ApiError::new(ErrorKind::Busy, reason, "try again after its end")
    })?;
    let looking = ScheduleRecording { daemon: daemon.clone(), since: clock::now(), end };
    // The buffers are allocated here, because a worker must not make large allocations.
    drop(looking.swap_buffers(|| Some(Box::new(TaskTrace::new(events)))));
    Ok(looking)
}

impl ScheduleRecording {
    /// Replaces the buffers of the workers, and receives the previous ones.
    fn swap_buffers(&self, trace: impl Fn() -> Option<Box<TaskTrace>>) -> Receiver<TraceReport> {
        let (sender, receiver) = channel();
        self.daemon.post(|| Command::TraceScheduler(trace(), sender.clone()));
        receiver
    }

    /// Completes when the owner starts a recording instead.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let end = self.end.clone();
        async move { end.notified().await }
    }

    /// Writes the events recorded until now, and ends the recording. Returns how many events were lost for lack of space.
    pub fn write(self, out: &mut impl Write) -> Result<u64> {
        let answers = self.swap_buffers(|| None);
        let workers = self.daemon.worker_count();
        let deadline = clock::now() + RECORD_TIMEOUT.into();
        let mut watched: Vec<TraceReport> = Vec::new();
        while watched.len() < workers {
            let Ok(next) = answers.recv_timeout(deadline.since(clock::now()).into()) else { break };
            watched.push(next);
        }
        // Workers stop at slightly different times; the trace ends with the last of them.
        let until = watched.iter().map(|watched| watched.until).max().unwrap_or(self.since).max(clock::now());
        watched.sort_by_key(|watched| watched.worker);
        let names = self.daemon.names();
        let mut cores: Vec<TracedCore<'_>> = Vec::new();
        for TraceReport { worker, trace, tasks, .. } in &watched {
            let tasks = tasks.iter().map(|task| (task.task, name(task, &names))).collect();
            cores.extend(trace.as_deref().map(|trace| TracedCore { worker: worker.0, trace, tasks }));
        }
        let lost = cores.iter().map(|core| core.trace.lost()).sum();
        let mut name = self.daemon.name();
        if cores.len() < workers {
            name += &format!(" ({} of {workers} workers did not answer)", workers - cores.len());
        }
        let started = (self.since + self.daemon.epoch()).get();
        let since = self.since;
        // The workers have handed over their records, so a slow reader need not delay the next caller.
        drop(self);
        write(out, &[TracedRouter { name: &name, cores }], (since, until), Some(started))?;
        Ok(lost)
    }
}

impl Drop for ScheduleRecording {
    fn drop(&mut self) {
        drop(self.swap_buffers(|| None));
        self.daemon.release_recording();
    }
}

/// Returns the name of a task for people.
fn name(task: &TaskReport, names: &Names) -> String {
    let paths: Vec<String> = task.paths.iter().map(|&path| names.path(path)).collect();
    let of = task.port.map_or_else(|| paths.join(","), |port| names.port(port));
    format!("{} {of}", task.kind)
}
