//! Next hops that packets wait for: who requests their addresses, and the fate of the packets once they are resolved or fail to answer
//! (adr 0012).

use super::Worker;
use super::neighbour_queue::{NeighbourQueue, QueuePosition, WaitingBounds, destination};
use super::paths::Paths;
use super::peers::{NextHop, PeerRings};
use super::ports::Ports;
use super::protocols::MAX_ROUNDS;
use super::task_table::TaskTable;
use crate::classify::{Classifier, REFUSED, REPLICATED, TUNNELLED, Target, Unwitnessed};
use crate::snapshot::Snapshot;
use fib::Tables;
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::port::refusal_reason;
use packet::spsc::Producer;
use packet::{DropReason, Exception, Packet};
use stack::NextHopState;
use units::{Instant, Nanos, PortId};

/// How long a request stays unanswered before it is repeated. An answer is lost if its ring is full.
const REQUEST_INTERVAL: Nanos = Nanos::secs(1);
/// The bit of the first worker, which runs the host, among the workers that have requested a next hop.
const FIRST_WORKER: u64 = 1;

impl Worker {
    /// Enqueues the batch packet by packet, from packet `first` on, because some wait for next hops or may have to.
    #[cold]
    pub(super) fn enqueue_one_by_one(&mut self, port: PortId, first: usize) {
        let mut position = first;
        while let Some(packet) = self.vector.batch.pop_front() {
            let target = self.vector.scratch.targets[position];
            position += 1;
            self.put_on_path(port, packet, target);
        }
        // `pop_front` frees no slots: draining the empty batch does.
        drop(self.vector.batch.drain());
    }

    /// Enqueues one classified packet, received from `port`. It goes behind earlier packets of its flow if they wait for a next hop.
    pub(super) fn put_on_path(&mut self, port: PortId, packet: Packet, target: Target) {
        let Worker { ports: Ports { states: ports, .. }, paths: Paths { instances, .. }, accounting, .. } = self;
        let Some(state) = ports.get_mut(port) else { return };
        if instances.get(target).is_none() {
            if target == REPLICATED {
                state.entered += 1;
                return self.paths.replicate(
                    packet,
                    &self.snapshot,
                    &self.tables,
                    &mut self.tasks,
                    &mut self.accounting,
                );
            }
            if target == TUNNELLED {
                let ended = self.decapsulate(packet);
                if let Some(state) = self.ports.states.get_mut(port) {
                    state.entered += u64::from(ended);
                    state.refused += u64::from(!ended);
                }
                return;
            }
            state.refused += 1;
            let reason = refusal_reason(&packet).unwrap_or(DropReason::PortRemoved);
            return accounting.drop_at(port, packet, reason);
        }
        state.entered += 1;
        self.enter_path(packet, target);
    }

    /// Puts a classified packet on its path, behind earlier packets of its flow if they wait for a next hop. A packet without a path is dropped.
    pub(super) fn enter_path(&mut self, packet: Packet, target: Target) {
        if self.paths.instances.get(target).is_none() {
            let reason = refusal_reason(&packet).unwrap_or(DropReason::PortRemoved);
            return self.accounting.drop(packet, reason);
        }
        let exception = packet.meta().exception;
        let resolves = exception == Exception::Resolve as u8;
        let hop = if resolves || exception == 0 {
            self.next_hop_ahead(&packet).or_else(|| resolves.then(|| self.next_hop(&packet)).flatten())
        } else {
            None
        };
        match hop {
            Some(hop) => self.neighbours.hold(
                hop,
                packet,
                QueuePosition::Last,
                &self.snapshot,
                &mut self.paths,
                &mut self.accounting,
            ),
            None => self.paths.put_in(target, packet, &mut self.tasks, &mut self.accounting),
        }
    }

    /// The next hop that earlier packets of this packet's flow wait for. If the routes lead elsewhere by now, those packets leave first: an address that
    /// is not found must not hold up a flow that has another way.
    fn next_hop_ahead(&mut self, packet: &Packet) -> Option<NextHop> {
        let ahead = self.neighbours.waiting.next_hop_ahead(packet)?;
        // The new generation may have other paths: packets are released after the adoption.
        if self.adoption.pending.is_some() || self.next_hop(packet) == Some(ahead) {
            return Some(ahead);
        }
        self.release_rerouted(ahead);
        self.neighbours.waiting.next_hop_ahead(packet)
    }

