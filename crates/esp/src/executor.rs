//! The packet hooks of the plane: builds stores and processing places from the configuration, and executes the plane's packets there.

use crate::bound;
use crate::cleaner_thread::Cleaners;
use crate::guard::Limits;
use crate::hook::{self, PortSpec, RouterSpec, StateHook};
use crate::isa::{Abort, Opcode};
use crate::registered::{RegisteredPart, Registry};
use crate::report::{PlaceReport, StoreReport};
use crate::seal::{self, InvalidKey, OperatorKey, PlainPart};
use crate::site::{BATCH, ExecutionRules, InstructionFate, Location, OpcodeCounters, Site, SiteCounters};
use crate::stats::{InstructionClock, StoreStats};
use crate::store::{CleanerMode, FullPolicy, Inspector, Key, Pages, StoreSpec};
use crate::variables::PermittedVariables;
use crate::wire::{Carriages, Part, PartError};
use packet::DropReason;
use plan::StatePlan;
use plan::state::{OnAbort, PortStatePlan};
use plane::hook::{
    DecodedInstruction, Entry, HookBatch, HookError, HookMaker, HookPoint, Owner, PacketHook, PortVariables,
    StateConfig, StoreReader, Visited,
};
use plane::instructions::InstructionFault;
use std::any::Any;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use units::{Bytes, Instant, Nanos, PortId};

/// The limit for the memory of all stores of a router. A larger sum is taken for a typing error in the configuration.
const MOST_MEMORY: Bytes = Bytes::new(1 << 40);
/// Bytes read of a key file. A longer file is no key file.
const MOST_KEY_BYTES: u64 = 256;
/// Entries cleaned per idle call.
const CLEANED_PER_CALL: usize = 4096;

/// Creates the packet hooks that execute the instructions of this crate.
#[derive(Clone, Debug, Default)]
pub struct Executor {
    clock: Option<InstructionClock>,
    cleaners: Option<Cleaners>,
    pages: Pages,
}

impl Executor {
    /// An executor without a clock, so that no instruction is timed. The first worker cleans the stores, which use small pages.
    pub const fn new() -> Executor {
        Executor { clock: None, cleaners: None, pages: Pages::Small }
    }

    /// Allocates the stores in large pages: for routers that forward real packets.
    pub fn in_large_pages(self) -> Executor {
        Executor { pages: Pages::Large, ..self }
    }

    /// Times a sample of the batches with this clock.
    pub fn timed_by(self, clock: InstructionClock) -> Executor {
        Executor { clock: Some(clock), ..self }
    }

    /// Passes the cleaners of `dedicated` stores to `cleaners`.
    pub fn cleaned_by(self, cleaners: Cleaners) -> Executor {
        Executor { cleaners: Some(cleaners), ..self }
    }
}

/// The configured carriages: how the router recognises packets that carry instructions.
fn carriages(plan: &StatePlan) -> Carriages {
    let (port, option) = (Some(plan.udp_port).filter(|&port| port > 0), Some(plan.ip_option).filter(|&kind| kind > 0));
    Carriages { protocol: plan.protocol, port, option }
}

/// The operator's key, if the configuration names a key file.
fn operator_key(plan: &StatePlan) -> Result<Option<OperatorKey>, HookError> {
    let Some(file) = &plan.key else { return Ok(None) };
    let hint = "name a file that the router may read, with one or two lines of 32 hexadecimal digits from `openssl rand -hex 16`";
    // The message gives the error, never the content of the file.
    let wrong = |why: String| HookError { reason: format!("the key in '{file}' {why}"), hint: hint.to_string() };
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MOST_KEY_BYTES).read_to_string(&mut text));
    read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    text.parse().map(Some).map_err(|error: InvalidKey| wrong(format!("is invalid: {error}")))
}

