//! Trials on this machine's processor, for comparison with the published engine (spec E-X2 to E-X6, E-X17). The packets of a batch overlap their
//! memory accesses here as threads do there. Also the cost that instructions add to the path of a packet (E-X8 to E-X10, E-X18).

use super::Values;
use crate::bench::ephemeral_costs;
use anyhow::{Context, Result, anyhow, bail};
use esp::host::Computation;
use esp::isa::{Abort, StateInstruction};
use esp::site::{ExecutionRules, InstructionFate, Location, Site};
use esp::store::{Cleaner, CleanerMode, Grace, Key, LIFETIME, Pages, Store, StoreSpec, WorkerEpochs};
use esp::wire::{Addresses, Carriages, dedicated};
use io::clock::CycleCounter;
use io::cores;
use link::RandomStream;
use sim::Measurements;
use sim::ephemeral::{EngineCleans, EnginePlan, EngineTags, StateTrial};
use sim::experiment::{CompletedRun, Job, RunKind, Runner};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use units::{Instant, Nanos};

/// Packets between two reads of the clock.
const BLOCK: usize = 1024;
/// Packets between two steps of a cleaner on the same thread: its prefetches complete while they are executed.
const VECTOR: usize = 32;
/// Number of measured blocks.
const BLOCKS: usize = 6000;
/// The reported time is the quantile that one in this many blocks stays below. Other users of the machine's memory change the average by a fifth from
/// one second to the next, but the fastest tenth of some thousand blocks only by a percent or two.
const FAST: usize = 10;
/// Entries of a store that stays in the cache.
const CACHED_ENTRIES: u64 = 8192;
/// Offset of the part in a packet.
const HEADER: usize = 20;
/// Bits of the shortest frame, as the paper counts them.
const FRAME: f64 = 512.0;
/// The size of a store as a multiple of the last-level cache if the plan has none (spec E-X2), and its limit of memory.
const BEYOND: u64 = 16;
const MOST: u64 = 8 << 30;
/// The assumed size of the last-level cache if it is unknown.
const CACHE: u64 = 32 << 20;

/// Carries out trials of the engine and of instruction costs on processors of its own, one after the other.
pub struct RealProcessor;

impl RealProcessor {
    /// True if the runs are such trials.
    pub fn supports(job: &Job) -> bool {
        let such = |trial| matches!(trial, Ok(StateTrial::Engine(_) | StateTrial::Touches(_)));
        matches!(job.measures, RunKind::State | RunKind::Laboratory) && such(StateTrial::read(&job.world, &job.file))
    }
}

impl Runner for RealProcessor {
    fn name(&self) -> &str {
        "on this machine's processor"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        let trial = StateTrial::read(&job.world, &job.file)?;
        let values = thread::spawn(move || match trial {
            StateTrial::Engine(plan) => engines(&plan),
            StateTrial::Touches(plan) => pin_last(0).map(|()| ephemeral_costs(usize::from(plan.rounds))),
            _ => bail!("this trial does not measure the processor"),
        });
        let values = values.join().map_err(|_| "a thread panicked".to_owned())?;
        Ok(Measurements { values: values.map_err(|error| format!("{error:#}"))?, ..Measurements::default() })
    }

    fn remarks(&self, runs: &[CompletedRun]) -> Vec<String> {
        let most = |name: &str| runs.iter().filter_map(|run| run.measured.get(name)).fold(0.0, f64::max);
        if most("store_mib") == 0.0 {
            return vec![
                "the added cost is the difference of a path of three tasks with and without it, measured in turn"
                    .to_owned(),
            ];
        }
        vec![format!(
            "stores alone of up to {:.0} MiB, last-level cache {:.0} MiB; one packet of each thread in a batch; the first \
             decile over blocks of {BLOCK} packets",
            most("store_mib"),
            most("cache_mib")
        )]
    }
}

/// Pins the calling thread to its last allowed processor, or to the one `before` places before it.
fn pin_last(before: usize) -> Result<()> {
    let allowed = cores::allowed()?;
    let core = allowed.len().checked_sub(before + 1).and_then(|at| allowed.get(at));
    cores::pin(*core.ok_or_else(|| anyhow!("it needs {} processors, there are {}", before + 1, allowed.len()))?)?;
    Ok(())
}