    /// The next hop of a classified packet according to the current routes and routing rules.
    fn next_hop(&self, packet: &Packet) -> Option<NextHop> {
        let (snapshot, tables, dispatch) = (&*self.snapshot, &*self.tables, &self.paths.dispatch);
        self.neighbours.next_hop(packet, Classifier { snapshot, tables, dispatch, witness: Unwitnessed })
    }

    /// Releases the packets that wait for `hop` although the routes name another next hop by now.
    fn release_rerouted(&mut self, hop: NextHop) {
        let Worker { neighbours, snapshot, tables, paths, tasks, accounting, .. } = self;
        neighbours.release_rerouted(hop, snapshot, tables, paths, tasks, accounting);
    }

    /// Serves the waiting packets: requests their next hops, and releases the packets whose next hop is resolved.
    #[cold]
    pub(super) fn serve_waiting(&mut self, now: Instant) {
        if now >= self.neighbours.request_due {
            self.neighbours.request_due = now + REQUEST_INTERVAL;
            self.request_next_hops(now);
        }
        // The new generation may have other paths: packets are released after the adoption.
        if self.adoption.pending.is_some() {
            return;
        }
        self.paths.touched.clear();
        while let Some(hop) = self.neighbours.ready.pop_front() {
            if !self.neighbours.release(
                hop,
                &self.snapshot,
                &self.tables,
                &mut self.paths,
                &mut self.tasks,
                &mut self.accounting,
            ) {
                self.neighbours.ready.push_front(hop);
                break;
            }
        }
        self.paths.touched.clear();
    }

    fn request_next_hops(&mut self, now: Instant) {
        let before = Instant::new(now.get().saturating_sub(REQUEST_INTERVAL.get()));
        // Collected first, because each recorded request moves its next hop in the set that is iterated.
        let unasked: Vec<NextHop> = self.neighbours.waiting.due_requests(before).collect();
        for hop in unasked {
            if self.adoption.pending.is_none() {
                self.release_rerouted(hop);
                if !self.neighbours.waiting.contains(hop) {
                    continue;
                }
            }
            match &mut self.peers.rings {
                PeerRings::First(_) => {
                    self.neighbours.waiting.record_request(hop, now);
                    self.request_next_hop(hop, FIRST_WORKER);
                }
                PeerRings::Other(speaker) if speaker.handed.is_abandoned() => {
                    self.neighbours.refuse(hop, DropReason::WorkerFailed, &mut self.paths, &mut self.accounting)
                }
                PeerRings::Other(speaker) => {
                    if speaker.requests.push(hop).is_err() {
                        // The request is repeated when the ring has room.
                        self.neighbours.request_due = now + Nanos::millis(1);
                        return;
                    }
                    self.neighbours.waiting.record_request(hop, now);
                    speaker.parker.unpark();
                }
            }
        }
    }

    /// Requests a next hop from the host on behalf of `workers`, one bit each.
    pub(super) fn request_next_hop(&mut self, hop: NextHop, workers: u64) {
        let control = self.paths.dispatch.control;
        match self.with_host(control, |host, world| host.request_next_hop(hop.0, hop.1, world)) {
            Some(verdict) => self.send_verdict(hop, verdict, workers),
            // The host reaches its verdict later: remember the workers that wait for it.
            None => *self.neighbours.requesters.entry(hop).or_default() |= workers,
        }
        self.protocols.host_due = self.protocols.host.next_deadline();
    }

    /// Sends the host's verdicts about next hops to the workers that have requested them.
    pub(super) fn send_verdicts(&mut self) {
        while let Some((hop, verdict)) = self.protocols.verdicts.pop() {
            if let Some(who) = self.neighbours.requesters.remove(&hop) {
                self.send_verdict(hop, verdict, who);
            }
        }
    }

    fn send_verdict(&mut self, hop: NextHop, verdict: NextHopState, workers: u64) {
        if workers & FIRST_WORKER != 0 {
            self.neighbours.learn(hop, verdict, &mut self.paths, &mut self.tasks, &mut self.accounting);
        }
        let PeerRings::First(colleagues) = &mut self.peers.rings else { return };
        for colleague in colleagues.iter_mut().filter(|colleague| workers >> colleague.worker.index() & 1 != 0) {
            // If the ring is full, that worker asks again.
            let _ = colleague.verdicts.push((hop, verdict));
            colleague.parker.unpark();
        }
    }
}

