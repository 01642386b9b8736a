//! The code of a guest: compiled, and checked before any of it runs on a link.

use crate::description::{GuestDescription, LONGEST};
use crate::instance::Fault;
use crate::module::{
    FUNCTION, HOST_FUNCTIONS, INSTRUCTION, LoadError, SLICE, check_imports, check_memory, compile, functions,
};
use crate::module_instance::LinkedModule;
use crate::runtime::Runtime;
use crate::scheme_instance::SchemeInstance;
use std::fmt;
use std::sync::Arc;
use wasmtime::Module;

/// See the [module](self). Cheap to clone.
#[derive(Clone)]
pub struct GuestProgram {
    code: Arc<Code>,
}

struct Code {
    module: LinkedModule,
    declared: GuestDescription,
}

impl GuestProgram {
    /// Compiles a module, or says why it is not a guest. Runs only the functions that describe it.
    pub fn load(bytes: &[u8], runtime: &Runtime) -> Result<GuestProgram, LoadError> {
        let module = compile(bytes, runtime)?;
        if module.get_export(INSTRUCTION).is_some() {
            let hint = "give it a number in [state.instruction.NAME]; a port takes schemes";
            return Err(LoadError::new("it is an instruction of ephemeral state, no scheme", hint));
        }
        if module.get_export(FUNCTION).is_some() {
            let hint = "name it in the functions of a path; a port takes schemes";
            return Err(LoadError::new("it is a packet function, no scheme", hint));
        }
        if module.get_export(SLICE).is_some() {
            let hint = "use it with `switchpath slice create`; a port takes schemes";
            return Err(LoadError::new("it is a code option of slices, no scheme", hint));
        }
        check_imports(&module, HOST_FUNCTIONS)?;
        exports(&module)?;
        let module = LinkedModule::new((&module, bytes), runtime, |_| Ok(()))?;
        let text = SchemeInstance::new(&module).and_then(|mut instance| instance.describe(LONGEST));
        let text = text.map_err(|fault| {
            LoadError::new(format!("its description failed: {fault}"), "see docs/operate/guests.md")
        })?;
        let declared = GuestDescription::read(&text)
            .map_err(|wrong| LoadError::new(wrong, "see docs/operate/guests.md for how a guest describes itself"))?;
        Ok(GuestProgram { code: Arc::new(Code { module, declared }) })
    }

    /// Its description.
    pub fn declared(&self) -> &GuestDescription {
        &self.code.declared
    }

    /// A hash of its code.
    pub fn digest(&self) -> u64 {
        self.code.module.digest
    }

    /// The host functions that it imports: `log`, `counter` and `random`.
    pub fn imports(&self) -> Vec<String> {
        self.code.module.imports()
    }

    pub(crate) fn instance(&self, options: &[u64]) -> Result<SchemeInstance, Fault> {
        let mut instance = SchemeInstance::new(&self.code.module)?;
        instance.start(options)?;
        Ok(instance)
    }
}

impl fmt::Debug for GuestProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program {:016x}", self.code.module.digest)
    }
}

fn exports(module: &Module) -> Result<(), LoadError> {
    check_memory(module)?;
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
