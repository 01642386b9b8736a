//! Serves the queues of a guest that has failed: FIFO with a bound.

use schemes::{Ahead, Progress};
use units::QueueId;

/// The most packets that may wait.
const LIMIT: u32 = 1000;

/// Serves all queues of the guest, the last one first. New packets enter the first queue, so they never overtake packets of their flow in another
/// queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fallback {
    /// All queues after this one are empty.
    last: u16,
}

impl Fallback {
    /// Serves the first `queues` queues.
    pub fn of(queues: u16) -> Fallback {
        Fallback { last: queues.saturating_sub(1) }
    }

    /// Admits the arriving packets.
    pub fn arrive<W: Ahead>(&mut self, wires: &mut W, backlog: &mut u32) {
        while wires.advance() {
            Fallback::admit(wires, backlog);
        }
    }

    /// Admits the packet that has arrived, or leaves it to be dropped.
    pub fn admit<W: Ahead>(wires: &mut W, backlog: &mut u32) {
        if *backlog < LIMIT && wires.enqueue(QueueId(0)) {
            *backlog += 1;
        }
    }

    /// Sends the next packet.
    pub fn evaluate<W: Ahead>(&mut self, wires: &mut W, backlog: &mut u32) -> Progress {
        // Only queue 0 receives packets now, so a queue found empty stays empty.
        while self.last > 0 && wires.size(QueueId(self.last.into())).packets == 0 {
            self.last -= 1;
        }
        if wires.dequeue(QueueId(self.last.into())).is_none() {
            return Progress::None;
        }
        wires.transmit();
        *backlog = backlog.saturating_sub(1);
        Progress::Made
    }
}
