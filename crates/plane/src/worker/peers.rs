//! Communication between workers besides relays. The first worker speaks for the router: it owns the neighbours, and the others hand it packets
//! that are not simply forwarded. Each direction between two workers is a queue with one producer and one consumer: a ring for packets, and lists for
//! requests and verdicts, of which there are few.

use super::Worker;
use super::paths::Paths;
use super::task_table::TaskTable;
use crate::classify::Target;
use crate::parker::Parker;
use crate::relay::count_stranded;
use packet::accounting::Accounting;
use packet::spsc::{Consumer, ListConsumer, ListProducer, Producer, RingConsumer, RingProducer, ring, void_list};
use packet::{DropReason, Exception, Packet, StallMeter};
use stack::NextHopState;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, InterfaceId, WorkerId};

/// Packets on their way to the first worker, from each of the others.
const HANDOFF_CAPACITY: usize = 1024;
/// The most requests or verdicts at once. The number of unresolved next hops bounds both. A worker asks again for a verdict that did not fit.
const REQUEST_CAPACITY: usize = 4096;
/// Requests or verdicts at once for which nothing is allocated.
const REQUESTS_READY: usize = 16;

/// A next hop. The same address on two links is two next hops.
pub(crate) type NextHop = (InterfaceId, IpAddr);

/// Another worker, as the first one sees it.
#[derive(Debug)]
pub(crate) struct OtherWorker {
    pub worker: WorkerId,
    pub handed: RingConsumer<Packet>,
    pub requests: ListConsumer<NextHop>,
    pub verdicts: ListProducer<(NextHop, NextHopState)>,
    pub parker: Arc<Parker>,
}

/// The first worker, as another one sees it.
#[derive(Debug)]
pub(crate) struct FirstWorker {
    pub handed: RingProducer<Packet>,
    pub requests: ListProducer<NextHop>,
    pub verdicts: ListConsumer<(NextHop, NextHopState)>,
    pub parker: Arc<Parker>,
    /// True if the packets it left behind when it ended were counted.
    stranded_counted: bool,
    /// Stalls of the ring for packets.
    pub stall: StallMeter,
}

impl FirstWorker {
    /// Counts a stall of the ring for packets, until it has room again.
    fn count_stall(&mut self, accounting: &mut Accounting) {
        if self.stall.is_stalled() {
            let is_full = self.handed.room() == 0 && !self.handed.is_abandoned();
            self.stall.observe(is_full, accounting.now, accounting.stalls.handoff());
        }
    }

    /// Packets that were handed to the first worker and that it left behind when it ended, counted once.
    pub fn take_stranded(&mut self) -> usize {
        if self.stranded_counted || !self.handed.is_abandoned() {
            return 0;
        }
        self.stranded_counted = true;
        count_stranded(&self.handed)
    }
}

/// A worker's ends of the rings.
#[derive(Debug)]
pub(crate) enum PeerRings {
    First(Vec<OtherWorker>),
    Other(Box<FirstWorker>),
}

impl PeerRings {
    /// The ends of all workers, in the order of their ids.
    pub fn of(bells: &[Arc<Parker>]) -> Vec<PeerRings> {
        let (mut colleagues, mut others) = (Vec::new(), Vec::new());
        for (index, bell) in bells.iter().enumerate().skip(1) {
            // Three queues for each of the others: packets and requests to the first worker, and verdicts back.
            let (handing, handed) = ring(HANDOFF_CAPACITY);
            let (asking, questions) = void_list(REQUEST_CAPACITY, REQUESTS_READY);
            let (answers, answered) = void_list(REQUEST_CAPACITY, REQUESTS_READY);
            let worker = WorkerId::at(index);
            colleagues.push(OtherWorker {
                worker,
                handed,
                requests: questions,
                verdicts: answers,
                parker: bell.clone(),
            });
            let bell = bells[0].clone();
            let (handed, questions, answers) = (handing, asking, answered);
            others.push(PeerRings::Other(Box::new(FirstWorker {
                handed,
                requests: questions,
                verdicts: answers,
                parker: bell,
                stranded_counted: false,
                stall: StallMeter::default(),
            })));
        }
        std::iter::once(PeerRings::First(colleagues)).chain(others).collect()
    }

    /// True if there is no other worker.
    pub fn is_alone(&self) -> bool {
        matches!(self, PeerRings::First(colleagues) if colleagues.is_empty())
    }

