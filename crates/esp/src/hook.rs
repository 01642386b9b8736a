//! Ephemeral state as one worker has it: a processing place for each port, and the central one. [`StateHook`] is the plane's packet hook.
//!
//! Every store is divided into as many shards as there are workers, or fewer. Worker `w` owns shard `w` of each store. All packets of a computation
//! go to one worker, so at every place they use the same shard (spec E-10, E-30; adr/0040).

use crate::bound;
use crate::cleaner_thread::{Cleaners, SharedCleaningCounters};
use crate::flows::{FlowOwners, upper};
use crate::overload::OverloadDetector;
use crate::registered::Registry;
use crate::site::{ExecutionRules, InstructionFate, Location, PacketBuffer, Site};
use crate::stats::{InstructionClock, StoreStats};
use crate::store::{
    Cleaner, CleaningCounters, Grace, Inspector, Key, Store, StoreSpec, WorkerEpochs, below, mix, shard_of,
};
use crate::variables::{PermittedVariables, Readings};
use crate::wire::{Carriage, Locations, peek, piggybacked_payload};
use packet::Packet;
pub use plane::hook::HookPoint;
use plane::hook::{Dedicated, MAINTENANCE_INTERVAL, Owner, PortVariables, UNKNOWN};
use plane::instructions::InstructionFault;
use std::sync::Arc;
use units::{Bytes, Instant, Nanos, PortId};

/// The shortest interval of housekeeping. A store whose lifetime is below 16 times this is not served more often.
const LEAST_PACE: Nanos = Nanos::micros(50);

/// The ephemeral state of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortSpec {
    /// The port.
    pub port: PortId,
    /// Its store, which both directions share.
    pub store: StoreSpec,
    /// True if arriving packets are executed.
    pub input: bool,
    /// True if leaving packets are executed.
    pub output: bool,
    /// The router variables that packets may read here.
    pub variables: PermittedVariables,
}

/// The ephemeral state of a router.
#[derive(Clone, Debug)]
pub struct RouterSpec {
    /// The ports that execute instructions.
    pub ports: Vec<PortSpec>,
    /// The central store; `None` if the router has no central place.
    pub central: Option<StoreSpec>,
    /// Use one store for all places, described by the first port or else by `central`. This shows what fails without a store per port (spec E-09).
    pub single: bool,
    /// The rules of all places.
    pub rules: ExecutionRules,
    /// The hash key that assigns computations to workers.
    pub key: Key,
    /// The number of workers, at least one.
    pub workers: usize,
    /// The number of shards of each store. The first workers own them.
    pub shards: usize,
    /// Queues per worker for packets handed off from other workers.
    pub queues: u8,
    /// The time for which a flow that piggybacked an instruction is remembered.
    pub lifetime: Nanos,
    /// True if such flows are remembered.
    pub flow_order: bool,
    /// True if aborted packets are dropped.
    pub drops_aborted: bool,
}

/// The packet hooks of a router.
pub struct RouterHooks {
    /// One hook per worker, in order.
    pub hooks: Vec<StateHook>,
}

/// The store of a port, and the directions in which it executes.
#[derive(Clone, Copy, Debug)]
struct PortSlot {
    slot: usize,
    input: bool,
    output: bool,
    variables: PermittedVariables,
}

/// One worker's slot for a store.
struct StoreSlot {
    /// The store's port; `None` for the central store.
    port: Option<PortId>,
    /// The rules for arriving packets.
    input_rules: ExecutionRules,
    /// True if the store comes from the previous generation's hook.
    is_inherited: bool,
    /// The shard; `None` until it is taken over, and on workers without a shard.
    owned: Option<OwnedShard>,
    /// The store's statistics.
    stats: StoreStats,
}

struct OwnedShard {
    site: Site,
    inspector: Inspector,
    /// The cleaner of the whole store, if this worker runs it.
    cleaner: Option<Cleaner>,
    /// The counters of a cleaner with its own thread.
    cleaner_counters: Option<SharedCleaningCounters>,
}

/// One worker's shard of a store, for reports.
pub(crate) struct ShardSnapshot<'a> {
    pub site: &'a Site,
    /// The counters of its cleaner.
    pub cleaned: CleaningCounters,
    /// True if this worker cleans the shards of all workers.
    pub cleans_for_all: bool,
}

