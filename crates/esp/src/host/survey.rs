//! A survey of the routers on a path: probes whose TTL expires at one router after the other. Each router returns the probe as it arrived there,
//! quoted in an ICMP error (RFC 792, RFC 4443 3.3). This needs no privilege.
//! A probe is RCHLD: a router that executes it overwrites the child with its own number, and a retransmission has the same effect. So two quotes of a
//! probe differ exactly if a router between them has executed it, even if packets were lost in between.
//!
//! The number depends on the router and the tag, so two paths probed with the same tag show the same numbers as long as they are common (spec E-44).
//!
//! At the input and in the centre a router executes the packet before it checks the TTL. At the output it executes only packets that leave (spec
//! E-37).

use crate::isa::StateInstruction;
use crate::seal;
use crate::store::{Key, mix};
use crate::variables;
use crate::wire::{Locations, Part};
use plan::state::Variable;
use std::collections::BTreeMap;

/// A question to every router of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProbeQuestion {
    /// Does it execute at the input?
    Input,
    /// Does it execute in the centre?
    Central,
    /// Does it execute at the output?
    Output,
    /// Its number, if the input port permits that variable.
    NodeAtInput,
    /// Its number, if the output port permits that variable.
    NodeAtOutput,
}

impl ProbeQuestion {
    /// All questions.
    pub const ALL: [ProbeQuestion; 5] = [
        ProbeQuestion::Input,
        ProbeQuestion::Central,
        ProbeQuestion::Output,
        ProbeQuestion::NodeAtInput,
        ProbeQuestion::NodeAtOutput,
    ];

    const fn locations(self) -> Locations {
        match self {
            ProbeQuestion::Input | ProbeQuestion::NodeAtInput => Locations::INPUT,
            ProbeQuestion::Central => Locations::CENTRAL,
            ProbeQuestion::Output | ProbeQuestion::NodeAtOutput => Locations::OUTPUT,
        }
    }

    /// True if a router executes the probe before its TTL expires there.
    const fn executes_before_ttl(self) -> bool {
        !self.locations().output
    }
}

/// The probes of one survey. Paths to be compared must use the same probes.
#[derive(Clone, Copy, Debug)]
pub struct Probes {
    secret: Key,
}

impl Probes {
    /// Probes with numbers derived from 128 random bits of the operating system, or from a seed.
    pub fn new(randomness: [u64; 2]) -> Probes {
        Probes { secret: Key::new(randomness) }
    }

    fn part(&self, question: ProbeQuestion) -> Part {
        let drawn = |number: u64| mix(self.secret.hash(question as u64), number);
        let instruction = match question {
            ProbeQuestion::NodeAtInput | ProbeQuestion::NodeAtOutput => {
                StateInstruction::Get { tag: variables::tag(Variable::Node), value: drawn(1) }
            }
            // The shift keeps the tag out of the reserved range of router variables.
            _ => StateInstruction::Rchld { counter: drawn(1) >> 1, child: drawn(2) },
        };
        let (locations, computation) = (question.locations(), drawn(0));
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }

    /// The payload of a probe with TTL `hop`. Hop and attempt follow the part, so the quote identifies the probe. `bytes_of` encodes the part, sealed
    /// or plain.
    pub fn datagram(
        &self,
        question: ProbeQuestion,
        hop: u8,
        attempt: u8,
        bytes_of: impl FnOnce(&Part) -> Vec<u8>,
    ) -> Vec<u8> {
        let mut bytes = bytes_of(&self.part(question));
        bytes.extend([hop, attempt]);
        bytes
    }
}

/// A probe as it arrived at a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ProbeState {
    /// The operand that a router overwrites when it executes the probe.
    value: u64,
    error: bool,
}

impl ProbeState {
    fn of(part: &Part) -> ProbeState {
        let value = match part.instruction {
            StateInstruction::Rchld { child, .. } => child,
            StateInstruction::Get { value, .. } => value,
            _ => 0,
        };
        ProbeState { value, error: part.error }
    }
}

