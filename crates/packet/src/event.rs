//! Events of workers: one enum for counters, traces, captures, dashboards and golden tests. The plane never prints.

use crate::advisory::Advisory;
use crate::counters::LinkCounters;
use crate::port::DfqWireState;
use crate::{DropReason, Meta, Packet};
use std::net::{IpAddr, Ipv6Addr};
use units::{Generation, Instant, InterfaceId, Mac, Nanos, PathId, PortId, WorkerId};

/// The end of a packet's life in this router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Sent by this port.
    Sent(PortId),
    /// Consumed by the router itself.
    Consumed,
    /// Dropped for this reason.
    Dropped(DropReason),
}

/// The state of a neighbour (RFC 4861 7.3.2; ARP entries use the same states).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NeighbourState {
    /// Asked, no answer yet.
    Incomplete,
    /// Answered recently.
    Reachable,
    /// Known, but not confirmed recently.
    Stale,
    /// Stale and in use: about to be asked.
    Delay,
    /// Being asked by unicast.
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

/// An event on a worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The fate of a packet. Only for observers that want packets.
    Packet {
        /// The frame at that moment.
        frame: &'a [u8],
        /// The packet's metadata.
        meta: &'a Meta,
        /// The fate of the packet.
        fate: Fate,
        /// Its number: see [`Packet::number`].
        number: usize,
    },
    /// A followed packet has passed a stage.
    StagePassed {
        /// The frame at this stage.
        frame: &'a [u8],
        /// The packet's metadata.
        meta: &'a Meta,
        /// The stage.
        stage: Stage<'a>,
        /// Its number: see [`Packet::number`].
        number: usize,
    },
    /// A port went up or down.
    PortLink {
        /// The port.
        port: PortId,
        /// True if it is up now.
        up: bool,
    },
    /// The MTU of the medium of a port changed, and limits the port's configured MTU now or did before.
    PortMtu {
        /// The port.
        port: PortId,
        /// The longest IP packet that the medium carries now, in bytes.
        mtu: u16,
        /// The configured MTU.
        configured: u16,
    },
    /// The wire of a port multiplexes the quanta of flows from now on, or frames leave plain again.
    DfqWire {
        /// The port.
        port: PortId,
        /// The new state.
        state: DfqWireState,
        /// The MAC address of the other end, if it is known.
        peer: Option<Mac>,
    },
    /// A neighbour changed its state.
    Neighbour {
        /// The interface.
        interface: InterfaceId,
        /// The neighbour's address.
        address: IpAddr,
        /// Its link-layer address, if known.
        mac: Option<Mac>,
        /// Its new state.
        state: NeighbourState,
    },
    /// Another host answers for an address of the router (RFC 5227 2.4, RFC 4862 5.4).
    AddressConflict {
        /// The interface.
        interface: InterfaceId,
        /// The address.
        address: IpAddr,
        /// The link-layer address of the other host.
        mac: Mac,
    },
    /// Another router on a link advertises other values than this router (RFC 4861 6.2.7).
    RouterContradicts {
        /// The interface.
        interface: InterfaceId,
        /// The other router.
        router: Ipv6Addr,
        /// The advertised value that differs, for example `the MTU`.
        about: &'static str,
    },
    /// The worker has adopted a new configuration.
    Adopted {
        /// The worker.
        worker: WorkerId,
        /// The generation of the configuration.
        generation: Generation,
    },
    /// The queueing scheme of a link changed.
    SchemeChanged {
        /// The worker.
        worker: WorkerId,
        /// The port of the link.
        port: PortId,
        /// The treatment of the queued packets.
        transition: SchemeTransition,
        /// The number of the scheme or parameter set among all that the link has had; the first is 1.
        version: u32,
        /// The link's counters since the previous change.
        before: LinkCounters,
        /// Packets that were queued, and those of them that the change dropped.
        packets: (u32, u32),
    },
    /// An advisory about a task of the CPU scheduler.
    Advisory {
        /// The worker.
        worker: WorkerId,
        /// The task's port, for input and output.
        port: Option<PortId>,
        /// The task's path, for forwarding. If several paths share the task, the first of them.
        path: Option<PathId>,
        /// The advisory.
        advisory: Advisory,
    },
    /// Functions of a path failed: a guest, or preemptible functions. Those are reported the first time, and then at most once a minute.
    FunctionFailed {
        /// The worker.
        worker: WorkerId,
        /// The path.
        path: PathId,
        /// The egress port of its packets.
        port: Option<PortId>,
        /// The kind of failure.
        failure: FunctionFailure<'a>,
    },
    /// The queueing scheme of a port panicked and is disabled. Queued and arriving packets leave in FIFO order until another scheme is set.
    SchemeFailed {
        /// The worker.
        worker: WorkerId,
        /// The port.
        port: PortId,
        /// The panic message.
        message: &'a str,
    },
    /// A guest queueing scheme of a port is disabled: its queues are served in FIFO order.
    GuestFailed {
        /// The worker.
        worker: WorkerId,
        /// The port.
        port: PortId,
        /// The failure.
        failure: &'a str,
        /// True if it is not tried again.
        is_permanent: bool,
    },
    /// An instruction of ephemeral state that the operator registered failed. Its packet was not executed.
    InstructionFailed {
        /// The worker.
        worker: WorkerId,
        /// The instruction.
        instruction: &'a str,
        /// The failure.
        failure: &'a str,
        /// True if it is not tried again.
        is_permanent: bool,
    },
    /// A guest wrote to its log.
    GuestLogged {
        /// The worker.
        worker: WorkerId,
        /// The port of a queueing scheme, or the egress port of a function.
        port: PortId,
        /// The path of a function.
        path: Option<PathId>,
        /// The last line of the log.
        line: &'a str,
    },
    /// A removed path has no packets left.
    PathDrained {
        /// The path.
        path: PathId,
    },
    /// A removed port has no packets left.
    PortDrained {
        /// The port.
        port: PortId,
    },
}

