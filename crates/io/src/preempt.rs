//! Preemptible function threads. Each runs on its worker's core at the lowest priority (sched(7), SCHED_IDLE), and only while the worker sleeps. When
//! the worker wakes up, the kernel preempts the thread at any instruction. It continues at the worker's next sleep.
//!
//! Ownership of a job changes with one atomic word, which only the present owner writes. Neither side ever waits for a lock: a preempted thread could
//! hold it for long.

use crate::clock::{self, ThreadClock};
use plane::preempt::{FunctionJob, FunctionThread, FunctionThreads, SliceResult};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use units::Nanos;

/// The maximum number of abandoned threads of a worker that have not ended: each may use a part of the core for ever.
pub const MOST_ABANDONED: usize = 4;

/// There is no job.
const EMPTY: u8 = 0;
/// There is a job, and the thread owns it.
const SUBMITTED: u8 = 1;
/// The job is done, and the worker owns it.
const DONE: u8 = 2;
/// The worker has abandoned the thread, which ends at its next check.
const ABANDONED: u8 = 3;

/// Creates the threads of one worker. A thread may run on the processors of the thread that gives it its first job, so it stays on the core of a
/// pinned worker.
#[derive(Clone, Debug, Default)]
pub struct PreemptThreads {
    counts: Arc<ThreadCounts>,
}

/// The numbers of threads.
#[derive(Debug, Default)]
struct ThreadCounts {
    alive: AtomicUsize,
    /// Threads in use. The others end as soon as they can.
    in_use: AtomicUsize,
}

impl PreemptThreads {
    /// No threads yet.
    pub fn new() -> PreemptThreads {
        PreemptThreads::default()
    }

    /// The number of abandoned threads that have not ended.
    pub fn abandoned(&self) -> usize {
        self.counts.abandoned()
    }
}

impl ThreadCounts {
    fn abandoned(&self) -> usize {
        let hired = self.in_use.load(Ordering::Acquire);
        self.alive.load(Ordering::Acquire).saturating_sub(hired)
    }
}

impl FunctionThreads for PreemptThreads {
    fn open(&mut self) -> Box<dyn FunctionThread> {
        Box::new(ThreadHandle { counts: self.counts.clone(), active: None })
    }
}

/// The state shared by a worker and a thread.
struct JobSlot {
    state: AtomicU8,
    /// Locked only by the owner according to `state`, so no lock ever waits.
    job: Mutex<Option<(Box<FunctionJob>, Thread)>>,
}

impl JobSlot {
    fn job(&self) -> MutexGuard<'_, Option<(Box<FunctionJob>, Thread)>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The worker's handle of a thread, created with its first job.
struct ThreadHandle {
    counts: Arc<ThreadCounts>,
    active: Option<ActiveThread>,
}

struct ActiveThread {
    slot: Arc<JobSlot>,
    thread: JoinHandle<()>,
    clock: Option<ThreadClock>,
    /// The processor time of the thread when it got its job.
    began: Nanos,
}

impl ActiveThread {
    fn processor_time(&self) -> Nanos {
        self.clock.as_ref().map_or(Nanos::ZERO, ThreadClock::read)
    }
}

impl ThreadHandle {
    /// A thread, new if necessary. `None` if too many are abandoned, or the system has no more threads.
    fn acquire(&mut self) -> Option<ActiveThread> {
        if self.counts.abandoned() >= MOST_ABANDONED {
            return None;
        }
        let desk = Arc::new(JobSlot { state: AtomicU8::new(EMPTY), job: Mutex::default() });
        let (here, alive) = (desk.clone(), AliveGuard::new(&self.counts));
        let name = format!("{} preempt", thread::current().name().unwrap_or("worker"));
        let work = move || {
            let _alive = alive;
            run_jobs(&here);
        };
        let thread = thread::Builder::new().name(name).spawn(work).ok()?;
        self.counts.in_use.fetch_add(1, Ordering::AcqRel);
        let clock = ThreadClock::of(&thread).ok();
        Some(ActiveThread { slot: desk, thread, clock, began: Nanos::ZERO })
    }
}

impl FunctionThread for ThreadHandle {
    fn submit(&mut self, errand: Box<FunctionJob>) -> Result<(), Box<FunctionJob>> {
        if self.active.is_none() {
            self.active = self.acquire();
        }
        let Some(hired) = &mut self.active else { return Err(errand) };
        *hired.slot.job() = Some((errand, thread::current()));
        hired.began = hired.processor_time();
        // Last: from this store on the thread owns the job.
        hired.slot.state.store(SUBMITTED, Ordering::Release);
        hired.thread.thread().unpark();
        Ok(())
    }

    fn lend(&mut self, slice: Nanos) -> SliceResult {
        let Some(hired) = &self.active else { return SliceResult::Unfinished(Nanos::ZERO) };
        let until = clock::now() + slice;
        loop {
            if hired.slot.state.load(Ordering::Acquire) == DONE
                && let Some((errand, _)) = hired.slot.job().take()
            {
                hired.slot.state.store(EMPTY, Ordering::Release);
                return SliceResult::Done(errand);
            }
            match until.since(clock::now()) {
                Nanos::ZERO => return SliceResult::Unfinished(hired.processor_time().saturating_sub(hired.began)),
                left => thread::park_timeout(left.into()),
            }
        }
    }

    fn abandon(&mut self) {
        let Some(hired) = self.active.take() else { return };
        hired.slot.state.store(ABANDONED, Ordering::Release);
        hired.thread.thread().unpark();
        // The thread ends by itself once its function returns; it counts as abandoned until then.
        self.counts.in_use.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for ThreadHandle {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Counts a thread while it lives.
struct AliveGuard(Arc<ThreadCounts>);

impl AliveGuard {
    fn new(staff: &Arc<ThreadCounts>) -> AliveGuard {
        staff.alive.fetch_add(1, Ordering::AcqRel);
        AliveGuard(staff.clone())
    }
}

impl Drop for AliveGuard {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs the jobs of a thread until the worker abandons it.
fn run_jobs(desk: &JobSlot) {
    // If this fails, the thread takes a share of the core even while its worker needs all of it.
    let _ = crate::cores::yield_to_all();
    loop {
        match desk.state.load(Ordering::Acquire) {
            ABANDONED => return,
            SUBMITTED => {}
            _ => {
                thread::park();
                continue;
            }
        }
        let taken = desk.job().take();
        let Some((mut errand, worker)) = taken else { return };
        errand.run();
        // Time that functions ask for is burnt on this thread's own clock, so that preemption does not shorten it.
        let until = clock::processor_time() + errand.take_extra_time();
        while clock::processor_time() < until && desk.state.load(Ordering::Relaxed) != ABANDONED {
            std::hint::spin_loop();
        }
        *desk.job() = Some((errand, worker.clone()));
        // Fails only if the worker has abandoned the thread meanwhile.
        if desk.state.compare_exchange(SUBMITTED, DONE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // The abandoned job is dropped here, and its packets return to their region.
            return;
        }
        worker.unpark();
    }
}
