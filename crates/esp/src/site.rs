//! A place of a router where instructions are executed: the store of a port, or the central one, as one worker has it.
//!
//! A batch goes through in two stages (spec E-35): every packet is parsed, its tags are hashed and the lines of the store
//! fetched; then all are executed in the order in which they came.

use crate::isa::{Abort, Opcode, Verdict, execute};
use crate::store::{Done, Session, Shard, Tags};
use crate::wire::{Carriages, Checked, Locations, Unread, peek, rewrite, set_error};
use packet::Packet;
use units::Instant;

/// The most packets of a batch: as many lines as a core can wait for several times over.
pub const BATCH: usize = 64;

/// What is done at every place of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How packets with instructions are known.
    pub carriages: Carriages,
    /// Instructions that are executed, a bit for each by its number.
    pub allowed: u16,
    /// Whether two computations that use the same tag mean two entries (spec E-12).
    pub scoped: bool,
    /// The number by which a parent knows this router.
    pub node: u64,
    /// Packets whose lines are fetched together, at most [`BATCH`].
    pub batch: usize,
}

impl Rules {
    /// Every instruction, as carried by default, in batches of 32.
    pub const fn of(node: u64) -> Rules {
        let carriages = Carriages { protocol: Carriages::PROTOCOL, port: Some(Carriages::PORT) };
        Rules { carriages, allowed: u16::MAX, scoped: false, node, batch: 32 }
    }
}

/// Where in the life of a packet a place is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Location {
    /// The port it came in by.
    Input,
    /// The middle.
    Central,
    /// The port it leaves by.
    Output,
}

impl Location {
    #[inline(always)]
    fn is_among(self, locations: Locations) -> bool {
        match self {
            Location::Input => locations.input,
            Location::Central => locations.central,
            Location::Output => locations.output,
        }
    }
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It has no instruction, or none for this place: nothing was done.
    Passed,
    /// Its instruction was executed, and it goes on.
    Forwarded,
    /// Its instruction was executed and ends it.
    Dropped,
    /// Its instruction could not be executed; it says so now, if it is one.
    Aborted(Abort),
}

/// Anything that has an IP packet in it.
pub trait Carrier {
    /// The packet from the first byte of its IP header.
    fn network(&self) -> &[u8];
    /// The same, to change.
    fn network_mut(&mut self) -> &mut [u8];
    /// Has the processor fetch it.
    fn fetch(&self) {}
}

impl Carrier for Packet {
    #[inline(always)]
    fn network(&self) -> &[u8] {
        self.bytes().get(usize::from(self.meta().l3)..).unwrap_or_default()
    }

    #[inline(always)]
    fn network_mut(&mut self) -> &mut [u8] {
        let at = usize::from(self.meta().l3);
        self.bytes_mut().get_mut(at..).unwrap_or_default()
    }

    #[inline(always)]
    fn fetch(&self) {
        self.prefetch_bytes();
    }
}

impl Carrier for Vec<u8> {
    fn network(&self) -> &[u8] {
        self
    }

    fn network_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// What a place has counted of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpcodeCounters {
    /// Packets that went on.
    pub forwarded: u64,
    /// Packets that ended.
    pub dropped: u64,
}

/// What a place has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SiteCounters {
    /// By instruction.
    pub executed: [OpcodeCounters; Opcode::ALL.len()],
    /// By reason.
    pub aborted: [u64; Abort::ALL.len()],
    /// Packets that a router before could not execute.
    pub failed_before: u64,
}

/// A packet between the two stages.
#[derive(Clone, Copy, Debug)]
struct Prepared {
    state: State,
    /// Where its part begins, from the IP header.
    at: u16,
    computation: u64,
    tags: Tags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Passed,
    Ready(Checked),
    Aborted(Abort),
}

/// A store's shard, and what is done to the packets that come by.
pub struct Site {
    shard: Shard,
    counters: SiteCounters,
    prepared: Box<[Prepared; BATCH]>,
}

impl Site {
    /// The place of a shard.
    pub fn new(shard: Shard) -> Site {
        let none = Prepared { state: State::Passed, at: 0, computation: 0, tags: Tags::default() };
        Site { shard, counters: SiteCounters::default(), prepared: Box::new([none; BATCH]) }
    }

