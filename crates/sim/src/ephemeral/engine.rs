//! A micro-engine of the IXP1200 (Calvert et al. 2003, 3): threads that take turns on one processor, and wait for memory at the same time.
//!
//! The store is the real one, and so is what cleans it; the engine asks it what an instruction has done, and then takes as long as that took there. Threads
//! give the processor away at each access to memory and at no other time, as the IXP's do; an access takes a time that is distributed exponentially, for
//! what a memory is busy with, others' requests, refreshes, banks, has no memory of its own. Packets wait in queues, all of a computation in the same, and
//! no two threads work on one queue at once.

use super::spot::{Spot, part};
use super::{Values, quantity};
use crate::chance::Chance;
use esp::isa::Instruction;
use esp::store::{Cleaner, Cleaning, Epochs, Grace, Key, Store, StoreSpec, shard_of};
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
/// Entries made last, of whose tags one is taken for a packet that is to find its tag there.
const RECENT: usize = 1024;
/// Computations that packets of one tag belong to, where those are many.
const MANY: u64 = 1 << 20;

/// The engines and what comes.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Cycles a second.
    clock: u64,
    /// Engines, each with a store of its own.
    #[serde(default = "one")]
    pub engines: usize,
    /// Threads of each that execute instructions and do nothing else.
    pub threads: usize,
    /// What its cleaner does: `none`, `apart` (cleans only), `assists` (executes when there is nothing to clean).
    pub cleaner: Cleans,
    /// Lines that packets come by to all engines together, and packets a second on each.
    lines: u64,
    #[serde(deserialize_with = "quantity")]
    line: PacketRate,
    /// Of a hundred packets so many with a tag that was not used before; the others have one that is there.
    pub new: u64,
    /// Tags of the others: `recent`, those made last, or `one` for all packets.
    #[serde(default)]
    pub tags: Which,
    /// Whether all packets are of one computation.
    #[serde(default)]
    one_computation: bool,
    /// Cycles that an access to memory takes on average.
    access: u64,
    /// What making an entry, finding one, and cleaning one away take.
    create: Cost,
    find: Cost,
    clean: Cost,
    #[serde(deserialize_with = "quantity")]
    lifetime: Nanos,
    #[serde(deserialize_with = "quantity")]
    duration: Nanos,
    #[serde(deserialize_with = "quantity")]
    warmup: Nanos,
    /// Entries of each store; on a real processor 0 for as many as take sixteen times its last cache.
    pub capacity: u64,
    /// What packets and latencies are drawn from.
    pub seed: u64,
}

fn one() -> usize {
    1
}

/// What a cleaner does.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Cleans {
    /// There is none.
    None,
    /// It cleans only.
    Apart,
    /// It executes when there is nothing to clean.
    Assists,
}

/// Which tags packets have that are to find one.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// Those made last.
    #[default]
    Recent,
    /// All packets the same.
    One,
}

/// What some work takes.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields)]
struct Cost {
    /// Cycles of the processor.
    cycles: u64,
    /// Accesses to memory.
    accesses: u64,
}

/// Cycles since the start.
type Cycle = u64;

/// What happens next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A packet comes by a line.
    Arrival(u64),
    /// A thread has come to its next access to memory.
    Accesses(usize, usize),
    /// What a thread has waited for is there.
    Answered(usize, usize),
    /// There may be something to clean.
    Due(usize),
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    computation: u64,
    tag: u64,
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Pieces left, each some cycles and one access.
    pieces: u64,
    /// Cycles of each.
    cycles: u64,
    /// Cycles that the first has besides.
    rest: u64,
    /// The queue its packet came from; none where it cleans.
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
    spot: Spot,
    cleaner: Option<Cleaner>,
    threads: Vec<Thread>,
    queues: Vec<(VecDeque<Waiting>, bool)>,
    /// The queue that is looked at first.
    turn: usize,
    ready: VecDeque<usize>,
    busy: bool,
    /// Whether it is known when it will have something to clean.
    due: bool,
}

#[derive(Default)]
struct Counted {
    offered: u64,
    lost: u64,
    executed: u64,
    created: u64,
    aborted: u64,
    cleaned: u64,
    taken: u64,
    waited: u64,
}

struct World<'a> {
    plan: &'a Plan,
    now: Cycle,
    events: BinaryHeap<Reverse<(Cycle, u64, Event)>>,
    numbered: u64,
    engines: Vec<Engine>,
    tags: Key,
    /// Tags that were used for the first time so far, and those of the entries that were made last.
    used: u64,
    recent: VecDeque<u64>,
    drawn: u64,
    draws: Chance,
    latencies: Chance,
    counted: Counted,
    warm: Cycle,
}

