//! The router's services for a packet function during a call: the time, routes, the rules of its path, and packets that it makes.

use fib::{Outcome, Tables};
use plane::snapshot::Snapshot;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Generation, InterfaceId};

/// The most bytes of an emitted packet.
const LONGEST: usize = 2048;
/// The answer of a route lookup for an address of the router.
const LOCAL: i32 = -2;
/// The answer of a route lookup without a next hop.
const NONE: i32 = -1;

/// See the [module](self). Guests of other kinds never use it.
#[derive(Default)]
pub(crate) struct Services {
    /// The time of the call, in nanoseconds.
    pub now: u64,
    /// The texts of the path's rules.
    pub rules: Vec<String>,
    /// The interface whose VRF has the routes.
    pub interface: InterfaceId,
    tables: Option<Arc<Tables>>,
    /// The numbers of the ports of interfaces, in the generation that is beside it.
    ports: Vec<i32>,
    generation: Option<Generation>,
    /// Emitted packets, one after the other, and their lengths.
    emitted: Vec<u8>,
    lengths: Vec<usize>,
    /// How many packets may still be emitted in this call.
    room: usize,
}

impl Services {
    /// Prepares for a call with this many packets. The tables are shared, so they are referred to again only if they are others.
    #[inline]
    pub fn begin(&mut self, tables: &Arc<Tables>, snapshot: &Snapshot, packets: usize) {
        self.room = packets;
        if self.generation != Some(snapshot.generation)
            || !self.tables.as_ref().is_some_and(|old| Arc::ptr_eq(old, tables))
        {
            self.refresh(tables, snapshot);
        }
    }

    #[cold]
    fn refresh(&mut self, tables: &Arc<Tables>, snapshot: &Snapshot) {
        (self.tables, self.generation) = (Some(tables.clone()), Some(snapshot.generation));
        self.ports.clear();
        for interface in &snapshot.interfaces {
            let index = interface.id.index();
            if self.ports.len() <= index {
                self.ports.resize(index + 1, NONE);
            }
            self.ports[index] = i32::from(interface.port.0);
        }
    }

    /// The number of the port to the next hop of an address of 4 or 16 bytes; -1 if there is none, -2 for an address of the router.
    pub fn lookup(&self, address: &[u8]) -> i32 {
        let (Some(tables), Some(address)) = (&self.tables, address_of(address)) else { return NONE };
        let interface = match tables.lookup_from(self.interface, address) {
            Outcome::Via(adjacency) => tables.adjacencies().hop(adjacency).1,
            Outcome::Connected(interface) => interface,
            // All members of a group are next hops of the destination: the first stands for them.
            Outcome::Group(group) => {
                let first = tables.members(group).into_iter().next();
                let Some(member) = first else { return NONE };
                member.hop.interface
            }
            Outcome::Local(_) => return LOCAL,
            _ => return NONE,
        };
        self.ports.get(interface.index()).copied().unwrap_or(NONE)
    }

    /// Accepts a packet that the guest has made. Returns false if it is no IP packet, or if this call has made as many as it received.
    pub fn emit(&mut self, bytes: &[u8]) -> bool {
        let length = match bytes {
            [0x45..=0x4f, _, high, low, ..] if bytes.len() >= 20 => usize::from(u16::from_be_bytes([*high, *low])),
            [0x60..=0x6f, _, _, _, high, low, ..] if bytes.len() >= 40 => {
                40 + usize::from(u16::from_be_bytes([*high, *low]))
            }
            _ => return false,
        };
        if length != bytes.len() || length > LONGEST || self.room == 0 {
            return false;
        }
        self.room -= 1;
        self.emitted.extend_from_slice(bytes);
        self.lengths.push(length);
        true
    }

    /// True if there are packets to take.
    pub fn has_emitted(&self) -> bool {
        !self.lengths.is_empty()
    }

    /// Gives away the emitted packets. Returns their number.
    pub fn take_emitted(&mut self, mut take: impl FnMut(&[u8])) -> u64 {
        let (mut rest, count) = (&self.emitted[..], self.lengths.len() as u64);
        for length in self.lengths.drain(..) {
            let (one, behind) = rest.split_at(length);
            take(one);
            rest = behind;
        }
        self.emitted.clear();
        count
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        16 => bytes.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_emits_whole_ip_packets_and_no_more_than_it_received() {
        let mut services = Services { room: 2, ..Services::default() };
        let mut four = [0; 24];
        (four[0], four[3]) = (0x45, 24);
        let mut six = [0; 48];
        (six[0], six[5]) = (0x60, 8);
        assert!(!services.emit(&four[..23]) && !services.emit(&[]) && !services.emit(&[0x45; 19]));
        assert!(!services.emit(&[0x75; 40]) && !services.emit(&six[..47]));
        assert!(services.emit(&four) && services.emit(&six) && !services.emit(&four), "a third has no room");
        let mut taken = Vec::new();
        assert_eq!(services.take_emitted(|bytes| taken.push(bytes.to_vec())), 2);
        assert_eq!(taken, [four.to_vec(), six.to_vec()]);
        assert!(!services.has_emitted());
    }
}
