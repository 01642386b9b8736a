//! A place of a router taken apart into elements, one for each step, as a graph of Click's would have it (spec E-41, E-X18): beside [`crate::site`],
//! which does all of them in one, to see what that is worth.
//!
//! | element | what it does | what it leaves for the next |
//! |---|---|---|
//! | `Classify` | finds the part; whether it is to be executed here | where the part is |
//! | `Validate` | length, checksum, opcode, operator | the instruction |
//! | `Hash` | the homes of its tags, whose lines are fetched | the tags |
//! | `Retrieve` | what the store has of them | the view |
//! | `Execute` | the instruction | what it says |
//! | `Update` | writes the view into the store | whether there was room |
//! | `Rewrite` | the packet's own fields | |
//! | `Fail` | the error bit | |
//!
//! The first three see all packets of a batch, one element after the other; from then on each packet goes through to the end before the next,
//! for what it finds the one before may have written. What an element leaves lies beside the packet, as Click's annotations do. It is no part of a router:
//! parts are without seals, instructions built in, and nothing is counted but what became of packets.

use crate::isa::{Abort, Instruction, Verdict, execute};
use crate::site::{BATCH, Carrier, Fate, Location, Rules, commit_repeated};
use crate::store::{Done, Found, MAX_TAGS, Session, Shard, Tags};
use crate::variables;
use crate::wire::{Part, Unread, peek, rewrite, set_error_in};
use units::Instant;

/// What elements leave for each other, beside a packet.
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

/// Where a packet goes from an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// To the next one.
    On,
    /// To the one behind which nothing more is done with it.
    Fails(Abort),
    /// Out of the graph.
    Leaves,
}

/// A step that needs no more of the store than where tags have their home.
trait Look: Send {
    fn look(&self, session: &Session<'_>, l3: &[u8], notes: &mut Notes) -> Next;
}

/// What a packet has of the store while it goes from one element to the next.
#[derive(Default)]
struct Held<'a> {
    found: Option<Found<'a>>,
    verdict: Option<Verdict>,
}

/// A step in the middle of the store.
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

/// Tells in the packet that it was not executed.
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
    /// The place of a shard where packets come in, in the middle, or where they leave. Of the rules, limits, keys and registered instructions are not
    /// looked at.
    pub fn new(shard: Shard, rules: Rules, location: Location) -> Graph {
        let looks: Vec<Box<dyn Look>> =
            vec![Box::new(Classify(rules, location)), Box::new(Validate(rules)), Box::new(Hash(rules))];
        let acts: Vec<Box<dyn Act>> =
            vec![Box::new(Retrieve), Box::new(Execute(rules)), Box::new(Update(rules)), Box::new(Rewrite)];
        let batch = rules.batch.clamp(1, BATCH);
        Graph { shard, looks, acts, notes: (0..batch).map(|_| (Notes::NONE, Next::On)).collect(), batch }
    }

    /// Executes what packets ask for, in their order: [`crate::site::Site::process`] by elements. `fates` are as many as packets.
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
