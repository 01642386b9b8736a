//! The cost of ephemeral-state instructions per packet, beside the path that all packets of the same run take: three tasks, four routes (spec E-42;
//! experiments E-X8 to E-X10, E-X18).
//!
//! Instructions that forward their packet are measured through the whole router: their cost is the path with them minus the path without.
//! Instructions that end their packet cannot circulate. They are executed at a store alone.

use super::forwarding::{BenchRouter, BenchTable, SPARE, frame};
use super::{BenchFigure, Rounds, median, medians};
use esp::Executor;
use esp::elements::Graph;
use esp::hook::child_number;
use esp::isa::{self, Operator, StateInstruction};
use esp::site::{ExecutionRules, InstructionFate, Location, Site};
use esp::store::{Grace, LIFETIME, Pages, Store, StoreSpec, TagView, WorkerEpochs};
use esp::wire::{Addresses, Carriages, Locations, Part, dedicated};
use io::clock::CycleCounter;
use packet::event::Silent;
use packet::{Packet, Pool, Region};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::{Instant, PortId};

/// Frames of a course that stays in the cache; also its number of tags.
const WARM: usize = 1024;
/// Frames of a course that does not fit the cache.
const COLD: usize = 65536;
/// Entries of a large store.
const LARGE: u64 = 10_000_000;
/// Packets per batch, as in the router.
const BATCH: usize = 32;
/// Length of the link and IPv4 headers.
const HEADERS: usize = 34;
/// The threshold of a COUNT that never reaches it.
const ENDLESS: u32 = u32::MAX;

/// Half a lifetime after the store was created.
const HALFWAY: Instant = Instant::new(LIFETIME.get() / 2);

/// A bijection that scatters consecutive numbers (Steele et al. 2014, the finalizer of SplitMix64).
fn scattered(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Executes an instruction.
type Execute<'a> = dyn FnMut(StateInstruction) + 'a;
/// An instruction and its name in a figure. For the `n`th tags at a router the function executes the preparatory instructions and returns the one to
/// measure.
type Kind = (&'static str, fn(u64, u64, &mut Execute<'_>) -> StateInstruction);

const NOP: Kind = ("NOP", |_, _, _| StateInstruction::Nop);
const COUNT: Kind = ("COUNT", |n, _, _| counting(n));
const COMPARE: Kind =
    ("COMPARE", |n, _, _| StateInstruction::Compare { tag: scattered(n), value: 5, relation: Operator::Ge });
const COLLECT: Kind = ("COLLECT", |n, _, execute| {
    let (counter, result) = (scattered(n), scattered(!n));
    // More children than ever report.
    execute(StateInstruction::Put { tag: counter, value: u64::MAX });
    StateInstruction::Collect { counter, result, value: 5, operator: Operator::Max }
});
/// The only child has reported and reports again. A repeated report forwards the result again, which repairs losses downstream. The router replaces
/// the child's name by its own as it forwards. The child here uses the router's name from the start.
const RCOLLECT: Kind = ("RCOLLECT", |n, node, execute| {
    let (counter, result) = (scattered(n), scattered(!n));
    let mut known = StateInstruction::Rchld { counter, child: 0 };
    isa::execute(&mut known, &mut TagView::<4>::new(), node);
    let StateInstruction::Rchld { child, .. } = known else { unreachable!("it is the same instruction") };
    execute(known);
    StateInstruction::Rcollect { counter, result, child, value: 5, operator: Operator::Max }
});

fn counting(n: u64) -> StateInstruction {
    StateInstruction::Count { counter: scattered(n), threshold: ENDLESS, inclusive: false }
}

/// All instructions of the paper's table 2, and NOP.
const KINDS: [Kind; 5] = [NOP, COUNT, COMPARE, COLLECT, RCOLLECT];

fn part(locations: Locations, instruction: StateInstruction) -> Part {
    let computation = 0x1234_5678_9abc_def0;
    Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
}

/// A frame with an instruction for the ingress hook, to a host that the routes of a course lead to.
fn instruction_frame(instruction: StateInstruction, n: usize) -> Vec<u8> {
    let mut carrying = frame(0x0a00_0000 | (n as u32).wrapping_mul(0x9e37_79b1) >> 8);
    let to = Ipv4Addr::from(*carrying[30..34].first_chunk().expect("it is long enough"));
    carrying.truncate(14);
    let addresses = Addresses::V4(Ipv4Addr::new(192, 0, 2, 7), to);
    carrying.extend(dedicated(&Carriages::default(), addresses, &part(Locations::INPUT, instruction)));
    carrying
}

/// A router of three tasks with four routes and a store of this many entries.
fn router_with_store(frames: usize, entries: u64) -> Rig {
    let config = format!("{}[state]\nlifetime = \"1800s\"\ncapacity = {entries}\n", BenchTable::Few.config());
    let mut rig = Rig::new(frames + SPARE, Layout::Three, Box::new(Silent));
    rig.router.set_hook_maker(Arc::new(Executor::new().in_large_pages()));
    rig.apply(&config).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig
}

