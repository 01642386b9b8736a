//! The cost of each instruction per packet, in batches of 32: `cargo bench -p esp`. A packet is parsed, its checksum verified and its instruction
//! executed; nothing is forwarded. Cost budgets are ratios to the forwarding path, which `switchpath bench` measures.

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use esp::isa::{Opcode, Operator, StateInstruction};
use esp::site::{ExecutionRules, InstructionFate, Location, Site};
use esp::store::{Grace, Pages, Store, StoreSpec, WorkerEpochs};
use esp::wire::{Addresses, Carriages, Locations, Part, dedicated};
use packet::{Packet, Pool, Region};
use std::cell::RefCell;
use std::sync::Arc;
use units::Instant;

/// Packets per measurement: eight batches.
const PACKETS: usize = 256;
/// Tags of a store that fits the cache.
const WARM: u64 = 1024;
/// Entries of a store that does not fit.
const LARGE: u64 = 10_000_000;

/// A pseudo-random permutation of all numbers (Steele et al. 2014, the finalizer of SplitMix64).
fn scattered(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn part(instruction: StateInstruction) -> Part {
    let computation = 0x1234_5678_9abc_def0;
    let locations = Locations::INPUT;
    Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
}

/// An instruction on the `n`th tag, as in a running computation.
fn instruction(opcode: Opcode, n: u64) -> StateInstruction {
    let (tag, other, value) = (scattered(n), scattered(n ^ 1 << 60), 5);
    match opcode {
        Opcode::Nop => StateInstruction::Nop,
        Opcode::Count => StateInstruction::Count { counter: tag, threshold: u32::MAX, inclusive: false },
        Opcode::Compare => StateInstruction::Compare { tag, value, relation: Operator::Ge },
        Opcode::Collect => StateInstruction::Collect { counter: tag, result: other, value, operator: Operator::Max },
        Opcode::Rcollect => {
            StateInstruction::Rcollect { counter: tag, result: other, child: n, value, operator: Operator::Max }
        }
        Opcode::Rchld => StateInstruction::Rchld { counter: tag, child: n },
        Opcode::Mark => StateInstruction::Mark { tag, value },
        Opcode::Test => StateInstruction::Test { tag },
        Opcode::Get => StateInstruction::Get { tag, value },
        Opcode::Put => StateInstruction::Put { tag, value },
        Opcode::Setfwd => StateInstruction::Setfwd { tag, value, relation: Operator::Ge },
    }
}

/// The instructions that create the entries which the measured one needs.
fn before(opcode: Opcode, n: u64) -> Vec<StateInstruction> {
    let StateInstruction::Put { tag, .. } = instruction(Opcode::Put, n) else { return Vec::new() };
    match opcode {
        // More children than will ever report.
        Opcode::Collect => vec![StateInstruction::Put { tag, value: u64::MAX }],
        Opcode::Rcollect => vec![instruction(Opcode::Rchld, n), StateInstruction::Put { tag, value: u64::MAX }],
        Opcode::Nop => Vec::new(),
        other => vec![instruction(other, n)],
    }
}

struct Rig {
    site: Site,
    rules: ExecutionRules,
    packets: Vec<Packet>,
    fates: Vec<InstructionFate>,
    now: Instant,
    drawn: u64,
}

impl Rig {
    fn new(capacity: u64, batch: usize) -> Rig {
        let mut pool = Pool::new(Region::new(PACKETS));
        let mut store = Store::new(
            StoreSpec { pages: Pages::Large, ..StoreSpec::of(capacity) },
            &Arc::new(WorkerEpochs::new(1)),
            Grace::Counters,
        );
        let packets = (0..PACKETS).map(|_| pool.take().expect("there is a frame for each")).collect();
        let site = Site::new(store.shards.remove(0));
        let rules = ExecutionRules { batch, ..ExecutionRules::of(7) };
        Rig {
            site,
            rules,
            packets,
            fates: vec![InstructionFate::PassedThrough; PACKETS],
            now: Instant::START,
            drawn: 0,
        }
    }

    fn fill(&mut self, instructions: impl Iterator<Item = StateInstruction>) {
        let addresses = Addresses::V4([10, 0, 0, 1].into(), [10, 9, 9, 9].into());
        for (packet, instruction) in self.packets.iter_mut().zip(instructions) {
            let mut frame = vec![0; 14];
            frame.extend(dedicated(&Carriages::default(), addresses, &part(instruction)));
            assert!(packet.fill(&frame));
            packet.meta_mut().l3 = 14;
        }
    }

    fn run(&mut self) {
        let at = (&self.rules, Location::Input);
        self.site.process(at, self.now, &mut self.packets, &mut self.fates);
    }

    /// Creates the entries for `tags` tags.
    fn populate(&mut self, opcode: Opcode, tags: u64) {
        let mut queue = Vec::new();
        for n in 0..tags {
            queue.extend(before(opcode, n));
            if queue.len() >= PACKETS || n + 1 == tags {
                std::mem::take(&mut queue).chunks(PACKETS).for_each(|chunk| {
                    self.fill(chunk.iter().copied());
                    self.run();
                });
            }
        }
        self.drawn = 0;
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let aborted = self.fates.iter().find(|fate| matches!(fate, InstructionFate::Aborted(_)));
        assert_eq!(aborted, None, "the computation was under way");
    }
}

/// Every instruction on entries in the cache.
fn warm(c: &mut Criterion) {
    let mut group = c.benchmark_group("warm");
    group.throughput(Throughput::Elements(PACKETS as u64));
    for opcode in Opcode::ALL {
        let rig = RefCell::new(Rig::new(4 * WARM, 32));
        rig.borrow_mut().populate(opcode, WARM);
        measure(&mut group, opcode.name(), &rig, opcode, WARM, false);
    }
    let rig = RefCell::new(Rig::new(4 * WARM, 1));
    rig.borrow_mut().populate(Opcode::Count, WARM);
    measure(&mut group, "count, one at a time", &rig, Opcode::Count, WARM, false);
    group.finish();
}

/// The same on random entries out of ten million.
fn large(c: &mut Criterion) {
    let mut group = c.benchmark_group("10^7 entries");
    group.throughput(Throughput::Elements(PACKETS as u64));
    for (opcode, tags) in
        [(Opcode::Count, LARGE), (Opcode::Collect, LARGE / 2), (Opcode::Rcollect, LARGE / 3), (Opcode::Test, LARGE)]
    {
        let rig = RefCell::new(Rig::new(LARGE + 1024, 32));
        rig.borrow_mut().populate(opcode, tags);
        measure(&mut group, opcode.name(), &rig, opcode, tags, true);
    }
    group.finish();
}

fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    rig: &RefCell<Rig>,
    opcode: Opcode,
    tags: u64,
    at_random: bool,
) {
    let draw = || {
        let mut rig = rig.borrow_mut();
        let first = rig.drawn;
        rig.drawn += PACKETS as u64;
        let number = move |i: u64| if at_random { scattered(first + i) % tags } else { (first + i) % tags };
        rig.fill((0..PACKETS as u64).map(|i| instruction(opcode, number(i))));
    };
    group.bench_function(name, |b| b.iter_batched(draw, |()| rig.borrow_mut().run(), BatchSize::PerIteration));
}

/// Creates in a full store: each new entry replaces one that has just expired.
fn creating(c: &mut Criterion) {
    let mut group = c.benchmark_group("creating");
    group.throughput(Throughput::Elements(PACKETS as u64));
    for (name, capacity) in [("warm", WARM), ("10^7 entries", LARGE)] {
        let rig = RefCell::new(Rig::new(capacity, 32));
        let draw = || {
            let mut rig = rig.borrow_mut();
            let first = rig.drawn;
            rig.drawn += PACKETS as u64;
            let lifetime = esp::store::LIFETIME.get();
            rig.now = Instant::new((u128::from(first) * u128::from(lifetime) / u128::from(capacity)) as u64);
            rig.fill((first..).map(|n| instruction(Opcode::Count, n)));
        };
        while rig.borrow().drawn < capacity + PACKETS as u64 {
            draw();
            rig.borrow_mut().run();
        }
        group.bench_function(name, |b| b.iter_batched(draw, |()| rig.borrow_mut().run(), BatchSize::PerIteration));
    }
    group.finish();
}

criterion_group!(benches, warm, large, creating);
criterion_main!(benches);
