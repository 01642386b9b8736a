//! Packets that a medium refuses after the link released them.
//!
//! Some refusals are immediate: the packet is too long for the interface, or the interface has disappeared. The port returns such a packet at once.
//! It is dropped with its reason and was never counted as sent. Other media refuse late, when a packet has waited for room in the port, or was lost
//! behind a completion. Those packets were counted as sent, and the counts are corrected. Until then a report counts them as waiting, so that the
//! reported number of sent packets never decreases.

use super::Link;
use packet::accounting::Accounting;
use packet::port::{Unsent, refusal};
use packet::{DropReason, Packet};

impl Link {
    /// Transmits the packets that the scheme has released.
    #[inline]
    pub(super) fn transmit(&mut self, fates: &mut Accounting) {
        let Link { id, relayed, port, lines, .. } = self;
        lines.counters.sent += fates.transmit(*id, &mut **port, &mut lines.out, *relayed);
        if !lines.out.is_empty() {
            self.take_back(fates);
        }
    }

    /// Drops the packets that the port has returned.
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

    /// Counts late refusals of the medium. Called periodically and before a report.
    pub fn count_refused(&mut self, fates: &mut Accounting) {
        let late = self.port.refused_late();
        self.unsend(late, DropReason::DeviceRefused, fates);
    }

    /// Drops the packets that wait in the port, which is about to be closed.
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
        // Packets of other workers were counted as sent at their own links. A report adds up the links of all workers.
        let own = late.packets.min(self.lines.counters.sent);
        self.lines.counters.sent -= own;
        self.lines.counters.dropped += own;
        self.others.dropped(reason, own);
        self.unsent.packets += late.packets - own;
        let bytes = late.bytes.min(self.lines.counters.sent_bytes);
        self.lines.counters.sent_bytes -= bytes;
        self.unsent.bytes += late.bytes - bytes;
    }

    /// Packets of other workers' links that were counted as sent there, and that the medium refused.
    pub fn unsent(&self) -> Unsent {
        self.unsent
    }
}

/// The reason why a port returned a packet.
pub(super) fn why(packet: &Packet) -> DropReason {
    refusal(packet).unwrap_or(DropReason::DeviceRefused)
}
