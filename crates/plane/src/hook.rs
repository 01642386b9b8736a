//! Ephemeral state, as far as the plane knows of it: packets that carry an instruction are shown to a station where they
//! come in, in the middle, and where they leave, and it says which of them end.
//!
//! What an instruction does, and where values are, is the station's; the plane finds its packets among all others for the
//! price of a comparison, brings those of one computation to one worker, and counts what ends.
//! [adr/0040](../../../adr/0040-ephemeral-state-has-one-owner-a-shard.md) says why there.

use crate::registered::InstructionTrouble;
use packet::wire::{ethertype, protocol};
use packet::{BATCH, Packet};
use plan::StatePlan;
use plan::state::PortStatePlan;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use units::{Instant, Nanos, PortId, Rate};

/// Where in the router a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// At the port it came in by.
    Input(PortId),
    /// In the middle.
    Central,
    /// At the port it leaves by: once for each copy of it.
    Output(PortId),
}

/// What a packet may ask of the port where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Variables {
    /// Packets that wait at its link.
    pub queue: u64,
    /// Packets that its link has dropped.
    pub drops: u64,
    /// What its medium carries.
    pub rate: Rate,
}

/// What became of packets at a place, and where they have to be shown yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visited {
    /// Whether all go on.
    pub all: bool,
    /// Whether one of them may ask for something in the middle.
    pub central: bool,
    /// Whether one of them may where it leaves.
    pub output: bool,
    /// Instructions that were executed.
    pub executed: u32,
}

/// Of each packet of a batch whether it was just found to be untagged IPv4 without options, no later fragment, with nothing wrong and nothing behind it, and
/// of the protocol of instructions; and neither refused nor to pass unexecuted: whoever executes it need not look at all of that again.
pub type Dedicated = [bool];

/// Of none, as far as anybody knows.
pub const UNKNOWN: &Dedicated = &[false; BATCH];

/// Packets that are shown to a station, and what is known of them already.
pub type Shown<'a> = (&'a mut [Packet], &'a Dedicated);

/// How often a station is looked after at most that says nothing of it.
pub const PACE: Nanos = Nanos::millis(10);

/// The most queues that packets may wait in on their way to another worker.
pub const MOST_QUEUES: usize = plan::state::MOST_QUEUES as usize;

/// Whom a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The worker.
    pub worker: usize,
    /// On its way there it waits in this queue, below as many as the plan says.
    pub queue: u8,
}

/// One worker's part of all stores.
pub trait PacketHook: Send {
    /// Whom the IP packet belongs to, which came at `now`; none where that is whoever has it.
    fn owner(&mut self, l3: &[u8], now: Instant) -> Option<Owner>;
    /// Whether packets that carry no instruction may belong to a worker: somebody of their flow has carried one lately.
    fn follows(&mut self, now: Instant) -> bool;
    /// Whether [`Variables`] of a port are wanted.
    fn asks(&self, place: Place) -> bool;
    /// Executes what packets that are neither refused nor made here ask for, in their order. Sets `refused` on those that
    /// end.
    fn visit(&mut self, place: Place, variables: Variables, now: Instant, packets: Shown<'_>) -> Visited;
    /// So many packets were taken from where they wait for a place: a port, a path that leads to one, or, for the centre, what other workers have
    /// received. Where there is always more, the worker does not keep up.
    fn polled(&mut self, _at: Place, _now: Instant, _packets: usize, _more: bool) {}
    /// Whether packets that find no room on their way to the worker they belong to pass here unexecuted; else they are dropped.
    fn passes(&self) -> bool {
        false
    }
    /// The IP packet is one of those: it passes a place where it may ask to be executed.
    fn passed(&mut self, _place: Place, _l3: &[u8]) {}
    /// Does what is due without a packet. Answers when to be called again; [`Instant::FAR`] where nothing will be.
    fn tend(&mut self, now: Instant) -> Instant;
    /// How often it is to be called for that at most, while packets come.
    fn pace(&self) -> Nanos {
        PACE
    }
    /// Takes the place of `old`, and whatever of it stays.
    fn succeed(&mut self, old: Box<dyn PacketHook>);
    /// What a registered instruction did wrong since this was asked last.
    fn trouble(&mut self) -> Option<InstructionTrouble> {
        None
    }
    /// What it has counted, and what its stores hold: see [`HookReport::inner`].
    fn report(&self, now: Instant) -> Arc<dyn Any + Send + Sync>;
    /// Looks into its stores, each with the port it belongs to, or none for the central one. All workers' parts.
    fn onlookers(&self) -> Vec<(Option<PortId>, Arc<dyn Onlooker>)>;
    /// Itself, for whoever knows what it is.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Looks into a store while packets change it.
pub trait Onlooker: fmt::Debug + Send + Sync {
    /// At most `most` of the entries that live at `now`.
    fn entries(&self, now: Instant, most: usize) -> Vec<Entry>;
}

/// An entry of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The worker whose part it is in.
    pub shard: usize,
    /// Its tag.
    pub tag: u64,
    /// Its value.
    pub value: u64,
    /// How long ago it was created.
    pub age: Nanos,
    /// A hash of the computation that created it, where that is noted.
    pub creator: Option<u16>,
}

/// What a configuration wants executed, by ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// What it says.
    pub plan: StatePlan,
    /// What it says of each port that executes anything.
    pub ports: Vec<(PortId, PortStatePlan)>,
    /// Workers.
    pub workers: usize,
    /// The number by which others know the router.
    pub node: u64,
    /// Nobody outside knows it: computations are spread over workers by it.
    pub secret: u64,
    /// Tells apart what was in the files that the plan names.
    pub print: u64,
}

