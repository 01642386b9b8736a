//! What links and ports count.

units::counters! {
    /// What a link has counted since it was made.
    ///
    /// The law, in packets: `offered = sent + dropped + backlog`.
    pub struct LinkCounters {
        /// Packets given to the scheme of the link.
        offered "offered_packets";
        /// Packets transmitted.
        sent "sent_packets";
        /// Bytes transmitted, without the frame check sequence.
        sent_bytes "sent_bytes";
        /// Packets the scheme dropped.
        dropped "dropped_packets";
        /// Packets the scheme marked (ECN).
        marked "marked_packets";
        /// Packets of those sent that passed the idle link by: its scheme was not asked.
        passed "passed_packets";
        /// Times the link could have taken a packet, was served, and had none to take. Of the opportunities to send, those that were used
        /// are `sent_packets`.
        wasted "opportunities_wasted";
        /// Times of those that packets waited, and were not to leave yet: a rate held them back.
        withheld "opportunities_withheld";
    }
}

units::counters! {
    /// What a port has counted since it was opened, besides its link.
    pub struct PortCounters {
        /// Packets received.
        received "received_packets";
        /// Bytes received, without the frame check sequence.
        received_bytes "received_bytes";
        /// Packets the medium lost before the router could receive them.
        lost_before_receive "lost_before_receive_packets";
        /// Packets the medium lost after it had accepted them. Packets that the medium refused are among `drops`.
        lost_after_transmit "lost_after_transmit_packets";
        /// Packets that took longer to receive and classify than `classify_budget` allows; counted only where there is one.
        over_budget "classify_over_budget_packets";
    }
}
