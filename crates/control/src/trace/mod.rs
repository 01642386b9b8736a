//! Following packets through the stages of the running router.
//!
//! A worker shows what has come in to whoever traces; those that are to be followed are marked, and from then on the
//! worker tells of every stage they pass. What was seen is gathered here by packet, and handed to the reader when the
//! packet has met its fate. A rate bounds how many are followed, so that a busy router is not held up: beyond it nothing
//! is even looked at.

mod gathered;
mod told;

pub use gathered::{Gathered, Seen};
pub(crate) use told::Teller;

use crate::capture::{Tap, Wanted};
use crate::roster::{Armed, Roster, Subscription, Watch};
use packet::event::{Fate, Stage};
use packet::{Meta, Packet};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::Sender;
use units::{Bucket, Instant, PortId};

/// Traces at once.
pub const MOST_TRACES: usize = 8;
/// Packets followed at once, all traces together.
const MOST_FLIGHTS: usize = 1024;
/// Packets a second that are followed where nothing else is said.
pub const RATE: u64 = 100;

/// One trace.
pub struct Trace {
    tap: Tap,
    port: Option<PortId>,
    bucket: Mutex<Bucket>,
    rate: u64,
    /// It follows what was given to the router over its API, and nothing else.
    injected: bool,
    /// Packets handed to its reader, or lost to it, once they were followed.
    ended: AtomicU64,
}

impl Trace {
    /// Follows what is wanted of what comes in by `port`, or by any, at most `rate` packets a second.
    pub fn new(wanted: Wanted, port: Option<PortId>, rate: u64) -> Trace {
        let bucket = Mutex::new(Bucket::per_second(rate, rate.div_ceil(10)));
        Trace { tap: Tap::new(wanted), port, bucket, rate, injected: false, ended: AtomicU64::new(0) }
    }

    /// Follows all of what is wanted that is given to the router over its API.
    pub fn of_injected(wanted: Wanted, port: Option<PortId>) -> Trace {
        Trace { injected: true, ..Trace::new(wanted, port, u64::from(u32::MAX)) }
    }

    /// What it takes, and what it has counted.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Packets it follows a second, at most.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    fn has_credit(&self, now: Instant) -> bool {
        if self.injected {
            return true;
        }
        // A copy is asked: credit is only taken for a packet that is wanted.
        let mut asked = *self.bucket.lock();
        asked.take(now)
    }

    fn wants(&self, now: Instant, port: PortId, packet: &Packet) -> bool {
        self.port.is_none_or(|wanted| wanted == port)
            && self.injected == is_marked(packet)
            && self.tap.takes(packet.bytes(), packet.meta())
            && (self.injected || self.bucket.lock().take(now))
    }

    fn hand(&self, sender: &Sender<Arc<Gathered>>, gathered: &Arc<Gathered>) {
        // A place first: a reader that has been woken by the last packet has to find that it was the last. Where there is
        // no place it has others to read.
        let place = sender.try_reserve();
        self.tap.count(place.is_ok());
        self.ended.fetch_add(1, Ordering::Release);
        if let Ok(place) = place {
            place.send(gathered.clone());
        }
    }
}

/// Whether a packet comes in as one to be followed.
fn is_marked(packet: &Packet) -> bool {
    packet.meta().flags & Meta::FOLLOWED != 0
}

impl Watch for Trace {
    type Item = Arc<Gathered>;
    const DEPTH: usize = 1024;

    fn is_done(&self) -> bool {
        self.tap.wanted().limit.is_some_and(|limit| self.ended.load(Ordering::Acquire) >= limit)
    }
}

/// A trace as its reader has it.
pub type Tracing = Subscription<Trace>;

/// A packet that is being followed, and for whom.
struct Flight {
    readers: Vec<Armed<Trace>>,
    gathered: Gathered,
}

/// The traces that are open, and the packets they follow.
pub struct Traces {
    roster: Arc<Roster<Trace>>,
    flights: Mutex<HashMap<usize, Flight>>,
}

