//! Changes of the scheme of a link. The new scheme takes over the waiting packets, or the old one drains or drops them, or only the parameters
//! change.

use super::Link;
use crate::queueing::Queueing;
use packet::DropReason;
use packet::accounting::Accounting;
use packet::event::Way;
use packet::port::Offloads;
use plan::SchemeChange;
use schemes::Size;

impl Link {
    /// Replaces the scheme. [`Queueing::changing`] decides the fate of the waiting packets. If the new scheme is of the same kind, the present one
    /// only takes over its parameters. Returns how it was done, and the scheme that is no longer needed, with empty queues. The caller frees it,
    /// because a worker neither allocates nor frees memory here.
    pub fn replace_scheme(&mut self, mut other: Queueing, fates: &mut Accounting) -> (Way, Option<Queueing>) {
        self.lines.now = fates.now;
        self.begin_version();
        if self.splits(other.scheme.as_ref()) {
            // The limits of the new scheme are for single packets: split the super-frames before it sees them.
            self.fit(Offloads { super_frames: false, ..self.offloads }, fates);
        }
        let drains = self.incoming.is_some();
        if !drains && self.tune(&mut other) {
            return (Way::Tuned, Some(other));
        }
        match other.change {
            // During a drain, packets at the oldest scheme stay there. Packets that arrived later move on to the newest one.
            SchemeChange::Drain if drains => (Way::Draining, Some(self.aside(|link| link.succeed_with(other, fates)))),
            SchemeChange::Drain if self.lines.backlog.packets > 0 => {
                self.incoming = Some(other);
                (Way::Draining, None)
            }
            SchemeChange::Flush => {
                self.clear(DropReason::SchemeFlush, fates);
                (Way::Flushed, Some(self.succeed_with(other, fates)))
            }
            SchemeChange::Migrate | SchemeChange::Drain => {
                let old = self.succeed_with(other, fates);
                let Some(mut newer) = self.incoming.take() else { return (Way::Migrated, Some(old)) };
                self.take_in(&mut newer, fates);
                self.drained = Some(old);
                (Way::Migrated, Some(newer))
            }
        }
    }

    /// Takes over the parameters of a scheme of the same kind.
    fn tune(&mut self, other: &mut Queueing) -> bool {
        let fits = other.fits_into(&self.lines.queues);
        let like = other.scheme.tunable().filter(|_| fits);
        let tuned = like.is_some_and(|like| self.ask(|scheme, lines| scheme.tune(like, lines)).unwrap_or(false));
        if tuned {
            std::mem::swap(&mut self.sharing, &mut other.sharing);
            self.put_aside = None;
            self.ask_scheme();
        }
        tuned
    }

    /// Starts new counts, for another scheme or other parameters.
    pub(super) fn begin_version(&mut self) {
        self.version = self.version.saturating_add(1);
        self.before = self.lines.counters;
    }

    /// Puts another scheme in place of this one, with this one's packets. Returns the old scheme with empty queues.
    fn succeed_with(&mut self, mut other: Queueing, fates: &mut Accounting) -> Queueing {
        // Both have a single queue of the same capacity: the packets stay in it, and the new scheme only counts them.
        if other.may_keep(&self.lines.queues) {
            std::mem::swap(&mut self.scheme, &mut other.scheme);
            std::mem::swap(&mut self.sharing, &mut other.sharing);
            std::mem::swap(&mut self.lines.books, &mut other.books);
            std::mem::swap(&mut self.put_aside, &mut other.put_aside);
            other.books.close(&mut self.others);
            self.ask_scheme();
            self.insist(|scheme, lines| scheme.recount(lines));
        } else {
            self.exchange(&mut other);
            self.take_in(&mut other, fates);
        }
        other
    }

    /// Passes packets from other queues to the scheme as arrivals, in the order in which the router received them.
    fn take_in(&mut self, from: &mut Queueing, fates: &mut Accounting) {
        // In order of arrival over all queues, no flow is reordered.
        from.queues.sort();
        loop {
            // Draining an empty batch resets it to its full capacity.
            drop(self.lines.offered.drain());
            while self.lines.offered.room() > 0
                && let Some(packet) = from.queues.pop_oldest()
            {
                self.lines.offered.push(packet);
            }
            if self.lines.offered.is_empty() {
                break;
            }
            self.arrive();
            self.settle(fates);
        }
        from.backlog = Size::default();
        from.books.close(&mut self.others);
    }

    /// Swaps scheme and queues with those of another.
    pub(super) fn exchange(&mut self, other: &mut Queueing) {
        self.lines.enter();
        std::mem::swap(&mut self.scheme, &mut other.scheme);
        std::mem::swap(&mut self.sharing, &mut other.sharing);
        std::mem::swap(&mut self.lines.queues, &mut other.queues);
        std::mem::swap(&mut self.lines.backlog, &mut other.backlog);
        std::mem::swap(&mut self.lines.books, &mut other.books);
        std::mem::swap(&mut self.put_aside, &mut other.put_aside);
        self.ask_scheme();
    }

    /// Calls `act` on the scheme that receives new packets.
    #[cold]
    pub(super) fn aside<T>(&mut self, act: impl FnOnce(&mut Link) -> T) -> T {
        let Some(mut other) = self.incoming.take() else { return act(self) };
        self.exchange(&mut other);
        let done = act(self);
        self.exchange(&mut other);
        self.incoming = Some(other);
        done
    }

    /// The old scheme is drained: the scheme that receives new packets becomes the only one.
    #[cold]
    pub(super) fn succeed(&mut self) {
        if let Some(mut other) = self.incoming.take() {
            self.exchange(&mut other);
            other.books.close(&mut self.others);
            self.drained = Some(other);
        }
    }

    /// A worker restarts after a failure, with empty queues. The state of the old scheme is not trusted, so it is discarded and the scheme is called
    /// no more.
    pub fn begin_anew(&mut self, mut other: Queueing) -> Queueing {
        self.begin_version();
        self.exchange(&mut other);
        other.books.close(&mut self.others);
        self.accept(self.takes());
        other
    }

    /// Reads from the scheme which properties of packets it needs.
    pub(super) fn ask_scheme(&mut self) {
        // A panic of the previous scheme does not concern this one.
        self.amiss.take();
        self.lines.hash_key = self.scheme.wants_flow_hash().then_some(self.lines.key);
        self.lines.isolates = self.lines.hash_key.is_some() && self.lines.books.isolates();
        self.lines.hosts = self.scheme.wants_hosts();
        (self.passing, self.ranking) = (self.scheme.passes_when_idle(), self.scheme.ranks_classes());
    }

    /// Takes the scheme that was last drained, if there is one.
    pub fn take_drained(&mut self) -> Option<Queueing> {
        self.drained.take()
    }
}
