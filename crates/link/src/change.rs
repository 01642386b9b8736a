//! Another scheme on a link: it takes over what waits, drains what waits at the one before it, drops it, or only hands over its parameters.

use super::Link;
use crate::queueing::Queueing;
use packet::DropReason;
use packet::accounting::Accounting;
use packet::event::Way;
use packet::port::Offloads;
use plan::SchemeChange;
use schemes::Size;

impl Link {
    /// Another scheme decides from now on; what becomes of the packets that wait it says itself ([`Queueing::changing`]). Where it
    /// is one like this, this one takes its parameters. Answers how that was done, and the scheme that is not needed any more, with
    /// nothing in its queues, for memory is neither taken nor given back here.
    pub fn replace_scheme(&mut self, mut other: Queueing, fates: &mut Accounting) -> (Way, Option<Queueing>) {
        self.lines.now = fates.now;
        self.begin_version();
        if self.splits(other.scheme.as_ref()) {
            // Its limits are for packets: it is not to find more than those.
            self.fit(Offloads { super_frames: false, ..self.offloads }, fates);
        }
        let drains = self.incoming.is_some();
        if !drains && self.tune(&mut other) {
            return (Way::Tuned, Some(other));
        }
        match other.change {
            // What waits at the oldest scheme stays there; what came since then goes on to the newest.
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

    /// Takes the parameters of a scheme like this one.
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

    /// What is counted from now on is another scheme's, or that of other parameters.
    pub(super) fn begin_version(&mut self) {
        self.version = self.version.saturating_add(1);
        self.before = self.lines.counters;
    }

    /// Another scheme takes the place of this one, and of its packets; this one is left, with none.
    fn succeed_with(&mut self, mut other: Queueing, fates: &mut Accounting) -> Queueing {
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

    /// What waits in other queues arrives at the scheme, in the order in which it came to the router.
    fn take_in(&mut self, from: &mut Queueing, fates: &mut Accounting) {
        from.queues.sort();
        loop {
            // One that is empty has all its room again.
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

    /// This scheme and its queues, for another's.
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

    /// Something is done with the scheme that new packets go to.
    #[cold]
    pub(super) fn aside<T>(&mut self, act: impl FnOnce(&mut Link) -> T) -> T {
        let Some(mut other) = self.incoming.take() else { return act(self) };
        self.exchange(&mut other);
        let done = act(self);
        self.exchange(&mut other);
        self.incoming = Some(other);
        done
    }

    /// The scheme that new packets go to has the link for itself: nothing waits at the one before it.
    #[cold]
    pub(super) fn succeed(&mut self) {
        if let Some(mut other) = self.incoming.take() {
            self.exchange(&mut other);
            other.books.close(&mut self.others);
            self.drained = Some(other);
        }
    }

    /// The worker begins anew with another scheme, and nothing waits: what the one before remembers is not to be believed, so
    /// nothing of it stays, and it learns nothing.
    pub fn begin_anew(&mut self, mut other: Queueing) -> Queueing {
        self.begin_version();
        self.exchange(&mut other);
        other.books.close(&mut self.others);
        self.accept(self.takes());
        other
    }

    /// Learns what the scheme wants to know of packets.
    pub(super) fn ask_scheme(&mut self) {
        self.amiss.take();
        self.lines.hash_key = self.scheme.wants_flow_hash().then_some(self.lines.key);
        self.lines.isolates = self.lines.hash_key.is_some() && self.lines.books.isolates();
        self.lines.hosts = self.scheme.wants_hosts();
        (self.passing, self.ranking) = (self.scheme.passes_when_idle(), self.scheme.ranks_classes());
    }

    /// A scheme that was served to its end since the last time.
    pub fn take_drained(&mut self) -> Option<Queueing> {
        self.drained.take()
    }
}