    /// The shard, to be cleaned or asked.
    pub fn shard(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// What it has counted.
    pub fn counters(&self) -> &SiteCounters {
        &self.counters
    }

    /// Executes what packets ask for at `location`, in their order. `fates` are as many as packets.
    #[inline]
    pub fn process<C: Carrier>(
        &mut self,
        (rules, location): (&Rules, Location),
        now: Instant,
        packets: &mut [C],
        fates: &mut [Fate],
    ) {
        let batch = rules.batch.clamp(1, BATCH);
        for (packets, fates) in packets.chunks_mut(batch).zip(fates.chunks_mut(batch)) {
            self.step((rules, location), now, packets, fates);
        }
    }

    #[inline]
    fn step<C: Carrier>(
        &mut self,
        (rules, location): (&Rules, Location),
        now: Instant,
        packets: &mut [C],
        fates: &mut [Fate],
    ) {
        let Site { shard, counters, prepared } = self;
        let mut session = shard.begin(now);
        packets.iter().for_each(C::fetch);
        for (packet, slot) in packets.iter().zip(prepared.iter_mut()) {
            slot.state = prepare((rules, location), &session, packet.network(), slot, counters);
        }
        for ((packet, slot), fate) in packets.iter_mut().zip(prepared.iter()).zip(fates) {
            *fate = match slot.state {
                State::Passed => Fate::Passed,
                State::Aborted(why) => abort(packet, slot.at, why, counters),
                State::Ready(checked) => run(rules, &mut session, packet, (slot, checked), counters),
            };
        }
    }
}

/// The first stage.
#[inline(always)]
fn prepare(
    (rules, location): (&Rules, Location),
    session: &Session<'_>,
    l3: &[u8],
    slot: &mut Prepared,
    counters: &mut SiteCounters,
) -> State {
    let Some((range, _)) = rules.carriages.find(l3) else { return State::Passed };
    slot.at = range.start as u16;
    let bytes = &l3[range];
    let Some((locations, error, computation)) = peek(bytes) else { return State::Passed };
    if !location.is_among(locations) {
        return State::Passed;
    }
    if error {
        counters.failed_before += 1;
        return State::Passed;
    }
    let checked = match Checked::of(bytes) {
        Ok(checked) => checked,
        Err(Unread::Foreign) => return State::Passed,
        Err(Unread::Wrong(why)) => return State::Aborted(why),
    };
    if rules.allowed >> checked.opcode.number() & 1 == 0 {
        return State::Aborted(Abort::NotEnabled);
    }
    let Some(instruction) = checked.instruction(bytes) else { return State::Aborted(Abort::BadOpcode) };
    slot.computation = computation;
    instruction.put_tags(&mut slot.tags);
    if rules.scoped {
        slot.tags = slot.tags.scoped(computation);
    }
    session.prepare(&mut slot.tags);
    State::Ready(checked)
}

/// The second: a straight line for each instruction.
#[inline(always)]
fn run<C: Carrier>(
    rules: &Rules,
    session: &mut Session<'_>,
    packet: &mut C,
    (slot, checked): (&Prepared, Checked),
    counters: &mut SiteCounters,
) -> Fate {
    let Some(bytes) = packet.network_mut().get_mut(usize::from(slot.at)..) else { return Fate::Passed };
    let count = &mut counters.executed[usize::from(checked.opcode.number())];
    macro_rules! with {
        ($opcode:ident, $tags:literal) => {
            one::<$tags>(rules, session, bytes, (slot, checked.known(Opcode::$opcode)))
        };
    }
    let done = match checked.opcode {
        Opcode::Nop => with!(Nop, 0),
        Opcode::Count => with!(Count, 1),
        Opcode::Compare => with!(Compare, 1),
        Opcode::Collect => with!(Collect, 2),
        Opcode::Rcollect => with!(Rcollect, 3),
        Opcode::Rchld => with!(Rchld, 2),
        Opcode::Mark => with!(Mark, 1),
        Opcode::Test => with!(Test, 1),
        Opcode::Get => with!(Get, 1),
        Opcode::Put => with!(Put, 1),
        Opcode::Setfwd => with!(Setfwd, 1),
    };
    match done {
        Ok(true) => {
            count.forwarded += 1;
            Fate::Forwarded
        }
        Ok(false) => {
            count.dropped += 1;
            Fate::Dropped
        }
        Err(why) => abort(packet, slot.at, why, counters),
    }
}

/// Executes an instruction that has so many tags. Answers whether its packet goes on.
#[inline(always)]
fn one<const TAGS: usize>(
    rules: &Rules,
    session: &mut Session<'_>,
    bytes: &mut [u8],
    (slot, checked): (&Prepared, Checked),
) -> Result<bool, Abort> {
    let Some(mut instruction) = checked.instruction(bytes) else { return Err(Abort::BadOpcode) };
    let executed =
        session.execute::<TAGS, _>(&slot.tags, slot.computation, |view| execute(&mut instruction, view, rules.node));
    match executed {
        Done::Executed(Verdict::Forward) => Ok(true),
        Done::Executed(Verdict::Rewritten) => {
            rewrite(bytes, &instruction);
            Ok(true)
        }
        Done::Executed(Verdict::Drop) => Ok(false),
        Done::Executed(Verdict::Abort(why)) => Err(why),
        Done::Full => Err(Abort::Full),
    }
}

/// Says in the packet that it was not executed.
#[cold]
fn abort<C: Carrier>(packet: &mut C, at: u16, why: Abort, counters: &mut SiteCounters) -> Fate {
    counters.aborted[why as usize] += 1;
    set_error(packet.network_mut().get_mut(usize::from(at)..).unwrap_or_default());
    Fate::Aborted(why)
}
