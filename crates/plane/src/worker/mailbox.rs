//! The interface from the control side to a worker: commands that it reads between steps.

use super::originate::OriginatedPacket;
use super::report::StoreReaders;
use super::{Adopted, LinksReport, Reschedule, TraceReport, WorkerChange, WorkerReport};
use crate::snapshot::Snapshot;
use cpu::trace::TaskTrace;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use units::{InterfaceId, Mac, PortId};

/// A command that a worker executes between two steps.
#[derive(Debug)]
pub enum Command {
    /// Adopts this configuration, and replies with its generation once it runs.
    Adopt(Box<WorkerChange>, Sender<Adopted>),
    /// Changes only the division of the processor in the running configuration.
    SetShares(Arc<Snapshot>),
    /// Changes only the scheme of one link.
    Reschedule(Box<Reschedule>),
    /// Reports all counters.
    Report(Sender<WorkerReport>),
    /// Reports the links, or one of them: queued packets, their delay, and the state of the schemes.
    Links(Option<PortId>, Sender<LinksReport>),
    /// Injects these frames as if the device of a port had received them. Replies with the number accepted.
    Inject(PortId, Vec<Vec<u8>>, Sender<u64>),
    /// Puts packets that a service has made on the paths of their destinations. Replies with the number accepted.
    Originate(Vec<OriginatedPacket>, Sender<u64>),
    /// Adds a configured neighbour, or removes it (no address).
    Neighbour(InterfaceId, IpAddr, Option<Mac>),
    /// Replies with readers of the stores of ephemeral state. Empty if there are none.
    StoreReaders(Sender<StoreReaders>),
    /// Records the CPU scheduler in this trace from now on, or stops. Replies with the previous trace.
    TraceScheduler(Option<Box<TaskTrace>>, Sender<TraceReport>),
}

/// Commands in the order of posting. An empty mailbox costs the worker one atomic load a step.
#[derive(Debug)]
pub struct Mailbox {
    posted: AtomicU64,
    /// `None` once the worker has ended.
    commands: Mutex<Option<VecDeque<Command>>>,
}

impl Default for Mailbox {
    fn default() -> Self {
        Mailbox { posted: AtomicU64::new(0), commands: Mutex::new(Some(VecDeque::new())) }
    }
}

impl Mailbox {
    /// Posts a command. The caller must also wake the worker if it sleeps. If the worker has ended, the command is dropped, and its reply
    /// channel closes.
    pub fn post(&self, command: Command) {
        if let Some(commands) = &mut *self.lock() {
            // The count rises after the push, under the lock: a worker that reads the new count finds the command.
            commands.push_back(command);
            self.posted.fetch_add(1, Ordering::Release);
        }
    }

    /// The worker has ended: drops the commands it has not read.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    /// True if the worker has ended.
    pub fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    /// The number of commands posted so far.
    #[inline(always)]
    pub(super) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    pub(super) fn take_commands(&self) -> VecDeque<Command> {
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<VecDeque<Command>>> {
        // Each change is one call on the queue, so a panic elsewhere leaves it consistent.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
