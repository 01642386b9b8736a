//! A link: the queues before a port, and the scheme that manages them.
//!
//! The link provides the scheme's wires. It keeps one register for the arriving packet and one for the packet taken out. Every packet is therefore in
//! exactly one place, regardless of the scheme's behaviour. A packet left in the first register is dropped, one left in the second is transmitted.

#![forbid(unsafe_code)]

mod demand;
pub mod dfq_wire;
mod emulation;
mod fallback;
mod group_stats;
mod host_wires;
pub mod medium;
mod offering;
mod packet_records;
mod peeked_hashes;
pub mod queue_arena;
mod queueing;
mod random;
mod refusals;
mod report;
mod scheme_change;
mod shares;
mod splitting;
mod standalone_link;
mod wires;

pub use demand::Demand;
pub use emulation::{EmulationStats, LinkObserver, LinkSetup};
pub use group_stats::GroupStats;
pub use queueing::{GuestFactory, Queueing, guest_code, share_memory};
pub use random::RandomStream;
pub use report::{GroupReport, LinkReport, LinkSample, QueueLength, StateSeries};
pub use shares::{LinkShares, MOST_SHARES, ShareCounts, ShareReader};
pub use standalone_link::StandaloneLink;

use group_stats::FateCounts;
use packet::accounting::Accounting;
use packet::latency::QueueEntryTimes;
use packet::port::{MemoryWire, Offloads, Port, UnsentPackets};
use packet::{BATCH, Batch, DropReason, LinkCounters, Packet, Queue};
use peeked_hashes::PeekedHashes;
use queueing::Queues;
use report::Samples;
use schemes::{Scheme, Sharing, Size, Trouble};
use std::cell::OnceCell;
use units::{CounterSet as _, Instant, PathId, PortId, Rate, ShareId};

/// The built-in schemes that a configuration may name, without other components.
pub fn catalogue() -> plan::Catalogue {
    plan::Catalogue {
        cpu_schedulers: Vec::new(),
        schemes: schemes::DECLARATIONS.to_vec(),
        orders: schemes::ORDERS.to_vec(),
        functions: Vec::new(),
        devices: Vec::new(),
        guests: None,
    }
}

/// The default key of the flow hash: see `HostLimits::key`.
pub const FLOWS: u64 = 0x517c_c1b7_2722_0a95;
/// Packets that a scheme may drop at once without an allocation: a whole batch, and as many that it pushes out.
const ENDED: usize = 2 * BATCH;

/// A port with its queues and its scheme.
// Large: the port, its queues and its scheme change together; the methods are in a file for each concern beside this one.
pub struct Link {
    id: PortId,
    /// The port.
    pub port: Box<dyn Port>,
    scheme: Box<dyn Scheme<LinkWires>>,
    /// The rates that the scheme shares with those of other workers.
    sharing: Sharing,
    /// The scheme for new packets while the present one drains (spec N-22).
    incoming: Option<Queueing>,
    /// A scheme that was drained: a thread that may free memory takes it.
    drained: Option<Queueing>,
    /// The message of a scheme that panicked and was replaced by this one.
    panic_message: Option<String>,
    /// The same, until it is reported.
    unreported_panic: Option<String>,
    /// The message of a scheme that panicked and is still to be replaced.
    pending_panic: OnceCell<String>,
    /// The number of schemes or sets of parameters so far, and the counters when the last one began.
    version: u32,
    previous_counters: LinkCounters,
    /// [`Scheme::passes_when_idle`] of the scheme.
    may_bypass: bool,
    /// [`Scheme::ranks_classes`] of the scheme.
    ranking: bool,
    /// True if the medium is up. A link that is down accepts no packets.
    up: bool,
    /// The offloads of the link, as applied to the waiting packets.
    offloads: Offloads,
    /// True if the port is a relay: another worker transmits the packets.
    relayed: bool,
    /// True if demand is counted, and the counts.
    measures_demand: bool,
    demand: Demand,
    /// The part of the port's room that is reserved for other workers.
    pub reserve: usize,
    /// Packets of other workers that the medium refused: see [`Link::unsent`].
    unsent: UnsentPackets,
    /// The emulated link, if the port has one.
    emulation: Option<Box<emulation::Emulation>>,
    /// Counts of packets outside the scheme's queues: they bypassed the scheme, or belonged to an earlier one.
    other_packets: FateCounts,
    /// The latest samples.
    samples: Samples,
    wires: LinkWires,
}

