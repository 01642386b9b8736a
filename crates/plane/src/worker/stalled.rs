//! Ports that wait where the path of a packet is full (spec Q-33): the packets at hand are kept, the port is not received
//! by until there is room for them, and the line loses the rest at no cost.

use super::Worker;
use super::paths::Paths;
use super::ports::{Ports, Stalled};
use super::task_table::TaskTable;
use packet::accounting::Accounting;
use units::PortId;

impl Worker {
    /// The rest of the batch, from the packet numbered `from` on, waits for room on its paths.
    #[cold]
    pub(super) fn stall(&mut self, port: PortId, from: usize) {
        let Some(state) = self.ports.states.get_mut(port) else { return };
        let packets = std::mem::take(&mut self.vector.batch);
        let targets = self.vector.scratch.targets[from..from + packets.len()].to_vec();
        let (offloads, hooked) = (self.vector.scratch.offloads, self.vector.scratch.hooked);
        state.stalled = Some(Box::new(Stalled { packets, targets, offloads, hooked }));
        if !self.ports.stalls.contains(&port) {
            self.ports.stalls.push(port);
        }
    }

    /// What waited goes on, as far as there is room. Answers whether some waits still.
    pub(super) fn unstall(&mut self, port: PortId) -> bool {
        let Some(state) = self.ports.states.get_mut(port) else { return false };
        let Some(stalled) = state.stalled.take() else { return false };
        let Stalled { packets, targets, offloads, hooked } = *stalled;
        self.vector.batch = packets;
        self.vector.scratch.targets[..targets.len()].copy_from_slice(&targets);
        (self.vector.scratch.offloads, self.vector.scratch.hooked) = (offloads, hooked);
        // Paths are run in the task of a port only behind what it has received.
        self.vector.injecting = true;
        self.enqueue(port);
        self.vector.injecting = false;
        self.ports.states.get(port).is_some_and(|state| state.stalled.is_some())
    }

    /// Puts the batch on its paths from the packet numbered `first` on, of which not all find room: the port waits with the
    /// first that does not.
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
    /// Ports whose packets have room now are received by again.
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
            let first = stalled.targets.first().and_then(|&target| instances.get(target));
            if first.is_some_and(|instance| instance.input.room() == 0) {
                return true;
            }
            tasks.agenda.rouse(state.input, accounting.now);
            false
        });
    }
}
