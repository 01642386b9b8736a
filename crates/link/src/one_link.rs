//! A single link: a scheme between a queue of packets and a port.

use crate::queueing::Queueing;
use crate::{Link, LinkReport, Outgoing};
use packet::accounting::Accounting;
use packet::event::{Silent, Way};
use packet::latency::Since;
use packet::port::Port;
use packet::{BATCH, Ledger, LinkCounters, Pool, Queue};
use units::{Instant, PathId, PortId, WorkerId};

/// A link with its scheme and its ledger.
pub struct OneLink {
    link: Link,
    fates: Accounting,
    since: Since,
}

impl OneLink {
    /// The scheme `text`, in the syntax of a configuration, before `port`. Frames of packets are from the region of `pool`.
    ///
    /// # Panics
    /// If there is no such scheme.
    pub fn new(port: Box<dyn Port>, text: &str, pool: Pool) -> OneLink {
        let queueing = OneLink::prepare(text);
        let mut fates = Accounting::new(WorkerId(0), pool, Box::new(Silent));
        fates.latencies.keep([(PathId(0), None)].into_iter());
        OneLink { link: Link::new(PortId(0), port, queueing), fates, since: Since::default() }
    }

    /// Sets the key of the flow hashes.
    #[must_use]
    pub fn keyed(self, key: u64) -> OneLink {
        OneLink { link: self.link.keyed(key), ..self }
    }

    /// Disables the bypass of the scheme on an idle link.
    pub fn ask_always(&mut self) {
        self.link.ask_always();
    }

    /// Builds the scheme `text` with its queues.
    ///
    /// # Panics
    /// If there is no such scheme.
    pub fn prepare(text: &str) -> Queueing {
        let call =
            plan::Call::scheme(text, &crate::catalogue()).unwrap_or_else(|error| panic!("{text}: {}", error.reason));
        Queueing::of(&call, BATCH * 16, &mut schemes::Sharing::alone())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Replaces the scheme. Returns how it was done, and the scheme that is not needed any more.
    pub fn replace(&mut self, now: Instant, queueing: Queueing) -> (Way, Option<Queueing>) {
        self.fates.now = now;
        self.link.replace_scheme(queueing, &mut self.fates)
    }

    /// The message of a scheme that panicked and was replaced since the last call.
    pub fn put_aside(&mut self) -> Option<String> {
        self.link.put_aside()
    }

    /// The counters of the link.
    pub fn counters(&self) -> LinkCounters {
        self.link.counters()
    }

    /// Samples the link, as a worker does ten times a second.
    pub fn look(&mut self, now: Instant) {
        self.link.sample(now);
    }

    /// The report of the link.
    pub fn told(&mut self, now: Instant) -> LinkReport {
        self.link.told(now)
    }

    /// The number of packets that wait at the link.
    pub fn waiting(&self) -> u32 {
        self.link.backlog().packets
    }

    /// The ledger of packet fates.
    pub fn ledger(&self) -> &Ledger {
        &self.fates.ledger
    }

    /// Offers the packets of `queue` to the scheme at `now`, then serves the link.
    pub fn pass(&mut self, now: Instant, queue: &mut Queue) {
        self.fates.now = now;
        self.since.holds(queue.len(), now);
        let path = Outgoing { path: PathId(0), queue, since: &mut self.since };
        self.link.offer(path, BATCH, &mut self.fates);
        self.link.serve(usize::MAX, &mut self.fates);
    }
}
