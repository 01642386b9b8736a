//! Traces packets through the stages of the running router.
//!
//! A worker offers received packets to the open traces. Packets to be traced are marked, and the worker reports each stage of a marked packet. The
//! stages are collected here and delivered to the reader when the packet has met its fate. A rate limits the traced packets, so that a busy router is
//! not slowed down; packets beyond the rate are not even matched.

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

/// The most simultaneous traces.
pub const MOST_TRACES: usize = 8;
/// The most packets traced at the same time, over all traces.
const MOST_FLIGHTS: usize = 1024;
/// The default rate in packets a second.
pub const RATE: u64 = 100;

/// One trace.
pub struct Trace {
    tap: Tap,
    port: Option<PortId>,
    bucket: Mutex<Bucket>,
    rate: u64,
    /// True if it traces only packets injected over the API.
    injected: bool,
    /// Packets delivered to the reader, or missed by it, after they were traced.
    ended: AtomicU64,
}

impl Trace {
    /// Builds a trace of the wanted packets received on `port`, or on any, at most `rate` packets a second.
    pub fn new(wanted: Wanted, port: Option<PortId>, rate: u64) -> Trace {
        let bucket = Mutex::new(Bucket::per_second(rate, rate.div_ceil(10)));
        Trace { tap: Tap::new(wanted), port, bucket, rate, injected: false, ended: AtomicU64::new(0) }
    }

    /// Builds a trace of all wanted packets injected over the API.
    pub fn of_injected(wanted: Wanted, port: Option<PortId>) -> Trace {
        Trace { injected: true, ..Trace::new(wanted, port, u64::from(u32::MAX)) }
    }

    /// Returns the wanted packets and the counters.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Returns the most packets it traces a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    fn has_credit(&self, now: Instant) -> bool {
        if self.injected {
            return true;
        }
        // Ask a copy: a token is only taken for a packet that matches.
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
        // Reserve a slot before counting: the reader checks the count after each packet, and has to recognise the last one. If the channel is full,
        // the reader has other packets to read.
        let place = sender.try_reserve();
        self.tap.count(place.is_ok());
        self.ended.fetch_add(1, Ordering::Release);
        if let Ok(place) = place {
            place.send(gathered.clone());
        }
    }
}

/// Returns whether a packet arrives with the mark of injected packets.
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

/// The reader's end of a trace.
pub type Tracing = Subscription<Trace>;

/// A traced packet and its readers.
struct Flight {
    readers: Vec<Armed<Trace>>,
    gathered: Gathered,
}

/// The open traces, and the packets they trace.
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
    /// Returns whether there is a trace.
    pub fn are_open(&self) -> bool {
        self.roster.is_watched()
    }

    /// Returns the open traces.
    pub fn list(&self) -> Vec<Arc<Trace>> {
        self.roster.list()
    }

    /// Opens a trace; none if there are [`MOST_TRACES`] already, or the router is ending.
    pub fn open(&self, trace: Trace) -> Option<Tracing> {
        self.roster.open(trace)
    }

    /// Ends every trace. Traces of unfinished packets are delivered as far as they have been recorded.
    pub fn close(&self) {
        let flights = std::mem::take(&mut *self.flights.lock());
        flights.into_values().for_each(Flight::land);
        self.roster.close();
    }

    /// Marks the packets of a batch to be traced.
    pub fn choose(&self, now: Instant, port: PortId, packets: &mut [Packet]) {
        let armed = self.roster.armed();
        if !armed.iter().any(|armed| armed.watch.has_credit(now)) {
            return;
        }
        for packet in packets {
            let takers = armed.iter().filter(|armed| armed.watch.wants(now, port, packet));
            let takers: Vec<Armed<Trace>> = takers.filter(|armed| armed.watch.tap.take()).cloned().collect();
            // Injected packets arrive with the mark; clear it, because the mark now means that the packet is traced.
            packet.meta_mut().flags &= !Meta::FOLLOWED;
            if !takers.is_empty() {
                self.follow(now, packet, takers);
            }
        }
    }

    fn follow(&self, now: Instant, packet: &mut Packet, readers: Vec<Armed<Trace>>) {
        let mut flights = self.flights.lock();
        if flights.len() >= MOST_FLIGHTS {
            // Make room: drop packets whose readers are all gone.
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
            // The previous packet in this frame left without a fate here: it was handed off to another worker, or fragmented.
            lost.land();
        }
    }

    /// Records a stage of a traced packet.
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

    /// Records the fate of a traced packet, and delivers it.
    pub fn end(&self, now: Instant, frame: &[u8], meta: &Meta, fate: Fate, number: usize) {
        let flight = self.flights.lock().remove(&number);
        if let Some(mut flight) = flight {
            flight.gathered.end(now, frame, meta, fate);
            flight.land();
        }
    }
}

impl Flight {
    /// Returns the trace of a copy of its packet, with the stages so far, for readers whose limit allows one more packet.
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
    fn traces_respect_their_rate() {
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
    fn each_trace_gets_a_packet_once_after_its_fate() {
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
    fn untraceable_and_undelivered_packets_are_counted() {
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
