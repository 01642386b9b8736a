//! What happens, told as it happens: one enum for counters, traces, captures, dashboards and goldens to subscribe to.
//! The plane never prints.

use packet::{DropReason, Meta};
use std::net::IpAddr;
use units::{Generation, Instant, InterfaceId, Mac, Nanos, PathId, PortId, WorkerId};

/// The end of a packet's life in this router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It left by this port.
    Sent(PortId),
    /// It was for the router itself.
    Consumed,
    /// It was dropped.
    Dropped(DropReason),
}

/// What a neighbour is known to be (RFC 4861 7.3.2; ARP entries use the same states).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NeighbourState {
    /// Asked for, no answer yet.
    Incomplete,
    /// Answered lately.
    Reachable,
    /// Known, but not confirmed lately.
    Stale,
    /// In use though stale: about to be asked.
    Delay,
    /// Being asked directly.
    Probe,
    /// Did not answer.
    Failed,
    /// Configured, never asked.
    Static,
}

impl NeighbourState {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            NeighbourState::Incomplete => "incomplete",
            NeighbourState::Reachable => "reachable",
            NeighbourState::Stale => "stale",
            NeighbourState::Delay => "delay",
            NeighbourState::Probe => "probe",
            NeighbourState::Failed => "failed",
            NeighbourState::Static => "static",
        }
    }
}

/// Something that happened on a worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A packet met its fate. Told only to observers that ask for packets.
    Packet {
        /// The frame as it was at that moment.
        frame: &'a [u8],
        /// What was known of it.
        meta: &'a Meta,
        /// What became of it.
        fate: Fate,
    },
    /// A port went up or down.
    PortLink {
        /// Which.
        port: PortId,
        /// Whether it is up now.
        up: bool,
    },
    /// A neighbour changed its state.
    Neighbour {
        /// Where.
        interface: InterfaceId,
        /// Who.
        address: IpAddr,
        /// Its link-layer address, where known.
        mac: Option<Mac>,
        /// Its state now.
        state: NeighbourState,
    },
    /// Somebody else answers for an address of ours (RFC 5227 2.4, RFC 4862 5.4).
    AddressConflict {
        /// Where.
        interface: InterfaceId,
        /// The address.
        address: IpAddr,
        /// Who claims it.
        mac: Mac,
    },
    /// The worker runs a new configuration.
    Adopted {
        /// The worker.
        worker: WorkerId,
        /// The generation.
        generation: Generation,
    },
    /// A removed path has no packets left.
    PathDrained {
        /// Which.
        path: PathId,
    },
    /// A removed port has no packets left.
    PortDrained {
        /// Which.
        port: PortId,
    },
    /// One dispatch: a task ran.
    Dispatch {
        /// The task's name kind and number: see `show tasks`.
        task: u32,
        /// Packets it moved.
        packets: u32,
        /// What it was charged.
        used: Nanos,
    },
}

/// Something that wants to know.
pub trait Observer: Send {
    /// Something happened.
    fn event(&mut self, now: Instant, event: &Event<'_>);
    /// Whether it wants every packet's fate; asked once a step.
    fn wants_packets(&self) -> bool {
        false
    }
    /// Whether it wants every dispatch; asked once a step.
    fn wants_dispatches(&self) -> bool {
        false
    }
}

/// Nobody wants to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _now: Instant, _event: &Event<'_>) {}
}
