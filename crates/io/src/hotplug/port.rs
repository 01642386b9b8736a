//! A port with an exchangeable device: the worker's side.

use super::{ABSENT, PortShared, UP};
use crate::closer::Closer;
use crate::wait::Waker;
use packet::port::{Offloads, Port, PortStatistics, UnsentPackets, WakeSource};
use packet::{Batch, DropReason, Pool};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Instant, Mac, Rate};

/// The place where the thread leaves a new device for the worker.
#[derive(Default)]
pub(super) struct DeviceSlot {
    ready: AtomicBool,
    next: Mutex<Option<Box<dyn Port>>>,
    /// Signalled when there is a device. `None` if no descriptor was available; the worker then polls.
    waker: Option<Waker>,
}

impl DeviceSlot {
    pub(super) fn new() -> DeviceSlot {
        DeviceSlot { waker: Waker::new().ok(), ..DeviceSlot::default() }
    }

    /// Leaves a device. It replaces an earlier one that the worker did not take.
    pub(super) fn put(&self, port: Box<dyn Port>) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let before = next.replace(port);
        self.ready.store(true, Ordering::Release);
        // Under the lock, like the reset in `take`: a wake after it would stay set, and the worker could not sleep any more.
        self.waker.iter().for_each(Waker::wake);
        drop(next);
        // Closing it may take long, so the worker is woken first.
        drop(before);
    }

    /// Removes the device, if any, without waiting for the thread.
    fn take(&self) -> Option<Box<dyn Port>> {
        // If the thread holds the lock, `ready` stays set and the worker tries again at its next receive call.
        let mut next = self.next.try_lock().ok()?;
        // Under the lock: the thread may leave another device as soon as it is released, and that one must be noticed.
        self.ready.store(false, Ordering::Release);
        self.waker.as_ref().map(Waker::reset);
        next.take()
    }
}

/// See the module.
pub(super) struct HotplugPort {
    /// Present until it is dropped.
    device: Option<Box<dyn Port>>,
    shared: Arc<PortShared>,
    queue: usize,
    closer: Closer,
    /// Its first address, which stays the router's even if the interface returns with another.
    mac: Option<Mac>,
    /// The counters of earlier devices.
    before: PortStatistics,
    /// The unsent packets of earlier devices.
    unsent: UnsentPackets,
    /// The last reported state: up or down.
    reported_up: Cell<bool>,
    /// The device was exchanged unnoticed by the worker. The worker must notice it, because the hosts behind the new device may be others.
    down_pending: Cell<bool>,
}

impl HotplugPort {
    pub(super) fn new(device: Box<dyn Port>, shared: Arc<PortShared>, queue: usize, closer: Closer) -> HotplugPort {
        let mac = device.mac();
        let before = PortStatistics::default();
        let (told, owes) = (Cell::new(true), Cell::new(false));
        HotplugPort {
            device: Some(device),
            shared,
            queue,
            closer,
            mac,
            before,
            unsent: UnsentPackets::default(),
            reported_up: told,
            down_pending: owes,
        }
    }

    #[inline]
    fn device(&self) -> &dyn Port {
        &**self.device.as_ref().expect("it is there until it is dropped")
    }

    #[inline]
    fn device_mut(&mut self) -> &mut dyn Port {
        &mut **self.device.as_mut().expect("it is there until it is dropped")
    }

    fn slot(&self) -> &DeviceSlot {
        &self.shared.slots[self.queue]
    }

    #[inline]
    fn is_new_ready(&self) -> bool {
        self.slot().ready.load(Ordering::Acquire)
    }

    /// Replaces the old device by the new one.
    #[cold]
    fn exchange(&mut self) {
        let Some(next) = self.slot().take() else { return };
        let Some(mut old) = self.device.replace(next) else { return };
        // The packets in the old device will never leave: they are reported as refused.
        self.unsent.join(old.take_late_refusals());
        self.unsent.join(old.unsent_packets());
        let counted = old.statistics();
        self.before.lost_before_receive += counted.lost_before_receive;
        self.before.lost_after_transmit += counted.lost_after_transmit;
        self.closer.close(old);
        // A worker that last saw the port up must see it down once.
        self.down_pending.set(self.reported_up.get());
    }
}

impl Drop for HotplugPort {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            self.closer.close(device);
        }
    }
}

