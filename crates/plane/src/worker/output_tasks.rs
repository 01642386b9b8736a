//! The output tasks of a port, and the order of packets if a task may not send all of them.
//!
//! In the layout with three tasks, the paths with a reservation have an output task of their own ([`Task::Reserved`]). If they shared one
//! with best effort, their reserved time would send packets of best effort.
//!
//! [`Task::Reserved`]: super::task_table::Task::Reserved

use super::paths::Paths;
use super::ports::{PortState, Ports};
use super::task_table::TaskTable;
use super::vector::Vector;
use crate::classify::Target;
use link::Outgoing;
use packet::accounting::Accounting;
use units::{Instant, PortId};

/// A group of paths whose packets an output task offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// All paths of the port.
    All,
    /// Paths with a reservation.
    Reserved,
    /// The other paths.
    Shared,
}

impl PortState {
    /// The instances of a part, in the order in which their packets are dequeued.
    pub fn part(&self, part: Part) -> &[Target] {
        match part {
            Part::All => &self.outputs,
            Part::Reserved => &self.reserved,
            Part::Shared => &self.shared,
        }
    }

    /// Offers packets of a path to the link. Packets to subscribers get the share of their circuit.
    #[inline]
    pub fn offer(&mut self, path: Outgoing<'_>, most: usize, accounting: &mut Accounting) -> usize {
        match &mut self.subscribers {
            None => self.link.offer(path, most, accounting),
            Some(side) => self.link.offer_named(path, most, accounting, |packets| side.transmit(packets)),
        }
    }

    /// The link may accept packets that wait at its scheme.
    pub fn wake_output(&self, tasks: &mut TaskTable, now: Instant) {
        tasks.wake_output(self.output, now);
        if let Some(task) = self.reserved_output.filter(|_| self.offered > 0) {
            tasks.wake_output(task, now);
        }
    }

    /// Raises `LinkReady`. The reserved task transmits only as many packets as it has offered; otherwise it would spend its time on
    /// packets of best effort. Returns the number of packets sent.
    pub fn serve(&mut self, part: Part, given: usize, accounting: &mut packet::accounting::Accounting) -> usize {
        let most = match part {
            Part::Reserved => {
                self.offered += given;
                self.offered
            }
            Part::All | Part::Shared => usize::MAX,
        };
        let sent = self.link.serve(most, accounting);
        if part == Part::Reserved {
            self.offered = self.offered.saturating_sub(sent);
        }
        // The scheme may have dropped offered packets. They cannot be transmitted any more.
        self.offered = self.offered.min(self.link.backlog().packets as usize);
        sent
    }
}

impl Ports {
    /// The part that the port's output task serves: all paths, unless reservations have a task of their own.
    #[inline]
    pub(in crate::worker) fn shared_part(&self, port: PortId) -> Part {
        let state = self.states.get(port);
        match state.and_then(|state| state.reserved_output) {
            Some(_) => Part::Shared,
            None => Part::All,
        }
    }

    /// Transmits at most `most` packets: first packets within their reservation, then the highest class if the scheme ranks classes, then the
    /// oldest first among all paths.
    pub(in crate::worker) fn transmit_in_turn(
        &mut self,
        (port, part): (PortId, Part),
        most: usize,
        paths: &mut Paths,
        vector: &mut Vector,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> (usize, bool) {
        let Ports { states: ports, .. } = self;
        let Paths { instances, .. } = paths;
        let Some(state) = ports.get_mut(port) else { return (0, false) };
        let mut moved = 0;
        // Leave a share of the device's room to the packets of other workers.
        if let Some(lanes) = &state.relays {
            state.link.reserve = lanes.reserve(state.link.port.room());
        }
        let reserved = if part == Part::Shared { 0 } else { state.reserved.len() };
        for place in 0..reserved {
            let target = state.reserved[place];
            // First pass: packets that the reservations cover.
            let Some(instance) = instances.get_mut(target) else { continue };
            let Some(allowance) = instance.allowance.as_mut().filter(|_| !instance.output.is_empty()) else { continue };
            let ahead = allowance.packets(accounting.now).min(most - moved);
            if ahead == 0 {
                continue;
            }
            let was_full = instance.output.room() == 0;
            let taken = state.offer(instance.outgoing(), ahead, accounting);
            instance.record_sent(taken);
            moved += taken;
            if was_full && taken > 0 {
                tasks.record_arrivals(target, instance, 0, accounting.now);
            }
        }
        // Second pass: one packet at a time, because each may change which path has the oldest.
        let ranks = state.link.ranks_classes();
        while moved < most {
            let came = |target: &Target| {
                let instance = instances.get(*target)?;
                // Above its reservation, a path ranks below all classes of best effort.
                let rank = if ranks && instance.allowance.is_none() { u8::MAX - instance.class } else { u8::MAX };
                Some((rank, instance.output.front()?.meta().timestamp, *target))
            };
            let (mut first, mut paths) = (None, 0);
            for next in state.part(part).iter().filter_map(came) {
                (first, paths) = (Some(first.map_or(next, |first| next.min(first))), paths + 1);
            }
            let Some((.., target)) = first else { break };
            let Some(instance) = instances.get_mut(target) else { break };
            let was_full = instance.output.room() == 0;
            // With a single backlogged path there is no order to keep.
            let together = if paths == 1 { most - moved } else { 1 };
            let taken = state.offer(instance.outgoing(), together, accounting);
            instance.record_sent(taken);
            moved += taken;
            if was_full && taken > 0 {
                tasks.record_arrivals(target, instance, 0, accounting.now);
            }
            if taken == 0 {
                break;
            }
        }
        let waits = |target: &Target| instances.get(*target).is_some_and(|i| !i.output.is_empty());
        let more = state.part(part).iter().any(waits);
        state.serve(part, moved, accounting);
        self.after_transmission((port, part), moved, more, vector, tasks, accounting)
    }
}
