//! Instructions that the operator registered (spec E-25; adr/0050): their wire format, and the registry of one worker.
//!
//! | offset | field |
//! |---|---|
//! | 0 to 11 | the usual head; the opcode is 128 or more |
//! | 12 | the tags of the instruction, 0 to 4, 8 bytes each |
//! | then | a value, 8 bytes |
//! | last 2 | Internet checksum over the whole part |

use crate::fate::{Location, OpcodeCounters};
use crate::isa::{Abort, Operator, REGISTERED, StateInstruction};
use crate::wire::{EncodePart, Locations, Part, PartError, peek};
use packet::wire::checksum;
use plan::state::RegisteredPlan;
use plane::instructions::{
    CustomInstruction, FAULTS, InstructionCall, InstructionFault, InstructionOutcome, TAGS, instruction_maker,
};
use std::fmt;
use std::str::FromStr;

const HEAD: usize = 12;
const WORD: usize = 8;
/// The length of a part without tags.
const SHORTEST: usize = HEAD + WORD + 2;
const PIGGYBACKED: u8 = 1;
const TRACE: u8 = 0x80;

/// A registered instruction with its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisteredInstruction {
    /// The opcode, 128 or more.
    pub number: u8,
    /// An operator. Its meaning is up to the instruction.
    pub operator: Operator,
    tags: [u64; TAGS],
    count: u8,
    /// The packet's value, which the instruction may change.
    pub value: u64,
}

impl RegisteredInstruction {
    /// The instruction with these tags. `None` if the number is below 128 or there are more than four tags.
    pub fn new(number: u8, operator: Operator, tags: &[u64], value: u64) -> Option<RegisteredInstruction> {
        if number < REGISTERED || tags.len() > TAGS {
            return None;
        }
        let mut all = [0; TAGS];
        all[..tags.len()].copy_from_slice(tags);
        Some(RegisteredInstruction { number, operator, tags: all, count: tags.len() as u8, value })
    }

    /// The tags.
    pub fn tags(&self) -> &[u64] {
        &self.tags[..usize::from(self.count)]
    }
}

impl fmt::Display for RegisteredInstruction {
    /// One line that parses back to the same instruction: `call 128 add 0x2a 0x2b 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} {}", self.number, self.operator)?;
        self.tags().iter().try_for_each(|tag| write!(f, " {tag:#x}"))?;
        write!(f, " {}", self.value)
    }
}

/// A text that is no registered instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidCall;

impl fmt::Display for InvalidCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write: call NUMBER OPERATOR [TAG ...] VALUE, with a number from 128 to 255 and at most four tags")
    }
}

impl std::error::Error for InvalidCall {}

impl FromStr for RegisteredInstruction {
    type Err = InvalidCall;

    fn from_str(text: &str) -> Result<RegisteredInstruction, InvalidCall> {
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| InvalidCall),
            None => text.parse().map_err(|_| InvalidCall),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["call", which, operator, tags @ .., value] = words.as_slice() else { return Err(InvalidCall) };
        let tags: Vec<u64> = tags.iter().map(|tag| number(tag)).collect::<Result<_, _>>()?;
        let (which, operator) = (which.parse().map_err(|_| InvalidCall)?, operator.parse().map_err(|_| InvalidCall)?);
        RegisteredInstruction::new(which, operator, &tags, number(value)?).ok_or(InvalidCall)
    }
}

/// A part with a registered instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisteredPart {
    /// The locations at which routers execute it.
    pub locations: Locations,
    /// True if a router could not execute it.
    pub error: bool,
    /// True if it is piggybacked: the original payload follows.
    pub piggybacked: bool,
    /// True if the sender asks for a trace.
    pub trace: bool,
    /// The computation.
    pub computation: u64,
    /// The instruction.
    pub instruction: RegisteredInstruction,
}

