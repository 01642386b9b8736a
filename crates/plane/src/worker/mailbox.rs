//! How the control side talks to a worker: commands it reads between steps.

use super::report::Onlookers;
use super::{Adopted, Change, LinksReport, Reschedule, Watched, WorkerReport};
use crate::snapshot::Snapshot;
use cpu::trace::Trace;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use units::{InterfaceId, Mac, PortId};

/// Something for a worker to do between two steps.
#[derive(Debug)]
pub enum Command {
    /// Run this configuration, and answer its generation when it runs.
    Adopt(Box<Change>, Sender<Adopted>),
    /// The configuration that runs divides the processor otherwise from now on; nothing else of it is another.
    Divide(Arc<Snapshot>),
    /// A link has another scheme from now on; nothing else is another.
    Reschedule(Box<Reschedule>),
    /// Tell what you have counted.
    Report(Sender<WorkerReport>),
    /// Tell of the links, or of one of them: what waits there, how long, and what the schemes remember.
    Links(Option<PortId>, Sender<LinksReport>),
    /// These frames come in by a port as if its device had received them; answers how many could.
    Inject(PortId, Vec<Vec<u8>>, Sender<u64>),
    /// A neighbour that is configured, or no longer (no address).
    Neighbour(InterfaceId, IpAddr, Option<Mac>),
    /// Say who looks into the stores of ephemeral state; nobody where there are none.
    Onlookers(Sender<Onlookers>),
    /// Keep what the CPU scheduler does in this trace from now on, or in none; answers what was kept until now.
    Watch(Option<Box<Trace>>, Sender<Watched>),
}

/// Commands in the order they were posted. Costs the worker one atomic load a step while it is empty.
#[derive(Debug)]
pub struct Mailbox {
    posted: AtomicU64,
    /// Nothing once the worker is gone.
    commands: Mutex<Option<VecDeque<Command>>>,
}

impl Default for Mailbox {
    fn default() -> Self {
        Mailbox { posted: AtomicU64::new(0), commands: Mutex::new(Some(VecDeque::new())) }
    }
}

impl Mailbox {
    /// Posts a command. Whoever sleeps for the worker has to be woken besides. Where the worker is gone the command is
    /// dropped, and who waits for an answer sees that there will be none.
    pub fn post(&self, command: Command) {
        if let Some(commands) = &mut *self.lock() {
            commands.push_back(command);
            self.posted.fetch_add(1, Ordering::Release);
        }
    }

    /// The worker is gone, and with it the commands it has not read.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    /// Whether the worker is gone.
    pub fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    /// How many commands were ever posted.
    #[inline(always)]
    pub(super) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) -> VecDeque<Command> {
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<VecDeque<Command>>> {
        // Each change is one call on the queue: a panic elsewhere leaves it whole.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
