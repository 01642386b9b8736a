//! The host's data of an instance of a guest: its limits, its counters and its log line. The faults of guests.

use crate::module::MEMORY;
use crate::runtime::{CallTime, HasCallTime, Runtime};
use crate::services::Services;
use crate::slice_access::SliceAccess;
use std::fmt;
use wasmtime::{Caller, Extern, Linker, Store, StoreLimits, StoreLimitsBuilder, Trap};

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
