//! The instruction set: straight-line code over at most four values, without loops (spec E-20 to E-28). Calvert et al. 2003, 2.1, names COUNT,
//! COMPARE, COLLECT and RCOLLECT.
//!
//! An instruction does not access the store. It reads and writes a [`TagView`](crate::store::TagView). The shard looks up the tags before the instruction,
//! and commits the view afterwards.

mod execute;
mod operator;
mod text;

pub use execute::execute;
pub(crate) use execute::{decide_repeat, mark_tag};
pub use operator::{Operator, UnknownOperator};
pub use text::InvalidInstruction;

use crate::store::{CommitDecision, InstructionTags, mix};
use zerocopy::{Immutable, KnownLayout, TryFromBytes};

/// The instructions, one per line: variant, number, number of tags, operands, name, length of its part with checksum (spec E-15), most entries
/// created (spec E-26), and semantics. `$then!` receives all lines.
macro_rules! instructions {
    ($then:ident) => {
        $then! {
            Nop 0 0 { } ("nop" 14 0 "Does nothing: a baseline for the cost of other instructions.")
            Count 1 1 { counter threshold inclusive } ("count" 26 1 "Counts, and forwards below a threshold.")
            Compare 2 1 { tag value relation } ("compare" 30 1 "Stores a value, and forwards packets with the given relation to it.")
            Collect 3 2 { counter result value operator } ("collect" 38 1 "Combines the children's values, and forwards the last packet with the result.")
            Rcollect 4 3 { counter result child value operator } ("rcollect" 46 1 "Like COLLECT, but tolerates lost and duplicate packets.")
            Rchld 5 2 { counter child } ("rchld" 30 2 "Registers a child for RCOLLECT.")
            Mark 6 1 { tag value } ("mark" 30 1 "Creates a value unless one exists.")
            Test 7 1 { tag } ("test" 22 0 "Forwards if a value exists.")
            Get 8 1 { tag value } ("get" 30 0 "Reads a value.")
            Put 9 1 { tag value } ("put" 30 1 "Writes a value.")
            Setfwd 10 1 { tag value relation } ("setfwd" 30 0 "Forwards packets with the given relation to the stored value.")
        }
    };
}
pub(crate) use instructions;

macro_rules! opcodes {
    ($($opcode:ident $number:literal $_tags:literal $_operands:tt ($name:literal $length:literal $creates:literal $doc:literal))*) => {
        /// The opcode: the second byte of a part.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, TryFromBytes, Immutable, KnownLayout)]
        #[repr(u8)]
        pub enum Opcode {
            $(#[doc = $doc] $opcode = $number,)*
        }

        impl Opcode {
            /// All built-in instructions, by number.
            pub const ALL: [Opcode; [$($number),*].len()] = [$(Opcode::$opcode),*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Opcode::$opcode => $name),* }
            }

            /// The length of its part in bytes, checksum included.
            #[inline(always)]
            pub const fn length(self) -> usize {
                match self { $(Opcode::$opcode => $length),* }
            }

            /// The most entries that it creates.
            pub const fn creates(self) -> u64 {
                match self { $(Opcode::$opcode => $creates),* }
            }
        }

        impl StateInstruction {
            /// The opcode.
            pub const fn opcode(&self) -> Opcode {
                match self { $(StateInstruction::$opcode { .. } => Opcode::$opcode),* }
            }
        }
    };
}
instructions!(opcodes);

/// The lowest opcode of registered instructions.
pub const REGISTERED: u8 = 128;