impl RegisteredPart {
    /// Reads the part at the start of `bytes`, which may continue behind it. The number of tags follows from the length.
    pub fn read(bytes: &[u8]) -> Result<RegisteredPart, PartError> {
        let (Some(head), Some(&[bits, number, length, flags])) = (peek(bytes), bytes.first_chunk::<4>()) else {
            return Err(PartError::NotAPart);
        };
        let (locations, error, computation) = (head.locations(), head.error(), head.computation);
        let wrong = |why| Err(PartError::Invalid(why));
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

    /// The part as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let RegisteredPart { locations, error, piggybacked, trace, computation, instruction } = *self;
        let like = Part { locations, error, piggybacked, trace, computation, instruction: StateInstruction::Nop };
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

impl EncodePart for RegisteredPart {
    fn encode(&self, piggybacked: bool) -> Vec<u8> {
        RegisteredPart { piggybacked: self.piggybacked || piggybacked, ..*self }.to_bytes()
    }
}

/// Writes a new value into an unsealed part. The caller has read the part before, so its length is right.
pub(crate) fn rewrite_value(bytes: &mut [u8], value: u64) {
    let length = bytes.get(2).map_or(0, |length| usize::from(*length));
    let Some(whole) = bytes.get_mut(..length).filter(|whole| whole.len() >= SHORTEST) else { return };
    let end = length - 2;
    whole[end - WORD..end].copy_from_slice(&value.to_be_bytes());
    let sum = checksum::checksum(&whole[..end]);
    whole[end..].copy_from_slice(&sum.to_be_bytes());
}

/// The registered instructions of a router, as one worker's instances.
#[derive(Default)]
pub(crate) struct Registry {
    all: Vec<RegistryEntry>,
}

struct RegistryEntry {
    number: u8,
    name: &'static str,
    tags: u8,
    creates: u8,
    /// `None` after too many faults.
    active: Option<Box<dyn CustomInstruction>>,
    /// Instances that replace the guest after a fault. They are created in advance, because creation takes longer than a packet may be delayed.
    spares: Vec<Box<dyn CustomInstruction>>,
    fault: Option<InstructionFault>,
}

impl Registry {
    /// Creates the instances for a configuration. The error names the instruction that does not start, and the reason.
    pub fn of(plan: &[RegisteredPlan]) -> Result<Registry, String> {
        let entry = |plan: &RegisteredPlan| {
            let name = plan.declared.name;
            let maker = instruction_maker(&plan.code).ok_or_else(|| format!("there is no instruction '{name}'"))?;
            let made = || maker.make().map_err(|why| format!("instruction '{name}': {why}"));
            // One instance in use and `FAULTS - 1` spares: the last fault leaves none, which disables the instruction.
            let spares = (1..FAULTS).map(|_| made()).collect::<Result<_, String>>()?;
            let (tags, creates) = (plan.declared.tags, plan.declared.creates);
            Ok(RegistryEntry { number: plan.number, name, tags, creates, active: Some(made()?), spares, fault: None })
        };
        Ok(Registry { all: plan.iter().map(entry).collect::<Result<_, String>>()? })
    }

    /// The names, in order of registration.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all.iter().map(|entry| entry.name)
    }

    /// The index of the instruction with this opcode, its number of tags, and the most entries that it creates.
    pub fn find(&self, number: u8) -> Option<(usize, u8, u8)> {
        let which = self.all.iter().position(|entry| entry.number == number)?;
        Some((which, self.all[which].tags, self.all[which].creates))
    }

    /// Executes an instruction, and checks that the outcome respects the declared tags and creates.
    pub fn execute(&mut self, which: usize, call: &mut InstructionCall) -> Result<InstructionOutcome, Abort> {
        let Some(entry) = self.all.get_mut(which) else { return Err(Abort::NotEnabled) };
        let Some(active) = &mut entry.active else { return Err(Abort::GuestFailed) };
        let answer = active.execute(call);
        let answer = answer.and_then(|outcome| call.check_writes(entry.tags, entry.creates).map(|()| outcome));
        answer.map_err(|what| {
            entry.active = entry.spares.pop();
            let for_good = entry.active.is_none();
            entry.fault = Some(InstructionFault { instruction: entry.name, fault: what, is_disabled: for_good });
            Abort::GuestFailed
        })
    }

    /// The first fault since the last call.
    pub fn take_fault(&mut self) -> Option<InstructionFault> {
        self.all.iter_mut().find_map(|entry| entry.fault.take())
    }
}

/// The counters of registered instructions at one place, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegisteredCounters {
    all: Vec<(&'static str, [OpcodeCounters; Location::ALL.len()])>,
}

impl RegisteredCounters {
    /// Sets the registered instructions. Instructions that were registered before keep their counters.
    pub fn set_names(&mut self, names: impl Iterator<Item = &'static str>) {
        let before = std::mem::take(&mut self.all);
        let known = |name| before.iter().find(|(known, _)| *known == name).map(|(_, counters)| *counters);
        self.all = names.map(|name| (name, known(name).unwrap_or_default())).collect();
    }

    /// Counts a packet that an instruction forwarded or dropped.
    pub fn count(&mut self, which: usize, location: Location, is_forwarded: bool) {
        if let Some((_, counters)) = self.all.get_mut(which) {
            let counters = &mut counters[location as usize];
            counters.forwarded += u64::from(is_forwarded);
            counters.dropped += u64::from(!is_forwarded);
        }
    }

    /// The counters at a location.
    pub fn at(&self, location: Location) -> impl Iterator<Item = (&'static str, OpcodeCounters)> {
        self.all.iter().map(move |(name, counters)| (*name, counters[location as usize]))
    }
}
