//! Checks of a WebAssembly module before any of it runs: it is compiled, and its imports, exports and memory are inspected.

use crate::runtime::Runtime;
use std::fmt;
use wasmtime::{ExternType, Module};

/// The most bytes of a module.
pub const LARGEST: usize = 4 << 20;
/// The most bytes of memory.
pub(crate) const MEMORY: usize = 1 << 20;
/// The export that distinguishes an instruction from other guests.
pub(crate) const INSTRUCTION: &str = "switchpath_instruction";
/// The export that distinguishes a packet function from other guests.
pub(crate) const FUNCTION: &str = "switchpath_function";
/// The export that distinguishes a code option of slices from other guests.
pub(crate) const SLICE: &str = "switchpath_slice";
/// The host functions that a guest may import.
pub(crate) const HOST_FUNCTIONS: &[&str] = &["log", "counter", "random"];
/// The host functions that a packet function may import.
pub(crate) const FUNCTION_SERVICES: &[&str] = &["log", "counter", "random", "clock", "rule", "lookup", "emit"];

/// The host functions that a code option of slices may import. Its counters are words of its slice's memory.
pub(crate) const SLICE_SERVICES: &[&str] = &["log", "random", "load", "store", "add"];

/// Why a module was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadError {
    /// The reason.
    pub reason: String,
    /// The remedy.
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

/// Compiles a module of any kind.
pub(crate) fn compile(bytes: &[u8], runtime: &Runtime) -> Result<Module, LoadError> {
    if bytes.len() > LARGEST {
        let hint = "build it for release, without debugging information";
        return Err(LoadError::new(format!("it has more than {} MiB", LARGEST >> 20), hint));
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::new("it is no WebAssembly module", "build it for wasm32: see docs/operate/guests.md"));
    }
    if bytes.get(4..8) == Some(&[0x0d, 0, 1, 0]) {
        return Err(LoadError::new("it is a component", "build a core module, without component tools"));
    }
    Module::new(&runtime.engine, bytes)
        .map_err(|error| LoadError::new(format!("it cannot be compiled: {error:#}"), "rebuild it"))
}

/// True if the name of an export occurs in the file.
pub(crate) fn may_export(bytes: &[u8], name: &str) -> bool {
    bytes.windows(name.len()).any(|window| window == name.as_bytes())
}

/// Compares the imports with the host functions that its kind of guest may import.
pub(crate) fn check_imports(module: &Module, allowed: &[&str]) -> Result<(), LoadError> {
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        let known = from == "switchpath" && allowed.contains(&name);
        if !known || !matches!(import.ty(), ExternType::Func(_)) {
            let reason = format!("it imports '{name}' of '{from}', which guests do not get");
            let names = allowed.join("', '");
            let hint = if from.starts_with("wasi") {
                format!("build it for wasm32-unknown-unknown; guests may import '{names}' of 'switchpath'")
            } else {
                format!("remove the import; guests may import '{names}' of 'switchpath'")
            };
            return Err(LoadError::new(reason, hint));
        }
    }
    Ok(())
}

fn missing(name: &str) -> LoadError {
    LoadError::new(format!("it exports no '{name}'"), "build it with the kit in sdk/, or see docs/operate/guests.md")
}

/// Checks that its memory is within a guest's limits.
pub(crate) fn check_memory(module: &Module) -> Result<(), LoadError> {
    let Some(ExternType::Memory(memory)) = module.get_export("memory") else { return Err(missing("memory")) };
    if memory.is_64() || memory.is_shared() {
        return Err(LoadError::new("its memory is shared, or has 64-bit addresses", "build it for wasm32"));
    }
    let bytes = memory.minimum().saturating_mul(memory.page_size());
    if bytes > MEMORY as u64 {
        let reason = format!("it needs {} KiB of memory; the limit is {} KiB", bytes >> 10, MEMORY >> 10);
        return Err(LoadError::new(
            reason,
            "give it a smaller stack ('-z stack-size=65536' for the linker), or less state",
        ));
    }
    Ok(())
}

/// Checks that it exports these functions. They have no parameters; those with `true` return an `i32`.
pub(crate) fn functions(module: &Module, all: impl IntoIterator<Item = (&'static str, bool)>) -> Result<(), LoadError> {
    for (name, answers) in all {
        let Some(ExternType::Func(function)) = module.get_export(name) else { return Err(missing(name)) };
        let typed = function.params().len() == 0
            && function.results().len() == usize::from(answers)
            && function.results().all(|result| matches!(result, wasmtime::ValType::I32));
        if !typed {
            let shape =
                if answers { "has no parameters and returns an i32" } else { "has no parameters and no result" };
            return Err(LoadError::new(format!("its export '{name}' has the wrong type"), format!("'{name}' {shape}")));
        }
    }
    Ok(())
}
