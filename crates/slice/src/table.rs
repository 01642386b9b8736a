//! The slices as workers see them: one published value, with the filters of all tenants.

use crate::code::{CodeOption, SliceCode};
use crate::counters::{SliceCells, SliceCounters};
use crate::cpu_share::CpuShare;
use crate::exceptions::ExceptionQueue;
use crate::memory::SliceMemory;
use crate::outer::address_bits;
use crate::rows::ResultRows;
use classifier::{Published, TenantId, TenantTable};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::{Nanos, Parts, PortId, ShareId};

/// UDP ports of an address.
const PORTS: usize = 1 << 16;

/// The values that workers and the control side share.
pub(crate) struct SharedSlices {
    pub table: Published<SliceTable>,
    pub rows: ResultRows,
    /// Code options that were replaced. The control side frees them, because that is slow for guests.
    retired: Mutex<Vec<Box<dyn CodeOption>>>,
    /// Measures the processor time of the thread; none in virtual time.
    pub clock: OnceLock<fn() -> Nanos>,
}

impl SharedSlices {
    pub fn new(table: Published<SliceTable>, rows: ResultRows) -> SharedSlices {
        SharedSlices { table, rows, retired: Mutex::default(), clock: OnceLock::new() }
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Box<dyn CodeOption>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a code option that no packet needs, until [`SharedSlices::free_retired`].
    pub fn retire(&self, code: Box<dyn CodeOption>) {
        self.retired().push(code);
    }

    pub fn free_retired(&self) {
        self.table.free_retired();
        drop(std::mem::take(&mut *self.retired()));
    }
}

/// The slices, their meta-interfaces and filters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceTable {
    /// For each address, as its [bits](address_bits), the slice and the number of the meta-interface at each UDP port; zero for none. No slice has the number zero.
    ports: Vec<(u128, Arc<[u32]>)>,
    /// By the number of the slice.
    pub slices: Vec<Option<TableSlice>>,
    /// A slice has a limit of processor time.
    pub is_metered: bool,
    /// How often a slice was deleted or got another code option: instances of the old one are of no use.
    pub ended: u64,
    pub filters: Arc<TenantTable>,
}

/// A slice, the addresses of its meta-interfaces by their numbers, and its queues.
#[derive(Clone, Debug)]
pub(crate) struct TableSlice {
    pub shared: Arc<SliceState>,
    pub interfaces: Arc<[Option<SocketAddr>]>,
    /// The leaf and the port of each queue, in the order of their numbers.
    pub queues: Arc<[(u16, (ShareId, PortId))]>,
}

impl TableSlice {
    /// The leaf and the port of a queue.
    pub fn queue(&self, number: u16) -> Option<(ShareId, PortId)> {
        let at = self.queues.binary_search_by_key(&number, |(known, _)| *known).ok()?;
        Some(self.queues[at].1)
    }
}

impl SliceTable {
    /// The slice and the meta-interface at an address and a UDP port.
    #[inline(always)]
    pub fn interface(&self, (address, port): (u128, u16)) -> Option<(TenantId, u16)> {
        let (_, ports) = self.ports.iter().find(|(known, _)| *known == address)?;
        let entry = ports[usize::from(port)];
        (entry != 0).then_some((TenantId((entry >> 16) as u16), entry as u16))
    }

    /// Gives an address and port to a meta-interface, or to none.
    pub fn set_interface(&mut self, place: SocketAddr, owner: Option<(TenantId, u16)>) {
        let entry = owner.map_or(0, |(slice, number)| u32::from(slice.0) << 16 | u32::from(number));
        let address = address_bits(place.ip());
        let known = self.ports.iter().position(|(known, _)| *known == address);
        let known = known.unwrap_or_else(|| {
            self.ports.push((address, vec![0; PORTS].into()));
            self.ports.len() - 1
        });
        Arc::make_mut(&mut self.ports[known].1)[usize::from(place.port())] = entry;
        self.ports.retain(|(_, ports)| ports.iter().any(|entry| *entry != 0));
    }

    pub fn slice(&self, slice: TenantId) -> Option<&TableSlice> {
        self.slices.get(usize::from(slice.0))?.as_ref()
    }
}

/// Why the code option of a slice panicked.
#[derive(Debug, Default)]
struct Failure {
    text: Option<String>,
    is_reported: bool,
}

