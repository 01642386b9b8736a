//! A small copy of a table, with all that matters to one packet: `explain` runs on it.

use super::{Connection, Kind, Table, Timeouts};
use units::Nanos;

/// Decisions of the whole table, made in advance for a copy of it: see [`Table::sampled`].
#[derive(Clone, Debug)]
pub(super) struct Foreseen {
    /// The port of each of our addresses that the next connection of the host gets.
    pub ports: Vec<(u32, Option<u16>)>,
    /// There is no room for a connection.
    pub full: bool,
}

impl Table {
    /// A small table that treats a packet of the host `inside` as this one would. New connections get the `ports` of each of our
    /// addresses. [`Table::copy`] adds the connections that matter.
    pub fn sampled(&self, inside: u32, ports: Vec<(u32, Option<u16>)>) -> Table {
        let mut sample = Table::new(16, self.secret);
        let full = self.connections.used() == self.connections.most && self.oldest_to_go().is_none();
        sample.foreseen = Some(Foreseen { ports, full });
        if let Some(host) = self.host(inside) {
            let known = self.hosts.values[host as usize];
            if let Some(slot) = sample.hosts.take(known) {
                sample.by_host.insert(sample.hash(0, known.address.into(), 0), slot);
            }
        }
        sample
    }

    /// The port of ours that a new connection gets, if that was decided in advance.
    pub fn foreseen_port(&self, ours: u32) -> Option<Option<u16>> {
        let foreseen = self.foreseen.as_ref()?;
        Some(foreseen.ports.iter().find(|(address, _)| *address == ours).and_then(|&(_, port)| port))
    }

    /// Takes over a connection of another table, unless it is there.
    pub fn copy(&mut self, other: &Connection) {
        let Connection { protocol, inside, outside, peer, kind, inbound, used, .. } = *other;
        if self.from_inside(protocol, inside, peer).is_some() {
            return;
        }
        const FOREVER: Timeouts = [Nanos::MAX; Kind::ALL.len()];
        // The count of the host was copied before, this connection included.
        let (foreseen, hosts) = (self.foreseen.take(), self.begun_by(inside.address));
        if let Ok(slot) = self.connect(protocol, (inside, outside, peer), (kind, inbound), used, &FOREVER) {
            self.touch(slot, (kind, other.replied), used);
            self.connection_mut(slot).finished = other.finished;
            if let (true, Some(host)) = (hosts > 0 && !inbound, self.host(inside.address)) {
                self.hosts.values[host as usize].connections -= 1;
            }
        }
        self.foreseen = foreseen;
    }
}
