//! Packets that a medium refuses: the link let them go, and they never left.
//!
//! A port hands back at once what its medium refuses at once: too long for the interface, or no interface there any more. The
//! packet is dropped with its reason and was never counted as sent. Some media refuse late, when a packet has waited in the port
//! for room or was lost behind a completion. Those packets were counted as sent, and the counts are put right. Until then a
//! report counts them as waiting, so that the reported number of sent packets never becomes less.

use super::Link;
use packet::accounting::Accounting;
use packet::port::{Unsent, refusal};
use packet::{DropReason, Packet};

impl Link {
    /// Transmits what the scheme has let go.
    #[inline]
    pub(super) fn transmit(&mut self, fates: &mut Accounting) {
        let Link { id, relayed, port, lines, .. } = self;
        lines.counters.sent += fates.transmit(*id, &mut **port, &mut lines.out, *relayed);
        if !lines.out.is_empty() {
            self.take_back(fates);
        }
    }

    /// Drops the packets that the port has handed back.
    #[cold]
    fn take_back(&mut self, fates: &mut Accounting) {
        self.lines.counters.sent_bytes -= self.lines.bytes(self.lines.out.as_slice());
        for packet in self.lines.out.drain() {
            let reason = why(&packet);
            self.others.dropped(reason, 1);
            self.lines.ended.push((packet, reason));
        }
        self.settle(fates);
    }

    /// Counts what the medium has refused late. To be called now and then, and before a report.
    pub fn count_refused(&mut self, fates: &mut Accounting) {
        let late = self.port.refused_late();
        self.unsend(late, DropReason::DeviceRefused, fates);
    }

    /// The port is about to be closed: packets that wait in it never leave.
    pub fn abandon_port(&mut self, fates: &mut Accounting) {
        self.count_refused(fates);
        let waiting = self.port.waiting_inside();
        self.unsend(waiting, DropReason::PortRemoved, fates);
    }

    fn unsend(&mut self, late: Unsent, reason: DropReason, fates: &mut Accounting) {
        if late.packets == 0 {
            return;
        }
        fates.unsend(self.id, late.packets, reason);
        // Other workers' packets were counted as sent at their links; a report adds up the links of all workers.
        let own = late.packets.min(self.lines.counters.sent);
        self.lines.counters.sent -= own;
        self.lines.counters.dropped += own;
        self.others.dropped(reason, own);
        self.unsent.packets += late.packets - own;
        let bytes = late.bytes.min(self.lines.counters.sent_bytes);
        self.lines.counters.sent_bytes -= bytes;
        self.unsent.bytes += late.bytes - bytes;
    }

    /// Packets of other workers' links that were counted as sent there, and that the medium has refused.
    pub fn unsent(&self) -> Unsent {
        self.unsent
    }
}

/// Why a port has handed a packet back.
pub(super) fn why(packet: &Packet) -> DropReason {
    refusal(packet).unwrap_or(DropReason::DeviceRefused)
}
