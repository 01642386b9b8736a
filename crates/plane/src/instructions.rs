//! Registered instructions of ephemeral state, as far as the plane knows them. An instruction reads the packet's operands and the values of its
//! tags, and returns a verdict and the values to write.
//!
//! A guest is one (`extension`), and so is any type that implements [`CustomInstruction`]. A program with an embedded router provides it through
//! [`plan::Guests`]. The caller checks the results before it carries them out (adr/0050).

use plan::GuestCode;
use std::sync::Arc;
use units::Instant;

/// The maximum number of tags of an instruction.
pub const TAGS: usize = 4;
/// The number of faults after which an instruction is disabled.
pub const FAULTS: u32 = 3;

/// The input and the output of a registered instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstructionCall {
    /// The time.
    pub now: Instant,
    /// The number by which other systems know the router.
    pub node: u64,
    /// The packet's operator, 0 to 15.
    pub operator: u8,
    /// The packet's value. A changed value continues with the packet.
    pub value: u64,
    /// The values of its tags, in their order. `None`: no entry.
    pub entries: [Option<u64>; TAGS],
    /// The values to write. `None`: no write.
    pub written: [Option<u64>; TAGS],
}

impl InstructionCall {
    /// The number of entries that the writes create.
    pub fn created_entries(&self) -> usize {
        self.written.iter().zip(&self.entries).filter(|(written, there)| written.is_some() && there.is_none()).count()
    }

    /// Checks the writes of an instruction that declares so many tags and creates at most so many entries.
    ///
    /// # Errors
    ///
    /// The violation.
    pub fn check_writes(&self, tags: u8, creates: u8) -> Result<(), String> {
        // The array has a place for each of `TAGS` tags, even if the instruction declares fewer.
        if let Some(tag) = (usize::from(tags)..TAGS).find(|tag| self.written[*tag].is_some()) {
            return Err(format!("it writes tag {tag}, but has only {tags}"));
        }
        match self.created_entries() {
            created if created > creates.into() => Err(format!("it creates {created} entries, but declares {creates}")),
            _ => Ok(()),
        }
    }
}

/// The fate of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstructionOutcome {
    /// It continues with the value in the call.
    Forward,
    /// It ends without a report.
    Drop,
    /// It was not executed, because an entry is missing. Nothing is written.
    Absent,
    /// It was not executed, because a value would become negative. Nothing is written.
    Underflow,
}

/// An instance of an instruction, for one worker.
pub trait CustomInstruction: Send {
    /// Executes it once.
    ///
    /// # Errors
    ///
    /// The fault. Its writes are not carried out, and it is not called again.
    fn execute(&mut self, call: &mut InstructionCall) -> Result<InstructionOutcome, String>;
}

/// Makes instructions of a kind.
pub trait InstructionMaker: Send + Sync {
    /// Makes one more.
    ///
    /// # Errors
    ///
    /// Why it does not start.
    fn make(&self) -> Result<Box<dyn CustomInstruction>, String>;
}

/// Wraps a maker of instructions for a configuration. `digest` identifies it.
pub fn code(digest: u64, maker: Arc<dyn InstructionMaker>) -> GuestCode {
    GuestCode { digest, maker: Arc::new(maker) }
}

/// The maker of instructions in a configuration's code. `None` if the code is of another kind.
pub fn instruction_maker(code: &GuestCode) -> Option<&dyn InstructionMaker> {
    code.maker.downcast_ref::<Arc<dyn InstructionMaker>>().map(|maker| &**maker)
}

/// The fault of a registered instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstructionFault {
    /// The instruction's name.
    pub instruction: &'static str,
    /// The fault.
    pub fault: String,
    /// It is disabled until the next configuration.
    pub is_disabled: bool,
}
