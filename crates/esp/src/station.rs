//! Ephemeral state of a router as one of its workers has it: a place for each port, and the central one.
//!
//! Every store is divided into as many shards as there are workers, or fewer, and worker `w` has shard `w` of each, so a computation
//! whose packets all go to one worker meets one shard at every place (spec E-10, E-30; adr/0040).

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

/// Stores whose entries live for less than sixteen times that are not looked after more often.
const LEAST_PACE: Nanos = Nanos::micros(50);

/// What a port executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortSpec {
    /// The port.
    pub port: PortId,
    /// Its store, for what comes in and what leaves alike.
    pub store: StoreSpec,
    /// Whether what comes in is executed.
    pub input: bool,
    /// Whether what leaves is.
    pub output: bool,
    /// What of the router may be read there.
    pub variables: Permitted,
}

/// What a router executes, and where.
#[derive(Clone, Debug)]
pub struct RouterSpec {
    /// Its ports, those that execute anything.
    pub ports: Vec<PortSpec>,
    /// The central store; none where nothing is executed in the middle.
    pub central: Option<StoreSpec>,
    /// One store for all of that, which the first port or else the centre describes: to show what breaks then (spec E-09).
    pub single: bool,
    /// What is done everywhere.
    pub rules: Rules,
    /// By which computations are spread over workers.
    pub key: Key,
    /// Those who work, at least one.
    pub workers: usize,
    /// How many of them have a part of each store: the first ones.
    pub shards: usize,
    /// Queues that packets wait in on their way from one of them to another.
    pub queues: u8,
    /// How long a flow that carried something is remembered.
    pub lifetime: Nanos,
    /// Whether it is.
    pub flow_order: bool,
    /// Whether packets that were not executed end.
    pub drops_aborted: bool,
}

/// Everything made for a router.
pub struct Made {
    /// A station for each worker, in their order.
    pub stations: Vec<Station>,
}

/// Which store a port has, and what it executes.
#[derive(Clone, Copy, Debug)]
struct AtPort {
    stall: usize,
    input: bool,
    output: bool,
    variables: Permitted,
}

/// A store, as a worker has it.
struct Stall {
    /// The port it belongs to; none for the central one.
    port: Option<PortId>,
    /// What is done where packets come in.
    entered: Rules,
    /// Whether it is to be taken over from the station before.
    stays: bool,
    /// What there is; none before that, and with a worker that has no part of it.
    has: Option<Has>,
    /// What else is noted of it.
    seen: Seen,
}

struct Has {
    site: Site,
    inspector: Inspector,
    /// What cleans all of the store, where a worker does.
    cleaner: Option<Cleaner>,
    /// What it tells, where another thread has it.
    apart: Option<Told>,
}

/// One worker's part of a store, to be asked.
pub(crate) struct Part<'a> {
    pub site: &'a Site,
    /// What was taken away of it.
    pub cleaned: Cleaned,
    /// Whether this worker cleans the parts of all workers.
    pub cleans_for_all: bool,
}

/// One worker's places.
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
    /// None where flows are not looked at: there is one worker, or nobody minds.
    flows: Option<Flows>,
    /// What became of the packets of a visit.
    pub(crate) fates: Vec<Fate>,
    /// Instructions that the operator has registered.
    registry: Registry,
    /// By which instructions are timed.
    clock: Option<Clock>,
    /// Whether the worker keeps up; none where nobody minds.
    strain: Option<Strain>,
}

/// The worker of a computation, as [`shard_of`], and the queue its packets wait in on their way there, whatever worker that is.
fn owner_of(key: Key, computation: u64, (shards, queues): (usize, u8)) -> Owner {
    let queue = below(key.hash(computation).rotate_left(32), queues.into()) as u8;
    Owner { worker: shard_of(key, computation, shards), queue }
}

/// The name that the router `node` gives itself in reports that come in by a port.
pub fn name_at(node: u64, port: PortId) -> u64 {
    mix(node, u64::from(port.0))
}

