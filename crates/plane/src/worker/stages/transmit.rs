//! Transmit: the paths of a port offer their packets to the queueing scheme of its link. The port transmits the packets that the
//! scheme releases.

use crate::worker::output_tasks::Part;
use crate::worker::paths::Paths;
use crate::worker::ports::Ports;
use crate::worker::task_table::TaskTable;
use crate::worker::vector::Vector;
use packet::accounting::Accounting;
use packet::{BATCH, DropReason};
use schemes::Next;
use units::PortId;

impl Ports {
    /// Offers the packets of the paths to the scheme of `port`, and transmits the packets that it releases. Returns the number of
    /// packets moved and whether more can be moved now.
    #[inline]
    pub(in crate::worker) fn transmit(
        &mut self,
        (port, part): (PortId, Part),
        most: usize,
        paths: &mut Paths,
        vector: &mut Vector,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> (usize, bool) {
        // With a small limit the order among paths matters; with a whole batch each path is served completely.
        if most < BATCH {
            return self.transmit_in_turn((port, part), most, paths, vector, tasks, accounting);
        }
        let Ports { states, .. } = self;
        let Paths { instances, .. } = paths;
        let Some(state) = states.get_mut(port) else { return (0, false) };
        let (mut moved, mut more) = (0, false);
        if let Some(lanes) = &state.relays {
            // Keep transmit slots for the packets of other workers.
            state.link.reserve = lanes.reserve(state.link.port.room());
        }
        for place in 0..state.part(part).len() {
            let target = state.part(part)[place];
            let Some(instance) = instances.get_mut(target) else { continue };
            let was_full = instance.output.room() == 0;
            let taken = state.offer(instance.outgoing(), BATCH, accounting);
            instance.record_sent(taken);
            moved += taken;
            more |= !instance.output.is_empty();
            if was_full && taken > 0 {
                // The freed room on the output queue makes the path eligible again (spec Q-46).
                tasks.record_arrivals(target, instance, 0, accounting.now);
            }
        }
        if let Some(lanes) = state.relays.as_mut().filter(|_| state.link.has_shares()) {
            moved += lanes.offer(&mut state.link, accounting);
        }
        // A task that offers one packet and transmits another counts one moved packet.
        moved = moved.max(state.serve(part, moved, accounting));
        self.after_transmission((port, part), moved, more, vector, tasks, accounting)
    }

    /// Determines whether the task has more to do for a port. `more` means that packets wait on its paths.
    #[inline]
    pub(in crate::worker) fn after_transmission(
        &mut self,
        (port, part): (PortId, Part),
        mut moved: usize,
        mut more: bool,
        vector: &mut Vector,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> (usize, bool) {
        let Ports { states, blocked, blocked_since, .. } = self;
        let Some(state) = states.get_mut(port) else { return (moved, more) };
        let now = accounting.now;
        if state.tunnel.as_ref().is_some_and(|end| end.waiting() > 0) {
            // The input task of the port encapsulates the packets.
            tasks.run_queue.wake(state.input, now);
        }
        let is_full = state.link.backlog().packets > 0 && state.link.room() == 0;
        state.stall.observe(is_full, now, accounting.stalls.link());
        // An emulated link reports itself when it is ready: see `Ports::serve_emulated`.
        let by_itself = state.link.is_emulated() && state.link.next() == Next::Ready;
        if state.link.backlog().packets > 0 || state.link.in_flight() > 0 {
            if state.closing.is_some_and(|end| now >= end) {
                // A removed port gets one second to empty its queue, then the rest is dropped.
                state.link.clear(DropReason::PortRemoved, accounting);
            } else if state.link.backlog().packets > 0 && state.link.room() > 0 && state.link.next() == Next::Ready {
                if part == Part::Reserved && state.offered == 0 {
                    // The best-effort output task transmits the rest.
                    tasks.wake_output(state.output, now);
                } else {
                    more = true;
                }
            } else if (state.closing.is_some() || state.link.next() != Next::Idle && !by_itself)
                && !blocked.contains(&port)
            {
                blocked.push(port);
                *blocked_since = now;
            }
        }
        if let Some(lanes) = state.relays.as_mut().filter(|_| !state.link.has_shares()) {
            moved += lanes.drain(port, &mut *state.link.port, accounting);
        }
        if let Some(end) = state.closing
            && !more
        {
            if state.may_close() || now >= end {
                self.close_port(port, vector, tasks, accounting);
            } else if !blocked.contains(&port) {
                blocked.push(port);
            }
            return (moved, false);
        }
        (moved, more)
    }
}
