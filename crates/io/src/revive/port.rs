//! A port with an exchangeable device: the worker's side.

use super::{GONE, Shared, UP};
use crate::closer::Closer;
use crate::wait::Waker;
use packet::port::{Offloads, Port, PortStatistics, Unsent, Waiter};
use packet::{Batch, DropReason, Pool};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Instant, Mac, Rate};

/// The place where the thread leaves a new device for the worker.
#[derive(Default)]
pub(super) struct Seat {
    ready: AtomicBool,
    next: Mutex<Option<Box<dyn Port>>>,
    /// Rung when there is a device. `None` if no descriptor was available; the worker then polls.
    bell: Option<Waker>,
}

impl Seat {
    pub(super) fn new() -> Seat {
        Seat { bell: Waker::new().ok(), ..Seat::default() }
    }

    /// Leaves a device. It replaces an earlier one that the worker did not take.
    pub(super) fn lay(&self, port: Box<dyn Port>) {
        let before = self.next.lock().unwrap_or_else(PoisonError::into_inner).replace(port);
        self.ready.store(true, Ordering::Release);
        self.bell.iter().for_each(Waker::wake);
        drop(before);
    }

    /// Removes the device, if any, without waiting for the thread.
    fn take(&self) -> Option<Box<dyn Port>> {
        let taken = self.next.try_lock().ok()?.take();
        self.ready.store(false, Ordering::Release);
        self.bell.as_ref().map(Waker::silence);
        taken
    }
}

/// See the module.
pub(super) struct Revived {
    /// Present until it is dropped.
    device: Option<Box<dyn Port>>,
    shared: Arc<Shared>,
    queue: usize,
    closer: Closer,
    /// Its first address, which stays the router's even if the interface returns with another.
    mac: Option<Mac>,
    /// The counters of earlier devices.
    before: PortStatistics,
    /// The unsent packets of earlier devices.
    unsent: Unsent,
    /// The last reported state: up or down.
    told: Cell<bool>,
    /// The device was exchanged unnoticed by the worker. The worker must notice it, because the hosts behind the new device may be others.
    owes: Cell<bool>,
}

impl Revived {
    pub(super) fn new(device: Box<dyn Port>, shared: Arc<Shared>, queue: usize, closer: Closer) -> Revived {
        let mac = device.mac();
        let before = PortStatistics::default();
        let (told, owes) = (Cell::new(true), Cell::new(false));
        Revived { device: Some(device), shared, queue, closer, mac, before, unsent: Unsent::default(), told, owes }
    }

    #[inline]
    fn device(&self) -> &dyn Port {
        &**self.device.as_ref().expect("it is there until it is dropped")
    }

    #[inline]
    fn device_mut(&mut self) -> &mut dyn Port {
        &mut **self.device.as_mut().expect("it is there until it is dropped")
    }

    fn seat(&self) -> &Seat {
        &self.shared.seats[self.queue]
    }

    #[inline]
    fn is_new_ready(&self) -> bool {
        self.seat().ready.load(Ordering::Acquire)
    }

    /// Replaces the old device by the new one.
    #[cold]
    fn exchange(&mut self) {
        let Some(next) = self.seat().take() else { return };
        let Some(mut old) = self.device.replace(next) else { return };
        // The packets in the old device will never leave: they are reported as refused.
        self.unsent.join(old.refused_late());
        self.unsent.join(old.waiting_inside());
        let counted = old.statistics();
        self.before.lost_before_receive += counted.lost_before_receive;
        self.before.lost_after_transmit += counted.lost_after_transmit;
        self.closer.close(old);
        // A worker that last saw the port up must see it down once.
        self.owes.set(self.told.get());
    }
}

impl Drop for Revived {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            self.closer.close(device);
        }
    }
}

