//! Ephemeral state, as far as the plane knows it. Packets that carry an instruction visit a packet hook at the input port, in the centre, and at
//! the output port. The hook decides which of them end.
//!
//! The hook executes instructions and owns the stores. The plane finds the packets among all others at the cost of one comparison, sends those
//! of one computation to one worker, and counts those that end. [adr/0040](../../../adr/0040-one-owner-per-shard.md) explains
//! why.

use crate::instructions::InstructionFault;
use packet::wire::{ethertype, protocol};
use packet::{BATCH, Packet};
use plan::StatePlan;
use plan::state::PortStatePlan;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use units::{Instant, Nanos, PortId, Rate};

/// The place in the router at which a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HookPoint {
    /// At the port that received it.
    Input(PortId),
    /// In the centre, between input and output.
    Central,
    /// At the port that transmits it: once for each copy.
    Output(PortId),
}

/// The variables of a port that an instruction may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortVariables {
    /// Packets queued at its link.
    pub queue: u64,
    /// Packets that its link has dropped.
    pub drops: u64,
    /// The rate of its medium.
    pub rate: Rate,
}

/// The result of a visit: whether all packets continue, and which places they have yet to visit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visited {
    /// True if all packets continue.
    pub all: bool,
    /// True if one of them may carry an instruction for the centre.
    pub central: bool,
    /// True if one of them may carry an instruction for the output port.
    pub output: bool,
    /// Instructions that were executed.
    pub executed: u32,
}

/// For each packet of a batch: whether the classifier has verified that it carries the protocol of instructions in plain IPv4. Such a packet is
/// untagged and valid, without options and trailing bytes, and no later fragment. It is neither refused nor passed unexecuted. The hook need not
/// check all of that again.
pub type Dedicated = [bool];

/// Nothing is known about the packets.
pub const UNKNOWN: &Dedicated = &[false; BATCH];

/// Packets that are passed to a hook, and what the classifier knows about each.
pub type HookBatch<'a> = (&'a mut [Packet], &'a Dedicated);

/// The default interval between calls of [`PacketHook::maintain`] while packets arrive.
pub const MAINTENANCE_INTERVAL: Nanos = Nanos::millis(10);

/// The maximum number of queues for packets on their way to another worker.
pub const MOST_QUEUES: usize = plan::state::MOST_QUEUES as usize;

/// The worker that owns a packet's computation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The worker.
    pub worker: usize,
    /// The packet uses this queue on its way to the worker. Less than the number of queues in the configuration.
    pub queue: u8,
}

