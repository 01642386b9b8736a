//! One processing place as a graph of elements in the manner of Click, one element per step (spec E-41, E-X18). [`crate::site`] does all steps in one
//! function. This module exists to measure the difference.
//!
//! | element | step | result passed on |
//! |---|---|---|
//! | `Classify` | finds the part; checks that its location is this one | offset of the part |
//! | `Validate` | checks length, checksum, opcode, operator | instruction |
//! | `Hash` | hashes the tags and prefetches their lines | tags |
//! | `Retrieve` | looks the tags up in the store | view |
//! | `Execute` | executes the instruction | verdict |
//! | `Update` | writes the view back | verdict, or store full |
//! | `Rewrite` | rewrites the packet's operands | |
//! | `Fail` | sets the error bit | |
//!
//! The first three elements each process the whole batch. From `Retrieve` on, each packet passes all elements before the next packet starts, because
//! it may read entries that the previous packet wrote. Elements store their results beside the packet, as Click does with annotations.
//!
//! Routers do not use this module: it has no seals, no registered instructions, and no counters except packet fates.

use crate::isa::{Abort, InstructionVerdict, StateInstruction, execute};
use crate::site::{BATCH, ExecutionRules, InstructionFate, Location, PacketBuffer, commit_repeated};
use crate::store::{InstructionTags, MAX_TAGS, Session, Shard, StoreResult, TagLookup};
use crate::variables;
use crate::wire::{Part, PartError, peek, rewrite, set_error_in};
use units::Instant;

/// Results that elements pass on, stored beside the packet.
struct Annotations {
    at: usize,
    computation: u64,
    instruction: StateInstruction,
    tags: InstructionTags,
    fate: InstructionFate,
}

impl Annotations {
    const NONE: Annotations = Annotations {
        at: 0,
        computation: 0,
        instruction: StateInstruction::Nop,
        tags: InstructionTags::NONE,
        fate: InstructionFate::PassedThrough,
    };
}

/// The result of an element: the next hop of a packet in the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// To the next element.
    Continue,
    /// To `Fail`, and then out of the graph.
    Fail(Abort),
    /// Out of the graph.
    Exit,
}

/// An element that reads the packet and the tags' home lines, but no entries.
trait ReadElement: Send {
    fn read(&self, session: &Session<'_>, l3: &[u8], notes: &mut Annotations) -> Next;
}

/// The view and verdict of a packet between two elements.
#[derive(Default)]
struct ExecutionState<'a> {
    found: Option<TagLookup<'a>>,
    verdict: Option<InstructionVerdict>,
}

/// An element that reads or writes entries.
trait StoreElement: Send {
    fn step<'a>(
        &self,
        session: &mut Session<'a>,
        l3: &mut [u8],
        notes: &mut Annotations,
        held: &mut ExecutionState<'a>,
    ) -> Next;
}

struct Classify(ExecutionRules, Location);
struct Validate(ExecutionRules);
struct Hash(ExecutionRules);
struct Retrieve;
struct Execute(ExecutionRules);
struct Update(ExecutionRules);
struct Rewrite;

impl ReadElement for Classify {
    fn read(&self, _: &Session<'_>, l3: &[u8], notes: &mut Annotations) -> Next {
        let Some((range, _)) = self.0.carriages.find(l3) else { return Next::Exit };
        notes.at = range.start;
        let Some(head) = peek(&l3[range]) else { return Next::Exit };
        let at = head.locations();
        let here = match self.1 {
            Location::Input => at.input,
            Location::Central => at.central,
            Location::Output => at.output,
        };
        if here && !head.error() { Next::Continue } else { Next::Exit }
    }
}

impl ReadElement for Validate {
    fn read(&self, _: &Session<'_>, l3: &[u8], notes: &mut Annotations) -> Next {
        match Part::read(&l3[notes.at..]) {
            Ok(part) if self.0.allowed >> part.instruction.opcode().number() & 1 == 0 => Next::Fail(Abort::NotEnabled),
            Ok(part) => {
                (notes.computation, notes.instruction) = (part.computation, part.instruction);
                Next::Continue
            }
            Err(PartError::Invalid(why)) => Next::Fail(why),
            Err(PartError::NotAPart | PartError::Sealed) => Next::Exit,
        }
    }
}

impl ReadElement for Hash {
    fn read(&self, session: &Session<'_>, _: &[u8], notes: &mut Annotations) -> Next {
        notes.tags = notes.instruction.tags();
        if notes.tags.as_slice().iter().any(|tag| *tag >= variables::FIRST_VARIABLE) {
            return Next::Exit;
        }
        if self.0.scoped {
            notes.tags = notes.tags.scoped(notes.computation);
        }
        session.prepare::<MAX_TAGS>(&mut notes.tags);
        session.prefetch(&notes.tags);
        Next::Continue
    }
}

