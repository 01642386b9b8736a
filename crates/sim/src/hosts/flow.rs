//! A flow: an application, its sender and receiver, and its counters.

use super::packet::{Fields, Packet, Payload};
use super::wires::Fate;
use crate::describe::FlowPlan;
use crate::histogram::DurationHistogram;
use crate::tcp::application::{SmoothedRtt, TcpApplication};
use crate::tcp::{Ack, Receiver, Sender};
use units::Instant;

/// The counters of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Counts {
    /// Packets given to the first link: segments, then acknowledgements.
    pub emitted: [u64; 2],
    /// Packets that arrived at the other end, likewise.
    pub arrived: [u64; 2],
    /// Segments dropped, in the order of [`Fate::DROPS`].
    pub dropped: [u64; Fate::DROPS.len()],
    /// Acknowledgements dropped.
    pub acks_dropped: u64,
    /// Segments that arrived marked.
    pub marked: u64,
}

/// A running flow.
pub(super) struct Flow {
    pub plan: FlowPlan,
    pub sender: Sender,
    pub receiver: Receiver,
    pub application: TcpApplication,
    /// The fields that schemes see, of segments and of acknowledgements.
    pub fields: [Fields; 2],
    /// The links of segments, and those of acknowledgements.
    pub routes: [Vec<u32>; 2],
    /// True if no link on the route reorders packets; for both directions.
    ordered: [bool; 2],
    /// The number of its first stream, which has its segments. The next number is the stream of acknowledgements.
    stream: u32,
    /// For each stream, the place of the next packet to send, and the least place that may arrive.
    places: [u32; 2],
    expected: [u32; 2],
    begun: bool,
    /// The time of its pending timer event.
    pub timer_event: u64,
    pub counts: Counts,
    /// One-way delays of segments.
    pub one_way: DurationHistogram,
    pub smoothed: SmoothedRtt,
}

impl Flow {
    /// Flow number `number`, with its sender, receiver and application.
    pub fn new(
        (number, plan): (usize, &FlowPlan),
        (sender, receiver, application): (Sender, Receiver, TcpApplication),
        fields: [Fields; 2],
        routes: [Vec<u32>; 2],
        ordered: [bool; 2],
    ) -> Flow {
        Flow {
            sender,
            receiver,
            application,
            fields,
            routes,
            ordered,
            stream: number as u32 * 2,
            places: [0; 2],
            expected: [0; 2],
            begun: false,
            timer_event: u64::MAX,
            counts: Counts::default(),
            one_way: DurationHistogram::new(),
            smoothed: SmoothedRtt::new(plan.rtt_interval),
            plan: plan.clone(),
        }
    }

    /// Makes a packet for the first link of its route.
    #[inline]
    pub fn packet(&mut self, way: usize, load: Payload) -> Packet {
        self.counts.emitted[way] += 1;
        let place = self.places[way];
        self.places[way] = place.wrapping_add(1);
        let capable = way == 0 && self.sender.is_ecn_capable();
        Packet {
            stream: self.stream + way as u32,
            number: place,
            bytes: if way == 0 { self.plan.packet } else { self.plan.acknowledgement },
            hop: 0,
            // ECT(0), on segments only (RFC 3168, 6.1.4).
            ecn: if capable { 2 } else { 0 },
            class: self.plan.class,
            arrived_at: 0,
            payload: load,
        }
    }

    /// Counts a packet that arrived at its end. If it was overtaken on an ordered route, returns the place of the packet that overtook it.
    #[inline]
    pub fn arrived(&mut self, way: usize, packet: &Packet) -> Option<u32> {
        self.counts.arrived[way] += 1;
        if !self.ordered[way] {
            return None;
        }
        let expected = std::mem::replace(&mut self.expected[way], packet.number.wrapping_add(1));
        // Places wrap around, so they are compared modulo 2^32.
        (packet.number.wrapping_sub(expected) > u32::MAX / 2).then(|| expected.wrapping_sub(1))
    }

    /// A segment arrived. Returns the acknowledgement to send.
    #[inline]
    pub fn segment(&mut self, now: Instant, segment: &crate::tcp::TcpSegment, congested: bool) -> Option<Ack> {
        self.counts.marked += u64::from(congested);
        self.one_way.record(now.since(segment.sent).get());
        self.receiver.segment(now, *segment, congested)
    }

    /// An acknowledgement arrived.
    #[inline]
    pub fn acknowledged(&mut self, now: Instant, ack: &Ack) {
        let before = self.sender.acknowledged();
        self.sender.acknowledge(now, ack);
        if self.sender.acknowledged() > before
            && let Some(smoothed) = self.sender.smoothed_rtt()
        {
            self.smoothed.acknowledged(now, smoothed);
        }
        self.application.acknowledged(now, &self.sender);
    }

    /// Counts a dropped packet of this flow.
    pub fn dropped(&mut self, packet: &Packet, fate: Fate) {
        if packet.stream != self.stream {
            self.counts.acks_dropped += 1;
        } else if let Some(kind) = Fate::DROPS.iter().position(|(known, _)| *known == fate) {
            self.counts.dropped[kind] += 1;
        }
    }

    /// The next time at which it must run, if no packet arrives before.
    #[inline]
    pub fn next(&self) -> u64 {
        if !self.begun {
            return self.plan.start.get();
        }
        let at = |timer: Option<Instant>| timer.map_or(u64::MAX, Instant::get);
        at(self.sender.timer()).min(at(self.application.timer())).min(at(self.receiver.timer()))
    }

    /// Runs its timers. Returns the acknowledgement that its receiver sends.
    pub fn run_timers(&mut self, now: Instant) -> Option<Ack> {
        if !self.begun {
            if now < self.plan.start {
                return None;
            }
            self.begun = true;
            self.application.begin(now, &mut self.sender);
        }
        self.sender.expire(now);
        self.application.expire(now, &mut self.sender);
        self.receiver.expire(now)
    }
}
