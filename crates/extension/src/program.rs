//! A guest's code: compiled, and looked at before anything of it runs on a link.

use crate::block::{self, VERSION};
use crate::declared::{Declared, LONGEST};
use crate::guest::Guest;
use crate::instance::{Inside, Instance, MEMORY};
use crate::runtime::Runtime;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use wasmtime::{ExternType, InstancePre, Linker, Module};

/// Bytes of a module at most.
pub const LARGEST: usize = 4 << 20;
/// What the host gives to guests that ask for it.
const GIVEN: &str = "'log', 'counter' and 'random' of 'switchpath'";

/// Why a module is no guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadError {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

impl LoadError {
    pub(crate) fn new(reason: impl Into<String>, hint: impl Into<String>) -> LoadError {
        LoadError { reason: reason.into(), hint: hint.into() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.hint)
    }
}

impl std::error::Error for LoadError {}

/// See the [module](self). Cheap to clone.
#[derive(Clone)]
pub struct Program {
    code: Arc<Code>,
}

struct Code {
    runtime: Runtime,
    ready: InstancePre<Inside>,
    declared: Declared,
    digest: u64,
}

impl Program {
    /// Compiles a module, or says why it is no guest. Runs only what says what it is.
    pub fn load(bytes: &[u8], runtime: &Runtime) -> Result<Program, LoadError> {
        let module = compile(bytes, runtime)?;
        if module.get_export(crate::instruction::MARK).is_some() {
            let hint = "give it a number in [state.instruction.NAME]; a port takes schemes";
            return Err(LoadError::new("it is an instruction of ephemeral state, no scheme", hint));
        }
        imports(&module)?;
        exports(&module)?;
        let mut linker = Linker::new(&runtime.engine);
        Inside::offer(&mut linker).map_err(|error| LoadError::new(format!("{error:#}"), "report this"))?;
        let ready = linker.instantiate_pre(&module).map_err(|error| {
            LoadError::new(format!("it cannot be linked: {error:#}"), format!("import only {GIVEN}"))
        })?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let code = Code { runtime: runtime.clone(), ready, declared: Declared::default(), digest: hasher.finish() };
        let text = Instance::new(&code.runtime, &code.ready)
            .and_then(|mut instance| instance.describe(LONGEST))
            .map_err(|fault| LoadError::new(format!("it cannot say what it is: {fault}"), "see docs/guests.md"))?;
        let declared = Declared::read(&text)
            .map_err(|wrong| LoadError::new(wrong, "see docs/guests.md for how a guest describes itself"))?;
        Ok(Program { code: Arc::new(Code { declared, ..code }) })
    }

    /// What it says of itself.
    pub fn declared(&self) -> &Declared {
        &self.code.declared
    }

    /// A number that tells its code from all others.
    pub fn digest(&self) -> u64 {
        self.code.digest
    }

    /// What it asks of its host: names of `log`, `counter` and `random`.
    pub fn imports(&self) -> Vec<String> {
        self.code.ready.module().imports().map(|import| import.name().to_string()).collect()
    }

    /// A guest at work, with these values of its options in their order.
    pub fn guest(&self, options: &[u64]) -> Result<Guest, LoadError> {
        Guest::start(self, options)
    }

    pub(crate) fn instance(&self, options: &[u64]) -> Result<Instance, crate::instance::Fault> {
        let mut instance = Instance::new(&self.code.runtime, &self.code.ready)?;
        instance.start(options)?;
        Ok(instance)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program {:016x}", self.code.digest)
    }
}

/// Compiles a module, whatever it is.
pub(crate) fn compile(bytes: &[u8], runtime: &Runtime) -> Result<Module, LoadError> {
    if bytes.len() > LARGEST {
        let hint = "build it for release, without debugging information";
        return Err(LoadError::new(format!("it has more than {} MiB", LARGEST >> 20), hint));
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::new("it is no WebAssembly module", "build it for wasm32: see docs/guests.md"));
    }
    if bytes.get(4..8) == Some(&[0x0d, 0, 1, 0]) {
        return Err(LoadError::new("it is a component", "build a core module, without component tools"));
    }
    Module::new(&runtime.engine, bytes)
        .map_err(|error| LoadError::new(format!("it cannot be compiled: {error:#}"), "build it anew"))
}

pub(crate) fn imports(module: &Module) -> Result<(), LoadError> {
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        let known = from == "switchpath" && matches!(name, "log" | "counter" | "random");
        if !known || !matches!(import.ty(), ExternType::Func(_)) {
            let reason = format!("it imports '{name}' of '{from}', which no guest is given");
            let hint = if from.starts_with("wasi") {
                format!("build it for wasm32-unknown-unknown, without a system; there are {GIVEN}")
            } else {
                format!("leave it out; there are {GIVEN}")
            };
            return Err(LoadError::new(reason, hint));
        }
    }
    Ok(())
}

fn missing(name: &str) -> LoadError {
    LoadError::new(format!("it exports no '{name}'"), "build it with the kit in sdk/, or see docs/guests.md")
}

/// Its memory is one that a guest may have.
pub(crate) fn has_memory(module: &Module) -> Result<(), LoadError> {
    let Some(ExternType::Memory(memory)) = module.get_export("memory") else { return Err(missing("memory")) };
    if memory.is_64() || memory.is_shared() {
        return Err(LoadError::new("its memory is shared, or has 64-bit addresses", "build it for wasm32"));
    }
    let bytes = memory.minimum().saturating_mul(memory.page_size());
    if bytes > MEMORY as u64 {
        let reason = format!("it needs {} KiB of memory, and {} are the most", bytes >> 10, MEMORY >> 10);
        return Err(LoadError::new(
            reason,
            "give it a smaller stack ('-z stack-size=65536' for the linker), or less state",
        ));
    }
    Ok(())
}

fn exports(module: &Module) -> Result<(), LoadError> {
    has_memory(module)?;
    let all = [
        ("switchpath_version", true),
        ("switchpath_describe", true),
        ("switchpath_block", true),
        ("switchpath_start", true),
        ("switchpath_arrive", false),
        ("switchpath_ready", false),
        ("switchpath_recount", false),
    ];
    functions(module, all)
}

/// It has these functions, which take nothing, and of which some answer.
pub(crate) fn functions(module: &Module, all: impl IntoIterator<Item = (&'static str, bool)>) -> Result<(), LoadError> {
    for (name, answers) in all {
        let Some(ExternType::Func(function)) = module.get_export(name) else { return Err(missing(name)) };
        let typed = function.params().len() == 0
            && function.results().len() == usize::from(answers)
            && function.results().all(|result| matches!(result, wasmtime::ValType::I32));
        if !typed {
            let shape = if answers { "takes nothing and answers an i32" } else { "takes and answers nothing" };
            return Err(LoadError::new(format!("its '{name}' is not what it should be"), format!("'{name}' {shape}")));
        }
    }
    Ok(())
}

/// Whether a guest of this version of the block is understood.
pub(crate) fn version(found: i32) -> Result<(), String> {
    if found == VERSION {
        return Ok(());
    }
    Err(format!(
        "it is built for version {found} of the interface, and this program has {VERSION} (block of {} bytes)",
        block::SIZE
    ))
}
