//! A worker among others: what it takes over from them, what it hands them, and the packets it holds until a next hop is
//! known (adr 0012).

use super::neighbour_queue::{HoldingBounds, Turn, destination};
use super::paths::Paths;
use super::peers::{Crew, NextHop, Peers};
use super::ports::Ports;
use super::protocols::ROUNDS;
use super::reclassify::enter;
use super::{Idle, Worker};
use crate::classify::{COPIED, Classifier, REFUSED, Target, Unwitnessed};
use packet::event::Stage;
use packet::port::refusal;
use packet::{DropReason, Exception, Packet};
use stack::Verdict;
use units::{Instant, Nanos, PortId, WorkerId};

/// How long a next hop stays unanswered before it is asked for again: an answer that found no room is lost.
const ASK_AGAIN: Nanos = Nanos::secs(1);
/// The worker that speaks for the router, among those that have asked for a next hop.
const FIRST: u64 = 1;

impl Worker {
    /// Takes what has come from other workers, as far as there is room for it.
    pub(super) fn take_over(&mut self, now: Instant) {
        if let Crew::First(colleagues) = &self.peers.crew {
            return (0..colleagues.len()).for_each(|index| self.take_over_from(index, now));
        }
        while let Crew::Other(speaker) = &mut self.peers.crew
            && let Ok((hop, verdict)) = speaker.answers.pop()
        {
            self.learn(hop, verdict);
        }
    }

    fn take_over_from(&mut self, index: usize, now: Instant) {
        if self.adoption.pending.is_none() {
            self.take_handed(index, now);
        }
        loop {
            let Crew::First(colleagues) = &mut self.peers.crew else { return };
            let colleague = &mut colleagues[index];
            let Ok(hop) = colleague.questions.pop() else { return };
            let who = 1 << colleague.worker.index();
            self.idle.quiet = 0;
            self.ask(hop, who);
        }
    }

    /// Packets that are not simply forwarded go to the paths of the router's own protocols.
    fn take_handed(&mut self, index: usize, now: Instant) {
        let Worker {
            peers: Peers { crew, .. },
            paths: Paths { instances, dispatch, .. },
            idle: Idle { quiet, .. },
            accounting,
            tasks,
            ..
        } = self;
        let Crew::First(colleagues) = crew else { return };
        let handed = &mut colleagues[index].handed;
        while let Ok(packet) = handed.peek() {
            let exception = Exception::of(packet.meta().exception);
            let target = exception.map_or(dispatch.control, |exception| dispatch.of(exception));
            let Some(instance) = instances.get_mut(target) else { return };
            if instance.input.room() == 0 {
                return;
            }
            let Ok(packet) = handed.pop() else { return };
            accounting.pool.import(1);
            accounting.ledger.take_over(1);
            let refused = enter(instance, packet);
            debug_assert!(refused.is_none(), "there was room");
            tasks.came(target, instance, 1, now);
            *quiet = 0;
        }
    }

    /// Hands what waits on a path of the router's own protocols to the worker that speaks for it. Answers how many
    /// packets that were.
    pub(super) fn hand_to_speaker(&mut self, target: Target) -> usize {
        let Worker { peers: Peers { crew, .. }, paths: Paths { instances, .. }, accounting, .. } = self;
        let (Crew::Other(speaker), Some(instance)) = (crew, instances.get_mut(target)) else {
            return 0;
        };
        let mut handed = 0;
        while let Some(packet) = instance.input.pop() {
            handed += 1;
            let gone = speaker.handed.is_abandoned();
            match if gone { Err(rtrb::PushError::Full(packet)) } else { speaker.handed.push(packet) } {
                Ok(()) => {
                    instance.counters.diverted += 1;
                    accounting.pool.export(1);
                    accounting.ledger.hand_over(1);
                }
                Err(rtrb::PushError::Full(packet)) => {
                    instance.counters.dropped += 1;
                    accounting.drop(packet, if gone { DropReason::WorkerFailed } else { DropReason::HandOverFull });
                }
            }
        }
        if handed > 0 {
            speaker.bell.ring();
        }
        handed
    }

    /// The next hop of a classified packet, as the routes say now.
    pub(super) fn next_hop(&self, packet: &Packet) -> Option<NextHop> {
        let address = destination(packet)?;
        match self.tables.lookup(address) {
            fib::Outcome::Via(adjacency) => self.tables.next_hop(adjacency),
            fib::Outcome::Connected(interface) => Some((interface, address)),
            _ => None,
        }
    }

    /// Puts the batch on its paths packet by packet, from the one numbered `first` on, where some wait for next hops or may have to.
    #[cold]
    pub(super) fn enqueue_one_by_one(&mut self, port: PortId, first: usize) {
        let mut position = first;
        while let Some(packet) = self.vector.batch.pop_front() {
            let target = self.vector.scratch.targets[position];
            position += 1;
            self.put_on_path(port, packet, target);
        }
        drop(self.vector.batch.drain());
    }