/// A slice, from its creation to its end.
#[derive(Debug)]
pub(crate) struct SliceState {
    pub id: TenantId,
    /// A number that no other slice has or had.
    pub serial: u64,
    /// Its first serial number, which identifies the slice to packets that return from its slow path.
    pub created: u64,
    pub code: SliceCode,
    pub memory: SliceMemory,
    /// Its statistics indices.
    pub indices: usize,
    /// Counters of filters are below this number.
    pub filters: u32,
    /// True if packets without a filter are dropped instead of going to the slow path.
    pub drops_unmatched: bool,
    pub exceptions: Arc<ExceptionQueue>,
    pub cpu: Arc<CpuShare>,
    pub suspended: AtomicBool,
    failure: Mutex<Failure>,
    /// Those of ended function instances, then one for each instance.
    cells: Arc<Mutex<Vec<Arc<SliceCells>>>>,
}

impl SliceState {
    pub fn new(
        (id, serial): (TenantId, u64),
        code: SliceCode,
        (memory, indices, filters): (SliceMemory, usize, u32),
        (drops_unmatched, exceptions, cpu): (bool, ExceptionQueue, Option<Parts>),
    ) -> SliceState {
        SliceState {
            id,
            serial,
            created: serial,
            code,
            memory,
            indices,
            filters,
            drops_unmatched,
            exceptions: Arc::new(exceptions),
            cpu: Arc::new(CpuShare::new(cpu)),
            suspended: AtomicBool::new(false),
            failure: Mutex::default(),
            cells: Arc::new(Mutex::new(vec![Arc::new(SliceCells::new(indices, filters))])),
        }
    }

    /// The same slice, with a serial number for new function instances, which use this code option and memory. It has no failure, and is suspended only
    /// if it was without one. The counters continue.
    pub fn renewed(&self, serial: u64, code: SliceCode, memory: SliceMemory) -> SliceState {
        let is_suspended = self.suspended.load(Relaxed) && self.failure().is_none();
        SliceState {
            id: self.id,
            serial,
            created: self.created,
            code,
            memory,
            indices: self.indices,
            filters: self.filters,
            drops_unmatched: self.drops_unmatched,
            exceptions: self.exceptions.clone(),
            cpu: self.cpu.clone(),
            suspended: AtomicBool::new(is_suspended),
            failure: Mutex::default(),
            cells: self.cells.clone(),
        }
    }

    fn cells(&self) -> MutexGuard<'_, Vec<Arc<SliceCells>>> {
        // A holder does not panic half-way through a change.
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The function instances that process its packets.
    pub fn running(&self) -> usize {
        self.cells()[1..].iter().filter(|cells| Arc::strong_count(cells) > 1).count()
    }

    /// New cells, for a function instance.
    pub fn add_cells(&self) -> Arc<SliceCells> {
        let cells = Arc::new(SliceCells::new(self.indices, self.filters));
        self.cells().push(cells.clone());
        cells
    }

    fn lock_failure(&self) -> MutexGuard<'_, Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Suspends the slice because its code option panicked.
    pub fn fail(&self, failure: String) {
        *self.lock_failure() = Failure { text: Some(failure), is_reported: false };
        self.suspended.store(true, Relaxed);
    }

    /// The failure, if the code option panicked.
    pub fn failure(&self) -> Option<String> {
        self.lock_failure().text.clone()
    }

    /// The failure, once.
    pub fn take_new_failure(&self) -> Option<String> {
        let mut failure = self.lock_failure();
        let is_reported = std::mem::replace(&mut failure.is_reported, true);
        failure.text.clone().filter(|_| !is_reported)
    }

    fn sum<T>(&self, start: T, mut add: impl FnMut(&mut T, &SliceCells)) -> T {
        let mut cells = self.cells();
        // Instances end with their generation. The first cells belong to none, and get what ended ones have counted.
        let (ended, running) = cells.drain(1..).partition(|cells| Arc::strong_count(cells) == 1);
        let (ended, running): (Vec<Arc<SliceCells>>, Vec<Arc<SliceCells>>) = (ended, running);
        cells.extend(running);
        ended.iter().for_each(|ended| cells[0].absorb(ended));
        let mut sum = start;
        cells.iter().for_each(|cells| add(&mut sum, cells));
        sum
    }

    pub fn counters(&self) -> SliceCounters {
        let start = SliceCounters { limited_reinjections: self.exceptions.limited(), ..SliceCounters::default() };
        self.sum(start, |sum, cells| *sum += cells.counters())
    }

    /// The packets of a filter since its counter was first used for the slice.
    pub fn hits(&self, counter: u32) -> u64 {
        self.sum(0, |sum, cells| *sum += cells.hits(counter))
    }

    /// Packets and bytes of an index.
    pub fn index(&self, index: usize) -> [u64; 2] {
        self.sum([0; 2], |sum, cells| {
            let cells = cells.index(index);
            *sum = [sum[0] + cells[0], sum[1] + cells[1]];
        })
    }
}
