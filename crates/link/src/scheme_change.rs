//! Changes of the scheme of a link. The new scheme takes over the waiting packets, or the old one drains or drops them, or only the parameters
//! change.

use super::{Link, ShareReader};
use crate::queueing::Queueing;
use packet::DropReason;
use packet::accounting::Accounting;
use packet::event::SchemeTransition;
use packet::port::Offloads;
use plan::SchemeChange;
use schemes::Size;

impl Link {
    /// Replaces the scheme. [`Queueing::changing`] decides the fate of the waiting packets. If the new scheme is of the same kind, the present one
    /// only takes over its parameters. Returns how it was done, and the scheme that is no longer needed, with empty queues. The caller frees it,
    /// because a worker neither allocates nor frees memory here.
    pub fn replace_scheme(
        &mut self,
        mut other: Queueing,
        fates: &mut Accounting,
    ) -> (SchemeTransition, Option<Queueing>) {
        self.wires.now = fates.now;
        self.begin_version();
        if self.splits(other.scheme.as_ref()) {
            // The limits of the new scheme are for single packets: split the super-frames before it sees them.
            self.set_offloads(Offloads { super_frames: false, ..self.offloads }, fates);
        }
        let drains = self.incoming.is_some();
        if !drains && self.tune(&mut other) {
            return (SchemeTransition::Tuned, Some(other));
        }
        match other.change {
            // During a drain, packets at the oldest scheme stay there. Packets that arrived later move on to the newest one.
            SchemeChange::Drain if drains => {
                (SchemeTransition::Draining, Some(self.with_incoming(|link| link.replace_with(other, fates))))
            }
            SchemeChange::Drain if self.wires.backlog.packets > 0 => {
                self.incoming = Some(other);
                (SchemeTransition::Draining, None)
            }
            SchemeChange::Flush => {
                self.clear(DropReason::SchemeFlush, fates);
                (SchemeTransition::Flushed, Some(self.replace_with(other, fates)))
            }
            SchemeChange::Migrate | SchemeChange::Drain => {
                let old = self.replace_with(other, fates);
                let Some(mut newer) = self.incoming.take() else { return (SchemeTransition::Migrated, Some(old)) };
                // After those of the draining scheme, which arrived earlier.
                self.migrate_packets(&mut newer, fates);
                // Two schemes are no longer needed: `take_drained` returns the other one.
                self.drained = Some(old);
                (SchemeTransition::Migrated, Some(newer))
            }
        }
    }

    /// Takes over the parameters of a scheme of the same kind.
    fn tune(&mut self, other: &mut Queueing) -> bool {
        let fits = other.fits_into(&self.wires.queues);
        let like = other.scheme.tunable().filter(|_| fits);
        // A scheme that panics is drop tail by now: then the new scheme replaces that.
        let tuned =
            like.is_some_and(|like| self.call_scheme(|scheme, lines| scheme.tune(like, lines)).unwrap_or(false));
        if tuned {
            std::mem::swap(&mut self.sharing, &mut other.sharing);
            self.panic_message = None;
            self.read_scheme_needs();
        }
        tuned
    }

    /// Starts new counts, for another scheme or other parameters.
    pub(super) fn begin_version(&mut self) {
        self.version = self.version.saturating_add(1);
        self.previous_counters = self.wires.counters;
    }

    /// Puts another scheme in place of this one, with this one's packets. Returns the old scheme with empty queues.
    fn replace_with(&mut self, mut other: Queueing, fates: &mut Accounting) -> Queueing {
        // Both have a single queue of the same capacity: the packets stay in it, and the new scheme only counts them.
        if other.may_keep(&self.wires.queues) {
            // With a single queue departures are recorded at once, so none is pending when the statistics are swapped.
            std::mem::swap(&mut self.scheme, &mut other.scheme);
            std::mem::swap(&mut self.sharing, &mut other.sharing);
            std::mem::swap(&mut self.wires.stats, &mut other.stats);
            std::mem::swap(&mut self.wires.shares, &mut other.shares);
            std::mem::swap(&mut self.panic_message, &mut other.panic_message);
            other.stats.drain_into(&mut self.other_packets);
            self.read_scheme_needs();
            self.call_with_fallback(|scheme, lines| scheme.recount(lines));
        } else {
            self.swap_scheme(&mut other);
            self.migrate_packets(&mut other, fates);
        }
        other
    }

