//! What a worker notices of its ports now and then, and tells.

use super::{PortState, Role, Worker};
use crate::registered::InstructionTrouble;
use crate::snapshot::Snapshot;
use fib::Tables;
use packet::accounting::Accounting;
use packet::event::Event;
use schemes::Trouble;
use units::{PortId, WorkerId};

impl Worker {
    /// Looks at every port: what it takes, whether its medium is there, what its scheme has to say.
    pub(super) fn watch_ports(&mut self) {
        if let Some(station) = &mut self.executing.station
            && let Some(InstructionTrouble { instruction, what, for_good }) = station.trouble()
        {
            self.fates.event(&Event::InstructionFailed { worker: self.id, instruction, what: &what, for_good });
        }
        for index in 0..self.ports.len() {
            let Worker { ports, fates, .. } = self;
            let Some(state) = &mut ports[index] else { continue };
            if state.link.refresh_offloads(fates) {
                self.refit_paths(PortId::at(index));
            }
            let Worker { id, ports, fates, snapshot, tables, .. } = self;
            let Some(state) = &mut ports[index] else { continue };
            if let Some(lanes) = &state.lanes {
                lanes.reflect(&*state.link.port);
            }
            if let Some(Trouble { what, for_good }) = state.link.trouble() {
                let (worker, port) = (*id, PortId::at(index));
                fates.event(&Event::GuestFailed { worker, port, what: &what, for_good });
            }
            if let Some(what) = state.link.put_aside() {
                fates.event(&Event::SchemeFailed { worker: *id, port: PortId::at(index), what: &what });
            }
            if let Some(line) = state.link.scheme_remark() {
                fates.event(&Event::GuestSaid { worker: *id, port: PortId::at(index), line: &line });
            }
            let other_mtu = observe_mtu(PortId::at(index), state, (tables, snapshot), fates);
            if !state.link.watch(fates) {
                if other_mtu && self.id == WorkerId(0) {
                    self.with_host(self.dispatch.control, |host, world| host.mtu_changed(PortId::at(index), world));
                    self.host_due = self.host.next();
                }
                continue;
            }
            let (port, up) = (PortId::at(index), state.link.is_up());
            if state.role == Role::Device {
                fates.event(&Event::PortLink { port, up });
                tell_tables(tables, snapshot, port, up);
            }
            if self.id == WorkerId(0) {
                self.with_host(self.dispatch.control, |host, world| host.link_changed(port, up, world));
                self.host_due = self.host.next();
            }
        }
    }

    /// Counts what the media of its ports have refused late.
    pub(super) fn count_refused(&mut self) {
        let Worker { ports, fates, .. } = self;
        ports.iter_mut().flatten().for_each(|state| state.link.count_refused(fates));
    }

    /// Tells the tables which ports are up: groups of next hops leave out those behind a port that is not.
    pub(super) fn tell_ports(&mut self) {
        let Worker { ports, fates, tables, snapshot, .. } = self;
        for (index, state) in ports.iter_mut().enumerate() {
            let Some(state) = state.as_mut().filter(|state| state.closing.is_none()) else { continue };
            observe_mtu(PortId::at(index), state, (tables, snapshot), fates);
            if state.role == Role::Device {
                tell_tables(tables, snapshot, PortId::at(index), state.link.is_up());
            }
        }
    }
}

/// Looks at what the medium of a port carries, and passes it on to the tables. Answers whether that is news; there is an event
/// where it is less than the configuration says, or was.
fn observe_mtu(
    port: PortId,
    state: &mut PortState,
    (tables, snapshot): (&Tables, &Snapshot),
    fates: &mut Accounting,
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
            fates.event(&Event::PortMtu { port, mtu: mtu.unwrap_or(u16::MAX), configured });
        }
    }
    known != state.mtu
}

/// Tells the tables whether the interfaces of a port are up.
pub(super) fn tell_tables(tables: &Tables, snapshot: &Snapshot, port: PortId, up: bool) {
    let of = snapshot.interfaces.iter().filter(|interface| interface.port == port);
    of.for_each(|interface| tables.set_up(interface.id, up));
}
