//! The ledger of one worker: every packet has one fate.

use crate::{DropReason, Packet, Pool, Shared};
use std::fmt;

/// What became of every packet of one worker, in packets since it started.
///
/// The law: `received + generated + taken_over = sent + consumed + dropped + handed_over + held`, where `held` is
/// counted independently, by frames that have left the worker's pool. A packet of which copies are made is consumed, and
/// each copy is generated; both are counted besides ([`Ledger::replicated`], [`Ledger::copies`]). Every method is O(1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    received: u64,
    generated: u64,
    taken_over: u64,
    sent: u64,
    consumed: u64,
    dropped: u64,
    handed_over: u64,
    replicated: u64,
    copies: u64,
    reasons: [u64; DropReason::COUNT],
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            received: 0,
            generated: 0,
            taken_over: 0,
            sent: 0,
            consumed: 0,
            dropped: 0,
            handed_over: 0,
            replicated: 0,
            copies: 0,
            reasons: [0; DropReason::COUNT],
        }
    }
}

impl Ledger {
    /// Packets came in by a port.
    pub fn receive(&mut self, packets: u64) {
        self.received += packets;
    }

    /// The router made packets of its own.
    pub fn generate(&mut self, packets: u64) {
        self.generated += packets;
    }

    /// A copy was made of a packet.
    pub fn copy(&mut self) {
        self.generated += 1;
        self.copies += 1;
    }

    /// A copy was to be made of a packet, and could not be.
    pub fn miss_copy(&mut self, reason: DropReason) {
        self.copy();
        self.dropped += 1;
        self.reasons[reason.index()] += 1;
    }

    /// All copies of a packet are made: it is consumed.
    pub fn replicate(&mut self, shared: Shared, pool: &mut Pool) {
        self.consumed += 1;
        self.replicated += 1;
        pool.give_shared(shared);
    }

    /// Packets went out by a port.
    pub fn send(&mut self, packets: u64) {
        self.sent += packets;
    }

    /// Packets that were counted as sent were refused by the medium: they are dropped.
    pub fn unsend(&mut self, packets: u64, reason: DropReason) {
        self.sent -= packets;
        self.dropped += packets;
        self.reasons[reason.index()] += packets;
    }

    /// Packets that were counted as sent still wait in a port: in this copy of the ledger they are held.
    pub fn withhold(&mut self, packets: u64) {
        self.sent -= packets;
    }

    /// Packets went to another worker.
    pub fn hand_over(&mut self, packets: u64) {
        self.handed_over += packets;
    }

    /// Packets came from another worker.
    pub fn take_over(&mut self, packets: u64) {
        self.taken_over += packets;
    }

    /// A packet was for the router itself and has done its work.
    #[inline]
    pub fn consume(&mut self, packet: Packet, pool: &mut Pool) {
        self.consumed += 1;
        pool.give(packet);
    }

    /// A packet goes no further.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason, pool: &mut Pool) {
        self.dropped += 1;
        self.reasons[reason.index()] += 1;
        pool.give(packet);
    }

    /// Packets go no further, and nobody knows when their frames come home: whoever has them does not give them back.
    pub fn forsake(&mut self, packets: u64, reason: DropReason, pool: &mut Pool) {
        self.dropped += packets;
        self.reasons[reason.index()] += packets;
        pool.export(packets as usize);
    }

    /// Packets that this worker had handed over, and that nobody will ever take over. Their frames are not this worker's.
    pub fn lose(&mut self, packets: u64, reason: DropReason) {
        self.taken_over += packets;
        self.dropped += packets;
        self.reasons[reason.index()] += packets;
    }

    /// Everything that has met no fate is dropped, for the worker has lost track of it: its pool is
    /// [abandoned](Pool::abandon). Answers how many packets. Where more have met one than came, the sums were wrong, and so
    /// many are counted as generated.
    pub fn settle(&mut self, reason: DropReason) -> u64 {
        let held = self.held() as i64;
        let lost = held.max(0) as u64;
        self.dropped += lost;
        self.reasons[reason.index()] += lost;
        self.generated += held.min(0).unsigned_abs();
        lost
    }

    /// Packets received.
    pub fn received(&self) -> u64 {
        self.received
    }
    /// Packets the router made.
    pub fn generated(&self) -> u64 {
        self.generated
    }
    /// Packets taken over from other workers.
    pub fn taken_over(&self) -> u64 {
        self.taken_over
    }
    /// Packets sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }
    /// Packets that were for the router itself.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }
    /// Packets of which copies were made: of those consumed.
    pub fn replicated(&self) -> u64 {
        self.replicated
    }
    /// Copies of packets: of those generated.
    pub fn copies(&self) -> u64 {
        self.copies
    }
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
    /// Packets handed over to other workers.
    pub fn handed_over(&self) -> u64 {
        self.handed_over
    }
    /// Packets dropped for one reason.
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.reasons[reason.index()]
    }
    /// The reasons that have happened, with their counts.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.reasons[r.index()])).filter(|&(_, n)| n > 0)
    }

    /// Packets that came and have met no fate yet, by this ledger alone.
    #[inline]
    pub fn held(&self) -> u64 {
        let came = self.received + self.generated + self.taken_over;
        came.wrapping_sub(self.sent + self.consumed + self.dropped + self.handed_over)
    }

    /// Checks the law against `held`, counted elsewhere.
    #[inline]
    pub fn check(&self, held: u64) -> Result<(), Unbalanced> {
        if self.held() == held { Ok(()) } else { Err(Unbalanced { ledger: Box::new(self.clone()), held }) }
    }
}

