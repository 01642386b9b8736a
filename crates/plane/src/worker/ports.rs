//! What a worker notices of its ports now and then, and tells.

use super::{PortState, Role, Worker};
use crate::classify::Tables;
use crate::event::Event;
use crate::registered::InstructionTrouble;
use crate::snapshot::Snapshot;
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
            if !state.link.watch(fates) {
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

    /// Tells the tables which ports are up: groups of next hops leave out those behind a port that is not.
    pub(super) fn tell_ports(&self) {
        for (index, state) in self.ports.iter().enumerate() {
            let device = |state: &&PortState| state.role == Role::Device && state.closing.is_none();
            if let Some(state) = state.as_ref().filter(device) {
                tell_tables(&self.tables, &self.snapshot, PortId::at(index), state.link.is_up());
            }
        }
    }
}

/// Tells the tables whether the interfaces of a port are up.
pub(super) fn tell_tables(tables: &Tables, snapshot: &Snapshot, port: PortId, up: bool) {
    let of = snapshot.interfaces.iter().filter(|interface| interface.port == port);
    of.for_each(|interface| tables.set_up(interface.id, up));
}
