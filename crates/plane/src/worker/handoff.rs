//! One queue of a device shared by several workers. Its owner receives and transmits, and each of the others has a relay to it.
//!
//! Received packets are spread by the hash of their flow, so that a flow is always on one worker. Frames without IP stay with the owner. The
//! owner transmits the packets of the others in turns, besides those of its own link.

use crate::relay::RelayOwner;
use link::Link;
use packet::accounting::Accounting;
use packet::port::{Port, UnsentPackets, refusal_reason};
use packet::segment::{must_segment, prepare_for_port, wire_length};
use packet::spsc::Consumer;
use packet::wire::{TagStack, ethernet, ethertype, flow_hash};
use packet::{BATCH, Batch, DropReason, Packet};
use units::PortId;

/// The value of `rounds`, until classification, of a packet that belongs to the worker that received it, regardless of its flow.
pub(super) const OWN_FLOW: u8 = u8::MAX;

/// The seed of the hash that spreads flows. It differs from the schemes' seeds, so that their queues fill evenly. The key stays the same while
/// the router runs, so that a flow stays on its worker as long as the number of workers does.
pub(crate) const SPREAD_SEED: u64 = 0x8c3f_0e61_d7a5_492b;

/// The owner's side of a shared device queue.
pub(crate) struct SharedQueue {
    relays: Vec<RelayOwner>,
    /// See [`SharedQueue::unsent`].
    unsent: UnsentPackets,
    /// Packets for each of the relays, while a batch is spread.
    sorted: Vec<Batch>,
    own: Batch,
    out: Batch,
    /// The relay that is served first next time.
    next_relay: usize,
    /// True if the odd packet is the owner's this time.
    owner_gets_odd: bool,
    attached: bool,
    /// Workers that have ended, a bit for each relay. The owner takes over their flows.
    ended: u64,
    /// The key of the hash that spreads flows.
    key: u64,
    /// Workers that had ended at the last check.
    ended_before: u64,
}

