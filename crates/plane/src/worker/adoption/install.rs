//! A port that is new, or opened again, on a worker.

use crate::snapshot::Snapshot;
use crate::worker::adoption::{NewPort, Opened};
use crate::worker::paths::Paths;
use crate::worker::ports::{PortState, Ports, Remains, Role};
use crate::worker::task_table::TaskTable;
use crate::worker::vector::Vector;
use link::{FLOWS, Link, Queueing};
use packet::accounting::Accounting;
use packet::port::Port;
use units::PortId;

impl Ports {
    /// Installs a port. Returns replaced schemes.
    pub(in crate::worker) fn install_port(
        &mut self,
        new: NewPort,
        snapshot: &Snapshot,
        paths: &mut Paths,
        vector: &mut Vector,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> Vec<(PortId, Queueing)> {
        let mut retired = Vec::new();
        let NewPort { id, port, scheme } = new;
        let (port, role, lanes) = match port {
            Opened::Redecorated(decorate) => {
                let Some(state) = self.states.get_mut(id) else { return retired };
                state.link.replace_port(|old| decorate(old.undecorated()));
                state.link.refresh_offloads(accounting);
                retired.extend(
                    scheme.into_iter().flat_map(|scheme| self.replace_scheme(id, scheme, paths, tasks, accounting)),
                );
                return retired;
            }
            Opened::Queue { port, decorate, first, lanes } => {
                (decorate(port), if first { Role::Device } else { Role::Queue }, lanes)
            }
            Opened::Relay(relay) => {
                relay.attach();
                (Box::new(relay) as Box<dyn Port>, Role::Relay, None)
            }
        };
        self.leave_behind(id, vector, accounting);
        let Ports { states: ports, remains, .. } = self;
        if let Some(state) = ports.get_mut(id) {
            state.link.abandon_port(accounting);
            state.link.replace_port(|old| {
                remains.push(Remains::Port(id, old));
                port
            });
            remains.extend(std::mem::replace(&mut state.lanes, lanes).map(Remains::Lanes));
            // The paths are empty, so only packets queued at the link must fit the new port's offloads.
            state.link.refresh_offloads(accounting);
            state.link.relay(role == Role::Relay);
            state.role = role;
            retired.extend(
                scheme.into_iter().flat_map(|scheme| self.replace_scheme(id, scheme, paths, tasks, accounting)),
            );
            self.bury_remains(vector, accounting);
            return retired;
        }
        let Some(scheme) = scheme else { return retired };
        let mut link = Link::new(id, port, scheme).keyed(snapshot.limits.key(FLOWS));
        link.relay(role == Role::Relay);
        let (input, output) = self.add_port_tasks(id, snapshot, tasks, accounting);
        let state = PortState {
            link,
            input,
            output,
            outputs: Vec::new(),
            reserved: Vec::new(),
            shared: Vec::new(),
            promised: None,
            owed: 0,
            received: 0,
            received_bytes: 0,
            refused: 0,
            passed: 0,
            closing: None,
            role,
            spread: 0,
            brought: 0,
            lanes,
            throttles: false,
            stalled: None,
            mtu: (None, 0),
            metered: 0,
        };
        self.states.insert(id, state);
        retired
    }
}
