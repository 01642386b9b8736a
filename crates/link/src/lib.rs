//! A link: the queues before a port, and the scheme that decides over them.
//!
//! The link gives the scheme its wires. It keeps one register for the arriving packet and one for the packet taken out,
//! so every packet is in exactly one place whatever the scheme does: what it leaves in a register is dropped on arrival
//! or transmitted.

#![forbid(unsafe_code)]

mod ahead;
mod books;
mod chance;
mod change;
mod demand;
mod emulation;
mod fallback;
mod foreseen;
mod lines;
pub mod medium;
mod one_link;
mod queueing;
mod refused;
pub mod shelf;
mod splitting;
mod told;
mod wires;

pub use books::Books;
pub use chance::Chance;
pub use demand::Demand;
pub use emulation::{Emulated, LinkWitness, NewLink};
pub use fallback::words;
pub use one_link::OneLink;
pub use queueing::{Maker, Queueing, code};
pub use told::{GroupReport, LinkReport, QueueLength, Sample, StateSeries};

use books::Tally;
use foreseen::Foreseen;
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::latency::Since;
use packet::port::{Offloads, Port, Unsent, Wire};
use packet::{BATCH, Batch, DropReason, LinkCounters, Packet, Queue};
use queueing::Queues;
use schemes::{Scheme, Sharing, Size, Trouble, Wires as _};
use std::cell::OnceCell;
use told::Samples;
use units::{CounterSet as _, Instant, PathId, PortId, Rate};

/// The schemes that a configuration may name; nothing else.
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

/// The number of the hash by which schemes distinguish flows: see `HostLimits::key`.
pub const FLOWS: u64 = 0x517c_c1b7_2722_0a95;
/// Packets that a scheme may end at once without memory being taken: all of a batch, and as many again that they push out.
const ENDED: usize = 2 * BATCH;

/// A port with its queues and its scheme.
// Large: the port, its queues and its scheme change together; the methods are in a file for each concern beside this one.
pub struct Link {
    id: PortId,
    /// The port.
    pub port: Box<dyn Port>,
    scheme: Box<dyn Scheme<Lines>>,
    /// With what other workers' schemes it shares its rates.
    sharing: Sharing,
    /// What new packets go to while the scheme above still serves those that wait there (spec N-22: drain).
    incoming: Option<Queueing>,
    /// A scheme that has been served to its end: whoever may give memory back takes it.
    drained: Option<Queueing>,
    /// What a scheme said as it panicked, in whose place this is.
    put_aside: Option<String>,
    /// The same, to be told.
    news: Option<String>,
    /// What it said where it is still to be put aside.
    amiss: OnceCell<String>,
    /// How many schemes, or sets of parameters, there were, and what had been counted when the last one came.
    version: u32,
    before: LinkCounters,
    /// What the scheme says of itself: [`Scheme::passes_when_idle`].
    passing: bool,
    /// The same: [`Scheme::ranks_classes`].
    ranking: bool,
    /// Whether the medium is there: nothing is given to one that is not.
    up: bool,
    /// What the link takes, as the packets that wait were made to fit.
    offloads: Offloads,
    /// Whether the port is a relay: what it takes is transmitted by another worker.
    relayed: bool,
    /// Whether it counts what packets want; what it has counted.
    measures: bool,
    demand: Demand,
    /// How much of the port's room is left to other workers.
    pub reserve: usize,
    /// Packets of other workers that the medium has refused: see [`Link::unsent`].
    unsent: Unsent,
    /// The link that the port pretends to have.
    emulation: Option<Box<emulation::Emulation>>,
    /// What became of packets that no queue of the scheme had: they passed it by, or were another scheme's.
    others: Tally,
    /// What was at each of the latest looks.
    samples: Samples,
    lines: Lines,
}

/// What a path has ready for a link.
pub struct Outgoing<'a> {
    /// The path.
    pub path: PathId,
    /// Its output queue.
    pub queue: &'a mut Queue,
    /// Since when it is there.
    pub since: &'a mut Since,
}

