//! One direction of a link with its transmit ring. It needs no events: the departure time of a frame follows from that of the previous one.

use link::medium::{Medium, Trace, TransitResult};
use plan::{LinkService, MediumPlan};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Instant, Rate};

#[derive(Debug)]
pub(crate) struct CardLink {
    medium: Medium,
    /// Additional bytes of a frame on the link, beyond those in memory.
    overhead: i32,
    /// True if frames leave at once; the ring is then always empty.
    instant: bool,
    slots: usize,
    /// The departure times of the frames in the ring.
    ring: VecDeque<u64>,
}

impl CardLink {
    /// A link with a transmit ring of `slots` frames. `seed` and `name` seed its random numbers.
    pub fn new(plan: &MediumPlan, trace: Option<Arc<Trace>>, slots: usize, seed: u64, name: &str) -> CardLink {
        CardLink {
            medium: Medium::new(plan, trace, Instant::START, seed, name),
            overhead: plan.overhead,
            instant: plan.service == LinkService::Constant(Rate::MAX),
            slots,
            ring: VecDeque::with_capacity(slots.min(4096)),
        }
    }

    /// The number of free slots of the transmit ring.
    pub fn room(&mut self, now: u64) -> usize {
        while self.ring.front().is_some_and(|&left| left <= now) {
            self.ring.pop_front();
        }
        self.slots - self.ring.len()
    }

    /// Puts a frame of `length` bytes into the ring. Returns the time at which its last bit has left.
    #[inline]
    pub fn send(&mut self, now: u64, length: usize) -> u64 {
        if self.instant {
            return now;
        }
        let left = self.medium.send(Instant::new(now), length as u32).get();
        self.ring.push_back(left);
        left
    }

    /// The fate of a frame on the link. A frame that never leaves because the trace has ended is lost.
    #[inline]
    pub fn cross(&mut self, left: u64) -> TransitResult {
        if left == u64::MAX { TransitResult::Lost } else { self.medium.cross(Instant::new(left)) }
    }

    /// The current rate.
    pub fn rate(&self, now: u64) -> Rate {
        self.medium.rate(Instant::new(now))
    }

    /// The number of bits of a frame on the link.
    pub fn bits(&self, length: usize) -> u64 {
        (length as i64 + i64::from(self.overhead)).max(1) as u64 * 8
    }

    /// True if the trace ended although it must not.
    pub fn has_failed(&self) -> bool {
        self.medium.has_failed()
    }

    /// Replaces the medium by a faster one, so that a test can see the checker find it.
    #[cfg(test)]
    pub fn replace(&mut self, plan: &MediumPlan) {
        self.medium = Medium::new(plan, None, Instant::START, 1, "another");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rate: Rate, slots: usize) -> CardLink {
        CardLink::new(
            &MediumPlan { service: LinkService::Constant(rate), ..MediumPlan::default() },
            None,
            slots,
            1,
            "link",
        )
    }

    #[test]
    fn frames_leave_at_link_rate() {
        // 60 bytes and 24 of Ethernet's are 672 bits: 6.72 us at 100 Mbit/s.
        let mut line = line(Rate::mbit(100), 4);
        assert_eq!([line.send(0, 60), line.send(0, 60), line.send(10_000, 60)], [6_720, 13_440, 20_160]);
        assert_eq!([line.room(6_719), line.room(6_720), line.room(20_159), line.room(20_160)], [1, 2, 3, 4]);
        assert_eq!(line.send(30_000, 60), 36_720, "an idle link begins at once");
    }

    #[test]
    fn departure_times_have_no_rounding_drift() {
        let mut line = line(Rate::bits(7_000), usize::MAX / 2);
        let left: Vec<u64> = (0..7).map(|_| line.send(0, 60)).collect();
        // Each takes 96 ms: 672 bits at 7000 bits a second.
        assert_eq!(left[6], 672_000_000);
        let mut line = self::line(Rate::bits(9_000), 16);
        let left: Vec<u64> = (0..9).map(|_| line.send(0, 60)).collect();
        assert_eq!((left[0], left[8]), (74_666_666, 672_000_000));
    }

    #[test]
    fn link_without_rate_sends_at_once() {
        let mut line = line(Rate::MAX, 2);
        assert_eq!((0..5).map(|_| line.send(9, 1514)).max(), Some(9));
        assert_eq!(line.room(9), 2);
    }
}