/// The packet hook of one worker.
pub struct StateHook {
    rules: ExecutionRules,
    key: Key,
    shards: usize,
    queues: u8,
    slots: Vec<StoreSlot>,
    ports: Vec<Option<PortSlot>>,
    central: Option<usize>,
    drops_aborted: bool,
    pace: Nanos,
    /// Flows that piggyback instructions; `None` with one worker, or if flow order is off.
    flows: Option<FlowOwners>,
    /// The fates of the packets of a visit.
    pub(crate) fates: Vec<InstructionFate>,
    /// Registered instructions.
    registry: Registry,
    /// The clock that times instructions.
    clock: Option<InstructionClock>,
    /// The overload detector; `None` if overload does not pass packets.
    overload: Option<OverloadDetector>,
}

/// The worker of a computation, as [`shard_of`], and the handoff queue of its packets. The queue number is the same at every worker.
fn owner_of(key: Key, computation: u64, (shards, queues): (usize, u8)) -> Owner {
    // Other bits of the same hash, since the high ones selected the shard.
    let queue = below(key.hash(computation).rotate_left(32), queues.into()) as u8;
    Owner { worker: shard_of(key, computation, shards), queue }
}

/// The number by which router `node` appears as a child in reports that arrive at `port`.
pub fn child_number(node: u64, port: PortId) -> u64 {
    mix(node, u64::from(port.0))
}

impl RouterSpec {
    /// The stores, each with its port.
    fn stores(&self) -> Vec<(Option<PortId>, StoreSpec)> {
        let mut stores: Vec<(Option<PortId>, StoreSpec)> =
            self.ports.iter().map(|port| (Some(port.port), port.store)).collect();
        stores.extend(self.central.map(|store| (None, store)));
        if self.single {
            // The first store serves all ports, so it has no port of its own and survives changes of ports.
            stores.truncate(1);
            stores.iter_mut().for_each(|(port, _)| *port = None);
        }
        stores
    }

    /// The rules for packets that arrive at a port. Each port has its own store and reports by itself, so the router upstream must see each port as a
    /// separate child: each has its own number.
    fn input_rules(&self, port: Option<PortId>) -> ExecutionRules {
        let node = port.map_or(self.rules.node, |port| child_number(self.rules.node, port));
        ExecutionRules { node, ..self.rules }
    }

    /// The memory of all stores.
    pub fn memory(&self) -> Bytes {
        let each = |(_, store): (Option<PortId>, StoreSpec)| bound::memory(store.capacity, self.shards);
        self.stores().into_iter().map(each).fold(Bytes::ZERO, |sum, store| sum + store)
    }

    /// Creates all stores empty, and gives each worker its shards.
    ///
    /// # Panics
    /// If a store's description is invalid, or there is no worker: the configuration was not checked.
    pub fn make(&self) -> RouterHooks {
        self.make_successors(None)
    }

