//! Traces packets through the stages of the running router.
//!
//! A worker offers received packets to the open traces. Packets to be traced are marked, and the worker reports each stage of a marked packet. The
//! stages are collected here and delivered to the reader when the packet has met its fate. A rate limits the traced packets, so that a busy router is
//! not slowed down; packets beyond the rate are not even matched.

mod packet_trace;
mod report;

pub use packet_trace::{PacketTrace, TraceStage};
pub(crate) use report::TraceFormatter;

use crate::capture::{CaptureFilter, CaptureTap};
use crate::subscriptions::{Subscription, Subscriptions, Watch, WatchChannel};
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
const MOST_ACTIVE: usize = 1024;
/// The default rate in packets a second.
pub const DEFAULT_RATE: u64 = 100;

/// One trace.
pub struct TraceSession {
    tap: CaptureTap,
    port: Option<PortId>,
    bucket: Mutex<Bucket>,
    rate: u64,
    /// True if it traces only packets injected over the API.
    injected: bool,
    /// Packets delivered to the reader, or missed by it, after they were traced.
    ended: AtomicU64,
}

impl TraceSession {
    /// Builds a trace of the wanted packets received on `port`, or on any, at most `rate` packets a second.
    pub fn new(wanted: CaptureFilter, port: Option<PortId>, rate: u64) -> TraceSession {
        let bucket = Mutex::new(Bucket::per_second(rate, rate.div_ceil(10)));
        TraceSession { tap: CaptureTap::new(wanted), port, bucket, rate, injected: false, ended: AtomicU64::new(0) }
    }

    /// Builds a trace of all wanted packets injected over the API.
    pub fn of_injected(wanted: CaptureFilter, port: Option<PortId>) -> TraceSession {
        TraceSession { injected: true, ..TraceSession::new(wanted, port, u64::from(u32::MAX)) }
    }

