//! A packet function at work on a path at a port: it writes packets into the block of a guest, calls the guest, and carries out its verdicts.
//!
//! A guest that traps, does not return in time, or returns an invalid verdict is off until the next configuration. Its packets then bypass the function
//! or are dropped, as the option `on_fault` says.

use crate::function_block::{
    self as block, DROP, FIELDS, FLOWS, FunctionNeeds, FunctionRecord, GENERATED, IPV6, MOST, PASS, PENDING, RULE,
    SIZE, VERSION, WORDS, WRITES,
};
use crate::instance::Fault;
use crate::module::FUNCTION;
use crate::module_instance::{LinkedModule, ModuleInstance, block_of, block_of_mut};
use crate::written;
use packet::wire::{Ipv4, Ipv6, application, flow_hash};
use packet::{DropReason, Exception, Meta, Packet};
use plan::Call;
use plane::function::{Context, EmittedPacket, Function, FunctionReport, FunctionState, NamedCounter};
use plane::snapshot::{PathSpec, RuleTreatment};
use std::fmt;
use std::sync::Arc;
use units::InterfaceId;
use wasmtime::TypedFunc;

/// The compiled code that instances share.
pub(crate) struct FunctionCode {
    pub module: LinkedModule,
    /// True if it exports state that survives its replacement.
    pub has_state: bool,
    /// The names of its counters.
    pub counters: Vec<Arc<str>>,
}

/// A rule of the path, with its treatment and its counters.
struct FunctionRule {
    name: Arc<str>,
    treatment: RuleTreatment,
    packets: u64,
    bytes: u64,
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    packets: u64,
    bytes: u64,
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// The fates that the host counts. The order is that of [`FATES`].
#[derive(Clone, Copy, Debug, Default)]
struct FunctionCounts {
    passed: Sum,
    dropped: Sum,
    moved: Sum,
    emitted: Sum,
    faults: Sum,
    after_fault: Sum,
}

const FATES: [&str; 6] = ["passed", "dropped", "moved to another path", "emitted", "faults", "after a fault"];

/// The state that survives a replacement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StateRegion {
    version: u32,
    at: usize,
    length: usize,
}

/// See the [module](self).
// Large: the guest, the block that it shares with the host, and what the host counts of it: one call needs all of them.
pub(crate) struct FunctionInstance {
    code: Arc<FunctionCode>,
    name: &'static str,
    /// After a fault its packets are dropped.
    drops: bool,
    module: ModuleInstance,
    process: TypedFunc<(), ()>,
    /// The offset of the block.
    block: usize,
    needs: FunctionNeeds,
    state: Option<StateRegion>,
    rules: Box<[FunctionRule]>,
    counts: FunctionCounts,
    failed: bool,
    report: Option<FunctionReport>,
    /// The positions of the packets of a call.
    places: [u16; MOST],
    /// Of emitted packets: the interface whose VRF has their routes, and how often the packets behind them were classified.
    behind: (InterfaceId, u8),
    /// The verdict on the packet of a dry run.
    decided: Option<u16>,
}

impl FunctionInstance {
    /// Starts one for a call of a path.
    pub fn start(code: &Arc<FunctionCode>, call: &Call, path: &PathSpec) -> Result<FunctionInstance, Fault> {
        let mut module = code.module.instantiate_version(FUNCTION, VERSION)?;
        let block = module.block::<SIZE>()?;
        module.store.data_mut().services.rules = path.guest_rules.iter().map(|(rule, _)| rule.text.clone()).collect();
        // The last option is that of every function: see `on_fault`.
        let (on_fault, own) = call.options.split_last().map_or((0, &[][..]), |((_, last), own)| (*last, own));
        let values: Vec<u64> = own.iter().map(|(_, value)| *value).collect();
        let shared = block_of_mut(module.memory.data_mut(&mut module.store), block);
        block::put_start(shared, &values, path.guest_rules.len());
        module.start()?;
        let state = if code.has_state { Some(state_region(&mut module)?) } else { None };
        let process = module.function("switchpath_process")?;
        let needs = FunctionNeeds::read(block_of(module.memory.data(&module.store), block), module.memory_size());
        let needs = needs.map_err(Fault::InvalidDecision)?;
        module.begin_work();
        let rule = |(rule, treatment): &(plan::GuestRule, RuleTreatment)| FunctionRule {
            name: format!("rule {rule}").into(),
            treatment: *treatment,
            packets: 0,
            bytes: 0,
        };
        Ok(FunctionInstance {
            code: code.clone(),
            name: call.name,
            drops: on_fault == 1,
            module,
            process,
            block,
            needs,
            state,
            rules: path.guest_rules.iter().map(rule).collect(),
            counts: FunctionCounts::default(),
            failed: false,
            report: None,
            places: [0; MOST],
            behind: (InterfaceId::default(), 0),
            decided: None,
        })
    }

