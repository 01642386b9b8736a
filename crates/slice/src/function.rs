//! The function `slice` of a path: decapsulation, parse, look-up and format of a batch (adr/0077).

use crate::code::{CodeEnv, CodeOption, Diversion, ExceptionCode, Formatted, InnerEdit, LookupKey, LookupResult};
use crate::counters::{SliceCells, SliceCounters};
use crate::exceptions::SliceException;
use crate::outer::{OuterUdp, outer_length, seal_outer, write_outer};
use crate::route::Routes;
use crate::rows::{Hop, RowAction};
use crate::table::{SharedSlices, SliceState, SliceTable, TableSlice};
use classifier::{RuleResult, TenantId, TenantKey};
use packet::{DropReason, Exception, Packet};
use plan::Call;
use plane::function::{Context, Function, FunctionMaker};
use plane::snapshot::PathSpec;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Makes the function for the paths of a router.
pub(crate) struct SliceFunctions(pub Arc<SharedSlices>);

impl FunctionMaker for SliceFunctions {
    fn make(&self, _: &Call, _: &PathSpec) -> Result<Box<dyn Function>, String> {
        Ok(Box::new(SliceFunction {
            shared: self.0.clone(),
            instances: Vec::new(),
            touched: Vec::new(),
            work: Vec::with_capacity(CHUNK),
            keys: Vec::with_capacity(CHUNK),
            results: Vec::with_capacity(CHUNK),
        }))
    }
}

/// Packets that all stages process before the next ones. Their records, headers and keys stay in the first-level cache between the stages.
const CHUNK: usize = 64;

/// The function on one path, port and worker.
struct SliceFunction {
    shared: Arc<SharedSlices>,
    /// By the number of the slice.
    instances: Vec<Option<Instance>>,
    /// The slices with packets in the batch.
    touched: Vec<TenantId>,
    // Scratch, so that a batch allocates nothing.
    work: Vec<Work>,
    keys: Vec<TenantKey>,
    results: Vec<Option<RuleResult>>,
}

/// A slice in this function.
struct Instance {
    /// The serial number of the slice.
    serial: u64,
    code: Box<dyn CodeOption>,
    cells: Arc<SliceCells>,
    counters: SliceCounters,
    /// Its code option has used up its steps in this batch: its further packets of the batch are dropped.
    is_throttled: bool,
    /// A packet of the batch was counted.
    is_changed: bool,
}

/// A packet of the batch that belongs to a slice.
#[derive(Clone, Copy)]
struct Work {
    /// Its position in the batch.
    at: usize,
    slice: TenantId,
    interface: u16,
    key: LookupKey,
    /// The position of its result in the present look-up.
    result: usize,
    /// Its fate is in its record.
    is_done: bool,
}

/// The result of a stage for a packet that it does not divert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its key is to be looked up.
    LookUp,
    /// It is an outer packet again.
    Sent,
    /// Its route leads elsewhere.
    NoRoute,
}

impl Instance {
    fn new(slice: &SliceState, dry_run: bool) -> Result<Instance, String> {
        // A dry run counts beside the counters.
        let cells = if dry_run { Arc::new(SliceCells::new(slice.indices, 0)) } else { slice.add_cells() };
        let code = (slice.code.make)(&slice.config)?;
        let counters = SliceCounters::default();
        Ok(Instance { serial: slice.serial, code, cells, counters, is_throttled: false, is_changed: false })
    }
}

fn refuse(packet: &mut Packet, reason: DropReason) {
    packet.meta_mut().refused = reason.index() as u8 + 1;
}

/// The message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_string())
}

impl Function for SliceFunction {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        // One value for the batch. It is not kept: an idle function must not keep old filters in memory.
        let table = self.shared.table.latest();
        let mut routes = Routes::default();
        for packets in packets.chunks_mut(CHUNK) {
            self.process_chunk(&mut Batch { context, table: &table, packets }, &mut routes);
        }
        for slice in self.touched.drain(..) {
            if let Some(Some(instance)) = self.instances.get_mut(usize::from(slice.0)) {
                (instance.is_throttled, instance.is_changed) = (false, false);
                instance.cells.publish(&instance.counters);
            }
        }
        // All packets that were not diverted before are now.
        packets.is_empty()
    }
}

/// Packets of one call, and what decides about them.
struct Batch<'a> {
    context: Context<'a>,
    table: &'a SliceTable,
    packets: &'a mut [Packet],
}

impl SliceFunction {
    /// All stages for some packets.
    fn process_chunk(&mut self, batch: &mut Batch<'_>, routes: &mut Routes) {
        self.work.clear();
        for (at, packet) in batch.packets.iter_mut().enumerate() {
            if packet.meta().refused | packet.meta().exception == 0 {
                self.receive((batch.context, batch.table), at, packet);
            }
        }
        self.parse(batch);
        for is_last in [false, true] {
            if !self.look_up(batch.table) {
                break;
            }
            self.format(is_last, batch, routes);
        }
    }

