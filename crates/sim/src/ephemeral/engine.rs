//! A micro-engine of the IXP1200 (Calvert et al. 2003, 3): threads take turns on one processor, and their memory accesses overlap.
//!
//! The store and its cleaner are the real ones. The engine asks the store what an instruction did, and then takes the time that this took on the IXP.
//! Like there, threads yield the processor at each memory access and at no other time. The latency of an access is distributed exponentially: the
//! causes of delay (other requests, refreshes, banks) are memoryless. Packets wait in queues, all of a computation in the same one. Two threads never
//! work on one queue at the same time.

use super::packet_executor::{PacketExecutor, part};
use super::{Values, quantity};
use crate::random::RandomStream;
use esp::isa::StateInstruction;
use esp::store::{Cleaner, CleanerMode, Grace, Key, Store, StoreSpec, WorkerEpochs, shard_of};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use units::{Instant, Nanos, PacketRate};

/// Bits of the shortest frame as the paper counts them: 64 bytes, without preamble and gap.
const FRAME: f64 = 512.0;
/// Input queues of an engine.
const QUEUES: usize = 4;
/// Packets that a queue holds.
const QUEUE: usize = 256;
/// Number of recent entries. The tag of a packet that is to hit an entry is one of theirs.
const RECENT: usize = 1024;
/// The number of computations that share one tag, if there are many.
const MANY: u64 = 1 << 20;

/// The engines and their traffic.
// Large: it is a table of an experiment's file, a field for each key.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct EnginePlan {
    /// Cycles a second.
    clock: u64,
    /// The engines; each has a store of its own.
    #[serde(default = "one")]
    pub engines: usize,
    /// The threads of each engine that only execute instructions.
    pub threads: usize,
    /// The role of the cleaner thread: `none`, `apart` (cleans only), `assists` (also executes while there is nothing to clean).
    pub cleaner: CleanerRole,
    /// The number of lines that deliver packets to all engines together, and the packet rate of each.
    lines: u64,
    #[serde(deserialize_with = "quantity")]
    line: PacketRate,
    /// The percentage of packets with a new tag. The others have the tag of an existing entry.
    pub new: u64,
    /// The tags of the other packets: `recent` for recent entries, or `one` for the same tag in all packets.
    #[serde(default)]
    pub tags: TagChoice,
    /// True if all packets belong to one computation.
    #[serde(default)]
    one_computation: bool,
    /// The mean number of cycles of a memory access.
    access: u64,
    /// The costs of creating, finding and cleaning an entry.
    create: Cost,
    find: Cost,
    clean: Cost,
    #[serde(deserialize_with = "quantity")]
    lifetime: Nanos,
    #[serde(deserialize_with = "quantity")]
    duration: Nanos,
    #[serde(deserialize_with = "quantity")]
    warmup: Nanos,
    /// Entries of each store. On a real processor 0 means as many as take sixteen times its last-level cache.
    pub capacity: u64,
    /// The seed of packets and latencies.
    pub seed: u64,
}

fn one() -> usize {
    1
}

/// The role of the cleaner thread.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum CleanerRole {
    /// No cleaner thread.
    None,
    /// It only cleans.
    Apart,
    /// It executes while there is nothing to clean.
    Assists,
}

/// The tags of packets that are to hit an entry.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub enum TagChoice {
    /// Those of recently created entries.
    #[default]
    Recent,
    /// The same for all packets.
    One,
}

/// The cost of an operation.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields)]
struct Cost {
    /// Processor cycles.
    cycles: u64,
    /// Memory accesses.
    accesses: u64,
}

/// Cycles since the start.
type Cycle = u64;

/// A scheduled event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A packet arrives on a line.
    Arrival(u64),
    /// A thread reaches its next memory access.
    Accesses(usize, usize),
    /// The memory access of a thread is complete.
    AccessComplete(usize, usize),
    /// An entry may be due for cleaning.
    CleaningDue(usize),
}

/// A queued packet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    computation: u64,
    tag: u64,
}

/// The work of a thread.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Remaining pieces. Each has some cycles and one memory access.
    pieces: u64,
    /// Cycles of each piece.
    cycles: u64,
    /// Additional cycles of the first piece.
    rest: u64,
    /// The queue of its packet; none for cleaning.
    queue: Option<usize>,
    began: Cycle,
    waited: Cycle,
}