/// The wires of one link.
// Large: all that a scheme sees through its wires lies together.
pub struct Lines {
    now: Instant,
    queues: Queues,
    /// What waits in all of them: there may be thousands.
    backlog: Size,
    offered: Batch,
    /// The hashes of the first of those: they were looked at before their turn.
    foreseen: Foreseen,
    arriving: Option<Packet>,
    hand: Option<Packet>,
    /// The queue that packet was in.
    from: usize,
    /// The groups of the last packets in `out`, and of that in `hand`, that are still to be entered in the books.
    leaving: Vec<u8>,
    /// Whether the arriving packet was marked.
    marking: bool,
    out: Batch,
    /// Packets the port can take besides those in `out` and `hand`.
    room: usize,
    rate: Rate,
    ended: Vec<(Packet, DropReason)>,
    counters: LinkCounters,
    /// What became of the packets of each queue.
    books: Books,
    /// The most packets that waited since the last look.
    most: u32,
    /// Keys the hashes of flows and hosts.
    key: u64,
    hash_key: Option<u64>,
    /// The hash of the arriving packet's flow, where there are queues that are for one flow each.
    flow: u32,
    isolates: bool,
    /// Whether the scheme looks at hosts and code points.
    hosts: bool,
    /// Whether there may be super-frames among the packets, or copies with a tail, which are longer on the wire than here.
    super_frames: bool,
}

impl Link {
    /// A link before `port`.
    pub fn new(id: PortId, port: Box<dyn Port>, queueing: Queueing) -> Link {
        let Queueing { scheme, sharing, queues, books, .. } = queueing;
        let lines = Lines {
            now: Instant::START,
            queues,
            backlog: Size::default(),
            offered: Batch::new(),
            foreseen: Foreseen::default(),
            arriving: None,
            hand: None,
            from: 0,
            leaving: Vec::with_capacity(BATCH),
            marking: false,
            out: Batch::new(),
            room: 0,
            rate: port.link_rate(),
            ended: Vec::with_capacity(ENDED),
            counters: LinkCounters::default(),
            books,
            most: 0,
            key: FLOWS,
            hash_key: None,
            flow: 0,
            isolates: false,
            hosts: false,
            super_frames: false,
        };
        let up = port.is_up();
        let (passing, ranking, incoming, drained) = (false, false, None, None);
        let mut link = Link {
            id,
            passing,
            ranking,
            up,
            offloads: Offloads::default(),
            relayed: false,
            measures: false,
            demand: Demand::default(),
            reserve: 0,
            unsent: Unsent::default(),
            emulation: None,
            others: Tally::default(),
            samples: Samples::default(),
            port,
            scheme,
            sharing,
            incoming,
            drained,
            put_aside: None,
            news: None,
            amiss: OnceCell::new(),
            version: 1,
            before: LinkCounters::default(),
            lines,
        };
        link.ask_scheme();
        link.accept(link.takes());
        link
    }

    /// The same, whose scheme distinguishes flows by hashes with this key. Before any packet comes.
    pub fn keyed(mut self, key: u64) -> Link {
        self.lines.key = key;
        self.ask_scheme();
        self
    }

    /// Raises `Arrival` for at most `most` packets of a path's output queue; those that may pass an idle link leave with the
    /// next [`Link::serve`], for to call on a port costs the same for one packet as for many. Answers how many it took.
    #[inline]
    pub fn offer(&mut self, path: Outgoing<'_>, most: usize, fates: &mut Accounting) -> usize {
        let Outgoing { path, queue, since } = path;
        if !self.up {
            return self.refuse(queue, most, fates);
        }
        if self.passing && self.backlog().packets == 0 && self.emulation.is_none() {
            let passed = self.pass(Outgoing { path, queue, since }, most, fates);
            if passed > 0 {
                return passed;
            }
        }
        queue.pop_into(&mut self.lines.offered, most);
        let taken = self.lines.offered.len();
        if taken == 0 {
            return 0;
        }
        since.note(self.lines.offered.as_mut_slice());
        if self.measures {
            self.demand.add(self.lines.offered.as_slice(), |packet| self.lines.length(packet));
        }
        if fates.follows() {
            self.tell(self.lines.offered.as_slice(), false, fates);
        }
        self.lines.now = fates.now;
        if self.emulation.is_some() {
            self.meet();
        }
        self.lines.counters.offered += taken as u64;
        if self.incoming.is_none() {
            self.arrive();
        } else {
            self.aside(Link::arrive);
        }
        self.lines.most = self.lines.most.max(self.backlog().packets);
        self.settle(fates);
        taken
    }

    /// Raises `Arrival` for what was offered.
    #[inline(always)]
    fn arrive(&mut self) {
        self.insist(|scheme, lines| scheme.arrival(lines));
        // A scheme that stops early has refused the rest.
        while self.lines.arriving().is_some() {}
        if !self.lines.ended.is_empty() {
            self.blame();
        }
    }