    /// Bytes of memory that it has now.
    pub fn memory(&self) -> usize {
        self.module.memory_size()
    }

    /// One call with the first packets that continue. Returns the number of packets that are done, and true if all of these continue.
    #[inline]
    fn call(&mut self, context: Context<'_>, packets: &mut [Packet]) -> Result<(usize, bool), Fault> {
        let Some((count, end, bytes)) = self.show(context, packets) else { return Ok((packets.len(), false)) };
        let first = packets[usize::from(self.places[0])].meta();
        let interface = first.in_interface;
        let services = &mut self.module.store.data_mut().services;
        (services.now, services.interface) = (context.now.get(), interface);
        services.begin(context.tables, context.snapshot, count);
        self.module.call(&self.process)?;
        let shared = block_of(self.module.memory.data(&self.module.store), self.block);
        let changes = self.needs.has(WRITES) || self.needs.has(WORDS) || context.dry_run;
        let mut all = count == end;
        if !changes && block::all_pass(shared) {
            self.counts.passed.add(count as u64, bytes);
        } else {
            all &= self.decide(context, packets, count)?;
        }
        if self.module.store.data().services.has_emitted() {
            let rounds =
                self.places[..count].iter().map(|&place| packets[usize::from(place)].meta().rounds & 0x3f).max();
            self.behind = (interface, rounds.unwrap_or(0));
            all = false;
        }
        Ok((end, all))
    }

    /// Writes the first packets that continue into the block. Returns their number, the number of all packets up to there, and their bytes. `None` if
    /// there are no such packets.
    #[inline]
    fn show(&mut self, context: Context<'_>, packets: &[Packet]) -> Option<(usize, usize, u64)> {
        let FunctionNeeds { bytes: wanted, area, most, .. } = self.needs;
        let (stride, fields, flows) = (self.needs.stride(), self.needs.has(FIELDS), self.needs.has(FLOWS));
        let memory = self.module.memory.data_mut(&mut self.module.store);
        let (mut count, mut end, mut bytes) = (0, 0, 0);
        for (place, packet) in packets.iter().enumerate().take(usize::from(u16::MAX)) {
            if count == most {
                break;
            }
            end += 1;
            let meta = packet.meta();
            if meta.refused | meta.exception != 0 {
                continue;
            }
            let frame = packet.bytes();
            let l3 = frame.get(usize::from(meta.l3)..).unwrap_or_default();
            bytes += frame.len() as u64;
            let mut record = FunctionRecord {
                timestamp: meta.timestamp,
                length: (l3.len() + packet.tail().len()) as u32,
                word: meta.function_time,
                in_port: meta.in_port.0,
                flags: flags_of(packet),
                class: meta.class,
                ..FunctionRecord::default()
            };
            if wanted > 0 {
                let shown = &l3[..l3.len().min(wanted)];
                let at = area + count * stride;
                if let Some(place) = memory.get_mut(at..at + shown.len()) {
                    place.copy_from_slice(shown);
                    record.shown = shown.len() as u16;
                }
            }
            if fields {
                (record.protocol, record.transport, record.payload) = offsets(l3);
            }
            if flows {
                record.flow_hash = flow_hash(frame, meta.l3.into(), context.tables.flow_key());
            }
            block::put_record(block_of_mut(memory, self.block), count, &record);
            self.places[count] = place as u16;
            count += 1;
        }
        if count == 0 {
            return None;
        }
        block::put_head(block_of_mut(memory, self.block), context.now, count);
        Some((count, end, bytes))
    }

