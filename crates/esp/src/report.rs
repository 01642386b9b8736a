//! What a router tells of its ephemeral state: each store, and what was executed at each of its places.

use packet::latency::Spread;
use plane::hook::HookReport;
use units::{Bytes, Nanos, PortId};

/// What the stations of all workers tell, together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StationReport {
    /// Its stores.
    pub stores: Vec<StoreReport>,
    /// Packets handed to the workers they belong to.
    pub handed: u64,
    /// Packets that wait for the workers they belong to.
    pub waiting: u64,
}

/// One worker's part of a store.
// Large: a field for each value of the report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreReport {
    /// The port it belongs to; none for the central one, and where there is one for all.
    pub port: Option<PortId>,
    /// What was executed there.
    pub places: Vec<PlaceReport>,
    /// Entries there may be.
    pub capacity: u64,
    /// Entries that live.
    pub live: u64,
    /// Entries that have expired and are not free yet.
    pub expired: u64,
    /// Entries created.
    pub created: u64,
    /// The most entries there were at a time.
    pub high_water: u64,
    /// How long the entry freed last had been expired; none where nobody frees any.
    pub lag: Option<Nanos>,
    /// How long entries had been expired that were freed last when somebody looked: after each batch, and each cleaning.
    pub lags: Spread,
    /// Entries freed.
    pub freed: u64,
    /// Entries unlinked and not free yet; nothing where owners clean.
    pub limbo: u64,
    /// The time that cleaning took besides batches; nothing where there is no clock.
    pub cleaning: Nanos,
    /// Instructions executed by a worker that cleans for all workers, besides that; nothing where others clean.
    pub assisting: u64,
    /// Look-ups that read two lines of memory, three, four to seven, more.
    pub probed: [u64; 4],
    /// Look-ups that found another computation's entry, where that is noted.
    pub collisions: u64,
    /// Its memory.
    pub memory: Bytes,
}

/// What was executed at one place of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlaceReport {
    /// `input`, `central` or `output`.
    pub location: &'static str,
    /// By instruction: its name, how many went on, how many ended.
    pub executed: Vec<(&'static str, u64, u64)>,
    /// Why packets were not executed, what their instruction is, `registered` or `unknown` where it is none of ours, and how many.
    pub aborted: Vec<(&'static str, &'static str, u64)>,
    /// Packets that a router before could not execute.
    pub failed_before: u64,
    /// Packets that passed unexecuted, because the worker did not keep up.
    pub overloaded: u64,
    /// Packets that were executed behind others of their computation that had come later; counted with diagnostics.
    pub reordered: u64,
    /// How long instructions take, by their names: batches of which all packets had the same, some of them. Nothing where there is no clock.
    pub spent: Vec<(&'static str, Spread)>,
    /// What became of packets that ask for it, by computation: of some of them, those heard of last.
    pub traces: Vec<Trace>,
}

/// What became of those packets of a computation that ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Its number.
    pub computation: u64,
    /// Packets that were executed and went on.
    pub forwarded: u64,
    /// Packets that were executed and ended.
    pub dropped: u64,
    /// Packets that could not be executed.
    pub aborted: u64,
    /// A hash of their instructions and of what became of each, in their order: equal where the same happened in the same order.
    pub digest: u64,
}

impl StationReport {
    /// What the hooks of a router's workers tell, together: a store that several have a part of is one.
    pub fn together<'a>(reports: impl Iterator<Item = &'a HookReport>) -> StationReport {
        let mut all = StationReport::default();
        reports.for_each(|report| all.add(report));
        all
    }

    /// Adds what another worker tells. A hook that is no [`Station`](crate::station::Station) has no stores.
    pub fn add(&mut self, report: &HookReport) {
        self.handed += report.handed;
        self.waiting += report.waiting;
        for store in report.inner.downcast_ref::<Vec<StoreReport>>().into_iter().flatten() {
            match self.stores.iter_mut().find(|known| known.port == store.port) {
                Some(known) => known.add(store),
                None => self.stores.push(store.clone()),
            }
        }
    }
}

impl StoreReport {
    fn add(&mut self, other: &StoreReport) {
        for place in &other.places {
            match self.places.iter_mut().find(|known| known.location == place.location) {
                Some(known) => known.add(place),
                None => self.places.push(place.clone()),
            }
        }
        self.capacity += other.capacity;
        self.live += other.live;
        self.expired += other.expired;
        self.created += other.created;
        self.high_water += other.high_water;
        self.lag = self.lag.max(other.lag);
        self.lags.add(&other.lags);
        self.freed += other.freed;
        self.limbo += other.limbo;
        self.cleaning += other.cleaning;
        self.assisting += other.assisting;
        self.probed.iter_mut().zip(other.probed).for_each(|(sum, more)| *sum += more);
        self.collisions += other.collisions;
        self.memory += other.memory;
    }
}

impl PlaceReport {
    /// Packets that were not executed for this reason.
    pub fn aborted_for(&self, why: &str) -> u64 {
        self.aborted.iter().filter(|(known, ..)| *known == why).map(|(.., packets)| packets).sum()
    }

    fn add(&mut self, other: &PlaceReport) {
        for (known, more) in self.executed.iter_mut().zip(&other.executed) {
            debug_assert_eq!(known.0, more.0, "every worker names all instructions in one order");
            known.1 += more.1;
            known.2 += more.2;
        }
        for &(why, instruction, more) in &other.aborted {
            match self.aborted.iter_mut().find(|(known, of, _)| (*known, *of) == (why, instruction)) {
                Some((.., known)) => *known += more,
                None => self.aborted.push((why, instruction, more)),
            }
        }
        // One computation is on one worker.
        self.traces.extend_from_slice(&other.traces);
        self.failed_before += other.failed_before;
        self.overloaded += other.overloaded;
        self.reordered += other.reordered;
        for (name, more) in &other.spent {
            match self.spent.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.add(more),
                None => self.spent.push((name, more.clone())),
            }
        }
    }
}
