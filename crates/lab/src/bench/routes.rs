//! Full tables: their load time, their memory, and the cost of route changes for workers that forward meanwhile. Also route caches beside them.

use super::components::{random_prefixes, random_prefixes_v6};
use super::forwarding::{BenchRouter, BenchTable, MILLION};
use super::writer::{beside_changes, timed};
use super::{BenchFigure, Rounds, median, route_cache};
use cpu::meter::ConstantMeter;
use fib::{Origin, Outcome, RouteChange};
use io::clock::CycleCounter;
use plan::{Prefix, batch};
use plane::rig::Rig;
use plane::snapshot::Layout;
use units::{Nanos, VrfId};

/// Frames in the router while a table is loaded.
const FRAMES: usize = 4096;
/// Changes a second that the writer makes during forwarding: somewhat more than the budget asks for.
const RATE: u64 = 220_000;
/// Changes a second that the budget asks for.
const REQUIRED_RATE: f64 = 200_000.0;
/// IPv6 routes of a full table.
const MANY6: usize = 200_000;
/// Changes between two reads of the clock.
const BURST: usize = 64;
/// Changes prepared beforehand.
const FLIPS: usize = 1 << 18;

/// Loading, changing, and route caches.
pub fn measure(rounds: Rounds) -> Vec<BenchFigure> {
    let mut figures = loading(rounds);
    figures.extend(changing(rounds));
    figures.extend(route_cache::measure(rounds));
    figures
}

/// Bytes of memory the process uses (proc(5), statm), in MB.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / 1e6
}

fn line((prefix, n): (Prefix, u64)) -> String {
    format!("add {prefix} via {}\n", BenchTable::gateway(n as usize))
}

/// A million routes, from a batch and from a configuration, to the forwarding table.
fn loading(Rounds(rounds): Rounds) -> Vec<BenchFigure> {
    let counter = CycleCounter::calibrated();
    let text: String = random_prefixes(MILLION).map(line).collect();
    let (mut reads, mut makes, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
    let mut memory = (0.0, 0.0);
    for _ in 0..rounds.clamp(1, 5) {
        let mut rig = Rig::running(FRAMES, Layout::Three, &BenchTable::Million.config());
        let plan = rig.router.plan().expect("it runs").clone();
        let before = resident();
        let (read, lines) = timed(&counter, || batch::batch(&text, "bench", &plan).expect("the lines are good").lines);
        let (make, summary) = timed(&counter, || {
            let edits = rig.router.prepare_edits(&lines, 1).expect("there is room");
            rig.router.apply_edits(edits, |_| {})
        });
        assert_eq!(summary.routes_added, MILLION);
        drop(lines);
        memory = (rig.router.tables().bytes() as f64 / 1e6, resident() - before);
        reads.push(read);
        makes.push(make);
        wholes.push(read + make);
    }
    let alone = |name: &str, value, unit, budget| BenchFigure::alone("routes", name, value, unit, budget);
    let mut figures = vec![
        alone("10^6 IPv4 routes of a batch, read", median(reads), "s", None),
        alone("10^6 IPv4 routes of a batch, made", median(makes), "s", None),
        alone("10^6 IPv4 routes, from the text of a batch to the table", median(wholes), "s", Some(2.0)),
        alone("memory of 10^6 IPv4 routes: tables", memory.0, "MB", None),
        alone("memory of 10^6 IPv4 routes: growth of the process", memory.1, "MB", None),
    ];
    figures.extend(loading6(&counter));
    let route = |(prefix, n): (Prefix, u64)| {
        format!("[[route]]\nto = \"{prefix}\"\nvia = \"{}\"\n", BenchTable::gateway(n as usize))
    };
    let text = BenchTable::Million.config() + &random_prefixes(MILLION).map(route).collect::<String>();
    let (read, plan) = timed(&counter, || plan::check(&text, "bench", &plane::catalogue()).expect("it is good"));
    let mut rig = Rig::new(FRAMES, Layout::Three, Box::new(packet::event::Silent));
    let (made, _) = timed(&counter, || {
        let prepared = rig.router.prepare(&plan, &mut rig.wires).expect("it can run");
        let mut published = rig.router.publish(prepared);
        while !published.is_adopted() {
            rig.step(&mut ConstantMeter(Nanos::new(10)));
        }
        rig.router.complete(published)
    });
    figures.push(alone("10^6 IPv4 routes of a configuration, read", read, "s", None));
    figures.push(alone("10^6 IPv4 routes of a configuration, made", made, "s", None));
    figures
}

/// IPv6 routes of a batch beside a million of IPv4, to the forwarding table.
fn loading6(counter: &CycleCounter) -> Vec<BenchFigure> {
    let mut rig = Rig::running(FRAMES, Layout::Three, &BenchTable::Million.config());
    let plan = rig.router.plan().expect("it runs").clone();
    let mut load = |text: &str| {
        let lines = batch::batch(text, "bench", &plan).expect("the lines are good").lines;
        let edits = rig.router.prepare_edits(&lines, 1).expect("there is room");
        rig.router.apply_edits(edits, |_| {});
        rig.router.tables().bytes() as f64 / 1e6
    };
    let four = load(&random_prefixes(MILLION).map(line).collect::<String>());
    let text: String = random_prefixes_v6(MANY6).map(|prefix| format!("add {prefix} blackhole\n")).collect();
    let (took, both) = timed(counter, || load(&text));
    vec![
        BenchFigure::alone("routes", "2x10^5 IPv6 routes more, from the text to the table", took, "s", None),
        BenchFigure::alone("routes", "memory of these: tables", both - four, "MB", None),
    ]
}

/// Forwarding at full rate with and without a writer that changes routes on another core.
fn changing(rounds: Rounds) -> Vec<BenchFigure> {
    let mut course = BenchRouter::new(Layout::Three, BenchTable::Million, 65536);
    let tables = course.tables();
    let hops = BenchTable::Million.reserve_adjacencies(&course);
    let prefixes: Vec<Prefix> = random_prefixes(MILLION).map(|(prefix, _)| prefix).step_by(MILLION / FLIPS).collect();
    let mut flips =
        (0..).flat_map(|round: usize| prefixes.iter().enumerate().map(move |(n, prefix)| (n + round, *prefix)));
    let change = || {
        tables
            .apply_routes(flips.by_ref().take(BURST).map(|(n, prefix)| RouteChange {
                vrf: VrfId::MAIN,
                prefix,
                origin: Origin::Static,
                outcome: Outcome::Via(hops[n % hops.len()]),
            }))
            .expect("the prefixes have routes");
    };
    let measured = beside_changes(rounds, (RATE, BURST as u64), change, || course.run_router(20));
    hops.into_iter().for_each(|hop| tables.release(hop));
    vec![
        BenchFigure::no_less(
            "routes",
            "changes while forwarding at full rate",
            measured.rate,
            "changes/s",
            REQUIRED_RATE,
        ),
        BenchFigure::against(
            "routes",
            "forwarding beside the changes, against without",
            measured.costs,
            "ns/packet",
            Some(1.05),
        ),
    ]
}