impl RouterSpec {
    /// The stores, each with the port it belongs to.
    fn stores(&self) -> Vec<(Option<PortId>, StoreSpec)> {
        let mut stores: Vec<(Option<PortId>, StoreSpec)> =
            self.ports.iter().map(|port| (Some(port.port), port.store)).collect();
        stores.extend(self.central.map(|store| (None, store)));
        if self.single {
            // Whichever ports come and go, it is the same.
            stores.truncate(1);
            stores.iter_mut().for_each(|(port, _)| *port = None);
        }
        stores
    }

    /// What is done where packets come in by a port. The store there is one of several of the router, and those behind each of them are other children to
    /// the router before it: each has a name of its own.
    fn entered(&self, port: Option<PortId>) -> Rules {
        let node = port.map_or(self.rules.node, |port| name_at(self.rules.node, port));
        Rules { node, ..self.rules }
    }

    /// What all stores take.
    pub fn memory(&self) -> Bytes {
        let each = |(_, store): (Option<PortId>, StoreSpec)| bound::memory(store.capacity, self.shards);
        self.stores().into_iter().map(each).fold(Bytes::ZERO, |sum, store| sum + store)
    }

    /// Makes all stores, empty, and gives each worker its part of them.
    ///
    /// # Panics
    /// Where a store cannot be made as it is described, or there is no worker: the configuration was not checked.
    pub fn make(&self) -> Made {
        self.make_beside(None)
    }

    /// The same, but for those that `before` describes alike: they are taken [over](Station::take_from).
    pub fn make_beside(&self, before: Option<&RouterSpec>) -> Made {
        let stay = before
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
            // Several times in the quarter of a lifetime within which all that has expired is to be free (spec E-33).
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
                    // The first worker cleans for all.
                    Has { site, inspector: store.inspector.clone(), cleaner: cleaner.take(), apart: None }
                });
                station.stalls.push(Stall { port: *port, entered, stays: false, has, seen });
            }
        }
        made
    }
}

impl Station {
    /// Which worker a packet belongs to, by its computation; none where it has no instruction.
    #[inline]
    pub fn worker(&self, l3: &[u8]) -> Option<usize> {
        let (range, _) = self.rules.carriages.find(l3)?;
        Some(shard_of(self.key, peek(&l3[range])?.computation, self.shards))
    }

    /// The same, and besides for flows that carried an instruction before `now`.
    #[inline]
    pub(crate) fn whose(&mut self, l3: &[u8], now: Instant) -> Option<Owner> {
        let Station { flows, rules, key, shards, queues, .. } = self;
        let Some((range, carriage)) = rules.carriages.find(l3) else {
            return flows.as_ref().filter(|flows| flows.any(now))?.owner(l3, now);
        };
        let bytes = &l3[range];
        let owner = owner_of(*key, peek(bytes)?.computation, (*shards, *queues));
        let inside = || if carriage == Carriage::Option { upper(l3) } else { behind(bytes) };
        if let Some((flows, inside)) = flows.as_mut().and_then(|flows| Some((flows, inside()?))) {
            flows.note(l3, inside, owner, now);
        }
        Some(owner)
    }

    /// Whether [`Station::whose`] knows more than instructions at present.
    #[inline]
    pub(crate) fn follows_flows(&self, now: Instant) -> bool {
        self.flows.as_ref().is_some_and(|flows| flows.any(now))
    }

    /// These instructions are registered by the operator.
    pub(crate) fn register(&mut self, registry: Registry) {
        self.registry = registry;
        for has in self.stalls.iter_mut().filter_map(|stall| stall.has.as_mut()) {
            has.site.register(&self.registry);
        }
    }

