//! Worst-case fair weighted fair queueing. Only bins whose turn has begun in an ideal division may send; of these the packet with the earliest finish
//! leaves (WF2Q+: Bennett and Zhang, IEEE/ACM Transactions on Networking 5(5), 1997). A bin is therefore never ahead of its share by more than a
//! packet, unlike with [`WfqOrder`](super::WfqOrder).
//!
//! Let the weights add up to W, and L be the length of the first packet of a bin of weight w. The bin has a start S and a finish S + L/w. A packet
//! sent advances S by L/w and the virtual time V by L/W. V is never below the least start of the waiting bins.
//!
//! Below a thousand bins there are two heaps: bins that may send, by finish, and the others, by start. The [groups](super::wf2q_groups) for more bins
//! are tested against them.
//!
//! **The bound.** The work of a waiting bin lags behind its share of the bytes sent by at most its longest packet and, times its share, the longest
//! packet of all (theorem 4 there).

use super::list::{Link, Linked};
use super::virtual_time::{Clock, EPOCH, Slope, Virtual};
use super::{BinOrder, BinPrefetch};
use crate::{Record, Wires};
use alloc::vec::Vec;
use units::Heap;

/// The slot of a bin that does not wait.
pub(super) const NOWHERE: u16 = u16::MAX;

/// A bin's tags and its position: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Bin {
    /// The start of its first packet; for an empty bin the finish of its last one.
    pub start: Virtual,
    /// The finish of its first packet.
    pub finish: Virtual,
    slope: Slope,
    /// At most the largest of [`Weights`](super::Weights).
    weight: u16,
    /// For structures with lists: its list and its neighbours there.
    pub(super) slot: u16,
    pub(super) link: Link,
}

const _: () = assert!(size_of::<Bin>() == 32, "two bins are a cache line");

