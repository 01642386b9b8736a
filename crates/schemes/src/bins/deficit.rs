//! Deficit round robin: a bin that has its turn sends as many bytes as its quantum allows, and what it could not use of it counts
//! the next time (Shreedhar and Varghese, SIGCOMM 1995). One of weight two has two quanta a turn. Bins that begin to send go before
//! those that have sent already, once (RFC 8290, section 4.2). With a quantum of zero each packet is a turn.

use super::Order;
use super::list::{Links, List};
use crate::Record;
use alloc::vec::Vec;

/// Which list a bin is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Nowhere,
    New,
    Old,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    place: Place,
    /// Bytes of its turn.
    quantum: u32,
    /// Bytes it may send before the next has its turn.
    credit: i64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Deficit {
    /// Bytes of a turn.
    quantum: u32,
    bins: Vec<Bin>,
    links: Links,
    new: List,
    old: List,
    /// Whether bins that begin to send go first.
    favours_new: bool,
}

impl Deficit {
    /// So many bins with turns of so many bytes; of one packet, where that is zero.
    pub fn new(bins: usize, quantum: u32, favours_new: bool) -> Deficit {
        let (links, bins) = (Links::new(bins), alloc::vec![Bin { place: Place::Nowhere, quantum, credit: 0 }; bins]);
        Deficit { quantum, bins, links, new: List::EMPTY, old: List::EMPTY, favours_new }
    }

    fn leave(&mut self, bin: usize) {
        match core::mem::replace(&mut self.bins[bin].place, Place::Nowhere) {
            Place::New => self.links.remove(&mut self.new, bin),
            Place::Old => self.links.remove(&mut self.old, bin),
            Place::Nowhere => {}
        }
    }

    fn enter(&mut self, bin: usize, place: Place) {
        self.bins[bin].place = place;
        let list = if place == Place::New { &mut self.new } else { &mut self.old };
        self.links.push(list, bin);
    }
}

impl Order for Deficit {
    #[inline]
    fn wake(&mut self, bin: usize, weight: u32, _: &Record) {
        match self.bins[bin].place {
            Place::Nowhere => {
                let quantum = self.quantum.saturating_mul(weight);
                (self.bins[bin].quantum, self.bins[bin].credit) = (quantum, quantum.into());
                self.enter(bin, if self.favours_new { Place::New } else { Place::Old });
            }
            // It had run empty, and its turn has not come since: it keeps its place and its credit.
            Place::New | Place::Old => {}
        }
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        loop {
            let bin = self.new.first().or_else(|| self.old.first())?;
            let quantum = i64::from(self.bins[bin].quantum);
            if self.bins[bin].credit > 0 || quantum == 0 && self.bins[bin].credit == 0 {
                return Some(bin);
            }
            // A turn is over; as many quanta as it takes to have credit again are given at once in the turns to come.
            self.bins[bin].credit = if quantum == 0 { 0 } else { self.bins[bin].credit + quantum };
            self.leave(bin);
            self.enter(bin, Place::Old);
        }
    }

    #[inline]
    fn sent(&mut self, bin: usize, length: u32, _: u32) {
        self.bins[bin].credit -= i64::from(length);
    }

    #[inline]
    fn empty(&mut self, bin: usize, length: u32) {
        self.bins[bin].credit -= i64::from(length);
        // RFC 8290, section 4.2: whether it is empty is found when its turn comes; a packet that comes before finds its place kept. A new
        // one then goes behind the old ones first: else it could be new again and again.
        if self.favours_new && length > 0 {
            return;
        }
        let was_new = self.bins[bin].place == Place::New;
        self.leave(bin);
        if was_new {
            self.enter(bin, Place::Old);
        }
    }

    fn tune(&mut self, other: &Deficit) -> Option<bool> {
        let kind = |order: &Deficit| (order.favours_new, order.quantum == 0);
        let like = kind(self) == kind(other);
        like.then(|| core::mem::replace(&mut self.quantum, other.quantum) != other.quantum)
    }

    fn clear(&mut self) {
        while let Some(bin) = self.new.first().or_else(|| self.old.first()) {
            self.leave(bin);
        }
    }
}
