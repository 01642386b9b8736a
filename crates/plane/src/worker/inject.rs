//! Frames that come in by a port without its device: replayed ones.

use super::Worker;
use super::ports::Role;
use packet::BATCH;

impl Worker {
    /// Takes in what was given to it. A frame there is no room for is left out, and whoever gave it is told how many were not.
    ///
    /// Packets are marked as followed once they are classified: whoever gave them wants to know what becomes of them. They are
    /// not spread over workers.
    #[cold]
    pub(super) fn inject(&mut self) {
        while let Some((port, frames, reply)) = self.vector.injected.pop_front() {
            let state = self.ports.states.get(port);
            let mut taken = 0;
            if state.is_some_and(|state| state.closing.is_none() && state.role != Role::Relay) {
                for together in frames.chunks(BATCH) {
                    for frame in together {
                        let Some(mut packet) = self.accounting.pool.take_for(frame.len()) else { break };
                        packet.fill(frame);
                        packet.meta_mut().timestamp = self.accounting.now;
                        self.vector.batch.push(packet);
                    }
                    taken += self.vector.batch.len() as u64;
                    if !self.vector.batch.is_empty() {
                        self.vector.injecting = true;
                        self.arrive(port);
                        self.vector.injecting = false;
                    }
                }
            }
            // Whoever gave them may have gone.
            let _ = reply.send(taken);
        }
    }
}
