//! The parts that guests of all kinds have in common: a linked module, and an instance of it that is called by the names of its exports.

use crate::instance::{self, Fault, InstanceData};
use crate::module::LoadError;
use crate::runtime::{HasCallTime, Runtime};
use std::hash::{DefaultHasher, Hash, Hasher};
use wasmtime::{InstancePre, Linker, Memory, Module, Store, TypedFunc, WasmResults};

/// A compiled module with its host functions. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LinkedModule {
    runtime: Runtime,
    ready: InstancePre<InstanceData>,
    /// A hash of its code.
    pub digest: u64,
}

impl LinkedModule {
    /// Links a module that was compiled from `bytes` with the host functions of all guests, and those that `add` adds.
    pub fn new(
        (module, bytes): (&Module, &[u8]),
        runtime: &Runtime,
        add: impl FnOnce(&mut Linker<InstanceData>) -> Result<(), wasmtime::Error>,
    ) -> Result<LinkedModule, LoadError> {
        let mut linker = Linker::new(&runtime.engine);
        let added = InstanceData::add_imports(&mut linker).and_then(|()| add(&mut linker));
        added.map_err(|error| LoadError::new(format!("{error:#}"), "report this"))?;
        let ready = linker.instantiate_pre(module).map_err(|error| {
            LoadError::new(format!("it cannot be linked: {error:#}"), "give its imports the types of the kit in sdk/")
        })?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        Ok(LinkedModule { runtime: runtime.clone(), ready, digest: hasher.finish() })
    }

    /// The host functions that it imports.
    pub fn imports(&self) -> Vec<String> {
        self.ready.module().imports().map(|import| import.name().to_string()).collect()
    }

    /// An instance that is not started yet.
    pub fn instantiate(&self) -> Result<ModuleInstance, Fault> {
        let mut store = InstanceData::store(&self.runtime);
        // A module may have a start function that runs during instantiation.
        self.runtime.start_limit(&mut store)?;
        let instance = self.ready.instantiate(&mut store)?;
        let memory =
            instance.get_memory(&mut store, "memory").ok_or_else(|| Fault::Trapped("it has no memory".into()))?;
        Ok(ModuleInstance { runtime: self.runtime.clone(), store, memory, instance })
    }

    /// An instance that is not started yet, of a module whose export `version` returns `supported`.
    pub fn instantiate_version(&self, version: &str, supported: i32) -> Result<ModuleInstance, Fault> {
        let mut instance = self.instantiate()?;
        let found = instance.call_i32(version)?;
        if found != supported {
            let reason =
                format!("it is built for version {found} of the interface, and this program supports {supported}");
            return Err(Fault::InvalidDecision(reason));
        }
        Ok(instance)
    }
}

/// See the [module](self).
pub(crate) struct ModuleInstance {
    runtime: Runtime,
    pub store: Store<InstanceData>,
    pub memory: Memory,
    instance: wasmtime::Instance,
}

impl ModuleInstance {
    /// An export without parameters.
    pub fn function<R: WasmResults>(&mut self, name: &str) -> Result<TypedFunc<(), R>, Fault> {
        Ok(self.instance.get_typed_func(&mut self.store, name)?)
    }

    /// Calls an export, within the limits of a call.
    #[inline]
    pub fn call<R: WasmResults>(&mut self, function: &TypedFunc<(), R>) -> Result<R, Fault> {
        self.runtime.start_limit(&mut self.store)?;
        Ok(function.call(&mut self.store, ())?)
    }

    /// Calls the export of this name.
    pub fn call_i32(&mut self, name: &str) -> Result<i32, Fault> {
        let function = self.function(name)?;
        self.call(&function)
    }

    /// Calls the export of this name, which returns an address.
    pub fn call_address(&mut self, name: &str) -> Result<usize, Fault> {
        Ok(self.call_i32(name)? as u32 as usize)
    }

    /// Reads its description, at most `longest` bytes.
    pub fn describe(&mut self, longest: usize) -> Result<String, Fault> {
        let at = self.call_address("switchpath_describe")?;
        instance::text(self.memory.data(&self.store), at, longest)
    }

    /// The address of its block of `SIZE` bytes.
    pub fn block<const SIZE: usize>(&mut self) -> Result<usize, Fault> {
        let at = self.call_address("switchpath_block")?;
        let is_inside = at.checked_add(SIZE).is_some_and(|end| end <= self.memory.data_size(&self.store));
        if !is_inside || !at.is_multiple_of(8) {
            return Err(Fault::InvalidDecision("its block is not in its memory, or not at a multiple of 8".into()));
        }
        Ok(at)
    }

    /// Starts it with the options in its block.
    pub fn start(&mut self) -> Result<(), Fault> {
        let answer = self.call_i32("switchpath_start")?;
        if answer == 0 {
            return Ok(());
        }
        let line = self.store.data().line();
        let why = if line.is_empty() { format!("code {answer}") } else { line.to_string() };
        Err(Fault::InvalidDecision(format!("it refuses to start: {why}")))
    }

    /// From now on it works for packets. Called after the start, because the guest may have grown its memory there.
    pub fn begin_work(&mut self) {
        instance::prefault(self.memory.data_mut(&mut self.store));
        self.store.data_mut().call_time().begin_work();
    }

    /// Bytes of memory that it has now.
    pub fn memory_size(&self) -> usize {
        self.memory.data_size(&self.store)
    }
}

/// The block, for reading.
#[inline(always)]
pub(crate) fn block_of<const SIZE: usize>(memory: &[u8], at: usize) -> &[u8; SIZE] {
    memory[at..].first_chunk().expect("the block has been there since the start, and memory only grows")
}

/// The block, for writing.
#[inline(always)]
pub(crate) fn block_of_mut<const SIZE: usize>(memory: &mut [u8], at: usize) -> &mut [u8; SIZE] {
    memory[at..].first_chunk_mut().expect("the block has been there since the start, and memory only grows")
}
