//! Preemptible function threads. Each runs on its worker's core at the lowest priority (sched(7), SCHED_IDLE), and only while the worker sleeps. When
//! the worker wakes up, the kernel preempts the thread at any instruction. It continues at the worker's next sleep.
//!
//! Ownership of a job changes with one atomic word, which only the present owner writes. Neither side ever waits for a lock: a preempted thread could
//! hold it for long.

use crate::clock::{self, ThreadClock};
use plane::aside::{Aside, Asides, Errand, Lent};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use units::Nanos;

/// The maximum number of abandoned threads of a worker that have not ended: each may use a part of the core for ever.
pub const MOST_LEFT: usize = 4;

/// There is no job.
const EMPTY: u8 = 0;
/// There is a job, and the thread owns it.
const GIVEN: u8 = 1;
/// The job is done, and the worker owns it.
const DONE: u8 = 2;
/// The worker has abandoned the thread, which ends at its next check.
const LEFT: u8 = 3;

/// Creates the threads of one worker. A thread may run on the processors of the thread that gives it its first job, so it stays on the core of a
/// pinned worker.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    staff: Arc<Staff>,
}

/// The numbers of threads.
#[derive(Debug, Default)]
struct Staff {
    alive: AtomicUsize,
    /// Threads in use. The others end as soon as they can.
    hired: AtomicUsize,
}

impl Threads {
    /// No threads yet.
    pub fn new() -> Threads {
        Threads::default()
    }

    /// The number of abandoned threads that have not ended.
    pub fn left(&self) -> usize {
        self.staff.left()
    }
}

impl Staff {
    fn left(&self) -> usize {
        let hired = self.hired.load(Ordering::Acquire);
        self.alive.load(Ordering::Acquire).saturating_sub(hired)
    }
}

impl Asides for Threads {
    fn open(&mut self) -> Box<dyn Aside> {
        Box::new(Beside { staff: self.staff.clone(), hired: None })
    }
}

/// The state shared by a worker and a thread.
struct Desk {
    state: AtomicU8,
    /// Locked only by the owner according to `state`, so no lock ever waits.
    errand: Mutex<Option<(Box<Errand>, Thread)>>,
}

impl Desk {
    fn errand(&self) -> MutexGuard<'_, Option<(Box<Errand>, Thread)>> {
        self.errand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The worker's handle of a thread, created with its first job.
struct Beside {
    staff: Arc<Staff>,
    hired: Option<Hired>,
}

struct Hired {
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
    clock: Option<ThreadClock>,
    /// The processor time of the thread when it got its job.
    began: Nanos,
}

impl Hired {
    fn used(&self) -> Nanos {
        self.clock.as_ref().map_or(Nanos::ZERO, ThreadClock::read)
    }
}

impl Beside {
    /// A thread, new if necessary. `None` if too many are abandoned, or the system has no more threads.
    fn hire(&mut self) -> Option<Hired> {
        if self.staff.left() >= MOST_LEFT {
            return None;
        }
        let desk = Arc::new(Desk { state: AtomicU8::new(EMPTY), errand: Mutex::default() });
        let (here, alive) = (desk.clone(), Alive::new(&self.staff));
        let name = format!("{} aside", thread::current().name().unwrap_or("worker"));
        let work = move || {
            let _alive = alive;
            attend(&here);
        };
        let thread = thread::Builder::new().name(name).spawn(work).ok()?;
        self.staff.hired.fetch_add(1, Ordering::AcqRel);
        let clock = ThreadClock::of(&thread).ok();
        Some(Hired { desk, thread, clock, began: Nanos::ZERO })
    }
}

impl Aside for Beside {
    fn give(&mut self, errand: Box<Errand>) -> Result<(), Box<Errand>> {
        if self.hired.is_none() {
            self.hired = self.hire();
        }
        let Some(hired) = &mut self.hired else { return Err(errand) };
        *hired.desk.errand() = Some((errand, thread::current()));
        hired.began = hired.used();
        // Last: from this store on the thread owns the job.
        hired.desk.state.store(GIVEN, Ordering::Release);
        hired.thread.thread().unpark();
        Ok(())
    }

    fn lend(&mut self, slice: Nanos) -> Lent {
        let Some(hired) = &self.hired else { return Lent::Away(Nanos::ZERO) };
        let until = clock::now() + slice;
        loop {
            if hired.desk.state.load(Ordering::Acquire) == DONE
                && let Some((errand, _)) = hired.desk.errand().take()
            {
                hired.desk.state.store(EMPTY, Ordering::Release);
                return Lent::Done(errand);
            }
            match until.since(clock::now()) {
                Nanos::ZERO => return Lent::Away(hired.used().saturating_sub(hired.began)),
                left => thread::park_timeout(left.into()),
            }
        }
    }

    fn forsake(&mut self) {
        let Some(hired) = self.hired.take() else { return };
        hired.desk.state.store(LEFT, Ordering::Release);
        hired.thread.thread().unpark();
        // The thread ends by itself once its function returns; it counts as abandoned until then.
        self.staff.hired.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.forsake();
    }
}

/// Counts a thread while it lives.
struct Alive(Arc<Staff>);

impl Alive {
    fn new(staff: &Arc<Staff>) -> Alive {
        staff.alive.fetch_add(1, Ordering::AcqRel);
        Alive(staff.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs the jobs of a thread until the worker abandons it.
fn attend(desk: &Desk) {
    // If this fails, the thread takes a share of the core even while its worker needs all of it.
    let _ = crate::cores::yield_to_all();
    loop {
        match desk.state.load(Ordering::Acquire) {
            LEFT => return,
            GIVEN => {}
            _ => {
                thread::park();
                continue;
            }
        }
        let taken = desk.errand().take();
        let Some((mut errand, worker)) = taken else { return };
        errand.run();
        // Time that functions ask for is burnt on this thread's own clock, so that preemption does not shorten it.
        let until = clock::processor_time() + errand.take_asked();
        while clock::processor_time() < until && desk.state.load(Ordering::Relaxed) != LEFT {
            std::hint::spin_loop();
        }
        *desk.errand() = Some((errand, worker.clone()));
        // Fails only if the worker has abandoned the thread meanwhile.
        if desk.state.compare_exchange(GIVEN, DONE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // The abandoned job is dropped here, and its packets return to their region.
            return;
        }
        worker.unpark();
    }
}
