//! Instructions that an operator has registered (spec E-25; adr/0050): their parts, and what one worker has of them.
//!
//! | offset | field |
//! |---|---|
//! | 0 to 11 | the head, as ever, with a number from 128 on |
//! | 12 | as many tags as the instruction has, 0 to 4, of 8 bytes |
//! | then | a value of 8 bytes |
//! | last 2 | Internet checksum over all of it |

use crate::fate::{Location, OpcodeCounters};
use crate::isa::{Abort, Instruction, Operator, REGISTERED};
use crate::wire::{Carried, Locations, Part, Unread, peek};
use packet::wire::checksum;
use plan::state::RegisteredPlan;
use plane::registered::{Call, FAULTS, InstructionTrouble, Outcome, Registered, TAGS, instructs};
use std::fmt;
use std::str::FromStr;

const HEAD: usize = 12;
const WORD: usize = 8;
/// Bytes of one without a tag.
const SHORTEST: usize = HEAD + WORD + 2;
const PIGGYBACKED: u8 = 1;
const TRACE: u8 = 0x80;

/// A registered instruction with its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisteredInstruction {
    /// Its number, from 128 on.
    pub number: u8,
    /// An operator, which means what the instruction says it means.
    pub operator: Operator,
    tags: [u64; TAGS],
    count: u8,
    /// What it takes along.
    pub value: u64,
}

impl RegisteredInstruction {
    /// That one with these tags, of which there are at most four. None where it has no such number.
    pub fn new(number: u8, operator: Operator, tags: &[u64], value: u64) -> Option<RegisteredInstruction> {
        if number < REGISTERED || tags.len() > TAGS {
            return None;
        }
        let mut all = [0; TAGS];
        all[..tags.len()].copy_from_slice(tags);
        Some(RegisteredInstruction { number, operator, tags: all, count: tags.len() as u8, value })
    }

    /// Its tags.
    pub fn tags(&self) -> &[u64] {
        &self.tags[..usize::from(self.count)]
    }
}

impl fmt::Display for RegisteredInstruction {
    /// As a line that reads back the same: `call 128 add 0x2a 0x2b 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} {}", self.number, self.operator)?;
        self.tags().iter().try_for_each(|tag| write!(f, " {tag:#x}"))?;
        write!(f, " {}", self.value)
    }
}

/// Words that are no registered instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoCall;

impl fmt::Display for NoCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write: call NUMBER OPERATOR [TAG ...] VALUE, with a number from 128 to 255 and at most four tags")
    }
}

impl std::error::Error for NoCall {}

impl FromStr for RegisteredInstruction {
    type Err = NoCall;

    fn from_str(text: &str) -> Result<RegisteredInstruction, NoCall> {
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| NoCall),
            None => text.parse().map_err(|_| NoCall),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["call", which, operator, tags @ .., value] = words.as_slice() else { return Err(NoCall) };
        let tags: Vec<u64> = tags.iter().map(|tag| number(tag)).collect::<Result<_, _>>()?;
        let (which, operator) = (which.parse().map_err(|_| NoCall)?, operator.parse().map_err(|_| NoCall)?);
        RegisteredInstruction::new(which, operator, &tags, number(value)?).ok_or(NoCall)
    }
}

/// A part with a registered instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisteredPart {
    /// Where it is to be executed.
    pub locations: Locations,
    /// Whether a router could not execute it.
    pub error: bool,
    /// Whether data of somebody else follows.
    pub piggybacked: bool,
    /// Whether its sender wants to be able to follow it.
    pub trace: bool,
    /// The computation it belongs to.
    pub computation: u64,
    /// What is to be done.
    pub instruction: RegisteredInstruction,
}

impl RegisteredPart {
    /// The part at the start of `bytes`, which may go on behind it; how many tags it has follows from its length.
    pub fn read(bytes: &[u8]) -> Result<RegisteredPart, Unread> {
        let (Some(head), Some(&[bits, number, length, flags])) = (peek(bytes), bytes.first_chunk::<4>()) else {
            return Err(Unread::Foreign);
        };
        let (locations, error, computation) = (head.locations(), head.error(), head.computation);
        let wrong = |why| Err(Unread::Wrong(why));
        if number < REGISTERED {
            return wrong(Abort::BadOpcode);
        }
        let length = usize::from(length);
        let count = (0..=TAGS).find(|count| length == SHORTEST + count * WORD);
        let (Some(count), Some(whole)) = (count, bytes.get(..length)) else { return wrong(Abort::BadLength) };
        if checksum::sum(whole) != 0xffff {
            return wrong(Abort::BadChecksum);
        }
        let word = |which: usize| {
            let word = whole[HEAD + which * WORD..].first_chunk::<WORD>();
            word.map_or(0, |word| u64::from_be_bytes(*word))
        };
        let Some(operator) = Operator::of(flags & 0x0f) else { return wrong(Abort::BadOpcode) };
        let mut tags = [0; TAGS];
        tags.iter_mut().take(count).enumerate().for_each(|(which, tag)| *tag = word(which));
        let instruction = RegisteredInstruction { number, operator, tags, count: count as u8, value: word(count) };
        let (piggybacked, trace) = (bits & PIGGYBACKED != 0, flags & TRACE != 0);
        Ok(RegisteredPart { locations, error, piggybacked, trace, computation, instruction })
    }

