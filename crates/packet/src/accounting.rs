//! Accounting of packet fates on one worker. Every stage that ends a packet does so here, so that the ledger, the counters and the observers all
//! record it.

use crate::event::{Event, EventInterests, Fate, Observer, Stage};
use crate::latency::LatencyHistograms;
use crate::port::Port;
use crate::{Batch, DropReason, Ledger, Meta, Packet, Pool, SharedPacket, StallCounters, StallMeter};
use units::{Instant, PortId, WorkerId};

/// The worker's ledger, its pool and its observer.
pub struct Accounting {
    /// The worker.
    pub worker: WorkerId,
    /// The number of packets with each fate.
    pub ledger: Ledger,
    /// The pool that frames are taken from and given back to.
    pub pool: Pool,
    /// The observer that receives events.
    pub observer: Box<dyn Observer>,
    /// The events that the observer wants, as of the beginning of the step.
    interests: EventInterests,
    /// True if the observer wants the fate of any packet.
    reports_fates: bool,
    /// The time at which the step began.
    pub now: Instant,
    /// Drops by port and reason. The port is the ingress port, or the egress port for drops of its queueing scheme.
    drops: Vec<[u64; DropReason::COUNT]>,
    /// Latency histograms by path.
    pub latencies: LatencyHistograms,
    /// The stalls of the worker.
    pub stalls: StallCounters,
    pool_stall: StallMeter,
}

impl Accounting {
    /// Accounting with all counters at zero.
    pub fn new(worker: WorkerId, pool: Pool, observer: Box<dyn Observer>) -> Accounting {
        Accounting {
            worker,
            ledger: Ledger::default(),
            pool,
            observer,
            interests: EventInterests::default(),
            reports_fates: false,
            now: Instant::START,
            drops: Vec::new(),
            latencies: LatencyHistograms::default(),
            stalls: StallCounters::default(),
            pool_stall: StallMeter::default(),
        }
    }

    /// Begins a step.
    #[inline]
    pub fn begin_step(&mut self, now: Instant) {
        self.now = now;
        if self.pool.take_refusal() {
            self.pool_stall.observe(true, now, self.stalls.pool());
        } else if self.pool_stall.is_stalled() {
            self.pool_stall.observe(!self.pool.has_frames(), now, self.stalls.pool());
        }
        self.interests = self.observer.interests();
        self.reports_fates = self.interests.packets | self.interests.stages;
    }

    /// True if an observer follows packets. Tested once per batch, so that single packets cost nothing without an observer.
    #[inline(always)]
    pub fn follows_packets(&self) -> bool {
        self.interests.stages
    }

    /// True if the observer wants packets as they were received. Tested once per batch, like [`Accounting::follows_packets`].
    #[inline(always)]
    fn observes_arrivals(&self) -> bool {
        self.interests.stages | self.interests.arrivals
    }

    /// Packets of `port` have been received and classified. `given` marks packets whose fate a caller has asked for.
    #[inline(always)]
    pub fn record_classified(&mut self, port: PortId, packets: &mut [Packet], given: bool) {
        if self.observes_arrivals() {
            if given {
                packets.iter_mut().for_each(|packet| packet.meta_mut().flags |= Meta::FOLLOWED);
            }
            self.choose_followed(port, packets);
        }
    }

    /// Packets are about to wait in a queue that holds `ahead` packets and has room for `room`.
    #[inline(always)]
    pub fn record_waiting(&mut self, packets: &[Packet], ahead: usize, room: usize) {
        if self.follows_packets() {
            for (position, packet) in packets.iter().take(room).enumerate() {
                self.record_stage(packet, Stage::Waiting { packets_ahead: ahead + position });
            }
        }
    }