impl Default for Traces {
    fn default() -> Self {
        Traces { roster: Arc::new(Roster::new(MOST_TRACES)), flights: Mutex::default() }
    }
}

impl Traces {
    /// Whether anybody traces.
    pub fn are_open(&self) -> bool {
        self.roster.is_watched()
    }

    /// Those that are open.
    pub fn list(&self) -> Vec<Arc<Trace>> {
        self.roster.list()
    }

    /// Opens a trace; nothing where there are [`MOST_TRACES`] already, or the router is ending.
    pub fn open(&self, trace: Trace) -> Option<Tracing> {
        self.roster.open(trace)
    }

    /// Ends every trace: packets on their way are handed over as far as they have come.
    pub fn close(&self) {
        let flights = std::mem::take(&mut *self.flights.lock());
        flights.into_values().for_each(Flight::land);
        self.roster.close();
    }

    /// Marks the packets of a batch that are to be followed.
    pub fn choose(&self, now: Instant, port: PortId, packets: &mut [Packet]) {
        let armed = self.roster.armed();
        if !armed.iter().any(|armed| armed.watch.has_credit(now)) {
            return;
        }
        for packet in packets {
            let takers = armed.iter().filter(|armed| armed.watch.wants(now, port, packet));
            let takers: Vec<Armed<Trace>> = takers.filter(|armed| armed.watch.tap.take()).cloned().collect();
            // What was given over the API comes marked.
            packet.meta_mut().flags &= !Meta::FOLLOWED;
            if !takers.is_empty() {
                self.follow(now, packet, takers);
            }
        }
    }

    fn follow(&self, now: Instant, packet: &mut Packet, readers: Vec<Armed<Trace>>) {
        let mut flights = self.flights.lock();
        if flights.len() >= MOST_FLIGHTS {
            // Packets whose readers have gone are followed for nobody.
            flights.retain(|_, flight| flight.readers.iter().any(|armed| !armed.sender.is_closed()));
        }
        if flights.len() >= MOST_FLIGHTS {
            for armed in readers {
                armed.watch.tap.count(false);
                armed.watch.tap.give_back();
            }
            return;
        }
        packet.meta_mut().flags |= Meta::FOLLOWED;
        let gathered = Gathered::new(now, packet.bytes());
        if let Some(lost) = flights.insert(packet.number(), Flight { readers, gathered }) {
            // Its packet went another way than through a fate here: to another worker, as fragments.
            lost.land();
        }
    }

    /// A followed packet has passed a stage.
    pub fn pass(&self, now: Instant, frame: &[u8], meta: &Meta, stage: Stage<'_>, number: usize) {
        let mut flights = self.flights.lock();
        if let Stage::Copied { of } = stage
            && let Some(copy) = flights.get(&of).and_then(Flight::copied).filter(|_| flights.len() < MOST_FLIGHTS)
            && let Some(lost) = flights.insert(number, copy)
        {
            lost.land();
        }
        if let Some(flight) = flights.get_mut(&number) {
            flight.gathered.pass(now, frame, meta, stage);
        }
    }

    /// A followed packet has met its fate.
    pub fn end(&self, now: Instant, frame: &[u8], meta: &Meta, fate: Fate, number: usize) {
        let flight = self.flights.lock().remove(&number);
        if let Some(mut flight) = flight {
            flight.gathered.end(now, frame, meta, fate);
            flight.land();
        }
    }
}

impl Flight {
    /// The flight of a copy of its packet, for those who follow one packet more; it has come as far as that.
    fn copied(&self) -> Option<Flight> {
        let readers: Vec<Armed<Trace>> = self.readers.iter().filter(|armed| armed.watch.tap.take()).cloned().collect();
        (!readers.is_empty()).then(|| Flight { readers, gathered: self.gathered.clone() })
    }

