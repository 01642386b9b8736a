//! The control side of slices: makes all changes, checks quotas, and publishes the result to the workers.

mod codes;
mod definition;
mod filters;
mod memory;
mod queues;
mod slow_path;

use crate::code::{CODE_OPTIONS, CodeRegistration, DoubleRunCounts, DoubleRunReport, SliceCode};
use crate::counters::SliceCounters;
use crate::exceptions::ExceptionQueue;
use crate::function::SliceFunctions;
use crate::memory::SliceMemory;
use crate::outer::address_bits;
use crate::rows::ResultRows;
use crate::spec::{SliceError, SliceSpec};
use crate::table::{SharedSlices, SliceState, SliceTable, TableSlice};
use classifier::{Published, ReusedNumbers, TenantFilters, TenantId};
use codes::CodeCatalogue;
pub use codes::CodeSwap;
pub use filters::FilterReport;
use filters::Installed;
pub use memory::MemoryVersion;
use memory::StagedMemory;
use packet::containment;
use plan::Name;
use plane::Router;
use plane::function::SLICE;
use queues::{Queue, Reservation};
pub use queues::{ReservationReport, SliceQueueReport};
pub use slow_path::ReturnedPackets;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use units::Nanos;

/// The most slices of a router.
const SLICES: usize = 2047;
/// Bytes of memory for the code options of all slices.
const MEMORY: u64 = 64 << 20;
/// Statistics indices of all slices.
const INDICES: usize = 1 << 20;
/// Statistics indices of one slice: a filter has 16 bits for its index.
const MOST_INDICES: usize = u16::MAX as usize;
/// Meta-interfaces of one slice.
const MOST_INTERFACES: usize = 1024;
/// Bytes of a slice's name, so that the names of its shares are short enough.
const LONGEST_NAME: usize = 20;

/// A slice as the control side has it.
struct Slice {
    spec: SliceSpec,
    /// Its code option. That of `state` is another one during a double run.
    code: SliceCode,
    double_run: Option<Arc<DoubleRunCounts>>,
    state: Arc<SliceState>,
    staged: StagedMemory,
    interfaces: BTreeMap<u16, SocketAddr>,
    reservations: BTreeMap<crate::spec::SchedulerId, Reservation>,
    queues: BTreeMap<u16, Queue>,
    filters: BTreeMap<u32, Installed>,
}

/// The slices of a router.
// Large: the control side of slices has a method for each change and each report.
pub struct Slices {
    shared: Arc<SharedSlices>,
    /// The table to be published next.
    draft: SliceTable,
    filters: TenantFilters,
    rows: ReusedNumbers,
    ids: ReusedNumbers,
    serial: u64,
    slices: BTreeMap<Name, Slice>,
    catalogue: CodeCatalogue,
}

/// The state of a slice.
#[derive(Clone, Debug)]
pub struct SliceReport {
    /// Its definition.
    pub spec: SliceSpec,
    /// The version of its code option.
    pub code_version: u32,
    /// A hash of the module of its code option, if that is a guest.
    pub code_digest: Option<u64>,
    /// The results so far of a code option that may replace it.
    pub double_run: Option<DoubleRunReport>,
    /// True if its packets are dropped.
    pub is_suspended: bool,
    /// Why its code option panicked.
    pub failure: Option<String>,
    /// The fates of its packets.
    pub counters: SliceCounters,
    /// The processor time of its parse and format, if it has a limit.
    pub cpu_used: Nanos,
    /// The version of its memory.
    pub memory: MemoryVersion,
    /// The address and port of each meta-interface.
    pub interfaces: Vec<(u16, SocketAddr)>,
    /// Its parts of schedulers.
    pub reservations: Vec<ReservationReport>,
    /// Its queues.
    pub queues: Vec<SliceQueueReport>,
    /// Its filters, and the entries of the table that they use.
    pub filters: usize,
    /// See `filters`.
    pub entries: usize,
}

impl Default for Slices {
    fn default() -> Slices {
        Slices::new(TenantFilters::default())
    }
}

impl Slices {
    /// No slices. `filters` is the table that they will share. From now on, panics of code options write nothing to the standard error of the process.
    pub fn new(filters: TenantFilters) -> Slices {
        containment::silence_contained_panics();
        let mut draft = SliceTable::default();
        draft.filters = filters.table();
        let rows = ReusedNumbers::new(filters.free_entries());
        let table = Published::new(draft.clone());
        let shared = Arc::new(SharedSlices::new(table, ResultRows::new(rows.most())));
        let ids = ReusedNumbers::new(SLICES);
        Slices {
            shared,
            draft,
            filters,
            rows,
            ids,
            serial: 0,
            slices: BTreeMap::new(),
            catalogue: CodeCatalogue { codes: CODE_OPTIONS.iter().collect(), guests: None },
        }
    }

