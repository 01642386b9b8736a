//! The output tasks of a port, and whose packets leave first where a task may not send all.
//!
//! With three tasks, the paths with a reservation have an output task of their own ([`Task::Reserved`]). In a task shared with best
//! effort, the time reserved for them would send the packets of others.
//!
//! [`Task::Reserved`]: super::task_table::Task::Reserved

use super::paths::Paths;
use super::ports::{PortState, Ports};
use super::task_table::TaskTable;
use super::vector::Vector;
use crate::classify::Target;
use packet::accounting::Accounting;
use units::{Instant, PortId};

/// The paths whose packets are offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// All of the port.
    All,
    /// Those with a reservation.
    Reserved,
    /// The others.
    Shared,
}

impl PortState {
    /// The instances of a part, in the order in which their packets are taken.
    pub fn part(&self, part: Part) -> &[Target] {
        match part {
            Part::All => &self.outputs,
            Part::Reserved => &self.reserved,
            Part::Shared => &self.shared,
        }
    }

    /// The link may take packets that wait at its scheme.
    pub fn urge(&self, tasks: &mut TaskTable, now: Instant) {
        tasks.urge(self.output, now);
        if let Some(task) = self.promised.filter(|_| self.owed > 0) {
            tasks.urge(task, now);
        }
    }

    /// Raises `LinkReady`. The task of reservations transmits only as many packets as it has offered: else it would spend its time
    /// on packets of best effort. Answers the packets sent.
    pub fn serve(&mut self, part: Part, given: usize, accounting: &mut packet::accounting::Accounting) -> usize {
        let most = match part {
            Part::Reserved => {
                self.owed += given;
                self.owed
            }
            Part::All | Part::Shared => usize::MAX,
        };
        let sent = self.link.serve(most, accounting);
        if part == Part::Reserved {
            self.owed = self.owed.saturating_sub(sent);
        }
        self.owed = self.owed.min(self.link.backlog().packets as usize);
        sent
    }
}

impl Ports {
    /// The part of the output task of a port: all paths, unless reservations have a task of their own.
    #[inline]
    pub(in crate::worker) fn shared_part(&self, port: PortId) -> Part {
        let state = self.states.get(port);
        match state.and_then(|state| state.promised) {
            Some(_) => Part::Shared,
            None => Part::All,
        }
    }

    /// Transmits few packets. First packets within their reservation; then those that came first, whatever
    /// their path; where the scheme ranks classes, those of the highest.
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
        if let Some(lanes) = &state.lanes {
            state.link.reserve = lanes.reserve(state.link.port.room());
        }
        for &target in if part == Part::Shared { &[][..] } else { &state.reserved } {
            let Some(instance) = instances.get_mut(target) else { continue };
            let Some(allowance) = instance.allowance.as_mut().filter(|_| !instance.output.is_empty()) else { continue };
            let ahead = allowance.packets(accounting.now).min(most - moved);
            if ahead == 0 {
                continue;
            }
            let was_full = instance.output.room() == 0;
            let taken = state.link.offer(instance.outgoing(), ahead, accounting);
            instance.left(taken);
            moved += taken;
            if was_full && taken > 0 {
                tasks.came(target, instance, 0, accounting.now);
            }
        }
        let ranks = state.link.ranks_classes();
        while moved < most {
            let came = |target: &Target| {
                let instance = instances.get(*target)?;
                // Beyond what was reserved nothing is promised.
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
            let together = if paths == 1 { most - moved } else { 1 };
            let taken = state.link.offer(instance.outgoing(), together, accounting);
            instance.left(taken);
            moved += taken;
            if was_full && taken > 0 {
                tasks.came(target, instance, 0, accounting.now);
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
