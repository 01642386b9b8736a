//! How the control side talks to a worker: commands it reads between steps.

use super::{Change, WorkerReport};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use units::{Generation, InterfaceId, Mac};

/// Something for a worker to do between two steps.
#[derive(Debug)]
pub enum Command {
    /// Run this configuration, and answer its generation when it runs.
    Adopt(Box<Change>, Sender<Generation>),
    /// Tell what you have counted.
    Report(Sender<WorkerReport>),
    /// A neighbour that is configured, or no longer (no address).
    Neighbour(InterfaceId, IpAddr, Option<Mac>),
}

/// Commands in the order they were posted. Costs the worker one atomic load a step while it is empty.
#[derive(Debug, Default)]
pub struct Mailbox {
    posted: AtomicU64,
    commands: Mutex<VecDeque<Command>>,
}

impl Mailbox {
    /// Posts a command. Whoever sleeps for the worker has to be woken besides.
    pub fn post(&self, command: Command) {
        self.lock().push_back(command);
        self.posted.fetch_add(1, Ordering::Release);
    }

    /// How many commands were ever posted.
    #[inline(always)]
    pub(super) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) -> VecDeque<Command> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Command>> {
        // Each change is one call on the queue: a panic elsewhere leaves it whole.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
