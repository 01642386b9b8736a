//! The instructions that packets carry: straight lines over at most four values, without a loop (spec E-20 to E-28; Calvert
//! et al. 2003, 2.1, names COUNT, COMPARE, COLLECT and RCOLLECT).
//!
//! An instruction does not know the store. What it may see and write is a [`View`](crate::store::View); the shard looks its tags up before and
//! commits what it wrote afterwards.

mod execute;
mod operator;
mod text;

pub use execute::execute;
pub(crate) use execute::{mark_tag, repeat};
pub use operator::{Operator, UnknownOperator};
pub use text::NoInstruction;

use crate::store::{Ended, Tags, mix};
use zerocopy::{Immutable, KnownLayout, TryFromBytes};

/// The instructions, a line each: variant, number, tags and operands, then its name, the bytes of the part of a packet that carries it with its
/// checksum (spec E-15), the most entries that it creates (spec E-26), and what it does. `$then!` gets all lines.
macro_rules! instructions {
    ($then:ident) => {
        $then! {
            Nop 0 0 { } ("nop" 14 0 "Does nothing, which tells what doing something costs.")
            Count 1 1 { counter threshold inclusive } ("count" 26 1 "Counts, and forwards below a threshold.")
            Compare 2 1 { tag value relation } ("compare" 30 1 "Keeps a value, and forwards what compares to it as asked.")
            Collect 3 2 { counter result value operator } ("collect" 38 1 "Combines what children report, and forwards the last one's with the result.")
            Rcollect 4 3 { counter result child value operator } ("rcollect" 46 1 "The same, where packets get lost and come twice.")
            Rchld 5 2 { counter child } ("rchld" 30 2 "Makes a child known to RCOLLECT.")
            Mark 6 1 { tag value } ("mark" 30 1 "Creates a value where there is none.")
            Test 7 1 { tag } ("test" 22 0 "Forwards where there is a value.")
            Get 8 1 { tag value } ("get" 30 0 "Reads a value.")
            Put 9 1 { tag value } ("put" 30 1 "Writes a value.")
            Setfwd 10 1 { tag value relation } ("setfwd" 30 0 "Forwards where the packet's value compares as asked to the one there is.")
        }
    };
}
pub(crate) use instructions;

macro_rules! opcodes {
    ($($opcode:ident $number:literal $_tags:literal $_operands:tt ($name:literal $length:literal $creates:literal $doc:literal))*) => {
        /// Which instruction: the second byte of the part of a packet that routers execute.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, TryFromBytes, Immutable, KnownLayout)]
        #[repr(u8)]
        pub enum Opcode {
            $(#[doc = $doc] $opcode = $number,)*
        }

        impl Opcode {
            /// Every instruction of the built-in set, in the order of their numbers.
            pub const ALL: [Opcode; [$($number),*].len()] = [$(Opcode::$opcode),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Opcode::$opcode => $name),* }
            }

            /// Bytes of the part of a packet that carries it, its checksum included.
            #[inline(always)]
            pub const fn length(self) -> usize {
                match self { $(Opcode::$opcode => $length),* }
            }

            /// The most entries it creates.
            pub const fn creates(self) -> u64 {
                match self { $(Opcode::$opcode => $creates),* }
            }
        }

        impl Instruction {
            /// Which one it is.
            pub const fn opcode(&self) -> Opcode {
                match self { $(Instruction::$opcode { .. } => Opcode::$opcode),* }
            }
        }
    };
}
instructions!(opcodes);

/// The lowest opcode of instructions that an operator has registered.
pub const REGISTERED: u8 = 128;

impl Opcode {
    /// The instruction of a number, if it is one of the built-in set.
    #[inline(always)]
    pub fn of(number: u8) -> Option<Opcode> {
        Opcode::try_read_from_bytes(&[number]).ok()
    }

    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for Opcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// An instruction with its operands. Tags are chosen at random by whoever computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// Forwards.
    Nop,
    /// One more at `counter`, at least 1. Forwards where that is below `threshold`, or equal with `inclusive`.
    Count {
        /// Where it counts.
        counter: u64,
        /// What the count is compared to.
        threshold: u32,
        /// Whether being equal is enough.
        inclusive: bool,
    },
    /// Puts `value` at `tag`, and forwards, where nothing is there or `value relation there` holds; drops otherwise.
    Compare {
        /// Where the value is.
        tag: u64,
        /// The packet's.
        value: u64,
        /// A comparison.
        relation: Operator,
    },
    /// Combines `value` into `result` and takes one from `counter`, which setup has left there. Drops, but where nothing is
    /// left: then it forwards with the result as its value.
    Collect {
        /// How many children are yet to report.
        counter: u64,
        /// Where the result is.
        result: u64,
        /// The packet's.
        value: u64,
        /// Combines.
        operator: Operator,
    },
    /// The same for a child that [`Instruction::Rchld`] has made known, and only once for each.
    Rcollect {
        /// How many children are yet to report.
        counter: u64,
        /// Where the result is.
        result: u64,
        /// Who reports: a host by a random number, a router as it forwards writes its own.
        child: u64,
        /// The packet's.
        value: u64,
        /// Combines.
        operator: Operator,
    },
    /// One more child at `counter`. Forwards the first one's, and that again where it comes again.
    Rchld {
        /// How many children there are.
        counter: u64,
        /// Who makes itself known.
        child: u64,
    },
    /// Creates `tag` with `value` unless it is there. Forwards.
    Mark {
        /// What is marked.
        tag: u64,
        /// With what.
        value: u64,
    },
    /// Forwards where `tag` is there.
    Test {
        /// What is looked for.
        tag: u64,
    },
    /// Takes the value at `tag` along, and forwards.
    Get {
        /// What is read.
        tag: u64,
        /// What it takes along.
        value: u64,
    },
    /// Puts `value` at `tag`, and forwards.
    Put {
        /// What is written.
        tag: u64,
        /// What it is to be.
        value: u64,
    },
    /// Forwards where `tag` is there and `there relation value` holds: `allowed ge layer`.
    Setfwd {
        /// What is looked at.
        tag: u64,
        /// What it is compared to.
        value: u64,
        /// A comparison.
        relation: Operator,
    },
}

