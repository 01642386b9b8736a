//! Ports that wait where the path of a packet is full (spec Q-33): the packets at hand are kept, the port is not received
//! by until there is room for them, and the line loses the rest at no cost.

use super::ports::Ports;
use super::paths::Paths;
use super::Worker;
use crate::classify::Target;
use packet::Batch;
use units::PortId;

/// Packets that were received and classified, and found their path full; in order.
pub(super) struct Stalled {
    packets: Batch,
    targets: Vec<Target>,
    offloads: bool,
    stations: bool,
}

impl Stalled {
    /// How many.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
}

impl Worker {
    /// The rest of the batch, from the packet numbered `from` on, waits for room on its paths.
    #[cold]
    pub(super) fn stall(&mut self, port: PortId, from: usize) {
        let Some(Some(state)) = self.ports.states.get_mut(port.index()) else { return };
        let packets = std::mem::take(&mut self.vector.batch);
        let targets = self.vector.scratch.targets[from..from + packets.len()].to_vec();
        let (offloads, stations) = (self.vector.scratch.offloads, self.vector.scratch.stations);
        state.stalled = Some(Box::new(Stalled { packets, targets, offloads, stations }));
        if !self.ports.stalls.contains(&port) {
            self.ports.stalls.push(port);
        }
    }

    /// What waited goes on, as far as there is room. Answers whether some waits still.
    pub(super) fn unstall(&mut self, port: PortId) -> bool {
        let Some(Some(state)) = self.ports.states.get_mut(port.index()) else { return false };
        let Some(stalled) = state.stalled.take() else { return false };
        let Stalled { packets, targets, offloads, stations } = *stalled;
        self.vector.batch = packets;
        self.vector.scratch.targets[..targets.len()].copy_from_slice(&targets);
        (self.vector.scratch.offloads, self.vector.scratch.stations) = (offloads, stations);
        // Paths are run in the task of a port only behind what it has received.
        self.vector.injecting = true;
        self.spread(port);
        self.vector.injecting = false;
        self.ports.states[port.index()].as_ref().is_some_and(|state| state.stalled.is_some())
    }

    /// Ports whose packets have room now are received by again.
    pub(super) fn retry_stalls(&mut self) {
        let Worker { ports: Ports { stalls, states: ports, .. }, paths: Paths { instances, .. }, duties, fates, .. } = self;
        stalls.retain(|&port| {
            let Some(Some(state)) = ports.get(port.index()) else { return false };
            let Some(stalled) = &state.stalled else { return false };
            let first = stalled.targets.first().and_then(|&target| instances.get(usize::from(target))?.as_ref());
            if first.is_some_and(|instance| instance.input.room() == 0) {
                return true;
            }
            duties.agenda.rouse(state.input, fates.now);
            false
        });
    }
}
