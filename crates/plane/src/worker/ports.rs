//! The ports of a worker, and the checks of their state that the worker makes now and then.

use super::Worker;
use super::handoff::SharedQueue;
use super::subscriber_side::SubscriberSide;
use super::task_table::{Task, TaskTable};
use super::vector::Vector;
use crate::classify::{PortRouteCache, Target};
use crate::instructions::InstructionFault;
use crate::snapshot::{PortShares, Snapshot};
use crate::tunnel::TunnelEnd;
use cpu::task::TaskTerms;
use fib::Tables;
use link::{Link, LinkSetup};
use packet::accounting::Accounting;
use packet::event::Event;
use packet::port::Port;
use packet::{Batch, DropReason, StallMeter};
use schemes::Trouble;
use units::{Instant, Nanos, PortId, TaskId, WorkerId};

/// How long the packets of a removed port may take to leave.
const CLOSING: Nanos = Nanos::secs(1);
/// Batches received from a port before it is closed. An in-memory wire holds no more, and a busy network must not delay the removal.
pub(super) const FINAL_BATCHES: usize = 16;

/// A port with its link and tasks.
// Large: everything that the input and output tasks read of a port lies together.
pub(super) struct PortState {
    pub link: Link,
    pub input: TaskId,
    pub output: TaskId,
    /// The path instances whose packets leave by this port.
    pub outputs: Vec<Target>,
    /// The instances with a reservation, and the others.
    pub reserved: Vec<Target>,
    pub shared: Vec<Target>,
    /// The output task of the instances with a reservation. None without reservations, or if output has no task of its own.
    pub reserved_output: Option<TaskId>,
    /// Packets that the reserved output task has offered and not transmitted yet. It may transmit that many.
    pub offered: usize,
    pub received: u64,
    pub received_bytes: u64,
    /// Packets dropped before they entered a path.
    pub refused: u64,
    /// Packets that entered a path.
    pub entered: u64,
    /// The time when the remaining packets are dropped, once the port is removed.
    pub closing: Option<Instant>,
    pub role: Role,
    /// Packets handed to other workers, which own their flows.
    pub handed_out: u64,
    /// Packets of this worker that another worker has received here.
    pub handed_in: u64,
    /// The other workers that use this port's queue.
    pub relays: Option<Box<SharedQueue>>,
    /// The port stalls when the path of a packet is full, and the device drops the excess.
    pub throttles: bool,
    /// Received packets that wait for room on their paths.
    pub stalled: Option<Box<Stalled>>,
    /// The longest IP packet of the medium at the last check, and of the configuration.
    pub mtu: (Option<u16>, u16),
    /// Sent bytes that the meter has already counted.
    pub metered: u64,
    pub route_cache: PortRouteCache,
    /// The circuits of subscribers, if the port is toward them.
    pub subscribers: Option<SubscriberSide>,
    /// Stalls of the medium.
    pub stall: StallMeter,
    /// The other end of the port's wire, if it is the port of a tunnel.
    pub tunnel: Option<Box<TunnelEnd>>,
}

impl PortState {
    /// Counts packets received from the port.
    pub fn count_received(&mut self, packets: u64, accounting: &mut Accounting) {
        if self.role == Role::Relay {
            accounting.ledger.take_over(packets);
        } else {
            accounting.ledger.receive(packets);
        }
        self.received += packets;
    }

    /// After a failure of the worker: forgets the queued packets without counting them, and makes the counters add up again.
    pub fn reset_after_panic(&mut self) {
        self.stalled = None;
        // The missing packets count as refused, or as received if more were forwarded than received.
        let (known, came) = (self.refused + self.entered + self.handed_out, self.received + self.handed_in);
        self.refused += came.saturating_sub(known);
        self.received += known.saturating_sub(came);
        self.link.discard_packets();
    }

    /// True if a removed port has nothing left to transmit.
    pub fn may_close(&self) -> bool {
        self.link.backlog().packets == 0
            && self.link.in_flight() == 0
            && self.link.port.unsent_packets().packets == 0
            && self.relays.as_ref().is_none_or(|lanes| lanes.is_finished())
    }
}

/// Packets that were received and classified and found their path full, in order.
pub(super) struct Stalled {
    pub packets: Batch,
    pub targets: Vec<Target>,
    pub offloads: bool,
    pub hooked: bool,
}

impl Stalled {
    /// The number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
}

/// The role of a port on its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// The first queue of a device, or its only one.
    Device,
    /// Another queue of a device. The worker with the first queue reports for the device.
    Queue,
    /// No queue of the device, but the way to a worker that has one.
    Relay,
}

