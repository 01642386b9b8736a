//! What a worker notices of its ports now and then, and tells.

use super::Worker;
use super::lanes::Lanes;
use super::task_table::{Task, TaskTable};
use super::vector::Vector;
use crate::classify::Target;
use crate::registered::InstructionTrouble;
use crate::snapshot::{PortShares, Snapshot};
use cpu::task::Terms;
use fib::Tables;
use link::{Link, NewLink};
use packet::accounting::Accounting;
use packet::event::Event;
use packet::port::Port;
use packet::{Batch, DropReason};
use schemes::Trouble;
use units::{Instant, Nanos, PortId, TaskId, WorkerId};

/// How long what waits for a removed port may take to leave.
const CLOSING: Nanos = Nanos::secs(1);
/// Batches taken from a port that is about to go: a wire in memory holds no more, and a busy network is not waited for.
pub(super) const LEFT_BEHIND: usize = 16;

/// A port with its link and tasks.
// Large: all that the input and output tasks read of a port lies together.
pub(super) struct PortState {
    pub link: Link,
    pub input: TaskId,
    pub output: TaskId,
    /// The instances whose packets leave here.
    pub outputs: Vec<Target>,
    /// Those of them that have a reservation, and the others.
    pub reserved: Vec<Target>,
    pub shared: Vec<Target>,
    /// The output task of the first; none where there are none, or where output is no task of its own.
    pub promised: Option<TaskId>,
    /// Packets that it has given to the scheme and nobody has transmitted for it: so many it may transmit.
    pub owed: usize,
    pub received: u64,
    pub received_bytes: u64,
    /// Packets dropped before they took a path.
    pub refused: u64,
    /// Packets that took a path.
    pub passed: u64,
    /// When what still waits here is dropped: the port was removed.
    pub closing: Option<Instant>,
    pub role: Role,
    /// Packets of other workers that came in here.
    pub spread: u64,
    /// Packets of this worker that another has received here.
    pub brought: u64,
    /// The other workers that use this port's queue.
    pub lanes: Option<Box<Lanes>>,
    /// Whether it waits where the path of a packet is full, and the line loses what does not fit.
    pub throttles: bool,
    /// Packets that were received and wait for room on their paths.
    pub stalled: Option<Box<Stalled>>,
    /// The longest IP packet its medium carried when last looked at, and the longest of its configuration.
    pub mtu: (Option<u16>, u16),
    /// Bytes sent that a meter was told of.
    pub metered: u64,
}

impl PortState {
    /// Counts packets that came in by the port.
    pub fn arrived(&mut self, packets: u64, accounting: &mut Accounting) {
        if self.role == Role::Relay {
            accounting.ledger.take_over(packets);
        } else {
            accounting.ledger.receive(packets);
        }
        self.received += packets;
    }

    /// After the worker has failed: what waits is forgotten, uncounted, and the counters add up again.
    pub fn settle(&mut self) {
        self.stalled = None;
        let (known, came) = (self.refused + self.passed + self.spread, self.received + self.brought);
        self.refused += came.saturating_sub(known);
        self.received += known.saturating_sub(came);
        self.link.forget();
    }

    /// Whether a removed port has nothing more to transmit.
    pub fn may_close(&self) -> bool {
        self.link.backlog().packets == 0
            && self.link.under_way() == 0
            && self.link.port.waiting_inside().packets == 0
            && self.lanes.as_ref().is_none_or(|lanes| lanes.is_finished())
    }
}

/// Packets that were received and classified, and found their path full; in order.
pub(super) struct Stalled {
    pub packets: Batch,
    pub targets: Vec<Target>,
    pub offloads: bool,
    pub hooked: bool,
}

impl Stalled {
    /// How many.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
}

/// What a port is to its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// The first queue of a device, or its only one.
    Device,
    /// Another queue of a device: the worker of the first speaks for it.
    Queue,
    /// Nothing of the device, but a way to a worker that has a queue.
    Relay,
}

/// What is left of a port: another worker may still put packets in it.
pub(super) enum Remains {
    Lanes(Box<Lanes>),
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

    /// True for a port that is open, or was.
    pub fn knows(&self, port: PortId) -> bool {
        port.index() < self.0.len()
    }