    /// Puts one classified packet where it belongs; behind those of its flow that wait for a next hop, where there are
    /// any. It came in by `port`.
    pub(super) fn put_on_path(&mut self, port: PortId, packet: Packet, target: Target) {
        let Worker { ports: Ports { states: ports, .. }, paths: Paths { instances, .. }, accounting, .. } = self;
        let Some(state) = ports.get_mut(port) else { return };
        if !instances.get(target).is_some() {
            if target == COPIED {
                state.passed += 1;
                return self.replicate(packet);
            }
            state.refused += 1;
            let reason = refusal(&packet).unwrap_or(DropReason::PortRemoved);
            return accounting.drop_at(port, packet, reason);
        }
        state.passed += 1;
        let hop = if packet.meta().exception == Exception::Resolve as u8 {
            self.neighbours.held.before(&packet).or_else(|| self.next_hop(&packet))
        } else if packet.meta().exception == 0 {
            self.neighbours.held.before(&packet)
        } else {
            None
        };
        match hop {
            Some(hop) => self.hold(hop, packet, Turn::Last),
            None => self.put_in(target, packet),
        }
    }

    /// Puts a packet on the input queue of an instance.
    fn put_in(&mut self, target: Target, packet: Packet) {
        let Worker { paths: Paths { instances, touched, .. }, accounting, tasks, .. } = self;
        let Some(instance) = instances.get_mut(target) else {
            return accounting.drop(packet, DropReason::PortRemoved);
        };
        accounting.passed(&packet, Stage::Waiting { behind: instance.input.len() });
        if let Some(packet) = enter(instance, packet) {
            accounting.drop(packet, DropReason::PathQueue);
        }
        tasks.came(target, instance, 1, accounting.now);
        if !touched.contains(&target) {
            touched.push(target);
        }
    }

    /// Lets a packet wait for its next hop.
    pub(super) fn hold(&mut self, hop: NextHop, packet: Packet, turn: Turn) {
        let limits = self.snapshot.limits;
        let bounds = HoldingBounds { each: limits.pending_per_neighbour, all: limits.pending };
        self.count_control(|counters| counters.entered += 1);
        if let Some(packet) = self.neighbours.held.hold(hop, packet, turn, bounds) {
            self.count_control(|counters| counters.dropped += 1);
            self.accounting.drop(packet, DropReason::NeighbourQueue);
        }
        self.neighbours.ask_due = Instant::START;
    }

    fn count_control(&mut self, change: impl FnOnce(&mut crate::path::PathCounters)) {
        let control = self.paths.dispatch.control;
        if let Some(instance) = self.paths.instances.get_mut(control) {
            change(&mut instance.counters);
        }
    }

    /// Sees to the packets that wait: asks for their next hops, and lets go those whose next hop is known.
    #[cold]
    pub(super) fn tend(&mut self, now: Instant) {
        if now >= self.neighbours.ask_due {
            self.neighbours.ask_due = now + ASK_AGAIN;
            self.ask_all(now);
        }
        if self.adoption.pending.is_some() {
            return;
        }
        self.paths.touched.clear();
        while let Some(hop) = self.neighbours.ready.pop_front() {
            if !self.release(hop) {
                self.neighbours.ready.push_front(hop);
                break;
            }
        }
        self.paths.touched.clear();
    }

    fn ask_all(&mut self, now: Instant) {
        let before = Instant::new(now.get().saturating_sub(ASK_AGAIN.get()));
        let unasked: Vec<NextHop> = self.neighbours.held.unasked(before).collect();
        for hop in unasked {
            match &mut self.peers.crew {
                Crew::First(_) => {
                    self.neighbours.held.asked(hop, now);
                    self.ask(hop, FIRST);
                }
                Crew::Other(speaker) if speaker.handed.is_abandoned() => self.refuse(hop, DropReason::WorkerFailed),
                Crew::Other(speaker) => {
                    if speaker.questions.push(hop).is_err() {
                        // Asked again when the ring has room.
                        self.neighbours.ask_due = now + Nanos::millis(1);
                        return;
                    }
                    self.neighbours.held.asked(hop, now);
                    speaker.bell.ring();
                }
            }
        }
    }

    /// Asks the host for a next hop, for the workers of a bit each.
    fn ask(&mut self, hop: NextHop, who: u64) {
        let control = self.paths.dispatch.control;
        match self.with_host(control, |host, world| host.want(hop.0, hop.1, world)) {
            Some(verdict) => self.tell(hop, verdict, who),
            None => *self.neighbours.asked_by.entry(hop).or_default() |= who,
        }
        self.protocols.host_due = self.protocols.host.next();
    }

