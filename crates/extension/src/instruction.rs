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

use crate::instance::{self, Fault, InstanceData};
use crate::module::{
    HOST_FUNCTIONS, INSTRUCTION, LARGEST, LoadError, MEMORY, check_imports, check_memory, compile, functions,
    may_export,
};
use crate::runtime::{HasCallTime, Runtime};
use plane::instructions::{CustomInstruction, InstructionCall, InstructionMaker, InstructionOutcome, TAGS};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use wasmtime::{InstancePre, Linker, Memory, Store, TypedFunc};

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
    runtime: Runtime,
    ready: InstancePre<InstanceData>,
    text: InstructionText,
    digest: u64,
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
        let mut linker = Linker::new(&runtime.engine);
        InstanceData::add_imports(&mut linker).map_err(|error| LoadError::new(format!("{error:#}"), "report this"))?;
        let ready = linker
            .instantiate_pre(&module)
            .map_err(|error| LoadError::new(format!("it cannot be linked: {error:#}"), "remove its imports"))?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let wrong =
            |wrong: String| LoadError::new(wrong, "see docs/operate/guests.md for how an instruction describes itself");
        let mut at_work = InstructionInstance::new(runtime, &ready).map_err(|fault| wrong(fault.to_string()))?;
        let text = at_work.describe().map_err(|fault| wrong(format!("its description failed: {fault}")))?;
        let text = InstructionText::read(&text).map_err(wrong)?;
        Ok(GuestInstruction { code: Arc::new(Code { runtime: runtime.clone(), ready, text, digest: hasher.finish() }) })
    }

    /// Its description.
    pub fn text(&self) -> &InstructionText {
        &self.code.text
    }

    /// A hash of its code.
    pub fn digest(&self) -> u64 {
        self.code.digest
    }

    /// The host functions that it imports: `log`, `counter` and `random`.
    pub fn imports(&self) -> Vec<String> {
        self.code.ready.module().imports().map(|import| import.name().to_string()).collect()
    }

    /// Starts an instance.
    pub fn start(&self) -> Result<Box<dyn CustomInstruction>, String> {
        let mut made =
            InstructionInstance::new(&self.code.runtime, &self.code.ready).map_err(|fault| fault.to_string())?;
        made.store.data_mut().call_time().begin_work();
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
        write!(f, "Instruction {:016x}", self.code.digest)
    }
}

/// An instance of an instruction.
struct InstructionInstance {
    runtime: Runtime,
    store: Store<InstanceData>,
    instance: wasmtime::Instance,
    memory: Memory,
    /// The offset of the block.
    block: usize,
    execute: TypedFunc<(), i32>,
}

impl InstructionInstance {
    fn new(runtime: &Runtime, module: &InstancePre<InstanceData>) -> Result<InstructionInstance, Fault> {
        let mut store = InstanceData::store(runtime);
        // A module may have a start function that runs during instantiation.
        runtime.start_limit(&mut store)?;
        let instance = module.instantiate(&mut store)?;
        let memory =
            instance.get_memory(&mut store, "memory").ok_or_else(|| Fault::Trapped("it has no memory".into()))?;
        let execute = instance.get_typed_func(&mut store, "switchpath_execute")?;
        let mut made = InstructionInstance { runtime: runtime.clone(), store, instance, memory, block: 0, execute };
        let version = made.call_i32(INSTRUCTION)?;
        if version != VERSION {
            let reason =
                format!("it is built for version {version} of the interface, and this program supports {VERSION}");
            return Err(Fault::InvalidDecision(reason));
        }
        made.block = made.call_i32("switchpath_block")? as u32 as usize;
        let there = made.memory.data(&made.store).len();
        if made.block.saturating_add(BLOCK) > there || !made.block.is_multiple_of(8) {
            return Err(Fault::InvalidDecision("its block is not in its memory, or not at a multiple of 8".into()));
        }
        debug_assert!(there <= MEMORY);
        instance::prefault(made.memory.data_mut(&mut made.store));
        Ok(made)
    }

    fn call_i32(&mut self, name: &str) -> Result<i32, Fault> {
        let function: TypedFunc<(), i32> = self.instance.get_typed_func(&mut self.store, name)?;
        self.runtime.start_limit(&mut self.store)?;
        Ok(function.call(&mut self.store, ())?)
    }

    fn describe(&mut self) -> Result<String, Fault> {
        let at = self.call_i32("switchpath_describe")? as u32 as usize;
        instance::text(self.memory.data(&self.store), at, LONGEST)
    }

    /// The block, for reading and writing.
    fn block(&mut self) -> &mut [u8; BLOCK] {
        let block = self.memory.data_mut(&mut self.store)[self.block..].first_chunk_mut();
        block.expect("the block has been there since the start, and memory only grows")
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
        self.runtime.start_limit(&mut self.store)?;
        let answer = self.execute.call(&mut self.store, ())?;
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