impl StoreElement for Retrieve {
    fn step<'a>(
        &self,
        session: &mut Session<'a>,
        _: &mut [u8],
        notes: &mut Annotations,
        held: &mut ExecutionState<'a>,
    ) -> Next {
        held.found = session.look_up::<MAX_TAGS>(&notes.tags, notes.computation);
        if held.found.is_some() { Next::Continue } else { Next::Fail(Abort::Full) }
    }
}

impl StoreElement for Execute {
    fn step<'a>(
        &self,
        _: &mut Session<'a>,
        _: &mut [u8],
        notes: &mut Annotations,
        held: &mut ExecutionState<'a>,
    ) -> Next {
        let Some(found) = &mut held.found else { return Next::Exit };
        held.verdict = Some(execute(&mut notes.instruction, &mut found.view, self.0.node));
        Next::Continue
    }
}

impl StoreElement for Update {
    fn step<'a>(
        &self,
        session: &mut Session<'a>,
        _: &mut [u8],
        notes: &mut Annotations,
        held: &mut ExecutionState<'a>,
    ) -> Next {
        let (Some(found), Some(verdict)) = (held.found.take(), held.verdict) else { return Next::Exit };
        let about = (&notes.tags, notes.computation);
        let done = match verdict {
            InstructionVerdict::Repeated => commit_repeated(session, about, found, &mut notes.instruction, self.0.node),
            verdict => session.commit::<MAX_TAGS, _>(about.0, about.1, found, verdict),
        };
        if let StoreResult::Executed(verdict) = done {
            held.verdict = Some(verdict);
        }
        match done {
            StoreResult::Full => Next::Fail(Abort::Full),
            StoreResult::Executed(InstructionVerdict::Abort(why)) => Next::Fail(why),
            StoreResult::Executed(InstructionVerdict::Drop | InstructionVerdict::Repeated) => {
                notes.fate = InstructionFate::Dropped;
                Next::Exit
            }
            StoreResult::Executed(InstructionVerdict::Forward | InstructionVerdict::Rewritten) => {
                notes.fate = InstructionFate::Forwarded;
                Next::Continue
            }
        }
    }
}

impl StoreElement for Rewrite {
    fn step<'a>(
        &self,
        _: &mut Session<'a>,
        l3: &mut [u8],
        notes: &mut Annotations,
        held: &mut ExecutionState<'a>,
    ) -> Next {
        if held.verdict == Some(InstructionVerdict::Rewritten)
            && let Some(bytes) = l3.get_mut(notes.at..)
        {
            rewrite(bytes, &notes.instruction);
        }
        Next::Exit
    }
}

/// Sets the error bit: the packet was not executed.
fn fail(l3: &mut [u8], notes: &mut Annotations, why: Abort) {
    set_error_in(l3, notes.at);
    notes.fate = InstructionFate::Aborted(why);
}

/// The graph.
pub struct Graph {
    shard: Shard,
    looks: Vec<Box<dyn ReadElement>>,
    acts: Vec<Box<dyn StoreElement>>,
    notes: Vec<(Annotations, Next)>,
    batch: usize,
}

impl Graph {
    /// A graph for one shard at one location. It ignores the rules' limits, keys and registered instructions.
    pub fn new(shard: Shard, rules: ExecutionRules, location: Location) -> Graph {
        let looks: Vec<Box<dyn ReadElement>> =
            vec![Box::new(Classify(rules, location)), Box::new(Validate(rules)), Box::new(Hash(rules))];
        let acts: Vec<Box<dyn StoreElement>> =
            vec![Box::new(Retrieve), Box::new(Execute(rules)), Box::new(Update(rules)), Box::new(Rewrite)];
        let batch = rules.batch.clamp(1, BATCH);
        Graph { shard, looks, acts, notes: (0..batch).map(|_| (Annotations::NONE, Next::Continue)).collect(), batch }
    }

    /// Executes the instructions of a batch in order, like [`crate::site::Site::process`]. `fates` has one element per packet.
    pub fn process<C: PacketBuffer>(&mut self, now: Instant, packets: &mut [C], fates: &mut [InstructionFate]) {
        let Graph { shard, looks, acts, notes, batch } = self;
        for (packets, fates) in packets.chunks_mut(*batch).zip(fates.chunks_mut(*batch)) {
            let mut session = shard.begin(now);
            notes.iter_mut().for_each(|notes| *notes = (Annotations::NONE, Next::Continue));
            for element in looks.iter() {
                for (packet, (notes, next)) in packets.iter().zip(notes.iter_mut()) {
                    if *next == Next::Continue {
                        *next = element.read(&session, packet.network(), notes);
                    }
                }
            }
            for ((packet, (notes, next)), fate) in packets.iter_mut().zip(notes.iter_mut()).zip(fates) {
                let mut held = ExecutionState::default();
                let mut elements = acts.iter();
                while *next == Next::Continue
                    && let Some(element) = elements.next()
                {
                    *next = element.step(&mut session, packet.network_mut(), notes, &mut held);
                }
                if let Next::Fail(why) = *next {
                    fail(packet.network_mut(), notes, why);
                }
                *fate = notes.fate;
            }
        }
    }
}
