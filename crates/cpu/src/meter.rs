//! What work costs. The plane reads no counter: the daemon passes in a meter that reads the processor's, a simulation one
//! that computes from a cost model.

use units::{Nanos, PathId, PortId};

/// What kind of work, as a cost model tells it apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Choosing a task and switching to it.
    Switch,
    /// Receiving and classifying, in a task of its own.
    Input,
    /// Receiving and classifying before anything else goes on: the interrupt-driven way.
    Interrupt,
    /// A path's functions.
    Forwarding,
    /// The queueing scheme and transmission.
    Output,
}

/// A vector of work just done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// What it was.
    pub stage: Stage,
    /// The port received by or transmitted to, where it is about one.
    pub port: Option<PortId>,
    /// The path whose functions ran.
    pub path: Option<PathId>,
    /// Packets moved: none where a port was looked at and had nothing.
    pub packets: u32,
    /// Their bytes; zero unless the meter asks for them ([`Meter::BYTES`]).
    pub bytes: u32,
    /// Instructions of these packets that were executed.
    pub instructions: u32,
    /// How long a packet of the path may take: a cost model goes no further, for what takes longer is stopped.
    pub limit: Option<Nanos>,
    /// Time that functions want spent, besides what they did: a meter of virtual time adds it, one of real time waits for
    /// so long before it reads its clock.
    pub asked: Nanos,
    /// What a meter of virtual time foretold of it ([`Meter::foretell`]), and is to be spent of that now.
    pub foretold: Option<Nanos>,
}

impl Work {
    /// A task was chosen and switched to.
    pub const SWITCH: Work = Work::new(Stage::Switch, 0, 0);

    /// Work on so many packets and bytes.
    pub const fn new(stage: Stage, packets: usize, bytes: u64) -> Work {
        Work {
            stage,
            port: None,
            path: None,
            packets: packets as u32,
            bytes: bytes as u32,
            instructions: 0,
            limit: None,
            asked: Nanos::ZERO,
            foretold: None,
        }
    }

    /// The same with so many instructions executed.
    pub const fn executing(self, instructions: u32) -> Work {
        Work { instructions, ..self }
    }

    /// The same at a port.
    pub const fn at(self, port: PortId) -> Work {
        Work { port: Some(port), ..self }
    }
}

/// Answers what work cost.
pub trait Meter {
    /// Whether it wants to know the bytes of each vector, which takes a look at every packet.
    const BYTES: bool = false;
    /// Time spent since the last call, on `work`; read after each vector.
    fn lap(&mut self, work: Work) -> Nanos;
    /// What `work` will take in all, for work that is interrupted: it is spent bit by bit ([`Work::foretold`]). None on a real
    /// processor, where only doing it tells.
    fn foretell(&mut self, _work: Work) -> Option<Nanos> {
        None
    }
}

/// Everything is free: for what is done outside of any task.
#[derive(Clone, Copy, Debug)]
pub struct Free;

impl Meter for Free {
    fn lap(&mut self, _: Work) -> Nanos {
        Nanos::ZERO
    }
}

/// Everything costs the same time a packet, and a little when there is none: for tests.
#[derive(Clone, Copy, Debug)]
pub struct Flat(pub Nanos);

impl Meter for Flat {
    fn lap(&mut self, work: Work) -> Nanos {
        if let Some(foretold) = work.foretold {
            return foretold;
        }
        let each = if work.stage == Stage::Switch { Nanos::ZERO } else { self.0 * u64::from(work.packets.max(1)) };
        each + work.asked
    }

    fn foretell(&mut self, work: Work) -> Option<Nanos> {
        Some(self.lap(work))
    }
}
