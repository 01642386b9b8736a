//! A port with a decoration around it. Everything passes through except what the decoration observes or changes.

use super::{DfqWireState, DfqWireStatus, Offloads, Port, PortStatistics, UnsentPackets, WakeSource};
use crate::{Batch, Pool};
use units::{Instant, Mac, Rate};

/// The processing of a port's packets.
pub trait PortDecorator: Send {
    /// The packets of `batch` from `first` on were received now, at time `came`, unless the port has set their timestamps.
    fn received(&mut self, came: Option<Instant>, batch: &mut Batch, first: usize, pool: &mut Pool);
    /// The packets of `batch` are about to be transmitted at `now`.
    fn transmitting(&mut self, now: Instant, batch: &Batch);
}

/// A port and its decoration.
pub struct DecoratedPort<D> {
    inner: Box<dyn Port>,
    decoration: D,
}

impl<D: PortDecorator> DecoratedPort<D> {
    pub(super) fn wrap(inner: Box<dyn Port>, decoration: D) -> DecoratedPort<D> {
        DecoratedPort { inner, decoration }
    }
}

impl<D: PortDecorator> Port for DecoratedPort<D> {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let first = batch.len();
        self.inner.receive(now, batch, pool);
        let came = (!self.inner.sets_timestamps()).then_some(now);
        self.decoration.received(came, batch, first, pool);
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.decoration.transmitting(now, batch);
        self.inner.transmit(now, batch, pool);
    }

    fn take_late_refusals(&mut self) -> UnsentPackets {
        self.inner.take_late_refusals()
    }

    fn unsent_packets(&self) -> UnsentPackets {
        self.inner.unsent_packets()
    }

    fn mtu(&self) -> Option<u16> {
        self.inner.mtu()
    }

    fn sets_timestamps(&self) -> bool {
        self.inner.sets_timestamps()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn link_rate(&self) -> Rate {
        self.inner.link_rate()
    }

    fn ring_size(&self) -> u32 {
        self.inner.ring_size()
    }
    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn offloads(&self) -> Offloads {
        self.inner.offloads()
    }

    fn wake_source(&self) -> WakeSource {
        self.inner.wake_source()
    }

    fn mac(&self) -> Option<Mac> {
        self.inner.mac()
    }

    fn maintain(&mut self, now: Instant, pool: &mut Pool) -> Option<DfqWireState> {
        self.inner.maintain(now, pool)
    }

    fn take_leave(&mut self, now: Instant, pool: &mut Pool) {
        self.inner.take_leave(now, pool);
    }

    fn dfq_wire(&self) -> Option<DfqWireStatus> {
        self.inner.dfq_wire()
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self.inner.undecorated()
    }

    fn statistics(&self) -> PortStatistics {
        self.inner.statistics()
    }
}