    /// The same, except for stores that `before` describes identically: their hooks [take them over](StateHook::take_over).
    pub fn make_successors(&self, before: Option<&RouterSpec>) -> RouterHooks {
        let stay = before
            // A different number of shards maps computations to other shards, so no store can stay.
            .filter(|before| (before.workers, before.shards) == (self.workers, self.shards))
            .map(RouterSpec::stores)
            .unwrap_or_default();
        let stores = self.stores();
        let slot_of = |port: Option<PortId>| {
            if self.single { 0 } else { stores.iter().position(|(of, _)| *of == port).unwrap_or(0) }
        };
        let mut ports = vec![None; self.ports.iter().map(|port| port.port.index() + 1).max().unwrap_or(0)];
        for PortSpec { port, input, output, variables, .. } in self.ports.iter().copied() {
            ports[port.index()] = Some(PortSlot { slot: slot_of(Some(port)), input, output, variables });
        }
        let flows =
            || (self.flow_order && self.workers > 1).then(|| FlowOwners::new(self.key.derive(3), self.lifetime));
        let hook = |_| StateHook {
            rules: self.rules,
            key: self.key,
            shards: self.shards,
            queues: self.queues,
            slots: Vec::new(),
            ports: ports.clone(),
            central: self.central.map(|_| slot_of(None)),
            drops_aborted: self.drops_aborted,
            // All expired entries must be free within a quarter of the lifetime (spec E-33); 16 visits per lifetime serve each quarter four times.
            pace: Nanos::new(self.lifetime.get() / 16).clamp(LEAST_PACE, MAINTENANCE_INTERVAL),
            flows: flows(),
            fates: Vec::new(),
            registry: Registry::default(),
            clock: None,
            overload: None,
        };
        let mut made = RouterHooks { hooks: (0..self.workers).map(hook).collect() };
        let epochs = Arc::new(WorkerEpochs::new(self.workers));
        for (port, spec) in &stores {
            let input_rules = self.input_rules(*port);
            if stay.contains(&(*port, *spec)) {
                let slot = || StoreSlot {
                    port: *port,
                    input_rules,
                    is_inherited: true,
                    owned: None,
                    stats: StoreStats::default(),
                };
                made.hooks.iter_mut().for_each(|hook| hook.slots.push(slot()));
                continue;
            }
            let store = Store::new(StoreSpec { shards: self.shards, ..*spec }, &epochs, Grace::Counters);
            let mut cleaner = store.cleaner;
            let mut shards = store.shards.into_iter();
            for hook in &mut made.hooks {
                let stats = StoreStats::new(spec.diagnostics.then(|| self.key.derive(7)));
                let owned = shards.next().map(|shard| {
                    let site = Site::with_limits(shard, self.rules.limits, self.key.derive(5));
                    // Only the first worker gets the cleaner, and cleans all shards.
                    OwnedShard {
                        site,
                        inspector: store.inspector.clone(),
                        cleaner: cleaner.take(),
                        cleaner_counters: None,
                    }
                });
                hook.slots.push(StoreSlot { port: *port, input_rules, is_inherited: false, owned, stats });
            }
        }
        made
    }
}

impl StateHook {
    /// The worker of a packet's computation; `None` if the packet has no instruction.
    #[inline]
    pub fn worker(&self, l3: &[u8]) -> Option<usize> {
        let (range, _) = self.rules.carriages.find(l3)?;
        Some(shard_of(self.key, peek(&l3[range])?.computation, self.shards))
    }

    /// The same with its handoff queue, also for other packets of a flow that piggybacked an instruction before `now`.
    #[inline]
    pub(crate) fn owner_of_packet(&mut self, l3: &[u8], now: Instant) -> Option<Owner> {
        let StateHook { flows, rules, key, shards, queues, .. } = self;
        let Some((range, carriage)) = rules.carriages.find(l3) else {
            return flows.as_ref().filter(|flows| flows.has_flows(now))?.owner(l3, now);
        };
        let bytes = &l3[range];
        let owner = owner_of(*key, peek(bytes)?.computation, (*shards, *queues));
        // The flow's key is the payload's protocol and ports: its other packets have no part in front of them.
        let inside = || if carriage == Carriage::Option { upper(l3) } else { piggybacked_payload(bytes) };
        if let Some((flows, inside)) = flows.as_mut().and_then(|flows| Some((flows, inside()?))) {
            flows.remember(l3, inside, owner, now);
        }
        Some(owner)
    }

    /// True if [`StateHook::owner_of_packet`] currently knows the worker of packets without instructions.
    #[inline]
    pub(crate) fn keeps_flow_order(&self, now: Instant) -> bool {
        self.flows.as_ref().is_some_and(|flows| flows.has_flows(now))
    }

    /// Sets the registered instructions.
    pub(crate) fn register(&mut self, registry: Registry) {
        self.registry = registry;
        for owned in self.slots.iter_mut().filter_map(|stall| stall.owned.as_mut()) {
            owned.site.register(&self.registry);
        }
    }

    /// Times some batches and all cleaning with this clock.
    pub(crate) fn set_clock(&mut self, clock: InstructionClock) {
        self.clock = Some(clock);
    }

    /// Moves the cleaners of this worker's stores to the cleaner thread.
    pub(crate) fn move_cleaners(&mut self, to: &Cleaners) {
        for owned in self.slots.iter_mut().filter_map(|stall| stall.owned.as_mut()) {
            owned.cleaner_counters = owned.cleaner.take().map(|cleaner| to.adopt(cleaner));
        }
    }

    /// Passes packets unexecuted while the worker is overloaded.
    pub(crate) fn pass_when_overloaded(&mut self) {
        self.overload = Some(OverloadDetector::default());
    }

