//! One link by itself: a scheme between a queue of packets and a port.

use crate::queueing::Queueing;
use crate::{Link, LinkReport, Outgoing};
use packet::accounting::Accounting;
use packet::event::{Silent, Way};
use packet::latency::Since;
use packet::port::Port;
use packet::{BATCH, Ledger, LinkCounters, Pool, Queue};
use units::{Instant, PathId, PortId, WorkerId};

/// A link with its scheme, and the books to go with it.
pub struct OneLink {
    link: Link,
    fates: Accounting,
    since: Since,
}

impl OneLink {
    /// The scheme `text`, as a configuration has it, before `port`; packets have frames of `pool`'s region.
    ///
    /// # Panics
    /// When there is no such scheme.
    pub fn new(port: Box<dyn Port>, text: &str, pool: Pool) -> OneLink {
        let queueing = OneLink::prepare(text);
        let mut fates = Accounting::new(WorkerId(0), pool, Box::new(Silent));
        fates.latencies.keep([(PathId(0), None)].into_iter());
        OneLink { link: Link::new(PortId(0), port, queueing), fates, since: Since::default() }
    }

    /// Distinguishes flows by hashes with this key.
    #[must_use]
    pub fn keyed(self, key: u64) -> OneLink {
        OneLink { link: self.link.keyed(key), ..self }
    }

    /// Asks the scheme about every packet from now on, though it would let those on an idle link pass.
    pub fn ask_always(&mut self) {
        self.link.ask_always();
    }

    /// The scheme `text` with its queues.
    ///
    /// # Panics
    /// When there is no such scheme.
    pub fn prepare(text: &str) -> Queueing {
        let call =
            plan::Call::scheme(text, &crate::catalogue()).unwrap_or_else(|error| panic!("{text}: {}", error.reason));
        Queueing::of(&call, BATCH * 16, &mut schemes::Sharing::alone())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// That scheme decides from now on: how it took the place of the one before, and what is not needed any more.
    pub fn replace(&mut self, now: Instant, queueing: Queueing) -> (Way, Option<Queueing>) {
        self.fates.now = now;
        self.link.replace_scheme(queueing, &mut self.fates)
    }

    /// What a scheme said as it panicked and was put aside since the last time.
    pub fn put_aside(&mut self) -> Option<String> {
        self.link.put_aside()
    }

    /// What the link has counted.
    pub fn counters(&self) -> LinkCounters {
        self.link.counters()
    }

    /// Looks at the link, as a worker does ten times a second.
    pub fn look(&mut self, now: Instant) {
        self.link.sample(now);
    }

    /// What the link tells of itself.
    pub fn told(&mut self, now: Instant) -> LinkReport {
        self.link.told(now)
    }

    /// Packets that wait at the link.
    pub fn waiting(&self) -> u32 {
        self.link.backlog().packets
    }

    /// What became of the packets.
    pub fn ledger(&self) -> &Ledger {
        &self.fates.ledger
    }

    /// Offers what waits in `queue` to the scheme at `now`, then lets the port take what the scheme lets go.
    pub fn pass(&mut self, now: Instant, queue: &mut Queue) {
        self.fates.now = now;
        self.since.holds(queue.len(), now);
        let path = Outgoing { path: PathId(0), queue, since: &mut self.since };
        self.link.offer(path, BATCH, &mut self.fates);
        self.link.serve(usize::MAX, &mut self.fates);
    }
}