    /// Lets packets pass an idle link whose scheme would do no more than that. Answers how many it took.
    fn pass(&mut self, path: Outgoing<'_>, most: usize, fates: &mut Accounting) -> usize {
        // A port may have room again as soon as it has transmitted.
        if !self.lines.out.is_empty() && self.lines.out.len() >= self.room().min(BATCH) {
            self.transmit(fates);
        }
        let before = self.lines.out.len();
        let most = most.min(BATCH - before).min(self.room().saturating_sub(before));
        path.queue.pop_into(&mut self.lines.out, most);
        let passing = &self.lines.out.as_slice()[before..];
        if !passing.is_empty() {
            let (others, longest) = (&mut self.others, self.lines.books.longest());
            fates.latencies.passed(path.path, passing, path.since, fates.now, |waited, packets| {
                others.sojourn.record(waited, packets);
                *longest = waited.max(*longest);
            });
            if fates.follows() {
                self.tell(passing, true, fates);
            }
            if self.measures {
                self.demand.add(passing, |packet| self.lines.length(packet));
            }
            let (packets, bytes) = (passing.len(), self.lines.bytes(passing));
            self.lines.counters.offered += packets as u64;
            self.lines.counters.passed += packets as u64;
            self.lines.counters.sent_bytes += bytes;
            return packets;
        }
        0
    }

    /// Tells of the packets in `batch` that they were given to this link.
    #[cold]
    fn tell(&self, batch: &[Packet], passes: bool, fates: &mut Accounting) {
        let backlog = self.backlog();
        let (mut packets, mut bytes) = (backlog.packets, backlog.bytes.get());
        for packet in batch {
            fates.passed(packet, Stage::Offered { port: self.id, packets, bytes, passes });
            if !passes {
                (packets, bytes) = (packets + 1, bytes + self.lines.length(packet));
            }
        }
    }

    /// Asks the scheme about every packet from now on, also where the link is idle: to measure it.
    pub fn ask_always(&mut self) {
        self.passing = false;
    }

    /// Drops what the medium would lose. Answers how many.
    #[cold]
    fn refuse(&mut self, path: &mut Queue, most: usize, fates: &mut Accounting) -> usize {
        let refused = path.len().min(most);
        self.lines.counters.offered += refused as u64;
        self.others.dropped(DropReason::PortDown, refused as u64);
        let packets = std::iter::from_fn(|| path.pop()).take(refused);
        self.lines.ended.extend(packets.map(|packet| (packet, DropReason::PortDown)));
        self.settle(fates);
        refused
    }

    /// How many packets may be transmitted now.
    #[inline]
    pub fn room(&self) -> usize {
        if self.emulation.is_some() {
            return self.emulated_room();
        }
        self.port.room().saturating_sub(self.reserve)
    }

    /// From now on the port is a relay, or a device.
    pub fn relay(&mut self, relayed: bool) {
        self.relayed = relayed;
    }

    /// Whether the medium was there when last looked at.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Looks whether the medium is there; where it is gone, so is everything that waited for it. Answers whether that
    /// is news.
    pub fn watch(&mut self, fates: &mut Accounting) -> bool {
        self.refresh_rate();
        self.count_refused(fates);
        self.sample(fates.now);
        let up = self.port.is_up();
        let news = up != self.up;
        self.up = up;
        if news && !up {
            self.clear(DropReason::PortDown, fates);
        }
        news
    }

    /// Transmits what passes, and raises `LinkReady` for at most `most` packets while the port has room and the scheme makes
    /// progress. Answers how many packets the scheme has sent.
    #[inline]
    pub fn serve(&mut self, most: usize, fates: &mut Accounting) -> usize {
        if self.emulation.is_some() {
            return self.serve_emulated(fates);
        }
        if !self.lines.out.is_empty() {
            self.transmit(fates);
        }
        let mut sent = 0;
        self.lines.now = fates.now;
        self.mend();
        loop {
            self.lines.room = self.room().min(BATCH).min(most - sent);
            self.insist(|scheme, lines| scheme.serve(lines));
            if self.incoming.is_some() && self.lines.backlog.packets == 0 {
                self.succeed();
                self.insist(|scheme, lines| scheme.serve(lines));
            }
            self.lines.enter();
            self.settle(fates);
            let packets = self.lines.out.len();
            if packets < BATCH && self.lines.room > 0 {
                self.lines.counters.wasted += 1;
                self.lines.counters.withheld += u64::from(self.lines.backlog.packets > 0);
            }
            if packets == 0 {
                return sent;
            }
            fates.latencies.sent(self.lines.out.as_slice(), fates.now);
            self.transmit(fates);
            sent += packets;
            if packets < BATCH {
                return sent;
            }
        }
    }

