//! A port that is new, or opened again, on a worker.

use crate::classify::PortRouteCache;
use crate::snapshot::Snapshot;
use crate::worker::adoption::{NewPort, OpenedPort};
use crate::worker::paths::Paths;
use crate::worker::ports::{ClosedPort, PortState, Ports, Role};
use crate::worker::task_table::TaskTable;
use crate::worker::vector::Vector;
use link::{FLOWS, Link, Queueing};
use packet::DropReason;
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
        let NewPort { id, port, scheme, tunnel } = new;
        let (port, role, lanes) = match port {
            OpenedPort::Redecorated(decorate) => {
                let Some(state) = self.states.get_mut(id) else { return retired };
                state.link.port.take_leave(accounting.now, &mut accounting.pool);
                state.link.replace_port(|old| decorate(old.undecorated()));
                state.link.refresh_offloads(accounting);
                retired.extend(
                    scheme.into_iter().flat_map(|scheme| self.replace_scheme(id, scheme, paths, tasks, accounting)),
                );
                return retired;
            }
            OpenedPort::Queue { port, decorate, first, relays: lanes } => {
                (decorate(port), if first { Role::Device } else { Role::Queue }, lanes)
            }
            OpenedPort::Relay(relay) => {
                // The owner receives nothing before all relays are attached, so that no packet arrives for a worker that lacks the port.
                relay.attach();
                (Box::new(relay) as Box<dyn Port>, Role::Relay, None)
            }
        };
        self.discard_arrivals(id, vector, accounting);
        let Ports { states: ports, closed: remains, .. } = self;
        if let Some(state) = ports.get_mut(id) {
            state.discard_tunnelled(id, DropReason::PortRemoved, accounting);
            state.tunnel = tunnel;
            state.link.abandon_port(accounting);
            state.link.replace_port(|old| {
                // Other workers may still hold their ends of its rings.
                remains.push(ClosedPort::Port(id, old));
                port
            });
            remains.extend(std::mem::replace(&mut state.relays, lanes).map(ClosedPort::SharedQueue));
            // The paths are empty, so only packets queued at the link must fit the new port's offloads.
            state.link.refresh_offloads(accounting);
            state.link.set_relayed(role == Role::Relay);
            state.role = role;
            retired.extend(
                scheme.into_iter().flat_map(|scheme| self.replace_scheme(id, scheme, paths, tasks, accounting)),
            );
            self.drain_closed(vector, accounting);
            return retired;
        }
        let Some(scheme) = scheme else { return retired };
        // Keyed before the first packet, because queues of flows depend on the key.
        let mut link = Link::new(id, port, scheme).keyed(snapshot.limits.key(FLOWS));
        link.set_relayed(role == Role::Relay);
        let (input, output) = self.add_port_tasks(id, snapshot, tasks, accounting);
        let state = PortState {
            link,
            input,
            output,
            outputs: Vec::new(),
            reserved: Vec::new(),
            shared: Vec::new(),
            reserved_output: None,
            offered: 0,
            received: 0,
            received_bytes: 0,
            refused: 0,
            entered: 0,
            closing: None,
            role,
            handed_out: 0,
            handed_in: 0,
            relays: lanes,
            throttles: false,
            stalled: None,
            mtu: (None, 0),
            metered: 0,
            route_cache: PortRouteCache::default(),
            subscribers: None,
            stall: packet::StallMeter::default(),
            tunnel,
        };
        self.states.insert(id, state);
        retired
    }
}
