//! The ends of packets on one worker: whoever ends one goes through here, so that the ledger, the counters and the
//! observers all hear of it.

use crate::event::{Event, Fate, Observer, Stage, Wants};
use crate::latency::Latencies;
use crate::port::Port;
use crate::{Batch, DropReason, Ledger, Meta, Packet, Pool, Shared};
use units::{Instant, PortId, WorkerId};

/// The worker's ledger, its pool and who wants to know.
pub struct Accounting {
    /// The worker.
    pub worker: WorkerId,
    /// How many packets met each fate.
    pub ledger: Ledger,
    /// Where frames come from and go back to.
    pub pool: Pool,
    /// Who is told.
    pub observer: Box<dyn Observer>,
    /// What the observer wants, as it said when the step began.
    wants: Wants,
    /// Whether that is any fate at all.
    watched: bool,
    /// When the step began.
    pub now: Instant,
    /// Drops by port and reason, for the port the packet came in by, or left by where its scheme dropped it.
    drops: Vec<[u64; DropReason::COUNT]>,
    /// How long the packets of each path take.
    pub latencies: Latencies,
}

impl Accounting {
    /// Nothing is counted yet.
    pub fn new(worker: WorkerId, pool: Pool, observer: Box<dyn Observer>) -> Accounting {
        Accounting {
            worker,
            ledger: Ledger::default(),
            pool,
            observer,
            wants: Wants::default(),
            watched: false,
            now: Instant::START,
            drops: Vec::new(),
            latencies: Latencies::default(),
        }
    }