/// One worker's part of all stores.
pub trait PacketHook: Send {
    /// The owner of an IP packet that arrived at `now`. `None` if any worker may process it.
    fn owner(&mut self, l3: &[u8], now: Instant) -> Option<Owner>;
    /// True if packets that carry no instruction may have an owner, because a packet of their flow carried one lately.
    fn follows_flows(&mut self, now: Instant) -> bool;
    /// True if the hook reads the [`PortVariables`] of this port.
    fn reads_variables(&self, place: HookPoint) -> bool;
    /// Executes the instructions of packets in their order. Skips refused packets and packets that the router itself generated. Sets `refused`
    /// on those that end.
    fn visit(&mut self, place: HookPoint, variables: PortVariables, now: Instant, packets: HookBatch<'_>) -> Visited;
    /// Reports that `packets` packets were dequeued for a place: from a port, from a path that leads to one, or, for the centre, from other
    /// workers. If there are always `more`, the worker does not keep up.
    fn record_dequeued(&mut self, _at: HookPoint, _now: Instant, _packets: usize, _more: bool) {}
    /// True if packets that find the queue to their owner full continue unexecuted. Otherwise they are dropped.
    fn passes_overflow(&self) -> bool {
        false
    }
    /// An IP packet passed a place unexecuted that could have executed its instruction.
    fn record_unexecuted(&mut self, _place: HookPoint, _l3: &[u8]) {}
    /// Does work that needs no packet, e.g. expiry. Returns when to be called again; [`Instant::NEVER`] for never.
    fn maintain(&mut self, now: Instant) -> Instant;
    /// The minimum interval between calls of [`PacketHook::maintain`] while packets arrive.
    fn maintenance_interval(&self) -> Nanos {
        MAINTENANCE_INTERVAL
    }
    /// Replaces `old`, and keeps those of its stores that both have.
    fn replace(&mut self, old: Box<dyn PacketHook>);
    /// The fault of a registered instruction since the last call, if any.
    fn take_fault(&mut self) -> Option<InstructionFault> {
        None
    }
    /// The hook's counters and the contents of its stores: see [`HookReport::inner`].
    fn report(&self, now: Instant) -> Arc<dyn Any + Send + Sync>;
    /// Read access to the stores of all workers, each with the port it belongs to; `None` for the central store.
    fn store_readers(&self) -> Vec<(Option<PortId>, Arc<dyn StoreReader>)>;
    /// For callers that know the concrete type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Reads a store while packets change it.
pub trait StoreReader: fmt::Debug + Send + Sync {
    /// At most `most` of the entries that have not expired at `now`.
    fn entries(&self, now: Instant, most: usize) -> Vec<Entry>;
}

/// An entry of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The worker that owns the entry's shard.
    pub shard: usize,
    /// Its tag.
    pub tag: u64,
    /// Its value.
    pub value: u64,
    /// How long ago it was created.
    pub age: Nanos,
    /// A hash of the computation that created it, if the store records it.
    pub creator: Option<u16>,
}

/// The instructions that a configuration enables, with ports by id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateConfig {
    /// The section of the configuration.
    pub plan: StatePlan,
    /// The configuration of each port that executes instructions.
    pub ports: Vec<(PortId, PortStatePlan)>,
    /// The number of workers.
    pub workers: usize,
    /// The number by which other systems know the router.
    pub node: u64,
    /// A secret that spreads computations over workers.
    pub secret: u64,
    /// A fingerprint of the contents of the files that the plan names.
    pub fingerprint: u64,
}

/// Makes packet hooks.
pub trait HookMaker: Send + Sync {
    /// Makes a hook for each worker, in the order of workers. It omits stores that `before` has too and the workers keep: the new hooks [keep
    /// those](PacketHook::replace).
    fn make(&self, before: Option<&StateConfig>, wanted: &StateConfig) -> Result<Vec<Box<dyn PacketHook>>, HookError>;
    /// A fingerprint of the contents of the files that a plan names. Without `secret` it reveals nothing about the contents.
    fn fingerprint(&self, _plan: &StatePlan, _secret: u64) -> u64 {
        0
    }
    /// Describes the instruction of an IP packet. `None` if the packet carries none.
    fn read(&self, plan: &StatePlan, l3: &[u8]) -> Option<DecodedInstruction>;
}

/// Why there is no hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookError {
    /// The fault.
    pub reason: String,
    /// What to change.
    pub hint: String,
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for HookError {}

/// The instruction of a packet, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodedInstruction {
    /// The instruction with its operands.
    pub instruction: String,
    /// Its computation.
    pub computation: u64,
    /// For the input port, the centre and the output port: true if it is to be executed there.
    pub points: [bool; 3],
    /// Why no router executes it. `None` if routers do.
    pub refusal: Option<String>,
}

/// A worker's report about its hook.
#[derive(Clone, Debug)]
pub struct HookReport {
    /// The hook's own report. Code that knows the hook knows the type.
    pub inner: Arc<dyn Any + Send + Sync>,
    /// Packets handed to their owners.
    pub handed_over: u64,
    /// Packets queued for their owners.
    pub waiting: u64,
}

/// The protocol number and the UDP port of packets that may carry an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// The protocol in an IP header. For none, a number greater than any protocol.
    protocol: u16,
    /// The UDP port, in network byte order. For none, port 65535: its packets are examined in vain.
    port: u16,
}

impl Marks {
    /// Marks that no packet with an instruction has.
    pub const NONE: Marks = Marks { protocol: u16::MAX, port: u16::MAX };