/// Makes stations.
pub trait Maker: Send + Sync {
    /// A station for each worker, in their order. Stores that are in `before` as well, and that its workers have, are left
    /// out: the stations will [succeed](PacketHook::succeed) those.
    fn make(&self, before: Option<&Wanted>, wanted: &Wanted) -> Result<Vec<Box<dyn PacketHook>>, CannotMake>;
    /// Tells apart what is in the files that a plan names, without telling what that is: nobody finds out who does not know `secret`.
    fn print(&self, _plan: &StatePlan, _secret: u64) -> u64 {
        0
    }
    /// What an IP packet asks for, if it asks for anything. `None`: it carries no instruction.
    fn read(&self, plan: &StatePlan, l3: &[u8]) -> Option<Asked>;
}

/// Why there is no station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CannotMake {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for CannotMake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for CannotMake {}

/// What a packet asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The instruction with its operands.
    pub instruction: String,
    /// Its computation.
    pub computation: u64,
    /// Whether it is to be executed where it comes in, in the middle, and where it leaves.
    pub at: [bool; 3],
    /// Why no router executes it; none where they do.
    pub not: Option<String>,
}

/// What a worker tells of its hook.
#[derive(Clone, Debug)]
pub struct HookReport {
    /// What the hook itself tells: whoever knows the hook knows the type.
    pub inner: Arc<dyn Any + Send + Sync>,
    /// Packets handed to the workers they belong to.
    pub handed: u64,
    /// Packets that wait for the workers they belong to.
    pub waiting: u64,
}

/// By which numbers packets are known that may carry an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// The protocol in an IP header; beyond all of them for none.
    protocol: u16,
    /// The bytes of the UDP port, as a packet has them; those of the highest for none, as which nothing worse happens than a look in vain.
    port: u16,
}

impl Marks {
    /// Those of no packet.
    pub const NONE: Marks = Marks { protocol: u16::MAX, port: u16::MAX };

    /// Those that a configuration says.
    pub fn of(plan: &StatePlan) -> Marks {
        let port = if plan.udp_port == 0 { u16::MAX } else { plan.udp_port };
        Marks { protocol: plan.protocol.into(), port: port.to_be() }
    }

    /// Whether one of these IPv4 packets may carry an instruction: never no where one does. `hops` are the bytes 6 to 9 of their headers, and `ports`
    /// what is behind these.
    #[inline]
    pub(crate) fn may_be_among(self, hops: &[[u8; 4]], ports: &[[u8; 4]]) -> bool {
        let port = |ports: &[u8; 4]| u32::from_le_bytes(*ports) >> 16 == u32::from(u16::from_le(self.port));
        // Many at a time, without a jump for each.
        hops.iter().zip(ports).fold(false, |any, (hop, ports)| any | self.is_dedicated(hop) | port(ports))
    }

    /// Whether a packet with these bytes 6 to 9 of its header is of the protocol of instructions, and no later fragment, which has none.
    #[inline(always)]
    pub(crate) fn is_dedicated(self, hop: &[u8; 4]) -> bool {
        // A first fragment says as little of its place as a whole packet; the time to live is whatever it is.
        const LOOKED_AT: u32 = u32::from_le_bytes([0x1f, 0xff, 0, 0xff]);
        // Beyond all protocols it has a bit where none is looked at.
        let [protocol, beyond] = self.protocol.to_le_bytes();
        u32::from_le_bytes(*hop) & LOOKED_AT == u32::from_le_bytes([0, 0, beyond, protocol])
    }

    /// Whether an IP packet of this protocol may carry an instruction; `upper` is what follows its header.
    #[inline(always)]
    pub(crate) fn may_carry(self, protocol: u8, upper: impl FnOnce() -> Option<[u8; 4]>) -> bool {
        u16::from(protocol) == self.protocol
            || protocol == UDP && upper().is_some_and(|ports| u16::from_ne_bytes([ports[2], ports[3]]) == self.port)
    }

    /// Whether a frame may have such a packet: never no where it has one.
    #[inline]
    pub(crate) fn may_be_on(self, frame: &[u8]) -> bool {
        const PLAIN: usize = 34;
        let Some(head) = frame.first_chunk::<PLAIN>() else { return false };
        let upper = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk::<4>().copied());
        match (u16::from_be_bytes([head[12], head[13]]), head[14]) {
            (ethertype::IPV4, 0x45) => self.may_carry(head[23], || upper(PLAIN)),
            (ethertype::IPV6, _) => match head[20] {
                protocol::TCP | protocol::ICMPV6 => false,
                UDP => self.may_carry(UDP, || upper(54)),
                _ => self != Marks::NONE,
            },
            // Options, and tags: whoever is asked looks closely.
            (ethertype::IPV4 | VLAN, _) => self != Marks::NONE,
            _ => false,
        }
    }
}

const UDP: u8 = protocol::UDP;
const VLAN: u16 = 0x8100;

/// What a generation says of stations.
#[derive(Clone)]
pub struct Stations {
    /// What it wants.
    pub wanted: Wanted,
    /// How its packets are known.
    pub marks: Marks,
    /// Who made them.
    pub maker: Arc<dyn Maker>,
}

impl PartialEq for Stations {
    fn eq(&self, other: &Stations) -> bool {
        self.wanted == other.wanted
    }
}

impl Eq for Stations {}

impl fmt::Debug for Stations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stations of {:?}", self.wanted)
    }
}
