//! A route cache beside the forwarding tables: where it saves time, and where the tables are faster alone.

use super::components::nanos_per_operation;
use super::{BenchFigure, Rounds, median};
use fib::route_cache::{Address, CacheFeed, CacheShape, IndexPlan, Invalidation, PlanOptions, RouteCache, flatten};
use fib::{Fib4, Fib6, Origin, Outcome, RouteChange, Tables};
use io::clock::CycleCounter;
use plan::Prefix;
use sim::routes::{CacheKind, IndexChoice, Placement, RoutesPlan};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use units::{InterfaceId, VrfId};

/// Look-ups that the forwarding path makes at once under load.
const BATCH: usize = 256;
/// Packets of a measurement: a few milliseconds, so that other programs interrupt few of the rounds.
const PACKETS: usize = 1 << 16;
/// Packets from which the destinations that hit are chosen.
const HOT: usize = 1 << 12;
/// Bits of the IPv6 prefix that contains the IPv6 form of a table.
const OUTER: u8 = 12;

/// A look-up of many addresses.
type Bulk<'a, A> = &'a dyn Fn(&[A], &mut [u32]);

/// Look-ups in batches, in nanoseconds each.
fn cost<A: Address>(rounds: Rounds, addresses: &[A], mut bulk: impl FnMut(&[A], &mut [u32])) -> f64 {
    let mut words = [0; BATCH];
    let passes = PACKETS / addresses.len();
    nanos_per_operation(rounds, passes * addresses.len(), || {
        for batch in (0..passes).flat_map(|_| addresses.chunks(BATCH)) {
            bulk(batch, &mut words[..batch.len()]);
            black_box(&words);
        }
    })
}

/// The costs of a table alone and behind a cache.
struct Costs {
    /// A look-up of the trace in the table, and in the cache before it.
    table: f64,
    cached: f64,
    /// The same for destinations that always hit.
    table_hot: f64,
    hit: f64,
    /// Part of the trace that hits.
    ratio: f64,
    /// Look-ups with another outcome than the table.
    wrong: usize,
}

impl Costs {
    fn measure<A: Address>(
        rounds: Rounds,
        feed: &CacheFeed<A>,
        shape: CacheShape,
        trace: &[A],
        table: Bulk<'_, A>,
    ) -> Costs {
        let mut cache = feed.cache(shape);
        let cached = cost(rounds, trace, |some, words| feed.lookup_bulk(&mut cache, some, words, table));
        let before = *cache.counters();
        let (mut words, mut expected) = ([0; BATCH], [0; BATCH]);
        let mut wrong = 0;
        for some in trace.chunks(BATCH) {
            feed.lookup_bulk(&mut cache, some, &mut words[..some.len()], table);
            table(some, &mut expected[..some.len()]);
            wrong += words[..some.len()].iter().zip(&expected).filter(|(word, expected)| word != expected).count();
        }
        let ratio = (cache.counters().hits - before.hits) as f64 / trace.len() as f64;
        let hot: Vec<A> =
            trace[trace.len() - HOT..].iter().copied().filter(|&address| cache.lookup(address).is_some()).collect();
        let hit = cost(rounds, &hot, |some, words| feed.lookup_bulk(&mut cache, some, words, table));
        let (table, table_hot) = (cost(rounds, trace, table), cost(rounds, &hot, table));
        Costs { table, cached, table_hot, hit, ratio, wrong }
    }
}

/// The gathering of index and tag, in nanoseconds an address: with tables, and in a loop over the bits.
fn gathering(rounds: Rounds, plan: &IndexPlan<u32>, trace: &[u32]) -> (f64, f64) {
    let each = |gather: &dyn Fn(&[u32]) -> u32| {
        nanos_per_operation(rounds, trace.len(), || {
            trace.chunks(BATCH).for_each(|some| _ = black_box(gather(some)));
        })
    };
    let tables = each(&|some| some.iter().fold(0, |sum, &address| sum ^ plan.permute(address)));
    (tables, each(&|some| some.iter().fold(0, |sum, &address| sum ^ plan.permute_loop(address))))
}