    /// Checks the verdicts on the `count` packets of a call, and the changes of their bytes, before any of them is carried out.
    fn check(&self, packets: &[Packet], count: usize) -> Result<(), Fault> {
        let memory = self.module.memory.data(&self.module.store);
        let (shared, rules) = (block_of(memory, self.block), self.rules.len());
        for (which, &place) in self.places[..count].iter().enumerate() {
            let rule = block::verdict(shared, which).checked_sub(RULE).map(usize::from);
            if let Some(rule) = rule.filter(|rule| *rule >= rules) {
                return Err(Fault::InvalidDecision(format!("it applies rule {rule}, but the path has {rules} rules")));
            }
            if self.needs.has(WRITES) {
                let packet = &packets[usize::from(place)];
                written::check(packet, self.needs.shown(memory, which, packet))
                    .map_err(|field| Fault::InvalidDecision(format!("it changes the {field} of a packet")))?;
            }
        }
        Ok(())
    }

    /// Carries out the verdicts on the `count` packets of a call. Returns true if all continue.
    fn decide(&mut self, context: Context<'_>, packets: &mut [Packet], count: usize) -> Result<bool, Fault> {
        self.check(packets, count)?;
        let memory = self.module.memory.data(&self.module.store);
        let shared = block_of(memory, self.block);
        let (words, writes) = (self.needs.has(WORDS), self.needs.has(WRITES));
        let mut all = true;
        for (which, &place) in self.places[..count].iter().enumerate() {
            let packet = &mut packets[usize::from(place)];
            let length = packet.len() as u64;
            let verdict = block::verdict(shared, which);
            let treatment = match verdict {
                PASS => RuleTreatment::Pass,
                DROP => RuleTreatment::Drop,
                // Checked above: the path has the rule.
                rule => self.rules.get_mut(usize::from(rule - RULE)).map_or(RuleTreatment::Pass, |rule| {
                    (rule.packets, rule.bytes) = (rule.packets + 1, rule.bytes + length);
                    rule.treatment
                }),
            };
            if words {
                packet.meta_mut().function_time = block::word(shared, which);
            }
            if context.dry_run {
                self.decided = Some(verdict);
            }
            if writes && treatment != RuleTreatment::Drop {
                written::take_over(packet, self.needs.shown(memory, which, packet));
            }
            let meta = packet.meta_mut();
            match treatment {
                RuleTreatment::Pass => self.counts.passed.add(1, length),
                RuleTreatment::Drop => {
                    meta.refused = DropReason::Guest.index() as u8 + 1;
                    self.counts.dropped.add(1, length);
                }
                RuleTreatment::Path(path) => {
                    // A packet with another destination is classified anew, which chooses its path.
                    if meta.exception == 0 {
                        (meta.path, meta.exception) = (path, Exception::Dispatched as u8);
                    }
                    self.counts.moved.add(1, length);
                }
            }
            all &= meta.refused | meta.exception == 0;
        }
        Ok(all)
    }

    /// Switches it off.
    #[cold]
    fn fail(&mut self, fault: &Fault) {
        self.failed = true;
        self.counts.faults.packets += 1;
        let (function, failure, drops) = (self.name, fault.to_string(), self.drops);
        self.report = Some(FunctionReport::Failed { function, failure, drops });
        self.module.store.data_mut().services.take_emitted(|_| {});
    }

    /// Treats packets after a fault. Returns true if all continue.
    #[cold]
    fn treat_without_guest(&mut self, packets: &mut [Packet]) -> bool {
        let mut all = true;
        for packet in packets {
            let length = packet.len() as u64;
            let meta = packet.meta_mut();
            if meta.refused | meta.exception == 0 {
                self.counts.after_fault.add(1, length);
                if self.drops {
                    meta.refused = DropReason::GuestFailed.index() as u8 + 1;
                }
            }
            all &= meta.refused | meta.exception == 0;
        }
        all
    }
}

