//! What a worker is given to adopt a configuration, and gives back.

use super::super::OwnerRings;
use super::super::lanes::Lanes;
use crate::function::{Function, Functions};
use crate::hook::PacketHook;
use crate::relay::Relay;
use crate::snapshot::Snapshot;
use cpu::Schedulers;
use link::{NewLink, Queueing};
use packet::port::Port;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use units::{Generation, PathId, PortId};

/// Puts decorators around a port.
pub type Decorate = Box<dyn FnOnce(Box<dyn Port>) -> Box<dyn Port> + Send>;

/// The port of a change.
pub(crate) enum Opened {
    /// A queue of a device, the first of them or another, with its decorators, and the relays of the workers that have no
    /// queue of their own.
    Queue { port: Box<dyn Port>, decorate: Decorate, first: bool, lanes: Option<Box<Lanes>> },
    /// A relay to a queue of another worker.
    Relay(Relay),
    /// The worker's stays, with other decorators.
    Redecorated(Decorate),
}

/// A port that is opened and ready.
pub struct NewPort {
    /// Its id. Where the worker has a port of this id, its link stays with all that waits, and only the port is another.
    pub id: PortId,
    /// What becomes of the port itself.
    pub(crate) port: Opened,
    /// The scheme of its link; none where that stays.
    pub scheme: Option<Queueing>,
}

/// The hook of a worker's next generation.
pub enum NewHook {
    /// The one it has stays, or none.
    Stays,
    /// There is none any more.
    Goes,
    /// Another, which takes the place of the one before.
    Comes(Box<dyn PacketHook>),
}

/// The functions of a path at one port.
pub struct NewFunctions {
    /// The path.
    pub path: PathId,
    /// The port.
    pub port: PortId,
    /// What is done, in order.
    pub functions: Vec<Box<dyn Function>>,
}

/// A configuration for one worker, with everything it needs that the worker does not have yet.
pub struct Change {
    /// The generation to run.
    pub snapshot: Arc<Snapshot>,
    /// Ports that are new or opened again.
    pub ports: Vec<NewPort>,
    /// Links that stay and get another scheme.
    pub schemes: Vec<(PortId, Queueing)>,
    /// Ports that pretend to have another link from now on, or no longer.
    pub links: Vec<(PortId, Option<NewLink>)>,
    /// Paths that are new, or whose functions are others.
    pub functions: Vec<NewFunctions>,
    /// The functions that paths may have.
    pub registered: Functions,
    /// The CPU schedulers that a plan may name.
    pub schedulers: Schedulers,
    /// Who executes instructions.
    pub station: NewHook,
    /// The ends of rings to the other workers, with the first station.
    pub(crate) mesh: Option<Box<OwnerRings>>,
    pub(in crate::worker) reply: Option<Sender<Adopted>>,
}

/// That a worker runs a configuration, and what it has no more use for: whoever asked gives the memory back.
pub struct Adopted {
    /// Which configuration.
    pub generation: Generation,
    /// The schemes that others have replaced.
    pub retired: Vec<(PortId, Queueing)>,
}

impl Change {
    /// A change to `snapshot` that needs nothing new.
    pub fn to(snapshot: Arc<Snapshot>) -> Change {
        Change {
            snapshot,
            ports: Vec::new(),
            schemes: Vec::new(),
            links: Vec::new(),
            functions: Vec::new(),
            registered: Functions::default(),
            schedulers: Schedulers::default(),
            station: NewHook::Stays,
            mesh: None,
            reply: None,
        }
    }
}