    /// The marks of a configuration.
    pub fn of(plan: &StatePlan) -> Marks {
        // Port 0 in the configuration means that UDP carries no instructions.
        let port = if plan.udp_port == 0 { u16::MAX } else { plan.udp_port };
        Marks { protocol: plan.protocol.into(), port: port.to_be() }
    }

    /// True if one of these IPv4 packets may carry an instruction. It may err only by answering yes. `hops` are bytes 6 to 9 of the headers;
    /// `ports` are the four bytes behind each header.
    #[inline]
    pub(crate) fn may_be_among(self, hops: &[[u8; 4]], ports: &[[u8; 4]]) -> bool {
        // Bytes 2 and 3 are the destination port. The protocol is not compared here, so TCP to the same port is examined in vain.
        let port = |ports: &[u8; 4]| u32::from_le_bytes(*ports) >> 16 == u32::from(u16::from_le(self.port));
        // Without a branch for each packet, so that the compiler vectorizes the loop.
        hops.iter().zip(ports).fold(false, |any, (hop, ports)| any | self.is_dedicated(hop) | port(ports))
    }

    /// True if a packet with these bytes 6 to 9 of its header carries the protocol of instructions. A later fragment carries no instruction.
    #[inline(always)]
    pub(crate) fn is_dedicated(self, hop: &[u8; 4]) -> bool {
        // The mask ignores the flags (a first fragment has offset zero, like a whole packet) and the TTL.
        const MASK: u32 = u32::from_le_bytes([0x1f, 0xff, 0, 0xff]);
        // `Marks::NONE` sets a bit where the mask has none, so that nothing is equal to it.
        let [protocol, beyond] = self.protocol.to_le_bytes();
        u32::from_le_bytes(*hop) & MASK == u32::from_le_bytes([0, 0, beyond, protocol])
    }

    /// True if an IP packet of this protocol may carry an instruction. `upper` reads the bytes behind its IP header.
    #[inline(always)]
    pub(crate) fn may_carry(self, protocol: u8, upper: impl FnOnce() -> Option<[u8; 4]>) -> bool {
        u16::from(protocol) == self.protocol
            || protocol == UDP && upper().is_some_and(|ports| u16::from_ne_bytes([ports[2], ports[3]]) == self.port)
    }

    /// True if a frame may carry an instruction. It may err only by answering yes.
    #[inline]
    pub(crate) fn may_be_on(self, frame: &[u8]) -> bool {
        const PLAIN: usize = 34;
        // A frame shorter than Ethernet and IPv4 headers (14 + 20 bytes) carries no instruction.
        let Some(head) = frame.first_chunk::<PLAIN>() else { return false };
        let upper = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk::<4>().copied());
        // Offsets in a frame without a tag: 12 ethertype, 14 version, 20 next header of IPv6, 23 protocol of IPv4.
        match (u16::from_be_bytes([head[12], head[13]]), head[14]) {
            (ethertype::IPV4, 0x45) => self.may_carry(head[23], || upper(PLAIN)),
            (ethertype::IPV6, _) => match head[20] {
                protocol::TCP | protocol::ICMPV6 => false,
                // Behind the 14 bytes of Ethernet and the 40 of IPv6.
                UDP => self.may_carry(UDP, || upper(54)),
                // An extension header may precede the instruction.
                _ => self != Marks::NONE,
            },
            // Options and tags are rare: the caller parses these packets completely.
            (ethertype::IPV4 | VLAN, _) => self != Marks::NONE,
            _ => false,
        }
    }
}

const UDP: u8 = protocol::UDP;
const VLAN: u16 = 0x8100;

/// The packet hooks of a generation.
#[derive(Clone)]
pub struct HookConfig {
    /// The requested configuration.
    pub state: StateConfig,
    /// The marks of its packets.
    pub marks: Marks,
    /// The maker of the hooks.
    pub maker: Arc<dyn HookMaker>,
}

impl PartialEq for HookConfig {
    fn eq(&self, other: &HookConfig) -> bool {
        // The marks follow from the plan, so they need no comparison.
        self.state == other.state
    }
}

impl Eq for HookConfig {}

impl fmt::Debug for HookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stations of {:?}", self.state)
    }
}