/// The result of spreading a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HandedOff {
    /// Packets handed over.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl SharedQueue {
    /// A queue whose owner spreads flows among itself and the workers at `lanes`, by a hash with this key.
    pub fn new(lanes: Vec<RelayOwner>, key: u64) -> SharedQueue {
        let sorted = lanes.iter().map(|_| Batch::new()).collect();
        SharedQueue {
            relays: lanes,
            unsent: UnsentPackets::default(),
            sorted,
            own: Batch::new(),
            out: Batch::new(),
            next_relay: 0,
            owner_gets_odd: false,
            attached: false,
            ended: 0,
            key,
            ended_before: 0,
        }
    }

    /// True if every other worker receives. Before that nothing is received for any.
    #[inline]
    pub fn is_attached(&mut self) -> bool {
        if !self.attached {
            self.attached = self.relays.iter().all(RelayOwner::is_attached);
        }
        self.attached
    }

    /// Hands packets to the other workers. The owner's packets stay in `batch`, and so do packets that did not fit: they are refused. All keep
    /// their order. If `marked`, some packets are the owner's regardless of their flow.
    #[inline]
    pub fn spread(
        &mut self,
        batch: &mut Batch,
        (stamped, marked): (bool, bool),
        accounting: &mut Accounting,
    ) -> HandedOff {
        // The hash reads the headers of every packet: fetch them together.
        batch.as_slice().iter().for_each(Packet::prefetch_bytes);
        let workers = self.relays.len() as u64 + 1;
        for packet in batch.drain() {
            let stays = marked && packet.meta().rounds == OWN_FLOW;
            match if stays { 0 } else { member(&packet, workers, self.key) } {
                0 => self.own.push(packet),
                // Bit `other` is that of relay `other - 1`: see `take_stranded`.
                other if self.ended >> other & 1 != 0 => self.own.push(packet),
                other => self.sorted[other - 1].push(packet),
            }
        }
        std::mem::swap(batch, &mut self.own);
        let mut spread = HandedOff::default();
        for (lane, sorted) in self.relays.iter_mut().zip(&mut self.sorted) {
            if sorted.is_empty() {
                continue;
            }
            if !stamped {
                // Stamp them here, because the next worker does not know the time of arrival.
                sorted.as_mut_slice().iter_mut().for_each(|packet| packet.meta_mut().timestamp = accounting.now);
            }
            let bytes = sorted.bytes();
            let handed = lane.hand_over(sorted, &mut accounting.pool);
            accounting.ledger.hand_over(handed as u64);
            spread.packets += handed as u64;
            // `hand_over` has left the packets that did not fit in `sorted`.
            spread.bytes += bytes - sorted.bytes();
            let is_full = !sorted.is_empty() && !lane.is_abandoned();
            lane.stall.observe(is_full, accounting.now, accounting.stalls.handoff());
            refuse(lane, sorted, batch);
        }
        spread
    }

    /// Counts the stalls of queues to other workers, until they have room again.
    #[inline]
    pub fn count_stalls(&mut self, accounting: &mut Accounting) {
        for lane in self.relays.iter_mut().filter(|lane| lane.stall.is_stalled()) {
            lane.stall.observe(lane.is_full(), accounting.now, accounting.stalls.handoff());
        }
    }

    /// Passes packets of other workers to the scheme of the link, which has a single owner. Returns their number.
    pub fn offer(&mut self, link: &mut Link, accounting: &mut Accounting) -> usize {
        let (count, mut offered) = (self.relays.len(), 0);
        for i in 0..count {
            let lane = &mut self.relays[(self.next_relay + i) % count];
            let taken = lane.accept(&mut self.out, BATCH, &mut accounting.pool);
            if taken > 0 {
                accounting.ledger.take_over(taken as u64);
                offered += link.offer_batch(&mut self.out, accounting);
            }
        }
        self.next_relay = (self.next_relay + 1) % count;
        offered
    }

    /// Transmits packets of other workers, as far as `port`, called `id`, has room. Returns their number.
    #[inline]
    pub fn drain(&mut self, id: PortId, port: &mut dyn Port, accounting: &mut Accounting) -> usize {
        let mut drained = 0;
        let mut active = self.active();
        while active > 0 {
            let room = port.room();
            if room == 0 {
                return drained;
            }
            // Equal shares for all relays with packets. At least one packet each, so that the loop always progresses.
            let share = (room / active).max(1);
            let (count, mut left) = (self.relays.len(), room);
            for i in 0..count {
                let lane = &mut self.relays[(self.next_relay + i) % count];
                // With more relays than room, the last ones get nothing in this turn. The next turn begins with another relay.
                left -= lane.accept(&mut self.out, share.min(left), &mut accounting.pool);
            }
            self.next_relay = (self.next_relay + 1) % count;
            self.owner_gets_odd = !self.owner_gets_odd;
            accounting.ledger.take_over(self.out.len() as u64);
            if self.out.as_slice().iter().any(Packet::is_offloaded) {
                self.drop_unfit(port, accounting);
            }
            let packets = self.out.len();
            if packets == 0 {
                return drained;
            }
            port.transmit(accounting.now, &mut self.out, &mut accounting.pool);
            accounting.ledger.send((packets - self.out.len()) as u64);
            // The medium has refused the packets that are still in `out`.
            for packet in self.out.drain() {
                // The other worker's link has counted it as sent.
                self.unsent.add(wire_length(&packet));
                let reason = refusal_reason(&packet).unwrap_or(DropReason::DeviceRefused);
                accounting.drop_at(id, packet, reason);
            }
            drained += packets;
            active = self.active();
        }
        drained
    }

    /// Packets that other workers' links have counted as sent, but the medium has refused.
    pub fn unsent(&self) -> UnsentPackets {
        self.unsent
    }

    /// If the device has lost offloads since, drops the packets of other workers that rely on them, like packets in the device.
    #[cold]
    fn drop_unfit(&mut self, port: &dyn Port, accounting: &mut Accounting) {
        let can = port.offloads();
        for _ in 0..self.out.len() {
            let Some(mut packet) = self.out.pop_front() else { break };
            if must_segment(&packet, can) {
                accounting.drop(packet, DropReason::PortDown);
                continue;
            }
            if prepare_for_port(&mut packet, can, &mut accounting.pool) {
                self.own.push(packet);
            } else {
                accounting.drop(packet, DropReason::NoSuperFrame);
            }
        }
        drop(self.out.drain());
        std::mem::swap(&mut self.out, &mut self.own);
    }

    /// Packets that were handed to workers that have ended, counted once. The owner takes their flows at the next call: by then the packets they
    /// had still sent have left.
    pub fn take_stranded(&mut self) -> usize {
        self.ended |= self.ended_before;
        let mut packets = 0;
        for (index, lane) in self.relays.iter_mut().enumerate().filter(|(_, lane)| lane.is_abandoned()) {
            packets += lane.take_stranded();
            // Bit `index + 1`, as in `spread`. The shift cannot overflow: there are at most 64 workers.
            self.ended_before |= 2 << index;
        }
        packets
    }

    /// Drops the packets being handled, uncounted: the worker has failed.
    pub fn clear(&mut self) {
        self.sorted.iter_mut().for_each(|batch| *batch = Batch::new());
        (self.own, self.out) = (Batch::new(), Batch::new());
    }

    /// The number of relays with packets to transmit.
    #[inline]
    fn active(&self) -> usize {
        self.relays.iter().filter(|lane| !lane.from.is_empty()).count()
    }

    /// The part of `room` that the owner's own link leaves to the others.
    #[inline]
    pub fn reserve(&self, room: usize) -> usize {
        // Rounds down and up by turns, so that the odd packet is not always on the same side.
        // The owner's link has one share, and each relay with packets another.
        match self.active() {
            0 => 0,
            active if self.owner_gets_odd => room * active / (active + 1),
            active => (room * active).div_ceil(active + 1),
        }
    }

    /// True if packets are queued for transmission.
    pub fn is_waiting(&self) -> bool {
        self.active() > 0
    }

    /// True if nothing remains to be transmitted, now or later.
    pub fn is_finished(&self) -> bool {
        self.relays.iter().all(|lane| lane.is_abandoned() && lane.from.is_empty())
    }

    /// Publishes the state of `port` to the other workers.
    pub fn publish_state(&self, port: &dyn Port) {
        self.relays.iter().for_each(|lane| lane.publish_state(port));
    }

    /// Stops handing packets over.
    pub fn stop(&mut self) {
        self.relays.iter_mut().for_each(RelayOwner::stop);
    }

    /// Drops queued packets of other workers. Returns true if they will send no more.
    pub fn discard(&mut self, reason: DropReason, accounting: &mut Accounting) -> bool {
        for lane in &mut self.relays {
            while lane.accept(&mut self.out, packet::BATCH, &mut accounting.pool) > 0 {
                accounting.ledger.take_over(self.out.len() as u64);
                self.out.drain().for_each(|packet| accounting.drop(packet, reason));
            }
        }
        self.is_finished()
    }
}

