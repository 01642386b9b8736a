//! Functions in a thread of their own, on the core of their worker and below it in priority (sched(7), SCHED_IDLE): while the
//! worker waits, they run; when its time is over the kernel stops them, wherever they are, and the worker goes on. They go on
//! when it waits again.
//!
//! An errand changes hands by one word that is only ever written by who has it: neither side waits for the other inside a
//! lock, which a thread that is not running might hold for long.

use crate::clock::{self, ThreadClock};
use plane::aside::{Aside, Asides, Errand, Lent};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use units::Nanos;

/// Threads of a worker that were left behind and have not ended, at most: each may keep a part of the core for ever.
pub const MOST_LEFT: usize = 4;

/// Nothing is on the desk.
const EMPTY: u8 = 0;
/// An errand is, and is the thread's.
const GIVEN: u8 = 1;
/// It is done, and is the worker's.
const DONE: u8 = 2;
/// The worker has left: the thread ends when it looks.
const LEFT: u8 = 3;

/// Makes threads for one worker. They belong to the processors that the thread may run on which gives them their first errand,
/// and so to the core of a worker that is pinned to one.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    staff: Arc<Staff>,
}

/// How many threads there are.
#[derive(Debug, Default)]
struct Staff {
    alive: AtomicUsize,
    /// Those that somebody gives errands to; the others are to end when they can.
    hired: AtomicUsize,
}

impl Threads {
    /// None yet.
    pub fn new() -> Threads {
        Threads::default()
    }

    /// Threads that were left behind with an errand and have not ended.
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

/// What a worker and a thread have between them.
struct Desk {
    state: AtomicU8,
    /// Locked by who has the errand as `state` says, and so never waited for.
    errand: Mutex<Option<(Box<Errand>, Thread)>>,
}

impl Desk {
    fn errand(&self) -> MutexGuard<'_, Option<(Box<Errand>, Thread)>> {
        self.errand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that takes errands, once there was one.
struct Beside {
    staff: Arc<Staff>,
    hired: Option<Hired>,
}

struct Hired {
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
    clock: Option<ThreadClock>,
    /// What the thread had used of a processor when it was given its errand.
    began: Nanos,
}

impl Hired {
    fn used(&self) -> Nanos {
        self.clock.as_ref().map_or(Nanos::ZERO, ThreadClock::read)
    }
}

impl Beside {
    /// A thread; none where too many are left behind, or the system gives none.
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
        self.staff.hired.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.forsake();
    }
}

/// Counts a thread for as long as it lives.
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

/// Runs what is put on the desk, until it is left.
fn attend(desk: &Desk) {
    // Without it the thread has a part of the core while its worker wants all of it.
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
        let until = clock::processor_time() + errand.take_asked();
        while clock::processor_time() < until && desk.state.load(Ordering::Relaxed) != LEFT {
            std::hint::spin_loop();
        }
        *desk.errand() = Some((errand, worker.clone()));
        if desk.state.compare_exchange(GIVEN, DONE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // What is on the desk goes home with it.
            return;
        }
        worker.unpark();
    }
}
