//! Loss detection by duplicate acknowledgements: fast retransmit and NewReno's fast recovery (RFC 5681, 3.2; RFC 6582), limited transmit (RFC 3042).
//! After a timeout everything from the first missing packet on is sent again.

/// The recovery state of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    /// No loss is known.
    #[default]
    Open,
    /// Fast recovery, after duplicate acknowledgements.
    Fast,
    /// Recovery after a timeout.
    Timeout,
}

/// The meaning of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckOutcome {
    /// No loss and no end of recovery.
    NoLoss,
    /// The first missing packet is lost: halve the window and retransmit it.
    Lost,
    /// Another packet of the same window is lost: retransmit it. The flag is true if the timer restarts.
    Partial(bool),
    /// The whole window has arrived.
    Recovered,
}

/// The state of duplicate acknowledgements at a sender.
#[derive(Clone, Debug, Default)]
pub(super) struct NewReno {
    phase: Phase,
    duplicates: u64,
    /// The sender has reacted to losses before this packet.
    recover: u64,
    /// Packets that may be outstanding beyond the window, because as many have left the network.
    inflation: u64,
    partials: bool,
    limited: bool,
}

/// Duplicate acknowledgements that indicate a loss.
const DUPLICATES: u64 = 3;

impl NewReno {
    pub fn new(limited_transmit: bool) -> NewReno {
        NewReno { limited: limited_transmit, ..NewReno::default() }
    }

    /// True during fast recovery. (After a timeout the window grows normally.)
    pub fn is_recovering(&self) -> bool {
        self.phase == Phase::Fast
    }

    /// True if no loss is known.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// The number of packets that may be outstanding beyond the window.
    #[inline]
    pub fn extra(&self) -> u64 {
        match self.phase {
            Phase::Open if self.limited => self.duplicates.min(DUPLICATES - 1),
            Phase::Fast => self.inflation,
            _ => 0,
        }
    }

    /// Packets before `next` have been acknowledged, `packets` of them newly.
    #[inline]
    pub fn advance(&mut self, next: u64, packets: u64) -> AckOutcome {
        self.duplicates = 0;
        match self.phase {
            Phase::Open => AckOutcome::NoLoss,
            Phase::Fast if next >= self.recover => {
                self.phase = Phase::Open;
                self.inflation = 0;
                AckOutcome::Recovered
            }
            Phase::Fast => {
                // RFC 6582, 3.2 step 3: deflate by the acknowledged packets, and add one for the retransmission.
                self.inflation = self.inflation.saturating_sub(packets) + 1;
                AckOutcome::Partial(!std::mem::replace(&mut self.partials, true))
            }
            Phase::Timeout => {
                if next >= self.recover {
                    self.phase = Phase::Open;
                }
                AckOutcome::NoLoss
            }
        }
    }

    /// A duplicate acknowledgement of an out-of-order packet. Duplicates for packets that had arrived before do not count. RFC 6582, 4 has heuristics
    /// for them; here the acknowledgement says so, like that of RFC 2883. `next` is the missing packet, and packets before `sent` have been sent.
    pub fn duplicate(&mut self, next: u64, sent: u64) -> AckOutcome {
        self.duplicates += 1;
        match self.phase {
            // Each duplicate is a packet that has left the network.
            Phase::Fast => self.inflation += 1,
            // "Covers more than recover" (RFC 6582, 3.2 step 2): no second reaction to the losses of one window.
            Phase::Open if self.duplicates == DUPLICATES && next >= self.recover => {
                *self = NewReno { phase: Phase::Fast, recover: sent, inflation: DUPLICATES, partials: false, ..*self };
                return AckOutcome::Lost;
            }
            _ => {}
        }
        AckOutcome::NoLoss
    }

    /// The timer has expired; packets before `sent` have been sent.
    pub fn expired(&mut self, sent: u64) {
        // RFC 6582, 3.2 step 4.
        *self = NewReno { phase: Phase::Timeout, recover: sent, duplicates: 0, inflation: 0, ..*self };
    }
}
