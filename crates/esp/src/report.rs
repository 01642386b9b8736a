//! The report on ephemeral state: each store, and the instructions executed at each processing place.

use packet::latency::HistogramSnapshot;
use plane::hook::HookReport;
use units::{Bytes, Nanos, PortId};

/// The sum of all workers' reports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StateReport {
    /// The stores.
    pub stores: Vec<StoreReport>,
    /// Packets handed off to the worker of their computation.
    pub handed_off: u64,
    /// Packets queued in a handoff to the worker of their computation.
    pub queued_handoffs: u64,
}

/// One worker's shard of a store.
// Large: a field for each value of the report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreReport {
    /// The store's port; `None` for the central store, and for a single store of all ports.
    pub port: Option<PortId>,
    /// The counters of each place that uses the store.
    pub places: Vec<PlaceReport>,
    /// The capacity in entries.
    pub capacity: u64,
    /// Live entries.
    pub live: u64,
    /// Entries that have expired and are not free yet.
    pub expired: u64,
    /// Entries created.
    pub created: u64,
    /// The high-water mark of entries.
    pub high_water: u64,
    /// The delay between expiry and release of the last freed entry; `None` while none has been freed.
    pub lag: Option<Nanos>,
    /// The distribution of that delay, sampled after each batch and each cleaning.
    pub lags: HistogramSnapshot,
    /// Entries freed.
    pub freed: u64,
    /// Entries unlinked and not free yet. Zero with inline cleaning.
    pub limbo: u64,
    /// Time spent cleaning outside of batches. Zero without a clock.
    pub cleaning: Nanos,
    /// Instructions executed by the worker that also cleans for all workers. Zero if no worker does.
    pub assisting: u64,
    /// Look-ups that read two memory lines, three, four to seven, more.
    pub probed: [u64; 4],
    /// Look-ups that found an entry of another computation. Counted with diagnostics only.
    pub collisions: u64,
    /// The memory in bytes.
    pub memory: Bytes,
}

/// The counters of one processing place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlaceReport {
    /// `input`, `central` or `output`.
    pub location: &'static str,
    /// By instruction: name, packets forwarded, packets dropped.
    pub executed: Vec<(&'static str, u64, u64)>,
    /// By abort: reason, instruction (`registered` or `unknown` if it is not built in), packets.
    pub aborted: Vec<(&'static str, &'static str, u64)>,
    /// Packets whose error bit an earlier router set.
    pub failed_before: u64,
    /// Packets that passed unexecuted because the worker was overloaded.
    pub overloaded: u64,
    /// Packets executed after a later packet of their computation. Counted with diagnostics only.
    pub reordered: u64,
    /// The execution time of instructions, by name, sampled from batches in which every packet has the same instruction. Empty without a clock.
    pub execution_times: Vec<(&'static str, HistogramSnapshot)>,
    /// The fates of packets that ask for a trace, by computation. Only the most recent computations are kept.
    pub traces: Vec<ComputationTrace>,
}

/// The fates of the traced packets of a computation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ComputationTrace {
    /// The computation.
    pub computation: u64,
    /// Packets executed and forwarded.
    pub forwarded: u64,
    /// Packets executed and dropped.
    pub dropped: u64,
    /// Packets aborted.
    pub aborted: u64,
    /// A hash over instructions and fates in order: equal if the same instructions had the same fates in the same order.
    pub digest: u64,
}

impl StateReport {
    /// Sums the reports of all workers. Shards of the same store become one store.
    pub fn merge<'a>(reports: impl Iterator<Item = &'a HookReport>) -> StateReport {
        let mut all = StateReport::default();
        reports.for_each(|report| all.add(report));
        all
    }

    /// Adds the report of another worker. A hook that is no [`StateHook`](crate::hook::StateHook) has no stores.
    pub fn add(&mut self, report: &HookReport) {
        self.handed_off += report.handed_over;
        self.queued_handoffs += report.waiting;
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
        // The lag of the store is that of the shard whose cleaner is furthest behind.
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
    /// Packets aborted for this reason.
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
        // Each computation belongs to one worker, so no two reports have the same trace.
        self.traces.extend_from_slice(&other.traces);
        self.failed_before += other.failed_before;
        self.overloaded += other.overloaded;
        self.reordered += other.reordered;
        for (name, more) in &other.execution_times {
            match self.execution_times.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.add(more),
                None => self.execution_times.push((name, more.clone())),
            }
        }
    }
}