    /// Returns the wanted packets and the counters.
    pub fn tap(&self) -> &CaptureTap {
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

    fn accepts(&self, now: Instant, port: PortId, packet: &Packet) -> bool {
        self.port.is_none_or(|wanted| wanted == port)
            && self.injected == is_marked(packet)
            && self.tap.matches(packet.bytes(), packet.meta())
            && (self.injected || self.bucket.lock().take(now))
    }

    fn deliver(&self, sender: &Sender<Arc<PacketTrace>>, gathered: &Arc<PacketTrace>) {
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

impl Watch for TraceSession {
    type Item = Arc<PacketTrace>;
    const DEPTH: usize = 1024;

    fn is_done(&self) -> bool {
        self.tap.wanted().limit.is_some_and(|limit| self.ended.load(Ordering::Acquire) >= limit)
    }
}

/// The reader's end of a trace.
pub type TraceReader = Subscription<TraceSession>;

/// A traced packet and its readers.
struct ActiveTrace {
    readers: Vec<WatchChannel<TraceSession>>,
    trace: PacketTrace,
}

/// The open traces, and the packets they trace.
pub struct Traces {
    subscriptions: Arc<Subscriptions<TraceSession>>,
    active: Mutex<HashMap<usize, ActiveTrace>>,
}

impl Default for Traces {
    fn default() -> Self {
        Traces { subscriptions: Arc::new(Subscriptions::new(MOST_TRACES)), active: Mutex::default() }
    }
}

impl Traces {
    /// Returns whether there is a trace.
    pub fn has_traces(&self) -> bool {
        self.subscriptions.is_watched()
    }

    /// Returns the open traces.
    pub fn list(&self) -> Vec<Arc<TraceSession>> {
        self.subscriptions.list()
    }

    /// Opens a trace; none if there are [`MOST_TRACES`] already, or the router is stopping.
    pub fn open(&self, trace: TraceSession) -> Option<TraceReader> {
        self.subscriptions.open(trace)
    }

    /// Ends every trace. Traces of unfinished packets are delivered as far as they have been recorded.
    pub fn close(&self) {
        let flights = std::mem::take(&mut *self.active.lock());
        flights.into_values().for_each(ActiveTrace::deliver);
        self.subscriptions.close();
    }

    /// Marks the packets of a batch to be traced.
    pub fn choose(&self, now: Instant, port: PortId, packets: &mut [Packet]) {
        let armed = self.subscriptions.channels();
        if !armed.iter().any(|armed| armed.watch.has_credit(now)) {
            return;
        }
        for packet in packets {
            let takers = armed.iter().filter(|armed| armed.watch.accepts(now, port, packet));
            let takers: Vec<WatchChannel<TraceSession>> =
                takers.filter(|armed| armed.watch.tap.take_from_limit()).cloned().collect();
            // Injected packets arrive with the mark; clear it, because the mark now means that the packet is traced.
            packet.meta_mut().flags &= !Meta::FOLLOWED;
            if !takers.is_empty() {
                self.start_packet(now, packet, takers);
            }
        }
    }

    fn start_packet(&self, now: Instant, packet: &mut Packet, readers: Vec<WatchChannel<TraceSession>>) {
        let mut flights = self.active.lock();
        if flights.len() >= MOST_ACTIVE {
            // Make room: drop packets whose readers are all gone.
            flights.retain(|_, flight| flight.readers.iter().any(|armed| !armed.sender.is_closed()));
        }
        if flights.len() >= MOST_ACTIVE {
            for armed in readers {
                armed.watch.tap.count(false);
                armed.watch.tap.return_to_limit();
            }
            return;
        }
        packet.meta_mut().flags |= Meta::FOLLOWED;
        let gathered = PacketTrace::new(now, packet.bytes());
        if let Some(lost) = flights.insert(packet.number(), ActiveTrace { readers, trace: gathered }) {
            // The previous packet in this frame left without a fate here: it was handed off to another worker, or fragmented.
            lost.deliver();
        }
    }

    /// Records a stage of a traced packet.
    pub fn record_stage(&self, now: Instant, frame: &[u8], meta: &Meta, stage: Stage<'_>, number: usize) {
        let mut flights = self.active.lock();
        if let Stage::Copied { original: of } = stage
            && let Some(copy) = flights.get(&of).and_then(ActiveTrace::for_copy).filter(|_| flights.len() < MOST_ACTIVE)
            && let Some(lost) = flights.insert(number, copy)
        {
            lost.deliver();
        }
        if let Some(flight) = flights.get_mut(&number) {
            flight.trace.record_stage(now, frame, meta, stage);
        }
    }

    /// Records the fate of a traced packet, and delivers it.
    pub fn record_fate(&self, now: Instant, frame: &[u8], meta: &Meta, fate: Fate, number: usize) {
        let flight = self.active.lock().remove(&number);
        if let Some(mut flight) = flight {
            flight.trace.record_fate(now, frame, meta, fate);
            flight.deliver();
        }
    }
}

impl ActiveTrace {
    /// Returns the trace of a copy of its packet, with the stages so far, for readers whose limit allows one more packet.
    fn for_copy(&self) -> Option<ActiveTrace> {
        let readers: Vec<WatchChannel<TraceSession>> =
            self.readers.iter().filter(|armed| armed.watch.tap.take_from_limit()).cloned().collect();
        (!readers.is_empty()).then(|| ActiveTrace { readers, trace: self.trace.clone() })
    }

    fn deliver(self) {
        let gathered = Arc::new(self.trace);
        for WatchChannel { watch, sender } in &self.readers {
            watch.deliver(sender, &gathered);
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

    fn wanted(limit: Option<u64>) -> CaptureFilter {
        CaptureFilter { limit, ..CaptureFilter::default() }
    }

    #[test]
    fn traces_respect_their_rate() {
        let mut pool = Pool::new(Region::new(256));
        let traces = Traces::default();
        let _open = traces.open(TraceSession::new(wanted(None), None, 100)).unwrap();
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
        let mut first = traces.open(TraceSession::new(wanted(Some(1)), Some(PortId(1)), 100)).unwrap();
        let mut second = traces.open(TraceSession::new(wanted(None), None, 100)).unwrap();
        let mut batch = packets(&mut pool, 1);
        let now = Instant::START + Nanos::secs(10);
        traces.choose(now, PortId(1), &mut batch);
        let (number, meta) = (batch[0].number(), *batch[0].meta());
        traces.record_stage(now, &[7; 60], &meta, Stage::Received(PortId(1)), number);
        assert!(first.try_next().is_none(), "it is still on its way");
        traces.record_fate(now + Nanos::micros(3), &[7; 60], &meta, Fate::Consumed, number);
        let gathered = first.try_next().unwrap();
        assert_eq!((gathered.fate, gathered.elapsed), (Some(Fate::Consumed), Nanos::micros(3)));
        assert!(second.try_next().is_some() && second.try_next().is_none());
        assert!(first.watch().is_done() && !second.watch().is_done());
        traces.record_fate(now, &[7; 60], &meta, Fate::Consumed, number);
        assert!(second.try_next().is_none(), "a packet ends once");
        batch.into_iter().for_each(|packet| pool.give(packet));
    }

    #[test]
    fn untraceable_and_undelivered_packets_are_counted() {
        let mut pool = Pool::new(Region::new(4096));
        let traces = Traces::default();
        let mut open = traces.open(TraceSession::new(wanted(None), None, 1_000_000)).unwrap();
        let mut batch = packets(&mut pool, MOST_ACTIVE + 10);
        let now = Instant::START + Nanos::secs(10);
        traces.choose(now, PortId(0), &mut batch);
        assert_eq!((marked(&batch), open.watch().tap().missed()), (MOST_ACTIVE, 10));
        for packet in &batch {
            traces.record_fate(now, packet.bytes(), packet.meta(), Fate::Consumed, packet.number());
        }
        batch.iter_mut().for_each(|packet| packet.meta_mut().flags = 0);
        traces.choose(now, PortId(0), &mut batch[..5]);
        traces.close();
        assert!(traces.open(TraceSession::new(wanted(None), None, 1)).is_none(), "the router ends");
        let handed = std::iter::from_fn(|| open.try_next()).count() as u64;
        assert_eq!(handed, TraceSession::DEPTH as u64);
        assert_eq!(open.watch().tap().missed(), 15);
        batch.into_iter().for_each(|packet| pool.give(packet));
    }
}