/// The remains of a removed port. Another worker may still put packets into it.
pub(super) enum ClosedPort {
    SharedQueue(Box<SharedQueue>),
    Port(PortId, Box<dyn Port>),
}

/// The ports that are open, by id.
#[derive(Default)]
pub(super) struct PortStates(Vec<Option<PortState>>);

impl PortStates {
    #[inline(always)]
    pub fn get(&self, port: PortId) -> Option<&PortState> {
        self.0.get(port.index())?.as_ref()
    }

    #[inline(always)]
    pub fn get_mut(&mut self, port: PortId) -> Option<&mut PortState> {
        self.0.get_mut(port.index())?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &PortState> {
        self.0.iter().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut PortState> {
        self.0.iter_mut().flatten()
    }

    /// With their ids.
    pub fn open(&self) -> impl Iterator<Item = (PortId, &PortState)> {
        self.0.iter().enumerate().filter_map(|(index, state)| Some((PortId::at(index), state.as_ref()?)))
    }

    pub fn open_mut(&mut self) -> impl Iterator<Item = (PortId, &mut PortState)> {
        self.0.iter_mut().enumerate().filter_map(|(index, state)| Some((PortId::at(index), state.as_mut()?)))
    }

    /// True for a port that is open or was open.
    pub fn was_opened(&self, port: PortId) -> bool {
        port.index() < self.0.len()
    }

    /// All ids up to the last port that was ever open.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = PortId> + use<> {
        (0..self.0.len()).map(PortId::at)
    }

    pub fn insert(&mut self, port: PortId, state: PortState) {
        if port.index() >= self.0.len() {
            self.0.resize_with(port.index() + 1, || None);
        }
        self.0[port.index()] = Some(state);
    }

    pub fn take(&mut self, port: PortId) -> Option<PortState> {
        self.0.get_mut(port.index())?.take()
    }
}

/// The ports of a worker.
#[derive(Default)]
pub(super) struct Ports {
    pub states: PortStates,
    /// Ports whose packets cannot leave yet: the device has no room, or the scheme waits for a time.
    pub blocked: Vec<PortId>,
    /// The time since when none of them has transmitted.
    pub blocked_since: Instant,
    /// Ports whose links are emulated.
    pub emulated: Vec<PortId>,
    /// Ports with packets that wait for room on their paths.
    pub stalls: Vec<PortId>,
    /// Removed ports into which other workers may still put packets.
    pub closed: Vec<ClosedPort>,
    /// In interrupt mode: the port that was served last.
    pub interrupted: Option<usize>,
}

impl Worker {
    /// Checks every port: its offloads, its MTU, its link state, the messages of its scheme.
    pub(super) fn watch_ports(&mut self) {
        if let Some(station) = &mut self.hooks.hook
            && let Some(InstructionFault { instruction, fault: what, is_disabled: for_good }) = station.take_fault()
        {
            self.accounting.event(&Event::InstructionFailed {
                worker: self.id,
                instruction,
                failure: &what,
                is_permanent: for_good,
            });
        }
        for port in self.ports.states.ids() {
            let Worker { ports: Ports { states: ports, .. }, accounting, .. } = self;
            let Some(state) = ports.get_mut(port) else { continue };
            // The port has lost offloads: packets already on output queues need software segmentation.
            if state.link.refresh_offloads(accounting) {
                self.ports.refit_paths(port, &mut self.paths, &mut self.accounting);
            }
            let Worker { ports: Ports { states: ports, .. }, id, accounting, snapshot, tables, .. } = self;
            let Some(state) = ports.get_mut(port) else { continue };
            // The relays of other workers learn the state of the device here.
            if let Some(lanes) = &state.relays {
                lanes.publish_state(&*state.link.port);
            }
            if let Some(Trouble { description: what, permanent: for_good }) = state.link.next_fault() {
                accounting.event(&Event::GuestFailed { worker: *id, port, failure: &what, is_permanent: for_good });
            }
            if let Some(what) = state.link.take_panic_message() {
                accounting.event(&Event::SchemeFailed { worker: *id, port, message: &what });
            }
            if let Some(line) = state.link.next_scheme_message() {
                accounting.event(&Event::GuestLogged { worker: *id, port, path: None, line: &line });
            }
            if let Some(wire) = state.link.port.maintain(accounting.now, &mut accounting.pool) {
                let peer = state.link.port.dfq_wire().and_then(|status| status.peer);
                accounting.event(&Event::DfqWire { port, state: wire, peer });
            }
            let other_mtu = observe_mtu(port, state, (tables, snapshot), accounting);
            if !state.link.check_medium(accounting) {
                // Only the first worker runs the host.
                if other_mtu && self.id == WorkerId(0) {
                    self.with_host(self.paths.dispatch.control, |host, world| host.mtu_changed(port, world));
                    self.protocols.host_due = self.protocols.host.next_deadline();
                }
                continue;
            }
            let up = state.link.is_up();
            // Queues and relays of the same device would report the change again.
            if state.role == Role::Device {
                accounting.event(&Event::PortLink { port, up });
                publish_link_state(tables, snapshot, port, up);
            }
            if self.id == WorkerId(0) {
                self.with_host(self.paths.dispatch.control, |host, world| host.link_changed(port, up, world));
                self.protocols.host_due = self.protocols.host.next_deadline();
            }
        }
    }
}

impl Ports {
    /// Replaces the emulated link of a port, or removes it.
    pub(in crate::worker) fn emulate(
        &mut self,
        id: PortId,
        link: Option<LinkSetup>,
        snapshot: &Snapshot,
        accounting: &mut Accounting,
    ) {
        let Ports { states: ports, emulated, .. } = self;
        let Some(state) = ports.get_mut(id) else { return };
        let name = snapshot.port(id).map_or("port", |view| &*view.name);
        state.link.emulate(link, name, accounting);
        emulated.retain(|port| *port != id);
        if state.link.is_emulated() {
            emulated.push(id);
        }
    }