/// The share of a packet.
#[inline(always)]
fn share_of(packet: &Packet) -> ShareId {
    packet.meta().share()
}

/// The output queue of a path, to be offered to a link.
pub struct Outgoing<'a> {
    /// The path.
    pub path: PathId,
    /// Its output queue.
    pub queue: &'a mut Queue,
    /// The arrival times of its packets.
    pub since: &'a mut QueueEntryTimes,
}

/// The wires of one link.
// Large: all that a scheme sees through its wires is adjacent.
pub struct LinkWires {
    now: Instant,
    queues: Queues,
    /// The length of all queues together: there may be thousands.
    backlog: Size,
    offered: Batch,
    /// The flow hashes of the first packets in `offered`, computed before their turn.
    peeked: PeekedHashes,
    arriving: Option<Packet>,
    dequeued: Option<Packet>,
    /// The queue from which the packet in `dequeued` was taken.
    dequeued_from: usize,
    /// The groups of the last packets in `out`, and of the one in `dequeued`, that are not counted in the statistics yet.
    leaving: Vec<u8>,
    /// True if the arriving packet was marked.
    arriving_marked: bool,
    out: Batch,
    /// The room of the port in packets, less those in `out` and `dequeued`.
    room: usize,
    rate: Rate,
    dropped: Vec<(Packet, DropReason)>,
    counters: LinkCounters,
    /// The statistics of each group of queues.
    stats: GroupStats,
    /// The longest queue since the last sample, in packets.
    peak_packets: u32,
    /// The key of the flow and host hashes.
    key: u64,
    hash_key: Option<u64>,
    /// The flow hash of the arriving packet, if there are queues for one flow each.
    flow: u32,
    isolates: bool,
    /// True if the scheme needs host hashes and code points.
    needs_hosts: bool,
    /// The shares of the port, if its scheme is a tree of shares.
    shares: Option<ShareReader>,
    /// True if packets may be longer on the wire than in the buffer: super-frames, or copies with a shared tail.
    super_frames: bool,
}

impl LinkWires {
    /// Wires without packets.
    fn new(queues: Queues, stats: GroupStats, shares: Option<ShareReader>, rate: Rate) -> LinkWires {
        LinkWires {
            now: Instant::START,
            queues,
            backlog: Size::default(),
            offered: Batch::new(),
            peeked: PeekedHashes::default(),
            arriving: None,
            dequeued: None,
            dequeued_from: 0,
            leaving: Vec::with_capacity(BATCH),
            arriving_marked: false,
            out: Batch::new(),
            room: 0,
            rate,
            dropped: Vec::with_capacity(ENDED),
            counters: LinkCounters::default(),
            stats,
            peak_packets: 0,
            key: FLOWS,
            hash_key: None,
            flow: 0,
            isolates: false,
            needs_hosts: false,
            shares,
            super_frames: false,
        }
    }
}

impl Link {
    /// A link before `port`.
    pub fn new(id: PortId, port: Box<dyn Port>, queueing: Queueing) -> Link {
        let Queueing { scheme, sharing, queues, shares, stats: books, .. } = queueing;
        let lines = LinkWires::new(queues, books, shares, port.link_rate());
        let up = port.is_up();
        // Placeholders: `read_scheme_needs` reads both flags from the scheme below.
        let (passing, ranking, incoming, drained) = (false, false, None, None);
        let mut link = Link {
            id,
            may_bypass: passing,
            ranking,
            up,
            offloads: Offloads::default(),
            relayed: false,
            measures_demand: false,
            demand: Demand::default(),
            reserve: 0,
            unsent: UnsentPackets::default(),
            emulation: None,
            other_packets: FateCounts::default(),
            samples: Samples::default(),
            port,
            scheme,
            sharing,
            incoming,
            drained,
            panic_message: None,
            unreported_panic: None,
            pending_panic: OnceCell::new(),
            version: 1,
            previous_counters: LinkCounters::default(),
            wires: lines,
        };
        link.read_scheme_needs();
        link.accept(link.supported_offloads());
        link
    }

    /// Sets the key of the flow hashes. Must be called before the first packet.
    pub fn keyed(mut self, key: u64) -> Link {
        self.wires.key = key;
        // `hash_key` is a copy of the key.
        self.read_scheme_needs();
        self
    }