/// The treatment of queued packets when a queueing scheme replaces another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchemeTransition {
    /// The new scheme is of the same kind: the old one continues with new parameters.
    Tuned,
    /// Queued packets moved to the new scheme.
    Migrated,
    /// The old scheme serves the queued packets, the new one the arriving packets.
    Draining,
    /// Queued packets were dropped.
    Flushed,
}

/// The kind of failure of functions. After a failure of preemptible functions their path continues with new ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionFailure<'a> {
    /// They panicked with this message.
    Panicked(&'a str),
    /// They were stopped after they used this much processor time, slightly more than their path allows.
    OverLimit(Nanos),
    /// They were abandoned after running for this long, because a new configuration waited for them.
    DidNotReturn(Nanos),
    /// They were not started: too many earlier calls have not returned.
    TooManyStuck,
    /// A guest trapped, did not return in time, or made an invalid decision. It is off until the next configuration.
    Disabled {
        /// The guest.
        function: &'static str,
        /// The failure.
        failure: &'a str,
        /// True if its packets are dropped, false if they bypass it.
        drops: bool,
    },
}

/// A stage of a packet in the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage<'a> {
    /// Received by this port.
    Received(PortId),
    /// Classified, for the first time or again. The result is in its [`Meta`].
    Classified,
    /// Made as a copy for a multicast group.
    Copied {
        /// The number of the original packet.
        original: usize,
    },
    /// Waiting for the functions of its path.
    Waiting {
        /// Packets ahead of it in the queue.
        packets_ahead: usize,
    },
    /// Processed by a function of its path.
    Function {
        /// The position of the function, from 0.
        index: usize,
        /// The frame before the function.
        before: &'a [u8],
    },
    /// Passed to the local protocols for this reason: a code of [`crate::Exception`].
    LocalProtocols(u8),
    /// Offered to the link of its egress port.
    Offered {
        /// The port.
        port: PortId,
        /// Packets queued at the link ahead of it.
        packets: u32,
        /// Their bytes.
        bytes: u64,
        /// True if it bypasses the scheme, because the link is idle.
        bypasses_scheme: bool,
    },
}

/// The frequent events that an observer wants. Every observer receives the rare ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventInterests {
    /// The fate of every packet.
    pub packets: bool,
    /// The stages of packets that it chooses: see [`Observer::choose`].
    pub stages: bool,
    /// Packets as received, through [`Observer::choose`], without their stages.
    pub arrivals: bool,
}

/// A receiver of events.
pub trait Observer: Send {
    /// Receives an event.
    fn event(&mut self, now: Instant, event: &Event<'_>);
    /// The frequent events that it wants. Asked once a step.
    fn interests(&self) -> EventInterests {
        EventInterests::default()
    }
    /// Packets of `port` have been received and classified. An observer that wants stages sets [`Meta::FOLLOWED`] on the packets to follow; it also
    /// receives their fates.
    fn choose(&mut self, _now: Instant, _port: PortId, _packets: &mut [Packet]) {}
}

/// An observer that wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _now: Instant, _event: &Event<'_>) {}
}