    pub(in crate::worker) fn start_closing(&mut self, id: PortId, now: Instant, tasks: &mut TaskTable) {
        let Some(state) = self.states.get_mut(id) else { return };
        // Each later generation calls this again, and must not extend the deadline.
        if state.closing.is_none() {
            state.closing = Some(now + CLOSING);
            let (input, output) = (state.input, state.output);
            match &mut state.relays {
                // The input task goes on transmitting packets of other workers.
                Some(lanes) => lanes.stop(),
                None => tasks.remove(input, now),
            }
            tasks.wake_output(output, now);
        }
    }

    /// Receives the packets of a port that is about to be closed, and counts and drops them. Otherwise the frames of an in-memory wire
    /// would be lost with the wire.
    pub(in crate::worker) fn discard_arrivals(&mut self, id: PortId, vector: &mut Vector, accounting: &mut Accounting) {
        let Ports { states: ports, .. } = self;
        let Vector { batch, .. } = vector;
        let Some(state) = ports.get_mut(id) else { return };
        for _ in 0..FINAL_BATCHES {
            state.link.port.receive(accounting.now, batch, &mut accounting.pool);
            batch.unlimit();
            let left = batch.len() as u64;
            if left == 0 {
                return;
            }
            state.count_received(left, accounting);
            state.refused += left;
            state.received_bytes += batch.bytes();
            batch.drain().for_each(|packet| accounting.drop_at(id, packet, DropReason::PortRemoved));
        }
    }

    /// Closes a removed port whose link is empty.
    pub(in crate::worker) fn close_port(
        &mut self,
        id: PortId,
        vector: &mut Vector,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        self.discard_arrivals(id, vector, accounting);
        let Some(mut state) = self.states.take(id) else { return };
        // Packets still in the port count as sent. They are lost with it, so count them as dropped while the link exists.
        state.link.port.take_leave(accounting.now, &mut accounting.pool);
        state.discard_tunnelled(id, DropReason::PortRemoved, accounting);
        state.link.abandon_port(accounting);
        // `start_closing` has left the input task running for the packets of other workers.
        if state.relays.is_some() {
            tasks.remove(state.input, accounting.now);
        }
        tasks.remove(state.output, accounting.now);
        state.reserved_output.into_iter().for_each(|task| tasks.remove(task, accounting.now));
        self.blocked.retain(|&port| port != id);
        self.emulated.retain(|&port| port != id);
        self.closed.extend(state.relays.map(ClosedPort::SharedQueue));
        // Other workers may still use their ends of the rings: the port stays until they have let go.
        self.closed.push(ClosedPort::Port(id, state.link.into_port()));
        self.drain_closed(vector, accounting);
        if state.role == Role::Device {
            accounting.event(&Event::PortDrained { port: id });
        }
    }

