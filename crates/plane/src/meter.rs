//! What work costs. The plane reads no counter: the daemon passes in a meter that reads the processor's, a simulation one
//! that computes from a cost model.

use units::Nanos;

/// A stage of the pipeline, as a cost model tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Receive and classify.
    Input,
    /// A path's functions.
    Forwarding,
    /// The queueing scheme and transmission.
    Output,
}

/// A vector of work just done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// Where.
    pub stage: Stage,
    /// Packets moved.
    pub packets: u32,
}

/// Answers what work cost.
pub trait Meter {
    /// Time spent since the last call, on `work`; read after each vector.
    fn lap(&mut self, work: Work) -> Nanos;
}

/// Everything costs the same time a packet, and a little when there is none: for tests.
#[derive(Clone, Copy, Debug)]
pub struct Flat(pub Nanos);

impl Meter for Flat {
    fn lap(&mut self, work: Work) -> Nanos {
        self.0 * u64::from(work.packets.max(1))
    }
}