    /// Disables the bypass of the scheme on an idle link, in order to measure the scheme.
    pub fn disable_bypass(&mut self) {
        self.may_bypass = false;
    }

    /// The number of packets that may be transmitted now.
    #[inline]
    pub fn room(&self) -> usize {
        if self.emulation.is_some() {
            return self.emulated_room();
        }
        self.port.room().saturating_sub(self.reserve)
    }

    /// Sets whether the port is a relay or a device.
    pub fn set_relayed(&mut self, relayed: bool) {
        self.relayed = relayed;
    }

    /// True if the medium was up at the last check.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Checks the medium. If it went down, all waiting packets are dropped. Returns true if the state changed.
    pub fn check_medium(&mut self, fates: &mut Accounting) -> bool {
        // Also on an idle link, so that a change is carried out soon.
        self.wires.now = fates.now;
        self.refresh_shares();
        self.refresh_rate();
        // Before the sample: late refusals reduce the number of sent packets, which the sample reads.
        self.count_refusals(fates);
        self.sample(fates.now);
        let up = self.port.is_up();
        let news = up != self.up;
        self.up = up;
        if news && !up {
            self.clear(DropReason::PortDown, fates);
        }
        news
    }

    /// Transmits bypassing packets, and raises `LinkReady` for at most `most` packets while the port has room and the scheme makes progress. Returns
    /// the number of packets that the scheme has sent.
    #[inline]
    pub fn serve(&mut self, most: usize, fates: &mut Accounting) -> usize {
        if self.emulation.is_some() {
            return self.serve_emulated(fates);
        }
        // These packets bypassed the scheme while its queues were empty, so they precede all packets in the queues.
        if !self.wires.out.is_empty() {
            self.transmit(fates);
        }
        let mut sent = 0;
        self.wires.now = fates.now;
        self.refresh_shares();
        self.replace_failed();
        loop {
            // A port may gain room while it transmits: read it for each batch.
            self.wires.room = self.room().min(BATCH).min(most - sent);
            self.call_with_fallback(|scheme, lines| scheme.serve(lines));
            // The old scheme is drained: the new one takes over and fills the rest of the batch.
            if self.incoming.is_some() && self.wires.backlog.packets == 0 {
                self.finish_drain();
                self.call_with_fallback(|scheme, lines| scheme.serve(lines));
            }
            // Also moves the packet in the register to `out`, whose length is read next.
            self.wires.record_departures();
            self.settle(fates);
            let packets = self.wires.out.len();
            // The scheme stopped although the port has room. If packets wait, the scheme holds them back, as a shaper does.
            if packets < BATCH && self.wires.room > 0 {
                self.wires.counters.wasted += 1;
                self.wires.counters.withheld += u64::from(self.wires.backlog.packets > 0);
            }
            if packets == 0 {
                return sent;
            }
            fates.latencies.record_sent(self.wires.out.as_slice(), fates.now);
            self.transmit(fates);
            sent += packets;
            if packets < BATCH {
                return sent;
            }
        }
    }

    #[inline]
    fn settle(&mut self, fates: &mut Accounting) {
        if self.wires.dropped.is_empty() {
            return;
        }
        if self.emulation.is_some() {
            self.observe_drops(fates.now);
        }
        self.wires.counters.dropped += self.wires.dropped.len() as u64;
        for (packet, reason) in self.wires.dropped.drain(..) {
            if let Some(shares) = &self.wires.shares {
                let waited = !matches!(reason, DropReason::SchemeArrival | DropReason::BufferFull);
                let bytes = packet_records::size(self.wires.super_frames, &packet).bytes.get();
                shares.record_drop(share_of(&packet), bytes, waited);
            }
            fates.drop_at(self.id, packet, reason);
        }
    }

    /// The length of the queues in packets and bytes.
    #[inline]
    pub fn backlog(&self) -> Size {
        let Size { packets, bytes } = self.wires.backlog;
        match &self.incoming {
            None => self.wires.backlog,
            Some(other) => Size { packets: packets + other.backlog.packets, bytes: bytes + other.backlog.bytes },
        }
    }

    /// True if packets of a higher class leave first.
    #[inline]
    pub fn ranks_classes(&self) -> bool {
        self.ranking
    }

