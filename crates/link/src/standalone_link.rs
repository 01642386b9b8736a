//! A single link: a scheme between a queue of packets and a port.

use crate::queueing::Queueing;
use crate::{Link, LinkReport, Outgoing};
use packet::accounting::Accounting;
use packet::event::{SchemeTransition, Silent};
use packet::latency::QueueEntryTimes;
use packet::port::Port;
use packet::{BATCH, Ledger, LinkCounters, Pool, Queue};
use units::{Instant, PathId, PortId, WorkerId};

/// A link with its scheme and its ledger.
pub struct StandaloneLink {
    link: Link,
    fates: Accounting,
    since: QueueEntryTimes,
}

impl StandaloneLink {
    /// The scheme `text`, in the syntax of a configuration, before `port`. Frames of packets are from the region of `pool`.
    ///
    /// # Panics
    /// If there is no such scheme.
    pub fn new(port: Box<dyn Port>, text: &str, pool: Pool) -> StandaloneLink {
        let queueing = StandaloneLink::prepare(text);
        let mut fates = Accounting::new(WorkerId(0), pool, Box::new(Silent));
        fates.latencies.set_paths([(PathId(0), None)].into_iter());
        StandaloneLink { link: Link::new(PortId(0), port, queueing), fates, since: QueueEntryTimes::default() }
    }

    /// Sets the key of the flow hashes.
    #[must_use]
    pub fn keyed(self, key: u64) -> StandaloneLink {
        StandaloneLink { link: self.link.keyed(key), ..self }
    }

    /// Disables the bypass of the scheme on an idle link.
    pub fn disable_bypass(&mut self) {
        self.link.disable_bypass();
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
    pub fn replace(&mut self, now: Instant, queueing: Queueing) -> (SchemeTransition, Option<Queueing>) {
        self.fates.now = now;
        self.link.replace_scheme(queueing, &mut self.fates)
    }

    /// The message of a scheme that panicked and was replaced since the last call.
    pub fn take_panic_message(&mut self) -> Option<String> {
        self.link.take_panic_message()
    }

    /// The counters of the link.
    pub fn counters(&self) -> LinkCounters {
        self.link.counters()
    }

    /// Samples the link, as a worker does ten times a second.
    pub fn sample(&mut self, now: Instant) {
        self.link.sample(now);
    }

    /// The report of the link.
    pub fn report(&mut self, now: Instant) -> LinkReport {
        self.link.report(now)
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
    pub fn offer_and_serve(&mut self, now: Instant, queue: &mut Queue) {
        self.fates.now = now;
        // No functions precede this link: sojourn times begin now.
        self.since.record_arrivals(queue.len(), now);
        let path = Outgoing { path: PathId(0), queue, since: &mut self.since };
        self.link.offer(path, BATCH, &mut self.fates);
        self.link.serve(usize::MAX, &mut self.fates);
    }
}