    /// The instance of a slice; a new one if the slice has changed.
    fn instance(&mut self, slice: &SliceState, dry_run: bool) -> Result<&mut Instance, String> {
        let at = usize::from(slice.id.0);
        if self.instances.len() <= at {
            self.instances.resize_with(at + 1, || None);
        }
        let place = &mut self.instances[at];
        if place.as_ref().is_none_or(|instance| instance.serial != slice.serial) {
            *place = None;
        }
        let instance = match place {
            Some(instance) => instance,
            None => place.insert(Instance::new(slice, dry_run)?),
        };
        if !std::mem::replace(&mut instance.is_changed, true) {
            self.touched.push(slice.id);
        }
        Ok(instance)
    }

    /// Receives a packet: finds its slice, and removes the outer headers.
    fn receive(&mut self, (context, table): (Context<'_>, &SliceTable), at: usize, packet: &mut Packet) {
        let outer = OuterUdp::of(packet);
        let place = outer.as_ref().and_then(|outer| outer.as_ref().ok()).map(|outer| outer.place);
        let owner = place.and_then(|place| table.interface(place.ip(), place.port()));
        let found = owner.and_then(|(id, interface)| Some((table.slice(id)?, interface)));
        let (slice, interface, outer) = match (found, outer) {
            (Some((slice, interface)), Some(Ok(outer))) => (&slice.shared, interface, outer),
            (_, Some(Err(reason))) => return refuse(packet, reason),
            _ => return refuse(packet, DropReason::SlicePort),
        };
        let bytes = packet.len() - usize::from(packet.meta().l3);
        let Ok(instance) = self.instance(slice, context.dry_run) else {
            return refuse(packet, DropReason::SliceFault);
        };
        instance.counters.received += 1;
        instance.counters.received_bytes += bytes as u64;
        if let Err(reason) = outer.remove(packet) {
            instance.counters.header_drops += 1;
            return refuse(packet, reason);
        }
        let (slice, key) = (slice.id, LookupKey::default());
        self.work.push(Work { at, slice, interface, key, result: 0, is_done: false });
    }

    /// Parses the packets. A run of packets of one slice is one call into its code option as far as panics are concerned.
    fn parse(&mut self, batch: &mut Batch<'_>) {
        let SliceFunction { work, instances, .. } = self;
        for run in work.chunk_by_mut(|a, b| a.slice == b.slice) {
            let Some((slice, instance)) = slice_of(run, batch.table, instances) else { continue };
            contain(slice, instance, run, batch, |instance, work, packet| {
                let mut env = CodeEnv::new(&slice.shared.memory, work.interface, slice.shared.code.parse_steps);
                let parsed = instance.code.parse(packet.bytes(), &mut env);
                work.key = env.fault().map_or(parsed, Err)?;
                Ok(Step::LookUp)
            });
        }
    }

    /// Looks up the keys of all packets that continue. False if there are none.
    fn look_up(&mut self, table: &SliceTable) -> bool {
        let SliceFunction { work, keys, results, shared, .. } = self;
        keys.clear();
        for work in work.iter_mut().filter(|work| !work.is_done) {
            work.result = keys.len();
            keys.push(TenantKey { tenant: work.slice, key: work.key.opaque() });
        }
        results.clear();
        results.resize(keys.len(), None);
        table.filters.look_up(keys, results);
        // In a large table the rows of a chunk are far from each other.
        results.iter().flatten().for_each(|result| shared.rows.prefetch(result.action));
        !keys.is_empty()
    }

    /// Acts on the results of a look-up. In the last round no packet may be looked up again.
    fn format(&mut self, is_last: bool, batch: &mut Batch<'_>, routes: &mut Routes) {
        let SliceFunction { work, instances, results, shared, .. } = self;
        let context = batch.context;
        for run in work.chunk_by_mut(|a, b| a.slice == b.slice) {
            let Some((slice, instance)) = slice_of(run, batch.table, instances) else { continue };
            contain(slice, instance, run, batch, |instance, work, packet| {
                let result = results.get(work.result).copied().flatten();
                let row = result.and_then(|result| shared.rows.read(result.action));
                let (Some(result), Some(row)) = (result, row) else {
                    let unmatched = Diversion::Exception(ExceptionCode::NoMatch);
                    return Err(if slice.shared.drops_unmatched { Diversion::Policy } else { unmatched });
                };
                instance.cells.count_hit(result.counter);
                row.index.into_iter().for_each(|index| instance.cells.count_index(index, packet.len()));
                let hop = match row.action {
                    RowAction::Send(hop) => hop,
                    RowAction::Exception(code) => return Err(Diversion::Exception(code)),
                    RowAction::Drop => return Err(Diversion::Policy),
                };
                let of_filter = LookupResult { queue: hop.queue, interface: hop.interface, data: row.data };
                let mut env = CodeEnv::new(&slice.shared.memory, work.interface, slice.shared.code.format_steps);
                let formatted = instance.code.format(&mut InnerEdit::new(packet), &of_filter, &mut env);
                match env.fault().map_or(formatted, Err)? {
                    Formatted::Send => send(packet, slice, hop, context, routes),
                    // Two look-ups are the bound of a packet.
                    Formatted::Again(_) if is_last => Err(Diversion::OutOfMemory),
                    Formatted::Again(key) => {
                        work.key = key;
                        Ok(Step::LookUp)
                    }
                }
            });
        }
    }
}

/// The slice of a run, and its instance.
fn slice_of<'t, 'i>(
    run: &[Work],
    table: &'t SliceTable,
    instances: &'i mut [Option<Instance>],
) -> Option<(&'t TableSlice, &'i mut Instance)> {
    let id = run.first()?.slice;
    Some((table.slice(id)?, instances.get_mut(usize::from(id.0))?.as_mut()?))
}

/// Writes the outer headers, and gives the packet back to the classifier.
fn send(
    packet: &mut Packet,
    slice: &TableSlice,
    hop: Hop,
    context: Context<'_>,
    routes: &mut Routes,
) -> Result<Step, Diversion> {
    let from = slice.interfaces.get(usize::from(hop.interface)).copied().flatten();
    // The meta-interface is not deleted before the filter, but the packet may have become too long.
    let Some(from) = from.filter(|from| write_outer(packet, *from, hop.next)) else { return Err(Diversion::Malformed) };
    let route = routes.find(hop.next.ip(), packet, context);
    let Some((_, mtu)) = route.filter(|(port, _)| *port == hop.port) else {
        packet.meta_mut().exception = 0;
        return Ok(Step::NoRoute);
    };
    if packet.len() - usize::from(packet.meta().l3) > usize::from(mtu) {
        // The slow path gets the packet without the headers.
        packet.meta_mut().exception = 0;
        packet.shift(outer_length(hop.next.ip()) as isize);
        return Err(Diversion::Exception(ExceptionCode::Mtu));
    }
    seal_outer(packet, from.ip(), hop.next.ip());
    packet.meta_mut().set_share_by_rule(hop.share);
    Ok(Step::Sent)
}

/// Calls `call` for each packet of a run that continues, and acts on its outcome. A panic ends the packet and suspends the slice.
fn contain(
    slice: &TableSlice,
    instance: &mut Instance,
    run: &mut [Work],
    batch: &mut Batch<'_>,
    mut call: impl FnMut(&mut Instance, &mut Work, &mut Packet) -> Result<Step, Diversion>,
) {
    let mut next = 0;
    while next < run.len() {
        // The position outlives a panic, so that the packet is known.
        let position = &mut next;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            while let Some(work) = run.get_mut(*position) {
                let packet = &mut batch.packets[work.at];
                if !work.is_done {
                    let is_stopped = instance.is_throttled || slice.shared.suspended.load(Relaxed);
                    let outcome = (!is_stopped).then(|| call(instance, work, packet));
                    settle(&slice.shared, instance, work, packet, outcome, batch.context);
                }
                *position += 1;
            }
        }));
        if let Err(panic) = caught {
            if !batch.context.dry_run {
                slice.shared.fail(panic_text(&*panic));
            }
            let work = &mut run[next];
            work.is_done = true;
            instance.counters.faults += 1;
            let packet = &mut batch.packets[work.at];
            packet.meta_mut().exception = 0;
            refuse(packet, DropReason::SliceFault);
            // The packets behind it find the slice suspended.
            next += 1;
        }
    }
}

