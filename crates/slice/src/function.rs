//! The function `slice` of a path: decapsulation, parse, look-up and format of a batch (adr/0077).

use crate::code::{
    BatchPacket, CodeEnv, CodeOption, CodeStage, Diversion, ExceptionCode, Formatted, InnerEdit, LookupResult, data_mtu,
};
use crate::counters::{SliceCells, SliceCounters};
use crate::cpu_share::BatchTime;
use crate::exceptions::SliceException;
use crate::hop::NextHops;
use crate::outer::{LINK, OuterUdp};
use crate::reinjection::{MOST_ROUNDS, ReturnHeader, length_before};
use crate::rows::{ResultRows, RowWords};
use crate::table::{SharedSlices, SliceState, SliceTable, TableSlice};
use crate::work::{Step, Stop, Work};
use classifier::{RuleResult, TenantId, TenantKey};
use packet::containment;
use packet::{DropReason, Exception, Meta, Packet};
use plan::Call;
use plane::function::{Context, Function, FunctionMaker};
use plane::snapshot::PathSpec;
use std::iter::repeat;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use units::{Instant, Nanos, PortId, ShareId};

/// Makes the function for the paths of a router.
pub(crate) struct SliceFunctions(pub Arc<SharedSlices>);

impl FunctionMaker for SliceFunctions {
    fn make(&self, _: &Call, _: &PathSpec) -> Result<Box<dyn Function>, String> {
        Ok(Box::new(SliceFunction {
            shared: self.0.clone(),
            instances: Vec::new(),
            ended: 0,
            touched: Vec::new(),
            now: Instant::START,
            clock: None,
            hops: NextHops::new(),
            work: Vec::with_capacity(CHUNK),
            keys: Vec::with_capacity(CHUNK),
            results: Vec::with_capacity(CHUNK),
            batched: Vec::with_capacity(CHUNK),
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
    /// See [`SliceTable::ended`].
    ended: u64,
    /// The slices with packets in the batch.
    touched: Vec<TenantId>,
    /// The time of the batch.
    now: Instant,
    /// Measures processor time, if a slice has a limit.
    clock: Option<fn() -> Nanos>,
    hops: NextHops,
    // Scratch, so that a batch allocates nothing.
    work: Vec<Work>,
    keys: Vec<TenantKey>,
    results: Vec<Option<RuleResult>>,
    /// The packets, as positions in `work`, whose code options want the packets of a batch together.
    batched: Vec<(TenantId, usize)>,
}

/// A slice in this function.
struct Instance {
    /// The serial number of the slice.
    serial: u64,
    code: Box<dyn CodeOption>,
    /// See [`CodeOption::is_batched`].
    is_batched: bool,
    cells: Arc<SliceCells>,
    counters: SliceCounters,
    /// The received packets whose processor time has been charged, and those of them that found the slice stopped.
    charged: [u64; 2],
    /// Processor time of the batch that was measured for it alone.
    own_time: Nanos,
    /// Its code option has used up its steps in this batch: its further packets of the batch are dropped.
    is_throttled: bool,
    /// A packet of the batch was counted.
    is_changed: bool,
}

impl Instance {
    fn new(slice: &SliceState, dry_run: bool) -> Result<Instance, String> {
        // A dry run counts beside the counters.
        let cells = if dry_run { Arc::new(SliceCells::new(slice.indices, 0)) } else { slice.add_cells() };
        let code = slice.code.make(&slice.memory)?;
        Ok(Instance {
            serial: slice.serial,
            is_batched: code.is_batched(),
            code,
            cells,
            counters: SliceCounters::default(),
            charged: [0; 2],
            own_time: Nanos::ZERO,
            is_throttled: false,
            is_changed: false,
        })
    }

    /// Packets of the batch that it has processed, and those that found it stopped.
    fn uncharged(&self) -> [u64; 2] {
        let ([received, stopped], counters) = (self.charged, &self.counters);
        let stopped = counters.suspended - stopped;
        [(counters.received - received).saturating_sub(stopped), stopped]
    }
}

fn refuse(packet: &mut Packet, reason: DropReason) {
    packet.meta_mut().refused = reason.index() as u8 + 1;
}

impl Function for SliceFunction {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        // One value for the batch. It is not kept: an idle function must not keep old filters in memory.
        let (version, table) = self.shared.table.versioned();
        self.now = context.now;
        let is_metered = table.is_metered && !context.dry_run;
        self.clock = self.shared.clock.get().copied().filter(|_| is_metered);
        let time = is_metered.then(|| BatchTime::begin(self.clock));
        self.hops.adopt(version, context);
        if self.ended != table.ended {
            self.retire_ended(&table);
        }
        for packets in packets.chunks_mut(CHUNK) {
            self.process_chunk(&mut Batch { context, table: &table, packets });
        }
        if let Some(time) = time {
            self.charge(time, &table);
        }
        for slice in self.touched.drain(..) {
            if let Some(Some(instance)) = self.instances.get_mut(usize::from(slice.0)) {
                (instance.is_throttled, instance.is_changed) = (false, false);
                instance.cells.publish(&instance.counters);
            }
        }
        // All packets for this router are diverted now.
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
    fn process_chunk(&mut self, batch: &mut Batch<'_>) {
        let (context, table) = (batch.context, batch.table);
        self.work.clear();
        self.batched.clear();
        for (at, packet) in batch.packets.iter_mut().enumerate() {
            match (packet.meta().refused, packet.meta().exception) {
                (0, 0) => self.receive((context, table), at, packet),
                (0, exception) if exception == Exception::Originated as u8 => self.receive_returned(table, at, packet),
                _ => {}
            }
        }
        // Slice by slice, each in the order of its packets.
        self.batched.sort_unstable();
        self.begin(CodeStage::Parse, batch);
        self.parse(batch);
        for is_last in [false, true] {
            if !self.look_up(table) {
                break;
            }
            self.begin(CodeStage::Format, batch);
            self.format(is_last, batch);
        }
    }

    /// Charges the slices of the batch for its processor time. A guest's time was measured; the rest is divided by packets. A stopped slice is not charged, or a
    /// flood would stop it for good.
    fn charge(&mut self, time: BatchTime, table: &SliceTable) {
        let SliceFunction { touched, instances, now, .. } = self;
        let (mut weight, mut own) = (0, 0);
        for id in touched.iter() {
            if let Some(Some(instance)) = instances.get(usize::from(id.0)) {
                let [processed, stopped] = instance.uncharged();
                weight += BatchTime::weight(processed, stopped);
                own += instance.own_time.get();
            }
        }
        let shared = time.end(weight).get().saturating_sub(own);
        for id in touched.iter() {
            let (Some(Some(instance)), Some(slice)) = (instances.get_mut(usize::from(id.0)), table.slice(*id)) else {
                continue;
            };
            let [processed, _] = instance.uncharged();
            instance.charged = [instance.counters.received, instance.counters.suspended];
            let own = std::mem::take(&mut instance.own_time).get();
            let part = shared * BatchTime::weight(processed, 0) / weight.max(1);
            slice.shared.cpu.charge(*now, Nanos::new(own + part));
        }
    }

    /// The instance of a slice. Those of deleted slices were [retired](SliceFunction::retire_ended).
    #[inline(always)]
    fn instance(&mut self, slice: &SliceState, dry_run: bool) -> Result<&mut Instance, String> {
        let at = usize::from(slice.id.0);
        let is_known = |place: &Option<Instance>| place.as_ref().is_some_and(|instance| instance.is_changed);
        if !self.instances.get(at).is_some_and(is_known) {
            self.enter(slice, dry_run)?;
        }
        self.instances[at].as_mut().ok_or_else(String::new)
    }

    /// Prepares the instance of a slice for the first packet of a batch.
    #[inline(never)]
    fn enter(&mut self, slice: &SliceState, dry_run: bool) -> Result<(), String> {
        let at = usize::from(slice.id.0);
        if self.instances.len() <= at {
            self.instances.resize_with(at + 1, || None);
        }
        let place = &mut self.instances[at];
        let instance = match place {
            Some(instance) => instance,
            None => place.insert(Instance::new(slice, dry_run)?),
        };
        if !std::mem::replace(&mut instance.is_changed, true) {
            // Without credit it is stopped for the batch.
            instance.is_throttled = slice.cpu.is_exhausted(self.now);
            self.touched.push(slice.id);
        }
        Ok(())
    }

    /// Retires the instances of deleted slices and of replaced code options, which may get no packet again.
    #[cold]
    fn retire_ended(&mut self, table: &SliceTable) {
        self.ended = table.ended;
        for (place, slice) in self.instances.iter_mut().zip(table.slices.iter().map(Option::as_ref).chain(repeat(None)))
        {
            let serial = slice.map(|slice| slice.shared.serial);
            if let Some(old) = place.take_if(|instance| Some(instance.serial) != serial) {
                self.shared.retire(old.code);
            }
        }
    }

    /// Receives a packet: finds its slice, and removes the outer headers.
    fn receive(&mut self, (context, table): (Context<'_>, &SliceTable), at: usize, packet: &mut Packet) {
        if packet.meta().flags & Meta::LOCAL == 0 {
            // For another host, although the path matches it: the function `ip` forwards it.
            return;
        }
        let outer = match OuterUdp::of(packet) {
            Some(Ok(outer)) => outer,
            Some(Err(reason)) => return refuse(packet, reason),
            None => return refuse(packet, DropReason::SlicePort),
        };
        let owner = table.interface(outer.to).and_then(|(id, interface)| Some((table.slice(id)?, interface)));
        let Some((slice, interface)) = owner else { return refuse(packet, DropReason::SlicePort) };
        let slice = &*slice.shared;
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
        let is_batched = instance.is_batched;
        self.push(Work::received(at, slice.id, interface), is_batched);
    }

    /// Receives a packet of the slow path, and removes the headers in front of it.
    fn receive_returned(&mut self, table: &SliceTable, at: usize, packet: &mut Packet) {
        packet.meta_mut().exception = 0;
        let before = usize::from(packet.meta().l3) + length_before(packet.meta().flags & Meta::IPV6 != 0);
        let header = before.checked_sub(ReturnHeader::BYTES).and_then(|from| packet.bytes().get(from..before));
        let Some(header) = header.and_then(ReturnHeader::read) else { return refuse(packet, DropReason::SliceHeader) };
        let bytes = packet.len() - usize::from(packet.meta().l3) - ReturnHeader::BYTES;
        let slice = table.slice(TenantId(header.slice)).filter(|slice| slice.shared.created == header.serial);
        // It may have been deleted while the packet was under way.
        let Some(slice) = slice.filter(|_| packet.shift(before as isize)) else {
            return refuse(packet, DropReason::SlicePort);
        };
        // A dry run has no packets of the slow path.
        let Ok(instance) = self.instance(&slice.shared, false) else { return refuse(packet, DropReason::SliceFault) };
        instance.counters.received += 1;
        instance.counters.received_bytes += bytes as u64;
        instance.counters.reinjected += 1;
        let is_batched = instance.is_batched;
        let ReturnHeader { interface, key, queue, rounds, .. } = header;
        let work = Work::received(at, slice.shared.id, interface);
        self.push(Work { key: key.unwrap_or_default(), has_key: key.is_some(), queue, rounds, ..work }, is_batched);
    }

    #[inline(always)]
    fn push(&mut self, work: Work, is_batched: bool) {
        if is_batched {
            self.batched.push((work.slice, self.work.len()));
        }
        self.work.push(work);
    }

    /// Gives the packets of the batch to those code options that want them together.
    fn begin(&mut self, stage: CodeStage, batch: &Batch<'_>) {
        let clock = self.clock;
        let SliceFunction { work, instances, results, shared, batched, .. } = self;
        for of_slice in batched.chunk_by(|a, b| a.0 == b.0) {
            let id = of_slice[0].0;
            let is_suspended = |slice: &TableSlice| slice.shared.suspended.load(Relaxed);
            let Some(Some(instance)) = instances.get_mut(usize::from(id.0)) else { continue };
            if instance.is_throttled || batch.table.slice(id).is_none_or(is_suspended) {
                continue;
            }
            let packet = |(_, at): &(TenantId, usize)| {
                let work = work.get(*at).filter(|work| !work.is_done)?;
                let result = match stage {
                    CodeStage::Parse if work.has_key => return None,
                    CodeStage::Parse => LookupResult::default(),
                    CodeStage::Format => {
                        let (_, row) = row_of(work, results, &shared.rows)?;
                        let result = Some(row.result()).filter(|_| row.diversion().is_none())?;
                        LookupResult { queue: work.queue.unwrap_or(result.queue), ..result }
                    }
                };
                let bytes = batch.packets[work.at].bytes();
                Some(BatchPacket { position: work.at, interface: work.interface, bytes, result })
            };
            let begun = clock.map(|clock| clock());
            instance.code.begin(stage, &mut of_slice.iter().filter_map(packet));
            if let (Some(clock), Some(begun)) = (clock, begun) {
                instance.own_time += Nanos::new(clock().get().saturating_sub(begun.get()));
            }
        }
    }

    /// Parses the packets. A run of packets of one slice is one call into its code option as far as panics are concerned.
    fn parse(&mut self, batch: &mut Batch<'_>) {
        let SliceFunction { work, instances, .. } = self;
        let context = batch.context;
        for run in work.chunk_by_mut(|a, b| a.slice == b.slice) {
            let Some((slice, instance)) = slice_of(run, batch.table, instances) else { continue };
            contain(slice, instance, run, batch, |instance, work, packet| {
                if work.has_key {
                    return Ok(Step::LookUp);
                }
                let env = CodeEnv::new(&slice.shared.memory, work.interface, slice.shared.code.parse_steps);
                let mut env = env.at(work.at, context.now);
                let parsed = instance.code.parse(packet.bytes(), &mut env);
                work.key = env.fault().map_or(parsed, Err)?;
                Ok(Step::LookUp)
            });
        }
    }

    /// Looks up the keys of all packets that continue. False if there are none.
    fn look_up(&mut self, table: &SliceTable) -> bool {
        let SliceFunction { work, keys, results, shared, instances, .. } = self;
        keys.clear();
        for work in work.iter_mut().filter(|work| !work.is_done) {
            work.result = keys.len();
            keys.push(TenantKey { tenant: work.slice, key: work.key.opaque() });
        }
        results.clear();
        results.resize(keys.len(), None);
        table.filters.look_up(keys, results);
        // In a large table the rows and counters of a chunk are far from each other.
        for (key, result) in keys.iter().zip(results.iter()) {
            let Some(result) = result else { continue };
            shared.rows.prefetch(result.action);
            if let Some(Some(instance)) = instances.get(usize::from(key.tenant.0)) {
                instance.cells.prefetch_hit(result.counter);
            }
        }
        !keys.is_empty()
    }

    /// Acts on the results of a look-up. In the last round no packet may be looked up again.
    fn format(&mut self, is_last: bool, batch: &mut Batch<'_>) {
        let SliceFunction { work, instances, results, shared, hops, .. } = self;
        let context = batch.context;
        for run in work.chunk_by_mut(|a, b| a.slice == b.slice) {
            let Some((slice, instance)) = slice_of(run, batch.table, instances) else { continue };
            contain(slice, instance, run, batch, |instance, work, packet| {
                let Some((result, row)) = row_of(work, results, &shared.rows) else {
                    let unmatched = Diversion::Exception(ExceptionCode::NoMatch);
                    return Err(if slice.shared.drops_unmatched { Diversion::Policy } else { unmatched }.into());
                };
                instance.cells.count_hit(result.counter);
                row.index().into_iter().for_each(|index| instance.cells.count_index(index, packet.len()));
                if let Some(diversion) = row.diversion() {
                    return Err(diversion.into());
                }
                let (mut result, mut leaf) = (row.result(), row.leaf());
                if let Some(queue) = work.queue {
                    // It may have been deleted while the packet was under way.
                    let Some(of_queue) = slice.queue(queue) else { return Err(Stop::NoRoute) };
                    (result.queue, leaf) = (queue, of_queue);
                }
                let env = CodeEnv::new(&slice.shared.memory, work.interface, slice.shared.code.format_steps);
                let mut env = env.at(work.at, context.now);
                let formatted = instance.code.format(&mut InnerEdit::new(packet), &result, &mut env);
                if formatted == Err(Diversion::Exception(ExceptionCode::Mtu)) {
                    work.mtu = data_mtu(&result.data);
                }
                match env.fault().map_or(formatted, Err)? {
                    Formatted::Send => send((packet, work), slice, (&row, leaf), hops, context),
                    // Two look-ups are the bound of a packet.
                    Formatted::Again(_) if is_last => Err(Diversion::OutOfMemory.into()),
                    Formatted::Again(key) => {
                        work.key = key;
                        Ok(Step::LookUp)
                    }
                }
            });
        }
    }
}

/// The filter that decides about a packet, and its result.
#[inline(always)]
fn row_of(work: &Work, results: &[Option<RuleResult>], rows: &ResultRows) -> Option<(RuleResult, RowWords)> {
    let result = results.get(work.result).copied().flatten()?;
    Some((result, rows.read(result.action)?))
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
#[inline(always)]
fn send(
    (packet, work): (&mut Packet, &mut Work),
    slice: &TableSlice,
    (row, (share, port)): (&RowWords, (ShareId, PortId)),
    hops: &mut NextHops,
    context: Context<'_>,
) -> Result<Step, Stop> {
    let hop = hops.of(row, (slice, packet.meta().in_interface), context).ok_or(Diversion::Malformed)?;
    // The meta-interface is not deleted before the filter, but the packet may have become too long.
    let headers = hop.headers().filter(|headers| headers.put_before(packet)).ok_or(Diversion::Malformed)?;
    let Some((_, mtu)) = hop.route(packet, context).filter(|(of_route, _)| *of_route == port) else {
        packet.meta_mut().exception = 0;
        return Err(Stop::NoRoute);
    };
    if packet.len() - LINK > usize::from(mtu) {
        // The slow path gets the packet without the headers.
        packet.meta_mut().exception = 0;
        packet.shift(headers.length() as isize);
        work.mtu = Some(mtu.saturating_sub((headers.length() - LINK) as u16));
        return Err(Diversion::Exception(ExceptionCode::Mtu).into());
    }
    packet.meta_mut().set_share_by_rule(share);
    Ok(Step::Sent)
}

/// Calls `call` for each packet of a run that continues, and acts on its outcome. A panic ends the packet and suspends the slice.
fn contain(
    slice: &TableSlice,
    instance: &mut Instance,
    run: &mut [Work],
    batch: &mut Batch<'_>,
    mut call: impl FnMut(&mut Instance, &mut Work, &mut Packet) -> Result<Step, Stop>,
) {
    let mut next = 0;
    while next < run.len() {
        // The position outlives a panic, so that the packet is known.
        let position = &mut next;
        let caught = containment::contain(|| {
            while let Some(work) = run.get_mut(*position) {
                let packet = &mut batch.packets[work.at];
                if !work.is_done {
                    let is_stopped = instance.is_throttled || slice.shared.suspended.load(Relaxed);
                    let outcome = if is_stopped { Err(Stop::Suspended) } else { call(instance, work, packet) };
                    work.is_done = outcome != Ok(Step::LookUp);
                    match outcome {
                        Ok(Step::LookUp) => {}
                        Ok(Step::Sent) => {
                            instance.counters.forwarded += 1;
                            instance.counters.forwarded_bytes += (packet.len() - LINK) as u64;
                        }
                        Err(stop) => settle(&slice.shared, instance, work, packet, stop, batch.context),
                    }
                }
                *position += 1;
            }
        });
        if let Err(panic) = caught {
            if !batch.context.dry_run {
                slice.shared.fail(panic);
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

/// Ends a packet that does not continue.
#[inline(never)]
fn settle(
    slice: &SliceState,
    instance: &mut Instance,
    work: &mut Work,
    packet: &mut Packet,
    stop: Stop,
    context: Context<'_>,
) {
    let counters = &mut instance.counters;
    let reason = match stop {
        Stop::NoRoute => {
            counters.route_drops += 1;
            DropReason::SliceRoute
        }
        Stop::Diverted(Diversion::Exception(code)) => {
            instance.is_throttled |= code == ExceptionCode::OverBudget;
            let copy = || SliceException {
                code,
                interface: work.interface,
                key: work.key,
                mtu: work.mtu,
                rounds: work.rounds,
                arrived: packet.meta().timestamp,
                packet: packet.bytes().into(),
            };
            let may_return = work.rounds < MOST_ROUNDS;
            if context.dry_run || may_return && slice.exceptions.push(context.now, copy) {
                counters.exceptions += 1;
                packet.meta_mut().exception = Exception::Delivered as u8;
                return;
            }
            counters.lost_exceptions += 1;
            DropReason::SliceException
        }
        Stop::Diverted(Diversion::Malformed) => {
            counters.malformed += 1;
            DropReason::SliceMalformed
        }
        Stop::Diverted(Diversion::Policy) => {
            counters.policy_drops += 1;
            DropReason::SlicePolicy
        }
        Stop::Diverted(fault @ (Diversion::OutOfMemory | Diversion::Failed)) => {
            if fault == Diversion::Failed && !context.dry_run {
                slice.fail(instance.code.failure().unwrap_or_default());
            }
            counters.faults += 1;
            DropReason::SliceFault
        }
        Stop::Suspended => {
            counters.suspended += 1;
            DropReason::SliceSuspended
        }
    };
    refuse(packet, reason);
}
