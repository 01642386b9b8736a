//! Trials of route lookup in virtual time: route caches in front of a classifier (spec P, F6).
//!
//! Caches, plans and ranges are those of the router (`fib::route_cache`). Their speed is that of the paper's machine: a look-up occupies the network
//! processor of a port for a time, and a miss occupies the processor that all ports share for another. A network processor waits for the answer
//! to a miss before it looks up the next packet.

mod trace;

pub use trace::{DestinationTrace, Placement, RouteTable};

use crate::Measurements;
use fib::Fib4;
use fib::route_cache::{
    CacheFeed, CacheShape, Fill, IndexPlan, Invalidation, PlanObjective, PlanOptions, RouteCache, RouteCacheCounters,
    flatten, flatten_within,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How the index bits are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexChoice {
    /// Greedily, with a tolerance of 2 %: the default.
    Tolerance,
    /// Greedily, by the total number of ranges.
    Lexicographic,
    /// With a look-ahead of two bits.
    LookAhead,
    /// Greedily, followed by exchanges of single bits.
    Exchange,
    /// The most significant bits.
    Top,
}

/// The contents of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Ranges of addresses with one outcome.
    Ranges,
    /// Single addresses, in the set that their lowest bits select.
    Hosts,
}

/// A trial.
// Large: a field for each key of a trial.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct RoutesPlan {
    /// Prefixes of the table.
    pub prefixes: usize,
    /// Blocks of /12 that contain them; 0 for the whole unicast space.
    pub blocks: usize,
    /// Different outcomes.
    pub outcomes: u32,
    /// Entries of a cache: a power of two.
    pub entries: usize,
    /// Entries of a set: a power of two.
    pub ways: usize,
    /// The choice of index bits.
    pub index: IndexChoice,
    /// The contents.
    pub cache: CacheKind,
    /// Hosts that packets are sent to.
    pub hosts: usize,
    /// Where these are.
    pub placement: Placement,
    /// Destinations of current trains, and the probability that a packet belongs to one.
    pub active: usize,
    /// See `active`.
    pub repeat: f64,
    /// Ports with a cache each, which share one classifier.
    pub ports: usize,
    /// Packets of all ports together. The first tenth is not measured.
    pub packets: usize,
    /// Route changes during the trial, at equal distances.
    pub changes: usize,
    /// True if a change removes all entries of all caches.
    pub full: bool,
    /// Cycles of a look-up.
    pub hit: u64,
    /// Additional cycles of a miss.
    pub miss: u64,
    /// Cycles per second.
    pub clock: f64,
    /// The seed.
    pub seed: u64,
}

impl RoutesPlan {
    /// Parses the trial that `text`, of `file`, describes.
    ///
    /// # Errors
    ///
    /// The description is invalid; the message names the file.
    pub fn read(text: &str, file: &str) -> Result<RoutesPlan, String> {
        let plan: RoutesPlan = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
        let sets = plan.entries / plan.ways.max(1);
        if !sets.is_power_of_two() || sets > 1 << fib::route_cache::MOST_BITS {
            return Err(format!("{file}: {} entries in sets of {} are no power of two", plan.entries, plan.ways));
        }
        if plan.ports == 0 || plan.hosts == 0 || plan.prefixes == 0 || plan.outcomes == 0 {
            return Err(format!("{file}: `ports`, `hosts`, `prefixes` and `outcomes` are at least 1"));
        }
        Ok(plan)
    }

    /// Its table.
    pub fn table(&self) -> RouteTable {
        RouteTable::new(self.prefixes, self.outcomes, self.blocks, self.seed)
    }

