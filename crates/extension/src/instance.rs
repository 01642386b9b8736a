//! One instance of a guest: its memory, its functions, its counters and its log line.

use crate::block::{self, BlockView, BlockWriter, GuestRequirements, OPTIONS, QUEUES, version};
use crate::module::MEMORY;
use crate::runtime::{CallTime, HasCallTime, Runtime};
use crate::services::Services;
use crate::slice_access::SliceAccess;
use schemes::Record;
use std::fmt;
use units::{Instant, Rate};
use wasmtime::{
    Caller, Extern, InstancePre, Linker, Memory, Store, StoreLimits, StoreLimitsBuilder, Trap, TypedFunc, WasmParams,
    WasmResults,
};

/// The size of a memory page of the machine, or less.
const PAGE: usize = 4096;
/// The most bytes of a log line.
const LINE: usize = 200;
/// The number of counters.
pub(crate) const COUNTERS: usize = 8;
/// The seed of the random numbers. Generator: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// How a guest failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It trapped.
    Trapped(String),
    /// It did not return in time.
    TimedOut,
    /// It made an invalid decision.
    InvalidDecision(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Trapped(what) => write!(f, "it trapped: {what}"),
            Fault::TimedOut => f.write_str("it did not return in time"),
            Fault::InvalidDecision(what) => f.write_str(what),
        }
    }
}

impl From<wasmtime::Error> for Fault {
    fn from(error: wasmtime::Error) -> Fault {
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt | Trap::OutOfFuel) => Fault::TimedOut,
            Some(trap) => Fault::Trapped(trap.to_string()),
            None => Fault::Trapped(format!("{error:#}")),
        }
    }
}

/// The host's data of an instance.
pub(crate) struct InstanceData {
    limits: StoreLimits,
    call_time: CallTime,
    random_state: u64,
    counters: [u64; COUNTERS],
    /// The last line that it logged.
    line: String,
    /// The line has not been reported yet.
    line_is_new: bool,
    /// The services for packet functions.
    pub services: Services,
    /// The memory of the slice of a code option.
    pub slice: SliceAccess,
}

impl HasCallTime for InstanceData {
    #[inline]
    fn call_time(&mut self) -> &mut CallTime {
        &mut self.call_time
    }
}

impl InstanceData {
    fn new() -> InstanceData {
        let limits =
            StoreLimitsBuilder::new().memory_size(MEMORY).table_elements(4096).instances(1).tables(1).memories(1);
        InstanceData {
            limits: limits.build(),
            call_time: CallTime::default(),
            random_state: SEED,
            counters: [0; COUNTERS],
            line: String::with_capacity(4 * LINE),
            line_is_new: false,
            services: Services::default(),
            slice: SliceAccess::default(),
        }
    }

    /// The values of its counters.
    pub fn counters(&self) -> [u64; COUNTERS] {
        self.counters
    }

    /// The last line that it logged; empty if it logged none.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The last line that it logged, unless it has been reported already.
    pub fn take_new_line(&mut self) -> Option<&str> {
        std::mem::take(&mut self.line_is_new).then_some(&*self.line)
    }

    /// Makes the store of an instance.
    pub fn store(runtime: &Runtime) -> Store<InstanceData> {
        let mut store = Store::new(&runtime.engine, InstanceData::new());
        store.limiter(|inside| &mut inside.limits);
        runtime.prepare(&mut store);
        store
    }

    /// Adds the functions that guests may import.
    pub fn add_imports(linker: &mut Linker<InstanceData>) -> Result<(), wasmtime::Error> {
        linker.func_wrap("switchpath", "random", |mut caller: Caller<'_, InstanceData>| -> i64 {
            let chance = &mut caller.data_mut().random_state;
            *chance ^= *chance << 13;
            *chance ^= *chance >> 7;
            *chance ^= *chance << 17;
            *chance as i64
        })?;
        linker.func_wrap("switchpath", "counter", |mut caller: Caller<'_, InstanceData>, which: i32, more: i64| {
            let counter = usize::try_from(which).ok().and_then(|which| caller.data_mut().counters.get_mut(which));
            if let Some(counter) = counter {
                *counter = counter.wrapping_add(more as u64);
            }
        })?;
        linker.func_wrap("switchpath", "log", |mut caller: Caller<'_, InstanceData>, at: i32, length: i32| {
            let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return };
            let (memory, inside) = memory.data_and_store_mut(&mut caller);
            let (at, length) = (at as u32 as usize, (length as u32 as usize).min(LINE));
            let Some(bytes) = memory.get(at..at + length) else { return };
            inside.line.clear();
            inside.line_is_new = true;
            let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
            bytes.utf8_chunks().for_each(|chunk| inside.line.extend(chunk.valid().chars().map(shown)));
        })?;
        Ok(())
    }
}

/// Reads the zero-terminated text at `at`.
pub(crate) fn text(memory: &[u8], at: usize, longest: usize) -> Result<String, Fault> {
    let text = memory.get(at..).unwrap_or_default();
    let end = text.iter().take(longest).position(|byte| *byte == 0);
    let end =
        end.ok_or_else(|| Fault::InvalidDecision(format!("its description has no end within {longest} bytes")))?;
    match std::str::from_utf8(&text[..end]) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(Fault::InvalidDecision("its description is not UTF-8".into())),
    }
}

/// Touches every page, so that page faults happen now and not while a packet waits.
pub(crate) fn prefault(memory: &mut [u8]) {
    for page in memory.chunks_mut(PAGE) {
        page[0] = std::hint::black_box(page[0]);
    }
}

