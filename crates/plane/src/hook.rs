//! Ephemeral state, as far as the plane knows of it: packets that carry an instruction are shown to a station where they
//! come in, in the middle, and where they leave, and it says which of them end.
//!
//! What an instruction does, and where values are, is the station's; the plane finds its packets among all others for the
//! price of a comparison, brings those of one computation to one worker, and counts what ends.
//! [adr/0040](../../../adr/0040-ephemeral-state-has-one-owner-a-shard.md) says why there.

use crate::registered::InstructionTrouble;
use packet::latency::Spread;
use packet::wire::{ethertype, protocol};
use packet::{BATCH, Packet};
use plan::StatePlan;
use plan::state::PortStatePlan;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use units::{Bytes, Instant, Nanos, PortId, Rate};

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
    /// What it has counted, and what its stores hold.
    fn report(&self, now: Instant) -> StationReport;
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

/// What a station tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StationReport {
    /// Its stores.
    pub stores: Vec<StoreReport>,
    /// Packets handed to the workers they belong to.
    pub handed: u64,
    /// Packets that wait for the workers they belong to.
    pub waiting: u64,
}

/// One worker's part of a store.
// Large: a field for each value of the report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreReport {
    /// The port it belongs to; none for the central one, and where there is one for all.
    pub port: Option<PortId>,
    /// What was executed there.
    pub places: Vec<PlaceReport>,
    /// Entries there may be.
    pub capacity: u64,
    /// Entries that live.
    pub live: u64,
    /// Entries that have expired and are not free yet.
    pub expired: u64,
    /// Entries created.
    pub created: u64,
    /// The most entries there were at a time.
    pub high_water: u64,
    /// How long the entry freed last had been expired; none where nobody frees any.
    pub lag: Option<Nanos>,
    /// How long entries had been expired that were freed last when somebody looked: after each batch, and each cleaning.
    pub lags: Spread,
    /// Entries freed.
    pub freed: u64,
    /// Entries unlinked and not free yet; nothing where owners clean.
    pub limbo: u64,
    /// The time that cleaning took besides batches; nothing where there is no clock.
    pub cleaning: Nanos,
    /// Instructions executed by a worker that cleans for all workers, besides that; nothing where others clean.
    pub assisting: u64,
    /// Look-ups that read two lines of memory, three, four to seven, more.
    pub probed: [u64; 4],
    /// Look-ups that found another computation's entry, where that is noted.
    pub collisions: u64,
    /// Its memory.
    pub memory: Bytes,
}

/// What was executed at one place of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlaceReport {
    /// `input`, `central` or `output`.
    pub location: &'static str,
    /// By instruction: its name, how many went on, how many ended.
    pub executed: Vec<(&'static str, u64, u64)>,
    /// Why packets were not executed, what their instruction is, `registered` or `unknown` where it is none of ours, and how many.
    pub aborted: Vec<(&'static str, &'static str, u64)>,
    /// Packets that a router before could not execute.
    pub failed_before: u64,
    /// Packets that passed unexecuted, because the worker did not keep up.
    pub overloaded: u64,
    /// Packets that were executed behind others of their computation that had come later; counted with diagnostics.
    pub reordered: u64,
    /// How long instructions take, by their names: batches of which all packets had the same, some of them. Nothing where there is no clock.
    pub spent: Vec<(&'static str, Spread)>,
    /// What became of packets that ask for it, by computation: of some of them, those heard of last.
    pub traces: Vec<Trace>,
}

/// What became of those packets of a computation that ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Its number.
    pub computation: u64,
    /// Packets that were executed and went on.
    pub forwarded: u64,
    /// Packets that were executed and ended.
    pub dropped: u64,
    /// Packets that could not be executed.
    pub aborted: u64,
    /// A hash of their instructions and of what became of each, in their order: equal where the same happened in the same order.
    pub digest: u64,
}

impl StationReport {
    /// What the workers of a router tell, together: a store that several have a part of is one.
    pub fn together<'a>(reports: impl Iterator<Item = &'a StationReport>) -> StationReport {
        let mut all = StationReport::default();
        for report in reports {
            all.handed += report.handed;
            all.waiting += report.waiting;
            for store in &report.stores {
                match all.stores.iter_mut().find(|known| known.port == store.port) {
                    Some(known) => known.add(store),
                    None => all.stores.push(store.clone()),
                }
            }
        }
        all
    }
}

impl StoreReport {
    fn add(&mut self, other: &StoreReport) {
        for place in &other.places {
            match self.places.iter_mut().find(|known| known.location == place.location) {
                Some(known) => known.add(place),
                None => self.places.push(place.clone()),
            }
        }
        self.capacity += other.capacity;
        self.live += other.live;
        self.expired += other.expired;
        self.created += other.created;
        self.high_water += other.high_water;
        self.lag = self.lag.max(other.lag);
        self.lags.add(&other.lags);
        self.freed += other.freed;
        self.limbo += other.limbo;
        self.cleaning += other.cleaning;
        self.assisting += other.assisting;
        self.probed.iter_mut().zip(other.probed).for_each(|(sum, more)| *sum += more);
        self.collisions += other.collisions;
        self.memory += other.memory;
    }
}

impl PlaceReport {
    /// Packets that were not executed for this reason.
    pub fn aborted_for(&self, why: &str) -> u64 {
        self.aborted.iter().filter(|(known, ..)| *known == why).map(|(.., packets)| packets).sum()
    }

    fn add(&mut self, other: &PlaceReport) {
        for (known, more) in self.executed.iter_mut().zip(&other.executed) {
            debug_assert_eq!(known.0, more.0, "every worker names all instructions in one order");
            known.1 += more.1;
            known.2 += more.2;
        }
        for &(why, instruction, more) in &other.aborted {
            match self.aborted.iter_mut().find(|(known, of, _)| (*known, *of) == (why, instruction)) {
                Some((.., known)) => *known += more,
                None => self.aborted.push((why, instruction, more)),
            }
        }
        // One computation is on one worker.
        self.traces.extend_from_slice(&other.traces);
        self.failed_before += other.failed_before;
        self.overloaded += other.overloaded;
        self.reordered += other.reordered;
        for (name, more) in &other.spent {
            match self.spent.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.add(more),
                None => self.spent.push((name, more.clone())),
            }
        }
    }
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