impl Port for HotplugPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let before = batch.len();
        self.device_mut().receive(now, batch, pool);
        // The remaining packets of the old device are received first.
        if self.is_new_ready() && batch.len() == before {
            self.exchange();
        }
    }

    fn sets_timestamps(&self) -> bool {
        self.device().sets_timestamps()
    }

    fn room(&self) -> usize {
        self.device().room()
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        if self.shared.state() == UP && !self.is_new_ready() {
            return self.device_mut().transmit(now, batch, pool);
        }
        // The worker has not noticed yet that the device is gone.
        for packet in batch.as_mut_slice() {
            packet.meta_mut().refused = DropReason::PortDown as u8 + 1;
        }
    }

    fn take_late_refusals(&mut self) -> UnsentPackets {
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.join(self.device_mut().take_late_refusals());
        unsent
    }

    fn unsent_packets(&self) -> UnsentPackets {
        let mut waiting = self.unsent;
        waiting.join(self.device().unsent_packets());
        waiting
    }

    fn mtu(&self) -> Option<u16> {
        Some(self.shared.mtu())
    }

    fn link_rate(&self) -> Rate {
        self.device().link_rate()
    }

    fn ring_size(&self) -> u32 {
        self.device().ring_size()
    }

    fn is_up(&self) -> bool {
        // The pending report comes last in the condition: while the port is down anyway, it is not used up.
        let up = self.shared.state() == UP && !self.is_new_ready() && !self.down_pending.replace(false);
        self.reported_up.set(up);
        up
    }

    fn offloads(&self) -> Offloads {
        self.device().offloads()
    }

    fn wake_source(&self) -> WakeSource {
        // The descriptor of a removed device may be in error, and therefore readable, for ever.
        if self.shared.state() != ABSENT && !self.is_new_ready() {
            return self.device().wake_source();
        }
        self.slot().waker.as_ref().map_or(WakeSource::Poll, |bell| WakeSource::Descriptor(bell.as_fd().as_raw_fd()))
    }

    fn mac(&self) -> Option<Mac> {
        self.mac
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        let (now, before) = (self.device().statistics(), self.before);
        PortStatistics {
            lost_before_receive: before.lost_before_receive + now.lost_before_receive,
            lost_after_transmit: before.lost_after_transmit + now.lost_after_transmit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DOWN, InterfaceLock};
    use super::*;
    use packet::Region;
    use packet::port::{MemoryPort, MemoryWire};

    fn hotplug_port(device: MemoryPort) -> (Arc<PortShared>, HotplugPort) {
        let shared = Arc::new(PortShared::new((UP, 1500), 1, Arc::new(InterfaceLock::default())));
        (shared.clone(), HotplugPort::new(Box::new(device), shared, 0, Closer::start().unwrap()))
    }

    /// Sends a frame. Returns the reason if it was refused.
    fn send(port: &mut dyn Port, pool: &mut Pool, bytes: &[u8]) -> Option<DropReason> {
        let (mut batch, mut packet) = (Batch::new(), pool.take().unwrap());
        assert!(packet.fill(bytes));
        batch.push(packet);
        port.transmit(Instant::START, &mut batch, pool);
        let packet = batch.drain().next()?;
        let code = packet.meta().refused;
        pool.give(packet);
        DropReason::ALL.get(usize::from(code) - 1).copied()
    }

    fn receive(port: &mut dyn Port, pool: &mut Pool) -> Vec<Vec<u8>> {
        let mut batch = Batch::new();
        port.receive(Instant::START, &mut batch, pool);
        batch
            .drain()
            .map(|packet| {
                let bytes = packet.bytes().to_vec();
                pool.give(packet);
                bytes
            })
            .collect()
    }

    #[test]
    fn old_device_drains_first_and_exchange_shows_port_down_once() {
        let mut pool = Pool::new(Region::new(16));
        let ((old, mut old_end), (new, mut new_end)) = (MemoryWire::pair(8), MemoryWire::pair(8));
        let (shared, mut port) = hotplug_port(old);
        assert!(port.is_up());
        send(&mut old_end, &mut pool, b"old");
        send(&mut new_end, &mut pool, b"new");
        shared.set(ABSENT);
        shared.slots[0].put(Box::new(new));
        shared.set(UP);
        assert_eq!(receive(&mut port, &mut pool), [b"old"]);
        assert_eq!(receive(&mut port, &mut pool), [b""; 0]);
        assert_eq!(receive(&mut port, &mut pool), [b"new"]);
        assert_eq!([port.is_up(), port.is_up()], [false, true]);
        send(&mut port, &mut pool, b"answer");
        assert_eq!(receive(&mut new_end, &mut pool), [b"answer"]);
        assert_eq!((pool.frames_in_use(), port.statistics()), (0, PortStatistics::default()));
    }

    #[test]
    fn port_refuses_packets_while_its_device_is_absent() {
        let mut pool = Pool::new(Region::new(16));
        let ((old, mut old_end), (new, mut new_end)) = (MemoryWire::pair(8), MemoryWire::pair(8));
        let (shared, mut port) = hotplug_port(old);
        for state in [DOWN, ABSENT] {
            shared.set(state);
            assert_eq!(send(&mut port, &mut pool, b"lost"), Some(DropReason::PortDown));
            assert!(!port.is_up());
        }
        assert!(receive(&mut old_end, &mut pool).is_empty());
        assert!(matches!(port.wake_source(), WakeSource::Descriptor(_)));
        shared.slots[0].put(Box::new(new));
        shared.set(UP);
        assert!(receive(&mut port, &mut pool).is_empty());
        assert!(port.is_up(), "the worker knows already that it was down");
        assert_eq!(port.wake_source(), WakeSource::Poll, "that of the device");
        assert_eq!(send(&mut port, &mut pool, b"sent"), None);
        assert_eq!(receive(&mut new_end, &mut pool), [b"sent"]);
        assert_eq!((pool.frames_in_use(), port.statistics(), port.take_late_refusals()), Default::default());
    }
}