/// A course whose frames all carry an instruction of this kind.
fn course((_, instruction): Kind, frames: usize, entries: u64) -> BenchRouter {
    let mut rig = router_with_store(frames, entries);
    rig.settle();
    let node = child_number(rig.router.tables().flow_key(), PortId(0));
    let frames: Vec<Vec<u8>> = (0..frames)
        .map(|n| {
            let mut execute = |instruction| {
                rig.send("in", &instruction_frame(instruction, n));
                rig.settle();
                rig.received("out");
            };
            instruction_frame(instruction(n as u64, node, &mut execute), n)
        })
        .collect();
    BenchRouter::of(rig, frames.into_iter())
}

/// Fails if an instruction was not executed: the time of its packet would not be the instruction's cost.
fn assert_executed(course: &mut BenchRouter) {
    for packet in course.frames_mut() {
        let part = Part::read(&packet.bytes()[HEADERS..]);
        assert!(part.is_ok_and(|part| !part.error), "the computation was under way");
    }
}

/// Gives each frame the next tags and recomputes the checksum of its part.
fn draw(course: &mut BenchRouter, from: &mut u64) {
    for packet in course.frames_mut() {
        *from += 1;
        let count = part(Locations::INPUT, counting(scattered(*from) % LARGE));
        count.write(&mut packet.bytes_mut()[HEADERS..]).expect("it was one of the same length");
    }
}

fn fill(packet: &mut Packet, frame: &[u8]) {
    assert!(packet.fill(frame), "it is not long");
    packet.meta_mut().l3 = 14;
}

/// The implementation that executes.
enum Engine {
    /// The fused implementation.
    Whole(Box<Site>),
    /// A graph of elements, one for each step.
    Elements(Box<Graph>),
}

/// A store by itself and packets with instructions for it.
struct StoreBench {
    engine: Engine,
    rules: ExecutionRules,
    packets: Vec<Packet>,
    fates: Vec<InstructionFate>,
    counter: CycleCounter,
}

impl StoreBench {
    fn new((_, instruction): Kind, decomposed: bool) -> StoreBench {
        let mut pool = Pool::new(Region::new(WARM + 1));
        let spec = StoreSpec { pages: Pages::Large, ..StoreSpec::of(4 * WARM as u64) };
        let mut store = Store::new(spec, &Arc::new(WorkerEpochs::new(1)), Grace::Counters);
        let mut packets: Vec<Packet> = (0..=WARM).map(|_| pool.take().expect("there is a frame for each")).collect();
        let mut scratch = packets.split_off(WARM);
        let (shard, rules) = (store.shards.remove(0), ExecutionRules { batch: BATCH, ..ExecutionRules::of(7) });
        let at = match decomposed {
            true => Engine::Elements(Box::new(Graph::new(shard, rules, Location::Input))),
            false => Engine::Whole(Box::new(Site::new(shard))),
        };
        let (fates, counter) = (vec![InstructionFate::PassedThrough; WARM], CycleCounter::calibrated());
        let mut place = StoreBench { engine: at, rules, packets: Vec::new(), fates, counter };
        for (n, packet) in packets.iter_mut().enumerate() {
            let mut execute = |instruction| {
                fill(&mut scratch[0], &instruction_frame(instruction, n));
                place.process(&mut scratch, &mut [InstructionFate::PassedThrough]);
            };
            fill(packet, &instruction_frame(instruction(n as u64, rules.node, &mut execute), n));
        }
        place.packets = packets;
        place.execute(1);
        place
    }

    fn process(&mut self, packets: &mut [Packet], fates: &mut [InstructionFate]) {
        match &mut self.engine {
            Engine::Whole(site) => site.process((&self.rules, Location::Input), HALFWAY, packets, fates),
            Engine::Elements(graph) => graph.process(HALFWAY, packets, fates),
        }
    }

    /// Executes all packets this many times. Returns nanoseconds per packet.
    fn execute(&mut self, passes: usize) -> f64 {
        let (mut all, mut fates) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.fates));
        let begun = self.counter.read();
        for _ in 0..passes {
            for (packets, fates) in all.chunks_mut(256).zip(fates.chunks_mut(256)) {
                self.process(packets, fates);
            }
        }
        let spent = self.counter.between(begun, self.counter.read()).get();
        let aborted =
            fates.iter().find(|fate| matches!(fate, InstructionFate::Aborted(_) | InstructionFate::PassedThrough));
        assert_eq!(aborted, None, "the computation was under way");
        (self.packets, self.fates) = (all, fates);
        spent as f64 / (passes * WARM) as f64
    }
}

/// Instructions that can circulate through the whole router.
const FORWARDED: [Kind; 4] = [NOP, COUNT, COMPARE, RCOLLECT];

/// Nanoseconds per packet and its reference, for each round.
struct Costs {
    /// Packets without instructions through a router with a store, beside the plain path.
    others: Vec<(f64, f64)>,
    /// The cost that each of [`FORWARDED`] adds, beside the path.
    forwarded: [Vec<(f64, f64)>; FORWARDED.len()],
    /// The cost of each of [`KINDS`] at a store alone, beside the path.
    alone: [Vec<(f64, f64)>; KINDS.len()],
    /// The cost by a graph of elements, beside the fused implementation.
    elements: [Vec<(f64, f64)>; KINDS.len()],
}

