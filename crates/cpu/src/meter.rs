//! The cost of work. The plane reads no clock: the daemon passes in a meter that reads the processor's counter, a simulation one that computes from a
//! cost model.

use units::{Nanos, PathId, PortId};

/// The kind of work, as a cost model distinguishes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkKind {
    /// Choosing a task and switching to it.
    Switch,
    /// Receiving and classifying, in a task of its own.
    Input,
    /// Receiving and classifying before all other work: interrupt style.
    Interrupt,
    /// A path's functions.
    Forwarding,
    /// The queueing scheme and transmission.
    Output,
}

/// A vector of work that has just been done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// The kind of work.
    pub kind: WorkKind,
    /// The ingress or egress port, if the work belongs to one.
    pub port: Option<PortId>,
    /// The path whose functions ran.
    pub path: Option<PathId>,
    /// Packets moved; zero for an empty poll of a port.
    pub packets: u32,
    /// Their bytes; zero unless the meter asks for them ([`WorkMeter::BYTES`]).
    pub bytes: u32,
    /// Ephemeral-state instructions that were executed for these packets.
    pub instructions: u32,
    /// The time limit of a packet on this path. A cost model charges no more, because longer functions are stopped.
    pub limit: Option<Nanos>,
    /// Extra time that a function asks for. A meter of virtual time adds it; a meter of real time busy-waits for it before it reads the clock.
    pub extra_time: Nanos,
    /// For work whose total time a meter predicted ([`WorkMeter::predict`]): the part to spend now.
    pub predicted: Option<Nanos>,
}

impl Work {
    /// A task was chosen and switched to.
    pub const SWITCH: Work = Work::new(WorkKind::Switch, 0, 0);

    /// Work on these packets and bytes.
    pub const fn new(stage: WorkKind, packets: usize, bytes: u64) -> Work {
        Work {
            kind: stage,
            port: None,
            path: None,
            packets: packets as u32,
            bytes: bytes as u32,
            instructions: 0,
            limit: None,
            extra_time: Nanos::ZERO,
            predicted: None,
        }
    }

    /// This work, with executed instructions.
    pub const fn executing(self, instructions: u32) -> Work {
        Work { instructions, ..self }
    }

    /// This work, at a port.
    pub const fn at(self, port: PortId) -> Work {
        Work { port: Some(port), ..self }
    }
}

/// Measures or computes the cost of work.
pub trait WorkMeter {
    /// True if the meter needs the bytes of each vector. They cost a read of every packet.
    const BYTES: bool = false;
    /// True if it measures a processor: packets that are processed together cost less than single ones, because their accesses of memory overlap.
    const MEASURES_PROCESSOR: bool = false;
    /// The time since the last call, which was spent on `work`. Called after each vector.
    fn lap(&mut self, work: Work) -> Nanos;
    /// The total time of preemptible `work`, which is then spent in parts ([`Work::predicted`]). None on a real processor, which cannot predict it.
    fn predict(&mut self, _work: Work) -> Option<Nanos> {
        None
    }
}

/// A meter for which everything is free: for work outside of any task.
#[derive(Clone, Copy, Debug)]
pub struct FreeMeter;

impl WorkMeter for FreeMeter {
    fn lap(&mut self, _: Work) -> Nanos {
        Nanos::ZERO
    }
}

/// A meter with a constant cost for each packet, and the same for an empty poll: for tests.
#[derive(Clone, Copy, Debug)]
pub struct ConstantMeter(pub Nanos);

impl WorkMeter for ConstantMeter {
    fn lap(&mut self, work: Work) -> Nanos {
        if let Some(foretold) = work.predicted {
            return foretold;
        }
        let each = if work.kind == WorkKind::Switch { Nanos::ZERO } else { self.0 * u64::from(work.packets.max(1)) };
        each + work.extra_time
    }

    fn predict(&mut self, work: Work) -> Option<Nanos> {
        Some(self.lap(work))
    }
}
