//! The output stage: what the paths of a port have ready goes to the scheme of its link, what that lets go is transmitted.
//!
//! With three tasks, the paths with a reservation have an output task of their own ([`Task::Reserved`]). In a task shared with best
//! effort, the time reserved for them would send the packets of others.
//!
//! [`Task::Reserved`]: super::duties::Task::Reserved

use super::ports::Ports;
use super::paths::Paths;
use super::duties::Duties;
use super::Worker;
use super::ports::PortState;
use crate::classify::Target;
use packet::{BATCH, DropReason};
use schemes::Next;
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
    pub fn urge(&self, duties: &mut Duties, now: Instant) {
        duties.urge(self.output, now);
        if let Some(task) = self.promised.filter(|_| self.owed > 0) {
            duties.urge(task, now);
        }
    }

    /// Raises `LinkReady`. The task of reservations transmits only as many packets as it has offered: else it would spend its time
    /// on packets of best effort. Answers the packets sent.
    fn serve(&mut self, part: Part, given: usize, fates: &mut packet::accounting::Accounting) -> usize {
        let most = match part {
            Part::Reserved => {
                self.owed += given;
                self.owed
            }
            Part::All | Part::Shared => usize::MAX,
        };
        let sent = self.link.serve(most, fates);
        if part == Part::Reserved {
            self.owed = self.owed.saturating_sub(sent);
        }
        self.owed = self.owed.min(self.link.backlog().packets as usize);
        sent
    }
}

impl Worker {
    /// The part of the output task of a port: all paths, unless reservations have a task of their own.
    #[inline]
    pub(super) fn shared_part(&self, port: PortId) -> Part {
        let state = self.ports.states.get(port.index()).and_then(Option::as_ref);
        match state.and_then(|state| state.promised) {
            Some(_) => Part::Shared,
            None => Part::All,
        }
    }

    /// Offers what the paths have ready to the scheme of `port`, and transmits what it lets go. Answers the packets
    /// moved and whether there is more to do now.
    #[inline]
    pub(super) fn run_output(&mut self, (port, part): (PortId, Part), most: usize) -> (usize, bool) {
        if most < BATCH {
            return self.run_output_in_turn((port, part), most);
        }
        let Worker { ports: Ports { states: ports, .. }, paths: Paths { instances, .. }, fates, duties, .. } = self;
        let Some(Some(state)) = ports.get_mut(port.index()) else { return (0, false) };
        let (mut moved, mut more) = (0, false);
        if let Some(lanes) = &state.lanes {
            state.link.reserve = lanes.reserve(state.link.port.room());
        }
        for place in 0..state.part(part).len() {
            let target = state.part(part)[place];
            let Some(Some(instance)) = instances.get_mut(usize::from(target)) else { continue };
            let was_full = instance.output.room() == 0;
            let taken = state.link.offer(instance.outgoing(), BATCH, fates);
            instance.left(taken);
            moved += taken;
            more |= !instance.output.is_empty();
            if was_full && taken > 0 {
                // Room on the output side makes the path eligible again (spec Q-46).
                duties.came(target, instance, 0, fates.now);
            }
        }
        // Who offers a packet and transmits another has worked on one.
        moved = moved.max(state.serve(part, moved, fates));
        self.after_output((port, part), moved, more)
    }

    /// The same for few packets. First packets within their reservation; then those that came first, whatever
    /// their path; where the scheme ranks classes, those of the highest.
    fn run_output_in_turn(&mut self, (port, part): (PortId, Part), most: usize) -> (usize, bool) {
        let Worker { ports: Ports { states: ports, .. }, paths: Paths { instances, .. }, fates, duties, .. } = self;
        let Some(Some(state)) = ports.get_mut(port.index()) else { return (0, false) };
        let mut moved = 0;
        if let Some(lanes) = &state.lanes {
            state.link.reserve = lanes.reserve(state.link.port.room());
        }
        for &target in if part == Part::Shared { &[][..] } else { &state.reserved } {
            let Some(Some(instance)) = instances.get_mut(usize::from(target)) else { continue };
            let Some(allowance) = instance.allowance.as_mut().filter(|_| !instance.output.is_empty()) else { continue };
            let ahead = allowance.packets(fates.now).min(most - moved);
            if ahead == 0 {
                continue;
            }
            let was_full = instance.output.room() == 0;
            let taken = state.link.offer(instance.outgoing(), ahead, fates);
            instance.left(taken);
            moved += taken;
            if was_full && taken > 0 {
                duties.came(target, instance, 0, fates.now);
            }
        }
        let ranks = state.link.ranks_classes();
        while moved < most {
            let came = |target: &Target| {
                let instance = instances.get(usize::from(*target))?.as_ref()?;
                // Beyond what was reserved nothing is promised.
                let rank = if ranks && instance.allowance.is_none() { u8::MAX - instance.class } else { u8::MAX };
                Some((rank, instance.output.front()?.meta().timestamp, *target))
            };
            let (mut first, mut paths) = (None, 0);
            for next in state.part(part).iter().filter_map(came) {
                (first, paths) = (Some(first.map_or(next, |first| next.min(first))), paths + 1);
            }
            let Some((.., target)) = first else { break };
            let Some(Some(instance)) = instances.get_mut(usize::from(target)) else { break };
            let was_full = instance.output.room() == 0;
            let together = if paths == 1 { most - moved } else { 1 };
            let taken = state.link.offer(instance.outgoing(), together, fates);
            instance.left(taken);
            moved += taken;
            if was_full && taken > 0 {
                duties.came(target, instance, 0, fates.now);
            }
            if taken == 0 {
                break;
            }
        }
        let waits = |target: &Target| {
            instances.get(usize::from(*target)).and_then(|i| i.as_ref()).is_some_and(|i| !i.output.is_empty())
        };
        let more = state.part(part).iter().any(waits);
        state.serve(part, moved, fates);
        self.after_output((port, part), moved, more)
    }

    /// What is left to do for a port: `more` waits on its paths.
    #[inline]
    fn after_output(&mut self, (port, part): (PortId, Part), mut moved: usize, mut more: bool) -> (usize, bool) {
        let Worker { ports: Ports { states: ports, blocked, blocked_since, .. }, fates, duties, .. } = self;
        let Some(Some(state)) = ports.get_mut(port.index()) else { return (moved, more) };
        // A link that is emulated says itself when it is ready: see `attend`.
        let by_itself = state.link.is_emulated() && state.link.next() == Next::Ready;
        if state.link.backlog().packets > 0 || state.link.under_way() > 0 {
            if state.closing.is_some_and(|end| fates.now >= end) {
                state.link.clear(DropReason::PortRemoved, fates);
            } else if state.link.backlog().packets > 0 && state.link.room() > 0 && state.link.next() == Next::Ready {
                if part == Part::Reserved && state.owed == 0 {
                    // The task of best effort transmits the rest.
                    duties.urge(state.output, fates.now);
                } else {
                    more = true;
                }
            } else if (state.closing.is_some() || state.link.next() != Next::Idle && !by_itself)
                && !blocked.contains(&port)
            {
                blocked.push(port);
                *blocked_since = fates.now;
            }
        }
        if let Some(lanes) = &mut state.lanes {
            moved += lanes.drain(port, &mut *state.link.port, fates);
        }
        if let Some(end) = state.closing
            && !more
        {
            if state.may_close() || fates.now >= end {
                self.close_port(port);
            } else if !blocked.contains(&port) {
                blocked.push(port);
            }
            return (moved, false);
        }
        (moved, more)
    }
}
