//! Preemptible functions (spec Q-41). A vector and the functions of its path go to another thread, which processes them while the worker lends
//! it the core, one slice at a time.
//!
//! The plane owns no thread: the daemon passes in a maker of threads ([`FunctionThreads`]). In virtual time the functions run at once, and their
//! cost is spent in slices, as a [`cpu::meter::WorkMeter`] predicts it.

use crate::function::{Context, Function, NamedCounter};
use crate::snapshot::Snapshot;
use fib::Tables;
use packet::containment::panic_text;
use packet::{Batch, Meta, Packet};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use units::{Instant, Nanos, PortId};

/// The maximum age of the functions' counters that are reported while the functions are away.
const AGE: Nanos = Nanos::secs(1);

/// A vector of packets and the functions to apply to it, on its way to a function thread and back.
pub struct FunctionJob {
    batch: Batch,
    functions: Vec<Box<dyn Function>>,
    snapshot: Arc<Snapshot>,
    tables: Arc<Tables>,
    now: Instant,
    /// True if packets are traced.
    is_traced: bool,
    traces: Vec<FunctionTrace>,
    /// True if some packets do not simply continue.
    has_diverted: bool,
    extra_time: Nanos,
    panic: Option<String>,
}

/// A function has processed a traced packet.
pub(crate) struct FunctionTrace {
    /// Its position in the vector.
    pub packet: usize,
    /// The function's position on its path.
    pub function: usize,
    /// The frame before and after.
    pub frames: (Vec<u8>, Vec<u8>),
}

impl FunctionJob {
    /// An empty job.
    fn new(snapshot: Arc<Snapshot>, tables: Arc<Tables>) -> FunctionJob {
        FunctionJob {
            batch: Batch::new(),
            functions: Vec::new(),
            snapshot,
            tables,
            now: Instant::START,
            is_traced: false,
            traces: Vec::new(),
            has_diverted: false,
            extra_time: Nanos::ZERO,
            panic: None,
        }
    }

    /// Runs the functions on the packets. If one panics, the message is kept for the worker.
    pub fn run(&mut self) {
        // Unwind safe: after a panic the worker drops the packets and builds the functions again, so no half-done state is used.
        let done = catch_unwind(AssertUnwindSafe(|| self.process()));
        self.panic = done.err().map(|panic| panic_text(&*panic));
    }

    fn process(&mut self) {
        let asked = Cell::default();
        let context = Context {
            now: self.now,
            snapshot: &self.snapshot,
            tables: &self.tables,
            nat: &self.snapshot.translations,
            // The thread that runs the job enforces the limit, for functions that do not do so themselves.
            limit: None,
            dry_run: false,
            extra_time: &asked,
        };
        for (index, function) in self.functions.iter_mut().enumerate() {
            let packets = self.batch.as_mut_slice();
            // Copied before the call, because functions rewrite packets in place.
            let before = if self.is_traced { frames(packets) } else { Vec::new() };
            self.has_diverted |= !function.process(context, packets);
            let passed = before.into_iter().map(|(packet, before)| {
                let after = self.batch.as_slice()[packet].bytes().to_vec();
                FunctionTrace { packet, function: index, frames: (before, after) }
            });
            self.traces.extend(passed);
        }
        self.extra_time = asked.get();
    }

    /// Takes the extra time that the functions requested. The thread that runs them on a real processor spends it there.
    pub fn take_extra_time(&mut self) -> Nanos {
        std::mem::take(&mut self.extra_time)
    }
}

/// The frames of the traced packets.
#[cold]
fn frames(packets: &[Packet]) -> Vec<(usize, Vec<u8>)> {
    let followed = |(_, packet): &(usize, &Packet)| packet.meta().flags & Meta::FOLLOWED != 0;
    packets.iter().enumerate().filter(followed).map(|(index, packet)| (index, packet.bytes().to_vec())).collect()
}

/// A function thread: works on one job at a time while the core is lent to it.
pub trait FunctionThread: Send {
    /// Accepts a job. It begins when the core is lent next. Returns it if the thread cannot accept it.
    fn submit(&mut self, errand: Box<FunctionJob>) -> Result<(), Box<FunctionJob>>;
    /// Lends the core until the job is done, and no longer than `slice`.
    fn lend(&mut self, slice: Nanos) -> SliceResult;
    /// Abandons the job: its packets and functions are freed when it ends. The next job goes to another thread.
    fn abandon(&mut self);
}

/// The state of a job.
pub enum SliceResult {
    /// It is done.
    Done(Box<FunctionJob>),
    /// It is unfinished, and has used this much processor time since it was given.
    Unfinished(Nanos),
}

/// Makes function threads for one worker.
pub trait FunctionThreads: Send {
    /// Makes one more.
    fn open(&mut self) -> Box<dyn FunctionThread>;
}

/// Runs functions at once, in the worker: for virtual time.
#[derive(Default)]
pub struct VirtualThread(Option<Box<FunctionJob>>);

impl FunctionThread for VirtualThread {
    fn submit(&mut self, mut errand: Box<FunctionJob>) -> Result<(), Box<FunctionJob>> {
        errand.run();
        self.0 = Some(errand);
        Ok(())
    }

    fn lend(&mut self, _: Nanos) -> SliceResult {
        // The worker keeps a finished job while it spends the cost, so it lends only once for each job.
        self.0.take().map_or(SliceResult::Unfinished(Nanos::ZERO), SliceResult::Done)
    }