/// The measurements of one trial of F6 on this machine's processor, by name.
///
/// | value | meaning |
/// |---|---|
/// | `gather_ns`, `gather_loop_ns` | the gathering of the index bits of an address, with tables and in a loop |
/// | `lookup_ns`, `table_ns` | a look-up of the trace in the cache, with its misses, and in the forwarding table |
/// | `hit_ns`, `table_hot_ns` | a look-up that hits, and that of the same destinations in the table |
/// | `rate_pps`, `miss_share` | look-ups per second; the part of their time that misses take |
/// | `hit_ratio`, `stale` | part of the look-ups that hit; look-ups with another outcome than the table |
/// | `table_ranges`, `ranges`, `variance`, `step.N...` | as in virtual time |
pub fn route_cache_costs(trial: &RoutesPlan, rounds: usize) -> BTreeMap<String, f64> {
    let rounds = Rounds(rounds);
    let table = trial.table();
    let feed = trial.feed(&table);
    let fib = Fib4::new();
    table.routes().for_each(|(prefix, length, outcome)| fib.insert(prefix, length, outcome));
    let trace: Vec<u32> = trial.trace(&table, 0).take(PACKETS).collect();
    let shape = CacheShape { ways: trial.ways, keeps_order: false };
    let costs = Costs::measure(rounds, &feed, shape, &trace, &|some, words| fib.lookup_bulk(some, words));
    let (tables, looped) = gathering(rounds, &feed.plan().0, &trace);
    let mut values = sim::routes::describe(&table, &feed);
    values.extend(
        [
            ("gather_ns", tables),
            ("gather_loop_ns", looped),
            ("lookup_ns", costs.cached),
            ("table_ns", costs.table),
            ("hit_ns", costs.hit),
            ("table_hot_ns", costs.table_hot),
            ("rate_pps", 1e9 / costs.cached),
            ("miss_share", ((costs.cached - costs.hit) / costs.cached).max(0.0)),
            ("hit_ratio", costs.ratio),
            ("stale", costs.wrong as f64),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    values
}

/// A trial with so many prefixes. Its packets come in trains, or each goes to another host.
fn trial(prefixes: usize, repeat: f64, hosts: usize) -> RoutesPlan {
    RoutesPlan {
        prefixes,
        blocks: 64,
        outcomes: 8,
        entries: 1024,
        ways: 1,
        index: IndexChoice::Tolerance,
        cache: CacheKind::Ranges,
        hosts,
        placement: Placement::Scattered,
        active: 64,
        repeat,
        ports: 1,
        packets: PACKETS,
        changes: 0,
        full: false,
        hit: 1,
        miss: 1,
        clock: 1e9,
        seed: 1,
    }
}

/// The cache against the tables of each kind.
pub fn measure(rounds: Rounds) -> Vec<BenchFigure> {
    let mut figures = Vec::new();
    for (prefixes, repeat, hosts, name) in [
        (3000, 0.9, 20_000, "3000 prefixes, trains of packets"),
        (100_000, 0.9, 20_000, "10^5 prefixes, trains of packets"),
        (100_000, 0.0, 1_000_000, "10^5 prefixes, every packet to another host"),
    ] {
        let trial = trial(prefixes, repeat, hosts);
        let table = trial.table();
        let trace: Vec<u32> = trial.trace(&table, 0).take(PACKETS).collect();
        let routes: Vec<(u32, u8, u32)> = table.routes().collect();
        let tables = Tables::new();
        tables.attach(InterfaceId(1), VrfId(1));
        for vrf in [VrfId::MAIN, VrfId(1)] {
            tables.apply_routes(routes.iter().map(|&route| change(vrf, route))).expect("there is room");
        }
        let (fib, vrf) = (tables.fib4(), tables.vrf(VrfId(1)).expect("it has an interface"));
        // The tables store encoded outcomes.
        let coded = routes.iter().map(|&(prefix, length, outcome)| (prefix, length, word(outcome)));
        let ranges = flatten(32, coded.clone());
        let feed = CacheFeed::new(32, &ranges, &PlanOptions::new(10), Invalidation::Affected);
        let one = |table: Bulk<'_, u32>| Costs::measure(rounds, &feed, CacheShape::default(), &trace, table);
        let main = one(&|some, words| fib.lookup_bulk(some, words));
        figures.push(BenchFigure::alone(
            "routes",
            format!("route cache of 1024 ranges, hits: {name}"),
            main.ratio,
            "of look-ups",
            None,
        ));
        figures.push(compared("DIR-24-8", name, &main));
        figures.push(compared("the tree of a VRF", name, &one(&|some, words| vrf.lookup_bulk4(some, words))));
        figures.push(compared("the IPv6 table", name, &ipv6(rounds, coded, &trace)));
        if repeat == 0.0 {
            figures.extend(upkeep(rounds, &ranges, &feed, &routes));
        }
    }
    figures
}

fn compared(table: &str, name: &str, costs: &Costs) -> BenchFigure {
    assert_eq!(costs.wrong, 0, "the cache and {table} agree");
    let name = format!("look-up in a route cache, against {table}: {name}");
    BenchFigure::against("routes", name, (costs.cached, costs.table, costs.cached / costs.table), "ns/look-up", None)
}

/// The same table and packets in IPv6: each prefix behind 2000::/12.
fn ipv6(rounds: Rounds, routes: impl Iterator<Item = (u32, u8, u32)>, trace: &[u32]) -> Costs {
    let wide = |address: u32| 0x2000 << 112 | u128::from(address) << (96 - OUTER);
    let routes: Vec<(u128, u8, u32)> =
        routes.map(|(prefix, length, word)| (wide(prefix), length + OUTER, word)).collect();
    let fib = Fib6::new();
    routes.iter().for_each(|&(prefix, length, word)| fib.insert(prefix, length, word));
    let feed = CacheFeed::new(128, &flatten(128, routes), &PlanOptions::new(10), Invalidation::Affected);
    let trace: Vec<u128> = trace.iter().map(|&address| wide(address)).collect();
    Costs::measure(rounds, &feed, CacheShape::default(), &trace, &|some, words| fib.lookup_bulk(some, words))
}

/// The cost of the control side: the choice of index bits, and a change of one route.
fn upkeep(
    Rounds(rounds): Rounds,
    ranges: &[(u32, u32)],
    feed: &CacheFeed<u32>,
    routes: &[(u32, u8, u32)],
) -> Vec<BenchFigure> {
    let counter = CycleCounter::calibrated();
    let timed = |work: &dyn Fn()| {
        let start = counter.read();
        work();
        counter.between(start, counter.read()).get() as f64
    };
    let choice = || _ = black_box(IndexPlan::choose(32, ranges, &PlanOptions::new(10)));
    let choices = (0..rounds.clamp(1, 3)).map(|_| timed(&choice) / 1e6).collect();
    let hosts: Vec<u32> = routes.iter().filter(|route| route.1 == 24).map(|route| route.0).take(1000).collect();
    let changes = || hosts.iter().for_each(|&prefix| feed.change(prefix, 24, &[(prefix, word(1))]));
    let mut cache: RouteCache<u32> = feed.cache(CacheShape::default());
    let change = timed(&changes) / hosts.len() as f64;
    assert!(feed.synchronise(&mut cache), "no change is being made");
    vec![
        BenchFigure::alone(
            "routes",
            "route cache, 10^5 prefixes: choice of 10 index bits",
            median(choices),
            "ms",
            None,
        ),
        BenchFigure::alone("routes", "route cache, 10^5 prefixes: change of a /24", change / 1e3, "us", None),
    ]
}

/// The encoded outcome of a route of the trial.
fn word(outcome: u32) -> u32 {
    Outcome::Local(InterfaceId(outcome as u16)).encode()
}

fn change(vrf: VrfId, (prefix, length, outcome): (u32, u8, u32)) -> RouteChange {
    let prefix = Prefix::new(IpAddr::V4(Ipv4Addr::from(prefix)), length).expect("at most 32");
    RouteChange { vrf, prefix, origin: Origin::Static, outcome: Outcome::Local(InterfaceId(outcome as u16)) }
}
