//! The view of a link for the host of a guest scheme: see [`Ahead`].

use super::LinkWires;
use schemes::{Ahead, Record};
use units::QueueId;

impl Ahead for LinkWires {
    #[inline]
    fn offered(&self, place: usize) -> Option<Record> {
        self.offered.as_slice().get(place).map(|packet| self.arrival(packet))
    }

    #[inline]
    fn advance(&mut self) -> bool {
        if self.arriving.is_some() {
            self.drop_arriving();
        }
        self.arriving = self.offered.pop_front();
        // Hashes and packets must stay in step. `flow` is not set: no guest has queues for one flow each.
        self.peeked.pop();
        self.arriving.is_some()
    }

    #[inline]
    fn room(&self) -> usize {
        self.room
    }

    fn visit(&self, queue: QueueId, see: &mut dyn FnMut(Record)) {
        self.queues.visit(queue.index(), &mut |packet| see(self.record(packet)));
    }
}
