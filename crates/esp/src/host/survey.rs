//! What the routers of a path do with instructions, found out by probes whose time to live ends at one router after the other: each quotes
//! them as they came to it (RFC 792, RFC 4443 3.3), and needs no privilege to do so.
//!
//! A probe is RCHLD: whoever executes it writes a name of its own over the child, and does so again when the same comes again. So two quotes
//! of a probe differ exactly where a router between them has executed it, whatever was lost in between; and as the name is made of the
//! router and the tag, two paths that are asked with the same tag have the same names for as long as they are one (spec E-44). Where a
//! packet comes in and in the middle it is executed before its time to live is looked at; where it leaves, only what leaves is (spec E-37).

use crate::isa::Instruction;
use crate::seal;
use crate::store::{Key, mix};
use crate::variables;
use crate::wire::{Locations, Part};
use plan::state::Variable;
use std::collections::BTreeMap;

/// One thing that is asked of every router of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Question {
    /// Whether it executes where packets come in.
    Input,
    /// Whether it does in the middle.
    Central,
    /// Whether it does where they leave.
    Output,
    /// Its name, where the port that packets come in by lets them read that.
    NodeAtInput,
    /// The same of the port that they leave by.
    NodeAtOutput,
}

impl Question {
    /// All of them.
    pub const ALL: [Question; 5] =
        [Question::Input, Question::Central, Question::Output, Question::NodeAtInput, Question::NodeAtOutput];

    const fn locations(self) -> Locations {
        match self {
            Question::Input | Question::NodeAtInput => Locations::INPUT,
            Question::Central => Locations::CENTRAL,
            Question::Output | Question::NodeAtOutput => Locations::OUTPUT,
        }
    }

    /// Whether a router at which the time to live ends has executed it before.
    const fn is_before_its_end(self) -> bool {
        !self.locations().output
    }
}

/// The probes of one search: the same for all paths that are to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Probes {
    secret: Key,
}

impl Probes {
    /// Probes whose numbers are drawn from 128 bits of randomness: those of the operating system, or a seed.
    pub fn new(randomness: [u64; 2]) -> Probes {
        Probes { secret: Key::new(randomness) }
    }

    fn part(&self, question: Question) -> Part {
        let drawn = |number: u64| mix(self.secret.hash(question as u64), number);
        let instruction = match question {
            Question::NodeAtInput | Question::NodeAtOutput => {
                Instruction::Get { tag: variables::tag(Variable::Node), value: drawn(1) }
            }
            // Not a tag that stands for something of the router.
            _ => Instruction::Rchld { counter: drawn(1) >> 1, child: drawn(2) },
        };
        let (locations, computation) = (question.locations(), drawn(0));
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }

    /// What a datagram with time to live `hop` says. Behind the part it has the hop and the attempt, so that its quote says which it was.
    /// `bytes_of` makes the part's bytes, sealed or not.
    pub fn datagram(
        &self,
        question: Question,
        hop: u8,
        attempt: u8,
        bytes_of: impl FnOnce(&Part) -> Vec<u8>,
    ) -> Vec<u8> {
        let mut bytes = bytes_of(&self.part(question));
        bytes.extend([hop, attempt]);
        bytes
    }
}

/// A probe as it came to a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    /// What is in the place that whoever executes it writes.
    value: u64,
    error: bool,
}

impl Seen {
    fn of(part: &Part) -> Seen {
        let value = match part.instruction {
            Instruction::Rchld { child, .. } => child,
            Instruction::Get { value, .. } => value,
            _ => 0,
        };
        Seen { value, error: part.error }
    }
}

/// A probe that has come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Returned {
    /// What it asked.
    pub question: Question,
    /// Its time to live.
    pub hop: u8,
    /// Which attempt it was.
    pub attempt: u8,
}

/// What a router does with an instruction for one place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Executes {
    /// It executes it.
    Yes,
    /// It forwards it like any packet.
    No,
    /// It could not execute it, and said so in the packet.
    Failed,
    /// One of several routers does one of these, or nothing can be said: neighbours do not answer, or a router before has failed.
    Unknown,
}

/// What has been found out of one path.
#[derive(Clone, Debug)]
pub struct Survey {
    probes: Probes,
    seen: BTreeMap<(Question, u8), Seen>,
}

impl Survey {
    /// Nothing yet.
    pub fn new(probes: Probes) -> Survey {
        let sent = Question::ALL.map(|question| ((question, 0), Seen::of(&probes.part(question))));
        Survey { probes, seen: sent.into() }
    }

    /// Bytes that a router, or the far end, has quoted or sent back: from the part on. `None` where they are of no probe of this search, or too
    /// few: a router need not quote more than eight bytes of a datagram. Whether a part is sealed, and by whom, does not matter: anybody can answer
    /// anything.
    pub fn came(&mut self, bytes: &[u8]) -> Option<Returned> {
        let part = seal::read(bytes).ok()?;
        let question = Question::ALL.into_iter().find(|&question| {
            let sent = self.probes.part(question);
            sent.computation == part.computation && sent.instruction.opcode() == part.instruction.opcode()
        })?;
        let &[hop, attempt, ..] = bytes.get(usize::from(*bytes.get(2)?)..)? else { return None };
        if hop > 0 {
            self.seen.insert((question, hop), Seen::of(&part));
        }
        Some(Returned { question, hop, attempt })
    }

    /// Whether the answer to a question has come from this hop.
    pub fn has(&self, question: Question, hop: u8) -> bool {
        self.seen.contains_key(&(question, hop))
    }

    /// What the router at `hop`, which is 1 for the first, does.
    pub fn executes(&self, question: Question, hop: u8) -> Executes {
        let (from, to) =
            if question.is_before_its_end() { (hop.saturating_sub(1), hop) } else { (hop, hop.saturating_add(1)) };
        let before = self.seen.range((question, 0)..=(question, from)).next_back();
        let after = self.seen.range((question, to)..=(question, u8::MAX)).next();
        let (Some((&(_, first), before)), Some((&(_, last), after))) = (before, after) else {
            return Executes::Unknown;
        };
        // What leaves this host has left no router.
        let first = if question.is_before_its_end() { first } else { first.max(1) };
        match (before.error, after.error) {
            (true, _) => Executes::Unknown,
            (false, false) if before.value == after.value => Executes::No,
            _ if last - first > 1 => Executes::Unknown,
            (_, true) => Executes::Failed,
            _ => Executes::Yes,
        }
    }

    /// The name that the router at `hop` has in this search; none where it executes nothing where packets come in, or it is not known.
    pub fn name(&self, hop: u8) -> Option<u64> {
        self.written(Question::Input, hop)
    }

    /// The name that the router at `hop` says it has, where it lets packets read that.
    pub fn node(&self, hop: u8) -> Option<u64> {
        self.written(Question::NodeAtInput, hop).or_else(|| self.written(Question::NodeAtOutput, hop))
    }

    fn written(&self, question: Question, hop: u8) -> Option<u64> {
        let at = if question.is_before_its_end() { hop } else { hop.checked_add(1)? };
        let seen = self.seen.get(&(question, at))?;
        (self.executes(question, hop) == Executes::Yes).then_some(seen.value)
    }
}
