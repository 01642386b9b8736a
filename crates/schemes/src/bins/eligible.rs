//! Worst-case fair weighted fair queueing: of the bins whose turn has begun in an ideal division, the one leaves whose packet is to
//! be through first (WF2Q+: Bennett and Zhang, IEEE/ACM Transactions on Networking 5(5), 1997). So nobody is ahead of its share
//! by more than a packet, as it may be with [`Finish`](super::Finish).
//!
//! With weights that add up to W a bin of weight w has a start S and, L being the length of its first packet, a finish S + L/w; a
//! packet sent moves S on by L/w and the virtual time V by L/W. V is never before the least start of those that wait.
//!
//! Two heaps below a thousand bins: those that may send by their finish, the others by their start. It is what the
//! [groups](super::groups) for more of them are tried against.
//!
//! **The bound.** The work of a bin that waits is never further behind its share of what the link sends than its longest packet
//! and, times its share, the longest of all (theorem 4 there).

use super::list::{Link, Linked};
use super::virtual_time::{Clock, EPOCH, Slope, Virtual};
use super::{Order, Soon};
use crate::{Record, Wires};
use alloc::vec::Vec;
use units::Heap;

/// The slot of a bin that is nowhere.
pub(super) const NOWHERE: u16 = u16::MAX;

/// A bin's tags, and where it waits: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Bin {
    /// Where its first packet begins; where its last one ended if it has none.
    pub start: Virtual,
    /// Where that ends.
    pub finish: Virtual,
    slope: Slope,
    /// Up to that of [`Weights`](super::Weights).
    weight: u16,
    /// For who has lists: which of them it is in, and who are its neighbours there.
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

