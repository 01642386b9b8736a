//! Loss detection by selective acknowledgements (RFC 6675), as in Linux. A packet is lost when later ones have arrived: three at first (RFC 8985
//! without reordering). During recovery, transmission is reduced to the new window proportionally (RFC 6937).

use super::Ack;
use super::newreno::AckOutcome;
use super::ranges::Ranges;
use std::collections::VecDeque;

/// The recovery state of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Open,
    Fast,
    Timeout,
}

/// Out-of-order packets after which a packet counts as lost.
const DUPLICATES: u64 = 3;

/// The state of selective acknowledgements at a sender. Of the packets from `first` on, those before `edge` that have not arrived are lost. Of these,
/// those before `cursor` have been retransmitted.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    phase: Phase,
    arrived: Ranges,
    lost_end: u64,
    resent_end: u64,
    /// The number of packets before `cursor` that have not arrived.
    resent: u64,
    /// Retransmitted packets in order, each with the first packet not yet sent then. When that packet arrives, the retransmission is lost.
    order: VecDeque<(u64, u64)>,
    /// Retransmissions that were lost, to be sent a third time.
    lost_retransmissions: VecDeque<u64>,
    recover: u64,
    /// For the proportional reduction: packets in flight at its start, delivered since, sent since, and allowed in flight now.
    begun: u64,
    delivered: u64,
    sent: u64,
    allowed: u64,
}

impl Scoreboard {
    pub fn is_recovering(&self) -> bool {
        self.phase == Phase::Fast
    }

    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Packets in flight: sent, not known to have arrived, not lost.
    #[inline]
    pub fn in_flight(&self, first: u64, fresh: u64) -> u64 {
        if self.phase == Phase::Open {
            fresh - first - self.arrived.packets()
        } else {
            (fresh - self.lost_end.max(first)) + self.resent.saturating_sub(self.lost_retransmissions.len() as u64)
        }
    }

    /// The number of packets that may be in flight during recovery.
    pub fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Processes an acknowledgement; `first` and `fresh` are the values before it. Returns the number of newly arrived packets, and the meaning of
    /// the acknowledgement. Calls `newest` with the last packet of each newly arrived range.
    #[inline]
    pub fn acknowledge(&mut self, first: u64, ack: &Ack, fresh: u64, mut newest: impl FnMut(u64)) -> (u64, AckOutcome) {
        let mut delivered = 0;
        if ack.next > first {
            // Packets before `cursor` that had not arrived were retransmitted; only those reduce `resent`.
            let middle = self.resent_end.clamp(first, ack.next);
            let missing = middle - first - self.arrived.remove_below(middle);
            let rest = ack.next - middle - self.arrived.remove_below(ack.next);
            self.resent -= missing;
            delivered += missing + rest;
            if missing + rest > 0 {
                newest(ack.next - 1);
            }
        }
        let Scoreboard { arrived: came, resent_end: cursor, resent, .. } = self;
        for (from, to) in ack.ranges() {
            let (from, to) = (from.max(ack.next.max(first)), to.min(fresh));
            if from < to {
                came.insert(from, to, |from, to| {
                    delivered += to - from;
                    *resent -= to.min(*cursor).saturating_sub(from);
                    newest(to - 1);
                });
            }
        }
        let first = ack.next.max(first);
        (self.lost_end, self.resent_end) = (self.lost_end.max(first), self.resent_end.max(first));
        (delivered, self.decide(first, fresh))
    }

