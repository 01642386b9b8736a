//! Ephemeral state as one worker has it: a processing place for each port, and the central one. [`Station`] is the plane's packet hook.
//!
//! Every store is divided into as many shards as there are workers, or fewer. Worker `w` owns shard `w` of each store. All packets of a computation
//! go to one worker, so at every place they use the same shard (spec E-10, E-30; adr/0040).

use crate::apart::{Cleaners, Told};
use crate::bound;
use crate::flows::{Flows, upper};
use crate::registered::Registry;
use crate::seen::{Clock, Seen};
use crate::site::{Carrier, Fate, Location, Rules, Site};
use crate::store::{Cleaned, Cleaner, Epochs, Grace, Inspector, Key, Store, StoreSpec, below, mix, shard_of};
use crate::strain::Strain;
use crate::variables::{Permitted, Readings};
use crate::wire::{Carriage, Locations, behind, peek};
use packet::Packet;
pub use plane::hook::Place;
use plane::hook::{Dedicated, Owner, PACE, UNKNOWN, Variables};
use plane::registered::InstructionTrouble;
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
    pub variables: Permitted,
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
    pub rules: Rules,
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
pub struct Made {
    /// One hook per worker, in order.
    pub stations: Vec<Station>,
}

/// The store of a port, and the directions in which it executes.
#[derive(Clone, Copy, Debug)]
struct AtPort {
    stall: usize,
    input: bool,
    output: bool,
    variables: Permitted,
}

/// One worker's slot for a store.
struct Stall {
    /// The store's port; `None` for the central store.
    port: Option<PortId>,
    /// The rules for arriving packets.
    entered: Rules,
    /// True if the store comes from the previous generation's hook.
    stays: bool,
    /// The shard; `None` until it is taken over, and on workers without a shard.
    has: Option<Has>,
    /// The store's statistics.
    seen: Seen,
}

struct Has {
    site: Site,
    inspector: Inspector,
    /// The cleaner of the whole store, if this worker runs it.
    cleaner: Option<Cleaner>,
    /// The counters of a cleaner with its own thread.
    apart: Option<Told>,
}

/// One worker's shard of a store, for reports.
pub(crate) struct Part<'a> {
    pub site: &'a Site,
    /// The counters of its cleaner.
    pub cleaned: Cleaned,
    /// True if this worker cleans the shards of all workers.
    pub cleans_for_all: bool,
}

/// The packet hook of one worker.
pub struct Station {
    rules: Rules,
    key: Key,
    shards: usize,
    queues: u8,
    stalls: Vec<Stall>,
    ports: Vec<Option<AtPort>>,
    central: Option<usize>,
    drops_aborted: bool,
    pace: Nanos,
    /// Flows that piggyback instructions; `None` with one worker, or if flow order is off.
    flows: Option<Flows>,
    /// The fates of the packets of a visit.
    pub(crate) fates: Vec<Fate>,
    /// Registered instructions.
    registry: Registry,
    /// The clock that times instructions.
    clock: Option<Clock>,
    /// The overload detector; `None` if overload does not pass packets.
    strain: Option<Strain>,
}

/// The worker of a computation, as [`shard_of`], and the handoff queue of its packets. The queue number is the same at every worker.
fn owner_of(key: Key, computation: u64, (shards, queues): (usize, u8)) -> Owner {
    // Other bits of the same hash, since the high ones selected the shard.
    let queue = below(key.hash(computation).rotate_left(32), queues.into()) as u8;
    Owner { worker: shard_of(key, computation, shards), queue }
}