/// See the [module](self).
pub(crate) struct Instance {
    runtime: Runtime,
    store: Store<InstanceData>,
    instance: wasmtime::Instance,
    memory: Memory,
    /// The offset of the block.
    block: usize,
    arrive: TypedFunc<(), ()>,
    ready: TypedFunc<(), ()>,
    recount: TypedFunc<(), ()>,
}

impl Instance {
    /// Makes an instance that is not started yet.
    pub fn new(runtime: &Runtime, module: &InstancePre<InstanceData>) -> Result<Instance, Fault> {
        let mut store = InstanceData::store(runtime);
        // A module may have a start function that runs during instantiation.
        runtime.start_limit(&mut store)?;
        let instance = module.instantiate(&mut store)?;
        let memory =
            instance.get_memory(&mut store, "memory").ok_or_else(|| Fault::Trapped("it has no memory".into()))?;
        let (arrive, ready, recount) = (
            instance.get_typed_func(&mut store, "switchpath_arrive")?,
            instance.get_typed_func(&mut store, "switchpath_ready")?,
            instance.get_typed_func(&mut store, "switchpath_recount")?,
        );
        Ok(Instance { runtime: runtime.clone(), store, instance, memory, block: 0, arrive, ready, recount })
    }

    fn call<P: WasmParams, R: WasmResults>(&mut self, function: &TypedFunc<P, R>, given: P) -> Result<R, Fault> {
        self.runtime.start_limit(&mut self.store)?;
        Ok(function.call(&mut self.store, given)?)
    }

    fn call_i32(&mut self, name: &str) -> Result<i32, Fault> {
        let function: TypedFunc<(), i32> = self.instance.get_typed_func(&mut self.store, name)?;
        self.call(&function, ())
    }

    /// Reads its description, at most `longest` bytes.
    pub fn describe(&mut self, longest: usize) -> Result<String, Fault> {
        version(self.call_i32("switchpath_version")?).map_err(Fault::InvalidDecision)?;
        let at = self.call_i32("switchpath_describe")? as u32 as usize;
        text(self.memory.data(&self.store), at, longest)
    }

    /// Starts it with these options.
    pub fn start(&mut self, options: &[u64]) -> Result<(), Fault> {
        self.block = self.call_i32("switchpath_block")? as u32 as usize;
        let block = self.memory.data(&self.store).get(self.block..self.block.saturating_add(block::SIZE));
        if block.is_none() || !self.block.is_multiple_of(8) {
            return Err(Fault::InvalidDecision("its block is not in its memory, or not at a multiple of 8".into()));
        }
        self.block_writer().options(&options[..options.len().min(OPTIONS)]);
        let answer = self.call_i32("switchpath_start")?;
        if answer != 0 {
            let line = self.store.data().line();
            let why = if line.is_empty() { format!("code {answer}") } else { line.to_string() };
            return Err(Fault::InvalidDecision(format!("it refuses to start: {why}")));
        }
        let GuestRequirements { queues, .. } = self.view().shape();
        if !(1..=QUEUES).contains(&queues) {
            return Err(Fault::InvalidDecision(format!("it asks for {queues} queues; a guest has 1 to {QUEUES}")));
        }
        // After the start, because the guest may have grown its memory there.
        prefault(self.memory.data_mut(&mut self.store));
        self.store.data_mut().call_time().begin_work();
        Ok(())
    }

    /// The block, for reading.
    #[inline]
    pub fn view(&self) -> BlockView<'_> {
        let block = self.memory.data(&self.store)[self.block..].first_chunk();
        BlockView(block.expect("the block has been there since the start, and memory only grows"))
    }

    /// The block, for writing.
    #[inline]
    pub fn block_writer(&mut self) -> BlockWriter<'_> {
        let block = self.memory.data_mut(&mut self.store)[self.block..].first_chunk_mut();
        BlockWriter(block.expect("the block has been there since the start, and memory only grows"))
    }

    /// Tells it that packets have arrived: as many as the block has records.
    #[inline]
    pub fn arrive(&mut self) -> Result<(), Fault> {
        self.runtime.start_limit(&mut self.store)?;
        Ok(self.arrive.call(&mut self.store, ())?)
    }

    /// Tells it that the link can accept packets: as many as the block says.
    #[inline]
    pub fn ready(&mut self) -> Result<(), Fault> {
        self.runtime.start_limit(&mut self.store)?;
        Ok(self.ready.call(&mut self.store, ())?)
    }

    /// Tells it the queued packets. `part` is 1 for the first call, 2 for the last, 3 for the only one.
    pub fn recount(&mut self, now: Instant, rate: Rate, records: &[Record], part: usize) -> Result<(), Fault> {
        let mut sheet = self.block_writer();
        sheet.head(now, rate, records.len(), part);
        records.iter().enumerate().for_each(|(which, record)| sheet.record(which, record));
        self.runtime.start_limit(&mut self.store)?;
        Ok(self.recount.call(&mut self.store, ())?)
    }

    /// Bytes of memory that it has now.
    pub fn memory(&self) -> usize {
        self.memory.data_size(&self.store)
    }

    /// The values of its counters.
    pub fn counters(&self) -> [u64; COUNTERS] {
        self.store.data().counters()
    }

    /// The last line that it logged, unless it has been reported already.
    pub fn take_new_line(&mut self) -> Option<&str> {
        self.store.data_mut().take_new_line()
    }

    /// The last line that it logged; empty if it logged none.
    pub fn line(&self) -> &str {
        self.store.data().line()
    }
}
