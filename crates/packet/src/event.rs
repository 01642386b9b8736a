//! What happens, told as it happens: one enum for counters, traces, captures, dashboards and goldens to subscribe to.
//! The plane never prints.

use crate::counters::LinkCounters;
use crate::remark::Remark;
use crate::{DropReason, Meta, Packet};
use std::net::{IpAddr, Ipv6Addr};
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
        /// Its number: see [`Packet::number`].
        number: usize,
    },
    /// A packet that somebody follows has passed a stage.
    Passed {
        /// The frame as it is now.
        frame: &'a [u8],
        /// What is known of it.
        meta: &'a Meta,
        /// The stage.
        stage: Stage<'a>,
        /// Its number: see [`Packet::number`].
        number: usize,
    },
    /// A port went up or down.
    PortLink {
        /// Which.
        port: PortId,
        /// Whether it is up now.
        up: bool,
    },
    /// The medium of a port carries another longest packet than before, and less than the port's configuration says, before or now.
    PortMtu {
        /// Which.
        port: PortId,
        /// The longest IP packet that the medium carries now, in bytes.
        mtu: u16,
        /// That of the configuration.
        configured: u16,
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
    /// Another router of a link advertises something else than this one (RFC 4861 6.2.7).
    RouterContradicts {
        /// Where.
        interface: InterfaceId,
        /// Who.
        router: Ipv6Addr,
        /// About what: `the MTU`.
        about: &'static str,
    },
    /// The worker runs a new configuration.
    Adopted {
        /// The worker.
        worker: WorkerId,
        /// The generation.
        generation: Generation,
    },
    /// Another scheme decides over the queues of a link.
    SchemeChanged {
        /// Whose.
        worker: WorkerId,
        /// The port of the link.
        port: PortId,
        /// How that was done.
        way: Way,
        /// Which it is of those that the link has had, or sets of parameters; the first is 1.
        version: u32,
        /// What the link had counted since the change before.
        before: LinkCounters,
        /// Packets that waited, and those of them that were dropped for it.
        packets: (u32, u32),
    },
    /// There is something to say of a task of the CPU scheduler.
    Remarked {
        /// Whose.
        worker: WorkerId,
        /// Its port, for input and output.
        port: Option<PortId>,
        /// Its path, for forwarding: the first of those that share it.
        path: Option<PathId>,
        /// What.
        remark: Remark,
    },
    /// Functions that are interrupted when their slice is over did something else than their work. Told for the first time,
    /// and not again for a minute.
    FunctionFailed {
        /// Whose.
        worker: WorkerId,
        /// Their path.
        path: PathId,
        /// The port its packets leave by.
        port: Option<PortId>,
        /// What they did.
        misdeed: Misdeed<'a>,
    },
    /// The queueing scheme of a port panicked and is put aside: what waits, and what comes, leaves first come, first served, until
    /// there is another.
    SchemeFailed {
        /// Whose worker.
        worker: WorkerId,
        /// The port.
        port: PortId,
        /// What it said.
        what: &'a str,
    },
    /// A guest that decides over the queues of a port is put aside: its queues are served first come, first served.
    GuestFailed {
        /// Whose worker.
        worker: WorkerId,
        /// The port.
        port: PortId,
        /// What it did.
        what: &'a str,
        /// It is not tried again.
        for_good: bool,
    },
    /// An instruction of ephemeral state that the operator has registered did something wrong: its packet was not executed.
    InstructionFailed {
        /// Whose worker.
        worker: WorkerId,
        /// Which.
        instruction: &'a str,
        /// What it did.
        what: &'a str,
        /// It is not tried again.
        for_good: bool,
    },
    /// A guest that decides over the queues of a port has logged something.
    GuestSaid {
        /// Whose worker.
        worker: WorkerId,
        /// The port.
        port: PortId,
        /// The last line of it.
        line: &'a str,
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
}

/// How a queueing scheme took the place of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It was one of the same kind, and goes on with other parameters.
    Tuned,
    /// What waited came to the new one.
    Migrated,
    /// The old one serves what waits there; what comes from now on goes to the new one.
    Draining,
    /// What waited was dropped.
    Flushed,
}

/// What functions did instead of their work. Their path goes on with fresh ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misdeed<'a> {
    /// They panicked, with these words.
    Panicked(&'a str),
    /// They were stopped when they had used as much of a processor as their path allows, or a little more.
    OverLimit(Nanos),
    /// They were left behind: for so long they had been at it, and a new configuration waited for them.
    DidNotReturn(Nanos),
    /// They were not begun: too many of those before them are at it still.
    NeverReturned,
}

/// A stage of a packet's way through the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage<'a> {
    /// It came in by this port.
    Received(PortId),
    /// It was classified, for the first time or again: what was found is in its [`Meta`].
    Classified,
    /// It is a copy of a packet to a multicast group.
    Copied {
        /// The number of that packet.
        of: usize,
    },
    /// It waits for the functions of its path.
    Waiting {
        /// Packets before it in the queue.
        behind: usize,
    },
    /// A function of its path has worked on it.
    Function {
        /// Which of them, from 0.
        index: usize,
        /// The frame before that.
        before: &'a [u8],
    },
    /// The router's own protocols have it, for this reason: a code of [`crate::Exception`].
    Host(u8),
    /// It was given to the link of the port it leaves by.
    Offered {
        /// The port.
        port: PortId,
        /// Packets that wait for the link before it.
        packets: u32,
        /// Their bytes.
        bytes: u64,
        /// Whether it passes by the scheme, because the link is idle.
        passes: bool,
    },
}

/// What an observer wants to be told besides what is rare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wants {
    /// Every packet's fate.
    pub packets: bool,
    /// The way of packets it has chosen: see [`Observer::choose`].
    pub stages: bool,
    /// Packets as they came in, by [`Observer::choose`], without their stages.
    pub arrivals: bool,
}

/// Something that wants to know.
pub trait Observer: Send {
    /// Something happened.
    fn event(&mut self, now: Instant, event: &Event<'_>);
    /// What else it wants to be told; asked once a step.
    fn wants(&self) -> Wants {
        Wants::default()
    }
    /// Packets have come in by `port` and are classified. One that wants stages sets [`Meta::FOLLOWED`] on those it wants
    /// to follow; their fates are told to it as well.
    fn choose(&mut self, _now: Instant, _port: PortId, _packets: &mut [Packet]) {}
}

/// Nobody wants to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _now: Instant, _event: &Event<'_>) {}
}
