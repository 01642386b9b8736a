//! The output of functions besides their packets: reports to the operator, and packets that they have made.

use super::Worker;
use crate::classify::Target;
use crate::function::{EmittedPacket, FunctionReport};
use packet::event::{Event, FunctionFailure};
use packet::{Meta, Packet};
use units::PortId;

/// Bytes of an Ethernet header, which emitted packets get for classification.
pub(super) const LINK: usize = 14;

impl Worker {
    /// Reports the failures and log lines of functions.
    pub(super) fn watch_functions(&mut self) {
        let Worker { paths, accounting, id: worker, .. } = self;
        let worker = *worker;
        for instance in paths.instances.iter_mut() {
            let (path, port) = (instance.path, instance.port);
            for report in instance.functions.iter_mut().filter_map(|function| function.next_report()) {
                match (&report, port) {
                    (FunctionReport::Failed { function, failure, drops }, port) => {
                        let failure = FunctionFailure::Disabled { function, failure, drops: *drops };
                        accounting.event(&Event::FunctionFailed { worker, path, port, failure });
                    }
                    (FunctionReport::Logged(line), Some(port)) => {
                        accounting.event(&Event::GuestLogged { worker, port, path: Some(path), line });
                    }
                    (FunctionReport::Logged(_), None) => {}
                }
            }
        }
    }

    /// Classifies the packets that the functions of an instance have made. A packet without a free frame is left out.
    #[cold]
    pub(super) fn classify_emitted(&mut self, from: Target) {
        let Some(instance) = self.paths.instances.get_mut(from) else { return };
        let (accounting, mut made) = (&mut self.accounting, Vec::new());
        let mut emit = |emitted: EmittedPacket<'_>| {
            let Some(mut packet) = accounting.pool.take_for(LINK + emitted.bytes.len()) else { return };
            accounting.ledger.generate(1);
            prepare(&mut packet, &emitted);
            packet.meta_mut().timestamp = accounting.now;
            made.push(packet);
        };
        instance.functions.iter_mut().for_each(|function| function.take_emitted(&mut emit));
        instance.counters.generated += made.len() as u64;
        for packet in made {
            let (snapshot, tables) = (&self.snapshot, &self.tables);
            self.paths.reclassify(from, packet, snapshot, tables, &mut self.tasks, &mut self.accounting);
        }
    }
}

/// Gives a new packet its content and its metadata.
pub(super) fn prepare(packet: &mut Packet, emitted: &EmittedPacket<'_>) {
    packet.fill(emitted.bytes);
    packet.shift(-(LINK as isize));
    let version6 = emitted.bytes.first().is_some_and(|byte| byte >> 4 == 6);
    if let Some(header) = packet.bytes_mut().first_chunk_mut::<LINK>() {
        *header = [0; LINK];
        header[12..].copy_from_slice(if version6 { &[0x86, 0xdd] } else { &[8, 0] });
    }
    let meta = packet.meta_mut();
    (meta.flags, meta.l3) = (Meta::GENERATED | if version6 { Meta::IPV6 } else { 0 }, LINK as u16);
    // It has no ingress port, but the VRF of the packets behind it.
    (meta.in_port, meta.in_interface) = (PortId(u16::MAX), emitted.interface);
    // Counted on, so that functions that answer each other's packets come to an end.
    meta.rounds = emitted.rounds;
}
