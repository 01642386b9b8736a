//! Surplus round robin (Adiseshu, Parulkar and Varghese, SIGCOMM 1996): each turn gives a bin a quantum. The bin sends packets as long as
//! it has credit, and its next turn owes the surplus of the last one. Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) ends a
//! turn before a packet that is too long, and has to know its length. Both are fair to a quantum and the longest packet.
//!
//! FQ-CoDel has this form (RFC 8290, section 4.2): bins that begin to send go before those that have sent already, once. A bin of weight
//! two has two quanta a turn. With a quantum of zero each packet is a turn.
//!
//! All that is known of a bin lies in its place in the round, in the order of the turns, and not by its number: however many bins
//! there are, the next ones are in the cache line of this one. By number is known only which round a bin is in.

use super::round::{Round, Turn};
use super::{Order, Soon};
use crate::{Record, Wires};
use alloc::vec::Vec;

/// Where a bin waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seat {
    Nowhere,
    /// In the round of those that begin to send.
    New,
    Old,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Deficit {
    /// Bytes of a turn.
    quantum: u32,
    /// By bin.
    seats: Vec<Seat>,
    new: Round,
    old: Round,
    /// Whether bins that begin to send go first.
    favours_new: bool,
}

impl Deficit {
    /// So many bins with turns of so many bytes; of one packet, where that is zero. Where bins that begin to send go first all weigh the
    /// same.
    pub fn new(bins: usize, quantum: u32, favours_new: bool) -> Deficit {
        let new = Round::new(if favours_new { bins } else { 0 });
        Deficit { quantum, seats: alloc::vec![Seat::Nowhere; bins], new, old: Round::new(bins), favours_new }
    }

    /// The turn of a bin that has not sent since it was empty.
    fn first_turn(&self, bin: usize, weight: u32) -> Turn {
        let quantum = if self.favours_new { self.quantum } else { self.quantum.saturating_mul(weight) };
        Turn { bin: bin as u32, quantum, credit: quantum.into() }
    }

    /// Puts a bin at the end of the round of those that have sent already.
    #[inline]
    fn enter_old(&mut self, turn: Turn) {
        self.seats[turn.bin as usize] = Seat::Old;
        self.old.push(turn);
    }

    /// The bin whose turn it is among those that begin to send. Nothing where its turn is over: it is an old one then.
    #[inline(never)]
    fn pick_new(&mut self) -> Option<usize> {
        let turn = *self.new.first()?;
        if turn.goes_on() {
            return Some(turn.bin as usize);
        }
        self.new.pop();
        self.enter_old(turn.next());
        None
    }

    /// A bin that has nothing leaves its round: for the other one, where it was new.
    fn leave(&mut self, bin: usize) {
        match core::mem::replace(&mut self.seats[bin], Seat::Nowhere) {
            Seat::Nowhere => {}
            Seat::Old => {
                self.old.remove(bin);
            }
            Seat::New => {
                // One that is not the first has not had its turn yet.
                let turn = self.new.remove(bin).unwrap_or_else(|| self.first_turn(bin, 1));
                self.enter_old(turn);
            }
        }
    }
}

impl Order for Deficit {
    #[inline]
    fn wake(&mut self, bin: usize, weight: u32, _: &Record) {
        // Else it had run empty, and its turn has not come since: it keeps its place and its credit.
        if self.seats[bin] == Seat::Nowhere {
            let turn = self.first_turn(bin, weight);
            if self.favours_new {
                self.seats[bin] = Seat::New;
                self.new.push(turn);
            } else {
                self.enter_old(turn);
            }
        }
    }

    #[inline(always)]
    fn pick(&mut self) -> Option<usize> {
        loop {
            if self.new.len() > 0 {
                if let Some(bin) = self.pick_new() {
                    return Some(bin);
                }
                continue;
            }
            let turn = *self.old.first()?;
            if turn.goes_on() {
                return Some(turn.bin as usize);
            }
            self.old.again(turn.next());
        }
    }

    #[inline(always)]
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
        // RFC 8290, section 4.2: whether it is empty is found when its turn comes; a packet that comes before finds its place kept. A
        // new one then goes behind the old ones first: else it could be new again and again.
        if length > 0 && self.favours_new {
            return self.sent(bin, length, 0);
        }
        self.leave(bin);
    }

    fn tune(&mut self, other: &Deficit) -> Option<bool> {
        let kind = |order: &Deficit| (order.favours_new, order.quantum == 0);
        let like = kind(self) == kind(other);
        like.then(|| core::mem::replace(&mut self.quantum, other.quantum) != other.quantum)
    }

    fn clear(&mut self) {
        self.seats.fill(Seat::Nowhere);
        self.new.clear();
        self.old.clear();
    }

    #[inline(always)]
    fn look_ahead<W: Wires>(&mut self, soon: &Soon<'_, W>) {
        self.old.look_ahead(soon);
        if self.new.len() > 0 {
            self.new.look_ahead(soon);
        }
    }
}