impl Linked for Bin {
    #[inline(always)]
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The structure of the waiting bins.
pub(crate) trait WaitingBins: core::fmt::Debug + Send {
    fn new(bins: usize) -> Self;
    fn contains(&self, bins: &[Bin], bin: usize) -> bool;
    /// Inserts a bin that does not wait.
    fn insert(&mut self, bins: &mut [Bin], bin: usize, now: Virtual);
    /// Removes a waiting bin.
    fn remove(&mut self, bins: &mut [Bin], bin: usize);
    /// The next bin and the new virtual time.
    fn pick(&mut self, bins: &[Bin], now: Virtual) -> Option<(usize, Virtual)>;
    /// Removes all bins.
    fn clear(&mut self, bins: &mut [Bin]);
    /// The bin that is `turns` turns after `bin`, which sends now, as far as known.
    fn later(&self, bins: &[Bin], bin: usize, turns: usize) -> Option<usize> {
        let _ = (bins, bin, turns);
        None
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Wf2qOrder<T> {
    bins: Vec<Bin>,
    waiting: T,
    /// The number of waiting bins.
    count: usize,
    clock: Clock,
    latest: Virtual,
    /// The bin picked last.
    picked: usize,
}

/// The form for few bins.
pub(crate) type ExactWf2q = Wf2qOrder<BinHeaps>;

impl<T: WaitingBins> Wf2qOrder<T> {
    /// `bins` empty bins.
    pub fn new(bins: usize) -> Wf2qOrder<T> {
        let bin = Bin { start: 0, finish: 0, slope: Slope::of(1), weight: 1, slot: NOWHERE, link: Link::NONE };
        let waiting = T::new(bins);
        Wf2qOrder { bins: alloc::vec![bin; bins], waiting, count: 0, clock: Clock::default(), latest: 0, picked: 0 }
    }

    #[inline]
    fn put(&mut self, bin: usize, length: u32) {
        let tags = &mut self.bins[bin];
        // F = S + L/w.
        tags.finish = tags.start + tags.slope.span(length);
        self.waiting.insert(&mut self.bins, bin, self.clock.now());
    }

    /// A packet of the bin was sent.
    #[inline]
    fn go_on(&mut self, bin: usize, length: u32) {
        // V advances by L/W. The next packet of the bin starts at the finish of this one.
        self.clock.advance(length);
        let Bin { start, slope, .. } = &mut self.bins[bin];
        *start += slope.span(length);
        self.latest = self.latest.max(*start);
    }

    /// Sets all tags back. Waiting bins are inserted again, because the structure depends on their tags.
    #[cold]
    fn set_back(&mut self) {
        self.clock.set_back();
        self.latest = self.latest.saturating_sub(EPOCH);
        for bin in 0..self.bins.len() {
            let waits = self.waiting.contains(&self.bins, bin);
            self.waiting.remove(&mut self.bins, bin);
            let Bin { start, finish, .. } = &mut self.bins[bin];
            *start = start.saturating_sub(EPOCH);
            // A bin that does not wait gets no finish behind its start: the next loop omits it.
            *finish = if waits { *finish - EPOCH } else { *start };
        }
        // A waiting bin is recognised by its finish, which is behind its start.
        for bin in 0..self.bins.len() {
            if self.bins[bin].finish > self.bins[bin].start {
                self.waiting.insert(&mut self.bins, bin, self.clock.now());
            }
        }
    }
}

impl<T: WaitingBins> BinOrder for Wf2qOrder<T> {
    const NEEDS_LENGTH: bool = true;

    #[inline]
    fn wake(&mut self, bin: usize, weight: u32, packet: &Record) {
        if self.waiting.contains(&self.bins, bin) {
            return;
        }
        let Bin { start, .. } = self.bins[bin];
        // Idle time earns no credit, and a lead over V is kept.
        let start = start.max(self.clock.now());
        let (slope, weight) = (Slope::of(weight), u16::try_from(weight).unwrap_or(u16::MAX));
        let weighed = &mut self.bins[bin];
        (weighed.start, weighed.finish, weighed.slope, weighed.weight) = (start, start, slope, weight);
        self.clock.add(weight.into());
        self.count += 1;
        self.put(bin, packet.length);
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        let (bin, time) = self.waiting.pick(&self.bins, self.clock.now())?;
        // V is never below the least start of the waiting bins (WF2Q+).
        self.clock.reach(time);
        self.picked = bin;
        Some(bin)
    }

    #[inline]
    fn sent(&mut self, bin: usize, length: u32, next: u32) {
        self.go_on(bin, length);
        self.waiting.remove(&mut self.bins, bin);
        self.put(bin, next);
        if self.clock.needs_set_back() {
            self.set_back();
        }
    }

    fn dropped(&mut self, bin: usize, next: u32) {
        if self.waiting.contains(&self.bins, bin) {
            self.waiting.remove(&mut self.bins, bin);
            self.put(bin, next);
        }
    }

    #[inline]
    fn empty(&mut self, bin: usize, length: u32) {
        if !self.waiting.contains(&self.bins, bin) {
            return;
        }
        if length > 0 {
            self.go_on(bin, length);
        }
        self.waiting.remove(&mut self.bins, bin);
        self.clock.remove(self.bins[bin].weight.into());
        self.count -= 1;
        // The busy period ends: all leads are forgotten.
        if self.count == 0 {
            self.clock.rest(self.latest);
        }
    }

    /// Only a few turns: a bin only links to the next one, so its cache line must be loaded first.
    #[inline]
    fn look_ahead<W: Wires>(&mut self, soon: &BinPrefetch<'_, W>) {
        let later = |turns| self.waiting.later(&self.bins, self.picked, turns);
        if let Some(bin) = later(2) {
            soon.prefetch_bin(bin);
            soon.prefetch(&self.bins[bin]);
        }
        if soon.looks()
            && let Some(bin) = later(1)
        {
            soon.prefetch_head(bin, 0);
        }
    }

    #[inline]
    fn fetch<W: Wires>(&self, bin: usize, wires: &W) {
        wires.prefetch(&self.bins[bin]);
    }

    fn clear(&mut self) {
        self.waiting.clear(&mut self.bins);
        self.count = 0;
        self.clock.rest(self.latest);
    }
}

/// The exact form.
#[derive(Debug)]
pub(crate) struct BinHeaps {
    /// Bins whose start has come, by finish.
    eligible: Heap,
    /// The other bins, by start.
    ahead: Heap,
}

impl WaitingBins for BinHeaps {
    fn new(bins: usize) -> BinHeaps {
        let [mut may, mut ahead] = [Heap::default(), Heap::default()];
        may.grow(bins);
        ahead.grow(bins);
        BinHeaps { eligible: may, ahead }
    }

    #[inline]
    fn contains(&self, _: &[Bin], bin: usize) -> bool {
        self.eligible.contains(bin) || self.ahead.contains(bin)
    }

    #[inline]
    fn insert(&mut self, bins: &mut [Bin], bin: usize, now: Virtual) {
        let Bin { start, finish, .. } = bins[bin];
        if start <= now { self.eligible.insert(finish, bin) } else { self.ahead.insert(start, bin) }
    }

    #[inline]
    fn remove(&mut self, _: &mut [Bin], bin: usize) {
        // The bin is in one of the heaps or in none. Removal of an absent bin changes nothing.
        self.eligible.remove(bin);
        self.ahead.remove(bin);
    }

    #[inline]
    fn pick(&mut self, bins: &[Bin], mut now: Virtual) -> Option<(usize, Virtual)> {
        while let Some((start, bin)) = self.ahead.first() {
            if start > now {
                // If no bin may send at V, V advances to the least start: the link is never idle while packets wait.
                if !self.eligible.is_empty() {
                    break;
                }
                now = start;
            }
            self.ahead.remove(bin);
            self.eligible.insert(bins[bin].finish, bin);
        }
        self.eligible.first().map(|(_, bin)| (bin, now))
    }

    fn clear(&mut self, _: &mut [Bin]) {
        self.eligible.clear();
        self.ahead.clear();
    }
}
