//! What is lost, told by counting duplicate acknowledgements: fast retransmit and NewReno's fast recovery (RFC 5681, 3.2;
//! RFC 6582), limited transmit (RFC 3042), and after a time-out everything again from the first packet that is missing.

/// What the sender is doing about losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    /// Nothing is known to be lost.
    #[default]
    Open,
    /// Duplicate acknowledgements have told of a loss.
    Fast,
    /// The timer has.
    Timeout,
}

/// What an acknowledgement means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Nothing of importance.
    Fine,
    /// The first missing packet is lost: halve the window, send it again.
    Lost,
    /// Another of the same window is lost: send it again, and this says whether the timer begins anew.
    Partial(bool),
    /// All of that window has come.
    Recovered,
}

/// A sender's account of duplicate acknowledgements.
#[derive(Clone, Debug, Default)]
pub(super) struct NewReno {
    phase: Phase,
    duplicates: u64,
    /// Losses before this packet have been reacted to.
    recover: u64,
    /// How many packets more than the window says may be counted as outstanding, for they have left the network.
    inflation: u64,
    partials: bool,
    limited: bool,
}

/// Duplicate acknowledgements that tell of a loss.
const DUPLICATES: u64 = 3;

impl NewReno {
    pub fn new(limited_transmit: bool) -> NewReno {
        NewReno { limited: limited_transmit, ..NewReno::default() }
    }

    /// Whether what was lost is still being made up for by fast recovery. (After a time-out the window grows as ever.)
    pub fn recovering(&self) -> bool {
        self.phase == Phase::Fast
    }

    /// Whether nothing is known to be lost.
    pub fn open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// How many packets more than the window may be outstanding.
    #[inline]
    pub fn extra(&self) -> u64 {
        match self.phase {
            Phase::Open if self.limited => self.duplicates.min(DUPLICATES - 1),
            Phase::Fast => self.inflation,
            _ => 0,
        }
    }

    /// `next`, which is new, has been acknowledged together with `packets` in all.
    #[inline]
    pub fn advance(&mut self, next: u64, packets: u64) -> Verdict {
        self.duplicates = 0;
        match self.phase {
            Phase::Open => Verdict::Fine,
            Phase::Fast if next >= self.recover => {
                self.phase = Phase::Open;
                self.inflation = 0;
                Verdict::Recovered
            }
            Phase::Fast => {
                // RFC 6582, 3.2 step 3: what was acknowledged has left the network, less one for what is sent again.
                self.inflation = self.inflation.saturating_sub(packets) + 1;
                Verdict::Partial(!std::mem::replace(&mut self.partials, true))
            }
            Phase::Timeout => {
                if next >= self.recover {
                    self.phase = Phase::Open;
                }
                Verdict::Fine
            }
        }
    }

    /// The same packet is asked for again by one that came out of turn. (Acknowledgements of packets that had come before say nothing:
    /// RFC 6582, 4 has heuristics to find those out; here the acknowledgement tells, as RFC 2883's would.) `next` is missing,
    /// `sent` have been sent.
    pub fn duplicate(&mut self, next: u64, sent: u64) -> Verdict {
        self.duplicates += 1;
        match self.phase {
            Phase::Fast => self.inflation += 1,
            // "Covers more than recover" (RFC 6582, 3.2 step 2): no second reaction to the losses of one window.
            Phase::Open if self.duplicates == DUPLICATES && next >= self.recover => {
                *self = NewReno { phase: Phase::Fast, recover: sent, inflation: DUPLICATES, partials: false, ..*self };
                return Verdict::Lost;
            }
            _ => {}
        }
        Verdict::Fine
    }

    /// The timer has expired; `sent` packets have been sent.
    pub fn expired(&mut self, sent: u64) {
        // RFC 6582, 3.2 step 4.
        *self = NewReno { phase: Phase::Timeout, recover: sent, duplicates: 0, inflation: 0, ..*self };
    }
}
