//! A scheme that panics is replaced (spec N-05, N-17): its packets stay, and leave first come, first served.
//!
//! The packets belong to the link, and a scheme reaches them only through its wires. A panic between two calls of a wire therefore leaves the link
//! consistent: only the state of the scheme is lost. A panic inside a wire is a fault of the link. Then the counters do not balance, and the worker
//! restarts.

use super::{Link, LinkWires};
use crate::queueing::{Queueing, Queues};
use packet::Queue;
use packet::containment::panic_text;
use schemes::{Layer, Next, Scheme, Sharing, Size, Wires as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use units::QueueId;

/// The queue limit of the drop-tail replacement, not counting the packets that already wait.
const LIMIT: usize = 1000;

/// Drop tail with room for the packets that already wait.
fn drop_tail(waiting: usize) -> Queueing {
    let options = [("limit", LIMIT as u64), ("bytes", u64::MAX), ("drop", 0), ("unbounded", 0)];
    let layer = Layer { name: "fifo", options: &options, inside: Vec::new() };
    let scheme = schemes::build_for(&layer, &mut Sharing::alone()).expect("drop tail is built in");
    let mut queueing = Queueing::new(scheme, LIMIT);
    queueing.queues = Queues::One(Queue::new(LIMIT.max(waiting)), Size::default());
    queueing
}

impl Link {
    /// Calls the scheme. None if it panicked: then it has been replaced.
    #[inline(always)]
    pub(super) fn call_scheme<T>(
        &mut self,
        act: impl FnOnce(&mut dyn Scheme<LinkWires>, &mut LinkWires) -> T,
    ) -> Option<T> {
        let Link { scheme, wires: lines, .. } = self;
        // Safe to unwind: the scheme is discarded, and a panic within a wire shows in counters that do not balance.
        match catch_unwind(AssertUnwindSafe(|| act(&mut **scheme, lines))) {
            Ok(done) => Some(done),
            Err(panic) => {
                self.fall_back(panic_text(&*panic));
                None
            }
        }
    }

    /// Calls the scheme. If it panics, its replacement is called instead.
    #[inline(always)]
    pub(super) fn call_with_fallback<T>(&mut self, act: impl Fn(&mut dyn Scheme<LinkWires>, &mut LinkWires) -> T) -> T {
        match self.call_scheme(&act) {
            Some(done) => done,
            // If the replacement panics too, the worker restarts.
            None => act(&mut *self.scheme, &mut self.wires),
        }
    }

    /// When the scheme must be asked again although no packet arrives.
    pub fn next(&self) -> Next {
        let asked = catch_unwind(AssertUnwindSafe(|| self.scheme.next(&self.wires)));
        asked.unwrap_or_else(|panic| {
            // `&self` cannot replace the scheme here. The next service, which is due at once, does.
            self.pending_panic.get_or_init(|| panic_text(&*panic));
            Next::Ready
        })
    }

    /// Replaces the scheme if it panicked in [`Link::next`].
    #[inline(always)]
    pub(super) fn replace_failed(&mut self) {
        if self.pending_panic.get().is_some() {
            let what = self.pending_panic.take().unwrap_or_default();
            self.fall_back(what);
        }
    }

    /// Replaces the scheme by drop tail, with all waiting packets, the oldest first.
    #[cold]
    fn fall_back(&mut self, what: String) {
        self.begin_version();
        // A packet in the output register is on its way out.
        self.wires.transmit();
        let arriving = usize::from(self.wires.arriving.is_some());
        // Room for all waiting packets: the replacement drops none of them.
        let mut other = drop_tail(self.wires.backlog.packets as usize + arriving);
        self.swap_scheme(&mut other);
        // Keep the scheme's sharing: it is needed when the scheme is built anew.
        std::mem::swap(&mut self.sharing, &mut other.sharing);
        other.queues.sort();
        while let Some(packet) = other.queues.pop_oldest() {
            let size = self.wires.record(&packet).size();
            let refused = self.wires.queues.push(0, packet, size);
            debug_assert!(refused.is_none(), "there is room for all that waits");
        }
        self.wires.backlog = std::mem::take(&mut other.backlog);
        if arriving > 0 {
            self.wires.enqueue(QueueId(0));
        }
        other.stats.drain_into(&mut self.other_packets);
        (self.panic_message, self.unreported_panic) = (Some(what.clone()), Some(what));
        // Even its destructor may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(other)));
    }

    /// The message of the scheme that was replaced, once.
    pub fn take_panic_message(&mut self) -> Option<String> {
        self.unreported_panic.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StandaloneLink;
    use packet::frames::UdpFrame;
    use packet::port::{MemoryPort, MemoryWire, Port};
    use packet::{Batch, DropReason, Pool, Region};
    use plan::SchemeChange;
    use schemes::{Group, Progress, Record, Size, Tell};
    use std::any::Any;
    use std::collections::BTreeMap;
    use std::panic::resume_unwind;
    use units::{Instant, Nanos};

    /// A panic without a message on the terminal.
    fn blow() -> ! {
        resume_unwind(Box::new("it was injected"))
    }

    /// Wraps a scheme and panics after `left` calls, with a packet in a register if possible.
    struct Fuse {
        inner: Box<dyn Scheme<LinkWires>>,
        left: std::sync::atomic::AtomicU32,
    }

    impl Fuse {
        fn burns(&self) -> bool {
            use std::sync::atomic::Ordering;
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
        }
    }

    impl Scheme<LinkWires> for Fuse {
        fn arrival(&mut self, wires: &mut LinkWires) {
            if self.burns() {
                wires.arriving();
                blow();
            }
            self.inner.arrival(wires);
        }
        fn link_ready(&mut self, wires: &mut LinkWires) -> Progress {
            if self.burns() {
                let full = (0..self.inner.queues()).map(QueueId).find(|queue| wires.size(*queue).packets > 0);
                full.map(|queue| wires.dequeue(queue));
                blow();
            }
            self.inner.link_ready(wires)
        }
        fn next(&self, wires: &LinkWires) -> Next {
            if self.burns() { blow() } else { self.inner.next(wires) }
        }
        fn wants_flow_hash(&self) -> bool {
            self.inner.wants_flow_hash()
        }
        fn queues(&self) -> u32 {
            self.inner.queues()
        }
        fn groups(&self) -> Vec<Group> {
            self.inner.groups()
        }
        fn queue_of(&self, packet: &Record) -> Option<QueueId> {
            if self.burns() { blow() } else { self.inner.queue_of(packet) }
        }
        fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
            if self.burns() { blow() } else { self.inner.state(queue, now, waiting, tell) }
        }
        fn recount(&mut self, wires: &LinkWires) {
            if self.burns() { blow() } else { self.inner.recount(wires) }
        }
        fn tune(&mut self, other: &dyn Any, wires: &LinkWires) -> bool {
            if self.burns() { blow() } else { self.inner.tune(other, wires) }
        }
    }

    /// The scheme `text`, which panics after `left` calls.
    fn fused(text: &str, left: u32) -> Queueing {
        let prepared = StandaloneLink::prepare(text);
        Queueing { scheme: Box::new(Fuse { inner: prepared.scheme, left: left.into() }), ..prepared }
    }

    const FLOWS: u32 = 7;
    /// The position of the sequence number in a frame.
    const NUMBER: std::ops::Range<usize> = 42..46;

    /// A link whose wire holds four packets, and the sequence numbers of the received packets.
    struct TestLink {
        link: StandaloneLink,
        far: MemoryPort,
        pool: Pool,
        now: Instant,
        offered: u32,
        received: Vec<u32>,
    }

    impl TestLink {
        fn new(queueing: Queueing) -> TestLink {
            let region = Region::new(4096);
            let (near, far) = MemoryWire::pair(4);
            let mut link = StandaloneLink::new(Box::new(near), "fifo", Pool::new(region.clone()));
            let now = Instant::new(1);
            link.replace(now, queueing.changing(SchemeChange::Migrate));
            TestLink { link, far, pool: Pool::new(region), now, offered: 0, received: Vec::new() }
        }

        fn offer(&mut self, packets: u32) {
            let mut queue = Queue::new(packets as usize);
            for _ in 0..packets {
                let flow = self.offered % FLOWS;
                let mut packet = self.pool.take().unwrap();
                packet.fill(&UdpFrame::between_ports(flow as u16, 9).frame(&self.offered.to_be_bytes()));
                self.now += Nanos::new(1);
                let meta = packet.meta_mut();
                (meta.timestamp, meta.l3, meta.class) = (self.now, 14, flow as u8 % 3);
                assert!(queue.push(packet).is_none());
                self.offered += 1;
            }
            while !queue.is_empty() {
                self.link.offer_and_serve(self.now, &mut queue);
            }
        }

        /// Receives packets from the wire and serves the link again.
        fn receive(&mut self) {
            self.now += Nanos::micros(10);
            let mut batch = Batch::new();
            self.far.receive(self.now, &mut batch, &mut self.pool);
            for packet in batch.drain() {
                self.received.push(u32::from_be_bytes(packet.bytes()[NUMBER].try_into().unwrap()));
                self.pool.give(packet);
            }
            self.link.sample(self.now);
            self.link.offer_and_serve(self.now, &mut Queue::new(1));
        }

        /// Checks that every packet has one fate, and that no packet overtook another of its flow.
        fn check(&self, what: &str) {
            let (counters, waiting) = (self.link.counters(), self.link.waiting());
            assert_eq!(counters.offered, counters.sent + counters.dropped + u64::from(waiting), "{what}: {counters:?}");
            let mut last = BTreeMap::new();
            for number in &self.received {
                let before = last.insert(number % FLOWS, *number);
                assert!(before < Some(*number), "{what}: {number} overtook {before:?}");
            }
        }
    }

    /// Schemes that drop no packets of this test.
    const SCHEMES: &[&str] = &[
        "fifo",
        "codel",
        "pie",
        "fq",
        "fq(flows=16, quantum=300b){pie}",
        "drr(by=class, flows=3, weights=1:2:4)",
        "wf2q(by=class, flows=3)",
        "priority(levels=3)",
        "tree{branch(class=1, weight=3){fq}, branch}",
    ];

    #[test]
    fn panicking_scheme_becomes_drop_tail() {
        for scheme in SCHEMES {
            for left in 0..40 {
                let (mut line, what) = (TestLink::new(fused(scheme, left)), format!("{scheme} after {left}"));
                let mut told = Vec::new();
                for _ in 0..30 {
                    line.offer(3);
                    line.receive();
                    told.extend(line.link.take_panic_message());
                }
                while line.link.waiting() > 0 {
                    line.receive();
                    told.extend(line.link.take_panic_message());
                }
                line.receive();
                assert_eq!(told, ["it was injected"], "{what}");
                assert_eq!((line.received.len() as u32, line.link.counters().dropped), (line.offered, 0), "{what}");
                line.check(&what);
                // From now on first come, first served, with a limit of a thousand.
                line.offer(1200);
                let dropped = line.link.ledger().dropped_for(DropReason::SchemeArrival);
                assert!((190..=200).contains(&dropped), "{what}: {dropped}");
                let before = line.received.len();
                while line.link.waiting() > 0 {
                    line.receive();
                }
                assert!(line.received[before..].is_sorted(), "{what}");
                line.check(&what);
                // Packets that had left before the panic are counted in the statistics, and only once.
                assert_eq!(line.link.report(line.now).sojourn.count(), line.link.counters().sent, "{what}");
            }
        }
    }

    #[test]
    fn replaced_scheme_keeps_all_waiting_packets_oldest_first() {
        // The highest class is always served first. When the scheme panics, packets of the others have waited longest.
        let mut line = TestLink::new(fused("priority(levels=3){fifo(limit=2000)}", 60));
        let waited = loop {
            let waited = line.link.waiting();
            line.offer(30);
            if let Some(told) = line.link.take_panic_message() {
                // The packet in the register is kept. The limit of a thousand refuses those behind it.
                assert_eq!((&*told, line.link.waiting()), ("it was injected", waited + 1));
                break waited;
            }
        };
        assert!(waited > 1500, "{waited}");
        let before = line.received.len() + 4;
        while line.link.waiting() > 0 {
            line.receive();
        }
        assert!(line.received[before..].is_sorted());
        assert_eq!((line.link.counters().dropped, line.link.take_panic_message()), (29, None));
        line.check("priority");
    }

    #[test]
    fn panic_during_a_drain_or_change_of_scheme_loses_no_packet() {
        for change in SchemeChange::ALL {
            for left in 0..30 {
                let mut line = TestLink::new(fused("drr(by=class, flows=3)", left));
                line.offer(60);
                // Both may panic, one after the other.
                line.link.replace(line.now, fused("fq", left / 2).changing(*change));
                line.offer(30);
                for _ in 0..10 {
                    line.receive();
                }
                line.link.replace(line.now, StandaloneLink::prepare("fq(flows=8)").changing(*change));
                line.offer(30);
                while line.link.waiting() > 0 {
                    line.receive();
                }
                line.receive();
                let flushed = line.link.ledger().dropped_for(DropReason::SchemeFlush);
                assert_eq!(line.link.counters().dropped, flushed, "{change:?} after {left}");
                assert_eq!(line.received.len() as u64 + flushed, u64::from(line.offered), "{change:?} after {left}");
                line.check(&format!("{change:?} after {left}"));
                let told = line.link.report(line.now).sojourn.count();
                assert_eq!(told, line.link.counters().sent, "{change:?} after {left}");
            }
        }
    }

    #[test]
    fn sharing_and_counts_survive_a_panic_of_the_scheme() {
        let mut line = TestLink::new(fused("codel", 6));
        (0..6).for_each(|_| line.offer(2));
        let sojourn = line.link.report(line.now).sojourn.count();
        line.offer(2);
        assert!(line.link.take_panic_message().is_some());
        let told = line.link.report(line.now);
        assert!(told.sojourn.count() >= sojourn && told.groups.len() == 1, "{told:?}");
    }
}
