//! Code options of slices as WebAssembly modules (adr/0080). A module gets the packets of a slice in batches: it makes a key of each, and after the
//! look-up it rewrites the packets that are sent.
//!
//! It exports its `memory`, and these functions. Results are an `i32`:
//!
//! | function | action |
//! |---|---|
//! | `switchpath_slice` | returns 1, the version of this table |
//! | `switchpath_describe` | returns the address of its description, which ends with a zero byte |
//! | `switchpath_block` | returns the address of its block, a multiple of 8 |
//! | `switchpath_start` | starts with the options in the block, and writes its needs there; returns 0, or another value to refuse |
//! | `switchpath_parse` | writes a verdict and a key for each record; no result |
//! | `switchpath_format` | writes a verdict for each record, and changes packets; no result |
//!
//! The description has the lines of a scheme (`summary`, `option`), and may have `version N`, for the meaning of its keys, data and memory, and
//! `memory N`, the bytes of slice memory that it needs. State that must survive its replacement lies in the memory of the slice.

use crate::block::OPTIONS;
use crate::description::{GuestDescription, LONGEST};
use crate::module::{LoadError, SLICE, SLICE_SERVICES, check_imports, check_memory, compile, functions, may_export};
use crate::module_instance::LinkedModule;
use crate::runtime::Runtime;
use crate::slice_block::VERSION;
use crate::slice_imports::add_memory;
use crate::slice_instance::SliceInstance;
use slice::SliceMemory;
use slice::code::{CodeOption, GuestCodeOption};
use std::fmt;
use std::sync::Arc;

/// True if a module is a code option and not another guest.
pub(crate) fn is_code_option(bytes: &[u8]) -> bool {
    may_export(bytes, SLICE)
}

/// The code of a code option: compiled, and checked before any of it runs. Cheap to clone.
#[derive(Clone)]
pub struct GuestSlice {
    code: LinkedModule,
    declared: Arc<GuestDescription>,
    version: u32,
    memory: usize,
}

impl GuestSlice {
    /// Compiles a module, or says why it is not a code option. Runs only the functions that describe it.
    ///
    /// # Errors
    ///
    /// The module is not valid, or exceeds the limits of guests.
    pub fn load(bytes: &[u8], runtime: &Runtime) -> Result<GuestSlice, LoadError> {
        let module = compile(bytes, runtime)?;
        if module.get_export(SLICE).is_none() {
            let reason = "it is no code option of slices: it exports no 'switchpath_slice'";
            return Err(LoadError::new(reason, "see docs/operate/guest-slices.md"));
        }
        check_imports(&module, SLICE_SERVICES)?;
        check_memory(&module)?;
        functions(
            &module,
            [
                (SLICE, true),
                ("switchpath_describe", true),
                ("switchpath_block", true),
                ("switchpath_start", true),
                ("switchpath_parse", false),
                ("switchpath_format", false),
            ],
        )?;
        let code = LinkedModule::new((&module, bytes), runtime, add_memory)?;
        let hint = "see docs/operate/guest-slices.md for how a code option describes itself";
        let text = code.instantiate_version(SLICE, VERSION).and_then(|mut instance| instance.describe(LONGEST));
        let text = text.map_err(|fault| LoadError::new(format!("its description failed: {fault}"), hint))?;
        let (declared, version, memory) = read(&text).map_err(|wrong| LoadError::new(wrong, hint))?;
        Ok(GuestSlice { code, declared: Arc::new(declared), version, memory })
    }

    /// Its description.
    pub fn declared(&self) -> &GuestDescription {
        &self.declared
    }

    /// A hash of its code.
    pub fn digest(&self) -> u64 {
        self.code.digest
    }

    /// The host functions that it imports.
    pub fn imports(&self) -> Vec<String> {
        self.code.imports()
    }

    /// Bytes of its memory when it is started with these values of its options.
    ///
    /// # Errors
    ///
    /// Why it does not start.
    pub fn own_memory(&self, options: &[u64], memory: &SliceMemory) -> Result<usize, String> {
        let started = SliceInstance::start(&self.code, options, memory);
        started.map(|started| started.memory()).map_err(|fault| fault.to_string())
    }
}

impl GuestCodeOption for GuestSlice {
    fn version(&self) -> u32 {
        self.version
    }

    fn memory(&self) -> usize {
        self.memory
    }

    fn make(&self, options: &[u64], memory: &SliceMemory) -> Result<Box<dyn CodeOption>, String> {
        let started = SliceInstance::start(&self.code, options, memory).map_err(|fault| fault.to_string())?;
        Ok(Box::new(started))
    }
}

impl fmt::Debug for GuestSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code option {:016x}", self.code.digest)
    }
}

/// Parses a description: the options, the version, and the bytes of slice memory.
fn read(text: &str) -> Result<(GuestDescription, u32, usize), String> {
    let (mut version, mut memory, mut rest) = (1, 0, String::new());
    for line in text.lines() {
        let number = |digits: &str| {
            digits.trim().parse().map_err(|_| format!("'{}' of its description has no number", line.escape_debug()))
        };
        match line.trim().split_once(' ') {
            Some(("version", digits)) => version = number(digits)?,
            Some(("memory", digits)) => memory = number(digits)? as usize,
            _ => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
    }
    let declared = GuestDescription::read(&rest)?;
    debug_assert!(declared.defaults().len() <= OPTIONS);
    Ok((declared, version, memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_has_version_and_memory() {
        let (declared, version, memory) =
            read("summary Routes.\nversion 3\nmemory 4096\noption rate rate 1mbit 1 - The rate.").unwrap();
        assert_eq!((declared.summary.as_str(), declared.defaults()), ("Routes.", vec![1_000_000]));
        assert_eq!((version, memory), (3, 4096));
        assert_eq!(read("summary S.").map(|(_, version, memory)| (version, memory)), Ok((1, 0)));
        for (text, wrong) in [
            ("version x", "'version x' of its description has no number"),
            ("memory -1", "'memory -1' of its description has no number"),
            ("counter a", "neither a summary nor an option"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