/// The stores and rules of a configuration.
fn spec(wanted: &StateConfig, key_of_operator: Option<OperatorKey>, pages: Pages) -> RouterSpec {
    let plan = &wanted.plan;
    let key = Key::new([wanted.secret, !wanted.secret]);
    let cleaning = match plan.cleaner {
        plan::state::Cleaning::Inline => CleanerMode::Inline,
        plan::state::Cleaning::Assist => CleanerMode::Assist,
        plan::state::Cleaning::Dedicated => CleanerMode::Dedicated,
    };
    let when_full = match plan.full {
        plan::state::WhenFull::AbortCreates => FullPolicy::AbortCreates,
        plan::state::WhenFull::AbortAll => FullPolicy::AbortAll,
    };
    let allowed = plan.instructions.iter().fold(0, |all, one| all | 1 << *one as u16);
    let shards = plan.shards.map_or(wanted.workers, |shards| usize::from(shards).clamp(1, wanted.workers));
    let store = |capacity: u64, of: u64| StoreSpec {
        capacity,
        lifetime: plan.lifetime,
        shards,
        cleaning,
        when_full,
        // Each store has its own key, so tags that collide in one store do not collide in another.
        key: key.derive(!of),
        diagnostics: plan.diagnostics,
        pages,
    };
    let of_port = |(port, says): &(PortId, PortStatePlan)| {
        let (input, output) = says.at.input_and_output();
        // All ports share the central store: its capacity is the only one.
        let capacity = if plan.single_store { plan.central } else { says.capacity.unwrap_or(plan.capacity) };
        let variables = PermittedVariables::of(&says.variables);
        PortSpec { port: *port, store: store(capacity, port.index() as u64), input, output, variables }
    };
    RouterSpec {
        ports: wanted.ports.iter().map(of_port).collect(),
        central: (plan.central > 0).then(|| store(plan.central, 1 << 32)),
        single: plan.single_store,
        rules: ExecutionRules {
            carriages: carriages(plan),
            // With a key, plain parts are not executed at all; the allow-list applies to sealed parts.
            allowed: if key_of_operator.is_some() { 0 } else { allowed },
            sealed: key_of_operator.map(|key| (key, allowed)),
            scoped: plan.by_computation,
            node: wanted.node,
            batch: plan.batch.into(),
            limits: Limits { rate: plan.source_rate, creates: plan.source_creates },
        },
        key,
        workers: wanted.workers,
        shards,
        queues: plan.queues,
        lifetime: plan.lifetime,
        flow_order: plan.flow_order,
        drops_aborted: plan.on_abort == OnAbort::Drop,
    }
}

impl HookMaker for Executor {
    fn make(&self, before: Option<&StateConfig>, wanted: &StateConfig) -> Result<Vec<Box<dyn PacketHook>>, HookError> {
        let spec = spec(wanted, operator_key(&wanted.plan)?, self.pages);
        let memory = spec.memory();
        if memory > MOST_MEMORY {
            let reason = format!("the stores need {} together", memory.rounded());
            return Err(HookError { reason, hint: "give them smaller capacities".to_string() });
        }
        let mut made = spec.make_successors(before.map(|before| self::spec(before, None, self.pages)).as_ref());
        let hint = || "correct it, or remove it from [state]".to_string();
        for hook in &mut made.hooks {
            let registry = Registry::of(&wanted.plan.registered);
            hook.register(registry.map_err(|reason| HookError { reason, hint: hint() })?);
            if let (Some(cleaners), plan::state::Cleaning::Dedicated) = (&self.cleaners, wanted.plan.cleaner) {
                hook.move_cleaners(cleaners);
            }
            self.clock.iter().for_each(|clock| hook.set_clock(clock.clone()));
            if wanted.plan.overload == plan::state::Overload::Pass {
                hook.pass_when_overloaded();
            }
        }
        Ok(made.hooks.into_iter().map(|hook| Box::new(hook) as Box<dyn PacketHook>).collect())
    }

    fn fingerprint(&self, plan: &StatePlan, secret: u64) -> u64 {
        // An unreadable key counts as no key here; `make` reports the error.
        operator_key(plan).ok().flatten().map_or(0, |key| key.fingerprint(secret))
    }