    /// Packets of `port` have been received and classified. The observer chooses the packets to follow; their first stages are reported.
    #[cold]
    fn choose_followed(&mut self, port: PortId, packets: &mut [Packet]) {
        self.observer.choose(self.now, port, packets);
        for packet in packets {
            self.record_stage(packet, Stage::Received(port));
            self.record_stage(packet, Stage::Classified);
        }
    }

    /// A packet has passed a stage. Reported if it is followed.
    #[cold]
    pub fn record_stage(&mut self, packet: &Packet, stage: Stage<'_>) {
        if self.interests.stages && packet.meta().flags & Meta::FOLLOWED != 0 {
            let (frame, meta, number) = (&*packet.whole(), packet.meta(), packet.number());
            self.observer.event(self.now, &Event::StagePassed { frame, meta, stage, number });
        }
    }

    /// A packet passed a stage earlier, when its bytes were `frame`. Reported if it is followed.
    #[cold]
    pub fn record_stage_with_frame(&mut self, packet: &Packet, stage: Stage<'_>, frame: &[u8]) {
        if self.interests.stages && packet.meta().flags & Meta::FOLLOWED != 0 {
            let (meta, number) = (packet.meta(), packet.number());
            self.observer.event(self.now, &Event::StagePassed { frame, meta, stage, number });
        }
    }

    /// Drops packets whose frames are not given back, because an abandoned thread holds them. `came` has their ingress ports. Observers that follow
    /// them receive no event.
    pub fn drop_abandoned(&mut self, came: &[PortId], reason: DropReason) {
        for port in came {
            if let Some(counts) = self.drops.get_mut(port.index()) {
                counts[reason.index()] += 1;
            }
        }
        self.ledger.drop_abandoned(came.len() as u64, reason, &mut self.pool);
    }

