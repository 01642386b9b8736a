//! Receive: the input task receives a vector of packets from its port. It hands packets of other workers' flows over and
//! classifies the rest.

use super::Received;
use crate::hook::HookPoint;
use crate::snapshot::Layout;
use crate::worker::Worker;
use cpu::meter::{Work, WorkKind, WorkMeter};
use units::PortId;

impl Worker {
    /// Receives at most `most` packets from `port` and puts them on the input queues of their paths.
    #[inline]
    pub(in crate::worker) fn receive<M: WorkMeter>(&mut self, port: PortId, most: usize, meter: &mut M) -> Received {
        let mut done = Received::default();
        let Some(state) = self.ports.states.get_mut(port) else { return done };
        let is_tunnel = state.tunnel.is_some();
        if let Some(lanes) = &mut state.relays {
            lanes.count_stalls(&mut self.accounting);
            // Packets that other workers transmit through this queue are the oldest: transmit them before anything is received.
            done.drained = if state.link.has_shares() {
                lanes.offer(&mut state.link, &mut self.accounting)
            } else {
                lanes.drain(port, &mut *state.link.port, &mut self.accounting)
            };
            if state.link.has_shares() && done.drained > 0 {
                self.tasks.wake_output(state.output, self.accounting.now);
            }
            if state.closing.is_some() || !lanes.is_attached() {
                done.used = self.lap(meter, Work::new(WorkKind::Input, done.drained, 0).at(port));
                return done;
            }
        }
        if state.stalled.is_some() && self.unstall(port) {
            // Packets of an earlier vector still wait for room on their paths. The worker does not poll the port, so the device
            // drops the excess at no cost.
            done.stalled = true;
            done.used = self.lap(meter, Work::new(WorkKind::Input, 0, 0).at(port));
            return done;
        }
        if is_tunnel && self.adoption.pending.is_none() {
            done.drained += self.encapsulate(port);
        }
        // A new generation is adopted when the paths are empty. Until then packets stay in the receive ring: the new generation
        // forwards them.
        if self.adoption.pending.is_none() {
            done.more = self.poll(port, most);
        }
        done.received = self.vector.batch.len();
        let bytes_before = self.ports.states.get(port).map_or(0, |state| state.received_bytes);
        if done.received > 0 {
            self.arrive(port);
        }
        // The lap charges the bytes of this vector only; the port's counter is cumulative.
        let (mut bytes, mut input) = (0, None);
        if let Some(state) = self.ports.states.get(port) {
            bytes = state.received_bytes - bytes_before;
            (done.stalled, input) = (state.stalled.is_some(), Some(state.input));
        }
        let stage = if self.ports.interrupted.is_some() { WorkKind::Interrupt } else { WorkKind::Input };
        let moved = done.received + done.drained;
        if moved > 0 || stage == WorkKind::Input {
            let executed = self.hooks.take_executed();
            done.used = self.lap(meter, Work::new(stage, moved, bytes).at(port).executing(executed));
        }
        if done.received > 0 {
            input.into_iter().for_each(|input| self.tasks.run_queue.record_vector(input, moved, done.used));
            if self.snapshot.layout == Layout::One {
                done.used += self.run_through(meter);
            } else if self.snapshot.cpu.inline {
                done.used += self.run_inlined(port, meter);
            }
        }
        done
    }

    /// Fills the batch from the port. Returns true if the port may have more.
    #[inline(always)]
    fn poll(&mut self, port: PortId, most: usize) -> bool {
        let Some(state) = self.ports.states.get_mut(port) else { return false };
        let batch = &mut self.vector.batch;
        batch.limit(most);
        state.link.port.receive(self.accounting.now, batch, &mut self.accounting.pool);
        let more = batch.room() == 0;
        self.hooks.record_dequeued(HookPoint::Input(port), self.accounting.now, batch, more);
        batch.unlimit();
        more
    }

    /// Handles a batch received from `port`: hands packets of flows that other workers own over to them, classifies the rest and
    /// puts it on its paths.
    #[inline(always)]
    pub(in crate::worker) fn arrive(&mut self, port: PortId) {
        let Some(state) = self.ports.states.get_mut(port) else { return };
        state.count_received(self.vector.batch.len() as u64, &mut self.accounting);
        // Injected packets stay on this worker, so that their trace is complete.
        let given = self.vector.injecting;
        let owned = !given
            && self.hooks.have_owners()
            && self.hooks.hand_to_owners(port, &self.snapshot, &mut self.ports, &mut self.vector, &mut self.accounting);
        let Some(state) = self.ports.states.get_mut(port) else { return };
        let stamped = state.link.port.sets_timestamps();
        if let (Some(lanes), false) = (&mut state.relays, given) {
            let spread = lanes.spread(&mut self.vector.batch, (stamped, owned), &mut self.accounting);
            state.handed_out += spread.packets;
            state.received_bytes += spread.bytes;
        }
        let passing = if owned { self.hooks.continue_unexecuted(&mut self.vector) } else { 0 };
        let came = (!stamped).then_some(self.accounting.now);
        self.classify(port, came, passing);
        if let Some(side) = self.ports.states.get_mut(port).and_then(|state| state.subscribers.as_mut()) {
            // Before the functions: address translation hides the subscriber's address.
            side.receive(self.vector.batch.as_mut_slice());
        }
        self.enqueue(port);
    }
}
