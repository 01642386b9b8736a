//! Injects frames at a port without its device: replayed frames.

use super::Worker;
use super::ports::Role;
use packet::BATCH;

impl Worker {
    /// Injects the queued frames. A frame without a free buffer is left out. The sender gets the number of injected frames.
    ///
    /// The packets are marked for tracing once they are classified, because the sender wants to see their fate. They are not
    /// handed to other workers.
    #[cold]
    pub(super) fn inject(&mut self) {
        while let Some((port, frames, reply)) = self.vector.injected.pop_front() {
            let state = self.ports.states.get(port);
            let mut taken = 0;
            if state.is_some_and(|state| state.closing.is_none() && state.role != Role::Relay) {
                for together in frames.chunks(BATCH) {
                    for frame in together {
                        // Without a free frame the rest of this chunk is left out. The next chunk may find frames returned meanwhile.
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
            // The sender may have gone.
            let _ = reply.send(taken);
        }
    }
}
