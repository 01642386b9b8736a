//! The port of a tunnel on a worker: one end of a wire in memory. The worker has the other end. Packets that the port sends are encapsulated there,
//! and packets that the worker decapsulates arrive at the port.

use super::TunnelState;
use packet::port::{DfqWireState, MemoryPort, MemoryWire, Port, PortStatistics, WakeSource};
use packet::{Batch, Packet, Pool};
use std::sync::Arc;
use units::{Instant, Rate};

/// Packets in each direction: four batches. The same worker empties it, at the latest when it runs the input task of the port.
const CAPACITY: usize = 1024;

/// The two ends of a tunnel on one worker. The first one reports the losses of all.
pub(crate) fn tunnel_port(state: &Arc<TunnelState>, first: bool) -> (Box<dyn Port>, TunnelEnd) {
    let (near, far) = MemoryWire::pair(CAPACITY);
    (Box::new(TunnelPort { wire: near, state: state.clone(), first }), TunnelEnd { wire: far })
}

/// The port, without the Ethernet header of its frames on the way.
struct TunnelPort {
    wire: MemoryPort,
    state: Arc<TunnelState>,
    first: bool,
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct TunnelEnd {
    wire: MemoryPort,
}

impl TunnelEnd {
    /// Receives packets that the port has sent.
    pub fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.wire.receive(now, batch, pool);
    }

    /// Lets a packet arrive at the port. Returns it if there is no room.
    pub fn deliver(&mut self, packet: Packet, pool: &mut Pool) -> Result<(), Packet> {
        self.wire.send(packet, pool)
    }

    /// True if the port has no room for another packet.
    pub fn is_full(&self) -> bool {
        self.wire.room() == 0
    }

    /// Packets that the port has sent.
    pub fn waiting(&self) -> usize {
        self.wire.waiting()
    }
}

impl Port for TunnelPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.wire.receive(now, batch, pool);
    }

    fn sets_timestamps(&self) -> bool {
        // A decapsulated packet keeps the arrival time of its outer packet.
        true
    }

    fn room(&self) -> usize {
        self.wire.room()
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.wire.transmit(now, batch, pool);
    }

    fn mtu(&self) -> Option<u16> {
        self.state.mtu()
    }

    fn link_rate(&self) -> Rate {
        Rate::MAX
    }

    fn wake_source(&self) -> WakeSource {
        // The same worker sends and decapsulates, and wakes the input task itself.
        WakeSource::WakesWorker
    }

    fn maintain(&mut self, now: Instant, _pool: &mut Pool) -> Option<DfqWireState> {
        self.state.expire_mtu(now);
        None
    }

    fn statistics(&self) -> PortStatistics {
        // Each error is about a packet that did not reach the other end.
        PortStatistics {
            lost_after_transmit: if self.first { self.state.errors() } else { 0 },
            ..PortStatistics::default()
        }
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
}
