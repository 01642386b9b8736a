//! Packet functions as WebAssembly modules (adr/0071). A module gets the packets of a path in batches, and decides which continue, are dropped, or
//! continue on another path.
//!
//! It exports its `memory`, and these functions. Results are an `i32`:
//!
//! | function | action |
//! |---|---|
//! | `switchpath_function` | returns 1, the version of this table |
//! | `switchpath_describe` | returns the address of its description, which ends with a zero byte |
//! | `switchpath_block` | returns the address of its block, a multiple of 8 |
//! | `switchpath_start` | starts with the options in the block, and writes its needs there; returns 0, or another value to refuse |
//! | `switchpath_process` | writes a verdict for each record; no result |
//! | `switchpath_state` | optional: returns the address of three numbers of 4 bytes each: the version, the address and the length of its state |
//!
//! The description has the lines of a scheme (`summary`, `option`), and a line `counter NAME` for each counter that it uses. Its state is copied to
//! the function that replaces it, if that has the same name, version and length of state.

use crate::description::{GuestDescription, LONGEST};
use crate::function_block::{OPTIONS, VERSION};
use crate::function_imports::add_services;
use crate::function_instance::{FunctionCode, FunctionInstance};
use crate::instance::COUNTERS;
use crate::module::{
    FUNCTION, FUNCTION_SERVICES, LoadError, check_imports, check_memory, compile, functions, may_export,
};
use crate::module_instance::LinkedModule;
use crate::runtime::Runtime;
use plan::Call;
use plane::function::{Function, FunctionMaker};
use plane::snapshot::PathSpec;
use std::fmt;
use std::sync::Arc;
use wasmtime::{ExternType, Module};

/// The option that every function has.
pub(crate) const ON_FAULT: &str = "on_fault";
/// The most characters of a counter's name.
const LONGEST_NAME: usize = 40;

/// True if a module is a packet function and not another guest.
pub(crate) fn is_function(bytes: &[u8]) -> bool {
    may_export(bytes, FUNCTION)
}

/// The code of a packet function: compiled, and checked before any of it runs. Cheap to clone.
#[derive(Clone)]
pub struct GuestFunction {
    code: Arc<FunctionCode>,
    declared: Arc<GuestDescription>,
}

impl GuestFunction {
    /// Compiles a module, or says why it is not a packet function. Runs only the functions that describe it.
    ///
    /// # Errors
    ///
    /// The module is not valid, or exceeds the limits of guests.
    pub fn load(bytes: &[u8], runtime: &Runtime) -> Result<GuestFunction, LoadError> {
        let module = compile(bytes, runtime)?;
        if module.get_export(FUNCTION).is_none() {
            let reason = "it is no packet function: it exports no 'switchpath_function'";
            return Err(LoadError::new(reason, "use a scheme in a port; see docs/operate/guests.md for functions"));
        }
        check_imports(&module, FUNCTION_SERVICES)?;
        check_memory(&module)?;
        let has_state = exports(&module)?;
        let module = LinkedModule::new((&module, bytes), runtime, add_services)?;
        let text = module.instantiate_version(FUNCTION, VERSION).and_then(|mut instance| instance.describe(LONGEST));
        let text = text.map_err(|fault| {
            LoadError::new(format!("its description failed: {fault}"), "see docs/operate/guests.md")
        })?;
        let (declared, counters) = read(&text)
            .map_err(|wrong| LoadError::new(wrong, "see docs/operate/guests.md for how a function describes itself"))?;
        let code = FunctionCode { module, has_state, counters };
        Ok(GuestFunction { code: Arc::new(code), declared: Arc::new(declared) })
    }

    /// Its description, with the option that every function has.
    pub fn declared(&self) -> &GuestDescription {
        &self.declared
    }

    /// A hash of its code.
    pub fn digest(&self) -> u64 {
        self.code.module.digest
    }

    /// The host functions that it imports.
    pub fn imports(&self) -> Vec<String> {
        self.code.module.imports()
    }

    /// Bytes of its memory when it is started for a call of a path, with its options.
    ///
    /// # Errors
    ///
    /// Why it does not start.
    pub fn memory(&self, call: &Call, path: &PathSpec) -> Result<usize, String> {
        FunctionInstance::start(&self.code, call, path)
            .map(|started| started.memory())
            .map_err(|fault| fault.to_string())
    }
}

impl FunctionMaker for GuestFunction {
    fn make(&self, call: &Call, path: &PathSpec) -> Result<Box<dyn Function>, String> {
        let started = FunctionInstance::start(&self.code, call, path).map_err(|fault| fault.to_string())?;
        Ok(Box::new(started))
    }
}

impl fmt::Debug for GuestFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function {:016x}", self.digest())
    }
}

/// Checks the exports. Returns true if it has state that survives its replacement.
fn exports(module: &Module) -> Result<bool, LoadError> {
    let required = [
        (FUNCTION, true),
        ("switchpath_describe", true),
        ("switchpath_block", true),
        ("switchpath_start", true),
        ("switchpath_process", false),
    ];
    functions(module, required)?;
    let has_state = matches!(module.get_export("switchpath_state"), Some(ExternType::Func(_)));
    if has_state {
        functions(module, [("switchpath_state", true)])?;
    }
    Ok(has_state)
}

/// Parses a description: the options with the one that every function has, and the names of the counters.
fn read(text: &str) -> Result<(GuestDescription, Vec<Arc<str>>), String> {
    let (mut counters, mut rest) = (Vec::new(), String::new());
    for line in text.lines() {
        let Some(name) = line.trim().strip_prefix("counter ") else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let name = name.trim();
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!("'{}' of its description is no counter name", name.escape_debug()));
        }
        counters.push(Arc::from(name));
    }
    if counters.len() > COUNTERS {
        return Err(format!("its description has {} counters; the limit is {COUNTERS}", counters.len()));
    }
    let declared = GuestDescription::read(&rest)?;
    if declared.has_option(ON_FAULT) {
        return Err(format!("its description has the option '{ON_FAULT}', which every function has"));
    }
    if declared.defaults().len() > OPTIONS {
        return Err(format!("its description has more than {OPTIONS} options"));
    }
    let doc = "What happens to its packets after it has failed: they bypass it, or are dropped.";
    Ok((declared.with_choice(ON_FAULT, &["bypass", "drop"], doc), counters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_has_counters_and_the_option_of_every_function() {
        let (declared, counters) =
            read("summary Polices.\ncounter over the rate\noption rate rate 1mbit 1 - The rate.").unwrap();
        assert_eq!((declared.summary.as_str(), &*counters[0], counters.len()), ("Polices.", "over the rate", 1));
        let names = declared.declaration("guest:x").options.iter().map(|option| option.name).collect::<Vec<_>>();
        assert_eq!((names, declared.defaults()), (vec!["rate", "on_fault"], vec![1_000_000, 0]));
        for (text, wrong) in [
            ("counter ".repeat(3) + "\x1b", "is no counter name"),
            ("counter a\n".repeat(9), "9 counters; the limit is 8"),
            ("option on_fault count 1 0 2 A.".into(), "which every function has"),
            ((0..16).map(|i| format!("option o{i} count 1 0 2 A.\n")).collect(), "more than 15 options"),
            ("hello".into(), "neither a summary nor an option"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