    /// Drops a packet, counted at its ingress port.
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        let port = packet.meta().in_port;
        self.drop_at(port, packet, reason);
    }

    /// Drops a packet, counted at `port`.
    pub fn drop_at(&mut self, port: PortId, packet: Packet, reason: DropReason) {
        if self.reports_fates {
            self.report_fate(&packet, Fate::Dropped(reason));
        }
        if let Some(counts) = self.drops.get_mut(port.index()) {
            counts[reason.index()] += 1;
        }
        self.ledger.drop(packet, reason, &mut self.pool);
    }

    /// Ends a packet for the router itself.
    pub fn consume(&mut self, packet: Packet) {
        if self.reports_fates {
            self.report_fate(&packet, Fate::Consumed);
        }
        self.ledger.consume(packet, &mut self.pool);
    }

    /// Ends a packet at the end of its tunnel. Its frame stays in use, for the payload.
    pub fn decapsulate(&mut self, packet: &Packet) {
        if self.reports_fates {
            self.report_fate(packet, Fate::Consumed);
        }
        self.ledger.decapsulate();
    }

    /// Ends a packet of which all copies are made.
    pub fn replicate(&mut self, shared: SharedPacket) {
        if self.reports_fates {
            self.report_fate(shared.packet(), Fate::Consumed);
        }
        self.ledger.replicate(shared, &mut self.pool);
    }

    /// Records that a copy of `packet` could not be made, at the packet's ingress port. Observers receive events of the existing copies only.
    pub fn record_missed_copy(&mut self, packet: &Packet, reason: DropReason) {
        if let Some(counts) = self.drops.get_mut(packet.meta().in_port.index()) {
            counts[reason.index()] += 1;
        }
        self.ledger.drop_copy(reason);
    }

    /// Transmits the packets of `batch` by `port`, whose id is `id`. If the port is `relayed`, they go to another worker. Returns the number of
    /// packets sent. Packets that the medium refuses stay in `batch`; the caller drops them.
    #[inline]
    pub fn transmit(&mut self, id: PortId, port: &mut dyn Port, batch: &mut Batch, relayed: bool) -> u64 {
        let given = batch.len();
        if self.reports_fates {
            self.transmit_watched(id, port, batch);
        } else {
            port.transmit(self.now, batch, &mut self.pool);
        }
        let sent = (given - batch.len()) as u64;
        if relayed {
            self.ledger.hand_over(sent)
        } else {
            self.ledger.send(sent)
        }
        sent
    }

    /// Frames are gone after their transmission, and only then is it known if they were sent. The events therefore need copies of them. A port that
    /// refuses nothing needs no copies.
    #[cold]
    fn transmit_watched(&mut self, id: PortId, port: &mut dyn Port, batch: &mut Batch) {
        // A port without an MTU accepts every packet, so the fate is known beforehand.
        if port.mtu().is_none() {
            batch.as_slice().iter().for_each(|packet| self.report_fate(packet, Fate::Sent(id)));
            return port.transmit(self.now, batch, &mut self.pool);
        }
        let wanted = |packet: &&Packet| self.interests.packets || packet.meta().flags & Meta::FOLLOWED != 0;
        let copy = |packet: &Packet| (packet.number(), *packet.meta(), packet.whole().into_owned());
        let kept: Vec<_> = batch.as_slice().iter().filter(wanted).map(copy).collect();
        port.transmit(self.now, batch, &mut self.pool);
        for (number, meta, frame) in kept {
            if batch.as_slice().iter().all(|packet| packet.number() != number) {
                let fate = Fate::Sent(id);
                self.observer.event(self.now, &Event::Packet { frame: &frame, meta: &meta, fate, number });
            }
        }
    }

    /// Packets counted as sent by `port` were refused by its medium.
    #[cold]
    pub fn record_refused(&mut self, port: PortId, packets: u64, reason: DropReason) {
        self.ledger.drop_refused(packets, reason);
        if let Some(counts) = self.drops.get_mut(port.index()) {
            counts[reason.index()] += packets;
        }
    }

    #[cold]
    fn report_fate(&mut self, packet: &Packet, fate: Fate) {
        if self.interests.packets || packet.meta().flags & Meta::FOLLOWED != 0 {
            let (frame, meta, number) = (&*packet.whole(), packet.meta(), packet.number());
            self.observer.event(self.now, &Event::Packet { frame, meta, fate, number });
        }
    }

    /// Passes an event to the observer.
    pub fn event(&mut self, event: &Event<'_>) {
        self.observer.event(self.now, event);
    }

    /// Allocates the drop counters of `ports` ports.
    pub fn count_ports(&mut self, ports: usize) {
        if ports > self.drops.len() {
            self.drops.resize(ports, [0; DropReason::COUNT]);
        }
    }

    /// Drops at `port` by reason, without reasons of count zero.
    pub fn drops_at(&self, port: PortId) -> Vec<(DropReason, u64)> {
        let Some(counts) = self.drops.get(port.index()) else { return Vec::new() };
        DropReason::ALL.iter().map(|&r| (r, counts[r.index()])).filter(|&(_, n)| n > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;
    use crate::event::Silent;
    use units::WorkerId;

    #[test]
    fn pool_without_frames_stalls_until_one_is_given_back() {
        let mut accounting = Accounting::new(WorkerId(0), Pool::new(Region::new(1)), Box::new(Silent));
        accounting.begin_step(Instant::new(10));
        let frame = accounting.pool.take().unwrap();
        accounting.begin_step(Instant::new(20));
        assert_eq!(accounting.stalls, StallCounters::default(), "no frame is left, but none was refused");
        assert!(accounting.pool.take().is_none());
        accounting.begin_step(Instant::new(30));
        accounting.begin_step(Instant::new(70));
        assert_eq!((accounting.stalls.pool_stalls, accounting.stalls.pool_stalled), (1, 40));
        accounting.pool.give(frame);
        accounting.begin_step(Instant::new(80));
        accounting.begin_step(Instant::new(900));
        assert_eq!((accounting.stalls.pool_stalls, accounting.stalls.pool_stalled), (1, 50));
    }
}
