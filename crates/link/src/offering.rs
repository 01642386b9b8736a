//! Packets on their way to the scheme of a link: those of a path, and those of other workers.

use super::{Link, Outgoing, share_of};
use crate::shares::ShareReader;
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::{BATCH, Batch, DropReason, Packet, Queue};
use schemes::Wires as _;

/// A port with this part of the router's frames in its queues looks whether frames are scarce.
const FEW: usize = 8;
/// The part of the frames that no full leaf may use.
const RESERVE: usize = 4;
/// The packets that a leaf may hold even if frames are scarce.
const LEAST_WAITING: usize = 2;

impl Link {
    /// Raises `Arrival` for at most `most` packets of a path's output queue. Packets that may bypass the scheme on an idle link leave with the next
    /// [`Link::serve`]: a call to a port costs the same for one packet as for many. Returns the number of packets taken.
    #[inline]
    pub fn offer(&mut self, path: Outgoing<'_>, most: usize, fates: &mut Accounting) -> usize {
        self.offer_named(path, most, fates, |_| {})
    }

    /// The same; `name` sets the shares of the packets before the scheme sees them.
    #[inline]
    pub fn offer_named(
        &mut self,
        path: Outgoing<'_>,
        most: usize,
        fates: &mut Accounting,
        name: impl FnOnce(&mut [Packet]),
    ) -> usize {
        let Outgoing { path, queue, since } = path;
        if !self.up {
            return self.drop_offered(queue, most, fates);
        }
        // On an idle link the scheme would send the packets unchanged: bypass it.
        if self.may_bypass && self.backlog().packets == 0 && self.emulation.is_none() {
            let passed = self.bypass(Outgoing { path, queue, since }, most, fates);
            if passed > 0 {
                return passed;
            }
            // The port has no room: the packets wait in the queues of the scheme.
        }
        queue.pop_into(&mut self.wires.offered, most);
        let taken = self.wires.offered.len();
        if taken == 0 {
            return 0;
        }
        name(self.wires.offered.as_mut_slice());
        // Before `arrive`: the sojourn time of a packet begins at the end of its functions.
        since.stamp_function_end(self.wires.offered.as_mut_slice());
        self.take_offered(fates)
    }

    /// Raises `Arrival` for packets that another worker has offered to its end of this port. Returns their number.
    pub fn offer_batch(&mut self, batch: &mut Batch, fates: &mut Accounting) -> usize {
        std::mem::swap(&mut self.wires.offered, batch);
        if self.up {
            return self.take_offered(fates);
        }
        let refused = self.wires.offered.len();
        self.wires.counters.offered += refused as u64;
        self.other_packets.record_drop(DropReason::PortDown, refused as u64);
        while let Some(packet) = self.wires.offered.pop_front() {
            self.drop_unqueued(packet);
        }
        self.settle(fates);
        refused
    }

    /// Drops a packet that the scheme has not seen, because the medium is down.
    fn drop_unqueued(&mut self, packet: Packet) {
        // `settle` counts it as a packet that was enqueued.
        if let Some(shares) = &self.wires.shares {
            shares.record_enqueue(share_of(&packet), self.wires.length(&packet));
        }
        self.wires.dropped.push((packet, DropReason::PortDown));
    }

    /// Passes the packets in `offered` to the scheme. Returns their number.
    #[inline(always)]
    fn take_offered(&mut self, fates: &mut Accounting) -> usize {
        let taken = self.wires.offered.len();
        if self.measures_demand {
            self.demand.add(self.wires.offered.as_slice(), |packet| self.wires.length(packet));
        }
        if fates.follows_packets() {
            self.trace_offers(self.wires.offered.as_slice(), false, fates);
        }
        self.wires.now = fates.now;
        self.refresh_shares();
        if self.emulation.is_some() {
            self.begin_service();
        }
        self.wires.counters.offered += taken as u64;
        if self.wires.shares.is_some() && self.backlog().packets as usize > fates.pool.region().frames() / FEW {
            self.bound_shares(fates);
        }
        if self.incoming.is_none() {
            self.arrive();
        } else {
            self.with_incoming(Link::arrive);
        }
        self.wires.peak_packets = self.wires.peak_packets.max(self.backlog().packets);
        self.settle(fates);
        taken
    }

