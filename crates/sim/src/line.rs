//! A link of a constant rate, with delay and loss. It needs no events: when a frame has left follows from when the one
//! before it had.

use crate::pace::Exact;
use plane::Chance;
use std::collections::VecDeque;
use units::{Nanos, Parts, Rate};

/// What a link is like, one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Medium {
    /// What it carries; [`Rate::MAX`] for no limit.
    pub rate: Rate,
    /// How long a frame is under way after it has left.
    pub delay: Nanos,
    /// The part of its frames that are lost.
    pub loss: Parts,
    /// Bytes that a frame takes on the link besides those in memory: Ethernet has a check sequence, a preamble and a gap.
    pub overhead: u64,
}

impl Default for Medium {
    fn default() -> Medium {
        Medium { rate: Rate::MAX, delay: Nanos::ZERO, loss: Parts::default(), overhead: 24 }
    }
}

/// One direction of a link with the transmit ring before it.
#[derive(Debug)]
pub(crate) struct Line {
    pub medium: Medium,
    slots: usize,
    /// When the last frame has left.
    free: Exact,
    /// When the frames in the ring will have left.
    ring: VecDeque<u64>,
    chance: Chance,
}

impl Line {
    pub fn new(medium: Medium, slots: usize, chance: Chance) -> Line {
        let ring = VecDeque::with_capacity(slots.min(4096));
        Line { medium, slots, free: Exact::new(0), ring, chance }
    }

    /// Frames that the transmit ring takes now.
    pub fn room(&mut self, now: u64) -> usize {
        while self.ring.front().is_some_and(|&left| left <= now) {
            self.ring.pop_front();
        }
        self.slots - self.ring.len()
    }

    /// A frame of `length` bytes goes into the ring. Answers when its last bit has left.
    #[inline]
    pub fn send(&mut self, now: u64, length: usize) -> u64 {
        if self.medium.rate == Rate::MAX {
            return now;
        }
        let bits = (length as u64 + self.medium.overhead) * 8;
        if self.free.at <= now {
            self.free = Exact::new(now);
        }
        self.free.pass((bits * 1_000_000_000, self.medium.rate.get().max(1)));
        self.ring.push_back(self.free.at);
        self.free.at
    }

    /// Whether a frame that has left is lost on the way.
    pub fn loses(&mut self) -> bool {
        self.chance.happens(self.medium.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rate: Rate, slots: usize) -> Line {
        Line::new(Medium { rate, ..Medium::default() }, slots, Chance::new(1, "link"))
    }

    #[test]
    fn frames_leave_one_behind_the_other_at_the_rate_of_the_link() {
        // 60 bytes and 24 of Ethernet's are 672 bits: 6.72 us at 100 Mbit/s.
        let mut line = line(Rate::mbit(100), 4);
        assert_eq!([line.send(0, 60), line.send(0, 60), line.send(10_000, 60)], [6_720, 13_440, 20_160]);
        assert_eq!([line.room(6_719), line.room(6_720), line.room(20_159), line.room(20_160)], [1, 2, 3, 4]);
        assert_eq!(line.send(30_000, 60), 36_720, "an idle link begins at once");
    }

    #[test]
    fn a_rate_that_divides_nothing_loses_no_part_of_a_nanosecond() {
        let mut line = line(Rate::bits(7_000), usize::MAX / 2);
        let left: Vec<u64> = (0..7).map(|_| line.send(0, 60)).collect();
        // Each takes 96 ms: 672 bits at 7000 bits a second.
        assert_eq!(left[6], 672_000_000);
        let mut line = self::line(Rate::bits(9_000), 16);
        let left: Vec<u64> = (0..9).map(|_| line.send(0, 60)).collect();
        assert_eq!((left[0], left[8]), (74_666_666, 672_000_000));
    }

    #[test]
    fn a_link_without_a_rate_takes_no_time_and_is_never_full() {
        let mut line = line(Rate::MAX, 2);
        assert_eq!((0..5).map(|_| line.send(9, 1514)).max(), Some(9));
        assert_eq!(line.room(9), 2);
    }
}