/// Returns packets that did not fit to the owner's batch, marked as refused.
#[inline]
fn refuse(lane: &RelayOwner, sorted: &mut Batch, own: &mut Batch) {
    if sorted.is_empty() {
        return;
    }
    let reason = if lane.is_abandoned() { DropReason::WorkerFailed } else { DropReason::HandOverFull };
    for mut packet in sorted.drain() {
        // The field holds the reason plus one: zero means not refused.
        packet.meta_mut().refused = reason as u8 + 1;
        own.push(packet);
    }
}

/// The index of the worker, of `workers`, that a packet belongs to. The owner of the queue is 0. Fragments are hashed by their addresses only,
/// so that those of one packet stay together.
#[inline]
fn member(packet: &Packet, workers: u64, key: u64) -> usize {
    let frame = packet.bytes();
    let Some(at) = network_header(frame) else { return 0 };
    if packet.meta().refused != 0 {
        return 0;
    }
    // Lemire 2019: the high bits of a product, instead of a division.
    ((u64::from(flow_hash(frame, at, key)) * workers) >> 32) as usize
}

/// The offset of the IP header, after at most two VLAN tags or in a PPPoE session: flows through a pair of pass-through ports are spread over the workers
/// too. `None` in other frames.
#[inline]
pub(super) fn network_header(frame: &[u8]) -> Option<usize> {
    const KIND: usize = ethernet::HEADER - 2;
    let kind = u16::from_be_bytes(*frame.get(KIND..)?.first_chunk()?);
    if matches!(kind, ethertype::IPV4 | ethertype::IPV6) {
        return Some(ethernet::HEADER);
    }
    TagStack::of(frame)?.ip_header(frame).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::super::ROUND_TRIPS;
    use super::*;
    use crate::relay::{Relay, relay};
    use crate::rig::UdpFrame;
    use packet::event::Silent;
    use packet::pool::{PartialChecksum, Segmentation};
    use packet::port::{MemoryPort, MemoryWire, Offloads, PortStatistics, WakeSource};
    use packet::{Offload, Pool, Region};
    use stack::LocalProtocolLimits;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use units::{Instant, Mac, Rate, WorkerId};

    fn udp(source: Ipv4Addr, destination: Ipv4Addr, ports: (u16, u16), length: usize) -> Vec<u8> {
        let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
        UdpFrame { link, network: (source, destination), ports, ttl: 64, length }.frame(&[])
    }

    /// A flow of a client, and its replies.
    fn flow(i: u32) -> [Vec<u8>; 2] {
        let (client, server) = (Ipv4Addr::from(0x0a00_0000 + i % 5000), Ipv4Addr::from(0xc000_0200 + i % 7));
        let ports = (1024 + (i % 50_000) as u16, 443);
        [udp(client, server, ports, 60), udp(server, client, (ports.1, ports.0), 60)]
    }

    #[test]
    fn each_hash_has_its_own_key_for_each_secret() {
        let purposes = [1u64, 2, link::FLOWS, SPREAD_SEED, ROUND_TRIPS];
        let keys = |secret| {
            purposes.map(|purpose| LocalProtocolLimits { secret, ..LocalProtocolLimits::default() }.key(purpose))
        };
        assert_eq!(keys(0), purposes, "without a secret runs repeat");
        let all: BTreeSet<u64> = (0..1000).flat_map(keys).collect();
        assert_eq!(all.len(), 5000);
        // The difference between two keys depends on the secret.
        let [one, other, ..] = keys(77);
        let [third, fourth, ..] = keys(78);
        assert_ne!(one ^ other, third ^ fourth);
    }

    /// Neighbouring addresses and ports, as clients have them, spread over all workers equally. The two directions of a connection are two flows
    /// and may be on different workers.
    #[test]
    fn flows_spread_evenly_and_each_stays_on_its_worker() {
        const FLOWS: u32 = 40_000;
        let mut pool = Pool::new(Region::new(2));
        for workers in [2u64, 3, 4, 8, 64] {
            let (mut load, mut apart) = (vec![0u32; workers as usize], 0);
            for i in 0..FLOWS {
                let [there, back] = flow(i).map(|frame| {
                    let mut packet = pool.take().unwrap();
                    assert!(packet.fill(&frame));
                    let first = member(&packet, workers, SPREAD_SEED);
                    // A longer packet of the flow, with another time to live.
                    packet.bytes_mut()[22] -= 1;
                    assert!(packet.resize(64));
                    assert_eq!(member(&packet, workers, SPREAD_SEED), first);
                    pool.give(packet);
                    first
                });
                load[there] += 1;
                apart += u32::from(there != back);
            }
            let fair = f64::from(FLOWS) / workers as f64;
            // Four standard deviations of a fair draw.
            let tolerated = 4.0 * (fair * (1.0 - 1.0 / workers as f64)).sqrt();
            let (least, most) = (f64::from(*load.iter().min().unwrap()), f64::from(*load.iter().max().unwrap()));
            assert!(fair - least < tolerated && most - fair < tolerated, "{workers} workers: {load:?}");
            if workers == 2 {
                assert!(most / fair < 1.02, "within 2 %: {load:?}");
            }
            let expected = f64::from(FLOWS) * (1.0 - 1.0 / workers as f64);
            assert!((f64::from(apart) - expected).abs() < 4.0 * expected.sqrt(), "{apart} of {FLOWS} apart");
        }
    }

    /// Fragments have no ports but in the first: all are hashed by their addresses. Frames without IP are the owner's.
    #[test]
    fn fragments_share_a_worker_and_non_ip_frames_stay_with_the_owner() {
        let mut pool = Pool::new(Region::new(2));
        let mut packet = pool.take().unwrap();
        for i in 0..1000 {
            let [mut frame, _] = flow(i);
            let mut of = |flags: [u8; 2]| {
                frame[20..22].copy_from_slice(&flags);
                assert!(packet.fill(&frame));
                member(&packet, 5, SPREAD_SEED)
            };
            let first = of([0x20, 0]);
            assert_eq!([of([0x20, 0xb9]), of([0, 0xff])], [first; 2]);
            frame[12..14].copy_from_slice(&[8, 6]);
            assert!(packet.fill(&frame));
            assert_eq!(member(&packet, 5, SPREAD_SEED), 0);
        }
        pool.give(packet);
    }

    /// A device whose offloads are switched off at run time.
    struct Switched(MemoryPort, Offloads);

    impl Port for Switched {
        fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
            self.0.receive(now, batch, pool);
        }
        fn room(&self) -> usize {
            self.0.room()
        }
        fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
            assert!(batch.as_slice().iter().all(|packet| !must_segment(packet, self.1)), "more than the device takes");
            self.0.transmit(now, batch, pool);
        }
        fn link_rate(&self) -> Rate {
            self.0.link_rate()
        }
        fn offloads(&self) -> Offloads {
            self.1
        }
        fn wake_source(&self) -> WakeSource {
            self.0.wake_source()
        }
        fn undecorated(self: Box<Self>) -> Box<dyn Port> {
            self
        }
        fn statistics(&self) -> PortStatistics {
            self.0.statistics()
        }
    }

    fn rig(offloads: Offloads) -> (Switched, MemoryPort, SharedQueue, Relay, Accounting, Pool) {
        let region = Region::with_super_frames(64, 8);
        let (near, far) = MemoryWire::pair(16);
        let device = Switched(near, offloads);
        let (lane, port) = relay(&device, 16, Arc::default(), Arc::default());
        let accounting = Accounting::new(WorkerId(0), Pool::new(region.clone()), Box::new(Silent));
        (device, far, SharedQueue::new(vec![lane], SPREAD_SEED), port, accounting, Pool::new(region))
    }

    /// A relay reports the present offloads of its device. Packets that were on its ring before are prepared for the device if that needs no
    /// segmentation. Otherwise they are dropped with a reason.
    #[test]
    fn packets_that_need_lost_offloads_are_dropped() {
        let all = Offloads { super_frames: true, checksums: true, gather: false };
        let (mut device, mut far, mut lanes, mut port, mut accounting, mut pool) = rig(all);
        assert_eq!(port.offloads(), all);
        let partial = Some(PartialChecksum { start: 34, offset: 6 });
        let mut batch = Batch::new();
        for (length, offload) in [
            (60, Offload::NONE),
            (6000, Offload { segmentation: Segmentation::Udp, size: 1000, checksum: partial }),
            (60, Offload { segmentation: Segmentation::None, size: 0, checksum: partial }),
        ] {
            let frame = udp(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), (7, 7), length);
            let mut packet = pool.take_for(frame.len()).unwrap();
            assert!(packet.fill(&frame));
            packet.meta_mut().l3 = 14;
            assert!(packet.set_offload(offload));
            batch.push(packet);
        }
        port.transmit(Instant::START, &mut batch, &mut pool);
        device.1 = Offloads::default();
        lanes.publish_state(&device);
        assert_eq!(port.offloads(), Offloads::default());
        assert_eq!(lanes.drain(PortId(0), &mut device, &mut accounting), 2);
        let ledger = &accounting.ledger;
        assert_eq!((ledger.taken_over(), ledger.sent(), ledger.dropped_for(DropReason::PortDown)), (3, 2, 1));
        ledger.check(accounting.pool.frames_in_use()).unwrap();
        far.receive(Instant::START, &mut batch, &mut pool);
        assert_eq!(batch.len(), 2);
        for packet in batch.drain() {
            assert_eq!(packet.offload(), Offload::NONE, "nothing is left to be done");
            pool.give(packet);
        }
        device.1 = all;
        lanes.publish_state(&device);
        assert_eq!(port.offloads(), all);
    }

    /// The owner takes the flows of a worker that has ended, and the packets on its ring are counted.
    #[test]
    fn owner_receives_the_flows_of_an_ended_worker() {
        let (_device, _far, mut lanes, port, mut accounting, _pool) = rig(Offloads::default());
        let mut batch = Batch::new();
        let mut spread = |lanes: &mut SharedQueue, accounting: &mut Accounting| {
            for i in 0..16 {
                let mut packet = accounting.pool.take().unwrap();
                assert!(packet.fill(&flow(i)[0]));
                batch.push(packet);
            }
            accounting.ledger.receive(16);
            let spread = lanes.spread(&mut batch, (true, false), accounting).packets;
            let refused = batch.as_slice().iter().filter(|packet| packet.meta().refused != 0).count() as u64;
            batch.drain().for_each(|packet| accounting.drop(packet, DropReason::NoRoute));
            accounting.ledger.check(accounting.pool.frames_in_use()).unwrap();
            (spread, refused)
        };
        let (handed, refused) = spread(&mut lanes, &mut accounting);
        assert!(handed > 0 && refused == 0);
        drop(port);
        assert_eq!(lanes.take_stranded() as u64, handed);
        assert_eq!(spread(&mut lanes, &mut accounting), (0, handed), "as long as something of its may be under way");
        assert_eq!(lanes.take_stranded(), 0);
        assert_eq!(spread(&mut lanes, &mut accounting), (0, 0));
    }
}
