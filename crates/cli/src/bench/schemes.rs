//! What queueing schemes cost, on wires that do no more than they must: a record goes into a queue and comes out again.

use super::parts::{each, sequence};
use super::{Figure, Rounds, median};
use schemes::{Ahead, Layer, Next, Progress, Record, Scheme, Size, Wires};
use std::hint::black_box;
use units::{Bytes, Instant, Nanos, QueueId, Rate};

/// Packets that arrive, and leave, at once.
const BATCH: usize = 32;
/// No place.
const NONE: u32 = u32::MAX;

/// Wires to nothing: queues of records that share their places.
pub(super) struct Desk {
    now: Instant,
    /// What is still to arrive in this call, from here on; they come round again.
    flows: Vec<u32>,
    next: usize,
    offered: usize,
    arriving: Option<Record>,
    places: Vec<(Record, u32)>,
    free: u32,
    queues: Vec<Line>,
    hand: Option<u32>,
    room: usize,
}

#[derive(Clone, Copy)]
struct Line {
    first: u32,
    last: u32,
    size: Size,
}

impl Desk {
    fn new(queues: usize, flows: Vec<u32>) -> Desk {
        let queues = vec![Line { first: NONE, last: NONE, size: Size::default() }; queues];
        let (now, places) = (Instant::new(1), Vec::with_capacity(1 << 18));
        Desk { now, flows, next: 0, offered: 0, arriving: None, places, free: NONE, queues, hand: None, room: 0 }
    }

    fn record(&self, flow_hash: u32) -> Record {
        Record { length: 1000, timestamp: self.now, flow_hash, ..Record::default() }
    }

    fn take(&mut self, queue: QueueId) -> Option<Record> {
        let line = &mut self.queues[queue.index()];
        let number = line.first;
        let (record, behind) = self.places.get_mut(number as usize)?;
        line.first = std::mem::replace(behind, self.free);
        if line.first == NONE {
            line.last = NONE;
        }
        self.free = number;
        line.size.packets -= 1;
        line.size.bytes = Bytes::new(line.size.bytes.get() - u64::from(record.length));
        Some(*record)
    }
}

impl Wires for Desk {
    #[inline(always)]
    fn now(&self) -> Instant {
        self.now
    }
    #[inline(always)]
    fn size(&self, queue: QueueId) -> Size {
        self.queues[queue.index()].size
    }
    #[inline(always)]
    fn head(&self, queue: QueueId) -> Option<Record> {
        self.places.get(self.queues[queue.index()].first as usize).map(|(record, _)| *record)
    }
    #[inline(always)]
    fn arriving(&mut self) -> Option<Record> {
        self.offered = self.offered.checked_sub(1)?;
        self.arriving = Some(self.record(self.flows[self.next]));
        self.next = if self.next + 1 == self.flows.len() { 0 } else { self.next + 1 };
        self.arriving
    }
    #[inline(always)]
    fn enqueue(&mut self, queue: QueueId) -> bool {
        let Some(record) = self.arriving.take() else { return false };
        let number = match self.places.get_mut(self.free as usize) {
            Some(place) => {
                let number = std::mem::replace(&mut self.free, place.1);
                *place = (record, NONE);
                number
            }
            None => {
                self.places.push((record, NONE));
                self.places.len() as u32 - 1
            }
        };
        let line = &mut self.queues[queue.index()];
        line.size.packets += 1;
        line.size.bytes += Bytes::new(record.length.into());
        let last = std::mem::replace(&mut line.last, number);
        match self.places.get_mut(last as usize) {
            Some(place) => place.1 = number,
            None => line.first = number,
        }
        true
    }
    #[inline(always)]
    fn drop_front(&mut self, queue: QueueId) -> Option<Record> {
        self.take(queue)
    }
    fn drop_tail(&mut self, _: QueueId) -> Option<Record> {
        None
    }
    #[inline(always)]
    fn dequeue(&mut self, queue: QueueId) -> Option<Record> {
        let record = self.take(queue)?;
        self.room -= 1;
        self.hand = Some(record.length);
        Some(record)
    }
    #[inline(always)]
    fn transmit(&mut self) {
        black_box(self.hand.take());
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
}

impl Ahead for Desk {
    fn offered(&self, place: usize) -> Option<Record> {
        (place < self.offered).then(|| self.record(self.flows[(self.next + place) % self.flows.len()]))
    }
    fn room(&self) -> usize {
        self.room
    }
    fn visit(&self, queue: QueueId, see: &mut dyn FnMut(Record)) {
        let mut next = self.queues[queue.index()].first;
        while let Some((record, behind)) = self.places.get(next as usize) {
            see(*record);
            next = *behind;
        }
    }
}

/// A scheme in which so many packets of each of so many flows wait all the time.
pub(super) struct Busy {
    pub scheme: Box<dyn Scheme<Desk>>,
    desk: Desk,
}

impl Busy {
    pub fn new(scheme: Box<dyn Scheme<Desk>>, flows: usize, standing: usize) -> Busy {
        // In no order, so that nobody guesses who is next; and every flow as often.
        let mut order: Vec<(u64, u32)> = sequence(11).take(flows).zip(0..).collect();
        order.sort_unstable();
        let hash = |flow: u32| (((u64::from(flow) << 32) + (1 << 31)) / flows as u64) as u32;
        let hashes = order.into_iter().map(|(_, flow)| hash(flow)).collect();
        let desk = Desk::new(scheme.queues() as usize, hashes);
        let mut busy = Busy { scheme, desk };
        busy.desk.offered = flows * standing;
        busy.scheme.arrival(&mut busy.desk);
        busy
    }

