//! The cost of queueing schemes, on minimal wires: a record is enqueued and dequeued.

use super::components::{nanos_per_operation, sequence};
use super::{BenchFigure, Rounds, median};
use packet::pool::{HugeTable, prefetch};
use plane::rig::QueueArena;
use schemes::{Ahead, Layer, Next, Progress, Record, Scheme, ShareEdit, ShareEdits, Size, Wires};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use units::{Instant, Nanos, QueueId, Rate};

/// Packets that arrive, and leave, at once.
const BATCH: usize = 32;
/// Packets that a guest sees per call, at least.
const AHEAD: usize = 256;
/// The largest number of flows.
const MOST: usize = 100_000;
/// Minimal wires: queues as a link has them, of records that occupy one cache line each, as those of packets do. The arriving record is aligned too:
/// across two pages it would cost each packet 10 ns, by chance.
#[repr(align(64))]
pub(super) struct BenchWires {
    now: Instant,
    /// The packets still to arrive in this call, from here on. They repeat in a cycle.
    flows: Vec<u32>,
    next: usize,
    offered: usize,
    /// The number of those that the scheme has looked at ahead of their arrival.
    foreseen: usize,
    arriving: Option<Record>,
    slots: HugeTable<Slot>,
    /// The free slots by their numbers, counted from one. The last one freed is used first.
    free: Vec<NonZeroU32>,
    queues: QueueArena<NonZeroU32>,
    dequeued: Option<u32>,
    room: usize,
}

/// The record of a packet.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Slot(Record);

impl BenchWires {
    fn new(queues: usize, flows: Vec<u32>, packets: usize) -> BenchWires {
        let slots = HugeTable::from_fn(packets, |_| Slot::default());
        let free = (1..=packets as u32).rev().filter_map(NonZeroU32::new).collect();
        let (now, queues) = (Instant::new(1), QueueArena::new(queues, packets));
        let (arriving, hand) = (None, None);
        BenchWires {
            now,
            flows,
            next: 0,
            offered: 0,
            foreseen: 0,
            arriving,
            slots,
            free,
            queues,
            dequeued: hand,
            room: 0,
        }
    }

    fn record(&self, place: usize) -> Record {
        let place = self.next + place;
        let flow_hash = self.flows[if place < self.flows.len() { place } else { place % self.flows.len() }];
        // A scheme reads one of the two: the hash, or the number of the share.
        Record { length: 1000, timestamp: self.now, flow_hash, queue: QueueId(flow_hash), ..Record::default() }
    }

    fn slot(&self, packet: NonZeroU32) -> &Slot {
        &self.slots[packet.get() as usize - 1]
    }

    /// The record is only read if the caller asks for more than its length.
    #[inline(always)]
    fn pop_packet(&mut self, queue: QueueId) -> Option<Record> {
        let slots = &self.slots;
        let size = |packet: &NonZeroU32| slots[packet.get() as usize - 1].0.size();
        let (packet, size) = self.queues.pop(queue.index(), size)?;
        prefetch(self.slot(packet));
        self.free.push(packet);
        Some(Record { length: size.bytes.get() as u32, ..self.slot(packet).0 })
    }

    /// Reads each packet dequeued since there were `before` free slots, as a transmitting port does.
    #[inline(always)]
    fn send(&self, before: usize) {
        let left = self.free[before..].iter();
        black_box(left.fold(0, |sum, packet| sum ^ self.slot(*packet).0.timestamp.get()));
    }
}