    /// What the host has found out about next hops that were asked for goes to those who asked.
    pub(super) fn tell_verdicts(&mut self) {
        while let Some((hop, verdict)) = self.protocols.verdicts.pop() {
            if let Some(who) = self.neighbours.asked_by.remove(&hop) {
                self.tell(hop, verdict, who);
            }
        }
    }

    fn tell(&mut self, hop: NextHop, verdict: Verdict, who: u64) {
        if who & FIRST != 0 {
            self.learn(hop, verdict);
        }
        let Crew::First(colleagues) = &mut self.peers.crew else { return };
        for colleague in colleagues.iter_mut().filter(|colleague| who >> colleague.worker.index() & 1 != 0) {
            // One that finds no room is asked for again.
            let _ = colleague.answers.push((hop, verdict));
            colleague.bell.ring();
        }
    }

    /// A next hop that packets wait for has become usable, or never will.
    fn learn(&mut self, hop: NextHop, verdict: Verdict) {
        self.idle.quiet = 0;
        match verdict {
            Verdict::Usable if self.neighbours.ready.contains(&hop) => {}
            Verdict::Usable => self.neighbours.ready.push_back(hop),
            Verdict::TableFull => self.refuse(hop, DropReason::NeighbourTable),
            Verdict::Failed => self.complain(hop),
        }
    }

    fn refuse(&mut self, hop: NextHop, reason: DropReason) {
        while let Some(packet) = self.neighbours.held.pop(hop) {
            self.count_control(|counters| counters.dropped += 1);
            self.accounting.drop(packet, reason);
        }
    }

    /// The senders of what waits for `hop` are told that it does not answer.
    fn complain(&mut self, hop: NextHop) {
        let general = self.paths.dispatch.general;
        while let Some(mut packet) = self.neighbours.held.pop(hop) {
            packet.meta_mut().exception = Exception::Unanswered as u8;
            packet.meta_mut().path = crate::snapshot::GENERAL;
            self.count_control(|counters| counters.diverted += 1);
            self.put_in(general, packet);
        }
        self.wake_instance(general);
    }

    /// Lets the packets that wait for `hop` go on, oldest first. False where a path has no room for the next.
    fn release(&mut self, hop: NextHop) -> bool {
        while let Some(mut packet) = self.neighbours.held.pop(hop) {
            let classifier = Classifier {
                snapshot: &self.snapshot,
                tables: &self.tables,
                dispatch: &self.paths.dispatch,
                witness: Unwitnessed,
            };
            let target = classifier.again(&mut packet);
            self.accounting.passed(&packet, Stage::Classified);
            if target == REFUSED {
                let reason = refusal(&packet).unwrap_or(DropReason::PortRemoved);
                self.count_control(|counters| counters.dropped += 1);
                self.accounting.drop(packet, reason);
                continue;
            }
            if packet.meta().exception == Exception::Resolve as u8 {
                if !self.hold_again(hop, packet) {
                    return true;
                }
                continue;
            }
            let room = self.paths.instances.get(target).map_or(1, |i| i.input.room());
            if room == 0 && packet.meta().exception == 0 {
                self.neighbours.held.put_back(hop, packet, Some(self.accounting.now));
                return false;
            }
            self.idle.quiet = 0;
            self.count_control(|counters| counters.diverted += 1);
            self.put_in(target, packet);
        }
        true
    }

    /// A packet that was let go has no usable next hop all the same. Answers whether others may still be let go.
    fn hold_again(&mut self, hop: NextHop, mut packet: Packet) -> bool {
        let rounds = packet.meta_mut().go_round();
        let next = self.next_hop(&packet);
        if rounds > ROUNDS || next.is_none() {
            self.count_control(|counters| counters.dropped += 1);
            self.accounting.drop(packet, DropReason::NeighbourFailed);
            return true;
        }
        self.neighbours.ask_due = Instant::START;
        match next {
            Some(next) if next != hop => {
                self.count_control(|counters| counters.diverted += 1);
                self.hold(next, packet, Turn::Early);
                true
            }
            _ => {
                self.neighbours.held.put_back(hop, packet, None);
                false
            }
        }
    }

    /// Drops what waits for next hops on interfaces that are gone.
    pub(super) fn forsake_gone(&mut self) {
        let gone: Vec<NextHop> = self
            .neighbours
            .held
            .iter()
            .map(|(hop, _)| hop)
            .filter(|hop| self.snapshot.interface(hop.0).is_none())
            .collect();
        for hop in gone {
            self.refuse(hop, DropReason::PortRemoved);
        }
    }

    /// Drops everything that waits.
    pub(super) fn drop_held(&mut self, reason: DropReason) {
        let hops: Vec<NextHop> = self.neighbours.held.iter().map(|(hop, _)| hop).collect();
        for hop in hops {
            self.refuse(hop, reason);
        }
    }

    /// Which worker it is.
    pub fn id(&self) -> WorkerId {
        self.id
    }
}