    /// So many packets come, and as many leave.
    fn batch(&mut self, packets: usize) {
        self.desk.now += Nanos::new(packets as u64);
        self.desk.offered = packets;
        self.scheme.arrival(&mut self.desk);
        self.desk.room = packets;
        self.scheme.serve(&mut self.desk);
    }

    /// The same for that many packets, so many of them at once.
    pub fn batches(&mut self, packets: usize, batch: usize) {
        (0..packets / batch).for_each(|_| self.batch(batch));
    }
}

/// No scheme: whatever comes goes into the queue, and comes out of it.
pub(super) struct Bare;

impl Scheme<Desk> for Bare {
    fn arrival(&mut self, wires: &mut Desk) {
        while wires.arriving().is_some() {
            wires.enqueue(QueueId(0));
        }
    }

    fn link_ready(&mut self, wires: &mut Desk) -> Progress {
        match wires.dequeue(QueueId(0)) {
            Some(_) => {
                wires.transmit();
                Progress::Made
            }
            None => Progress::None,
        }
    }

    fn next(&self, _: &Desk) -> Next {
        Next::Ready
    }
}

/// The scheme as a configuration has it, but for as many queues as there are flows.
pub(super) fn built(text: &str, flows: usize) -> Box<dyn Scheme<Desk>> {
    let call = plan::Call::scheme(text, &plane::catalogue()).unwrap_or_else(|error| panic!("{text}: {}", error.reason));
    let with = |call: &plan::Call| -> Vec<(&'static str, u64)> {
        let value = |&(name, value): &(&'static str, u64)| match name {
            "flows" => (name, flows as u64),
            "limit" if call.option("flows").is_some() => (name, u64::from(u32::MAX)),
            _ => (name, value),
        };
        call.options.iter().map(value).collect()
    };
    let (outer, inner): (Vec<_>, Vec<Vec<_>>) = (with(&call), call.inner.iter().map(with).collect());
    let inside = call.inner.iter().zip(&inner);
    let inside = inside.map(|(call, options)| Layer { name: call.name, options, inside: Vec::new() }).collect();
    schemes::build(&Layer { name: call.name, options: &outer, inside }).unwrap_or_else(|error| panic!("{error}"))
}

/// Packets that a measurement takes: so few that most of the time nobody else gets the core meanwhile.
pub(super) const PACKETS: usize = 1 << 14;

/// Every scheme that manages a queue, and every one that orders queues with few and with many flows: what it takes more than wires
/// without any.
pub fn measure(rounds: Rounds) -> Vec<Figure> {
    let mut figures = super::parts::scheme(rounds);
    for declaration in schemes::DECLARATIONS {
        let budget = matches!(declaration.name, "codel" | "red").then_some(10.0);
        let busy = Busy::new(built(declaration.name, 1), 1, 10);
        let above = Above::wires(rounds, vec![busy]);
        figures.push(above.figure(0, format!("{}, one queue", declaration.name), budget));
    }
    let orders = schemes::ORDERS.iter().filter(|order| order.declaration.options.iter().any(|o| o.name == "flows"));
    for order in orders.filter(|order| order.declaration.name != "cake") {
        figures.extend(many(rounds, order.declaration.name));
    }
    figures
}

/// What several things cost above wires without a scheme, in nanoseconds a packet, round for round.
struct Above(Vec<Vec<f64>>);

impl Above {
    /// Measured in turns with those.
    fn wires(Rounds(rounds): Rounds, mut busy: Vec<Busy>) -> Above {
        let mut bare = Busy::new(Box::new(Bare), 1, 10);
        let cost = |busy: &mut Busy| each(Rounds(1), PACKETS, || busy.batches(PACKETS, BATCH));
        let round = |_| {
            let bare = cost(&mut bare);
            busy.iter_mut().map(|busy| cost(busy) - bare).collect()
        };
        Above((0..rounds * 4).map(round).collect())
    }

    fn middle(&self, of: impl Fn(&[f64]) -> f64) -> f64 {
        median(self.0.iter().map(|round| of(round)).collect())
    }

    fn figure(&self, which: usize, name: String, budget: Option<f64>) -> Figure {
        Figure::alone("schemes", name, self.middle(|round| round[which]), "ns/packet", budget)
    }
}

/// An order of ever more queues.
fn many(rounds: Rounds, name: &'static str) -> Vec<Figure> {
    const FLOWS: [usize; 4] = [10, 1024, 8192, 65_534];
    let inside = if name == "fq" { "codel" } else { "fifo" };
    let busy = |flows: usize| Busy::new(built(&format!("{name}{{{inside}}}"), flows), flows, 2);
    let above = Above::wires(rounds, FLOWS.map(busy).into());
    let budget = |flows: usize| match (name, flows) {
        ("fq", 1024) => Some(40.0),
        ("drr", _) => Some(25.0),
        ("wf2q", 65_534) => Some(80.0),
        _ => None,
    };
    let figure = |(i, &flows)| above.figure(i, format!("{name} of {inside}, {flows} flows"), budget(flows));
    let mut figures: Vec<Figure> = FLOWS.iter().enumerate().map(figure).collect();
    if name == "drr" {
        let [most, few] = [3, 0].map(|i| above.middle(|round| round[i]));
        let compared = (most, few, above.middle(|round| round[3] / round[0]));
        let name = format!("{name} of {inside}, {} flows against {}", FLOWS[3], FLOWS[0]);
        figures.push(Figure::beside("schemes", name, compared, "ns/packet", Some(2.0)));
    }
    figures
}
