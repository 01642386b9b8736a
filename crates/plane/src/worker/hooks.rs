//! Packet hooks on one worker. Packets with instructions visit the hook at the input port, in the centre, and at the output port. They are
//! handed from the worker that received them to their owner (adr 0040).

use super::adoption::NewHook;
use super::handoff::OWN_FLOW;
use super::instances::Instances;
use super::ports::{PortState, Ports};
use super::vector::Vector;
use super::{OwnerRings, Worker};
use crate::classify::{REFUSED, Scratch};
use crate::hook::{Dedicated, HookPoint, MAINTENANCE_INTERVAL, PacketHook, PortVariables, UNKNOWN};
use crate::snapshot::Snapshot;
use packet::accounting::Accounting;
use packet::{BATCH, Batch, DropReason, Meta, Packet};
use units::{Instant, Nanos, PortId};

/// A worker's state for packet hooks.
pub(super) struct Hooks {
    pub hook: Option<Box<dyn PacketHook>>,
    /// The next time to call the hook's `maintain`.
    pub due: Instant,
    /// The delay of `maintain` after an execution, and its minimum interval.
    interval: Nanos,
    /// The rings to the other workers. `None` if there are none.
    pub owner_rings: Option<Box<OwnerRings>>,
    /// Instructions executed since the last [`Hooks::take_executed`].
    executed: u32,
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks { hook: None, due: Instant::NEVER, interval: MAINTENANCE_INTERVAL, owner_rings: None, executed: 0 }
    }
}

impl Hooks {
    /// True if packets may belong to another worker than the one that received them.
    #[inline(always)]
    pub fn have_owners(&self) -> bool {
        self.owner_rings.is_some()
    }

    /// True if other workers have handed packets to this one.
    pub fn has_mail(&self) -> bool {
        self.owner_rings.as_ref().is_some_and(|mesh| mesh.has_mail())
    }

    /// Instructions executed since the last call.
    #[inline(always)]
    pub fn take_executed(&mut self) -> u32 {
        std::mem::take(&mut self.executed)
    }

    /// Reports that a batch was dequeued for a place, and whether there may be more.
    #[inline(always)]
    pub fn record_dequeued(&mut self, at: HookPoint, now: Instant, batch: &Batch, more: bool) {
        if let Some(station) = &mut self.hook {
            station.record_dequeued(at, now, batch.len(), more);
        }
    }

    /// Packets handed to other workers.
    pub fn handed(&self) -> u64 {
        self.owner_rings.as_ref().map_or(0, |mesh| mesh.handed)
    }

    /// Packets that other workers have handed to this one, still queued.
    pub fn waiting(&self) -> u64 {
        self.owner_rings.as_ref().map_or(0, |mesh| mesh.waiting())
    }

    /// Adopts the hook of a generation.
    pub fn adopt(&mut self, station: NewHook, mesh: Option<Box<OwnerRings>>, now: Instant) {
        // Existing rings stay, because they may hold packets.
        self.owner_rings = self.owner_rings.take().or(mesh);
        match station {
            NewHook::Unchanged => {}
            NewHook::Remove => (self.hook, self.due) = (None, Instant::NEVER),
            NewHook::Install(mut new) => {
                if let Some(old) = self.hook.take() {
                    new.replace(old);
                }
                self.interval = new.maintenance_interval();
                (self.hook, self.due) = (Some(new), now);
            }
        }
    }

    /// Calls the hook's `maintain`.
    #[cold]
    pub fn maintain(&mut self, now: Instant) {
        let due = self.hook.as_mut().map_or(Instant::NEVER, |station| station.maintain(now));
        // A hook that always has work must not delay packets: at most one call in each `interval`.
        self.due = if due == Instant::NEVER { due } else { due.max(now + self.interval) };
    }

    /// Passes the packets of a batch received on `port` to the hook, except refused ones. Packets that end get no target.
    #[inline(never)]
    pub fn visit_input(
        &mut self,
        port: PortId,
        state: &PortState,
        now: Instant,
        (batch, scratch): (&mut Batch, &mut Scratch),
    ) {
        let Some(station) = &mut self.hook else { return };
        let packets = batch.as_mut_slice();
        let place = HookPoint::Input(port);
        let known = &scratch.dedicated[..packets.len()];
        let mut visited =
            station.visit(place, read_variables(&**station, place, Some(state)), now, (&mut *packets, known));
        // At the output, packets are passed to the hook only if one of them needs it.
        scratch.hooked = visited.output;
        if visited.central {
            let place = HookPoint::Central;
            let known = still_dedicated(packets, &mut scratch.dedicated, visited.all);
            let there =
                station.visit(place, read_variables(&**station, place, Some(state)), now, (&mut *packets, known));
            visited.all &= there.all;
            visited.executed += there.executed;
        }
        self.executed += visited.executed;
        // A hook ends a packet by `refused`. The target must agree, or the packet would be enqueued.
        if !visited.all {
            for (packet, target) in packets.iter().zip(&mut scratch.targets) {
                *target = if packet.meta().refused == 0 { *target } else { REFUSED };
            }
        }
        self.due = self.due.min(now + self.interval);
    }

