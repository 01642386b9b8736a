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

use crate::isa::{Abort, Instruction, Verdict, execute};
use crate::site::{BATCH, Carrier, Fate, Location, Rules, commit_repeated};
use crate::store::{Done, Found, MAX_TAGS, Session, Shard, Tags};
use crate::variables;
use crate::wire::{Part, Unread, peek, rewrite, set_error_in};
use units::Instant;

/// Results that elements pass on, stored beside the packet.
struct Notes {
    at: usize,
    computation: u64,
    instruction: Instruction,
    tags: Tags,
    fate: Fate,
}

impl Notes {
    const NONE: Notes =
        Notes { at: 0, computation: 0, instruction: Instruction::Nop, tags: Tags::NONE, fate: Fate::Passed };
}

/// The result of an element: the next hop of a packet in the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// To the next element.
    On,
    /// To `Fail`, and then out of the graph.
    Fails(Abort),
    /// Out of the graph.
    Leaves,
}

/// An element that reads the packet and the tags' home lines, but no entries.
trait Look: Send {
    fn look(&self, session: &Session<'_>, l3: &[u8], notes: &mut Notes) -> Next;
}

/// The view and verdict of a packet between two elements.
#[derive(Default)]
struct Held<'a> {
    found: Option<Found<'a>>,
    verdict: Option<Verdict>,
}

/// An element that reads or writes entries.
trait Act: Send {
    fn act<'a>(&self, session: &mut Session<'a>, l3: &mut [u8], notes: &mut Notes, held: &mut Held<'a>) -> Next;
}

struct Classify(Rules, Location);
struct Validate(Rules);
struct Hash(Rules);
struct Retrieve;
struct Execute(Rules);
struct Update(Rules);
struct Rewrite;

impl Look for Classify {
    fn look(&self, _: &Session<'_>, l3: &[u8], notes: &mut Notes) -> Next {
        let Some((range, _)) = self.0.carriages.find(l3) else { return Next::Leaves };
        notes.at = range.start;
        let Some(head) = peek(&l3[range]) else { return Next::Leaves };
        let at = head.locations();
        let here = match self.1 {
            Location::Input => at.input,
            Location::Central => at.central,
            Location::Output => at.output,
        };
        if here && !head.error() { Next::On } else { Next::Leaves }
    }
}

impl Look for Validate {
    fn look(&self, _: &Session<'_>, l3: &[u8], notes: &mut Notes) -> Next {
        match Part::read(&l3[notes.at..]) {
            Ok(part) if self.0.allowed >> part.instruction.opcode().number() & 1 == 0 => Next::Fails(Abort::NotEnabled),
            Ok(part) => {
                (notes.computation, notes.instruction) = (part.computation, part.instruction);
                Next::On
            }
            Err(Unread::Wrong(why)) => Next::Fails(why),
            Err(Unread::Foreign | Unread::Sealed) => Next::Leaves,
        }
    }
}

impl Look for Hash {
    fn look(&self, session: &Session<'_>, _: &[u8], notes: &mut Notes) -> Next {
        notes.tags = notes.instruction.tags();
        if notes.tags.as_slice().iter().any(|tag| *tag >= variables::FIRST) {
            return Next::Leaves;
        }
        if self.0.scoped {
            notes.tags = notes.tags.scoped(notes.computation);
        }
        session.prepare::<MAX_TAGS>(&mut notes.tags);
        session.fetch(&notes.tags);
        Next::On
    }
}

impl Act for Retrieve {
    fn act<'a>(&self, session: &mut Session<'a>, _: &mut [u8], notes: &mut Notes, held: &mut Held<'a>) -> Next {
        held.found = session.look_up::<MAX_TAGS>(&notes.tags, notes.computation);
        if held.found.is_some() { Next::On } else { Next::Fails(Abort::Full) }
    }
}

impl Act for Execute {
    fn act<'a>(&self, _: &mut Session<'a>, _: &mut [u8], notes: &mut Notes, held: &mut Held<'a>) -> Next {
        let Some(found) = &mut held.found else { return Next::Leaves };
        held.verdict = Some(execute(&mut notes.instruction, &mut found.view, self.0.node));
        Next::On
    }
}

