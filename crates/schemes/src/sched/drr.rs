//! Surplus round robin (Adiseshu, Parulkar and Varghese, SIGCOMM 1996): each turn gives a bin a quantum of credit. The bin sends packets while it has
//! credit, and its next turn owes the surplus of the last packet. Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) ends a turn before a
//! packet that is too long, and must know its length. Both are fair to within a quantum and the longest packet.
//!
//! FQ-CoDel uses this form (RFC 8290, section 4.2). Bins that start to send precede those that have already sent, for one turn. A bin of weight two
//! gets two quanta a turn. With a quantum of zero each packet is a turn.
//!
//! The state of a bin is stored in its slot of the round, in the order of the turns, not by its number. With any number of bins the next ones are
//! therefore in the same cache line. Only the membership in a round is stored by number.

use super::drr_ring::{DrrRing, DrrTurn};
use super::{BinOrder, BinPrefetch};
use crate::{Record, Wires};
use alloc::vec::Vec;

/// The round in which a bin waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RoundPosition {
    Nowhere,
    /// The round of bins that start to send.
    New,
    Old,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct DrrOrder {
    /// The bytes of a turn.
    quantum: u32,
    /// By bin.
    positions: Vec<RoundPosition>,
    new: DrrRing,
    old: DrrRing,
    /// True if bins that start to send go first.
    favours_new: bool,
}

impl DrrOrder {
    /// `bins` bins with turns of `quantum` bytes; if it is zero, a turn is one packet. With `favours_new` all bins have the same weight.
    pub fn new(bins: usize, quantum: u32, favours_new: bool) -> DrrOrder {
        let new = DrrRing::new(if favours_new { bins } else { 0 });
        DrrOrder {
            quantum,
            positions: alloc::vec![RoundPosition::Nowhere; bins],
            new,
            old: DrrRing::new(bins),
            favours_new,
        }
    }

    /// The turn of a bin that was empty.
    fn first_turn(&self, bin: usize, weight: u32) -> DrrTurn {
        // FQ-CoDel has no weights (RFC 8290).
        let quantum = if self.favours_new { self.quantum } else { self.quantum.saturating_mul(weight) };
        DrrTurn { bin: bin as u32, quantum, credit: quantum.into() }
    }

    /// Appends a bin to the round of those that have already sent.
    #[inline]
    fn enter_old(&mut self, turn: DrrTurn) {
        self.positions[turn.bin as usize] = RoundPosition::Old;
        self.old.push(turn);
    }

    /// The next bin of those that start to send. If its turn is over it moves to the old round, and the result is none.
    #[inline(never)]
    fn pick_new(&mut self) -> Option<usize> {
        let turn = *self.new.first()?;
        if turn.has_credit() {
            return Some(turn.bin as usize);
        }
        self.new.pop();
        self.enter_old(turn.next());
        None
    }

    /// Removes an empty bin from its round. A new one moves to the old round.
    fn leave(&mut self, bin: usize) {
        match core::mem::replace(&mut self.positions[bin], RoundPosition::Nowhere) {
            RoundPosition::Nowhere => {}
            RoundPosition::Old => {
                // Credit and debt are lost, as deficit round robin resets the deficit counter of an empty queue.
                self.old.remove(bin);
            }
            RoundPosition::New => {
                // A bin behind the first has not had its turn yet.
                let turn = self.new.remove(bin).unwrap_or_else(|| self.first_turn(bin, 1));
                self.enter_old(turn);
            }
        }
    }
}

impl BinOrder for DrrOrder {
    #[inline]
    fn wake(&mut self, bin: usize, weight: u32, _: &Record) {
        // Otherwise the bin became empty, and its turn has not come since: it keeps its slot and credit.
        if self.positions[bin] == RoundPosition::Nowhere {
            let turn = self.first_turn(bin, weight);
            if self.favours_new {
                self.positions[bin] = RoundPosition::New;
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
            if turn.has_credit() {
                return Some(turn.bin as usize);
            }
            // The turn is over: to the end of the round, with another quantum.
            self.old.requeue(turn.next());
        }
    }

    #[inline(always)]
    fn sent(&mut self, bin: usize, length: u32, _: u32) {
        // The picked bin is the first of its round.
        let first = if self.new.len() > 0 { self.new.first() } else { self.old.first() };
        if let Some(turn) = first {
            debug_assert_eq!(turn.bin as usize, bin, "only the bin that has its turn sends");
            turn.credit -= i64::from(length);
        }
    }

    #[inline]
    fn empty(&mut self, bin: usize, length: u32) {
        // RFC 8290, section 4.2: an empty bin is only detected at its turn, so a packet that arrives before finds the slot kept. A new bin then moves
        // behind the old ones: otherwise it could become new again and again.
        if length > 0 && self.favours_new {
            return self.sent(bin, length, 0);
        }
        self.leave(bin);
    }

    fn tune(&mut self, other: &DrrOrder) -> Option<bool> {
        // With a quantum of zero the credit has another meaning.
        let kind = |order: &DrrOrder| (order.favours_new, order.quantum == 0);
        let like = kind(self) == kind(other);
        like.then(|| core::mem::replace(&mut self.quantum, other.quantum) != other.quantum)
    }

    fn clear(&mut self) {
        self.positions.fill(RoundPosition::Nowhere);
        self.new.clear();
        self.old.clear();
    }

    #[inline(always)]
    fn look_ahead<W: Wires>(&mut self, soon: &BinPrefetch<'_, W>) {
        self.old.look_ahead(soon);
        if self.new.len() > 0 {
            self.new.look_ahead(soon);
        }
    }
}