impl Costs {
    fn measure(count: usize) -> Costs {
        let mut plain = BenchRouter::new(Layout::Three, BenchTable::Few, WARM);
        let table = BenchTable::Few;
        let destinations = table.destinations(WARM).into_iter().map(frame);
        let mut others = BenchRouter::of(router_with_store(WARM, 4 * WARM as u64), destinations);
        let mut courses = FORWARDED.map(|kind| course(kind, WARM, 4 * WARM as u64));
        let [mut places, mut graphs] =
            [false, true].map(|decomposed| KINDS.map(|kind| StoreBench::new(kind, decomposed)));
        let mut costs = Costs {
            others: Vec::new(),
            forwarded: Default::default(),
            alone: Default::default(),
            elements: Default::default(),
        };
        for round in 0..=count {
            // The first round only warms up.
            let add = |of: &mut Vec<(f64, f64)>, cost| {
                if round > 0 {
                    of.push(cost)
                }
            };
            let path = plain.run_router(plain.passes());
            add(&mut costs.others, (others.run_router(others.passes()), path));
            for (course, of) in courses.iter_mut().zip(&mut costs.forwarded) {
                add(of, (course.run_router(course.passes()) - path, path));
                assert_executed(course);
            }
            let places = places.iter_mut().zip(&mut costs.alone);
            for ((place, alone), (graph, elements)) in places.zip(graphs.iter_mut().zip(&mut costs.elements)) {
                let took = place.execute(400);
                add(alone, (took, path));
                add(elements, (graph.execute(400), took));
            }
        }
        costs
    }
}

/// The costs of instructions by name: `path.ns`, `others.ns`, and for each kind `KIND.added_ns` (added to the whole path), `KIND.alone_ns` (at a
/// store alone) and `KIND.elements_ns` (by a graph of elements).
pub fn ephemeral_costs(count: usize) -> BTreeMap<String, f64> {
    let Costs { others, forwarded: through, alone, elements } = Costs::measure(count);
    let (others, path, _) = medians(&others);
    let mut values = BTreeMap::from([("path.ns".to_owned(), path), ("others.ns".to_owned(), others)]);
    let mut of = |kinds: &[Kind], costs: &[Vec<(f64, f64)>], what: &str| {
        for ((name, _), costs) in kinds.iter().zip(costs) {
            values.insert(format!("{}.{what}", name.to_lowercase()), medians(costs).0);
        }
    };
    of(&FORWARDED, &through, "added_ns");
    of(&KINDS, &alone, "alone_ns");
    of(&KINDS, &elements, "elements_ns");
    values
}

pub fn measure(Rounds(count): Rounds) -> Vec<BenchFigure> {
    let Costs { others, forwarded: through, alone, elements } = Costs::measure(count);
    let beside = |name: String, costs: &[(f64, f64)], budget| {
        BenchFigure::against("ephemeral", name, medians(costs), "ns/packet", budget)
    };
    let mut figures =
        vec![beside("packets without instructions, where others have them".to_owned(), &others, Some(1.03))];
    for ((name, _), costs) in FORWARDED.iter().zip(&through) {
        let budget = match *name {
            "COUNT" => Some(0.6),
            "RCOLLECT" => Some(1.2),
            _ => None,
        };
        figures.push(beside(format!("{name} adds to the whole path"), costs, budget));
        if *name == "COUNT" {
            let rate = median(costs.iter().map(|(added, path)| 1e3 / (added + path)).collect());
            let name = "packets with COUNT through the whole path";
            figures.push(BenchFigure::no_less("ephemeral", name, rate, "10^6/s", 10.0));
        }
    }
    for ((name, _), costs) in KINDS.iter().zip(&alone) {
        figures.push(beside(format!("{name} at a store alone"), costs, None));
    }
    for ((name, _), costs) in KINDS.iter().zip(&elements) {
        figures.push(beside(format!("{name} by a graph of elements, against that"), costs, None));
    }
    figures.push(large(count));
    figures
}

/// COUNT on a store of ten million entries, with other tags each time.
fn large(count: usize) -> BenchFigure {
    let mut plain = BenchRouter::new(Layout::Three, BenchTable::Few, COLD);
    let mut course = course(COUNT, COLD, LARGE + 2 * COLD as u64);
    let mut from = 0;
    let mut costs = Vec::new();
    // Three times as many draws as entries, so that nearly every one of the ten million tags was drawn once.
    while from < 3 * LARGE {
        draw(&mut course, &mut from);
        course.run_router(1);
    }
    assert_executed(&mut course);
    for _ in 0..count {
        draw(&mut course, &mut from);
        // Touch the plain frames too, so that both sides find their frames equally warm.
        plain.frames_mut().iter_mut().for_each(|packet| packet.bytes_mut()[HEADERS..].reverse());
        let path = plain.run_router(1);
        costs.push((course.run_router(1) - path, path));
    }
    let name = "COUNT adds to the whole path, 10^7 entries, random tags";
    BenchFigure::against("ephemeral", name, medians(&costs), "ns/packet", Some(2.0))
}
