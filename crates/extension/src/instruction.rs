//! Ephemeral-state instructions as WebAssembly modules (adr/0050). A module reads the values of a packet's tags and decides on the packet and the new
//! values.
//!
//! It exports its `memory`, and four functions that return an `i32`:
//!
//! | function | result |
//! |---|---|
//! | `switchpath_instruction` | 1, the version of this table |
//! | `switchpath_describe` | the address of its description, which ends with a zero byte |
//! | `switchpath_block` | the address of its block, a multiple of 8 |
//! | `switchpath_execute` | executes it once: 0 forward, 1 drop, 2 a required tag is absent, 3 underflow |
//!
//! The description has a line `summary SENTENCE`, one `tags N` and one `creates N`. The block has these fields, little-endian:
//!
//! | byte | content | writer |
//! |---|---|---|
//! | 0 | the time, in nanoseconds, 8 bytes | host |
//! | 8 | the node number of the router, 8 bytes | host |
//! | 16 | the packet's value, 8 bytes; the packet is forwarded with a changed value | both |
//! | 24 | the packet's operator, 4 bytes | host |
//! | 28 | a bit for each tag that is present, 4 bytes | host |
//! | 32 | a bit for each tag that is written, 4 bytes | guest |
//! | 40 | values of four tags, 8 bytes each | both |
//!
//! It has the limits of a scheme: time on a machine, instructions in a simulation, and 1 MiB of memory.

use crate::instance::Fault;
use crate::module::{
    HOST_FUNCTIONS, INSTRUCTION, LARGEST, LoadError, check_imports, check_memory, compile, functions, may_export,
};
use crate::module_instance::{LinkedModule, ModuleInstance, block_of_mut};
use crate::runtime::Runtime;
use plane::instructions::{CustomInstruction, InstructionCall, InstructionMaker, InstructionOutcome, TAGS};
use std::fmt;
use std::sync::Arc;
use wasmtime::TypedFunc;

/// The version of the block and of the functions.
const VERSION: i32 = 1;
/// Bytes of the block.
const BLOCK: usize = 40 + TAGS * 8;
/// The most bytes of a description.
const LONGEST: usize = 1024;

/// True if a module is an instruction and not another guest.
pub(crate) fn is_instruction(bytes: &[u8]) -> bool {
    may_export(bytes, INSTRUCTION)
}

/// An instruction's description of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstructionText {
    /// One sentence for the operator.
    pub summary: String,
    /// The number of tags that its packets name.
    pub tags: u8,
    /// The most entries that it creates.
    pub creates: u8,
}

impl InstructionText {
    /// Parses a description. The error gives the reason.
    pub fn read(text: &str) -> Result<InstructionText, String> {
        let (mut summary, mut tags, mut creates) = (String::new(), None, None);
        let number = |line: &str, text: &str| match text.trim().parse::<u8>() {
            Ok(number) if usize::from(number) <= TAGS => Ok(Some(number)),
            _ => Err(format!("'{line}' of its description: an instruction has at most {TAGS} tags")),
        };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.chars().any(char::is_control) {
                return Err("a line of its description has control characters".into());
            }
            match line.split_once(' ') {
                Some(("summary", text)) => summary = text.trim().into(),
                Some(("tags", text)) => tags = number(line, text)?,
                Some(("creates", text)) => creates = number(line, text)?,
                _ => return Err(format!("'{line}' of its description is none of summary, tags, creates")),
            }
        }
        match (tags, creates) {
            (Some(tags), Some(creates)) if creates <= tags => Ok(InstructionText { summary, tags, creates }),
            (Some(tags), Some(creates)) => Err(format!("it creates {creates} entries but has only {tags} tags")),
            _ => Err("its description lacks 'tags' or 'creates', the numbers of its tags and created entries".into()),
        }
    }
}

/// The code of an instruction: compiled, and checked before any of it runs. Cheap to clone.
#[derive(Clone)]
pub struct GuestInstruction {
    code: Arc<Code>,
}

struct Code {
    module: LinkedModule,
    text: InstructionText,
}