    /// Marks the last `passing` packets of a batch received on a port as unexecuted. They are counted at the places that they request. At the
    /// output this is done only for packets whose path leads there: not for replicas, packets queued for a next hop, and packets with options.
    #[cold]
    pub fn mark_unexecuted(
        &mut self,
        port: PortId,
        (batch, scratch): (&mut Batch, &mut Scratch),
        passing: usize,
        instances: &Instances,
    ) {
        let Some(station) = &mut self.hook else { return };
        let Scratch { targets, dedicated, .. } = scratch;
        let first = batch.len() - passing;
        let packets = &mut batch.as_mut_slice()[first..];
        for ((packet, target), known) in packets.iter_mut().zip(&targets[first..]).zip(&mut dedicated[first..]) {
            packet.meta_mut().flags |= Meta::NOT_EXECUTED;
            *known = false;
            // Super-frames are never executed.
            let whole = packet.meta().refused == 0 && !packet.offload().is_super_frame();
            let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).filter(|_| whole);
            let leaves = instances.get(*target).and_then(|instance| instance.port).map(HookPoint::Output);
            for place in [HookPoint::Input(port), HookPoint::Central].into_iter().chain(leaves) {
                l3.iter().for_each(|l3| station.record_unexecuted(place, l3));
            }
        }
    }

    /// Passes the packets that are about to leave by `port` to the hook. Packets to be classified again and packets for the local protocols are
    /// left out. Returns true if all packets continue.
    #[inline(never)]
    pub fn visit_output(
        &mut self,
        port: PortId,
        state: Option<&PortState>,
        now: Instant,
        packets: &mut [Packet],
    ) -> bool {
        let Some(station) = &mut self.hook else { return true };
        let place = HookPoint::Output(port);
        let variables = read_variables(&**station, place, state);
        let leaves = |packet: &Packet| packet.meta().exception == 0;
        let mut all = true;
        // A visit needs a contiguous slice, so visit each run of leaving packets by itself.
        for packets in packets.chunk_by_mut(|one, next| leaves(one) == leaves(next)) {
            if packets.first().is_some_and(leaves) {
                let visited = station.visit(place, variables, now, (packets, UNKNOWN));
                all &= visited.all;
                self.executed += visited.executed;
            }
        }
        self.due = self.due.min(now + self.interval);
        all
    }
}

/// Updates the classifier's knowledge of packets after an instruction may have ended some of them.
fn still_dedicated<'a>(packets: &[Packet], known: &'a mut [bool], all: bool) -> &'a Dedicated {
    if !all {
        for (packet, known) in packets.iter().zip(&mut *known) {
            *known &= packet.meta().refused == 0;
        }
    }
    &known[..packets.len()]
}

fn read_variables(station: &dyn PacketHook, place: HookPoint, state: Option<&PortState>) -> PortVariables {
    let Some(state) = state.filter(|_| station.reads_variables(place)) else { return PortVariables::default() };
    let (queue, drops) = (state.link.backlog().packets.into(), state.link.counters().dropped);
    PortVariables { queue, drops, rate: state.link.port.link_rate() }
}

impl Worker {
    /// Accepts packets that other workers have received for this one, as far as their input ports accept any.
    pub(super) fn receive_handed(&mut self) {
        let Some(mesh) = &mut self.hooks.owner_rings else { return };
        mesh.count_stalls(self.accounting.now, &mut self.accounting.stalls);
        for from in 0..mesh.sources() {
            while let Some(port) = self.hooks.next_handed(from, &mut self.ports, &mut self.vector, &mut self.accounting)
            {
                self.classify_handed(port);
                self.tasks.idle_dispatches = 0;
            }
        }
    }

    /// Classifies a batch that another worker has received.
    fn classify_handed(&mut self, port: PortId) {
        let Some(state) = self.ports.states.get_mut(port) else {
            let Worker { vector: Vector { batch, .. }, accounting, .. } = self;
            return batch.drain().for_each(|packet| accounting.drop(packet, DropReason::PortRemoved));
        };
        state.handed_in += self.vector.batch.len() as u64;
        let counted = state.received_bytes;
        self.classify(port, None, 0);
        // Packets forwarded in the input task count as received in it.
        self.vector.injecting = true;
        self.enqueue(port);
        self.vector.injecting = false;
        if let Some(state) = self.ports.states.get_mut(port) {
            // The receiving worker has counted their bytes.
            state.received_bytes = counted;
        }
    }
}