    fn abandon(&mut self) {
        self.0 = None;
    }
}

/// Makes [`VirtualThread`]s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VirtualThreads;

impl FunctionThreads for VirtualThreads {
    fn open(&mut self) -> Box<dyn FunctionThread> {
        Box::<VirtualThread>::default()
    }
}

/// An instance's use of a function thread.
pub(crate) struct ThreadSlot {
    pub thread: Box<dyn FunctionThread>,
    /// The job while no vector is out: its memory is reused.
    idle_job: Option<Box<FunctionJob>>,
    pub in_flight: Option<VectorInFlight>,
    /// The input ports of the packets that are out.
    pub in_ports: Vec<PortId>,
    /// The functions' counters when they were last read, reported while the functions are away.
    last_counters: Option<(Instant, Vec<Vec<NamedCounter>>)>,
    /// The time of the last report about its functions.
    pub last_report: Option<Instant>,
}

/// A vector that is being processed by a function thread.
pub(crate) struct VectorInFlight {
    pub packets: usize,
    pub bytes: u64,
    /// True if its packets may need segmentation, fragmentation or checksums behind the functions.
    pub offloads: bool,
    /// When it was given.
    pub submitted: Instant,
    /// When the core was last lent to it.
    pub last_lent: Instant,
    /// The processor time it has used.
    pub used: Nanos,
    /// The finished job and the cost still to be spent: virtual time.
    pub finished: Option<(Box<FunctionJob>, Nanos)>,
}

/// The results that return with a vector.
pub(crate) struct FinishedVector {
    pub has_diverted: bool,
    pub traces: Vec<FunctionTrace>,
    pub panic: Option<String>,
}

impl ThreadSlot {
    pub fn new(thread: Box<dyn FunctionThread>) -> ThreadSlot {
        ThreadSlot {
            thread,
            idle_job: None,
            in_flight: None,
            in_ports: Vec::new(),
            last_counters: None,
            last_report: None,
        }
    }

    /// Packets that are out.
    pub fn packets_in_flight(&self) -> usize {
        self.in_flight.as_ref().map_or(0, |out| out.packets)
    }

    /// The functions' last known counters, if the functions are away.
    pub fn cached_counters(&self) -> Option<Vec<Vec<NamedCounter>>> {
        let (_, counted) = self.last_counters.as_ref().filter(|_| self.in_flight.is_some())?;
        Some(counted.clone())
    }

    /// Gives `batch` and `functions` to the function thread. If it does not accept them, both are back in their places and the result is false.
    pub fn give(
        &mut self,
        batch: &mut Batch,
        functions: &mut Vec<Box<dyn Function>>,
        world: (&Arc<Snapshot>, &Arc<Tables>),
        (now, follows, out): (Instant, bool, VectorInFlight),
    ) -> bool {
        // Read before the functions leave: nothing may read them while another thread runs them.
        // Not for each vector: the names of counters are allocated.
        if self.last_counters.as_ref().is_none_or(|(then, _)| now.since(*then) >= AGE) {
            self.last_counters = Some((now, functions.iter().map(|function| function.counters()).collect()));
        }
        let (snapshot, tables) = (world.0.clone(), world.1.clone());
        let mut errand = match self.idle_job.take() {
            Some(errand) => errand,
            None => Box::new(FunctionJob::new(snapshot.clone(), tables.clone())),
        };
        // Set for a reused job too: a new generation may have been adopted since its last use.
        (errand.snapshot, errand.tables, errand.now, errand.is_traced) = (snapshot, tables, now, follows);
        (errand.has_diverted, errand.extra_time, errand.panic) = (false, Nanos::ZERO, None);
        // If the vector is given up, its drops are counted at these ports.
        self.in_ports.clear();
        self.in_ports.extend(batch.as_slice().iter().map(|packet| packet.meta().in_port));
        // Swapped, so that both sides keep a buffer and neither allocates.
        std::mem::swap(&mut errand.batch, batch);
        std::mem::swap(&mut errand.functions, functions);
        match self.thread.submit(errand) {
            Ok(()) => {
                self.in_flight = Some(out);
                true
            }
            Err(errand) => {
                self.reclaim(errand, batch, functions);
                false
            }
        }
    }

    /// Moves the packets and functions out of `errand`, a job, and keeps its memory.
    pub fn reclaim(
        &mut self,
        mut errand: Box<FunctionJob>,
        batch: &mut Batch,
        functions: &mut Vec<Box<dyn Function>>,
    ) -> FinishedVector {
        std::mem::swap(&mut errand.batch, batch);
        std::mem::swap(&mut errand.functions, functions);
        let passed = std::mem::take(&mut errand.traces);
        let returned = FinishedVector { has_diverted: errand.has_diverted, traces: passed, panic: errand.panic.take() };
        self.idle_job = Some(errand);
        returned
    }
}

impl VectorInFlight {
    pub fn new((packets, bytes): (usize, u64), offloads: bool, now: Instant) -> VectorInFlight {
        VectorInFlight { packets, bytes, offloads, submitted: now, last_lent: now, used: Nanos::ZERO, finished: None }
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        // The thread may still work on a job. It frees the packets and functions when the job ends; the worker does not wait for that.
        self.thread.abandon();
    }
}
