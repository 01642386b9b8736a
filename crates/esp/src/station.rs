//! Ephemeral state of a router as one of its workers has it: a place for each port, and the central one.
//!
//! Every store is divided into as many shards as there are workers, and worker `w` has shard `w` of each, so a computation
//! whose packets all go to one worker meets one shard at every place (spec E-10, E-30; adr/0040).

use crate::site::{Carrier, Fate, Location, Rules, Site};
use crate::store::{Cleaner, Epochs, Grace, Inspector, Key, Store, StoreSpec, shard_of};
use crate::wire::peek;
use std::sync::Arc;
use units::{Instant, PortId};

/// Where a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// At the port it came in by.
    Input(PortId),
    /// In the middle.
    Central,
    /// At the port it leaves by, one copy of those that there may be.
    Output(PortId),
}

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
}

/// Everything made for a router.
pub struct Made {
    /// A station for each worker, in their order.
    pub stations: Vec<Station>,
    /// What cleans, unless workers do it themselves.
    pub cleaners: Vec<Cleaner>,
    /// For looking in: each store, with the port it belongs to, or none for the centre.
    pub inspectors: Vec<(Option<PortId>, Inspector)>,
}

/// Which site a port has, and what it executes.
#[derive(Clone, Copy, Debug)]
struct AtPort {
    site: usize,
    input: bool,
    output: bool,
}

/// One worker's places.
pub struct Station {
    rules: Rules,
    key: Key,
    workers: usize,
    sites: Vec<Site>,
    ports: Vec<Option<AtPort>>,
    central: Option<usize>,
}

impl RouterSpec {
    /// Makes all stores, empty, and gives each worker its part of them.
    ///
    /// # Panics
    /// Where a store cannot be made as it is described, or there is no worker: the configuration was not checked.
    pub fn make(&self) -> Made {
        let epochs = Arc::new(Epochs::new(self.workers));
        let mut stores: Vec<(Option<PortId>, StoreSpec)> =
            self.ports.iter().map(|port| (Some(port.port), port.store)).collect();
        stores.extend(self.central.map(|store| (None, store)));
        if self.single {
            stores.truncate(1);
        }
        let site_of = |port: Option<PortId>| {
            let own = stores.iter().position(|(of, _)| *of == port);
            if self.single { 0 } else { own.unwrap_or(0) }
        };
        let mut ports = vec![None; self.ports.iter().map(|port| port.port.index() + 1).max().unwrap_or(0)];
        for PortSpec { port, input, output, .. } in self.ports.iter().copied() {
            ports[port.index()] = Some(AtPort { site: site_of(Some(port)), input, output });
        }
        let station = |_| Station {
            rules: self.rules,
            key: self.key,
            workers: self.workers,
            sites: Vec::new(),
            ports: ports.clone(),
            central: self.central.map(|_| site_of(None)),
        };
        let mut made =
            Made { stations: (0..self.workers).map(station).collect(), cleaners: Vec::new(), inspectors: Vec::new() };
        for (number, (port, spec)) in stores.into_iter().enumerate() {
            // Tags that collide in one store do so in no other.
            let (shards, key) = (self.workers, spec.key.derive(!(number as u64)));
            let store = Store::new(StoreSpec { shards, key, ..spec }, &epochs, Grace::Counters);
            for (station, shard) in made.stations.iter_mut().zip(store.shards) {
                station.sites.push(Site::new(shard));
            }
            made.cleaners.extend(store.cleaner);
            made.inspectors.push((port, store.inspector));
        }
        made
    }
}

impl Station {
    /// Which worker a packet belongs to, by its computation; none where it has no instruction.
    #[inline]
    pub fn worker(&self, l3: &[u8]) -> Option<usize> {
        let (range, _) = self.rules.carriages.find(l3)?;
        let (_, _, computation) = peek(&l3[range])?;
        Some(shard_of(self.key, computation, self.workers))
    }

    /// Executes what packets ask for at a place, in their order. `fates` are as many as packets. A place that executes
    /// nothing lets all pass (spec E-19).
    #[inline]
    pub fn visit<C: Carrier>(&mut self, place: Place, now: Instant, packets: &mut [C], fates: &mut [Fate]) {
        let at_port = |port: PortId| self.ports.get(port.index()).copied().flatten();
        let (site, location) = match place {
            Place::Input(port) => (at_port(port).filter(|at| at.input).map(|at| at.site), Location::Input),
            Place::Central => (self.central, Location::Central),
            Place::Output(port) => (at_port(port).filter(|at| at.output).map(|at| at.site), Location::Output),
        };
        match site.and_then(|site| self.sites.get_mut(site)) {
            Some(site) => site.process((&self.rules, location), now, packets, fates),
            None => fates.fill(Fate::Passed),
        }
    }

    /// Cleans what is due where the owner does that, at most `most` entries of each store. Answers when there is more to
    /// clean; [`Instant::FAR`] where there is nothing.
    pub fn tend(&mut self, now: Instant, most: usize) -> Instant {
        for site in &mut self.sites {
            site.shard().clean(now, most);
        }
        let due = self.sites.iter_mut().filter_map(|site| site.shard().due(now)).min();
        due.unwrap_or(Instant::FAR)
    }

    /// The site of a port, or the central one, to be asked what it has counted.
    pub fn site(&mut self, port: Option<PortId>) -> Option<&mut Site> {
        let site = match port {
            Some(port) => self.ports.get(port.index()).copied().flatten().map(|at| at.site),
            None => self.central,
        };
        self.sites.get_mut(site?)
    }
}
