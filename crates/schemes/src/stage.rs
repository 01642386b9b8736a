//! A part of a scheme that decides over some of the queues of its link: all of it, or what is inside of another.

use crate::aqm::Turn;
use crate::{Record, Scheme, Wires};

/// See the [module](self).
pub(crate) trait Stage<W: Wires>: Scheme<W> {
    /// Its queues are those from this one on. Said before anything comes.
    fn begin_at(&mut self, first: u32);
    /// The packet that arrives is to be put on one of its queues, marked or refused.
    fn arrive(&mut self, wires: &mut W, packet: &Record);
    /// One evaluation: at most one packet is dropped or sent.
    fn evaluate(&mut self, wires: &mut W) -> Turn;
}

/// As [`Scheme::tune`].
pub(crate) fn tune<W: Wires>(stage: &mut dyn Stage<W>, other: &dyn Stage<W>, wires: &W) -> bool {
    other.tunable().is_some_and(|other| stage.tune(other, wires))
}

/// Takes everything that arrives.
#[inline(always)]
pub(crate) fn arrive_all<W: Wires>(stage: &mut (impl Stage<W> + ?Sized), wires: &mut W) {
    while let Some(packet) = wires.arriving() {
        stage.arrive(wires, &packet);
    }
}