    /// True if another worker has sent something.
    pub fn has_mail(&self) -> bool {
        match self {
            PeerRings::First(colleagues) => colleagues.iter().any(|c| !c.handed.is_empty() || !c.requests.is_empty()),
            PeerRings::Other(speaker) => !speaker.verdicts.is_empty(),
        }
    }
}

/// The other workers, as one of them sees them.
pub(super) struct Peers {
    /// The ends of the rings to them.
    pub rings: PeerRings,
    /// True if there is no other worker.
    pub alone: bool,
    /// The other workers ring it after they have sent something to this one.
    pub parker: Arc<Parker>,
}

impl Worker {
    /// Accepts packets and messages from other workers, as far as there is room.
    pub(super) fn receive_from_peers(&mut self, now: Instant) {
        if let PeerRings::First(colleagues) = &self.peers.rings {
            return (0..colleagues.len()).for_each(|index| self.receive_from_peer(index, now));
        }
        if let PeerRings::Other(speaker) = &mut self.peers.rings {
            speaker.count_stall(&mut self.accounting);
        }
        while let PeerRings::Other(speaker) = &mut self.peers.rings
            && let Some((hop, verdict)) = speaker.verdicts.pop()
        {
            self.neighbours.learn(hop, verdict, &mut self.paths, &mut self.tasks, &mut self.accounting);
        }
    }

    fn receive_from_peer(&mut self, index: usize, now: Instant) {
        // Before an adoption the paths must drain, so packets stay on the ring. Requests put no packets on paths.
        if self.adoption.pending.is_none() {
            self.peers.enqueue_handed(index, now, &mut self.paths, &mut self.tasks, &mut self.accounting);
        }
        loop {
            let PeerRings::First(colleagues) = &mut self.peers.rings else { return };
            let colleague = &mut colleagues[index];
            let Some(hop) = colleague.requests.pop() else { return };
            let who = 1 << colleague.worker.index();
            self.tasks.idle_dispatches = 0;
            self.request_next_hop(hop, who);
        }
    }
}

impl Peers {
    /// Enqueues packets that are not simply forwarded on the paths of the local protocols.
    pub(in crate::worker) fn enqueue_handed(
        &mut self,
        index: usize,
        now: Instant,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let Peers { rings: crew, .. } = self;
        let Paths { instances, dispatch, .. } = paths;
        let PeerRings::First(colleagues) = crew else { return };
        let handed = &mut colleagues[index].handed;
        while let Some(packet) = handed.peek() {
            let exception = Exception::of(packet.meta().exception);
            let target = exception.map_or(dispatch.control, |exception| dispatch.exception_instance(exception));
            let Some(instance) = instances.get_mut(target) else { return };
            // The packets stay on the ring until there is room. If the ring fills up too, the sender drops the excess.
            if instance.input.room() == 0 {
                return;
            }
            let Some(packet) = handed.pop() else { return };
            accounting.pool.import(1);
            accounting.ledger.take_over(1);
            let refused = instance.enter(packet);
            debug_assert!(refused.is_none(), "there was room");
            tasks.record_arrivals(target, instance, 1, now);
            tasks.idle_dispatches = 0;
        }
    }

    /// Hands the packets on a path of the local protocols to the first worker. Returns their number.
    pub(in crate::worker) fn hand_to_first(
        &mut self,
        target: Target,
        paths: &mut Paths,
        accounting: &mut Accounting,
    ) -> usize {
        let Peers { rings: crew, .. } = self;
        let Paths { instances, .. } = paths;
        let (PeerRings::Other(speaker), Some(instance)) = (crew, instances.get_mut(target)) else {
            return 0;
        };
        let mut handed = 0;
        while let Some(packet) = instance.input.pop() {
            handed += 1;
            // Without a reader a push may succeed, and the packet would be lost uncounted.
            let gone = speaker.handed.is_abandoned();
            let pushed = if gone { Err(packet) } else { speaker.handed.push(packet) };
            speaker.stall.observe(pushed.is_err() && !gone, accounting.now, accounting.stalls.handoff());
            match pushed {
                Ok(()) => {
                    instance.counters.diverted += 1;
                    accounting.pool.export(1);
                    accounting.ledger.hand_over(1);
                }
                Err(packet) => {
                    instance.counters.dropped += 1;
                    accounting.drop(packet, if gone { DropReason::WorkerFailed } else { DropReason::HandOverFull });
                }
            }
        }
        // One wakeup for all packets: each costs a full fence.
        if handed > 0 {
            speaker.parker.unpark();
        }
        handed
    }
}
