//! A port with a decoration around it. Everything passes through except what the decoration observes or changes.

use super::{Offloads, Port, PortStatistics, Unsent, Waiter};
use crate::{Batch, Pool};
use units::{Instant, Mac, Rate};

/// The processing of a port's packets.
pub trait Decoration: Send {
    /// The packets of `batch` from `first` on were received now, at time `came`, unless the port has set their timestamps.
    fn received(&mut self, came: Option<Instant>, batch: &mut Batch, first: usize, pool: &mut Pool);
    /// The packets of `batch` are about to be transmitted at `now`.
    fn transmitting(&mut self, now: Instant, batch: &Batch);
}

/// A port and its decoration.
pub struct Decorated<D> {
    inner: Box<dyn Port>,
    decoration: D,
}

impl<D: Decoration> Decorated<D> {
    pub(super) fn around(inner: Box<dyn Port>, decoration: D) -> Decorated<D> {
        Decorated { inner, decoration }
    }
}

impl<D: Decoration> Port for Decorated<D> {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let first = batch.len();
        self.inner.receive(now, batch, pool);
        let came = (!self.inner.stamps()).then_some(now);
        self.decoration.received(came, batch, first, pool);
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.decoration.transmitting(now, batch);
        self.inner.transmit(now, batch, pool);
    }

    fn refused_late(&mut self) -> Unsent {
        self.inner.refused_late()
    }

    fn waiting_inside(&self) -> Unsent {
        self.inner.waiting_inside()
    }

    fn mtu(&self) -> Option<u16> {
        self.inner.mtu()
    }

    fn stamps(&self) -> bool {
        self.inner.stamps()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn link_rate(&self) -> Rate {
        self.inner.link_rate()
    }

    fn ring(&self) -> u32 {
        self.inner.ring()
    }
    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn offloads(&self) -> Offloads {
        self.inner.offloads()
    }

    fn waiter(&self) -> Waiter {
        self.inner.waiter()
    }

    fn mac(&self) -> Option<Mac> {
        self.inner.mac()
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self.inner.undecorated()
    }

    fn statistics(&self) -> PortStatistics {
        self.inner.statistics()
    }
}