impl Port for Revived {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let before = batch.len();
        self.device_mut().receive(now, batch, pool);
        // The remaining packets of the old device are received first.
        if self.is_new_ready() && batch.len() == before {
            self.exchange();
        }
    }

    fn stamps(&self) -> bool {
        self.device().stamps()
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

    fn refused_late(&mut self) -> Unsent {
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.join(self.device_mut().refused_late());
        unsent
    }

    fn waiting_inside(&self) -> Unsent {
        let mut waiting = self.unsent;
        waiting.join(self.device().waiting_inside());
        waiting
    }

    fn mtu(&self) -> Option<u16> {
        Some(self.shared.mtu())
    }

    fn link_rate(&self) -> Rate {
        self.device().link_rate()
    }

    fn ring(&self) -> u32 {
        self.device().ring()
    }

    fn is_up(&self) -> bool {
        let up = self.shared.state() == UP && !self.is_new_ready() && !self.owes.replace(false);
        self.told.set(up);
        up
    }

    fn offloads(&self) -> Offloads {
        self.device().offloads()
    }

    fn waiter(&self) -> Waiter {
        // The descriptor of a removed device may be in error, and therefore readable, for ever.
        if self.shared.state() != GONE && !self.is_new_ready() {
            return self.device().waiter();
        }
        self.seat().bell.as_ref().map_or(Waiter::Poll, |bell| Waiter::Descriptor(bell.as_fd().as_raw_fd()))
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
    use super::super::{Claim, DOWN};
    use super::*;
    use packet::Region;
    use packet::port::{Memory, Wire};

    fn revived(device: Memory) -> (Arc<Shared>, Revived) {
        let shared = Arc::new(Shared::new((UP, 1500), 1, Arc::new(Claim::default())));
        (shared.clone(), Revived::new(Box::new(device), shared, 0, Closer::start().unwrap()))
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
    fn old_device_drains_first_and_every_exchange_is_noticed() {
        let mut pool = Pool::new(Region::new(16));
        let ((old, mut old_end), (new, mut new_end)) = (Wire::pair(8), Wire::pair(8));
        let (shared, mut port) = revived(old);
        assert!(port.is_up());
        send(&mut old_end, &mut pool, b"old");
        send(&mut new_end, &mut pool, b"new");
        shared.set(GONE);
        shared.seats[0].lay(Box::new(new));
        shared.set(UP);
        assert_eq!(receive(&mut port, &mut pool), [b"old"]);
        assert_eq!(receive(&mut port, &mut pool), [b""; 0]);
        assert_eq!(receive(&mut port, &mut pool), [b"new"]);
        assert_eq!([port.is_up(), port.is_up()], [false, true]);
        send(&mut port, &mut pool, b"answer");
        assert_eq!(receive(&mut new_end, &mut pool), [b"answer"]);
        assert_eq!((pool.outside(), port.statistics()), (0, PortStatistics::default()));
    }

    #[test]
    fn a_port_hands_back_what_is_sent_while_its_device_is_gone() {
        let mut pool = Pool::new(Region::new(16));
        let ((old, mut old_end), (new, mut new_end)) = (Wire::pair(8), Wire::pair(8));
        let (shared, mut port) = revived(old);
        for state in [DOWN, GONE] {
            shared.set(state);
            assert_eq!(send(&mut port, &mut pool, b"lost"), Some(DropReason::PortDown));
            assert!(!port.is_up());
        }
        assert!(receive(&mut old_end, &mut pool).is_empty());
        assert!(matches!(port.waiter(), Waiter::Descriptor(_)));
        shared.seats[0].lay(Box::new(new));
        shared.set(UP);
        assert!(receive(&mut port, &mut pool).is_empty());
        assert!(port.is_up(), "the worker knows already that it was down");
        assert_eq!(port.waiter(), Waiter::Poll, "that of the device");
        assert_eq!(send(&mut port, &mut pool, b"sent"), None);
        assert_eq!(receive(&mut new_end, &mut pool), [b"sent"]);
        assert_eq!((pool.outside(), port.statistics(), port.refused_late()), Default::default());
    }
}