    /// The next problem of a scheme, each reported once.
    pub fn next_fault(&mut self) -> Option<Trouble> {
        self.scheme.next_fault().or_else(|| self.incoming.as_mut()?.scheme.next_fault())
    }

    /// The next line of a scheme for the operator, each reported once.
    pub fn next_scheme_message(&mut self) -> Option<String> {
        self.scheme.next_message().or_else(|| self.incoming.as_mut()?.scheme.next_message())
    }

    /// The sharing of its scheme; during a drain that of the newer one.
    pub fn sharing(&self) -> Sharing {
        self.incoming.as_ref().map_or(&self.sharing, |newer| &newer.sharing).clone()
    }

    /// Replaces the port. The caller then applies its offloads with [`Link::refresh_offloads`].
    pub fn replace_port(&mut self, replace: impl FnOnce(Box<dyn Port>) -> Box<dyn Port>) {
        // `replace` needs the port by value: a placeholder takes its place meanwhile.
        let (nothing, _) = MemoryWire::pair(1);
        let old = std::mem::replace(&mut self.port, Box::new(nothing));
        self.port = replace(old);
        self.refresh_rate();
    }

    /// Returns the port. The queues must be empty.
    pub fn into_port(self) -> Box<dyn Port> {
        debug_assert_eq!(self.backlog().packets as usize + self.in_flight(), 0);
        self.port
    }

    /// Drops all waiting packets.
    pub fn clear(&mut self, reason: DropReason, fates: &mut Accounting) {
        self.clear_own(reason, fates);
        // During a drain packets also wait at the scheme for new packets, which now takes over.
        if self.incoming.is_some() {
            self.finish_drain();
            self.clear_own(reason, fates);
        }
        self.drop_in_flight(reason, fates);
    }

    fn clear_own(&mut self, reason: DropReason, fates: &mut Accounting) {
        for i in 0..self.wires.queues.len() {
            while let Some((packet, _)) = self.wires.take(i) {
                self.wires.stats.record_drop(i, reason);
                self.wires.dropped.push((packet, reason));
                // `dropped` has a fixed capacity: empty it in time, so that it never allocates.
                if self.wires.dropped.len() == BATCH {
                    self.settle(fates);
                }
            }
        }
        // The scheme took no part in these drops, so its own counts of the queues are out of date.
        self.call_with_fallback(|scheme, lines| scheme.recount(lines));
        self.settle(fates);
    }

    /// Discards the waiting packets without counting drops, because the worker has failed. The counters balance afterwards.
    pub fn discard_packets(&mut self) {
        self.wires.queues.discard_packets();
        self.discard_in_flight();
        // During a drain this swaps in the queues of the other scheme, which are emptied below.
        self.finish_drain();
        let LinkWires {
            queues,
            backlog,
            offered,
            peeked: foreseen,
            arriving,
            arriving_marked: marking,
            dequeued: hand,
            leaving,
            out,
            dropped: ended,
            counters,
            ..
        } = &mut self.wires;
        queues.discard_packets();
        // `leaving` describes the last packets of `out`, which is emptied too.
        leaving.clear();
        *foreseen = PeekedHashes::default();
        (*offered, *out, *arriving, *hand) = (Batch::new(), Batch::new(), None, None);
        (*backlog, *marking) = (Size::default(), false);
        ended.clear();
        // The fates of the discarded packets are unknown: count them as dropped, so that the counters balance.
        counters.offered = counters.offered.max(counters.sent);
        counters.dropped = counters.offered - counters.sent;
        self.reserve = 0;
    }

    /// The counters of the link.
    pub fn counters(&self) -> LinkCounters {
        self.wires.counters
    }

    /// The counters since the scheme or its parameters last changed.
    pub fn counters_since_change(&self) -> LinkCounters {
        self.wires.counters.since(&self.previous_counters)
    }

    /// The number of schemes, or sets of parameters, so far.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Starts or stops counting demand.
    pub fn set_measuring(&mut self, measures: bool) {
        self.measures_demand = measures;
    }

    /// The demand of the packets offered to its scheme while counting was on.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Updates the rate from the port or the emulated link.
    pub fn refresh_rate(&mut self) {
        self.wires.rate = match &self.emulation {
            Some(emulation) => emulation.rate(self.wires.now),
            None => self.port.link_rate(),
        };
    }
}