/// The bins that have something.
pub(crate) trait Waiting: core::fmt::Debug + Send {
    fn new(bins: usize) -> Self;
    fn contains(&self, bins: &[Bin], bin: usize) -> bool;
    /// A bin that is not there.
    fn insert(&mut self, bins: &mut [Bin], bin: usize, now: Virtual);
    /// A bin that is.
    fn remove(&mut self, bins: &mut [Bin], bin: usize);
    /// Whose turn it is, and what the time is then.
    fn pick(&mut self, bins: &[Bin], now: Virtual) -> Option<(usize, Virtual)>;
    /// All of them leave.
    fn clear(&mut self, bins: &mut [Bin]);
    /// The bin that is next so many turns after `bin`, which has its turn, as far as that is known.
    fn later(&self, bins: &[Bin], bin: usize, turns: usize) -> Option<usize> {
        let _ = (bins, bin, turns);
        None
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Eligible<T> {
    bins: Vec<Bin>,
    waiting: T,
    /// How many wait.
    count: usize,
    clock: Clock,
    latest: Virtual,
    /// Whose turn it was last.
    picked: usize,
}

/// With few bins.
pub(crate) type Exact = Eligible<Heaps>;

impl<T: Waiting> Eligible<T> {
    /// So many bins, all empty.
    pub fn new(bins: usize) -> Eligible<T> {
        let bin = Bin { start: 0, finish: 0, slope: Slope::of(1), weight: 1, slot: NOWHERE, link: Link::NONE };
        let waiting = T::new(bins);
        Eligible { bins: alloc::vec![bin; bins], waiting, count: 0, clock: Clock::default(), latest: 0, picked: 0 }
    }

    #[inline]
    fn put(&mut self, bin: usize, length: u32) {
        let tags = &mut self.bins[bin];
        tags.finish = tags.start + tags.slope.span(length);
        self.waiting.insert(&mut self.bins, bin, self.clock.now());
    }

    /// A packet of the bin was sent.
    #[inline]
    fn go_on(&mut self, bin: usize, length: u32) {
        self.clock.advance(length);
        let Bin { start, slope, .. } = &mut self.bins[bin];
        *start += slope.span(length);
        self.latest = self.latest.max(*start);
    }

    /// All tags are set back. Those that wait are put in again, for it is they that know where they are.
    #[cold]
    fn set_back(&mut self) {
        self.clock.set_back();
        self.latest = self.latest.saturating_sub(EPOCH);
        for bin in 0..self.bins.len() {
            let waits = self.waiting.contains(&self.bins, bin);
            self.waiting.remove(&mut self.bins, bin);
            let Bin { start, finish, .. } = &mut self.bins[bin];
            *start = start.saturating_sub(EPOCH);
            *finish = if waits { *finish - EPOCH } else { *start };
        }
        // A packet ends behind where it begins.
        for bin in 0..self.bins.len() {
            if self.bins[bin].finish > self.bins[bin].start {
                self.waiting.insert(&mut self.bins, bin, self.clock.now());
            }
        }
    }
}

impl<T: Waiting> Order for Eligible<T> {
    const LOOKS: bool = true;

    #[inline]
    fn wake(&mut self, bin: usize, weight: u32, packet: &Record) {
        if self.waiting.contains(&self.bins, bin) {
            return;
        }
        let Bin { start, .. } = self.bins[bin];
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
        self.clock.reach(time);
        self.picked = bin;
        Some(bin)
    }

    #[inline]
    fn sent(&mut self, bin: usize, length: u32, next: u32) {
        self.go_on(bin, length);
        self.waiting.remove(&mut self.bins, bin);
        self.put(bin, next);
        if self.clock.is_over() {
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
        if self.count == 0 {
            self.clock.rest(self.latest);
        }
    }

    /// Not far: who is next is known from bin to bin, each of which has to be there to say it.
    #[inline]
    fn look_ahead<W: Wires>(&mut self, soon: &Soon<'_, W>) {
        let later = |turns| self.waiting.later(&self.bins, self.picked, turns);
        if let Some(bin) = later(2) {
            soon.bin(bin);
            soon.fetch(&self.bins[bin]);
        }
        if soon.looks()
            && let Some(bin) = later(1)
        {
            soon.head(bin, 0);
        }
    }

    #[inline]
    fn fetch<W: Wires>(&self, bin: usize, wires: &W) {
        wires.fetch(&self.bins[bin]);
    }

    fn clear(&mut self) {
        self.waiting.clear(&mut self.bins);
        self.count = 0;
        self.clock.rest(self.latest);
    }
}

/// The exact form.
#[derive(Debug)]
pub(crate) struct Heaps {
    /// Those whose start has come, by their finish.
    may: Heap,
    /// The others, by their start.
    ahead: Heap,
}

impl Waiting for Heaps {
    fn new(bins: usize) -> Heaps {
        let [mut may, mut ahead] = [Heap::default(), Heap::default()];
        may.grow(bins);
        ahead.grow(bins);
        Heaps { may, ahead }
    }

    #[inline]
    fn contains(&self, _: &[Bin], bin: usize) -> bool {
        self.may.contains(bin) || self.ahead.contains(bin)
    }

    #[inline]
    fn insert(&mut self, bins: &mut [Bin], bin: usize, now: Virtual) {
        let Bin { start, finish, .. } = bins[bin];
        if start <= now { self.may.insert(finish, bin) } else { self.ahead.insert(start, bin) }
    }

    #[inline]
    fn remove(&mut self, _: &mut [Bin], bin: usize) {
        self.may.remove(bin);
        self.ahead.remove(bin);
    }

    #[inline]
    fn pick(&mut self, bins: &[Bin], mut now: Virtual) -> Option<(usize, Virtual)> {
        while let Some((start, bin)) = self.ahead.first() {
            if start > now {
                if !self.may.is_empty() {
                    break;
                }
                now = start;
            }
            self.ahead.remove(bin);
            self.may.insert(bins[bin].finish, bin);
        }
        self.may.first().map(|(_, bin)| (bin, now))
    }

    fn clear(&mut self, _: &mut [Bin]) {
        self.may.clear();
        self.ahead.clear();
    }
}
