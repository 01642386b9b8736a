//! A stage: a scheme that manages some of the queues of its link. It is the whole scheme, or inside another.

use crate::aqm::Evaluation;
use crate::{Record, Scheme, Wires};

/// See the [module](self).
pub(crate) trait Stage<W: Wires>: Scheme<W> {
    /// Sets the id of its first queue. Called before any packet arrives.
    fn begin_at(&mut self, first: u32);
    /// Forgets all state. Its queues are empty.
    fn reset(&mut self);
    /// Prefetches its own state, which is used soon.
    fn fetch(&self, wires: &W) {
        let _ = wires;
    }
    /// Prefetches the state for a packet that arrives soon, after [`Stage::fetch`].
    fn fetch_arrival(&self, wires: &W, packet: &Record) {
        let _ = (wires, packet);
    }
    /// Enqueues, marks or refuses the arriving packet.
    fn arrive(&mut self, wires: &mut W, packet: &Record);
    /// One evaluation: drops or sends at most one packet.
    fn evaluate(&mut self, wires: &mut W) -> Evaluation;
}

/// Like [`Scheme::tune`].
pub(crate) fn tune<W: Wires>(stage: &mut dyn Stage<W>, other: &dyn Stage<W>, wires: &W) -> bool {
    other.tunable().is_some_and(|other| stage.tune(other, wires))
}

/// Passes every arriving packet to the stage.
#[inline(always)]
pub(crate) fn arrive_all<W: Wires>(stage: &mut (impl Stage<W> + ?Sized), wires: &mut W) {
    while let Some(packet) = wires.arriving() {
        stage.arrive(wires, &packet);
    }
}