    fn read(&self, plan: &StatePlan, l3: &[u8]) -> Option<DecodedInstruction> {
        let (range, _) = carriages(plan).find(l3)?;
        let bytes = &l3[range];
        let key = operator_key(plan);
        if let Some(asked) = read_registered(plan, &key, bytes) {
            return Some(asked);
        }
        let read = match &key {
            Ok(Some(key)) => key.read(bytes),
            // A router without a key ignores sealed parts.
            _ => Part::read(bytes),
        };
        let part = match (read, seal::read(bytes)) {
            (Ok(part), _) => part,
            (Err(PartError::NotAPart), _) => return None,
            (Err(why), Ok(Part { locations, computation, instruction, .. })) => {
                let at = [locations.input, locations.central, locations.output];
                let not = match (&key, why) {
                    (Err(cannot), _) => cannot.reason.clone(),
                    (_, PartError::Invalid(why)) => why.name().to_string(),
                    _ => "it is sealed, and the router has no key".to_string(),
                };
                return Some(DecodedInstruction {
                    instruction: instruction.to_string(),
                    computation,
                    points: at,
                    refusal: Some(not),
                });
            }
            (Err(why), Err(_)) => {
                let why = if let PartError::Invalid(why) = why { why } else { Abort::BadChecksum };
                let head = crate::wire::peek(bytes)?;
                let (locations, computation) = (head.locations(), head.computation);
                let at = [locations.input, locations.central, locations.output];
                let instruction = format!("instruction {}", bytes.get(1).copied().unwrap_or_default());
                return Some(DecodedInstruction {
                    instruction,
                    computation,
                    points: at,
                    refusal: Some(why.name().to_string()),
                });
            }
        };
        let allowed = plan.instructions.iter().any(|one| *one as u8 == part.instruction.opcode().number());
        let not = match (part.error, allowed) {
            (true, _) => Some("an earlier router could not execute it".to_string()),
            (false, false) => Some(Abort::NotEnabled.name().to_string()),
            (false, true) => None,
        };
        let at = [part.locations.input, part.locations.central, part.locations.output];
        Some(DecodedInstruction {
            instruction: part.instruction.to_string(),
            computation: part.computation,
            points: at,
            refusal: not,
        })
    }
}

/// Describes a packet with a registered instruction; `None` if its opcode is not one of the registered range or it cannot be read.
fn read_registered(
    plan: &StatePlan,
    key: &Result<Option<OperatorKey>, HookError>,
    bytes: &[u8],
) -> Option<DecodedInstruction> {
    let plain = if seal::is_sealed(bytes) { Some(PlainPart::of(bytes)?) } else { None };
    let part = RegisteredPart::read(plain.as_ref().map_or(bytes, PlainPart::bytes)).ok()?;
    let RegisteredPart { locations, error, computation, instruction, .. } = part;
    let known = plan.registered.iter().find(|one| one.number == instruction.number);
    let not = match (key, plain, known) {
        (Err(cannot), ..) => Some(cannot.reason.clone()),
        (Ok(None), Some(_), _) => Some("it is sealed, and the router has no key".to_string()),
        (Ok(Some(_)), None, _) => Some(Abort::Unauthenticated.to_string()),
        (Ok(Some(key)), Some(_), _) if key.open(bytes).is_err() => Some(Abort::Unauthenticated.to_string()),
        _ if error => Some("an earlier router could not execute it".to_string()),
        (.., None) => Some(Abort::NotEnabled.to_string()),
        (.., Some(known)) if usize::from(known.declared.tags) != instruction.tags().len() => {
            Some(Abort::BadLength.to_string())
        }
        _ => None,
    };
    let name = known.map_or_else(String::new, |known| format!(", which is {}", known.declared.name));
    let at = [locations.input, locations.central, locations.output];
    Some(DecodedInstruction { instruction: format!("{instruction}{name}"), computation, points: at, refusal: not })
}

impl StoreReader for Inspector {
    fn entries(&self, now: Instant, most: usize) -> Vec<Entry> {
        Inspector::entries(self, now).take(most).collect()
    }
}

/// The drop reason as the packet's metadata encodes it: 0 is none.
const fn refused(reason: DropReason) -> u8 {
    reason.index() as u8 + 1
}

impl PacketHook for StateHook {
    #[inline]
    fn owner(&mut self, l3: &[u8], now: Instant) -> Option<Owner> {
        self.owner_of_packet(l3, now)
    }

    #[inline]
    fn follows_flows(&mut self, now: Instant) -> bool {
        self.keeps_flow_order(now)
    }

    #[inline]
    fn record_dequeued(&mut self, at: HookPoint, now: Instant, packets: usize, more: bool) {
        self.record_poll(at, now, packets, more);
    }

    fn passes_overflow(&self) -> bool {
        self.passes_when_queue_full()
    }

    fn record_unexecuted(&mut self, place: HookPoint, l3: &[u8]) {
        self.count_passed(place, l3);
    }

    #[inline]
    fn reads_variables(&self, place: HookPoint) -> bool {
        self.permits_variables(place)
    }

