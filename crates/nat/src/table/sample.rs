//! A small copy of a table with everything that concerns one packet, for `explain`.

use super::{Connection, ConnectionKind, ConnectionTable, Timeouts};
use units::Nanos;

/// Decisions of the whole table, made in advance for a copy of it: see [`ConnectionTable::sampled`].
#[derive(Clone, Debug)]
pub(super) struct Predetermined {
    /// For each of our addresses, the port of the host's next connection.
    pub ports: Vec<(u32, Option<u16>)>,
    /// True if the table has no room for a connection.
    pub full: bool,
}

impl ConnectionTable {
    /// A small table that treats a packet of the inside host as this table would. New connections get `ports`, one for each of our addresses.
    /// [`ConnectionTable::copy`] adds the connections that concern the packet.
    pub fn sampled(&self, inside: u32, ports: Vec<(u32, Option<u16>)>) -> ConnectionTable {
        let mut sample = ConnectionTable::new(16, self.secret);
        let full = self.connections.used() == self.connections.most && self.eviction_victim().is_none();
        sample.predetermined = Some(Predetermined { ports, full });
        if let Some(host) = self.host(inside) {
            let known = self.hosts.values[host as usize];
            if let Some(slot) = sample.hosts.take(known) {
                sample.by_host.insert(sample.hash(0, known.address.into(), 0), slot);
            }
        }
        sample
    }

    /// The port of a new connection at `ours`, if it was decided in advance.
    pub fn predetermined_port(&self, ours: u32) -> Option<Option<u16>> {
        let foreseen = self.predetermined.as_ref()?;
        Some(foreseen.ports.iter().find(|(address, _)| *address == ours).and_then(|&(_, port)| port))
    }

    /// Copies a connection of another table, unless it is already here.
    pub fn copy(&mut self, other: &Connection) {
        let Connection { protocol, inside, outside, peer, kind, inbound, last_packet: used, .. } = *other;
        if self.from_inside(protocol, inside, peer).is_some() {
            return;
        }
        const FOREVER: Timeouts = [Nanos::MAX; ConnectionKind::ALL.len()];
        // `connect` refuses if the whole table is full, so the advance decisions are set aside until the copy is complete.
        // The host's count was copied before, with this connection included, so `connect` must not count it again.
        let (foreseen, hosts) = (self.predetermined.take(), self.opened_by(inside.address));
        if let Ok(slot) = self.connect(protocol, (inside, outside, peer), (kind, inbound), used, &FOREVER) {
            self.touch(slot, (kind, other.replied), used);
            self.connection_mut(slot).finished = other.finished;
            if let (true, Some(host)) = (hosts > 0 && !inbound, self.host(inside.address)) {
                self.hosts.values[host as usize].connections -= 1;
            }
        }
        self.predetermined = foreseen;
    }
}