impl Hooks {
    /// Hands the packets of a batch received on `port` to their owners. Packets that do not fit are refused, or kept
    /// to [continue unexecuted](Hooks::continue_unexecuted). Returns true if some of the rest belong here regardless of their flow: they are marked.
    #[inline(never)]
    pub(in crate::worker) fn hand_to_owners(
        &mut self,
        port: PortId,
        snapshot: &Snapshot,
        ports: &mut Ports,
        vector: &mut Vector,
        accounting: &mut Accounting,
    ) -> bool {
        let Vector { batch, .. } = vector;
        let Ports { states: ports, .. } = ports;
        let hooks = &mut *self;
        let (Some(station), Some(mesh)) = (&mut hooks.hook, &mut hooks.owner_rings) else { return false };
        let (Some(state), Some(stations)) = (ports.get_mut(port), &snapshot.hooks) else {
            return false;
        };
        // The loops below read the headers of every packet: fetch them together.
        batch.as_slice().iter().for_each(Packet::prefetch_bytes);
        let everybody = station.follows_flows(accounting.now);
        let may = |packet: &Packet| packet.meta().refused == 0 && stations.marks.may_be_on(packet.bytes());
        if !everybody && !batch.as_slice().iter().any(may) {
            return false;
        }
        let stamped = state.link.port.sets_timestamps();
        for mut packet in batch.drain() {
            let asked = packet.meta().refused == 0 && (everybody || may(&packet));
            let l3 = super::handoff::network_header(packet.bytes()).filter(|_| asked);
            let owner = l3.and_then(|at| station.owner(packet.bytes().get(at..)?, accounting.now));
            match owner {
                Some(owner) if owner.worker != accounting.worker.index() && mesh.leads_to(owner.worker) => {
                    // The owner reads the port before it classifies the packet, and does not know the time of arrival.
                    let meta = packet.meta_mut();
                    meta.in_port = port;
                    meta.timestamp = if stamped { meta.timestamp } else { accounting.now };
                    mesh.sort(owner, packet);
                }
                // The packet belongs to this worker, to one that has ended, or to none in particular.
                owner => {
                    packet.meta_mut().rounds = if owner.is_some() { OWN_FLOW } else { 0 };
                    mesh.kept.push(packet);
                }
            }
        }
        std::mem::swap(batch, &mut mesh.kept);
        let (handed, bytes) = mesh.hand_over(stations.state.plan.queues.into(), accounting.now, &mut accounting.stalls);
        accounting.pool.export(handed);
        accounting.ledger.hand_over(handed as u64);
        state.handed_out += handed as u64;
        state.received_bytes += bytes;
        let OwnerRings { overflow: late, passing, .. } = &mut **mesh;
        for mut packet in late.drain() {
            // On the ring `rounds` carried the queue. Classification expects zero.
            packet.meta_mut().rounds = 0;
            if station.passes_overflow() {
                passing.push(packet);
            } else {
                packet.meta_mut().refused = DropReason::HandOverFull as u8 + 1;
                batch.push(packet);
            }
        }
        true
    }

    /// Appends packets that did not fit into their owner's queue to the batch: they continue here unexecuted. Returns their number.
    #[cold]
    pub(in crate::worker) fn continue_unexecuted(&mut self, vector: &mut Vector) -> usize {
        let Vector { batch, .. } = vector;
        let hooks = &mut *self;
        let Some(mesh) = &mut hooks.owner_rings else { return 0 };
        let count = mesh.passing.len();
        mesh.passing.drain().for_each(|packet| batch.push(packet));
        count
    }

    /// Fills the batch with packets that worker `from` has received on one port. Returns the port. `None` if there are none or the port must
    /// wait.
    pub(in crate::worker) fn next_handed(
        &mut self,
        from: usize,
        ports: &mut Ports,
        vector: &mut Vector,
        accounting: &mut Accounting,
    ) -> Option<PortId> {
        let Vector { batch, .. } = vector;
        let Ports { states: ports, .. } = ports;
        let hooks = &mut *self;
        let mesh = hooks.owner_rings.as_mut()?;
        let port = mesh.peek(from)?.meta().in_port;
        if !ports.was_opened(port) {
            // A port of a generation that this worker is about to adopt.
            return None;
        }
        // Earlier packets of this port are stalled before a full path. Later ones must not overtake them.
        if ports.get(port).is_some_and(|state| state.stalled.is_some()) {
            return None;
        }
        while batch.len() < BATCH && mesh.peek(from).is_some_and(|packet| packet.meta().in_port == port) {
            mesh.take(from).into_iter().for_each(|packet| batch.push(packet));
        }
        // On a ring a packet belongs to no pool and no ledger.
        accounting.pool.import(batch.len());
        accounting.ledger.take_over(batch.len() as u64);
        hooks.record_dequeued(HookPoint::Central, accounting.now, batch, batch.room() == 0);
        Some(port)
    }

    /// Packets that were handed to workers that have ended, counted once.
    pub(in crate::worker) fn take_stranded(&mut self) -> usize {
        self.owner_rings.as_mut().map_or(0, |mesh| mesh.take_stranded())
    }

    /// Drops packets from other workers that will not be processed.
    pub(in crate::worker) fn discard_handed(&mut self, reason: DropReason, accounting: &mut Accounting) {
        let hooks = &mut *self;
        let Some(mesh) = &mut hooks.owner_rings else { return };
        for from in 0..mesh.sources() {
            while let Some(packet) = mesh.take(from) {
                accounting.pool.import(1);
                accounting.ledger.take_over(1);
                accounting.drop(packet, reason);
            }
        }
    }

    /// Drops the packets being handled, uncounted: the worker has failed.
    pub(in crate::worker) fn clear_handed(&mut self) {
        if let Some(mesh) = &mut self.owner_rings {
            mesh.clear();
        }
    }
}