    /// Measures the processor time of slices with a limit by this clock of the calling thread. Without it, as in virtual time, each packet has a fixed cost.
    pub fn measure_time(&self, clock: fn() -> Nanos) {
        // A second clock would not change the measure.
        let _ = self.shared.clock.set(clock);
    }

    /// Provides the function `slice` to the paths of a router.
    pub fn provide(&self, router: &mut Router) {
        router.provide_service(SLICE.name, Arc::new(SliceFunctions(self.shared.clone())));
    }

    /// Makes a code option available that is not one of [`CODE_OPTIONS`].
    pub fn register_code(&mut self, code: &'static CodeRegistration) {
        self.catalogue.codes.push(code);
    }

    /// The code options that slices may use.
    pub fn codes(&self) -> &[&'static CodeRegistration] {
        &self.catalogue.codes
    }

    fn slice(&self, name: &str) -> Result<&Slice, SliceError> {
        self.slices.get(name).ok_or_else(|| self.unknown(name))
    }

    fn slice_mut(&mut self, name: &str) -> Result<&mut Slice, SliceError> {
        if self.slices.contains_key(name) {
            return Ok(self.slices.get_mut(name).expect("it is there"));
        }
        Err(self.unknown(name))
    }

    fn unknown(&self, name: &str) -> SliceError {
        let known = self.slices.keys().map(|known| &**known);
        SliceError::new(format!("there is no slice '{name}'"), plan::did_you_mean(name, known))
    }

    /// Publishes the draft. Numbers that only older tables have are free afterwards, when no worker has such a table.
    fn publish(&mut self) -> u64 {
        self.shared.table.publish(self.draft.clone());
        self.shared.table.version()
    }

    /// Frees what workers no longer use: old tables, and the code options of deleted slices. To be called now and then.
    pub fn free_ended(&self) {
        self.shared.free_retired();
    }

    /// Frees old tables, and the numbers that only they have.
    fn recover(&mut self) {
        self.free_ended();
        let oldest = self.shared.table.oldest_version();
        self.rows.recover(oldest);
        self.ids.recover(oldest);
    }

    /// Publishes the meta-interfaces and the queues of a slice.
    fn publish_slice(&mut self, name: &str) {
        let Some(slice) = self.slices.get(name) else { return };
        let numbers = slice.interfaces.keys().last().map_or(0, |last| usize::from(*last) + 1);
        let mut interfaces = vec![None; numbers];
        slice.interfaces.iter().for_each(|(number, place)| interfaces[usize::from(*number)] = Some(*place));
        let at = usize::from(slice.state.id.0);
        if self.draft.slices.len() <= at {
            self.draft.slices.resize(at + 1, None);
        }
        let queues = slice.queues.iter().map(|(number, queue)| (*number, queue.place)).collect();
        let shared = slice.state.clone();
        self.draft.slices[at] = Some(TableSlice { shared, interfaces: interfaces.into(), queues });
        self.draft.is_metered |= slice.spec.quota.cpu.is_some();
        self.publish();
    }

    /// Makes a slice, without meta-interfaces, queues and filters.
    ///
    /// # Errors
    /// The name is in use or wrong, the code option does not exist or refuses its settings, or the router has not so many resources left.
    pub fn create(&mut self, spec: SliceSpec) -> Result<(), SliceError> {
        check_name(&spec.name)?;
        if self.slices.contains_key(&spec.name) {
            let hint = "delete it first, or use another name";
            return Err(SliceError::new(format!("there is a slice '{}' already", spec.name), hint));
        }
        let code = self.catalogue.find(&spec.code, &spec.config)?;
        self.check_resources(&spec, code.memory)?;
        let memory = SliceMemory::new(spec.quota.memory.get() as usize);
        let code = code.prepared(&memory, 1).map_err(|reason| SliceError::new(reason, "correct the setting"))?;
        self.recover();
        let Some(number) = self.ids.take() else {
            return Err(SliceError::new("the numbers of slices are in use", "delete a slice that is not needed"));
        };
        // Number zero is no slice.
        let id = TenantId(number as u16 + 1);
        if let Err(error) = self.filters.create(id, spec.quota.filters) {
            self.ids.give_back(number);
            return Err(SliceError::new(error.to_string(), "ask for fewer filters, or delete a slice"));
        }
        self.serial += 1;
        let state = SliceState::new(
            (id, self.serial),
            code.clone(),
            (memory, spec.quota.indices, self.filters.counters()),
            (spec.drops_unmatched, ExceptionQueue::new(spec.quota.exceptions), spec.quota.cpu),
        );
        let name = spec.name.clone();
        let slice = Slice {
            staged: StagedMemory::default(),
            spec,
            code,
            double_run: None,
            state: Arc::new(state),
            interfaces: BTreeMap::new(),
            reservations: BTreeMap::new(),
            queues: BTreeMap::new(),
            filters: BTreeMap::new(),
        };
        self.slices.insert(name.clone(), slice);
        self.draft.filters = self.filters.table();
        self.publish_slice(&name);
        Ok(())
    }

