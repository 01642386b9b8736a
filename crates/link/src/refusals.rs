//! Packets that a medium refuses after the link released them.
//!
//! Some refusals are immediate: the packet is too long for the interface, or the interface has disappeared. The port returns such a packet at once.
//! It is dropped with its reason and was never counted as sent. Other media refuse late, when a packet has waited for room in the port, or was lost
//! behind a completion. Those packets were counted as sent, and the counts are corrected. Until then a report counts them as waiting, so that the
//! reported number of sent packets never decreases.

use super::Link;
use packet::accounting::Accounting;
use packet::port::{UnsentPackets, refusal_reason};
use packet::{DropReason, Packet};

impl Link {
    /// Transmits the packets that the scheme has released.
    #[inline]
    pub(super) fn transmit(&mut self, fates: &mut Accounting) {
        let Link { id, relayed, port, wires: lines, .. } = self;
        lines.counters.sent += fates.transmit(*id, &mut **port, &mut lines.out, *relayed);
        if !lines.out.is_empty() {
            self.drop_returned(fates);
        }
    }

    /// Drops the packets that the port has returned.
    #[cold]
    fn drop_returned(&mut self, fates: &mut Accounting) {
        // The bytes were counted as sent when the packets left the scheme; the packets themselves were not.
        self.wires.counters.sent_bytes -= self.wires.bytes(self.wires.out.as_slice());
        for packet in self.wires.out.drain() {
            let reason = drop_reason(&packet);
            // A packet in `out` has left its queue, and its group is no longer known.
            self.other_packets.record_drop(reason, 1);
            self.wires.dropped.push((packet, reason));
        }
        self.settle(fates);
    }

    /// Counts late refusals of the medium. Called periodically and before a report.
    pub fn count_refusals(&mut self, fates: &mut Accounting) {
        let late = self.port.take_late_refusals();
        self.record_unsent(late, DropReason::DeviceRefused, fates);
    }

    /// Drops the packets that wait in the port, which is about to be closed.
    pub fn abandon_port(&mut self, fates: &mut Accounting) {
        // First the refusals, which have a reason of their own: the port lists them as unsent until they are read.
        self.count_refusals(fates);
        let waiting = self.port.unsent_packets();
        self.record_unsent(waiting, DropReason::PortRemoved, fates);
    }

    fn record_unsent(&mut self, late: UnsentPackets, reason: DropReason, fates: &mut Accounting) {
        if late.packets == 0 {
            return;
        }
        fates.record_refused(self.id, late.packets, reason);
        // Packets of other workers were counted as sent at their own links. A report adds up the links of all workers.
        let own = late.packets.min(self.wires.counters.sent);
        self.wires.counters.sent -= own;
        self.wires.counters.dropped += own;
        self.other_packets.record_drop(reason, own);
        self.unsent.packets += late.packets - own;
        let bytes = late.bytes.min(self.wires.counters.sent_bytes);
        self.wires.counters.sent_bytes -= bytes;
        self.unsent.bytes += late.bytes - bytes;
    }

    /// Packets of other workers' links that were counted as sent there, and that the medium refused.
    pub fn unsent(&self) -> UnsentPackets {
        self.unsent
    }
}

/// The reason why a port returned a packet.
pub(super) fn drop_reason(packet: &Packet) -> DropReason {
    refusal_reason(packet).unwrap_or(DropReason::DeviceRefused)
}
