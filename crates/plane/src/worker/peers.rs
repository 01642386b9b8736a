//! Communication between workers besides relays. The first worker speaks for the router: it owns the neighbours, and the others hand it packets
//! that are not simply forwarded. Each direction between two workers is a bounded ring with one writer and one reader.

use super::Worker;
use super::paths::Paths;
use super::task_table::TaskTable;
use crate::bell::Bell;
use crate::classify::Target;
use crate::relay::stranded;
use packet::accounting::Accounting;
use packet::{DropReason, Exception, Packet};
use rtrb::{Consumer, Producer, RingBuffer};
use stack::Verdict;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, InterfaceId, WorkerId};

/// Packets on their way to the first worker, from each of the others.
const HANDED: usize = 1024;
/// Requests and replies in flight.
const QUESTIONS: usize = 256;

/// A next hop. The same address on two links is two next hops.
pub(crate) type NextHop = (InterfaceId, IpAddr);

/// Another worker, as the first one sees it.
#[derive(Debug)]
pub(crate) struct Colleague {
    pub worker: WorkerId,
    pub handed: Consumer<Packet>,
    pub questions: Consumer<NextHop>,
    pub answers: Producer<(NextHop, Verdict)>,
    pub bell: Arc<Bell>,
}

/// The first worker, as another one sees it.
#[derive(Debug)]
pub(crate) struct Speaker {
    pub handed: Producer<Packet>,
    pub questions: Producer<NextHop>,
    pub answers: Consumer<(NextHop, Verdict)>,
    pub bell: Arc<Bell>,
    /// True if the packets it left behind when it ended were counted.
    mourned: bool,
}

impl Speaker {
    /// Packets that were handed to the first worker and that it left behind when it ended, counted once.
    pub fn forsaken(&mut self) -> usize {
        if self.mourned || !self.handed.is_abandoned() {
            return 0;
        }
        self.mourned = true;
        stranded(&self.handed)
    }
}

/// A worker's ends of the rings.
#[derive(Debug)]
pub(crate) enum Crew {
    First(Vec<Colleague>),
    Other(Box<Speaker>),
}

impl Crew {
    /// The ends of all workers, in the order of their ids.
    pub fn of(bells: &[Arc<Bell>]) -> Vec<Crew> {
        let (mut colleagues, mut others) = (Vec::new(), Vec::new());
        for (index, bell) in bells.iter().enumerate().skip(1) {
            let (handing, handed) = RingBuffer::new(HANDED);
            let (asking, questions) = RingBuffer::new(QUESTIONS);
            let (answers, answered) = RingBuffer::new(QUESTIONS);
            let worker = WorkerId::at(index);
            colleagues.push(Colleague { worker, handed, questions, answers, bell: bell.clone() });
            let bell = bells[0].clone();
            let (handed, questions, answers) = (handing, asking, answered);
            others.push(Crew::Other(Box::new(Speaker { handed, questions, answers, bell, mourned: false })));
        }
        std::iter::once(Crew::First(colleagues)).chain(others).collect()
    }

    /// True if there is no other worker.
    pub fn is_alone(&self) -> bool {
        matches!(self, Crew::First(colleagues) if colleagues.is_empty())
    }

    /// True if another worker has sent something.
    pub fn has_mail(&self) -> bool {
        match self {
            Crew::First(colleagues) => colleagues.iter().any(|c| !c.handed.is_empty() || !c.questions.is_empty()),
            Crew::Other(speaker) => !speaker.answers.is_empty(),
        }
    }
}

/// The other workers, as one of them sees them.
pub(super) struct Peers {
    /// The ends of the rings to them.
    pub crew: Crew,
    /// True if there is no other worker.
    pub alone: bool,
    /// The other workers ring it after they have sent something to this one.
    pub bell: Arc<Bell>,
}

impl Worker {
    /// Accepts packets and messages from other workers, as far as there is room.
    pub(super) fn take_over(&mut self, now: Instant) {
        if let Crew::First(colleagues) = &self.peers.crew {
            return (0..colleagues.len()).for_each(|index| self.take_over_from(index, now));
        }
        while let Crew::Other(speaker) = &mut self.peers.crew
            && let Ok((hop, verdict)) = speaker.answers.pop()
        {
            self.neighbours.learn(hop, verdict, &mut self.paths, &mut self.tasks, &mut self.accounting);
        }
    }

    fn take_over_from(&mut self, index: usize, now: Instant) {
        // Before an adoption the paths must drain, so packets stay on the ring. Requests put no packets on paths.
        if self.adoption.pending.is_none() {
            self.peers.take_handed(index, now, &mut self.paths, &mut self.tasks, &mut self.accounting);
        }
        loop {
            let Crew::First(colleagues) = &mut self.peers.crew else { return };
            let colleague = &mut colleagues[index];
            let Ok(hop) = colleague.questions.pop() else { return };
            let who = 1 << colleague.worker.index();
            self.tasks.quiet = 0;
            self.ask(hop, who);
        }
    }
}

impl Peers {
    /// Enqueues packets that are not simply forwarded on the paths of the local protocols.
    pub(in crate::worker) fn take_handed(
        &mut self,
        index: usize,
        now: Instant,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let Peers { crew, .. } = self;
        let Paths { instances, dispatch, .. } = paths;
        let Crew::First(colleagues) = crew else { return };
        let handed = &mut colleagues[index].handed;
        while let Ok(packet) = handed.peek() {
            let exception = Exception::of(packet.meta().exception);
            let target = exception.map_or(dispatch.control, |exception| dispatch.of(exception));
            let Some(instance) = instances.get_mut(target) else { return };
            // The packets stay on the ring until there is room. If the ring fills up too, the sender drops the excess.
            if instance.input.room() == 0 {
                return;
            }
            let Ok(packet) = handed.pop() else { return };
            accounting.pool.import(1);
            accounting.ledger.take_over(1);
            let refused = instance.enter(packet);
            debug_assert!(refused.is_none(), "there was room");
            tasks.came(target, instance, 1, now);
            tasks.quiet = 0;
        }
    }

    /// Hands the packets on a path of the local protocols to the first worker. Returns their number.
    pub(in crate::worker) fn hand_to_speaker(
        &mut self,
        target: Target,
        paths: &mut Paths,
        accounting: &mut Accounting,
    ) -> usize {
        let Peers { crew, .. } = self;
        let Paths { instances, .. } = paths;
        let (Crew::Other(speaker), Some(instance)) = (crew, instances.get_mut(target)) else {
            return 0;
        };
        let mut handed = 0;
        while let Some(packet) = instance.input.pop() {
            handed += 1;
            // Without a reader a push may succeed, and the packet would be lost uncounted.
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
}
