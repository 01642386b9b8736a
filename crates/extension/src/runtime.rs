//! What guests run in: a compiler, and a bound on how long a call may last.
//!
//! On a machine time is the bound. A thread counts ticks; a guest looks at their number in each loop and function it goes through, and
//! where it has changed asks how much of the processor it has used: one that was only interrupted goes on. In a simulation the bound
//! is a number of instructions, so that every run ends in the same place.
//!
//! Memory accesses are checked by the machine's pages: what a guest can name and does not have is never mapped, and whoever touches it
//! is told apart by a handler of signals. Instructions that check would cost half as much again (adr/0031).

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use units::Nanos;
use wasmtime::{Config, Engine, OptLevel, Store, UpdateDeadline};

/// How often the time is looked at.
const TICK: Duration = Duration::from_micros(50);
/// What a call may use of a processor, counted from the first tick in it.
const LIMIT: Nanos = Nanos::micros(75);
/// The same before a guest is at work: no packet waits for it, and what the machine does meanwhile counts as well.
const LIMIT_TO_START: Nanos = Nanos::millis(10);
/// Ticks without a call after which nobody counts any more.
const SILENCE: u32 = 2000;
/// Instructions of a call in a simulation, more or less.
const FUEL: u64 = 2_000_000;
/// Addresses that are kept for the memory of an instance, in bytes: as many as 32 bits name.
const ADDRESSES: u64 = 1 << 32;
/// Stack of a guest that the engine allows, in bytes.
const STACK: usize = 128 << 10;

/// Tells how much of a processor the calling thread has used.
pub type Clock = fn() -> Nanos;

/// See the [module](self). Shared by all guests of a process.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) engine: Engine,
    bound: Arc<Bound>,
}

enum Bound {
    Time { clock: Clock, ticker: Ticker },
    Fuel,
}

/// What a call has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// What the clock said at the first tick of the call.
    since: Option<Nanos>,
    at_work: bool,
}

impl Used {
    /// Calls are of packets from now on.
    pub fn begins_work(&mut self) {
        self.at_work = true;
    }

    fn limit(&self) -> Nanos {
        if self.at_work { LIMIT } else { LIMIT_TO_START }
    }
}

/// What belongs to a store and knows what a call has used.
pub(crate) trait Timed {
    fn used(&mut self) -> &mut Used;
}

impl Runtime {
    /// For a machine: a call that uses about 100 us of the processor is ended, or 10 ms before the guest is at work. `clock` tells what the calling thread has used.
    pub fn timed(clock: Clock) -> Result<Runtime, wasmtime::Error> {
        let engine = Engine::new(config().epoch_interruption(true))?;
        let ticker = Ticker { engine: engine.clone(), pulse: Arc::default() };
        Ok(Runtime { engine, bound: Arc::new(Bound::Time { clock, ticker }) })
    }

    /// For a simulation: a call is ended after a number of instructions.
    pub fn counted() -> Result<Runtime, wasmtime::Error> {
        Ok(Runtime { engine: Engine::new(config().consume_fuel(true))?, bound: Arc::new(Bound::Fuel) })
    }

    /// What a new store needs.
    pub(crate) fn equip<T: Timed + 'static>(&self, store: &mut Store<T>) {
        if let Bound::Time { clock, .. } = *self.bound {
            store.epoch_deadline_callback(move |mut store| {
                let (now, used) = (clock(), store.data_mut().used());
                let since = *used.since.get_or_insert(now);
                if now.saturating_sub(since) >= used.limit() {
                    return Err(wasmtime::Trap::Interrupt.into());
                }
                Ok(UpdateDeadline::Continue(1))
            });
        }
    }

    /// A call begins.
    #[inline]
    pub(crate) fn arm<T: Timed + 'static>(&self, store: &mut Store<T>) -> Result<(), wasmtime::Error> {
        match &*self.bound {
            Bound::Time { ticker, .. } => {
                ticker.wake();
                store.data_mut().used().since = None;
                store.set_epoch_deadline(1);
                Ok(())
            }
            Bound::Fuel => store.set_fuel(FUEL),
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.bound {
            Bound::Time { .. } => "Runtime bounded by time",
            Bound::Fuel => "Runtime bounded by instructions",
        })
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::Speed);
    // Whatever a guest of 32 bits can name lies within these addresses, which cost nothing but themselves.
    config.signals_based_traps(true).memory_reservation(ADDRESSES).memory_may_move(false);
    config.memory_init_cow(false).native_unwind_info(false).max_wasm_stack(STACK);
    config.wasm_multi_memory(false).wasm_relaxed_simd(false);
    config
}

/// Counts ticks while guests are called.
struct Ticker {
    engine: Engine,
    pulse: Arc<Pulse>,
}

#[derive(Default)]
struct Pulse {
    thread: OnceLock<Thread>,
    /// A guest was called since the last tick.
    called: AtomicBool,
    /// Nobody counts.
    asleep: AtomicBool,
    over: AtomicBool,
}

impl Ticker {
    /// A guest is about to be called. Either the thread sees that when it looks whether to go to sleep, or it is seen to sleep here.
    #[inline]
    fn wake(&self) {
        let pulse = &*self.pulse;
        if !pulse.called.load(Ordering::SeqCst) {
            pulse.called.store(true, Ordering::SeqCst);
            if pulse.asleep.load(Ordering::SeqCst) || pulse.thread.get().is_none() {
                self.rouse();
            }
        }
    }

    #[cold]
    fn rouse(&self) {
        let (engine, pulse) = (&self.engine, &self.pulse);
        let thread = pulse.thread.get_or_init(|| {
            let (engine, pulse) = (engine.clone(), pulse.clone());
            let spawned = thread::Builder::new().name("guests".into()).spawn(move || count(&engine, &pulse));
            // Without it a runaway would hold its worker for good.
            spawned.expect("a thread can be had").thread().clone()
        });
        thread.unpark();
    }
}

fn count(engine: &Engine, pulse: &Pulse) {
    // Timers of other threads may be 50 us late, which would double the time a runaway has. Where a fence is in the way, it has it.
    let _refused = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut silent = 0;
    while !pulse.over.load(Ordering::Relaxed) {
        engine.increment_epoch();
        silent = if pulse.called.swap(false, Ordering::SeqCst) { 0 } else { silent + 1 };
        if silent < SILENCE {
            thread::park_timeout(TICK);
            continue;
        }
        pulse.asleep.store(true, Ordering::SeqCst);
        if !pulse.called.load(Ordering::SeqCst) && !pulse.over.load(Ordering::Relaxed) {
            thread::park();
        }
        pulse.asleep.store(false, Ordering::SeqCst);
        silent = 0;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.pulse.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.pulse.thread.get() {
            thread.unpark();
        }
    }
}