/// The fate of a packet that has waited for a next hop.
enum Released {
    /// It is on a path, waits for another next hop, or was dropped.
    Left,
    /// The address of its next hop is unknown again.
    Unresolved(Packet),
    /// Its path has no room for it.
    NoRoom(Packet),
}

impl NeighbourQueue {
    /// The next hop of a classified packet according to the current routes and routing rules.
    pub(in crate::worker) fn next_hop(&self, packet: &Packet, classifier: Classifier<'_>) -> Option<NextHop> {
        classifier.next_hop(packet, destination(packet)?)
    }

    /// Makes a packet wait for its next hop.
    pub(in crate::worker) fn hold(
        &mut self,
        hop: NextHop,
        packet: Packet,
        turn: QueuePosition,
        snapshot: &Snapshot,
        paths: &mut Paths,
        accounting: &mut Accounting,
    ) {
        let limits = snapshot.limits;
        let bounds = WaitingBounds { each: limits.pending_per_neighbour, all: limits.pending };
        paths.count_control(|counters| counters.entered += 1);
        if let Some(packet) = self.waiting.enqueue(hop, packet, turn, bounds) {
            paths.count_control(|counters| counters.dropped += 1);
            accounting.drop(packet, DropReason::NeighbourQueue);
        }
        // Due at once: the next step requests the address.
        self.request_due = Instant::START;
    }

    /// Handles a verdict: a next hop has become usable, or never will.
    pub(in crate::worker) fn learn(
        &mut self,
        hop: NextHop,
        verdict: NextHopState,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        tasks.idle_dispatches = 0;
        match verdict {
            // A repeated request may return the same verdict before the packets are released.
            NextHopState::Usable if self.ready.contains(&hop) => {}
            NextHopState::Usable => self.ready.push_back(hop),
            NextHopState::TableFull => self.refuse(hop, DropReason::NeighbourTable, paths, accounting),
            NextHopState::Failed => self.send_icmp_errors(hop, paths, tasks, accounting),
        }
    }

    pub(in crate::worker) fn refuse(
        &mut self,
        hop: NextHop,
        reason: DropReason,
        paths: &mut Paths,
        accounting: &mut Accounting,
    ) {
        while let Some(packet) = self.waiting.pop(hop) {
            paths.count_control(|counters| counters.dropped += 1);
            accounting.drop(packet, reason);
        }
    }

    /// Sends ICMP errors to the senders of the packets for `hop`, which does not answer.
    pub(in crate::worker) fn send_icmp_errors(
        &mut self,
        hop: NextHop,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let general = paths.dispatch.general;
        while let Some(mut packet) = self.waiting.pop(hop) {
            packet.meta_mut().exception = Exception::Unanswered as u8;
            packet.meta_mut().path = crate::snapshot::GENERAL;
            paths.count_control(|counters| counters.diverted += 1);
            paths.put_in(general, packet, tasks, accounting);
        }
        paths.wake_instance(general, tasks, accounting);
    }