impl GuestInstruction {
    /// Compiles a module, or says why it is not an instruction. Runs only the functions that describe it.
    pub fn load(bytes: &[u8], runtime: &Runtime) -> Result<GuestInstruction, LoadError> {
        debug_assert!(bytes.len() <= LARGEST + 1);
        let module = compile(bytes, runtime)?;
        if module.get_export(INSTRUCTION).is_none() {
            let reason = "it is no instruction: it exports no 'switchpath_instruction'";
            return Err(LoadError::new(reason, "use a scheme in a port; see docs/operate/guests.md for instructions"));
        }
        check_imports(&module, HOST_FUNCTIONS)?;
        check_memory(&module)?;
        let all = [INSTRUCTION, "switchpath_describe", "switchpath_block", "switchpath_execute"];
        functions(&module, all.into_iter().map(|name| (name, true)))?;
        let module = LinkedModule::new((&module, bytes), runtime, |_| Ok(()))?;
        let wrong =
            |wrong: String| LoadError::new(wrong, "see docs/operate/guests.md for how an instruction describes itself");
        let mut made = InstructionInstance::new(&module).map_err(|fault| wrong(fault.to_string()))?;
        let text = made.module.describe(LONGEST).map_err(|fault| wrong(format!("its description failed: {fault}")))?;
        let text = InstructionText::read(&text).map_err(wrong)?;
        Ok(GuestInstruction { code: Arc::new(Code { module, text }) })
    }

    /// Its description.
    pub fn text(&self) -> &InstructionText {
        &self.code.text
    }

    /// A hash of its code.
    pub fn digest(&self) -> u64 {
        self.code.module.digest
    }

    /// The host functions that it imports: `log`, `counter` and `random`.
    pub fn imports(&self) -> Vec<String> {
        self.code.module.imports()
    }

    /// Starts an instance.
    pub fn start(&self) -> Result<Box<dyn CustomInstruction>, String> {
        let mut made = InstructionInstance::new(&self.code.module).map_err(|fault| fault.to_string())?;
        made.module.begin_work();
        Ok(Box::new(made))
    }
}

impl InstructionMaker for GuestInstruction {
    fn make(&self) -> Result<Box<dyn CustomInstruction>, String> {
        self.start()
    }
}

impl fmt::Debug for GuestInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instruction {:016x}", self.code.module.digest)
    }
}

/// An instance of an instruction.
struct InstructionInstance {
    module: ModuleInstance,
    /// The offset of the block.
    block: usize,
    execute: TypedFunc<(), i32>,
}

impl InstructionInstance {
    fn new(module: &LinkedModule) -> Result<InstructionInstance, Fault> {
        let mut module = module.instantiate_version(INSTRUCTION, VERSION)?;
        let (block, execute) = (module.block::<BLOCK>()?, module.function("switchpath_execute")?);
        Ok(InstructionInstance { module, block, execute })
    }

    /// The block, for reading and writing.
    fn block(&mut self) -> &mut [u8; BLOCK] {
        block_of_mut(self.module.memory.data_mut(&mut self.module.store), self.block)
    }

    fn once(&mut self, call: &mut InstructionCall) -> Result<InstructionOutcome, Fault> {
        let block = self.block();
        let mut put = |at: usize, value: u64| block[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let bits = (0..TAGS).filter(|&tag| call.entries[tag].is_some()).fold(0u64, |bits, tag| bits | 1 << tag);
        put(0, call.now.get());
        put(8, call.node);
        put(16, call.value);
        put(24, bits << 32 | u64::from(call.operator));
        put(32, 0);
        (0..TAGS).for_each(|tag| put(40 + tag * 8, call.entries[tag].unwrap_or(0)));
        let answer = self.module.call(&self.execute)?;
        let block = self.block();
        let get = |at: usize| block[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let written = get(32) as u32;
        if written >> TAGS != 0 {
            return Err(Fault::InvalidDecision(format!("it writes tags that it does not have: {written:#x}")));
        }
        call.value = get(16);
        for tag in (0..TAGS).filter(|tag| written >> tag & 1 != 0) {
            call.written[tag] = Some(get(40 + tag * 8));
        }
        match answer {
            0 => Ok(InstructionOutcome::Forward),
            1 => Ok(InstructionOutcome::Drop),
            2 => Ok(InstructionOutcome::Absent),
            3 => Ok(InstructionOutcome::Underflow),
            other => Err(Fault::InvalidDecision(format!("it returns {other}, which is no valid result"))),
        }
    }
}

impl CustomInstruction for InstructionInstance {
    fn execute(&mut self, call: &mut InstructionCall) -> Result<InstructionOutcome, String> {
        self.once(call).map_err(|fault| fault.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_description_limits_tags_and_entries() {
        let read = InstructionText::read("summary Means.\ntags 2\n\ncreates 1\n").unwrap();
        assert_eq!((read.summary.as_str(), read.tags, read.creates), ("Means.", 2, 1));
        for (text, wrong) in [
            ("tags 2", "lacks 'tags' or 'creates'"),
            ("tags 5\ncreates 1", "at most 4 tags"),
            ("tags x\ncreates 1", "at most 4 tags"),
            ("tags 1\ncreates 2", "creates 2 entries but has only 1 tags"),
            ("option a", "none of summary, tags, creates"),
            ("summary \u{1b}[2J", "control characters"),
        ] {
            let error = InstructionText::read(text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
