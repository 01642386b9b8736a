//! Weighted fair queueing: the packet leaves next that would be the first to be through if all bins sent at once, each at a rate
//! as its weight (Demers, Keshav and Shenker, SIGCOMM 1989; Parekh and Gallager, IEEE/ACM Transactions on Networking 1(3),
//! 1993, section III).
//!
//! The round number of the paper moves with the bytes sent, which on a busy link is time. A bin that has run empty counts in its
//! pace for as long as it would still be sending there. A packet begins where the one before it ends as long as its bin holds
//! packets, so that a tag is needed for each bin and not for each packet.

use super::Order;
use super::virtual_time::{Clock, EPOCH, Slope, Virtual};
use crate::Record;
use alloc::vec::Vec;
use units::Heap;

#[derive(Clone, Copy, Debug)]
struct Bin {
    /// Where its first packet begins; where its last one ended if it has none.
    start: Virtual,
    weight: u32,
    slope: Slope,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Finish {
    bins: Vec<Bin>,
    /// Those that have something, by where their first packet ends.
    waiting: Heap,
    /// Those that have nothing any more, but would, by where they end.
    ahead: Heap,
    clock: Clock,
    /// The latest end there is.
    latest: Virtual,
}

impl Finish {
    /// So many bins, all empty.
    pub fn new(bins: usize) -> Finish {
        let bin = Bin { start: 0, weight: 1, slope: Slope::of(1) };
        let [mut waiting, mut ahead] = [Heap::default(), Heap::default()];
        waiting.grow(bins);
        ahead.grow(bins);
        Finish { bins: alloc::vec![bin; bins], waiting, ahead, clock: Clock::default(), latest: 0 }
    }

    /// The clock moves on by what was sent; those whose end it passes leave on the way, and it goes faster behind them.
    fn advance(&mut self, mut length: u32) {
        while let Some((end, bin)) = self.ahead.first() {
            let way = self.clock.until(end).get();
            if way > u64::from(length) {
                break;
            }
            length -= way as u32;
            self.clock.reach(end);
            self.ahead.remove(bin);
            self.clock.remove(self.bins[bin].weight);
        }
        self.clock.advance(length);
    }

    /// A bin has moved on. Where nothing waits any more, nobody is ahead of anybody.
    fn settle(&mut self) {
        if self.waiting.is_empty() {
            self.ahead.clear();
            self.clock.rest(self.latest);
        }
        if self.clock.is_over() {
            self.set_back();
        }
    }

    #[cold]
    fn set_back(&mut self) {
        self.clock.set_back();
        self.latest = self.latest.saturating_sub(EPOCH);
        self.bins.iter_mut().for_each(|bin| bin.start = bin.start.saturating_sub(EPOCH));
        self.waiting.set_back(EPOCH);
        self.ahead.set_back(EPOCH);
    }

    /// A packet of the bin was sent.
    #[inline]
    fn go_on(&mut self, bin: usize, length: u32) {
        self.advance(length);
        let Bin { start, slope, .. } = &mut self.bins[bin];
        *start += slope.span(length);
        self.latest = self.latest.max(*start);
    }

    #[inline]
    fn tag(&mut self, bin: usize, length: u32) {
        let Bin { start, slope, .. } = self.bins[bin];
        self.waiting.set(start + slope.span(length), bin);
    }
}

impl Order for Finish {
    const LOOKS: bool = true;

    fn wake(&mut self, bin: usize, weight: u32, packet: &Record) {
        if self.waiting.contains(bin) {
            return;
        }
        if self.ahead.contains(bin) {
            self.ahead.remove(bin);
            self.clock.remove(self.bins[bin].weight);
        }
        let start = self.bins[bin].start.max(self.clock.now());
        self.bins[bin] = Bin { start, weight, slope: Slope::of(weight) };
        self.clock.add(weight);
        self.tag(bin, packet.length);
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        self.waiting.first().map(|(_, bin)| bin)
    }

    fn sent(&mut self, bin: usize, length: u32, next: u32) {
        self.go_on(bin, length);
        self.tag(bin, next);
        self.settle();
    }

    fn dropped(&mut self, bin: usize, next: u32) {
        if self.waiting.contains(bin) {
            self.tag(bin, next);
        }
    }

    fn empty(&mut self, bin: usize, length: u32) {
        if !self.waiting.contains(bin) {
            return;
        }
        if length > 0 {
            self.go_on(bin, length);
        }
        self.waiting.remove(bin);
        let Bin { start: end, weight, .. } = self.bins[bin];
        if end > self.clock.now() {
            self.ahead.set(end, bin);
        } else {
            self.clock.remove(weight);
        }
        self.settle();
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.settle();
    }
}