    /// Records that a poll of the queue for a place returned this many packets. `more` says that the queue may hold more.
    #[inline]
    pub(crate) fn record_poll(&mut self, place: HookPoint, now: Instant, packets: usize, more: bool) {
        if let Some(overload) = &mut self.overload {
            overload.record_poll(place, now, packets, more);
        }
    }

    /// True if packets that find their handoff queue full pass unexecuted.
    pub(crate) fn passes_when_queue_full(&self) -> bool {
        self.overload.is_some()
    }

    /// Counts a packet that passes a place unexecuted, if it is addressed there.
    #[cold]
    pub(crate) fn count_passed(&mut self, place: HookPoint, l3: &[u8]) {
        let Some((index, location, _)) = self.at(place) else { return };
        if let Some(slot) = self.slots.get_mut(index) {
            slot.stats.count_passed(&self.rules, location, l3);
        }
    }

    /// Feeds a batch to the reordering detector before it is executed. Packets of the plane have their arrival time.
    #[inline]
    pub(crate) fn detect_reordering(&mut self, place: HookPoint, packets: &[Packet]) {
        let Some((index, location, _)) = self.at(place) else { return };
        let StateHook { slots, rules, .. } = self;
        if let Some(slot) = slots.get_mut(index) {
            slot.stats.detect_reordering(rules, location, packets);
        }
    }

    /// The first fault of a registered instruction since the last call.
    pub(crate) fn take_fault(&mut self) -> Option<InstructionFault> {
        self.registry.take_fault()
    }

    /// True if packets may read router variables at a place.
    pub(crate) fn permits_variables(&self, place: HookPoint) -> bool {
        self.at(place).is_some_and(|(_, _, variables)| variables.any())
    }

    /// The shortest interval between two calls of [`StateHook::clean_expired`].
    pub(crate) fn pace(&self) -> Nanos {
        self.pace
    }

    /// True if aborted packets are dropped.
    pub(crate) fn drops_aborted(&self) -> bool {
        self.drops_aborted
    }

    /// The slot, location and permitted variables of a place; `None` if it executes nothing.
    #[inline]
    fn at(&self, place: HookPoint) -> Option<(usize, Location, PermittedVariables)> {
        let at_port = |port: PortId| self.ports.get(port.index()).copied().flatten();
        match place {
            HookPoint::Input(port) => {
                at_port(port).filter(|at| at.input).map(|at| (at.slot, Location::Input, at.variables))
            }
            HookPoint::Central => Some((self.central?, Location::Central, PermittedVariables::default())),
            HookPoint::Output(port) => {
                at_port(port).filter(|at| at.output).map(|at| (at.slot, Location::Output, at.variables))
            }
        }
    }

    /// Executes the instructions of a batch at a place, in order. `fates` has one element per packet. A place that executes nothing passes all
    /// packets (spec E-19).
    #[inline]
    pub fn visit<C: PacketBuffer>(
        &mut self,
        place: HookPoint,
        now: Instant,
        packets: &mut [C],
        fates: &mut [InstructionFate],
    ) {
        self.execute((place, PortVariables::default()), now, (packets, UNKNOWN), fates);
    }

    /// The same, with router variables. Returns the locations that any packet may ask for.
    #[inline]
    pub(crate) fn execute<C: PacketBuffer>(
        &mut self,
        (place, of_port): (HookPoint, PortVariables),
        now: Instant,
        (packets, known): (&mut [C], &Dedicated),
        fates: &mut [InstructionFate],
    ) -> Locations {
        // Without reading the packets this place cannot tell which locations they ask for.
        let unknown = Locations { input: true, central: true, output: true };
        let Some((index, location, permitted)) = self.at(place) else {
            fates.fill(InstructionFate::PassedThrough);
            return unknown;
        };
        let StateHook { slots, rules, registry, clock, overload, .. } = self;
        let Some(StoreSlot { input_rules, owned: Some(owned), stats, .. }) = slots.get_mut(index) else {
            fates.fill(InstructionFate::PassedThrough);
            return Locations::of(0);
        };
        let node = rules.node;
        // Arriving packets carry reports from downstream, which this port forwards under its own number.
        let rules = if location == Location::Input { &*input_rules } else { &*rules };
        if overload.as_mut().is_some_and(|overload| overload.is_overloaded(now)) {
            return stats.pass_batch(rules, location, packets, fates);
        }
        let readings = Readings { permitted, of_port, node, now };
        let with = (&readings, registry);
        let Some(clock) = clock.as_ref().filter(|_| stats.is_sampled()) else {
            return owned.site.process_with_variables((rules, location), with, now, (packets, known), fates);
        };
        stats.begin_timing(&owned.site, location);
        let begun = clock.now();
        let requested = owned.site.process_with_variables((rules, location), with, now, (&mut *packets, known), fates);
        let time = clock.now().saturating_sub(begun);
        stats.record_time(time, packets.len(), (&owned.site, location));
        requested
    }

