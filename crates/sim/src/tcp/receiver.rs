//! A receiver puts packets in order and acknowledges them.

use super::ranges::Ranges;
use super::settings::{Acknowledging, Settings};
use super::{Ack, Block, Segment};
use units::Instant;

/// The receiving end of one connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The first packet that is missing.
    next: u64,
    /// The packets beyond it.
    beyond: Ranges,
    /// The timestamp to echo: `TS.Recent` of RFC 7323.
    recent: Instant,
    selective: bool,
    acknowledging: Acknowledging,
    /// A packet of each recently reported block, the newest first.
    told: [u64; 3],
    /// The number of unacknowledged packets, how many of them were marked, and when the delayed acknowledgement is due.
    unanswered: u32,
    marked: u32,
    due: Instant,
    duplicates: u64,
    most_beyond: u64,
}

impl Receiver {
    /// A receiver without any packets.
    pub fn new(settings: &Settings) -> Receiver {
        Receiver {
            next: 0,
            beyond: Ranges::default(),
            recent: Instant::START,
            selective: settings.selective,
            acknowledging: settings.acknowledging,
            told: [0; 3],
            unanswered: 0,
            marked: 0,
            due: Instant::FAR,
            duplicates: 0,
            most_beyond: 0,
        }
    }

    /// A packet arrives, possibly with a congestion mark. Returns the acknowledgement, if it is sent at once.
    #[inline]
    pub fn segment(&mut self, now: Instant, segment: Segment, marked: bool) -> Option<Ack> {
        self.marked += u32::from(marked);
        self.unanswered += 1;
        // RFC 7323, 4.3: out-of-order packets do not change the echo. Of several unacknowledged packets the first one counts.
        if segment.seq <= self.next && self.unanswered == 1 {
            self.recent = self.recent.max(segment.sent);
        }
        if segment.seq == self.next {
            self.next += 1;
            let hole = !self.beyond.is_empty();
            if hole && let Some(end) = self.beyond.take_at(self.next) {
                self.next = end;
            }
            return match self.acknowledging {
                // A packet that fills a hole is acknowledged at once (RFC 5681, 4.2).
                Acknowledging::Delayed(wait) if !hole && self.unanswered < 2 && !segment.pushed => {
                    self.due = now + wait;
                    None
                }
                _ => Some(self.answer(false)),
            };
        }
        let mut fresh = false;
        if segment.seq > self.next {
            self.beyond.insert(segment.seq, segment.seq + 1, |_, _| fresh = true);
            self.most_beyond = self.most_beyond.max(self.beyond.packets());
            if self.selective {
                self.tell_first(segment.seq);
            }
        }
        self.duplicates += u64::from(!fresh);
        Some(self.answer(!fresh))
    }

    /// The range around `seq` is reported first, then the recently reported ones (RFC 2018, section 4).
    fn tell_first(&mut self, seq: u64) {
        let Some((from, to)) = self.beyond.around(seq) else { return };
        let old = self.told;
        let mut others = old.iter().copied().filter(|&at| !(from..to).contains(&at));
        // Unused places are zero. Packet 0 is never beyond a hole, so `around` finds nothing there.
        self.told = [seq, others.next().unwrap_or(0), others.next().unwrap_or(0)];
    }

    fn answer(&mut self, duplicate: bool) -> Ack {
        let mut blocks = [Block::default(); 3];
        if self.selective && !self.beyond.is_empty() {
            let known = self.told.iter().filter_map(|&at| self.beyond.around(at));
            for (block, (from, to)) in blocks.iter_mut().zip(known) {
                let [after, packets] =
                    [from - self.next, to - from].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                *block = Block { after, packets };
            }
        }
        let ack = Ack { next: self.next, echo: self.recent, blocks, marked: self.marked, duplicate };
        (self.unanswered, self.marked, self.due) = (0, 0, Instant::FAR);
        ack
    }

    /// When [`Receiver::expire`] must be called; none if no acknowledgement is due.
    pub fn timer(&self) -> Option<Instant> {
        (self.due < Instant::FAR).then_some(self.due)
    }

    /// Sends the delayed acknowledgement, if it is due.
    pub fn expire(&mut self, now: Instant) -> Option<Ack> {
        (now >= self.due).then(|| self.answer(false))
    }

    /// The number of packets received in order: the data of its application.
    pub fn received(&self) -> u64 {
        self.next
    }

    /// The number of packets beyond a hole, and its maximum so far.
    pub fn waiting(&self) -> (u64, u64) {
        (self.beyond.packets(), self.most_beyond)
    }

    /// The number of packets that arrived more than once.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }
}