impl Wires for BenchWires {
    #[inline(always)]
    fn now(&self) -> Instant {
        self.now
    }
    #[inline(always)]
    fn size(&self, queue: QueueId) -> Size {
        self.queues.size(queue.index())
    }
    #[inline(always)]
    fn head(&self, queue: QueueId) -> Option<Record> {
        self.queues.front(queue.index()).map(|packet| self.slot(*packet).0)
    }
    #[inline(always)]
    fn head_length(&self, queue: QueueId) -> Option<u32> {
        let length = |packet: &NonZeroU32| u64::from(self.slot(*packet).0.length);
        self.queues.front_bytes(queue.index(), length).map(|bytes| bytes as u32)
    }
    #[inline(always)]
    fn arriving(&mut self) -> Option<Record> {
        self.offered = self.offered.checked_sub(1)?;
        // Not read back from the register: a read of a record that was just written in parts stalls.
        let record = self.record(0);
        self.arriving = Some(record);
        self.next = if self.next + 1 == self.flows.len() { 0 } else { self.next + 1 };
        self.foreseen = self.foreseen.saturating_sub(1);
        Some(record)
    }
    #[inline(always)]
    fn enqueue(&mut self, queue: QueueId) -> bool {
        let Some(record) = self.arriving.take() else { return false };
        let Some(packet) = self.free.pop() else { return false };
        self.slots[packet.get() as usize - 1] = Slot(record);
        self.queues.push(queue.index(), packet, record.size()).is_none()
    }
    #[inline(always)]
    fn drop_front(&mut self, queue: QueueId) -> Option<Record> {
        self.pop_packet(queue)
    }
    fn drop_tail(&mut self, _: QueueId) -> Option<Record> {
        None
    }
    #[inline(always)]
    fn dequeue(&mut self, queue: QueueId) -> Option<Record> {
        let record = self.pop_packet(queue)?;
        self.room -= 1;
        self.dequeued = Some(record.length);
        Some(record)
    }
    #[inline(always)]
    fn transmit(&mut self) {
        black_box(self.dequeued.take());
    }
    fn mark(&mut self) -> bool {
        false
    }
    #[inline(always)]
    fn link_ready(&self) -> bool {
        self.room > 0
    }
    fn link_rate(&self) -> Rate {
        Rate::gbit(10)
    }
    #[inline(always)]
    fn peek_arriving(&mut self) -> Option<Record> {
        let record = (self.foreseen < self.offered).then(|| self.record(self.foreseen))?;
        self.foreseen += 1;
        Some(record)
    }
    #[inline(always)]
    fn prefetch_queue(&self, queue: QueueId) {
        self.queues.prefetch(queue.index());
    }
    #[inline(always)]
    fn prefetch_head(&self, queue: QueueId, bytes: u32) {
        self.queues.heads(queue.index(), bytes, |packet| prefetch(self.slot(*packet)));
    }
    #[inline(always)]
    fn prefetch<T>(&self, kept: &T) {
        prefetch(kept);
    }
}

impl Ahead for BenchWires {
    #[inline(always)]
    fn offered(&self, place: usize) -> Option<Record> {
        (place < self.offered).then(|| self.record(place))
    }
    fn room(&self) -> usize {
        self.room
    }
    fn visit(&self, queue: QueueId, see: &mut dyn FnMut(Record)) {
        self.queues.iter(queue.index()).for_each(|packet| see(self.slot(*packet).0));
    }
}

/// A scheme that always holds the same number of packets of each of many flows.
pub(super) struct Busy {
    pub scheme: Box<dyn Scheme<BenchWires>>,
    desk: BenchWires,
}

impl Busy {
    pub fn new(scheme: Box<dyn Scheme<BenchWires>>, flows: usize, standing: usize) -> Busy {
        // Random order, so that no prediction of the next flow succeeds; every flow has the same number of packets.
        let mut order: Vec<(u64, u32)> = sequence(11).take(flows).zip(0..).collect();
        order.sort_unstable();
        let hash = |flow: u32| (((u64::from(flow) << 32) + (1 << 31)) / flows as u64) as u32;
        let hashes: Vec<u32> = order.into_iter().map(|(_, flow)| hash(flow)).collect();
        Busy::of_flows(scheme, hashes, flows * standing)
    }

    /// The same for shares with the numbers from one on. `edits` adds them.
    pub fn of_shares(mut scheme: Box<dyn Scheme<BenchWires>>, edits: &[ShareEdit], standing: usize) -> Busy {
        let shares = edits.len();
        let mut order: Vec<(u64, u32)> = sequence(11).take(shares).zip(1..).collect();
        order.sort_unstable();
        let wires = BenchWires::new(scheme.queues() as usize, vec![0], 1);
        scheme.edit_shares(&ShareEdits(edits.into()), &wires);
        Busy::of_flows(scheme, order.into_iter().map(|(_, share)| share).collect(), shares * standing)
    }

    fn of_flows(scheme: Box<dyn Scheme<BenchWires>>, flows: Vec<u32>, standing: usize) -> Busy {
        // At least as many as a scheme may look ahead, so that each repeats at most once.
        let flows = flows.repeat(AHEAD.div_ceil(flows.len()));
        let desk = BenchWires::new(scheme.queues() as usize, flows, 2 * standing + 512);
        let mut busy = Busy { scheme, desk };
        busy.desk.offered = standing;
        busy.scheme.arrival(&mut busy.desk);
        busy
    }

    /// `packets` arrive within a time. Then as many leave as the scheme sends by then and a link has room for, which is slightly faster. With more room a
    /// scheme of cycles would send all packets of a cycle at its beginning.
    pub fn pass(&mut self, packets: usize, time: Nanos) {
        self.desk.now += time;
        self.desk.offered = packets;
        self.scheme.arrival(&mut self.desk);
        self.desk.room = packets + packets.div_ceil(16);
        let before = self.desk.free.len();
        self.scheme.serve(&mut self.desk);
        self.desk.send(before);
    }

    /// The packets that wait.
    pub fn waiting(&self) -> usize {
        self.desk.slots.len() - self.desk.free.len()
    }

