//! Weighted fair queueing: the packet leaves next that would finish first if all bins sent at once, at rates in proportion to their weights.
//! Sources: Demers, Keshav and Shenker, SIGCOMM 1989; Parekh and Gallager, IEEE/ACM Transactions on Networking 1(3), 1993, section III.
//!
//! The round number of the paper advances with the bytes sent, which on a busy link is time. An empty bin counts in its pace for as long as it would
//! still be sending in the ideal division. While a bin holds packets, each starts at the finish of the one before. One tag for each bin is therefore
//! enough.

use super::BinOrder;
use super::virtual_time::{Clock, EPOCH, Slope, Virtual};
use crate::Record;
use alloc::vec::Vec;
use units::Heap;

#[derive(Clone, Copy, Debug)]
struct Bin {
    /// The start of its first packet; for an empty bin the finish of its last one.
    start: Virtual,
    weight: u32,
    slope: Slope,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct WfqOrder {
    bins: Vec<Bin>,
    /// Waiting bins, by the finish of their first packet.
    waiting: Heap,
    /// Empty bins that would still be sending in the ideal division, by their finish.
    ahead: Heap,
    clock: Clock,
    /// The latest finish.
    latest: Virtual,
}

impl WfqOrder {
    /// `bins` empty bins.
    pub fn new(bins: usize) -> WfqOrder {
        let bin = Bin { start: 0, weight: 1, slope: Slope::of(1) };
        let [mut waiting, mut ahead] = [Heap::default(), Heap::default()];
        waiting.grow(bins);
        ahead.grow(bins);
        WfqOrder { bins: alloc::vec![bin; bins], waiting, ahead, clock: Clock::default(), latest: 0 }
    }

    /// Advances the clock by the bytes sent. Empty bins whose finish it passes leave the ideal division, which makes it faster.
    fn advance(&mut self, mut length: u32) {
        while let Some((end, bin)) = self.ahead.first() {
            let way = self.clock.until(end).get();
            // The next empty bin leaves only after more bytes than these.
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

    /// A bin has advanced. If no bin waits, all leads are forgotten.
    fn settle(&mut self) {
        if self.waiting.is_empty() {
            self.ahead.clear();
            self.clock.rest(self.latest);
        }
        if self.clock.needs_set_back() {
            self.set_back();
        }
    }

    #[cold]
    fn set_back(&mut self) {
        self.clock.set_back();
        self.latest = self.latest.saturating_sub(EPOCH);
        // All tags move by the same distance, so no order changes.
        self.bins.iter_mut().for_each(|bin| bin.start = bin.start.saturating_sub(EPOCH));
        self.waiting.subtract(EPOCH);
        self.ahead.subtract(EPOCH);
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
        // F = S + L/w.
        self.waiting.set(start + slope.span(length), bin);
    }
}

impl BinOrder for WfqOrder {
    const NEEDS_LENGTH: bool = true;

    fn wake(&mut self, bin: usize, weight: u32, packet: &Record) {
        if self.waiting.contains(bin) {
            return;
        }
        // The bin still counts in the ideal division: it is added again below with its present weight.
        if self.ahead.contains(bin) {
            self.ahead.remove(bin);
            self.clock.remove(self.bins[bin].weight);
        }
        // S is the later of the finish of the bin's last packet and the round number.
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
        // In the ideal division the bin still sends: its weight counts until then.
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
