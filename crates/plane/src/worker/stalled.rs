//! Ports that stall when the path of a packet is full (spec Q-33). The worker keeps the received packets and stops polling the port until
//! there is room. The device drops the excess at no cost.

use super::Worker;
use super::paths::Paths;
use super::ports::{Ports, Stalled};
use super::task_table::TaskTable;
use packet::accounting::Accounting;
use units::PortId;

impl Worker {
    /// Keeps the rest of the batch, from packet `from` on, until its paths have room.
    #[cold]
    pub(super) fn stall(&mut self, port: PortId, from: usize) {
        let Some(state) = self.ports.states.get_mut(port) else { return };
        let packets = std::mem::take(&mut self.vector.batch);
        // Copied, because the next batch overwrites the scratch. The batch itself holds only the packets from `from` on.
        let targets = self.vector.scratch.targets[from..from + packets.len()].to_vec();
        let (offloads, hooked) = (self.vector.scratch.offloads, self.vector.scratch.hooked);
        state.stalled = Some(Box::new(Stalled { packets, targets, offloads, hooked }));
        if !self.ports.stalls.contains(&port) {
            self.ports.stalls.push(port);
        }
    }

    /// Enqueues the stalled packets as far as there is room. Returns true if some still wait.
    pub(super) fn unstall(&mut self, port: PortId) -> bool {
        let Some(state) = self.ports.states.get_mut(port) else { return false };
        let Some(stalled) = state.stalled.take() else { return false };
        let Stalled { packets, targets, offloads, hooked } = *stalled;
        self.vector.batch = packets;
        self.vector.scratch.targets[..targets.len()].copy_from_slice(&targets);
        (self.vector.scratch.offloads, self.vector.scratch.hooked) = (offloads, hooked);
        // `injecting` disables inline forwarding, which is only for packets that the task has just received.
        self.vector.injecting = true;
        self.enqueue(port);
        self.vector.injecting = false;
        self.ports.states.get(port).is_some_and(|state| state.stalled.is_some())
    }

    /// Enqueues the batch from packet `first` on until a path is full. The port stalls with the first packet that does not fit.
    #[cold]
    pub(super) fn enqueue_throttled(&mut self, port: PortId, first: usize) {
        for position in first..first + self.vector.batch.len() {
            let target = self.vector.scratch.targets[position];
            let full = self.paths.instances.get(target);
            if full.is_some_and(|instance| instance.input.room() == 0) {
                return self.stall(port, position);
            }
            let Some(packet) = self.vector.batch.pop_front() else { break };
            self.put_on_path(port, packet, target);
        }
        drop(self.vector.batch.drain());
    }
}

impl Ports {
    /// Resumes polling of ports whose packets have room now.
    pub(in crate::worker) fn retry_stalls(
        &mut self,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let Ports { stalls, states: ports, .. } = self;
        let Paths { instances, .. } = paths;
        stalls.retain(|&port| {
            let Some(state) = ports.get(port) else { return false };
            let Some(stalled) = &state.stalled else { return false };
            // Only the first packet matters, because the others must not overtake it.
            let first = stalled.targets.first().and_then(|&target| instances.get(target));
            if first.is_some_and(|instance| instance.input.room() == 0) {
                return true;
            }
            // The input task enqueues the packets, and lists the port again if another path is full.
            tasks.run_queue.wake(state.input, accounting.now);
            false
        });
    }
}