    #[inline]
    fn visit(
        &mut self,
        place: HookPoint,
        variables: PortVariables,
        now: Instant,
        (packets, known): HookBatch<'_>,
    ) -> Visited {
        let drops_aborted = self.drops_aborted();
        let mut fates = std::mem::take(&mut self.fates);
        // `execute` overwrites the fate of each packet that carries an instruction.
        fates.resize(packets.len(), InstructionFate::PassedThrough);
        self.detect_reordering(place, packets);
        let requested = self.execute((place, variables), now, (&mut *packets, known), &mut fates);
        // Nearly all packets go on. A fold over bytes without a branch lets the compiler check many fates at once.
        let goes_on =
            |fate: &InstructionFate| matches!(fate, InstructionFate::PassedThrough | InstructionFate::Forwarded);
        let to_mark = if fates.iter().fold(true, |all, fate| all & goes_on(fate)) { 0 } else { fates.len() };
        let mut all = true;
        for (packet, fate) in packets.iter_mut().zip(&fates).take(to_mark) {
            let reason = match fate {
                InstructionFate::Dropped => DropReason::Instruction,
                InstructionFate::Aborted(_) if drops_aborted => DropReason::InstructionAborted,
                _ => continue,
            };
            packet.meta_mut().refused = refused(reason);
            all = false;
        }
        // The same, for the count. A chunk has at most 64 packets, so its sum fits a byte.
        let executed = |fates: &[InstructionFate]| {
            fates.iter().map(|fate| u8::from(*fate != InstructionFate::PassedThrough)).sum::<u8>()
        };
        let executed = fates.chunks(BATCH).map(|fates| u32::from(executed(fates))).sum();
        self.fates = fates;
        Visited { all, central: requested.central, output: requested.output, executed }
    }

    fn maintain(&mut self, now: Instant) -> Instant {
        StateHook::clean_expired(self, now, CLEANED_PER_CALL)
    }

    fn maintenance_interval(&self) -> Nanos {
        StateHook::pace(self)
    }

    fn replace(&mut self, old: Box<dyn PacketHook>) {
        if let Ok(old) = old.into_any().downcast::<StateHook>() {
            self.take_over(*old);
        }
    }

    fn take_fault(&mut self) -> Option<InstructionFault> {
        self.take_fault()
    }

    fn report(&self, now: Instant) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.stores(now))
    }

    fn store_readers(&self) -> Vec<(Option<PortId>, Arc<dyn StoreReader>)> {
        let onlooker =
            |(port, inspector): (Option<PortId>, Inspector)| (port, Arc::new(inspector) as Arc<dyn StoreReader>);
        self.inspectors().map(onlooker).collect()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The counters of one processing place, for the report.
fn place_report(location: Location, hook: &StateHook, site: Option<&Site>, stats: &StoreStats) -> PlaceReport {
    let nothing = SiteCounters::default();
    let counters = site.map_or(&nothing, |site| site.counters_at(location));
    let counts = |(name, count): (&'static str, OpcodeCounters)| (name, count.forwarded, count.dropped);
    let names = Opcode::ALL.iter().map(|opcode| opcode.name()).chain(hook.registered());
    PlaceReport {
        location: location.name(),
        executed: match site {
            Some(site) => site.executed_at(location).map(counts).collect(),
            None => names.map(|name| (name, 0, 0)).collect(),
        },
        aborted: counters.aborts().map(|(why, instruction, count)| (why.name(), instruction, count)).collect(),
        failed_before: counters.failed_before,
        overloaded: stats.overloaded_at(location),
        reordered: stats.reordered_at(location),
        execution_times: stats.execution_times_at(location).collect(),
        traces: site.into_iter().flat_map(|site| site.traced_at(location)).collect(),
    }
}

impl StateHook {
    /// The report of each store, with this worker's counters.
    fn stores(&self, now: Instant) -> Vec<StoreReport> {
        let report = |(port, part, stats): (Option<PortId>, Option<hook::ShardSnapshot<'_>>, &StoreStats)| {
            let site = part.as_ref().map(|part| part.site);
            let places = Location::ALL.iter().map(|&location| place_report(location, self, site, stats)).collect();
            let nothing = StoreReport { port, places, ..StoreReport::default() };
            let Some(hook::ShardSnapshot { site, cleaned, cleans_for_all }) = part else { return nothing };
            let (counters, occupancy) = (site.shard_counters(), site.occupancy(now));
            StoreReport {
                capacity: occupancy.capacity,
                live: occupancy.live,
                expired: occupancy.expired,
                created: counters.created,
                high_water: counters.high_water,
                lag: cleaned.lag,
                lags: cleaned.lags,
                freed: cleaned.freed,
                limbo: cleaned.limbo,
                cleaning: stats.cleaning + cleaned.spent,
                assisting: if cleans_for_all { site.executed() } else { 0 },
                probed: counters.probed,
                collisions: counters.collisions,
                memory: bound::memory(occupancy.capacity, 1),
                ..nothing
            }
        };
        self.sites().map(report).collect()
    }
}