/// Acts on the outcome of a call: `None` if there was none, because the slice is stopped.
fn settle(
    slice: &SliceState,
    instance: &mut Instance,
    work: &mut Work,
    packet: &mut Packet,
    outcome: Option<Result<Step, Diversion>>,
    context: Context<'_>,
) {
    let counters = &mut instance.counters;
    work.is_done = outcome != Some(Ok(Step::LookUp));
    let reason = match outcome {
        Some(Ok(Step::LookUp)) => return,
        Some(Ok(Step::Sent)) => {
            counters.forwarded += 1;
            counters.forwarded_bytes += (packet.len() - usize::from(packet.meta().l3)) as u64;
            return;
        }
        Some(Ok(Step::NoRoute)) => {
            counters.route_drops += 1;
            DropReason::SliceRoute
        }
        Some(Err(Diversion::Exception(code))) => {
            instance.is_throttled |= code == ExceptionCode::OverBudget;
            let copy = || SliceException {
                code,
                interface: work.interface,
                key: work.key,
                arrived: packet.meta().timestamp,
                packet: packet.bytes().into(),
            };
            if context.dry_run || slice.exceptions.push(context.now, copy) {
                counters.exceptions += 1;
                packet.meta_mut().exception = Exception::Delivered as u8;
                return;
            }
            counters.lost_exceptions += 1;
            DropReason::SliceException
        }
        Some(Err(Diversion::Malformed)) => {
            counters.malformed += 1;
            DropReason::SliceMalformed
        }
        Some(Err(Diversion::Policy)) => {
            counters.policy_drops += 1;
            DropReason::SlicePolicy
        }
        Some(Err(Diversion::OutOfMemory)) => {
            counters.faults += 1;
            DropReason::SliceFault
        }
        None => {
            counters.suspended += 1;
            DropReason::SliceSuspended
        }
    };
    refuse(packet, reason);
}
