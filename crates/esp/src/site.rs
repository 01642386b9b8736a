//! A place of a router where instructions are executed: the store of a port, or the central one, as one worker has it.
//!
//! A batch goes through in two stages (spec E-35): every packet is parsed, its tags are hashed and the lines of the store
//! fetched; then all are executed in the order in which they came.

mod unusual;

use crate::guard::{Guard, Limits};
use crate::isa::{Abort, Opcode, Verdict, execute};
use crate::registered::{Registry, Tally};
use crate::seal::OperatorKey;
use crate::store::{Done, Key, MAX_TAGS, Occupancy, Session, Shard, ShardCounters, Tags, View};
use crate::variables::{self, Reading, Readings};
use crate::wire::{Carriages, Checked, Locations, Unread, peek, rewrite, set_error};
use packet::{Meta, Packet};
use plane::station::Variables;
use units::{Instant, Nanos};
use unusual::Registers;

/// The most packets of a batch: as many lines as a core can wait for several times over.
pub const BATCH: usize = 64;

/// What is done at every place of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How packets with instructions are known.
    pub carriages: Carriages,
    /// Instructions that are executed of parts without a seal, a bit for each by its number.
    pub allowed: u16,
    /// Whether two computations that use the same tag mean two entries (spec E-12).
    pub scoped: bool,
    /// The number by which a parent knows this router.
    pub node: u64,
    /// Packets whose lines are fetched together, at most [`BATCH`].
    pub batch: usize,
    /// What one source may.
    pub limits: Limits,
    /// The operator's key, and the instructions that are executed of parts sealed with it. None: sealed ones pass, for what
    /// was written into them could not be sealed anew.
    pub sealed: Option<(OperatorKey, u16)>,
}

impl Rules {
    /// Every instruction, as carried by default, in batches of 32.
    pub const fn of(node: u64) -> Rules {
        let carriages = Carriages { protocol: Carriages::PROTOCOL, port: Some(Carriages::PORT) };
        let limits = Limits { rate: None, creates: None };
        Rules { carriages, allowed: u16::MAX, scoped: false, node, batch: 32, limits, sealed: None }
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
    /// All of them, in the order in which a packet meets them.
    pub const ALL: [Location; 3] = [Location::Input, Location::Central, Location::Output];

    /// Its name in metrics and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Location::Input => "input",
            Location::Central => "central",
            Location::Output => "output",
        }
    }

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
    /// Nothing where it is refused, made by the router itself, or a super-frame, which holds several packets.
    #[inline(always)]
    fn network(&self) -> &[u8] {
        if self.meta().refused != 0 || self.meta().flags & Meta::GENERATED != 0 || self.offload().is_super_frame() {
            return &[];
        }
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
    /// Whose it is, where sources are told apart.
    source: u16,
    /// Whether it reads something of the router.
    reads: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Passed,
    Ready(Checked),
    /// The same of a part that is sealed.
    Sealed(Checked),
    /// An instruction that the operator has registered.
    Registered,
    Aborted(Abort),
}

/// A store's shard, and what is done to the packets that come by.
pub struct Site {
    shard: Shard,
    counters: [SiteCounters; Location::ALL.len()],
    prepared: Box<[Prepared; BATCH]>,
    /// What sources have used; none where they may do as they like.
    guard: Option<Box<Guard>>,
    /// What it has counted of registered instructions.
    tally: Tally,
}

impl Site {
    /// The place of a shard.
    pub fn new(shard: Shard) -> Site {
        let none =
            Prepared { state: State::Passed, at: 0, computation: 0, tags: Tags::default(), source: 0, reads: false };
        Site {
            shard,
            counters: Default::default(),
            prepared: Box::new([none; BATCH]),
            guard: None,
            tally: Tally::default(),
        }
    }

    /// The same where sources are held to limits.
    pub(crate) fn guarded(shard: Shard, limits: Limits, key: Key) -> Site {
        let mut site = Site::new(shard);
        site.guard_by(limits, key);
        site
    }

    /// Holds sources to these limits from now on.
    pub(crate) fn guard_by(&mut self, limits: Limits, key: Key) {
        self.guard = limits.any().then(|| Box::new(Guard::new(limits, key)));
    }

    /// These instructions are registered from now on.
    pub(crate) fn register(&mut self, registry: &Registry) {
        self.tally.rename(registry.names());
    }

    /// What it has counted of registered instructions at a location, by their names.
    pub(crate) fn registered_at(&self, location: Location) -> impl Iterator<Item = (&'static str, OpcodeCounters)> {
        self.tally.at(location)
    }

