//! The input and the result of a worker's adoption of a configuration.

use super::super::OwnerRings;
use super::super::handoff::SharedQueue;
use crate::function::{Function, Functions};
use crate::hook::PacketHook;
use crate::relay::Relay;
use crate::snapshot::Snapshot;
use crate::tunnel::TunnelEnd;
use cpu::Schedulers;
use link::{LinkSetup, Queueing};
use packet::port::Port;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use units::{Generation, PathId, PortId};

/// Puts decorators around a port.
pub type Decorate = Box<dyn FnOnce(Box<dyn Port>) -> Box<dyn Port> + Send>;

/// The port of a change.
pub(crate) enum OpenedPort {
    /// A queue of a device, with its decorators, and the relays of the workers without a queue. `first` is true for the device's first queue.
    Queue { port: Box<dyn Port>, decorate: Decorate, first: bool, relays: Option<Box<SharedQueue>> },
    /// A relay to a queue of another worker.
    Relay(Relay),
    /// The worker's port stays, with other decorators.
    Redecorated(Decorate),
}

/// An opened port, ready for use.
pub struct NewPort {
    /// Its id. If the worker already has a port of this id, the link and its queues stay, and only the port is replaced.
    pub id: PortId,
    /// The port itself, or the change of the existing one.
    pub(crate) port: OpenedPort,
    /// The scheme of its link. `None` if the scheme stays.
    pub scheme: Option<Queueing>,
    /// The worker's end of the port's wire, if it is the port of a tunnel.
    pub(crate) tunnel: Option<Box<TunnelEnd>>,
}

/// The hook of a worker's next generation.
pub enum NewHook {
    /// The present hook stays, or there is none.
    Unchanged,
    /// The hook is removed.
    Remove,
    /// A new hook, which replaces the present one.
    Install(Box<dyn PacketHook>),
}

/// The functions of a path at one port.
pub struct NewFunctions {
    /// The path.
    pub path: PathId,
    /// The port.
    pub port: PortId,
    /// The functions, in order.
    pub functions: Vec<Box<dyn Function>>,
}

/// A configuration for one worker, with all resources it needs and lacks.
pub struct WorkerChange {
    /// The generation to run.
    pub snapshot: Arc<Snapshot>,
    /// Ports that are new or reopened.
    pub ports: Vec<NewPort>,
    /// Existing links that get another scheme.
    pub schemes: Vec<(PortId, Queueing)>,
    /// Ports whose emulated link changes or is removed.
    pub links: Vec<(PortId, Option<LinkSetup>)>,
    /// Paths that are new, or whose functions change.
    pub functions: Vec<NewFunctions>,
    /// The functions available to paths.
    pub available_functions: Functions,
    /// The CPU schedulers available to a plan.
    pub schedulers: Schedulers,
    /// The packet hook.
    pub hook: NewHook,
    /// The ends of rings to the other workers, with the first hook.
    pub(crate) owner_rings: Option<Box<OwnerRings>>,
    pub(in crate::worker) reply: Option<Sender<Adopted>>,
}

/// The acknowledgement that a worker runs a configuration, with replaced resources. The receiver frees their memory.
pub struct Adopted {
    /// The generation.
    pub generation: Generation,
    /// The replaced schemes.
    pub retired: Vec<(PortId, Queueing)>,
}

impl WorkerChange {
    /// A change to `snapshot` that needs no new resources.
    pub fn to(snapshot: Arc<Snapshot>) -> WorkerChange {
        WorkerChange {
            snapshot,
            ports: Vec::new(),
            schemes: Vec::new(),
            links: Vec::new(),
            functions: Vec::new(),
            available_functions: Functions::default(),
            schedulers: Schedulers::default(),
            hook: NewHook::Unchanged,
            owner_rings: None,
            reply: None,
        }
    }
}