    fn check_resources(&self, spec: &SliceSpec, least_memory: usize) -> Result<(), SliceError> {
        let quotas = || self.slices.values().map(|slice| slice.spec.quota);
        let refuse = |what: &str, wanted: u64, left: u64| {
            let hint = format!("ask for at most {left}, or delete a slice");
            Err(SliceError::new(format!("{wanted} {what} are more than the {left} that are left"), hint))
        };
        let memory = MEMORY - quotas().map(|quota| quota.memory.get()).sum::<u64>();
        let indices = INDICES - quotas().map(|quota| quota.indices).sum::<usize>();
        let (quota, wanted) = (spec.quota, spec.quota.memory.get());
        if self.slices.len() >= SLICES {
            return refuse("slices", SLICES as u64 + 1, 0);
        }
        if wanted < least_memory as u64 {
            let reason = format!("the code option '{}' needs {least_memory} bytes of memory", spec.code);
            return Err(SliceError::new(reason, format!("ask for at least {least_memory} bytes")));
        }
        if wanted > memory {
            return refuse("bytes of memory", wanted, memory);
        }
        if quota.indices > indices.min(MOST_INDICES) {
            return refuse("statistics indices", quota.indices as u64, indices.min(MOST_INDICES) as u64);
        }
        if quota.interfaces > MOST_INTERFACES {
            return refuse("meta-interfaces", quota.interfaces as u64, MOST_INTERFACES as u64);
        }
        Ok(())
    }

