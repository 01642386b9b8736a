//! What serves the queues of a guest that has failed: first come, first served, with a bound.

use schemes::{Ahead, Progress};
use units::QueueId;

/// Packets that wait at most.
const LIMIT: u32 = 1000;

/// Serves as many queues as there are, the last one first: new packets go to the first, so that they overtake none of their flow that
/// waits in another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fallback {
    /// All queues behind this one are empty.
    last: u16,
}

impl Fallback {
    /// For the first so many queues.
    pub fn of(queues: u16) -> Fallback {
        Fallback { last: queues.saturating_sub(1) }
    }

    /// Takes what arrives.
    pub fn arrive<W: Ahead>(&mut self, wires: &mut W, backlog: &mut u32) {
        while wires.advance() {
            Fallback::admit(wires, backlog);
        }
    }

    /// Takes the packet that has arrived, or leaves it to be dropped.
    pub fn admit<W: Ahead>(wires: &mut W, backlog: &mut u32) {
        if *backlog < LIMIT && wires.enqueue(QueueId(0)) {
            *backlog += 1;
        }
    }

    /// Sends the next packet.
    pub fn evaluate<W: Ahead>(&mut self, wires: &mut W, backlog: &mut u32) -> Progress {
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
