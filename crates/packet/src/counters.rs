//! Counters of links, ports and stalls.

use crate::StallCount;

units::counters! {
    /// Counters of a link since it was made.
    ///
    /// The law, in packets: `offered = sent + dropped + backlog`.
    pub struct LinkCounters {
        /// Packets given to the link's queueing scheme.
        offered "offered_packets";
        /// Packets transmitted.
        sent "sent_packets";
        /// Bytes transmitted, without the frame check sequence.
        sent_bytes "sent_bytes";
        /// Packets the scheme dropped.
        dropped "dropped_packets";
        /// Packets the scheme marked (ECN).
        marked "marked_packets";
        /// Packets sent over the idle link without asking its scheme; included in sent packets.
        passed "passed_packets";
        /// Opportunities to send that the link could not use, because it had no packet. The used opportunities are `sent_packets`.
        wasted "opportunities_wasted";
        /// Wasted opportunities at which packets were queued but held back by a rate.
        withheld "opportunities_withheld";
    }
}

units::counters! {
    /// Counters of a port since it was opened, besides those of its link.
    pub struct PortCounters {
        /// Packets received.
        received "received_packets";
        /// Bytes received, without the frame check sequence.
        received_bytes "received_bytes";
        /// Packets lost by the medium before the router could receive them.
        lost_before_receive "lost_before_receive_packets";
        /// Packets lost by the medium after it had accepted them. Packets that the medium refused are counted in `drops`.
        lost_after_transmit "lost_after_transmit_packets";
        /// Packets that took longer to receive and classify than `classify_budget` allows. Counted only if it is set.
        over_budget "classify_over_budget_packets";
    }
}

units::counters! {
    /// Stalls of a worker since it was made, with their duration (spec P-66). A stall lasts from the first refusal until there is room again. Stalls of
    /// several queues at the same time each count.
    pub struct StallCounters {
        /// Times that a queue to another worker was full when packets were to be handed over.
        handoff_stalls "handoff_stalls";
        /// Time for which queues to other workers were full.
        handoff_stalled "handoff_stalled_ns";
        /// Times that the pool had no frame when one was needed.
        pool_stalls "pool_stalls";
        /// Time for which the pool had no frame.
        pool_stalled "pool_stalled_ns";
        /// Times that the medium of a port, or the queue to the worker that owns it, had no room while packets were queued for it.
        link_stalls "link_stalls";
        /// Time for which media of ports had no room while packets were queued for them.
        link_stalled "link_stalled_ns";
    }
}

impl StallCounters {
    /// The counters of queues to other workers.
    pub fn handoff(&mut self) -> StallCount<'_> {
        (&mut self.handoff_stalls, &mut self.handoff_stalled)
    }

    /// The counters of the pool.
    pub fn pool(&mut self) -> StallCount<'_> {
        (&mut self.pool_stalls, &mut self.pool_stalled)
    }

    /// The counters of ports.
    pub fn link(&mut self) -> StallCount<'_> {
        (&mut self.link_stalls, &mut self.link_stalled)
    }
}

units::counters! {
    /// Counters of the wire of a port that multiplexes the quanta of flows.
    pub struct DfqWireCounters {
        /// Batches sent.
        batches_sent "dfq_sent_batches";
        /// Quanta in the batches sent.
        quanta_sent "dfq_sent_quanta";
        /// Packets sent in batches.
        packets_sent "dfq_sent_packets";
        /// Batches received.
        batches_received "dfq_received_batches";
        /// Quanta in the batches received.
        quanta_received "dfq_received_quanta";
        /// Packets received whole from batches.
        packets_received "dfq_received_packets";
        /// Batches that were lost before they arrived here, by their sequence numbers.
        batches_lost "dfq_lost_batches";
        /// Flows that had lost a part of a packet, and continued with the next packet.
        resynchronised "dfq_resynchronised_flows";
        /// Packets in batches for which the pool had no frame.
        pool_empty "dfq_pool_empty_packets";
        /// Messages to the other end besides batches.
        control_sent "dfq_sent_control_frames";
    }
}