impl Function for FunctionInstance {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        let (mut all, mut rest) = (true, packets);
        while !rest.is_empty() {
            if self.failed {
                return self.treat_without_guest(rest) & all;
            }
            match self.call(context, rest) {
                Ok((done, continues)) => {
                    all &= continues;
                    rest = &mut rest[done..];
                }
                Err(fault) => self.fail(&fault),
            }
        }
        all
    }

    fn decision(&self) -> Option<String> {
        if self.failed {
            return Some(if self.drops { "it has failed: drop".into() } else { "it has failed: bypass".into() });
        }
        Some(match self.decided? {
            PASS => "pass".into(),
            DROP => "drop".into(),
            rule => self.rules.get(usize::from(rule - RULE))?.name.to_string(),
        })
    }

    fn counters(&self) -> Vec<NamedCounter> {
        let FunctionCounts { passed, dropped, moved, emitted, faults, after_fault } = self.counts;
        let fates = FATES.into_iter().zip([passed, dropped, moved, emitted, faults, after_fault]);
        let fates = fates.map(|(name, sum)| NamedCounter { name: name.into(), packets: sum.packets, bytes: sum.bytes });
        let own = self.code.counters.iter().zip(self.module.store.data().counters());
        let own = own.map(|(name, packets)| NamedCounter { name: name.clone(), packets, bytes: 0 });
        let rule =
            |rule: &FunctionRule| NamedCounter { name: rule.name.clone(), packets: rule.packets, bytes: rule.bytes };
        fates.chain(own).chain(self.rules.iter().map(rule)).collect()
    }

    fn next_report(&mut self) -> Option<FunctionReport> {
        self.report.take().or_else(|| {
            self.module.store.data_mut().take_new_line().map(|line| FunctionReport::Logged(line.to_string()))
        })
    }

    fn state(&self) -> Option<FunctionState<'_>> {
        let StateRegion { version, at, length } = self.state.filter(|_| !self.failed)?;
        let bytes = self.module.memory.data(&self.module.store).get(at..at + length)?;
        Some(FunctionState { function: self.name, version, bytes })
    }

    fn restore(&mut self, old: FunctionState<'_>) {
        let Some(StateRegion { version, at, length }) = self.state else { return };
        if (old.function, old.version, old.bytes.len()) != (self.name, version, length) {
            return;
        }
        if let Some(place) = self.module.memory.data_mut(&mut self.module.store).get_mut(at..at + length) {
            place.copy_from_slice(old.bytes);
        }
    }

    fn take_emitted(&mut self, take: &mut dyn FnMut(EmittedPacket<'_>)) {
        let (interface, rounds) = self.behind;
        let emitted = &mut self.counts.emitted;
        self.module.store.data_mut().services.take_emitted(|bytes| {
            emitted.add(1, bytes.len() as u64);
            take(EmittedPacket { bytes, interface, rounds });
        });
    }
}

impl fmt::Debug for FunctionInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FunctionInstance { name, needs, counts, failed, .. } = self;
        write!(f, "Function {name}, {needs:?}, {counts:?}, failed: {failed}")
    }
}

/// Reads where its state is.
fn state_region(module: &mut ModuleInstance) -> Result<StateRegion, Fault> {
    let place = module.call_address("switchpath_state")?;
    let memory = module.memory.data(&module.store);
    let number = |which: usize| {
        let bytes = memory.get(place.checked_add(which * 4)?..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let region = number(0).zip(number(1)).zip(number(2));
    let region =
        region.map(|((version, at), length)| StateRegion { version, at: at as usize, length: length as usize });
    let inside = |region: &StateRegion| region.at.checked_add(region.length).is_some_and(|end| end <= memory.len());
    region.filter(inside).ok_or_else(|| Fault::InvalidDecision("its state is not in its memory".into()))
}

#[inline(always)]
fn flags_of(packet: &Packet) -> u8 {
    let flags = packet.meta().flags;
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    flag(flags & Meta::IPV6 != 0, IPV6)
        | flag(packet.is_offloaded(), PENDING)
        | flag(flags & Meta::GENERATED != 0, GENERATED)
}

/// The transport protocol of a packet, and the offsets of its transport header and of its TCP or UDP payload from the IP header. Zero: none.
fn offsets(l3: &[u8]) -> (u8, u16, u16) {
    let found = match l3.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4::parse_without_checksum(l3).ok().map(|packet| {
            let first = packet.header.is_first();
            (packet.header.protocol(), first.then(|| packet.header_length()))
        }),
        Some(6) => {
            Ipv6::parse(l3).ok().and_then(|packet| packet.chain().ok()).map(|chain| (chain.protocol, chain.offset))
        }
        _ => None,
    };
    let Some((protocol, transport)) = found else { return (0, 0, 0) };
    let upper = transport.and_then(|at| l3.get(at..));
    let payload = upper.and_then(|upper| application::payload(protocol, upper));
    let number = |offset: Option<usize>| offset.and_then(|offset| u16::try_from(offset).ok()).unwrap_or(0);
    // A payload without bytes ends with the packet.
    (protocol, number(transport), number(payload.map(|payload| l3.len() - payload.len())))
}