    /// The same as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let RegisteredPart { locations, error, piggybacked, trace, computation, instruction } = *self;
        let like = Part { locations, error, piggybacked, trace, computation, instruction: Instruction::Nop };
        let mut bytes = like.to_bytes();
        bytes.truncate(HEAD);
        let length = SHORTEST + usize::from(instruction.count) * WORD;
        (bytes[1], bytes[2]) = (instruction.number, length as u8);
        bytes[3] |= instruction.operator.number();
        for word in instruction.tags().iter().chain([&instruction.value]) {
            bytes.extend(word.to_be_bytes());
        }
        let sum = checksum::checksum(&bytes);
        bytes.extend(sum.to_be_bytes());
        bytes
    }
}

impl Carried for RegisteredPart {
    fn carried(&self, piggybacked: bool) -> Vec<u8> {
        RegisteredPart { piggybacked: self.piggybacked || piggybacked, ..*self }.to_bytes()
    }
}

/// Writes another value into a part without a seal, which has been read before.
pub(crate) fn rewrite(bytes: &mut [u8], value: u64) {
    let length = bytes.get(2).map_or(0, |length| usize::from(*length));
    let Some(whole) = bytes.get_mut(..length).filter(|whole| whole.len() >= SHORTEST) else { return };
    let end = length - 2;
    whole[end - WORD..end].copy_from_slice(&value.to_be_bytes());
    let sum = checksum::checksum(&whole[..end]);
    whole[end..].copy_from_slice(&sum.to_be_bytes());
}

/// The registered instructions of a router, as one worker has them.
#[derive(Default)]
pub(crate) struct Registry {
    all: Vec<Entry>,
}

struct Entry {
    number: u8,
    name: &'static str,
    tags: u8,
    creates: u8,
    /// None where it has failed too often.
    at_work: Option<Box<dyn Registered>>,
    /// What takes its place after a fault: made beforehand, for that takes longer than a packet may wait.
    spares: Vec<Box<dyn Registered>>,
    trouble: Option<InstructionTrouble>,
}

impl Registry {
    /// Those of a configuration. The error says which does not start, and why.
    pub fn of(plan: &[RegisteredPlan]) -> Result<Registry, String> {
        let entry = |plan: &RegisteredPlan| {
            let name = plan.declared.name;
            let maker = instructs(&plan.code).ok_or_else(|| format!("instruction '{name}' is none"))?;
            let made = || maker.make().map_err(|why| format!("instruction '{name}': {why}"));
            let spares = (1..FAULTS).map(|_| made()).collect::<Result<_, String>>()?;
            let (tags, creates) = (plan.declared.tags, plan.declared.creates);
            Ok(Entry { number: plan.number, name, tags, creates, at_work: Some(made()?), spares, trouble: None })
        };
        Ok(Registry { all: plan.iter().map(entry).collect::<Result<_, String>>()? })
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all.iter().map(|entry| entry.name)
    }

    /// Which one has this number, how many tags it has and how many entries it creates at most.
    pub fn find(&self, number: u8) -> Option<(usize, u8, u8)> {
        let which = self.all.iter().position(|entry| entry.number == number)?;
        Some((which, self.all[which].tags, self.all[which].creates))
    }

    /// Executes one. What it answers is what it may.
    pub fn execute(&mut self, which: usize, call: &mut Call) -> Result<Outcome, Abort> {
        let Some(entry) = self.all.get_mut(which) else { return Err(Abort::NotEnabled) };
        let Some(at_work) = &mut entry.at_work else { return Err(Abort::GuestFailed) };
        let answer = at_work.execute(call);
        let answer = answer.and_then(|outcome| call.within(entry.tags, entry.creates).map(|()| outcome));
        answer.map_err(|what| {
            entry.at_work = entry.spares.pop();
            let for_good = entry.at_work.is_none();
            entry.trouble = Some(InstructionTrouble { instruction: entry.name, what, for_good });
            Abort::GuestFailed
        })
    }

    /// What went wrong since this was asked last.
    pub fn trouble(&mut self) -> Option<InstructionTrouble> {
        self.all.iter_mut().find_map(|entry| entry.trouble.take())
    }
}

/// What a place has counted of registered instructions, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    all: Vec<(&'static str, [OpcodeCounters; Location::ALL.len()])>,
}

impl Tally {
    /// These are registered from now on. Those that were before go on counting.
    pub fn rename(&mut self, names: impl Iterator<Item = &'static str>) {
        let before = std::mem::take(&mut self.all);
        let known = |name| before.iter().find(|(known, _)| *known == name).map(|(_, counters)| *counters);
        self.all = names.map(|name| (name, known(name).unwrap_or_default())).collect();
    }

    /// One of them has ended a packet, or not.
    pub fn count(&mut self, which: usize, location: Location, goes_on: bool) {
        if let Some((_, counters)) = self.all.get_mut(which) {
            let counters = &mut counters[location as usize];
            counters.forwarded += u64::from(goes_on);
            counters.dropped += u64::from(!goes_on);
        }
    }

    /// What was counted at a location.
    pub fn at(&self, location: Location) -> impl Iterator<Item = (&'static str, OpcodeCounters)> {
        self.all.iter().map(move |(name, counters)| (*name, counters[location as usize]))
    }
}