impl Instruction {
    /// What it looks at, in the order in which [`execute`] numbers it.
    #[inline]
    pub fn tags(&self) -> Tags {
        let mut tags = Tags::default();
        self.put_tags(&mut tags);
        tags
    }

    /// The same, where other tags were.
    #[inline(always)]
    pub(crate) fn put_tags(&self, tags: &mut Tags) {
        match *self {
            Instruction::Nop => tags.set([]),
            Instruction::Count { counter: tag, .. }
            | Instruction::Compare { tag, .. }
            | Instruction::Mark { tag, .. }
            | Instruction::Test { tag }
            | Instruction::Get { tag, .. }
            | Instruction::Put { tag, .. }
            | Instruction::Setfwd { tag, .. } => tags.set([tag]),
            Instruction::Collect { counter, result, .. } => tags.set([counter, result]),
            Instruction::Rchld { counter, child } => tags.set([counter, mix(child, counter)]),
            Instruction::Rcollect { counter, result, child, .. } => tags.set([counter, mix(child, counter), result]),
        }
    }
}

/// Why an instruction is not executed (spec E-06).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Abort {
    /// The store has no room for what it creates.
    Full,
    /// A tag that has to be there is not.
    AbsentTag,
    /// There is no such instruction, or it has no such operator.
    BadOpcode,
    /// Its length is not that of the instruction.
    BadLength,
    /// Its checksum is wrong.
    BadChecksum,
    /// More children report than have been counted.
    Underflow,
    /// This router does not execute it.
    NotEnabled,
    /// Its source has more executed than one may.
    RateLimited,
    /// Its source creates more than one may.
    Quota,
    /// It is not sealed with the operator's key.
    Unauthenticated,
    /// It is registered by the operator, and what executes it has failed.
    GuestFailed,
}

impl Abort {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Abort; 11] = [
        Abort::Full,
        Abort::AbsentTag,
        Abort::BadOpcode,
        Abort::BadLength,
        Abort::BadChecksum,
        Abort::Underflow,
        Abort::NotEnabled,
        Abort::RateLimited,
        Abort::Quota,
        Abort::Unauthenticated,
        Abort::GuestFailed,
    ];

    /// Its name in metrics and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Abort::Full => "full",
            Abort::AbsentTag => "absent_tag",
            Abort::BadOpcode => "bad_opcode",
            Abort::BadLength => "bad_length",
            Abort::BadChecksum => "bad_checksum",
            Abort::Underflow => "underflow",
            Abort::NotEnabled => "not_enabled",
            Abort::RateLimited => "rate_limited",
            Abort::Quota => "quota",
            Abort::Unauthenticated => "unauthenticated",
            Abort::GuestFailed => "guest_failed",
        }
    }
}

/// As what kind of instruction a packet counts that was not executed: one of ours by its number, then all that operators register, then those that there
/// are not.
pub(crate) const KINDS: usize = Opcode::ALL.len() + 2;

/// That of an opcode, known or not.
pub(crate) fn kind(number: u8) -> usize {
    match Opcode::of(number) {
        Some(opcode) => usize::from(opcode.number()),
        None => Opcode::ALL.len() + usize::from(number < REGISTERED),
    }
}

/// Its name.
pub(crate) fn kind_name(kind: usize) -> &'static str {
    let rest = if kind == Opcode::ALL.len() { "registered" } else { "unknown" };
    Opcode::ALL.get(kind).map_or(rest, |opcode| opcode.name())
}

impl std::fmt::Display for Abort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What becomes of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on as it is.
    Forward,
    /// It goes on with other operands: [`execute`] has changed them.
    Rewritten,
    /// It ends here, and nobody is told.
    Drop,
    /// A child repeats its report after completion. The router looks up one tag more and decides by it.
    Repeated,
    /// It was not executed.
    Abort(Abort),
}

impl Ended for Verdict {
    #[inline(always)]
    fn commits(&self) -> bool {
        !matches!(self, Verdict::Repeated | Verdict::Abort(_))
    }
}