/// The number by which router `node` appears as a child in reports that arrive at `port`.
pub fn name_at(node: u64, port: PortId) -> u64 {
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
    fn entered(&self, port: Option<PortId>) -> Rules {
        let node = port.map_or(self.rules.node, |port| name_at(self.rules.node, port));
        Rules { node, ..self.rules }
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
    pub fn make(&self) -> Made {
        self.make_beside(None)
    }

    /// The same, except for stores that `before` describes identically: their hooks [take them over](Station::take_from).
    pub fn make_beside(&self, before: Option<&RouterSpec>) -> Made {
        let stay = before
            // A different number of shards maps computations to other shards, so no store can stay.
            .filter(|before| (before.workers, before.shards) == (self.workers, self.shards))
            .map(RouterSpec::stores)
            .unwrap_or_default();
        let stores = self.stores();
        let stall_of = |port: Option<PortId>| {
            if self.single { 0 } else { stores.iter().position(|(of, _)| *of == port).unwrap_or(0) }
        };
        let mut ports = vec![None; self.ports.iter().map(|port| port.port.index() + 1).max().unwrap_or(0)];
        for PortSpec { port, input, output, variables, .. } in self.ports.iter().copied() {
            ports[port.index()] = Some(AtPort { stall: stall_of(Some(port)), input, output, variables });
        }
        let flows = || (self.flow_order && self.workers > 1).then(|| Flows::new(self.key.derive(3), self.lifetime));
        let station = |_| Station {
            rules: self.rules,
            key: self.key,
            shards: self.shards,
            queues: self.queues,
            stalls: Vec::new(),
            ports: ports.clone(),
            central: self.central.map(|_| stall_of(None)),
            drops_aborted: self.drops_aborted,
            // All expired entries must be free within a quarter of the lifetime (spec E-33); 16 visits per lifetime serve each quarter four times.
            pace: Nanos::new(self.lifetime.get() / 16).clamp(LEAST_PACE, PACE),
            flows: flows(),
            fates: Vec::new(),
            registry: Registry::default(),
            clock: None,
            strain: None,
        };
        let mut made = Made { stations: (0..self.workers).map(station).collect() };
        let epochs = Arc::new(Epochs::new(self.workers));
        for (port, spec) in &stores {
            let entered = self.entered(*port);
            if stay.contains(&(*port, *spec)) {
                let stall = || Stall { port: *port, entered, stays: true, has: None, seen: Seen::default() };
                made.stations.iter_mut().for_each(|station| station.stalls.push(stall()));
                continue;
            }
            let store = Store::new(StoreSpec { shards: self.shards, ..*spec }, &epochs, Grace::Counters);
            let mut cleaner = store.cleaner;
            let mut shards = store.shards.into_iter();
            for station in &mut made.stations {
                let seen = Seen::new(spec.diagnostics.then(|| self.key.derive(7)));
                let has = shards.next().map(|shard| {
                    let site = Site::guarded(shard, self.rules.limits, self.key.derive(5));
                    // Only the first worker gets the cleaner, and cleans all shards.
                    Has { site, inspector: store.inspector.clone(), cleaner: cleaner.take(), apart: None }
                });
                station.stalls.push(Stall { port: *port, entered, stays: false, has, seen });
            }
        }
        made
    }
}

impl Station {
    /// The worker of a packet's computation; `None` if the packet has no instruction.
    #[inline]
    pub fn worker(&self, l3: &[u8]) -> Option<usize> {
        let (range, _) = self.rules.carriages.find(l3)?;
        Some(shard_of(self.key, peek(&l3[range])?.computation, self.shards))
    }

    /// The same with its handoff queue, also for other packets of a flow that piggybacked an instruction before `now`.
    #[inline]
    pub(crate) fn whose(&mut self, l3: &[u8], now: Instant) -> Option<Owner> {
        let Station { flows, rules, key, shards, queues, .. } = self;
        let Some((range, carriage)) = rules.carriages.find(l3) else {
            return flows.as_ref().filter(|flows| flows.any(now))?.owner(l3, now);
        };
        let bytes = &l3[range];
        let owner = owner_of(*key, peek(bytes)?.computation, (*shards, *queues));
        // The flow's key is the payload's protocol and ports: its other packets have no part in front of them.
        let inside = || if carriage == Carriage::Option { upper(l3) } else { behind(bytes) };
        if let Some((flows, inside)) = flows.as_mut().and_then(|flows| Some((flows, inside()?))) {
            flows.note(l3, inside, owner, now);
        }
        Some(owner)
    }

    /// True if [`Station::whose`] currently knows the worker of packets without instructions.
    #[inline]
    pub(crate) fn follows_flows(&self, now: Instant) -> bool {
        self.flows.as_ref().is_some_and(|flows| flows.any(now))
    }

    /// Sets the registered instructions.
    pub(crate) fn register(&mut self, registry: Registry) {
        self.registry = registry;
        for has in self.stalls.iter_mut().filter_map(|stall| stall.has.as_mut()) {
            has.site.register(&self.registry);
        }
    }

    /// Times some batches and all cleaning with this clock.
    pub(crate) fn timed_by(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    /// Moves the cleaners of this worker's stores to the cleaner thread.
    pub(crate) fn give_cleaners(&mut self, to: &Cleaners) {
        for has in self.stalls.iter_mut().filter_map(|stall| stall.has.as_mut()) {
            has.apart = has.cleaner.take().map(|cleaner| to.take(cleaner));
        }
    }

    /// Passes packets unexecuted while the worker is overloaded.
    pub(crate) fn passes_when_short(&mut self) {
        self.strain = Some(Strain::default());
    }

    /// Records that a poll of the queue for a place returned this many packets. `more` says that the queue may hold more.
    #[inline]
    pub(crate) fn note_look(&mut self, place: Place, now: Instant, packets: usize, more: bool) {
        if let Some(strain) = &mut self.strain {
            strain.looked(place, now, packets, more);
        }
    }

    /// True if packets that find their handoff queue full pass unexecuted.
    pub(crate) fn passes_what_is_late(&self) -> bool {
        self.strain.is_some()
    }

    /// Counts a packet that passes a place unexecuted, if it is addressed there.
    #[cold]
    pub(crate) fn note_passed(&mut self, place: Place, l3: &[u8]) {
        let Some((stall, location, _)) = self.at(place) else { return };
        if let Some(stall) = self.stalls.get_mut(stall) {
            stall.seen.passed(&self.rules, location, l3);
        }
    }

    /// Feeds a batch to the reordering detector before it is executed. Packets of the plane have their arrival time.
    #[inline]
    pub(crate) fn note_order(&mut self, place: Place, packets: &[Packet]) {
        let Some((stall, location, _)) = self.at(place) else { return };
        let Station { stalls, rules, .. } = self;
        if let Some(stall) = stalls.get_mut(stall) {
            stall.seen.in_order(rules, location, packets);
        }
    }

    /// The first fault of a registered instruction since the last call.
    pub(crate) fn trouble_of_registered(&mut self) -> Option<InstructionTrouble> {
        self.registry.trouble()
    }

    /// True if packets may read router variables at a place.
    pub(crate) fn permits(&self, place: Place) -> bool {
        self.at(place).is_some_and(|(_, _, variables)| variables.any())
    }

    /// The shortest interval between two calls of [`Station::tend`].
    pub(crate) fn pace(&self) -> Nanos {
        self.pace
    }

    /// True if aborted packets are dropped.
    pub(crate) fn drops_aborted(&self) -> bool {
        self.drops_aborted
    }

    /// The slot, location and permitted variables of a place; `None` if it executes nothing.
    #[inline]
    fn at(&self, place: Place) -> Option<(usize, Location, Permitted)> {
        let at_port = |port: PortId| self.ports.get(port.index()).copied().flatten();
        match place {
            Place::Input(port) => {
                at_port(port).filter(|at| at.input).map(|at| (at.stall, Location::Input, at.variables))
            }
            Place::Central => Some((self.central?, Location::Central, Permitted::default())),
            Place::Output(port) => {
                at_port(port).filter(|at| at.output).map(|at| (at.stall, Location::Output, at.variables))
            }
        }
    }

    /// Executes the instructions of a batch at a place, in order. `fates` has one element per packet. A place that executes nothing passes all
    /// packets (spec E-19).
    #[inline]
    pub fn visit<C: Carrier>(&mut self, place: Place, now: Instant, packets: &mut [C], fates: &mut [Fate]) {
        self.execute((place, Variables::default()), now, (packets, UNKNOWN), fates);
    }

    /// The same, with router variables. Returns the locations that any packet may ask for.
    #[inline]
    pub(crate) fn execute<C: Carrier>(
        &mut self,
        (place, of_port): (Place, Variables),
        now: Instant,
        (packets, known): (&mut [C], &Dedicated),
        fates: &mut [Fate],
    ) -> Locations {
        // Without reading the packets this place cannot tell which locations they ask for.
        let unknown = Locations { input: true, central: true, output: true };
        let Some((stall, location, permitted)) = self.at(place) else {
            fates.fill(Fate::Passed);
            return unknown;
        };
        let Station { stalls, rules, registry, clock, strain, .. } = self;
        let Some(Stall { entered, has: Some(has), seen, .. }) = stalls.get_mut(stall) else {
            fates.fill(Fate::Passed);
            return Locations::of(0);
        };
        let node = rules.node;
        // Arriving packets carry reports from downstream, which this port forwards under its own number.
        let rules = if location == Location::Input { &*entered } else { &*rules };
        if strain.as_mut().is_some_and(|strain| strain.is_short(now)) {
            return seen.pass(rules, location, packets, fates);
        }
        let readings = Readings { permitted, of_port, node, now };
        let with = (&readings, registry);
        let Some(clock) = clock.as_ref().filter(|_| seen.is_turn()) else {
            return has.site.process_reading((rules, location), with, now, (packets, known), fates);
        };
        seen.begin(&has.site, location);
        let begun = clock.now();
        let asked = has.site.process_reading((rules, location), with, now, (&mut *packets, known), fates);
        let time = clock.now().saturating_sub(begun);
        seen.took(time, packets.len(), (&has.site, location));
        asked
    }

    /// Cleans expired entries, at most `most` per store, where owners clean or this worker cleans for all. Returns the time of the next call, or
    /// [`Instant::FAR`] if there are no entries.
    pub fn tend(&mut self, now: Instant, most: usize) -> Instant {
        let mut due = Instant::FAR;
        let Station { stalls, clock, .. } = self;
        for Stall { has, seen, .. } in stalls {
            let Some(has) = has else { continue };
            let begun = clock.as_ref().map(Clock::now);
            let shard = has.site.shard();
            shard.clean(now, most);
            due = due.min(shard.due(now).unwrap_or(Instant::FAR));
            if let Some(cleaner) = &mut has.cleaner {
                // This worker is inactive between two visits, so the next step may already free the entries that this one unlinks.
                for _ in 0..most {
                    if cleaner.step(now) == 0 {
                        break;
                    }
                }
                due = due.min(cleaner.due(now).unwrap_or(Instant::FAR));
            }
            if let (Some(clock), Some(begun)) = (clock.as_ref(), begun) {
                seen.cleaning += clock.now().saturating_sub(begun);
            }
        }
        due
    }

    /// Takes over the stores that both generations share from the previous hook.
    pub fn take_from(&mut self, old: Station) {
        let mut old = old.stalls;
        for stall in self.stalls.iter_mut().filter(|stall| stall.stays) {
            stall.stays = false;
            if let Some(before) = old.iter_mut().find(|before| before.port == stall.port) {
                (stall.has, stall.seen) = (before.has.take(), std::mem::take(&mut before.seen));
            }
            if let Some(has) = &mut stall.has {
                has.site.guard_by(self.rules.limits, self.key.derive(5));
                has.site.register(&self.registry);
            }
        }
        // Remembered flows are not taken over: a flow may be split between two workers until its next instruction.
    }

    /// The place of a port, or the central one, for its counters.
    pub fn site(&mut self, port: Option<PortId>) -> Option<&mut Site> {
        let stall = match port {
            Some(port) => self.ports.get(port.index()).copied().flatten().map(|at| at.stall),
            None => self.central,
        };
        Some(&mut self.stalls.get_mut(stall?)?.has.as_mut()?.site)
    }

    /// Every store with its port, this worker's shard if it has one, and its statistics.
    pub(crate) fn sites(&self) -> impl Iterator<Item = (Option<PortId>, Option<Part<'_>>, &Seen)> {
        self.stalls.iter().map(|stall| {
            let part = stall.has.as_ref().map(|has| {
                let cleaned = match (&has.cleaner, &has.apart) {
                    (Some(cleaner), _) => cleaner.cleaned(),
                    (None, Some(told)) => told.read(),
                    (None, None) => has.site.cleaned(),
                };
                Part { site: &has.site, cleaned, cleans_for_all: has.cleaner.is_some() }
            });
            (stall.port, part, &stall.seen)
        })
    }

    /// The names of the registered instructions.
    pub(crate) fn registered(&self) -> impl Iterator<Item = &'static str> {
        self.registry.names()
    }

    /// Read access to each store, all shards, with its port; `None` for the central store.
    pub fn inspectors(&self) -> impl Iterator<Item = (Option<PortId>, Inspector)> {
        self.stalls.iter().filter_map(|stall| Some((stall.port, stall.has.as_ref()?.inspector.clone())))
    }
}