    #[inline]
    fn settle(&mut self, fates: &mut Accounting) {
        if self.lines.ended.is_empty() {
            return;
        }
        if self.emulation.is_some() {
            self.witness_drops(fates.now);
        }
        self.lines.counters.dropped += self.lines.ended.len() as u64;
        for (packet, reason) in self.lines.ended.drain(..) {
            fates.drop_at(self.id, packet, reason);
        }
    }

    /// Packets waiting in the queues, and their bytes.
    #[inline]
    pub fn backlog(&self) -> Size {
        let Size { packets, bytes } = self.lines.backlog;
        match &self.incoming {
            None => self.lines.backlog,
            Some(other) => Size { packets: packets + other.backlog.packets, bytes: bytes + other.backlog.bytes },
        }
    }

    /// Whether packets of a higher class go first.
    #[inline]
    pub fn ranks_classes(&self) -> bool {
        self.ranking
    }

    /// What went wrong in a scheme, told once each.
    pub fn trouble(&mut self) -> Option<Trouble> {
        self.scheme.trouble().or_else(|| self.incoming.as_mut()?.scheme.trouble())
    }

    /// A line of a scheme for the operator, told once.
    pub fn scheme_remark(&mut self) -> Option<String> {
        self.scheme.remark().or_else(|| self.incoming.as_mut()?.scheme.remark())
    }

    /// With whom its scheme shares, the newest where one takes the place of another.
    pub fn sharing(&self) -> Sharing {
        self.incoming.as_ref().map_or(&self.sharing, |newer| &newer.sharing).clone()
    }

    /// Another port carries from now on what the scheme lets go. What it takes is asked with [`Link::refresh_offloads`].
    pub fn replace_port(&mut self, replace: impl FnOnce(Box<dyn Port>) -> Box<dyn Port>) {
        let (nothing, _) = Wire::pair(1);
        let old = std::mem::replace(&mut self.port, Box::new(nothing));
        self.port = replace(old);
        self.refresh_rate();
    }

    /// The port alone; nothing waits any more.
    pub fn into_port(self) -> Box<dyn Port> {
        debug_assert_eq!(self.backlog().packets as usize + self.under_way(), 0);
        self.port
    }

    /// Drops everything that waits.
    pub fn clear(&mut self, reason: DropReason, fates: &mut Accounting) {
        self.clear_own(reason, fates);
        if self.incoming.is_some() {
            self.succeed();
            self.clear_own(reason, fates);
        }
        self.forget_under_way(reason, fates);
    }

    fn clear_own(&mut self, reason: DropReason, fates: &mut Accounting) {
        for i in 0..self.lines.queues.len() {
            while let Some((packet, _)) = self.lines.take(i) {
                self.lines.books.dropped(i, reason);
                self.lines.ended.push((packet, reason));
                if self.lines.ended.len() == BATCH {
                    self.settle(fates);
                }
            }
        }
        self.insist(|scheme, lines| scheme.recount(lines));
        self.settle(fates);
    }

    /// Forgets what waits, uncounted: the worker has failed. The counters add up again.
    pub fn forget(&mut self) {
        self.lines.queues.forget();
        self.lose_under_way();
        self.succeed();
        let Lines {
            queues, backlog, offered, foreseen, arriving, marking, hand, leaving, out, ended, counters, ..
        } = &mut self.lines;
        queues.forget();
        leaving.clear();
        *foreseen = Foreseen::default();
        (*offered, *out, *arriving, *hand) = (Batch::new(), Batch::new(), None, None);
        (*backlog, *marking) = (Size::default(), false);
        ended.clear();
        counters.offered = counters.offered.max(counters.sent);
        counters.dropped = counters.offered - counters.sent;
        self.reserve = 0;
    }

    /// What it has counted.
    pub fn counters(&self) -> LinkCounters {
        self.lines.counters
    }

    /// What it has counted since its scheme, or the parameters of that, were the last to change.
    pub fn lately(&self) -> LinkCounters {
        self.lines.counters.since(&self.before)
    }

    /// How many schemes, or sets of parameters, it has had.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Counts from now on what packets want, or no longer.
    pub fn measure(&mut self, measures: bool) {
        self.measures = measures;
    }

    /// What the packets offered to its scheme wanted, while that was counted.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Asks the port for its rate, or the emulated link.
    pub fn refresh_rate(&mut self) {
        self.lines.rate = match &self.emulation {
            Some(emulation) => emulation.rate(self.lines.now),
            None => self.port.link_rate(),
        };
    }
}