    /// Some batches of instructions are timed, and cleaning.
    pub(crate) fn timed_by(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    /// What was made with a cleaner that is to have a thread of its own gives it away.
    pub(crate) fn give_cleaners(&mut self, to: &Cleaners) {
        for has in self.stalls.iter_mut().filter_map(|stall| stall.has.as_mut()) {
            has.apart = has.cleaner.take().map(|cleaner| to.take(cleaner));
        }
    }

    /// Where its worker does not keep up packets pass unexecuted.
    pub(crate) fn passes_when_short(&mut self) {
        self.strain = Some(Strain::default());
    }

    /// So many packets were taken from where they wait for a place, and there may be more.
    #[inline]
    pub(crate) fn note_look(&mut self, place: Place, now: Instant, packets: usize, more: bool) {
        if let Some(strain) = &mut self.strain {
            strain.looked(place, now, packets, more);
        }
    }

    /// Whether packets that find no room on their way to their worker pass as well.
    pub(crate) fn passes_what_is_late(&self) -> bool {
        self.strain.is_some()
    }

    /// One of those passes a place: if it asks to be executed there it is counted, at this worker.
    #[cold]
    pub(crate) fn note_passed(&mut self, place: Place, l3: &[u8]) {
        let Some((stall, location, _)) = self.at(place) else { return };
        if let Some(stall) = self.stalls.get_mut(stall) {
            stall.seen.passed(&self.rules, location, l3);
        }
    }

    /// Packets of the plane, which know when they came, are about to be executed at a place.
    #[inline]
    pub(crate) fn note_order(&mut self, place: Place, packets: &[Packet]) {
        let Some((stall, location, _)) = self.at(place) else { return };
        let Station { stalls, rules, .. } = self;
        if let Some(stall) = stalls.get_mut(stall) {
            stall.seen.in_order(rules, location, packets);
        }
    }

    /// What one of them did wrong since this was asked last.
    pub(crate) fn trouble_of_registered(&mut self) -> Option<InstructionTrouble> {
        self.registry.trouble()
    }

    /// Whether packets may read something of the router at a place.
    pub(crate) fn permits(&self, place: Place) -> bool {
        self.at(place).is_some_and(|(_, _, variables)| variables.any())
    }

    /// How often it is to be looked after at most.
    pub(crate) fn pace(&self) -> Nanos {
        self.pace
    }

    /// Whether packets that could not be executed end.
    pub(crate) fn drops_aborted(&self) -> bool {
        self.drops_aborted
    }

    /// The store of a place that executes, where in a packet's life that is, and what may be read there.
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

    /// Executes what packets ask for at a place, in their order. `fates` are as many as packets. A place that executes
    /// nothing lets all pass (spec E-19).
    #[inline]
    pub fn visit<C: Carrier>(&mut self, place: Place, now: Instant, packets: &mut [C], fates: &mut [Fate]) {
        self.execute((place, Variables::default()), now, (packets, UNKNOWN), fates);
    }

    /// The same where something of the router may be read. Answers where one of them may ask to be executed.
    #[inline]
    pub(crate) fn execute<C: Carrier>(
        &mut self,
        (place, of_port): (Place, Variables),
        now: Instant,
        (packets, known): (&mut [C], &Dedicated),
        fates: &mut [Fate],
    ) -> Locations {
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

    /// Cleans what is due where the owner does that, or this worker for all, at most `most` entries of each store. Answers
    /// when there is more to clean; [`Instant::FAR`] where there is nothing.
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
                // Its own part is inactive between two visits: what is unlinked now may be free the next time.
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

    /// Takes the stores that the two have in common from the station before.
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
        // Flows keep their order over a change of generations: they part for a moment where none is remembered.
    }

    /// The site of a port, or the central one, to be asked what it has counted.
    pub fn site(&mut self, port: Option<PortId>) -> Option<&mut Site> {
        let stall = match port {
            Some(port) => self.ports.get(port.index()).copied().flatten().map(|at| at.stall),
            None => self.central,
        };
        Some(&mut self.stalls.get_mut(stall?)?.has.as_mut()?.site)
    }

    /// Every store with the port it belongs to: this worker's part of it, where there is one, and what else is noted of it.
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

    /// The names of instructions that the operator has registered.
    pub(crate) fn registered(&self) -> impl Iterator<Item = &'static str> {
        self.registry.names()
    }

    /// For looking in: each store, all workers' parts, with the port it belongs to, or none for the centre.
    pub fn inspectors(&self) -> impl Iterator<Item = (Option<PortId>, Inspector)> {
        self.stalls.iter().filter_map(|stall| Some((stall.port, stall.has.as_ref()?.inspector.clone())))
    }
}