    /// Every id up to that of the last port there was.
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
    /// Ports with packets that cannot leave yet: for want of room, or because their scheme waits for a time.
    pub blocked: Vec<PortId>,
    /// Since when none of them could go on.
    pub blocked_since: Instant,
    /// Ports whose links are emulated.
    pub emulated: Vec<PortId>,
    /// Ports with packets that wait for room on their paths.
    pub stalls: Vec<PortId>,
    /// Ports that are gone, and that other workers may still put packets in.
    pub remains: Vec<Remains>,
    /// Where packets are received the way of interrupts: the port whose turn is next.
    pub interrupted: Option<usize>,
}

impl Worker {
    /// Looks at every port: what it takes, whether its medium is there, what its scheme has to say.
    pub(super) fn watch_ports(&mut self) {
        if let Some(station) = &mut self.hooks.station
            && let Some(InstructionTrouble { instruction, what, for_good }) = station.trouble()
        {
            self.accounting.event(&Event::InstructionFailed { worker: self.id, instruction, what: &what, for_good });
        }
        for port in self.ports.states.ids() {
            let Worker { ports: Ports { states: ports, .. }, accounting, .. } = self;
            let Some(state) = ports.get_mut(port) else { continue };
            if state.link.refresh_offloads(accounting) {
                self.ports.refit_paths(port, &mut self.paths, &mut self.accounting);
            }
            let Worker { ports: Ports { states: ports, .. }, id, accounting, snapshot, tables, .. } = self;
            let Some(state) = ports.get_mut(port) else { continue };
            if let Some(lanes) = &state.lanes {
                lanes.reflect(&*state.link.port);
            }
            if let Some(Trouble { what, for_good }) = state.link.trouble() {
                accounting.event(&Event::GuestFailed { worker: *id, port, what: &what, for_good });
            }
            if let Some(what) = state.link.put_aside() {
                accounting.event(&Event::SchemeFailed { worker: *id, port, what: &what });
            }
            if let Some(line) = state.link.scheme_remark() {
                accounting.event(&Event::GuestSaid { worker: *id, port, line: &line });
            }
            let other_mtu = observe_mtu(port, state, (tables, snapshot), accounting);
            if !state.link.watch(accounting) {
                if other_mtu && self.id == WorkerId(0) {
                    self.with_host(self.paths.dispatch.control, |host, world| host.mtu_changed(port, world));
                    self.protocols.host_due = self.protocols.host.next();
                }
                continue;
            }
            let up = state.link.is_up();
            if state.role == Role::Device {
                accounting.event(&Event::PortLink { port, up });
                tell_tables(tables, snapshot, port, up);
            }
            if self.id == WorkerId(0) {
                self.with_host(self.paths.dispatch.control, |host, world| host.link_changed(port, up, world));
                self.protocols.host_due = self.protocols.host.next();
            }
        }
    }
}

impl Ports {
    /// A port pretends to have another link.
    pub(in crate::worker) fn emulate(
        &mut self,
        id: PortId,
        link: Option<NewLink>,
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
        if state.closing.is_none() {
            state.closing = Some(now + CLOSING);
            let (input, output) = (state.input, state.output);
            match &mut state.lanes {
                // It goes on transmitting for others.
                Some(lanes) => lanes.stop(),
                None => tasks.remove(input, now),
            }
            tasks.urge(output, now);
        }
    }

    /// What waits in a port that is about to go will never be received. It is counted, and its frames come back: those
    /// of a wire in memory would be lost with it.
    pub(in crate::worker) fn leave_behind(&mut self, id: PortId, vector: &mut Vector, accounting: &mut Accounting) {
        let Ports { states: ports, .. } = self;
        let Vector { batch, .. } = vector;
        let Some(state) = ports.get_mut(id) else { return };
        for _ in 0..LEFT_BEHIND {
            state.link.port.receive(accounting.now, batch, &mut accounting.pool);
            batch.unlimit();
            let left = batch.len() as u64;
            if left == 0 {
                return;
            }
            state.arrived(left, accounting);
            state.refused += left;
            state.received_bytes += batch.bytes();
            batch.drain().for_each(|packet| accounting.drop_at(id, packet, DropReason::PortRemoved));
        }
    }

