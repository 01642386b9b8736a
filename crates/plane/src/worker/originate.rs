//! Packets that a service of the router makes for its own function, which processes packets to the router's addresses: the slow path of a slice
//! returns packets this way.
//!
//! Such a packet looks like one that its interface has received for an address of the router. The classifier selects its path as for a received packet.
//! Its record has [`Exception::Originated`], which no received packet can have.

use super::Worker;
use super::function_reports::{LINK, prepare};
use crate::function::EmittedPacket;
use packet::{Exception, Meta};
use units::InterfaceId;

/// A packet of a service for its function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginatedPacket {
    /// An IPv4 or IPv6 packet without a link header, to an address of the router.
    pub bytes: Vec<u8>,
    /// The interface that it counts as received by.
    pub interface: InterfaceId,
}

impl Worker {
    /// Puts the queued packets on their paths. A packet without a free frame is left out. The sender gets the number of the others.
    #[cold]
    pub(super) fn originate(&mut self) {
        while let Some((packets, reply)) = self.vector.originated.pop_front() {
            let taken = packets.iter().filter(|packet| self.originate_one(packet)).count();
            // The sender may have gone.
            let _ = reply.send(taken as u64);
        }
    }

    fn originate_one(&mut self, made: &OriginatedPacket) -> bool {
        let Some(interface) = self.snapshot.interface(made.interface) else { return false };
        let (port, control) = (interface.port, self.paths.dispatch.control);
        let Some(mut packet) = self.accounting.pool.take_for(LINK + made.bytes.len()) else { return false };
        self.accounting.ledger.generate(1);
        prepare(&mut packet, &EmittedPacket { bytes: &made.bytes, interface: made.interface, rounds: 0 });
        let meta = packet.meta_mut();
        (meta.timestamp, meta.in_port) = (self.accounting.now, port);
        // The source is an address of the router, like that of an encapsulated packet.
        (meta.rounds, meta.exception) = (Meta::ENCAPSULATED, Exception::Originated as u8);
        // The built-in path has generated it, as it generates the packets of the router's own protocols.
        if let Some(control) = self.paths.instances.get_mut(control) {
            control.counters.generated += 1;
        }
        let (snapshot, tables) = (&self.snapshot, &self.tables);
        self.paths.reclassify(control, packet, snapshot, tables, &mut self.tasks, &mut self.accounting);
        true
    }
}
