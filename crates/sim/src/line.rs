//! One direction of a link with the transmit ring before it. It needs no events: when a frame has left follows from when the
//! one before it had.

use link::medium::{Crossing, Medium, Trace};
use plan::{MediumPlan, Service};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Instant, Rate};

#[derive(Debug)]
pub(crate) struct Line {
    medium: Medium,
    /// Bytes that a frame takes on the link besides those in memory.
    overhead: i32,
    /// Whether it takes no time to leave: then the ring is always empty.
    instant: bool,
    slots: usize,
    /// When the frames in the ring will have left.
    ring: VecDeque<u64>,
}

impl Line {
    /// A link as it is described, whose ring has so many slots; `seed` and `name` say what chance does.
    pub fn new(plan: &MediumPlan, trace: Option<Arc<Trace>>, slots: usize, seed: u64, name: &str) -> Line {
        Line {
            medium: Medium::new(plan, trace, Instant::START, seed, name),
            overhead: plan.overhead,
            instant: plan.service == Service::Constant(Rate::MAX),
            slots,
            ring: VecDeque::with_capacity(slots.min(4096)),
        }
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
        if self.instant {
            return now;
        }
        let left = self.medium.send(Instant::new(now), length as u32).get();
        self.ring.push_back(left);
        left
    }

    /// What becomes of a frame that has left; one that never leaves, for the link's trace has ended, is lost.
    #[inline]
    pub fn cross(&mut self, left: u64) -> Crossing {
        if left == u64::MAX { Crossing::Lost } else { self.medium.cross(Instant::new(left)) }
    }

    /// What it carries now.
    pub fn rate(&self, now: u64) -> Rate {
        self.medium.rate(Instant::new(now))
    }

    /// The bits of a frame on the link.
    pub fn bits(&self, length: usize) -> u64 {
        (length as i64 + i64::from(self.overhead)).max(1) as u64 * 8
    }

    /// Whether a trace had to go on and has ended.
    pub fn has_failed(&self) -> bool {
        self.medium.has_failed()
    }

    /// A link that carries more than it says, for a check to find.
    #[cfg(test)]
    pub fn replace(&mut self, plan: &MediumPlan) {
        self.medium = Medium::new(plan, None, Instant::START, 1, "another");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rate: Rate, slots: usize) -> Line {
        Line::new(&MediumPlan { service: Service::Constant(rate), ..MediumPlan::default() }, None, slots, 1, "link")
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