struct Thread {
    job: Option<Job>,
    executes: bool,
    cleans: bool,
}

struct Engine {
    spot: PacketExecutor,
    cleaner: Option<Cleaner>,
    threads: Vec<Thread>,
    queues: Vec<(VecDeque<Waiting>, bool)>,
    /// The queue to look at first.
    next_queue: usize,
    ready: VecDeque<usize>,
    busy: bool,
    /// True if an event for its next cleaning is scheduled.
    due: bool,
}

#[derive(Default)]
struct EngineCounters {
    offered: u64,
    lost: u64,
    executed: u64,
    created: u64,
    aborted: u64,
    cleaned: u64,
    taken: u64,
    waited: u64,
}

struct EngineRun<'a> {
    plan: &'a EnginePlan,
    now: Cycle,
    events: BinaryHeap<Reverse<(Cycle, u64, Event)>>,
    numbered: u64,
    engines: Vec<Engine>,
    tags: Key,
    /// The number of tags used so far, and the tags of recent entries.
    used: u64,
    recent: VecDeque<u64>,
    drawn: u64,
    draws: RandomStream,
    latencies: RandomStream,
    counted: EngineCounters,
    warm: Cycle,
}

/// Runs the trial.
///
/// | value | meaning |
/// |---|---|
/// | `offered_pps`, `executed_pps`, `created_pps` | packets received, instructions executed and entries created, per second |
/// | `executed_mbps` | executed instructions as bit rate of 64-byte frames |
/// | `lost` | packets dropped at a full queue |
/// | `aborted` | instructions that were not executed |
/// | `cleaned_pps` | entries cleaned per second |
/// | `cycles`, `memory_cycles` | cycles of an instruction from start to end, and those spent waiting for memory |
pub fn run(plan: &EnginePlan) -> Result<Values, String> {
    if plan.engines == 0 || plan.threads == 0 && plan.cleaner != CleanerRole::Assists {
        return Err("an engine has a thread that executes".to_owned());
    }
    if [plan.create, plan.find, plan.clean].iter().any(|cost| cost.accesses == 0) {
        return Err("work accesses memory at least once".to_owned());
    }
    let cycles = |span: Nanos| (u128::from(span.get()) * u128::from(plan.clock) / 1_000_000_000) as Cycle;
    let (end, warm) = (cycles(plan.duration), cycles(plan.warmup));
    let engine = |number: usize| {
        let lifetime = plan.lifetime;
        let spec = StoreSpec { lifetime, cleaning: CleanerMode::Dedicated, ..StoreSpec::of(plan.capacity) };
        let Store { mut shards, cleaner, .. } = Store::new(spec, &Arc::new(WorkerEpochs::new(1)), Grace::Counters);
        let thread = |executes, cleans| Thread { job: None, executes, cleans };
        let mut threads: Vec<Thread> = (0..plan.threads).map(|_| thread(true, false)).collect();
        match plan.cleaner {
            CleanerRole::None => {}
            CleanerRole::Apart => threads.push(thread(false, true)),
            CleanerRole::Assists => threads.push(thread(true, true)),
        }
        Engine {
            spot: PacketExecutor::new(shards.remove(0), number as u64),
            cleaner,
            threads,
            queues: (0..QUEUES).map(|_| (VecDeque::new(), false)).collect(),
            next_queue: 0,
            ready: VecDeque::new(),
            busy: false,
            due: false,
        }
    };
    let mut world = EngineRun {
        plan,
        now: 0,
        events: BinaryHeap::new(),
        numbered: 0,
        engines: (0..plan.engines).map(engine).collect(),
        tags: Key::new([plan.seed, 0x0069_7870]),
        used: 0,
        recent: VecDeque::new(),
        drawn: 0,
        draws: RandomStream::new(plan.seed, "packets"),
        latencies: RandomStream::new(plan.seed, "memory"),
        counted: EngineCounters::default(),
        warm,
    };
    (0..plan.lines).for_each(|line| world.schedule_arrival(line, 0));
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        if at >= end {
            break;
        }
        world.now = at;
        world.handle_event(event);
    }
    let seconds = (end - warm) as f64 / plan.clock as f64;
    let EngineCounters { offered, lost, executed, created, aborted, cleaned, taken, waited } = world.counted;
    let rate = |count: u64| count as f64 / seconds;
    let each = |cycles: u64| cycles as f64 / executed.max(1) as f64;
    Ok([
        ("offered_pps", rate(offered)),
        ("executed_pps", rate(executed)),
        ("executed_mbps", rate(executed) * FRAME / 1e6),
        ("created_pps", rate(created)),
        ("cleaned_pps", rate(cleaned)),
        ("lost", lost as f64),
        ("aborted", aborted as f64),
        ("cycles", each(taken)),
        ("memory_cycles", each(waited)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

impl EngineRun<'_> {
    fn at(&mut self, at: Cycle, event: Event) {
        self.numbered += 1;
        self.events.push(Reverse((at, self.numbered, event)));
    }

    /// Schedules the `n`th packet of a line.
    fn schedule_arrival(&mut self, line: u64, n: u64) {
        let EnginePlan { clock, lines, line: rate, .. } = *self.plan;
        // The lines are in phase: each is a fraction of a gap behind the previous one.
        let nth = (u128::from(n) * u128::from(lines) + u128::from(line)) * u128::from(clock);
        let at = (nth / (u128::from(lines) * u128::from(rate.get().max(1)))) as Cycle;
        self.at(at, Event::Arrival(line + n * lines));
    }

    fn instant(&self) -> Instant {
        Instant::new((u128::from(self.now) * 1_000_000_000 / u128::from(self.plan.clock)) as u64)
    }

    fn is_measured(&self) -> bool {
        self.now >= self.warm
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Arrival(number) => {
                let lines = self.plan.lines;
                self.schedule_arrival(number % lines, number / lines + 1);
                self.enqueue_packet();
            }
            Event::Accesses(engine, thread) => {
                let latency = (self.latencies.exponential() * self.plan.access as f64).round() as Cycle;
                if let Some(job) = &mut self.engines[engine].threads[thread].job {
                    job.waited += latency;
                }
                self.at(self.now + latency, Event::AccessComplete(engine, thread));
                self.engines[engine].busy = false;
                self.dispatch(engine);
            }
            Event::AccessComplete(engine, thread) => {
                let job = self.engines[engine].threads[thread].job.as_mut();
                match job.filter(|job| job.pieces > 1) {
                    Some(job) => {
                        job.pieces -= 1;
                        job.rest = 0;
                        self.engines[engine].ready.push_back(thread);
                    }
                    None => self.finish_job(engine, thread),
                }
                self.dispatch(engine);
            }
            Event::CleaningDue(engine) => {
                self.engines[engine].due = false;
                self.wake(engine);
                self.dispatch(engine);
            }
        }
    }

    /// Draws a packet and enqueues it.
    fn enqueue_packet(&mut self) {
        let plan = self.plan;
        let fresh = self.draws.below(100) < plan.new;
        let known = self.recent.get(self.draws.below(self.recent.len() as u64) as usize).filter(|_| !fresh);
        let tag = match (plan.tags, known) {
            (TagChoice::One, _) => self.tags.hash(0),
            (TagChoice::Recent, Some(tag)) => *tag,
            (TagChoice::Recent, None) => {
                self.used += 1;
                self.tags.hash(self.used)
            }
        };
        self.drawn += 1;
        // A reused tag belongs to the same computation. If all packets share one tag, it belongs to any of them.
        let computation = match (plan.one_computation, plan.tags) {
            (true, _) => 1,
            (_, TagChoice::One) => self.tags.hash(!(self.drawn % MANY)),
            _ => self.tags.derive(1).hash(tag),
        };
        // All packets of a computation have the same engine and queue, so they are executed in order.
        let place = shard_of(self.tags.derive(2), computation, plan.engines * QUEUES);
        let (engine, queue) = (place / QUEUES, place % QUEUES);
        let measured = u64::from(self.is_measured());
        self.counted.offered += measured;
        let waiting = &mut self.engines[engine].queues[queue].0;
        if waiting.len() >= QUEUE {
            self.counted.lost += measured;
            return;
        }
        waiting.push_back(Waiting { computation, tag });
        self.wake(engine);
        self.dispatch(engine);
    }

    /// Gives work to idle threads.
    fn wake(&mut self, engine: usize) {
        for thread in 0..self.engines[engine].threads.len() {
            if self.engines[engine].threads[thread].job.is_none() && !self.find_work(engine, thread) {
                // Another thread may still find work; this one may be a cleaner that executes nothing.
                continue;
            }
        }
    }

    /// An idle thread looks for work. Returns true if it found some.
    fn find_work(&mut self, engine: usize, thread: usize) -> bool {
        let now = self.instant();
        let Thread { executes, cleans, .. } = self.engines[engine].threads[thread];
        let cost = if cleans { self.clean_entries(engine, now) } else { None };
        let begun = match cost {
            Some((pieces, cost)) => Some(self.job(cost, pieces, None)),
            None if executes => self.execute_packet(engine, now),
            None => None,
        };
        let of = &mut self.engines[engine];
        of.threads[thread].job = begun;
        if begun.is_some() {
            of.ready.push_back(thread);
        }
        begun.is_some()
    }

    fn job(&self, cost: Cost, times: u64, queue: Option<usize>) -> Job {
        let Cost { cycles, accesses } = cost;
        let (began, waited) = (self.now, 0);
        Job { pieces: accesses * times, cycles: cycles / accesses, rest: cycles % accesses, queue, began, waited }
    }

    /// Unlinks due entries, and frees those unlinked earlier. Returns the number of unlinked entries and the cost of each.
    fn clean_entries(&mut self, engine: usize, now: Instant) -> Option<(u64, Cost)> {
        let of = &mut self.engines[engine];
        let cleaner = of.cleaner.as_mut()?;
        let mut unlinked = 0;
        loop {
            let before = cleaner.counters().freed;
            let done = cleaner.step(now) as u64;
            unlinked += done - (cleaner.counters().freed - before);
            // A step that only frees costs nothing in the model; it goes on to the entries that are due.
            if done == 0 || unlinked > 0 {
                break;
            }
        }
        if unlinked > 0 {
            self.counted.cleaned += if self.now >= self.warm { unlinked } else { 0 };
            return Some((unlinked, self.plan.clean));
        }
        if let Some(due) = cleaner.due(now).filter(|_| !of.due) {
            of.due = true;
            // One cycle later, because nanoseconds are rounded down to cycles.
            let cycle = u128::from(due.get()) * u128::from(self.plan.clock) / 1_000_000_000;
            self.at((cycle as Cycle).max(self.now) + 1, Event::CleaningDue(engine));
        }
        None
    }

    /// Takes the next packet from a queue on which no other thread works.
    fn execute_packet(&mut self, engine: usize, now: Instant) -> Option<Job> {
        let of = &mut self.engines[engine];
        let free = |queue: &usize| !of.queues[*queue].0.is_empty() && !of.queues[*queue].1;
        let queue = (0..QUEUES).map(|n| (of.next_queue + n) % QUEUES).find(free)?;
        of.next_queue = (queue + 1) % QUEUES;
        of.queues[queue].1 = true;
        let Waiting { computation, tag } = of.queues[queue].0.pop_front()?;
        let before = of.spot.site.shard_counters().created;
        let instruction = StateInstruction::Count { counter: tag, threshold: u32::MAX, inclusive: true };
        let fate = of.spot.execute(now, &part(computation, instruction));
        let created = of.spot.site.shard_counters().created > before;
        if self.is_measured() {
            self.counted.created += u64::from(created);
            self.counted.aborted += u64::from(matches!(fate, esp::site::InstructionFate::Aborted(_)));
        }
        if created {
            self.recent.truncate(RECENT - 1);
            self.recent.push_front(tag);
        }
        let cost = if created { self.plan.create } else { self.plan.find };
        Some(self.job(cost, 1, Some(queue)))
    }

    /// A thread has finished its work and looks for more.
    fn finish_job(&mut self, engine: usize, thread: usize) {
        let Some(job) = self.engines[engine].threads[thread].job.take() else { return };
        if let Some(queue) = job.queue {
            self.engines[engine].queues[queue].1 = false;
            if self.is_measured() {
                self.counted.executed += 1;
                self.counted.taken += self.now - job.began;
                self.counted.waited += job.waited;
            }
        }
        // Other threads may now use its queue too. The thread itself goes to the end of the ready list.
        self.find_work(engine, thread);
        self.wake(engine);
    }

    /// Runs the thread that has been ready for the longest time.
    fn dispatch(&mut self, engine: usize) {
        let of = &mut self.engines[engine];
        if of.busy {
            return;
        }
        let Some(thread) = of.ready.pop_front() else { return };
        let Some(job) = of.threads[thread].job else { return };
        of.busy = true;
        self.at(self.now + job.cycles + job.rest, Event::Accesses(engine, thread));
    }
}