impl Act for Update {
    fn act<'a>(&self, session: &mut Session<'a>, _: &mut [u8], notes: &mut Notes, held: &mut Held<'a>) -> Next {
        let (Some(found), Some(verdict)) = (held.found.take(), held.verdict) else { return Next::Leaves };
        let about = (&notes.tags, notes.computation);
        let done = match verdict {
            Verdict::Repeated => commit_repeated(session, about, found, &mut notes.instruction, self.0.node),
            verdict => session.commit::<MAX_TAGS, _>(about.0, about.1, found, verdict),
        };
        if let Done::Executed(verdict) = done {
            held.verdict = Some(verdict);
        }
        match done {
            Done::Full => Next::Fails(Abort::Full),
            Done::Executed(Verdict::Abort(why)) => Next::Fails(why),
            Done::Executed(Verdict::Drop | Verdict::Repeated) => {
                notes.fate = Fate::Dropped;
                Next::Leaves
            }
            Done::Executed(Verdict::Forward | Verdict::Rewritten) => {
                notes.fate = Fate::Forwarded;
                Next::On
            }
        }
    }
}

impl Act for Rewrite {
    fn act<'a>(&self, _: &mut Session<'a>, l3: &mut [u8], notes: &mut Notes, held: &mut Held<'a>) -> Next {
        if held.verdict == Some(Verdict::Rewritten)
            && let Some(bytes) = l3.get_mut(notes.at..)
        {
            rewrite(bytes, &notes.instruction);
        }
        Next::Leaves
    }
}

/// Sets the error bit: the packet was not executed.
fn fail(l3: &mut [u8], notes: &mut Notes, why: Abort) {
    set_error_in(l3, notes.at);
    notes.fate = Fate::Aborted(why);
}

/// The graph.
pub struct Graph {
    shard: Shard,
    looks: Vec<Box<dyn Look>>,
    acts: Vec<Box<dyn Act>>,
    notes: Vec<(Notes, Next)>,
    batch: usize,
}

impl Graph {
    /// A graph for one shard at one location. It ignores the rules' limits, keys and registered instructions.
    pub fn new(shard: Shard, rules: Rules, location: Location) -> Graph {
        let looks: Vec<Box<dyn Look>> =
            vec![Box::new(Classify(rules, location)), Box::new(Validate(rules)), Box::new(Hash(rules))];
        let acts: Vec<Box<dyn Act>> =
            vec![Box::new(Retrieve), Box::new(Execute(rules)), Box::new(Update(rules)), Box::new(Rewrite)];
        let batch = rules.batch.clamp(1, BATCH);
        Graph { shard, looks, acts, notes: (0..batch).map(|_| (Notes::NONE, Next::On)).collect(), batch }
    }

    /// Executes the instructions of a batch in order, like [`crate::site::Site::process`]. `fates` has one element per packet.
    pub fn process<C: Carrier>(&mut self, now: Instant, packets: &mut [C], fates: &mut [Fate]) {
        let Graph { shard, looks, acts, notes, batch } = self;
        for (packets, fates) in packets.chunks_mut(*batch).zip(fates.chunks_mut(*batch)) {
            let mut session = shard.begin(now);
            notes.iter_mut().for_each(|notes| *notes = (Notes::NONE, Next::On));
            for element in looks.iter() {
                for (packet, (notes, next)) in packets.iter().zip(notes.iter_mut()) {
                    if *next == Next::On {
                        *next = element.look(&session, packet.network(), notes);
                    }
                }
            }
            for ((packet, (notes, next)), fate) in packets.iter_mut().zip(notes.iter_mut()).zip(fates) {
                let mut held = Held::default();
                let mut elements = acts.iter();
                while *next == Next::On
                    && let Some(element) = elements.next()
                {
                    *next = element.act(&mut session, packet.network_mut(), notes, &mut held);
                }
                if let Next::Fails(why) = *next {
                    fail(packet.network_mut(), notes, why);
                }
                *fate = notes.fate;
            }
        }
    }
}