    fn decide(&mut self, first: u64, fresh: u64) -> AckOutcome {
        match self.phase {
            Phase::Open if self.arrived.packets() >= DUPLICATES => {
                self.phase = Phase::Fast;
                (self.recover, self.begun, self.delivered, self.sent) = (fresh, fresh - first, 0, 0);
                self.clear_losses(first);
                // Every hole before the highest arrival counts as lost.
                self.lost_end = self.arrived.end().unwrap_or(first);
                return AckOutcome::Lost;
            }
            Phase::Open => (self.lost_end, self.resent_end) = (first, first),
            Phase::Fast | Phase::Timeout if first >= self.recover => {
                // The packets beyond may indicate another loss; the next acknowledgement will detect it.
                let fast = self.phase == Phase::Fast;
                self.phase = Phase::Open;
                self.clear_losses(first);
                if fast {
                    return AckOutcome::Recovered;
                }
            }
            Phase::Fast | Phase::Timeout => {
                self.lost_end = self.lost_end.max(self.arrived.end().unwrap_or(first));
                self.detect_lost_retransmissions(first);
            }
        }
        AckOutcome::NoLoss
    }

    /// Clears the records of losses and retransmissions.
    fn clear_losses(&mut self, first: u64) {
        (self.lost_end, self.resent_end, self.resent) = (first, first, 0);
        self.order.clear();
        self.lost_retransmissions.clear();
    }

    fn has_arrived(&self, first: u64, seq: u64) -> bool {
        seq < first || self.arrived.around(seq).is_some()
    }

    /// A retransmission is lost if a packet sent after it has arrived.
    fn detect_lost_retransmissions(&mut self, first: u64) {
        let end = self.arrived.end().unwrap_or(first);
        while let Some(&(seq, fresh)) = self.order.front() {
            if !self.has_arrived(first, seq) {
                // Nothing sent after this retransmission has arrived, and so nothing sent after the later ones in the list.
                if end <= fresh {
                    break;
                }
                self.lost_retransmissions.push_back(seq);
            }
            self.order.pop_front();
        }
        while self.lost_retransmissions.front().is_some_and(|&seq| self.has_arrived(first, seq)) {
            self.lost_retransmissions.pop_front();
        }
    }

    /// Sets the packets allowed in flight after an acknowledgement of `delivered` packets: proportional rate reduction towards `target`, with its
    /// slow start below that (RFC 6937, 3).
    pub fn reduce(&mut self, delivered: u64, target: u64, first: u64, fresh: u64, begins: bool) {
        self.delivered += delivered;
        let under_way = self.in_flight(first, fresh);
        // Proportional part: `target` packets sent for `begun` packets delivered. Below the target, at most one more than was delivered.
        let more = if under_way > target {
            (self.delivered * target).div_ceil(self.begun.max(1)).saturating_sub(self.sent)
        } else {
            let limit = self.delivered.saturating_sub(self.sent).max(delivered) + 1;
            (target - under_way).min(limit)
        };
        // The first lost packet may always be sent.
        self.allowed = under_way + more.max(u64::from(begins));
    }

    /// The next packet to retransmit, if there is one. It counts as sent.
    pub fn next_retransmission(&mut self, first: u64, fresh: u64) -> Option<u64> {
        if self.phase == Phase::Open {
            return None;
        }
        while let Some(seq) = self.lost_retransmissions.pop_front() {
            if !self.has_arrived(first, seq) {
                self.order.push_back((seq, fresh));
                return Some(seq);
            }
        }
        let mut seq = self.resent_end.max(first);
        // Skip packets that have arrived since.
        while let Some((_, to)) = self.arrived.around(seq) {
            seq = to;
        }
        if seq >= self.lost_end {
            return None;
        }
        self.resent_end = seq + 1;
        self.resent += 1;
        self.order.push_back((seq, fresh));
        Some(seq)
    }

    /// A packet has been sent or retransmitted.
    #[inline]
    pub fn record_sent(&mut self) {
        self.sent += 1;
    }

    /// The timer has expired: all packets that have not arrived are lost (RFC 6675, 5.1).
    pub fn expired(&mut self, first: u64, fresh: u64) {
        self.phase = Phase::Timeout;
        self.clear_losses(first);
        (self.recover, self.lost_end) = (fresh, fresh);
    }
}
