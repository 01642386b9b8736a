//! A flow: an application, the sender and the receiver between which its packets go, and what is counted of it.

use super::packet::{Fields, Load, Packet};
use super::wires::Fate;
use crate::describe::FlowPlan;
use crate::tcp::application::{Application, SmoothedRtt};
use crate::tcp::{Ack, Receiver, Sender};
use crate::times::Times;
use units::Instant;

/// What is counted of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Counts {
    /// Segments given to the first link, and acknowledgements.
    pub emitted: [u64; 2],
    /// Those that have come to the other end.
    pub arrived: [u64; 2],
    /// Segments dropped, in the order of [`Fate::DROPS`].
    pub dropped: [u64; Fate::DROPS.len()],
    /// Acknowledgements dropped.
    pub acks_dropped: u64,
    /// Segments that came marked.
    pub marked: u64,
}

/// A flow that runs.
pub(super) struct Flow {
    pub plan: FlowPlan,
    pub sender: Sender,
    pub receiver: Receiver,
    pub application: Application,
    /// What schemes know of its segments, and of its acknowledgements.
    pub fields: [Fields; 2],
    /// The links that its segments take, and its acknowledgements.
    pub routes: [Vec<u32>; 2],
    /// Whether its packets cannot overtake each other on these.
    ordered: [bool; 2],
    /// The first stream: its segments.
    stream: u32,
    /// Of each stream the place that the next packet gets, and the least that may come.
    places: [u32; 2],
    expected: [u32; 2],
    begun: bool,
    /// When its timer is to be looked at.
    pub armed: u64,
    pub counts: Counts,
    /// From being sent to coming to the receiver.
    pub one_way: Times,
    pub smoothed: SmoothedRtt,
}

impl Flow {
    /// The flow of that number, between ends at work.
    pub fn new(
        (number, plan): (usize, &FlowPlan),
        (sender, receiver, application): (Sender, Receiver, Application),
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
            armed: u64::MAX,
            counts: Counts::default(),
            one_way: Times::new(),
            smoothed: SmoothedRtt::new(plan.look),
            plan: plan.clone(),
        }
    }

    /// A packet of its own, for the first link of its way.
    #[inline]
    pub fn packet(&mut self, way: usize, load: Load) -> Packet {
        self.counts.emitted[way] += 1;
        let place = self.places[way];
        self.places[way] = place.wrapping_add(1);
        let capable = way == 0 && self.sender.takes_marks();
        Packet {
            stream: self.stream + way as u32,
            place,
            bytes: if way == 0 { self.plan.packet } else { self.plan.acknowledgement },
            hop: 0,
            // ECT(0), of segments only (RFC 3168, 6.1.4).
            ecn: if capable { 2 } else { 0 },
            class: self.plan.class,
            came: 0,
            load,
        }
    }

    /// A packet has come to the end of its way. Answers the place of one that has overtaken it, where none can.
    #[inline]
    pub fn arrived(&mut self, way: usize, packet: &Packet) -> Option<u32> {
        self.counts.arrived[way] += 1;
        if !self.ordered[way] {
            return None;
        }
        let expected = std::mem::replace(&mut self.expected[way], packet.place.wrapping_add(1));
        // Places go round.
        (packet.place.wrapping_sub(expected) > u32::MAX / 2).then(|| expected.wrapping_sub(1))
    }

    /// A segment has come. Answers what is sent back.
    #[inline]
    pub fn segment(&mut self, now: Instant, segment: &crate::tcp::Segment, congested: bool) -> Option<Ack> {
        self.counts.marked += u64::from(congested);
        self.one_way.record(now.since(segment.sent).get());
        self.receiver.segment(now, *segment, congested)
    }

    /// An acknowledgement has come.
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

    /// A packet of its own was dropped.
    pub fn dropped(&mut self, packet: &Packet, fate: Fate) {
        if packet.stream != self.stream {
            self.counts.acks_dropped += 1;
        } else if let Some(kind) = Fate::DROPS.iter().position(|(known, _)| *known == fate) {
            self.counts.dropped[kind] += 1;
        }
    }

    /// When it wants to be looked at though nothing comes.
    #[inline]
    pub fn next(&self) -> u64 {
        if !self.begun {
            return self.plan.start.get();
        }
        let at = |timer: Option<Instant>| timer.map_or(u64::MAX, Instant::get);
        at(self.sender.timer()).min(at(self.application.timer())).min(at(self.receiver.timer()))
    }

    /// It is looked at. Answers what its receiver sends.
    pub fn wake(&mut self, now: Instant) -> Option<Ack> {
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