impl Opcode {
    /// The built-in instruction with this number.
    #[inline(always)]
    pub fn of(number: u8) -> Option<Opcode> {
        Opcode::try_read_from_bytes(&[number]).ok()
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for Opcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// An instruction with its operands. End systems choose tags at random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateInstruction {
    /// Forwards.
    Nop,
    /// Increments `counter`, which starts at 1. Forwards if the new count is below `threshold`, or with `inclusive` also if it equals it.
    Count {
        /// Tag of the counter.
        counter: u64,
        /// The threshold.
        threshold: u32,
        /// Forward at the threshold itself too.
        inclusive: bool,
    },
    /// Writes `value` at `tag` and forwards, if the tag is absent or `value relation stored` holds. Drops otherwise.
    Compare {
        /// Tag of the value.
        tag: u64,
        /// The packet's value.
        value: u64,
        /// A comparison operator.
        relation: Operator,
    },
    /// Combines `value` into `result` and decrements `counter`, which the setup phase created. Drops, except at zero: then it forwards with the
    /// result as the packet's value.
    Collect {
        /// Tag of the number of children that have not reported.
        counter: u64,
        /// Tag of the result.
        result: u64,
        /// The packet's value.
        value: u64,
        /// A combining operator.
        operator: Operator,
    },
    /// Like COLLECT, for a child that registered with [`StateInstruction::Rchld`]. Counts each child once.
    Rcollect {
        /// Tag of the number of children that have not reported.
        counter: u64,
        /// Tag of the result.
        result: u64,
        /// The child: a host's random number. A forwarding router writes its own.
        child: u64,
        /// The packet's value.
        value: u64,
        /// A combining operator.
        operator: Operator,
    },
    /// Registers a child at `counter`. Forwards the first child's packet, and its retransmissions.
    Rchld {
        /// Tag of the number of children.
        counter: u64,
        /// The child that registers.
        child: u64,
    },
    /// Creates `tag` with `value` if it is absent. Forwards.
    Mark {
        /// The tag to mark.
        tag: u64,
        /// The value of a new mark.
        value: u64,
    },
    /// Forwards if `tag` exists.
    Test {
        /// The tag to test.
        tag: u64,
    },
    /// Copies the value at `tag` into the packet and forwards.
    Get {
        /// The tag to read.
        tag: u64,
        /// The packet's field for the value.
        value: u64,
    },
    /// Writes `value` at `tag` and forwards.
    Put {
        /// The tag to write.
        tag: u64,
        /// The new value.
        value: u64,
    },
    /// Forwards if `tag` exists and `stored relation value` holds, as in `allowed ge layer`.
    Setfwd {
        /// The tag to compare.
        tag: u64,
        /// The packet's value.
        value: u64,
        /// A comparison operator.
        relation: Operator,
    },
}

impl StateInstruction {
    /// The tags that it accesses, in the order in which [`execute()`] numbers them.
    #[inline]
    pub fn tags(&self) -> InstructionTags {
        let mut tags = InstructionTags::default();
        self.put_tags(&mut tags);
        tags
    }

    /// The same, into `tags`, whose content is replaced.
    #[inline(always)]
    pub(crate) fn put_tags(&self, tags: &mut InstructionTags) {
        match *self {
            StateInstruction::Nop => tags.set([]),
            StateInstruction::Count { counter: tag, .. }
            | StateInstruction::Compare { tag, .. }
            | StateInstruction::Mark { tag, .. }
            | StateInstruction::Test { tag }
            | StateInstruction::Get { tag, .. }
            | StateInstruction::Put { tag, .. }
            | StateInstruction::Setfwd { tag, .. } => tags.set([tag]),
            StateInstruction::Collect { counter, result, .. } => tags.set([counter, result]),
            // A child is known per counter: the same child at another counter is another entry.
            StateInstruction::Rchld { counter, child } => tags.set([counter, mix(child, counter)]),
            StateInstruction::Rcollect { counter, result, child, .. } => {
                tags.set([counter, mix(child, counter), result])
            }
        }
    }
}

/// The reason why an instruction was not executed (spec E-06).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Abort {
    /// The store has no room for the entries that it would create.
    Full,
    /// A required tag is absent.
    AbsentTag,
    /// Unknown opcode, or an operator that this instruction does not have.
    BadOpcode,
    /// The length is wrong for this opcode.
    BadLength,
    /// The checksum is wrong.
    BadChecksum,
    /// More children reported than registered.
    Underflow,
    /// The router's allow-list does not have this instruction.
    NotEnabled,
    /// The source exceeded its instruction rate.
    RateLimited,
    /// The source exceeded its entry rate.
    Quota,
    /// It is not sealed with the operator's key.
    Unauthenticated,
    /// The guest of this registered instruction failed.
    GuestFailed,
}

impl Abort {
    /// All reasons, by number.
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

    /// The name in metrics and on the command line.
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

/// The kinds by which aborted packets are counted: each built-in instruction by number, then all registered instructions, then unknown opcodes.
pub(crate) const KINDS: usize = Opcode::ALL.len() + 2;

/// The kind of an opcode.
pub(crate) fn kind(number: u8) -> usize {
    match Opcode::of(number) {
        Some(opcode) => usize::from(opcode.number()),
        None => Opcode::ALL.len() + usize::from(number < REGISTERED),
    }
}

/// The name of a kind.
pub(crate) fn kind_name(kind: usize) -> &'static str {
    let rest = if kind == Opcode::ALL.len() { "registered" } else { "unknown" };
    Opcode::ALL.get(kind).map_or(rest, |opcode| opcode.name())
}

impl std::fmt::Display for Abort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The verdict of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstructionVerdict {
    /// Forward the packet unchanged.
    Forward,
    /// Forward the packet with the operands that [`execute()`] changed.
    Rewritten,
    /// Drop the packet silently.
    Drop,
    /// A child repeats its report after completion. The router looks up one more tag to decide.
    Repeated,
    /// The instruction was not executed.
    Abort(Abort),
}

impl CommitDecision for InstructionVerdict {
    #[inline(always)]
    fn commits(&self) -> bool {
        !matches!(self, InstructionVerdict::Repeated | InstructionVerdict::Abort(_))
    }
}