    /// The feed of the caches of `table`.
    pub fn feed(&self, table: &RouteTable) -> CacheFeed<u32> {
        let ranges = flatten(32, table.routes());
        let bits = (self.entries / self.ways).trailing_zeros() as u8;
        let options = PlanOptions::new(bits);
        let choose = |options: &PlanOptions| IndexPlan::choose(32, &ranges, options);
        let plan = match (self.cache, self.index) {
            (CacheKind::Hosts, _) => IndexPlan::with_bits(32, 0..bits),
            (_, IndexChoice::Top) => IndexPlan::with_bits(32, 32 - bits..32),
            (_, IndexChoice::Tolerance) => choose(&options),
            (_, IndexChoice::Lexicographic) => {
                choose(&PlanOptions { objective: PlanObjective::Lexicographic, ..options })
            }
            (_, IndexChoice::LookAhead) => choose(&PlanOptions { look_ahead: true, ..options }),
            (_, IndexChoice::Exchange) => choose(&PlanOptions { swaps: true, ..options }),
        };
        let mode = if self.full { Invalidation::Full } else { Invalidation::Affected };
        CacheFeed::with_plan(plan, &ranges, mode)
    }

    /// An empty cache.
    pub fn cache(&self, feed: &CacheFeed<u32>) -> RouteCache<u32> {
        feed.cache(CacheShape { ways: self.ways, keeps_order: false })
    }

    /// The packets of a port.
    pub fn trace(&self, table: &RouteTable, port: usize) -> DestinationTrace {
        DestinationTrace::new(
            table,
            (self.hosts, self.placement),
            (self.active, self.repeat),
            self.seed ^ (port as u64) << 32,
        )
    }
}

/// A port: its cache, its packets, and the virtual time of its network processor in cycles.
struct NetworkProcessor {
    cache: RouteCache<u32>,
    trace: DestinationTrace,
    now: u64,
    /// The range that the classifier returned.
    fill: Option<Fill<u32>>,
}

/// Runs the trial that `text`, of `file`, describes.
///
/// | value | meaning |
/// |---|---|
/// | `hit_ratio` | part of the look-ups that found a range |
/// | `mean_cycles`, `rate_pps` | the mean time of a look-up with its miss, and the look-ups of one port per second |
/// | `expected_cycles` | the same from the hit ratio: hit + (1 - h) miss |
/// | `miss_share` | part of the shared processor's time that misses occupy |
/// | `fills`, `stale_fills`, `invalidations` | ranges stored, ranges that came too late, removals after changes |
/// | `stale` | look-ups with another outcome than the forwarding table at that time |
/// | `table_ranges`, `ranges`, `variance` | ranges of the table, of all partitions, and their variance over the partitions |
/// | `step.N.ranges`, `step.N.variance`, `step.N.bit` | the same after the choice of each bit |
///
/// # Errors
///
/// The description is invalid; the message names the file.
pub fn run(text: &str, file: &str) -> Result<Measurements, String> {
    let plan = RoutesPlan::read(text, file)?;
    let mut table = plan.table();
    let feed = plan.feed(&table);
    let fib = Fib4::new();
    table.routes().for_each(|(prefix, length, outcome)| fib.insert(prefix, length, outcome));
    let port = |n| {
        let (cache, trace) = (plan.cache(&feed), plan.trace(&table, n));
        // Ports do not begin at the same cycle.
        NetworkProcessor { cache, trace, now: n as u64 * plan.hit / plan.ports as u64, fill: None }
    };
    let mut ports: Vec<NetworkProcessor> = (0..plan.ports).map(port).collect();
    let mut measured = Totals::default();
    let warmup = plan.packets / 10;
    let spacing = plan.packets.checked_div(plan.changes).unwrap_or(usize::MAX);
    // The time at which the classifier is idle again.
    let mut classifier = 0;
    for packet in 0..plan.packets {
        if packet == warmup {
            measured = Totals { counters: counters(&ports), ..Totals::default() };
        }
        if packet % spacing == spacing - 1 {
            let (prefix, length, outcome) = table.change();
            fib.insert(prefix, length, outcome);
            feed.change(prefix, length, &flatten_within((prefix, length, outcome), 32, table.within(prefix, length)));
        }
        let port = ports.iter_mut().min_by_key(|port| port.now).expect("there is a port");
        let begin = port.now;
        // The answer to the previous miss. Routes may have changed since the classifier found it.
        assert!(feed.synchronise(&mut port.cache), "no change is being made");
        port.fill.take().into_iter().for_each(|fill| _ = port.cache.install(fill));
        let address = port.trace.next().expect("it has no end");
        port.now += plan.hit;
        let found = port.cache.lookup(address).unwrap_or_else(|| {
            let start = classifier.max(port.now);
            classifier = start + plan.miss;
            port.now = classifier;
            measured.busy += plan.miss;
            let mut fill = feed.resolve(address);
            if plan.cache == CacheKind::Hosts {
                let host = port.cache.plan().permute(address);
                (fill.range.first, fill.range.last) = (host, host);
            }
            port.fill = Some(fill);
            fill.range.word
        });
        measured.stale += u64::from(found != fib.lookup(address));
        measured.packets += 1;
        measured.cycles += port.now - begin;
    }
    let mut values = measured.report(&plan, counters(&ports));
    values.extend(describe(&table, &feed));
    Ok(Measurements {
        parameters: vec![("trial".to_owned(), text.trim().to_owned())],
        values,
        ..Measurements::default()
    })
}