    /// Passes packets from other queues to the scheme as arrivals, in the order in which the router received them.
    fn migrate_packets(&mut self, from: &mut Queueing, fates: &mut Accounting) {
        // In order of arrival over all queues, no flow is reordered.
        from.queues.sort();
        loop {
            // Draining an empty batch resets it to its full capacity.
            drop(self.wires.offered.drain());
            while self.wires.offered.room() > 0
                && let Some(packet) = from.queues.pop_oldest()
            {
                self.wires.offered.push(packet);
            }
            if self.wires.offered.is_empty() {
                break;
            }
            self.arrive();
            self.settle(fates);
        }
        from.backlog = Size::default();
        from.stats.drain_into(&mut self.other_packets);
    }

    /// Swaps scheme and queues with those of another.
    pub(super) fn swap_scheme(&mut self, other: &mut Queueing) {
        // Before the swap: these departures belong to the statistics of the old scheme.
        self.wires.record_departures();
        std::mem::swap(&mut self.scheme, &mut other.scheme);
        std::mem::swap(&mut self.sharing, &mut other.sharing);
        std::mem::swap(&mut self.wires.queues, &mut other.queues);
        std::mem::swap(&mut self.wires.backlog, &mut other.backlog);
        std::mem::swap(&mut self.wires.stats, &mut other.stats);
        std::mem::swap(&mut self.wires.shares, &mut other.shares);
        std::mem::swap(&mut self.panic_message, &mut other.panic_message);
        self.read_scheme_needs();
    }

    /// Calls `act` on the scheme that receives new packets.
    #[cold]
    pub(super) fn with_incoming<T>(&mut self, act: impl FnOnce(&mut Link) -> T) -> T {
        let Some(mut other) = self.incoming.take() else { return act(self) };
        self.swap_scheme(&mut other);
        let done = act(self);
        self.swap_scheme(&mut other);
        self.incoming = Some(other);
        done
    }

    /// The old scheme is drained: the scheme that receives new packets becomes the only one.
    #[cold]
    pub(super) fn finish_drain(&mut self) {
        if let Some(mut other) = self.incoming.take() {
            self.swap_scheme(&mut other);
            other.stats.drain_into(&mut self.other_packets);
            self.drained = Some(other);
        }
    }

    /// A worker restarts after a failure, with empty queues. The state of the old scheme is not trusted, so it is discarded and the scheme is called
    /// no more.
    pub fn restart_empty(&mut self, mut other: Queueing) -> Queueing {
        self.begin_version();
        self.swap_scheme(&mut other);
        if self.scheme.has_shares() {
            self.wires.shares = other.shares.take().map(ShareReader::restarted);
        }
        other.stats.drain_into(&mut self.other_packets);
        self.accept(self.supported_offloads());
        other
    }

    /// Reads from the scheme which properties of packets it needs.
    pub(super) fn read_scheme_needs(&mut self) {
        // A panic of the previous scheme does not concern this one.
        self.pending_panic.take();
        self.wires.hash_key = self.scheme.wants_flow_hash().then_some(self.wires.key);
        self.wires.isolates = self.wires.hash_key.is_some() && self.wires.stats.has_flow_queues();
        self.wires.needs_hosts = self.scheme.wants_hosts();
        (self.may_bypass, self.ranking) = (self.scheme.passes_when_idle(), self.scheme.ranks_classes());
    }

    /// Takes the scheme that was last drained, if there is one.
    pub fn take_drained(&mut self) -> Option<Queueing> {
        self.drained.take()
    }
}