    /// `packets` arrive, and as many leave.
    fn batch(&mut self, packets: usize) {
        self.exchange(packets, packets);
    }

    /// `come` packets arrive, and `leave` packets leave.
    fn exchange(&mut self, come: usize, leave: usize) {
        self.desk.now += Nanos::new(come as u64);
        self.desk.offered = come;
        self.scheme.arrival(&mut self.desk);
        self.desk.room = leave;
        let before = self.desk.free.len();
        self.scheme.serve(&mut self.desk);
        self.desk.send(before);
    }

    /// The same for `packets` packets, `batch` at once.
    pub fn batches(&mut self, packets: usize, batch: usize) {
        (0..packets / batch).for_each(|_| self.batch(batch));
    }
}

/// No scheme: every packet is enqueued and dequeued in order.
pub(super) struct Bare;

impl Scheme<BenchWires> for Bare {
    fn arrival(&mut self, wires: &mut BenchWires) {
        while wires.arriving().is_some() {
            wires.enqueue(QueueId(0));
        }
    }

    fn link_ready(&mut self, wires: &mut BenchWires) -> Progress {
        match wires.dequeue(QueueId(0)) {
            Some(_) => {
                wires.transmit();
                Progress::Made
            }
            None => Progress::None,
        }
    }

    fn next(&self, _: &BenchWires) -> Next {
        Next::Ready
    }
}

/// The scheme as a configuration builds it, but with as many queues as there are flows.
pub(super) fn built(text: &str, flows: usize) -> Box<dyn Scheme<BenchWires>> {
    built_within(text, flows, u32::MAX as usize)
}

/// The same with a limit of packets.
fn built_within(text: &str, flows: usize, limit: usize) -> Box<dyn Scheme<BenchWires>> {
    let call = plan::Call::scheme(text, &plane::catalogue()).unwrap_or_else(|error| panic!("{text}: {}", error.reason));
    let with = |call: &plan::Call| -> Vec<(&'static str, u64)> {
        let value = |&(name, value): &(&'static str, u64)| match name {
            "flows" => (name, flows as u64),
            "limit" if call.option("flows").is_some() => (name, limit as u64),
            _ => (name, value),
        };
        call.options.iter().map(value).collect()
    };
    let (outer, inner): (Vec<_>, Vec<Vec<_>>) = (with(&call), call.inner.iter().map(with).collect());
    let inside = call.inner.iter().zip(&inner);
    let inside = inside.map(|(call, options)| Layer { name: call.name, options, inside: Vec::new() }).collect();
    schemes::build(&Layer { name: call.name, options: &outer, inside }).unwrap_or_else(|error| panic!("{error}"))
}

/// Packets of one measurement: so few that usually no other process gets the core in between.
pub(super) const PACKETS: usize = 1 << 14;

/// Every scheme that manages a queue, and every one that orders queues, with few and with many flows: the cost above wires without a scheme.
pub fn measure(rounds: Rounds) -> Vec<BenchFigure> {
    let mut figures = super::components::scheme(rounds);
    figures.push(memory(rounds));
    for declaration in schemes::DECLARATIONS {
        let budget = matches!(declaration.name, "codel" | "red").then_some(10.0);
        let busy = Busy::new(built(declaration.name, 1), 1, 10);
        let above = Above::wires(rounds, vec![busy]);
        figures.push(above.figure(0, format!("{}, one queue", declaration.name), budget));
    }
    let orders = schemes::ORDERS.iter().filter(|order| order.declaration.options.iter().any(|o| o.name == "flows"));
    // Schemes of shares are measured with shares.
    for order in orders.filter(|order| order.declaration.name != "cake" && !order.is_outermost()) {
        figures.extend(many(rounds, order.declaration.name));
    }
    figures.extend([10, 1024, 8192, 65_536, MOST].map(|flows| overload(rounds, flows)));
    figures.extend([1, 2, 3].map(|levels| tree(rounds, levels)));
    figures
}

/// Full queues of two packets each, while twice as many packets arrive as leave: each arrival pushes another packet out.
fn overload(rounds: Rounds, flows: usize) -> BenchFigure {
    let mut busy = Busy::new(built_within("fq{codel}", flows, 2 * flows), flows, 2);
    let cost =
        nanos_per_operation(rounds, PACKETS, || (0..PACKETS / BATCH).for_each(|_| busy.exchange(BATCH, BATCH / 2)));
    BenchFigure::alone("schemes", format!("fq{{codel}} at its limit, {flows} flows"), cost, "ns/packet", None)
}