fn counters(ports: &[NetworkProcessor]) -> RouteCacheCounters {
    ports.iter().fold(RouteCacheCounters::default(), |mut sum, port| {
        sum += *port.cache.counters();
        sum
    })
}

/// The sums of a trial.
#[derive(Default)]
struct Totals {
    packets: u64,
    cycles: u64,
    busy: u64,
    stale: u64,
    /// Those of the caches at the start.
    counters: RouteCacheCounters,
}

impl Totals {
    fn report(&self, plan: &RoutesPlan, counters: RouteCacheCounters) -> BTreeMap<String, f64> {
        let now = units::CounterSet::since(&counters, &self.counters);
        let packets = self.packets as f64;
        let (ratio, mean) = (now.hits as f64 / packets, self.cycles as f64 / packets);
        [
            ("hit_ratio", ratio),
            ("mean_cycles", mean),
            ("expected_cycles", plan.hit as f64 + (1.0 - ratio) * plan.miss as f64),
            ("rate_pps", plan.clock / mean),
            ("miss_share", self.busy as f64 * plan.ports as f64 / self.cycles as f64),
            ("fills", now.fills as f64),
            ("stale_fills", now.stale as f64),
            ("invalidations", now.invalidations as f64),
            ("stale", self.stale as f64),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// The ranges of a table and of its partitions, by the names of [`run`].
pub fn describe(table: &RouteTable, feed: &CacheFeed<u32>) -> BTreeMap<String, f64> {
    let totals = feed.totals();
    let mut values: BTreeMap<String, f64> = [
        ("table_ranges", flatten(32, table.routes()).len() as f64),
        ("ranges", totals.ranges as f64),
        ("variance", totals.variance),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (n, step) in feed.plan().0.steps().iter().enumerate() {
        for (what, value) in [("bit", step.bit.into()), ("ranges", step.ranges as f64), ("variance", step.variance)] {
            values.insert(format!("step.{}.{what}", n + 1), value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(more: &str) -> BTreeMap<String, f64> {
        let text = format!(
            "prefixes = 500\nblocks = 0\noutcomes = 8\nentries = 256\nindex = 'tolerance'\nplacement = 'scattered'\nactive = 64\n\
             repeat = 0.9\nhosts = 2000\npackets = 20000\nhit = 4705\nmiss = 2506\nclock = 400e6\nseed = 1\n{more}"
        );
        run(&text, "trial.toml").unwrap_or_else(|error| panic!("{error}")).values
    }

    #[test]
    fn one_port_never_waits_for_the_classifier() {
        let values = trial("ports = 1\nways = 1\ncache = 'ranges'\nchanges = 0\nfull = false");
        assert!((values["mean_cycles"] - values["expected_cycles"]).abs() < 1e-6, "{values:?}");
        assert_eq!((values["stale"], values["stale_fills"]), (0.0, 0.0));
    }

    #[test]
    fn fills_are_dropped_when_routes_change_before_they_arrive() {
        for cache in ["ranges", "hosts"] {
            for full in [false, true] {
                let values = trial(&format!("ports = 4\nways = 2\ncache = '{cache}'\nchanges = 5000\nfull = {full}"));
                assert_eq!(values["stale"], 0.0, "{values:?}");
                assert!(values["stale_fills"] > 100.0, "{values:?}");
            }
        }
    }
}