    /// Deletes a slice with all that belongs to it. Its memory is zero afterwards.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn delete(&mut self, router: &mut Router, name: &str) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        // Packets that are under way in a batch are dropped from now on.
        slice.state.suspended.store(true, Relaxed);
        queues::remove_all(router, slice);
        let Some(slice) = self.slices.remove(name) else { return Err(self.unknown(name)) };
        let id = slice.state.id;
        slice.interfaces.values().for_each(|place| self.draft.set_interface(*place, None));
        self.draft.slices[usize::from(id.0)] = None;
        self.draft.ended += 1;
        self.draft.is_metered = self.slices.values().any(|slice| slice.spec.quota.cpu.is_some());
        self.filters.remove(id).map_err(|error| SliceError::new(error.to_string(), "report this error"))?;
        self.draft.filters = self.filters.table();
        let version = self.publish();
        self.rows.free(slice.filters.values().map(|filter| filter.row), version);
        self.ids.free([u32::from(id.0) - 1], version);
        slice.state.memory.clear();
        slice.state.exceptions.end();
        Ok(())
    }

    /// The slices that have failed since the last call, with their numbers and the failures.
    pub fn take_new_failures(&self) -> impl Iterator<Item = (&Name, u16, String)> {
        let failed = |(name, slice): (_, &Slice)| Some((name, slice.state.id.0, slice.state.take_new_failure()?));
        self.slices.iter().filter_map(failed)
    }

    /// Stops a slice, or starts it again. While it is stopped its packets are dropped.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn suspend(&mut self, name: &str, is_suspended: bool) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        if !is_suspended && slice.state.failure().is_some() {
            // The state of the code option that panicked may be inconsistent: each worker makes a new one.
            let (memory, running) = (slice.state.memory.clone(), slice.state.running());
            let code = slice.state.code.prepared(&memory, running);
            let code = code.map_err(|reason| SliceError::new(reason, "give the slice another code option"))?;
            self.renew(name, code, memory);
            return Ok(());
        }
        slice.state.suspended.store(is_suspended, Relaxed);
        Ok(())
    }

    /// Gives a slice a new state without failure, with this code option and memory, and the same counters and exceptions.
    fn renew(&mut self, name: &str, code: SliceCode, memory: SliceMemory) {
        self.serial += 1;
        let serial = self.serial;
        let Some(slice) = self.slices.get_mut(name) else { return };
        slice.state = Arc::new(slice.state.renewed(serial, code, memory));
        self.draft.ended += 1;
        self.publish_slice(name);
    }

    /// Gives a slice a meta-interface: packets to this address and UDP port belong to it.
    ///
    /// # Errors
    /// The address is none of the router, the port is in use, or the quota is used up.
    pub fn create_interface(
        &mut self,
        router: &Router,
        name: &str,
        (number, place): (u16, SocketAddr),
    ) -> Result<(), SliceError> {
        let snapshot = router.snapshot();
        if !snapshot.paths.iter().any(|path| path.receives_local) {
            let hint = "add a path with functions = [\"slice\"] and a match like \"udp dport 20000-29999\"";
            return Err(SliceError::new("no path of the configuration has the function 'slice'", hint));
        }
        if slow_path::interface_of(router, place.ip()).is_none() {
            let hint = "use an address of a port: see `switchpath show interfaces`";
            return Err(SliceError::new(format!("{} is no address of the router", place.ip()), hint));
        }
        if let Some((owner, other)) = self.draft.interface((address_bits(place.ip()), place.port())) {
            let owner = self.slices.iter().find(|(_, slice)| slice.state.id == owner).map(|(name, _)| name.clone());
            let reason = match owner {
                Some(owner) if *owner == *name => format!("{place} is meta-interface {other} of the slice"),
                // Another tenant must not learn its owner.
                _ => format!("{place} is in use"),
            };
            return Err(SliceError::new(reason, "use another port"));
        }
        let slice = self.slice_mut(name)?;
        if slice.interfaces.contains_key(&number) {
            return Err(SliceError::new(format!("there is a meta-interface {number} already"), "use another number"));
        }
        let most = slice.spec.quota.interfaces;
        if slice.interfaces.len() >= most || usize::from(number) >= MOST_INTERFACES {
            let hint = format!("number them from 0 to {}", MOST_INTERFACES - 1);
            return Err(SliceError::new(format!("the slice has a quota of {most} meta-interfaces"), hint));
        }
        slice.interfaces.insert(number, place);
        let id = slice.state.id;
        self.draft.set_interface(place, Some((id, number)));
        self.publish_slice(name);
        Ok(())
    }

    /// Takes a meta-interface from a slice.
    ///
    /// # Errors
    /// There is none, or a filter sends by it.
    pub fn delete_interface(&mut self, name: &str, number: u16) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        if let Some(position) = slice.filter_with(|_, interface| interface == number) {
            let reason = format!("the filter at position {position} sends by meta-interface {number}");
            return Err(SliceError::new(reason, "change the filter first"));
        }
        let Some(place) = slice.interfaces.remove(&number) else {
            return Err(SliceError::new(format!("there is no meta-interface {number}"), "see `switchpath slice list`"));
        };
        self.draft.set_interface(place, None);
        self.publish_slice(name);
        Ok(())
    }

    /// The entries of the table of filters that no slice has in its quota.
    pub fn free_filters(&self) -> usize {
        self.filters.free_entries()
    }

    /// The bytes of a slice's keys.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn key_bytes(&self, name: &str) -> Result<usize, SliceError> {
        Ok(self.slice(name)?.state.code.key_bytes)
    }

    /// The owners of slices: users and the names of their slices.
    pub fn owners(&self) -> impl Iterator<Item = (u32, &Name)> {
        self.slices.iter().filter_map(|(name, slice)| Some((slice.spec.owner.as_ref()?.uid()?, name)))
    }

    /// The names of all slices.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.slices.keys()
    }

    /// The state of a slice.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn report(&self, router: &Router, name: &str) -> Result<SliceReport, SliceError> {
        let slice = self.slice(name)?;
        let entries = self.filters.usage(slice.state.id).map_or(0, |usage| usage.entries);
        let (reservations, queues) = queues::reports(router, slice);
        Ok(SliceReport {
            spec: slice.spec.clone(),
            code_version: slice.code.version,
            code_digest: slice.code.digest,
            double_run: slice.double_run.as_deref().map(DoubleRunCounts::report),
            is_suspended: slice.state.suspended.load(Relaxed),
            failure: slice.state.failure(),
            counters: slice.state.counters(),
            cpu_used: slice.state.cpu.used(),
            memory: slice.staged.report(),
            interfaces: slice.interfaces.iter().map(|(number, place)| (*number, *place)).collect(),
            reservations,
            queues,
            filters: slice.filters.len(),
            entries,
        })
    }

    /// Packets and bytes of each statistics index of a slice.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn indices(&self, name: &str) -> Result<Vec<[u64; 2]>, SliceError> {
        let state = &self.slice(name)?.state;
        Ok((0..state.indices).map(|index| state.index(index)).collect())
    }
}

fn check_name(name: &str) -> Result<(), SliceError> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(valid) {
        let hint = format!("use 1 to {LONGEST_NAME} letters, digits, '-' and '_'");
        return Err(SliceError::new(format!("'{name}' is no name for a slice"), hint));
    }
    Ok(())
}
