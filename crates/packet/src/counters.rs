//! What links count.

/// What a link has counted, in packets and bytes since it was made.
///
/// The law: `offered = sent + dropped + backlog`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// Packets given to the scheme.
    pub offered: u64,
    /// Packets transmitted.
    pub sent: u64,
    /// Bytes transmitted.
    pub sent_bytes: u64,
    /// Packets the scheme dropped.
    pub dropped: u64,
    /// Packets with congestion experienced set.
    pub marked: u64,
    /// Packets of those sent that passed the idle link by: its scheme was not asked.
    pub passed: u64,
    /// Times the link could have taken a packet and its scheme had none for it.
    pub wasted: u64,
    /// Those of them when packets waited: they were not to leave yet.
    pub withheld: u64,
}

impl std::ops::AddAssign for LinkCounters {
    fn add_assign(&mut self, other: LinkCounters) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.dropped += other.dropped;
        self.marked += other.marked;
        self.passed += other.passed;
        self.wasted += other.wasted;
        self.withheld += other.withheld;
    }
}

impl LinkCounters {
    /// What was counted since it was `before`.
    pub fn since(&self, before: &LinkCounters) -> LinkCounters {
        LinkCounters {
            offered: self.offered.saturating_sub(before.offered),
            sent: self.sent.saturating_sub(before.sent),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            dropped: self.dropped.saturating_sub(before.dropped),
            marked: self.marked.saturating_sub(before.marked),
            passed: self.passed.saturating_sub(before.passed),
            wasted: self.wasted.saturating_sub(before.wasted),
            withheld: self.withheld.saturating_sub(before.withheld),
        }
    }
}
