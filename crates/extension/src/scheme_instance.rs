//! An instance of a guest scheme: its block and its functions.

use crate::block::{BlockView, BlockWriter, GuestRequirements, OPTIONS, QUEUES, SIZE, version};
use crate::instance::{COUNTERS, Fault};
use crate::module_instance::{LinkedModule, ModuleInstance, block_of, block_of_mut};
use schemes::Record;
use units::{Instant, Rate};
use wasmtime::TypedFunc;

/// See the [module](self).
pub(crate) struct SchemeInstance {
    module: ModuleInstance,
    /// The offset of the block.
    block: usize,
    arrive: TypedFunc<(), ()>,
    ready: TypedFunc<(), ()>,
    recount: TypedFunc<(), ()>,
}

impl SchemeInstance {
    /// Makes an instance that is not started yet.
    pub fn new(module: &LinkedModule) -> Result<SchemeInstance, Fault> {
        let mut module = module.instantiate()?;
        let (arrive, ready, recount) = (
            module.function("switchpath_arrive")?,
            module.function("switchpath_ready")?,
            module.function("switchpath_recount")?,
        );
        Ok(SchemeInstance { module, block: 0, arrive, ready, recount })
    }

    /// Reads its description, at most `longest` bytes.
    pub fn describe(&mut self, longest: usize) -> Result<String, Fault> {
        version(self.module.call_i32("switchpath_version")?).map_err(Fault::InvalidDecision)?;
        self.module.describe(longest)
    }

    /// Starts it with these options.
    pub fn start(&mut self, options: &[u64]) -> Result<(), Fault> {
        self.block = self.module.block::<SIZE>()?;
        self.block_writer().options(&options[..options.len().min(OPTIONS)]);
        self.module.start()?;
        let GuestRequirements { queues, .. } = self.view().shape();
        if !(1..=QUEUES).contains(&queues) {
            return Err(Fault::InvalidDecision(format!("it asks for {queues} queues; a guest has 1 to {QUEUES}")));
        }
        self.module.begin_work();
        Ok(())
    }

    /// The block, for reading.
    #[inline]
    pub fn view(&self) -> BlockView<'_> {
        BlockView(block_of(self.module.memory.data(&self.module.store), self.block))
    }

    /// The block, for writing.
    #[inline]
    pub fn block_writer(&mut self) -> BlockWriter<'_> {
        BlockWriter(block_of_mut(self.module.memory.data_mut(&mut self.module.store), self.block))
    }

    /// Tells it that packets have arrived: as many as the block has records.
    #[inline]
    pub fn arrive(&mut self) -> Result<(), Fault> {
        self.module.call(&self.arrive)
    }

    /// Tells it that the link can accept packets: as many as the block says.
    #[inline]
    pub fn ready(&mut self) -> Result<(), Fault> {
        self.module.call(&self.ready)
    }

    /// Tells it the queued packets. `part` is 1 for the first call, 2 for the last, 3 for the only one.
    pub fn recount(&mut self, now: Instant, rate: Rate, records: &[Record], part: usize) -> Result<(), Fault> {
        let mut sheet = self.block_writer();
        sheet.head(now, rate, records.len(), part);
        records.iter().enumerate().for_each(|(which, record)| sheet.record(which, record));
        self.module.call(&self.recount)
    }

    /// Bytes of memory that it has now.
    pub fn memory(&self) -> usize {
        self.module.memory_size()
    }

    /// The values of its counters.
    pub fn counters(&self) -> [u64; COUNTERS] {
        self.module.store.data().counters()
    }

    /// The last line that it logged, unless it has been reported already.
    pub fn take_new_line(&mut self) -> Option<&str> {
        self.module.store.data_mut().take_new_line()
    }

    /// The last line that it logged; empty if it logged none.
    pub fn line(&self) -> &str {
        self.module.store.data().line()
    }
}