/// Runs it.
///
/// | value | what |
/// |---|---|
/// | `offered_pps`, `executed_pps`, `created_pps` | packets that came, instructions executed, entries made, a second |
/// | `executed_mbps` | the same in frames of 64 bytes |
/// | `lost` | packets that found their queue full |
/// | `aborted` | instructions that were not executed |
/// | `cleaned_pps` | entries taken away |
/// | `cycles`, `memory_cycles` | of an instruction, from being begun to its end; of that waiting for memory |
pub fn run(plan: &Plan) -> Result<Values, String> {
    if plan.engines == 0 || plan.threads == 0 && plan.cleaner != Cleans::Assists {
        return Err("an engine has a thread that executes".to_owned());
    }
    if [plan.create, plan.find, plan.clean].iter().any(|cost| cost.accesses == 0) {
        return Err("work accesses memory at least once".to_owned());
    }
    let cycles = |span: Nanos| (u128::from(span.get()) * u128::from(plan.clock) / 1_000_000_000) as Cycle;
    let (end, warm) = (cycles(plan.duration), cycles(plan.warmup));
    let engine = |number: usize| {
        let lifetime = plan.lifetime;
        let spec = StoreSpec { lifetime, cleaning: Cleaning::Dedicated, ..StoreSpec::of(plan.capacity) };
        let Store { mut shards, cleaner, .. } = Store::new(spec, &Arc::new(Epochs::new(1)), Grace::Counters);
        let thread = |executes, cleans| Thread { job: None, executes, cleans };
        let mut threads: Vec<Thread> = (0..plan.threads).map(|_| thread(true, false)).collect();
        match plan.cleaner {
            Cleans::None => {}
            Cleans::Apart => threads.push(thread(false, true)),
            Cleans::Assists => threads.push(thread(true, true)),
        }
        Engine {
            spot: Spot::new(shards.remove(0), number as u64),
            cleaner,
            threads,
            queues: (0..QUEUES).map(|_| (VecDeque::new(), false)).collect(),
            turn: 0,
            ready: VecDeque::new(),
            busy: false,
            due: false,
        }
    };
    let mut world = World {
        plan,
        now: 0,
        events: BinaryHeap::new(),
        numbered: 0,
        engines: (0..plan.engines).map(engine).collect(),
        tags: Key::new([plan.seed, 0x0069_7870]),
        used: 0,
        recent: VecDeque::new(),
        drawn: 0,
        draws: Chance::new(plan.seed, "packets"),
        latencies: Chance::new(plan.seed, "memory"),
        counted: Counted::default(),
        warm,
    };
    (0..plan.lines).for_each(|line| world.arrives_next(line, 0));
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        if at >= end {
            break;
        }
        world.now = at;
        world.happens(event);
    }
    let seconds = (end - warm) as f64 / plan.clock as f64;
    let Counted { offered, lost, executed, created, aborted, cleaned, taken, waited } = world.counted;
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