/// A tree with sixteen branches on each of `levels` levels, in which all packets use one leaf.
fn tree(rounds: Rounds, levels: u32) -> BenchFigure {
    const BRANCHES: u64 = 16;
    let call = plan::Call::scheme("fifo", &plane::catalogue()).unwrap_or_else(|error| panic!("{}", error.reason));
    let branches: Vec<[(&'static str, u64); 4]> =
        (0..BRANCHES).map(|class| [("class", class), ("weight", 1), ("ceiling", 0), ("burst", 0)]).collect();
    let mut inside = Layer { name: "fifo", options: &call.options, inside: Vec::new() };
    for _ in 0..levels {
        let branch = |options| Layer { name: "branch", options, inside: vec![inside.clone()] };
        inside = Layer { name: "tree", options: &[], inside: branches.iter().map(|b| branch(&b[..])).collect() };
    }
    let scheme = schemes::build(&inside).unwrap_or_else(|error| panic!("{error}"));
    let mut busy = Busy::new(scheme, 1, 10);
    let cost = nanos_per_operation(rounds, PACKETS, || busy.batches(PACKETS, BATCH));
    let leaves = BRANCHES.pow(levels);
    BenchFigure::alone("schemes", format!("tree of {leaves} leaves"), cost, "ns/packet", None)
}

/// The cost of a single-queue scheme for an arriving and for a departing packet, with the wires that carry it. In nanoseconds per packet, by the
/// scheme's name, for the schemes whose cost is published.
pub fn scheme_costs(rounds: usize) -> BTreeMap<String, f64> {
    ["codel", "red"]
        .map(|name| {
            let mut busy = Busy::new(built(name, 1), 1, 10);
            let cost = nanos_per_operation(Rounds(rounds), PACKETS, || busy.batches(PACKETS, BATCH));
            (format!("{name}, one queue"), cost)
        })
        .into()
}

/// Cache lines changed in random order over as much memory as [`MOST`] flows with two packets each use, at known addresses: the machine's limit
/// today.
fn memory(rounds: Rounds) -> BenchFigure {
    let mut lines = HugeTable::from_fn(4 * MOST, |_| Slot::default());
    let places: Vec<usize> =
        sequence(13).map(|r| (((r >> 32) * lines.len() as u64) >> 32) as usize).take(1 << 17).collect();
    let cost =
        nanos_per_operation(rounds, places.len(), || places.iter().for_each(|&place| lines[place].0.length += 1));
    black_box(&lines);
    BenchFigure::alone("schemes", "memory alone, 25.6 MB, a cache line changed", cost, "ns/line", None)
}

/// The cost of several schemes above wires without a scheme, in nanoseconds per packet, for each round.
struct Above(Vec<Vec<f64>>);

impl Above {
    /// Measured in turns with plain wires.
    fn wires(Rounds(rounds): Rounds, mut busy: Vec<Busy>) -> Above {
        let mut bare = Busy::new(Box::new(Bare), 1, 10);
        let cost = |busy: &mut Busy| nanos_per_operation(Rounds(1), PACKETS, || busy.batches(PACKETS, BATCH));
        let round = |_| {
            let bare = cost(&mut bare);
            busy.iter_mut().map(|busy| cost(busy) - bare).collect()
        };
        Above((0..rounds * 4).map(round).collect())
    }

    fn median_of(&self, of: impl Fn(&[f64]) -> f64) -> f64 {
        median(self.0.iter().map(|round| of(round)).collect())
    }

    fn figure(&self, which: usize, name: String, budget: Option<f64>) -> BenchFigure {
        BenchFigure::alone("schemes", name, self.median_of(|round| round[which]), "ns/packet", budget)
    }
}

/// An order of ever more queues.
fn many(rounds: Rounds, name: &'static str) -> Vec<BenchFigure> {
    const FLOWS: [usize; 5] = [10, 1024, 8192, 65_536, MOST];
    let inside = if name == "fq" { "codel" } else { "fifo" };
    let built = |flows: usize| built(&format!("{name}{{{inside}}}"), flows);
    let busy = |flows: usize| Busy::new(built(flows), flows, 2);
    let above = Above::wires(rounds, FLOWS.map(busy).into());
    let budget = |flows: usize| match (name, flows) {
        ("fq", 1024) => Some(40.0),
        ("drr", _) => Some(25.0),
        ("wf2q", MOST) => Some(80.0),
        _ => None,
    };
    let figure = |(i, &flows)| above.figure(i, format!("{name} of {inside}, {flows} flows"), budget(flows));
    let mut figures: Vec<BenchFigure> = FLOWS.iter().enumerate().map(figure).collect();
    if name == "drr" {
        let last = FLOWS.len() - 1;
        let [most, few] = [last, 0].map(|i| above.median_of(|round| round[i]));
        let compared = (most, few, above.median_of(|round| round[last] / round[0]));
        let name = format!("{name} of {inside}, {MOST} flows against {}", FLOWS[0]);
        figures.push(BenchFigure::against("schemes", name, compared, "ns/packet", Some(2.0)));
    }
    figures
}