/// A returned probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeReply {
    /// Its question.
    pub question: ProbeQuestion,
    /// Its TTL.
    pub hop: u8,
    /// Its attempt.
    pub attempt: u8,
}

/// The behaviour of a router at one location.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HopExecution {
    /// It executes the instruction.
    Yes,
    /// It forwards the packet unexecuted.
    No,
    /// It could not execute the instruction and set the error bit.
    Failed,
    /// Undecided: a neighbouring hop did not answer, so one of several routers did it, or an earlier router set the error bit.
    Unknown,
}

/// The results for one path.
#[derive(Clone, Debug)]
pub struct Survey {
    probes: Probes,
    replies: BTreeMap<(ProbeQuestion, u8), ProbeState>,
}

impl Survey {
    /// An empty survey.
    pub fn new(probes: Probes) -> Survey {
        let sent = ProbeQuestion::ALL.map(|question| ((question, 0), ProbeState::of(&probes.part(question))));
        Survey { probes, replies: sent.into() }
    }

    /// Processes a part that a router quoted or the far end returned. `None` if it is no probe of this survey or too short: a router need not quote
    /// more than eight bytes of a datagram. Seals are not verified, because any host could forge the quote anyway.
    pub fn record_reply(&mut self, bytes: &[u8]) -> Option<ProbeReply> {
        let part = seal::read(bytes).ok()?;
        let question = ProbeQuestion::ALL.into_iter().find(|&question| {
            let sent = self.probes.part(question);
            sent.computation == part.computation && sent.instruction.opcode() == part.instruction.opcode()
        })?;
        let &[hop, attempt, ..] = bytes.get(usize::from(*bytes.get(2)?)..)? else { return None };
        if hop > 0 {
            self.replies.insert((question, hop), ProbeState::of(&part));
        }
        Some(ProbeReply { question, hop, attempt })
    }

    /// True if this hop has answered this question.
    pub fn has_reply(&self, question: ProbeQuestion, hop: u8) -> bool {
        self.replies.contains_key(&(question, hop))
    }

    /// The behaviour of the router at `hop`; 1 is the first.
    pub fn execution_at(&self, question: ProbeQuestion, hop: u8) -> HopExecution {
        let (from, to) =
            if question.executes_before_ttl() { (hop.saturating_sub(1), hop) } else { (hop, hop.saturating_add(1)) };
        let before = self.replies.range((question, 0)..=(question, from)).next_back();
        let after = self.replies.range((question, to)..=(question, u8::MAX)).next();
        let (Some((&(_, first), before)), Some((&(_, last), after))) = (before, after) else {
            return HopExecution::Unknown;
        };
        // A packet that leaves this host has not passed any router's output yet, so the first output probe is that of hop 1.
        let first = if question.executes_before_ttl() { first } else { first.max(1) };
        match (before.error, after.error) {
            (true, _) => HopExecution::Unknown,
            (false, false) if before.value == after.value => HopExecution::No,
            _ if last - first > 1 => HopExecution::Unknown,
            (_, true) => HopExecution::Failed,
            _ => HopExecution::Yes,
        }
    }

    /// The number that the router at `hop` writes in this survey; `None` if unknown, or if it does not execute at the input.
    pub fn child_number(&self, hop: u8) -> Option<u64> {
        self.written(ProbeQuestion::Input, hop)
    }

    /// The router's own number, if a port permits that variable.
    pub fn node_number(&self, hop: u8) -> Option<u64> {
        self.written(ProbeQuestion::NodeAtInput, hop).or_else(|| self.written(ProbeQuestion::NodeAtOutput, hop))
    }

    fn written(&self, question: ProbeQuestion, hop: u8) -> Option<u64> {
        let at = if question.executes_before_ttl() { hop } else { hop.checked_add(1)? };
        let seen = self.replies.get(&(question, at))?;
        (self.execution_at(question, hop) == HopExecution::Yes).then_some(seen.value)
    }
}
