//! What a receiver does: put packets in order, and answer.

use super::ranges::Ranges;
use super::settings::{Acknowledging, Settings};
use super::{Ack, Block, Segment};
use units::Instant;

/// The receiving end of one connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The first packet that has not come.
    next: u64,
    /// What has come beyond it.
    beyond: Ranges,
    /// The timestamp to be echoed: `TS.Recent` of RFC 7323.
    recent: Instant,
    selective: bool,
    acknowledging: Acknowledging,
    /// A packet of each block that was told of last, the newest first.
    told: [u64; 3],
    /// Packets not answered yet, how many of them were marked, and when they will be.
    unanswered: u32,
    marked: u32,
    due: Instant,
    duplicates: u64,
    most_beyond: u64,
}

impl Receiver {
    /// Nothing has come.
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

    /// A packet has come, with a congestion mark or without. Answers the acknowledgement, if it is sent at once.
    #[inline]
    pub fn segment(&mut self, now: Instant, segment: Segment, marked: bool) -> Option<Ack> {
        self.marked += u32::from(marked);
        self.unanswered += 1;
        // RFC 7323, 4.3: packets out of turn do not change what is echoed; of several unanswered ones it is the first's.
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
                // What fills a hole is answered at once (RFC 5681, 4.2).
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

    /// The range around `seq` is told of first; those told of before follow (RFC 2018, section 4).
    fn tell_first(&mut self, seq: u64) {
        let Some((from, to)) = self.beyond.around(seq) else { return };
        let old = self.told;
        let mut others = old.iter().copied().filter(|&at| !(from..to).contains(&at));
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

    /// When it wants to be looked at again ([`Receiver::expire`]); nothing where no answer is due.
    pub fn timer(&self) -> Option<Instant> {
        (self.due < Instant::FAR).then_some(self.due)
    }

    /// Answers what has waited for long enough.
    pub fn expire(&mut self, now: Instant) -> Option<Ack> {
        (now >= self.due).then(|| self.answer(false))
    }

    /// How many packets have come and are in order: what its application has.
    pub fn received(&self) -> u64 {
        self.next
    }

    /// How many packets wait for an earlier one, and the most that ever did.
    pub fn waiting(&self) -> (u64, u64) {
        (self.beyond.packets(), self.most_beyond)
    }

    /// How many packets came that had come before.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }
}