/// A ledger that does not add up: a packet was lost or counted twice.
#[derive(Clone, Debug)]
pub struct Unbalanced {
    ledger: Box<Ledger>,
    held: u64,
}

impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let l = &self.ledger;
        write!(
            f,
            "the packet ledger does not balance: received {} + generated {} + taken over {} != sent {} + consumed {} + \
             dropped {} + handed over {} + held {}",
            l.received, l.generated, l.taken_over, l.sent, l.consumed, l.dropped, l.handed_over, self.held
        )
    }
}

impl std::error::Error for Unbalanced {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[test]
    fn a_ledger_is_settled_whichever_way_it_was_out_of_balance() {
        for (received, sent, lost, generated) in [(7, 4, 3, 0), (4, 7, 0, 3), (5, 5, 0, 0)] {
            let mut ledger = Ledger::default();
            ledger.receive(received);
            ledger.send(sent);
            assert_eq!(ledger.settle(DropReason::WorkerFailed), lost);
            assert_eq!(ledger.dropped_for(DropReason::WorkerFailed), lost);
            assert_eq!(ledger.generated(), generated);
            ledger.lose(2, DropReason::WorkerFailed);
            assert_eq!((ledger.dropped(), ledger.taken_over()), (lost + 2, 2));
            ledger.check(0).unwrap();
        }
    }

    #[test]
    fn copies_are_generated_and_what_they_are_copies_of_is_consumed() {
        let mut pool = Pool::new(Region::new(3));
        let mut ledger = Ledger::default();
        ledger.receive(1);
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&[1; 1000]));
        let shared = Shared::new(packet);
        let copies: Vec<Packet> = std::iter::from_fn(|| shared.copy(&mut pool)).collect();
        copies.iter().for_each(|_| ledger.copy());
        ledger.miss_copy(DropReason::PoolEmpty);
        ledger.replicate(shared, &mut pool);
        ledger.check(pool.outside()).unwrap();
        assert_eq!((ledger.replicated(), ledger.copies(), ledger.held()), (1, 3, 2));
        copies.into_iter().for_each(|copy| ledger.drop(copy, DropReason::PathQueue, &mut pool));
        ledger.check(pool.outside()).unwrap();
        assert_eq!((pool.outside(), ledger.dropped()), (0, 3));
    }

    #[test]
    fn a_forgotten_packet_is_noticed() {
        let mut pool = Pool::new(Region::new(4));
        let mut ledger = Ledger::default();
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        ledger.receive(2);
        assert!(ledger.check(pool.outside()).is_ok());
        ledger.drop(a, DropReason::NoRoute, &mut pool);
        ledger.check(pool.outside()).unwrap();
        // Given back behind the ledger's back: counted nowhere.
        pool.give(b);
        let error = ledger.check(pool.outside()).unwrap_err().to_string();
        assert!(error.contains("received 2") && error.contains("held 0"), "{error}");
    }
}
