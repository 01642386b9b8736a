//! A receiver puts packets in order and acknowledges them.

use super::ranges::Ranges;
use super::settings::{AckPolicy, Settings};
use super::{Ack, SackBlock, TcpSegment};
use units::Instant;

/// The receiving end of one connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The first packet that is missing.
    next: u64,
    /// The packets beyond it.
    out_of_order: Ranges,
    /// The timestamp to echo: `TS.Recent` of RFC 7323.
    recent: Instant,
    selective: bool,
    acknowledging: AckPolicy,
    /// A packet of each recently reported block, the newest first.
    reported_blocks: [u64; 3],
    /// The number of unacknowledged packets, how many of them were marked, and when the delayed acknowledgement is due.
    unacknowledged: u32,
    marked: u32,
    due: Instant,
    duplicates: u64,
    max_out_of_order: u64,
}

impl Receiver {
    /// A receiver without any packets.
    pub fn new(settings: &Settings) -> Receiver {
        Receiver {
            next: 0,
            out_of_order: Ranges::default(),
            recent: Instant::START,
            selective: settings.selective,
            acknowledging: settings.acknowledging,
            reported_blocks: [0; 3],
            unacknowledged: 0,
            marked: 0,
            due: Instant::NEVER,
            duplicates: 0,
            max_out_of_order: 0,
        }
    }

    /// A packet arrives, possibly with a congestion mark. Returns the acknowledgement, if it is sent at once.
    #[inline]
    pub fn segment(&mut self, now: Instant, segment: TcpSegment, marked: bool) -> Option<Ack> {
        self.marked += u32::from(marked);
        self.unacknowledged += 1;
        // RFC 7323, 4.3: out-of-order packets do not change the echo. Of several unacknowledged packets the first one counts.
        if segment.seq <= self.next && self.unacknowledged == 1 {
            self.recent = self.recent.max(segment.sent);
        }
        if segment.seq == self.next {
            self.next += 1;
            let hole = !self.out_of_order.is_empty();
            if hole && let Some(end) = self.out_of_order.take_at(self.next) {
                self.next = end;
            }
            return match self.acknowledging {
                // A packet that fills a hole is acknowledged at once (RFC 5681, 4.2).
                AckPolicy::Delayed(wait) if !hole && self.unacknowledged < 2 && !segment.pushed => {
                    self.due = now + wait;
                    None
                }
                _ => Some(self.make_ack(false)),
            };
        }
        let mut fresh = false;
        if segment.seq > self.next {
            self.out_of_order.insert(segment.seq, segment.seq + 1, |_, _| fresh = true);
            self.max_out_of_order = self.max_out_of_order.max(self.out_of_order.packets());
            if self.selective {
                self.report_first(segment.seq);
            }
        }
        self.duplicates += u64::from(!fresh);
        Some(self.make_ack(!fresh))
    }

    /// The range around `seq` is reported first, then the recently reported ones (RFC 2018, section 4).
    fn report_first(&mut self, seq: u64) {
        let Some((from, to)) = self.out_of_order.around(seq) else { return };
        let old = self.reported_blocks;
        let mut others = old.iter().copied().filter(|&at| !(from..to).contains(&at));
        // Unused places are zero. Packet 0 is never beyond a hole, so `around` finds nothing there.
        self.reported_blocks = [seq, others.next().unwrap_or(0), others.next().unwrap_or(0)];
    }

    fn make_ack(&mut self, duplicate: bool) -> Ack {
        let mut blocks = [SackBlock::default(); 3];
        if self.selective && !self.out_of_order.is_empty() {
            let known = self.reported_blocks.iter().filter_map(|&at| self.out_of_order.around(at));
            for (block, (from, to)) in blocks.iter_mut().zip(known) {
                let [after, packets] =
                    [from - self.next, to - from].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                *block = SackBlock { after, packets };
            }
        }
        let ack = Ack { next: self.next, echo: self.recent, blocks, marked: self.marked, duplicate };
        (self.unacknowledged, self.marked, self.due) = (0, 0, Instant::NEVER);
        ack
    }

    /// When [`Receiver::expire`] must be called; none if no acknowledgement is due.
    pub fn timer(&self) -> Option<Instant> {
        (self.due < Instant::NEVER).then_some(self.due)
    }

    /// Sends the delayed acknowledgement, if it is due.
    pub fn expire(&mut self, now: Instant) -> Option<Ack> {
        (now >= self.due).then(|| self.make_ack(false))
    }

    /// The number of packets received in order: the data of its application.
    pub fn received(&self) -> u64 {
        self.next
    }

    /// The number of packets beyond a hole, and its maximum so far.
    pub fn out_of_order(&self) -> (u64, u64) {
        (self.out_of_order.packets(), self.max_out_of_order)
    }

    /// The number of packets that arrived more than once.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }
}