    /// A removed port whose link is empty: gone.
    pub(in crate::worker) fn close_port(
        &mut self,
        id: PortId,
        vector: &mut Vector,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        self.leave_behind(id, vector, accounting);
        let Some(mut state) = self.states.take(id) else { return };
        state.link.abandon_port(accounting);
        if state.lanes.is_some() {
            tasks.remove(state.input, accounting.now);
        }
        tasks.remove(state.output, accounting.now);
        state.promised.into_iter().for_each(|task| tasks.remove(task, accounting.now));
        self.blocked.retain(|&port| port != id);
        self.emulated.retain(|&port| port != id);
        self.remains.extend(state.lanes.map(Remains::Lanes));
        self.remains.push(Remains::Port(id, state.link.into_port()));
        self.bury_remains(vector, accounting);
        if state.role == Role::Device {
            accounting.event(&Event::PortDrained { port: id });
        }
    }

    /// What other workers have put into what is left of ports is dropped; what they can put nothing into any more goes.
    pub(in crate::worker) fn bury_remains(&mut self, vector: &mut Vector, accounting: &mut Accounting) {
        let Ports { remains, .. } = self;
        let Vector { batch, .. } = vector;
        remains.retain_mut(|remains| match remains {
            Remains::Lanes(lanes) => {
                lanes.stop();
                !lanes.discard(DropReason::PortRemoved, accounting)
            }
            Remains::Port(_, port) if port.may_go() => false,
            Remains::Port(id, port) => {
                for _ in 0..LEFT_BEHIND {
                    port.receive(accounting.now, batch, &mut accounting.pool);
                    batch.unlimit();
                    accounting.ledger.take_over(batch.len() as u64);
                    batch.drain().for_each(|packet| accounting.drop_at(*id, packet, DropReason::PortRemoved));
                }
                !port.may_go()
            }
        });
    }

    /// Tasks for a port: the input task begins to look at it.
    pub(in crate::worker) fn add_port_tasks(
        &mut self,
        id: PortId,
        snapshot: &Snapshot,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> (TaskId, TaskId) {
        let (now, shares) = (accounting.now, snapshot.port(id).map(|view| view.shares));
        let PortShares { input, output, .. } = shares.unwrap_or_default();
        let terms = |share| Terms { share, max_wait: None, capacity: u32::MAX, cost: None, prompt: false };
        let input = tasks.add(Task::Input(id), terms(input), now);
        let output = tasks.add(Task::Output(id), terms(output), now);
        tasks.agenda.rouse(input, now);
        (input, output)
    }
}

/// Looks at what the medium of a port carries, and passes it on to the tables. Answers whether that is news; there is an event
/// where it is less than the configuration says, or was.
fn observe_mtu(
    port: PortId,
    state: &mut PortState,
    (tables, snapshot): (&Tables, &Snapshot),
    accounting: &mut Accounting,
) -> bool {
    let mtu = state.link.port.mtu();
    let interfaces = || snapshot.interfaces.iter().filter(|interface| interface.port == port);
    let Some(configured) = interfaces().map(|interface| interface.mtu).max() else { return false };
    let known = std::mem::replace(&mut state.mtu, (mtu, configured));
    // A relay knows it from the worker with the device, and a little later.
    if state.role == Role::Device {
        interfaces().for_each(|interface| tables.set_link_mtu(interface.id, mtu));
        let is_short = |(mtu, configured): (Option<u16>, u16)| mtu.is_some_and(|mtu| mtu < configured);
        if known != state.mtu && (is_short(known) || is_short(state.mtu)) {
            accounting.event(&Event::PortMtu { port, mtu: mtu.unwrap_or(u16::MAX), configured });
        }
    }
    known != state.mtu
}

/// Tells the tables whether the interfaces of a port are up.
pub(super) fn tell_tables(tables: &Tables, snapshot: &Snapshot, port: PortId, up: bool) {
    let of = snapshot.interfaces.iter().filter(|interface| interface.port == port);
    of.for_each(|interface| tables.set_up(interface.id, up));
}

impl Ports {
    /// Counts what the media of its ports have refused late.
    pub(in crate::worker) fn count_refused(&mut self, accounting: &mut Accounting) {
        let Ports { states: ports, .. } = self;
        ports.iter_mut().for_each(|state| state.link.count_refused(accounting));
    }

    /// Tells the tables which ports are up: groups of next hops leave out those behind a port that is not.
    pub(in crate::worker) fn tell_ports(&mut self, snapshot: &Snapshot, tables: &Tables, accounting: &mut Accounting) {
        let Ports { states: ports, .. } = self;
        for (port, state) in ports.open_mut().filter(|(_, state)| state.closing.is_none()) {
            observe_mtu(port, state, (tables, snapshot), accounting);
            if state.role == Role::Device {
                tell_tables(tables, snapshot, port, state.link.is_up());
            }
        }
    }
}