    /// Drops the packets that other workers have put into the remains of ports. Removes remains that no worker can reach any more.
    pub(in crate::worker) fn drain_closed(&mut self, vector: &mut Vector, accounting: &mut Accounting) {
        let Ports { closed: remains, .. } = self;
        let Vector { batch, .. } = vector;
        remains.retain_mut(|remains| match remains {
            ClosedPort::SharedQueue(lanes) => {
                lanes.stop();
                !lanes.discard(DropReason::PortRemoved, accounting)
            }
            ClosedPort::Port(_, port) if port.may_close() => false,
            ClosedPort::Port(id, port) => {
                for _ in 0..FINAL_BATCHES {
                    port.receive(accounting.now, batch, &mut accounting.pool);
                    batch.unlimit();
                    // The packets left another worker's ledger when they were put on the ring.
                    accounting.ledger.take_over(batch.len() as u64);
                    batch.drain().for_each(|packet| accounting.drop_at(*id, packet, DropReason::PortRemoved));
                }
                !port.may_close()
            }
        });
    }

    /// Adds the tasks of a port. Its input task starts to poll.
    pub(in crate::worker) fn add_port_tasks(
        &mut self,
        id: PortId,
        snapshot: &Snapshot,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> (TaskId, TaskId) {
        let (now, shares) = (accounting.now, snapshot.port(id).map(|view| view.shares));
        let PortShares { input, output, .. } = shares.unwrap_or_default();
        let terms = |share| TaskTerms { share, max_wait: None, capacity: u32::MAX, cost: None, prompt: false };
        let input = tasks.add(Task::Input(id), terms(input), now);
        let output = tasks.add(Task::Output(id), terms(output), now);
        tasks.run_queue.wake(input, now);
        (input, output)
    }
}

/// Reads the MTU of a port's medium and writes it into the tables. Returns true if it has changed. There is an event if the MTU is, or
/// was, below the configured one.
fn observe_mtu(
    port: PortId,
    state: &mut PortState,
    (tables, snapshot): (&Tables, &Snapshot),
    accounting: &mut Accounting,
) -> bool {
    let mtu = state.link.port.mtu();
    let interfaces = || snapshot.interfaces.iter().filter(|interface| interface.port == port);
    let Some(configured) = interfaces().map(|interface| interface.mtu).max() else { return false };
    // Both values are kept: a new generation may change whether the same medium is too short.
    let known = std::mem::replace(&mut state.mtu, (mtu, configured));
    // A relay gets the MTU from the worker with the device, a little later.
    if state.role == Role::Device {
        interfaces().for_each(|interface| tables.set_link_mtu(interface.id, mtu));
        let is_short = |(mtu, configured): (Option<u16>, u16)| mtu.is_some_and(|mtu| mtu < configured);
        if known != state.mtu && (is_short(known) || is_short(state.mtu)) {
            accounting.event(&Event::PortMtu { port, mtu: mtu.unwrap_or(u16::MAX), configured });
        }
    }
    known != state.mtu
}

/// Writes into the tables whether the interfaces of a port are up.
pub(super) fn publish_link_state(tables: &Tables, snapshot: &Snapshot, port: PortId, up: bool) {
    let of = snapshot.interfaces.iter().filter(|interface| interface.port == port);
    of.for_each(|interface| tables.set_up(interface.id, up));
}

impl Ports {
    /// Counts the packets that devices have refused after they had accepted them.
    pub(in crate::worker) fn count_refused(&mut self, accounting: &mut Accounting) {
        let Ports { states: ports, .. } = self;
        ports.iter_mut().for_each(|state| state.link.count_refusals(accounting));
    }

    /// Writes into the tables which ports are up. Groups of next hops leave out members behind a port that is down.
    /// Gives each port the route cache of its VRF, or none. Pass-through ports look up no routes.
    pub(in crate::worker) fn adopt_route_caches(&mut self, snapshot: &Snapshot, tables: &Tables) {
        for (port, state) in self.states.open_mut() {
            let view = snapshot.port(port).filter(|view| snapshot.route_cache && view.passthrough.is_none());
            state.route_cache.adopt(view.and_then(|view| tables.route_feed(tables.vrf_of(view.untagged))));
        }
    }

    /// Gives each port toward subscribers the circuits.
    pub(in crate::worker) fn adopt_circuits(&mut self, snapshot: &Snapshot) {
        for (port, state) in self.states.open_mut() {
            let view = snapshot.port(port).filter(|view| view.toward_subscribers);
            state.subscribers = view.map(|view| SubscriberSide::new(snapshot, view));
        }
    }

    pub(in crate::worker) fn publish_port_states(
        &mut self,
        snapshot: &Snapshot,
        tables: &Tables,
        accounting: &mut Accounting,
    ) {
        let Ports { states: ports, .. } = self;
        for (port, state) in ports.open_mut().filter(|(_, state)| state.closing.is_none()) {
            observe_mtu(port, state, (tables, snapshot), accounting);
            if state.role == Role::Device {
                publish_link_state(tables, snapshot, port, state.link.is_up());
            }
        }
    }
}