impl World<'_> {
    fn at(&mut self, at: Cycle, event: Event) {
        self.numbered += 1;
        self.events.push(Reverse((at, self.numbered, event)));
    }

    /// The `n`th packet of a line, by lines in turn.
    fn arrives_next(&mut self, line: u64, n: u64) {
        let Plan { clock, lines, line: rate, .. } = *self.plan;
        // In step, each line a part of a gap behind the one before.
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

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrival(number) => {
                let lines = self.plan.lines;
                self.arrives_next(number % lines, number / lines + 1);
                self.arrives();
            }
            Event::Accesses(engine, thread) => {
                let latency = (self.latencies.exponential() * self.plan.access as f64).round() as Cycle;
                if let Some(job) = &mut self.engines[engine].threads[thread].job {
                    job.waited += latency;
                }
                self.at(self.now + latency, Event::Answered(engine, thread));
                self.engines[engine].busy = false;
                self.dispatch(engine);
            }
            Event::Answered(engine, thread) => {
                let job = self.engines[engine].threads[thread].job.as_mut();
                match job.filter(|job| job.pieces > 1) {
                    Some(job) => {
                        job.pieces -= 1;
                        job.rest = 0;
                        self.engines[engine].ready.push_back(thread);
                    }
                    None => self.ends(engine, thread),
                }
                self.dispatch(engine);
            }
            Event::Due(engine) => {
                self.engines[engine].due = false;
                self.wake(engine);
                self.dispatch(engine);
            }
        }
    }

    /// Draws a packet and puts it into its queue.
    fn arrives(&mut self) {
        let plan = self.plan;
        let fresh = self.draws.below(100) < plan.new;
        let known = self.recent.get(self.draws.below(self.recent.len() as u64) as usize).filter(|_| !fresh);
        let tag = match (plan.tags, known) {
            (Which::One, _) => self.tags.hash(0),
            (Which::Recent, Some(tag)) => *tag,
            (Which::Recent, None) => {
                self.used += 1;
                self.tags.hash(self.used)
            }
        };
        self.drawn += 1;
        // Who uses a tag again is of the same computation; where there is one tag for all, of any.
        let computation = match (plan.one_computation, plan.tags) {
            (true, _) => 1,
            (_, Which::One) => self.tags.hash(!(self.drawn % MANY)),
            _ => self.tags.derive(1).hash(tag),
        };
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

    /// Gives threads that do nothing something to do.
    fn wake(&mut self, engine: usize) {
        for thread in 0..self.engines[engine].threads.len() {
            if self.engines[engine].threads[thread].job.is_none() && !self.begins(engine, thread) {
                // Another may find something yet: a cleaner that executes nothing.
                continue;
            }
        }
    }

    /// A thread looks for something to do. Answers whether there was anything.
    fn begins(&mut self, engine: usize, thread: usize) -> bool {
        let now = self.instant();
        let Thread { executes, cleans, .. } = self.engines[engine].threads[thread];
        let cost = if cleans { self.cleans(engine, now) } else { None };
        let begun = match cost {
            Some((pieces, cost)) => Some(self.job(cost, pieces, None)),
            None if executes => self.executes(engine, now),
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

    /// What is due is unlinked, and what was unlinked freed. Answers how many entries that was, and what each takes.
    fn cleans(&mut self, engine: usize, now: Instant) -> Option<(u64, Cost)> {
        let of = &mut self.engines[engine];
        let cleaner = of.cleaner.as_mut()?;
        let mut unlinked = 0;
        loop {
            let before = cleaner.counters().freed;
            let done = cleaner.step(now) as u64;
            unlinked += done - (cleaner.counters().freed - before);
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
            // A moment later, for cycles and nanoseconds do not meet.
            let cycle = u128::from(due.get()) * u128::from(self.plan.clock) / 1_000_000_000;
            self.at((cycle as Cycle).max(self.now) + 1, Event::Due(engine));
        }
        None
    }

    /// The next packet of a queue that no other thread works on.
    fn executes(&mut self, engine: usize, now: Instant) -> Option<Job> {
        let of = &mut self.engines[engine];
        let free = |queue: &usize| !of.queues[*queue].0.is_empty() && !of.queues[*queue].1;
        let queue = (0..QUEUES).map(|n| (of.turn + n) % QUEUES).find(free)?;
        of.turn = (queue + 1) % QUEUES;
        of.queues[queue].1 = true;
        let Waiting { computation, tag } = of.queues[queue].0.pop_front()?;
        let before = of.spot.site.shard_counters().created;
        let instruction = Instruction::Count { counter: tag, threshold: u32::MAX, inclusive: true };
        let fate = of.spot.pass(now, &part(computation, instruction));
        let created = of.spot.site.shard_counters().created > before;
        if self.is_measured() {
            self.counted.created += u64::from(created);
            self.counted.aborted += u64::from(matches!(fate, esp::site::Fate::Aborted(_)));
        }
        if created {
            self.recent.truncate(RECENT - 1);
            self.recent.push_front(tag);
        }
        let cost = if created { self.plan.create } else { self.plan.find };
        Some(self.job(cost, 1, Some(queue)))
    }

    /// A thread is done with what it did, and looks for more.
    fn ends(&mut self, engine: usize, thread: usize) {
        let Some(job) = self.engines[engine].threads[thread].job.take() else { return };
        if let Some(queue) = job.queue {
            self.engines[engine].queues[queue].1 = false;
            if self.is_measured() {
                self.counted.executed += 1;
                self.counted.taken += self.now - job.began;
                self.counted.waited += job.waited;
            }
        }
        // Its queue is free for others, too; itself it is the last to have had its turn.
        self.begins(engine, thread);
        self.wake(engine);
    }

    /// Lets the thread go on that has been ready for the longest time.
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
