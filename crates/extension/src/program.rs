//! The code of a guest: compiled, and checked before any of it runs on a link.

use crate::description::{GuestDescription, LONGEST};
use crate::instance::{Fault, Instance, InstanceData};
use crate::module::{
    FUNCTION, HOST_FUNCTIONS, INSTRUCTION, LoadError, SLICE, check_imports, check_memory, compile, functions,
};
use crate::runtime::Runtime;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use wasmtime::{InstancePre, Linker, Module};

/// See the [module](self). Cheap to clone.
#[derive(Clone)]
pub struct GuestProgram {
    code: Arc<Code>,
}

struct Code {
    runtime: Runtime,
    ready: InstancePre<InstanceData>,
    declared: GuestDescription,
    digest: u64,
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
        let mut linker = Linker::new(&runtime.engine);
        InstanceData::add_imports(&mut linker).map_err(|error| LoadError::new(format!("{error:#}"), "report this"))?;
        let ready = linker.instantiate_pre(&module).map_err(|error| {
            LoadError::new(format!("it cannot be linked: {error:#}"), "give its imports the types of the kit in sdk/")
        })?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let code =
            Code { runtime: runtime.clone(), ready, declared: GuestDescription::default(), digest: hasher.finish() };
        let text =
            Instance::new(&code.runtime, &code.ready).and_then(|mut instance| instance.describe(LONGEST)).map_err(
                |fault| LoadError::new(format!("its description failed: {fault}"), "see docs/operate/guests.md"),
            )?;
        let declared = GuestDescription::read(&text)
            .map_err(|wrong| LoadError::new(wrong, "see docs/operate/guests.md for how a guest describes itself"))?;
        Ok(GuestProgram { code: Arc::new(Code { declared, ..code }) })
    }

    /// Its description.
    pub fn declared(&self) -> &GuestDescription {
        &self.code.declared
    }

    /// A hash of its code.
    pub fn digest(&self) -> u64 {
        self.code.digest
    }

    /// The host functions that it imports: `log`, `counter` and `random`.
    pub fn imports(&self) -> Vec<String> {
        self.code.ready.module().imports().map(|import| import.name().to_string()).collect()
    }

    pub(crate) fn instance(&self, options: &[u64]) -> Result<Instance, Fault> {
        let mut instance = Instance::new(&self.code.runtime, &self.code.ready)?;
        instance.start(options)?;
        Ok(instance)
    }
}

impl fmt::Debug for GuestProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program {:016x}", self.code.digest)
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
