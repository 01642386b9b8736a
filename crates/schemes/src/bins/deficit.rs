//! Deficit round robin: a bin that has its turn sends as many bytes as its quantum allows, and what it could not use of it counts
//! the next time (Shreedhar and Varghese, SIGCOMM 1995). One of weight two has two quanta a turn. Bins that begin to send go before
//! those that have sent already, once (RFC 8290, section 4.2). With a quantum of zero each packet is a turn.
//!
//! All that is known of a bin lies in its place in the round, in the order of the turns, and not by its number: however many bins
//! there are, the next ones are in the cache line of this one.

use super::Order;
use super::round::{Round, Turn};
use crate::{Record, Wires};
use alloc::vec::Vec;

/// In no round.
const NOWHERE: u32 = u32::MAX;
/// In the round of those that begin to send; where in it are the other bits.
const NEW: u32 = 1 << 31;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Deficit {
    /// Bytes of a turn.
    quantum: u32,
    /// By bin: where it waits for its turn.
    places: Vec<u32>,
    new: Round,
    old: Round,
    /// Whether bins that begin to send go first.
    favours_new: bool,
}

impl Deficit {
    /// So many bins with turns of so many bytes; of one packet, where that is zero.
    pub fn new(bins: usize, quantum: u32, favours_new: bool) -> Deficit {
        let new = Round::new(if favours_new { bins } else { 0 });
        Deficit { quantum, places: alloc::vec![NOWHERE; bins], new, old: Round::new(bins), favours_new }
    }

    /// Takes a bin out of its round.
    fn leave(&mut self, bin: usize) -> Option<(Turn, bool)> {
        let place = core::mem::replace(&mut self.places[bin], NOWHERE);
        if place == NOWHERE {
            return None;
        }
        let is_new = place & NEW != 0;
        let round = if is_new { &mut self.new } else { &mut self.old };
        Some((round.remove(place & !NEW), is_new))
    }

    /// Puts a bin at the end of the round of those that have sent already.
    #[inline]
    fn enter_old(&mut self, turn: Turn) {
        if self.old.is_full() {
            let places = &mut self.places;
            self.old.close_up(|bin, place| places[bin as usize] = place);
        }
        self.places[turn.bin as usize] = self.old.push(turn);
    }

    fn enter_new(&mut self, turn: Turn) {
        if self.new.is_full() {
            let places = &mut self.places;
            self.new.close_up(|bin, place| places[bin as usize] = place | NEW);
        }
        self.places[turn.bin as usize] = self.new.push(turn) | NEW;
    }
}

impl Order for Deficit {
    #[inline]
    fn wake(&mut self, bin: usize, weight: u32, _: &Record) {
        // Else it had run empty, and its turn has not come since: it keeps its place and its credit.
        if self.places[bin] == NOWHERE {
            let quantum = self.quantum.saturating_mul(weight);
            let turn = Turn { bin: bin as u32, quantum, credit: quantum.into() };
            if self.favours_new { self.enter_new(turn) } else { self.enter_old(turn) }
        }
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        loop {
            let round = if self.new.len() > 0 { &mut self.new } else { &mut self.old };
            let &mut Turn { bin, quantum, credit } = round.first()?;
            if credit > 0 || quantum == 0 && credit == 0 {
                return Some(bin as usize);
            }
            // A turn is over; as many quanta as it takes to have credit again are given at once in the turns to come.
            let credit = if quantum == 0 { 0 } else { credit + i64::from(quantum) };
            round.pop();
            self.enter_old(Turn { bin, quantum, credit });
        }
    }

    #[inline]
    fn sent(&mut self, bin: usize, length: u32, _: u32) {
        // The bin that was picked is the first of its round.
        let first = if self.new.len() > 0 { self.new.first() } else { self.old.first() };
        if let Some(turn) = first {
            debug_assert_eq!(turn.bin as usize, bin, "only the bin that has its turn sends");
            turn.credit -= i64::from(length);
        }
    }

    #[inline]
    fn empty(&mut self, bin: usize, length: u32) {
        if length > 0 {
            self.sent(bin, length, 0);
            // RFC 8290, section 4.2: whether it is empty is found when its turn comes; a packet that comes before finds its place kept. A
            // new one then goes behind the old ones first: else it could be new again and again.
            if self.favours_new {
                return;
            }
        }
        if let Some((turn, true)) = self.leave(bin) {
            self.enter_old(turn);
        }
    }

    fn tune(&mut self, other: &Deficit) -> Option<bool> {
        let kind = |order: &Deficit| (order.favours_new, order.quantum == 0);
        let like = kind(self) == kind(other);
        like.then(|| core::mem::replace(&mut self.quantum, other.quantum) != other.quantum)
    }

    fn clear(&mut self) {
        self.places.fill(NOWHERE);
        self.new.clear();
        self.old.clear();
    }

    #[inline]
    fn later(&self, turns: usize) -> Option<(usize, u32)> {
        let new = self.new.len();
        let turn = if turns < new { self.new.behind(turns) } else { self.old.behind(turns - new) };
        turn.map(|turn| (turn.bin as usize, u32::try_from(turn.credit).unwrap_or(0)))
    }

    #[inline]
    fn fetch<W: Wires>(&self, bin: usize, wires: &W) {
        wires.fetch(&self.places[bin]);
    }

    #[inline]
    fn fetch_later<W: Wires>(&self, wires: &W) {
        self.old.fetch(wires);
    }
}