    /// A step begins.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        self.now = now;
        self.wants = self.observer.wants();
        self.watched = self.wants.packets | self.wants.stages;
    }

    /// Whether anybody follows packets. Asked for each batch, so that it costs nothing for each packet where nobody does.
    #[inline(always)]
    pub fn follows(&self) -> bool {
        self.wants.stages
    }

    /// Whether the observer wants to see packets as they came in. Asked for each batch, like [`Accounting::follows`].
    #[inline(always)]
    fn shows_arrivals(&self) -> bool {
        self.wants.stages | self.wants.arrivals
    }

    /// Packets have come in by `port` and are classified; somebody who wants to know what becomes of them may have `given` them.
    #[inline(always)]
    pub fn classified(&mut self, port: PortId, packets: &mut [Packet], given: bool) {
        if self.shows_arrivals() {
            if given {
                packets.iter_mut().for_each(|packet| packet.meta_mut().flags |= Meta::FOLLOWED);
            }
            self.choose(port, packets);
        }
    }

    /// Packets are about to wait on a queue that holds `ahead` packets and has room for `room`.
    #[inline(always)]
    pub fn waits(&mut self, packets: &[Packet], ahead: usize, room: usize) {
        if self.follows() {
            for (position, packet) in packets.iter().take(room).enumerate() {
                self.passed(packet, Stage::Waiting { behind: ahead + position });
            }
        }
    }

    /// Packets have come in by `port` and are classified: those to be followed are chosen, and what happened so far is
    /// told of them.
    #[cold]
    fn choose(&mut self, port: PortId, packets: &mut [Packet]) {
        self.observer.choose(self.now, port, packets);
        for packet in packets {
            self.passed(packet, Stage::Received(port));
            self.passed(packet, Stage::Classified);
        }
    }

    /// A packet has passed a stage; told where it is followed.
    #[cold]
    pub fn passed(&mut self, packet: &Packet, stage: Stage<'_>) {
        if self.wants.stages && packet.meta().flags & Meta::FOLLOWED != 0 {
            let (frame, meta, number) = (&*packet.whole(), packet.meta(), packet.number());
            self.observer.event(self.now, &Event::Passed { frame, meta, stage, number });
        }
    }

    /// The packet has passed a stage a while ago, and looked like `frame` then; told where it is followed.
    #[cold]
    pub fn passed_as(&mut self, packet: &Packet, stage: Stage<'_>, frame: &[u8]) {
        if self.wants.stages && packet.meta().flags & Meta::FOLLOWED != 0 {
            let (meta, number) = (packet.meta(), packet.number());
            self.observer.event(self.now, &Event::Passed { frame, meta, stage, number });
        }
    }

    /// Packets that came in by these ports go no further, and are in the hands of somebody who does not give them back. Who
    /// follows one of them hears no more of it.
    pub fn forsake(&mut self, came: &[PortId], reason: DropReason) {
        for port in came {
            if let Some(counts) = self.drops.get_mut(port.index()) {
                counts[reason.index()] += 1;
            }
        }
        self.ledger.forsake(came.len() as u64, reason, &mut self.pool);
    }

    /// The packet goes no further; counted at the port it came in by.
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        let port = packet.meta().in_port;
        self.drop_at(port, packet, reason);
    }

    /// The packet goes no further; counted at `port`.
    pub fn drop_at(&mut self, port: PortId, packet: Packet, reason: DropReason) {
        if self.watched {
            self.tell(&packet, Fate::Dropped(reason));
        }
        if let Some(counts) = self.drops.get_mut(port.index()) {
            counts[reason.index()] += 1;
        }
        self.ledger.drop(packet, reason, &mut self.pool);
    }

    /// The packet was for the router itself.
    pub fn consume(&mut self, packet: Packet) {
        if self.watched {
            self.tell(&packet, Fate::Consumed);
        }
        self.ledger.consume(packet, &mut self.pool);
    }

    /// All copies of a packet are made.
    pub fn replicate(&mut self, shared: Shared) {
        if self.watched {
            self.tell(shared.packet(), Fate::Consumed);
        }
        self.ledger.replicate(shared, &mut self.pool);
    }

    /// A copy of `packet` could not be made; counted at the port that came in by. Who follows it hears of the copies there
    /// are.
    pub fn miss_copy(&mut self, packet: &Packet, reason: DropReason) {
        if let Some(counts) = self.drops.get_mut(packet.meta().in_port.index()) {
            counts[reason.index()] += 1;
        }
        self.ledger.miss_copy(reason);
    }

    /// Has `port`, called `id`, transmit the packets of `batch`; to another worker, where the port is `relayed`. Answers how many
    /// were sent. Those that the medium refuses stay in `batch`, for the caller to drop.
    #[inline]
    pub fn transmit(&mut self, id: PortId, port: &mut dyn Port, batch: &mut Batch, relayed: bool) -> u64 {
        let given = batch.len();
        if self.watched {
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

    /// A frame is gone once it is transmitted, and only then is it known whether it was sent: what is told of it is kept until
    /// then. A port that refuses nothing needs no copies.
    #[cold]
    fn transmit_watched(&mut self, id: PortId, port: &mut dyn Port, batch: &mut Batch) {
        if port.mtu().is_none() {
            batch.as_slice().iter().for_each(|packet| self.tell(packet, Fate::Sent(id)));
            return port.transmit(self.now, batch, &mut self.pool);
        }
        let wanted = |packet: &&Packet| self.wants.packets || packet.meta().flags & Meta::FOLLOWED != 0;
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

    /// Packets that were counted as sent by `port` were refused by its medium.
    #[cold]
    pub fn unsend(&mut self, port: PortId, packets: u64, reason: DropReason) {
        self.ledger.unsend(packets, reason);
        if let Some(counts) = self.drops.get_mut(port.index()) {
            counts[reason.index()] += packets;
        }
    }

    #[cold]
    fn tell(&mut self, packet: &Packet, fate: Fate) {
        if self.wants.packets || packet.meta().flags & Meta::FOLLOWED != 0 {
            let (frame, meta, number) = (&*packet.whole(), packet.meta(), packet.number());
            self.observer.event(self.now, &Event::Packet { frame, meta, fate, number });
        }
    }

    /// Tells the observer.
    pub fn event(&mut self, event: &Event<'_>) {
        self.observer.event(self.now, event);
    }

    /// Makes room for the drop counters of `ports` ports.
    pub fn count_ports(&mut self, ports: usize) {
        if ports > self.drops.len() {
            self.drops.resize(ports, [0; DropReason::COUNT]);
        }
    }

    /// Drops at `port` for each reason that has happened.
    pub fn drops_at(&self, port: PortId) -> Vec<(DropReason, u64)> {
        let Some(counts) = self.drops.get(port.index()) else { return Vec::new() };
        DropReason::ALL.iter().map(|&r| (r, counts[r.index()])).filter(|&(_, n)| n > 0).collect()
    }
}