    /// Drops packets of shares that hold more packets than the router has spare frames beyond a reserve. Each full leaf has its own limit, but together
    /// they could use up all frames, and the router could receive nothing. The frames are divided among the full leaves, and the reserve stays for all
    /// others: dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998).
    #[cold]
    fn bound_shares(&mut self, fates: &Accounting) {
        let Some(shares) = &self.wires.shares else { return };
        let region = fates.pool.region();
        let most = region.spare().saturating_sub(region.frames() / RESERVE).max(LEAST_WAITING) as u64;
        let exceeds = |packet: &Packet| shares.waiting(share_of(packet)) >= most;
        if !self.wires.offered.as_slice().iter().any(exceeds) {
            return;
        }
        let mut kept = Batch::new();
        for packet in self.wires.offered.drain() {
            if exceeds(&packet) {
                self.wires.dropped.push((packet, DropReason::SchemeArrival));
            } else {
                kept.push(packet);
            }
        }
        self.wires.offered = kept;
    }

    /// Raises `Arrival` for the offered packets.
    #[inline(always)]
    pub(super) fn arrive(&mut self) {
        self.call_with_fallback(|scheme, lines| scheme.arrival(lines));
        // A scheme that returns early has refused the remaining packets.
        while self.wires.arriving().is_some() {}
        if !self.wires.dropped.is_empty() {
            self.attribute_drops();
        }
    }

    /// Lets packets bypass the scheme on an idle link, if the scheme allows it. Returns the number of packets taken.
    fn bypass(&mut self, path: Outgoing<'_>, most: usize, fates: &mut Accounting) -> usize {
        // The port may have room again once it has transmitted.
        if !self.wires.out.is_empty() && self.wires.out.len() >= self.room().min(BATCH) {
            self.transmit(fates);
        }
        let before = self.wires.out.len();
        // The batch also holds earlier packets, and the port must have room for all of them.
        let most = most.min(BATCH - before).min(self.room().saturating_sub(before));
        path.queue.pop_into(&mut self.wires.out, most);
        let passing = &self.wires.out.as_slice()[before..];
        if !passing.is_empty() {
            let (others, longest) = (&mut self.other_packets, self.wires.stats.longest());
            fates.latencies.record_bypassed(path.path, passing, path.since, fates.now, |waited, packets| {
                others.sojourn.record(waited, packets);
                *longest = waited.max(*longest);
            });
            if fates.follows_packets() {
                self.trace_offers(passing, true, fates);
            }
            if self.measures_demand {
                self.demand.add(passing, |packet| self.wires.length(packet));
            }
            // `transmit` counts the packets as sent, but not their bytes: those are counted here, and `drop_returned` corrects them.
            let (packets, bytes) = (passing.len(), self.wires.bytes(passing));
            self.wires.counters.offered += packets as u64;
            self.wires.counters.passed += packets as u64;
            self.wires.counters.sent_bytes += bytes;
            return packets;
        }
        0
    }

    /// Reports to the packet tracer that the packets of `batch` were offered to this link.
    #[cold]
    fn trace_offers(&self, batch: &[Packet], passes: bool, fates: &mut Accounting) {
        let backlog = self.backlog();
        let (mut packets, mut bytes) = (backlog.packets, backlog.bytes.get());
        for packet in batch {
            fates.record_stage(packet, Stage::Offered { port: self.id, packets, bytes, bypasses_scheme: passes });
            // A packet finds those of the batch before it in the queues, unless they bypass the scheme.
            if !passes {
                (packets, bytes) = (packets + 1, bytes + self.wires.length(packet));
            }
        }
    }

    /// Drops packets for a medium that is down. Returns their number.
    #[cold]
    fn drop_offered(&mut self, path: &mut Queue, most: usize, fates: &mut Accounting) -> usize {
        let refused = path.len().min(most);
        self.wires.counters.offered += refused as u64;
        // The scheme never sees these packets, so they belong to no group of its queues.
        self.other_packets.record_drop(DropReason::PortDown, refused as u64);
        for packet in std::iter::from_fn(|| path.pop()).take(refused) {
            self.drop_unqueued(packet);
        }
        self.settle(fates);
        refused
    }

    /// Carries out changes of shares that were made since the last call, also if no packet waits.
    pub fn carry_out_shares(&mut self) {
        self.refresh_shares();
    }

    /// Carries out changes of shares that were made since the last call.
    #[inline(always)]
    pub(super) fn refresh_shares(&mut self) {
        if self.wires.shares.as_ref().is_some_and(ShareReader::is_behind) {
            self.change_shares();
        }
    }

    #[cold]
    fn change_shares(&mut self) {
        let Some(shares) = self.wires.shares.take() else { return };
        shares.catch_up(|edits| self.call_with_fallback(|scheme, wires| scheme.edit_shares(edits, wires)));
        self.wires.shares = Some(shares);
    }

    /// True if the scheme is a tree of shares, which has a single owner: packets of other workers pass it too.
    #[inline(always)]
    pub fn has_shares(&self) -> bool {
        self.wires.shares.is_some()
    }
}
