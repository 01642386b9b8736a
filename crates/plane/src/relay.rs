//! A port of a worker without a device queue of its own. Packets are exchanged with the worker that owns a queue, over two bounded rings. Frames
//! cross by reference, never copied.
//!
//! [`relay`] makes both ends. The [`Relay`] is a port like any other. It has room while its ring has, so every worker's queueing scheme notices
//! a slow device. The [`RelayOwner`] stays with the owner of the queue.

use crate::parker::Parker;
use packet::port::{Offloads, Port, PortStatistics, WakeSource};
use packet::spsc::{Consumer, Producer, RingConsumer, RingProducer, ring};
use packet::{Batch, Packet, Pool, StallMeter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use units::{Instant, Mac, Rate};

/// The state of the device, which its worker publishes to the others.
#[derive(Debug)]
struct DeviceState {
    up: AtomicBool,
    rate: AtomicU64,
    /// Its offloads: see [`offloads_of`].
    offloads: AtomicU8,
    /// The MTU of its medium. Zero if it has none.
    mtu: AtomicU16,
    /// Nothing will arrive any more.
    ended: AtomicBool,
    /// The worker at the other end receives.
    attached: AtomicBool,
}

/// The owner's end of a relay.
#[derive(Debug)]
pub(crate) struct RelayOwner {
    /// Packets for the other worker. `None` once the device is about to be removed.
    to: Option<RingProducer<Packet>>,
    /// Packets that the other worker transmits.
    pub from: RingConsumer<Packet>,
    device_state: Arc<DeviceState>,
    parker: Arc<Parker>,
    /// Packets on the ring to the other worker when it was found to have ended.
    stranded: usize,
    /// Stalls of the ring to the other worker.
    pub stall: StallMeter,
}

/// The other worker's end: its port.
#[derive(Debug)]
pub(crate) struct Relay {
    out: RingProducer<Packet>,
    input: RingConsumer<Packet>,
    device_state: Arc<DeviceState>,
    /// The owner's.
    parker: Arc<Parker>,
    mac: Option<Mac>,
    /// True if the packets on the ring to an ended owner were counted.
    stranded_counted: bool,
}

/// The two ends of a relay to `device`, with room for `capacity` packets in each direction. The parkers are those of the owner and of the
/// other worker.
pub(crate) fn relay(device: &dyn Port, capacity: usize, owner: Arc<Parker>, other: Arc<Parker>) -> (RelayOwner, Relay) {
    let (to, input) = ring(capacity);
    let (out, from) = ring(capacity);
    let mirror = Arc::new(DeviceState {
        up: AtomicBool::new(device.is_up()),
        rate: AtomicU64::new(device.link_rate().get()),
        offloads: AtomicU8::new(offloads_of(device)),
        mtu: AtomicU16::new(device.mtu().unwrap_or(0)),
        ended: AtomicBool::new(false),
        attached: AtomicBool::new(false),
    });
    let lane = RelayOwner {
        to: Some(to),
        from,
        device_state: mirror.clone(),
        parker: other,
        stranded: 0,
        stall: StallMeter::default(),
    };
    (lane, Relay { out, input, device_state: mirror, parker: owner, mac: device.mac(), stranded_counted: false })
}

/// The number of packets on a ring whose reader has ended. They stay until the ring is freed, and none is added.
pub(crate) fn count_stranded(ring: &impl Producer<Packet>) -> usize {
    if ring.is_abandoned() { ring.queued() } else { 0 }
}

/// One bit each for super-frames, checksums, and packets that are not in one piece.
fn offloads_of(device: &dyn Port) -> u8 {
    let Offloads { super_frames, checksums, gather } = device.offloads();
    u8::from(super_frames) | u8::from(checksums) << 1 | u8::from(gather) << 2
}

impl RelayOwner {
    /// True if the other worker has begun to receive, or never will.
    pub fn is_attached(&self) -> bool {
        // Pairs with the release store in `attach`.
        self.device_state.attached.load(Ordering::Acquire) || self.is_abandoned()
    }

    /// True if the other end has ended: nothing is put on the rings any more.
    pub fn is_abandoned(&self) -> bool {
        self.from.is_abandoned()
    }

    /// Hands over as many packets from the front of `batch` as fit. Returns their number.
    #[inline]
    pub fn hand_over(&mut self, batch: &mut Batch, pool: &mut Pool) -> usize {
        let Some(to) = &mut self.to else { return 0 };
        let count = to.push_many(batch.len(), batch.drain());
        // Before the wakeup: a full ring must not cost a fence for each batch.
        if count == 0 {
            return 0;
        }
        pool.export(count);
        // After the packets are published: the woken worker must see them.
        self.parker.unpark();
        count
    }

    /// True if the ring to the other worker is full. A reader that has ended makes no room: that is a failure, and no stall.
    pub fn is_full(&self) -> bool {
        self.to.as_ref().is_some_and(|to| to.room() == 0 && !to.is_abandoned())
    }

    /// Accepts at most `most` packets to be transmitted. Returns their number.
    #[inline]
    pub fn accept(&mut self, batch: &mut Batch, most: usize, pool: &mut Pool) -> usize {
        let count = self.from.pop_many(most.min(batch.room()), |packet| batch.push(packet));
        pool.import(count);
        count
    }

    /// Packets that were handed to the other worker and that it left behind when it ended, counted once.
    pub fn take_stranded(&mut self) -> usize {
        if self.to.as_ref().is_some_and(RingProducer::is_abandoned) {
            self.stop();
        }
        std::mem::take(&mut self.stranded)
    }

    /// Stops handing packets over. The other worker notices.
    pub fn stop(&mut self) {
        let Some(to) = self.to.take() else { return };
        // A worker that still runs reads the rest of the ring. Only packets to an ended worker are counted here.
        self.stranded += count_stranded(&to);
        self.parker.unpark();
    }

    /// Publishes the state of `device` to the other worker.
    pub fn publish_state(&self, device: &dyn Port) {
        // Relaxed: each of these four values is used by itself, so a reader need not see them change together.
        self.device_state.up.store(device.is_up(), Ordering::Relaxed);
        self.device_state.rate.store(device.link_rate().get(), Ordering::Relaxed);
        self.device_state.offloads.store(offloads_of(device), Ordering::Relaxed);
        self.device_state.mtu.store(device.mtu().unwrap_or(0), Ordering::Relaxed);
        // Release: a reader that sees `ended` also sees all packets handed over before.
        if device.wake_source() == WakeSource::Never && !self.device_state.ended.swap(true, Ordering::Release) {
            self.parker.unpark();
        }
    }
}

impl Relay {
    /// This end receives from now on.
    pub fn attach(&self) {
        self.device_state.attached.store(true, Ordering::Release);
        self.parker.unpark();
    }
}

impl Port for Relay {
    #[inline]
    fn receive(&mut self, _now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let count = self.input.pop_many(batch.room(), |packet| batch.push(packet));
        pool.import(count);
    }

    #[inline]
    fn room(&self) -> usize {
        // An abandoned ring is never emptied: with room there, more packets would be stranded.
        if self.out.is_abandoned() { 0 } else { self.out.room() }
    }

    #[inline]
    fn transmit(&mut self, _now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let count = batch.len();
        pool.export(count);
        // The owner may end after `room` was read. Packets on its ring are counted later, by `take_abandoned`.
        assert_eq!(self.out.push_many(count, batch.drain()), count, "no more is sent than there is room");
        self.parker.unpark();
    }

    fn link_rate(&self) -> Rate {
        Rate::bits(self.device_state.rate.load(Ordering::Relaxed))
    }

    fn mtu(&self) -> Option<u16> {
        Some(self.device_state.mtu.load(Ordering::Relaxed)).filter(|mtu| *mtu > 0)
    }

    fn is_up(&self) -> bool {
        // Without its owner the queue transmits nothing, even if the device was up in the last report.
        self.device_state.up.load(Ordering::Relaxed) && !self.out.is_abandoned()
    }

    fn offloads(&self) -> Offloads {
        let bits = self.device_state.offloads.load(Ordering::Relaxed);
        Offloads { super_frames: bits & 1 != 0, checksums: bits & 2 != 0, gather: bits & 4 != 0 }
    }

    fn wake_source(&self) -> WakeSource {
        // `ended` before the ring: in the other order the last packets could be missed.
        let ended = self.device_state.ended.load(Ordering::Acquire) || self.input.is_abandoned();
        if ended && self.input.is_empty() { WakeSource::Never } else { WakeSource::WakesWorker }
    }

    fn mac(&self) -> Option<Mac> {
        self.mac
    }

    fn has_arrivals(&self) -> bool {
        !self.input.is_empty()
    }

    fn may_close(&self) -> bool {
        // In this order: after the writer has ended, an empty ring stays empty.
        self.input.is_abandoned() && self.input.is_empty()
    }

    fn take_abandoned(&mut self) -> usize {
        // Counted once: the packets stay on the ring until it is freed, and a second call would count them again.
        if self.stranded_counted || !self.out.is_abandoned() {
            return 0;
        }
        self.stranded_counted = true;
        count_stranded(&self.out)
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        // The owner reports those of the device.
        PortStatistics::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Region;
    use packet::port::MemoryWire;

    fn numbers(batch: &Batch) -> Vec<u8> {
        batch.as_slice().iter().map(|packet| packet.bytes()[0]).collect()
    }

    fn fill(batch: &mut Batch, pool: &mut Pool, numbers: std::ops::Range<u8>) {
        for number in numbers {
            let mut packet = pool.take().unwrap();
            packet.fill(&[number]);
            batch.push(packet);
        }
    }

    #[test]
    fn relay_keeps_order_and_returns_packets_without_room() {
        let region = Region::new(64);
        let (mut ours, mut theirs) = (Pool::new(region.clone()), Pool::new(region));
        let (device, _far) = MemoryWire::pair(1);
        let (mut lane, mut port) = relay(&device, 4, Arc::default(), Arc::default());
        let mut batch = Batch::new();
        fill(&mut batch, &mut ours, 0..6);
        assert_eq!(lane.hand_over(&mut batch, &mut ours), 4);
        assert_eq!(numbers(&batch), [4, 5]);
        assert_eq!(ours.frames_in_use(), 2);
        batch.drain().for_each(|packet| ours.give(packet));
        port.receive(Instant::START, &mut batch, &mut theirs);
        assert_eq!((numbers(&batch), theirs.frames_in_use()), (vec![0, 1, 2, 3], 4));
        assert_eq!(port.room(), 4);
        port.transmit(Instant::START, &mut batch, &mut theirs);
        assert_eq!((port.room(), theirs.frames_in_use()), (0, 0));
        assert_eq!(lane.accept(&mut batch, 3, &mut ours), 3);
        assert_eq!(lane.accept(&mut batch, 3, &mut ours), 1);
        assert_eq!((numbers(&batch), ours.frames_in_use()), (vec![0, 1, 2, 3], 4));
        batch.drain().for_each(|packet| ours.give(packet));
    }

    #[test]
    fn packets_left_by_an_ended_worker_are_counted_once_and_their_frames_return() {
        let region = Region::new(64);
        let mut pool = Pool::new(region.clone());
        let (device, _far) = MemoryWire::pair(1);
        let mut batch = Batch::new();
        let (mut lane, port) = relay(&device, 8, Arc::default(), Arc::default());
        fill(&mut batch, &mut pool, 0..5);
        lane.hand_over(&mut batch, &mut pool);
        assert_eq!(lane.take_stranded(), 0);
        drop(port);
        assert_eq!((lane.take_stranded(), lane.take_stranded()), (5, 0));
        let (lane, mut port) = relay(&device, 8, Arc::default(), Arc::default());
        fill(&mut batch, &mut pool, 0..3);
        port.transmit(Instant::START, &mut batch, &mut pool);
        assert_eq!(port.take_abandoned(), 0);
        drop(lane);
        assert_eq!((port.take_abandoned(), port.take_abandoned()), (3, 0));
        drop((port, pool));
        assert_eq!(region.spare(), 64);
    }

    #[test]
    fn each_end_detects_that_the_other_has_ended() {
        let (device, far) = MemoryWire::pair(1);
        let (mut lane, port) = relay(&device, 4, Arc::default(), Arc::default());
        assert!(!lane.is_attached() && port.is_up() && !port.may_close());
        port.attach();
        assert!(lane.is_attached());
        drop(far);
        lane.publish_state(&device);
        assert!(!port.is_up(), "as the device");
        lane.stop();
        assert!(port.may_close() && port.wake_source() == WakeSource::Never);
        let (lane, port) = relay(&MemoryWire::pair(1).0, 4, Arc::default(), Arc::default());
        drop(lane);
        assert_eq!(port.room(), 0);
        let (lane, port) = relay(&MemoryWire::pair(1).0, 4, Arc::default(), Arc::default());
        drop(port);
        assert!(lane.is_abandoned() && lane.is_attached());
    }
}