    /// Cleans expired entries, at most `most` per store, where owners clean or this worker cleans for all. Returns the time of the next call, or
    /// [`Instant::NEVER`] if there are no entries.
    pub fn clean_expired(&mut self, now: Instant, most: usize) -> Instant {
        let mut due = Instant::NEVER;
        let StateHook { slots, clock, .. } = self;
        for StoreSlot { owned, stats, .. } in slots {
            let Some(owned) = owned else { continue };
            let begun = clock.as_ref().map(InstructionClock::now);
            let shard = owned.site.shard();
            shard.clean(now, most);
            due = due.min(shard.due(now).unwrap_or(Instant::NEVER));
            if let Some(cleaner) = &mut owned.cleaner {
                // This worker is inactive between two visits, so the next step may already free the entries that this one unlinks.
                for _ in 0..most {
                    if cleaner.step(now) == 0 {
                        break;
                    }
                }
                due = due.min(cleaner.due(now).unwrap_or(Instant::NEVER));
            }
            if let (Some(clock), Some(begun)) = (clock.as_ref(), begun) {
                stats.cleaning += clock.now().saturating_sub(begun);
            }
        }
        due
    }

    /// Takes over the stores that both generations share from the previous hook.
    pub fn take_over(&mut self, old: StateHook) {
        let mut old = old.slots;
        for slot in self.slots.iter_mut().filter(|stall| stall.is_inherited) {
            slot.is_inherited = false;
            if let Some(before) = old.iter_mut().find(|before| before.port == slot.port) {
                (slot.owned, slot.stats) = (before.owned.take(), std::mem::take(&mut before.stats));
            }
            if let Some(owned) = &mut slot.owned {
                owned.site.set_limits(self.rules.limits, self.key.derive(5));
                owned.site.register(&self.registry);
            }
        }
        // Remembered flows are not taken over: a flow may be split between two workers until its next instruction.
    }

    /// The place of a port, or the central one, for its counters.
    pub fn site(&mut self, port: Option<PortId>) -> Option<&mut Site> {
        let index = match port {
            Some(port) => self.ports.get(port.index()).copied().flatten().map(|at| at.slot),
            None => self.central,
        };
        Some(&mut self.slots.get_mut(index?)?.owned.as_mut()?.site)
    }

    /// Every store with its port, this worker's shard if it has one, and its statistics.
    pub(crate) fn sites(&self) -> impl Iterator<Item = (Option<PortId>, Option<ShardSnapshot<'_>>, &StoreStats)> {
        self.slots.iter().map(|slot| {
            let part = slot.owned.as_ref().map(|owned| {
                let cleaned = match (&owned.cleaner, &owned.cleaner_counters) {
                    (Some(cleaner), _) => cleaner.cleaning_counters(),
                    (None, Some(counters)) => counters.read(),
                    (None, None) => owned.site.cleaning_counters(),
                };
                ShardSnapshot { site: &owned.site, cleaned, cleans_for_all: owned.cleaner.is_some() }
            });
            (slot.port, part, &slot.stats)
        })
    }

    /// The names of the registered instructions.
    pub(crate) fn registered(&self) -> impl Iterator<Item = &'static str> {
        self.registry.names()
    }

    /// Read access to each store, all shards, with its port; `None` for the central store.
    pub fn inspectors(&self) -> impl Iterator<Item = (Option<PortId>, Inspector)> {
        self.slots.iter().filter_map(|stall| Some((stall.port, stall.owned.as_ref()?.inspector.clone())))
    }
}