/// Size of the last-level cache in bytes, as Linux reports it.
fn last_cache() -> Option<u64> {
    let size = |index: usize| {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    (0..8).map_while(size).max()
}

/// Measures as many processors as there are engines. Nanoseconds replace the cycles of virtual time.
///
/// | value | meaning |
/// |---|---|
/// | `offered_pps`, `executed_pps`, `executed_mbps` | packets a second of all together, and in frames of 64 bytes |
/// | `cycles` | nanoseconds per packet |
/// | `memory_cycles` | the part of them that a store in the cache does not need |
/// | `created_pps`, `cleaned_pps` | entries created, and freed |
/// | `aborted` | instructions that were not executed |
/// | `store_mib`, `cache_mib` | the memory of a store, and of the last-level cache |
fn engines(plan: &EnginePlan) -> Result<Values> {
    let cache = last_cache().unwrap_or(CACHE);
    let mut plan = plan.clone();
    if plan.capacity == 0 {
        let entry = Store::bytes(1 << 20) >> 20;
        plan.capacity = (cache * BEYOND).min(MOST) / entry.max(1);
    }
    let together = Barrier::new(plan.engines);
    let far: Vec<EngineResult> = thread::scope(|scope| {
        let engine = |number: usize| {
            let (plan, together) = (&plan, &together);
            scope.spawn(move || {
                // A thread that cannot start must still reach the barrier, or the others wait forever.
                let pinned = pin_last(number);
                let bench = EngineBench::new(plan, plan.capacity, number);
                let took = bench.measure(Some(together));
                pinned.and(took)
            })
        };
        let threads: Vec<_> = (0..plan.engines).map(engine).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
            .collect::<Result<_>>()
    })?;
    pin_last(0)?;
    // The same trial with a store in the cache: the difference in time is the cost of memory.
    let near = EngineBench::new(&plan, CACHED_ENTRIES, 0).measure(None)?;
    let rate: f64 = far.iter().map(|far| 1e9 / far.each).sum();
    let each = far.iter().map(|far| far.each).sum::<f64>() / far.len().max(1) as f64;
    let part = |of: fn(&EngineResult) -> u64| {
        let (what, packets) = far.iter().fold((0, 0), |(sum, all), far| (sum + of(far), all + far.packets));
        what as f64 / packets.max(1) as f64
    };
    Ok([
        ("offered_pps", rate),
        ("executed_pps", rate * (1.0 - part(|far| far.aborted))),
        ("executed_mbps", rate * FRAME / 1e6),
        ("cycles", each),
        ("memory_cycles", (each - near.each).max(0.0)),
        ("created_pps", rate * part(|far| far.created)),
        ("cleaned_pps", rate * part(|far| far.cleaned)),
        ("aborted", far.iter().map(|far| far.aborted).sum::<u64>() as f64),
        ("store_mib", Store::bytes(plan.capacity) as f64 / (1 << 20) as f64),
        ("cache_mib", cache as f64 / (1 << 20) as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

/// The results of a measurement.
struct EngineResult {
    /// Nanoseconds per packet.
    each: f64,
    packets: u64,
    created: u64,
    cleaned: u64,
    aborted: u64,
}

/// The cleaner of expired entries.
enum CleanerPlace {
    /// The owner of the store, after each of its batches.
    Owner,
    /// The same thread, between two vectors. Its time counts as part of a packet's.
    Between(Cleaner),
    /// The same thread. Its time does not count.
    Uncounted(Cleaner),
    /// A thread on another processor.
    Thread(CleanerThread),
}

/// A cleaner thread.
struct CleanerThread {
    /// The time up to which it has to clean, and up to which it has cleaned, in nanoseconds.
    times: Arc<(AtomicU64, AtomicU64)>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CleanerThread {
    fn begin(mut cleaner: Cleaner) -> CleanerThread {
        let (times, over) = (Arc::new((AtomicU64::new(0), AtomicU64::new(0))), Arc::new(AtomicBool::new(false)));
        let (of, ends) = (times.clone(), over.clone());
        let thread = thread::spawn(move || {
            // Without another processor it shares one with the executing thread.
            let _elsewhere = pin_last(1);
            while !ends.load(Ordering::Relaxed) {
                let now = of.0.load(Ordering::Acquire);
                while cleaner.step(Instant::new(now)) > 0 {}
                of.1.store(now, Ordering::Release);
                thread::yield_now();
            }
        });
        CleanerThread { times, over, thread: Some(thread) }
    }

    /// Allows it to clean up to `now`, and waits until it has cleaned up to `before`.
    fn clean_until(&self, now: Instant, before: Instant) {
        self.times.0.store(now.get(), Ordering::Release);
        while self.times.1.load(Ordering::Acquire) < before.get() {
            thread::yield_now();
        }
    }
}

impl Drop for CleanerThread {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            drop(thread.join());
        }
    }
}

/// A store and packets for it.
struct EngineBench {
    site: Site,
    cleaner: CleanerPlace,
    rules: ExecutionRules,
    packets: Vec<Vec<u8>>,
    fates: Vec<InstructionFate>,
    computation: Computation,
    tags: Key,
    chance: RandomStream,
    /// Tags used so far.
    used: u64,
    capacity: u64,
    /// The time of the previous block.
    before: Instant,
    new: u64,
    one: bool,
}

impl EngineBench {
    fn new(plan: &EnginePlan, capacity: u64, number: usize) -> EngineBench {
        let seed = plan.seed ^ (number as u64) << 32;
        // Without other threads, the executing thread cleans as the owner of a store does. Beside others it is the assisting cleaner.
        let alone = plan.cleaner == EngineCleans::Assists && plan.threads == 0;
        let cleaning = if alone { CleanerMode::Inline } else { CleanerMode::Assist };
        let spec = StoreSpec { cleaning, pages: Pages::Large, ..StoreSpec::of(capacity) };
        let mut store = Store::new(spec, &Arc::new(WorkerEpochs::new(1)), Grace::Counters);
        let cleans = match (store.cleaner, plan.cleaner) {
            (None, _) => CleanerPlace::Owner,
            (Some(cleaner), EngineCleans::Assists) => CleanerPlace::Between(cleaner),
            (Some(cleaner), EngineCleans::None) => CleanerPlace::Uncounted(cleaner),
            (Some(cleaner), EngineCleans::Apart) => CleanerPlace::Thread(CleanerThread::begin(cleaner)),
        };
        let computation = Computation::seeded([seed, 4]);
        let addresses = Addresses::V4(Ipv4Addr::new(198, 51, 100, 9), Ipv4Addr::new(203, 0, 113, 9));
        let packet = dedicated(&Carriages::default(), addresses, &computation.count(0, u32::MAX));
        let batch = (plan.threads + usize::from(plan.cleaner == EngineCleans::Assists)).max(1);
        EngineBench {
            site: Site::new(store.shards.remove(0)),
            cleaner: cleans,
            rules: ExecutionRules { batch, ..ExecutionRules::of(1) },
            packets: vec![packet; BLOCK],
            fates: vec![InstructionFate::PassedThrough; BLOCK],
            computation,
            tags: Key::new([seed, 5]),
            chance: RandomStream::new(seed, "packets"),
            used: 0,
            capacity,
            before: Instant::START,
            new: plan.new,
            one: plan.tags == EngineTags::One,
        }
    }

    /// Prepares the next block: new tags, and tags from the half of the store that was created last.
    fn draw(&mut self) {
        for packet in &mut self.packets {
            let number = if self.one {
                0
            } else if self.used == 0 || self.chance.below(100) < self.new {
                self.used += 1;
                self.used
            } else {
                self.used - self.chance.below(self.used.min(self.capacity / 2).max(1))
            };
            let counter = self.tags.hash(number);
            let part = self.computation.part(StateInstruction::Count { counter, threshold: u32::MAX, inclusive: true });
            part.write(&mut packet[HEADER..]);
        }
    }

    /// The current time: it advances with the entries created, so that each new entry replaces an expired one. It lags by some blocks, because their
    /// entries may not be cleaned yet.
    fn now(&self) -> Instant {
        let spare = (self.capacity / 8).max(4 * BLOCK as u64);
        let lifetimes = self.used as f64 / self.capacity.saturating_sub(spare).max(1) as f64;
        Instant::new((lifetimes * LIFETIME.get() as f64) as u64)
    }

    /// Executes a block, vector by vector. Returns the nanoseconds it took.
    fn block(&mut self, counter: &CycleCounter) -> u64 {
        self.draw();
        let (before, now) = (self.before, self.now());
        if let CleanerPlace::Thread(apart) = &self.cleaner {
            apart.clean_until(now, before);
        }
        self.before = now;
        let passes = now.since(before).get() / (BLOCK / VECTOR) as u64;
        let mut at = before;
        let begun = counter.read();
        for (packets, fates) in self.packets.chunks_mut(VECTOR).zip(self.fates.chunks_mut(VECTOR)) {
            at += Nanos::new(passes);
            self.site.process((&self.rules, Location::Input), at, packets, fates);
            if let CleanerPlace::Between(cleaner) = &mut self.cleaner {
                // One step frees more entries than a vector creates.
                cleaner.step(at);
            }
        }
        let spent = counter.between(begun, counter.read()).get();
        if let CleanerPlace::Uncounted(cleaner) = &mut self.cleaner {
            while cleaner.step(now) > 0 {}
        }
        spent
    }

    /// Fills the store until as many entries expire as are created, then measures. All threads of `together` begin at once.
    fn measure(mut self, together: Option<&Barrier>) -> Result<EngineResult> {
        let counter = CycleCounter::calibrated();
        let filled = if self.one || self.new == 0 { 0 } else { self.capacity + self.capacity / 8 };
        while self.used < filled {
            self.block(&counter);
        }
        // A warm-up block: it loads code and packets into the cache, and does work that happens only once.
        self.block(&counter);
        let (before, aborted) = (self.living(), self.aborted());
        together.map(Barrier::wait);
        let mut blocks: Vec<u64> = (0..BLOCKS).map(|_| self.block(&counter)).collect();
        let (after, packets) = (self.living(), (blocks.len() * BLOCK) as u64);
        let aborted = self.aborted() - aborted;
        blocks.sort_unstable();
        let fast = blocks.get(blocks.len() / FAST).context("a block was measured")?;
        let each = *fast as f64 / BLOCK as f64;
        let (created, kept) = (after.0 - before.0, after.1 as i64 - before.1 as i64);
        Ok(EngineResult { each, packets, created, cleaned: (created as i64 - kept).max(0) as u64, aborted })
    }

    /// Entries created so far, and those not freed.
    fn living(&self) -> (u64, u64) {
        let occupancy = self.site.occupancy(self.before);
        (occupancy.created, occupancy.live + occupancy.expired)
    }

    fn aborted(&self) -> u64 {
        let counters = self.site.counters();
        Abort::ALL.iter().map(|why| counters.aborted(*why)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial of the engine with a small store.
    fn of(more: &str) -> Values {
        let cost = "{ cycles = 1, accesses = 1 }";
        let text = format!(
            "kind = 'engine'\nclock = 1\nlines = 1\nline = '1pps'\naccess = 1\ncreate = {cost}\nfind = {cost}\nclean = {cost}\n\
             lifetime = '10s'\nduration = '1s'\nwarmup = '0s'\ncapacity = 20000\nseed = 1\n{more}"
        );
        let StateTrial::Engine(plan) = StateTrial::read(&text, "trial.toml").unwrap() else {
            unreachable!("it says so")
        };
        engines(&plan).unwrap()
    }

    #[test]
    fn every_cleaner_frees_as_much_as_is_created_and_no_instruction_aborts() {
        for (threads, cleaner) in [(0, "assists"), (3, "assists"), (1, "none"), (8, "apart")] {
            let values = of(&format!("threads = {threads}\ncleaner = '{cleaner}'\nnew = 50\n"));
            assert_eq!(values["aborted"], 0.0, "{cleaner}: {values:?}");
            let cleaned = values["cleaned_pps"] / values["created_pps"];
            assert!((0.9..1.1).contains(&cleaned), "{threads} {cleaner}: {values:?}");
            let created = values["created_pps"] / values["executed_pps"];
            assert!((0.45..0.55).contains(&created), "half of the packets have a new tag: {values:?}");
        }
    }

    #[test]
    fn one_tag_creates_one_entry() {
        let values = of("threads = 3\ncleaner = 'assists'\nnew = 0\ntags = 'one'\n");
        assert_eq!((values["aborted"], values["created_pps"]), (0.0, 0.0), "{values:?}");
        assert!(values["executed_pps"] > 0.0);
    }
}