    /// Releases the packets for `hop`, oldest first. Returns false if a path has no room for the next packet.
    pub(in crate::worker) fn release(
        &mut self,
        hop: NextHop,
        snapshot: &Snapshot,
        tables: &Tables,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> bool {
        while let Some(packet) = self.waiting.pop(hop) {
            match self.release_packet(hop, packet, snapshot, tables, paths, tasks, accounting) {
                Released::Left => {}
                // The same next hop was lost again: its address is requested anew, and the packets keep their order.
                Released::Unresolved(packet) => {
                    self.waiting.put_back(hop, packet, None);
                    return true;
                }
                // Released packets never overflow a path: the rest waits here, in order.
                Released::NoRoom(packet) => {
                    self.waiting.put_back(hop, packet, Some(accounting.now));
                    return false;
                }
            }
        }
        true
    }

    /// Releases the packets for `hop` whose routes name another next hop by now. The other packets stay in their order.
    pub(in crate::worker) fn release_rerouted(
        &mut self,
        hop: NextHop,
        snapshot: &Snapshot,
        tables: &Tables,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let classifier = Classifier { snapshot, tables, dispatch: &paths.dispatch, witness: Unwitnessed };
        let is_rerouted =
            |packet: &Packet| destination(packet).and_then(|to| classifier.next_hop(packet, to)) != Some(hop);
        for packet in self.waiting.take(hop, is_rerouted) {
            match self.release_packet(hop, packet, snapshot, tables, paths, tasks, accounting) {
                Released::Left => {}
                Released::Unresolved(packet) | Released::NoRoom(packet) => {
                    self.hold(hop, packet, QueuePosition::Early, snapshot, paths, accounting);
                }
            }
        }
    }

    /// Classifies a packet that has waited for `hop` again, because the routes may have changed and with them its path and port, and releases it.
    #[expect(clippy::too_many_arguments, reason = "the parts of a worker, borrowed separately")]
    fn release_packet(
        &mut self,
        hop: NextHop,
        mut packet: Packet,
        snapshot: &Snapshot,
        tables: &Tables,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> Released {
        let classifier = Classifier { snapshot, tables, dispatch: &paths.dispatch, witness: Unwitnessed };
        let target = classifier.classify_again(&mut packet);
        accounting.record_stage(&packet, Stage::Classified);
        if target == REFUSED {
            let reason = refusal_reason(&packet).unwrap_or(DropReason::PortRemoved);
            paths.count_control(|counters| counters.dropped += 1);
            accounting.drop(packet, reason);
            return Released::Left;
        }
        if packet.meta().exception == Exception::Resolve as u8 {
            return self.hold_again(hop, packet, snapshot, tables, paths, accounting);
        }
        // Without an instance no queue can be full: `put_in` drops the packet.
        let room = paths.instances.get(target).map_or(1, |i| i.input.room());
        if room == 0 && packet.meta().exception == 0 {
            return Released::NoRoom(packet);
        }
        tasks.idle_dispatches = 0;
        paths.count_control(|counters| counters.diverted += 1);
        paths.put_in(target, packet, tasks, accounting);
        Released::Left
    }

    /// A released packet has no usable next hop after all. It waits for another one, unless it is the same.
    fn hold_again(
        &mut self,
        hop: NextHop,
        mut packet: Packet,
        snapshot: &Snapshot,
        tables: &Tables,
        paths: &mut Paths,
        accounting: &mut Accounting,
    ) -> Released {
        let rounds = packet.meta_mut().count_classification();
        let dispatch = &paths.dispatch;
        let next = self.next_hop(&packet, Classifier { snapshot, tables, dispatch, witness: Unwitnessed });
        // Bounded: with a next hop that is resolved and lost again and again, a packet could wait for ever.
        if rounds > MAX_ROUNDS || next.is_none() {
            paths.count_control(|counters| counters.dropped += 1);
            accounting.drop(packet, DropReason::NeighbourFailed);
            return Released::Left;
        }
        self.request_due = Instant::START;
        match next {
            Some(next) if next != hop => {
                paths.count_control(|counters| counters.diverted += 1);
                self.hold(next, packet, QueuePosition::Early, snapshot, paths, accounting);
                Released::Left
            }
            _ => Released::Unresolved(packet),
        }
    }

    /// Drops the packets for next hops on removed interfaces.
    pub(in crate::worker) fn drop_removed(
        &mut self,
        snapshot: &Snapshot,
        paths: &mut Paths,
        accounting: &mut Accounting,
    ) {
        let gone: Vec<NextHop> =
            self.waiting.iter().map(|(hop, _)| hop).filter(|hop| snapshot.interface(hop.0).is_none()).collect();
        for hop in gone {
            self.refuse(hop, DropReason::PortRemoved, paths, accounting);
        }
    }

    /// Drops all waiting packets.
    pub(in crate::worker) fn drop_waiting(
        &mut self,
        reason: DropReason,
        paths: &mut Paths,
        accounting: &mut Accounting,
    ) {
        // Collected first, because `refuse` removes each next hop with its last packet.
        let hops: Vec<NextHop> = self.waiting.iter().map(|(hop, _)| hop).collect();
        for hop in hops {
            self.refuse(hop, reason, paths, accounting);
        }
    }
}