    fn land(self) {
        let gathered = Arc::new(self.gathered);
        for Armed { watch, sender } in &self.readers {
            watch.hand(sender, &gathered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Pool, Region};
    use units::Nanos;

    fn packets(pool: &mut Pool, count: usize) -> Vec<Packet> {
        let one = |_| {
            let mut packet = pool.take().unwrap();
            assert!(packet.fill(&[7; 60]));
            packet
        };
        (0..count).map(one).collect()
    }

    fn marked(packets: &[Packet]) -> usize {
        packets.iter().filter(|packet| packet.meta().flags & Meta::FOLLOWED != 0).count()
    }

    fn wanted(limit: Option<u64>) -> Wanted {
        Wanted { limit, ..Wanted::default() }
    }

    #[test]
    fn no_more_packets_are_followed_than_the_rate_allows() {
        let mut pool = Pool::new(Region::new(256));
        let traces = Traces::default();
        let _open = traces.open(Trace::new(wanted(None), None, 100)).unwrap();
        let mut batch = packets(&mut pool, 200);
        let now = Instant::START + Nanos::secs(10);
        traces.choose(now, PortId(0), &mut batch);
        assert_eq!(marked(&batch), 10, "a tenth of a second's worth at once");
        let mut more = batch.split_off(100);
        traces.choose(now + Nanos::millis(50), PortId(0), &mut more);
        assert_eq!(marked(&more), 5);
        batch.into_iter().chain(more).for_each(|packet| pool.give(packet));
    }

    #[test]
    fn a_packet_is_handed_over_once_for_each_trace_when_it_has_met_its_fate() {
        let mut pool = Pool::new(Region::new(16));
        let traces = Traces::default();
        let mut first = traces.open(Trace::new(wanted(Some(1)), Some(PortId(1)), 100)).unwrap();
        let mut second = traces.open(Trace::new(wanted(None), None, 100)).unwrap();
        let mut batch = packets(&mut pool, 1);
        let now = Instant::START + Nanos::secs(10);
        traces.choose(now, PortId(1), &mut batch);
        let (number, meta) = (batch[0].number(), *batch[0].meta());
        traces.pass(now, &[7; 60], &meta, Stage::Received(PortId(1)), number);
        assert!(first.try_next().is_none(), "it is still on its way");
        traces.end(now + Nanos::micros(3), &[7; 60], &meta, Fate::Consumed, number);
        let gathered = first.try_next().unwrap();
        assert_eq!((gathered.fate, gathered.took), (Some(Fate::Consumed), Nanos::micros(3)));
        assert!(second.try_next().is_some() && second.try_next().is_none());
        assert!(first.watch().is_done() && !second.watch().is_done());
        traces.end(now, &[7; 60], &meta, Fate::Consumed, number);
        assert!(second.try_next().is_none(), "a packet ends once");
        batch.into_iter().for_each(|packet| pool.give(packet));
    }

    #[test]
    fn what_cannot_be_followed_or_handed_over_is_counted() {
        let mut pool = Pool::new(Region::new(4096));
        let traces = Traces::default();
        let mut open = traces.open(Trace::new(wanted(None), None, 1_000_000)).unwrap();
        let mut batch = packets(&mut pool, MOST_FLIGHTS + 10);
        let now = Instant::START + Nanos::secs(10);
        traces.choose(now, PortId(0), &mut batch);
        assert_eq!((marked(&batch), open.watch().tap().missed()), (MOST_FLIGHTS, 10));
        for packet in &batch {
            traces.end(now, packet.bytes(), packet.meta(), Fate::Consumed, packet.number());
        }
        batch.iter_mut().for_each(|packet| packet.meta_mut().flags = 0);
        traces.choose(now, PortId(0), &mut batch[..5]);
        traces.close();
        assert!(traces.open(Trace::new(wanted(None), None, 1)).is_none(), "the router ends");
        let handed = std::iter::from_fn(|| open.try_next()).count() as u64;
        assert_eq!(handed, Trace::DEPTH as u64);
        assert_eq!(open.watch().tap().missed(), 15);
        batch.into_iter().for_each(|packet| pool.give(packet));
    }
}