    /// The shard, to be cleaned or asked.
    pub fn shard(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// What its shard has counted.
    pub fn shard_counters(&self) -> ShardCounters {
        self.shard.counters()
    }

    /// How full its shard is.
    pub fn occupancy(&self, now: Instant) -> Occupancy {
        self.shard.occupancy(now)
    }

    /// How late its owner frees what has expired; none where another does.
    pub fn lag(&self) -> Option<Nanos> {
        self.shard.lag()
    }

    /// What it has counted, at all places.
    pub fn counters(&self) -> SiteCounters {
        let mut sum = SiteCounters::default();
        for counters in &self.counters {
            for (sum, count) in sum.executed.iter_mut().zip(&counters.executed) {
                sum.forwarded += count.forwarded;
                sum.dropped += count.dropped;
            }
            sum.aborted.iter_mut().zip(counters.aborted).for_each(|(sum, count)| *sum += count);
            sum.failed_before += counters.failed_before;
        }
        sum
    }

    /// What it has counted at one.
    pub fn counters_at(&self, location: Location) -> &SiteCounters {
        &self.counters[location as usize]
    }

    /// Executes what packets ask for at `location`, in their order. `fates` are as many as packets.
    #[inline]
    pub fn process<C: Carrier>(&mut self, of: (&Rules, Location), now: Instant, packets: &mut [C], fates: &mut [Fate]) {
        let (permitted, of_port) = (Default::default(), Variables::default());
        let readings = Readings { permitted, of_port, node: of.0.node, now };
        self.process_reading(of, &readings, &mut Registry::default(), now, packets, fates);
    }

    /// The same where they may read something of the router.
    #[inline]
    pub(crate) fn process_reading<C: Carrier>(
        &mut self,
        (rules, location): (&Rules, Location),
        readings: &Readings,
        registry: &mut Registry,
        now: Instant,
        packets: &mut [C],
        fates: &mut [Fate],
    ) {
        let batch = rules.batch.clamp(1, BATCH);
        for (packets, fates) in packets.chunks_mut(batch).zip(fates.chunks_mut(batch)) {
            self.step((rules, location), readings, registry, now, packets, fates);
        }
    }

    #[inline]
    fn step<C: Carrier>(
        &mut self,
        (rules, location): (&Rules, Location),
        readings: &Readings,
        registry: &mut Registry,
        now: Instant,
        packets: &mut [C],
        fates: &mut [Fate],
    ) {
        let Site { shard, counters, prepared, guard, tally } = self;
        let counters = &mut counters[location as usize];
        let mut session = shard.begin(now);
        packets.iter().for_each(C::fetch);
        for (packet, slot) in packets.iter().zip(prepared.iter_mut()) {
            slot.state = prepare((rules, location, readings), &session, packet.network(), slot, counters);
            if let State::Aborted(why) = slot.state {
                slot.state = unusual::prepare(why, (rules, readings, registry), &session, packet.network(), slot);
            }
            if let (Some(guard), State::Ready(_) | State::Sealed(_) | State::Registered) =
                (guard.as_deref_mut(), slot.state)
            {
                slot.source = guard.source(packet.network()) as u16;
                if !guard.instruction(slot.source.into(), now) {
                    slot.state = State::Aborted(Abort::RateLimited);
                }
            }
        }
        let mut means = Means { rules, session: &mut session, readings, guard: guard.as_deref_mut(), now };
        for ((packet, slot), fate) in packets.iter_mut().zip(prepared.iter()).zip(fates) {
            *fate = match slot.state {
                State::Passed => Fate::Passed,
                State::Aborted(why) => abort(packet, slot.at, why, counters),
                State::Ready(checked) => run(&mut means, packet, (slot, checked), counters),
                State::Sealed(checked) => unusual::run_sealed(&mut means, rules, packet, (slot, checked), counters),
                State::Registered => {
                    let mut registers = Registers { registry, tally, location };
                    unusual::run_registered(&mut means, (rules, readings), &mut registers, packet, slot, counters)
                }
            };
        }
    }
}

/// What there is to execute with.
struct Means<'a, 'b> {
    rules: &'a Rules,
    session: &'a mut Session<'b>,
    readings: &'a Readings,
    guard: Option<&'a mut Guard>,
    now: Instant,
}

/// The first stage.
#[inline(always)]
fn prepare(
    (rules, location, readings): (&Rules, Location, &Readings),
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
    slot.computation = computation;
    let checked = match Checked::of(bytes) {
        Ok(checked) => checked,
        Err(Unread::Foreign) => return State::Passed,
        Err(Unread::Wrong(why)) => return State::Aborted(why),
        Err(Unread::Sealed) => return State::Aborted(Abort::BadLength),
    };
    if rules.allowed >> checked.opcode.number() & 1 == 0 {
        return State::Aborted(Abort::NotEnabled);
    }
    look_up((rules, readings), session, (checked, bytes), slot)
}

/// The tags of an instruction that is to be executed, with their lines fetched.
#[inline(always)]
fn look_up(
    (rules, readings): (&Rules, &Readings),
    session: &Session<'_>,
    (checked, bytes): (Checked, &[u8]),
    slot: &mut Prepared,
) -> State {
    let computation = slot.computation;
    let Some(instruction) = checked.instruction(bytes) else { return State::Aborted(Abort::BadOpcode) };
    instruction.put_tags(&mut slot.tags);
    slot.reads = slot.tags.as_slice().iter().any(|tag| *tag >= variables::FIRST);
    if slot.reads && slot.tags.as_slice().iter().any(|tag| readings.of(*tag) == Reading::Closed) {
        // As a router that knows nothing of it (spec E-19).
        return State::Passed;
    }
    if rules.scoped {
        slot.tags = slot.tags.scoped(computation);
    }
    session.prepare(&mut slot.tags);
    State::Ready(checked)
}

/// The second: a straight line for each instruction.
#[inline(always)]
fn run<C: Carrier>(
    means: &mut Means<'_, '_>,
    packet: &mut C,
    (slot, checked): (&Prepared, Checked),
    counters: &mut SiteCounters,
) -> Fate {
    let Some(bytes) = packet.network_mut().get_mut(usize::from(slot.at)..) else { return Fate::Passed };
    let count = &mut counters.executed[usize::from(checked.opcode.number())];
    macro_rules! with {
        ($opcode:ident, $tags:literal) => {
            one::<$tags>(means, bytes, (slot, checked.known(Opcode::$opcode)))
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
    means: &mut Means<'_, '_>,
    bytes: &mut [u8],
    (slot, checked): (&Prepared, Checked),
) -> Result<bool, Abort> {
    let Some(mut instruction) = checked.instruction(bytes) else { return Err(Abort::BadOpcode) };
    let creates = checked.opcode.creates();
    if let Some(guard) = &means.guard
        && !guard.may_create(slot.source.into(), creates, means.now)
    {
        return Err(Abort::Quota);
    }
    let (node, before) = (means.rules.node, means.session.created());
    let named = if slot.reads { instruction.tags() } else { Tags::default() };
    let run = |view: &mut View| execute(&mut instruction, view, node);
    let executed = if TAGS > 0 && slot.reads {
        read_and_run::<TAGS>(means, slot, &named, run)?
    } else {
        means.session.execute::<TAGS, _>(&slot.tags, slot.computation, run)
    };
    if let Some(guard) = &mut means.guard {
        guard.created(slot.source.into(), means.session.created() - before, means.now);
    }
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

/// The same for an instruction that reads something of the router: it finds that among its values, and may not write it.
#[cold]
fn read_and_run<const TAGS: usize>(
    means: &mut Means<'_, '_>,
    slot: &Prepared,
    named: &Tags,
    run: impl FnOnce(&mut View) -> Verdict,
) -> Result<Done<Verdict>, Abort> {
    let mut found = [None; MAX_TAGS];
    for (found, tag) in found.iter_mut().zip(named.as_slice()) {
        if let Reading::Value(value) = means.readings.of(*tag) {
            *found = Some(value);
        }
    }
    Ok(means.session.execute::<TAGS, _>(&slot.tags, slot.computation, |view| {
        for (index, value) in found.iter().enumerate().take(TAGS) {
            if let Some(value) = value {
                view.found(index, *value);
            }
        }
        let verdict = run(view);
        let wrote = (0..TAGS).any(|index| found[index].is_some() && view.wrote(index));
        if wrote { Verdict::Abort(Abort::NotEnabled) } else { verdict }
    }))
}

/// Says in the packet that it was not executed.
#[cold]
fn abort<C: Carrier>(packet: &mut C, at: u16, why: Abort, counters: &mut SiteCounters) -> Fate {
    counters.aborted[why as usize] += 1;
    set_error(packet.network_mut().get_mut(usize::from(at)..).unwrap_or_default());
    Fate::Aborted(why)
}
